//! A node that does not see the traffic of another cannot open, end or use a session in its name.
//! What unnamed peers take of an endpoint is bounded (`PROTOCOL.md` §4).
#![allow(missing_docs)]

mod crafted;
mod world;

use crafted::{ATTACKER, End, Offer, confirm, header, propose, said};
use gigae_proto::{
    Arrival, Body, Destination, ForeignFrame, Instant, PeerKey, ProtocolConfig, Reason,
};
use gigae_wire::{Discard, Epoch, Flags, Handshake, Header, Kind, MacAddr, PathId};
use std::time::Duration;
use world::{CHANNEL, World, micros, quiet};

const BOB: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb0]);

fn key(mac: MacAddr) -> PeerKey {
    PeerKey { node: mac.into(), port: 0, channel: CHANNEL }
}

fn node(n: u32) -> MacAddr {
    let [_, a, b, c] = n.to_be_bytes();
    MacAddr([2, 7, 0, a, b, c])
}

/// Hands a frame over as if it came from this address.
fn hand(end: &mut End, from: MacAddr, header: &Header, payload: &[u8]) -> Result<(), Discard> {
    let mut buffer = header.kind.is_data().then(|| payload.to_vec());
    end.handle(Arrival { path: PathId::FIRST, from: &from.into(), header, payload }, &mut buffer)
}

/// What the end sends now, and to whom.
fn sent(end: &mut End) -> Vec<(Destination, Header, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(transmit) = end.poll_transmit() {
        let payload = match transmit.body {
            Body::Message(message) => message.clone(),
            Body::Control(control, padded) => {
                let mut payload = control.to_vec();
                payload.resize(payload.len().max(padded.into()), 0);
                payload
            }
        };
        all.push((transmit.to, transmit.header, payload));
    }
    all
}

/// Everything that an attacker can try. It has its own sessions, to learn how the victim chooses
/// its numbers. Then it sends in the name of another node, without seeing the answers.
fn attack(end: &mut End, other: MacAddr) {
    let offers: Vec<Offer> = (0..8).map(|n| propose(end, ATTACKER, 1000 + n, &[])).collect();
    let last = *offers.last().unwrap();
    confirm(end, (PathId::FIRST, ATTACKER), (1007, last), &[]).unwrap();
    let near = offers.iter().flat_map(|offer| (0..64).map(|by| offer.epoch.0.wrapping_add(by)));
    let guesses: Vec<u32> = near.chain(1000..1010).collect();
    for (own, step) in [(2000, 0), (1007, 0), (2001, 1)] {
        let hello = header(Kind::Hello, own, Epoch::UNKNOWN);
        hand(end, other, &hello, &said(&[], 0, 1468)).unwrap();
        sent(end);
        for guess in &guesses {
            let guess = Epoch(guess.wrapping_add(step));
            for offer in &offers {
                let confirm = header(Kind::Confirm, own, guess);
                let _ = hand(end, other, &confirm, &said(&[], offer.token, 1468));
            }
            for kind in [Kind::Data, Kind::Ack, Kind::Op, Kind::Reset, Kind::HelloAck] {
                for flags in [Flags::NONE, Flags::ASK, Flags::ANSWER] {
                    let header = Header { flags, ..header(kind, own, guess) };
                    let payload = if kind == Kind::Data { &b"forged"[..] } else { &[] };
                    let _ = hand(end, other, &header, payload);
                }
            }
            sent(end);
        }
    }
}

#[test]
fn an_attacker_off_the_path_cannot_end_a_session_or_put_data_into_it() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(1, 0, b"first");
    w.run(micros(200));
    let bob = w.nodes[1].links[0].1;
    attack(&mut w.nodes[0].proto, bob);
    w.nodes[0].deliver();
    w.send(1, 0, b"second");
    w.send(0, 1, b"back");
    w.run(Duration::from_millis(5));
    let from_bob = w.nodes[0].received.iter().filter(|(_, m)| m.len() > 1);
    let from_bob: Vec<_> = from_bob.map(|(_, m)| &m[..]).collect();
    assert_eq!(from_bob, [&b"first"[..], b"second"]);
    assert_eq!(w.received(1), [b"back"]);
    assert!(w.nodes.iter().all(|node| node.failed.is_empty()));
    assert_eq!(w.nodes[0].proto.counters().sessions, 2, "Bob's and the attacker's own");
}

