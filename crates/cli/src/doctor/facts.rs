//! What `gigae doctor` asks of the machine. Nothing here judges, and nothing is changed but what an
//! endpoint changes while it is open.

use gigae::{
    Cluster, DiscoverError, Endpoint, Envelope, Mode, Offload, OpenError, Options, Sharing, Wait,
};
use gigae_broker::BrokerError;
use gigae_confine::Kernel;
use gigae_host::proc::{self, process};
use gigae_nic::{Nic, inventory};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The provider's file, by whose name libfabric takes it.
const PROVIDER: &str = "libgigae-fi.so";

/// Where libfabric looks by itself, or `make install` puts providers.
const PLACES: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu/libfabric", "/usr/lib/libfabric", "/usr/local/lib/libfabric"];

/// Where Open MPI's settings for all users of this machine lie, with Debian's and with its own
/// prefix.
const OPEN_MPI: [&str; 2] =
    ["/etc/openmpi/openmpi-mca-params.conf", "/usr/local/etc/openmpi-mca-params.conf"];

/// As `gigae discover` has it: one that no program uses.
const CHANNEL: u8 = 255;

/// The UDP port of endpoints that may be nothing but sockets, where the cluster file names none:
/// the provider's.
const UDP_PORT: u16 = 4791;

/// Others answer within this, or are not there.
const LISTEN: Duration = Duration::from_millis(300);

pub(super) struct Facts {
    /// As `uname -r` says it.
    pub(super) kernel: String,
    /// The effective set, a bit for each.
    pub(super) capabilities: u64,
    /// What daemons can confine themselves with.
    pub(super) confining: Kernel,
    /// Bytes that may be locked, if limited.
    pub(super) memlock: Option<u64>,
    /// Most bytes that a UDP socket may keep for an unprivileged process, if the kernel says it.
    pub(super) rmem_max: Option<u64>,
    /// The interface, if it is there.
    pub(super) nic: Option<Nic>,
    /// The address by which nodes in the UDP envelope reach it.
    pub(super) ip: Option<IpAddr>,
    /// What the kernel does for UDP sockets; `None` where it has no IPv4.
    pub(super) offload: Option<Offload>,
    /// What came of opening an endpoint there.
    pub(super) endpoint: Result<OpenedEndpoint, String>,
    /// Who has an endpoint there now: command and process.
    pub(super) users: Vec<String>,
    /// Interfaces that killed processes left.
    pub(super) left_over: Vec<String>,
    pub(super) broker: BrokerFacts,
    /// Its version, if `fi_info` is there.
    pub(super) libfabric: Option<String>,
    /// `FI_PROVIDER_PATH`.
    pub(super) provider_path: Option<String>,
    pub(super) provider: Provider,
    /// The file of Open MPI's that keeps it from using libfabric, unless the environment says
    /// otherwise.
    pub(super) open_mpi: Option<PathBuf>,
}

pub(super) struct OpenedEndpoint {
    /// How frames reach the wire.
    pub(super) mode: String,
    /// By AF_PACKET or in AF_XDP's generic mode.
    pub(super) is_above_driver: bool,
    /// It is by AF_PACKET, and AF_XDP would be the better one.
    pub(super) is_refused_xdp: bool,
    /// In the UDP envelope: the port of this node, and whether another program has it.
    pub(super) udp: Option<(u16, bool)>,
    /// By a UDP socket, since this process may open nothing else.
    pub(super) is_socket: bool,
    /// Why no better one.
    pub(super) reason: String,
    /// Names of those who answered.
    pub(super) neighbours: Vec<String>,
}

pub(super) struct BrokerFacts {
    /// Where it is looked for; nowhere if the environment says so.
    pub(super) path: Option<PathBuf>,
    pub(super) says: BrokerReply,
}

/// What a broker says to this user.
pub(super) enum BrokerReply {
    /// None listens.
    Nothing,
    /// It makes ports on these NICs for him.
    Nics(Vec<String>),
    /// It makes none.
    No(String),
}

