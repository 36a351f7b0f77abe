//! A link in memory between two threads of this process, for the library without a kernel.
//!
//! Frames pass by their number: no copy, no system call, no lock. Both ends have one arena. One
//! half of it holds the frames that the one end sends, the other half those of the other end. Each
//! direction has two rings of a producer and a consumer:
//!
//! ```text
//!            flush: number, place, length
//!   sender ───────────── sent ─────────────▶ receiver
//!          ◀─────────── returned ───────────
//!            poll, recycle: number
//! ```
//!
//! - A frame is *with the NIC*, as the contract of links says, from `post` until its number came
//!   back. While the receiver has it, the sender may hold it as `Posted`. Both only read it then.
//! - The receiver has room for a fixed number of frames. The sender drops what it has no room for,
//!   and the receiver counts that. So no ring can overflow.
//! - A frame that the receiver still has is reclaimed as a copy. The protocol reclaims a frame only
//!   in order to send it again.
//!
//! The link has no descriptor, since a doorbell would be a system call. An endpoint on it makes
//! progress only in its own calls.

use gigae_link::{
    Arena, Filter, FrameMemory, Held, Info, Link, LinkCounters, LinkError, Mode, Posted, Posting,
    RxFrame, Segment, TxFrame, TxHolds,
};
use gigae_wire::MacAddr;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ethernet header.
const ETHERNET: usize = 14;

/// Bytes of memory per frame: room for MTU 1500 and for headers in front of an aligned message.
const FRAME: usize = 2048;

/// The MTU, which is that of Ethernet.
pub const MTU: usize = 1500;

/// The receiver publishes this many returned frames at a time, or what there is at a poll. Each
/// publication takes a cache line from the sender.
const RETURNS: u64 = 16;

/// A counter in cache lines of its own: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Published(AtomicU64);

/// A ring from one thread to another. It never overflows, since it has room for all frames.
#[derive(Debug)]
struct Ring {
    entries: Box<[AtomicU64]>,
    /// Entries published since the beginning.
    published: Published,
}

impl Ring {
    fn new(frames: usize) -> Self {
        let entries = (0..frames.next_power_of_two()).map(|_| AtomicU64::new(0)).collect();
        Self { entries, published: Published::default() }
    }

    #[inline]
    fn entry(&self, number: u64) -> &AtomicU64 {
        &self.entries[number as usize & (self.entries.len() - 1)]
    }

    /// Writes an entry that is published later.
    #[inline]
    fn write(&self, number: u64, entry: u64) {
        self.entry(number).store(entry, Ordering::Relaxed);
    }

    #[inline]
    fn publish(&self, until: u64) {
        self.published.0.store(until, Ordering::Release);
    }

    #[inline]
    fn published(&self) -> u64 {
        self.published.0.load(Ordering::Acquire)
    }

    #[inline]
    fn read(&self, number: u64) -> u64 {
        self.entry(number).load(Ordering::Relaxed)
    }
}

/// One direction.
#[derive(Debug)]
struct Direction {
    sent: Ring,
    returned: Ring,
    /// Frames for which the receiver had no room.
    lost: Published,
}

impl Direction {
    fn new(frames: usize) -> Arc<Self> {
        let (sent, returned) = (Ring::new(frames), Ring::new(frames));
        Arc::new(Self { sent, returned, lost: Published::default() })
    }
}

/// What the sender of a direction knows.
#[derive(Debug)]
struct Sender {
    direction: Arc<Direction>,
    /// Its frames in the arena.
    frames: Range<usize>,
    holds: TxHolds,
    /// Tokens that the caller may still take.
    left: usize,
    /// Posted frames that were not flushed yet, as entries.
    posted: Vec<u64>,
    /// Entries written, and returned numbers read.
    sent: u64,
    returned: u64,
    /// Frames that the receiver has room for.
    room: u64,
}

