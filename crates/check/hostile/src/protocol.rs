//! Two honest protocols with a session, and a hostile node that sends them any frame.

use crate::frames::{HONEST, Hostile, network, payload_of, sealed};
use crate::scenario::{Scenario, body, play};
use crate::script::Script;
use gigae_proto::{
    Arrival, Destination, ForeignFrame, Instant, PathTo, PeerId, PeerKey, Protocol, ProtocolConfig,
    Transmit,
};
use gigae_sim::{Network, Port};
use gigae_wire::{
    Discard, Envelope, Header, Kind, MacAddr, NodeAddr, PathAddr, PathId, Route, batch, op,
};
use std::collections::HashMap;
use std::time::Duration;

/// Frames that a protocol may have to send at one moment: all windows and an answer to everything.
const MOST_AT_ONCE: usize = 20_000;

/// A port of the network, and its address.
#[derive(Clone, Copy)]
struct PortLink {
    port: Port,
    mac: MacAddr,
}

impl PortLink {
    fn add(net: &Network) -> Self {
        let (port, mac) = net.add_port();
        Self { port, mac }
    }
}

struct ProtocolEnd {
    me: usize,
    proto: Protocol<Vec<u8>, Vec<u8>>,
    links: Vec<PortLink>,
    paths: HashMap<(PeerId, PathId), NodeAddr>,
    other: PeerId,
    sent: u32,
    /// Numbers received of the other honest end.
    got: u32,
    reads: bool,
    held: Vec<(PeerId, gigae_wire::Epoch)>,
}

struct Protocols {
    net: Network,
    ends: [ProtocolEnd; 2],
    hostile: Hostile,
    /// Frames that a protocol has sent, in all.
    transmitted: u64,
}

/// The protocol engine driven by hostile frames. Two honest ends have a session and go on using it;
/// a third node sends them frames of every kind, from its own addresses and from theirs.
///
/// # Panics
/// If a protocol does, holds more memory or sends more frames than bounds say, or if a message
/// between the honest ends is lost, doubled, changed, out of order, failed or led astray.
pub fn protocol(input: &[u8]) {
    play::<Protocols>(input);
}

impl Scenario for Protocols {
    /// Both ends with their windows and queues, frames on the way, and what hostile sessions may
    /// fill: 4,096 frames of 1,468 bytes kept or not read, at each end.
    const MEMORY: usize = 24 << 20;

    const MOST_STEPS: usize = 4000;

    fn new(script: &mut Script<'_>, secret: u128) -> Self {
        let setup = script.byte();
        let net = network();
        let count = 1 + usize::from(setup & 1);
        let links = [0, 1].map(|_| (0..count).map(|_| PortLink::add(&net)).collect::<Vec<_>>());
        let macs = links.clone().map(|l| l.iter().map(|link| link.mac).collect::<Vec<_>>());
        let [first, second] = links;
        let ends = [
            ProtocolEnd::new(0, first, setup, secret),
            ProtocolEnd::new(1, second, setup, !secret),
        ];
        let hostile = Hostile::new(&net, macs);
        let mut all = Self { net, ends, hostile, transmitted: 0 };
        for (end, other) in [(0, 1), (1, 0)] {
            let node = all.ends[other].links[0].mac.into();
            let key = PeerKey { node, port: 0, channel: 0 };
            let peer = all.ends[end].proto.peer(key).expect("the table is empty");
            all.ends[end].other = peer;
        }
        all.begin();
        all
    }

    fn act(&mut self, _: usize, script: &mut Script<'_>) {
        match script.byte() % 32 {
            0 | 1 => self.honest(0, usize::from(script.byte()) * 5),
            2 | 3 => self.honest(1, usize::from(script.byte()) * 5),
            4 => self.hand_to_hostile(script),
            5 => self.ends[0].reads ^= true,
            6 => self.run(Duration::from_micros(u64::from(script.u16()))),
            7 => self.run(Duration::from_millis(u64::from(script.byte()))),
            8..=11 => {
                self.settle();
                self.net.advance_to(self.net.now() + 6000);
                self.settle();
            }
            _ => self.hostile.send(&self.net, script),
        }
    }

