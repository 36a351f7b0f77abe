//! How an endpoint is opened.

use crate::brokered::{self, Broker};
use crate::clock::Clock;
use crate::engine::{Discovery, Engine};
use crate::link::AnyLink;
use crate::links::Links;
use crate::local::{Local, interfaces};
use crate::outbound::{MOST_SEGMENTS, PAYLOAD};
use crate::resolve::reserve;
use crate::sharing::{Port, Sharing, alternatives};
use crate::simulated;
use crate::sources::{Resolver, Sources};
use crate::{Endpoint, Wait};
use gigae_link::{ChannelSet, Filter, Link, Mode, OpenError};
use gigae_packet::{PacketConfig, PacketLink};
use gigae_proto::{Config, Protocol};
use gigae_shm::{ShmConfig, ShmLink};
use gigae_sim::{Network, SimLink};
use gigae_transfer::{Config as TransferConfig, Transfer, predictable_keys};
use gigae_wire::{Envelope, HEADER_LEN, MAX_PATHS, is_node_name};
use gigae_xdp::{BusyPoll, XdpConfig, XdpLink};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Which kernel interface carries the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// AF_XDP in the best mode that passes its self-test, else AF_PACKET;
    /// [`gigae_link::Info::reason`] says why.
    #[default]
    Auto,
    /// AF_XDP in the best mode that passes its self-test, or an error.
    Xdp,
    /// AF_XDP in exactly this mode, or an error.
    XdpMode(Mode),
    /// AF_PACKET.
    Packet,
}

/// Who acknowledges, repeats and answers while the program makes no calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// A background thread, one for all endpoints of the process. It acts for an endpoint whose program has made no
    /// call for a millisecond, and then at once on whatever arrives, operations on registered memory included. An
    /// endpoint that the program uses pays nothing for it but the thread's look, 2,000 times a second; one with which
    /// nothing is going on, nothing at all.
    #[default]
    Auto,
    /// Nobody. A peer that is owed an answer takes this end for lost after its [timeout](Options::peer_timeout), and
    /// a message that begins a session goes out with one of the program's later calls. For programs that call
    /// [`Endpoint::progress`] more often than that and have no processor for a thread.
    Manual,
}

/// Least message in bytes that a usable interface must carry: what 003 calls a short message, with
/// room to spare. Interfaces with a smaller MTU are refused.
const LEAST_MESSAGE: usize = 128;

/// Longest frame in bytes that any Ethernet carries: that of MTU 1500.
const SURE_FRAME: usize = 1514;

/// Most frames in the windows of a session over several links: what a report can tell of.
const LONGEST_WINDOW: u16 = 1024;

/// Frames of a simulated link, each way.
const SIMULATED_FRAMES: usize = 1024;

/// Options for opening an [`Endpoint`].
#[derive(Clone, Debug)]
pub struct Options {
    interfaces: Vec<String>,
    pub(crate) channels: ChannelSet,
    pub(crate) envelope: Envelope,
    backend: Backend,
    sharing: Sharing,
    broker: Broker,
    queue: u32,
    pub(crate) wait: Wait,
    pub(crate) linger: Duration,
    pub(crate) aggregate: bool,
    pub(crate) progress: Progress,
    busy_poll: BusyPoll,
    protocol: Config,
    simulated_frames: usize,
    pub(crate) name: Option<String>,
    /// Unless said, endpoints on kernel interfaces are.
    observable: Option<bool>,
    local: bool,
}

impl Options {
    /// Everything at its default for an interface: port id 0, channel 0, EtherType 0x88B5, the best
    /// backend, adaptive waiting, selective repeat, a peer timeout of 10 s, a linger of 1 s.
    ///
    /// A name such as `eth1v0/eth1v1` stands for the first of these interfaces that is up and no other endpoint uses, so
    /// that processes share SR-IOV functions, or NICs, by all naming the same. [`Sharing`] says what if all are in use.
    pub fn new(interface: &str) -> Self {
        Self {
            interfaces: vec![interface.into()],
            channels: ChannelSet::EMPTY.with(0),
            envelope: Envelope::DEFAULT,
            backend: Backend::default(),
            sharing: Sharing::default(),
            broker: Broker::default(),
            queue: 0,
            wait: Wait::default(),
            linger: Duration::from_secs(1),
            aggregate: true,
            progress: Progress::default(),
            busy_poll: BusyPoll::Auto,
            protocol: Config::default(),
            simulated_frames: SIMULATED_FRAMES,
            name: None,
            observable: None,
            local: false,
        }
    }

