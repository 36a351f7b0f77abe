//! Links for bulk data on a fabric: frames of many datagrams, some of which do not arrive.

use gigae_fabric::{Fabric, Node, testing};
use gigae_link::{Filter, Link, Posted, RxFrame, Segment, TxFrame};
use gigae_udp::{BulkLink, Placement};
use gigae_wire::{
    BULK_HEADER_LEN, BulkHeader, Envelope, Epoch, Flags, HEADER_LEN, Header, Kind, MacAddr,
    NodeAddr, PartHeader, Route, SeqNo,
};
use std::net::{IpAddr, UdpSocket};
use std::ops::Range;
use std::time::{Duration, Instant};

const CHANNEL: u8 = 3;

fn main() {
    testing::for_users_except(&[]).run(&[
        ("frames_of_all_kinds_of_lengths_arrive_unchanged", || every_length(1500)),
        ("frames_of_all_kinds_of_lengths_arrive_unchanged_at_mtu_9000", || every_length(9000)),
        ("data_are_sent_from_elsewhere_and_placed_elsewhere", || data_elsewhere(1500)),
        ("data_are_sent_from_elsewhere_and_placed_elsewhere_at_mtu_9000", || data_elsewhere(9000)),
        ("lent_data_arrive_from_wherever_they_lie", lent_data_arrive),
        ("data_are_lent_where_the_program_says_so", data_are_lent),
        ("another_frame_than_the_expected_one_is_fetched", another_frame_is_fetched),
        ("datagrams_that_come_alone_make_frames_of_each_sender", datagrams_alone_make_frames),
        ("a_frame_without_one_datagram_is_dropped", a_frame_without_one_datagram_is_dropped),
        ("datagrams_that_nobody_sends_do_no_harm", datagrams_that_nobody_sends_do_no_harm),
        ("a_receiver_that_does_not_recycle_gets_the_rest_later", lent_frames_come_back),
        ("the_socket_is_read_whatever_is_kept", the_socket_is_read_whatever_is_kept),
        ("a_peer_of_many_frames_has_a_socket_of_its_own", a_peer_of_many_frames_has_a_socket),
        (
            "a_repeated_frame_goes_by_the_port_that_was_named",
            a_repeated_frame_goes_by_the_named_port,
        ),
        ("a_peer_whose_port_is_closed_costs_no_error", a_closed_port_costs_no_error),
        ("another_namespace_has_no_connected_socket", another_namespace_has_none),
        ("nobody_sleeps_while_datagrams_wait_that_a_poll_has_not_read", what_was_not_read_is_ready),
    ]);
}

struct SocketPair {
    a: BulkLink,
    b: BulkLink,
    to_b: Route,
    fabric: Fabric,
}

fn pair(mtu: u32) -> SocketPair {
    let fabric = testing::fabric("links for bulk data", |config| config.mtu = mtu);
    let open = |node: Node| {
        let _inside = node.enter().unwrap();
        let envelope = Envelope::Udp { port: 0 };
        let filter = Filter { envelope, channels: [CHANNEL].into_iter().collect() };
        BulkLink::open(node.interface, node.ipv4.into(), filter).unwrap()
    };
    let (a, b) = (open(fabric.node(1)), open(fabric.node(2)));
    let node = |ip: IpAddr| NodeAddr::Ip { ip, next_hop: MacAddr::default() };
    let envelope = Envelope::Udp { port: a.at().port() };
    let to_b = Route::to_port(envelope, node(a.at().ip()), node(b.at().ip()), b.at().port());
    SocketPair { a, b, to_b: to_b.unwrap(), fabric }
}

/// A GigaE frame with a payload of `payload` bytes, which depend on `n`.
fn frame(n: usize, payload: usize) -> Vec<u8> {
    let header = Header {
        kind: Kind::Op,
        channel: CHANNEL,
        src_port: 0,
        dst_port: 0,
        src_epoch: Epoch(1),
        dst_epoch: Epoch(2),
        seq: SeqNo(n as u32),
        ack: SeqNo(0),
        credit: 0,
        flags: Flags::NONE,
    };
    let mut bytes = vec![0; HEADER_LEN];
    bytes.extend((0..payload).map(|i| (i * 7 + i / 255 + n) as u8));
    header.seal(&mut bytes);
    bytes
}

