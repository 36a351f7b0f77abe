//! A node that says what is not so about its addresses, or leaves gaps in what it sends, takes
//! nothing from others (`PROTOCOL.md` 11.2 and 5.4).
#![allow(missing_docs)]

mod crafted;
mod world;

use crafted::{ATTACKER, End, confirm, header, propose, said};
use gigae_proto::{
    Arrival, Body, BulkConfig, Destination, PathTo, PeerId, PeerKey, ProtocolConfig, Transmit,
};
use gigae_wire::{Discard, Epoch, Flags, Kind, MAX_PATHS, MacAddr, PathId};
use std::time::Duration;
use world::{CHANNEL, World, quiet};

fn ways(end: &mut End) -> Vec<PathTo> {
    std::iter::from_fn(|| end.poll_path()).collect()
}

/// Two honest nodes with two links each and a session over both.
fn honest() -> World {
    let mut w = World::with_links(&[2, 2], 1, quiet(), &ProtocolConfig::default());
    w.send(1, 0, b"up");
    w.run(Duration::from_millis(5));
    assert_eq!(w.received(0), [b"up"]);
    w
}

#[test]
fn a_proposal_is_not_used_by_a_way_that_it_did_not_name() {
    let mut w = honest();
    let end = &mut w.nodes[0].proto;
    let offer = propose(end, ATTACKER, 1000, &[]);
    assert_eq!(
        confirm(end, (PathId::new(1), ATTACKER), (1000, offer), &[]),
        Err(Discard::Malformed)
    );
    let first = w.nodes[1].links[0].1;
    let end = &mut w.nodes[0].proto;
    assert_eq!(
        confirm(end, (PathId::new(1), ATTACKER), (1000, offer), &[first, ATTACKER]),
        Err(Discard::Epoch)
    );
    assert_eq!(confirm(end, (PathId::FIRST, ATTACKER), (1000, offer), &[]), Ok(()));
}

#[test]
fn a_session_that_claims_the_address_of_another_does_not_get_its_frames() {
    let mut w = honest();
    let others: Vec<MacAddr> = w.nodes[1].links.iter().map(|&(_, mac)| mac).collect();
    let end = &mut w.nodes[0].proto;
    for (n, other) in (0..).zip(others) {
        let attacker = MacAddr([2, 0, 0xbb, 0, 0, n as u8]);
        let offer = propose(end, attacker, 1000 + n, &[attacker, other]);
        confirm(end, (PathId::FIRST, attacker), (1000 + n, offer), &[attacker, other]).unwrap();
    }
    // Many at once, so that both links are used.
    for n in 0..100_u8 {
        w.send(1, 0, &[n; 50]);
        if n % 25 == 24 {
            w.run(Duration::from_millis(5));
        }
    }
    assert_eq!(w.nodes[0].received.iter().filter(|(_, m)| m.len() == 50).count(), 100);
    assert!(w.nodes[1].failed.is_empty());
    assert!(w.nodes[1].sent_on.iter().all(|&sent| sent > 10), "{:?}", w.nodes[1].sent_on);
}

#[test]
fn a_proposal_under_the_name_of_another_does_not_lead_its_frames_elsewhere() {
    let mut w = honest();
    let first = w.nodes[1].links[0].1;
    let end = &mut w.nodes[0].proto;
    ways(end);
    propose(end, first, 1000, &[first, ATTACKER]);
    assert_eq!(ways(end), []);
    // Nor is what goes by the second link answered to another node, or the attacker could speak as
    // the other.
    for w in [w, World::with_links(&[2, 2], 1, quiet(), &ProtocolConfig::default())] {
        let mut w = w;
        let end = &mut w.nodes[0].proto;
        let proposal = header(Kind::Hello, 1001, Epoch::UNKNOWN);
        let payload = said(&[first, ATTACKER], 0, 1468);
        end.handle(
            Arrival {
                path: PathId::new(1),
                from: &ATTACKER.into(),
                header: &proposal,
                payload: &payload,
            },
            &mut None,
        )
        .unwrap();
        let Transmit { to, path, .. } = end.poll_transmit().unwrap();
        let Destination::Unknown(key) = to else { panic!("{to:?}") };
        assert_eq!((key.node, path), (first.into(), PathId::FIRST));
    }
}

#[test]
fn addresses_that_were_claimed_and_given_up_are_forgotten() {
    let config = ProtocolConfig {
        links: (1..=MAX_PATHS as u8).map(|n| MacAddr([2, 0, 0, 0, 9, n])).collect(),
        ..ProtocolConfig::default()
    };
    let mut end = End::new(config, 7);
    for n in 0..10_000_u32 {
        let [_, a, b, c] = n.to_be_bytes();
        let further = (0..7).map(|i| MacAddr([2, 1 + i, a, b, c, 1]));
        let macs: Vec<MacAddr> = [ATTACKER].into_iter().chain(further).collect();
        let offer = propose(&mut end, ATTACKER, 1000 + n, &macs);
        ways(&mut end);
        if n % 3 == 0 {
            confirm(&mut end, (PathId::FIRST, ATTACKER), (1000 + n, offer), &macs).unwrap();
            while let Some(Transmit { body: Body::Control(..), .. }) = end.poll_transmit() {}
            while end.poll_delivery().is_some() {}
            ways(&mut end);
        }
    }
    let key = PeerKey { node: ATTACKER.into(), port: 0, channel: CHANNEL };
    assert_eq!(end.peer(key), Some(PeerId(0)));
    let addresses = end.usage().addresses;
    assert!(addresses <= 1 + 2 * (MAX_PATHS - 1), "{addresses} addresses");
}

