//! One peer: how a session comes up, what it should transmit next, and when it is given up
//! (`PROTOCOL.md` §4 and §8).

mod frames;
mod lengths;
mod paths;
mod state;
mod timing;

use crate::path_set::Probes;
use crate::protocol::SessionBudget;
use crate::receive::ReceiveWindow;
use crate::send::SendWindow;
use crate::size::Sizes;
use crate::time::{Instant, Since};
use crate::{PeerKey, ProtocolConfig};
use gigae_wire::{Epoch, Hello, PathId, Paths};
use state::{CLOSE_INTERVAL, REPETITIONS};

pub(crate) use state::{GracefulClose, NextFrame, Repeated, SessionParameters, SessionState};

/// Bulk frames to a peer between the first two questions how datagrams come to its socket. As long
/// as it does not answer, the number doubles with each.
const UNTIL_ASKED: u16 = 64;

/// Most such questions: on a lossy way none may arrive.
const MOST_ASKED: u8 = 6;

/// A question by a peer's socket, as its answer describes it (rule 13.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Challenge {
    /// What it asks to be repeated.
    pub(crate) token: u64,
    /// Whether its datagrams, if several, came one by one.
    pub(crate) uncoalesced: Option<bool>,
}

impl<T, R> Session<T, R> {
    /// It is not known any more how datagrams come to the peer's socket.
    pub(crate) fn forget_coalescing(&mut self) {
        (self.uncoalesced, self.asked, self.until_asked, self.asks) = (None, 0, 0, false);
    }

    /// Whether to ask now how datagrams come to the peer's socket.
    pub(crate) fn asks_coalescing(&mut self) -> bool {
        let asks = self.uncoalesced.is_none() && self.until_asked == 0 && self.asked < MOST_ASKED;
        if asks {
            self.until_asked = UNTIL_ASKED << self.asked;
            self.asked += 1;
            self.asks = true;
        }
        asks
    }
}

impl Challenge {
    /// As the answer says it.
    pub(crate) fn to_bytes(self) -> [u8; 9] {
        let [a, b, c, d, e, f, g, h] = self.token.to_be_bytes();
        let uncoalesced = match self.uncoalesced {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        };
        [a, b, c, d, e, f, g, h, uncoalesced]
    }

    /// From the payload of an answer, or of a question.
    pub(crate) fn read(payload: &[u8]) -> Self {
        let token = payload.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let uncoalesced = match payload.get(8) {
            Some(1) => Some(true),
            Some(2) => Some(false),
            _ => None,
        };
        Self { token, uncoalesced }
    }
}

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Session<T, R> {
    pub(crate) key: PeerKey,
    pub(crate) state: SessionState,
    /// The graceful close, while closing.
    pub(crate) close: Option<Box<GracefulClose>>,
    pub(crate) local: Epoch,
    pub(crate) remote: Epoch,
    /// Sessions with this peer that have ended, proposed ones included.
    pub(crate) number: u32,
    /// The program has named the peer.
    pub(crate) named: bool,
    /// A former session delivered something, so the program may hold the peer's id.
    pub(crate) known: bool,
    pub(crate) peer: Hello,
    pub(crate) send: Option<Box<SendWindow<T>>>,
    pub(crate) receive: Option<Box<ReceiveWindow<R>>>,
    /// What the peer has beside its first link, and the number of paths: as many as both ends have.
    pub(crate) links: Paths,
    paths: u8,
    /// The path by which the last frame arrived. Acknowledgements go back by it.
    pub(crate) received_on: PathId,
    /// The path by which the last acknowledgement went.
    replied_on: PathId,
    /// Since when the peer owes an answer.
    pub(crate) waiting: Since,
    /// The peer's time was over and began again, because the endpoint had not looked at its links
    /// for long.
    spared: bool,
    /// That happened to the proposal. Answers to the Hellos of before do not count.
    pub(crate) begun_again: bool,
    /// While the peer has stopped us, or since [`ask`](Self::ask): the time of that or of the last
    /// probe, and the wait until the next probe. The probe asks whether a GO was lost, or whether
    /// the peer is there.
    pub(crate) probe: Option<(Since, u64)>,
    pub(crate) probes: Probes,
    /// What the answer to the peer's last question by its socket says.
    pub(crate) challenge: Challenge,
    /// Whether datagrams come to the peer's socket one by one, if it has said so.
    pub(crate) uncoalesced: Option<bool>,
    /// Questions so far whether they do, and bulk frames until the next one.
    pub(crate) asked: u8,
    pub(crate) until_asked: u16,
    /// The next question is such a one.
    pub(crate) asks: bool,
    /// The longest frame that the network carries to the peer is not known yet. Data wait.
    pub(crate) sizing: bool,
    /// It was known before.
    pub(crate) asks_size_again: bool,
    /// The questions and answers about that, if there are any.
    pub(crate) sizes: Option<Box<Sizes>>,
    /// What this end's budget and the peer's know of the session, where credit is shared.
    pub(crate) budget: SessionBudget,
    /// The last round of frames in which this peer sent one, see `Protocol::share_of`.
    pub(crate) round: u32,
    /// Failed messages that the application has not taken yet.
    pub(crate) failures: u32,
    /// In the queue of sessions with something to transmit.
    pub(crate) queued: bool,
    /// In the list of sessions with a delayed acknowledgement.
    pub(crate) owing: bool,
    /// In the list of sessions with events that wait for the next reading of the clock.
    pub(crate) unstamped: bool,
}

