//! [`UdpLink`]: the contract of `gigae_link::Link` over the socket, the slots and the queue.

use crate::batch::{Batch, BatchResult};
use crate::receive::{DatagramReceiver, HEADROOM};
use crate::socket::UdpSocket;
use crate::transmit::TxQueue;
use gigae_link::{
    Arena, Filter, FrameMemory, Held, Info, Interface, Link, LinkCounters, LinkError, Mode,
    OpenError, Posted, RxFrame, Segment, TxFrame, sleep_on,
};
use gigae_wire::Envelope;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::info;

/// Ethernet header.
pub(crate) const ETHERNET: usize = 14;

/// Longest frame in bytes, of interfaces with a very large MTU: that of AF_PACKET's slots.
const LONGEST: usize = 16 * 1024 - 2 * HEADROOM;

/// Most frames of a kind.
const MAX_FRAMES: usize = 1 << 16;

/// Most calls of one poll that bring nothing for this link: strangers may send faster than that.
const CALLS: usize = 64;

/// Longest sleep between looks at the interface, of which a socket learns nothing.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// Empty polls between looks at the interface: some milliseconds of spinning.
const POLLS_PER_CHECK: u32 = 1 << 14;

/// After this many frames the link looks how many of them it had sent before. If they are more than
/// one in [`MOST_REPEATED`], buffers probably do not get through: a NIC may drop segmented UDP, and
/// a peer with AF_PACKET or AF_XDP on a virtual link sees a buffer as one frame, which is too long.
const FRAMES_PER_LOOK: u64 = 256;
const MOST_REPEATED: u64 = 4;

/// This many frames go one by one then, before buffers are tried again.
const FRAMES_ALONE: u64 = 1 << 14;

/// How to open a [`UdpLink`].
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// Name of the interface.
    pub interface: String,
    /// Which frames to take. The envelope must be UDP.
    pub filter: Filter,
    /// Transmit frames, 1 to 65,536. Default 1,024.
    pub tx_frames: usize,
    /// Frames that can be received before one must be recycled, 1 to 65,536. Default 4,096.
    pub rx_frames: usize,
}

impl UdpConfig {
    /// The defaults.
    pub fn new(interface: impl Into<String>, filter: Filter) -> Self {
        Self { interface: interface.into(), filter, tx_frames: 1024, rx_frames: 4096 }
    }
}

/// A link over a UDP socket. See the crate's documentation for who owns a frame when.
#[derive(Debug)]
pub struct UdpLink {
    info: Info,
    interface: Interface,
    filter: Filter,
    arena: Arc<Arena>,
    tx: TxQueue,
    batch: Batch,
    receiver: DatagramReceiver,
    socket: UdpSocket,
    /// Frames that go to one node may share a buffer: the kernel can cut it.
    joins: bool,
    /// The frames at the head of the queue were refused in one buffer: the first one goes alone.
    singly: bool,
    /// Frames posted until the last look.
    posted_at_look: u64,
    /// Frames posted again until then.
    repeated_at_look: u64,
    /// Until this many were posted, frames go one by one.
    alone_until: u64,
    /// The last poll ended before the socket was empty.
    cut_short: bool,
    counters: LinkCounters,
    empty_polls: u32,
}

