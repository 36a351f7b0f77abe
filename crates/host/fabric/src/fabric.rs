//! Creating a fabric, finding an existing one, and removing it.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use gigae_host::proc::process;
use serde::Serialize;

use crate::delay::{self, ForwarderProcess};
use crate::feature::{self, Sending};
use crate::netns::{self, NetnsState};
use crate::state::{self, FabricState, Lock, OwnerProcess};
use crate::{FabricConfig, FabricError, Impairments, Node, Rate, impair, tool, topology};

/// Links of a new fabric come up within milliseconds, or once the kernel's lock of interfaces is
/// free, which others may hold for more than a minute on a busy machine; this long only if
/// something is wrong.
const READY_WITHIN: Duration = Duration::from_secs(300);

/// Multicast reports of all nodes are out within 20 ms, or once the kernel's worker has had its
/// turn on a busy machine.
const SILENT_WITHIN: Duration = Duration::from_secs(5);

/// Bit numbers in a capability set, linux/capability.h.
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

/// An existing fabric.
///
/// The value returned by [`Fabric::up`] takes the fabric down when it is dropped, unless
/// [`Fabric::keep`] was called. A fabric whose process was killed stays until
/// [`Fabric::down`] or [`Fabric::down_abandoned`].
#[derive(Debug)]
pub struct Fabric {
    pub(crate) config: FabricConfig,
    /// Set while dropping this value takes the fabric down.
    guarded_by: Option<OwnerProcess>,
    /// Ends with this value, too, unless it is kept.
    forwarder: Option<ForwarderProcess>,
}

/// What [`Fabric::down`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Down {
    /// Namespaces that were removed.
    pub removed: Vec<String>,
    /// Processes that still run in one of them, cut off from the network. They are not ended; the
    /// namespace (nameless now) goes when they do.
    pub left_running: Vec<Process>,
}

/// A process inside a fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name, as `ps -o comm` shows it.
    pub command: String,
    /// The namespace that it, or one of its threads, is in.
    pub namespace: String,
}

impl Fabric {
    /// Creates a fabric: namespaces, links, shaping, impairments; returns when every link carries
    /// frames.
    ///
    /// Fails without leaving anything behind. Costs some ten processes and 50 ms for two nodes,
    /// half a second for 64. Waits for another process that creates or removes this fabric.
    pub fn up(config: FabricConfig) -> Result<Fabric, FabricError> {
        config.check()?;
        Fabric::preflight()?;
        let _lock = Lock::take(&config.prefix)?;
        refuse_taken_names(&config.prefix)?;
        let owner = OwnerProcess::this();
        let (forwarder, counters) = (None, None);
        let mut state = FabricState { config, owner, kept: false, forwarder, counters };
        state::write(&state)?;
        match build(&mut state) {
            Ok(forwarder) => {
                Ok(Fabric { config: state.config, guarded_by: Some(owner), forwarder })
            }
            Err(error) => {
                // The first error is the one to report.
                let _ = take_down(&state.config.prefix);
                Err(error)
            }
        }
    }

    /// Opens an existing fabric. Dropping the value leaves the fabric as it is.
    pub fn attach(prefix: &str) -> Result<Fabric, FabricError> {
        crate::config::check_prefix(prefix)?;
        let absent = || FabricError::Absent { prefix: prefix.to_owned() };
        let state = state::read(prefix).ok_or_else(absent)?;
        let last = topology::node_name(prefix, state.config.nodes);
        for name in [topology::switch_name(prefix), last] {
            if netns::look(&name)? != (NetnsState::Namespace { mark: topology::mark(prefix) }) {
                return Err(absent());
            }
        }
        Ok(Fabric { config: state.config, guarded_by: None, forwarder: None })
    }

    /// Waits until every link carries frames, as [`Fabric::up`] does. `ip link set ... up` in a
    /// node returns before that: the switch forwards to the node again only after the kernel's
    /// worker has got the lock of interfaces, which others may hold for more than a minute.
    ///
    /// Every interface of the nodes must be up. One that is not is an error after minutes.
    pub fn await_links(&self) -> Result<(), FabricError> {
        await_links(&self.config)
    }

    /// Lets the fabric outlive this value and this process.
    pub fn keep(&mut self) -> Result<(), FabricError> {
        let _lock = Lock::take(&self.config.prefix)?;
        if let Some(forwarder) = &mut self.forwarder {
            forwarder.keep()?;
        }
        if let Some(mut state) = state::read(&self.config.prefix) {
            state.kept = true;
            state::write(&state)?;
        }
        self.guarded_by = None;
        Ok(())
    }

