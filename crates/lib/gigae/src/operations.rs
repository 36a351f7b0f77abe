//! Messages of any size and remote memory: the arguments and the results of operations.

use crate::error::OperationError;
use crate::memory::Memory;
use crate::peer::Peer;
use gigae_transfer::{Selector, TransferCompletion};

pub use gigae_transfer::{Accesses, Bytes, Label, OpError, OpId, RegionKey, Rights};
pub use gigae_wire::op::{Action, Change, MOST_FETCHED, Number, Status};

/// Which messages a receive wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The sender; `None`: any sender.
    pub from: Option<Peer>,
    /// The tag.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
    /// Untagged messages instead of tagged ones.
    pub untagged: bool,
}

impl Wanted {
    /// Any tagged message at all.
    pub const ANY: Self = Self { from: None, tag: 0, ignore: u64::MAX, untagged: false };

    /// Any untagged message.
    pub const UNTAGGED: Self = Self { untagged: true, ..Self::ANY };

    /// Messages with this tag, from any sender.
    pub const fn tag(tag: u64) -> Self {
        Self { tag, ignore: 0, ..Self::ANY }
    }

    /// Only those of one peer.
    #[must_use]
    pub const fn from(self, peer: Peer) -> Self {
        Self { from: Some(peer), ..self }
    }

    pub(crate) fn selector(self) -> Selector {
        let Self { from, tag, ignore, untagged } = self;
        Selector { source: from.map(|peer| peer.0), tag, ignore, untagged }
    }
}

/// The end of an operation.
#[derive(Debug)]
#[non_exhaustive]
pub struct Completion {
    /// The operation; [`OpId::INJECTED`] for a message that was [injected](crate::Endpoint::inject)
    /// and is lost.
    ///
    /// An operation gives its id up when it ends, and not when its completion is taken. So when
    /// thousands of completions wait, those of two operations may have the same id. They come in
    /// the order in which the operations ended. A program with a table by id takes completions
    /// until the id of its new operation is not in the table any more.
    pub id: OpId,
    /// The other end; `None` for a receive that was cancelled.
    pub peer: Option<Peer>,
    /// Messages: the tag.
    pub tag: u64,
    /// Receives: the number that the sender added, if any ([`Label::with_data`]).
    pub data: Option<u64>,
    /// Bytes that were transferred.
    pub len: usize,
    /// Receives: bytes of the message as it was sent.
    pub total: usize,
    /// Receives of [several messages](crate::Endpoint::start_recv_several): where in the memory
    /// this one begins.
    pub at: usize,
    /// Atomic changes that fetch: the first number that was there before, with zeros above it. The
    /// memory has all.
    pub value: u64,
    /// The memory that the operation was given. A receive of several messages has it in its last
    /// completion.
    pub memory: Option<Memory>,
    /// How it ended.
    pub result: Result<(), OpError>,
}

impl From<TransferCompletion<Memory>> for Completion {
    fn from(ended: TransferCompletion<Memory>) -> Self {
        let TransferCompletion { id, peer, tag, data, len, total, at, value, memory, result } =
            ended;
        Self { id, peer: peer.map(Peer), tag, data, len, total, at, value, memory, result }
    }
}

/// A peer has written into a registered memory and asked for this notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// The writer.
    pub peer: Peer,
    /// The key of the memory.
    pub key: RegionKey,
    /// First byte that was written.
    pub offset: u64,
    /// How many bytes.
    pub len: u32,
    /// The number that the writer added.
    pub value: u64,
}

impl From<gigae_transfer::TransferNotice> for Notice {
    fn from(notice: gigae_transfer::TransferNotice) -> Self {
        let gigae_transfer::TransferNotice { peer, key, offset, len, value } = notice;
        Self { peer: Peer(peer), key, offset, len, value }
    }
}

/// The result of starting an operation: its id, or an error that has the memory. The id may be that
/// of an operation whose completion [waits](Completion::id).
pub type Started = Result<OpId, OperationError>;
