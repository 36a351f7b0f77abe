//! The parsers of `gigae-wire`, by raw bytes and by frames that were sealed.

use crate::meter::within;
use crate::script::Script;
use gigae_wire::op::{self, Op};
use gigae_wire::{
    AckReport, Discard, Envelope, Epoch, Flags, HEADER_LEN, Handshake, Header, Here, Kind,
    MAX_PATHS, MacAddr, NodeAddr, PathAddr, PathId, Paths, Pieces, Route, SeqNo, batch,
    is_node_name, is_who,
};

/// The crate allocates nothing; this is for the frames that are put together here.
const MEMORY: usize = 1 << 20;

/// UDP port of the UDP envelopes.
const PORT: u16 = 4791;

const ENVELOPES: [Envelope; 2] = [Envelope::DEFAULT, Envelope::Udp { port: PORT }];

/// The wire parser, both envelopes. The first byte chooses between raw bytes, raw bytes behind a
/// sealed header, and a frame that is sealed, cut, damaged and read back.
///
/// # Panics
/// If a parser does, reads two forms of the same frame differently, or takes a damaged one.
pub fn wire(input: &[u8]) {
    within(MEMORY, || {
        let mut script = Script::new(input);
        match script.byte() % 3 {
            0 => raw(script.rest()),
            1 => payloads(&mut script),
            _ => sealed(&mut script),
        }
    });
}

/// Bytes as they come from a NIC.
fn raw(frame: &[u8]) {
    for envelope in ENVELOPES {
        let _ = is_who(envelope, frame);
        let _ = envelope.destination(frame);
        let opened = envelope.open(frame);
        let located = envelope.locate(frame, frame.len());
        match (opened, located) {
            (Ok((from, inner)), Ok((same, place))) => {
                assert!(from == same && *inner == frame[place]);
                let _ = header(inner);
            }
            (Err(one), Err(other)) => assert_eq!(one, other),
            both => panic!("opened and located differ: {both:?}"),
        }
        tagged(envelope, frame);
    }
    let _ = header(frame);
    every_payload(frame);
}

/// A frame is the same with a priority tag. Two tags, or one of a VLAN, make it foreign.
fn tagged(envelope: Envelope, frame: &[u8]) {
    let Some((addresses, rest)) = frame.split_at_checked(12) else { return };
    let with = |tag: [u8; 4]| [addresses, &tag, rest].concat();
    let frames = [with([0x81, 0, 0xe0, 0]), with([0x81, 0, 0xe0, 1])];
    let [same, foreign] = [0, 1].map(|i: usize| envelope.open(&frames[i]).ok());
    match rest {
        [0x81, 0, ..] => assert_eq!(same, None),
        _ => assert_eq!(same, envelope.open(frame).ok()),
    }
    assert_eq!(foreign, None);
}

/// A frame parsed whole and in segments is the same.
fn header(frame: &[u8]) -> Result<Header, Discard> {
    let whole = Header::parse(frame);
    for cut in [0, frame.len() / 3, frame.len()] {
        let (front, behind) = frame.split_at(cut);
        let (middle, last) = behind.split_at(behind.len() / 2);
        let rest = [middle, &[], last];
        match (whole, Header::parse_segments(Pieces::new(front, &rest))) {
            (Ok((header, payload)), Ok((same, pieces))) => {
                assert_eq!(header, same);
                assert_eq!(payload.len(), pieces.len());
                assert!(pieces.flatten().eq(payload));
            }
            (Err(one), Err(other)) => assert_eq!(one, other),
            both => panic!("whole and in segments differ: {both:?}"),
        }
    }
    whole.map(|(header, payload)| {
        every_payload(payload);
        header
    })
}

/// A payload is read as that of every kind, since its header may say any.
fn every_payload(payload: &[u8]) {
    if let Ok(said) = Handshake::parse(payload) {
        let mut again = [0; Handshake::LONGEST];
        let len = said.write(&mut again);
        assert_eq!(Handshake::parse(&again[..len]), Ok(said));
    }
    if let Ok(Some(report)) = AckReport::parse(payload) {
        let mut last = None;
        for offset in report.offsets() {
            assert!(offset <= 8 * AckReport::MAX_BITMAP as u32, "offset {offset}");
            assert!(last.is_none_or(|last| last < offset), "not ascending");
            last = Some(offset);
        }
    }
    if let Ok(here) = Here::parse(payload) {
        assert!(is_node_name(here.name), "{:?}", here.name);
        let mut again = [0; Here::LONGEST];
        let len = here.write(&mut again);
        assert_eq!(Here::parse(&again[..len]), Ok(here));
    }
    if let Ok(paths) = Paths::parse(payload) {
        assert!((1..=MAX_PATHS).contains(&paths.len()));
        let all = PathId::all(paths.len());
        let addresses: Vec<_> = all.filter_map(|path| paths.get(path)).collect();
        match addresses[..] {
            [PathAddr::Socket(socket)] => {
                assert!(socket.port() > 0 && !socket.ip().is_multicast());
                assert_eq!(Paths::Bulk(socket), paths);
            }
            _ => {
                let mac = |path: &PathAddr| match path {
                    PathAddr::Link(mac) => *mac,
                    PathAddr::Socket(_) => panic!("a socket among links"),
                };
                let macs: Vec<MacAddr> = addresses.iter().map(mac).collect();
                assert!(macs.iter().all(|mac| !mac.is_group()));
                assert_eq!(Paths::links(&macs), paths);
            }
        }
    }
    messages(payload);
    operations(payload);
}

