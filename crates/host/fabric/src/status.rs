//! What an existing fabric is and what its ports have done, as data and as a small table.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::fabric::processes;
use crate::{DelayCounters, Fabric, FabricConfig, FabricError, ImpairmentCounters, Node, Process};
use crate::{delay, impair, netns, state, tool, topology};

/// The settings and counters of an existing fabric.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Its settings.
    pub config: FabricConfig,
    /// True when it outlives the process that created it.
    pub kept: bool,
    /// Its nodes, in order, each with the port that leads to it.
    pub nodes: Vec<NodeStatus>,
    /// What the forwarder did, if the fabric has a delay.
    pub delay: Option<DelayCounters>,
    /// Whether the fabric has a delay and its forwarder has ended: no frame passes any longer.
    pub forwarder_ended: bool,
    /// Processes inside it.
    pub processes: Vec<Process>,
}

/// A node and the switch's port that leads to it.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// The node.
    pub node: Node,
    /// What the port sent to it.
    pub port: PortCounters,
    /// What the impairments did, if any are set.
    pub impairments: Option<ImpairmentCounters>,
}

/// Counters of a port of the switch, in the direction of its node, since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PortCounters {
    /// Frames sent to the node.
    pub frames: u64,
    /// Their bytes, the 14 of the Ethernet header included.
    pub bytes: u64,
    /// Frames dropped because the port's buffer was full. Zero when not shaped.
    pub dropped: u64,
    /// How often a frame had to wait for tokens. Zero when not shaped.
    pub overlimits: u64,
    /// Bytes that wait in the port's buffer now.
    pub queued: u64,
}

impl Fabric {
    /// Settings, counters and processes of the fabric. Costs two processes and a walk over `/proc`.
    pub fn status(&self) -> Result<Status, FabricError> {
        let prefix = &self.config.prefix;
        let state =
            state::read(prefix).ok_or_else(|| FabricError::Absent { prefix: prefix.to_owned() })?;
        let ports = self.port_counters()?;
        let impairments = self.impairment_counters()?;
        let nodes = self.nodes().into_iter().enumerate().map(|(place, node)| NodeStatus {
            node,
            port: ports[place],
            impairments: impairments.get(place).copied(),
        });
        let mut names: Vec<String> = self.nodes().into_iter().map(|node| node.name).collect();
        names.push(topology::switch_name(prefix));
        Ok(Status {
            nodes: nodes.collect(),
            delay: self.delay_counters(),
            forwarder_ended: state.forwarder.is_some_and(|one| !delay::runs(&one)),
            processes: processes(&names),
            kept: state.kept,
            config: state.config,
        })
    }

    /// What the switch's ports sent, one entry per node; all zero for a cable. Costs two processes.
    pub fn port_counters(&self) -> Result<Vec<PortCounters>, FabricError> {
        let switch = topology::switch_name(&self.config.prefix);
        let (links, queues) = netns::inside(&switch, || {
            let links = tool::json("ip", &["-statistics", "link", "show"])?;
            let queues = tool::json("tc", &["-statistics", "qdisc", "show"])?;
            Ok((links, queues))
        })?;
        Ok((1..=self.config.nodes)
            .map(|number| port_counters(&topology::port(number), &links, &queues))
            .collect())
    }

    /// What the forwarder did since the fabric was created; `None` without a delay. Written when
    /// the last frame that waited has left, and every 10 ms while frames wait.
    pub fn delay_counters(&self) -> Option<DelayCounters> {
        let counters = || delay::counters(&self.config.prefix).unwrap_or_default();
        self.config.delay.map(|_| counters())
    }

    /// An error if the fabric has a delay and its forwarder has ended: no frame passes any longer.
    pub fn check_forwarder(&self) -> Result<(), FabricError> {
        let prefix = &self.config.prefix;
        let forwarder = self.config.delay.and_then(|_| state::read(prefix)?.forwarder);
        match forwarder {
            Some(process) if !delay::runs(&process) => {
                Err(FabricError::ForwarderEnded { prefix: prefix.clone() })
            }
            _ => Ok(()),
        }
    }

    /// What the impairments did at each node's port since they were set, one entry per node; empty
    /// while none are set. Two system calls per port.
    pub fn impairment_counters(&self) -> Result<Vec<ImpairmentCounters>, FabricError> {
        match state::read(&self.config.prefix).and_then(|state| state.counters) {
            Some(id) => impair::counters(id, self.config.nodes),
            None => Ok(Vec::new()),
        }
    }
}

