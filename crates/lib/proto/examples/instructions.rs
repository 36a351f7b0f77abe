//! What `tests/instructions.rs` counts: each case is a function `measured_...` that does one thing
//! once. Prints how many messages passed through each. Alone it does nothing of use.

use gigae_proto::{Arrival, ForeignFrame, Instant, PeerId, PeerKey, Protocol, ProtocolConfig};
use gigae_wire::{
    Discard, Envelope, Epoch, Flags, HEADER_LEN, Header, Kind, MacAddr, NodeAddr, PathId, Route,
    SeqNo, batch,
};
use std::hint::black_box;

/// Passes of each case, and messages in each: enough that what happens once per sixteen frames or
/// per reading of the clock has its share.
const ROUNDS: u32 = 256;
const ROUND: usize = 16;

/// Payload of a full frame at MTU 1500, and how many messages of 8 bytes fit one as a Batch.
const FULL: usize = 1468;
const BATCHED: usize = FULL / (batch::PREFIX_LEN + 8);

/// As large as what the library keeps of a frame in the protocol's window.
#[derive(Clone, Copy, Debug, Default)]
struct Buffer([u64; 5]);

type Proto = Protocol<Buffer, Buffer>;

const NEAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const FAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn main() {
    wire_headers();
    wire_batches();
    proto_stream();
    proto_round_trips();
    proto_appends();
    proto_hostile();
}

fn report(case: &str, messages: usize) {
    println!("measured_{case} {messages}");
}

// ---------------------------------------------------------------------------------------------
// wire

fn header(flags: Flags) -> Header {
    Header {
        kind: Kind::Data,
        channel: 3,
        src_port: 1,
        dst_port: 2,
        src_epoch: Epoch(0x0102_0304),
        dst_epoch: Epoch(0x0506_0708),
        seq: SeqNo(9),
        ack: SeqNo(10),
        credit: 64,
        flags,
    }
}

fn wire_headers() {
    let envelope = Envelope::DEFAULT;
    let route = Route::new(envelope, NEAR.into(), FAR.into()).expect("both are Ethernet addresses");
    let mut short = [7; 64];
    let mut full = [7; 64 + FULL];
    let inner = route.len();
    let (small, large) = (inner + HEADER_LEN + 8, inner + HEADER_LEN + FULL);
    // The first checksum asks the processor what it can.
    header(Flags::NONE).seal(&mut short[inner..small]);
    for seq in 0..ROUNDS {
        let mut header = header(Flags::NONE);
        header.seq = SeqNo(seq);
        measured_wire_seal_8_bytes(&header, &mut short[inner..small]);
        measured_wire_write_route(&route, &mut short[..small]);
        header.flags = Flags::HEADER_ONLY;
        measured_wire_seal_full_frame_header_only(&header, &mut full[inner..large]);
        route.write(&mut full[..large]);
        // Short frames are padded.
        measured_wire_open_envelope(envelope, &short[..60]).expect("it was written so");
        let parsed = measured_wire_parse_8_bytes(&short[inner..60]).expect("it was sealed so");
        assert_eq!((parsed.0.seq.0, parsed.1.len()), (seq, 8));
        let full = &full[inner..large];
        let parsed = measured_wire_parse_full_frame_header_only(full).expect("it was sealed so");
        assert_eq!((parsed.0, parsed.1.len()), (header, FULL));
    }
    for case in [
        "wire_seal_8_bytes",
        "wire_write_route",
        "wire_seal_full_frame_header_only",
        "wire_open_envelope",
        "wire_parse_8_bytes",
        "wire_parse_full_frame_header_only",
    ] {
        report(case, ROUNDS as usize);
    }
}

#[inline(never)]
fn measured_wire_seal_8_bytes(header: &Header, frame: &mut [u8]) {
    header.seal(frame);
}

#[inline(never)]
fn measured_wire_seal_full_frame_header_only(header: &Header, frame: &mut [u8]) {
    header.seal(frame);
    // Else it would be one function with the one before.
    black_box(FULL);
}

#[inline(never)]
fn measured_wire_write_route(route: &Route, frame: &mut [u8]) {
    route.write(frame);
}

#[inline(never)]
fn measured_wire_open_envelope(
    envelope: Envelope,
    frame: &[u8],
) -> Result<(NodeAddr, &[u8]), Discard> {
    envelope.open(frame)
}

#[inline(never)]
fn measured_wire_parse_8_bytes(frame: &[u8]) -> Result<(Header, &[u8]), Discard> {
    Header::parse(frame)
}

#[inline(never)]
fn measured_wire_parse_full_frame_header_only(frame: &[u8]) -> Result<(Header, &[u8]), Discard> {
    black_box(FULL);
    Header::parse(frame)
}