    /// Changes what the switch does to frames, from the next frame on; counters and the sequence of
    /// choices begin again. [`Impairments::default`] takes the impairments away.
    ///
    /// While the change is under way frames pass untouched. Costs one process and 1 ms per port.
    pub fn impair(&mut self, impairments: &Impairments) -> Result<(), FabricError> {
        let mut config = self.config.clone();
        config.set_impairments(impairments);
        config.check()?;
        let _lock = Lock::take(&self.config.prefix)?;
        let prefix = &self.config.prefix;
        let mut state =
            state::read(prefix).ok_or_else(|| FabricError::Absent { prefix: prefix.to_owned() })?;
        if state.counters.take().is_some() {
            netns::inside(&topology::switch_name(prefix), || impair::detach(&state.config))?;
        }
        state.config.set_impairments(impairments);
        state::write(&state)?;
        for node in self.nodes() {
            netns::inside(&node.name, || set_sending(&state.config))?;
        }
        if let Err(error) = attach_impairments(&mut state) {
            state.config.set_impairments(&Impairments::default());
            state::write(&state)?;
            return Err(error);
        }
        self.config = state.config;
        Ok(())
    }

    /// Removes the fabric `prefix`, or what a crash left of it. If there is nothing, that is
    /// not an error.
    ///
    /// Only namespaces that carry the fabric's mark are removed. One of a matching name without the
    /// mark is left alone and reported as [`FabricError::Foreign`], after everything else is gone.
    /// Processes inside are not ended but named in the result.
    pub fn down(prefix: &str) -> Result<Down, FabricError> {
        crate::config::check_prefix(prefix)?;
        require_capabilities()?;
        let _lock = Lock::take(prefix)?;
        take_down(prefix)
    }

    /// Prefixes of all fabrics that exist, or of which a crash has left something, sorted.
    pub fn list() -> Vec<String> {
        state::prefixes()
    }

    /// Removes every fabric that was not kept and whose process is gone (killed before it could
    /// take it down).
    pub fn down_abandoned() -> Result<Vec<Down>, FabricError> {
        require_capabilities()?;
        let abandoned = |prefix: &String| {
            state::read(prefix).is_some_and(|state| !state.kept && !state.owner.lives())
        };
        let take = |prefix: &String| {
            let _lock = Lock::take(prefix)?;
            // Another process may have done it in the meantime, and created another one.
            if abandoned(prefix) { take_down(prefix) } else { Ok(Down::default()) }
        };
        state::prefixes().iter().filter(|prefix| abandoned(prefix)).map(take).collect()
    }

    /// Says, without making anything, whether a fabric can be created here: privileges and
    /// programs.
    pub fn preflight() -> Result<(), FabricError> {
        require_capabilities()?;
        tool::require("ip")?;
        tool::require("tc")?;
        Ok(())
    }

    /// The settings.
    pub fn config(&self) -> &FabricConfig {
        &self.config
    }

    /// Node `number`, counted from 1.
    ///
    /// # Panics
    ///
    /// When the fabric has no node of that number.
    pub fn node(&self, number: u16) -> Node {
        let nodes = self.config.nodes;
        assert!((1..=nodes).contains(&number), "the fabric has nodes 1 to {nodes}, not {number}");
        Node::new(&self.config.prefix, number, self.config.networks)
    }

    /// The names of every node's interfaces, one to each network, in their order.
    pub fn interfaces(&self) -> Vec<String> {
        (0..self.config.networks).map(topology::interface).collect()
    }

    /// The node that a person means by `2`, `n2` or the full name of its namespace.
    pub fn find(&self, name: &str) -> Result<Node, FabricError> {
        let nodes = self.config.nodes;
        (1..=nodes)
            .map(|number| (number, self.node(number)))
            .find(|(number, node)| {
                name == node.name || name.strip_prefix('n').unwrap_or(name) == number.to_string()
            })
            .map(|(_, node)| node)
            .ok_or_else(|| {
                FabricError::config(format!("there is no node {name:?}; choose n1 to n{nodes}"))
            })
    }

    /// All nodes, in order.
    pub fn nodes(&self) -> Vec<Node> {
        (1..=self.config.nodes).map(|number| self.node(number)).collect()
    }

    /// The link rate, `None` when not shaped.
    pub fn rate(&self) -> Option<Rate> {
        self.config.rate
    }

    /// The most payload, in bytes per second, that a link lets through; see
    /// [`FabricConfig::payload_limit`].
    pub fn payload_limit(&self, way: [u16; 2], payload: u32, header: u32) -> Option<f64> {
        self.config.payload_limit(way, payload, header)
    }
}

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.removed.len() {
            0 => writeln!(f, "there was no fabric")?,
            _ => writeln!(f, "removed {}", self.removed.join(", "))?,
        }
        for Process { pid, command, namespace } in &self.left_running {
            writeln!(
                f,
                "process {pid} ({command}) still runs in what was {namespace}; end it yourself"
            )?;
        }
        Ok(())
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        // A forked child that inherited the value does not own the fabric.
        if self.guarded_by.is_some_and(|owner| owner.pid == std::process::id())
            && let Err(error) = Fabric::down(&self.config.prefix)
        {
            eprintln!("gigae: the fabric {} was not removed: {error}", self.config.prefix);
        }
    }
}