impl Sender {
    /// Takes back what the receiver returned.
    #[inline]
    fn collect(&mut self) {
        let until = self.direction.returned.published();
        while self.returned < until {
            self.holds.complete(self.direction.returned.read(self.returned) as u32);
            self.returned += 1;
        }
    }

    /// The number of a frame at this place in the arena.
    ///
    /// # Panics
    /// If the frame is another link's.
    #[inline]
    fn number(&self, offset: usize) -> u32 {
        assert!(self.frames.contains(&(offset / FRAME)), "a frame of the other end");
        (offset / FRAME - self.frames.start) as u32
    }

    /// The place of a frame.
    #[inline]
    fn place(&self, number: u32) -> Range<usize> {
        let start = (self.frames.start + number as usize) * FRAME;
        start..start + FRAME
    }

    /// A frame that no token and no receiver has. It is held from now on.
    #[inline]
    fn free(&mut self) -> u32 {
        if self.holds.free() == 0 {
            self.collect();
        }
        self.holds.take().expect("frames for all tokens and for all room of the receiver")
    }
}

/// What the receiver of a direction knows.
#[derive(Debug)]
struct Receiver {
    direction: Arc<Direction>,
    frames: Range<usize>,
    /// Entries read, and those known to be there.
    received: u64,
    known: u64,
    /// Numbers returned, and those of them published.
    returned: u64,
    published: u64,
}

impl Receiver {
    /// Whether an entry waits.
    #[inline]
    fn has_more(&mut self) -> bool {
        if self.received == self.known {
            self.known = self.direction.sent.published();
        }
        self.received < self.known
    }

    #[inline]
    fn give_back(&mut self, number: u32) {
        self.direction.returned.write(self.returned, number.into());
        self.returned += 1;
        if self.returned - self.published >= RETURNS {
            self.publish();
        }
    }

    #[inline]
    fn publish(&mut self) {
        if self.published != self.returned {
            self.published = self.returned;
            self.direction.returned.publish(self.returned);
        }
    }
}

/// One end of a link in memory. See the module's description.
#[derive(Debug)]
pub struct InMemoryLink {
    info: Info,
    filter: Filter,
    arena: Arc<Arena>,
    sender: Sender,
    receiver: Receiver,
    posting: Posting,
    counters: LinkCounters,
}

impl InMemoryLink {
    /// Both ends of a link of this number, with `tx_frames` transmit and `rx_frames` receive frames
    /// each. Links of the same number have the same addresses.
    pub fn pair(
        number: u8,
        filter: &Filter,
        tx_frames: usize,
        rx_frames: usize,
    ) -> io::Result<[Self; 2]> {
        let frames = tx_frames + rx_frames;
        let arena = Arc::new(Arena::anonymous(2 * frames * FRAME)?);
        let directions = [Direction::new(frames), Direction::new(frames)];
        let end = |end: usize| {
            let half = |end: usize| end * frames..(end + 1) * frames;
            let info = Info {
                interface: format!("memory{number}"),
                mac: MacAddr([2, 0, 0, 1, number, end as u8]),
                mode: Mode::Own,
                max_frame: MTU + ETHERNET,
                segment_size: MTU + ETHERNET,
                max_segments: 1,
                frame_size: FRAME,
                tx_frames,
                rx_frames,
                reason: "memory of this process".into(),
            };
            Self {
                posting: Posting::new(&info),
                info,
                filter: filter.clone(),
                arena: Arc::clone(&arena),
                sender: Sender {
                    direction: Arc::clone(&directions[end]),
                    frames: half(end),
                    holds: TxHolds::new(frames as u32),
                    left: tx_frames,
                    posted: Vec::with_capacity(tx_frames),
                    sent: 0,
                    returned: 0,
                    room: rx_frames as u64,
                },
                receiver: Receiver {
                    direction: Arc::clone(&directions[1 - end]),
                    frames: half(1 - end),
                    received: 0,
                    known: 0,
                    returned: 0,
                    published: 0,
                },
                counters: LinkCounters::default(),
            }
        };
        Ok([end(0), end(1)])
    }

