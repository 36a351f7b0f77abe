//! [`XdpLink`]: the contract of `gigae_link::Link` over the socket, its rings and its memory.

use crate::assembly::{Assembly, FrameState};
use crate::shared::ClaimedQueue;
use crate::socket::XskSocket;
use crate::umem::{CHUNK, Umem};
use crate::watch::ProgramWatch;
use gigae_link::{
    FrameMemory, Held, Info, Interface, Link, LinkCounters, LinkError, Mode, Posted, Posting,
    RxFrame, Segment, TxFrame,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Empty polls between looks at the interface, some milliseconds of spinning. So a spinning caller
/// learns that the interface is down, for two system calls in 4,096 polls. It makes one of them in
/// 64 looks ([`Link::has_arrived`]).
const POLLS_PER_CHECK: u32 = 1 << 12;

/// Empty polls per drive of the driver, where driving helps. A look at the ring takes nanoseconds,
/// a drive a system call. A frame that came just after the last drive is found soon enough by the
/// next.
const POLLS_PER_DRIVE: u32 = 4;

/// Chunks that the kernel may lack before it gets them between frames. Another CPU reads their
/// ring, so a batch costs as much as one chunk, and an empty poll is the time for it.
const REFILL_AT: usize = 16;

/// Longest sleep between looks at the interface: the kernel wakes no sleeper when it goes away.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// The kernel's counters of the socket (`XDP_STATISTICS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStatistics {
    /// Frames dropped because the fill ring was empty, or because they were too long for a chunk.
    pub rx_dropped: u64,
    /// Frames dropped because the receive ring was full.
    pub rx_ring_full: u64,
    /// How often the fill ring was found empty.
    pub fill_ring_empty: u64,
    /// Descriptors in the fill ring that the kernel refused.
    pub fill_invalid: u64,
    /// Descriptors in the transmit ring that the kernel refused.
    pub tx_invalid: u64,
}

/// A link over an AF_XDP socket. See the crate's documentation for who owns a frame when.
pub struct XdpLink {
    pub(crate) info: Info,
    pub(crate) interface: Interface,
    /// Keeps the program attached; `None` if the interface does. Dropped before the socket, so
    /// frames go to the stack as soon as the link no longer takes them.
    pub(crate) program: Option<ClaimedQueue>,
    pub(crate) socket: XskSocket,
    pub(crate) umem: Umem,
    pub(crate) counters: LinkCounters,
    pub(crate) posting: Posting,
    /// For links whose frames may be in several chunks.
    pub(crate) assembly: Option<Assembly>,
    /// Received frames that are longer than the link carries (the MTU was raised later), or with
    /// invalid descriptors (a bug).
    pub(crate) rx_invalid: u64,
    pub(crate) busy: bool,
    /// An empty poll drives the driver, or checks whether it needs frames.
    pub(crate) must_poll: bool,
    pub(crate) need_wakeup: bool,
    pub(crate) empty_polls: u32,
    pub(crate) watch: ProgramWatch,
}

impl XdpLink {
    /// The kernel's counters of the socket. One system call. `None` if the interface is gone.
    pub fn kernel_statistics(&self) -> Option<KernelStatistics> {
        let stats = self.socket.statistics().ok()?;
        Some(KernelStatistics {
            rx_dropped: stats.rx_dropped,
            rx_ring_full: stats.rx_ring_full.unwrap_or(0),
            fill_ring_empty: stats.rx_fill_ring_empty_descs.unwrap_or(0),
            fill_invalid: stats.rx_invalid_descs,
            tx_invalid: stats.tx_invalid_descs,
        })
    }

    /// Whether `poll` on an empty ring drives the driver.
    pub fn is_busy_polling(&self) -> bool {
        self.busy
    }

    /// Reads completions. Their frames are the caller's again, or free.
    #[inline]
    pub(crate) fn complete(&mut self) {
        let ready = self.socket.completion.available();
        for _ in 0..ready {
            if let Some(address) = self.socket.completion.pop()
                && !self.umem.complete(address)
            {
                self.counters.tx_invalid += 1;
            }
        }
        if ready > 0 {
            self.socket.completion.release();
        }
    }

    /// Gives the kernel the receive chunks that it lacks, if they are many or if it has few.
    #[inline]
    fn refill(&mut self) {
        if self.umem.lacking() >= REFILL_AT || self.umem.ready() < REFILL_AT {
            self.refill_all();
        }
    }

    /// Gives the kernel the receive chunks that it lacks.
    fn refill_all(&mut self) {
        while let Some(address) = self.umem.missing() {
            let pushed = self.socket.fill.push(address);
            assert!(pushed, "the fill ring has room for every frame");
        }
        self.socket.fill.publish();
    }

