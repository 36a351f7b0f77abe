//! Operations that a program has started, and how they ended.

use crate::memory::{Bytes, RegionKey};
use gigae_proto::{PeerId, Reason};
use gigae_wire::Pieces;
use gigae_wire::op::{Change, Label, Status};
use std::fmt;

/// Names an operation of this endpoint. A number comes again after 4,094 uses of its place, also
/// while completions of the operation that had it wait to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub(crate) u32);

impl OpId {
    /// The id in the completion of a message that was [injected](crate::Transfer::inject) and lost
    /// with its peer.
    pub const INJECTED: Self = Self(u32::MAX);
}

/// Why an operation failed. The memory of a receive or a read that has failed is undefined beyond
/// the bytes that its completion counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpError {
    /// The message was longer than the memory, which now has the beginning of it.
    Truncated,
    /// The program cancelled it before anything had happened.
    Cancelled,
    /// The peer was lost. It is not known how much was done.
    Lost(Reason),
    /// The owner of the remote memory refused; nothing was done.
    Refused(Status),
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str(
                "the message is longer than the memory that it was received into; post more",
            ),
            Self::Cancelled => f.write_str("it was cancelled"),
            Self::Lost(reason) => reason.fmt(f),
            Self::Refused(Status::Key) => f.write_str(
                "the peer has no memory registered under this key; ask it for the current key",
            ),
            Self::Refused(Status::Bounds) => f.write_str(
                "the bytes are not all within the remote memory; check offset and length",
            ),
            Self::Refused(Status::Rights) => f.write_str(
                "the remote memory was registered without the right to do this",
            ),
            Self::Refused(Status::Busy) => f.write_str(
                "the peer has not taken its notices, or it was given too many wrong keys; try again later",
            ),
            Self::Refused(Status::Ok) => f.write_str("it was not refused"),
        }
    }
}

impl std::error::Error for OpError {}

/// The end of an operation.
#[derive(Debug)]
pub struct TransferCompletion<M> {
    /// Which operation.
    pub id: OpId,
    /// With whom; `None` for a receive that was cancelled.
    pub peer: Option<PeerId>,
    /// For messages: the tag.
    pub tag: u64,
    /// For receives: the sender's word.
    pub data: Option<u64>,
    /// Bytes that were transferred.
    pub len: usize,
    /// For receives: bytes of the message as it was sent.
    pub total: usize,
    /// For receives of [several messages](crate::Transfer::receive_several): where in the memory
    /// this one begins.
    pub at: usize,
    /// For atomic changes that fetch: the first former value, padded with zeros. The memory has all
    /// of them.
    pub value: u64,
    /// The memory of the operation. A receive of several messages returns it in its last
    /// completion.
    pub memory: Option<M>,
    /// How it ended.
    pub result: Result<(), OpError>,
}

impl<M> TransferCompletion<M> {
    /// The end of an operation, without details.
    pub(crate) fn of(id: OpId, peer: Option<PeerId>, result: Result<(), OpError>) -> Self {
        let (tag, data, len, total, at, value, memory) = (0, None, 0, 0, 0, 0, None);
        Self { id, peer, tag, data, len, total, at, value, memory, result }
    }

    /// The end of a lost injected message.
    pub(crate) fn injected(peer: PeerId, reason: Reason) -> Self {
        Self::of(OpId::INJECTED, Some(peer), Err(OpError::Lost(reason)))
    }
}

/// A peer has written into a registered memory and asked for this notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferNotice {
    /// The writer.
    pub peer: PeerId,
    /// The memory.
    pub key: RegionKey,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u32,
    /// The writer's word.
    pub value: u64,
}