pub(super) enum Provider {
    /// Among what libfabric lists for this NIC.
    Found,
    /// Not there, though its file may be.
    Missing { place: Option<PathBuf> },
}

impl OpenedEndpoint {
    pub(super) fn answers(&self) -> String {
        match &self.neighbours[..] {
            [] => "no other endpoint answers now".into(),
            names => format!("{} answer: {}", names.len(), names.join(", ")),
        }
    }
}

impl Facts {
    /// Takes about half a second.
    pub(super) fn gather(nic: &str) -> Self {
        // Before the endpoint, which would be found among them.
        let users = users(nic);
        let provider_path = std::env::var("FI_PROVIDER_PATH").ok().filter(|path| !path.is_empty());
        Self {
            kernel: proc::kernel_release(),
            capabilities: process::capabilities(&proc::read("/proc/self/status")).unwrap_or(0),
            confining: Kernel::look(),
            memlock: memlock(&proc::read("/proc/self/limits")),
            rmem_max: proc::read("/proc/sys/net/core/rmem_max").trim().parse().ok(),
            nic: inventory(Some(nic)).ok().and_then(|nics| nics.into_iter().next()),
            ip: gigae::ip_of(nic),
            offload: Offload::look().ok(),
            endpoint: open(nic),
            users,
            left_over: left_over(nic),
            broker: broker(),
            libfabric: libfabric(),
            provider: provider(nic, provider_path.as_deref()),
            provider_path,
            open_mpi: open_mpi(),
        }
    }
}