    /// The hostile node is silent: what is in flight arrives soon, and the session still works.
    fn finish(mut self) {
        self.ends[0].reads = true;
        for _ in 0..40 {
            self.run(Duration::from_millis(25));
            let arrived =
                self.ends[0].sent == self.ends[1].got && self.ends[1].sent == self.ends[0].got;
            if arrived && !self.ends.iter().any(ProtocolEnd::is_full) {
                break;
            }
        }
        assert!(!self.ends.iter().any(ProtocolEnd::is_full), "a window stays full");
        self.honest(0, 100);
        self.honest(1, 100);
        self.run(Duration::from_millis(400));
        let counts = |end: &ProtocolEnd| (end.sent, end.got);
        let [a, b] = [counts(&self.ends[0]), counts(&self.ends[1])];
        assert!(a.0 == b.1 && b.0 == a.1, "sent and received: {a:?}, {b:?}");
        let most = 100 * (self.hostile.sent + u64::from(a.0 + b.0)) + 200_000;
        assert!(self.transmitted < most, "{} frames were sent", self.transmitted);
    }
}

impl Protocols {
    /// The honest session comes up undisturbed: an attacker of another version can hinder that, as
    /// PROTOCOL.md 4.6 has it.
    fn begin(&mut self) {
        self.honest(0, 8);
        self.run(Duration::from_millis(5));
        self.honest(1, 8);
        self.run(Duration::from_millis(5));
        assert_eq!(self.ends[0].got + self.ends[1].got, 2);
    }

    fn honest(&mut self, from: usize, len: usize) {
        let end = &mut self.ends[from];
        if end.is_full() {
            return;
        }
        let body = body(end.sent, from, len);
        let len = body.len() as u16;
        end.proto.send(end.other, len, body).expect("nothing has failed");
        end.sent += 1;
    }

    /// An honest program speaks to the hostile node, not knowing.
    fn hand_to_hostile(&mut self, script: &mut Script<'_>) {
        let node = self.hostile.own[usize::from(script.byte() & 1)].into();
        let key = PeerKey { node, port: 0, channel: 0 };
        let len = script.u16() % 1469;
        let proto = &mut self.ends[0].proto;
        let Some(peer) = proto.peer(key) else { return };
        // It may be refused for many reasons.
        let _ = if script.byte() & 1 == 0 {
            proto.send(peer, len, vec![7; len.into()])
        } else {
            proto.send_operations(peer, len, vec![7; len.into()])
        };
    }

    /// Lets both ends do what they can at this moment.
    fn settle(&mut self) {
        let now = Instant(self.net.now());
        for end in &mut self.ends {
            end.proto.advance(now);
            end.take_all(&self.net);
            end.deliver();
            self.transmitted += end.transmit(&self.net) as u64;
            end.proto.advance(now);
        }
        self.hostile.learn(&self.net);
    }

    fn run(&mut self, time: Duration) {
        let until = self.net.now() + time.as_nanos() as u64;
        let mut steps = 0_u64;
        while self.net.now() < until {
            self.settle();
            let timers = self.ends.iter().map(|end| end.proto.next_deadline().0).min();
            let next = self.net.next_arrival().unwrap_or(u64::MAX).min(timers.unwrap_or(u64::MAX));
            self.net.advance_to(next.max(self.net.now() + 1).min(until));
            steps += 1;
            // Two events per microsecond would be a loop that only time ends.
            let most = 20_000 + time.as_micros() as u64 * 2;
            assert!(steps < most, "{steps} events in {time:?}");
        }
        self.settle();
    }
}