fn wire_batches() {
    let mut payload = Vec::with_capacity(FULL);
    for n in 0..BATCHED as u64 {
        payload.extend_from_slice(&batch::prefix(8));
        payload.extend_from_slice(&n.to_be_bytes());
    }
    for _ in 0..ROUNDS {
        measured_wire_check_batch(&payload).expect("it was written so");
        assert_eq!(measured_wire_walk_batch(&payload), BATCHED);
    }
    report("wire_check_batch", ROUNDS as usize * BATCHED);
    report("wire_walk_batch", ROUNDS as usize * BATCHED);
}

#[inline(never)]
fn measured_wire_check_batch(payload: &[u8]) -> Result<(), Discard> {
    batch::check(payload)
}

#[inline(never)]
fn measured_wire_walk_batch(payload: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while let Some(message) = batch::message_at(payload, at) {
        at = message.end;
        count += 1;
        black_box(message);
    }
    count
}

// ---------------------------------------------------------------------------------------------
// proto

struct ProtocolPair {
    near: Proto,
    far: Proto,
    to_far: PeerId,
    to_near: PeerId,
    now: u64,
}

impl ProtocolPair {
    /// Two protocols whose session is up, and whose windows and credit have grown to their full
    /// size.
    fn new() -> Self {
        let [mut near, mut far] =
            [1, 2].map(|secret| Proto::new(ProtocolConfig::default(), secret));
        let key = |node: MacAddr| PeerKey { node: node.into(), port: 0, channel: 3 };
        let to_far = near.peer(key(FAR)).expect("the table is empty");
        let to_near = far.peer(key(NEAR)).expect("the table is empty");
        let mut pair = Self { near, far, to_far, to_near, now: 0 };
        for _ in 0..ROUND {
            pair.near.send(pair.to_far, 8, Buffer::default()).expect("the window has room");
            pair.far.send(pair.to_near, 8, Buffer::default()).expect("the window has room");
        }
        pair.settle();
        for _ in 0..1024 {
            pair.near.send(pair.to_far, 8, Buffer::default()).expect("the window has room");
            pair.far.send(pair.to_near, 8, Buffer::default()).expect("the window has room");
            pair.settle();
        }
        pair
    }

    /// The time passes as it does in a program: the clock is read now and then.
    fn pass(&mut self) {
        self.now += 100_000;
        self.near.advance(Instant(self.now));
        self.far.advance(Instant(self.now));
    }

    /// Carries frames until nothing is left to do, acknowledgements included.
    fn settle(&mut self) {
        loop {
            self.pass();
            let there = carry(&mut self.near, &mut self.far, NEAR);
            let back = carry(&mut self.far, &mut self.near, FAR);
            if !there && !back {
                return;
            }
        }
    }
}

/// Carries what one end has to transmit to the other, where messages are taken and released.
fn carry(from: &mut Proto, to: &mut Proto, node: MacAddr) -> bool {
    let mut any = false;
    while let Some(transmit) = from.poll_transmit() {
        any = true;
        let header = transmit.header;
        let mut payload = Vec::new();
        if let gigae_proto::Body::Control(control, padded) = transmit.body {
            payload.extend_from_slice(control);
            payload.resize(payload.len().max(padded.into()), 0);
        }
        let handled = to.handle(
            Arrival { path: PathId::FIRST, from: &node.into(), header: &header, payload: &payload },
            &mut Some(Buffer::default()),
        );
        assert_eq!(handled, Ok(()));
        while let Some(delivery) = to.poll_delivery() {
            to.release(delivery.peer, delivery.epoch);
        }
    }
    while from.poll_acknowledged().is_some() {}
    while to.poll_acknowledged().is_some() {}
    any
}

/// An Ack for all up to a data frame, as that frame's receiver would send it.
fn ack_of(data: &Header) -> Header {
    Header {
        kind: Kind::Ack,
        src_epoch: data.dst_epoch,
        dst_epoch: data.src_epoch,
        seq: data.ack,
        ack: data.seq + 1,
        credit: 256,
        flags: Flags::NONE,
        ..*data
    }
}