impl<T, R> Session<T, R> {
    pub(crate) fn new(key: PeerKey) -> Self {
        Self {
            key,
            state: SessionState::Idle,
            close: None,
            local: Epoch::UNKNOWN,
            remote: Epoch::UNKNOWN,
            number: 0,
            named: false,
            known: false,
            peer: Hello { max_payload: u16::MAX, reorder_window: 0, max_operations: u16::MAX },
            send: None,
            receive: None,
            links: Paths::None,
            paths: 1,
            received_on: PathId::FIRST,
            replied_on: PathId::FIRST,
            waiting: Since::Never,
            spared: false,
            begun_again: false,
            probe: None,
            probes: Probes::default(),
            challenge: Challenge::default(),
            uncoalesced: None,
            asked: 0,
            until_asked: 0,
            asks: false,
            sizing: false,
            asks_size_again: false,
            sizes: None,
            budget: SessionBudget::default(),
            round: 0,
            failures: 0,
            queued: false,
            owing: false,
            unstamped: false,
        }
    }

    /// Whether both epochs are known: this end sends and receives.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, SessionState::Established | SessionState::Confirming(..))
    }

    /// Whether anything has arrived in this session.
    pub(crate) fn has_received(&self) -> bool {
        let first = self.remote.first_seq();
        self.receive.as_ref().is_some_and(|receive| receive.next() != first)
    }

    /// Proposes a session with this epoch.
    pub(crate) fn propose(&mut self, now: Instant, local: Epoch, config: &ProtocolConfig) {
        self.local = local;
        self.remote = Epoch::UNKNOWN;
        self.state = SessionState::Proposing(Repeated::begin(now));
        self.begun_again = false;
        self.waiting = Since::Next;
        self.open_send(config);
    }

    /// The peer says that it does not know the session. Perhaps it answers a frame that overtook
    /// the Confirm, so another Confirm asks again. If the first Confirm was lost, so is everything
    /// behind it.
    #[cold]
    pub(crate) fn doubt(&mut self, now: Instant) {
        match &mut self.state {
            SessionState::Confirming(repeated, _) => {
                let first = repeated.tries == 1 && !repeated.due;
                repeated.due = true;
                if let Some(send) = self.send.as_mut().filter(|_| first) {
                    send.repeat_all();
                }
            }
            // The peer once knew the session. Without a token it cannot come up again.
            state => *state = SessionState::Confirming(Repeated::begin(now), 0),
        }
    }

    fn open_send(&mut self, config: &ProtocolConfig) {
        let first = self.local.first_seq();
        match &mut self.send {
            Some(send) => send.restart(first),
            None => self.send = Some(Box::new(SendWindow::new(first, config))),
        }
    }

    /// Both epochs are known now, and the path `by` works. The former session has already ended.
    pub(crate) fn establish(
        &mut self,
        with: SessionParameters,
        state: SessionState,
        by: PathId,
        credit: u16,
        config: &ProtocolConfig,
    ) {
        self.local = with.local;
        if !matches!(self.state, SessionState::Proposing(_)) {
            self.open_send(config);
        }
        self.links = with.links;
        // A peer that keeps nothing out of order cannot use several paths.
        let paths = config.paths().common(&with.links);
        let used = if with.hello.reorder_window > 0 { paths } else { 1 };
        self.paths = u8::try_from(paths).expect("at most 8");
        self.received_on = by;
        self.probes = Probes::default();
        if let Some(send) = &mut self.send {
            send.credit(self.local.first_seq(), with.credit);
            self.probes.paths = match config.bulk {
                Some(_) => send.open_bulk(used > 1, config),
                None => send.open_paths(used, by, config),
            };
        }
        self.remote = with.remote;
        self.peer = with.hello;
        if let Some(send) = &mut self.send {
            send.set_overtakes(with.hello.reorder_window > 0);
        }
        self.state = state;
        self.waiting = Since::Never;
        self.spared = false;
        self.ask_size(config);
        let mut receive = ReceiveWindow::new(with.remote.first_seq(), credit, config);
        // A socket carries nothing before it is asked for.
        receive.expect_disorder(paths > 1 && config.bulk.is_none());
        self.receive = Some(Box::new(receive));
    }

    /// Ends the session. Frames kept out of order go to `kept`. Messages of the send window stay
    /// there; the caller drains them.
    pub(crate) fn end(&mut self, mut kept: impl FnMut(R)) {
        self.state = SessionState::Idle;
        self.remote = Epoch::UNKNOWN;
        self.waiting = Since::Never;
        self.spared = false;
        self.probe = None;
        self.probes = Probes::default();
        (self.sizing, self.asks_size_again) = (false, false);
        self.sizes = None;
        if let Some(mut receive) = self.receive.take() {
            receive.drain().for_each(&mut kept);
        }
    }

    /// The close to send to the peer after this end has closed the session.
    pub(crate) fn graceful_close(&self) -> Option<GracefulClose> {
        let receive = self.receive.as_ref().filter(|_| self.is_up())?;
        Some(GracefulClose {
            remote: self.remote,
            ack: receive.next(),
            due: true,
            since: Since::Never,
            wait: CLOSE_INTERVAL,
            left: REPETITIONS,
        })
    }

    /// Begins the graceful close, or ends it.
    pub(crate) fn set_close(&mut self, close: Option<GracefulClose>) {
        self.state = if close.is_some() { SessionState::Closing } else { SessionState::Idle };
        self.close = close.map(Box::new);
    }
}
