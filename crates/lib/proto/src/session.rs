//! One peer: how a session comes up, what it should transmit next, and when it is given up
//! (`PROTOCOL.md` §4 and §8).

use crate::receive::{ReceiveWindow, initial_credit};
use crate::send::SendWindow;
use crate::size::{Echo, Next, Sizes};
use crate::time::{Instant, Since, nanos};
use crate::{Config, Counters, PeerKey};
use gigae_wire::{AckReport, Epoch, Flags, Header, Hello, Kind, NodeAddr, Paths, SeqNo};
use std::fmt;

/// First wait in nanoseconds for the answer to a Hello or a Confirm; doubled with each repetition.
const HELLO_INTERVAL: u64 = 1_000_000;

/// Longest wait in nanoseconds between two Hellos, Confirms or probes.
const LONGEST_INTERVAL: u64 = 100_000_000;

/// Hellos that stay unanswered, for 127 ms in all, before it counts that the node seems to speak another version.
const HELLOS: u8 = 7;

/// In [`Session::probes`], beside the paths: a question for lost credit.
const CREDIT: u16 = 1 << 15;

/// In [`Session::probes`]: a Probe or Echo of the length of frames.
pub(crate) const SIZE: u16 = 1 << 14;

/// In [`Session::probes`]: an answer by each of the paths that were [asked](Session::asked) about. No frame
/// of another kind is one.
const ANSWER: u16 = 1 << 13;

/// First wait in nanoseconds for the answer to a farewell; doubled with each repetition.
const FAREWELL_INTERVAL: u64 = 1_000_000;

/// Repetitions of a farewell at most; the last is given up 127 ms after the first. A peer that is
/// there and too busy to answer needs only one of the seven, which are all lost once in 78,000 times
/// where every fifth frame is.
const REPETITIONS: u8 = 6;

/// Why messages failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The peer left them unanswered for the peer timeout.
    Timeout,
    /// The peer restarted or closed its endpoint.
    Reset,
    /// The peer speaks another version of the protocol.
    Version(u8),
    /// A message is longer than the peer can receive, which is this many bytes.
    TooLong(u16),
    /// This endpoint was closed.
    Closed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str(
                "the peer does not answer; check that its endpoint is open and the link is up",
            ),
            Self::Reset => f.write_str(
                "the peer restarted or closed its endpoint; send again if that makes sense",
            ),
            Self::Version(v) => write!(
                f,
                "the peer speaks protocol version {v}, this end {}; install the same release on both",
                gigae_wire::VERSION
            ),
            Self::TooLong(max) => write!(
                f,
                "the peer receives at most {max} bytes; send shorter messages or raise its MTU"
            ),
            Self::Closed => f.write_str("this endpoint was closed before they were acknowledged"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// No session; the next message proposes one.
    Idle,
    /// A Hello was or will be sent.
    Proposing(Repeated),
    /// Both epochs are known and used here. Whether the peer knows the session is asked with a Confirm, which
    /// repeats this token of the peer's: at its beginning, and when the peer says that it does not.
    Confirming(Repeated, u64),
    /// The peer has used both epochs, too.
    Established,
    /// This end is closing; the peer does not know yet what has arrived here, as far as is known.
    Closing,
}

/// What is sent again until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Repeated {
    due: bool,
    next_at: Instant,
    interval: u64,
    tries: u8,
}

impl Repeated {
    /// To be sent at once.
    pub(crate) fn begin(now: Instant) -> Self {
        Self { due: true, next_at: now, interval: HELLO_INTERVAL, tries: 0 }
    }

    fn sent(&mut self, now: Instant) {
        self.due = false;
        self.tries = self.tries.wrapping_add(1);
        self.next_at = now.after(self.interval);
        self.interval = (self.interval * 2).min(LONGEST_INTERVAL);
    }

    fn expire(&mut self, now: Instant) {
        self.due |= now >= self.next_at;
    }
}