#[test]
fn an_attacker_off_the_path_cannot_open_a_session_in_the_name_of_another() {
    for named in [false, true] {
        let mut end = End::new(ProtocolConfig::default(), 7);
        if named {
            end.peer(key(BOB)).unwrap();
        }
        attack(&mut end, BOB);
        assert_eq!(end.counters().sessions, 1, "the attacker's own");
        let delivered = std::iter::from_fn(|| end.poll_delivery()).map(|d| d.buffer);
        assert_eq!(delivered.collect::<Vec<_>>(), [[9]]);
    }
}

#[test]
fn an_answer_to_a_proposal_that_does_not_repeat_its_token_is_refused() {
    let mut end = End::new(ProtocolConfig::default(), 7);
    let bob = end.peer(key(BOB)).unwrap();
    end.send(bob, 5, b"hello".to_vec()).unwrap();
    let (_, hello, payload) = sent(&mut end).remove(0);
    let token = Handshake::parse(&payload).unwrap().token;
    // Even one who has guessed the epoch.
    for echo in [0, 1, !token, token ^ 1, token.swap_bytes()] {
        let answer = header(Kind::HelloAck, 99, hello.src_epoch);
        assert_eq!(hand(&mut end, BOB, &answer, &said(&[], echo, 1468)), Err(Discard::Epoch));
    }
    assert_eq!(sent(&mut end).len(), 0);
    let answer = header(Kind::HelloAck, 99, hello.src_epoch);
    assert_eq!(hand(&mut end, BOB, &answer, &said(&[], token, 1468)), Ok(()));
    let kinds: Vec<_> = sent(&mut end).iter().map(|(_, header, _)| header.kind).collect();
    assert_eq!(kinds, [Kind::Confirm, Kind::Data]);
}

#[test]
fn an_offer_holds_for_the_node_and_the_proposal_that_it_was_made_for_and_for_some_seconds() {
    let mut end = End::new(ProtocolConfig::default(), 7);
    let offer = propose(&mut end, ATTACKER, 1000, &[]);
    let answered = |end: &mut End, from, own, offer: Offer, change: fn(&mut Header)| {
        let mut header = header(Kind::Confirm, own, offer.epoch);
        change(&mut header);
        hand(end, from, &header, &said(&[], offer.token, 1468))
    };
    let same: fn(&mut Header) = |_| ();
    let wrong = Offer { token: offer.token ^ 1, ..offer };
    assert_eq!(answered(&mut end, BOB, 1000, offer, same), Err(Discard::Epoch), "another node");
    assert_eq!(
        answered(&mut end, ATTACKER, 1001, offer, same),
        Err(Discard::Epoch),
        "another epoch"
    );
    assert_eq!(answered(&mut end, ATTACKER, 1000, wrong, same), Err(Discard::Epoch));
    assert_eq!(answered(&mut end, ATTACKER, 1000, offer, |h| h.src_port = 1), Err(Discard::Epoch));
    assert_eq!(answered(&mut end, ATTACKER, 1000, offer, |h| h.channel = 1), Err(Discard::Epoch));
    end.advance(Instant(20_000_000_000));
    assert_eq!(answered(&mut end, ATTACKER, 1000, offer, same), Err(Discard::Epoch), "too late");
    let refused = sent(&mut end);
    assert_eq!(refused.len(), 6, "each gets a refusal");
    assert!(refused.iter().all(|(_, h, _)| h.kind == Kind::Reset && h.flags.has(Flags::ANSWER)));
    let offer = propose(&mut end, ATTACKER, 1000, &[]);
    end.advance(Instant(39_999_999_999));
    assert_eq!(answered(&mut end, ATTACKER, 1000, offer, same), Ok(()));
    assert_eq!(end.peers(), 1);
}

#[test]
fn epochs_have_nothing_to_do_with_each_other() {
    let mut end = End::new(ProtocolConfig::default(), 7);
    let mut epochs: Vec<u32> =
        (0..1000).map(|n| propose(&mut end, node(n), 1, &[]).epoch.0).collect();
    let steps =
        |epochs: &[u32]| epochs.windows(2).filter(|e| e[1].abs_diff(e[0]) < 1 << 16).count();
    assert!(steps(&epochs) < 4, "one in 32,768 is near the one before");
    epochs.sort_unstable();
    epochs.dedup();
    assert!(epochs.len() >= 999 && !epochs.contains(&0));
}

