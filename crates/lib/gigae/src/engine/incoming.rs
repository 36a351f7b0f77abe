//! Frames that arrived: opened, parsed and handed to the protocol, whole or in segments.

use super::Engine;
use crate::inbox::{Inbound, PayloadRange, Segments};
use crate::outbound::MOST_SEGMENTS;
use gigae_link::RxFrame;
use gigae_proto::{Arrival, ForeignFrame};
use gigae_wire::{
    AckReport, Discard, Envelope, HEADER_LEN, Header, Here, Kind, NodeAddr, PathId, Pieces, batch,
    op,
};
use std::net::IpAddr;

/// What is looked at of a control frame's payload at most, in bytes: a report, and one more, which
/// shows that it is none but padding.
const LONGEST_CONTROL: usize = 4 + AckReport::MAX_BITMAP + 1;
const _: () = assert!(LONGEST_CONTROL >= Here::LONGEST);

impl Engine {
    /// The next of a batch that has arrived by a link.
    #[inline]
    pub(super) fn take_in(&mut self, path: PathId, frame: RxFrame) {
        if frame.continues() {
            self.receive_segments(path, frame);
        } else {
            self.receive(path, frame);
        }
    }

    #[inline]
    fn receive(&mut self, path: PathId, frame: RxFrame) {
        let bytes = self.links.arenas.bytes(&frame);
        let envelope =
            if path.is_first() { self.route_table.envelope } else { self.links[path].envelope };
        let parsed = match parse(envelope, bytes) {
            Ok(parsed) => parsed,
            Err(why) => return self.discard(why, path, frame),
        };
        let Parsed { from, header, payload } = parsed;
        if !self.channels.contains(header.channel) && header.kind != Kind::Who {
            return self.discard(Discard::Channel, path, frame);
        }
        // Rule 13.2: nothing else goes by a socket.
        if !path.is_first()
            && !matches!(header.kind, Kind::Op | Kind::Ack)
            && self.links.is_bulk(path)
        {
            return self.discard(Discard::Malformed, path, frame);
        }
        if !header.kind.is_data() {
            let arrival = Arrival { path, from: &from, header: &header, payload: &[] };
            return self.receive_control(arrival, payload, frame);
        }
        let several = header.kind == Kind::Batch;
        let arrival = Arrival { path, from: &from, header: &header, payload: &[] };
        let inbound =
            match self.proto.handle_next(&arrival, Inbound { frame, payload, path, several }) {
                Ok(None) => return,
                Ok(Some(operations)) => return self.carry_out(operations),
                Err(inbound) => inbound,
            };
        self.receive_unusual(arrival, inbound);
    }

    /// The same for a data frame that is not the next of its session, or comes with something else.
    #[inline(never)]
    fn receive_unusual(&mut self, arrival: Arrival<'_>, inbound: Inbound) {
        let (path, from) = (arrival.path, *arrival.from);
        let mut inbound = Some(inbound);
        // The protocol counts what it refuses.
        let taken = self.proto.handle(arrival, &mut inbound);
        if let Some(refused) = inbound {
            self.inbox.leave(refused, &mut self.links);
        }
        if taken.is_err() && !self.links.is_bulk(path) {
            self.learn(from, None, SenderTrust::Unknown);
        }
    }

    /// The same for a frame in segments, of which the others are in the batch: operations, or a
    /// control frame that was padded.
    #[inline(never)]
    fn receive_segments(&mut self, path: PathId, first: RxFrame) {
        let mut behind = Segments::default();
        let mut more = first.continues();
        while more {
            // The link hands frames over whole.
            let Some(frame) = self.rx.batch.pop() else { break };
            more = frame.continues();
            if let Err(frame) = behind.push(frame) {
                self.links.recycle(path, frame);
            }
        }
        let mut pieces = [&[] as &[u8]; MOST_SEGMENTS];
        let arenas = &self.links.arenas;
        let bytes = arenas.bytes(&first);
        let frame = Pieces::new(bytes, behind.bytes(arenas, &mut pieces));
        let parsed = match parse_segments(self.links[path].envelope, bytes, frame) {
            Ok(parsed) if self.channels.contains(parsed.header.channel) => parsed,
            Ok(_) => return self.discard_segments(Discard::Channel, path, first, behind),
            Err(why) => return self.discard_segments(why, path, first, behind),
        };
        let Parsed { from, header, payload } = parsed;
        let arrival = Arrival { path, from: &from, header: &header, payload: &[] };
        if header.kind == Kind::Op {
            let inbound = Inbound { frame: first, payload, path, several: false };
            self.inbox.enter_behind(&inbound, behind, arenas);
            let mut inbound = Some(inbound);
            // The protocol counts what it refuses.
            let _ = self.proto.handle(arrival, &mut inbound);
            if let Some(refused) = inbound {
                self.inbox.leave(refused, &mut self.links);
            }
            return;
        }
        if header.kind.is_data() || !(header.kind.is_of_session() || header.kind == Kind::Confirm) {
            return self.discard_segments(Discard::Malformed, path, first, behind);
        }
        let mut copy = [0; LONGEST_CONTROL];
        // Padding is in every segment; what counts is in the first.
        let first_payload = &bytes[payload.start.into()..];
        let len = usize::from(payload.len).min(LONGEST_CONTROL).min(first_payload.len());
        copy[..len].copy_from_slice(&first_payload[..len]);
        self.links.recycle(path, first);
        behind.for_each(|frame| self.links.recycle(path, frame));
        let _ = self.proto.handle(Arrival { payload: &copy[..len], ..arrival }, &mut None);
        self.complete_routes();
    }