    /// Drops what has arrived, and gives its chunks back to the kernel.
    ///
    /// The kernel gets nothing before all of them are back, so it has the same chunks as before.
    /// [`assemble`](Self::assemble) depends on that: it takes the first chunks for the kernel's.
    /// Looks at the ring once, so a flood cannot keep it here.
    pub(crate) fn discard_arrived(&mut self) {
        for _ in 0..self.socket.rx.available() {
            let Some(desc) = self.socket.rx.pop() else { break };
            if let Some(segment) = self.umem.hand_out(desc.addr, desc.len) {
                self.umem.recycle(segment);
            }
            if let Some(assembly) = &mut self.assembly {
                // The rest of a frame is dropped when it comes.
                let more = desc.options.contains(XdpDescOptions::XDP_PKT_CONTD);
                let _ = assembly.add(&mut self.umem, None, more, &mut Vec::new());
            }
        }
        self.socket.rx.release();
        self.refill_all();
    }

    /// Takes frames from the ring, where they may be in several chunks; see [`Link::poll`].
    fn poll_segments(&mut self, batch: &mut Vec<RxFrame>, max: usize, ready: u32) -> usize {
        let Some(assembly) = &mut self.assembly else { return 0 };
        let before = batch.len();
        for _ in 0..ready {
            if batch.len() - before >= max {
                break;
            }
            let Some(desc) = self.socket.rx.pop() else { break };
            let segment = self.umem.hand_out(desc.addr, desc.len);
            let more = desc.options.contains(XdpDescOptions::XDP_PKT_CONTD);
            match assembly.add(&mut self.umem, segment, more, batch) {
                FrameState::Unfinished => {}
                FrameState::Whole => self.counters.rx_frames += 1,
                FrameState::Broken => self.rx_invalid += 1,
            }
        }
        self.socket.rx.release();
        self.refill();
        batch.len() - before
    }

    /// Whether the interface exists, is up and has our program. Two system calls and a clock read;
    /// after a second without a frame, a thread that asks the kernel.
    fn check(&mut self) -> Result<(), LinkError> {
        self.interface.check()?;
        match self.watch.is_detached(self.interface.index, self.counters.rx_frames) {
            true => Err(LinkError::Detached(self.info.interface.clone())),
            false => Ok(()),
        }
    }

    /// Drives the driver. Distinguishes the errors that mean that the interface is gone or down.
    #[cold]
    fn drive(&mut self) -> Result<(), LinkError> {
        self.counters.drives += 1;
        match self.socket.drive() {
            Ok(()) => Ok(()),
            Err(Errno::NETDOWN | Errno::NXIO | Errno::NODEV) => self.check(),
            // Kernels before 5.11 cannot be driven like this; all others have temporary reasons.
            Err(_) => Ok(()),
        }
    }

    /// An empty poll: drives the driver where that helps, and sometimes looks at the interface.
    fn poll_empty(&mut self) -> Result<u32, LinkError> {
        if self.umem.lacking() > 0 {
            self.refill_all();
        }
        self.empty_polls += 1;
        if self.empty_polls == POLLS_PER_CHECK {
            self.empty_polls = 0;
            self.check()?;
        }
        if !(self.busy || self.is_starved()) || self.empty_polls % POLLS_PER_DRIVE != 1 {
            return Ok(0);
        }
        self.drive()?;
        Ok(self.socket.rx.available())
    }

    /// Whether the driver found too few chunks and sleeps. It gets a doorbell for chunks that it
    /// has not seen, but not again for those that it took: igb asks for more as long as its ring is
    /// not full.
    fn is_starved(&mut self) -> bool {
        self.info.mode == Mode::XdpZeroCopy
            && self.socket.fill.needs_wakeup()
            && self.socket.fill.pending() > 0
    }

    /// Rings again for frames that the driver did not take after a doorbell. A zero-copy driver
    /// that had no carrier then does not look again by itself.
    #[cold]
    fn remind(&mut self) {
        if self.socket.tx.pending() > 0 {
            self.counters.doorbells += 1;
            // The next flush or poll reports what is wrong with the interface.
            let _ = self.socket.doorbell();
        }
    }

    /// Sleeps once. Returns `None` to sleep on, or the result of `wait`.
    fn sleep(&mut self, left: Option<Duration>) -> Result<Option<bool>, LinkError> {
        let slice = left.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
        let time = Timespec {
            tv_sec: slice.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: slice.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&time)) {
            Ok(_) if self.socket.rx.available() > 0 => {
                self.counters.wakeups += 1;
                Ok(Some(true))
            }
            Ok(_) => self.check().map(|()| None),
            Err(Errno::INTR) => Ok(Some(false)),
            Err(e) => Err(LinkError::Io { what: "waiting for frames", source: e.into() }),
        }
    }
}

impl Link for XdpLink {
    fn info(&self) -> &Info {
        &self.info
    }

