//! The two ways in which frames are received.

use crate::calls::RxCalls;
use crate::ring::{Layout, RxRing, map};
use crate::socket::PacketSocket;
use gigae_link::{Arena, OpenError, RxFrame};
use std::sync::Arc;

/// How frames are received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receive {
    /// By a ring that the kernel and this process share: a poll makes no system call. The kernel
    /// waits for a grace period when it makes the ring, and for another one when it removes it:
    /// some 30 ms together (decision 101).
    #[default]
    Ring,
    /// By a system call for up to 16 frames. For links that live only for a moment.
    Calls,
}

/// The receiving half of a link.
#[derive(Debug)]
pub(crate) enum Reception {
    Ring(RxRing),
    Calls(RxCalls),
}

impl Reception {
    pub(crate) fn new(
        receive: Receive,
        socket: &PacketSocket,
        layout: &Layout,
    ) -> Result<Self, OpenError> {
        match receive {
            Receive::Ring => RxRing::map(socket, layout).map(Self::Ring),
            Receive::Calls => {
                socket.allow_waiting(2 * layout.rx_slots * layout.slot);
                Ok(Self::Calls(RxCalls::new(Arc::new(map(layout, None)?), layout)))
            }
        }
    }

    #[inline]
    pub(crate) fn arena(&self) -> &Arc<Arena> {
        match self {
            Self::Ring(ring) => ring.arena(),
            Self::Calls(calls) => calls.arena(),
        }
    }

    /// Whether a frame has arrived, and there is room for it.
    #[inline]
    pub(crate) fn ready(&mut self, socket: &PacketSocket) -> bool {
        match self {
            Self::Ring(ring) => ring.ready(),
            Self::Calls(calls) => calls.ready(socket),
        }
    }

    /// Whether frames may wait that have no room. They keep the socket readable.
    pub(crate) fn is_waiting(&self) -> bool {
        match self {
            Self::Ring(ring) => ring.is_waiting(),
            Self::Calls(calls) => calls.is_full(),
        }
    }

    /// The next frame, if one has arrived.
    #[inline]
    pub(crate) fn pop(&mut self, socket: &PacketSocket) -> Option<RxFrame> {
        match self {
            Self::Ring(ring) => ring.pop(),
            Self::Calls(calls) => calls.pop(socket),
        }
    }

    /// Takes back a frame.
    ///
    /// # Panics
    /// If the frame is another link's.
    #[inline]
    pub(crate) fn recycle(&mut self, frame: RxFrame) {
        match self {
            Self::Ring(ring) => ring.recycle(frame),
            Self::Calls(calls) => calls.recycle(frame),
        }
    }
}
