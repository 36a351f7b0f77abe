//! Names, addresses and the `ip` and `tc` scripts of a fabric; pure functions of its settings.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::config::{WIRE_MINIMUM, WIRE_OVERHEAD};
use crate::{FabricConfig, Rate};

/// A node's interface to the first network.
pub(crate) const INTERFACE: &str = "eth0";

/// The switch's bridge; those of further networks have a number behind.
pub(crate) const BRIDGE: &str = "switch";

/// A node's interface to a network, counted from 0.
pub(crate) fn interface(network: u16) -> String {
    format!("eth{network}")
}

/// The bridge of a network.
fn bridge(network: u16) -> String {
    if network == 0 { BRIDGE.to_owned() } else { format!("{BRIDGE}{network}") }
}

/// Interface index of the switch's port 0; port `n` has `PORT_INDEX + n`. Fixed so that the
/// impairment program knows its port from the frame alone, and far above what a new namespace
/// gives out by itself. Ports of further networks, which it does not see, have [`NETWORK_INDEX`]
/// more each.
pub(crate) const PORT_INDEX: u32 = 1000;
const NETWORK_INDEX: u32 = 100;

/// Interface group of the ports, so that one command removes them all.
const PORT_GROUP: u32 = 7;

/// The alias by which the namespaces of a fabric are known.
pub(crate) fn mark(prefix: &str) -> String {
    format!("gigae-fabric:{prefix}")
}

/// Namespace of the switch.
pub(crate) fn switch_name(prefix: &str) -> String {
    format!("{prefix}-sw")
}

/// Namespace of node `number`, from 1.
pub(crate) fn node_name(prefix: &str, number: u16) -> String {
    format!("{prefix}-n{number}")
}

/// True when a fabric with this prefix could have a namespace of this name.
pub(crate) fn is_name(prefix: &str, name: &str) -> bool {
    let rest = name.strip_prefix(prefix);
    match rest.and_then(|rest| rest.strip_prefix("-n")) {
        Some(digits) => digits.parse().is_ok_and(|number| node_name(prefix, number) == name),
        None => rest == Some("-sw"),
    }
}

/// The first network's switch's interface towards node `number`.
pub(crate) fn port(number: u16) -> String {
    format!("p{number}")
}

/// The same of any network.
pub(crate) fn port_of(network: u16, number: u16) -> String {
    if network == 0 { port(number) } else { format!("p{number}-{network}") }
}

/// Locally administered (IEEE 802, 02:..), `gi` for the vendor, the node's number at the end.
pub(crate) fn mac(number: u16) -> [u8; 6] {
    let [high, low] = number.to_be_bytes();
    [0x02, b'g', b'i', 0x00, high, low]
}

/// The address of an interface to a network, from that to the first one: the fourth byte differs.
pub(crate) fn mac_on(network: u16, mut mac: [u8; 6]) -> [u8; 6] {
    mac[3] += 2 * network as u8;
    mac
}

/// The switch's side of a link; distinct from every node's.
fn port_mac(number: u16) -> [u8; 6] {
    let [high, low] = number.to_be_bytes();
    [0x02, b'g', b'i', 0x01, high, low]
}

/// RFC 2544 keeps 198.18.0.0/15 for benchmarks.
pub(crate) fn ipv4(number: u16) -> Ipv4Addr {
    let [_, low] = number.to_be_bytes();
    Ipv4Addr::new(198, 18, 0, low)
}

/// RFC 4193's locally assigned range.
pub(crate) fn ipv6(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number)
}

