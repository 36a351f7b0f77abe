//! What goes into a [`crate::Protocol`] and what comes out.

use crate::Reason;
use gigae_wire::{Epoch, Header, NodeAddr, PathAddr, PathId};

/// Identifies a peer: an endpoint on a node, on one channel. Each has its own session, so channels
/// do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerKey {
    /// The node.
    pub node: NodeAddr,
    /// Port id of the endpoint on that node.
    pub port: u16,
    /// The channel.
    pub channel: u8,
}

/// Names a peer of this endpoint in short. Once the program can know an id, it is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// A received frame, as its link and its header describe it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The path by which it came, the first unless there are several.
    pub path: PathId,
    /// Who sent it.
    pub from: &'a NodeAddr,
    /// Its parsed header.
    pub header: &'a Header,
    /// Its payload, if it is a control frame. The payload of a data frame is in its buffer, and is
    /// not read.
    pub payload: &'a [u8],
}

impl Arrival<'_> {
    /// The endpoint that sent it, as its header says.
    pub(crate) fn key(&self) -> PeerKey {
        let Header { src_port: port, channel, .. } = *self.header;
        PeerKey { node: *self.from, port, channel }
    }
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To a peer in the table.
    Peer(PeerId),
    /// To a node that is not in the table (only replies).
    Unknown(PeerKey),
}

/// A frame to put on the wire.
#[derive(Debug)]
pub struct Transmit<'a, T> {
    /// Where to.
    pub to: Destination,
    /// The path to send it by, the first unless there are several.
    pub path: PathId,
    /// It should go before others in switches.
    pub first: bool,
    /// Its header, not yet sealed.
    pub header: Header,
    /// Its payload.
    pub body: Body<'a, T>,
}

/// A data frame to put on the wire.
#[derive(Debug)]
pub struct DataFrame<'a, T> {
    /// Where to.
    pub to: PeerId,
    /// The path to send it by, the first unless there are several.
    pub path: PathId,
    /// It is longer than a frame of that path, so it goes in Part frames (rule 13.4).
    pub in_parts: bool,
    /// It should go before others in switches.
    pub first: bool,
    /// Its header, not yet sealed.
    pub header: Header,
    /// Its buffer. It stays in the window until the frame is acknowledged or fails.
    pub buffer: &'a mut T,
}

/// The payload of a frame to transmit.
#[derive(Debug)]
pub enum Body<'a, T> {
    /// A message. The buffer stays in the window until the message is acknowledged or fails.
    Message(&'a mut T),
    /// A control frame with these bytes, padded with zeros up to this length if that is more.
    Control(&'a [u8], u16),
}

/// A message that arrived, in order.
#[derive(Clone, Debug, Hash)]
pub struct Delivery<R> {
    /// From whom.
    pub peer: PeerId,
    /// The session that it came in. Pass it when releasing the message.
    pub epoch: Epoch,
    /// The buffer given to [`Protocol::handle`](crate::Protocol::handle).
    pub buffer: R,
}

/// The address by which one path leads to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathTo {
    /// The peer.
    pub peer: PeerId,
    /// The path, which is not the first: by that the address is the node of the peer's key.
    pub path: PathId,
    /// The node's address there.
    pub addr: PathAddr,
    /// It is a socket to which datagrams come one by one, so each says where in its frame it
    /// belongs.
    pub uncoalesced: bool,
}

/// A session that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndedSession {
    /// With whom it was.
    pub peer: PeerId,
    /// This end's epoch of it.
    pub epoch: Epoch,
    /// Why.
    pub reason: Reason,
}

/// A message that failed: no acknowledgement will come.
#[derive(Clone, Debug, Hash)]
pub struct FailedSend<T> {
    /// To whom it was.
    pub peer: PeerId,
    /// Why.
    pub reason: Reason,
    /// Its buffer.
    pub buffer: T,
}

/// A message was not admitted; its buffer comes back.
#[derive(Debug)]
pub enum Unsent<T> {
    /// The window towards this peer is full.
    WouldBlock(T),
    /// Longer than this peer can receive, which is this many bytes.
    TooLong(T, u16),
    /// Earlier messages to this peer have failed, and
    /// [`Protocol::poll_failure`](crate::Protocol::poll_failure) has not taken them yet. So no
    /// failure goes unnoticed.
    Failed(T),
}
