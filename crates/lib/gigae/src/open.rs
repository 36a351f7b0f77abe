//! How an endpoint is opened: ports, links, protocol and engine, as the options say.

use crate::brokered;
use crate::clock::Clock;
use crate::endpoint::{Endpoint, EndpointSettings};
use crate::engine::{Discovery, Engine, EngineParts};
use crate::link::AnyLink;
use crate::links::Links;
use crate::local::{Local, interfaces};
use crate::measured::{Choice, MeasuredBackends};
use crate::options::{Backend, BrokerUse, Options, Progress};
use crate::outbound::{MOST_SEGMENTS, PAYLOAD};
use crate::resolve::{Reservation, by_socket, reserve};
use crate::route_table::{Resolver, RouteTable};
use crate::sharing::{ClaimedPort, Sharing, alternatives};
use crate::simulated;
use gigae_link::{Filter, Info, Link, Mode, OpenError};
use gigae_packet::{PacketConfig, PacketLink, Receive};
use gigae_proto::{BulkConfig, MOST_KEPT_BULK, Protocol, ProtocolConfig};
use gigae_shm::{ShmConfig, ShmLink, name_in_ip};
use gigae_sim::{Network, SimLink};
use gigae_transfer::{Transfer, TransferConfig, predictable_keys};
use gigae_udp::{BulkLink, MOST_KEPT, UdpConfig, UdpLink};
use gigae_wire::{Envelope, HEADER_LEN, MAX_PATHS, PathId, TAG_LEN, beyond, port_id_beyond};
use gigae_xdp::{XdpConfig, XdpLink};
use std::io;
use std::os::fd::AsFd;
use tracing::{debug, info};

/// Least message in bytes that a usable interface must carry: a short message, with room to spare.
/// Interfaces with a smaller MTU are refused.
const LEAST_MESSAGE: usize = 128;

/// Longest frame in bytes that any Ethernet carries: that of MTU 1500.
const SURE_FRAME: usize = 1514;

/// What frames of bulk data bear on a simulated network.
const SIMULATED_BULK: Envelope = Envelope::Udp { port: 49_152 };

/// Most UDP ports that are tried where several processes share a NIC: more than a node has
/// processes that do.
const MOST_PORTS: u16 = 1024;

/// Most frames in the windows of a session over several links: what a report has bits for.
const LONGEST_WINDOW: u16 = 1024;

// What the protocol keeps leaves the socket slots to read on.
const _: () = assert!(MOST_KEPT_BULK as usize <= MOST_KEPT);

impl Endpoint {
    /// Opens an endpoint on an interface with everything at its default: port id 0, channel 0, the
    /// best link that the interface and the kernel allow, adaptive waiting.
    ///
    /// Takes some milliseconds: programs are loaded, memory is mapped and locked.
    pub fn open(interface: &str) -> Result<Self, OpenError> {
        Options::new(interface).open()
    }
}

/// # Opening
impl Options {
    /// Opens the endpoint.
    pub fn open(self) -> Result<Endpoint, OpenError> {
        let Envelope::Udp { port: base } = self.envelope else { return self.open_here() };
        if self.sharing == Sharing::Alone {
            return self.open_here();
        }
        let own = beyond(self.protocol.port);
        let others = (own.saturating_add(1)..=own.saturating_add(MOST_PORTS))
            .take_while(|&further| base.checked_add(further).is_some())
            .map_while(port_id_beyond);
        for id in std::iter::once(self.protocol.port).chain(others) {
            match self.clone().port(id).open_here() {
                Err(OpenError::Io { source, what })
                    if source.kind() == io::ErrorKind::AddrInUse =>
                {
                    debug!(id, why = %source, what, "UDP port in use: the next is tried");
                }
                done => return done,
            }
        }
        let from = base.wrapping_add(own);
        let text = format!(
            "the {MOST_PORTS} UDP ports from {from} on are in use ('ss -ulnp' shows by which programs); choose another port"
        );
        let source = io::Error::new(io::ErrorKind::AddrInUse, text);
        Err(OpenError::Io { what: "sharing the NIC", source })
    }

