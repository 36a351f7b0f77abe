//! Who is there: questions to all, and answers about this endpoint (`PROTOCOL.md` §10).

use super::discovery::{PendingAnswer, spread_units};
use super::{Discovery, Engine};
use crate::address::Address;
use crate::error::DiscoverError;
use crate::links::To;
use crate::neighbour::Neighbour;
use crate::outbound::Padded;
use gigae_link::Link;
use gigae_proto::Arrival;
use gigae_wire::{
    Discard, Envelope, Epoch, Flags, Header, Here, Kind, MacAddr, NodeAddr, PathId, Route, SeqNo,
};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Bytes of an Ethernet header, which the MTU does not count.
const ETHERNET_HEADER: usize = 14;

/// Whether others may be sent to this address.
fn may_be_a_node(ip: &IpAddr) -> bool {
    let broadcast = IpAddr::V4(Ipv4Addr::BROADCAST);
    !ip.is_multicast() && !ip.is_loopback() && !ip.is_unspecified() && *ip != broadcast
}

impl Engine {
    /// Puts a question to all on the wire. Returns over which time the answers are spread, at most
    /// `limit`.
    pub(crate) fn ask(&mut self, limit: Duration) -> Result<Duration, DiscoverError> {
        let question = match self.discovery.question {
            Some(question) => question,
            None => *self.discovery.question.insert(self.proto.fresh_epoch()),
        };
        let route = self.discovery.route_to_all(&self.route_table).ok_or_else(|| {
            DiscoverError::NoSubnet(self.links.info(PathId::FIRST).interface.clone())
        })?;
        let spread = self.discovery.spread().min(limit);
        let header = Header {
            kind: Kind::Who,
            channel: self.channels.iter().next().unwrap_or_default(),
            dst_port: 0,
            credit: spread_units(spread),
            src_epoch: question,
            dst_epoch: Epoch::UNKNOWN,
            ..self.sessionless_header()
        };
        self.post_sessionless(PathId::FIRST, route, &header, &[]);
        self.send_and_progress()?;
        Ok(spread)
    }

    /// The endpoints that have answered so far.
    pub(crate) fn neighbours(&self) -> &[Neighbour] {
        self.discovery.neighbours()
    }

    /// What an answer would say of this endpoint.
    pub(crate) fn identity(&self) -> Neighbour {
        let config = self.proto.config();
        let channels: Vec<u8> = self.channels.iter().collect();
        let address = match (self.route_table.envelope, self.discovery.ip) {
            (Envelope::Udp { .. }, Some(ip)) => Address::from(ip),
            _ => Address::from(self.route_table.mac),
        };
        Neighbour {
            name: self.discovery.name.clone(),
            address: address
                .port(config.port)
                .channel(channels.first().copied().unwrap_or_default()),
            mac: self.route_table.mac,
            ip: self.discovery.ip,
            mtu: self.mtu(PathId::FIRST),
            max_message: config.max_payload.into(),
            port: config.port,
            channels,
        }
    }

    fn mtu(&self, path: PathId) -> usize {
        self.links.info(path).max_frame - ETHERNET_HEADER
    }

    /// Takes in a question or an answer, which came by this link; one that is refused is counted.
    #[cold]
    pub(super) fn on_discovery(&mut self, arrival: Arrival<'_>) {
        let handled = match arrival.header.kind {
            Kind::Who => self.on_who(arrival),
            _ => self.on_here(arrival),
        };
        if let Err(why) = handled {
            self.proto.counters_mut().discard(why);
        }
    }

    /// Rules 10.3 and 10.4. Not more than one answer, and that only to a node that may be one, by
    /// the link by which it asks, now or somewhat later.
    fn on_who(&mut self, arrival: Arrival<'_>) -> Result<(), Discard> {
        let Arrival { path, from, header, .. } = arrival;
        if !self.discovery.answers {
            return Ok(());
        }
        // The kernel also gives a socket what this node itself has sent to all.
        let own = self.route_table.own.as_ref();
        let is_own = |ip: &IpAddr| own.is_some_and(|own| own.contains(ip));
        if matches!(from, NodeAddr::Ip { ip, .. } if is_own(ip)) {
            return Ok(());
        }
        self.update_clock();
        if header.src_epoch == Epoch::UNKNOWN {
            return Err(Discard::Malformed);
        }
        let route = self.route_to_requester(path, *from).ok_or(Discard::Malformed)?;
        if !self.discovery.may_answer(self.clock.now()) || self.proto.is_closing() {
            return Err(Discard::Sessions);
        }
        self.discovery.answer();
        let delay = Discovery::delay(header.credit, self.proto.fresh_epoch().0);
        let header = Header {
            kind: Kind::Here,
            channel: header.channel,
            dst_port: header.src_port,
            dst_epoch: header.src_epoch,
            ..self.sessionless_header()
        };
        let due = self.clock.now() + delay;
        let answer = PendingAnswer { due, path, route, header };
        let first = if delay.is_zero() { Some(answer) } else { self.discovery.postpone(answer) };
        first.into_iter().for_each(|answer| self.answer(answer));
        Ok(())
    }