/// Fails when a namespace with one of the fabric's names exists, even a foreign one.
fn refuse_taken_names(prefix: &str) -> Result<(), FabricError> {
    for name in netns::names()? {
        if topology::is_name(prefix, &name) {
            return Err(match netns::look(&name)? {
                NetnsState::Nothing => continue,
                NetnsState::Namespace { mark } if mark != topology::mark(prefix) => {
                    FabricError::Foreign { name }
                }
                NetnsState::Remnant if state::read(prefix).is_none() => {
                    FabricError::Foreign { name }
                }
                _ => FabricError::InUse { prefix: prefix.to_owned() },
            });
        }
    }
    Ok(())
}

/// Makes all of it; returns the forwarder, if there is a delay.
fn build(state: &mut FabricState) -> Result<Option<ForwarderProcess>, FabricError> {
    let config = &state.config;
    let mark = topology::mark(&config.prefix);
    let switch = topology::switch_name(&config.prefix);
    let numbers = || 1..=config.nodes;
    let with_ipv6 = fs::exists("/proc/sys/net/ipv6/conf/default").unwrap_or(false);
    netns::create(&switch, &mark, || write_sysctls(&topology::QUIET_SWITCH))?;
    for number in numbers() {
        let name = topology::node_name(&config.prefix, number);
        netns::create(&name, &mark, || write_sysctls(&topology::QUIET_NODE))?;
    }
    netns::inside(&switch, || {
        tool::batch("ip", &topology::wire_up(config))?;
        match topology::shape(config) {
            script if script.is_empty() => Ok(()),
            script => tool::batch("tc", &script),
        }
    })?;
    for number in numbers() {
        let name = topology::node_name(&config.prefix, number);
        netns::inside(&name, || {
            tool::batch("ip", &topology::address(config, number, with_ipv6))?;
            match topology::shape_sending(config, number) {
                script if script.is_empty() => {}
                script => tool::batch("tc", &script)?,
            }
            set_sending(config)
        })?;
    }
    let start = |delay| ForwarderProcess::start(config, delay);
    let forwarder = config.delay.map(start).transpose()?;
    if let Some(forwarder) = &forwarder {
        state.forwarder = Some(forwarder.process());
        state::write(state)?;
    }
    let config = &state.config;
    await_links(config)?;
    let deadline = Instant::now() + SILENT_WITHIN;
    for number in numbers() {
        let name = topology::node_name(&config.prefix, number);
        netns::inside(&name, || {
            await_silence(deadline);
            Ok(())
        })?;
    }
    attach_impairments(state)?;
    Ok(forwarder)
}

/// Attaches the impairments that the state asks for, if any, and notes their counters.
fn attach_impairments(state: &mut FabricState) -> Result<(), FabricError> {
    if state.config.impairments().is_none() {
        return Ok(());
    }
    let switch = topology::switch_name(&state.config.prefix);
    let attached = netns::inside(&switch, || {
        impair::attach(&state.config).inspect_err(|_| {
            // Some ports may have their filters already; none is better than some.
            let _ = impair::detach(&state.config);
        })
    });
    state.counters = Some(attached?);
    state::write(state)
}

/// In a node: how its interface must send for this fabric; see [`feature`].
fn set_sending(config: &FabricConfig) -> Result<(), FabricError> {
    let sending = match config {
        _ if config.corrupt > 0.0 => Sending::Checksummed,
        _ if config.is_shaped() || !config.impairments().is_none() => Sending::Segmented,
        _ if config.delay.is_some() => Sending::TcpWhole,
        _ => Sending::AsFound,
    };
    (0..config.networks)
        .try_for_each(|network| feature::set_sending(&topology::interface(network), sending))
        .map_err(|error| FabricError::system("setting the offloads of a node", error))
}