impl SocketPair {
    fn send(&mut self, inner: &[u8]) {
        let mut frame = self.a.take().expect("a transmit frame");
        let arena = std::sync::Arc::clone(self.a.memory().arena);
        let end = self.to_b.len() + inner.len();
        let bytes = &mut arena.bytes_mut(&mut frame)[..end];
        bytes[self.to_b.len()..].copy_from_slice(inner);
        self.to_b.write(bytes);
        let posted = self.a.post(frame, 0..end, Segment::Last);
        self.a.release(posted.into());
        assert!(self.a.flush().unwrap());
    }

    /// The next frame, if it comes in a second.
    fn poll(&mut self) -> Option<RxFrame> {
        let (end, mut batch) = (Instant::now() + Duration::from_secs(1), Vec::new());
        while self.b.poll(&mut batch, 1).unwrap() == 0 {
            if Instant::now() > end {
                return None;
            }
            std::thread::yield_now();
        }
        batch.pop()
    }

    /// The GigaE frame that comes next, if one does.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let frame = self.poll()?;
        let arena = std::sync::Arc::clone(self.b.memory().arena);
        let inner = arena.bytes(&frame)[self.to_b.len()..].to_vec();
        self.b.recycle(frame);
        Some(inner)
    }

    /// A plain socket on the first node, with the address of the link's socket.
    fn socket(&self) -> UdpSocket {
        let _inside = self.fabric.node(1).enter().unwrap();
        let socket = UdpSocket::bind((self.a.at().ip(), 0)).unwrap();
        socket.connect(self.b.at()).unwrap();
        socket
    }
}

/// The datagrams of a frame, of `unit` bytes each.
fn datagrams(inner: &[u8], unit: usize) -> Vec<Vec<u8>> {
    let header = BulkHeader { length: inner.len() as u16, unit: unit as u16 };
    let whole = [&header.to_bytes(), inner].concat();
    whole.chunks(unit).map(<[u8]>::to_vec).collect()
}

fn every_length(mtu: u32) {
    let mut pair = pair(mtu);
    let (unit, most) = pair.a.datagrams();
    let full = |datagrams: usize| datagrams * unit - HEADER_LEN;
    let edges = (1..=most).flat_map(|n| [full(n) - 1, full(n), full(n) + 1]);
    let lengths = [0, 1, 27, 28, 29, 500].into_iter().chain(edges);
    for (n, length) in lengths.filter(|&length| length <= full(most)).enumerate() {
        let sent = frame(n, length);
        pair.send(&sent);
        assert_eq!(pair.receive().as_ref(), Some(&sent), "{length} bytes");
    }
    assert_eq!(pair.b.counters().rx_dropped, 0);
}

/// Bytes in front of the data that stay elsewhere.
const HEAD: usize = HEADER_LEN + 12;

impl SocketPair {
    /// Sends a frame all of which but its first bytes lies elsewhere.
    fn send_in_place(&mut self, inner: &[u8]) {
        let mut frame = self.a.take().expect("a transmit frame");
        let arena = std::sync::Arc::clone(self.a.memory().arena);
        let (head, data) = inner.split_at(HEAD);
        let end = self.to_b.len() + inner.len();
        let bytes = &mut arena.bytes_mut(&mut frame)[..end];
        let behind = &mut bytes[self.to_b.len()..][HEADER_LEN..HEAD];
        behind.copy_from_slice(&head[HEADER_LEN..]);
        self.to_b.write(bytes);
        let (header, _) = Header::parse(inner).expect("a sealed frame");
        let posted = self.a.post_in_place(frame, 0..end, &header, data, true);
        self.a.release(posted.into());
        assert!(self.a.flush().unwrap());
    }

    /// The next frame, whose data are expected in this memory, and how many of them came there.
    fn poll_placing(&mut self, data: &mut [u8]) -> (RxFrame, usize) {
        let (end, mut batch) = (Instant::now() + Duration::from_secs(10), Vec::new());
        loop {
            let placement = Placement { head: HEAD, data: &mut *data };
            let polled = self.b.poll_placing(&mut batch, 1, placement).unwrap();
            if let Some(frame) = batch.pop() {
                return (frame, polled.placed);
            }
            assert!(Instant::now() < end, "no frame came");
            std::thread::yield_now();
        }
    }
}

