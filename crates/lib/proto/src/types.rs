//! What goes into a [`crate::Protocol`] and what comes out.

use crate::Reason;
use gigae_wire::{Epoch, Header, NodeAddr};

/// Who a peer is: an endpoint on a node, on one channel. Each has a session of its own, so that
/// channels do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerKey {
    /// The node.
    pub node: NodeAddr,
    /// Port id of the endpoint on that node.
    pub port: u16,
    /// The channel.
    pub channel: u8,
}

/// Names a peer of this endpoint in short; never reused for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// A received frame, as its link and its headers describe it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The path that it came by: the number of the link, 0 unless there are several.
    pub path: usize,
    /// Who sent it.
    pub from: &'a NodeAddr,
    /// Its parsed header.
    pub header: &'a Header,
    /// Its payload, if it is a control frame: that of a data frame is in its buffer, and not looked at.
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
    /// To somebody who is not in the table (only resets).
    Stranger(PeerKey),
}

/// A frame to put on the wire.
#[derive(Debug)]
pub struct Transmit<'a, T> {
    /// Where to.
    pub to: Destination,
    /// By which path: the number of the link, 0 unless there are several.
    pub path: usize,
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
    /// By which path: the number of the link, 0 unless there are several.
    pub path: usize,
    /// Its header, not yet sealed.
    pub header: Header,
    /// Its buffer, which stays in the window until it is acknowledged or failed.
    pub buffer: &'a mut T,
}

/// The payload of a frame to transmit.
#[derive(Debug)]
pub enum Body<'a, T> {
    /// A message; the buffer stays in the window until it is acknowledged or failed.
    Message(&'a mut T),
    /// A control frame with these bytes, followed by zeros up to this length in bytes if that is more.
    Control(&'a [u8], u16),
}

/// A message that arrived, in order.
#[derive(Clone, Debug, Hash)]
pub struct Delivery<R> {
    /// From whom.
    pub peer: PeerId,
    /// The session that it came in; say so when it is released.
    pub epoch: Epoch,
    /// The buffer given to [`Protocol::handle`](crate::Protocol::handle).
    pub buffer: R,
}

/// Where a path leads: what goes to a peer by it has this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathTo {
    /// The peer.
    pub peer: PeerId,
    /// The path, 1 to 7: by path 0 it is the node of the peer's key.
    pub path: usize,
    /// The node's address there.
    pub node: NodeAddr,
}

/// A session that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ended {
    /// With whom it was.
    pub peer: PeerId,
    /// This end's epoch of it.
    pub epoch: Epoch,
    /// Why.
    pub reason: Reason,
}

/// A message that was not acknowledged and will not be.
#[derive(Clone, Debug, Hash)]
pub struct Failure<T> {
    /// To whom it was.
    pub peer: PeerId,
    /// Why.
    pub reason: Reason,
    /// Its buffer.
    pub buffer: T,
}

/// A message was not admitted; its buffer comes back.
#[derive(Debug)]
pub enum SendError<T> {
    /// The window towards this peer is full.
    WouldBlock(T),
    /// Longer than this peer can receive, which is so many bytes.
    TooLong(T, u16),
    /// Earlier messages to this peer have failed and were not taken by
    /// [`Protocol::poll_failure`](crate::Protocol::poll_failure) yet; so nothing is lost unnoticed.
    Failed(T),
}
