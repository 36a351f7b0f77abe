//! The Wireshark dissector, read by tshark: every kind of frame and operation, both envelopes, and
//! what is wrong with frames.
#![allow(missing_docs)]

mod tshark;

use gigae::{Address, Options};
use gigae_observe::pcapng::{CaptureWriter, CapturedFrame, InterfaceDescription};
use gigae_sim::{Faults, Network};
use gigae_wire::{
    Envelope, Epoch, Flags, HEADER_LEN, Handshake, Header, Hello, Here, Kind, MacAddr, NodeAddr,
    Paths, Pieces, Route, SeqNo, batch, op,
};
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

const FROM: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const TO: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// Every envelope, with the options that tshark needs for it.
fn envelopes() -> [(Route, Vec<&'static str>); 4] {
    let udp = Envelope::Udp { port: 4711 };
    let ip = |ip: &str, next_hop| NodeAddr::Ip { ip: ip.parse().unwrap(), next_hop };
    let route = |envelope, from, to| Route::new(envelope, from, to).unwrap();
    let other = Envelope::Ethernet { ethertype: 0x88b6 };
    [
        (route(Envelope::DEFAULT, FROM.into(), TO.into()), vec![]),
        (route(other, FROM.into(), TO.into()), vec!["-o", "gigae.ethertype:34998"]),
        (
            route(udp, ip("198.18.0.1", FROM), ip("198.18.0.2", TO)),
            vec!["-o", "gigae.udp_port:4711"],
        ),
        (route(udp, ip("fd00::1", FROM), ip("fd00::2", TO)), vec!["-o", "gigae.udp_port:4711"]),
    ]
}

fn header(kind: Kind) -> Header {
    Header {
        kind,
        channel: 3,
        src_port: 0x1122,
        dst_port: 0x3344,
        src_epoch: Epoch(0x0102_0304),
        dst_epoch: Epoch(0x0506_0708),
        seq: SeqNo(u32::MAX - 1),
        ack: SeqNo(u32::MAX),
        credit: 64,
        flags: Flags::ASK,
    }
}

/// A GigaE frame.
fn sealed(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADER_LEN];
    frame.extend_from_slice(payload);
    header.seal(&mut frame);
    frame
}

/// CRC32C, bit by bit: of the bytes behind it, at the front of a frame.
fn reseal(frame: &mut [u8]) {
    let mut crc = u32::MAX;
    for &byte in &frame[4..] {
        crc ^= u32::from(byte);
        (0..8).for_each(|_| crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()));
    }
    frame[..4].copy_from_slice(&(!crc).to_be_bytes());
}

/// The same in an envelope, padded as on the wire.
fn enveloped(route: &Route, inner: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; route.len()];
    frame.extend_from_slice(inner);
    route.write(&mut frame);
    frame.resize(frame.len().max(60), 0);
    frame
}

/// A file with these frames, of each at most `snaplen` bytes.
fn file(directory: &tempfile::TempDir, frames: &[Vec<u8>], snaplen: usize) -> PathBuf {
    let path = directory.path().join("frames.pcapng");
    let mut writer = CaptureWriter::new(File::create(&path).unwrap()).unwrap();
    let interface = writer.interface(InterfaceDescription::default()).unwrap();
    for (at, frame) in (0..).zip(frames) {
        let bytes = &frame[..frame.len().min(snaplen)];
        let (direction, dropped, original_len) = (None, 0, frame.len());
        let frame = CapturedFrame { interface, at, direction, dropped, original_len, bytes };
        writer.frame(&frame).unwrap();
    }
    path
}

fn read(frames: &[Vec<u8>], options: &[&str], fields: &[&str]) -> Vec<Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    let rows = tshark::read(&file(&directory, frames, usize::MAX), options, fields);
    assert_eq!(rows.len(), frames.len());
    rows
}

/// In the default envelope.
fn plain(inner: &[Vec<u8>], fields: &[&str]) -> Vec<Vec<String>> {
    let [(route, options), ..] = envelopes();
    let frames: Vec<_> = inner.iter().map(|inner| enveloped(&route, inner)).collect();
    read(&frames, &options, fields)
}