/// An operation and its progress.
#[derive(Debug)]
pub(crate) enum Operation<M> {
    Send(Send<M>),
    Receive(Receive<M>),
    MultiReceive(MultiReceive<M>),
    Write {
        peer: PeerId,
        memory: M,
        key: u64,
        offset: u64,
        at: u32,
        notice: Option<u64>,
        /// Some of it went into a frame. Until then the peer has nothing to answer.
        begun: bool,
    },
    /// Without memory, the program has cancelled it: its bytes are dropped.
    Read {
        peer: PeerId,
        memory: Option<M>,
        len: u32,
        key: u64,
        offset: u64,
        got: u32,
        /// See the one of a write.
        begun: bool,
    },
    /// Without memory, the program has cancelled it.
    Atomic {
        peer: PeerId,
        memory: Option<M>,
        key: u64,
        offset: u64,
        change: Change,
        /// See the one of a write.
        begun: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Send<M> {
    pub(crate) peer: PeerId,
    pub(crate) label: Label,
    pub(crate) memory: M,
    pub(crate) state: SendState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendState {
    /// Nothing of it has gone out.
    Queued,
    /// In parts, up to this byte.
    Parts(u32),
    /// Offered; the peer has not pulled it.
    Offered,
    /// Its bytes were put into frames or are about to be: as many as the peer wants.
    Going(u32),
}

#[derive(Debug)]
pub(crate) struct Receive<M> {
    pub(crate) target: ReceiveTarget<M>,
    /// Length of the memory.
    pub(crate) room: u32,
    pub(crate) matched: Option<Matched>,
}

impl<M> Receive<M> {
    /// Bytes of the message have arrived, which begin at `at`. Those that are beyond the memory are
    /// cut off.
    #[inline]
    pub(crate) fn fitting<'a>(&mut self, at: usize, mut data: Pieces<'a>) -> Option<Pieces<'a>> {
        if let Some(matched) = &mut self.matched {
            matched.got += data.len() as u32;
        }
        let room = (self.room as usize).saturating_sub(at).min(data.len());
        data.split(room).filter(|fitting| !fitting.is_empty())
    }

    /// See [`Operation::complete`].
    #[inline]
    pub(crate) fn complete(
        self,
        id: u32,
        result: Result<(), OpError>,
    ) -> Option<TransferCompletion<M>> {
        let Self { target, room, matched } = self;
        let (id, at, memory) = match target {
            ReceiveTarget::Own(memory) => (OpId(id), 0, Some(memory)),
            ReceiveTarget::Part { of, at, .. } => (OpId(of), at as usize, None),
            ReceiveTarget::Dropped => return None,
        };
        let nothing = TransferCompletion::of(id, matched.map(|m| m.peer), result);
        let Some(Matched { label: Label { tag, data, .. }, total, got, .. }) = matched else {
            return Some(TransferCompletion { memory, ..nothing });
        };
        let result = match result {
            Ok(()) if total > room => Err(OpError::Truncated),
            other => other,
        };
        let (len, total) = (got.min(room) as usize, total as usize);
        Some(TransferCompletion { tag, data, len, total, at, memory, result, ..nothing })
    }
}

/// Where the bytes of a message go.
#[derive(Debug)]
pub(crate) enum ReceiveTarget<M> {
    Own(M),
    /// Into the memory of a receive of several messages, from this byte on.
    Part {
        of: u32,
        at: u32,
        /// See [`Parts`](crate::parts::Parts).
        number: u32,
    },
    /// Nowhere: the program cancelled the receive.
    Dropped,
}

/// A receive of several messages, each placed behind the one before.
#[derive(Debug)]
pub(crate) struct MultiReceive<M> {
    pub(crate) memory: M,
    /// With less room than this, the receive takes no further message.
    pub(crate) least: u32,
    /// Bytes that the messages so far occupy.
    pub(crate) used: u32,
    /// Messages that are arriving.
    pub(crate) arriving: u32,
    pub(crate) state: MultiReceiveState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MultiReceiveState {
    /// It takes the next message.
    Open,
    /// There is no room for another.
    Full,
    Cancelled,
}

/// The message that a receive was matched with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matched {
    pub(crate) peer: PeerId,
    pub(crate) label: Label,
    pub(crate) total: u32,
    /// Bytes that have arrived.
    pub(crate) got: u32,
    pub(crate) source: DataSource,
}

impl Matched {
    /// A message that begins to arrive.
    #[inline]
    pub(crate) fn new(peer: PeerId, label: Label, total: u32) -> Self {
        Self { peer, label, total, got: 0, source: DataSource::Parts }
    }

    /// Whether its bytes come because this end asks for them.
    pub(crate) fn is_pulled(&self) -> bool {
        self.source == DataSource::Pulled
    }
}

/// How the bytes of a message come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataSource {
    /// The sender sends them without a request.
    Parts,
    /// This end has asked for them.
    Pulled,
    /// This end reads them in the sender's memory.
    Lent(Offer),
    /// It has done so, and waits for the sender to confirm that they were the message's.
    Taken,
}

/// A message that waits at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// The sender's number for it.
    pub(crate) id: u32,
    /// Where it begins, if this end may read it there.
    pub(crate) at: Option<u64>,
}

impl<M: Bytes> Operation<M> {
    /// The peer, as far as it is known.
    pub(crate) fn peer(&self) -> Option<PeerId> {
        match self {
            Self::Send(Send { peer, .. })
            | Self::Write { peer, .. }
            | Self::Read { peer, .. }
            | Self::Atomic { peer, .. } => Some(*peer),
            Self::Receive(receive) => receive.matched.map(|m| m.peer),
            Self::MultiReceive(_) => None,
        }
    }

    /// Whether the peer was asked for its data.
    #[inline]
    pub(crate) fn asks(&self) -> bool {
        match self {
            Self::Receive(receive) => receive.matched.is_some_and(|m| m.is_pulled()),
            Self::Read { begun, .. } => *begun,
            _ => false,
        }
    }

    /// The number of a message of a receive of several.
    #[inline]
    pub(crate) fn part_number(&self) -> Option<u32> {
        match self {
            Self::Receive(Receive { target: ReceiveTarget::Part { number, .. }, .. }) => {
                Some(*number)
            }
            _ => None,
        }
    }

    /// The completion of it. `None` if the program cancelled it earlier: it was reported then.
    pub(crate) fn complete(
        self,
        id: u32,
        result: Result<(), OpError>,
    ) -> Option<TransferCompletion<M>> {
        let nothing = TransferCompletion::of(OpId(id), self.peer(), result);
        Some(match self {
            Self::Send(send) => {
                let len = match send.state {
                    SendState::Going(len) => len as usize,
                    _ => 0,
                };
                let total = send.memory.len();
                let (tag, memory) = (send.label.tag, Some(send.memory));
                TransferCompletion { tag, len, total, memory, ..nothing }
            }
            Self::Receive(receive) => return receive.complete(id, result),
            Self::MultiReceive(several) => {
                TransferCompletion { memory: Some(several.memory), ..nothing }
            }
            Self::Write { memory, .. } | Self::Read { memory: Some(memory), .. } => {
                let len = if result.is_ok() { memory.len() } else { 0 };
                TransferCompletion { len, total: memory.len(), memory: Some(memory), ..nothing }
            }
            Self::Atomic { memory: Some(memory), change, .. } => {
                let mut value = [0; 8];
                let len = if result.is_ok() { change.len() } else { 0 };
                if result.is_ok() && change.fetches() {
                    memory.read(0, &mut value[..change.number().size()]);
                }
                let value = u64::from_le_bytes(value);
                TransferCompletion { len, total: len, value, memory: Some(memory), ..nothing }
            }
            Self::Read { memory: None, .. } | Self::Atomic { memory: None, .. } => return None,
        })
    }
}
