//! `gigae doctor`: whether messages can be sent from here, and if not, what to do.
//!
//! What is asked of the machine is in `facts.rs`; this is what it means, a function of the facts
//! alone.

mod facts;

use crate::discover::only_one_up;
use crate::outcome::complain;
use clap::Args;
use facts::{BrokerReply, Facts, Provider};
use gigae::{Cluster, Offload};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Show what is missing for messages to be sent on a NIC, and what to do next.
///
/// Opens an endpoint as a program would, and searches for other endpoints. Some drivers (igb and
/// others) reset the link for a few seconds. Run it on every node, as the user who will send. Exit
/// codes: 0 messages can be sent; 1 they cannot.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// The interface [default: this node's in the cluster file, else the only one that is up]
    interface: Option<String>,
}

/// What a line comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Good,
    /// Messages can be sent, but slower, or not by everybody, or not by everything.
    Doubt,
    /// Messages cannot be sent.
    Fault,
}

/// A line of the table.
#[derive(Clone, Debug)]
struct Check {
    about: &'static str,
    grade: Severity,
    found: String,
    /// What to do next; empty if nothing.
    next: String,
}

impl Check {
    fn good(about: &'static str, found: impl Into<String>) -> Self {
        Self { about, grade: Severity::Good, found: found.into(), next: String::new() }
    }

    fn doubt(about: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { about, grade: Severity::Doubt, found: found.into(), next: next.into() }
    }

    fn fault(about: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { about, grade: Severity::Fault, found: found.into(), next: next.into() }
    }
}

/// Bits of a capability set, linux/capability.h, with what each is for.
const CAPABILITIES: [(u32, &str, &str); 3] = [
    (13, "CAP_NET_RAW", "AF_PACKET and AF_XDP sockets"),
    (12, "CAP_NET_ADMIN", "attaching the XDP program"),
    (39, "CAP_BPF", "loading it"),
];
const CAP_NET_ADMIN: u32 = 12;
const CAP_IPC_LOCK: u32 = 14;

/// What a UDP socket that is a link asks the kernel to keep of received frames with MTU 1500, in
/// bytes. A socket for bulk data asks for half of it.
const SOCKET_MEMORY: u64 = 16 << 20;

/// What an AF_XDP endpoint's memory is by default: 1,024 frames to send and 4,096 to receive, of 4
/// KiB each. The kernel adds up those of all processes of a user.
const LOCKED: u64 = 5_120 << 12;

/// Frames that fit a receive ring while a program is not scheduled: a fifth of a millisecond at 1
/// Gbit/s.
const FEW_DESCRIPTORS: u32 = 256;

/// Since then, programs of BPF count on no memory limit and busy polling is there.
const GOOD_KERNEL: (u32, u32) = (5, 11);

/// Runs `gigae doctor`.
pub fn run(args: &DoctorArgs) -> ExitCode {
    let nic = match chosen(args) {
        Ok(nic) => nic,
        Err(what) => return complain(&what),
    };
    let checks = checks(&Facts::gather(&nic));
    print!("{}", table(&nic, &checks));
    if can_send(&checks) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn chosen(args: &DoctorArgs) -> Result<String, String> {
    if let Some(nic) = &args.interface {
        return Ok(nic.clone());
    }
    let known = Cluster::load().ok().and_then(|cluster| cluster.interfaces().ok());
    match known.and_then(|names| names.into_iter().next()) {
        Some(nic) => Ok(nic),
        None => only_one_up("name one: gigae doctor NIC"),
    }
}

fn can_send(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.grade != Severity::Fault)
}

fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![kernel(facts), privileges(facts)];
    checks.extend(memory(facts));
    checks.extend(nic(facts));
    checks.extend(rings(facts));
    checks.extend(queues(facts));
    checks.push(endpoint(facts));
    checks.extend(udp_port(facts));
    checks.push(sockets(facts));
    checks.extend(receive_memory(facts));
    checks.extend(users(facts));
    checks.extend(children(facts));
    checks.push(broker(facts));
    checks.push(daemons(facts));
    checks.extend(provider(facts));
    checks.extend(open_mpi(facts));
    checks
}

/// Those without which links are opened by a broker.
fn missing_capabilities(facts: &Facts) -> Vec<(&'static str, &'static str)> {
    let has = |bit: u32| facts.capabilities >> bit & 1 == 1;
    let missing = CAPABILITIES.iter().filter(|(bit, ..)| !has(*bit));
    missing.map(|&(_, name, what)| (name, what)).collect()
}