    /// The envelope of this endpoint's frames: some port ids stand for UDP ports of their own.
    fn own_envelope(&self) -> Envelope {
        match self.envelope {
            Envelope::Udp { port } => {
                Envelope::Udp { port: port.wrapping_add(beyond(self.protocol.port)) }
            }
            other => other,
        }
    }

    /// Opens the endpoint with the port id that the options say.
    fn open_here(self) -> Result<Endpoint, OpenError> {
        self.check_interfaces()?;
        let envelope = self.own_envelope();
        let (port, first, choice) = self.open_port(0)?;
        let by_kernel = first.info().mode == Mode::Udp;
        let first = if self.local { self.with_neighbours(first, &port)? } else { first };
        let (mut ports, mut others) = (vec![port], Vec::new());
        for i in 1..self.interfaces.len() {
            let (port, link, _) = self.open_port(i)?;
            ports.push(port);
            others.push(link);
        }
        let mut links = match self.open_bulk(ports[0].nic()) {
            Some((socket, config)) => Links::with_bulk(envelope, first, socket, config)?,
            None => Links::new(envelope, first, others)?,
        };
        links.ports = ports;
        let reservation = match envelope {
            Envelope::Udp { port } => {
                let name = links.ports[0].interface();
                let kept = if by_kernel { by_socket(port, name) } else { reserve(port, name) };
                let what = "reserving the UDP port";
                Some(kept.map_err(|source| OpenError::Io { what, source })?)
            }
            Envelope::Ethernet { .. } => None,
        };
        // Only what this endpoint says of itself depends on it.
        let local = local(links.ports[0].interface());
        let near = self.local && links.ports[0].claim().is_some();
        let mut engine = self.engine(links, local, Clock::Monotonic, random_secret()?)?;
        engine.route_table.near = near;
        if let Some(reservation) = &reservation {
            let own = reservation.try_clone();
            let own =
                own.map_err(|source| OpenError::Io { what: "reserving the UDP port", source })?;
            engine.route_table.resolve_by(own);
        }
        let endpoint = Endpoint::new(engine, self.settings(reservation))?.instead_of(choice);
        let Info { interface, mode, reason, .. } = endpoint.link();
        info!(%interface, %mode, reason, port = self.protocol.port, "endpoint opened");
        Ok(endpoint)
    }

    /// Opens the endpoint on a simulated network, in its virtual time. The interfaces' names and
    /// the backend do not matter, their number does. The same seed makes the same run. A blocking
    /// call moves the time on while it sleeps, so there is no [`Wait::Spin`](crate::Wait::Spin): it
    /// sleeps, too. In the UDP envelope, port 02:00:00:00:00:01 is the node 198.18.0.1 and
    /// fd00::200:0:1, and so on.
    pub fn open_simulated(self, network: &Network, seed: u32) -> Result<Endpoint, OpenError> {
        self.check_interfaces()?;
        let frames = self.simulated_frames * self.interfaces.len();
        let open = || {
            let link = SimLink::open(network, self.filter(), frames, frames)?;
            Ok::<_, OpenError>(AnyLink::Simulated(Box::new(link)))
        };
        let first = open()?;
        let others = (1..self.interfaces.len()).map(|_| open()).collect::<Result<_, _>>()?;
        let clock = Clock::Virtual(network.clock());
        let links = match self.bulk {
            Some(true) => {
                let filter = Filter { envelope: SIMULATED_BULK, ..self.filter() };
                let socket = SimLink::open(network, filter, frames, frames)?;
                let Envelope::Udp { port } = SIMULATED_BULK else { unreachable!("a constant") };
                let ip = simulated::ip(socket.info().mac, false);
                // As if a frame went in two datagrams; here it goes in one piece, and fits the link
                // in any envelope.
                let outer = SIMULATED_BULK.max_len();
                let datagram = ((socket.info().max_frame - outer) / 2) as u16;
                let config = BulkConfig { at: (ip, port).into(), datagram, most: 2 };
                let socket = AnyLink::Simulated(Box::new(socket));
                Links::with_bulk(self.own_envelope(), first, socket, config)?
            }
            _ => Links::new(self.own_envelope(), first, others)?,
        };
        let engine = self.engine(links, None, clock, seed.into())?;
        Endpoint::new(engine, self.settings(None))
    }