/// Every kind that the protocol has.
fn kinds() -> Vec<Kind> {
    let kind = |bits: u8| {
        let mut frame = sealed(&header(Kind::Data), &[]);
        frame[4] = frame[4] & 0xf0 | bits;
        reseal(&mut frame);
        Header::parse(&frame).ok().map(|(header, _)| header.kind)
    };
    let kinds: Vec<_> = (0..16).filter_map(kind).collect();
    assert!(kinds.len() >= 12);
    kinds
}

/// A payload as a frame of the kind has it.
fn payload(kind: Kind) -> Vec<u8> {
    match kind {
        Kind::Data => b"a message".to_vec(),
        Kind::Ack => [&7u32.to_be_bytes()[..], &[0b101, 0x80]].concat(),
        Kind::Hello | Kind::HelloAck | Kind::Confirm => {
            let hello = Hello { max_payload: 1468, reorder_window: 256, max_operations: 8968 };
            let (token, echo) = (0x0102_0304_0506_0708, 0x1112_1314_1516_1718);
            let mut bytes = [0; Handshake::LONGEST];
            let links = Paths::links(&[FROM, TO]);
            let len = Handshake { hello, token, echo, links }.write(&mut bytes);
            bytes[..len].to_vec()
        }
        Kind::Reset | Kind::Who => Vec::new(),
        Kind::Batch => {
            [&batch::prefix(5)[..], b"first", &batch::prefix(0), &batch::prefix(6), b"second"]
                .concat()
        }
        Kind::Op => operation(&op::Op::Eager { label: 0xfeed.into() }, b"tagged"),
        Kind::Here => {
            let mut channels = [0; 32];
            (channels[0], channels[31]) = (0b1000_0001, 0x80);
            let ip = Some("198.18.0.1".parse().unwrap());
            let here = Here { max_payload: 1468, mtu: 1500, ip, channels, name: "n1" };
            let mut payload = [0; Here::LONGEST];
            let len = here.write(&mut payload);
            payload[..len].to_vec()
        }
        Kind::Probe => [&[0, 9, 0, 100][..], &[0; 96]].concat(),
        Kind::Echo => vec![0, 9, 0, 100],
        Kind::Part => vec![0, 0, 0, 7, 0, 3, 1, 2, 0xa, 0xb, 0xc],
    }
}

fn operation(op: &op::Op, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; op.header_len()];
    op.write(data.len() as u16, &mut bytes);
    bytes.extend_from_slice(data);
    bytes
}

/// What is wrong with a frame, as the dissector says it.
const COMPLAINTS: &str = "_ws.expert.message";

#[test]
fn every_kind_of_frame_is_dissected_in_every_envelope() {
    let fields = [
        "gigae.kind",
        "gigae.version",
        "gigae.channel",
        "gigae.length",
        "gigae.src_port",
        "gigae.dst_port",
        "gigae.src_epoch",
        "gigae.dst_epoch",
        "gigae.seq",
        "gigae.ack",
        "gigae.credit",
        "gigae.flags.ask",
        "gigae.flags.header_only",
        "gigae.checksum.status",
        "_ws.col.Protocol",
        COMPLAINTS,
        "_ws.col.Info",
    ];
    for (route, options) in envelopes() {
        let frame = |&kind: &Kind| enveloped(&route, &sealed(&header(kind), &payload(kind)));
        let frames: Vec<_> = kinds().iter().map(frame).collect();
        for (kind, row) in kinds().into_iter().zip(read(&frames, &options, &fields)) {
            let number = (kind as u8).to_string();
            let length = payload(kind).len().to_string();
            let expected = [
                &number[..],
                "3",
                "3",
                &length,
                "4386",
                "13124",
                "0x01020304",
                "0x05060708",
                "4294967294",
                "4294967295",
                "64",
                "1",
                "0",
                "1",
                "GigaE",
                "",
            ];
            assert_eq!(row[..16], expected, "{kind:?}: {row:?}");
            assert!(row[16].starts_with(&format!("{kind:?} 4386 > 13124 ch 3 ")), "{row:?}");
        }
    }
}

