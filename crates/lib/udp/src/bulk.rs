//! [`BulkLink`]: long frames over a UDP socket, each in several datagrams (`PROTOCOL.md` §13).
//!
//! The kernel cuts and joins datagrams, so a frame of 64 KiB costs one system call at each end. What
//! is done for a frame is done once for 44 datagrams: numbers, checksum, acknowledgement. Each
//! datagram says which part of which frame it carries, since networks lose them one by one. A frame
//! arrives whole or not at all.
//!
//! # Copies and system calls
//!
//! `flush` makes one `sendmmsg` for each frame, and `post_in_place` as well, which reads the data
//! where the program has them. Both copy the datagrams into one piece of memory; the kernel copies
//! that. `poll` makes one `recvmsg` for each frame and one that finds nothing. It copies the parts to
//! one piece of memory, or, with `poll_placing`, to where they belong.

mod assembly;
mod batch;

use crate::link::ETHERNET;
use crate::socket::UdpSocket;
use crate::transmit::TxQueue;
use assembly::Assembler;
use batch::{BulkBatch, Cutting};
use gigae_link::{
    Arena, Counters, Filter, FrameMemory, Held, Info, Interface, Link, LinkError, Mode, OpenError,
    Posted, RxFrame, Segment, TxFrame,
};
use gigae_wire::{BULK_HEADER_LEN, BulkHeader, Envelope, Header, MOST_DATAGRAMS};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use tracing::info;

pub use assembly::Placement;

/// Bytes of an IPv4 and of an IPv6 header, each with that of UDP.
const HEADERS: [usize; 2] = [20 + 8, 40 + 8];

/// Most bytes of a buffer that the kernel cuts: an IP packet's 65,535 less its headers, rounded down.
const BUFFER: usize = 65_000;

/// A frame's memory in bytes, for the longest one with the room in front of it: whole pages.
const SLOT: usize = 68 << 10;

/// Frames of each kind: as many as a window holds, and some for answers; and more than are out of
/// order at a time. Only memory that is used exists.
const TX_FRAMES: usize = 384;
const RX_FRAMES: usize = 256;

/// Bytes that the socket is asked to buffer each way: the frames of some senders' windows.
const SOCKET_BUFFER: usize = 8 << 20;

/// Most calls of one poll that complete no frame: strangers may send faster than that.
const CALLS: usize = 128;

/// Empty polls between looks at the interface: some milliseconds of spinning.
const POLLS_PER_CHECK: u32 = 1 << 14;

/// A link over a UDP socket for frames of up to 64 KiB. See the module's description.
#[derive(Debug)]
pub struct BulkLink {
    info: Info,
    interface: Interface,
    at: SocketAddr,
    /// Bytes of a frame in a datagram.
    unit: usize,
    arena: Arc<Arena>,
    tx: TxQueue,
    batch: BulkBatch,
    assembler: Assembler,
    socket: UdpSocket,
    counters: Counters,
    empty_polls: u32,
}

/// What a poll has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Frames.
    pub count: usize,
    /// If there is one frame: the bytes of its data that lie where they were expected to belong.
    /// The frame's own bytes for them mean nothing.
    pub placed: usize,
}

impl BulkLink {
    /// Opens a link from this address, with a port that the kernel chooses, on an interface of the
    /// calling thread's network namespace. Needs no privilege.
    pub fn open(interface: &str, ip: IpAddr, filter: Filter) -> Result<Self, OpenError> {
        let interface = Interface::find(interface)?;
        let socket = UdpSocket::open(&interface, 0)?;
        if !socket.can_cut() {
            return Err(OpenError::Unsupported {
                what: "bulk data over a UDP socket",
                instead: "use Linux 4.18 or later, which cuts datagrams",
            });
        }
        socket.refuse_broadcasts()?;
        let headers = HEADERS[usize::from(ip.is_ipv6())];
        let needed = headers + BULK_HEADER_LEN + filter.least_mtu();
        if interface.mtu < needed {
            let (interface, mtu) = (interface.name, interface.mtu);
            return Err(OpenError::MtuTooSmall { interface, mtu, needed });
        }
        let unit = interface.mtu.min(BUFFER) - headers - BULK_HEADER_LEN;
        let count = (BUFFER / (unit + BULK_HEADER_LEN)).min(MOST_DATAGRAMS.into());
        let at = SocketAddr::new(ip, socket.port());
        let filter = Filter { envelope: Envelope::Udp { port: at.port() }, ..filter };
        socket.keep(SOCKET_BUFFER, SOCKET_BUFFER);
        let arena = Arena::sparse((RX_FRAMES + TX_FRAMES) * SLOT)
            .map_err(|source| OpenError::Io { what: "mapping the frames", source })?;
        let arena = Arc::new(arena);
        let max_frame = ETHERNET + headers + unit * count;
        let info = Info {
            interface: interface.name.clone(),
            mac: interface.mac,
            mode: Mode::Udp,
            max_frame,
            segment_size: max_frame,
            max_segments: 1,
            frame_size: SLOT,
            tx_frames: TX_FRAMES,
            rx_frames: RX_FRAMES,
            reason: "a UDP socket for bulk data beside the link".to_owned(),
        };
        Ok(Self {
            tx: TxQueue::new((Arc::clone(&arena), RX_FRAMES * SLOT), &info),
            info,
            interface,
            at,
            unit,
            batch: BulkBatch::new(unit),
            assembler: Assembler::new(Arc::clone(&arena), (RX_FRAMES, SLOT), filter),
            arena,
            socket,
            counters: Counters::default(),
            empty_polls: 0,
        })
    }