    /// The token of a free frame.
    #[inline]
    fn token(&mut self) -> TxFrame {
        let number = self.sender.free();
        // SAFETY: `TxHolds` hands a number out once until the token is gone and the receiver has
        // returned the frame. The other end makes tokens for this half only of what it received.
        unsafe { TxFrame::new(&self.arena, self.sender.place(number), number) }
    }
}

/// A frame on its way: its number, and where in the frame its bytes begin and how many they are.
#[inline]
fn entry(number: u32, bytes: &Range<usize>) -> u64 {
    u64::from(number) << 32 | (bytes.start as u64) << 16 | bytes.len() as u64
}

impl Link for InMemoryLink {
    fn info(&self) -> &Info {
        &self.info
    }

    #[inline]
    fn memory(&self) -> FrameMemory<'_> {
        (&self.arena).into()
    }

    #[inline]
    fn take(&mut self) -> Option<TxFrame> {
        self.sender.left = self.sender.left.checked_sub(1)?;
        Some(self.token())
    }

    #[inline]
    fn post(&mut self, frame: TxFrame, bytes: Range<usize>, segment: Segment) -> Posted {
        self.posting.add(bytes.len(), segment);
        let _ = &self.arena.unsent_bytes(&frame)[bytes.clone()];
        let number = self.sender.number(frame.offset());
        self.sender.holds.post(number);
        self.sender.posted.push(entry(number, &bytes));
        self.counters.tx_frames += 1;
        frame.into_posted()
    }

    #[inline]
    fn flush(&mut self) -> Result<bool, LinkError> {
        self.posting.flush();
        let sender = &mut self.sender;
        if sender.posted.is_empty() {
            return Ok(true);
        }
        sender.collect();
        let room = (sender.room - (sender.sent - sender.returned)) as usize;
        for (n, entry) in sender.posted.drain(..).enumerate() {
            if n < room {
                sender.direction.sent.write(sender.sent, entry);
                sender.sent += 1;
            } else {
                sender.holds.complete((entry >> 32) as u32);
                sender.direction.lost.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        sender.direction.sent.publish(sender.sent);
        Ok(true)
    }

    fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted> {
        let number = self.sender.number(frame.offset());
        if self.sender.posted.iter().any(|entry| (entry >> 32) as u32 == number) {
            return Err(frame);
        }
        if self.sender.holds.with_nic(number) {
            self.sender.collect();
        }
        if !self.sender.holds.with_nic(number) {
            // SAFETY: the receiver has returned the frame.
            return Ok(unsafe { frame.into_frame() });
        }
        let mut copy = self.token();
        self.arena.bytes_mut(&mut copy).copy_from_slice(self.arena.posted_bytes(&frame));
        self.sender.holds.release(number);
        Ok(copy)
    }

    #[inline]
    fn release(&mut self, frame: Held) {
        let number = self.sender.number(frame.offset());
        self.sender.holds.release(number);
        self.sender.left += 1;
    }

    #[inline]
    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError> {
        let before = batch.len();
        while batch.len() < before + max && self.receiver.has_more() {
            let entry = self.receiver.direction.sent.read(self.receiver.received);
            self.receiver.received += 1;
            let (number, length) = ((entry >> 32) as u32, (entry & 0xffff) as usize);
            let start = (self.receiver.frames.start + number as usize) * FRAME
                + (entry >> 16 & 0xffff) as usize;
            // SAFETY: the sender's only token for these bytes is a `Posted`, by which nobody
            // writes. It gets another one only when this end has returned the number.
            let frame = unsafe { RxFrame::new(&self.arena, start..start + length, number) };
            if self.filter.takes(self.info.mac, self.arena.bytes(&frame)) {
                batch.push(frame);
            } else {
                self.receiver.give_back(number);
            }
        }
        self.receiver.publish();
        let count = batch.len() - before;
        self.counters.rx_frames += count as u64;
        Ok(count)
    }

    #[inline]
    fn recycle(&mut self, frame: RxFrame) {
        let _ = self.arena.bytes(&frame);
        assert!(self.receiver.frames.contains(&(frame.offset() / FRAME)), "a frame that was sent");
        self.receiver.give_back(frame.slot());
    }

    #[inline]
    fn has_arrived(&mut self) -> bool {
        self.receiver.has_more()
    }

    fn prepare_to_wait(&mut self) -> bool {
        self.receiver.publish();
        self.receiver.has_more()
    }

    fn counters(&self) -> LinkCounters {
        let rx_dropped = self.receiver.direction.lost.0.load(Ordering::Relaxed);
        LinkCounters { rx_dropped, ..self.counters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_link::ChannelSet;
    use gigae_wire::{Envelope, Route};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn pair(tx_frames: usize, rx_frames: usize) -> [InMemoryLink; 2] {
        let channels = ChannelSet::EMPTY.with(0);
        let filter = Filter { envelope: Envelope::DEFAULT, channels };
        InMemoryLink::pair(0, &filter, tx_frames, rx_frames).unwrap()
    }

    /// Posts a frame of 60 bytes that ends in this one.
    fn post(from: &mut InMemoryLink, to: &InMemoryLink, last: u8) -> Posted {
        let mut frame = from.take().expect("a free frame");
        let bytes = &mut from.arena.bytes_mut(&mut frame)[..60];
        bytes.fill(0);
        bytes[59] = last;
        let ends = (from.info.mac.into(), to.info.mac.into());
        Route::new(Envelope::DEFAULT, ends.0, ends.1).unwrap().write(bytes);
        from.post(frame, 0..60, Segment::Last)
    }

    fn panics(call: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(call)).is_err()
    }

    #[test]
    fn a_token_of_the_other_end_is_refused_although_both_have_one_memory() {
        let [mut a, mut b] = pair(8, 8);
        let frame = a.take().unwrap();
        assert!(panics(|| b.release(frame.into())));
        let frame = a.take().unwrap();
        assert!(panics(|| drop(b.post(frame, 0..60, Segment::Last))));
        let posted = post(&mut a, &b, 1);
        a.flush().unwrap();
        assert!(panics(|| drop(b.reclaim(posted))));
        let mut received = Vec::new();
        assert_eq!(b.poll(&mut received, 8).unwrap(), 1);
        assert!(panics(|| a.recycle(received.remove(0))));
    }

    #[test]
    fn a_frame_that_the_receiver_still_has_is_reclaimed_as_a_copy() {
        let [mut a, mut b] = pair(2, 8);
        let posted = post(&mut a, &b, 1);
        a.flush().unwrap();
        let mut received = Vec::new();
        b.poll(&mut received, 8).unwrap();
        let mut copy = a.reclaim(posted).unwrap();
        assert_eq!(a.arena.unsent_bytes(&copy)[59], 1);
        a.arena.bytes_mut(&mut copy)[59] = 2;
        assert_eq!(b.arena.bytes(&received[0])[59], 1, "the receiver reads what was sent");
        // The copy counts as the frame that it is of.
        assert!(a.take().is_some() && a.take().is_none());
        a.release(copy.into());
        b.recycle(received.remove(0));
        b.poll(&mut received, 8).unwrap();
        a.sender.collect();
        assert_eq!(a.sender.holds.free(), 2 + 8 - 1, "all but the one that was taken");
    }

    #[test]
    fn a_frame_that_was_dropped_is_free_and_counted_at_the_receiver() {
        let [mut a, mut b] = pair(8, 2);
        for last in 0..3 {
            let posted = post(&mut a, &b, last);
            a.release(posted.into());
        }
        a.flush().unwrap();
        let mut received = Vec::new();
        assert_eq!((b.poll(&mut received, 8).unwrap(), b.counters().rx_dropped), (2, 1));
        let last = |frame| b.arena.bytes(frame)[59];
        assert_eq!(received.iter().map(last).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(a.sender.holds.free(), 8 + 2 - 2);
    }
}
