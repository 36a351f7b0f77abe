//! The settings from the environment, and the NICs of this node.

use crate::error::{Code, OfiResult};
use crate::launcher::local_processes;
use crate::provider;
use gigae::{
    Address, Backend, Cluster, Envelope, MacAddr, OpenError, Options, Sharing, environment,
};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::str::FromStr;
use std::sync::Once;
use std::time::Duration;

/// A peer is lost after this time without an answer. Its progress thread answers while its program
/// computes. A node that swaps, or a virtual machine that moves to another host, may be silent for
/// many seconds.
const PEER_TIMEOUT: Duration = Duration::from_secs(60);

/// The UDP port of nodes whose users may open no other link, unless they say otherwise: that of the
/// evaluator and of the cluster file's example.
const UDP_PORT: u16 = 4791;

/// The settings from the environment.
#[derive(Clone)]
pub(crate) struct ProviderSettings {
    /// `FI_GIGAE_IFACE`: the interface, or several combined, separated by commas. Each may be a
    /// list separated by slashes, of which the first free one is used.
    interface: Option<String>,
    /// The cluster file, if there is one and this node is in it.
    cluster: Option<(Cluster, String, Address)>,
    /// `FI_GIGAE_PORT`, `FI_GIGAE_CHANNEL`.
    port: u16,
    channel: u8,
    /// `FI_GIGAE_BACKEND`.
    backend: Backend,
    /// `FI_GIGAE_UDP_PORT`, or [`UDP_PORT`]: without a cluster file, frames are in the UDP
    /// envelope.
    udp: Option<u16>,
    /// `FI_GIGAE_SHARING`, and the resulting choice.
    sharing: Sharing,
    /// `FI_GIGAE_SHM`: whether processes of this node communicate through memory.
    memory: bool,
    /// `FI_GIGAE_BULK`: whether long messages go by a UDP socket beside the link.
    bulk: bool,
    /// `FI_GIGAE_LEND`: whether long messages are sent from the program's memory.
    lend: bool,
    /// `FI_GIGAE_PEER_TIMEOUT`, in seconds.
    peer_timeout: Duration,
}

/// A usable NIC, or several combined.
#[derive(Clone, Debug)]
pub(crate) struct UsableNic {
    /// The name of its interface; names of several are separated by commas.
    pub(crate) name: String,
    /// The address of an endpoint there.
    pub(crate) address: Address,
}

fn variable<T: FromStr>(name: &str, usual: T) -> OfiResult<T> {
    match environment::variable(name).map(|value| value.to_string_lossy().into_owned()) {
        Some(text) => text.parse().map_err(|_| {
            eprintln!(
                "gigae: {name} has the invalid value '{text}'; see docs/reference/libfabric.md"
            );
            Code::INVALID
        }),
        None => Ok(usual),
    }
}

impl ProviderSettings {
    pub(crate) fn read() -> OfiResult<Self> {
        let interface = variable("FI_GIGAE_IFACE", String::new())?;
        let interface = Some(interface).filter(|interface| !interface.is_empty());
        let backend = match &variable("FI_GIGAE_BACKEND", String::from("auto"))?[..] {
            "auto" => Backend::Auto,
            "xdp" => Backend::Xdp,
            "packet" => Backend::Packet,
            "udp" => Backend::Udp,
            other => {
                eprintln!("gigae: FI_GIGAE_BACKEND is '{other}'; give auto, xdp, packet or udp");
                return Err(Code::INVALID);
            }
        };
        let memory = variable("FI_GIGAE_SHM", 1_u8)? != 0;
        let sharing = sharing(memory)?;
        let cluster = if interface.is_none() { own_place() } else { None };
        let seconds = variable("FI_GIGAE_PEER_TIMEOUT", PEER_TIMEOUT.as_secs())?;
        let udp = match variable("FI_GIGAE_UDP_PORT", 0)? {
            _ if cluster.is_some() => None,
            0 if backend == Backend::Udp => Some(UDP_PORT),
            0 if backend == Backend::Auto && needs_a_socket() => Some(UDP_PORT),
            0 => None,
            port => Some(port),
        };
        Ok(Self {
            interface,
            cluster,
            port: variable("FI_GIGAE_PORT", 0)?,
            channel: variable("FI_GIGAE_CHANNEL", 0)?,
            backend,
            udp,
            sharing,
            memory,
            bulk: variable("FI_GIGAE_BULK", 1_u8)? != 0,
            lend: variable("FI_GIGAE_LEND", 1_u8)? != 0,
            peer_timeout: Duration::from_secs(seconds.clamp(1, 86_400)),
        })
    }