impl UdpLink {
    /// Opens a link on an interface of the calling thread's network namespace.
    ///
    /// Needs no privileges for ports from 1024 on. Maps everything that the link will ever use.
    pub fn open(config: UdpConfig) -> Result<Self, OpenError> {
        let interface = Interface::find(&config.interface)?;
        let Envelope::Udp { port } = config.filter.envelope else {
            return Err(OpenError::Unsupported {
                what: "frames of an EtherType over a UDP socket",
                instead: "choose the UDP envelope",
            });
        };
        let needed = config.filter.least_mtu();
        if interface.mtu < needed {
            let (interface, mtu) = (interface.name, interface.mtu);
            return Err(OpenError::MtuTooSmall { interface, mtu, needed });
        }
        if port == 0 {
            let text = "UDP port 0 is none; choose one from 1 to 65535";
            let source = io::Error::new(io::ErrorKind::InvalidInput, text);
            return Err(OpenError::Io { what: "opening a UDP socket", source });
        }
        let socket = UdpSocket::open(&interface, port)?;
        let rx_frames = config.rx_frames.clamp(1, MAX_FRAMES);
        let tx_frames = config.tx_frames.clamp(1, MAX_FRAMES);
        let max_frame = (interface.mtu + ETHERNET).min(LONGEST);
        let slot = (max_frame + HEADROOM).next_power_of_two().max(2048);
        socket.keep(&interface.name, 2 * tx_frames * slot, 2 * rx_frames * slot);
        let arena = Arena::sparse((rx_frames + tx_frames) * slot)
            .map_err(|source| OpenError::Io { what: "mapping the frames", source })?;
        let arena = Arc::new(arena);
        let info = Info {
            interface: interface.name.clone(),
            mac: interface.mac,
            mode: Mode::Udp,
            max_frame,
            segment_size: max_frame,
            max_segments: 1,
            frame_size: slot,
            tx_frames,
            rx_frames,
            reason: "a UDP socket was asked for; it needs no privilege".to_owned(),
        };
        Ok(Self {
            tx: TxQueue::new(Arc::clone(&arena), rx_frames * slot, &info),
            info,
            interface,
            filter: config.filter,
            batch: Batch::new(),
            receiver: DatagramReceiver::new(Arc::clone(&arena), rx_frames, slot, max_frame),
            arena,
            joins: socket.can_cut(),
            socket,
            singly: false,
            posted_at_look: 0,
            repeated_at_look: 0,
            alone_until: 0,
            cut_short: false,
            counters: LinkCounters::default(),
            empty_polls: 0,
        })
    }

    /// The kernel has refused a buffer of `frames` frames. Whether to go on with the queue.
    fn on_refusal(&mut self, errno: Errno, frames: usize) -> Result<bool, LinkError> {
        match errno {
            // The socket's share of memory is used up. Frames that leave will free it.
            Errno::AGAIN | Errno::INTR => return Ok(false),
            Errno::BADF | Errno::NOTSOCK | Errno::FAULT => {
                return Err(LinkError::Io { what: "sending datagrams", source: errno.into() });
            }
            // Perhaps it cannot cut buffers. If it takes one of these frames alone, it cannot.
            _ if frames > 1 => {
                self.singly = true;
                return Ok(true);
            }
            Errno::MSGSIZE | Errno::INVAL => self.counters.tx_invalid += 1,
            // Lost, as on a wire: no room in a queue, no way there, a firewall.
            _ => {}
        }
        // A frame alone is refused, too: perhaps it is longer than the MTU, and a shorter one
        // behind it is not.
        self.singly = false;
        self.interface.check()?;
        self.tx.complete(frames);
        Ok(true)
    }

    /// `frames` frames have left.
    fn on_sent(&mut self, frames: usize) {
        self.tx.complete(frames);
        if frames > 0 && self.singly {
            let interface = &self.info.interface;
            info!(%interface, "segmentation offload refused: frames go one by one");
            (self.joins, self.singly) = (false, false);
        }
    }
}

impl UdpLink {
    /// Whether each frame that is posted next goes alone. For copies of frames that may have been
    /// lost before: the link does not know that they are repeated.
    pub fn set_alone(&mut self, alone: bool) {
        self.tx.alone = alone;
    }

    /// Whether frames that go to one node may share a buffer now.
    fn may_join(&mut self) -> bool {
        let now = self.tx.posted;
        let posted = now - self.posted_at_look;
        let repeated = self.tx.repeated - self.repeated_at_look;
        if posted >= FRAMES_PER_LOOK {
            (self.posted_at_look, self.repeated_at_look) = (now, self.tx.repeated);
            if self.joins && now >= self.alone_until && repeated * MOST_REPEATED > posted {
                let interface = &self.info.interface;
                info!(%interface, repeated, of = posted, "segmented datagrams get lost: frames go one by one");
                self.alone_until = now + FRAMES_ALONE;
            }
        }
        self.joins && !self.singly && now >= self.alone_until
    }
}