/// A Reset that tells what has arrived and is repeated until it is answered (rule 8.4).
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Farewell {
    pub(crate) remote: Epoch,
    ack: SeqNo,
    pub(crate) due: bool,
    /// Since when its last sending has waited for an answer, and how long that may take.
    since: Since,
    wait: u64,
    /// How often it may still be repeated.
    left: u8,
}

/// What both ends have agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) local: Epoch,
    pub(crate) remote: Epoch,
    pub(crate) hello: Hello,
    /// Addresses of the peer's links, if it has several.
    pub(crate) links: Paths,
    /// Frames that the peer has room for at first.
    pub(crate) credit: u16,
}

/// What a session should transmit next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    Hello,
    Confirm,
    Data,
    Ack,
    Probe,
    Farewell,
}

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Session<T, R> {
    pub(crate) key: PeerKey,
    pub(crate) state: State,
    /// While closing.
    pub(crate) farewell: Option<Box<Farewell>>,
    pub(crate) local: Epoch,
    pub(crate) remote: Epoch,
    /// Sessions with this peer that have ended, proposed ones included.
    pub(crate) number: u32,
    /// The program has named the peer.
    pub(crate) named: bool,
    /// A session that has ended delivered something: the program may hold the peer's id.
    pub(crate) known: bool,
    pub(crate) peer: Hello,
    pub(crate) send: Option<Box<SendWindow<T>>>,
    pub(crate) receive: Option<Box<ReceiveWindow<R>>>,
    /// Addresses of the peer's links, if it has several, and paths of the session: as many as the end
    /// with fewer links has.
    pub(crate) links: Paths,
    paths: u8,
    /// The path by which the last frame came: acknowledgements go back there.
    pub(crate) heard_on: u8,
    /// The path by which the last one went.
    replied_on: u8,
    /// Paths by which a question came that an Ack must answer on the same, by bit.
    pub(crate) asked: u16,
    /// Since when the peer has owed us an answer.
    pub(crate) waiting: Since,
    /// While stopped, or asked to [ask](Self::ask): since when, or since the last probe, and the wait
    /// until the next one, which asks whether a GO was lost, or the peer.
    pub(crate) probe: Option<(Since, u64)>,
    /// What is to be probed: paths by bit, [`CREDIT`] and [`SIZE`]; and [`ANSWER`].
    pub(crate) probes: u16,
    /// It is not known yet which of the peer's longest frames the network carries: data wait.
    pub(crate) sizing: bool,
    /// While that is so, or the peer asks.
    pub(crate) sizes: Option<Box<Sizes>>,
    /// The last round of frames to which one from here belonged, see `Protocol::share_of`.
    pub(crate) round: u32,
    /// Failed messages that the application has not taken yet.
    pub(crate) failures: u32,
    /// In the queue of sessions with something to transmit.
    pub(crate) queued: bool,
    /// In the list of sessions with an acknowledgement that waits for company.
    pub(crate) owing: bool,
    /// In the list of sessions where something began since the last reading of the clock.
    pub(crate) undated: bool,
}

impl<T, R> Session<T, R> {
    pub(crate) fn new(key: PeerKey) -> Self {
        Self {
            key,
            state: State::Idle,
            farewell: None,
            local: Epoch::UNKNOWN,
            remote: Epoch::UNKNOWN,
            number: 0,
            named: false,
            known: false,
            peer: Hello { max_payload: u16::MAX, reorder_window: 0, max_operations: u16::MAX },
            send: None,
            receive: None,
            links: Paths::NONE,
            paths: 1,
            heard_on: 0,
            replied_on: 0,
            asked: 0,
            waiting: Since::Never,
            probe: None,
            probes: 0,
            sizing: false,
            sizes: None,
            round: 0,
            failures: 0,
            queued: false,
            owing: false,
            undated: false,
        }
    }

    /// Whether this is the peer's address on a path beyond the first.
    #[inline(never)]
    pub(crate) fn is_at(&self, path: usize, node: &NodeAddr) -> bool {
        self.links.get(path).is_some_and(|mac| NodeAddr::Ethernet(mac) == *node)
    }

