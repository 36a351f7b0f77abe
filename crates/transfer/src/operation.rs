//! What a program has started, and how it ended.

use crate::memory::{Memory, RegionKey};
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
                "the bytes are not all within the remote memory, or not aligned; check offset and length",
            ),
            Self::Refused(Status::Rights) => f.write_str(
                "the remote memory was registered without the right to do this",
            ),
            Self::Refused(Status::Busy) => f.write_str(
                "the peer has not taken its notices; try again when it has",
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
    /// Atomic changes: what was there before.
    pub value: u64,
    /// The memory that the operation was given.
    pub memory: Option<M>,
    /// How it ended.
    pub result: Result<(), OpError>,
}

impl<M> Completion<M> {
    /// The end of an injected message that was lost.
    pub(crate) fn injected(peer: PeerId, reason: Reason) -> Self {
        let (tag, data, len, total, value, memory) = (0, None, 0, 0, 0, None);
        let (id, peer, result) = (OpId::INJECTED, Some(peer), Err(OpError::Lost(reason)));
        Self { id, peer, tag, data, len, total, value, memory, result }
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
    Write { peer: PeerId, memory: M, key: u64, offset: u64, at: u32, notice: Option<u64> },
    Read { peer: PeerId, memory: M, key: u64, offset: u64, got: u32 },
    Atomic { peer: PeerId, key: u64, offset: u64, change: Change },
}

#[derive(Debug)]
pub(crate) struct Send<M> {
    pub(crate) peer: PeerId,
    pub(crate) label: Label,
    pub(crate) memory: M,
    pub(crate) state: Sending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
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
    pub(crate) memory: M,
    pub(crate) matched: Option<Matched>,
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

impl<M: Memory> Operation<M> {
    /// With whom, as far as that is decided.
    pub(crate) fn peer(&self) -> Option<PeerId> {
        match self {
            Self::Send(Send { peer, .. })
            | Self::Write { peer, .. }
            | Self::Read { peer, .. }
            | Self::Atomic { peer, .. } => Some(*peer),
            Self::Receive(receive) => receive.matched.map(|m| m.peer),
        }
    }

    /// The end of it.
    pub(crate) fn complete(self, id: u32, result: Result<(), OpError>) -> Completion<M> {
        let peer = self.peer();
        let (id, value) = (OpId(id), 0);
        let (tag, data, len, total, memory) = (0, None, 0, 0, None);
        let nothing = Completion { id, peer, tag, data, len, total, value, memory, result };
        match self {
            Self::Send(send) => {
                let len = match send.state {
                    Sending::Going(len) => len as usize,
                    _ => 0,
                };
                let total = send.memory.len();
                let (tag, memory) = (send.label.tag, Some(send.memory));
                Completion { tag, len, total, memory, ..nothing }
            }
            Self::Receive(Receive { memory, matched: None, .. }) => {
                Completion { memory: Some(memory), ..nothing }
            }
            Self::Receive(Receive { memory, matched: Some(m), .. }) => {
                let (total, len) = (m.total as usize, (m.got as usize).min(memory.len()));
                let result = match result {
                    Ok(()) if total > memory.len() => Err(OpError::Truncated),
                    other => other,
                };
                let Label { tag, data, .. } = m.label;
                Completion { tag, data, len, total, memory: Some(memory), result, ..nothing }
            }
            Self::Write { memory, .. } | Self::Read { memory, .. } => {
                let len = if result.is_ok() { memory.len() } else { 0 };
                Completion { len, total: memory.len(), memory: Some(memory), ..nothing }
            }
            Self::Atomic { .. } => nothing,
        }
    }
}