/// One way: messages, and acknowledgements alone.
fn proto_stream() {
    let mut pair = ProtocolPair::new();
    for round in 0..ROUNDS {
        let mut sent = [header(Flags::NONE); ROUND];
        for two in sent.chunks_mut(2) {
            two[0] = measured_proto_send(&mut pair.near, pair.to_far, Buffer::default());
            two[1] = measured_proto_send_at_once(&mut pair.near, pair.to_far, Buffer::default());
        }
        for two in sent.chunks(2) {
            measured_proto_handle_data(&mut pair.far, &two[0], Buffer::default());
            measured_proto_handle_next(&mut pair.far, &two[1], Buffer::default());
        }
        let ack = measured_proto_send_ack(&mut pair.far);
        assert_eq!((ack.kind, ack.ack), (Kind::Ack, sent[ROUND - 1].seq + 1));
        if round % 2 == 0 {
            measured_proto_handle_ack_of_16(&mut pair.near, &ack_of(&sent[ROUND - 1]));
        } else {
            for header in &sent {
                measured_proto_handle_ack_of_1(&mut pair.near, &ack_of(header));
            }
        }
        assert!(!pair.near.has_unacknowledged());
        pair.pass();
    }
    let messages = ROUNDS as usize * ROUND;
    report("proto_send", messages / 2);
    report("proto_send_at_once", messages / 2);
    report("proto_handle_data", messages / 2);
    report("proto_handle_next", messages / 2);
    report("proto_send_ack", ROUNDS as usize);
    report("proto_handle_ack_of_16", ROUNDS as usize / 2);
    report("proto_handle_ack_of_1", messages / 2);
}

/// Admits a message and asks for frames until there are none, as a doorbell does.
#[inline(never)]
fn measured_proto_send(near: &mut Proto, to: PeerId, buffer: Buffer) -> Header {
    let admitted = near.send(to, 8, buffer).is_ok();
    debug_assert!(admitted);
    transmitted(near)
}

/// The same for a message that finds nothing waiting.
#[inline(never)]
fn measured_proto_send_at_once(near: &mut Proto, to: PeerId, buffer: Buffer) -> Header {
    assert!(near.may_send_at_once(to, 8), "nothing waits");
    near.send_at_once(to, 8, buffer).header
}

/// The header of the last frame that is transmitted now.
#[inline]
fn transmitted(proto: &mut Proto) -> Header {
    let mut last = None;
    loop {
        while let Some(data) = proto.poll_data() {
            last = Some(data.header);
        }
        let Some(transmit) = proto.poll_transmit() else { break };
        last = Some(transmit.header);
    }
    last.expect("there was a frame to transmit")
}

/// A data frame in order, its delivery and its release. That it makes an acknowledgement due is in
/// it, the acknowledgement is not.
#[inline(never)]
fn measured_proto_handle_data(far: &mut Proto, header: &Header, buffer: Buffer) {
    assert!(
        far.handle(
            Arrival { path: PathId::FIRST, from: &NEAR.into(), header, payload: &[] },
            &mut Some(buffer)
        )
        .is_ok()
    );
    let delivery = far.poll_delivery().expect("it was in order");
    black_box(&delivery.buffer);
    far.release(delivery.peer, delivery.epoch);
}

/// The same for a frame that is taken as the next of its session.
#[inline(never)]
fn measured_proto_handle_next(far: &mut Proto, header: &Header, buffer: Buffer) {
    let arrival = Arrival { path: PathId::FIRST, from: &NEAR.into(), header, payload: &[] };
    assert!(far.handle_next(&arrival, buffer).is_ok());
    let delivery = far.poll_delivery().expect("it was in order");
    black_box(&delivery.buffer);
    far.release(delivery.peer, delivery.epoch);
}

#[inline(never)]
fn measured_proto_send_ack(far: &mut Proto) -> Header {
    transmitted(far)
}

#[inline(never)]
fn measured_proto_handle_ack_of_16(near: &mut Proto, header: &Header) {
    handle_ack(near, header);
    black_box(ROUND);
}

#[inline(never)]
fn measured_proto_handle_ack_of_1(near: &mut Proto, header: &Header) {
    black_box(1);
    handle_ack(near, header);
}

/// An acknowledgement, and the buffers that it frees.
#[inline(always)]
fn handle_ack(near: &mut Proto, header: &Header) {
    assert!(
        near.handle(
            Arrival { path: PathId::FIRST, from: &FAR.into(), header, payload: &[] },
            &mut Some(Buffer::default())
        )
        .is_ok()
    );
    while let Some(buffer) = near.poll_acknowledged() {
        black_box(&buffer);
    }
}

/// Both ways: each message carries the acknowledgement of the one before.
fn proto_round_trips() {
    let mut pair = ProtocolPair::new();
    pair.near.send(pair.to_far, 8, Buffer::default()).expect("the window has room");
    let mut header = transmitted(&mut pair.near);
    let messages = ROUNDS as usize * ROUND;
    for n in 0..messages {
        if n % (2 * ROUND) == 0 {
            pair.pass();
        }
        let (end, from, to) = match n % 2 {
            0 => (&mut pair.far, NEAR, pair.to_near),
            _ => (&mut pair.near, FAR, pair.to_far),
        };
        header = measured_proto_answer(end, from, &header, to);
    }
    report("proto_answer", messages);
}

