//! What a peer that keeps to no rule can make an endpoint keep, by frames on the wire. The program
//! of the endpoint uses plain messages only. In virtual time.
#![allow(missing_docs)]

mod heap;

use gigae::{Address, Endpoint, Options, Rights};
use gigae_proto::{Arrival, Body, Instant, PeerId, PeerKey, Protocol, ProtocolConfig};
use gigae_sim::{Faults, Network, Port};
use gigae_wire::op::Op;
use gigae_wire::{Envelope, HEADER_LEN, Header, PathId, Route};
use std::time::Duration;

/// A node with its own sessions, which sends any operations.
struct Attacker {
    net: Network,
    port: Port,
    route: Route,
    victim: PeerKey,
    proto: Protocol<Vec<u8>, Vec<u8>>,
    peer: PeerId,
    sessions: u32,
    /// It gives the victim no credit.
    takes_nothing: bool,
}

impl Attacker {
    fn new(net: &Network, victim: &Endpoint) -> Self {
        let (port, mac) = net.add_port();
        let to = victim.link().mac;
        let route = Route::new(Envelope::DEFAULT, mac.into(), to.into()).unwrap();
        let victim = PeerKey { node: to.into(), port: 0, channel: 0 };
        let (proto, peer) = Self::life(1, victim);
        let (net, sessions, takes_nothing) = (net.clone(), 1, false);
        Self { net, port, route, victim, proto, peer, sessions, takes_nothing }
    }

    fn life(seed: u32, victim: PeerKey) -> (Protocol<Vec<u8>, Vec<u8>>, PeerId) {
        let mut proto = Protocol::new(ProtocolConfig::default(), seed.into());
        let peer = proto.peer(victim).unwrap();
        (proto, peer)
    }

    /// It forgets its session and begins another.
    fn begin_again(&mut self) {
        self.sessions += 1;
        (self.proto, self.peer) = Self::life(self.sessions, self.victim);
    }

    fn send(&mut self, ops: &[(Op, &[u8])]) {
        let mut payload = Vec::new();
        for (op, data) in ops {
            let mut header = vec![0; op.header_len()];
            op.write(data.len() as u16, &mut header);
            payload.extend_from_slice(&header);
            payload.extend_from_slice(data);
        }
        self.proto.send_operations(self.peer, payload.len() as u16, payload).unwrap();
    }

    /// Everything goes out, and the victim takes it in.
    fn settle(&mut self, victim: &Endpoint) {
        for _ in 0..40 {
            self.step();
            assert!(victim.try_recv().unwrap().is_none());
            self.net.advance_to(self.net.now() + 10_000);
        }
        assert!(!self.proto.has_unacknowledged(), "the victim has taken all");
    }

    fn step(&mut self) {
        let Self { proto, route, net, port, takes_nothing, .. } = self;
        let now = Instant(net.now());
        proto.advance(now);
        while let Some(frame) = net.receive(*port) {
            let Ok((from, inner)) = Envelope::DEFAULT.open(&frame) else { continue };
            let Ok((header, payload)) = Header::parse(inner) else { continue };
            let _ = proto.handle(
                Arrival { path: PathId::FIRST, from: &from, header: &header, payload },
                &mut Some(payload.to_vec()),
            );
        }
        while let Some(delivery) = proto.poll_operations() {
            proto.release(delivery.peer, delivery.epoch);
        }
        while proto.poll_acknowledged().is_some() {}
        while let Some(transmit) = proto.poll_transmit() {
            let mut frame = vec![0; route.len() + HEADER_LEN];
            match transmit.body {
                Body::Message(body) => frame.extend_from_slice(body),
                Body::Control(body, padded) => {
                    frame.extend_from_slice(body);
                    frame
                        .resize(frame.len().max(route.len() + HEADER_LEN + usize::from(padded)), 0);
                }
            }
            let credit = if *takes_nothing { 0 } else { transmit.header.credit };
            Header { credit, ..transmit.header }.seal(&mut frame[route.len()..]);
            route.write(&mut frame);
            net.send(*port, &frame);
        }
        proto.advance(now);
    }
}

/// What an attacker sends in each of its sessions.
type Attack<'a> = &'a dyn Fn(&mut Attacker);

fn network() -> Network {
    Network::new(1, Faults { delay: Duration::from_micros(5), ..Faults::default() })
}

fn grown(
    victim: &Endpoint,
    attacker: &mut Attacker,
    sessions: u32,
    ops: impl Fn(&mut Attacker),
) -> i64 {
    let before = heap::live();
    for _ in 0..sessions {
        // What the attacker keeps is not counted.
        attacker.begin_again();
        ops(attacker);
        attacker.settle(victim);
    }
    heap::live() - before
}