fn messages(payload: &[u8]) {
    let (mut at, mut sum) = (0, 0);
    while let Some(message) = batch::message_at(payload, at) {
        assert!(message.start == at + batch::PREFIX_LEN && message.end <= payload.len());
        sum += batch::PREFIX_LEN + message.len();
        at = message.end;
    }
    let filled = !payload.is_empty() && sum == payload.len();
    assert_eq!(batch::check(payload).is_ok(), filled);
}

fn operations(payload: &[u8]) {
    let mut rest = Pieces::from(payload);
    let mut taken = 0;
    let end = loop {
        match Op::take(&mut rest) {
            Ok(Some((op, data))) => {
                let mut header = [0; op::MAX_OP_HEADER];
                let len = u16::try_from(data.len()).expect("two bytes say it");
                assert_eq!(op.write(len, &mut header), op.header_len());
                let (again, _) = Op::take(&mut Pieces::new(&header[..op.header_len()], &[payload]))
                    .expect("it was just written")
                    .expect("it was just written");
                assert_eq!(again, op);
                taken += op.header_len() + data.len();
            }
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    assert_eq!(op::check(payload.into()).is_ok(), end && !payload.is_empty());
    assert!(if end { taken == payload.len() } else { taken <= payload.len() });
}

fn payloads(script: &mut Script<'_>) {
    let header = any_header(script);
    let payload = script.rest();
    let payload = &payload[..payload.len().min(65_535)];
    let mut frame = vec![0; HEADER_LEN];
    frame.extend_from_slice(payload);
    header.seal(&mut frame);
    let (same, read) = Header::parse(&frame).expect("it was just sealed");
    assert!(same == header && read == payload);
    every_payload(payload);
}

fn any_header(script: &mut Script<'_>) -> Header {
    let kinds = [
        Kind::Data,
        Kind::Ack,
        Kind::Hello,
        Kind::HelloAck,
        Kind::Reset,
        Kind::Batch,
        Kind::Op,
        Kind::Who,
        Kind::Here,
        Kind::Probe,
        Kind::Echo,
        Kind::Confirm,
        Kind::Part,
    ];
    Header {
        kind: script.pick(&kinds),
        channel: script.byte(),
        src_port: script.u16(),
        dst_port: script.u16(),
        src_epoch: Epoch(script.u32()),
        dst_epoch: Epoch(script.u32()),
        seq: SeqNo(script.u32()),
        ack: SeqNo(script.u32()),
        credit: script.u16(),
        flags: script.pick(&[Flags::NONE, Flags::ASK, Flags::HEADER_ONLY, Flags::ANSWER]),
    }
}

/// A frame on its whole way: sealed in one piece and in segments, carried by each envelope, read
/// back; then one bit of it is turned, which must not go unnoticed.
fn sealed(script: &mut Script<'_>) {
    let header = any_header(script);
    let (cut, turn) = (usize::from(script.u16()), usize::from(script.u16()));
    let payload = script.rest();
    let payload = &payload[..payload.len().min(9000)];
    let mac = |n| MacAddr([2, 0, 0, 0, 0, n]);
    let ip =
        |text: &str, n| NodeAddr::Ip { ip: text.parse().expect("a constant"), next_hop: mac(n) };
    let ways = [
        (ENVELOPES[0], mac(1).into(), mac(2).into()),
        (ENVELOPES[1], ip("198.18.0.1", 1), ip("198.18.0.2", 2)),
        (ENVELOPES[1], ip("fd00::1", 1), ip("fd00::2", 2)),
    ];
    for (envelope, from, to) in ways {
        // Of any port ids.
        let port = if let Envelope::Udp { port } = envelope { port } else { 0 };
        let route = Route::to_port(envelope, from, to, port).expect("both are of one family");
        let mut frame = vec![0; route.len() + HEADER_LEN];
        frame.extend_from_slice(payload);
        header.seal(&mut frame[route.len()..]);
        route.write(&mut frame);
        let first = route.len() + HEADER_LEN + cut % (payload.len() + 1);
        let mut segments = frame[..first].to_vec();
        let behind = [&frame[first..]];
        header.seal_segments(&mut segments[route.len()..], Pieces::new(&[], &behind));
        route.write_segments(&mut segments, Pieces::new(&[], &behind));
        assert_eq!(segments, frame[..first], "sealed in segments");
        frame.resize(frame.len().max(60), 0);
        let (sender, inner) = envelope.open(&frame).expect("it was just written");
        assert!(sender == from);
        let (same, read) = Header::parse(inner).expect("it was just sealed");
        assert!(same == header && read == payload);
        damaged(&frame, route.len(), turn, &header, payload);
    }
}

fn damaged(frame: &[u8], start: usize, turn: usize, header: &Header, payload: &[u8]) {
    let covered = if header.flags.has(Flags::HEADER_ONLY) { 0 } else { payload.len() };
    let at = turn / 8 % (HEADER_LEN + covered);
    let mut damaged = frame[start..].to_vec();
    damaged[at] ^= 1 << (turn % 8);
    // Length and flags say what the checksum covers, so that a change of those is not a single
    // turned bit.
    let says_how_much = (6..8).contains(&at) || (30..32).contains(&at);
    let read = self::header(&damaged);
    assert!(says_how_much || read.is_err(), "bit {} of byte {at} went unnoticed", turn % 8);
}