/// Whether a broker makes ports on this NIC for this user.
fn is_served(facts: &Facts) -> bool {
    let nic = facts.nic.as_ref().map(|nic| &nic.name);
    matches!(&facts.broker.says, BrokerReply::Nics(nics) if nics.iter().any(|name| Some(name) == nic))
}

fn kernel(facts: &Facts) -> Check {
    let mut numbers = facts.kernel.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version >= GOOD_KERNEL {
        true => Check::good("kernel", &facts.kernel),
        false => Check::doubt("kernel", &facts.kernel, "Linux 5.11 or newer is advised"),
    }
}

fn privileges(facts: &Facts) -> Check {
    let missing = missing_capabilities(facts);
    let names = missing.iter().map(|(name, what)| format!("{name} ({what})"));
    let names = names.collect::<Vec<_>>().join(", ");
    match &missing[..] {
        [] => Check::good("privileges", CAPABILITIES.map(|(_, name, _)| name).join(", ")),
        _ if is_served(facts) => Check::good("privileges", "none needed: the broker opens links"),
        // Whether it works without shows where an endpoint is opened.
        _ => Check::doubt(
            "privileges",
            format!("without {names}"),
            "run as root, with a broker (docs/reference/broker.md), or give the program: setcap cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM",
        ),
    }
}

/// The kernel counts an AF_XDP socket's memory as locked by the process that opens it.
fn memory(facts: &Facts) -> Option<Check> {
    let brokered = !missing_capabilities(facts).is_empty() && is_served(facts);
    let exempt = facts.capabilities >> CAP_IPC_LOCK & 1 == 1 || brokered;
    match facts.memlock? {
        _ if exempt => None,
        limit if limit >= LOCKED => None,
        limit => Some(Check::doubt(
            "locked memory",
            format!("at most {} KiB", limit >> 10),
            "AF_XDP needs 20 MiB for each process: ulimit -l unlimited, or memlock in /etc/security/limits.conf; Slurm: PropagateResourceLimitsExcept=MEMLOCK",
        )),
    }
}

fn nic(facts: &Facts) -> Vec<Check> {
    let Some(nic) = &facts.nic else { return Vec::new() };
    let driver = nic.driver.as_deref().unwrap_or("unknown");
    let xdp = match &nic.xdp {
        None => "XDP: the kernel does not say".to_owned(),
        Some(xdp) => {
            let parts = [
                (xdp.native, "native"),
                (xdp.redirect, "redirect"),
                (xdp.zero_copy, "zero-copy"),
                (xdp.rx_multi_buffer, "several buffers"),
            ];
            let has = parts.iter().filter(|(has, _)| *has).map(|(_, name)| *name);
            match has.collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => "XDP: generic only".into(),
                all => format!("XDP: {all}"),
            }
        }
    };
    let mtu = nic.mtu.map_or("unknown".into(), |mtu| mtu.to_string());
    let generic_only = nic.xdp.as_ref().is_some_and(|xdp| !xdp.native);
    vec![
        match generic_only {
            true => Check::doubt(
                "driver",
                format!("{driver}; {xdp}"),
                "slower than a driver with XDP of its own; choose another NIC if there is one: gigae nic",
            ),
            false => Check::good("driver", format!("{driver}; {xdp}")),
        },
        match nic.link_up {
            true => Check::good("link", format!("up, MTU {mtu}")),
            false => Check::fault(
                "link",
                "down, or without a carrier",
                format!("ip link set {} up; see to the cable and the switch's port", nic.name),
            ),
        },
    ]
}

fn rings(facts: &Facts) -> Option<Check> {
    let nic = facts.nic.as_ref()?;
    let rx = nic.rings?.rx;
    let found = format!("{} of at most {} descriptors", rx.current, rx.max);
    Some(match rx.current < FEW_DESCRIPTORS && rx.current < rx.max {
        true => {
            let next = format!("ethtool -G {} rx {}", nic.name, rx.max.min(4096));
            Check::doubt("receive ring", found, next)
        }
        false => Check::good("receive ring", found),
    })
}

/// Frames that are no IP go to the first queue with most drivers; only that one is listened to.
fn queues(facts: &Facts) -> Option<Check> {
    let nic = facts.nic.as_ref()?;
    let queues = nic.queues?;
    let receiving = queues.combined.current + queues.rx.current;
    (receiving > 1).then(|| {
        let name = &nic.name;
        let next = format!(
            "if frames do not arrive, steer them to the first: ethtool -N {name} flow-type ether proto 0x88b5 action 0, or ethtool -L {name} combined 1"
        );
        Check::doubt("queues", format!("{receiving}; the first is used"), next)
    })
}