#[test]
fn payloads_are_shown_field_by_field() {
    let fields = |kind: Kind| -> &[(&str, &str)] {
        match kind {
            Kind::Data => &[("gigae.message", "61206d657373616765")],
            Kind::Ack => &[("gigae.report.latest", "7"), ("gigae.report.arrived", "0,2,15")],
            Kind::Hello | Kind::HelloAck | Kind::Confirm => &[
                ("gigae.max_payload", "1468"),
                ("gigae.hello.reorder_window", "256"),
                ("gigae.hello.max_operations", "8968"),
                ("gigae.hello.token", "0x0102030405060708"),
                ("gigae.hello.echo", "0x1112131415161718"),
                ("gigae.hello.links", "2"),
                ("gigae.hello.link", "02:00:00:00:00:01,02:00:00:00:00:02"),
            ],
            Kind::Reset | Kind::Who => &[],
            Kind::Batch => {
                &[("gigae.message.length", "5,0,6"), ("gigae.message", "6669727374,7365636f6e64")]
            }
            Kind::Op => &[
                ("gigae.op", "1"),
                ("gigae.op.tag", "0x000000000000feed"),
                ("gigae.op.data_len", "6"),
                ("gigae.op.data", "746167676564"),
            ],
            Kind::Here => &[
                ("gigae.max_payload", "1468"),
                ("gigae.here.mtu", "1500"),
                ("gigae.here.ip", "::ffff:198.18.0.1"),
                ("gigae.here.channel", "0,7,255"),
                ("gigae.here.name", "n1"),
            ],
            Kind::Probe | Kind::Echo => {
                &[("gigae.probe.round", "9"), ("gigae.probe.length", "100")]
            }
            Kind::Part => &[
                ("gigae.part.frame", "7"),
                ("gigae.part.unit", "3"),
                ("gigae.part.index", "1"),
                ("gigae.part.count", "2"),
                ("gigae.part", "0a0b0c"),
            ],
        }
    };
    for kind in kinds() {
        let (names, values): (Vec<_>, Vec<_>) = fields(kind).iter().copied().unzip();
        if names.is_empty() {
            continue;
        }
        let rows = plain(&[sealed(&header(kind), &payload(kind))], &names);
        assert_eq!(rows[0], values, "{kind:?}");
    }
}

#[test]
fn a_socket_for_bulk_data_is_shown_in_a_hello() {
    let hello = Hello { max_payload: 1468, reorder_window: 256, max_operations: 8968 };
    let links = Paths::Bulk("198.18.0.1:49152".parse().unwrap());
    let mut bytes = [0; Handshake::LONGEST];
    Handshake { hello, token: 1, echo: 0, links }.write(&mut bytes);
    let names = ["gigae.hello.socket.port", "gigae.hello.socket.ip", COMPLAINTS];
    let rows = plain(&[sealed(&header(Kind::Hello), &bytes)], &names);
    assert_eq!(rows[0], ["49152", "::ffff:198.18.0.1", ""]);
}

