//! Sockets that only send, each connected to one peer.
//!
//! For a buffer by such a socket, the kernel looks for no route and reads no control messages. That
//! saves some 0.6 us for each frame. They have ports of their own: what the peer sends comes to the
//! link's socket.
//!
//! A firewall may let only frames between the two ports pass that the ends have named. So a frame
//! that is repeated goes by the link's socket, and its peer's connected socket is closed. The next
//! one is opened after many more frames, and after fewer again when those by it arrive.

use super::heads::HeadPages;
use super::lending::Trial;
use crate::socket::UdpSocket;
use crate::transmit::QueuedFrame;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::net::{IpAddr, SocketAddr};
use tracing::debug;

/// Peers that are remembered. Those that get many frames have a socket.
const MOST: usize = 16;

/// Frames to a peer before it has a socket: opening one takes 14 system calls. The most, when
/// frames by it got lost.
const FIRST: u32 = 8;
const LAST: u32 = 4096;

/// Frames by a socket before data are lent: that takes memory for the peer.
const LENT_FROM: u32 = 32;

/// Frames by a socket after which it is trusted: more than a window holds, so that some of them
/// have been acknowledged.
const PROBATION: u32 = 512;

/// What lending data to the kernel needs for a peer.
#[derive(Debug, Default)]
pub(super) struct LendingTo {
    pub(super) trial: Trial,
    pub(super) pages: HeadPages,
}

/// A peer.
#[derive(Debug)]
struct ConnectedPeer {
    to: SocketAddr,
    from: IpAddr,
    /// Frames by the socket, or since it was closed.
    frames: u32,
    /// Frames after which the next one is opened.
    wanted: u32,
    socket: Option<OwnedFd>,
    lending: LendingTo,
}

impl ConnectedPeer {
    fn new(frame: &QueuedFrame) -> Self {
        let lending = LendingTo::default();
        Self { to: frame.to, from: frame.from, frames: 0, wanted: FIRST, socket: None, lending }
    }

    /// Closes it. Another one is opened after more frames.
    fn close(&mut self) {
        if self.socket.take().is_some() {
            self.wanted = (self.wanted * 8).min(LAST);
        }
        self.frames = 0;
    }
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Connected {
    /// The last used one is in front.
    peers: Vec<ConnectedPeer>,
}

impl Connected {
    /// The socket by which a frame goes, if there is one for it: not the link's. And what
    /// lending data needs, if they may be lent.
    #[inline]
    pub(super) fn socket_for(
        &mut self,
        frame: &QueuedFrame,
        link: &UdpSocket,
        unit: u16,
    ) -> Option<(BorrowedFd<'_>, Option<&mut LendingTo>)> {
        let is_its = |peer: &ConnectedPeer| peer.to == frame.to && peer.from == frame.from;
        if !self.peers.first().is_some_and(is_its) {
            self.bring_to_front(frame, self.peers.iter().position(is_its));
        }
        let peer = &mut self.peers[0];
        if frame.repeated {
            peer.close();
            return None;
        }
        peer.frames = peer.frames.saturating_add(1);
        if peer.socket.is_some() {
            if peer.frames == PROBATION {
                peer.wanted = FIRST;
            }
        } else if peer.frames >= peer.wanted {
            peer.frames = 0;
            match link.connected(peer.from, peer.to, unit) {
                Ok(socket) => peer.socket = Some(socket),
                // For instance a thread of another network namespace.
                Err(error) => {
                    peer.wanted = (peer.wanted * 8).min(LAST);
                    debug!(to = %peer.to, %error, "no connected socket for bulk data");
                }
            }
        }
        let lending = (peer.frames >= LENT_FROM).then_some(&mut peer.lending);
        Some((peer.socket.as_ref()?.as_fd(), lending))
    }

    /// The kernel has refused the last frame.
    #[cold]
    pub(super) fn refused(&mut self) {
        self.peers[0].close();
    }

    #[inline(never)]
    fn bring_to_front(&mut self, frame: &QueuedFrame, at: Option<usize>) {
        let peer = match at {
            Some(at) => self.peers.remove(at),
            None => {
                self.peers.truncate(MOST - 1);
                ConnectedPeer::new(frame)
            }
        };
        self.peers.insert(0, peer);
    }
}