/// The soft limit in bytes; `None` without a limit.
fn memlock(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// In the envelope of the cluster file, or else Ethernet's, and in the UDP envelope where this
/// process may open nothing but a socket.
fn open(nic: &str) -> Result<OpenedEndpoint, String> {
    // A separate channel: others on this NIC must not notice.
    let options = || Options::new(nic).channels([CHANNEL]).wait(Wait::Sleep);
    let in_ip = |port| options().envelope(Envelope::Udp { port }).sharing(Sharing::Auto).open();
    let cluster = Cluster::load().ok().filter(|cluster| cluster.own().is_ok());
    let (opened, port) = match cluster.map(|cluster| cluster.envelope()) {
        Some(Envelope::Udp { port }) => (in_ip(port), Some(port)),
        _ => match options().open() {
            Err(OpenError::MissingCapability { .. } | OpenError::Refused { .. }) => {
                (in_ip(UDP_PORT), Some(UDP_PORT))
            }
            opened => (opened, None),
        },
    };
    let endpoint = opened.map_err(|error| error.to_string())?;
    let info = endpoint.link();
    // Another port id means another UDP port.
    let is_next = endpoint.identity().address.port_id() != 0;
    Ok(OpenedEndpoint {
        mode: info.mode.to_string(),
        is_above_driver: matches!(info.mode, Mode::Packet | Mode::PacketCalls | Mode::XdpGeneric),
        is_refused_xdp: info.mode == Mode::Packet && info.reason.starts_with("AF_XDP was refused"),
        udp: port.map(|port| (port, is_next)),
        is_socket: info.mode == Mode::Udp,
        reason: info.reason.clone(),
        neighbours: who_answers(&endpoint)?,
    })
}

fn who_answers(endpoint: &Endpoint) -> Result<Vec<String>, String> {
    match endpoint.discover(LISTEN) {
        Ok(neighbours) => Ok(neighbours.into_iter().map(|neighbour| neighbour.name).collect()),
        // Without an IPv4 address no node can be asked.
        Err(DiscoverError::NoSubnet(_)) => Ok(Vec::new()),
        // Sending a frame is the last that can fail.
        Err(error) => Err(error.to_string()),
    }
}

/// Endpoints that this user may look at, on this NIC and of this network namespace.
fn users(nic: &str) -> Vec<String> {
    let own = std::fs::read_link("/proc/self/ns/net").ok();
    let found = gigae_observe::find(None).map(|found| found.endpoints).unwrap_or_default();
    let here = found.into_iter().filter(|endpoint| {
        let namespace = std::fs::read_link(format!("/proc/{}/ns/net", endpoint.pid)).ok();
        namespace == own && endpoint.about.links.iter().any(|link| link.interface == nic)
    });
    here.map(|endpoint| format!("{} ({})", endpoint.command, endpoint.pid)).collect()
}

fn left_over(nic: &str) -> Vec<String> {
    let children = gigae_macvlan::children().unwrap_or_default();
    let left = children.into_iter().filter(|child| {
        child.left_over && child.parent.as_deref().is_none_or(|parent| parent == nic)
    });
    left.map(|child| child.name).collect()
}

fn broker() -> BrokerFacts {
    let path = gigae_broker::socket();
    let says = match path.as_deref().map(gigae_broker::nics) {
        None | Some(Err(BrokerError::Absent { .. })) => BrokerReply::Nothing,
        Some(Ok(nics)) => BrokerReply::Nics(nics),
        Some(Err(error)) => BrokerReply::No(error.to_string()),
    };
    BrokerFacts { path, says }
}

/// Debian's settings leave out what uses libfabric.
fn open_mpi() -> Option<PathBuf> {
    if std::env::var("OMPI_MCA_mtl").is_ok_and(|mtl| mtl == "ofi") {
        return None;
    }
    let leaves_out =
        |path: &PathBuf| proc::read(&path.display().to_string()).lines().any(leaves_ofi_out);
    OPEN_MPI.map(PathBuf::from).into_iter().find(leaves_out)
}

/// Whether a line of Open MPI's settings is one such as `mtl = ^ofi`.
fn leaves_ofi_out(line: &str) -> bool {
    let Some((name, value)) = line.split_once('=') else { return false };
    let left_out = value.trim().strip_prefix('^');
    name.trim() == "mtl" && left_out.is_some_and(|list| list.split(',').any(|one| one == "ofi"))
}

fn libfabric() -> Option<String> {
    let output = Command::new("fi_info").arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = said.lines().find_map(|line| line.strip_prefix("libfabric: "))?;
    Some(version.to_owned())
}

fn provider(nic: &str, path: Option<&str>) -> Provider {
    let mut command = Command::new("fi_info");
    let output =
        command.args(["-p", "gigae", "-t", "FI_EP_RDM"]).env("FI_GIGAE_IFACE", nic).output();
    let listed = output.is_ok_and(|output| {
        output.status.success()
            && String::from_utf8_lossy(&output.stdout).contains("provider: gigae")
    });
    if listed {
        return Provider::Found;
    }
    let own = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.parent()?.join("lib/libfabric")));
    let named =
        path.unwrap_or_default().split(':').filter(|part| !part.is_empty()).map(PathBuf::from);
    let places = named.chain(own).chain(PLACES.map(PathBuf::from));
    let place = places.map(|place| place.join(PROVIDER)).find(|file| file.is_file());
    Provider::Missing { place }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let limits = |value| {
            format!("Max locked memory         {value}              8388608              bytes\n")
        };
        assert_eq!(memlock(&limits("65536")), Some(65536));
        assert_eq!(memlock(&limits("unlimited")), None);
    }

    #[test]
    fn open_mpis_settings_are_read_as_debian_writes_them() {
        for line in ["mtl = ^ofi", "mtl=^psm,ofi", " mtl = ^ofi "] {
            assert!(leaves_ofi_out(line), "{line}");
        }
        for line in ["# mtl = ^ofi", "mtl = ofi", "btl = ^uct,openib,ofi", "mtl = ^psm", ""] {
            assert!(!leaves_ofi_out(line), "{line}");
        }
    }
}
