//! Shared credit (`PROTOCOL.md` 6.5 to 6.9): several senders share what a link carries, and no
//! sender that is silent, slow, old or hostile keeps others from it.
#![allow(missing_docs)]

mod crafted;
mod world;

use crafted::{End, Offer, header, propose, said};
use gigae_proto::{Arrival, Instant, PeerKey, ProtocolConfig};
use gigae_wire::{Discard, Flags, Header, Kind, MacAddr, PathId, SeqNo};
use std::time::Duration;
use world::{CHANNEL, World, micros, quiet};

const MS: u64 = 1_000_000;

fn shared() -> ProtocolConfig {
    ProtocolConfig { shared_credit: true, ..ProtocolConfig::default() }
}

/// One peer of an endpoint, played by the test.
struct Sender {
    node: MacAddr,
    epoch: u32,
    offer: Offer,
    /// Its next frame, and the first one without credit as far as it was told.
    next: SeqNo,
    limit: SeqNo,
    /// The last frame told it to wait. Acknowledgements so far.
    waits: bool,
    acks: usize,
}

/// An endpoint and its peers, in virtual time.
struct Peers {
    end: End,
    now: u64,
    senders: Vec<Sender>,
}

impl Peers {
    /// All sessions come up at the same time.
    fn new(count: u8) -> Self {
        let mut peers = Self { end: End::new(shared(), 7), now: MS, senders: Vec::new() };
        peers.end.advance(Instant(peers.now));
        (0..count).for_each(|n| peers.join(n, 64));
        peers
    }

    /// The n-th proposes a session in which this end may send so many frames.
    fn join(&mut self, n: u8, credit: u16) {
        let (node, epoch) = (MacAddr([2, 0, 0xbb, 0, 7, n]), 1000 + u32::from(n));
        let offer = propose(&mut self.end, node, epoch, &[]);
        let mut confirm = header(Kind::Confirm, epoch, offer.epoch);
        confirm.credit = credit;
        let payload = said(&[], offer.token, 1468);
        let arrival = Arrival {
            path: PathId::FIRST,
            from: &node.into(),
            header: &confirm,
            payload: &payload,
        };
        self.end.handle(arrival, &mut None).unwrap();
        let (next, limit) = (confirm.seq, confirm.seq);
        self.senders.push(Sender { node, epoch, offer, next, limit, waits: false, acks: 0 });
        self.take();
    }

    /// A frame of a sender: data, or a question if `flags` say so.
    fn frame(&mut self, n: usize, past: u32, flags: Flags) -> Result<(), Discard> {
        let sender = &self.senders[n];
        let asks = flags.has(Flags::ASK);
        let kind = if asks { Kind::Ack } else { Kind::Data };
        let mut header = header(kind, sender.epoch, sender.offer.epoch);
        (header.seq, header.flags) = (sender.next + past, flags);
        let arrival = Arrival {
            path: PathId::FIRST,
            from: &sender.node.into(),
            header: &header,
            payload: &[],
        };
        let mut buffer = (!asks).then(|| vec![1]);
        self.end.handle(arrival, &mut buffer)
    }

    /// The sender asks, and says its demand.
    fn ask(&mut self, n: usize, demand: u8) {
        self.frame(n, 0, Flags::ASK.with_demand(demand)).unwrap();
        self.take();
    }

    /// The sender sends all that it has credit for, one by one; the program reads it or not.
    fn stream(&mut self, n: usize, demand: u8, reads: bool) -> u32 {
        let mut sent = 0;
        while self.senders[n].next.is_before(self.senders[n].limit) && sent < 1_000 {
            self.frame(n, 0, Flags::NONE.with_demand(demand)).expect("within the credit");
            self.senders[n].next += 1;
            sent += 1;
            if reads {
                self.read();
            }
            self.take();
        }
        sent
    }

    /// The sender sends what it has credit for up to `limit`, and gets no more meanwhile.
    fn burst(&mut self, n: usize, limit: SeqNo) -> u32 {
        let mut sent = 0;
        while self.senders[n].next.is_before(limit) {
            self.frame(n, 0, Flags::NONE.with_demand(9)).expect("within the credit");
            self.senders[n].next += 1;
            sent += 1;
            self.read();
        }
        sent
    }

