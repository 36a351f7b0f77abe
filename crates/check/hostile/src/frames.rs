//! A hostile node: it sends any frame, sealed, from any address, and learns from what it receives.

use crate::script::Script;
use gigae_proto::Body;
use gigae_sim::{Faults, Network, Port};
use gigae_wire::op::{Action, Change, Label, MAX_OP_HEADER, Number, Op, Status};
use gigae_wire::{
    Envelope, Epoch, Flags, HEADER_LEN, Handshake, Header, Hello, Here, Kind, MacAddr, PartHeader,
    Paths, Route, SeqNo,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Who it claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClaimedSender {
    address: MacAddr,
    port: u16,
    channel: u8,
}

/// What every message between honest nodes begins with, so that one which goes astray is seen.
pub(crate) const HONEST: [u8; 8] = *b"honestly";

/// Its own token, which it need not hide.
const TOKEN: u64 = 0x0bad;

/// What the hostile node knows of a session that it tries to have.
#[derive(Clone, Copy, Debug, Default)]
struct ObservedSession {
    /// The victim's epoch and token, and its next number.
    epoch: Epoch,
    token: u64,
    ack: SeqNo,
    /// Its own.
    own: Epoch,
    seq: SeqNo,
}

/// A lossless network with 5 us one way.
pub(crate) fn network() -> Network {
    Network::new(1, Faults { delay: Duration::from_micros(5), ..Faults::default() })
}

/// The way of Ethernet frames from one address to another, which may be a multicast address.
pub(crate) fn ethernet(from: MacAddr, to: MacAddr) -> Route {
    let route = Route::new(Envelope::DEFAULT, from.into(), to.into());
    route.expect("both are Ethernet addresses")
}

/// A whole frame with valid checksums.
pub(crate) fn sealed(route: &Route, header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; route.len() + HEADER_LEN];
    frame.extend_from_slice(payload);
    header.seal(&mut frame[route.len()..]);
    route.write(&mut frame);
    frame
}

/// The payload of a frame that the protocol wants to send.
pub(crate) fn payload_of(body: Body<'_, Vec<u8>>) -> Vec<u8> {
    match body {
        Body::Message(message) => message.clone(),
        Body::Control(control, padded) => {
            let mut payload = control.to_vec();
            payload.resize(payload.len().max(padded.into()), 0);
            payload
        }
    }
}

/// See the module's description.
pub(crate) struct Hostile {
    port: Port,
    /// Its address, and a second one.
    pub(crate) own: [MacAddr; 2],
    /// The addresses of the honest nodes, link by link: the victim's first.
    pub(crate) honest: [Vec<MacAddr>; 2],
    /// Keys of memories that it knows, and one that it must never name.
    pub(crate) keys: [u64; 2],
    pub(crate) secret: u64,
    learnt: BTreeMap<ClaimedSender, ObservedSession>,
    epochs: u32,
    /// Frames sent.
    pub(crate) sent: u64,
    /// Frames received.
    pub(crate) received: u64,
}

impl Hostile {
    pub(crate) fn new(net: &Network, honest: [Vec<MacAddr>; 2]) -> Self {
        let (port, mac) = net.add_port();
        Self {
            port,
            own: [mac, MacAddr([2, 0, 0xbb, 0, 0, 1])],
            honest,
            keys: [0; 2],
            secret: 0,
            learnt: BTreeMap::new(),
            epochs: 0x0bad_0000,
            sent: 0,
            received: 0,
        }
    }

    /// Sends the next frame of the script. Honest sessions are not known to it.
    pub(crate) fn send(&mut self, net: &Network, script: &mut Script<'_>) {
        let frame = self.frame(script);
        self.sent += 1;
        net.send(self.port, &frame);
    }

    /// Learns from what has arrived.
    ///
    /// # Panics
    /// If a message between honest nodes is among it: their traffic was led astray.
    pub(crate) fn learn(&mut self, net: &Network) {
        while let Some(frame) = net.receive(self.port) {
            let to = MacAddr(*frame.first_chunk().expect("a whole frame"));
            // What goes to an address that no node has goes to all.
            if !self.own.contains(&to) {
                continue;
            }
            self.received += 1;
            let Ok((_, inner)) = Envelope::DEFAULT.open(&frame) else { continue };
            let Ok((header, payload)) = Header::parse(inner) else { continue };
            let astray = payload.windows(HONEST.len()).any(|bytes| bytes == HONEST);
            assert!(!astray, "a message between honest nodes went to the hostile one: {header:?}");
            let from = MacAddr(*frame[6..].first_chunk().expect("a whole frame"));
            let claim =
                ClaimedSender { address: to, port: header.dst_port, channel: header.channel };
            self.note(claim, &header, payload);
            if header.kind == Kind::HelloAck {
                self.confirm(net, claim, from, &header);
            }
        }
    }