fn endpoint(facts: &Facts) -> Check {
    match &facts.endpoint {
        // Texts of errors end in what to do.
        Err(what) => match what.split_once("; ") {
            Some((found, next)) => Check::fault("endpoint", found, next),
            None => Check::fault("endpoint", what, "docs/how-to/mpi.md, When it does not work"),
        },
        Ok(opened) => {
            let found = format!("{}, {}", opened.mode, opened.answers());
            match opened.is_refused_xdp {
                _ if opened.is_socket => Check::doubt(
                    "endpoint",
                    format!("{found}; in the UDP envelope, the only one without privileges"),
                    "choose it: Options::envelope, FI_GIGAE_BACKEND=udp for MPI, or envelope = { udp = 4791 } in the cluster file",
                ),
                true => Check::doubt(
                    "endpoint",
                    found,
                    format!("slower than AF_XDP: {}", opened.reason),
                ),
                false if opened.is_above_driver => {
                    Check::good("endpoint", format!("{found}; {}", opened.reason))
                }
                false => Check::good("endpoint", found),
            }
        }
    }
}

/// A firewall on the port shows only between two nodes.
fn udp_port(facts: &Facts) -> Option<Check> {
    let (port, in_use) = facts.endpoint.as_ref().ok()?.udp?;
    Some(match in_use {
        true => Check::doubt(
            "UDP port",
            format!("{port} is in use by another endpoint or program"),
            "programs that share the NIC take the next ports; others need one of their own: ss -ulnp",
        ),
        false => Check::good("UDP port", format!("{port} is free")),
    })
}

/// The UDP socket that carries long messages. The link may be one, too.
fn sockets(facts: &Facts) -> Check {
    let about = "bulk socket";
    let is_link = facts.endpoint.as_ref().is_ok_and(|opened| opened.is_socket);
    let nic = facts.nic.as_ref().map_or("NIC", |nic| &nic.name);
    let next = format!("ip address add ADDRESS/LENGTH dev {nic}");
    match (facts.ip, facts.offload) {
        (None, _) if is_link => Check::fault(about, "no IP address on this NIC", next),
        (None, _) => {
            Check::doubt(about, "none without an IP address: long messages are slower", next)
        }
        (Some(ip), None | Some(Offload { cuts: false, .. })) => Check::doubt(
            about,
            format!("{ip}; the kernel cuts no datagrams (UDP_SEGMENT): long messages are slower"),
            "use Linux 4.18 or newer",
        ),
        (Some(ip), Some(Offload { joins: false, .. })) => Check::doubt(
            about,
            format!("{ip}; the kernel joins no datagrams (UDP_GRO): each takes a system call"),
            "use Linux 5.0 or newer",
        ),
        (Some(ip), _) if ip.is_ipv6() && facts.endpoint.as_ref().is_ok_and(|o| o.udp.is_some()) => {
            Check::doubt(
                about,
                format!("{ip}; IPv6 only, so 'gigae discover' finds no node"),
                "name peers by address, or in the cluster file (docs/how-to/name-nodes.md)",
            )
        }
        (Some(ip), _) => {
            Check::good(about, format!("{ip}; the kernel has UDP_SEGMENT and UDP_GRO"))
        }
    }
}

/// What a UDP socket of a process without CAP_NET_ADMIN may keep. The kernel drops what exceeds it.
fn receive_memory(facts: &Facts) -> Option<Check> {
    let limit = facts.rmem_max.filter(|&limit| limit < SOCKET_MEMORY)?;
    let exempt = facts.capabilities >> CAP_NET_ADMIN & 1 == 1 || facts.ip.is_none();
    (!exempt).then(|| {
        Check::doubt(
            "receive memory",
            format!(
                "UDP sockets keep at most {} KiB: bursts of long messages may get lost",
                limit >> 10
            ),
            format!("sysctl -w net.core.rmem_max={SOCKET_MEMORY}"),
        )
    })
}

/// One AF_XDP endpoint per NIC; what is there explains why another gets less.
fn users(facts: &Facts) -> Option<Check> {
    let users = &facts.users;
    (!users.is_empty()).then(|| Check::good("in use by", users.join(", ")))
}