    /// The program takes all messages.
    fn read(&mut self) {
        while let Some(delivery) = self.end.poll_delivery() {
            self.end.release(delivery.peer, delivery.epoch);
        }
    }

    /// The senders get what the endpoint has sent.
    fn take(&mut self) {
        while let Some(transmit) = self.end.poll_transmit() {
            let header = transmit.header;
            let of = |sender: &&mut Sender| sender.epoch == header.dst_epoch.0;
            if header.kind != Kind::Ack {
                continue;
            }
            let Some(sender) = self.senders.iter_mut().find(of) else { continue };
            let limit = header.ack + u32::from(header.credit);
            if sender.limit.is_before(limit) {
                sender.limit = limit;
            }
            sender.waits = header.flags.has(Flags::WAIT);
            sender.acks += 1;
        }
    }

    /// Time passes, as the endpoint wants to be called. Returns how often that was.
    fn pass(&mut self, nanos: u64) -> u32 {
        let (until, mut calls) = (self.now + nanos, 0);
        self.end.advance(Instant(self.now));
        while self.now < until {
            self.now = self.end.next_deadline().0.clamp(self.now + 1, until);
            self.end.advance(Instant(self.now));
            self.take();
            calls += 1;
        }
        calls
    }

    fn credit(&self, n: usize) -> i32 {
        self.senders[n].limit.ahead_of(self.senders[n].next)
    }

    fn end_session(&mut self, n: usize) {
        let sender = &self.senders[n];
        let mut reset = header(Kind::Reset, sender.epoch, sender.offer.epoch);
        reset.flags = Flags::ANSWER;
        let arrival = Arrival {
            path: PathId::FIRST,
            from: &sender.node.into(),
            header: &reset,
            payload: &[],
        };
        // It may have ended already.
        let _ = self.end.handle(arrival, &mut None);
        self.take();
    }
}

/// Credit is rationed here because sessions are new, before anybody says what it wants.
#[test]
fn peers_that_fall_silent_with_credit_do_not_hold_it() {
    let mut peers = Peers::new(3);
    (0..3).for_each(|n| peers.ask(n, 9));
    assert!(peers.credit(0) + peers.credit(1) + peers.credit(2) <= 16 + 4 + 1 + 16);
    assert!(peers.senders[2].waits, "credit is rationed");
    // Two are silent from now on.
    let mut sent = 0;
    for _ in 0..40 {
        peers.pass(MS / 2);
        sent += peers.stream(2, 9, true);
    }
    assert!(sent > 2_000, "{sent} frames");
    assert!(peers.credit(2) >= 32 || sent > 20_000, "no longer rationed");
    assert!(!peers.senders[2].waits);
    peers.pass(50 * MS);
    assert!(peers.pass(100 * MS) < 10, "nothing more to look for");
    // One of them was only slow: all its credit is good. It gets more as soon as the credit of the
    // one that is silent now does not count any more.
    assert!(peers.credit(0) > 0);
    peers.stream(0, 9, true);
    peers.pass(20 * MS);
    assert!(peers.credit(0) > 0);
}

/// Others fill the queue that the frames come through: 5 ms pass between a frame's credit and the
/// frame. Both senders use all their credit, and none of it is taken for unused.
#[test]
fn credit_whose_frames_wait_in_a_queue_of_others_is_not_unused() {
    let mut peers = Peers::new(2);
    (0..2).for_each(|n| peers.ask(n, 9));
    let mut least = u32::MAX;
    for round in 0..100 {
        let limits = [0, 1].map(|n: usize| peers.senders[n].limit);
        peers.pass(5 * MS);
        for (n, limit) in limits.into_iter().enumerate() {
            let sent = peers.burst(n, limit);
            if round >= 20 {
                least = least.min(sent);
            }
        }
        peers.take();
    }
    assert!(least >= 4, "half of the least budget, and not {least}");
}

