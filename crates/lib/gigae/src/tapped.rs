//! A link whose frames an observer wants: in the place of the link itself for as long as that lasts, so
//! that frames of which nobody wants any pass no test for it.

use crate::link::AnyLink;
use gigae_link::{Arena, Counters, Info, Link, LinkError, Posted, RxFrame, TxFrame};
use gigae_observe::{Direction, Tap};
use gigae_wire::MacAddr;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// See the module's description.
pub(crate) struct Tapped {
    /// Only taken out where the two change places.
    link: Option<AnyLink>,
    tap: Tap,
    /// Its number among those of the endpoint.
    number: usize,
    /// Bytes of a frame in segments so far.
    segments: Vec<u8>,
}

impl AnyLink {
    /// Takes down what passes from now on.
    pub(crate) fn tap(&mut self, tap: Tap, number: usize) {
        if matches!(self, Self::Tapped(_)) {
            return;
        }
        let tapped = Tapped { link: None, tap, number, segments: Vec::new() };
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

    /// Whether frames to an address go through memory, and by nothing else.
    pub(crate) fn is_near(&mut self, mac: MacAddr) -> bool {
        match self {
            Self::Local(local) => local.is_near(mac),
            Self::Tapped(tapped) => tapped.link_mut().is_near(mac),
            _ => false,
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

    /// The next piece of a frame; with the last one, all of it is taken down.
    fn piece(&mut self, bytes: &[u8], direction: Direction, last: bool) {
        let way = (direction, self.number);
        if last && self.segments.is_empty() {
            return self.tap.frame(way, bytes);
        }
        self.segments.extend_from_slice(bytes);
        if last {
            self.tap.frame(way, &self.segments);
            self.segments.clear();
        }
    }

    fn posting(&mut self, frame: &TxFrame, bytes: Range<usize>, last: bool) {
        let arena = Arc::clone(self.link().arena());
        // What is wrong with it the link will say.
        if let Some(bytes) = arena.unsent_bytes(frame).get(bytes) {
            self.piece(bytes, Direction::Out, last);
        }
    }
}

/// Never a part of its callers: it is seldom there, and has a link like itself inside.
impl Link for Tapped {
    fn info(&self) -> &Info {
        self.link().info()
    }

    fn arena(&self) -> &Arc<Arena> {
        self.link().arena()
    }

    fn beside(&self) -> Option<&Arc<Arena>> {
        self.link().beside()
    }

    #[inline(never)]
    fn take(&mut self) -> Option<TxFrame> {
        self.link_mut().take()
    }

    fn give_back(&mut self, frame: TxFrame) {
        self.link_mut().give_back(frame);
    }

    #[inline(never)]
    fn post(&mut self, frame: TxFrame, bytes: Range<usize>) -> Posted {
        self.posting(&frame, bytes.clone(), true);
        self.link_mut().post(frame, bytes)
    }

    #[inline(never)]
    fn post_segment(&mut self, frame: TxFrame, bytes: Range<usize>) -> Posted {
        self.posting(&frame, bytes.clone(), false);
        self.link_mut().post_segment(frame, bytes)
    }

    #[inline(never)]
    fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted> {
        self.link_mut().reclaim(frame)
    }

    #[inline(never)]
    fn release(&mut self, frame: Posted) {
        self.link_mut().release(frame);
    }

    #[inline(never)]
    fn flush(&mut self) -> Result<bool, LinkError> {
        self.link_mut().flush()
    }

    #[inline(never)]
    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError> {
        let before = batch.len();
        let count = self.link_mut().poll(batch, max)?;
        let arena = Arc::clone(self.link().arena());
        let beside = self.link().beside().cloned();
        for frame in &batch[before..] {
            let arena = beside.as_ref().filter(|beside| beside.has(frame)).unwrap_or(&arena);
            self.piece(arena.bytes(frame), Direction::In, !frame.continues());
        }
        Ok(count)
    }

    #[inline(never)]
    fn has_arrived(&mut self) -> bool {
        self.link_mut().has_arrived()
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

    fn counters(&self) -> Counters {
        self.link().counters()
    }
}