#[test]
fn a_peer_that_has_no_room_for_any_operation_is_none() {
    let mut end = End::new(ProtocolConfig::default(), 7);
    for max_operations in [0, 1, 40, 127] {
        let header = header(Kind::Hello, 1000, Epoch::UNKNOWN);
        let payload = said(&[], 0, max_operations);
        let taken = end.handle(
            Arrival {
                path: PathId::FIRST,
                from: &ATTACKER.into(),
                header: &header,
                payload: &payload,
            },
            &mut None,
        );
        assert_eq!((taken, end.peers()), (Err(Discard::Malformed), 0), "{max_operations} bytes");
    }
    propose(&mut end, ATTACKER, 1000, &[]);
}

/// A data frame of a session, `past` numbers past its first; whether it was taken, and why if not.
fn data(end: &mut End, from: MacAddr, epochs: (u32, Epoch), past: u32) -> Result<(), Discard> {
    let mut header = header(Kind::Data, epochs.0, epochs.1);
    header.seq += past;
    let mut buffer = Some(past.to_be_bytes().to_vec());
    let taken = end.handle(
        Arrival {
            path: PathId::FIRST,
            from: &from.into(),
            header: &header,
            payload: &past.to_be_bytes(),
        },
        &mut buffer,
    );
    assert_eq!(buffer.is_none(), taken.is_ok(), "its buffer is kept if the frame is");
    taken
}

/// The messages that are in order now, given back at once.
fn read(end: &mut End) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while let Some(delivery) = end.poll_delivery() {
        end.release(delivery.peer, delivery.epoch);
        messages.push(delivery.buffer);
    }
    messages
}

#[test]
fn gaps_never_take_more_than_half_of_the_receive_frames_and_leave_every_peer_some() {
    const HALF: usize = 64;
    let shared_credit = false;
    let receive_frames = 2 * HALF as u32;
    let config = ProtocolConfig { receive_frames, shared_credit, ..ProtocolConfig::default() };
    let mut end = End::new(config, 7);
    let node = |n: u32| MacAddr([2, 0, 0xbb, 0, 1, n as u8]);
    // Four that leave gaps, and an honest one; each has credit for 60 frames, more than a quarter
    // of all.
    let [a, b, c, d, honest] = [0, 1, 2, 3, 4].map(|n| {
        let offer = propose(&mut end, node(n), 1000 + n, &[]);
        confirm(&mut end, (PathId::FIRST, node(n)), (1000 + n, offer), &[]).unwrap();
        (node(n), (1000 + n, offer.epoch))
    });
    assert_eq!(read(&mut end).len(), 5);
    let mut kept = [0; 4];
    for past in 2..42 {
        for (n, (node, epochs)) in [a, b, c, d].into_iter().enumerate() {
            match data(&mut end, node, epochs, past) {
                Ok(()) => kept[n] += 1,
                Err(refused) => assert_eq!(refused, Discard::OutOfOrder),
            }
        }
    }
    assert_eq!(kept, [HALF / 8; 4], "half of what may be kept, of 160 that came");
    // What is in order still finds room, and one that was lost is waited for.
    for past in 1..=200 {
        assert_eq!(data(&mut end, honest.0, honest.1, past), Ok(()), "frame {past}");
        assert_eq!(read(&mut end), [past.to_be_bytes()]);
    }
    let keeps = |end: &mut End, (node, epochs): (MacAddr, _), range: std::ops::Range<u32>| {
        range.filter(|&past| data(end, node, epochs, past).is_ok()).count()
    };
    // Its part of a quarter is that of one of five.
    assert_eq!(keeps(&mut end, honest, 202..226), HALF / 4 / 5);
    // That of a peer which the program has named is all of it.
    end.peer(PeerKey { node: honest.0.into(), port: 0, channel: CHANNEL }).unwrap();
    assert_eq!(keeps(&mut end, honest, 205..226), HALF / 4 - HALF / 4 / 5);
    // Gaps that are filled give their room back, and so does a session that ends.
    for (node, epochs) in [a, c] {
        assert_eq!(data(&mut end, node, epochs, 1), Ok(()));
        assert_eq!(read(&mut end).len(), 1 + HALF / 8);
    }
    let mut reset = header(Kind::Reset, b.1.0, b.1.1);
    reset.flags = Flags::ANSWER;
    end.handle(
        Arrival { path: PathId::FIRST, from: &b.0.into(), header: &reset, payload: &[] },
        &mut None,
    )
    .unwrap();
    assert_eq!(keeps(&mut end, d, 42..60), HALF / 8);
}