#[test]
fn a_peer_that_never_says_its_demand_gets_credit_when_it_asks() {
    let mut peers = Peers::new(5);
    assert_eq!(peers.credit(4), 0, "too many came at once");
    peers.ask(4, 0);
    assert!(peers.credit(4) > 0);
    // Also while others want more.
    (0..3).for_each(|n| peers.ask(n, 9));
    assert_eq!(peers.credit(3), 0);
    for _ in 0..20 {
        peers.ask(3, 0);
        peers.pass(MS);
    }
    assert!(peers.credit(3) > 0);
    // Its receiver's program is slow: it holds the first 16 frames, and there is room for more.
    let mut peers = Peers::new(2);
    peers.pass(MS);
    peers.ask(0, 0);
    let mut sent = 0;
    for _ in 0..10 {
        sent += peers.stream(0, 0, false);
        peers.ask(0, 0);
    }
    assert_eq!(sent, 64);
}

/// There is nobody with whom to share the room.
#[test]
fn a_lone_peer_gets_all_the_room_with_the_first_ack_of_a_frame_although_the_program_keeps_it() {
    let mut lone = Peers::new(1);
    assert_eq!(lone.credit(0), 16);
    lone.frame(0, 0, Flags::NONE).unwrap();
    lone.senders[0].next += 1;
    lone.pass(MS);
    assert_eq!((lone.credit(0), lone.stream(0, 0, false)), (63, 63));
    lone.ask(0, 0);
    assert_eq!(lone.credit(0), 0, "no more room");
    // One that begins again is not another one.
    let mut again = Peers::new(1);
    for _ in 0..3 {
        again.end_session(0);
        again.senders.clear();
        again.join(0, 64);
    }
    assert_eq!(again.credit(0), 16);
    // The first of several newcomers does not.
    let mut peers = Peers::new(2);
    peers.frame(0, 0, Flags::NONE).unwrap();
    peers.senders[0].next += 1;
    peers.pass(MS);
    assert!(peers.credit(0) < 16);
}

#[test]
fn credit_of_sessions_that_end_goes_to_those_that_wait() {
    let mut peers = Peers::new(6);
    (0..6).for_each(|n| peers.ask(n, 9));
    let waiting: Vec<usize> = (0..6).filter(|&n| peers.credit(n) == 0).collect();
    assert!(!waiting.is_empty());
    for n in (0..6).filter(|n| !waiting.contains(n)) {
        peers.end_session(n);
    }
    for &n in &waiting {
        assert!(peers.credit(n) > 0, "without another frame or a timer");
    }
}

#[test]
fn two_hostile_sessions_do_not_hold_the_budget() {
    let mut peers = Peers::new(3);
    let mut sent = 0;
    for _ in 0..200 {
        // They say that they want one frame, have been given some, and send nothing.
        peers.ask(0, 1);
        peers.ask(1, 1);
        sent += peers.stream(2, 9, true);
        peers.ask(2, 9);
        peers.pass(MS / 10);
    }
    assert!(peers.credit(0) + peers.credit(1) < 60, "they get no more than they left unused");
    assert!(sent > 1_000, "{sent} frames in 20 ms");
    // Frames without credit are refused, although there is room.
    let mut peers = Peers::new(4);
    let mut taken = 0;
    while peers.frame(3, 0, Flags::NONE).is_ok() {
        peers.senders[3].next += 1;
        taken += 1;
    }
    assert_eq!(taken, 16, "an offer may have promised these");
    assert_eq!(peers.frame(3, 0, Flags::NONE), Err(Discard::Window));
}

#[test]
fn messages_that_the_program_does_not_take_do_not_ration_others() {
    let mut peers = Peers::new(3);
    for _ in 0..40 {
        for n in 0..2 {
            peers.ask(n, 9);
            peers.stream(n, 9, false);
        }
        peers.pass(MS);
    }
    assert_eq!((peers.credit(0), peers.credit(1)), (0, 0), "no room");
    peers.ask(2, 9);
    assert!(peers.credit(2) >= 48, "{} frames", peers.credit(2));
    assert!(!peers.senders[2].waits);
    // The program takes them, and all get credit.
    peers.read();
    peers.pass(MS);
    assert!(peers.credit(0) > 0 && peers.credit(1) > 0);
}

