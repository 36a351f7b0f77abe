//! The frame memories of an endpoint's links: which one a received frame lies in, and its number
//! among the frames of all links.

use crate::link::AnyLink;
use gigae_link::{Arena, Link, RxFrame, RxPart};
use std::sync::Arc;

/// See the module's description.
#[derive(Clone)]
pub(crate) struct Arenas {
    /// The first link's, in which programs write their messages.
    pub(crate) first: Arc<Arena>,
    /// All others. Empty for a single link, unless it has memory
    /// [beside](gigae_link::FrameMemory::beside) its own.
    others: Box<[Other]>,
}

#[derive(Clone)]
struct Other {
    arena: Arc<Arena>,
    /// What is added to a frame's slot to get its number.
    base: u32,
}

impl Arenas {
    pub(super) fn new<'a>(first: &AnyLink, links: impl Iterator<Item = &'a AnyLink>) -> Self {
        let (mut others, mut numbers) = (Vec::new(), 0);
        for link in links {
            let memory = link.memory();
            let base = u32::try_from(numbers).expect("fewer than 2^32 frames");
            let own = (numbers > 0).then_some(memory.arena);
            let arenas = own.into_iter().chain(memory.beside);
            others.extend(arenas.map(|arena| Other { arena: Arc::clone(arena), base }));
            numbers += frames(link);
        }
        Self { first: Arc::clone(first.memory().arena), others: others.into() }
    }

    /// The bytes of a received frame.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, frame: &'a RxFrame) -> &'a [u8] {
        if self.others.is_empty() || self.first.has(frame) {
            return self.first.bytes(frame);
        }
        self.other_of(frame).arena.bytes(frame)
    }

    /// The number of a received frame.
    #[inline]
    pub(crate) fn number(&self, frame: &RxFrame) -> u32 {
        if self.others.is_empty() || self.first.has(frame) {
            return frame.slot();
        }
        self.other_of(frame).base + frame.slot()
    }

    /// The bytes of a part of a received frame.
    #[inline]
    pub(crate) fn part<'a>(&'a self, part: &'a RxPart) -> &'a [u8] {
        if self.others.is_empty() || self.first.holds(part) {
            return self.first.part(part);
        }
        self.other_of_part(part).arena.part(part)
    }

    /// The number of a part's frame.
    #[inline]
    pub(crate) fn number_of_part(&self, part: &RxPart) -> u32 {
        if self.others.is_empty() || self.first.holds(part) {
            return part.slot();
        }
        self.other_of_part(part).base + part.slot()
    }

    #[inline]
    fn other_of(&self, frame: &RxFrame) -> &Other {
        self.other(|arena| arena.has(frame))
    }

    #[inline(never)]
    fn other_of_part(&self, part: &RxPart) -> &Other {
        self.other(|arena| arena.holds(part))
    }

    /// Mostly there is one other.
    #[inline]
    fn other(&self, is_there: impl Fn(&Arena) -> bool) -> &Other {
        match &self.others[..] {
            [other] => other,
            several => Self::among(several, is_there),
        }
    }

    #[inline(never)]
    fn among(others: &[Other], is_there: impl Fn(&Arena) -> bool) -> &Other {
        others.iter().find(|other| is_there(&other.arena)).expect("a frame of these links")
    }
}

/// Frames of a link, numbered from zero.
pub(super) fn frames(link: &AnyLink) -> usize {
    let info = link.info();
    let beside = if link.memory().beside.is_some() { info.rx_frames } else { 0 };
    info.tx_frames + info.rx_frames + beside
}
