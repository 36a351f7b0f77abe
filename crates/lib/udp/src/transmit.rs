//! Transmit frames: who has which, and those that were posted and not passed to the kernel yet.

use gigae_link::{Arena, Held, Info, Posted, Posting, Segment, TxFrame, TxHolds};
use gigae_wire::{Datagram, Envelope, MAX_ENVELOPE, MacAddr, is_who};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;

/// A posted frame: what of it goes out, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedFrame {
    slot: u32,
    /// Where in the arena its UDP payload lies.
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) from: IpAddr,
    pub(crate) to: SocketAddr,
    /// It was posted before.
    pub(crate) repeated: bool,
    /// It shares no buffer with others: what was lost in one would be lost so again.
    pub(crate) alone: bool,
    /// Its datagrams, several, have numbers.
    pub(crate) numbered: bool,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct TxQueue {
    arena: Arc<Arena>,
    /// Where in the arena the frames begin, and bytes of each.
    start: usize,
    size: usize,
    holds: TxHolds,
    posting: Posting,
    queue: VecDeque<QueuedFrame>,
    /// Frames posted so far.
    pub(crate) posted: u64,
    /// Of these, those that had been posted before.
    pub(crate) repeated: u64,
    /// Slots whose frames were posted since they were taken.
    known: Box<[bool]>,
    /// The datagrams of the frames that are posted next have numbers.
    pub(crate) numbered: bool,
    /// The frames that are posted next go alone.
    pub(crate) alone: bool,
}

impl TxQueue {
    /// For the frames of a link, which lie in the arena from `start` on.
    pub(crate) fn new(arena: Arc<Arena>, start: usize, info: &Info) -> Self {
        Self {
            arena,
            start,
            size: info.frame_size,
            holds: TxHolds::new(info.tx_frames as u32),
            posting: Posting::new(info),
            queue: VecDeque::with_capacity(info.tx_frames),
            posted: 0,
            repeated: 0,
            known: vec![false; info.tx_frames].into(),
            numbered: false,
            alone: false,
        }
    }

    /// The posted frames, in order.
    pub(crate) fn frames(&self) -> &VecDeque<QueuedFrame> {
        &self.queue
    }

    /// See [`Link::take`](gigae_link::Link::take).
    #[inline]
    pub(crate) fn take(&mut self) -> Option<TxFrame> {
        let frame = self.holds.take()?;
        self.known[frame as usize] = false;
        let start = self.start + frame as usize * self.size;
        // SAFETY: a frame is handed out once until both its holds are clear again, so no other
        // token exists and the kernel does not read it; receive slots lie elsewhere.
        Some(unsafe { TxFrame::new(&self.arena, start..start + self.size, frame) })
    }

    /// See [`Link::post`](gigae_link::Link::post). A frame has room for the longest one, so there
    /// is only [`Segment::Last`].
    #[inline]
    pub(crate) fn post(&mut self, frame: TxFrame, bytes: Range<usize>, segment: Segment) -> Posted {
        assert!(bytes.end <= self.size, "bytes outside the frame");
        self.posting.add(bytes.len(), segment);
        let slot = frame.slot();
        let queued = self.describe(&frame, bytes);
        let repeated = std::mem::replace(&mut self.known[slot as usize], true);
        self.posted += 1;
        self.repeated += u64::from(repeated);
        self.holds.post(slot);
        match queued {
            Some(queued) => self.queue.push_back(queued),
            // To an address that this link cannot reach.
            None => {
                self.holds.complete(slot);
            }
        }
        frame.into_posted()
    }

    /// What of a frame goes out, and where. `None` if that is nowhere that this link could reach.
    #[inline]
    pub(crate) fn describe(&self, frame: &TxFrame, bytes: Range<usize>) -> Option<QueuedFrame> {
        let (slot, start) = (frame.slot(), frame.offset() + bytes.start);
        let whole = &self.arena.unsent_bytes(frame)[bytes];
        let Datagram { from, to, payload } = datagram(whole)?;
        let (offset, length) = ((start + payload.start) as u32, payload.len() as u32);
        let (repeated, numbered) = (self.known[slot as usize], self.numbered);
        let alone = repeated || self.alone;
        Some(QueuedFrame { slot, offset, length, from, to, repeated, alone, numbered })
    }

    /// The kernel has taken this frame already.
    pub(crate) fn post_sent(&mut self, frame: TxFrame, length: usize) -> Posted {
        self.posting.add(length, Segment::Last);
        self.posted += 1;
        self.repeated += u64::from(std::mem::replace(&mut self.known[frame.slot() as usize], true));
        self.holds.post(frame.slot());
        self.holds.complete(frame.slot());
        frame.into_posted()
    }

    /// See [`Link::reclaim`](gigae_link::Link::reclaim).
    #[inline]
    pub(crate) fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted> {
        let _ = self.arena.posted_bytes(&frame);
        if self.holds.with_nic(frame.slot()) {
            return Err(frame);
        }
        // SAFETY: the NIC's hold is clear, so the frame's own bytes have been copied.
        Ok(unsafe { frame.into_frame() })
    }

    /// See [`Link::release`](gigae_link::Link::release).
    #[inline]
    pub(crate) fn release(&mut self, frame: Held) {
        self.holds.release(self.arena.slot_of(&frame));
    }

    /// The first frames of the queue have left, or never will.
    pub(crate) fn complete(&mut self, frames: usize) {
        for frame in self.queue.drain(..frames) {
            self.holds.complete(frame.slot);
        }
    }
}

/// The datagram in a frame. `None` if it is not for this link: a MAC address, nothing in it.
#[inline]
fn datagram(frame: &[u8]) -> Option<Datagram> {
    let found = Datagram::within(frame)?;
    // Questions go to the port that all nodes agree on, which need not be this link's own.
    let to = Envelope::Udp { port: found.to.port() };
    let ours = frame.starts_with(&MacAddr::default().0) || is_who(to, frame);
    let place = &found.payload;
    (ours && !place.is_empty() && place.start <= MAX_ENVELOPE).then_some(found)
}