    /// The address that peers send to.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// Bytes of a frame, without outer headers, that go in one datagram, and the most datagrams of a
    /// frame.
    pub fn datagrams(&self) -> (usize, usize) {
        let outer = ETHERNET + HEADERS[usize::from(self.at.is_ipv6())];
        (self.unit, (self.info.max_frame - outer) / self.unit)
    }

    /// Datagrams received so far. A frame takes several, which need not come at the same time.
    pub fn datagrams_received(&self) -> u64 {
        self.assembler.datagrams
    }

    /// Whether a frame has come in parts and some are missing.
    pub fn is_incomplete(&self) -> bool {
        self.assembler.is_incomplete()
    }

    /// Takes in a part of a frame that came by another link, from the peer whose socket this is.
    /// Returns the frame when it is whole. One copy.
    pub fn take_part(
        &mut self,
        from: SocketAddr,
        header: BulkHeader,
        part: &[u8],
    ) -> Option<RxFrame> {
        self.assembler.take_part((from, self.at.ip()), header, part)
    }

    /// Writes a header into a frame whose last bytes are `data`, which lie in other memory, seals
    /// both, and sends the frame at once. If the kernel does not take it now, the data are copied into
    /// the frame, which waits in the queue. `bytes` are the frame's, its outer headers in front.
    ///
    /// One system call, and one copy, on which the checksum is computed.
    ///
    /// # Panics
    /// If the bytes are not all within the frame, or fewer than the headers and the data.
    pub fn post_in_place(
        &mut self,
        mut frame: TxFrame,
        bytes: Range<usize>,
        header: &Header,
        data: &[u8],
    ) -> Posted {
        assert!(bytes.end <= SLOT && data.len() <= bytes.len(), "bytes outside the frame");
        let Some(described) = self.tx.describe(&frame, bytes.clone()) else {
            return self.post(frame, bytes, Segment::Last);
        };
        let inner = described.offset as usize - frame.offset()..bytes.end;
        let room = self.arena.bytes_mut(&mut frame);
        if self.tx.frames().is_empty() && self.batch.cutting == Cutting::Yes {
            let sealing = header.begin(&mut room[inner.start..inner.end - data.len()], data.len());
            self.counters.doorbells += 1;
            let sealed = Some((data, sealing));
            if self.batch.send(&described, sealed, (&self.socket, &self.arena)).is_ok() {
                return self.tx.post_sent(frame, bytes.len());
            }
        }
        let room = self.arena.bytes_mut(&mut frame);
        room[bytes.end - data.len()..bytes.end].copy_from_slice(data);
        header.seal(&mut room[inner]);
        self.post(frame, bytes, Segment::Last)
    }

    /// Like [`poll`](Link::poll), but the data of the next frame that comes are copied to where they
    /// are expected to belong. [`fetch_placed`](Self::fetch_placed) makes an ordinary frame of such a
    /// frame.
    pub fn poll_placing(
        &mut self,
        batch: &mut Vec<RxFrame>,
        max: usize,
        placement: Placement,
    ) -> Result<Polled, LinkError> {
        self.assembler.placed = 0;
        let count = self.poll_with(batch, max, Some(placement))?;
        Ok(Polled { count, placed: if count == 1 { self.assembler.placed } else { 0 } })
    }