    /// Opens the endpoint on backends of the program's own, as many as the options name interfaces.
    /// `docs/how-to/write-a-backend.md` leads through writing one. The names, the backend and
    /// [`local`](Self::local) do not matter. Each link must take the frames of
    /// [`filter`](Self::filter). Only in the Ethernet envelope.
    ///
    /// An endpoint whose first link has no descriptor has no [`fd`](Endpoint::fd) and makes
    /// progress only in its own calls.
    pub fn open_on(self, links: Vec<Box<dyn Link>>) -> Result<Endpoint, OpenError> {
        const WHAT: &str = "using links of the program's own";
        self.check_interfaces()?;
        if links.len() != self.interfaces.len() {
            return refuse(WHAT, "give as many links as interfaces");
        }
        if matches!(self.envelope, Envelope::Udp { .. }) {
            return refuse(WHAT, "no kernel routes to IP nodes here; use the Ethernet envelope");
        }
        let too_few = |info: &Info| info.tx_frames < 2 || info.rx_frames < 2;
        if links.iter().any(|link| too_few(link.info())) {
            return refuse(WHAT, "give each link at least two transmit and two receive frames");
        }
        if links.len() > 1 && links.iter().any(|link| link.fd().is_none()) {
            return refuse(WHAT, "to sleep on several links, each must have a descriptor");
        }
        let mut links = links.into_iter().map(AnyLink::Own);
        let first = links.next().expect("there is an interface");
        let links = Links::new(self.envelope, first, links.collect())?;
        let engine = self.engine(links, None, Clock::Monotonic, random_secret()?)?;
        Endpoint::new(engine, self.settings(None))
    }

    /// Which frames the endpoint's links take: for [`open_on`](Self::open_on).
    pub fn filter(&self) -> Filter {
        Filter { envelope: self.own_envelope(), channels: self.channels }
    }

    fn settings(&self, reservation: Option<Reservation>) -> EndpointSettings {
        EndpointSettings {
            channels: self.channels,
            wait: self.wait,
            linger: self.linger,
            attended: self.progress == Progress::Auto,
            reservation,
        }
    }

    /// Whether these interfaces can be one.
    fn check_interfaces(&self) -> Result<(), OpenError> {
        let refuse = |text| refuse("using several interfaces as one", text);
        let count = self.interfaces.len();
        let mut names: Vec<_> =
            self.interfaces.iter().flat_map(|name| alternatives(name)).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        if !(1..=MAX_PATHS).contains(&count) {
            return refuse("give 1 to 8 interfaces");
        }
        if names.len() < all && !self.interfaces[0].is_empty() {
            return refuse("an interface is named twice; give each once");
        }
        if count > 1 && matches!(self.envelope, Envelope::Udp { .. }) {
            return refuse("a node has one IP address; use the Ethernet envelope or one interface");
        }
        Ok(())
    }

    /// Opens the link of an interface: as this process may, or by a broker. With what it needs, and
    /// why it is this one.
    fn open_port(&self, i: usize) -> Result<(ClaimedPort, AnyLink, Choice), OpenError> {
        let nic = &self.interfaces[i];
        let own = || {
            let port = ClaimedPort::of(nic, self.sharing, self.own_envelope(), self.local)?;
            let (link, choice) = self.open_link(i, port.interface())?;
            Ok((port, link, choice))
        };
        let missing = match self.broker {
            BrokerUse::Only => None,
            BrokerUse::Never => return own(),
            BrokerUse::Auto => match own() {
                Err(missing @ OpenError::MissingCapability { .. }) => {
                    info!(interface = %nic, why = %missing, "not permitted here: a broker is asked");
                    Some(missing)
                }
                own => return own,
            },
        };
        let usual = XdpConfig::new(nic, self.filter()).tx_frames;
        let nic = alternatives(nic).next().unwrap_or_default();
        match brokered::open(nic, &self.filter(), self.backend, self.tx_frames(i, usual))? {
            Some((port, link)) => Ok((port, link, Choice::default())),
            None => Err(missing.unwrap_or_else(brokered::none)),
        }
    }