#[test]
fn a_proposal_leaves_nothing_behind_and_is_answered_once() {
    let mut end = End::new(ProtocolConfig::default(), 7);
    for n in 0..100_000 {
        let hello = header(Kind::Hello, 1 + n, Epoch::UNKNOWN);
        hand(&mut end, node(n), &hello, &said(&[], 0, 1468)).unwrap();
    }
    assert_eq!((end.peers(), end.usage().addresses), (0, 0));
    assert_eq!(sent(&mut end).len(), 64, "the rest is asked for again");
    assert_eq!(end.next_deadline(), Instant::NEVER);
}

#[test]
fn no_answer_is_longer_than_what_it_answers() {
    let macs: Vec<_> = (1..=8).map(|n| MacAddr([2, 0, 0, 0, 9, n])).collect();
    let mut end = End::new(ProtocolConfig { links: macs, ..ProtocolConfig::default() }, 7);
    let hello = header(Kind::Hello, 1, Epoch::UNKNOWN);
    let payload = said(&[], 0, 1468);
    for len in 0..payload.len() {
        let short = hand(&mut end, ATTACKER, &hello, &payload[..len]);
        assert_eq!(short, Err(Discard::Malformed), "{len} bytes");
    }
    assert_eq!(sent(&mut end).len(), 0);
    hand(&mut end, ATTACKER, &hello, &payload).unwrap();
    let (_, answer, said) = sent(&mut end).remove(0);
    assert_eq!((answer.kind, said.len()), (Kind::HelloAck, payload.len()));
    let kinds = [Kind::Confirm, Kind::Data, Kind::Ack, Kind::Op, Kind::Reset, Kind::Probe];
    for kind in kinds {
        let asks = Header { flags: Flags::ASK, ..header(kind, 1, Epoch(2)) };
        let _ = hand(&mut end, ATTACKER, &asks, &payload);
        let answers = sent(&mut end);
        assert_eq!(answers.len(), 1, "{kind:?}");
        assert_eq!((answers[0].1.kind, answers[0].2.len()), (Kind::Reset, 0), "{kind:?}");
    }
}

#[test]
fn data_in_front_of_the_confirmation_is_not_taken_and_does_not_end_the_session() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    // The Confirm is lost, and what comes behind it is not.
    w.nodes[0].drop_sent = vec![1];
    for n in 0..16 {
        w.send(0, 1, &[n]);
    }
    w.run(micros(21));
    assert_eq!(w.nodes[0].sent[1].kind, Kind::Confirm);
    assert_eq!((w.nodes[1].received.len(), w.nodes[1].proto.counters().sessions), (0, 0));
    assert_eq!(w.nodes[1].count(Kind::Reset), 16, "one small answer for each");
    w.run(Duration::from_millis(5));
    assert_eq!(w.nodes[1].received.len(), 16);
    assert!(w.nodes[0].failed.is_empty());
    assert_eq!(w.nodes[0].count(Kind::Confirm), 2);
}

#[test]
fn a_confirmation_that_is_never_answered_is_repeated_ever_more_rarely_until_the_peer_is_lost() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(0, 1, b"hello");
    w.run(micros(12));
    assert_eq!(w.nodes[0].count(Kind::Confirm), 1);
    w.net.cut(w.nodes[1].links[0].0, true, true);
    w.run(Duration::from_millis(9_990));
    assert!(w.nodes[0].failed.is_empty());
    let repeated = w.nodes[0].count(Kind::Confirm);
    assert!((75..110).contains(&repeated), "{repeated} times in ten seconds");
    w.run(Duration::from_millis(20));
    assert_eq!(w.nodes[0].failed[0].reason, Reason::Timeout);
}

#[test]
fn the_first_message_goes_in_the_same_doorbell_as_the_confirmation() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(0, 1, b"hello");
    w.run(micros(16));
    let kinds: Vec<_> = w.nodes[0].sent.iter().map(|header| header.kind).collect();
    assert_eq!(kinds, [Kind::Hello, Kind::Confirm, Kind::Data]);
    assert_eq!(w.received(1), [b"hello"], "after one round trip and a half");
}