#[test]
fn the_last_of_several_gets_all_that_there_is_room_for() {
    let mut peers = Peers::new(2);
    (0..2).for_each(|n| peers.ask(n, 9));
    assert!(peers.credit(1) < 32);
    peers.end_session(0);
    // The sessions are not new any more.
    peers.pass(MS / 2);
    assert_eq!(peers.stream(1, 9, true), 1_000, "it is never stopped");
    assert!(!peers.senders[1].waits);
}

#[test]
fn an_endpoint_with_messages_asks_a_peer_that_confirms_without_credit() {
    let mut peers = Peers::new(0);
    let node = MacAddr([2, 0, 0xbb, 0, 7, 0]);
    let key = PeerKey { node: node.into(), port: 0, channel: CHANNEL };
    let peer = peers.end.peer(key).unwrap();
    peers.end.send(peer, 1, vec![5]).unwrap();
    peers.join(0, 0);
    let probes = peers.end.counters().probes;
    peers.pass(10 * MS);
    assert!(peers.end.counters().probes > probes, "it asks for credit");
}

#[test]
fn a_sender_that_was_told_to_wait_asks_after_4_ms_and_soon_when_it_is_told_no_more() {
    let mut peers = Peers::new(0);
    peers.join(0, 0);
    let sender = &peers.senders[0];
    let (node, epochs) = (sender.node, (sender.epoch, sender.offer.epoch));
    let key = PeerKey { node: node.into(), port: 0, channel: CHANNEL };
    let tell = |peers: &mut Peers, flags| {
        let mut ack = header(Kind::Ack, epochs.0, epochs.1);
        (ack.credit, ack.flags) = (0, flags);
        let arrival =
            Arrival { path: PathId::FIRST, from: &node.into(), header: &ack, payload: &[] };
        peers.end.handle(arrival, &mut None).unwrap();
        peers.take();
    };
    tell(&mut peers, Flags::WAIT);
    let peer = peers.end.peer(key).unwrap();
    peers.end.send(peer, 1, vec![5]).unwrap();
    peers.take();
    peers.pass(MS);
    tell(&mut peers, Flags::WAIT);
    let probes = peers.end.counters().probes;
    peers.pass(2 * MS);
    assert_eq!(peers.end.counters().probes, probes, "it waits");
    peers.pass(3 * MS);
    assert_eq!(peers.end.counters().probes, probes + 1, "in case its GO was lost");
    tell(&mut peers, Flags::NONE);
    peers.pass(3 * MS);
    assert!(peers.end.counters().probes > probes + 1, "it asks as usual");
}

#[test]
fn many_senders_of_long_and_short_transfers_all_get_through() {
    let mut w = World::new(21, 5, quiet(), &shared());
    for from in 1..21 {
        (0..if from % 2 == 0 { 4 } else { 200 }).for_each(|i| w.send(from, 0, &[i]));
    }
    w.run(Duration::from_millis(50));
    assert_eq!(w.nodes[0].received.len(), 10 * 204);
    assert!(w.nodes.iter().all(|node| node.proto.counters().retransmissions == 0));
}

#[test]
fn a_lone_sender_is_not_limited_and_its_window_grows() {
    let mut w = World::pair(quiet(), &shared());
    for _ in 0..20 {
        (0..200).for_each(|i| w.send(0, 1, &[i]));
        w.run(micros(500));
    }
    assert_eq!(w.nodes[1].received.len(), 4_000);
    let most = w.nodes[1].sent.iter().map(|header| header.credit).max();
    assert!(most > Some(128), "{most:?}");
    assert!(w.nodes[1].sent.iter().all(|header| !header.flags.has(Flags::WAIT)));
}

#[test]
fn without_shared_credit_nothing_is_said_and_nothing_is_rationed() {
    let config = ProtocolConfig { shared_credit: false, ..ProtocolConfig::default() };
    let mut w = World::new(5, 5, quiet(), &config);
    for from in 1..5 {
        (0..200).for_each(|i| w.send(from, 0, &[i]));
    }
    w.run(Duration::from_millis(20));
    assert_eq!(w.nodes[0].received.len(), 800);
    let headers = w.nodes.iter().flat_map(|node| &node.sent);
    assert!(headers.clone().all(|h| h.flags.demand() == 0 && !h.flags.has(Flags::WAIT)));
    let hello_ack = headers.clone().find(|header| header.kind == Kind::HelloAck).unwrap();
    assert_eq!(hello_ack.credit, 64);
}

