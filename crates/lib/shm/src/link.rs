//! [`ShmLink`]: the contract of `gigae_link::Link` over another link and the rings.

mod registered;

use crate::frames::Frames;
use crate::neighbours::{Neighbours, RingPosition, Via, key, words_for};
use crate::rendezvous::RingHello;
use gigae_link::{
    Filter, FrameMemory, Held, Info, Link, LinkCounters, LinkError, OpenError, Posted, Posting,
    RxFrame, Segment, TxFrame,
};
use gigae_wire::MacAddr;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Polls between looks at the connections: a look is one system call, some nanoseconds per poll. If
/// this end is on a child of the NIC that its neighbour uses, memory is the only path between them.
/// Where processes outnumber processors, a poll may take microseconds: with 1,024 here, the first
/// messages of eight ranks on two processors took seconds.
const POLLS_PER_LOOK: u32 = 64;

/// The same between checks that find nothing ([`Link::has_arrived`]), which take less time: some
/// microseconds.
const CHECKS_PER_LOOK: u32 = 512;

/// After this many looks (some 1,024 polls) since the caller last prepared to sleep by itself,
/// nothing watches the link below any more: a watch costs the kernel some 100 ns for each frame.
const LOOKS_AWAKE: u32 = 16;

/// Sleep while the link below has frames that it has no room for: its descriptor stays readable.
const NAP: Duration = Duration::from_millis(1);

/// Longest sleep. The kernel wakes no sleeper when an interface goes away, so the link below must
/// look.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// Frames of a window.
const WINDOW: usize = 256;

/// How endpoints of a node find each other.
#[derive(Clone, Debug)]
pub struct ShmConfig {
    /// Which frames the link takes: the same as the link below.
    pub filter: Filter,
    /// Longest frames for which the ring to a neighbour has room, if that takes at most 64 MiB of
    /// addresses. As many as may be unacknowledged, so none is lost however long the neighbour does
    /// not look. Default 256, one window, for each channel.
    pub frames: usize,
    /// What names this endpoint, if not the link's MAC address: [`name_in_ip`](crate::name_in_ip)
    /// in the UDP envelope.
    pub name: Option<MacAddr>,
    /// Prefix of the names under which endpoints meet, `gigae` by default. Tests that must not meet
    /// each other use another.
    pub scope: String,
}

impl ShmConfig {
    /// The defaults.
    pub fn new(filter: Filter) -> Self {
        let frames = WINDOW * filter.channels.iter().count().max(1);
        Self { filter, frames, name: None, scope: "gigae".into() }
    }
}

/// A link whose frames to endpoints of this node go through memory. See the crate's documentation
/// for who owns which memory when.
pub struct ShmLink<L> {
    link: L,
    neighbours: Neighbours,
    frames: Frames,
    posting: Posting,
    /// Where a frame goes whose last segment is still missing, and its bytes so far.
    begun: Option<PostTo>,
    bytes: Vec<u8>,
    /// For each transmit frame, where in a ring its last copy lies.
    written: Box<[Option<RingPosition>]>,
    watch: Option<WatchDescriptor>,
    polls: u32,
    /// Checks since the last one that asked for a look.
    checks: u32,
    /// Looks since the caller last prepared to sleep by itself.
    looks: u32,
    /// The neighbours were asked for doorbells.
    asleep: bool,
    counters: LinkCounters,
}

/// What ended a sleep.
enum WakeReason {
    /// The link below can be read.
    Below,
    /// Anything else but a signal.
    Undisturbed,
    Signal,
}

/// Where a frame goes.
#[derive(Clone, Copy)]
enum PostTo {
    Nic,
    /// Into the ring of this number.
    Ring(usize),
    /// Both: the neighbour has not said yet that it reads the ring.
    Both(usize),
}

/// The descriptor for who sleeps outside: readable as long as the link's is, or a connection's.
struct WatchDescriptor {
    both: OwnedFd,
    /// It has the link's, too.
    has_link: bool,
}

impl WatchDescriptor {
    fn new(events: &OwnedFd) -> Result<Self, Errno> {
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&both, events, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?;
        Ok(Self { both, has_link: false })
    }

    /// Adds the link's. Returns whether it is there.
    fn add(&mut self, link: BorrowedFd<'_>) -> bool {
        if !self.has_link {
            let data = epoll::EventData::new_u64(0);
            let added = epoll::add(&self.both, link, data, epoll::EventFlags::IN);
            self.has_link = matches!(added, Ok(()) | Err(Errno::EXIST));
        }
        self.has_link
    }