/// What node 1 has said to node 0 comes a second time, while there is no session, and while there
/// is another.
#[test]
fn late_duplicates_of_a_former_session_neither_end_the_present_one_nor_bring_it_back() {
    for restarts in [false, true] {
        let mut end = End::new(ProtocolConfig::default(), 7);
        let mut old = Vec::new();
        for session in 0..3_u32 {
            let own = if restarts { 50 + session } else { 50 + 2 * session };
            let offer = propose(&mut end, BOB, own, &[]);
            let hello = (header(Kind::Hello, own, Epoch::UNKNOWN), said(&[], 0, 1468));
            let confirmation =
                (header(Kind::Confirm, own, offer.epoch), said(&[], offer.token, 1468));
            confirm(&mut end, (PathId::FIRST, BOB), (own, offer), &[]).unwrap();
            old.extend([hello, confirmation]);
            let sessions = end.counters().sessions;
            assert_eq!(sessions, u64::from(session) + 1);
            for (header, payload) in &old {
                let _ = hand(&mut end, BOB, header, payload);
                sent(&mut end);
            }
            let next =
                Header { seq: Epoch(own).first_seq() + 1, ..header(Kind::Data, own, offer.epoch) };
            assert_eq!(hand(&mut end, BOB, &next, b"more"), Ok(()), "it is still up");
            if !restarts {
                let mut reset = header(Kind::Reset, own, offer.epoch);
                reset.flags = Flags::ANSWER;
                hand(&mut end, BOB, &reset, &[]).unwrap();
                for (header, payload) in &old {
                    let _ = hand(&mut end, BOB, header, payload);
                    sent(&mut end);
                }
            }
            assert_eq!(end.counters().sessions, sessions, "nothing came back");
        }
    }
}

/// A peer that says it does not know a session is asked before the session ends: what it answers
/// may have overtaken the confirmation.
#[test]
fn a_late_reset_does_not_end_a_session_that_is_up() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    w.send(0, 1, b"hello");
    w.run(micros(200));
    let data = *w.nodes[0].sent.iter().find(|header| header.kind.is_data()).unwrap();
    let reset = Header {
        kind: Kind::Reset,
        src_epoch: data.dst_epoch,
        dst_epoch: data.src_epoch,
        ..header(Kind::Reset, 1, Epoch(1))
    };
    let bob = w.nodes[1].links[0].1;
    hand(&mut w.nodes[0].proto, bob, &reset, &[]).unwrap();
    w.send(0, 1, b"more");
    w.run(micros(200));
    assert_eq!(w.received(1), [&b"hello"[..], b"more"]);
    assert!(w.nodes[0].failed.is_empty());
    assert_eq!(w.nodes[0].count(Kind::Confirm), 2);
}

#[test]
fn unnamed_peers_leave_room_for_peers_that_the_program_names() {
    let mut end = End::new(ProtocolConfig { max_peers: 64, ..ProtocolConfig::default() }, 7);
    for n in 0..56 {
        let offer = propose(&mut end, node(n), 1, &[]);
        confirm(&mut end, (PathId::FIRST, node(n)), (1, offer), &[]).unwrap();
    }
    let hello = header(Kind::Hello, 1, Epoch::UNKNOWN);
    let more = hand(&mut end, node(56), &hello, &said(&[], 0, 1468));
    assert_eq!((more, end.counters().refused), (Err(Discard::Sessions), 1));
    for n in 100..108 {
        assert!(end.peer(key(node(n))).is_some());
    }
    assert_eq!(end.peer(key(node(108))), None);
}

/// Offers are kept nowhere, so the bound must hold for the Confirms of many of them, too.
#[test]
fn unnamed_peers_of_one_node_hold_a_bounded_part_of_the_table() {
    let mut end = End::new(ProtocolConfig::default(), 7);
    let from = |kind, port, to| Header { src_port: port, ..header(kind, 1, to) };
    let mut offers = Vec::new();
    for port in 0..300 {
        let hello = from(Kind::Hello, port, Epoch::UNKNOWN);
        hand(&mut end, ATTACKER, &hello, &said(&[], 0, 1468)).unwrap();
        let (_, answer, payload) = sent(&mut end).remove(0);
        offers.push((port, answer.src_epoch, Handshake::parse(&payload).unwrap().token));
    }
    for (port, epoch, token) in offers {
        let confirm = from(Kind::Confirm, port, epoch);
        let taken = hand(&mut end, ATTACKER, &confirm, &said(&[], token, 1468));
        sent(&mut end);
        assert_eq!(taken, if port < 256 { Ok(()) } else { Err(Discard::Sessions) });
    }
    let hello = from(Kind::Hello, 256, Epoch::UNKNOWN);
    assert_eq!(hand(&mut end, ATTACKER, &hello, &said(&[], 0, 1468)), Err(Discard::Sessions));
    // Others are taken, and what the program names is not one of the unnamed peers.
    assert!(establish(&mut end, BOB));
    let of = |port| PeerKey { port, ..key(ATTACKER) };
    assert!(end.peer(of(300)).is_some() && end.peer(of(0)).is_some());
    assert_eq!(end.peers(), 258);
    hand(&mut end, ATTACKER, &hello, &said(&[], 0, 1468)).expect("this one is named now");
}