    /// Opens the socket for bulk data beside a link on this NIC or a child of it, if there is to be
    /// one: the socket and its address. Nothing depends on it, so what refuses it is only logged.
    fn open_bulk(&self, name: &str) -> Option<(AnyLink, BulkConfig)> {
        let wanted = self.bulk.unwrap_or(true) && self.interfaces.len() == 1;
        if !wanted {
            return None;
        }
        // Peers refuse loopback addresses, which are another node to each of them.
        let ip = local(name).and_then(|local| local.ip()).filter(|ip| !ip.is_loopback());
        let Some(ip) = ip else {
            debug!(interface = %name, "no IP address: long messages stay on the link");
            return None;
        };
        match BulkLink::open(name, ip, self.filter()) {
            Ok(mut socket) => {
                socket.set_lending(self.lend);
                let (datagram, most) = socket.datagrams();
                let (datagram, most) = (datagram as u16, most as u8);
                let config = BulkConfig { at: socket.at(), datagram, most };
                Some((AnyLink::Bulk(Box::new(socket)), config))
            }
            Err(why) => {
                info!(interface = %name, %why, "no UDP socket: long messages stay on the link");
                None
            }
        }
    }

    /// Opens the link, and says why it is this one.
    fn open_link(&self, i: usize, name: &str) -> Result<(AnyLink, Choice), OpenError> {
        let link = match self.backend {
            Backend::Packet => self.open_packet(i, name)?,
            Backend::Udp => self.open_udp(i, name)?,
            Backend::Xdp => self.open_xdp(i, name, None, true)?,
            Backend::XdpMode(mode) => self.open_xdp(i, name, Some(mode), true)?,
            Backend::Auto => return self.choose_link(i, name),
        };
        Ok((link, Choice::default()))
    }

    /// The best link, as [`Backend::Auto`] describes.
    fn choose_link(&self, i: usize, name: &str) -> Result<(AnyLink, Choice), OpenError> {
        let mut measured = None;
        let opened = match self.open_xdp(i, name, None, false) {
            // Frames in IP may come by any queue of the NIC, and generic mode hears one.
            Err(refused @ OpenError::OnlyGeneric { .. }) => {
                let in_ethernet = matches!(self.envelope, Envelope::Ethernet { .. });
                measured = MeasuredBackends::of(name).filter(|_| in_ethernet);
                match measured.filter(MeasuredBackends::prefers_generic) {
                    Some(_) => self.open_xdp(i, name, None, true),
                    None => Err(refused),
                }
            }
            opened => opened,
        };
        let refused = match opened {
            Ok(link) => return Ok((link, Choice { refused: None, measured })),
            // The same would refuse AF_PACKET.
            Err(
                e @ (OpenError::NoInterface { .. }
                | OpenError::InterfaceDown(_)
                | OpenError::MtuTooSmall { .. }),
            ) => return Err(e),
            Err(refused) => refused,
        };
        info!(interface = %name, why = %refused, "AF_XDP refused: AF_PACKET is tried");
        match self.open_packet(i, name) {
            Ok(link) => Ok((link, Choice { refused: Some(refused), measured })),
            Err(missing @ OpenError::MissingCapability { .. })
                if matches!(self.envelope, Envelope::Udp { .. }) =>
            {
                info!(interface = %name, why = %missing, "AF_PACKET refused: a UDP socket is tried");
                let choice = Choice { refused: Some(missing), measured: None };
                Ok((self.open_udp(i, name)?, choice))
            }
            Err(e) => Err(e),
        }
    }

