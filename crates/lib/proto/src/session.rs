//! One peer: how a session comes up, what it should transmit next, and when it is given up
//! (`PROTOCOL.md` §4 and §8).

mod frames;
mod lengths;
mod state;
mod timing;
mod ways;

use crate::receive::ReceiveWindow;
use crate::send::SendWindow;
use crate::size::Sizes;
use crate::time::{Instant, Since};
use crate::{Config, PeerKey};
use gigae_wire::{Epoch, Hello, Paths};
use state::{FAREWELL_INTERVAL, REPETITIONS};

pub(crate) use state::{Farewell, Plan, Repeated, State, Terms};

/// In [`Session::probes`], beside the paths: a question for lost credit.
const CREDIT: u16 = 1 << 15;

/// In [`Session::probes`]: a Probe or Echo of the length of frames.
pub(crate) const SIZE: u16 = 1 << 14;

/// In [`Session::probes`]: an answer by each of the paths that were [asked](Session::asked) about.
/// No frame of another kind is one.
const ANSWER: u16 = 1 << 13;

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
    /// Addresses of the peer's links, if it has several, and paths of the session: as many as the
    /// end with fewer links has.
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
    /// While stopped, or asked to [ask](Self::ask): since when, or since the last probe, and the
    /// wait until the next one, which asks whether a GO was lost, or the peer.
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

    /// The peer says that it does not know the session. That may be an answer to what overtook the
    /// Confirm, so it is asked with another one. If the first was lost, so is all that came behind
    /// it.
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
}
