//! Many peers: what an idle one costs, and that an endpoint works with 10,000 of them. In virtual
//! time; bytes are counted by the allocator and the same on every run.
#![allow(missing_docs)]

mod crowd;

use crowd::Crowd;
use crowd::heap::allocations;
use gigae_proto::{Arrival, Body, Instant, PeerId, PeerKey, Protocol, ProtocolConfig};
use gigae_sim::Faults;
use gigae_wire::{Header, MacAddr, PathId};
use std::ops::Deref;
use std::time::Duration;

/// What an idle peer may cost in bytes on the heap, the allocator's own share not counted.
const MOST: i64 = 1_024;

const MANY: usize = 10_000;

fn faults(loss: f64) -> Faults {
    Faults { delay: Duration::from_micros(5), loss, ..Faults::default() }
}

/// Bytes that an endpoint keeps for each of its peers after something was done with all.
fn per_peer(count: usize, done: impl Fn(&mut Crowd)) -> i64 {
    let mut crowd = Crowd::new(count, 1, faults(0.0));
    done(&mut crowd);
    let with = crowd.end();
    (with - Crowd::new(0, 1, faults(0.0)).end()) / count as i64
}

#[test]
fn a_peer_costs_less_than_a_kilobyte_while_nothing_is_going_on() {
    let named = per_peer(MANY, |_| ());
    let up = per_peer(MANY, |crowd| _ = crowd.exchange(0..MANY, 1));
    let burst = per_peer(MANY, |crowd| _ = crowd.exchange(0..MANY, 50));
    let operations = per_peer(MANY, |crowd| {
        crowd.exchange(0..MANY, 1);
        crowd.exchange_operations();
    });
    println!("named {named}, up {up}, after a burst {burst}, after operations {operations}");
    assert!(named < up, "a session costs something, or nothing is counted");
    assert!([named, up, burst, operations].iter().all(|bytes| *bytes <= MOST));
}

/// Bytes of a protocol with so many peers, with which it has exchanged messages or not.
fn of_protocol(count: usize, messages: u32) -> i64 {
    let mut star = Star::new(count);
    if messages > 0 {
        star.round(messages);
    }
    let with = crowd::heap::live();
    drop(star.hub);
    with - crowd::heap::live()
}

#[test]
fn a_peer_costs_the_protocol_less_than_a_kilobyte_among_ten_thousand() {
    let none = of_protocol(0, 0);
    // Tables grow for some peers at once, and some windows keep their memory: for one or a hundred.
    for (count, more) in [(1, 16 << 10), (100, 16 << 10), (MANY, 0)] {
        let [named, up] =
            [0, 1].map(|messages| (of_protocol(count, messages) - none) / count as i64);
        println!("{count} peers: {named} bytes each, {up} once they have talked");
        assert!(named < up && up <= MOST + more / count as i64, "{count}: {named} {up}");
    }
}

#[test]
fn a_peer_costs_as_much_after_losses() {
    let count = 2_000;
    let mut crowd = Crowd::new(count, 1, faults(0.05));
    crowd.exchange(0..count, 20);
    let counters = crowd.endpoint().counters().protocol;
    assert!(counters.retransmissions > 1_000, "{counters:?}");
    let bytes = (crowd.end() - Crowd::new(0, 1, faults(0.0)).end()) / count as i64;
    println!("{bytes} bytes");
    // What belongs to no peer in particular, such as windows that stay large, is shared by fewer.
    assert!(bytes <= MOST + 256, "{bytes}");
}

#[test]
fn ten_thousand_peers_exchange_messages_and_none_is_lost() {
    for loss in [0.0, 0.01] {
        let mut crowd = Crowd::new(MANY, 7, faults(loss));
        for each in [1, 3] {
            crowd.exchange(0..MANY, each);
        }
        let counters = crowd.endpoint().counters().protocol;
        assert_eq!((counters.sessions, counters.messages_failed), (MANY as u64, 0));
        assert_eq!(counters.messages_received, 4 * MANY as u64);
        assert_eq!(counters.retransmissions > 0, loss > 0.0, "{counters:?}");
    }
}

#[test]
fn all_send_at_once_through_the_port_of_a_switch_and_none_is_stopped_for_good() {
    // 1 Gbit/s, and a buffer that a ninth of the first frames fit.
    let faults = Faults { rate: 125_000_000, buffer: 512 << 10, ..faults(0.0) };
    let mut crowd = Crowd::new(MANY, 3, faults);
    crowd.exchange(0..MANY, 8);
    assert!(crowd.net.tally().lost > 0, "the buffer was full");
    assert_eq!(crowd.endpoint().counters().protocol.messages_received, 8 * MANY as u64);
}