    fn remove(&mut self, link: BorrowedFd<'_>) {
        if std::mem::take(&mut self.has_link) {
            // It is there, unless a child of fork(2) was first.
            let _ = epoll::delete(&self.both, link);
        }
    }
}

impl<L: Link> ShmLink<L> {
    /// Wraps a link. `listener` is the [name](crate::bind) of this endpoint's address, taken in the
    /// namespace in which the link was opened.
    ///
    /// Maps memory for as many receive frames as the link has; only those in use at the same time
    /// take up memory. Some ten system calls, four descriptors, and two more descriptors for each
    /// neighbour.
    pub fn new(link: L, config: ShmConfig, listener: OwnedFd) -> Result<Self, OpenError> {
        let failed = |what| move |source| OpenError::Io { what, source };
        let info = link.info();
        let words = words_for(config.frames, info.max_frame);
        let mac = config.name.unwrap_or(info.mac);
        let hello = RingHello { mac, filter: config.filter, words, ring_at: 0 };
        let frames = Frames::new(info).map_err(failed("mapping memory for neighbours' frames"))?;
        let watching = failed("watching for neighbours");
        let neighbours =
            Neighbours::new(config.scope, hello, listener).map_err(|e| watching(e.into()))?;
        let watch = link.fd().map(|_| WatchDescriptor::new(&neighbours.events)).transpose();
        Ok(Self {
            posting: Posting::new(info),
            begun: None,
            bytes: Vec::with_capacity(info.max_frame),
            written: vec![None; info.tx_frames].into(),
            watch: watch.map_err(|e| watching(e.into()))?,
            polls: 0,
            checks: 0,
            looks: 0,
            asleep: false,
            counters: LinkCounters::default(),
            link,
            neighbours,
            frames,
        })
    }

    /// The link below.
    pub fn inner(&self) -> &L {
        &self.link
    }

    /// The link below, for its settings: frames go by this link only.
    pub fn inner_mut(&mut self) -> &mut L {
        &mut self.link
    }

    /// In the UDP envelope, the name of the endpoint with this UDP port on the same interface.
    pub fn name_at(&self, port: u16) -> MacAddr {
        self.neighbours.hello.name_at(port)
    }

    /// Whether frames to an address, or a name in its place, go only through memory.
    #[inline]
    pub fn is_near(&mut self, mac: MacAddr) -> bool {
        match self.neighbours.via(key(mac.0)) {
            Via::Nic => false,
            Via::Ring(number) => self.neighbours.is_welcome(number),
        }
    }

    /// Whether the process at an address reads this one's memory: [`read_from`](Self::read_from)
    /// works there.
    pub fn lends_to(&mut self, mac: MacAddr) -> bool {
        match self.neighbours.via(key(mac.0)) {
            Via::Nic => false,
            Via::Ring(number) => self.neighbours.lends_to(number),
        }
    }

    /// Copies bytes from an address of the process of a neighbour, which has named it. False if the
    /// kernel does not allow this, or the neighbour or its memory is gone. A system call for each 2
    /// GiB.
    pub fn read_from(&self, mac: MacAddr, at: u64, into: &mut [u8]) -> bool {
        self.neighbours.read_from(key(mac.0), at, into)
    }

    /// Where a frame with these first bytes goes.
    #[inline]
    fn to(&mut self, frame: &TxFrame, bytes: &Range<usize>) -> PostTo {
        let header = self.link.memory().arena.unsent_bytes(frame).get(bytes.clone());
        // The link will report what is wrong with it.
        let Some(to) = header.and_then(|header| self.neighbours.hello.address_in(header)) else {
            return PostTo::Nic;
        };
        match self.neighbours.via(key(to)) {
            Via::Nic => PostTo::Nic,
            Via::Ring(number) if self.neighbours.is_welcome(number) => PostTo::Ring(number),
            Via::Ring(number) => PostTo::Both(number),
        }
    }

    /// Writes a frame, or the rest of it, into a ring if there is room. Notes nothing while the
    /// neighbour does not read there.
    #[inline]
    fn push(
        &mut self,
        number: usize,
        early: bool,
        frame: &TxFrame,
        bytes: Range<usize>,
    ) -> Option<RingPosition> {
        let piece = &self.link.memory().arena.unsent_bytes(frame)[bytes];
        self.posting.add(piece.len(), Segment::Last);
        let whole = match self.bytes.is_empty() {
            true => piece,
            false => {
                self.bytes.extend_from_slice(piece);
                &self.bytes[..]
            }
        };
        let pushed = if early {
            self.neighbours.push_early(number, whole, self.link.info().max_frame);
            None
        } else {
            self.neighbours.push(number, whole)
        };
        self.bytes.clear();
        pushed
    }

