//! A link whose frames an observer captures. It takes the place of the link itself while the
//! capture lasts, so capturing costs nothing at other times.

use crate::link::AnyLink;
use gigae_link::{
    FrameMemory, Held, Info, Link, LinkCounters, LinkError, Posted, RxFrame, Segment, TxFrame,
};
use gigae_observe::{Direction, Tap};
use gigae_shm::ShmLink;
use gigae_udp::{BulkLink, UdpLink};
use gigae_wire::PathId;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// See the module's description.
pub(crate) struct Tapped {
    /// Only taken out where the two change places.
    link: Option<AnyLink>,
    capture: LinkTap,
}

/// Where frames are written to.
struct LinkTap {
    tap: Tap,
    /// The link's path.
    path: PathId,
    /// Bytes of a frame in segments so far.
    segments: Vec<u8>,
}

impl LinkTap {
    /// The next segment of a frame. With the last one, the whole frame is written.
    fn add(&mut self, bytes: &[u8], direction: Direction, segment: Segment) {
        if segment == Segment::Last && self.segments.is_empty() {
            return self.tap.frame(direction, self.path.index(), bytes);
        }
        self.segments.extend_from_slice(bytes);
        if segment == Segment::Last {
            self.tap.frame(direction, self.path.index(), &self.segments);
            self.segments.clear();
        }
    }
}

impl AnyLink {
    /// Captures all frames from now on.
    pub(crate) fn tap(&mut self, tap: Tap, path: PathId) {
        if matches!(self, Self::Tapped(_)) {
            return;
        }
        let capture = LinkTap { tap, path, segments: Vec::new() };
        let tapped = Tapped { link: None, capture };
        let link = std::mem::replace(self, Self::Tapped(Box::new(tapped)));
        if let Self::Tapped(tapped) = self {
            tapped.link = Some(link);
        }
    }

    /// Is the link itself again.
    pub(crate) fn untap(&mut self) {
        if let Self::Tapped(tapped) = self {
            *self = tapped.link.take().expect("a tapped link has one");
        }
    }

    /// The link itself, if its frames within the node go through memory.
    pub(crate) fn local(&mut self) -> Option<&mut ShmLink<Self>> {
        match self {
            Self::Local(local) => Some(local),
            Self::Tapped(tapped) => tapped.link_mut().local(),
            _ => None,
        }
    }

    /// Whether there may be processes of this node whose frames go through memory.
    #[inline]
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Local(_) => true,
            Self::Tapped(tapped) => tapped.link().is_local(),
            _ => false,
        }
    }

    /// The link itself, if it is a socket for bulk data.
    pub(crate) fn bulk(&mut self) -> Option<&mut BulkLink> {
        match self {
            Self::Bulk(bulk) => Some(bulk),
            Self::Tapped(tapped) => tapped.link.as_mut()?.bulk(),
            _ => None,
        }
    }

    /// The link itself, if it is a UDP socket for frames.
    pub(crate) fn udp(&mut self) -> Option<&mut UdpLink> {
        match self {
            Self::Udp(udp) => Some(udp),
            Self::Tapped(tapped) => tapped.link_mut().udp(),
            Self::Local(local) => local.inner_mut().udp(),
            _ => None,
        }
    }

    /// The link itself.
    pub(crate) fn plain(&self) -> &AnyLink {
        match self {
            Self::Tapped(tapped) => tapped.link().plain(),
            Self::Local(local) => local.inner().plain(),
            plain => plain,
        }
    }
}

impl Tapped {
    fn link(&self) -> &AnyLink {
        self.link.as_ref().expect("a tapped link has one")
    }

    fn link_mut(&mut self) -> &mut AnyLink {
        self.link.as_mut().expect("a tapped link has one")
    }

    fn split(&mut self) -> (&mut AnyLink, &mut LinkTap) {
        (self.link.as_mut().expect("a tapped link has one"), &mut self.capture)
    }
}

/// Never inlined: it is seldom there, and has a link like itself inside.
impl Link for Tapped {
    fn info(&self) -> &Info {
        self.link().info()
    }

    fn memory(&self) -> FrameMemory<'_> {
        self.link().memory()
    }

    #[inline(never)]
    fn take(&mut self) -> Option<TxFrame> {
        self.link_mut().take()
    }

    #[inline(never)]
    fn post(&mut self, frame: TxFrame, bytes: Range<usize>, segment: Segment) -> Posted {
        let (link, capture) = self.split();
        // The link refuses what is out of bounds.
        if let Some(bytes) = link.memory().arena.unsent_bytes(&frame).get(bytes.clone()) {
            capture.add(bytes, Direction::Out, segment);
        }
        link.post(frame, bytes, segment)
    }

    #[inline(never)]
    fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted> {
        self.link_mut().reclaim(frame)
    }

    #[inline(never)]
    fn release(&mut self, frame: Held) {
        self.link_mut().release(frame);
    }

    #[inline(never)]
    fn flush(&mut self) -> Result<bool, LinkError> {
        self.link_mut().flush()
    }

    #[inline(never)]
    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError> {
        let before = batch.len();
        let (link, capture) = self.split();
        let count = link.poll(batch, max)?;
        for frame in &batch[before..] {
            let segment = if frame.continues() { Segment::More } else { Segment::Last };
            capture.add(link.memory().received(frame), Direction::In, segment);
        }
        Ok(count)
    }

    #[inline(never)]
    fn has_arrived(&mut self) -> bool {
        self.link_mut().has_arrived()
    }

    fn unsent(&self) -> Option<usize> {
        self.link().unsent()
    }

    #[inline(never)]
    fn recycle(&mut self, frame: RxFrame) {
        self.link_mut().recycle(frame);
    }

    fn provide(&mut self, frames: usize) {
        self.link_mut().provide(frames);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        self.link_mut().wait(timeout)
    }

    fn prepare_to_wait(&mut self) -> bool {
        self.link_mut().prepare_to_wait()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link().fd()
    }

    fn counters(&self) -> LinkCounters {
        self.link().counters()
    }
}