    #[cold]
    fn discard_segments(&mut self, why: Discard, path: PathId, first: RxFrame, behind: Segments) {
        behind.for_each(|frame| self.links.recycle(path, frame));
        self.discard(why, path, first);
    }

    /// Control frames are few: one in sixteen of a stream.
    fn receive_control(&mut self, arrival: Arrival<'_>, payload: PayloadRange, frame: RxFrame) {
        let Arrival { path, from, header, .. } = arrival;
        // The protocol reads the payload of control frames and keeps none of those.
        let mut copy = [0; LONGEST_CONTROL];
        let bytes = self.links.arenas.bytes(&frame);
        let len = usize::from(payload.len).min(LONGEST_CONTROL);
        copy[..len].copy_from_slice(&bytes[payload.start.into()..][..len]);
        let arrival = Arrival { payload: &copy[..len], ..arrival };
        let mut own = None;
        match header.kind {
            Kind::Part => {
                let part = bytes[payload.start.into()..][..payload.len.into()].to_vec();
                self.links.recycle(path, frame);
                return self.take_part(Arrival { payload: &[], ..arrival }, &part);
            }
            Kind::Who | Kind::Here => {
                self.on_discovery(arrival);
                return self.links.recycle(path, frame);
            }
            Kind::Hello | Kind::Confirm => {
                own = self.route_table.envelope.destination(bytes);
                if !self.route_table.has(own) {
                    return self.discard(Discard::NotOurs, path, frame);
                }
                // What answers an earlier one in this node's name goes before it counts to where
                // this one went.
                if self.route_table.sent_hello_elsewhere(from, own) {
                    self.doorbell.backlog |= self.post_waiting();
                }
                // The last reading may be of before a long sleep, and offers have an age.
                self.proto.set_now(self.clock.glance());
            }
            // An offer that lay here for long may be too old.
            Kind::HelloAck => self.proto.set_now(self.clock.glance()),
            // A report: the time says whether a frame is lost or only late.
            Kind::Ack if len > 0 => self.update_clock(),
            _ => {}
        }
        let is_bulk = self.links.is_bulk(path);
        let uncoalesced = is_bulk.then(|| self.links.arrived_uncoalesced(&frame)).flatten();
        self.links.recycle(path, frame);
        // The protocol counts what it refuses.
        let taken = self.proto.handle(arrival, &mut None);
        if let Some(uncoalesced) = uncoalesced.filter(|_| taken.is_ok()) {
            self.proto.arrived_uncoalesced(&arrival, uncoalesced);
        }
        let trust = match header.kind {
            Kind::Confirm if taken.is_ok() => SenderTrust::Proven,
            _ if own.is_some() && self.proto.is_known(from, header) => SenderTrust::Peer,
            _ => SenderTrust::Unknown,
        };
        if !self.links.is_bulk(path) {
            self.learn(*from, own, trust);
        }
        self.complete_routes();
        self.provide_if_few();
    }

    /// A part of a bulk frame that cannot go by the socket came by the link.
    #[cold]
    fn take_part(&mut self, arrival: Arrival<'_>, part: &[u8]) {
        let Arrival { from, header, .. } = arrival;
        if self.proto.handle(arrival, &mut None).is_ok()
            && let Some((peer, socket)) = self.proto.socket_of(from, header)
            && let Some(whole) = self.links.take_part(peer, socket, part)
        {
            self.receive_reassembled(arrival, whole);
        }
    }