/// Each takes a slot of 64 KiB of the socket's memory, out of which those come that release them.
#[test]
fn bulk_frames_that_came_in_parts_take_no_more_slots_than_those_by_the_socket() {
    let at = (std::net::Ipv4Addr::new(198, 18, 0, 1), 4792).into();
    let bulk = Some(BulkConfig { at, datagram: 1468, most: 44 });
    let shared_credit = false;
    let mut end = End::new(ProtocolConfig { bulk, shared_credit, ..ProtocolConfig::default() }, 7);
    let [a, b] = [0, 1].map(|n| {
        let node = MacAddr([2, 0, 0xbb, 0, 2, n]);
        let offer = propose(&mut end, node, 1000 + u32::from(n), &[]);
        confirm(&mut end, (PathId::FIRST, node), (1000 + u32::from(n), offer), &[]).unwrap();
        (node, (1000 + u32::from(n), offer.epoch))
    });
    assert_eq!(read(&mut end).len(), 2);
    let mut bulk = |(node, epochs): (MacAddr, (u32, Epoch)), past| {
        let mut header = header(Kind::Op, epochs.0, epochs.1);
        header.seq += past;
        let arrival =
            Arrival { path: PathId::FIRST, from: &node.into(), header: &header, payload: &[] };
        let mut buffer = Some(Vec::new());
        let taken = end.handle_reassembled(arrival, &mut buffer);
        assert_eq!(buffer.is_none(), taken.is_ok(), "its slot is kept if the frame is");
        (taken, std::iter::from_fn(|| end.poll_operations()).count())
    };
    // Of 128 a quarter is for peers that the program has named, and each keeps less than is left.
    for past in 2..34 {
        assert_eq!(bulk(a, past), (Ok(()), 0));
        assert_eq!(bulk(b, past), (Ok(()), 0));
    }
    for end in [a, b] {
        assert_eq!(bulk(end, 34), (Err(Discard::OutOfOrder), 0), "64 are kept");
    }
    // The next in order is taken, and releases its own.
    assert_eq!(bulk(a, 1), (Ok(()), 33));
    assert_eq!(bulk(b, 34), (Ok(()), 0));
}

#[test]
fn messages_that_the_program_leaves_take_no_frames_of_named_peers_and_of_acknowledgements() {
    const FRAMES: usize = 128;
    let (receive_frames, shared_credit) = (FRAMES as u32, false);
    let config = ProtocolConfig { receive_frames, shared_credit, ..ProtocolConfig::default() };
    let mut end = End::new(config, 7);
    let node = |n: u32| MacAddr([2, 0, 0xbb, 0, 3, n as u8]);
    let named = node(1);
    end.peer(PeerKey { node: named.into(), port: 0, channel: CHANNEL }).unwrap();
    let named_offer = propose(&mut end, named, 1000, &[]);
    confirm(&mut end, (PathId::FIRST, named), (1000, named_offer), &[]).unwrap();
    let honest = propose(&mut end, node(2), 1000, &[]);
    confirm(&mut end, (PathId::FIRST, node(2)), (1000, honest), &[]).unwrap();
    // One node leaves 30 messages in each of many sessions, one after the other.
    let mut left = 2;
    for life in 1..40 {
        let offer = propose(&mut end, ATTACKER, 2000 + life, &[]);
        if confirm(&mut end, (PathId::FIRST, ATTACKER), (2000 + life, offer), &[]).is_ok() {
            left += 1;
        }
        for past in 1..30 {
            left += usize::from(data(&mut end, ATTACKER, (2000 + life, offer.epoch), past).is_ok());
        }
    }
    assert_eq!(left, FRAMES, "all frames that there is credit for");
    assert_eq!(data(&mut end, node(2), (1000, honest.epoch), 1), Err(Discard::Window));
    // Named peers have a sixth as many of their own, also over many sessions.
    let taken = (1..64).filter(|n| data(&mut end, named, (1000, named_offer.epoch), *n).is_ok());
    assert_eq!(taken.count(), FRAMES / 6 - 1);
    for life in 1..10 {
        let offer = propose(&mut end, named, 3000 + life, &[]);
        let _ = confirm(&mut end, (PathId::FIRST, named), (3000 + life, offer), &[]);
        for past in 1..30 {
            let _ = data(&mut end, named, (3000 + life, offer.epoch), past);
        }
    }
    // Operations hold no frames.
    let mut operation = header(Kind::Op, 1000, honest.epoch);
    operation.seq += 1;
    let arrival =
        Arrival { path: PathId::FIRST, from: &node(2).into(), header: &operation, payload: &[] };
    assert_eq!(end.handle(arrival, &mut Some(Vec::new())), Ok(()));
    // The sender of what was refused learns that this end is there.
    let acks = std::iter::from_fn(|| end.poll_transmit().map(|transmit| transmit.header));
    assert!(acks.filter(|header| header.kind == Kind::Ack).count() > 0);
    // As soon as the program takes messages, all goes on.
    assert_eq!(read(&mut end).len(), FRAMES + FRAMES / 6);
    assert_eq!(data(&mut end, node(2), (1000, honest.epoch), 2), Ok(()));
}