    /// Lets frames to endpoints of this node go through memory, unless another endpoint has the
    /// interface's address.
    fn with_neighbours(&self, link: AnyLink, port: &ClaimedPort) -> Result<AnyLink, OpenError> {
        let Some(name) = port.claim() else {
            let interface = port.interface();
            info!(%interface, "another endpoint has this address: frames within the node take the wire");
            return Ok(link);
        };
        let listener = name.as_fd().try_clone_to_owned().and_then(gigae_shm::listen);
        let what = "listening for endpoints of this node";
        let listener = listener.map_err(|source| OpenError::Io { what, source })?;
        let window = usize::from(self.for_all_links(self.protocol.send_window));
        let channels = self.channels.iter().count().max(1);
        let name = match self.own_envelope() {
            Envelope::Udp { port: udp } => Some(name_in_ip(port.index()?, udp)),
            Envelope::Ethernet { .. } => None,
        };
        let config = ShmConfig { frames: window * channels, name, ..ShmConfig::new(self.filter()) };
        Ok(AnyLink::Local(Box::new(ShmLink::new(link, config, listener)?)))
    }

    fn open_xdp(
        &self,
        i: usize,
        name: &str,
        mode: Option<Mode>,
        generic: bool,
    ) -> Result<AnyLink, OpenError> {
        let defaults = XdpConfig::new(name, self.filter());
        let config = XdpConfig {
            tx_frames: self.tx_frames(i, defaults.tx_frames),
            queue: self.queue,
            mode,
            generic,
            busy_poll: self.busy_poll,
            ..defaults
        };
        Ok(AnyLink::Xdp(Box::new(XdpLink::open(config)?)))
    }

    fn open_packet(&self, i: usize, name: &str) -> Result<AnyLink, OpenError> {
        let defaults = PacketConfig::new(name, self.filter());
        let tx_frames = self.tx_frames(i, defaults.tx_frames);
        let receive = if self.ring { Receive::Ring } else { Receive::Calls };
        let config = PacketConfig { tx_frames, receive, ..defaults };
        Ok(AnyLink::Packet(Box::new(PacketLink::open(config)?)))
    }

    fn open_udp(&self, i: usize, name: &str) -> Result<AnyLink, OpenError> {
        let defaults = UdpConfig::new(name, self.filter());
        let tx_frames = self.tx_frames(i, defaults.tx_frames);
        let config = UdpConfig { tx_frames, ..defaults };
        Ok(AnyLink::Udp(Box::new(UdpLink::open(config)?)))
    }

    /// Transmit frames of a link: messages lie in those of the first, however they go.
    fn tx_frames(&self, i: usize, usual: usize) -> usize {
        if i == 0 { usual * self.interfaces.len().min(2) } else { usual }
    }

    /// A window that all links share, of one that is enough for one.
    fn for_all_links(&self, window: u16) -> u16 {
        if self.interfaces.len() == 1 {
            return window;
        }
        let all = window.saturating_mul(self.interfaces.len() as u16);
        all.checked_next_power_of_two().unwrap_or(LONGEST_WINDOW).min(LONGEST_WINDOW)
    }