fn data_elsewhere(mtu: u32) {
    let mut pair = pair(mtu);
    let (unit, most) = pair.a.datagrams();
    let arena = std::sync::Arc::clone(pair.b.memory().arena);
    let edges = (1..=most).flat_map(|n| [n * unit - 1, n * unit, n * unit + 1]);
    let lengths = [HEAD, HEAD + 1].into_iter().chain(edges);
    for (n, length) in lengths.filter(|&length| length <= most * unit).enumerate() {
        let sent = frame(n, length - HEADER_LEN);
        // All of the data are expected, or some, or more.
        for expected in [length - HEAD, (length - HEAD) / 2, length] {
            pair.send_in_place(&sent);
            let mut data = vec![0; expected];
            let (frame, placed) = pair.poll_placing(&mut data);
            assert_eq!(placed, expected.min(length - HEAD), "{length} bytes");
            let got = &arena.bytes(&frame)[pair.to_b.len()..];
            assert_eq!(got.len(), length);
            assert!(got[..HEAD] == sent[..HEAD] && data[..placed] == sent[HEAD..HEAD + placed]);
            assert!(got[HEAD + placed..] == sent[HEAD + placed..], "{length} bytes");
            assert!(data[placed..].iter().all(|&byte| byte == 0));
            let frame = pair.b.fetch_placed(frame, HEAD, &data[..placed]);
            assert!(arena.bytes(&frame)[pair.to_b.len()..] == sent, "{length} bytes");
            pair.b.recycle(frame);
        }
    }
    assert_eq!(pair.b.counters().rx_dropped, 0);
}

/// Sends frames until those to the peer go by a socket of its own, which lends. It is opened in the
/// link's namespace.
fn connect(pair: &mut SocketPair) {
    let _inside = pair.fabric.node(1).enter().unwrap();
    for n in 0..CONNECTED_AFTER + LENT_AFTER {
        pair.send(&frame(n, 2000));
        pair.receive().expect("a frame");
    }
}

fn lent_data_arrive() {
    // So that the data begin anywhere in a page, and lie in 4 to 17 of them.
    for at in [0, 1, 16, 2048, 3000, 4095] {
        // The first frames to a peer go either way, to see which is faster.
        let mut pair = pair(1500);
        pair.a.set_lending(true);
        connect(&mut pair);
        let (unit, most) = pair.a.datagrams();
        let mut memory = vec![0; 20 * 4096];
        let page = memory.as_ptr().align_offset(4096);
        for length in [16_384, 40_000, 61_440, unit * most - HEAD] {
            let sent = frame(at, length + HEAD - HEADER_LEN);
            let begin = page + 4096 + at - HEAD;
            memory[begin..begin + sent.len()].copy_from_slice(&sent);
            for _ in 0..2 {
                pair.send_in_place(&memory[begin..begin + sent.len()]);
                assert_eq!(pair.receive().as_ref(), Some(&sent), "{length} bytes at {at}");
            }
        }
        assert_eq!(pair.b.counters().rx_dropped, 0);
    }
}

/// Who changes lent data before the receiver takes them changes what it gets.
fn data_are_lent() {
    let mut pair = pair(1500);
    connect(&mut pair);
    let sent = frame(1, 40_000);
    let mut got = |lend: Option<bool>, length: usize| {
        lend.into_iter().for_each(|lend| pair.a.set_lending(lend));
        // Of two frames one is copied, to see which way is faster.
        let changed = [(); 2].map(|()| {
            let mut memory = frame(1, length);
            pair.send_in_place(&memory);
            memory[HEAD..].fill(0);
            let got = pair.receive().expect("a frame");
            assert!(got[..HEAD] == sent[..HEAD] || length < 40_000);
            got[HEAD..] == memory[HEAD..]
        });
        changed.contains(&true)
    };
    assert!(!got(None, 40_000), "the data were lent though nobody said so");
    assert!(got(Some(true), 40_000), "the data were copied");
    assert!(!got(None, 16_000), "a copy of few data is faster");
    assert!(got(None, 40_000), "the data were copied");
    assert!(!got(Some(false), 40_000), "the data were lent");
}

