//! Frames that no honest node sends.

use super::*;

/// What a stranger may put on the wire: each frame is counted under its reason and nothing happens.
#[test]
fn hostile_frames_are_counted_and_dropped() {
    use gigae_wire::{Envelope, Epoch, Flags, HEADER_LEN, Header, Kind, Route, SeqNo};
    let net = Network::new(1, faults());
    let (a, b, to_b, _to_a) = pair(&net, &Options::new("sim"));
    let (stranger, mac) = net.add_port();
    let route = Route::new(Envelope::DEFAULT, mac.into(), b.link().mac.into()).unwrap();
    let valid = |kind, payload: &[u8]| {
        let header = Header {
            kind,
            channel: 0,
            src_port: 0,
            dst_port: 0,
            src_epoch: Epoch(7),
            dst_epoch: Epoch(9),
            seq: SeqNo(7),
            ack: SeqNo(9),
            credit: 10,
            flags: Flags::ASK,
        };
        let mut frame = vec![0; route.len() + HEADER_LEN];
        frame.extend_from_slice(payload);
        header.seal(&mut frame[route.len()..]);
        route.write(&mut frame);
        frame
    };
    let data = valid(Kind::Data, &[1; 40]);
    let changed = |at: usize, to: u8| {
        let mut frame = data.clone();
        frame[at] = to;
        frame
    };
    // The network pads to 60 bytes, so a frame is cut short by stating more than there is.
    let frames = [
        changed(route.len() + 6, 0xff),
        changed(route.len() + 4, 0x11),
        changed(route.len() + HEADER_LEN, 2),
        data.clone(),
        valid(Kind::Ack, &[]),
        valid(Kind::Reset, &[]),
        valid(Kind::HelloAck, &[5; 22]),
        valid(Kind::Hello, &[0; 2]),
    ];
    for frame in &frames {
        net.send(stranger, frame);
        run(&net, [&a, &b], Duration::from_micros(20));
    }
    let counted = b.counters().protocol;
    let by_reason =
        [counted.short, counted.version, counted.checksum, counted.epoch, counted.malformed];
    assert_eq!(by_reason, [1, 1, 1, 4, 1], "{counted:?}");
    assert_eq!((counted.messages_received, counted.sessions), (0, 0));
    a.send(to_b, b"still there").unwrap();
    run(&net, [&a, &b], Duration::from_micros(100));
    assert_eq!(&b.try_recv().unwrap().unwrap()[..], b"still there");
}

#[test]
fn hostile_frames_in_segments_are_counted_and_leave_every_buffer_free() {
    let net = Network::new(1, faults());
    net.set_mtu(9000);
    let (a, b, to_b, _to_a) = pair(&net, &Options::new("sim"));
    a.send(to_b, b"up").unwrap();
    run(&net, [&a, &b], Duration::from_micros(200));
    assert!(b.try_recv().unwrap().is_some());
    let (stranger, _) = net.add_port();
    for i in 0..2000_u32 {
        if i.is_multiple_of(10) {
            let mut long = vec![0; 9014];
            long[..6].copy_from_slice(&b.link().mac.0);
            long[6] = 2;
            long[12..14].copy_from_slice(&[0x88, 0xb5]);
            // Of this version, and too short for what it says.
            (long[18], long[20], long[21]) = (0x37, 0xff, 0xff);
            net.send(stranger, &long);
        }
        a.send(to_b, &vec![i as u8; a.max_message()]).unwrap();
        run(&net, [&a, &b], Duration::from_micros(20));
        assert_eq!(&b.try_recv().unwrap().expect("it has arrived")[..], vec![i as u8; 3794]);
    }
    let counted = b.counters();
    assert_eq!((counted.protocol.short, counted.link.rx_dropped), (200, 0));
}

