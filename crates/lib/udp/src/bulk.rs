//! [`BulkLink`]: long frames over a UDP socket, each in several datagrams (`PROTOCOL.md` §13).
//!
//! The kernel cuts and joins datagrams, so a frame of 64 KiB costs one system call at each end.
//! What is done for a frame is done once for 44 datagrams: header, numbers, checksum,
//! acknowledgement. Mostly only the first datagram says which frame it belongs to, so the data are
//! in one piece. Where the datagrams come one by one, each has a number. A frame arrives whole or
//! not at all.
//!
//! # Copies and system calls
//!
//! `flush` makes one system call for each frame, and `post_in_place` as well, which lets the kernel
//! copy the data from where the program has them. Frames to a peer that gets many go by a socket
//! that is connected to it. By such a socket, `post_in_place` makes two system calls for data of
//! 16 KiB or more, if these may be lent and that is faster: the kernel gets the pages in which they
//! lie and copies nothing. To know what is faster, 16 of 1,024 such frames read the clock twice.
//!
//! `poll` makes one `recvmsg` for each frame and one that finds nothing. The kernel copies a frame
//! to memory of the link's, or, with `poll_placing`, its data to where they belong. If the
//! datagrams of frames do not come together, they are copied once more.

mod connected;
mod heads;
mod lending;
mod parts;
mod receiving;
mod sending;
mod slots;

use crate::link::ETHERNET;
use crate::socket::{DatagramEnds, UdpSocket};
use crate::transmit::TxQueue;
use gigae_link::{
    Arena, Filter, FrameMemory, Held, Info, Interface, Link, LinkCounters, LinkError, Mode,
    OpenError, Posted, RxFrame, Segment, TxFrame,
};
use gigae_wire::{BULK_HEADER_LEN, Envelope, HEADER_LEN, Header, MOST_DATAGRAMS, PartHeader};
use receiving::{BulkReceiver, MOST_INCOMPLETE};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use sending::Sender;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use tracing::info;

pub use receiving::Placement;

/// Bytes of an IPv4 and of an IPv6 header, each with that of UDP.
const HEADERS: [usize; 2] = [20 + 8, 40 + 8];

/// Most bytes of a buffer that the kernel cuts: an IP packet's 65,535 less its headers, rounded
/// down.
const BUFFER: usize = 65_000;

/// A frame's memory in bytes, for the longest one with the room in front of it: whole pages.
const SLOT: usize = 68 << 10;

/// Transmit frames: as many as a window holds, and some for answers. Only memory that is used
/// exists; so it is with receive frames.
const TX_FRAMES: usize = 384;

const _: () = assert!(heads::PAGES > TX_FRAMES);

/// Most whole frames that the caller keeps. The protocol keeps this many out of order.
pub const MOST_KEPT: usize = 128;

/// Receive frames: for all that are kept, whole or not, and for the frames of a buffer. Without a
/// free one no thread would read the socket, and a thread that sleeps until it is readable would
/// spin.
const RX_FRAMES: usize = MOST_KEPT + MOST_INCOMPLETE + 64;

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
    /// Bytes of a frame in each datagram but the last, at least.
    unit: usize,
    arena: Arc<Arena>,
    tx: TxQueue,
    sender: Sender,
    receiver: BulkReceiver,
    socket: UdpSocket,
    counters: LinkCounters,
    empty_polls: u32,
    /// The last poll ended before the socket was empty.
    cut_short: bool,
}