    /// A bulk frame is whole that came by the link, in parts, of which this is the last. It lies in
    /// the socket's memory.
    #[cold]
    fn receive_reassembled(&mut self, arrival: Arrival<'_>, frame: RxFrame) {
        let path = PathId::SOCKET;
        let bytes = self.links.arenas.bytes(&frame);
        let Parsed { header, payload, .. } = match parse(self.links[path].envelope, bytes) {
            Ok(parsed) if parsed.header.kind == Kind::Op => parsed,
            Ok(_) => return self.discard(Discard::Malformed, path, frame),
            Err(why) => return self.discard(why, path, frame),
        };
        let mut inbound = Some(Inbound { frame, payload, path, several: false });
        // The protocol counts what it refuses.
        let arrival = Arrival { header: &header, payload: &[], ..arrival };
        let _ = self.proto.handle_reassembled(arrival, &mut inbound);
        if let Some(refused) = inbound {
            self.inbox.leave(refused, &mut self.links);
        }
    }

    #[cold]
    fn discard(&mut self, why: Discard, path: PathId, frame: RxFrame) {
        if let Discard::Version(_) = why
            && !self.links.is_bulk(path)
        {
            let bytes = self.links.arenas.bytes(&frame);
            if let Ok((from, inner)) = self.route_table.envelope.open(bytes) {
                let own = self.route_table.envelope.destination(bytes);
                let frame = ForeignFrame::parse(inner);
                self.proto.handle_foreign_version(path, from, frame);
                if self.route_table.has(own) {
                    self.learn(from, own, SenderTrust::Unknown);
                }
            }
        } else {
            self.proto.counters_mut().discard(why);
        }
        self.links.recycle(path, frame);
    }

    /// Sees to the route to the sender of a frame. A node that proposes a session is answered from
    /// the address to which it spoke; one whose frames come from elsewhere than they are answered
    /// at may have moved. For a peer the route is remembered; for others, which may be any number,
    /// until some more have spoken. From which address a peer is spoken to changes only when it has
    /// proven that it got an answer from there.
    #[cold]
    fn learn(&mut self, from: NodeAddr, own: Option<IpAddr>, trust: SenderTrust) {
        let NodeAddr::Ip { ip, next_hop } = from else { return };
        let known = self.route_table.ip_route(ip);
        let now = self.clock.now();
        let answer = own.and_then(|own| self.route_table.on_hello(ip, next_hop, own, now));
        let settled = match trust {
            SenderTrust::Proven => known == answer || !self.route_table.may_move(ip, now),
            SenderTrust::Peer => known.is_some(),
            SenderTrust::Unknown => true,
        };
        if let Some(route) = answer.filter(|_| !settled) {
            self.set_ip_route(ip, route);
        }
        if known.is_some_and(|route| route.next_hop != next_hop) {
            self.ask_route(from, true);
        }
    }
}

/// What is known of who sent a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SenderTrust {
    Unknown,
    /// It speaks in the name of a peer.
    Peer,
    /// It repeats a number that only the peer got.
    Proven,
}

/// What a received frame says, without its bytes.
pub(super) struct Parsed {
    pub(super) from: NodeAddr,
    pub(super) header: Header,
    pub(super) payload: PayloadRange,
}

#[inline]
fn parse(envelope: Envelope, frame: &[u8]) -> Result<Parsed, Discard> {
    let (from, inner) = envelope.open(frame)?;
    let (header, payload) = Header::parse(inner)?;
    match header.kind {
        Kind::Batch => batch::check(payload)?,
        Kind::Op => op::check(payload.into())?,
        _ => {}
    }
    // IPv6 and the like may be followed by padding, so the start is counted from the front.
    let start = inner.as_ptr().addr() - frame.as_ptr().addr() + HEADER_LEN;
    let place = |n: usize| u16::try_from(n).map_err(|_| Discard::Malformed);
    Ok(Parsed {
        from,
        header,
        payload: PayloadRange { start: place(start)?, len: place(payload.len())? },
    })
}

/// The same for a frame in segments, all headers of which are in the first.
pub(super) fn parse_segments(
    envelope: Envelope,
    first: &[u8],
    mut frame: Pieces,
) -> Result<Parsed, Discard> {
    let (from, place) = envelope.locate(first, frame.len())?;
    let start = place.start + HEADER_LEN;
    if start > first.len() {
        return Err(Discard::Short);
    }
    frame.split(place.start).ok_or(Discard::Short)?;
    let inner = frame.split(place.len()).ok_or(Discard::Short)?;
    let (header, payload) = Header::parse_segments(inner)?;
    if header.kind == Kind::Op {
        op::check(payload)?;
    }
    let number = |n: usize| u16::try_from(n).map_err(|_| Discard::Malformed);
    Ok(Parsed {
        from,
        header,
        payload: PayloadRange { start: number(start)?, len: number(payload.len())? },
    })
}
