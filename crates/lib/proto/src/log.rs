//! What the log says of sessions. There is no event per message. Where frames are lost, there is
//! one for each report of the peer.
//!
//! While no subscriber listens, an event costs a call and a comparison. No event has an epoch or a
//! key in it: who knows a session's epochs can speak for a peer.

use crate::path_set::PathSet;
use crate::session::SessionState;
use crate::{PeerId, PeerKey, Reason};
use gigae_wire::{NodeAddr, PathId};
use std::fmt;
use tracing::{debug, info};

/// As programs write addresses: the node, and port and channel if they are not 0.
impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)?;
        match (self.port, self.channel) {
            (0, 0) => Ok(()),
            (port, 0) => write!(f, "/{port}"),
            (port, channel) => write!(f, "/{port}/{channel}"),
        }
    }
}

#[cold]
#[inline(never)]
pub(crate) fn proposed(peer: &PeerKey) {
    debug!(%peer, "session proposed");
}

/// A session is up. `id` is how events of other crates name the peer.
#[cold]
#[inline(never)]
pub(crate) fn up(peer: &PeerKey, id: PeerId, state: &SessionState, longest: u16) {
    let proposed_by =
        if matches!(state, SessionState::Established) { "the peer" } else { "this end" };
    info!(%peer, id = id.0, proposed_by, longest, "session up");
}

#[cold]
#[inline(never)]
pub(crate) fn confirmed(peer: &PeerKey) {
    debug!(%peer, "session confirmed");
}

/// A session has ended, or its proposal.
#[cold]
#[inline(never)]
pub(crate) fn ended(peer: &PeerKey, state: &SessionState, reason: Reason) {
    let was = match state {
        SessionState::Idle => return,
        SessionState::Proposing(_) => "proposed",
        SessionState::Confirming(..) | SessionState::Established => "up",
        SessionState::Closing => "closing",
    };
    info!(%peer, was, ?reason, "session ended");
}

/// This end has closed, and the peer has answered or was given up.
#[cold]
#[inline(never)]
pub(crate) fn closed(peer: &PeerKey, answered: bool) {
    debug!(%peer, answered, "close is over");
}

/// The peer has reported what it lacks.
#[cold]
#[inline(never)]
pub(crate) fn lost(peer: &PeerKey, frames: u32) {
    debug!(%peer, frames, "frames lost");
}

/// Nothing was acknowledged for a retransmission timeout. `frames` frames wait to go again; zero if
/// only a probe goes first.
#[cold]
#[inline(never)]
pub(crate) fn timed_out(peer: &PeerKey, frames: u32) {
    debug!(%peer, frames, "retransmission timeout");
}

/// The network does not carry the longest frames to a peer. This is the longest payload that it
/// carries.
#[cold]
#[inline(never)]
pub(crate) fn long_frames_vanish(peer: &PeerKey, carried: u16) {
    info!(%peer, carried, "long frames get lost: the network carries less than the interfaces");
}

/// These paths to a peer do not work.
#[cold]
#[inline(never)]
pub(crate) fn paths_down(peer: &PeerKey, paths: PathSet) {
    for path in paths.iter() {
        info!(%peer, path = path.index(), "path down");
    }
}

#[cold]
#[inline(never)]
pub(crate) fn path_up(peer: &PeerKey, path: PathId) {
    info!(%peer, path = path.index(), "path up");
}

/// The peer's socket for bulk data has answered no probe for more than a second.
#[cold]
#[inline(never)]
pub(crate) fn no_bulk_answer(peer: &PeerKey) {
    info!(%peer, "no answer from the peer's UDP socket: long messages stay on the link; check the firewalls");
}

/// Whether the datagrams of bulk frames come one by one changes.
#[cold]
#[inline(never)]
pub(crate) fn uncoalesced(peer: &PeerKey, uncoalesced: bool) {
    debug!(%peer, uncoalesced, "datagrams of bulk frames come one by one");
}

/// The table of peers has no room for a peer that the program has not named.
#[cold]
#[inline(never)]
pub(crate) fn no_room(peer: &PeerKey) {
    debug!(%peer, "session refused: the table of peers is full");
}

/// A peer that nothing was delivered from has made room for another.
#[cold]
#[inline(never)]
pub(crate) fn replaced(former: &PeerKey, peer: &PeerKey) {
    debug!(%former, %peer, "peer forgotten for another: the table of peers is full");
}

/// A node to which a session is proposed seems to speak another version.
#[cold]
#[inline(never)]
pub(crate) fn foreign_version(node: &NodeAddr, version: u8) {
    debug!(%node, version, own = gigae_wire::VERSION, "frame of another protocol version");
}
