//! One endpoint and any number of peers on a simulated network, in virtual time, and what the
//! endpoint keeps for them.
//!
//! The peers are protocols without frame memory, which would be 4 MiB for each; they differ by
//! their port ids and share one port of the network. The heap is counted by the allocator.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each program uses a part of it")]

#[path = "../heap/mod.rs"]
pub mod heap;

use gigae::{Address, Endpoint, Options, Peer, TrySendError, Wanted};
use gigae_proto::{Arrival, Body, PeerId, PeerKey, Protocol, ProtocolConfig};
use gigae_sim::{Faults, Network, Port};
use gigae_wire::op::Op;
use gigae_wire::{Envelope, HEADER_LEN, Header, PathId, Route};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Virtual time after which an exchange counts as hung, in nanoseconds.
const PATIENCE: u64 = 100_000_000_000;

/// One of the peers.
struct Member {
    proto: Protocol<Vec<u8>, Vec<u8>>,
    endpoint: PeerId,
    /// Messages to send still, and how many were sent and received in order, operations too.
    to_send: u32,
    sent: u32,
    received: u32,
    operations: u32,
}

/// What an exchange took at the endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Time in the endpoint's calls; of the machine's, not the virtual one.
    pub time: Duration,
    /// Messages that went either way.
    pub messages: u64,
}

/// The endpoint and its peers.
pub struct Crowd {
    pub net: Network,
    pub endpoint: Option<Endpoint>,
    pub to: Vec<Peer>,
    numbers: HashMap<Peer, usize>,
    members: Vec<Member>,
    /// When something is due at each of them; they themselves are looked at only then, or they
    /// would push the endpoint out of the cache.
    deadlines: Vec<u64>,
    port: Port,
    route: Route,
    sent: Vec<u32>,
    received: Vec<u32>,
    /// Messages that have arrived at the peers.
    arrived: u64,
}

impl Crowd {
    /// `count` peers that the endpoint knows and nothing was said to.
    pub fn new(count: usize, seed: u64, faults: Faults) -> Self {
        let net = Network::new(seed, faults);
        let options = Options::new("sim").linger(Duration::ZERO).aggregate(false);
        let endpoint = options.open_simulated(&net, seed as u32).unwrap();
        let (port, mac) = net.add_port();
        let own = endpoint.link().mac;
        let route = Route::new(Envelope::DEFAULT, mac.into(), own.into()).unwrap();
        let members = (0..count)
            .map(|n| {
                let config = ProtocolConfig {
                    port: n as u16,
                    send_window: 64,
                    receive_frames: 64,
                    receive_window: 64,
                    ..ProtocolConfig::default()
                };
                let mut proto = Protocol::new(config, u128::from(seed) << 64 | n as u128);
                let key = PeerKey { node: own.into(), port: 0, channel: 0 };
                let endpoint = proto.peer(key).unwrap();
                Member { proto, endpoint, to_send: 0, sent: 0, received: 0, operations: 0 }
            })
            .collect();
        let address = |n: usize| Address::from(mac).port(n as u16);
        let to: Vec<_> = (0..count).map(|n| endpoint.peer(address(n)).unwrap()).collect();
        let numbers = to.iter().enumerate().map(|(n, &peer)| (peer, n)).collect();
        let (sent, received) = (vec![0; count], vec![0; count]);
        let endpoint = Some(endpoint);
        let deadlines = vec![u64::MAX; count];
        Self {
            net,
            endpoint,
            to,
            numbers,
            members,
            deadlines,
            port,
            route,
            sent,
            received,
            arrived: 0,
        }
    }

    pub fn endpoint(&self) -> &Endpoint {
        self.endpoint.as_ref().unwrap()
    }

    /// Each of the peers in `who` sends and is sent `each` messages, all at once, until all have
    /// arrived.
    ///
    /// # Panics
    /// If any is lost, comes twice or out of order, or does not come.
    pub fn exchange(&mut self, who: std::ops::Range<usize>, each: u32) -> Cost {
        let mut cost = Cost { time: Duration::ZERO, messages: 0 };
        let began = self.net.now();
        let mut left: VecDeque<usize> = who.clone().collect();
        let sent_before = self.sent.clone();
        let (mut outstanding, mut expected) = (0, 0);
        for n in who {
            self.members[n].to_send += each;
            self.deadlines[n] = 0;
            outstanding += u64::from(each);
            expected += u64::from(each);
        }
        let until = self.arrived + expected;
        while outstanding > 0 || !left.is_empty() || self.arrived < until {
            let start = Instant::now();
            let Self { endpoint, sent, to, numbers, received, .. } = &mut *self;
            let endpoint = endpoint.as_ref().unwrap();
            // One refusal at a time, or what is counted would be those.
            while let Some(&n) = left.front() {
                match endpoint.try_send(to[n], &sent[n].to_be_bytes()) {
                    Ok(()) => sent[n] += 1,
                    Err(TrySendError::WouldBlock(())) => {
                        left.rotate_left(1);
                        break;
                    }
                    Err(error) => panic!("{error}"),
                }
                if sent[n] == sent_before[n] + each {
                    left.pop_front();
                }
            }
            while let Some(message) = endpoint.try_recv().unwrap() {
                let n = numbers[&message.from()];
                assert_eq!(message[..], received[n].to_be_bytes(), "from peer {n}");
                received[n] += 1;
                outstanding -= 1;
            }
            cost.time += start.elapsed();
            self.step();
            assert!(self.net.now() < began + PATIENCE, "{outstanding} messages did not come");
        }
        cost.messages = 2 * expected;
        cost.time += self.rest();
        cost
    }