    /// Accepts an offered session, as any node can in its own name.
    fn confirm(&mut self, net: &Network, own: ClaimedSender, victim: MacAddr, offer: &Header) {
        let learnt = self.learnt.entry(own).or_default();
        let header = Header {
            kind: Kind::Confirm,
            src_port: offer.dst_port,
            dst_port: offer.src_port,
            src_epoch: offer.dst_epoch,
            dst_epoch: offer.src_epoch,
            seq: offer.dst_epoch.first_seq(),
            ack: offer.src_epoch.first_seq(),
            flags: Flags::NONE,
            ..*offer
        };
        let hello = Hello { max_payload: 1468, reorder_window: 256, max_operations: 1468 };
        let said = Handshake { hello, token: TOKEN, echo: learnt.token, links: Paths::None };
        let mut payload = [0; Handshake::LONGEST];
        said.write(&mut payload);
        self.sent += 1;
        net.send(self.port, &sealed(&ethernet(own.address, victim), &header, &payload));
    }

    fn note(&mut self, claim: ClaimedSender, header: &Header, payload: &[u8]) {
        let learnt = self.learnt.entry(claim).or_default();
        match header.kind {
            Kind::Hello | Kind::HelloAck => {
                learnt.epoch = header.src_epoch;
                learnt.ack = header.src_epoch.first_seq();
                if let Ok(said) = Handshake::parse(payload) {
                    learnt.token = said.token;
                }
            }
            kind if kind.is_data() => {
                learnt.ack = header.seq + 1;
                learnt.seq = header.ack;
            }
            _ => {}
        }
    }

    fn frame(&mut self, script: &mut Script<'_>) -> Vec<u8> {
        let victim = usize::from(script.byte() & 7 == 7);
        let links = &self.honest[victim];
        let to = links[usize::from(script.byte()) % links.len()];
        let other = self.honest[1 - victim].clone();
        let from = match script.byte() % 16 {
            0..=9 => self.own[0],
            10..=11 => self.own[1],
            12..=13 => other[usize::from(script.byte()) % other.len()],
            14 => to,
            _ => MacAddr([script.byte(), 0, 0, 0, 0, 9]),
        };
        let port = script.pick(&[0, 0, 0, 0, 0, 1, 0xffff]);
        let channel = script.pick(&[0, 0, 0, 0, 0, 1, 255]);
        let claim = ClaimedSender { address: from, port, channel };
        let header = self.header(claim, script);
        let token = self.learnt.get(&claim).map_or(0, |learnt| learnt.token);
        let payload = self.payload(header.kind, token, script);
        let mut frame = sealed(&ethernet(from, to), &header, &payload);
        self.damage(&mut frame, script);
        frame
    }

