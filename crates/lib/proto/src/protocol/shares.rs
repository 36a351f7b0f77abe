//! How the receive frames are divided among the peers: the largest credit window of each
//! (`PROTOCOL.md` §6).

use crate::ProtocolConfig;
use crate::session::Session;

/// Frames of credit for a peer that sends while most others are silent, however many there are.
/// Enough for a Gigabit Ethernet's bandwidth-delay product (some 10 frames), and a quarter of a
/// session's first credit where credit is not shared.
const LEAST_SHARE: u32 = 16;

/// See the module's description.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Shares {
    /// Sessions that are up, and how many of them are with named peers.
    established: u32,
    established_named: u32,
    /// The largest credit window that the receive frames allow each session that is up.
    pub(super) share: u32,
    /// The share is less than [`LEAST_SHARE`], or less than the receive window while unnamed peers
    /// are among the sessions. Then the peers that send share the frames.
    pub(super) crowded: bool,
    /// Several peers have sessions, or are about to, or a peer says so of itself. So credit is
    /// shared, if [that is on](ProtocolConfig::shared_credit).
    pub(super) is_shared: bool,
    /// Neither [`crowded`](Self::crowded) nor shared: each session gets [`share`](Self::share).
    pub(super) is_plain: bool,
    /// A round is as many frames as the link can receive into. Here are its number, what is left of
    /// it, how many peers sent some of its frames, and that count for the round before.
    round: u32,
    round_left: u32,
    active: u32,
    active_before: u32,
    /// Credit windows of all sessions together.
    pub(super) granted: u32,
}

impl Shares {
    /// A session has come up, with this credit window.
    pub(super) fn join(&mut self, window: u32, named: bool, config: &ProtocolConfig) {
        self.established += 1;
        self.established_named += u32::from(named);
        self.divide(config);
        self.granted += window;
    }

    /// A session that was up ends.
    pub(super) fn leave(&mut self, window: u32, named: bool, config: &ProtocolConfig) {
        self.granted -= window;
        self.established -= 1;
        self.established_named -= u32::from(named);
        self.divide(config);
    }

    /// The program has named a peer, whose session is up.
    pub(super) fn name(&mut self) {
        self.established_named += 1;
    }

    /// A session came or went. The largest window of each session is its part of the receive
    /// frames.
    fn divide(&mut self, config: &ProtocolConfig) {
        let share = config.receive_frames / self.established.max(1);
        let most = config.receive_window.into();
        self.share = share.clamp(1, most);
        let unnamed = self.established > self.established_named;
        self.crowded = self.share < if unnamed { most } else { LEAST_SHARE.min(most) };
        if self.established > 1 {
            self.share_credit(config);
        }
        self.is_plain = !self.crowded && !self.is_shared;
    }

    /// From now on, credit is shared.
    #[cold]
    pub(super) fn share_credit(&mut self, config: &ProtocolConfig) {
        self.is_shared = config.shared_credit;
        self.is_plain &= !self.is_shared;
    }

    /// The largest window of a peer whose frame was released, while there are many sessions. It is
    /// at most [`LEAST_SHARE`], or the peer's part among those that sent something lately. So
    /// silent peers do not slow down one active peer among thousands; if all send, each gets
    /// little. A named peer always shares the frames with the other named peers, and with unnamed
    /// ones only while they send.
    pub(super) fn of<T, R>(&mut self, session: &mut Session<T, R>, config: &ProtocolConfig) -> u32 {
        if self.round_left == 0 {
            self.round = self.round.wrapping_add(1);
            self.round_left = config.receive_frames;
            self.active_before = std::mem::take(&mut self.active);
        }
        self.round_left -= 1;
        if session.round != self.round {
            session.round = self.round;
            self.active += 1;
        }
        let others = self.active.max(self.active_before).max(1);
        let part = |of: u32| config.receive_frames / of;
        let least = part(2 * self.established_named.max(1));
        let own = part(others.max(self.established_named)).max(least);
        let named = if session.named { own } else { 0 };
        let most = part(others).min(LEAST_SHARE).max(named);
        most.min(config.receive_window.into()).max(self.share)
    }
}