/// One end of a round trip: a data frame comes, is delivered and released, frees what it
/// acknowledges, and is answered.
#[inline(never)]
fn measured_proto_answer(end: &mut Proto, from: MacAddr, header: &Header, to: PeerId) -> Header {
    assert!(
        end.handle(
            Arrival { path: PathId::FIRST, from: &from.into(), header, payload: &[] },
            &mut Some(Buffer::default())
        )
        .is_ok()
    );
    let delivery = end.poll_delivery().expect("it was in order");
    let answered = end.send(to, 8, delivery.buffer).is_ok();
    debug_assert!(answered);
    let header = transmitted(end);
    end.release(delivery.peer, delivery.epoch);
    while let Some(buffer) = end.poll_acknowledged() {
        black_box(&buffer);
    }
    header
}

/// Small messages that join one which waits: without the copy, which is the library's.
fn proto_appends() {
    let mut pair = ProtocolPair::new();
    for _ in 0..ROUNDS {
        pair.near.send(pair.to_far, 8, Buffer([10; 5])).expect("the window has room");
        for _ in 0..ROUND {
            assert!(measured_proto_append(&mut pair.near, pair.to_far));
        }
        pair.settle();
    }
    report("proto_append", ROUNDS as usize * ROUND);
}

#[inline(never)]
fn measured_proto_append(near: &mut Proto, to: PeerId) -> bool {
    near.append(to, |buffer, longest| {
        buffer.0[0] += 10;
        let len = buffer.0[0] as u16;
        (len <= longest).then_some(len)
    })
}

/// Frames of unknown peers at an endpoint that knows many peers and proposes sessions to some of
/// them.
fn proto_hostile() {
    const KNOWN: u16 = 4096;
    let mut end = Proto::new(ProtocolConfig::default(), 7);
    let key = |n: u16| {
        let [a, b] = n.to_be_bytes();
        PeerKey { node: MacAddr([2, 1, 0, 0, a, b]).into(), port: 0, channel: 3 }
    };
    for n in 0..KNOWN {
        let peer = end.peer(key(n)).expect("the table has room");
        if n % 2 == 0 {
            end.propose(peer);
        }
    }
    while end.poll_transmit().is_some() {}
    // Many links are stated, and cut off.
    let mut said = [0xff; 71];
    said[22] = 0;
    let stray = |kind, dst_epoch| Header { kind, dst_port: 0, dst_epoch, ..header(Flags::NONE) };
    for n in 0..ROUNDS {
        measured_proto_hostile_version(&mut end, n);
        measured_proto_hostile_hello(&mut end, &stray(Kind::Hello, Epoch::UNKNOWN), &said);
        measured_proto_hostile_confirm(&mut end, &stray(Kind::Confirm, Epoch(n)), &said);
        measured_proto_hostile_data(&mut end, &stray(Kind::Data, Epoch(n)));
        while end.poll_transmit().is_some() {}
    }
    for case in ["version", "hello", "confirm", "data"] {
        report(&format!("proto_hostile_{case}"), ROUNDS as usize);
    }
}

#[inline(never)]
fn measured_proto_hostile_version(end: &mut Proto, n: u32) {
    let [a, b, c, d] = n.to_be_bytes();
    let (src_epoch, dst_epoch) = (Epoch(n), Epoch(n));
    let frame = ForeignFrame { version: 1, kind: 5, channel: 3, src_epoch, dst_epoch };
    end.handle_foreign_version(PathId::FIRST, MacAddr([2, 9, a, b, c, d]).into(), Some(frame));
}

#[inline(never)]
fn measured_proto_hostile_hello(end: &mut Proto, header: &Header, said: &[u8]) {
    let _ = end.handle(
        Arrival { path: PathId::FIRST, from: &FAR.into(), header, payload: said },
        &mut None,
    );
}

#[inline(never)]
fn measured_proto_hostile_confirm(end: &mut Proto, header: &Header, said: &[u8]) {
    let _ = end.handle(
        Arrival { path: PathId::FIRST, from: &FAR.into(), header, payload: said },
        &mut None,
    );
    black_box(said);
}

#[inline(never)]
fn measured_proto_hostile_data(end: &mut Proto, header: &Header) {
    let _ = end.handle(
        Arrival { path: PathId::FIRST, from: &FAR.into(), header, payload: &[] },
        &mut Some(Buffer::default()),
    );
}