/// Nothing that peers say, in any order, makes the endpoint panic or keeps an honest peer out.
#[test]
fn after_any_frames_an_honest_peer_gets_through() {
    for seed in 1..6_u64 {
        let mut peers = Peers::new(8);
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) % below
        };
        for _ in 0..20_000 {
            let n = random(8) as usize;
            let demand = random(16) as u8;
            let wait = if random(2) == 0 { Flags::WAIT } else { Flags::NONE };
            match random(40) {
                0 => drop(peers.pass(random(MS / 2))),
                1 => peers.end_session(n),
                2 => peers.read(),
                3..10 => drop(peers.frame(n, 0, Flags::ASK.with(wait).with_demand(demand))),
                10..14 => {
                    let _ = peers.frame(n, random(20) as u32, wait.with_demand(demand));
                }
                _ => {
                    let taken = peers.frame(n, 0, wait.with_demand(demand)).is_ok();
                    peers.senders[n].next += u32::from(taken);
                }
            }
            peers.take();
        }
        peers.read();
        peers.join(9, 64);
        let honest = peers.senders.len() - 1;
        let mut sent = 0;
        for _ in 0..100 {
            peers.ask(honest, 9);
            sent += peers.stream(honest, 9, true);
            peers.pass(MS / 10);
        }
        assert!(sent > 500, "seed {seed}: {sent} frames in 10 ms");
    }
}

#[test]
fn a_lone_peer_gets_credit_for_each_message_that_a_slow_program_takes() {
    let mut peers = Peers::new(2);
    peers.pass(MS);
    peers.ask(0, 9);
    let mut sent = 0;
    for _ in 0..10 {
        sent += peers.stream(0, 9, false);
        peers.ask(0, 9);
    }
    assert_eq!((sent, peers.credit(0)), (64, 0), "no room");
    let delivery = peers.end.poll_delivery().unwrap();
    peers.end.release(delivery.peer, delivery.epoch);
    peers.take();
    assert_eq!(peers.credit(0), 2, "one is free, and the window grows");
}

#[test]
fn two_nodes_alone_do_not_share_and_say_nothing() {
    let mut w = World::new(3, 5, quiet(), &shared());
    let exchange = |w: &mut World, from: usize, to: usize| {
        (0..200).for_each(|i| w.send(from, to, &[i]));
        w.run(Duration::from_millis(20));
    };
    exchange(&mut w, 1, 0);
    let says = |w: &World, n: usize| {
        w.nodes[n].sent.iter().any(|h| h.flags.shares_credit() || h.flags.demand() > 0)
    };
    assert!(!says(&w, 0) && !says(&w, 1));
    // A third one joins. The first hears of it with the next acknowledgement, and says so then.
    exchange(&mut w, 2, 0);
    (0..2).for_each(|_| exchange(&mut w, 1, 0));
    for node in 0..3 {
        assert!(says(&w, node) && w.nodes[node].proto.is_shared(), "{node}");
    }
    assert_eq!(w.nodes[0].received.len(), 800);
}

#[test]
fn a_newcomer_without_credit_hears_that_credit_is_shared_before_it_sends() {
    let mut w = World::new(8, 5, quiet(), &shared());
    for from in 1..8 {
        (0..20).for_each(|i| w.send(from, 0, &[i]));
    }
    w.run(Duration::from_millis(20));
    let offers = w.nodes[0].sent.iter().filter(|h| h.kind == Kind::HelloAck);
    let (without, with): (Vec<&Header>, Vec<_>) = offers.partition(|h| h.credit == 0);
    assert!(!without.is_empty() && !with.is_empty());
    assert!(without.iter().all(|header| header.flags.shares_credit()));
    assert_eq!(w.nodes[0].received.len(), 140);
}
