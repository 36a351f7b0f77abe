//! [`PacketLink`]: the contract of `gigae_link::Link` over the socket, the ring and the queue.

use crate::claim::PortClaim;
use crate::filter;
use crate::receive::{Receive, Reception};
use crate::ring::Layout;
use crate::socket::PacketSocket;
use crate::transmit::{QueuedFrame, TransmitQueue};
use gigae_link::{
    Filter, FrameMemory, Held, Info, Interface, Link, LinkCounters, LinkError, Mode, OpenError,
    Posted, Posting, RxFrame, Segment, TxFrame, TxHolds,
};
use gigae_wire::Envelope;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Empty polls and looks ([`Link::has_arrived`]) between looks at the interface, some milliseconds
/// of spinning. So a spinning caller learns that the interface is down, for three system calls in
/// 65,536 polls.
const POLLS_PER_CHECK: u32 = 1 << 16;

/// How to open a [`PacketLink`].
#[derive(Clone, Debug)]
pub struct PacketConfig {
    /// Name of the interface.
    pub interface: String,
    /// Which frames to take.
    pub filter: Filter,
    /// Transmit frames, 1 to 65,536. Default 1,024: a window of 1.5 MB, more than a Gigabit
    /// Ethernet carries in 10 ms.
    pub tx_frames: usize,
    /// Frames that can be received before one must be recycled, 1 to 65,536, and as many that wait
    /// in the kernel. Rounded up to whole blocks of the ring. Default 4,096, as for AF_XDP.
    pub rx_frames: usize,
    /// Bypass the interface's queueing discipline (packet(7), `PACKET_QDISC_BYPASS`), as AF_XDP
    /// does. Saves a lock and a queue per frame, but a frame that finds the device's own queue full
    /// is dropped instead of queued. Default `false`.
    pub qdisc_bypass: bool,
    /// How to receive frames. Default [`Receive::Ring`].
    pub receive: Receive,
}

impl PacketConfig {
    /// The defaults.
    pub fn new(interface: impl Into<String>, filter: Filter) -> Self {
        Self {
            interface: interface.into(),
            filter,
            tx_frames: 1024,
            rx_frames: 4096,
            qdisc_bypass: false,
            receive: Receive::Ring,
        }
    }
}

/// A link over a packet socket. See the crate's documentation for who owns a frame when.
#[derive(Debug)]
pub struct PacketLink {
    info: Info,
    interface: Interface,
    layout: Layout,
    holds: TxHolds,
    posting: Posting,
    queue: TransmitQueue,
    reception: Reception,
    socket: PacketSocket,
    counters: LinkCounters,
    empty_polls: u32,
    _claim: Option<PortClaim>,
}

impl PacketLink {
    /// Opens a link on an interface of the calling thread's network namespace.
    ///
    /// Needs `CAP_NET_RAW`. Maps everything that the link will ever use; the pages of received
    /// frames that the caller keeps come with the first ones.
    pub fn open(config: PacketConfig) -> Result<Self, OpenError> {
        let interface = Interface::find(&config.interface)?;
        let needed = config.filter.least_mtu();
        if interface.mtu < needed {
            let (interface, mtu) = (interface.name, interface.mtu);
            return Err(OpenError::MtuTooSmall { interface, mtu, needed });
        }
        let rx_frames = config.rx_frames.clamp(1, MAX_FRAMES);
        let tx_frames = config.tx_frames.clamp(1, MAX_FRAMES);
        let has_ring = config.receive == Receive::Ring;
        let layout = Layout::new(interface.mtu, rx_frames, tx_frames, has_ring);
        let socket = PacketSocket::open()?;
        let program = filter::program(&config.filter, interface.mac);
        socket.prepare(&program, config.qdisc_bypass)?;
        let reception = Reception::new(config.receive, &socket, &layout)?;
        socket.allow_queued(2 * layout.tx_slots * layout.slot);
        let claim = match config.filter.envelope {
            Envelope::Udp { port } => Some(PortClaim::new(&interface, port)?),
            Envelope::Ethernet { .. } => None,
        };
        socket.bind(&interface, &config.filter)?;
        let info = describe(&interface, &layout);
        Ok(Self {
            posting: Posting::new(&info),
            info,
            interface,
            layout,
            holds: TxHolds::new(layout.tx_slots as u32),
            queue: TransmitQueue::new(layout.tx_slots),
            reception,
            socket,
            counters: LinkCounters::default(),
            empty_polls: 0,
            _claim: claim,
        })
    }

    /// Sleeps until a frame has arrived or the socket has an error. `Ok(false)`: a signal, or the
    /// time is up.
    ///
    /// By poll(2), although epoll(7) costs less per sleep: what watches a socket costs the kernel
    /// some 100 ns for each frame, also while the caller spins.
    fn sleep(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: t.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        // Frames that have no room for a copy keep the socket readable. They wait for the caller.
        let news = if self.reception.is_waiting() { PollFlags::empty() } else { PollFlags::IN };
        let mut polled = [PollFd::new(&self.socket, news)];
        let result = poll(&mut polled, timeout.as_ref());
        match result {
            Ok(0) | Err(Errno::INTR) => self.interface.check().map(|()| false),
            Ok(_) if polled[0].revents().contains(PollFlags::ERR) => {
                // Else the error of an outage that is over would end each sleep at once.
                let _ = sockopt::socket_error(&self.socket);
                self.interface.check().map(|()| true)
            }
            Ok(_) => Ok(true),
            Err(e) => Err(LinkError::Io { what: "waiting for frames", source: e.into() }),
        }
    }
}