    /// Gives the answers that are due.
    #[cold]
    pub(super) fn give_answers(&mut self) {
        while let Some(answer) = self.discovery.due_answer(self.clock.now()) {
            if !self.proto.is_closing() {
                self.answer(answer);
            }
        }
    }

    fn answer(&mut self, answer: PendingAnswer) {
        let PendingAnswer { path, route, header, .. } = answer;
        let mtu = u16::try_from(self.mtu(path)).unwrap_or(u16::MAX);
        let discovery = &self.discovery;
        let mut channels = [0; 32];
        for (bytes, word) in channels.chunks_exact_mut(8).zip(self.channels.words()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let here = Here {
            max_payload: self.proto.config().max_payload,
            mtu,
            ip: discovery.ip.filter(|_| path.is_first()),
            channels,
            name: &discovery.name,
        };
        let mut payload = [0; Here::LONGEST];
        let len = here.write(&mut payload);
        self.post_sessionless(path, route, &header, &payload[..len]);
    }

    /// Rule 10.5.
    fn on_here(&mut self, arrival: Arrival<'_>) -> Result<(), Discard> {
        let Arrival { from, header, payload, .. } = arrival;
        if header.dst_port != self.proto.config().port {
            return Err(Discard::Port);
        }
        if self.discovery.question != Some(header.dst_epoch) {
            return Err(Discard::Epoch);
        }
        let here = Here::parse(payload)?;
        let open = |&channel: &u8| here.channels[channel as usize / 8] >> (channel % 8) & 1 == 1;
        let channels: Vec<u8> = (0..=u8::MAX).filter(open).collect();
        let (address, mac) = match *from {
            NodeAddr::Ethernet(mac) => (Address::from(mac), mac),
            NodeAddr::Ip { ip, next_hop } => (Address::from(ip), next_hop),
        };
        // Frames over a UDP socket have no MAC addresses.
        if mac == MacAddr::default() && matches!(from, NodeAddr::Ethernet(_)) {
            return Err(Discard::Malformed);
        }
        let channel = channels.first().copied().unwrap_or_default();
        let neighbour = Neighbour {
            name: here.name.into(),
            address: address.port(header.src_port).channel(channel),
            mac,
            ip: here.ip.filter(may_be_a_node),
            mtu: here.mtu.into(),
            max_message: here.max_payload.into(),
            port: header.src_port,
            channels,
        };
        self.discovery.add(neighbour);
        Ok(())
    }

    /// `None` for what is not a neighbour: a group, this node itself, an address of another subnet.
    fn route_to_requester(&self, path: PathId, from: NodeAddr) -> Option<Route> {
        let own = self.links.info(path).mac;
        let is_own = |mac| self.links.all().any(|link| link.info().mac == mac);
        let may_ask = |mac: MacAddr| !mac.is_group() && !is_own(mac);
        let own = match from {
            NodeAddr::Ethernet(mac) if may_ask(mac) => own.into(),
            NodeAddr::Ip { ip, next_hop } if may_ask(next_hop) => {
                NodeAddr::Ip { ip: self.discovery.own_towards(ip)?, next_hop: own }
            }
            _ => return None,
        };
        Route::new(self.route_table.envelope, own, from)
    }

    /// The header of a frame that belongs to no session.
    fn sessionless_header(&self) -> Header {
        Header {
            kind: Kind::Who,
            channel: 0,
            src_port: self.proto.config().port,
            dst_port: 0,
            src_epoch: Epoch::UNKNOWN,
            dst_epoch: Epoch::UNKNOWN,
            seq: SeqNo(0),
            ack: SeqNo(0),
            credit: 0,
            flags: Flags::NONE,
        }
    }

    /// Posts a frame that the protocol knows nothing of by a link; the next doorbell is for it,
    /// too.
    fn post_sessionless(&mut self, path: PathId, route: Route, header: &Header, payload: &[u8]) {
        let (to, payload) = (To::Unknown(route), Padded::new(payload, 0));
        self.doorbell.backlog |= self.links[path].post_control(&to, header, payload, false);
    }
}