fn another_frame_is_fetched() {
    let mut pair = pair(1500);
    let (socket, arena) = (pair.socket(), std::sync::Arc::clone(pair.b.memory().arena));
    // Its datagrams come one by one: it is not placed. Neither are the next ones, until 16 buffers
    // have brought a whole frame each.
    let inner = frame(1, 9000);
    for datagram in datagrams(&inner, 1000) {
        socket.send(&datagram).unwrap();
    }
    let mut data = vec![0; 60_000];
    let (first, placed) = pair.poll_placing(&mut data);
    let outer = arena.bytes(&first).len() - inner.len();
    assert!(placed == 0 && arena.bytes(&first)[outer..] == inner);
    pair.b.recycle(first);
    let mut without = 0;
    loop {
        let sent = frame(2, 9000);
        pair.send_in_place(&sent);
        let (next, placed) = pair.poll_placing(&mut data);
        let got = &arena.bytes(&next)[outer..];
        assert!(got[..HEAD] == sent[..HEAD]);
        assert!(if placed > 0 { data[..placed] == sent[HEAD..] } else { got == sent });
        pair.b.recycle(next);
        if placed > 0 {
            break;
        }
        without += 1;
    }
    assert_eq!(without, 16);
}

fn datagrams_alone_make_frames() {
    let mut pair = pair(1500);
    let senders = [pair.socket(), pair.socket(), pair.socket()];
    let frames = [frame(1, 9000), frame(2, 5000), frame(3, 700)];
    let units = [1000, 1100, 1200];
    let all: Vec<_> =
        frames.iter().zip(units).map(|(inner, unit)| datagrams(inner, unit)).collect();
    // The senders take turns.
    for round in 0..all[0].len() {
        for (socket, datagrams) in senders.iter().zip(&all) {
            if let Some(datagram) = datagrams.get(round) {
                socket.send(datagram).unwrap();
            }
        }
    }
    let mut got: Vec<_> = std::iter::from_fn(|| pair.receive()).collect();
    got.sort_unstable();
    let mut sent = frames.to_vec();
    sent.sort_unstable();
    assert!(got == sent, "{} frames", got.len());
    assert_eq!(pair.b.counters().rx_dropped, 0);
}

fn a_frame_without_one_datagram_is_dropped() {
    let mut pair = pair(1500);
    let socket = pair.socket();
    for missing in 0..10 {
        let before = pair.b.counters().rx_dropped;
        let lost = datagrams(&frame(missing, 9000), 1000);
        assert_eq!(lost.len(), 10);
        for (_, datagram) in lost.iter().enumerate().filter(|(i, _)| *i != missing) {
            socket.send(datagram).unwrap();
        }
        // Those behind it do not suffer.
        for n in 0..3 {
            let sent = frame(100 + n, 2500);
            for datagram in datagrams(&sent, 1000) {
                socket.send(&datagram).unwrap();
            }
            assert_eq!(pair.receive(), Some(sent), "without datagram {missing}");
        }
        assert_eq!(pair.b.counters().rx_dropped - before, 9, "without datagram {missing}");
    }
    // More senders than frames that are kept: the oldest are given up.
    let senders: Vec<_> = (0..70).map(|_| pair.socket()).collect();
    let sent = frame(7, 2500);
    for datagram in datagrams(&sent, 1000) {
        for socket in &senders {
            socket.send(&datagram).unwrap();
        }
    }
    let got: Vec<_> = std::iter::from_fn(|| pair.receive()).collect();
    assert!(got.len() == 64 && got.iter().all(|got| *got == sent), "{} frames", got.len());
}

