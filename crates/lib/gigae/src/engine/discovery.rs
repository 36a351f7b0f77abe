//! Who is there: questions to all, and answers about this endpoint (`PROTOCOL.md` §10).

use super::Engine;
use crate::local::{Local, Subnet};
use crate::outbound::post_control;
use crate::{Address, DiscoverError, Options};
use gigae_link::Link;
use gigae_proto::Instant;
use gigae_wire::{
    Discard, Envelope, Epoch, Flags, Header, Here, Kind, MacAddr, NodeAddr, Route, SeqNo,
    is_node_name,
};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// An endpoint answers so many questions per [`PERIOD`] at most (rule 10.4): enough for some askers
/// at once that repeat theirs, and nothing beside a link's frames per second.
const MOST_ANSWERS: u32 = 16;
const PERIOD: Duration = Duration::from_millis(100);

/// Endpoints remembered; more than one Ethernet has nodes, and a bound to what liars can fill.
const MOST_NEIGHBOURS: usize = 4096;

/// What a node is called whose own name cannot be told.
const UNNAMED: &str = "unnamed";

/// An endpoint as it describes itself: one that answered [`Endpoint::ask`](crate::Endpoint::ask).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its node's name: up to 63 letters, digits, `-`, `_` and `.`. Nothing makes it unique.
    pub name: String,
    /// Its address, on the first of its channels: a peer.
    pub address: Address,
    /// Its interface's MAC address.
    pub mac: MacAddr,
    /// An IP address of its interface.
    pub ip: Option<IpAddr>,
    /// Its interface's MTU in bytes.
    pub mtu: usize,
    /// Longest message in bytes that it can receive.
    pub max_message: usize,
    /// Its port id.
    pub port: u16,
    /// The channels it has open.
    pub channels: Vec<u8>,
}

/// What this endpoint says of itself, and what it has heard of others.
pub(crate) struct Discovery {
    name: String,
    ip: Option<IpAddr>,
    subnets: Vec<Subnet>,
    /// It is a node's, and not one of several processes' on a NIC.
    answers: bool,
    /// The current [`PERIOD`], and the answers given in it.
    since: Instant,
    answered: u32,
    /// The number of this endpoint's question, once it has asked.
    question: Option<Epoch>,
    heard: Vec<Neighbour>,
}

impl Discovery {
    /// `local`: the interface underneath, if a kernel knows it.
    pub(crate) fn new(options: &Options, local: Option<Local>, answers: bool) -> Self {
        Self {
            name: options.name.clone().unwrap_or_else(host_name),
            ip: local.as_ref().and_then(Local::ip),
            subnets: local.map(|local| local.subnets).unwrap_or_default(),
            answers,
            since: Instant(0),
            answered: 0,
            question: None,
            heard: Vec::new(),
        }
    }
}

/// Whether others may be sent to this address.
fn may_be_a_node(ip: &IpAddr) -> bool {
    let broadcast = IpAddr::V4(Ipv4Addr::BROADCAST);
    !ip.is_multicast() && !ip.is_loopback() && !ip.is_unspecified() && *ip != broadcast
}

/// The host's name as the kernel has it, or none if a node may not have it.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().take(gigae_wire::LONGEST_NAME).collect();
    if is_node_name(&name) { name } else { UNNAMED.into() }
}

impl Engine {
    /// Puts a question to all on the wire.
    pub(crate) fn ask(&mut self) -> Result<(), DiscoverError> {
        let question = match self.discovery.question {
            Some(question) => question,
            None => *self.discovery.question.insert(self.proto.fresh_epoch()),
        };
        let route = self
            .route_to_all()
            .ok_or_else(|| DiscoverError::NoSubnet(self.links.first.info().interface.clone()))?;
        let header = Header {
            kind: Kind::Who,
            channel: self.channels.iter().next().unwrap_or_default(),
            dst_port: 0,
            src_epoch: question,
            dst_epoch: Epoch::UNKNOWN,
            ..self.beside_sessions()
        };
        self.post_beside((0, route), &header, &[]);
        Ok(self.exchange()?)
    }

    /// The endpoints that have answered so far.
    pub(crate) fn neighbours(&self) -> &[Neighbour] {
        &self.discovery.heard
    }

    /// What an answer would say of this endpoint.
    pub(crate) fn identity(&self) -> Neighbour {
        let config = self.proto.config();
        let channels: Vec<u8> = self.channels.iter().collect();
        let address = match (self.sources.envelope, self.discovery.ip) {
            (Envelope::Udp { .. }, Some(ip)) => Address::from(ip),
            _ => Address::from(self.sources.mac),
        };
        Neighbour {
            name: self.discovery.name.clone(),
            address: address
                .port(config.port)
                .channel(channels.first().copied().unwrap_or_default()),
            mac: self.sources.mac,
            ip: self.discovery.ip,
            mtu: self.mtu(0),
            max_message: config.max_payload.into(),
            port: config.port,
            channels,
        }
    }

    fn mtu(&self, path: usize) -> usize {
        self.links.info(path).max_frame - ETHERNET_HEADER
    }