#[test]
fn every_operation_is_dissected_with_its_status() {
    // Whatever code the library reads, with numbers that all differ.
    let mut numbers: Vec<u8> = (1..=32).collect();
    // An Atomic's: two numbers of 64 bits are swapped, and what was there comes back.
    numbers[16..20].copy_from_slice(&[12, 7, 2, 1]);
    let mut names = Vec::new();
    let mut frames = Vec::new();
    for (code, flags) in (0..=u8::MAX).flat_map(|code| (0..4).map(move |flags| (code, flags))) {
        let bytes = [&[code, flags, 0, 0, 0, 0, 0, 77][..], &numbers].concat();
        let Ok(Some((operation_is, _))) = op::Op::take(&mut Pieces::from(&bytes[..])) else {
            continue;
        };
        let name = format!("{operation_is:?}");
        names.push(name.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned());
        let bytes = operation(&operation_is, b"data");
        frames.push(sealed(&header(Kind::Op), &[&bytes[..], &bytes].concat()));
    }
    assert!(frames.len() >= 15 + 4 * 3);
    let fields = ["gigae.op", "gigae.op.data", COMPLAINTS, "_ws.col.Info", "gigae.op.offset"];
    for (name, row) in names.iter().zip(plain(&frames, &fields)) {
        assert!(row[0].split(',').count() == 2 && row[1] == "64617461,64617461", "{name}: {row:?}");
        assert_eq!(row[2], "", "{name}: {row:?}");
        // A Write of the library has two codes.
        let shown = row[3].rsplit('[').next().unwrap();
        assert!(shown.starts_with(&name[..]), "{name}: {row:?}");
        if matches!(&name[..], "Read" | "Write" | "Atomic") {
            let offset = u64::from_be_bytes(numbers[8..16].try_into().unwrap());
            assert_eq!(row[4], format!("{offset},{offset}"));
        }
    }
    let change = op::Change::new(op::Action::Swap, op::Number::U64, 2, true).unwrap();
    let atomic = operation(&op::Op::Atomic { id: 1, key: 2, offset: 3, change }, &[0; 32]);
    let fields = ["gigae.op.action", "gigae.op.number", "gigae.op.count", "gigae.op.fetch"];
    assert_eq!(plain(&[sealed(&header(Kind::Op), &atomic)], &fields)[0], ["12", "7", "2", "1"]);
    let label = op::Label { tag: 7, untagged: true, data: Some(0xbeef) };
    let offer = operation(&op::Op::Offer { id: 1, label, total: 5 }, b"");
    let fields = ["gigae.op.untagged", "gigae.op.tag", "gigae.op.word", "gigae.op.total"];
    let rows = plain(&[sealed(&header(Kind::Op), &offer)], &fields);
    assert_eq!(rows[0], ["1", "0x0000000000000007", "0x000000000000beef", "5"]);
    let status = |status| operation(&op::Op::Done { id: 1, status }, b"value");
    let all =
        [op::Status::Ok, op::Status::Key, op::Status::Bounds, op::Status::Rights, op::Status::Busy];
    let frames: Vec<_> = all.iter().map(|&s| sealed(&header(Kind::Op), &status(s))).collect();
    for (status, row) in all.iter().zip(plain(&frames, &["_ws.col.Info", "gigae.op.data"])) {
        let (shown, data) = (format!("[Done ({status:?})]"), "76616c7565");
        assert!(row[0].contains(&shown) && row[1] == data, "{row:?}");
    }
}

#[test]
fn what_is_wrong_with_a_frame_is_said() {
    let good = sealed(&header(Kind::Data), b"message");
    let changed = |place: usize, to: u8| {
        let mut frame = good.clone();
        frame[place] = to;
        frame
    };
    let mut unknown = changed(4, 0x3f);
    reseal(&mut unknown);
    let mut batch = sealed(&header(Kind::Batch), &[0, 9, 1]);
    reseal(&mut batch);
    let mut operation = sealed(&header(Kind::Op), &[200; 12]);
    reseal(&mut operation);
    let frames = [
        good.clone(),
        changed(HEADER_LEN, b'M'),
        changed(4, 0x21),
        unknown,
        batch,
        operation,
        sealed(&header(Kind::Hello), &[1, 2]),
        sealed(&header(Kind::Ack), &[1, 2]),
        sealed(&header(Kind::Here), &[70; 54]),
        sealed(&Header { credit: 0, ..header(Kind::Ack) }, &[]),
    ];
    let says = [
        "",
        "Bad checksum",
        "Another version",
        "Unknown kind",
        "not exactly filled",
        "unknown operation",
        "22 bytes",
        "four bytes",
        "a name of",
        "STOP",
    ];
    let rows = plain(&frames, &[COMPLAINTS, "gigae.checksum.status"]);
    for (part, row) in says.into_iter().zip(rows) {
        assert!(row[0].contains(part) && row[0].is_empty() == part.is_empty(), "{part}: {row:?}");
        let status = match part {
            "Bad checksum" => "0",
            "Another version" => "",
            _ => "1",
        };
        assert_eq!(row[1], status, "{part}");
    }
}