#[test]
fn sessions_of_a_peer_that_sends_operations_cost_a_program_of_plain_messages_a_bounded_memory() {
    let net = network();
    let victim = Options::new("sim").open_simulated(&net, 1).unwrap();
    let mut attacker = Attacker::new(&net, &victim);
    let label = 1.into();
    let cases: [(&str, Attack); 4] = [
        ("messages", &|attacker| {
            (0..50).for_each(|_| attacker.send(&[(Op::Eager { label }, &[1; 1400])]));
        }),
        ("empty messages", &|attacker| {
            (0..40).for_each(|_| attacker.send(&[(Op::Eager { label }, &[][..]); 60]));
        }),
        ("begun messages", &|attacker| {
            attacker.send(&[(Op::First { label, total: 32_000 }, &[1; 1400])]);
        }),
        ("offers", &|attacker| {
            let offer = Op::Offer { id: 1, label, total: 1 << 30 };
            (0..40).for_each(|_| attacker.send(&[(offer, &[][..]); 40]));
        }),
    ];
    for (what, ops) in cases {
        let grown = grown(&victim, &mut attacker, 150, ops);
        println!("{what}: {grown} bytes");
        assert!(grown < 1 << 20, "{what}: {grown} bytes");
    }
}

#[test]
fn writes_whose_last_parts_are_empty_bring_no_more_notices_than_may_wait() {
    let net = network();
    let victim = Options::new("sim").open_simulated(&net, 1).unwrap();
    let key = victim.register(vec![0; 100], Rights::WRITE).unwrap().0;
    let mut attacker = Attacker::new(&net, &victim);
    let op = Op::Write { id: 1, key, offset: 0, total: 10, at: 10, notice: Some(1) };
    for _ in 0..20 {
        (0..20).for_each(|_| attacker.send(&[(op, &[][..]); 30]));
        attacker.settle(&victim);
    }
    assert!(victim.try_notice().unwrap().is_none(), "no write has begun");
}

#[test]
fn a_peer_that_has_filled_its_share_hinders_no_other() {
    let net = network();
    let victim = Options::new("sim").open_simulated(&net, 1).unwrap();
    let honest = Options::new("sim").open_simulated(&net, 2).unwrap();
    let mut attacker = Attacker::new(&net, &victim);
    grown(&victim, &mut attacker, 20, |attacker| {
        (0..50).for_each(|_| attacker.send(&[(Op::Eager { label: 1.into() }, &[1; 1400])]));
    });
    let to = honest.peer(Address::from(victim.link().mac)).unwrap();
    for n in 0..100 {
        honest.start_send(to, n, vec![n as u8; 3000]).unwrap();
    }
    let mut received = 0;
    for _ in 0..10_000 {
        honest.progress().unwrap();
        let _ = honest.try_completion().unwrap();
        if victim.outstanding() == 0 && received < 100 {
            let wanted = gigae::Wanted::tag(received);
            victim.start_recv(wanted.from(peer_of(&victim, &honest)), vec![0; 3000]).unwrap();
        }
        if let Some(done) = victim.try_completion().unwrap() {
            assert!(done.memory.unwrap().into_vec().unwrap() == vec![received as u8; 3000]);
            received += 1;
        }
        net.advance_to(net.now() + 5_000);
    }
    assert_eq!((received, honest.outstanding()), (100, 0));
}

/// Each answer needs a frame, and none of them can go out.
#[test]
fn a_peer_that_takes_no_answers_leaves_transmit_frames_for_others() {
    let net = network();
    let victim = Options::new("sim").open_simulated(&net, 1).unwrap();
    let honest = Options::new("sim").open_simulated(&net, 2).unwrap();
    let key = victim.register(vec![7; 8], Rights::ALL).unwrap();
    let mut attackers: Vec<_> = (0..10).map(|_| Attacker::new(&net, &victim)).collect();
    for attacker in &mut attackers {
        attacker.takes_nothing = true;
        for n in 0..250 {
            let read = Op::Read { id: n, key: !key.0, offset: 0, len: 8 };
            if n % 50 == 0 {
                // So that answers do not share frames.
                (0..20).for_each(|_| attacker.step());
            }
            attacker.send(&[(read, &[])]);
            for _ in 0..4 {
                attacker.step();
                victim.progress().unwrap();
                net.advance_to(net.now() + 10_000);
            }
        }
    }
    assert!(victim.counters().operations.refused > 1000, "they are answered");
    let (to_victim, to_honest) = (peer_of(&honest, &victim), peer_of(&victim, &honest));
    honest.start_read(to_victim, key, 0, vec![0; 8]).unwrap();
    victim.try_send(to_honest, b"at once").unwrap();
    for _ in 0..500 {
        attackers.iter_mut().for_each(Attacker::step);
        victim.progress().unwrap();
        honest.progress().unwrap();
        net.advance_to(net.now() + 10_000);
    }
    assert_eq!(&*honest.try_recv().unwrap().expect("it has arrived"), b"at once");
    assert_eq!(honest.take_completion().expect("it is answered").result, Ok(()));
}

fn peer_of(here: &Endpoint, there: &Endpoint) -> gigae::Peer {
    here.peer(Address::from(there.link().mac)).unwrap()
}