    #[inline]
    fn memory(&self) -> FrameMemory<'_> {
        (&self.umem.arena).into()
    }

    #[inline]
    fn take(&mut self) -> Option<TxFrame> {
        if self.umem.holds.free() == 0 {
            self.complete();
        }
        self.umem.take()
    }

    #[inline]
    fn post(&mut self, frame: TxFrame, bytes: Range<usize>, segment: Segment) -> Posted {
        self.posting.add(bytes.len(), segment);
        let options = match segment {
            Segment::Last => {
                self.counters.tx_frames += 1;
                XdpDescOptions::empty()
            }
            Segment::More => XdpDescOptions::XDP_PKT_CONTD,
        };
        assert!(bytes.end <= CHUNK, "bytes outside the frame");
        let (chunk, start) = (frame.slot(), frame.offset() + bytes.start);
        let posted = frame.into_posted();
        let _ = self.umem.arena.posted_bytes(&posted);
        self.umem.holds.post(chunk);
        let desc = XdpDesc { addr: start as u64, len: bytes.len() as u32, options };
        assert!(self.socket.tx.push(desc), "the transmit ring has room for every frame");
        posted
    }

    #[inline]
    fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted> {
        let _ = self.umem.arena.posted_bytes(&frame);
        if self.umem.holds.with_nic(frame.slot()) {
            self.complete();
            if self.umem.holds.with_nic(frame.slot()) {
                self.remind();
                return Err(frame);
            }
        }
        // SAFETY: the frame's completion was read.
        Ok(unsafe { frame.into_frame() })
    }

    #[inline]
    fn release(&mut self, frame: Held) {
        self.umem.holds.release(self.umem.arena.slot_of(&frame));
    }

    #[inline]
    fn flush(&mut self) -> Result<bool, LinkError> {
        self.posting.flush();
        self.socket.tx.publish();
        let copies = self.info.mode != Mode::XdpZeroCopy;
        // Without the flag the kernel cannot say whether it needs to be woken.
        let always = copies || !self.need_wakeup;
        let mut pending = self.socket.tx.pending();
        if pending > 0 && !always {
            // A driver that has nothing more to send sets the flag and then looks at the ring
            // again. Without a fence the flag could be read before the frames are visible, and
            // neither side would see what the other did. A ring within a node (gigae-shm) has the
            // same fence for its doorbell.
            fence(Ordering::SeqCst);
        }
        while pending > 0 && (always || self.socket.tx.needs_wakeup()) {
            self.counters.doorbells += 1;
            match self.socket.doorbell() {
                // The call's budget is used up, the driver or its queue is full, or the socket's
                // share of memory is used up. The rest of the ring goes with the next call.
                Ok(()) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
                Err(Errno::NETDOWN | Errno::NXIO | Errno::NODEV) => {
                    self.check()?;
                    break;
                }
                Err(e) => {
                    return Err(LinkError::Io { what: "ringing the doorbell", source: e.into() });
                }
            }
            let left = self.socket.tx.pending();
            if !copies || left >= pending {
                break;
            }
            pending = left;
        }
        self.complete();
        // A zero-copy driver goes on by itself after a wake-up, or gets another doorbell when
        // frames are missing.
        Ok(!copies || self.socket.tx.pending() == 0)
    }

    #[inline]
    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError> {
        let mut ready = self.socket.rx.available();
        if ready == 0 {
            ready = self.poll_empty()?;
            if ready == 0 {
                return Ok(0);
            }
        }
        self.empty_polls = 0;
        if self.assembly.is_some() {
            return Ok(self.poll_segments(batch, max, ready));
        }
        let before = batch.len();
        for _ in 0..max.min(ready as usize) {
            let Some(desc) = self.socket.rx.pop() else { break };
            match self.umem.hand_out(desc.addr, desc.len) {
                Some(frame) => batch.push(frame),
                None => self.rx_invalid += 1,
            }
        }
        self.socket.rx.release();
        self.refill();
        let count = batch.len() - before;
        self.counters.rx_frames += count as u64;
        Ok(count)
    }

    #[inline]
    fn has_arrived(&mut self) -> bool {
        self.must_poll || self.socket.rx.available() > 0
    }

    #[inline]
    fn recycle(&mut self, frame: RxFrame) {
        self.umem.recycle(frame);
        self.refill();
    }

    fn provide(&mut self, frames: usize) {
        self.umem.provide(frames);
        self.refill_all();
    }

    /// A system call if the driver is starved: poll(2) would wake it, but epoll_wait(2) does not.
    fn prepare_to_wait(&mut self) -> bool {
        self.refill_all();
        // As in `flush`: the driver sets its flag when it finds no chunk.
        fence(Ordering::SeqCst);
        if self.is_starved() {
            // The next poll finds what is wrong with the interface.
            let _ = self.drive();
        }
        self.socket.rx.available() > 0
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        if self.socket.rx.available() > 0 {
            return Ok(true);
        }
        self.refill_all();
        self.counters.waits += 1;
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut left = timeout;
        loop {
            if let Some(result) = self.sleep(left)? {
                return Ok(result);
            }
            left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn counters(&self) -> LinkCounters {
        let kernel = self.kernel_statistics().unwrap_or_default();
        LinkCounters {
            rx_dropped: kernel.rx_dropped + kernel.rx_ring_full + self.rx_invalid,
            tx_invalid: self.counters.tx_invalid + kernel.tx_invalid,
            ..self.counters
        }
    }
}