#[test]
fn a_checksum_counts_over_what_it_covers_and_is_unverified_where_bytes_are_missing_or_it_is_xxh3() {
    let [(route, options), ..] = envelopes();
    let only = Header { flags: Flags::HEADER_ONLY, ..header(Kind::Data) };
    let mut tampered = sealed(&only, &[1; 100]);
    tampered[HEADER_LEN + 3] ^= 1;
    let long = sealed(&header(Kind::Data), &[1; 129]);
    let long_of_which_the_header_counts = sealed(&only, &[1; 129]);
    let frames =
        [sealed(&header(Kind::Data), &[1; 128]), tampered, long, long_of_which_the_header_counts]
            .map(|inner| enveloped(&route, &inner));
    let directory = tempfile::tempdir().unwrap();
    let fields = ["gigae.checksum.status", COMPLAINTS, "gigae.length"];
    for (snaplen, statuses) in [(usize::MAX, ["1", "1", "2", "1"]), (80, ["2", "1", "2", "1"])] {
        let rows = tshark::read(&file(&directory, &frames, snaplen), &options, &fields);
        assert_eq!(rows.len(), 4);
        for ((row, status), length) in rows.iter().zip(statuses).zip(["128", "100", "129", "129"]) {
            assert_eq!(row[..], [status, "", length], "{snaplen}");
        }
    }
}

#[test]
fn of_a_frame_that_was_cut_anywhere_what_is_there_is_read_and_no_more() {
    let [(route, options), ..] = envelopes();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.pcapng");
    let mut writer = CaptureWriter::new(File::create(&path).unwrap()).unwrap();
    let interface = writer.interface(InterfaceDescription::default()).unwrap();
    let mut count = 0;
    for kind in kinds() {
        let frame = enveloped(&route, &sealed(&header(kind), &payload(kind)));
        for len in 14..frame.len() {
            let (direction, dropped, original_len) = (None, 0, frame.len());
            let bytes = &frame[..len];
            let at = count;
            let frame = CapturedFrame { interface, at, direction, dropped, original_len, bytes };
            writer.frame(&frame).unwrap();
            count += 1;
        }
    }
    drop(writer);
    let rows =
        tshark::read(&path, &options, &["_ws.col.Protocol", COMPLAINTS, "gigae.checksum.status"]);
    assert_eq!(rows.len() as u64, count);
    for row in rows {
        assert!(!row[1].contains("Lua") && !row[1].contains("Malformed"), "{row:?}");
        assert_ne!(row[2], "0", "what is missing is not taken for wrong");
    }
}

#[test]
fn a_capture_of_a_simulated_network_is_dissected_frame_by_frame() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("simulated.pcapng");
    let faults = Faults { delay: Duration::from_micros(5), ..Faults::default() };
    let net = Network::new(1, faults);
    net.capture(File::create(&path).unwrap()).unwrap();
    let [a, b] = [1, 2].map(|seed| Options::new("sim").open_simulated(&net, seed).unwrap());
    let to_b = a.peer(Address::from(b.link().mac)).unwrap();
    a.ask().unwrap();
    let run = || {
        for _ in 0..6_000 {
            a.progress().unwrap();
            b.progress().unwrap();
            while b.try_recv().unwrap().is_some() {}
            net.advance_to(net.now() + 1_000);
        }
    };
    // Only once the session is up do messages share frames.
    a.send(to_b, b"first").unwrap();
    run();
    (0..100u32).for_each(|n| a.queue(to_b, &n.to_be_bytes()).unwrap());
    a.flush().unwrap();
    run();
    let sent = a.counters().link.tx_frames + b.counters().link.tx_frames;
    let fields = ["gigae.kind", "gigae.checksum.status", COMPLAINTS, "gigae.length"];
    let rows = tshark::read(&path, &[], &fields);
    assert_eq!(rows.len() as u64, sent);
    for row in &rows {
        // Only the checksum of a short payload is verified.
        let status = if row[3].parse::<u16>().unwrap() > 128 { "2" } else { "1" };
        assert!(row[1] == status && row[2].is_empty(), "{rows:?}");
    }
    for kind in
        [Kind::Hello, Kind::HelloAck, Kind::Confirm, Kind::Who, Kind::Here, Kind::Batch, Kind::Ack]
    {
        assert!(rows.iter().any(|row| row[0] == (kind as u8).to_string()), "no {kind:?}: {rows:?}");
    }
}