#[test]
fn one_that_sends_among_thousands_that_are_silent_is_not_stopped_for_each_frame() {
    let mut crowd = Crowd::new(3_000, 1, faults(0.0));
    crowd.exchange(0..3_000, 1);
    // What all have sent is forgotten after some thousand frames.
    crowd.exchange(0..1, 4_000);
    let before = crowd.endpoint().counters().protocol.acks_sent;
    crowd.exchange(0..1, 4_000);
    let acks = crowd.endpoint().counters().protocol.acks_sent - before;
    assert!(acks <= 4_000 / 4, "{acks} times GO");
}

/// A protocol and some peers of it, without anything between them.
struct Star {
    hub: Protocol<u32, u32>,
    rim: Vec<Protocol<u32, u32>>,
    now: u64,
}

const HUB: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const RIM: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn key(mac: MacAddr, port: usize) -> PeerKey {
    PeerKey { node: mac.into(), port: port as u16, channel: 0 }
}

impl Star {
    fn new(count: usize) -> Self {
        let mut hub = Protocol::new(ProtocolConfig::default(), 1);
        let rim = (0..count).map(|n| {
            hub.peer(key(RIM, n)).unwrap();
            let mut proto = Protocol::new(
                ProtocolConfig { port: n as u16, ..ProtocolConfig::default() },
                2 + n as u128,
            );
            proto.peer(key(HUB, 0)).unwrap();
            proto
        });
        Self { rim: rim.collect(), hub, now: 0 }
    }

    /// `messages` messages to each of the rim, and as many back. Returns allocations at the hub.
    fn round(&mut self, messages: u32) -> u64 {
        let mut allocated = 0;
        for n in 0..self.rim.len() {
            self.now += 100_000;
            let (now, far) = (Instant(self.now), &mut self.rim[n]);
            let hub = &mut self.hub;
            far.advance(now);
            allocated += allocations(|| {
                hub.advance(now);
                (0..messages).for_each(|i| hub.send(PeerId(n as u32), 8, i).unwrap());
            });
            (0..messages).for_each(|i| far.send(PeerId(0), 8, i).unwrap());
            loop {
                let mut frames = Vec::with_capacity(64);
                allocated += allocations(|| {
                    while let Some(frame) = next(hub) {
                        frames.push(frame);
                    }
                });
                let mut moved = !frames.is_empty();
                for (header, payload) in frames {
                    let _ = far.handle(
                        Arrival {
                            path: PathId::FIRST,
                            from: &HUB.into(),
                            header: &header,
                            payload: &payload,
                        },
                        &mut Some(0),
                    );
                }
                while let Some(frame) = next(far) {
                    moved = true;
                    allocated += allocations(|| {
                        let (header, payload) = &frame;
                        let _ = hub.handle(
                            Arrival { path: PathId::FIRST, from: &RIM.into(), header, payload },
                            &mut Some(0),
                        );
                    });
                }
                allocated += allocations(|| take(hub));
                take(far);
                self.now += 100_000;
                far.advance(Instant(self.now));
                allocated += allocations(|| hub.advance(Instant(self.now)));
                if !moved {
                    break;
                }
            }
            assert!(!self.hub.has_unacknowledged());
        }
        allocated
    }
}

fn next(proto: &mut Protocol<u32, u32>) -> Option<(Header, Payload)> {
    let transmit = proto.poll_transmit()?;
    let mut payload = Payload { bytes: [0; 132], len: 0 };
    if let Body::Control(control, padded) = transmit.body {
        payload.bytes[..control.len()].copy_from_slice(control);
        payload.len = control.len().max(padded.into());
    }
    Some((transmit.header, payload))
}

/// What a control frame says, without an allocation.
struct Payload {
    bytes: [u8; 132],
    len: usize,
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn take(proto: &mut Protocol<u32, u32>) {
    while let Some(delivery) = proto.poll_delivery() {
        proto.release(delivery.peer, delivery.epoch);
    }
    while proto.poll_acknowledged().is_some() {}
}

#[test]
fn asking_hundreds_in_turn_allocates_nothing_and_bursts_little() {
    let mut star = Star::new(300);
    star.round(1);
    star.round(1);
    assert_eq!(star.round(1), 0);
    // From some slots, which are there, to 16, to 32 and to 64.
    let burst = star.round(40);
    assert!((1..=4 * 300).contains(&burst), "{burst}");
    assert!(star.round(40) < 300 * 40 / 10, "few per message");
}