    /// Posts a segment that is not the last. It is written into a ring with the last one, of which
    /// that is noted.
    #[inline(never)]
    fn post_part(&mut self, to: PostTo, frame: TxFrame, bytes: Range<usize>) -> Posted {
        self.begun = Some(to);
        self.note(&frame, None);
        if let PostTo::Ring(_) | PostTo::Both(_) = to {
            let piece = &self.link.memory().arena.unsent_bytes(&frame)[bytes.clone()];
            self.posting.add(piece.len(), Segment::More);
            self.bytes.extend_from_slice(piece);
        }
        match to {
            PostTo::Nic | PostTo::Both(_) => self.link.post(frame, bytes, Segment::More),
            PostTo::Ring(_) => frame.into_posted(),
        }
    }

    #[inline]
    fn note(&mut self, frame: &TxFrame, written: Option<RingPosition>) {
        if let Some(place) = self.written.get_mut(frame.slot() as usize) {
            *place = written;
        }
    }

    /// Whether a ring has something to read, and there is a receive frame for it.
    #[inline]
    fn has_neighbours_frame(&self) -> bool {
        !self.frames.are_all_borrowed() && self.neighbours.has_arrived()
    }

    /// Asks for doorbells. Returns whether a frame had already come, or the last look left some
    /// connections for the next one: nothing else wakes a sleeper for them.
    fn fall_asleep(&mut self) -> bool {
        self.asleep = true;
        self.neighbours.sleep();
        self.has_neighbours_frame() || self.neighbours.look_soon
    }

    /// Needs no doorbells any more, and handles those that came.
    fn wake(&mut self) {
        if std::mem::take(&mut self.asleep) {
            self.neighbours.wake();
        }
        self.look();
    }

    fn look(&mut self) {
        (self.polls, self.looks) = (0, self.looks.saturating_add(1));
        if self.looks > LOOKS_AWAKE
            && let (Some(watch), Some(link)) = (&mut self.watch, self.link.fd())
        {
            watch.remove(link);
        }
        self.neighbours.look();
    }

    /// Sleeps once, until something happens at the neighbours or, with this flag, at the link
    /// below, or the time is up.
    fn sleep(&self, time: Duration, link: PollFlags) -> Result<WakeReason, LinkError> {
        let time = Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        let neighbours = PollFd::new(&self.neighbours.events, PollFlags::IN);
        let below = self.link.fd().map(|fd| PollFd::from_borrowed_fd(fd, link));
        let mut polled = [below.unwrap_or_else(|| neighbours.clone()), neighbours];
        match poll(&mut polled, Some(&time)) {
            Ok(_) if polled[0].revents().contains(PollFlags::IN) => Ok(WakeReason::Below),
            Ok(_) => Ok(WakeReason::Undisturbed),
            Err(Errno::INTR) => Ok(WakeReason::Signal),
            Err(e) => Err(LinkError::Io { what: "waiting for frames", source: e.into() }),
        }
    }

    /// [`Link::wait`] in real time, with nothing there at first.
    fn wait_for_any(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let (mut longest, mut link) = (LONGEST_SLEEP, PollFlags::IN);
        loop {
            if self.fall_asleep() {
                self.wake();
                return Ok(true);
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let slept = self.sleep(left.unwrap_or(longest).min(longest), link);
            self.wake();
            let slept = slept?;
            // The link below checks for its own frames, and whether its interface is up.
            if self.has_neighbours_frame() || self.link.wait(Some(Duration::ZERO))? {
                self.counters.wakeups += 1;
                return Ok(true);
            }
            if matches!(slept, WakeReason::Signal) || end.is_some_and(|end| Instant::now() >= end) {
                return Ok(false);
            }
            // Readable, but with nothing to poll: a packet socket all of whose frames are lent.
            (longest, link) = match slept {
                WakeReason::Below => (NAP, PollFlags::empty()),
                _ => (LONGEST_SLEEP, PollFlags::IN),
            };
        }
    }
}

impl<L: Link> Link for ShmLink<L> {
    fn info(&self) -> &Info {
        self.link.info()
    }

    #[inline]
    fn memory(&self) -> FrameMemory<'_> {
        FrameMemory { beside: Some(&self.frames.arena), ..self.link.memory() }
    }

    #[inline]
    fn take(&mut self) -> Option<TxFrame> {
        self.link.take()
    }

