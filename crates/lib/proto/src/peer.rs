//! A snapshot of a peer for people who look. The protocol decides nothing by it.

use crate::session::SessionState;
use crate::{PeerId, Protocol};

/// The phase of the session with a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionPhase {
    /// No session.
    #[default]
    Idle,
    /// This end proposes a session.
    Proposing,
    /// The session is up.
    Established,
    /// This end is closing.
    Closing,
}

/// A peer as it is now. Frames are data frames of the present session, modulo 2^32. Times are
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSnapshot {
    /// The phase of the session.
    pub state: SessionPhase,
    /// Frames that were sent, not counting retransmissions.
    pub frames_sent: u32,
    /// Frames that have arrived in order.
    pub frames_received: u32,
    /// Frames that were lost and repeated, over all sessions since the peer is known.
    pub lost: u64,
    /// Unacknowledged frames: those in the send window.
    pub unacknowledged: u32,
    /// Frames that wait to be sent for the first time.
    pub queued: u32,
    /// Frames in flight.
    pub in_flight: u32,
    /// Most frames that may be in flight now.
    pub flight: u32,
    /// Most frames that may be unacknowledged.
    pub window: u32,
    /// Frames for which the peer has room beyond those sent.
    pub credit: u32,
    /// Frames wait and the peer has no room for them (STOP).
    pub stopped: bool,
    /// Smoothed round trip of the first path that works; 0 if not known yet.
    pub round_trip: u64,
    /// Its retransmission timeout.
    pub timeout: u64,
    /// Paths in use.
    pub paths: u32,
    /// Frames for which this end gives the peer credit.
    pub granted: u32,
    /// Frames kept until the missing ones before them arrive.
    pub out_of_order: u32,
}

/// # A peer as it is now
impl<T, R> Protocol<T, R> {
    /// A peer as it is now. Takes some tens of nanoseconds. Nothing is counted only for this.
    ///
    /// # Panics
    /// If there is no such peer.
    pub fn peer_snapshot(&self, peer: PeerId) -> PeerSnapshot {
        let session = self.session(peer);
        let mut snapshot = PeerSnapshot {
            state: match session.state {
                SessionState::Idle => SessionPhase::Idle,
                SessionState::Proposing(_) => SessionPhase::Proposing,
                SessionState::Established | SessionState::Confirming(..) => {
                    SessionPhase::Established
                }
                SessionState::Closing => SessionPhase::Closing,
            },
            ..PeerSnapshot::default()
        };
        if let Some(send) = &session.send {
            send.describe(session.local.first_seq(), &mut snapshot);
        }
        if let Some(receive) = &session.receive {
            let first = session.remote.first_seq();
            snapshot.frames_received = receive.next().ahead_of(first).cast_unsigned();
            snapshot.granted = receive.window();
            snapshot.out_of_order = receive.kept();
        }
        snapshot
    }
}