    /// Whether an endpoint has its NIC's address, so the address is known before opening.
    pub(crate) fn is_alone(&self) -> bool {
        let several = self.interface.as_ref().is_some_and(|name| name.contains('/'));
        self.sharing == Sharing::Alone && !several
    }

    /// The NICs to choose from.
    pub(crate) fn nics(&self) -> Vec<UsableNic> {
        if let Some((_, name, address)) = &self.cluster {
            return vec![UsableNic { name: name.clone(), address: *address }];
        }
        let all = gigae::nics();
        let address = |name: &str, mac: MacAddr| {
            let node = match self.udp {
                Some(_) => gigae::ip_of(name).map(Address::from)?,
                None => Address::from(mac),
            };
            Some(node.port(self.port).channel(self.channel))
        };
        match &self.interface {
            // Several combined are named by the first.
            Some(name) => {
                let first = name.split(',').next().unwrap_or_default();
                let is_meant = |name: &str| first.split('/').any(|one| one == name);
                let here = all.iter().filter(|(name, _)| is_meant(name));
                let address = here.filter_map(|(one, mac)| address(one, *mac)).next();
                address
                    .map(|address| UsableNic { name: name.clone(), address })
                    .into_iter()
                    .collect()
            }
            None => {
                let nic = |(name, mac): (String, MacAddr)| {
                    Some(UsableNic { address: address(&name, mac)?, name })
                };
                all.into_iter().filter_map(nic).collect()
            }
        }
    }

    /// The address of the endpoint of a node with this IP address: as in the cluster file, or
    /// otherwise of the node that has this IP address on the network of one of the NICs.
    pub(crate) fn named(&self, ip: IpAddr) -> OfiResult<Address> {
        // Not by the cluster file, which may be of the other envelope.
        if self.udp.is_some() {
            return Ok(Address::from(ip).port(self.port).channel(self.channel));
        }
        if let Ok(cluster) = Cluster::load() {
            let has_it = |node: &gigae::Node| node.nics.iter().any(|nic| nic.ip == Some(ip));
            let listed = cluster.nodes().iter().position(has_it);
            if let Some(Ok(address)) = listed.map(|number| cluster.address(number)) {
                return Ok(address);
            }
            if let (Some(_), Envelope::Udp { .. }) = (&self.cluster, cluster.envelope()) {
                return Ok(Address::from(ip).port(cluster.port()));
            }
        }
        let interfaces = self.nics();
        let mut interfaces = interfaces.iter().flat_map(|nic| nic.name.split([',', '/']));
        let mac = interfaces.find_map(|interface| gigae::mac_of(ip, interface).ok());
        let address = Address::from(mac.ok_or(Code::NO_DATA)?);
        Ok(address.port(self.port).channel(self.channel))
    }

    /// Whether a UDP socket can be the link, for which no process needs a privilege.
    fn may_be_a_socket(&self) -> bool {
        let in_file = self.cluster.as_ref().map(|(cluster, ..)| cluster.envelope());
        let in_ip = self.udp.is_some() || matches!(in_file, Some(Envelope::Udp { .. }));
        in_ip && matches!(self.backend, Backend::Auto | Backend::Udp)
    }

    /// The NICs on which this process may open a link: all, or those on which a broker makes ports
    /// for it. If there are none, warns users who have asked for this provider.
    pub(crate) fn permitted(&self) -> Vec<UsableNic> {
        let mut nics = self.nics();
        if let (true, Some(name)) = (nics.is_empty(), &self.interface) {
            let what = if self.udp.is_some() { " with an IP address" } else { "" };
            warn(&format!("no interface '{name}'{what} here; see 'gigae nic' and FI_GIGAE_IFACE"));
        }
        if nics.is_empty() || self.may_be_a_socket() || is_permitted() {
            return nics;
        }
        match gigae::broker_nics() {
            Ok(allowed) => {
                let is_allowed = |name: &str| allowed.iter().any(|nic| nic == name);
                nics.retain(|nic| nic.name.split([',', '/']).all(is_allowed));
                if nics.is_empty() {
                    let allowed = allowed.join(", ");
                    warn(&format!("the broker makes ports on {allowed} only; see FI_GIGAE_IFACE"));
                }
            }
            Err(error) => {
                let text = "without CAP_NET_RAW a broker or the UDP envelope is needed";
                warn(&format!(
                    "{text} (FI_GIGAE_BACKEND=udp, or 'envelope' in the cluster file): {error}"
                ));
                nics.clear();
            }
        }
        nics
    }