/// Most frames of a kind. With jumbo slots of 16 KiB the ring, the copies and the transmit frames
/// stay below 4 GiB.
const MAX_FRAMES: usize = 1 << 16;

fn describe(interface: &Interface, layout: &Layout) -> Info {
    Info {
        interface: interface.name.clone(),
        mac: interface.mac,
        mode: if layout.ring_slots == 0 { Mode::PacketCalls } else { Mode::Packet },
        max_frame: layout.max_frame,
        segment_size: layout.max_frame,
        max_segments: 1,
        frame_size: layout.slot,
        tx_frames: layout.tx_slots,
        rx_frames: layout.rx_slots,
        reason: "AF_PACKET was asked for; it works on every interface".to_owned(),
    }
}

impl Link for PacketLink {
    fn info(&self) -> &Info {
        &self.info
    }

    #[inline]
    fn memory(&self) -> FrameMemory<'_> {
        self.reception.arena().into()
    }

    #[inline]
    fn take(&mut self) -> Option<TxFrame> {
        let frame = self.holds.take()?;
        let bytes = self.layout.tx_frame(frame);
        // SAFETY: a frame is handed out once until both its holds are clear again, so no other
        // token exists and the kernel does not read it; receive slots lie elsewhere.
        Some(unsafe { TxFrame::new(self.reception.arena(), bytes, frame) })
    }

    /// A slot has room for the longest frame, so there is only [`Segment::Last`].
    #[inline]
    fn post(&mut self, frame: TxFrame, bytes: Range<usize>, segment: Segment) -> Posted {
        let length = bytes.len();
        assert!(bytes.end <= self.layout.slot, "bytes outside the frame");
        self.posting.add(length, segment);
        let (slot, offset) = (frame.slot(), (frame.offset() + bytes.start) as u32);
        let posted = frame.into_posted();
        let _ = self.reception.arena().posted_bytes(&posted);
        self.holds.post(slot);
        self.queue.push(QueuedFrame { frame: slot, offset, length: length as u32 });
        self.counters.tx_frames += 1;
        posted
    }

    #[inline]
    fn reclaim(&mut self, frame: Posted) -> Result<TxFrame, Posted> {
        let _ = self.reception.arena().posted_bytes(&frame);
        if self.holds.with_nic(frame.slot()) {
            return Err(frame);
        }
        // SAFETY: the NIC's hold is clear, so the kernel has copied the frame.
        Ok(unsafe { frame.into_frame() })
    }

    #[inline]
    fn release(&mut self, frame: Held) {
        self.holds.release(self.reception.arena().slot_of(&frame));
    }

    fn flush(&mut self) -> Result<bool, LinkError> {
        while !self.queue.is_empty() {
            let (socket, arena) = (&self.socket, self.reception.arena());
            self.counters.doorbells += 1;
            let (taken, go_on) = match self.queue.send(arena, socket) {
                Ok(taken) => (taken, true),
                // The socket's share of memory is used up. Frames that leave will free it.
                Err(Errno::AGAIN | Errno::INTR) => (0, false),
                // The device or its queue had no room and dropped this frame.
                Err(Errno::NOBUFS | Errno::NOMEM) => (1, false),
                // The MTU was lowered after the link was opened.
                Err(Errno::MSGSIZE | Errno::INVAL) => {
                    self.counters.tx_invalid += 1;
                    (1, true)
                }
                // Also the late report of an outage that is over. Then go on.
                Err(Errno::NETDOWN | Errno::NXIO | Errno::NODEV) => {
                    self.interface.check()?;
                    (0, false)
                }
                Err(e) => return Err(LinkError::Io { what: "sending frames", source: e.into() }),
            };
            for _ in 0..taken {
                if let Some(entry) = self.queue.pop() {
                    self.holds.complete(entry.frame);
                }
            }
            if !go_on {
                break;
            }
        }
        Ok(self.queue.is_empty())
    }

    #[inline]
    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError> {
        let mut count = 0;
        while count < max
            && let Some(frame) = self.reception.pop(&self.socket)
        {
            batch.push(frame);
            count += 1;
        }
        self.counters.rx_frames += count as u64;
        if count > 0 {
            self.empty_polls = 0;
        } else {
            self.empty_polls += 1;
            if self.empty_polls >= POLLS_PER_CHECK {
                self.empty_polls = 0;
                self.interface.check()?;
                // What an outage left keeps the socket readable for who sleeps outside.
                let _ = sockopt::socket_error(&self.socket);
            }
        }
        Ok(count)
    }

    #[inline]
    fn has_arrived(&mut self) -> bool {
        self.empty_polls += 1;
        self.reception.ready(&self.socket) || self.empty_polls >= POLLS_PER_CHECK
    }

    #[inline]
    fn recycle(&mut self, frame: RxFrame) {
        self.reception.recycle(frame);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, LinkError> {
        if self.reception.ready(&self.socket) {
            return Ok(true);
        }
        self.counters.waits += 1;
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut left = timeout;
        // An error of the interface that is over, or a frame that the kernel still writes while a
        // later one is there. Then sleep on.
        while self.sleep(left)? {
            if self.reception.ready(&self.socket) {
                self.counters.wakeups += 1;
                return Ok(true);
            }
            left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
        }
        Ok(self.reception.ready(&self.socket))
    }

    #[inline]
    fn prepare_to_wait(&mut self) -> bool {
        // What waited in the ring for room for a copy was news long ago.
        self.reception.ready(&self.socket)
    }

    /// The packet socket. It also polls readable while the caller holds all receive frames and more
    /// wait in the ring; [`wait`](Link::wait) sleeps then.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn counters(&self) -> LinkCounters {
        LinkCounters { rx_dropped: self.socket.dropped(), ..self.counters }
    }
}
