//! What a context holds for its program: buffers that are sent later, locked regions, transfers.

use crate::caller_memory::CallerMemory;
use gigae::Peer;
use std::ffi::c_int;

/// A send buffer, by ticket, and where its message goes.
pub(super) struct HeldSend {
    pub(super) ticket: u64,
    pub(super) to: Peer,
    pub(super) len: usize,
}

/// A region that the program has locked.
pub(super) struct LockedRegion {
    pub(super) key: u64,
    pub(super) node: c_int,
    pub(super) memory: CallerMemory,
}

/// The direction of a transfer. The number is its index among the faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferKind {
    Write = 0,
    Read = 1,
}

/// A transfer in progress.
pub(super) struct PendingTransfer {
    pub(super) kind: TransferKind,
    /// The key of the memory here.
    pub(super) own: u64,
    pub(super) peer: Peer,
}
