//! The links that an endpoint can have, as one type.
//!
//! A choice among known types instead of a trait object: on the way of a small message six
//! calls cross this border, and calls that the compiler knows can become part of their callers.
//! Only a backend of the program's own is a trait object.

use crate::tapped::Tapped;
use gigae_link::{
    FrameMemory, Held, Info, Link, LinkCounters, LinkError, Posted, RxFrame, Segment, TxFrame,
};
use gigae_packet::PacketLink;
use gigae_shm::ShmLink;
use gigae_sim::SimLink;
use gigae_udp::{BulkLink, UdpLink};
use gigae_xdp::XdpLink;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// See the module's description.
pub(crate) enum AnyLink {
    Xdp(Box<XdpLink>),
    Packet(Box<PacketLink>),
    Udp(Box<UdpLink>),
    Bulk(Box<BulkLink>),
    Simulated(Box<SimLink>),
    /// One of these, whose frames to endpoints of this node go through memory.
    Local(Box<ShmLink<AnyLink>>),
    /// One of these, whose frames an observer captures.
    Tapped(Box<Tapped>),
    /// A backend of the program's own.
    Own(Box<dyn Link>),
}

macro_rules! each {
    ($self:ident, $link:ident => $call:expr) => {
        match $self {
            AnyLink::Xdp($link) => $call,
            AnyLink::Packet($link) => $call,
            AnyLink::Udp($link) => $call,
            AnyLink::Bulk($link) => $call,
            AnyLink::Simulated($link) => $call,
            AnyLink::Local($link) => $call,
            AnyLink::Tapped($link) => $call,
            AnyLink::Own($link) => $call,
        }
    };
}

impl Link for AnyLink {
    fn info(&self) -> &Info {
        each!(self, link => link.info())
    }

    fn memory(&self) -> FrameMemory<'_> {
        each!(self, link => link.memory())
    }

    #[inline(always)]
    fn take(&mut self) -> Option<TxFrame> {
        each!(self, link => link.take())
    }

    #[inline(always)]
    fn post(&mut self, frame: TxFrame, bytes: Range<usize>, segment: Segment) -> Posted {
        each!(self, link => link.post(frame, bytes, segment))
    }

    #[inline(always)]
    fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted> {
        each!(self, link => link.reclaim(frame))
    }

    #[inline(always)]
    fn release(&mut self, frame: Held) {
        each!(self, link => link.release(frame));
    }

    #[inline]
    fn flush(&mut self) -> Result<bool, LinkError> {
        each!(self, link => link.flush())
    }

    #[inline]
    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError> {
        each!(self, link => link.poll(batch, max))
    }

    #[inline(always)]
    fn has_arrived(&mut self) -> bool {
        each!(self, link => link.has_arrived())
    }

    fn unsent(&self) -> Option<usize> {
        each!(self, link => link.unsent())
    }

    #[inline(always)]
    fn recycle(&mut self, frame: RxFrame) {
        each!(self, link => link.recycle(frame));
    }

    fn provide(&mut self, frames: usize) {
        each!(self, link => link.provide(frames));
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        each!(self, link => link.wait(timeout))
    }

    fn prepare_to_wait(&mut self) -> bool {
        each!(self, link => link.prepare_to_wait())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        each!(self, link => link.fd())
    }

    fn counters(&self) -> LinkCounters {
        each!(self, link => link.counters())
    }
}