    /// Makes an ordinary frame of one whose first `data` behind `head` bytes were placed elsewhere:
    /// the expectation was wrong. One copy.
    ///
    /// # Panics
    /// If the frame is another link's, or shorter.
    pub fn fetch_placed(&mut self, frame: RxFrame, head: usize, data: &[u8]) -> RxFrame {
        self.assembler.fetch_placed(frame, head, data)
    }

    /// At most the frames of one system call: they are long, and lie in the cache now.
    fn poll_with(
        &mut self,
        batch: &mut Vec<RxFrame>,
        max: usize,
        mut placement: Option<Placement>,
    ) -> Result<usize, LinkError> {
        let mut count = 0;
        for _ in 0..CALLS {
            while count < max
                && let Some(frame) = self.assembler.pop()
            {
                batch.push(frame);
                count += 1;
            }
            if count > 0 {
                break;
            }
            match self.assembler.receive(&self.socket, placement.take()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => {
                    self.interface.check()?;
                    return Err(LinkError::Io { what: "receiving datagrams", source: e.into() });
                }
            }
        }
        self.counters.rx_frames += count as u64;
        self.empty_polls = if count > 0 { 0 } else { self.empty_polls + 1 };
        if self.empty_polls == POLLS_PER_CHECK {
            self.empty_polls = 0;
            self.interface.check()?;
        }
        Ok(count)
    }

    /// So many frames at the head of the queue are lost.
    fn lose(&mut self, frames: usize) {
        self.batch.skip_frame();
        self.tx.complete(frames);
    }

    /// The kernel has refused the frame at the head of the queue, or a part of it. Whether to go on.
    fn on_refusal(&mut self, errno: Errno) -> Result<bool, LinkError> {
        match errno {
            // The socket's share of memory is used up. What leaves will free it.
            Errno::AGAIN | Errno::INTR => return Ok(false),
            Errno::BADF | Errno::NOTSOCK | Errno::FAULT => {
                self.lose(self.tx.frames().len());
                return Err(LinkError::Io { what: "sending datagrams", source: errno.into() });
            }
            // Perhaps the device cannot take what the kernel would cut: it shows by one datagram.
            Errno::INVAL | Errno::IO | Errno::OPNOTSUPP | Errno::MSGSIZE
                if self.batch.cutting == Cutting::Yes =>
            {
                self.batch.cutting = Cutting::Doubted;
                return Ok(true);
            }
            Errno::MSGSIZE | Errno::INVAL => self.counters.tx_invalid += 1,
            // Lost, as on a wire: no room in a queue, no way there, a firewall.
            _ => {}
        }
        if self.batch.cutting == Cutting::Doubted {
            self.batch.cutting = Cutting::Yes;
        }
        // What waits is lost if the interface is gone. Frames in the queue could not be sent again.
        if let Err(error) = self.interface.check() {
            self.lose(self.tx.frames().len());
            return Err(error);
        }
        self.lose(1);
        Ok(true)
    }
}

impl Link for BulkLink {
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
        while let Some(frame) = self.tx.frames().front() {
            self.counters.doorbells += 1;
            match self.batch.send(frame, None, (&self.socket, &self.arena)) {
                Ok(whole) => {
                    if self.batch.cutting == Cutting::Doubted {
                        let interface = &self.info.interface;
                        info!(%interface, "segmentation offload refused: datagrams go one by one");
                        self.batch.cutting = Cutting::No;
                    }
                    self.tx.complete(usize::from(whole));
                }
                Err(errno) if self.on_refusal(errno)? => {}
                Err(_) => break,
            }
        }
        Ok(self.tx.frames().is_empty())
    }

    fn poll(&mut self, batch: &mut Vec<RxFrame>, max: usize) -> Result<usize, LinkError> {
        self.poll_with(batch, max, None)
    }

    #[inline]
    fn recycle(&mut self, frame: RxFrame) {
        self.assembler.recycle(frame);
    }

    fn prepare_to_wait(&mut self) -> bool {
        self.assembler.is_ready()
    }

    /// The socket. While all receive frames are lent and datagrams wait, it polls readable, too.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn counters(&self) -> Counters {
        Counters {
            drives: self.assembler.calls,
            rx_dropped: self.socket.dropped() + self.assembler.dropped,
            tx_frames: self.tx.posted,
            ..self.counters
        }
    }
}