impl ProtocolEnd {
    fn new(me: usize, links: Vec<PortLink>, setup: u8, secret: u128) -> Self {
        let mut config = ProtocolConfig {
            links: if links.len() > 1 { links.iter().map(|l| l.mac).collect() } else { Vec::new() },
            ..ProtocolConfig::default()
        };
        if setup & 2 > 0 {
            config.receive_frames = 128;
        }
        if setup & 4 > 0 {
            config.max_peers = 4;
        }
        if setup & 8 > 0 {
            // Jumbo frames could pass, so lengths are asked for.
            (config.max_payload, config.max_operations) = (3794, 8968);
        }
        let config = if setup & 16 > 0 { config.go_back_n() } else { config };
        Self {
            me,
            proto: Protocol::new(config, secret),
            links,
            paths: HashMap::new(),
            other: PeerId(0),
            sent: 0,
            got: 0,
            reads: true,
            held: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.proto.is_full(self.other)
    }

    fn take_all(&mut self, net: &Network) {
        for path in PathId::all(self.links.len()) {
            let PortLink { port, mac } = self.links[path.index()];
            while let Some(frame) = net.receive(port) {
                if frame[..6] == mac.0 {
                    self.take(path, &frame);
                }
            }
        }
    }

    /// As the engine does it: what the wire's parser refuses does not reach the protocol.
    fn take(&mut self, path: PathId, frame: &[u8]) {
        let opened = Envelope::DEFAULT.open(frame);
        let Ok((from, inner)) = opened else { return };
        let (header, payload) = match Header::parse(inner) {
            Ok(parsed) => parsed,
            Err(Discard::Version(_)) => {
                let frame = ForeignFrame::parse(inner);
                return self.proto.handle_foreign_version(path, from, frame);
            }
            Err(_) => return,
        };
        let malformed = match header.kind {
            Kind::Batch => batch::check(payload).is_err(),
            Kind::Op => op::check(payload.into()).is_err(),
            Kind::Who | Kind::Here => true,
            _ => false,
        };
        if malformed {
            return;
        }
        let mut kept = payload.to_vec();
        kept.push(header.kind as u8);
        let mut buffer = Some(kept);
        let _ =
            self.proto.handle(Arrival { path, from: &from, header: &header, payload }, &mut buffer);
        assert!(buffer.is_some() || header.kind.is_data(), "only messages are kept");
    }

    fn deliver(&mut self) {
        while let Some(delivery) = self.proto.poll_delivery() {
            self.received(delivery.peer, &delivery.buffer);
            self.held.push((delivery.peer, delivery.epoch));
        }
        while let Some(delivery) = self.proto.poll_operations() {
            assert!(delivery.peer != self.other, "an operation that no honest end has sent");
            self.held.push((delivery.peer, delivery.epoch));
        }
        while let Some(ended) = self.proto.poll_ended() {
            assert!(ended.peer != self.other, "the honest session ended: {ended:?}");
        }
        while let Some(failure) = self.proto.poll_failure() {
            assert!(failure.peer != self.other, "an honest message failed: {:?}", failure.reason);
        }
        while self.proto.poll_acknowledged().is_some() {}
        while self.proto.poll_discarded().is_some() {}
        while self.proto.poll_spent().is_some() {}
        if self.reads {
            for (peer, epoch) in self.held.drain(..) {
                self.proto.release(peer, epoch);
            }
        }
    }

    fn received(&mut self, peer: PeerId, buffer: &[u8]) {
        let honest = buffer.starts_with(&HONEST);
        if peer != self.other {
            assert!(!honest, "an honest message in a strange session");
            return;
        }
        let [body @ .., kind] = buffer else { panic!("no kind") };
        assert_eq!(*kind, Kind::Data as u8, "honest ends send lone messages");
        let expected = self::body(self.got, 1 - self.me, body.len().saturating_sub(13));
        assert_eq!(body, expected, "message {} is another", self.got);
        self.got += 1;
    }

    fn transmit(&mut self, net: &Network) -> usize {
        let mut count = 0;
        loop {
            while let Some(PathTo { peer, path, addr, .. }) = self.proto.poll_path() {
                let PathAddr::Link(mac) = addr else { unreachable!("it has links alone") };
                self.paths.insert((peer, path), mac.into());
            }
            let Some(Transmit { to, path, header, body, .. }) = self.proto.poll_transmit() else {
                return count;
            };
            let payload = payload_of(body);
            let node = match to {
                Destination::Peer(peer) if !path.is_first() => self.paths[&(peer, path)],
                Destination::Peer(peer) => self.proto.key(peer).node,
                Destination::Unknown(key) => key.node,
            };
            let PortLink { port, mac } = self.links[path.index()];
            let route = Route::new(Envelope::DEFAULT, mac.into(), node).expect("Ethernet both");
            net.send(port, &sealed(&route, &header, &payload));
            count += 1;
            assert!(count < MOST_AT_ONCE, "it never stops sending");
        }
    }
}