/// Writes settings under `/proc/sys/net`, which shows the calling thread's namespace. A kernel
/// without IPv6 does not have the IPv6 settings.
fn write_sysctls(settings: &[topology::KernelSetting]) -> Result<(), FabricError> {
    for topology::KernelSetting { file, value } in settings {
        let path = format!("/proc/sys/net/{file}");
        match fs::write(&path, value) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(FabricError::system(format!("writing {path}"), error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A port carries frames once the bridge forwards through it and its queue replaced the one that
/// drops everything ("noop"); both happen a moment after the link came up.
fn switch_is_ready(link: &serde_json::Value) -> bool {
    let forwards = link["linkinfo"]["info_slave_data"]["state"] == "forwarding";
    link["ifname"].as_str().is_some_and(|name| name.starts_with(topology::BRIDGE))
        || link["ifname"] == "lo"
        || forwards && node_is_ready(link)
}

fn node_is_ready(link: &serde_json::Value) -> bool {
    link["ifname"] == "lo" || link["operstate"] == "UP" && link["qdisc"] != "noop"
}

/// Waits until every link of the switch and of the nodes carries frames.
fn await_links(config: &FabricConfig) -> Result<(), FabricError> {
    // The forwarder's ports have no bridge.
    let switch = if config.delay.is_some() { node_is_ready } else { switch_is_ready };
    netns::inside(&topology::switch_name(&config.prefix), || await_ready(switch))?;
    (1..=config.nodes).try_for_each(|number| {
        let name = topology::node_name(&config.prefix, number);
        netns::inside(&name, || await_ready(node_is_ready))
    })
}

/// Waits until all links of the calling thread's namespace are ready.
fn await_ready(ready: fn(&serde_json::Value) -> bool) -> Result<(), FabricError> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        let links = tool::json("ip", &["-details", "link", "show"])?;
        let Some(links) = links.as_array() else { return Ok(()) };
        let Some(waiting) = links.iter().find(|&link| !ready(link)) else { return Ok(()) };
        if Instant::now() > deadline {
            let what = format!("waiting for the link {}", waiting["ifname"]);
            return Err(FabricError::system(what, std::io::ErrorKind::TimedOut));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the node has announced its IPv6 multicast group, which it does by a frame or two,
/// mostly in the first hundredth of a second, so that they do not fall into what is measured. On a
/// kernel without this counter there is nothing to wait for; one that counts otherwise costs the
/// time until the deadline and nothing else.
fn await_silence(deadline: Instant) {
    let counters = format!("/proc/thread-self/net/dev_snmp6/{}", topology::INTERFACE);
    while let Ok(text) = fs::read_to_string(&counters) {
        let reports = text
            .lines()
            .filter_map(|line| line.strip_prefix("Icmp6OutMLDv2Reports"))
            .find_map(|count| count.trim().parse::<u64>().ok());
        if reports.is_none_or(|count| count >= 2) || Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Removes what carries the mark. The lock is held by the caller.
fn take_down(prefix: &str) -> Result<Down, FabricError> {
    let mark = topology::mark(prefix);
    let written = state::read(prefix);
    let known = written.is_some();
    if let Some(forwarder) = written.and_then(|state| state.forwarder) {
        delay::end(&forwarder);
    }
    let (mut own, mut foreign) = (Vec::new(), None);
    for name in netns::names()?.into_iter().filter(|name| topology::is_name(prefix, name)) {
        match netns::look(&name)? {
            NetnsState::Nothing => {}
            NetnsState::Remnant if known => own.push(name),
            NetnsState::Namespace { mark: found } if found == mark => own.push(name),
            _ => foreign = Some(name),
        }
    }
    own.sort();
    let left_running = processes(&own);
    let switch = topology::switch_name(prefix);
    if own.contains(&switch) {
        // Only speeds things up: links end here and now, and not when the last process leaves.
        let _ = netns::inside(&switch, || tool::batch("ip", &topology::tear_down()));
    }
    for name in &own {
        netns::remove(name)?;
    }
    state::forget(prefix)?;
    match foreign {
        Some(name) => Err(FabricError::Foreign { name }),
        None => Ok(Down { removed: own, left_running }),
    }
}

/// Processes with a thread in one of the namespaces `names`.
pub(crate) fn processes(names: &[String]) -> Vec<Process> {
    let inodes: Vec<(u64, &String)> =
        names.iter().filter_map(|name| Some((netns::inode(name).ok()?, name))).collect();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<Process> = pids
        .flat_map(|pid: u32| {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let mut inside: Vec<u64> = tasks
                .filter_map(|task| Some(fs::metadata(task.path().join("ns/net")).ok()?.ino()))
                .collect();
            inside.sort_unstable();
            inside.dedup();
            let inside: Vec<String> = inodes
                .iter()
                .filter(|(inode, _)| inside.contains(inode))
                .map(|(_, name)| (*name).clone())
                .collect();
            inside.into_iter().map(move |namespace| Process {
                pid,
                command: process::command(pid),
                namespace,
            })
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// Fails when this process may not make network namespaces and change them.
pub(crate) fn require_capabilities() -> Result<(), FabricError> {
    let needed = 1_u64 << CAP_NET_ADMIN | 1 << CAP_SYS_ADMIN;
    let status = fs::read_to_string("/proc/thread-self/status")
        .map_err(|error| FabricError::system("reading this process's capabilities", error))?;
    match process::capabilities(&status) {
        Some(set) if set & needed == needed => Ok(()),
        _ => Err(FabricError::Privileges),
    }
}