/// What a poll has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollResult {
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
        let socket = UdpSocket::open_at(&interface, ip)?;
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
        socket.keep(&interface.name, SOCKET_BUFFER, SOCKET_BUFFER);
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
            tx: TxQueue::new(Arc::clone(&arena), RX_FRAMES * SLOT, &info),
            info,
            interface,
            at,
            unit,
            sender: Sender::new((BULK_HEADER_LEN + unit) as u16),
            receiver: BulkReceiver::new(Arc::clone(&arena), RX_FRAMES, SLOT, filter),
            arena,
            socket,
            counters: LinkCounters::default(),
            empty_polls: 0,
            cut_short: false,
        })
    }

    /// Whether the kernel may send long data from the memory that
    /// [`post_in_place`](Self::post_in_place) gets, instead of copying them: default `false`. They
    /// must stay as they are until the peer has them. A receiver on this machine may read them
    /// later, also after they have changed. Before Linux 6.5 they are always copied.
    pub fn set_lending(&mut self, lends: bool) {
        self.sender.set_lending(lends);
    }

    /// The address that peers send to.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// Bytes of a frame, without outer headers, that go in one datagram, and the most datagrams of
    /// a frame.
    pub fn datagrams(&self) -> (usize, usize) {
        let outer = ETHERNET + HEADERS[usize::from(self.at.is_ipv6())];
        (self.unit, (self.info.max_frame - outer) / self.unit)
    }

    /// Datagrams received so far. A frame takes several, which need not come at the same time.
    pub fn datagrams_received(&self) -> u64 {
        self.receiver.datagrams
    }

    /// Whether the datagrams of a frame came one by one, or hardly better: then the kernel does not
    /// join datagrams on this way. `None` if it is of one datagram.
    pub fn arrived_uncoalesced(&self, frame: &RxFrame) -> Option<bool> {
        self.receiver.arrived_uncoalesced(frame)
    }

    /// Whether each datagram of the frames that are posted next says where it belongs. Then they
    /// may come in any order. It costs a copy of each frame.
    #[inline]
    pub fn set_numbered(&mut self, numbered: bool) {
        self.tx.numbered = numbered;
    }

    /// Whether a frame has come in part.
    pub fn is_incomplete(&self) -> bool {
        self.receiver.is_incomplete()
    }

    /// Takes in a part of a frame that came by another link, from the peer with this number of the
    /// caller's, which names this socket. Returns the frame when it is whole. One copy.
    pub fn take_part(
        &mut self,
        peer: u32,
        from: SocketAddr,
        header: PartHeader,
        part: &[u8],
    ) -> Option<RxFrame> {
        self.receiver.take_part(peer, DatagramEnds { from, to: self.at.ip() }, header, part)
    }

    /// Writes a header into a frame whose last bytes are `data`, which lie in other memory, seals
    /// both, and sends the frame at once, behind those that were posted before. If the kernel does
    /// not take it now, the data are copied into the frame, which waits in the queue. `bytes` are
    /// the frame's, its outer headers in front.
    ///
    /// One system call for each frame that is sent. The data are read once for the checksum, and
    /// once by the kernel. If they are `lendable` and lent (see
    /// [`set_lending`](Self::set_lending)): two system calls, and they are read when the frame
    /// leaves, or when a receiver on this machine takes it.
    ///
    /// # Panics
    /// If the bytes are not all within the frame, or fewer than the headers and the data.
    pub fn post_in_place(
        &mut self,
        mut frame: TxFrame,
        bytes: Range<usize>,
        header: &Header,
        data: &[u8],
        lendable: bool,
    ) -> Posted {
        assert!(bytes.end <= SLOT && data.len() <= bytes.len(), "bytes outside the frame");
        let Some(described) = self.tx.describe(&frame, bytes.clone()) else {
            return self.post(frame, bytes, Segment::Last);
        };
        let inner = described.offset as usize - frame.offset()..bytes.end;
        // If it fails, the next doorbell says why.
        let is_next = self.tx.frames().is_empty() || matches!(self.flush(), Ok(true));
        let room = self.arena.bytes_mut(&mut frame);
        if is_next && self.sender.cuts(described.to.ip()) {
            let first = &mut room[inner.start..inner.end - data.len()];
            let mut sealing = header.begin(first, data.len());
            sealing.add(&first[HEADER_LEN..]);
            sealing.add(data);
            first[..4].copy_from_slice(&sealing.finish());
            self.counters.doorbells += 1;
            if self.sender.send(&described, data, lendable, &self.socket, &self.arena).is_ok() {
                return self.tx.post_sent(frame, bytes.len());
            }
            let room = self.arena.bytes_mut(&mut frame);
            room[bytes.end - data.len()..bytes.end].copy_from_slice(data);
        } else {
            room[bytes.end - data.len()..bytes.end].copy_from_slice(data);
            header.seal(&mut room[inner]);
        }
        self.post(frame, bytes, Segment::Last)
    }

    /// Like [`poll`](Link::poll), but the data of the next frame that comes are copied to where
    /// they are expected to belong. [`fetch_placed`](Self::fetch_placed) makes an ordinary frame of
    /// such a frame.
    pub fn poll_placing(
        &mut self,
        batch: &mut Vec<RxFrame>,
        max: usize,
        placement: Placement,
    ) -> Result<PollResult, LinkError> {
        self.receiver.placed = 0;
        let count = self.poll_with(batch, max, Some(placement))?;
        Ok(PollResult { count, placed: if count == 1 { self.receiver.placed } else { 0 } })
    }

    /// Makes an ordinary frame of one whose first `data` behind `head` bytes were placed elsewhere:
    /// the expectation was wrong. One copy.
    ///
    /// # Panics
    /// If the frame is another link's, or shorter.
    pub fn fetch_placed(&mut self, frame: RxFrame, head: usize, data: &[u8]) -> RxFrame {
        self.receiver.fetch_placed(frame, head, data)
    }

    /// At most the frames of one system call: they are long, and lie in the cache now.
    fn poll_with(
        &mut self,
        batch: &mut Vec<RxFrame>,
        max: usize,
        mut placement: Option<Placement>,
    ) -> Result<usize, LinkError> {
        let (mut count, mut calls) = (0, 0);
        loop {
            while count < max
                && let Some(frame) = self.receiver.pop()
            {
                batch.push(frame);
                count += 1;
            }
            self.cut_short = count == 0 && calls == CALLS;
            if count > 0 || self.cut_short {
                break;
            }
            calls += 1;
            match self.receiver.receive(&self.socket, placement.take()) {
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

    /// `frames` frames at the head of the queue are lost.
    fn lose(&mut self, frames: usize) {
        self.sender.skip_frame();
        self.tx.complete(frames);
    }

    /// The kernel has refused the frame at the head of the queue, or a part of it. Whether to go
    /// on.
    fn on_refusal(&mut self, errno: Errno) -> Result<bool, LinkError> {
        match errno {
            // The socket's share of memory is used up. What leaves will free it.
            Errno::AGAIN | Errno::INTR => return Ok(false),
            Errno::BADF | Errno::NOTSOCK | Errno::FAULT => {
                self.lose(self.tx.frames().len());
                return Err(LinkError::Io { what: "sending datagrams", source: errno.into() });
            }
            // Perhaps the path does not take what the kernel would cut: it shows by one datagram.
            Errno::INVAL | Errno::IO | Errno::OPNOTSUPP | Errno::MSGSIZE
                if self.tx.frames().front().is_some_and(|head| self.sender.cuts(head.to.ip())) =>
            {
                self.sender.doubt();
                return Ok(true);
            }
            Errno::MSGSIZE | Errno::INVAL => self.counters.tx_invalid += 1,
            // Lost, as on a wire: no room in a queue, no way there, a firewall.
            _ => {}
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
            match self.sender.send(frame, &[], false, &self.socket, &self.arena) {
                Ok(whole) => {
                    let to = frame.to.ip();
                    if self.sender.taken(to) {
                        let interface = &self.info.interface;
                        info!(
                            %interface, %to,
                            "segmentation offload refused: datagrams go one by one"
                        );
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
        self.receiver.recycle(frame);
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
            rx_dropped: self.socket.dropped() + self.receiver.dropped(),
            tx_frames: self.tx.posted,
            ..self.counters
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_wire::{Epoch, Flags, Kind, MacAddr, NodeAddr, Route, SeqNo};

    const CHANNEL: u8 = 3;

    fn open(ip: [u8; 4]) -> BulkLink {
        let channels = [CHANNEL].into_iter().collect();
        let filter = Filter { envelope: Envelope::Udp { port: 0 }, channels };
        let mut link = BulkLink::open("lo", IpAddr::from(ip), filter).unwrap();
        link.sender = Sender::new(1472);
        link
    }

    fn header() -> Header {
        Header {
            kind: Kind::Op,
            channel: CHANNEL,
            src_port: 0,
            dst_port: 0,
            src_epoch: Epoch(1),
            dst_epoch: Epoch(2),
            seq: SeqNo(0),
            ack: SeqNo(0),
            credit: 0,
            flags: Flags::NONE,
        }
    }

    /// A frame to another link with these bytes, and where they end.
    fn filled(a: &mut BulkLink, b: &BulkLink, inner: &[u8]) -> (TxFrame, usize) {
        let node =
            |link: &BulkLink| NodeAddr::Ip { ip: link.at.ip(), next_hop: MacAddr::default() };
        let envelope = Envelope::Udp { port: a.at.port() };
        let to_b = Route::to_port(envelope, node(a), node(b), b.at.port()).unwrap();
        let mut frame = a.take().unwrap();
        let end = to_b.len() + inner.len();
        let bytes = &mut a.arena.bytes_mut(&mut frame)[..end];
        bytes[to_b.len()..].copy_from_slice(inner);
        to_b.write(bytes);
        (frame, end)
    }

    /// Receives a frame that ends with these bytes. Whether its datagrams came one by one.
    fn receive(b: &mut BulkLink, inner: &[u8]) -> Option<bool> {
        let mut batch = Vec::new();
        while b.poll(&mut batch, 1).unwrap() == 0 {}
        let frame = batch.pop().unwrap();
        assert!(b.arena.bytes(&frame).ends_with(inner), "{} bytes", inner.len());
        let uncoalesced = b.arrived_uncoalesced(&frame);
        b.recycle(frame);
        uncoalesced
    }

    fn sealed(len: usize) -> Vec<u8> {
        let mut inner: Vec<_> = (0..len).map(|i| (i / 7 + len) as u8).collect();
        header().seal(&mut inner);
        inner
    }

    /// Their data would be copied if they waited.
    #[test]
    fn data_in_place_take_frames_along_that_wait_for_the_doorbell() {
        let (mut a, mut b) = (open([127, 0, 0, 1]), open([127, 0, 0, 1]));
        for len in [HEADER_LEN + 1000, 50_000] {
            let inner = sealed(len);
            let (frame, end) = filled(&mut a, &b, &inner);
            let data = &inner[HEADER_LEN..];
            let posted = match len {
                50_000 => a.post_in_place(frame, 0..end, &header(), data, false),
                _ => a.post(frame, 0..end, Segment::Last),
            };
            a.release(posted.into());
        }
        assert!(a.tx.frames().is_empty());
        receive(&mut b, &sealed(HEADER_LEN + 1000));
        receive(&mut b, &sealed(50_000));
    }

    /// As where a firewall or a device refuses what the kernel would cut.
    #[test]
    fn datagrams_go_one_by_one_where_the_kernel_does_not_cut() {
        let (mut a, mut b) = (open([127, 0, 0, 1]), open([127, 0, 0, 1]));
        assert!(a.sender.never_cut(b.at.ip()));
        for len in [HEADER_LEN, 1464, 1465, 50_000] {
            let inner = sealed(len);
            let (frame, end) = filled(&mut a, &b, &inner);
            // Half of it may lie elsewhere: it is copied into the frame then.
            let data = &inner[HEADER_LEN + (len - HEADER_LEN) / 2..];
            let posted = a.post_in_place(frame, 0..end, &header(), data, false);
            a.release(posted.into());
            assert!(a.flush().unwrap());
            receive(&mut b, &inner);
        }
        assert_eq!(b.counters().rx_dropped, 0);
    }

    /// As where the datagrams to one of them are encrypted (IPsec).
    #[test]
    fn where_the_kernel_does_not_cut_towards_one_node_it_does_towards_others() {
        let [mut a, mut b, mut c] = [1, 2, 3].map(|n| open([127, 0, 0, n]));
        let inner = sealed(50_000);
        let mut send = |to: &mut BulkLink, is_refused: bool| {
            let (frame, end) = filled(&mut a, to, &inner);
            let posted = a.post(frame, 0..end, Segment::Last);
            a.release(posted.into());
            assert!(!is_refused || a.on_refusal(Errno::IO).unwrap());
            assert!(a.flush().unwrap());
            receive(to, &inner)
        };
        assert_eq!(send(&mut b, false), Some(false));
        assert_eq!(send(&mut b, true), Some(true));
        assert_eq!(send(&mut b, false), Some(true), "it is not tried again");
        assert_eq!(send(&mut c, false), Some(false));
    }
}