impl Link for UdpLink {
    fn info(&self) -> &Info {
        &self.info
    }

    #[inline]
    fn memory(&self) -> FrameMemory<'_> {
        (&self.arena).into()
    }

    #[inline]
    fn take(&mut self) -> Option<TxFrame> {
        self.tx.take()
    }

    #[inline]
    fn post(&mut self, frame: TxFrame, bytes: Range<usize>, segment: Segment) -> Posted {
        self.tx.post(frame, bytes, segment)
    }

    #[inline]
    fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted> {
        self.tx.reclaim(frame)
    }

    #[inline]
    fn release(&mut self, frame: Held) {
        self.tx.release(frame);
    }

    fn flush(&mut self) -> Result<bool, LinkError> {
        while !self.tx.frames().is_empty() {
            self.counters.doorbells += 1;
            let joins = self.may_join();
            let BatchResult { frames, refused } =
                self.batch.send(self.tx.frames(), &self.socket, &self.arena, joins);
            self.on_sent(frames);
            if let Some((errno, frames)) = refused
                && !self.on_refusal(errno, frames)?
            {
                break;
            }
        }
        Ok(self.tx.frames().is_empty())
    }

    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError> {
        let (mut count, mut calls) = (0, 0);
        self.cut_short = false;
        while count < max {
            if let Some(frame) = self.receiver.pop() {
                batch.push(frame);
                count += 1;
                continue;
            }
            // A datagram that came alone is not kept waiting by another system call.
            if count > 0 && self.receiver.came_alone() {
                break;
            }
            if calls == CALLS {
                self.cut_short = true;
                break;
            }
            calls += 1;
            match self.receiver.receive(&self.socket, &self.filter) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => {
                    self.interface.check()?;
                    return Err(LinkError::Io { what: "receiving datagrams", source: e.into() });
                }
            }
        }
        self.counters.rx_frames += count as u64;
        if count > 0 {
            self.empty_polls = 0;
        } else {
            self.empty_polls += 1;
            if self.empty_polls == POLLS_PER_CHECK {
                self.empty_polls = 0;
                self.interface.check()?;
            }
        }
        Ok(count)
    }

    #[inline]
    fn recycle(&mut self, frame: RxFrame) {
        self.receiver.recycle(frame);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        if self.prepare_to_wait() {
            return Ok(true);
        }
        self.counters.waits += 1;
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut left = timeout;
        loop {
            let slice = left.map_or(LONGEST_SLEEP, |left| left.min(LONGEST_SLEEP));
            // While all slots are lent, datagrams wait in the socket, which is readable all the
            // time.
            let fd = self.receiver.has_room().then(|| self.socket.as_fd());
            let lent = fd.is_none();
            if sleep_on(fd, Some(slice))? {
                self.counters.wakeups += 1;
                return Ok(true);
            }
            self.interface.check()?;
            left = end.map(|end| end.saturating_duration_since(Instant::now()));
            // The caller may have something to give back.
            if lent || left == Some(Duration::ZERO) {
                return Ok(false);
            }
        }
    }

    fn prepare_to_wait(&mut self) -> bool {
        self.cut_short || self.receiver.is_ready()
    }

    /// The socket. While all receive frames are lent and datagrams wait, it polls readable, too.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn counters(&self) -> LinkCounters {
        LinkCounters {
            drives: self.receiver.calls,
            rx_dropped: self.socket.dropped() + self.receiver.dropped,
            tx_frames: self.tx.posted,
            ..self.counters
        }
    }
}

#[cfg(test)]
mod tests;