fn port_counters(port: &str, links: &Value, queues: &Value) -> PortCounters {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let entry = |list: &Value, key: &str, wanted: &dyn Fn(&Value) -> bool| {
        let list = list.as_array().into_iter().flatten();
        list.into_iter()
            .find(|entry| entry[key] == port && wanted(entry))
            .cloned()
            .unwrap_or_default()
    };
    let link = entry(links, "ifname", &|_| true);
    let bucket = entry(queues, "dev", &|queue| queue["kind"] == "tbf");
    PortCounters {
        frames: number(&link["stats64"]["tx"]["packets"]),
        bytes: number(&link["stats64"]["tx"]["bytes"]),
        dropped: number(&bucket["drops"]),
        overlimits: number(&bucket["overlimits"]),
        queued: number(&bucket["backlog"]),
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.config;
        let unshaped = if config.cable { "cable, not shaped" } else { "not shaped" };
        let rate = config.rate.map_or(unshaped.to_owned(), |rate| {
            format!("{rate}, buffer {} B, burst {} B", config.buffer, config.burst)
        });
        let mut mtus: Vec<String> =
            (1..=config.nodes).map(|node| config.mtu_of(node).to_string()).collect();
        mtus.dedup();
        let switch = config.switch_mtu.map_or(String::new(), |mtu| format!(" (switch {mtu})"));
        let (prefix, nodes, mtus) = (&config.prefix, config.nodes, mtus.join(" "));
        writeln!(f, "fabric {prefix}: {nodes} nodes, MTU {mtus}{switch}, {rate}")?;
        if let (Some(delay), Some(counters)) = (config.delay, self.delay) {
            let DelayCounters { frames, dropped, failed, peak, .. } = counters;
            let late = counters.late_us();
            writeln!(
                f,
                "delay {delay}: {frames} frames, {late:.1} us late on average, {dropped} dropped, {failed} failed, at most {peak} B of {} held",
                config.delay_buffer
            )?;
        }
        if self.forwarder_ended {
            writeln!(f, "forwarder ended: no frame passes; take the fabric down and up again")?;
        }
        let impaired = !config.impairments().is_none();
        if impaired {
            let FabricConfig { loss, duplicate, corrupt, seed, .. } = config;
            writeln!(
                f,
                "impairments: loss {loss}, duplicate {duplicate}, corrupt {corrupt}, seed {seed}"
            )?;
        }
        write!(f, "{:<14} {:<17} {:<12} {:<9}", "node", "MAC", "IPv4", "IPv6")?;
        write!(f, " {:>10} {:>8}", "frames", "dropped")?;
        writeln!(f, "{}", if impaired { "    lost  doubled corrupted" } else { "" })?;
        for NodeStatus { node, port, impairments } in &self.nodes {
            let mac = topology::written(node.mac);
            let (ipv4, ipv6) = (node.ipv4.to_string(), node.ipv6.to_string());
            write!(f, "{:<14} {mac:<17} {ipv4:<12} {ipv6:<9}", node.name)?;
            write!(f, " {:>10} {:>8}", port.frames, port.dropped)?;
            if let Some(counters) = impairments {
                let ImpairmentCounters { dropped, duplicated, corrupted, .. } = counters;
                write!(f, " {dropped:>7} {duplicated:>8} {corrupted:>9}")?;
            }
            writeln!(f)?;
        }
        for process in &self.processes {
            writeln!(f, "in {}: {} {}", process.namespace, process.pid, process.command)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_of_the_port_and_its_bucket() {
        let links = serde_json::json!([
            {"ifname": "p1", "stats64": {"tx": {"packets": 3, "bytes": 300}}},
            {"ifname": "p2", "stats64": {"tx": {"packets": 4, "bytes": 400}}},
        ]);
        let queues = serde_json::json!([
            {"kind": "clsact", "dev": "p2", "drops": 99},
            {"kind": "tbf", "dev": "p2", "drops": 1, "overlimits": 2, "backlog": 5},
        ]);
        let port = port_counters("p2", &links, &queues);
        assert_eq!(
            port,
            PortCounters { frames: 4, bytes: 400, dropped: 1, overlimits: 2, queued: 5 }
        );
        assert_eq!(port_counters("p1", &links, &queues).dropped, 0);
    }
}