pub(crate) fn written(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// A kernel setting.
pub(crate) struct KernelSetting {
    /// Below `/proc/sys/net/`.
    pub(crate) file: &'static str,
    pub(crate) value: &'static str,
}

/// Kernel settings that keep a namespace quiet, to be written before its interfaces are made: no
/// router discovery, no address configuration, no duplicate address detection, no link-local
/// address, one multicast report instead of several. The kernel's ip-sysctl document describes
/// each.
pub(crate) const QUIET_NODE: [KernelSetting; 7] = [
    KernelSetting { file: "ipv6/conf/default/accept_ra", value: "0" },
    KernelSetting { file: "ipv6/conf/default/autoconf", value: "0" },
    KernelSetting { file: "ipv6/conf/default/accept_dad", value: "0" },
    KernelSetting { file: "ipv6/conf/default/router_solicitations", value: "0" },
    KernelSetting { file: "ipv6/conf/default/addr_gen_mode", value: "1" },
    KernelSetting { file: "ipv6/conf/default/mldv2_unsolicited_report_interval", value: "1" },
    KernelSetting { file: "ipv6/mld_qrv", value: "1" },
];

/// The switch forwards frames, sends no IPv6 frames itself, and does not take IP packets through
/// the firewall on the way, as kernels with bridge netfilter do by default: a switch looks at
/// Ethernet headers, and all frames are to cost it the same.
pub(crate) const QUIET_SWITCH: [KernelSetting; 4] = [
    KernelSetting { file: "ipv6/conf/default/disable_ipv6", value: "1" },
    KernelSetting { file: "bridge/bridge-nf-call-iptables", value: "0" },
    KernelSetting { file: "bridge/bridge-nf-call-ip6tables", value: "0" },
    KernelSetting { file: "bridge/bridge-nf-call-arptables", value: "0" },
];

/// `ip` script for the switch's namespace: bridge, ports, and the nodes' ends of the links. The
/// nodes' namespaces must have their names.
///
/// No spanning tree and no forward delay (a port forwards at once), no multicast snooping (no
/// queries, and multicast reaches every port): ip-link(8), section "bridge".
pub(crate) fn wire_up(config: &FabricConfig) -> String {
    (0..config.networks).map(|network| wire_up_one(config, network)).collect()
}

fn wire_up_one(config: &FabricConfig, network: u16) -> String {
    let (interface, bridge) = (interface(network), bridge(network));
    let written = |mac| written(mac_on(network, mac));
    // One is what the kernel chooses.
    let queues = match config.queues {
        1 => String::new(),
        queues => format!(" numtxqueues {queues} numrxqueues {queues}"),
    };
    if config.cable {
        let end = |number| {
            let (node, mtu) = (node_name(&config.prefix, number), config.mtu_of(number));
            let mac = written(mac(number));
            format!("name {interface} address {mac} mtu {mtu}{queues} netns {node}")
        };
        return format!("link add {} type veth peer {}\n", end(1), end(2));
    }
    let mtu = config.longest_mtu();
    // With a delay, the forwarder takes the bridge's place.
    let (mut script, master) = match config.delay {
        Some(_) => (String::new(), String::new()),
        None => (
            format!(
                "link add name {bridge} address {} mtu {mtu} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n\
                 link set dev {bridge} up\n",
                written(port_mac(0)),
            ),
            format!(" master {bridge}"),
        ),
    };
    for number in 1..=config.nodes {
        let index = PORT_INDEX + NETWORK_INDEX * u32::from(network) + u32::from(number);
        let port = port_of(network, number);
        let (own, peer) = (written(port_mac(number)), written(mac(number)));
        let node = node_name(&config.prefix, number);
        let (mtu, port_mtu) = (config.mtu_of(number), config.port_mtu_of(number));
        let _ = writeln!(
            script,
            "link add name {port} index {index} address {own} mtu {port_mtu}{queues} group {PORT_GROUP} \
             type veth peer name {interface} address {peer} mtu {mtu}{queues} netns {node}\n\
             link set dev {port}{master} up",
        );
    }
    script
}

/// `tc` script for the switch's namespace: the token bucket of every port, tc-tbf(8). Empty when
/// the fabric is not shaped.
pub(crate) fn shape(config: &FabricConfig) -> String {
    let mut script = String::new();
    let ports =
        (0..config.networks).flat_map(|n| (1..=config.nodes).map(move |number| (n, number)));
    for (network, number) in ports {
        let Some(rate) = config.rate_of(network, number) else { continue };
        script += &bucket(config, &port_of(network, number), rate);
    }
    script
}

/// `tc` script for node `number`'s namespace: the token bucket of what it sends, if its port has a
/// rate of its own. Empty otherwise: then only the receivers' ports limit it.
pub(crate) fn shape_sending(config: &FabricConfig, number: u16) -> String {
    match config.node_rates.get(usize::from(number) - 1) {
        None => String::new(),
        Some(rate) => bucket(config, INTERFACE, *rate),
    }
}

fn bucket(config: &FabricConfig, device: &str, rate: Rate) -> String {
    format!(
        "qdisc add dev {device} root tbf rate {}bit burst {} limit {} overhead {WIRE_OVERHEAD} mpu {WIRE_MINIMUM}\n",
        rate.bits(),
        config.burst,
        config.buffer,
    )
}

/// `ip` script for node `number`'s namespace: interface up, addresses, and its neighbours' MAC
/// addresses, so that no ARP or neighbour discovery falls into a measurement (both still answer).
pub(crate) fn address(config: &FabricConfig, number: u16, with_ipv6: bool) -> String {
    let mut script = format!(
        "link set dev {INTERFACE} up\naddress add {}/24 broadcast + dev {INTERFACE}\n",
        ipv4(number)
    );
    for network in 1..config.networks {
        let _ = writeln!(script, "link set dev {} up", interface(network));
    }
    if with_ipv6 {
        let _ = writeln!(script, "address add {}/64 dev {INTERFACE} nodad", ipv6(number));
    }
    for other in (1..=config.nodes).filter(|&other| other != number) {
        let tail = format!("lladdr {} nud permanent dev {INTERFACE}", written(mac(other)));
        let _ = writeln!(script, "neighbour replace {} {tail}", ipv4(other));
        if with_ipv6 {
            let _ = writeln!(script, "neighbour replace {} {tail}", ipv6(other));
        }
    }
    script
}

/// `ip` script for the switch's namespace that removes every link, both ends.
pub(crate) fn tear_down() -> String {
    format!("link delete group {PORT_GROUP}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_prefix_makes_are_its_own() {
        for name in ["g-sw", "g-n1", "g-n64"] {
            assert!(is_name("g", name), "{name}");
        }
        for name in ["g", "g-s", "g-sw2", "g-n", "g-n01", "g-nx", "gg-n1", "g-x-n1", "h-sw"] {
            assert!(!is_name("g", name), "{name}");
        }
    }

    #[test]
    fn addresses_end_with_the_number_of_the_node() {
        assert_eq!(written(mac(64)), "02:67:69:00:00:40");
        assert_eq!(ipv4(64).to_string(), "198.18.0.64");
        assert_eq!(ipv6(64).to_string(), "fd00::40");
        assert_ne!(mac(1), port_mac(1));
        assert_eq!(written(mac_on(3, mac(64))), "02:67:69:06:00:40");
    }

    #[test]
    fn an_unshaped_fabric_has_no_token_bucket() {
        assert_eq!(shape(&FabricConfig::default()), "");
    }

    #[test]
    fn a_server_can_have_a_faster_port_than_its_clients() {
        let rate = crate::Rate::bits_per_second;
        let config = FabricConfig {
            nodes: 3,
            rate: Some(rate(100_000_000)),
            node_rates: vec![rate(100_000_000), rate(1_000_000_000)],
            ..FabricConfig::default()
        };
        let script = shape(&config);
        let rates = script.lines().filter_map(|line| line.split(' ').nth(7));
        assert_eq!(rates.collect::<Vec<_>>(), ["100000000bit", "1000000000bit", "100000000bit"]);
        assert!(shape_sending(&config, 2).contains("dev eth0 root tbf rate 1000000000bit"));
        assert_eq!(shape_sending(&config, 3), "");
    }
}