#[test]
fn a_proposal_to_an_address_that_is_not_its_own_does_not_give_an_endpoint_another() {
    use gigae_wire::{NodeAddr, Route};
    let envelope = gigae::Envelope::Udp { port: 4791 };
    for v6 in [false, true] {
        let net = Network::new(1, faults());
        let options = Options::new("sim").envelope(envelope);
        let [a, b] = [1, 2].map(|seed| options.clone().open_simulated(&net, seed).unwrap());
        let node = |end: &Endpoint| {
            let mac = end.link().mac;
            NodeAddr::Ip { ip: gigae::simulated_ip(mac, v6), next_hop: mac }
        };
        let NodeAddr::Ip { ip, next_hop } = node(&b) else { unreachable!() };
        let other = match ip {
            std::net::IpAddr::V4(ip) => (ip.to_bits() ^ 0x10).to_be_bytes().into(),
            std::net::IpAddr::V6(ip) => (ip.to_bits() ^ 0x10).to_be_bytes().into(),
        };
        let route = Route::new(envelope, node(&a), NodeAddr::Ip { ip: other, next_hop }).unwrap();
        let frame = proposal(&route, 0);
        net.send(net.add_port().0, &frame);
        run(&net, [&a, &b], Duration::from_micros(20));
        assert_eq!(b.counters().protocol.not_ours, 1);
        let to_b = a.peer(Address::from(ip)).unwrap();
        a.send(to_b, b"question").unwrap();
        run(&net, [&a, &b], Duration::from_millis(5));
        let question = b.try_recv().unwrap().expect("the session is up");
        b.send(question.from(), b"answer").unwrap();
        run(&net, [&a, &b], Duration::from_millis(1));
        let answer = a.try_recv().unwrap().expect("it came from whom it was asked of");
        assert_eq!((&answer[..], answer.from()), (&b"answer"[..], to_b));
    }
}

/// A stranger's proposals, refused or answered, do not use up what an endpoint remembers of IP
/// addresses; nor, at 500 per second, what it asks the kernel: that is 75 strangers in 100 ms.
#[test]
fn a_new_peer_is_answered_while_a_stranger_proposes_500_times_per_second() {
    use gigae_wire::{MacAddr, NodeAddr, Route};
    const PEERS: usize = 4;
    let envelope = gigae::Envelope::Udp { port: 4791 };
    let net = Network::new(1, faults());
    let options = Options::new("sim").envelope(envelope);
    let options = options.tuned(256, |config| config.max_peers = PEERS);
    let [a, b] = [1, 2].map(|seed| options.clone().open_simulated(&net, seed).unwrap());
    let node = |mac| NodeAddr::Ip { ip: gigae::simulated_ip(mac, true), next_hop: mac };
    let (stranger, _) = net.add_port();
    let mut names = 0_u16;
    let mut attack = |every: Duration| {
        let [high, low] = names.to_be_bytes();
        let name = MacAddr([2, 0, 0, 1, high, low]);
        let route = Route::new(envelope, node(name), node(b.link().mac)).unwrap();
        // Half of them for a port id that no endpoint has.
        net.send(stranger, &proposal(&route, names % 2));
        names += 1;
        run(&net, [&a, &b], every);
    };
    for _ in 0..200 {
        attack(Duration::from_micros(20));
    }
    assert_eq!(b.counters().protocol.sessions, 0);
    let to_b = a.peer(Address::from(gigae::simulated_ip(b.link().mac, true))).unwrap();
    a.send(to_b, b"question").unwrap();
    for _ in 0..150 {
        attack(Duration::from_millis(2));
    }
    assert_eq!(&b.try_recv().unwrap().expect("the session is up")[..], b"question");
}

/// A node of another version learns of ours, though nothing was known of the way to it.
#[test]
fn a_stranger_of_another_version_gets_a_reset_in_the_udp_envelope() {
    use gigae_wire::{Envelope, NodeAddr, Route};
    let envelope = gigae::Envelope::Udp { port: 4791 };
    let net = Network::new(1, faults());
    let options = Options::new("sim").envelope(envelope);
    let [a, b] = [1, 2].map(|seed| options.clone().open_simulated(&net, seed).unwrap());
    let (stranger, mac) = net.add_port();
    let node = |mac| NodeAddr::Ip { ip: gigae::simulated_ip(mac, false), next_hop: mac };
    let route = Route::new(envelope, node(mac), node(b.link().mac)).unwrap();
    let mut frame = proposal(&route, 0);
    frame[route.len() + 4] ^= 0x10;
    net.send(stranger, &frame);
    run(&net, [&a, &b], Duration::from_micros(50));
    assert_eq!(b.counters().protocol.version, 1);
    let answer = net.receive(stranger).expect("an answer");
    let (from, inner) = Envelope::open(envelope, &answer).unwrap();
    assert_eq!((from, inner[4] & 0xf), (node(b.link().mac), 5));
}

/// A proposal as a whole frame.
fn proposal(route: &gigae_wire::Route, dst_port: u16) -> Vec<u8> {
    use gigae_wire::{Epoch, Flags, HEADER_LEN, Header, Kind, SeqNo};
    let hello = Header {
        kind: Kind::Hello,
        channel: 0,
        src_port: 0,
        dst_port,
        src_epoch: Epoch(7),
        dst_epoch: Epoch::UNKNOWN,
        seq: SeqNo(7),
        ack: SeqNo(0),
        credit: 10,
        flags: Flags::NONE,
    };
    let mut frame = vec![0; route.len() + HEADER_LEN];
    let mut said = [0; gigae_wire::Handshake::LONGEST];
    said[..6].copy_from_slice(&[5, 0x8c, 0, 0, 5, 0x8c]);
    frame.extend_from_slice(&said);
    hello.seal(&mut frame[route.len()..]);
    route.write(&mut frame);
    frame
}