    #[inline]
    fn post(&mut self, frame: TxFrame, bytes: Range<usize>, segment: Segment) -> Posted {
        // All segments go the same way, even if the neighbour is welcome only by the last.
        let to = match self.begun.take() {
            None => self.to(&frame, &bytes),
            Some(to) => to,
        };
        if segment == Segment::More {
            return self.post_part(to, frame, bytes);
        }
        match to {
            PostTo::Nic => {
                self.note(&frame, None);
                self.link.post(frame, bytes, segment)
            }
            PostTo::Ring(number) => {
                let written = self.push(number, false, &frame, bytes);
                self.note(&frame, written);
                self.counters.memory_tx_frames += u64::from(written.is_some());
                self.counters.memory_full += u64::from(written.is_none());
                frame.into_posted()
            }
            PostTo::Both(number) => {
                self.note(&frame, None);
                self.push(number, true, &frame, bytes.clone());
                self.link.post(frame, bytes, segment)
            }
        }
    }

    #[inline]
    fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted> {
        // A frame that a neighbour has not read yet need not be repeated. The copy there does not
        // hold the frame.
        if let Some(Some(written)) = self.written.get(frame.slot() as usize)
            && self.neighbours.is_unread(*written)
        {
            return Err(frame);
        }
        self.link.reclaim(frame)
    }

    #[inline]
    fn release(&mut self, frame: Held) {
        self.link.release(frame);
    }

    #[inline]
    fn flush(&mut self) -> Result<bool, LinkError> {
        self.posting.flush();
        self.counters.doorbells += self.neighbours.flush();
        self.link.flush()
    }

    #[inline]
    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError> {
        self.polls += 1;
        if self.asleep {
            self.wake();
        } else if self.polls >= POLLS_PER_LOOK || self.neighbours.look_soon {
            self.look();
        }
        if self.neighbours.sends_nobody() {
            return self.link.poll(batch, max);
        }
        // Neither source starves the other; if the caller asks for one frame at a time, they take
        // turns.
        let share = if self.polls.is_multiple_of(2) { max.div_ceil(2) } else { max / 2 };
        let count = if share > 0 { self.link.poll(batch, share)? } else { 0 };
        let before = batch.len();
        let (max_frame, left) = (self.link.info().max_frame, max.saturating_sub(count));
        let (came, dropped) = self.neighbours.receive(&mut self.frames, max_frame, batch, left);
        self.counters.memory_rx_frames += came;
        self.counters.rx_dropped += dropped;
        Ok(count + batch.len() - before)
    }

    #[inline]
    fn has_arrived(&mut self) -> bool {
        self.checks += 1;
        if self.checks >= CHECKS_PER_LOOK {
            self.checks = 0;
            self.neighbours.look_soon = true;
        }
        self.neighbours.look_soon || self.neighbours.has_arrived() || self.link.has_arrived()
    }

    #[inline]
    fn recycle(&mut self, frame: RxFrame) {
        if let Err(frame) = self.frames.recycle(frame) {
            self.link.recycle(frame);
        }
    }

    fn provide(&mut self, frames: usize) {
        self.link.provide(frames);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        if self.has_neighbours_frame() {
            return Ok(true);
        }
        if self.watch.is_none() {
            self.look();
            return Ok(self.has_neighbours_frame() || self.link.wait(timeout)?);
        }
        if self.link.wait(Some(Duration::ZERO))? {
            return Ok(true);
        }
        self.counters.waits += 1;
        self.wait_for_any(timeout)
    }

    fn prepare_to_wait(&mut self) -> bool {
        self.looks = 0;
        if let (Some(watch), Some(link)) = (&mut self.watch, self.link.fd())
            && !watch.add(link)
        {
            // The kernel has no memory for that. The caller does not sleep then.
            return true;
        }
        self.fall_asleep() || self.link.prepare_to_wait()
    }

    /// Readable when there is something to poll, if [`prepare_to_wait`](Link::prepare_to_wait) came
    /// first and no poll since.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(|watch| watch.both.as_fd())
    }

    fn counters(&self) -> LinkCounters {
        let (own, below) = (&self.counters, self.link.counters());
        LinkCounters {
            tx_frames: below.tx_frames + own.memory_tx_frames,
            rx_frames: below.rx_frames + own.memory_rx_frames,
            doorbells: below.doorbells + own.doorbells,
            waits: own.waits,
            wakeups: own.wakeups,
            rx_dropped: below.rx_dropped + own.rx_dropped,
            memory_tx_frames: own.memory_tx_frames,
            memory_rx_frames: own.memory_rx_frames,
            memory_full: own.memory_full,
            ..below
        }
    }
}

#[cfg(test)]
mod tests;