    /// Options for the endpoint of a NIC.
    pub(crate) fn options(&self, name: &str) -> Options {
        let options = match &self.cluster {
            Some((cluster, interfaces, _)) if interfaces == name => cluster.options().ok(),
            _ => None,
        };
        options
            .unwrap_or_else(|| {
                let options = Options::trunk(name.split(','));
                let envelope = self.udp.map(|port| Envelope::Udp { port });
                let options = options.port(self.port).channels([self.channel]);
                options.envelope(envelope.unwrap_or(Envelope::DEFAULT))
            })
            .bulk(self.bulk)
            .lend(self.lend)
            .backend(self.backend)
            .sharing(self.sharing)
            .local(self.memory)
            .peer_timeout(self.peer_timeout)
    }
}

/// Without memory between them, processes of a node reach each other through the kernel. The kernel
/// carries nothing between the NIC itself and its children, so all must have children then.
fn sharing(memory: bool) -> OfiResult<Sharing> {
    match &variable("FI_GIGAE_SHARING", String::from("auto"))?[..] {
        "alone" => Ok(Sharing::Alone),
        "auto" if memory || local_processes() == 1 => Ok(Sharing::Auto),
        "auto" | "child" => Ok(Sharing::Child),
        other => {
            eprintln!("gigae: FI_GIGAE_SHARING is '{other}'; give alone, auto or child");
            Err(Code::INVALID)
        }
    }
}

/// This node's entry in the cluster file.
fn own_place() -> Option<(Cluster, String, Address)> {
    let cluster = Cluster::load().ok()?;
    let address = cluster.address(cluster.own().ok()?).ok()?;
    let interfaces = cluster.interfaces().ok()?.join(",");
    Some((cluster, interfaces, address))
}

/// Warns why no NIC can be used, once per process, and only if the environment names this provider
/// or its NIC. Otherwise the provider is one of many that libfabric tries.
fn warn(why: &str) {
    static WARNED: Once = Once::new();
    let providers = std::env::var("FI_PROVIDER").unwrap_or_default();
    let named = !providers.starts_with('^')
        && providers.split([',', ';']).any(|name| name.trim() == provider::NAME);
    if named || environment::variable("FI_GIGAE_IFACE").is_some() {
        WARNED.call_once(|| eprintln!("gigae: {why}"));
    }
}

/// Whether a UDP socket is the only link that this process may have: it may open no other, and no
/// broker listens. A broker that refuses the user is the administrator's word: that stays an error.
fn needs_a_socket() -> bool {
    let absent = |error: OpenError| match error {
        OpenError::Io { source, .. } => source.kind() == ErrorKind::NotFound,
        _ => false,
    };
    !is_permitted() && gigae::broker_nics().err().is_some_and(absent)
}

/// Whether this process may open a link without a broker: whether it may open AF_PACKET sockets.
fn is_permitted() -> bool {
    // There is no such socket, and the kernel says so to who may open others. To close one that is
    // there takes a grace period of RCU, up to some 30 ms, and MPI asks three times.
    match open_packet_socket(libc::SOCK_STREAM).map_err(|error| error.raw_os_error()) {
        Err(Some(libc::ESOCKTNOSUPPORT)) => true,
        Err(Some(libc::EPERM | libc::EAFNOSUPPORT)) => false,
        // A security module or a filter may judge by the type.
        _ => open_packet_socket(libc::SOCK_RAW).is_ok(),
    }
}

fn open_packet_socket(kind: libc::c_int) -> std::io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    match unsafe { libc::socket(libc::AF_PACKET, kind | libc::SOCK_CLOEXEC, 0) } {
        -1 => Err(std::io::Error::last_os_error()),
        // SAFETY: the kernel has just made it.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}