    /// The same with a tagged message, one each way, with some of the peers at a time: what was
    /// once needed for operations is kept for others.
    pub fn exchange_operations(&mut self) {
        let count = self.members.len();
        (0..count).step_by(100).for_each(|n| self.exchange_operations_with(n..count.min(n + 100)));
        self.rest();
    }

    fn exchange_operations_with(&mut self, who: std::ops::Range<usize>) {
        let began = self.net.now();
        for n in who.clone() {
            self.endpoint().start_recv(Wanted::tag(n as u64), vec![0; 8]).unwrap();
            self.endpoint().start_send(self.to[n], n as u64, vec![0; 8]).unwrap();
            let mut frame = vec![0; 64];
            let len = Op::Eager { label: (n as u64).into() }.write(8, &mut frame) + 8;
            frame.truncate(len);
            let Member { proto, endpoint, .. } = &mut self.members[n];
            proto.send_operations(*endpoint, len as u16, frame).unwrap();
            self.deadlines[n] = 0;
        }
        let mut completed = 0;
        while completed < 2 * who.len() {
            while let Some(completion) = self.endpoint().try_completion().unwrap() {
                completion.result.unwrap();
                completed += 1;
            }
            self.step();
            assert!(self.net.now() < began + PATIENCE, "{completed} operations are complete");
        }
        assert!(self.members[who].iter().all(|m| m.operations > 0));
    }

    /// Lets everything be acknowledged, and some time pass. Returns the time spent in the endpoint.
    fn rest(&mut self) -> Duration {
        let mut time = Duration::ZERO;
        let end = self.net.now() + 1_000_000_000;
        while self.net.now() < end {
            let start = Instant::now();
            self.endpoint().progress().unwrap();
            let left = self.endpoint().prepare_to_wait().unwrap();
            time += start.elapsed();
            let before = self.net.now();
            self.step();
            if self.net.now() > before {
                let left = left.map_or(u64::MAX, |left| left.as_nanos() as u64);
                self.skip(end.min(before.saturating_add(left)));
            }
        }
        self.endpoint().drain(Duration::ZERO).expect("all is acknowledged");
        time
    }

    /// Passes the time to the next thing that will happen, at most until then.
    fn skip(&mut self, end: u64) {
        let next = self.net.next_arrival().unwrap_or(u64::MAX);
        let deadline = self.deadlines.iter().copied().min().unwrap_or(u64::MAX);
        self.net.advance_to(next.min(deadline).min(end));
    }

    /// Lets the peers do what they can, and a microsecond pass if that is nothing.
    fn step(&mut self) {
        let now = self.net.now();
        let mut moved = false;
        while let Some(frame) = self.net.receive(self.port) {
            moved = true;
            let Ok((from, inner)) = Envelope::DEFAULT.open(&frame) else { continue };
            let Ok((header, payload)) = Header::parse(inner) else { continue };
            let Some(member) = self.members.get_mut(usize::from(header.dst_port)) else { continue };
            member.proto.advance(gigae_proto::Instant(now));
            let mut buffer = Some(payload.to_vec());
            let _ = member.proto.handle(
                Arrival { path: PathId::FIRST, from: &from, header: &header, payload },
                &mut buffer,
            );
            self.deadlines[usize::from(header.dst_port)] = 0;
        }
        for (n, deadline) in self.deadlines.iter_mut().enumerate().filter(|(_, at)| **at <= now) {
            let member = &mut self.members[n];
            let before = member.received;
            moved |= member.act(now, &self.net, self.port, &self.route);
            self.arrived += u64::from(member.received - before);
            *deadline = self.members[n].proto.next_deadline().0;
        }
        if !moved {
            self.net.advance_to(now + 1_000);
        }
    }

    /// Bytes that the endpoint has on the heap, which ends it. Its last frames reach no peer.
    pub fn end(&mut self) -> i64 {
        let endpoint = self.endpoint.take().unwrap();
        let port = self.net.port_of(endpoint.link().mac).unwrap();
        self.net.cut(port, true, true);
        let before = heap::live();
        drop(endpoint);
        before - heap::live()
    }
}

impl Member {
    fn act(&mut self, now: u64, net: &Network, port: Port, route: &Route) -> bool {
        let now = gigae_proto::Instant(now);
        let proto = &mut self.proto;
        let mut moved = false;
        proto.advance(now);
        while let Some(delivery) = proto.poll_delivery() {
            assert_eq!(delivery.buffer, self.received.to_be_bytes());
            self.received += 1;
            proto.release(delivery.peer, delivery.epoch);
        }
        while let Some(delivery) = proto.poll_operations() {
            self.operations += 1;
            proto.release(delivery.peer, delivery.epoch);
        }
        while proto.poll_acknowledged().is_some() {}
        assert!(!proto.has_failures());
        while self.to_send > 0 {
            if proto.send(self.endpoint, 4, self.sent.to_be_bytes().to_vec()).is_err() {
                break;
            }
            self.sent += 1;
            self.to_send -= 1;
        }
        while let Some(transmit) = proto.poll_transmit() {
            moved = true;
            let mut frame = vec![0; route.len() + HEADER_LEN];
            match transmit.body {
                Body::Message(body) => frame.extend_from_slice(body),
                Body::Control(body, pad) => {
                    let padding = usize::from(pad).saturating_sub(body.len());
                    frame.extend_from_slice(body);
                    frame.resize(frame.len() + padding, 0);
                }
            }
            transmit.header.seal(&mut frame[route.len()..]);
            route.write(&mut frame);
            net.send(port, &frame);
        }
        proto.advance(now);
        moved
    }
}