    fn header(&mut self, claim: ClaimedSender, script: &mut Script<'_>) -> Header {
        const KINDS: [Kind; 17] = [
            Kind::Hello,
            Kind::HelloAck,
            Kind::Ack,
            Kind::Data,
            Kind::Op,
            Kind::Batch,
            Kind::Data,
            Kind::Op,
            Kind::Ack,
            Kind::Reset,
            Kind::Probe,
            Kind::Echo,
            Kind::Who,
            Kind::Here,
            Kind::Confirm,
            Kind::Op,
            Kind::Part,
        ];
        let kind = script.pick(&KINDS);
        let (way, change) = (script.byte(), script.byte());
        if kind == Kind::Hello && way < 128 {
            self.epochs = self.epochs.wrapping_add(1);
            let own = Epoch(self.epochs);
            let seq = own.first_seq();
            let learnt = self.learnt.entry(claim).or_default();
            (learnt.own, learnt.seq) = (own, seq);
        }
        let learnt = self.learnt.entry(claim).or_default();
        if learnt.own == Epoch::UNKNOWN {
            learnt.own = Epoch(self.epochs);
            learnt.seq = learnt.own.first_seq();
        }
        let mut known = *learnt;
        if change & 3 == 3 && self.learnt.len() > 1 {
            // Under this name it repeats what it learnt under another.
            let all: Vec<&ObservedSession> = self.learnt.values().collect();
            let other = all[usize::from(change >> 2) % all.len()];
            (known.epoch, known.ack) = (other.epoch, other.ack);
        }
        let learnt = self.learnt.entry(claim).or_default();
        let proper = if kind == Kind::Hello { Epoch::UNKNOWN } else { known.epoch };
        let (src_epoch, dst_epoch) = match way % 8 {
            0..=4 => (known.own, proper),
            5 => (known.own, Epoch(known.epoch.0.wrapping_add(u32::from(change)))),
            6 => (known.epoch, known.own),
            _ => (Epoch(script.u32()), Epoch(script.u32())),
        };
        // A small step back or ahead, mostly none.
        let step = |by: u8| if by < 160 { 0 } else { i32::from(by) - 200 };
        let (seq_by, ack_by) = (step(script.byte()), step(script.byte()));
        let (seq, ack) = match way >> 5 & 3 {
            3 => (SeqNo(script.u32()), SeqNo(script.u32())),
            _ => (moved(known.seq, seq_by), moved(known.ack, ack_by)),
        };
        if kind.is_data() && way % 8 <= 4 && seq == known.seq {
            learnt.seq = seq + 1;
        }
        let flags = script.byte();
        let flag = |bit: u8, flag| if flags & bit > 0 && flags < 96 { flag } else { Flags::NONE };
        Header {
            kind,
            channel: claim.channel,
            src_port: claim.port,
            dst_port: if change == 255 { script.u16() } else { 0 },
            src_epoch,
            dst_epoch,
            seq,
            ack,
            credit: script.pick(&[64, 64, 0, 1, 256, u16::MAX]),
            flags: flag(1, Flags::ASK)
                .with(flag(2, Flags::HEADER_ONLY))
                .with(flag(4, Flags::ANSWER)),
        }
    }

    /// Mostly what fits the kind.
    fn payload(&self, kind: Kind, token: u64, script: &mut Script<'_>) -> Vec<u8> {
        let way = script.byte();
        if way >= 224 {
            return match way {
                255 => vec![script.byte(); usize::from(script.u16()) % 1469],
                _ => script.take(usize::from(way & 15) * 8).to_vec(),
            };
        }
        match kind {
            Kind::Hello | Kind::HelloAck | Kind::Confirm => {
                let echo = if kind == Kind::Hello { 0 } else { token };
                self.handshake(way, echo, script)
            }
            Kind::Ack if way < 64 => Vec::new(),
            Kind::Ack => script.take(4 + usize::from(way)).to_vec(),
            Kind::Data => script.take(usize::from(way)).to_vec(),
            Kind::Batch => {
                let mut payload = Vec::new();
                for _ in 0..way % 40 {
                    let message = script.take(usize::from(script.clone().byte() % 24));
                    payload.extend((message.len() as u16).to_be_bytes());
                    payload.extend(message);
                }
                payload
            }
            Kind::Op => {
                let mut payload = Vec::new();
                for _ in 0..1 + way % 8 {
                    self.operation(script, &mut payload);
                }
                payload.truncate(1468);
                payload
            }
            Kind::Probe | Kind::Echo => {
                let mut payload = u16::from(script.byte() % 4).to_be_bytes().to_vec();
                let len = script.u16() % 1500;
                payload.extend(len.to_be_bytes());
                if kind == Kind::Probe && way < 128 {
                    payload.resize(usize::from(len.clamp(4, 1468)), 0);
                }
                payload
            }
            Kind::Here => {
                let mut payload = [0; Here::LONGEST];
                let name = ["n2", "a.b-c_d", &"x".repeat(63)][usize::from(way % 3)].to_owned();
                let ip = Some(script.u32().to_be_bytes().into());
                let (max_payload, mtu) = (script.u16(), script.u16());
                let channels = [script.byte(); 32];
                let here = Here { max_payload, mtu, ip, channels, name: &name };
                let len = here.write(&mut payload);
                payload[..len].to_vec()
            }
            Kind::Part => {
                let unit = 1 + u16::from(script.byte());
                let (frame, index, count) = (way.into(), script.byte() % 8, script.byte() % 8);
                let header = PartHeader { frame, unit, index, count };
                [&header.to_bytes()[..], &vec![way; unit.into()]].concat()
            }
            Kind::Reset | Kind::Who => Vec::new(),
        }
    }

