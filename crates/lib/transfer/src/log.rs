//! What the log says of peers' operations. Nothing here is called for one that is carried out.
//!
//! A peer is named by its number, which the event `session up` of the protocol has as `id`.

use gigae_proto::PeerId;
use gigae_wire::op::Status;
use tracing::debug;

/// An access to registered memory was refused.
#[cold]
#[inline(never)]
pub(crate) fn refused(peer: PeerId, status: Status) {
    debug!(id = peer.0, ?status, "operation of a peer refused");
}

/// What peers may make this end keep is used up ([`crate::pool`]).
#[cold]
#[inline(never)]
pub(crate) fn used_up(wanted: usize, granted: usize, most: usize) {
    debug!(wanted, granted, most, "no more bytes for messages and operations of peers");
}
