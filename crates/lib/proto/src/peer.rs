//! What there is to tell about a peer: for people who look, and no decision of the protocol.

use crate::session::State;
use crate::{PeerId, Protocol};

/// How the session with a peer stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerState {
    /// There is none.
    #[default]
    Idle,
    /// A session is proposed.
    Proposing,
    /// It is up.
    Established,
    /// This end is closing.
    Closing,
}

/// A peer as it is now. Frames are data frames of the present session, modulo 2^32; times are nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerFigures {
    /// The session.
    pub state: PeerState,
    /// Frames that were sent, repetitions not counted.
    pub frames_sent: u32,
    /// Frames that have arrived in order.
    pub frames_received: u32,
    /// Frames that had to be repeated, over all sessions since the peer is known.
    pub lost: u64,
    /// Frames that are not acknowledged, and so in the send window.
    pub unacknowledged: u32,
    /// Frames that wait to be sent for the first time.
    pub queued: u32,
    /// Frames on the way.
    pub in_flight: u32,
    /// Most frames that may be on the way now.
    pub flight: u32,
    /// Most frames that may be unacknowledged.
    pub window: u32,
    /// Frames for which the peer has room beyond those sent.
    pub credit: u32,
    /// Something waits and the peer has no room (STOP).
    pub stopped: bool,
    /// Smoothed round trip of the first path that works; 0: not known yet.
    pub round_trip: u64,
    /// Its retransmission timeout.
    pub timeout: u64,
    /// Paths in use.
    pub paths: u32,
    /// Frames for which this end gives the peer credit.
    pub granted: u32,
    /// Frames kept until those in front of them come.
    pub out_of_order: u32,
}

impl<T, R> Protocol<T, R> {
    /// A peer as it is now. Some tens of nanoseconds; nothing is counted for it meanwhile.
    ///
    /// # Panics
    /// If there is no such peer.
    pub fn peer_figures(&self, peer: PeerId) -> PeerFigures {
        let session = self.session(peer);
        let mut figures = PeerFigures {
            state: match session.state {
                State::Idle => PeerState::Idle,
                State::Proposing(_) => PeerState::Proposing,
                State::Established | State::Confirming(..) => PeerState::Established,
                State::Closing => PeerState::Closing,
            },
            ..PeerFigures::default()
        };
        if let Some(send) = &session.send {
            send.describe(session.local.first_seq(), &mut figures);
        }
        if let Some(receive) = &session.receive {
            let first = session.remote.first_seq();
            figures.frames_received = receive.next().ahead_of(first).cast_unsigned();
            figures.granted = receive.window();
            figures.out_of_order = receive.kept();
        }
        figures
    }
}