fn children(facts: &Facts) -> Option<Check> {
    let left: Vec<_> = facts.left_over.iter().map(String::as_str).collect();
    (!left.is_empty()).then(|| {
        let next = format!(
            "harmless; the next program that shares the NIC removes them, or: ip link del {}",
            left[0]
        );
        Check::doubt(
            "left over",
            format!("interfaces of killed processes: {}", left.join(", ")),
            next,
        )
    })
}

/// What `gigae broker` and `gigae serve` can confine themselves with on this kernel.
fn daemons(facts: &Facts) -> Check {
    let found = facts.confining.to_string();
    match facts.confining.is_whole() {
        true => Check::good("confining", found),
        false => Check::doubt(
            "confining",
            found,
            "gigae broker and gigae serve confine themselves less; Linux 6.12 or newer has all, with landlock in lsm=",
        ),
    }
}

/// A user with privileges needs none.
fn broker(facts: &Facts) -> Check {
    let Some(path) = facts.broker.path.as_ref().map(|path| path.display()) else {
        return Check::good("broker", "none is asked: GIGAE_BROKER says never");
    };
    let (found, next) = match &facts.broker.says {
        BrokerReply::Nics(nics) if is_served(facts) => {
            let found = format!("at {path}, makes ports on {} for this user", nics.join(", "));
            return Check::good("broker", found);
        }
        BrokerReply::Nics(nics) => (
            format!("at {path}, makes ports on {} only", nics.join(", ")),
            "name that NIC, or have this one added to nics in /etc/gigae/broker.toml",
        ),
        BrokerReply::No(why) => match why.rsplit_once("; ") {
            Some((found, next)) => (format!("at {path}: {found}"), next),
            None => (format!("at {path}: {why}"), "see what it says: journalctl -u gigae-broker"),
        },
        BrokerReply::Nothing => (
            format!("none at {path}"),
            "have the administrator start one: systemctl start gigae-broker (docs/reference/broker.md)",
        ),
    };
    match missing_capabilities(facts).is_empty() {
        true => Check::good("broker", format!("{found}; needed only without privileges")),
        false => Check::doubt("broker", found, next),
    }
}

fn provider(facts: &Facts) -> Vec<Check> {
    let version = match &facts.libfabric {
        None => {
            let next = "for MPI: apt-get install libfabric1 libfabric-bin";
            return vec![Check::doubt("libfabric", "fi_info cannot be run", next)];
        }
        Some(version) => Check::good("libfabric", version),
    };
    let provider = match &facts.provider {
        Provider::Found => Check::good("provider", "libfabric finds gigae on this NIC"),
        Provider::Missing { place: Some(place) } => Check::doubt(
            "provider",
            format!("libfabric does not list gigae on this NIC; {} is there", place.display()),
            match facts.provider_path.is_some() {
                true => "it lists NICs only where an endpoint may be opened; see above".to_owned(),
                false => format!("export FI_PROVIDER_PATH={}", directory(place)),
            },
        ),
        Provider::Missing { place: None } => Check::doubt(
            "provider",
            match &facts.provider_path {
                Some(path) => format!("libgigae-fi.so is not in FI_PROVIDER_PATH, {path}"),
                None => "libgigae-fi.so is not where libfabric looks".to_owned(),
            },
            "for MPI: make install, then export FI_PROVIDER_PATH=PREFIX/lib/libfabric",
        ),
    };
    vec![version, provider]
}

fn open_mpi(facts: &Facts) -> Option<Check> {
    facts.open_mpi.as_ref().map(|file| {
        Check::doubt(
            "Open MPI",
            format!("{} has it not use libfabric", file.display()),
            "for Open MPI: export OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi OMPI_MCA_osc=pt2pt",
        )
    })
}

fn directory(file: &std::path::Path) -> String {
    file.parent().map_or_else(String::new, |place| place.display().to_string())
}

/// A line each, what to do next below it.
fn table(nic: &str, checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.about.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Check { about, grade, found, next } in checks {
        let word = match grade {
            Severity::Good => "ok",
            Severity::Doubt => "note",
            Severity::Fault => "FAULT",
        };
        let found = found.replace('\n', " ");
        let _ = writeln!(text, "{about:width$}  {word:5}  {found}");
        if !next.is_empty() {
            let _ = writeln!(text, "{:width$}         -> {}", "", next.replace('\n', " "));
        }
    }
    let _ = match can_send(checks) {
        true => writeln!(text, "messages can be sent on {nic}"),
        false => writeln!(text, "messages cannot be sent on {nic}; see FAULT above"),
    };
    text
}

#[cfg(test)]
mod tests;