#[test]
fn a_node_is_known_until_its_last_replaceable_peer_is_replaced() {
    let mut end = End::new(ProtocolConfig { max_peers: 8, ..ProtocolConfig::default() }, 7);
    for port in 0..2 {
        let hello = Header { src_port: port, ..header(Kind::Hello, 1, Epoch::UNKNOWN) };
        hand(&mut end, ATTACKER, &hello, &said(&[], 0, 1468)).unwrap();
        let (_, answer, payload) = sent(&mut end).remove(0);
        let token = Handshake::parse(&payload).unwrap().token;
        let confirm = Header { src_port: port, ..header(Kind::Confirm, 1, answer.src_epoch) };
        hand(&mut end, ATTACKER, &confirm, &said(&[], token, 1468)).unwrap();
        sent(&mut end);
    }
    assert!((0..5).all(|n| establish(&mut end, node(n))));
    end.advance(Instant(30_000_000_000));
    for (n, known) in [(10, true), (11, false)] {
        assert!(establish(&mut end, node(n)));
        assert_eq!(end.is_known_node(&ATTACKER.into()), known);
    }
}

#[test]
fn an_end_with_several_links_answers_what_it_takes_in_from_all_of_them() {
    let links: Vec<_> = (1..=2).map(|n| MacAddr([2, 0, 0, 0, 9, n])).collect();
    let mut end = End::new(ProtocolConfig { links, ..ProtocolConfig::default() }, 7);
    for n in 0..200 {
        let hello = header(Kind::Hello, 1, Epoch::UNKNOWN);
        hand(&mut end, node(n), &hello, &said(&[], 0, 1468)).unwrap();
    }
    assert_eq!(sent(&mut end).len(), 128);
}

/// Confirms a session and says no more; whether it came up.
fn establish(end: &mut End, from: MacAddr) -> bool {
    let hello = header(Kind::Hello, 1, Epoch::UNKNOWN);
    if hand(end, from, &hello, &said(&[], 0, 1468)).is_err() {
        return false;
    }
    let (_, answer, payload) = sent(end).remove(0);
    let token = Handshake::parse(&payload).unwrap().token;
    let confirm = header(Kind::Confirm, 1, answer.src_epoch);
    let taken = hand(end, from, &confirm, &said(&[], token, 1468));
    sent(end);
    taken.is_ok()
}

#[test]
fn unnamed_peers_that_said_nothing_make_room_after_three_peer_timeouts() {
    let mut end = End::new(ProtocolConfig { max_peers: 8, ..ProtocolConfig::default() }, 7);
    assert!((0..7).all(|n| establish(&mut end, node(n))));
    // One of them sends something: the program may keep its id.
    let offer = propose(&mut end, node(0), 2, &[]);
    confirm(&mut end, (PathId::FIRST, node(0)), (2, offer), &[]).unwrap();
    let known = end.poll_delivery().unwrap().peer;
    end.advance(Instant(29_999_999_999));
    assert!(!establish(&mut end, node(10)));
    end.advance(Instant(30_000_000_000));
    for n in 10..16 {
        assert!(establish(&mut end, node(n)), "peer {n}");
        let (replaced, former) = end.poll_replaced().expect("an entry changed hands");
        assert_eq!((end.key(replaced), former), (key(node(n)), key(node(n - 9))));
    }
    assert!(!establish(&mut end, node(16)), "all have just come");
    assert_eq!(end.key(known), key(node(0)));
    assert_eq!((end.peers(), end.usage().addresses), (7, 7));
    let ended = std::iter::from_fn(|| end.poll_ended()).filter(|e| e.reason == Reason::Timeout);
    assert_eq!(ended.count(), 6);
    // Former ones are unnamed again.
    end.advance(Instant(60_000_000_000));
    assert!(establish(&mut end, node(3)));
}