    /// The same over several interfaces as one, 2 to 8: frames go by all of them, weighed by what each
    /// delivers, and by those that are left when one fails, within 50 ms.
    ///
    /// The first names the endpoint; the n-th must lead to the peers' n-th. A peer with fewer is
    /// reached by as many as it has. The shortest MTU limits the messages. Windows are larger by the
    /// number of links, up to 1,024 frames. In the UDP envelope there is one interface only.
    pub fn trunk<I: Into<String>>(interfaces: impl IntoIterator<Item = I>) -> Self {
        let interfaces = interfaces.into_iter().map(Into::into).collect();
        Self { interfaces, ..Self::new("") }
    }

    /// This endpoint's port id, by which endpoints on one node differ.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.protocol.port = port;
        self
    }

    /// The channels to open instead of channel 0. Frames of others are left to other programs.
    #[must_use]
    pub fn channels(mut self, channels: impl IntoIterator<Item = u8>) -> Self {
        self.channels = channels.into_iter().collect();
        self
    }

    /// The envelope: another EtherType, or UDP for networks that carry no unknown EtherTypes.
    #[must_use]
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }

    /// The kernel interface to use.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Whether the NIC is shared with other processes: with [`Sharing::Auto`] and [`Sharing::Child`], each
    /// endpoint has an interface and an address of its own, which [`Endpoint::identity`] tells.
    #[must_use]
    pub fn sharing(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    /// Whether a broker opens the links: where this process lacks the privileges and one listens, by default.
    #[must_use]
    pub fn broker(mut self, broker: Broker) -> Self {
        self.broker = broker;
        self
    }

    /// The receive queue of the NIC to which an AF_XDP socket is bound; frames of other queues are
    /// not seen, so steer them there (`ethtool -N`) or give the NIC one queue (`ethtool -L`).
    #[must_use]
    pub fn queue(mut self, queue: u32) -> Self {
        self.queue = queue;
        self
    }

    /// How blocking calls wait.
    #[must_use]
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// After this long without an answer, a peer is lost and its messages fail.
    #[must_use]
    pub fn peer_timeout(mut self, timeout: Duration) -> Self {
        self.protocol.peer_timeout = timeout;
        self
    }

    /// How long dropping the endpoint waits at most: for the acknowledgement of what was sent, then
    /// for the peers to know that it is gone and what has arrived here. Without that, zero, the last
    /// acknowledgement is lost as easily as any frame, and its sender told that a message failed.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Recovers from loss by go-back-N, as the papers do, instead of selective repeat.
    #[must_use]
    pub fn go_back_n(mut self) -> Self {
        self.protocol = self.protocol.go_back_n();
        self
    }

    /// Whether small messages that wait for the same doorbell share a frame (default), or each has
    /// one of its own.
    #[must_use]
    pub fn aggregate(mut self, aggregate: bool) -> Self {
        self.aggregate = aggregate;
        self
    }

    /// Who acknowledges, repeats and answers while the program makes no calls: by default a background thread. On a
    /// simulated network nobody does.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Whether the CRC of sent frames covers the messages (default) or only the header, which saves
    /// some 40 ns per KB. Ethernet's own FCS covers every wire, but neither memory, bus nor switch.
    #[must_use]
    pub fn payload_checksum(mut self, payload_checksum: bool) -> Self {
        self.protocol.payload_checksum = payload_checksum;
        self
    }

    /// Whether an empty receive ring makes the endpoint drive the driver itself instead of waiting
    /// for its interrupt (003 §4.4). Means nothing to AF_PACKET and AF_XDP in generic mode.
    #[must_use]
    pub fn busy_poll(mut self, busy_poll: BusyPoll) -> Self {
        self.busy_poll = busy_poll;
        self
    }

    /// What this node is called in answers to [`Endpoint::ask`] instead of its host name: 1 to 63
    /// letters, digits, `-`, `_` and `.`; any other name is ignored.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into()).filter(|name: &String| is_node_name(name));
        self
    }

    /// Whether `gigae stat` and `gigae capture`, run by the same user or root, can look at this endpoint: by default, unless
    /// the network is simulated. Needs one descriptor and 8.1 MiB of addresses, and nearly no memory until
    /// somebody captures frames.
    #[must_use]
    pub fn observable(mut self, observable: bool) -> Self {
        self.observable = Some(observable);
        self
    }

    /// Whether frames to endpoints of this node go through memory instead of the NIC, where both ends say so: default
    /// `false`.
    ///
    /// The others are found by themselves, whoever is opened first: those of the same user in the same network
    /// namespace, on another interface, with the same channels and envelope. All else stays as it is. Of several
    /// interfaces as one, the first ones find each other, and all frames between the two go through that memory; by the
    /// others if a first one fails.
    ///
    /// For each such peer two descriptors, and memory for all frames that may be unacknowledged each way: 256 for each
    /// interface and channel, 0.5 MiB at MTU 1500, of which what is never used takes up nothing.
    #[must_use]
    pub fn local(mut self, local: bool) -> Self {
        self.local = local;
        self
    }

    /// For simulations: frames of a simulated link each way (more than 64), and parameters of the
    /// protocol that no program has to know.
    #[doc(hidden)]
    #[must_use]
    pub fn tuned(mut self, simulated_frames: usize, tune: impl FnOnce(&mut Config)) -> Self {
        self.simulated_frames = simulated_frames;
        tune(&mut self.protocol);
        self
    }

    /// Opens the endpoint.
    pub fn open(self) -> Result<Endpoint, OpenError> {
        self.check_interfaces()?;
        let (port, first, refused) = self.open_port(0)?;
        let first = if self.local { self.with_neighbours(first, &port)? } else { first };
        let (mut ports, mut further) = (vec![port], Vec::new());
        for i in 1..self.interfaces.len() {
            let (port, link, _) = self.open_port(i)?;
            ports.push(port);
            further.push(link);
        }
        let mut links = Links::new(first, further)?;
        links.ports = ports;
        let reservation = match self.envelope {
            Envelope::Udp { port } => Some(
                reserve(port, links.ports[0].interface())
                    .map_err(|source| OpenError::Io { what: "reserving the UDP port", source })?,
            ),
            Envelope::Ethernet { .. } => None,
        };
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|e| OpenError::Io {
            what: "asking the kernel for a random number",
            source: std::io::Error::other(e.to_string()),
        })?;
        let secret = u128::from_ne_bytes(secret);
        // Only what others are told depends on it.
        let name = links.ports[0].interface();
        let is_first = |local: &Local| local.name == name;
        let local = interfaces().unwrap_or_default().into_iter().find(is_first);
        let mut engine = self.engine(links, local, Clock::Monotonic, secret)?;
        if let Some(reservation) = &reservation {
            let own = reservation.try_clone();
            let own =
                own.map_err(|source| OpenError::Io { what: "reserving the UDP port", source })?;
            engine.sources.resolve_by(own);
        }
        Ok(Endpoint::new(engine, &self, reservation)?.instead_of(refused))
    }

    /// Opens the endpoint on a simulated network, in its virtual time. The interfaces' names and the
    /// backend do not matter, their number does. The same seed makes the same run. A blocking call moves the
    /// time on while it sleeps, so there is no [`Wait::Spin`]: it sleeps, too. In the UDP envelope,
    /// port 02:00:00:00:00:01 is the node 198.18.0.1 and fd00::200:0:1, and so on.
    pub fn open_simulated(self, network: &Network, seed: u32) -> Result<Endpoint, OpenError> {
        self.check_interfaces()?;
        let frames = self.simulated_frames * self.interfaces.len();
        let open = || {
            let link = SimLink::open(network, self.filter(), frames, frames)?;
            Ok::<_, OpenError>(AnyLink::Simulated(Box::new(link)))
        };
        let first = open()?;
        let further = (1..self.interfaces.len()).map(|_| open()).collect::<Result<_, _>>()?;
        let clock = Clock::Virtual(network.clock());
        let engine = self.engine(Links::new(first, further)?, None, clock, seed.into())?;
        Endpoint::new(engine, &self, None)
    }

    /// Whether these interfaces can be one.
    fn check_interfaces(&self) -> Result<(), OpenError> {
        let refuse = |text: &str| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, text);
            Err(OpenError::Io { what: "using several interfaces as one", source })
        };
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

    fn filter(&self) -> Filter {
        Filter { envelope: self.envelope, channels: self.channels }
    }

    /// Opens the link of an interface: as this process may, or by a broker. With what it needs, and what refused
    /// a better one.
    fn open_port(&self, i: usize) -> Result<(Port, AnyLink, Option<OpenError>), OpenError> {
        let nic = &self.interfaces[i];
        let own = || {
            let port = Port::of(nic, self.sharing, self.envelope, self.local)?;
            let (link, refused) = self.open_link(i, port.interface())?;
            Ok((port, link, refused))
        };
        let missing = match self.broker {
            Broker::Only => None,
            Broker::Never => return own(),
            Broker::Auto => match own() {
                Err(missing @ OpenError::MissingCapability { .. }) => Some(missing),
                own => return own,
            },
        };
        let usual = XdpConfig::new(nic, self.filter()).tx_frames;
        let nic = alternatives(nic).next().unwrap_or_default();
        match brokered::open(nic, &self.filter(), self.backend, self.tx_frames(i, usual))? {
            Some((port, link)) => Ok((port, link, None)),
            None => Err(missing.unwrap_or_else(brokered::none)),
        }
    }

    /// Opens the link, and says what refused a better one.
    fn open_link(&self, i: usize, name: &str) -> Result<(AnyLink, Option<OpenError>), OpenError> {
        Ok(match self.backend {
            Backend::Packet => (self.open_packet(i, name)?, None),
            Backend::Xdp => (self.open_xdp(i, name, None)?, None),
            Backend::XdpMode(mode) => (self.open_xdp(i, name, Some(mode))?, None),
            Backend::Auto => match self.open_xdp(i, name, None) {
                Ok(link) => (link, None),
                // The same would refuse AF_PACKET.
                Err(
                    e @ (OpenError::NoInterface { .. }
                    | OpenError::InterfaceDown(_)
                    | OpenError::MtuTooSmall { .. }),
                ) => return Err(e),
                Err(refused) => (self.open_packet(i, name)?, Some(refused)),
            },
        })
    }

    /// Lets frames to endpoints of this node go through memory, unless another endpoint has the
    /// interface's address.
    fn with_neighbours(&self, link: AnyLink, port: &Port) -> Result<AnyLink, OpenError> {
        let Some(name) = port.claim() else { return Ok(link) };
        let listener = name.as_fd().try_clone_to_owned().and_then(gigae_shm::listen);
        let what = "listening for endpoints of this node";
        let listener = listener.map_err(|source| OpenError::Io { what, source })?;
        let window = usize::from(self.for_all_links(self.protocol.send_window));
        let channels = self.channels.iter().count().max(1);
        let config = ShmConfig { frames: window * channels, ..ShmConfig::new(self.filter()) };
        Ok(AnyLink::Local(Box::new(ShmLink::new(link, config, listener)?)))
    }

    fn open_xdp(&self, i: usize, name: &str, mode: Option<Mode>) -> Result<AnyLink, OpenError> {
        let defaults = XdpConfig::new(name, self.filter());
        let config = XdpConfig {
            tx_frames: self.tx_frames(i, defaults.tx_frames),
            queue: self.queue,
            mode,
            busy_poll: self.busy_poll,
            ..defaults
        };
        Ok(AnyLink::Xdp(Box::new(XdpLink::open(config)?)))
    }

    fn open_packet(&self, i: usize, name: &str) -> Result<AnyLink, OpenError> {
        let defaults = PacketConfig::new(name, self.filter());
        let tx_frames = self.tx_frames(i, defaults.tx_frames);
        let config = PacketConfig { tx_frames, ..defaults };
        Ok(AnyLink::Packet(Box::new(PacketLink::open(config)?)))
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
        links: Links,
        local: Option<Local>,
        clock: Clock,
        secret: u128,
    ) -> Result<Engine, OpenError> {
        let headers = self.envelope.max_len() + HEADER_LEN;
        let (mut longest, mut longest_operations) = (usize::MAX, usize::MAX);
        let (mut rx_frames, mut segments) = (usize::MAX, 1);
        for info in links.all().map(Link::info) {
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
        let info = links.first.info();
        let payload = |frame: usize| u16::try_from(frame - headers).unwrap_or(u16::MAX);
        let mut config = Config {
            max_payload: payload(longest),
            max_operations: payload(longest_operations.max(longest)),
            sure_payload: payload(SURE_FRAME),
            receive_frames: u32::try_from(rx_frames / segments).unwrap_or(u32::MAX),
            ..self.protocol.clone()
        };
        if links.several() {
            config.links = links.all().map(|link| link.info().mac).collect();
            config.send_window = self.for_all_links(config.send_window);
            config.receive_window = self.for_all_links(config.receive_window);
            if config.reorder_window > 0 {
                config.reorder_window = self.for_all_links(config.reorder_window);
            }
        }
        let (envelope, mac) = (self.envelope, info.mac);
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
        let sources = Sources::new((envelope, mac), own, resolver);
        let answers = !links.ports.first().is_some_and(Port::is_child);
        let about = (sources, Discovery::new(self, local, answers));
        let protocol = Protocol::new(config, secret);
        let keys: Box<dyn FnMut() -> u64 + Send> = match clock {
            Clock::Monotonic => Box::new(random_key),
            Clock::Virtual(_) => Box::new(predictable_keys(secret as u64)),
        };
        let transfer = Transfer::new(TransferConfig::default(), keys);
        let layers = (protocol, transfer);
        let kernel = matches!(clock, Clock::Monotonic);
        let mut engine = Engine::new((links, segments), layers, clock, about, self);
        if self.observable.unwrap_or(kernel) {
            engine.show(self);
        }
        Ok(engine)
    }
}

/// The key of a registered memory: from the operating system's generator, so that no key and no
/// epoch says anything of another key.
fn random_key() -> u64 {
    let mut key = [0; 8];
    getrandom::fill(&mut key).expect("the kernel gave random numbers when the endpoint was opened");
    u64::from_ne_bytes(key)
}