/// Who speaks first in a node's name does not lead its frames astray: what a frame says of its
/// sender's MAC address decides nothing.
#[test]
fn a_proposer_in_a_nodes_name_from_another_mac_address_gets_nothing() {
    use gigae_wire::{NodeAddr, Route};
    let envelope = gigae::Envelope::Udp { port: 4791 };
    for v6 in [false, true] {
        let net = Network::new(1, faults());
        let options = Options::new("sim").envelope(envelope);
        let [a, b] = [1, 2].map(|seed| options.clone().open_simulated(&net, seed).unwrap());
        let (attacker, mac) = net.add_port();
        let ip = |end: &Endpoint| gigae::simulated_ip(end.link().mac, v6);
        let to = NodeAddr::Ip { ip: ip(&a), next_hop: a.link().mac };
        let route = Route::new(envelope, NodeAddr::Ip { ip: ip(&b), next_hop: mac }, to).unwrap();
        net.send(attacker, &proposal(&route, 0));
        run(&net, [&a, &b], Duration::from_micros(50));
        let to_b = a.peer(Address::from(ip(&b))).unwrap();
        a.send(to_b, b"for b alone").unwrap();
        run(&net, [&a, &b], Duration::from_millis(5));
        let message = b.try_recv().unwrap().expect("it went to b");
        assert_eq!(&message[..], b"for b alone");
        while let Some(frame) = net.receive(attacker) {
            assert!(frame[..6] != mac.0, "a frame for b went to the attacker");
        }
    }
}

/// The number of a stranger's own session.
const STRANGERS: gigae_wire::Epoch = gigae_wire::Epoch(1000);

/// A frame as a whole, as the node with the first of these addresses would send it to the other.
fn framed([from, to]: [gigae::MacAddr; 2], header: &gigae_wire::Header, payload: &[u8]) -> Vec<u8> {
    use gigae_wire::{Envelope, HEADER_LEN, Route};
    let route = Route::new(Envelope::DEFAULT, from.into(), to.into()).unwrap();
    let mut frame = vec![0; route.len() + HEADER_LEN];
    frame.extend_from_slice(payload);
    header.seal(&mut frame[route.len()..]);
    route.write(&mut frame);
    frame
}

/// The header of a session's first frame.
fn first(
    kind: gigae_wire::Kind,
    src_epoch: gigae_wire::Epoch,
    dst_epoch: gigae_wire::Epoch,
) -> gigae_wire::Header {
    gigae_wire::Header {
        kind,
        channel: 0,
        src_port: 0,
        dst_port: 0,
        src_epoch,
        dst_epoch,
        seq: src_epoch.first_seq(),
        ack: dst_epoch.first_seq(),
        credit: 64,
        flags: gigae_wire::Flags::NONE,
    }
}

/// The payload of a frame of the handshake that repeats this token.
fn repeating(echo: u64) -> [u8; gigae_wire::Handshake::LONGEST] {
    use gigae_wire::{Handshake, Hello, Paths};
    let hello = Hello { max_payload: 1468, reorder_window: 256, max_operations: 1468 };
    let mut payload = [0; Handshake::LONGEST];
    Handshake { hello, token: 7, echo, links: Paths::None }.write(&mut payload);
    payload
}

/// A write of one byte into a memory.
fn write_into(key: gigae::RegionKey) -> Vec<u8> {
    use gigae_wire::op::{MAX_OP_HEADER, Op};
    let op = Op::Write { id: 1, key: key.0, offset: 0, total: 1, at: 0, notice: None };
    let mut payload = vec![0; MAX_OP_HEADER];
    let header = op.write(1, &mut payload);
    payload.truncate(header);
    payload.push(9);
    payload
}