#[test]
fn silent_unnamed_peers_take_no_credit_from_peers_that_the_program_has_named() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    let bob = w.peer(0, 1);
    for n in 0..2_000 {
        assert!(establish(&mut w.nodes[0].proto, node(n)));
    }
    for n in 0..2_000_u32 {
        while w.try_send(1, 0, &n.to_be_bytes()).is_err() {
            w.run(micros(20));
        }
    }
    w.run(Duration::from_millis(5));
    assert_eq!(w.nodes[0].received.len(), 2_000);
    assert_eq!(w.nodes[0].proto.peer_snapshot(bob).granted, 256, "the whole window");
}

/// A Reset of version 1, which all later versions must understand.
fn foreign(kind: Kind, dst_epoch: Epoch) -> Option<ForeignFrame> {
    let (kind, src_epoch) = (kind as u8, Epoch(9));
    Some(ForeignFrame { version: 1, kind, channel: CHANNEL, src_epoch, dst_epoch })
}

#[test]
fn a_reset_of_another_version_ends_the_unanswered_proposal_that_it_answers_and_no_other() {
    let mut end = End::new(ProtocolConfig::default(), 7);
    let mut to = |mac, port, channel| {
        let peer = end.peer(PeerKey { node: MacAddr::into(mac), port, channel }).unwrap();
        end.send(peer, 1, vec![1]).unwrap();
        peer
    };
    let hers = [to(BOB, 0, 3), to(BOB, 7, 3), to(BOB, 0, 4)];
    let other = to(ATTACKER, 0, 3);
    let mut now = 0;
    for _ in 0..2 {
        let epochs: Vec<_> = sent(&mut end)
            .iter()
            .filter(|(to, ..)| hers.iter().any(|&peer| *to == Destination::Peer(peer)))
            .map(|(_, header, _)| header.src_epoch)
            .collect();
        assert_eq!(epochs.len(), hers.len());
        // Who does not see the Hellos, and who speaks for another node.
        for n in 0..1000 {
            end.handle_foreign_version(PathId::FIRST, BOB.into(), foreign(Kind::Reset, Epoch(n)));
            end.handle_foreign_version(PathId::FIRST, BOB.into(), foreign(Kind::Hello, epochs[0]));
            end.handle_foreign_version(
                PathId::FIRST,
                ATTACKER.into(),
                foreign(Kind::Reset, epochs[0]),
            );
        }
        end.handle_foreign_version(PathId::FIRST, BOB.into(), None);
        for answered in [false, true] {
            for &epoch in epochs.iter().filter(|_| answered) {
                end.handle_foreign_version(PathId::FIRST, BOB.into(), foreign(Kind::Reset, epoch));
            }
            for _ in 0..130 {
                sent(&mut end);
                now += 1_000_000;
                end.advance(Instant(now));
            }
            let mut failed = Vec::new();
            while let Some(failure) = end.poll_failure() {
                assert_eq!(failure.reason, Reason::Version(1));
                failed.push(failure.peer);
            }
            failed.sort_unstable();
            assert_eq!(failed, if answered { &hers[..] } else { &[] });
        }
        // Proposed again, they are found again.
        for peer in hers {
            end.send(peer, 1, vec![1]).unwrap();
        }
    }
    assert_eq!(end.peer_snapshot(other).state, gigae_proto::SessionPhase::Proposing);
}

#[test]
fn a_reset_that_answers_another_version_repeats_its_number() {
    let mut end = End::new(ProtocolConfig::default(), 7);
    end.handle_foreign_version(PathId::FIRST, BOB.into(), foreign(Kind::Hello, Epoch::UNKNOWN));
    end.handle_foreign_version(PathId::FIRST, BOB.into(), foreign(Kind::Reset, Epoch::UNKNOWN));
    let [(to, header, _)] = &sent(&mut end)[..] else { panic!("one is answered") };
    assert_eq!(*to, Destination::Unknown(key(BOB)));
    assert_eq!((header.kind, header.dst_epoch), (Kind::Reset, Epoch(9)));
}