    fn engine(
        &self,
        mut links: Links,
        local: Option<Local>,
        clock: Clock,
        secret: u128,
    ) -> Result<Engine, OpenError> {
        if self.priority.is_some_and(|priority| !(1..=7).contains(&priority)) {
            return refuse("giving frames a priority", "use a priority of IEEE 802.1p, 1 to 7");
        }
        let goes_first = self.priority.is_some_and(|priority| links.set_priority(priority));
        let headers = self.envelope.max_len() + HEADER_LEN;
        let (mut longest, mut longest_operations) = (usize::MAX, usize::MAX);
        let (mut rx_frames, mut segments) = (usize::MAX, 1);
        for info in links.without_bulk().map(Link::info) {
            // A message is in one piece, in a transmit frame and in a received one.
            let first = info.frame_size - PAYLOAD + headers;
            let carried = info.segment_size.min(first);
            let most = info.max_segments.min(MOST_SEGMENTS);
            let operations = info.max_frame.min(first + (most - 1) * info.frame_size);
            if carried < headers + LEAST_MESSAGE {
                let ethernet = 14;
                return Err(OpenError::MtuTooSmall {
                    interface: info.interface.clone(),
                    mtu: info.max_frame - ethernet,
                    needed: headers - ethernet + LEAST_MESSAGE,
                });
            }
            longest = longest.min(carried);
            longest_operations = longest_operations.min(operations);
            segments = segments.max(operations.div_ceil(info.segment_size));
            rx_frames = rx_frames.min(info.rx_frames);
        }
        let info = links.info(PathId::FIRST);
        let payload = |frame: usize| u16::try_from(frame - headers).unwrap_or(u16::MAX);
        let mut config = ProtocolConfig {
            max_payload: payload(longest),
            max_operations: payload(longest_operations.max(longest)),
            sure_payload: payload(SURE_FRAME),
            // The rest is for named peers, for frames without credit, and for messages that the
            // program has.
            receive_frames: u32::try_from((rx_frames / segments * 3 / 4).max(1))
                .unwrap_or(u32::MAX),
            bulk: links.bulk(),
            ..self.protocol.clone()
        };
        config.longest_first = goes_first.then(|| config.max_payload - TAG_LEN as u16);
        if self.interfaces.len() > 1 {
            config.links = links.all().map(|link| link.info().mac).collect();
            config.send_window = self.for_all_links(config.send_window);
            config.receive_window = self.for_all_links(config.receive_window);
            if config.reorder_window > 0 {
                config.reorder_window = self.for_all_links(config.reorder_window);
            }
        }
        let (envelope, mac) = (self.own_envelope(), info.mac);
        let own = match (&local, envelope, &clock) {
            (Some(local), ..) => Some(local.addresses()),
            (None, Envelope::Udp { .. }, Clock::Virtual(_)) => {
                Some([false, true].map(|v6| simulated::ip(mac, v6)).to_vec())
            }
            _ => None,
        };
        let resolver = match (envelope, &clock) {
            (Envelope::Udp { .. }, Clock::Virtual(_)) => Resolver::Simulated,
            _ => Resolver::None,
        };
        let route_table = RouteTable::new(envelope, mac, own, resolver);
        let answers = !links.ports.first().is_some_and(ClaimedPort::is_child);
        let keys: Box<dyn FnMut() -> u64 + Send> = match clock {
            Clock::Monotonic => Box::new(random_key),
            Clock::Virtual(_) => Box::new(predictable_keys(secret as u64)),
        };
        let kernel = matches!(clock, Clock::Monotonic);
        let fetches = links[PathId::FIRST].link.is_local();
        let separates = config.longest_first.is_some();
        let operations = TransferConfig { fetches, separates, ..TransferConfig::default() };
        let mut engine = Engine::new(EngineParts {
            links,
            segments,
            proto: Protocol::new(config, secret),
            transfer: Transfer::new(operations, keys),
            clock,
            route_table,
            discovery: Discovery::new(self.name.clone(), local, answers),
            channels: self.channels,
            aggregate: self.aggregate,
        });
        if self.observable.unwrap_or(kernel) {
            engine.show();
        }
        Ok(engine)
    }
}

/// The interface of this name, as the kernel describes it.
fn local(name: &str) -> Option<Local> {
    interfaces().unwrap_or_default().into_iter().find(|local| local.name == name)
}

/// The options do not fit together.
fn refuse<T>(what: &'static str, text: &str) -> Result<T, OpenError> {
    let source = io::Error::new(io::ErrorKind::InvalidInput, text);
    Err(OpenError::Io { what, source })
}

/// The secret of an endpoint's protocol, from the operating system's generator.
fn random_secret() -> Result<u128, OpenError> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(|e| OpenError::Io {
        what: "asking the kernel for a random number",
        source: io::Error::other(e.to_string()),
    })?;
    Ok(u128::from_ne_bytes(secret))
}

/// The key of a registered memory: from the operating system's generator, so that no key and no
/// epoch says anything of another key.
fn random_key() -> u64 {
    let mut key = [0; 8];
    getrandom::fill(&mut key).expect("the kernel gave random numbers when the endpoint was opened");
    u64::from_ne_bytes(key)
}