    /// A frame of this session came with a question, or with the answer to one.
    #[cold]
    pub(crate) fn marked(&mut self, flags: Flags, path: usize, config: &Config) {
        if flags.has(Flags::ASK) {
            self.receive.as_mut().expect("established").ask();
            if self.paths > 1 {
                self.asked |= 1 << path;
                self.probes |= ANSWER;
            }
        }
        if flags.has(Flags::ANSWER) {
            self.send.as_mut().expect("established").revive(path, config);
        }
    }

    /// Whether both epochs are known: this end sends and receives.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Established | State::Confirming(..))
    }

    /// Whether anything has arrived in this session.
    pub(crate) fn has_received(&self) -> bool {
        let first = self.remote.first_seq();
        self.receive.as_ref().is_some_and(|receive| receive.next() != first)
    }

    /// Proposes a session with this epoch.
    pub(crate) fn propose(&mut self, now: Instant, local: Epoch, config: &Config) {
        self.local = local;
        self.remote = Epoch::UNKNOWN;
        self.state = State::Proposing(Repeated::begin(now));
        self.waiting = Since::Next;
        self.open_send(config);
    }

    /// The peer says that it does not know the session. That may be an answer to what overtook the Confirm, so
    /// it is asked with another one. If the first was lost, so is all that came behind it.
    #[cold]
    pub(crate) fn doubt(&mut self, now: Instant) {
        match &mut self.state {
            State::Confirming(repeated, _) => {
                let first = repeated.tries == 1 && !repeated.due;
                repeated.due = true;
                if let Some(send) = self.send.as_mut().filter(|_| first) {
                    send.repeat_all();
                }
            }
            // It once knew the session: without a token it cannot come up again.
            state => *state = State::Confirming(Repeated::begin(now), 0),
        }
    }

    /// Whether a Hello was sent so often that a node which answers would have done so.
    pub(crate) fn hello_stays_unanswered(&self) -> bool {
        matches!(self.state, State::Proposing(repeated) if repeated.due && repeated.tries >= HELLOS)
    }

    fn open_send(&mut self, config: &Config) {
        let first = self.local.first_seq();
        match &mut self.send {
            Some(send) => send.restart(first),
            None => self.send = Some(Box::new(SendWindow::new(first, config))),
        }
    }

    /// Both epochs are known now, and the path `by` works. A former session has ended before.
    pub(crate) fn establish(&mut self, with: Terms, state: State, by: usize, config: &Config) {
        self.local = with.local;
        if !matches!(self.state, State::Proposing(_)) {
            self.open_send(config);
        }
        self.links = with.links;
        // A peer that keeps nothing out of order could not make use of several paths.
        let paths = config.own_paths().min(with.links.len());
        let used = if with.hello.reorder_window > 0 { paths } else { 1 };
        self.paths = u8::try_from(paths).expect("at most 8");
        self.heard_on = by as u8;
        self.asked = 0;
        if let Some(send) = &mut self.send {
            send.credit(self.local.first_seq(), with.credit);
            self.probes = send.open_paths(used, by, config);
        }
        self.remote = with.remote;
        self.peer = with.hello;
        self.state = state;
        self.waiting = Since::Never;
        self.ask_size(config);
        let mut receive = ReceiveWindow::new(with.remote.first_seq(), config);
        receive.expect_disorder(paths > 1);
        self.receive = Some(Box::new(receive));
    }

    /// Asks for the longest frames that both ends can take, if it is not sure that the network can.
    fn ask_size(&mut self, config: &Config) {
        let message = config.max_payload.min(self.peer.max_payload);
        let longest = config.max_operations.min(self.peer.max_operations).max(message);
        self.sizing = longest > config.sure_payload;
        self.sizes = self.sizing.then(|| {
            let next = message > config.sure_payload && message < longest;
            self.probes |= SIZE;
            Box::new(Sizes::ask([longest, if next { message } else { 0 }], self.heard_on))
        });
    }

    /// The peer asks whether a frame arrived that has.
    #[cold]
    pub(crate) fn on_probe(&mut self, echo: Echo, path: usize) {
        self.sizes.get_or_insert_default().on_question(echo, path as u8);
        self.probes |= SIZE;
    }

    /// A frame of this end's has arrived. Whether it is known now that longer ones vanish.
    #[cold]
    pub(crate) fn on_echo(&mut self, echo: Echo, config: &Config) -> bool {
        let Some(sizes) = &mut self.sizes else { return false };
        let settled = sizes.on_answer(echo);
        // What was to be repeated need not be any more.
        self.probes = self.probes & !SIZE | if sizes.is_due() { SIZE } else { 0 };
        // The peer is there, so its time begins anew.
        if self.waiting != Since::Never {
            self.waiting = Since::Next;
        }
        let Some(len) = settled else { return false };
        if sizes.is_over() {
            self.sizes = None;
        }
        self.sizing = false;
        let len = if len == 0 { config.sure_payload } else { len };
        let both = config.max_operations.min(self.peer.max_operations);
        self.peer.max_payload = self.peer.max_payload.min(len);
        self.peer.max_operations = self.peer.max_operations.min(len);
        len < both
    }

    /// The Probe or Echo that `plan` asked for: its kind, what it says, how long its payload is, and
    /// its path.
    #[cold]
    pub(crate) fn next_size(&mut self) -> Option<(Kind, Echo, u16, usize)> {
        let sizes = self.sizes.as_mut()?;
        let next = sizes.next();
        if !sizes.is_due() {
            self.probes &= !SIZE;
        }
        if sizes.is_over() {
            self.sizes = None;
        }
        let alive = |wanted: u8| self.send.as_ref().map_or(0, |send| send.alive(wanted.into()));
        Some(match next? {
            Next::Question(echo, path) => (Kind::Probe, echo, echo.len, alive(path)),
            Next::Answer(echo, path) => (Kind::Echo, echo, 0, path.into()),
        })
    }

    /// To which length a question on a dead path is padded: it comes back only if it carries what the
    /// others do.
    #[cold]
    pub(crate) fn pad(&self, path: usize, config: &Config) -> u16 {
        let probe = self.send.as_ref().is_some_and(|send| send.is_dead(path));
        let longest = config.max_operations.min(self.peer.max_operations);
        if probe && longest > config.sure_payload { longest } else { 0 }
    }

    /// Whether something waits to learn how long frames may be.
    #[cold]
    fn wants_size(&self) -> bool {
        self.sizing
            && (self.sizes.as_ref().is_some_and(|sizes| sizes.wanted)
                || self.send.as_ref().is_some_and(|send| !send.is_empty()))
    }

    /// Whether the peer owes an answer.
    #[inline]
    fn awaits_answer(&self) -> bool {
        self.send.as_ref().is_some_and(|s| s.awaits_answer()) || self.sizing && self.wants_size()
    }

    /// Ends the session: what was kept out of order goes to `kept`. The messages of the send
    /// window stay there for the caller to drain.
    pub(crate) fn end(&mut self, mut kept: impl FnMut(R)) {
        self.state = State::Idle;
        self.remote = Epoch::UNKNOWN;
        self.waiting = Since::Never;
        self.probe = None;
        self.probes = 0;
        self.sizing = false;
        self.sizes = None;
        self.asked = 0;
        if let Some(mut receive) = self.receive.take() {
            receive.drain().for_each(&mut kept);
        }
    }

    /// What is to be said to the peer once the session has ended because this end closes.
    pub(crate) fn farewell(&self) -> Option<Farewell> {
        let receive = self.receive.as_ref().filter(|_| self.is_up())?;
        Some(Farewell {
            remote: self.remote,
            ack: receive.next(),
            due: true,
            since: Since::Never,
            wait: FAREWELL_INTERVAL,
            left: REPETITIONS,
        })
    }

    /// Begins to say farewell, or ends it.
    pub(crate) fn take_leave(&mut self, farewell: Option<Farewell>) {
        self.state = if farewell.is_some() { State::Closing } else { State::Idle };
        self.farewell = farewell.map(Box::new);
    }

    /// What should go out now, in order of urgency. Changes nothing.
    #[inline]
    pub(crate) fn plan(&self) -> Option<Plan> {
        if matches!(self.state, State::Established) { self.plan_up() } else { self.plan_besides() }
    }

    #[inline]
    fn plan_up(&self) -> Option<Plan> {
        let (Some(send), Some(receive)) = (&self.send, &self.receive) else { return None };
        if receive.has_gap() {
            Some(Plan::Ack)
        } else if send.can_transmit() && !self.sizing {
            Some(Plan::Data)
        } else if self.probes != 0 {
            Some(Plan::Probe)
        } else {
            receive.is_due(false).then_some(Plan::Ack)
        }
    }

    #[cold]
    fn plan_besides(&self) -> Option<Plan> {
        match &self.state {
            State::Established => self.plan_up(),
            State::Confirming(repeated, _) if repeated.due => Some(Plan::Confirm),
            State::Confirming(..) => self.plan_up(),
            State::Proposing(repeated) => repeated.due.then_some(Plan::Hello),
            State::Closing => self.farewell.as_ref()?.due.then_some(Plan::Farewell),
            State::Idle => None,
        }
    }

    /// Header of a frame of this session, with acknowledgement and credit as they are now.
    #[inline]
    pub(crate) fn header(&mut self, kind: Kind, port: u16, seq: SeqNo) -> Header {
        let (ack, credit) = match &mut self.receive {
            Some(receive) => receive.fields(kind == Kind::Ack),
            None => (self.remote.first_seq(), 0),
        };
        Header {
            kind,
            channel: self.key.channel,
            src_port: port,
            dst_port: self.key.port,
            src_epoch: self.local,
            dst_epoch: self.remote,
            seq,
            ack,
            credit,
            flags: Flags::NONE,
        }
    }

    /// Builds the Hello that `plan` asked for. Its credit is that of a new session also when it is repeated:
    /// credit once given is never taken back.
    pub(crate) fn hello(&mut self, now: Instant, config: &Config) -> Header {
        if let State::Proposing(repeated) = &mut self.state {
            repeated.sent(now);
        }
        Header {
            kind: Kind::Hello,
            channel: self.key.channel,
            src_port: config.port,
            dst_port: self.key.port,
            src_epoch: self.local,
            dst_epoch: Epoch::UNKNOWN,
            seq: self.local.first_seq(),
            ack: Epoch::UNKNOWN.first_seq(),
            credit: initial_credit(config),
            flags: Flags::NONE,
        }
    }

    /// Whether the peer is asked if it knows the session: questions to it are Confirms then.
    pub(crate) fn is_confirming(&self) -> bool {
        matches!(self.state, State::Confirming(..))
    }

    /// Builds a Confirm, and the token of the peer's that it repeats.
    #[cold]
    pub(crate) fn confirm(&mut self, plan: Plan, now: Instant, config: &Config) -> (Header, u64) {
        let State::Confirming(repeated, token) = &mut self.state else {
            unreachable!("only a session in doubt is confirmed")
        };
        let token = *token;
        if plan == Plan::Confirm {
            repeated.sent(now);
        }
        self.waiting.start();
        let next = self.send.as_ref().map_or(self.local.first_seq(), |send| send.sent());
        let mut header = self.header(Kind::Confirm, config.port, next);
        header.flags = Flags::ASK;
        (header, token)
    }

    /// Builds the Reset that `plan` asked for: its ASK says that its acknowledgement counts and that
    /// an answer is wanted.
    pub(crate) fn reset(&mut self, config: &Config) -> Header {
        let farewell = self.farewell.as_mut().expect("only a closing session says farewell");
        farewell.due = false;
        farewell.since.start();
        Header {
            kind: Kind::Reset,
            channel: self.key.channel,
            src_port: config.port,
            dst_port: self.key.port,
            src_epoch: self.local,
            dst_epoch: farewell.remote,
            seq: self.local.first_seq(),
            ack: farewell.ack,
            credit: 0,
            flags: Flags::ASK,
        }
    }

    /// The report that goes with an Ack frame; returns its length.
    pub(crate) fn write_report(&self, out: &mut [u8; 4 + AckReport::MAX_BITMAP]) -> usize {
        self.receive.as_ref().map_or(0, |r| r.write_report(out))
    }

    /// After transmitting: an answer is owed from now on.
    #[inline]
    pub(crate) fn transmitted(&mut self) {
        if self.awaits_answer() {
            self.waiting.start();
        }
    }

    /// A valid frame of this session came: the peer is there. `progress` says that it acknowledged
    /// something.
    #[inline]
    pub(crate) fn heard(&mut self, progress: bool) {
        if !self.awaits_answer() {
            self.waiting = Since::Never;
        } else if progress {
            self.waiting = Since::Next;
        }
    }

    /// The clock was read: whatever began since the last reading began now.
    pub(crate) fn date(&mut self, now: Instant) {
        self.waiting.date(now);
        if let Some(farewell) = &mut self.farewell {
            farewell.since.date(now);
        }
        if let Some((since, _)) = &mut self.probe {
            since.date(now);
        }
        if let Some(sizes) = &mut self.sizes {
            sizes.date(now);
        }
        if let Some(send) = &mut self.send {
            send.date(now);
        }
        if let Some(receive) = &mut self.receive {
            receive.date(now);
        }
    }

    /// Whether the peer's credit has just stopped us; if so, the first probe is scheduled, in case
    /// its GO is lost.
    #[inline]
    pub(crate) fn has_stopped(&mut self) -> bool {
        let stopped = matches!(self.state, State::Established)
            && self.send.as_ref().is_some_and(|s| s.is_stopped());
        match (stopped, self.probe) {
            (true, None) => {
                let wait = self.send.as_ref().map_or(0, |send| send.timeout());
                self.probe = Some((Since::Next, wait));
                true
            }
            (false, Some(_)) => {
                self.probe = None;
                self.probes &= !CREDIT;
                false
            }
            _ => false,
        }
    }

    /// Probes the peer until it answers, unless something is repeated until then anyway. Whether
    /// that begins now.
    pub(crate) fn ask(&mut self) -> bool {
        let Some(send) = &self.send else { return false };
        let silent = matches!(self.state, State::Established)
            && self.probe.is_none()
            && !send.awaits_answer();
        if silent {
            self.probe = Some((Since::Next, send.timeout()));
        }
        silent
    }

    /// The next moment at which something must happen by itself.
    pub(crate) fn deadline(&self, config: &Config) -> Instant {
        let lost = self.waiting.after(nanos(config.peer_timeout));
        let own = match self.state {
            State::Idle => return Instant::NEVER,
            State::Proposing(repeated) => repeated.next_at,
            State::Closing => {
                self.farewell.as_ref().map_or(Instant::NEVER, |f| f.since.after(f.wait))
            }
            State::Established | State::Confirming(..) => {
                let resend = self.send.as_ref().map_or(Instant::NEVER, |s| s.deadline());
                let ack = self
                    .receive
                    .as_ref()
                    .map_or(Instant::NEVER, |r| r.acknowledge_by(nanos(config.ack_delay)));
                let probe = self.probe.map_or(Instant::NEVER, |(since, wait)| since.after(wait));
                let size = match &self.sizes {
                    Some(sizes) if self.wants_size() => sizes.deadline(),
                    _ => Instant::NEVER,
                };
                let confirm = match self.state {
                    State::Confirming(repeated, _) => repeated.next_at,
                    _ => Instant::NEVER,
                };
                resend.min(ack).min(probe).min(size).min(confirm)
            }
        };
        own.min(lost)
    }

    /// Does what is due at `now`. Returns true when the peer has to be given up.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        config: &Config,
        counters: &mut Counters,
    ) -> bool {
        if now >= self.waiting.after(nanos(config.peer_timeout)) {
            return true;
        }
        match &mut self.state {
            State::Proposing(repeated) => {
                repeated.expire(now);
                return false;
            }
            State::Confirming(repeated, _) => repeated.expire(now),
            _ => {}
        }
        if let Some(farewell) = &mut self.farewell {
            if now < farewell.since.after(farewell.wait) {
                return false;
            }
            if farewell.left == 0 {
                self.take_leave(None);
                return false;
            }
            farewell.left -= 1;
            farewell.wait *= 2;
            farewell.since = Since::Never;
            farewell.due = true;
            return false;
        }
        let delay = nanos(config.ack_delay);
        if let Some(receive) = self.receive.as_mut().filter(|r| now >= r.acknowledge_by(delay)) {
            receive.ask();
        }
        if let Some((since, wait)) = self.probe.as_mut().filter(|p| now >= p.0.after(p.1)) {
            *wait = (*wait * 2).min(LONGEST_INTERVAL);
            *since = Since::At(now);
            self.probes |= CREDIT;
            if self.waiting == Since::Never {
                self.waiting = Since::At(now);
            }
        }
        if self.wants_size()
            && let Some(sizes) = &mut self.sizes
        {
            sizes.expire(now, self.paths);
            self.probes |= if sizes.is_due() { SIZE } else { 0 };
        }
        if let Some(send) = &mut self.send {
            self.probes |= send.expire(now, counters);
        }
        false
    }

    /// Whether the peer leaves something unanswered for longer than usual.
    pub(crate) fn is_silent(&self) -> bool {
        let unacknowledged = self.send.as_ref().is_some_and(|send| send.is_silent());
        unacknowledged
            || self.probe.is_some()
            || matches!(self.state, State::Proposing(_) | State::Confirming(..))
    }

    /// A link of this end does not work: what flew on it goes again elsewhere.
    pub(crate) fn give_up(&mut self, path: usize) {
        let up = self.is_up();
        if let Some(send) = self.send.as_mut().filter(|_| up) {
            self.probes |= send.give_up(path);
        }
    }

    /// The path for a control frame of this sort, and what is asked or answered on it.
    #[inline]
    pub(crate) fn way(&mut self, plan: Plan) -> (usize, Flags) {
        if self.paths == 1 && plan == Plan::Ack {
            return (0, Flags::NONE);
        }
        self.way_of_several(plan)
    }

    #[cold]
    fn way_of_several(&mut self, plan: Plan) -> (usize, Flags) {
        let alive = |send: &Option<Box<SendWindow<T>>>, wanted: u8| {
            send.as_ref().map_or(0, |send| send.alive(wanted.into()))
        };
        let first = |bits: u16| bits.trailing_zeros() as usize;
        match plan {
            // Of a former session it is known which ways there are, not which still lead there.
            Plan::Hello | Plan::Confirm
                if let State::Proposing(repeated) | State::Confirming(repeated, _) = self.state =>
            {
                (self.in_turn(repeated.tries), Flags::NONE)
            }
            Plan::Farewell if let Some(farewell) = &self.farewell => {
                (self.in_turn(REPETITIONS - farewell.left), Flags::NONE)
            }
            _ if self.asked != 0 => {
                let path = first(self.asked);
                self.asked &= !(1 << path);
                if self.asked == 0 {
                    self.probes &= !ANSWER;
                }
                (path, Flags::ANSWER)
            }
            Plan::Probe if self.probes & !CREDIT != 0 => {
                let path = first(self.probes);
                self.probes &= !(1 << path);
                (path, Flags::ASK)
            }
            Plan::Probe => {
                self.probes = 0;
                let path = alive(&self.send, self.heard_on);
                // Nothing flies whose loss would tell that this path does not work. An answer says otherwise.
                self.heard_on = (path as u8 + 1) % self.paths;
                (path, Flags::ASK)
            }
            _ => {
                let path = alive(&self.send, self.heard_on);
                self.replied_on = path as u8;
                (path, Flags::NONE)
            }
        }
    }

    /// A frame came that had come before: what acknowledged it may be lost because its path works one
    /// way only, so the next acknowledgement goes by another.
    #[cold]
    pub(crate) fn heard_again(&mut self) {
        self.heard_on = (self.replied_on + 1) % self.paths;
    }

    /// The paths one after the other, the one by which the peer was last heard first.
    fn in_turn(&self, n: u8) -> usize {
        usize::from(self.heard_on.wrapping_add(n) % self.paths)
    }
}