fn datagrams_that_nobody_sends_do_no_harm() {
    let mut pair = pair(1500);
    let socket = pair.socket();
    let header = |length, unit| BulkHeader { length, unit }.to_bytes();
    let with = |header: [u8; BULK_HEADER_LEN], len| [&header[..], &vec![0; len]].concat();
    for hostile in [
        vec![],
        vec![1],
        with(header(0, 100), 0),
        with(header(100, 108), 99),
        with(header(100, 108), 101),
        with(header(1000, 100), 200),
        with(header(u16::MAX, 1472), 1464),
        with(header(1400, 8), 1400),
        with(header(1400, 0), 1400),
        // The first of several, and never the next: what follows is not a datagram of that frame.
        with(header(u16::MAX, 1000), 992),
        vec![3; 1001],
        with(header(5000, 1000), 992),
        vec![3; 999],
        with(header(1500, 1000), 992),
        vec![3; 509],
    ] {
        socket.send(&hostile).unwrap();
    }
    for n in 0..300_u32 {
        let noise: Vec<u8> = (0..n).map(|i| (i * 31 + n * 17) as u8).collect();
        socket.send(&noise).unwrap();
    }
    let sent = frame(1, 60_000);
    pair.send(&sent);
    assert_eq!(pair.receive(), Some(sent));
}

fn lent_frames_come_back() {
    let mut pair = pair(1500);
    let all = pair.b.info().rx_frames;
    let lent: Vec<_> = (0..all)
        .map(|n| {
            pair.send(&frame(n, 100));
            pair.poll().expect("there is a slot")
        })
        .collect();
    let late = frame(all, 3000);
    pair.send(&late);
    let mut batch = Vec::new();
    assert_eq!(pair.b.poll(&mut batch, 1).unwrap(), 0, "all slots are lent");
    lent.into_iter().for_each(|frame| pair.b.recycle(frame));
    assert_eq!(pair.receive(), Some(late));
}

/// As many frames as there may be: out of order, of datagrams, and in parts.
fn the_socket_is_read_whatever_is_kept() {
    let mut pair = pair(1500);
    let kept: Vec<_> = (0..128)
        .map(|n| {
            pair.send(&frame(n, 100));
            pair.poll().expect("there is a slot")
        })
        .collect();
    for peer in 0..64 {
        let header = PartHeader { frame: 1, unit: 1024, index: 0, count: 2 };
        assert!(pair.b.take_part(peer, pair.a.at(), header, &[0; 1024]).is_none());
    }
    let senders: Vec<_> = (0..64).map(|_| pair.socket()).collect();
    for socket in &senders {
        socket.send(&datagrams(&frame(1, 2500), 1000)[0]).unwrap();
    }
    let sent = frame(2, 60_000);
    pair.send(&sent);
    assert!(pair.receive() == Some(sent), "the socket is not read");
    kept.into_iter().for_each(|frame| pair.b.recycle(frame));
}