    /// Takes in a question or an answer, which came by this link; one that is refused is counted.
    #[cold]
    pub(super) fn on_discovery(
        &mut self,
        (path, from): (usize, NodeAddr),
        header: &Header,
        payload: &[u8],
    ) {
        let handled = match header.kind {
            Kind::Who => self.on_who((path, from), header),
            _ => self.on_here(from, header, payload),
        };
        if let Err(why) = handled {
            self.proto.counters_mut().discard(why);
        }
    }

    /// Rules 10.3 and 10.4. Not more than one answer, and that only to a node that may be one, by the
    /// link by which it asks.
    fn on_who(&mut self, (path, from): (usize, NodeAddr), header: &Header) -> Result<(), Discard> {
        if !self.discovery.answers {
            return Ok(());
        }
        self.tell_time();
        if header.src_epoch == Epoch::UNKNOWN {
            return Err(Discard::Malformed);
        }
        let route = self.route_to_asker(path, from).ok_or(Discard::Malformed)?;
        let discovery = &mut self.discovery;
        if self.now.since(discovery.since) >= PERIOD {
            (discovery.since, discovery.answered) = (self.now, 0);
        }
        if discovery.answered == MOST_ANSWERS || self.proto.is_closing() {
            return Err(Discard::Sessions);
        }
        discovery.answered += 1;
        let mtu = u16::try_from(self.mtu(path)).unwrap_or(u16::MAX);
        let discovery = &self.discovery;
        let mut channels = [0; 32];
        for (bytes, word) in channels.chunks_exact_mut(8).zip(self.channels.words()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let here = Here {
            max_payload: self.proto.config().max_payload,
            mtu,
            ip: discovery.ip.filter(|_| path == 0),
            channels,
            name: &discovery.name,
        };
        let mut payload = [0; Here::LONGEST];
        let len = here.write(&mut payload);
        let header = Header {
            kind: Kind::Here,
            channel: header.channel,
            dst_port: header.src_port,
            dst_epoch: header.src_epoch,
            ..self.beside_sessions()
        };
        self.post_beside((path, route), &header, &payload[..len]);
        Ok(())
    }

    /// Rule 10.5.
    fn on_here(&mut self, from: NodeAddr, header: &Header, payload: &[u8]) -> Result<(), Discard> {
        if header.dst_port != self.proto.config().port {
            return Err(Discard::Port);
        }
        if self.discovery.question != Some(header.dst_epoch) {
            return Err(Discard::Epoch);
        }
        let here = Here::parse(payload)?;
        let open = |&channel: &u8| here.channels[channel as usize / 8] >> (channel % 8) & 1 == 1;
        let channels: Vec<u8> = (0..=u8::MAX).filter(open).collect();
        let (address, mac) = match from {
            NodeAddr::Ethernet(mac) => (Address::from(mac), mac),
            NodeAddr::Ip { ip, next_hop } => (Address::from(ip), next_hop),
        };
        if mac == MacAddr::default() {
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
        let heard = &mut self.discovery.heard;
        let key = |n: &Neighbour| (n.mac, n.address.host, n.port);
        match heard.iter().position(|known| key(known) == key(&neighbour)) {
            Some(known) => heard[known] = neighbour,
            None if heard.len() < MOST_NEIGHBOURS => heard.push(neighbour),
            None => return Err(Discard::Sessions),
        }
        Ok(())
    }

    fn route_to_all(&self) -> Option<Route> {
        let (mac, all) = (self.sources.mac, MacAddr::BROADCAST);
        let Discovery { subnets, .. } = &self.discovery;
        Route::new(self.sources.envelope, mac.into(), all.into()).or_else(|| {
            let (own, broadcast) = subnets.iter().find_map(Subnet::broadcast)?;
            let from = NodeAddr::Ip { ip: own.into(), next_hop: mac };
            let to = NodeAddr::Ip { ip: broadcast.into(), next_hop: all };
            Route::new(self.sources.envelope, from, to)
        })
    }

    /// `None` for who is no neighbour: a group, this node itself, an address of another subnet.
    fn route_to_asker(&self, path: usize, from: NodeAddr) -> Option<Route> {
        let own = self.links.info(path).mac;
        let is_own = |mac| self.links.all().any(|link| link.info().mac == mac);
        let may_ask = |mac: MacAddr| !mac.is_group() && !is_own(mac);
        let own = match from {
            NodeAddr::Ethernet(mac) if may_ask(mac) => own.into(),
            NodeAddr::Ip { ip, next_hop } if may_ask(next_hop) => {
                let subnet = self.discovery.subnets.iter().find(|own| own.has_neighbour(ip))?;
                NodeAddr::Ip { ip: subnet.ip, next_hop: own }
            }
            _ => return None,
        };
        Route::new(self.sources.envelope, own, from)
    }

    /// The header of a frame that belongs to no session.
    fn beside_sessions(&self) -> Header {
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

    /// Posts a frame that the protocol knows nothing of by a link; the next doorbell is for it, too.
    fn post_beside(&mut self, (path, route): (usize, Route), header: &Header, payload: &[u8]) {
        let Self { links, arena, .. } = self;
        let payload = (payload, 0);
        self.backlog |= match path {
            0 => {
                links.first_is_up()
                    && post_control(&mut links.first, arena, &route, header, payload)
            }
            _ => links.post_control_further(path, Err(route), header, payload),
        };
    }
}

/// Bytes of an Ethernet header, which the MTU does not count.
const ETHERNET_HEADER: usize = 14;