/// A stranger has its own session with a node, so it knows how that chooses epochs and tokens. It
/// sees no frame of a peer, whose name it uses.
#[test]
fn a_stranger_in_a_peers_name_adds_nothing_to_its_session_and_does_not_end_it() {
    use gigae_wire::{Envelope, Epoch, Flags, Handshake, Header, Kind, NodeAddr};
    let net = Network::new(1, faults());
    let (a, b, to_b, to_a) = warm(&net, &Options::new("sim").linger(Duration::ZERO));
    let key = a.register(vec![0; 8], gigae::Rights::ALL).unwrap();
    let (stranger, own) = net.add_port();
    let [mac_a, mac_b] = [&a, &b].map(|end| end.link().mac);
    let send = |from, header: &Header, payload: &[u8]| {
        net.send(stranger, &framed([from, mac_a], header, payload));
    };
    let offers: Vec<(Epoch, u64)> = (0..8)
        .map(|src_port| {
            let hello = Header { src_port, ..first(Kind::Hello, STRANGERS, Epoch::UNKNOWN) };
            send(own, &hello, &repeating(0));
            run(&net, [&a, &b], Duration::from_micros(50));
            let answer = net.receive(stranger).expect("an offer");
            let (_, inner) = Envelope::open(Envelope::DEFAULT, &answer).unwrap();
            let (offer, said) = Header::parse(inner).unwrap();
            assert_eq!(offer.kind, Kind::HelloAck);
            (offer.src_epoch, Handshake::parse(said).unwrap().token)
        })
        .collect();
    let (epoch, token) = offers[0];
    send(own, &first(Kind::Confirm, STRANGERS, epoch), &repeating(token));
    send(own, &first(Kind::Data, STRANGERS, epoch), b"in its own name");
    run(&net, [&a, &b], Duration::from_micros(50));
    let message = a.try_recv().unwrap().expect("the stranger has a session");
    assert!(&message[..] == b"in its own name" && message.from() != to_b);
    drop(message);

    let before = [&a, &b].map(|end| end.counters().protocol);
    let mut refused = 0;
    for &(epoch, token) in &offers {
        for by in 0..=128 {
            let near = Epoch(epoch.0.wrapping_add(by).wrapping_sub(64));
            for src_epoch in [STRANGERS, near] {
                let hello = first(Kind::Hello, src_epoch, Epoch::UNKNOWN);
                send(mac_b, &hello, &repeating(0));
                for kind in [Kind::Confirm, Kind::HelloAck] {
                    send(mac_b, &first(kind, src_epoch, near), &repeating(token));
                    refused += 1;
                }
                for flags in [Flags::NONE, Flags::ASK, Flags::ANSWER] {
                    let forged = |kind| Header { flags, ..first(kind, src_epoch, near) };
                    send(mac_b, &forged(Kind::Data), b"forged");
                    send(mac_b, &forged(Kind::Op), &write_into(key));
                    send(mac_b, &forged(Kind::Ack), &[]);
                    send(mac_b, &forged(Kind::Reset), &[]);
                    refused += 4;
                }
                run(&net, [&a, &b], Duration::from_micros(5));
            }
        }
    }
    run(&net, [&a, &b], Duration::from_millis(1));
    let epoch = a.counters().protocol.epoch;
    assert_eq!(epoch - before[0].epoch, refused, "each was refused for its epochs");
    b.send(to_a, b"from b").unwrap();
    a.send(to_b, b"to b").unwrap();
    run(&net, [&a, &b], Duration::from_millis(1));
    for (end, from, sent) in [(&a, to_b, &b"from b"[..]), (&b, to_a, &b"to b"[..])] {
        let message = end.try_recv().unwrap().expect("the session is up");
        assert_eq!((&message[..], message.from()), (sent, from));
        assert!(end.try_recv().unwrap().is_none(), "nothing else came");
        assert!(end.take_failure().is_none());
    }
    assert_eq!(before.map(|counted| counted.sessions), [2, 1]);
    assert_eq!([&a, &b].map(|end| end.counters().protocol.sessions), [2, 1]);
    assert_eq!(a.region_writes(key), Some(0));

    // Who sees the frames of b forges others like these, and they are taken.
    net.mirror_to(stranger);
    b.send(to_a, b"seen").unwrap();
    run(&net, [&a, &b], Duration::from_millis(1));
    let seen = std::iter::from_fn(|| net.receive(stranger)).find_map(|frame| {
        let (from, inner) = Envelope::open(Envelope::DEFAULT, &frame).ok()?;
        let (header, _) = Header::parse(inner).ok()?;
        (from == NodeAddr::from(mac_b) && header.kind == Kind::Data).then_some(header)
    });
    let seen = seen.expect("a copy of the frame");
    send(mac_b, &Header { seq: seen.seq + 1, ..seen }, b"forged");
    send(mac_b, &Header { kind: Kind::Op, seq: seen.seq + 2, ..seen }, &write_into(key));
    run(&net, [&a, &b], Duration::from_micros(50));
    for sent in [&b"seen"[..], b"forged"] {
        let message = a.try_recv().unwrap().expect("it is taken");
        assert_eq!((&message[..], message.from()), (sent, to_b));
    }
    assert_eq!(a.region_writes(key), Some(1));
}
