//! What a program has started, and how it ended.

use crate::memory::{Bytes, RegionKey};
use gigae_proto::{PeerId, Reason};
use gigae_wire::op::{Change, Label, Status};
use std::fmt;

/// Names an operation of this endpoint that is not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub(crate) u32);

impl OpId {
    /// What the completion of a message names that was [injected](crate::Transfer::inject), and lost with its peer.
    pub const INJECTED: Self = Self(u32::MAX);
}

/// Why an operation did not do what it was to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpError {
    /// The message was longer than the memory: its beginning is there.
    Truncated,
    /// It was cancelled before anything had happened.
    Cancelled,
    /// The peer was lost. How much had been done is not known.
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
                "the peer has no memory registered under this key; ask it for the present one",
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
pub struct Completion<M> {
    /// Which.
    pub id: OpId,
    /// With whom; `None` for a receive that was cancelled.
    pub peer: Option<PeerId>,
    /// Messages: the tag.
    pub tag: u64,
    /// Receives: the sender's word.
    pub data: Option<u64>,
    /// Bytes that were transferred.
    pub len: usize,
    /// Receives: bytes of the message as it was sent.
    pub total: usize,
    /// Receives of [several messages](crate::Transfer::receive_several): where in the memory this one begins.
    pub at: usize,
    /// Atomic changes that fetch: the first number that was there before, with zeros above it. The memory has all.
    pub value: u64,
    /// The memory that the operation was given. A receive of several messages has it in its last completion.
    pub memory: Option<M>,
    /// How it ended.
    pub result: Result<(), OpError>,
}

impl<M> Completion<M> {
    /// The end of an operation of which nothing else is known.
    pub(crate) fn of(id: OpId, peer: Option<PeerId>, result: Result<(), OpError>) -> Self {
        let (tag, data, len, total, at, value, memory) = (0, None, 0, 0, 0, 0, None);
        Self { id, peer, tag, data, len, total, at, value, memory, result }
    }

    /// The end of an injected message that was lost.
    pub(crate) fn injected(peer: PeerId, reason: Reason) -> Self {
        Self::of(OpId::INJECTED, Some(peer), Err(OpError::Lost(reason)))
    }
}

/// Somebody has written into a registered memory and wants it known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Who.
    pub peer: PeerId,
    /// Into which.
    pub key: RegionKey,
    /// First byte.
    pub offset: u64,
    /// How many.
    pub len: u32,
    /// The writer's word.
    pub value: u64,
}

/// An operation and how far it is.
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
    },
    /// Without memory, it was given up: its bytes are dropped.
    Read {
        peer: PeerId,
        memory: Option<M>,
        len: u32,
        key: u64,
        offset: u64,
        got: u32,
    },
    /// Without memory, it was given up.
    Atomic {
        peer: PeerId,
        memory: Option<M>,
        key: u64,
        offset: u64,
        change: Change,
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
    /// Its bytes were put into frames or are about to be; so many that the peer wants.
    Going(u32),
}

#[derive(Debug)]
pub(crate) struct Receive<M> {
    pub(crate) target: Target<M>,
    /// Bytes for which there is room.
    pub(crate) room: u32,
    pub(crate) matched: Option<Matched>,
}

/// Where the bytes of a message go.
#[derive(Debug)]
pub(crate) enum Target<M> {
    Own(M),
    /// Into the memory of a receive of several messages, from this byte on.
    Part {
        of: u32,
        at: u32,
    },
    /// Nowhere: the receive was given up.
    Dropped,
}

/// A receive of several messages, each behind the one before.
#[derive(Debug)]
pub(crate) struct MultiReceive<M> {
    pub(crate) memory: M,
    /// Less room than this is not used.
    pub(crate) least: u32,
    /// Bytes that messages were given.
    pub(crate) used: u32,
    /// Messages that are arriving.
    pub(crate) arriving: u32,
    pub(crate) state: MultiReceiveState,
}

/// One message of a receive of several.
#[derive(Debug)]
pub(crate) struct Part<M> {
    pub(crate) id: u32,
    pub(crate) peer: PeerId,
    /// It is over, but an earlier one of the same sender is not.
    pub(crate) ended: Option<Completion<M>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MultiReceiveState {
    /// The next message is wanted.
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
    /// They come because they were asked for.
    pub(crate) pulled: bool,
}

impl<M: Bytes> Operation<M> {
    /// With whom, as far as that is decided.
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

    /// The end of it, unless it was given up: then that was told.
    pub(crate) fn complete(self, id: u32, result: Result<(), OpError>) -> Option<Completion<M>> {
        let nothing = Completion::of(OpId(id), self.peer(), result);
        Some(match self {
            Self::Send(send) => {
                let len = match send.state {
                    SendState::Going(len) => len as usize,
                    _ => 0,
                };
                let total = send.memory.len();
                let (tag, memory) = (send.label.tag, Some(send.memory));
                Completion { tag, len, total, memory, ..nothing }
            }
            Self::Receive(Receive { target, room, matched }) => {
                let (id, at, memory) = match target {
                    Target::Own(memory) => (OpId(id), 0, Some(memory)),
                    Target::Part { of, at } => (OpId(of), at as usize, None),
                    Target::Dropped => return None,
                };
                let Some(Matched { label: Label { tag, data, .. }, total, got, .. }) = matched
                else {
                    return Some(Completion { memory, ..nothing });
                };
                let result = match result {
                    Ok(()) if total > room => Err(OpError::Truncated),
                    other => other,
                };
                let (len, total) = (got.min(room) as usize, total as usize);
                Completion { id, tag, data, len, total, at, memory, result, ..nothing }
            }
            Self::MultiReceive(several) => Completion { memory: Some(several.memory), ..nothing },
            Self::Write { memory, .. } | Self::Read { memory: Some(memory), .. } => {
                let len = if result.is_ok() { memory.len() } else { 0 };
                Completion { len, total: memory.len(), memory: Some(memory), ..nothing }
            }
            Self::Atomic { memory: Some(memory), change, .. } => {
                let mut value = [0; 8];
                let len = if result.is_ok() { change.len() } else { 0 };
                if result.is_ok() && change.fetches() {
                    memory.read(0, &mut value[..change.number().size()]);
                }
                let value = u64::from_le_bytes(value);
                Completion { len, total: len, value, memory: Some(memory), ..nothing }
            }
            Self::Read { memory: None, .. } | Self::Atomic { memory: None, .. } => return None,
        })
    }
}