    fn handshake(&self, way: u8, echo: u64, script: &mut Script<'_>) -> Vec<u8> {
        let lengths = [1468, 1468, 0, 1, 64, 3794, 9000, u16::MAX];
        let hello = Hello {
            max_payload: script.pick(&lengths),
            reorder_window: script.pick(&[256, 0, 1, 255, 1024, u16::MAX]),
            max_operations: script.pick(&lengths),
        };
        let mut links = Paths::None;
        if way >= 96 {
            // Its own addresses, and those of others.
            let all = [self.own.as_slice(), &self.honest[1], &self.honest[0]].concat();
            let count = 2 + usize::from(way % 7);
            let macs: Vec<MacAddr> = (0..count).map(|_| script.pick(&all)).collect();
            links = Paths::links(&macs);
        } else if way >= 64 {
            let ip = std::net::Ipv4Addr::new(198, 18, 0, way);
            links = Paths::Bulk((ip, u16::from(way)).into());
        }
        let mut payload = [0; Handshake::LONGEST];
        let len = Handshake { hello, token: TOKEN, echo, links }.write(&mut payload);
        let len = if way.is_multiple_of(16) { len } else { payload.len() };
        payload[..len].to_vec()
    }

    /// One operation, mostly on memory whose key it knows.
    pub(crate) fn operation(&self, script: &mut Script<'_>, payload: &mut Vec<u8>) {
        let small = |script: &mut Script<'_>| match script.byte() {
            255 => script.u32(),
            254 => u32::from(script.u16()),
            n => u32::from(n),
        };
        let code = script.byte() % 14;
        let id = u32::from(script.byte() % 8);
        let key = match script.byte() {
            255 => script.u64(),
            n => self.keys[usize::from(n % 2)],
        };
        let key = if key == self.secret { !key } else { key };
        let offset = match script.byte() {
            255 => script.u64(),
            n => u64::from(n) * 8,
        };
        let (one, two, kind) = (small(script), small(script), script.byte());
        let tag = u64::from(kind % 4);
        let data = (kind & 32 != 0).then_some(kind.into());
        let label = Label { tag, untagged: kind & 16 != 0, data };
        let op = match code {
            0 => Op::Eager { label },
            1 => Op::First { label, total: one },
            2 => Op::More,
            3 => Op::Offer { id, label, total: one },
            4 => Op::Pull { id, offer: two, len: one },
            5 => Op::Read { id, key, offset, len: one },
            6 => Op::Reply { id, at: one },
            7 => Op::Write { id, key, offset, total: one, at: two, notice: None },
            8 => Op::Write { id, key, offset, total: one, at: two, notice: Some(tag) },
            9 | 10 => {
                let (action, number) = (script.pick(&Action::ALL), script.pick(&Number::ALL));
                let count = usize::from(kind % 4) + 1;
                match Change::new(action, number, count, code == 9) {
                    Some(change) => Op::Atomic { id, key, offset, change },
                    None => return,
                }
            }
            11 => {
                let all = [Status::Ok, Status::Key, Status::Bounds, Status::Rights, Status::Busy];
                Op::Done { id, status: script.pick(&all) }
            }
            12 => Op::Limit { until: one, entries: two },
            13 if kind % 4 == 1 => Op::OfferAt { id, label, total: one, at: offset },
            13 if kind % 4 == 2 => Op::Taken { id, offer: two, len: one },
            _ => return payload.extend_from_slice(script.take(24)),
        };
        let len = match script.byte() {
            n @ 0..=127 => usize::from(n % 16),
            n => usize::from(n),
        };
        let data = script.take(len);
        let mut header = [0; MAX_OP_HEADER];
        let len = op.write(data.len() as u16, &mut header);
        payload.extend_from_slice(&header[..len]);
        payload.extend_from_slice(data);
    }

    /// Rarely what is not sealed any more, or is of another version, or is cut off.
    fn damage(&mut self, frame: &mut Vec<u8>, script: &mut Script<'_>) {
        match script.byte() {
            253 => frame.truncate(14 + usize::from(script.byte()) % (frame.len() - 13)),
            254 => {
                let at = usize::from(script.u16()) % frame.len();
                // Its address stays what it was.
                frame[at.max(12)] ^= 1 << (script.byte() % 8);
            }
            255 => frame[18] = script.byte(),
            _ => {}
        }
    }
}

fn moved(number: SeqNo, by: i32) -> SeqNo {
    SeqNo(number.0.wrapping_add_signed(by))
}