/// A plain socket in the place of the second link, and a link that sends to it.
fn to_socket() -> (SocketPair, UdpSocket) {
    let mut pair = pair(1500);
    let node = pair.fabric.node(2);
    let _inside = node.enter().unwrap();
    let socket = UdpSocket::bind((node.ipv4, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let node = |ip: IpAddr| NodeAddr::Ip { ip, next_hop: MacAddr::default() };
    let (own, to) = (pair.a.at(), socket.local_addr().unwrap());
    let envelope = Envelope::Udp { port: own.port() };
    pair.to_b = Route::to_port(envelope, node(own.ip()), node(to.ip()), to.port()).unwrap();
    (pair, socket)
}

/// The port from which the datagrams of the next frame, of two, come.
fn port_of_next(socket: &UdpSocket) -> u16 {
    let [first, second] = [(); 2].map(|()| socket.recv_from(&mut [0; 2000]).unwrap().1);
    assert_eq!(first, second);
    first.port()
}

/// After this many frames.
const CONNECTED_AFTER: usize = 8;

/// Frames by such a socket before data are lent.
const LENT_AFTER: usize = 32;

fn a_peer_of_many_frames_has_a_socket() {
    let (mut pair, socket) = to_socket();
    let _inside = pair.fabric.node(1).enter().unwrap();
    let named = pair.a.at().port();
    let ports: Vec<_> = (0..3 * CONNECTED_AFTER)
        .map(|n| {
            pair.send(&frame(n, 2000));
            port_of_next(&socket)
        })
        .collect();
    let (first, rest) = ports.split_at(CONNECTED_AFTER - 1);
    assert!(first.iter().all(|&port| port == named), "{ports:?}");
    assert!(rest.iter().all(|&port| port == rest[0] && port != named), "{ports:?}");
    // Short ones do, too. Questions whether the way works have numbers, and go as before.
    for (numbered, port) in [(false, rest[0]), (true, named)] {
        pair.a.set_numbered(numbered);
        pair.send(&frame(1, 100));
        assert_eq!(socket.recv_from(&mut [0; 2000]).unwrap().1.port(), port);
    }
}

fn a_repeated_frame_goes_by_the_named_port() {
    repeated(|link, frame, bytes, _| link.post(frame, bytes, Segment::Last));
    repeated(|link, frame, bytes, inner| {
        let (header, _) = Header::parse(inner).expect("a sealed frame");
        link.post_in_place(frame, bytes, &header, &inner[HEAD..], true)
    });
}

/// Posts a frame, whose GigaE frame is the last argument.
type Post = fn(&mut BulkLink, TxFrame, Range<usize>, &[u8]) -> Posted;

fn repeated(post: Post) {
    let (mut pair, socket) = to_socket();
    let _inside = pair.fabric.node(1).enter().unwrap();
    let named = pair.a.at().port();
    for n in 0..CONNECTED_AFTER {
        pair.send(&frame(n, 2000));
        port_of_next(&socket);
    }
    let inner = frame(0, 2000);
    let mut again = pair.a.take().expect("a transmit frame");
    let end = pair.to_b.len() + inner.len();
    let arena = std::sync::Arc::clone(pair.a.memory().arena);
    let bytes = &mut arena.bytes_mut(&mut again)[..end];
    bytes[pair.to_b.len()..].copy_from_slice(&inner);
    pair.to_b.write(bytes);
    let mut ports = Vec::new();
    for _ in 0..2 {
        let posted = post(&mut pair.a, again, 0..end, &inner);
        assert!(pair.a.flush().unwrap());
        again = pair.a.reclaim(posted).expect("the kernel has it");
        ports.push(port_of_next(&socket));
    }
    assert!(ports[0] != named && ports[1] == named, "{ports:?}");
    // Longer than at first: a firewall may let no other port pass.
    for n in 0..8 * CONNECTED_AFTER - 1 {
        pair.send(&frame(n, 2000));
        assert_eq!(port_of_next(&socket), named);
    }
    pair.send(&frame(0, 2000));
    assert_ne!(port_of_next(&socket), named);
}

fn a_closed_port_costs_no_error() {
    let (mut pair, socket) = to_socket();
    let _inside = pair.fabric.node(1).enter().unwrap();
    for n in 0..2 * CONNECTED_AFTER {
        pair.send(&frame(n, 2000));
        port_of_next(&socket);
    }
    drop(socket);
    // The kernel reports the closed port to the connected socket.
    for n in 0..3 * CONNECTED_AFTER {
        pair.send(&frame(n, 2000));
    }
    assert_eq!(pair.a.counters().tx_invalid, 0);
}

/// A thread in another one may send, too: the progress thread of a process with several.
fn another_namespace_has_none() {
    let (mut pair, socket) = to_socket();
    let named = pair.a.at().port();
    for n in 0..3 * CONNECTED_AFTER {
        pair.send(&frame(n, 2000));
        assert_eq!(port_of_next(&socket), named);
    }
}

fn what_was_not_read_is_ready() {
    let mut pair = pair(1500);
    let socket = pair.socket();
    // More than a poll reads. Each is longer than the one before, so the kernel joins none.
    for unit in 40..290 {
        let first = datagrams(&frame(0, 1400), unit).swap_remove(0);
        socket.send(&first).unwrap();
    }
    let sent = frame(1, 60_000);
    pair.send(&sent);
    // What goes the same way behind them is there: so are they.
    let behind = {
        let _inside = pair.fabric.node(2).enter().unwrap();
        UdpSocket::bind((pair.b.at().ip(), 0)).unwrap()
    };
    socket.send_to(&[1], behind.local_addr().unwrap()).unwrap();
    assert_eq!(behind.recv(&mut [0; 2]).unwrap(), 1);
    assert_eq!(pair.b.poll(&mut Vec::new(), 1).unwrap(), 0, "only beginnings of frames");
    assert!(pair.b.prepare_to_wait(), "the rest waits in the socket");
    assert_eq!(pair.receive(), Some(sent));
    assert_eq!(pair.b.poll(&mut Vec::new(), 1).unwrap(), 0);
    assert!(!pair.b.prepare_to_wait());
}
