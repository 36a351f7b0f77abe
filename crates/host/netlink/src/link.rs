//! Interfaces: what the kernel says of them, and what can be set.

use crate::rtnetlink::{Rtnetlink, unexpected};
use crate::{Error, Result};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoMacVlan, LinkAttribute,
    LinkFlags, LinkInfo, LinkLayerType, LinkMessage, LinkXdp, MacVlanMode, Stats64,
};
use rustix::fd::{AsRawFd, BorrowedFd};

/// The ids of the XDP programs of an interface: the only one, or else those in the driver, above it
/// and in hardware. Zero where no program is attached.
pub type Modes = [u32; 4];

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceInfo {
    /// Its index in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MAC address, if it has one of six bytes. That of the loopback is all zeros.
    pub mac: Option<[u8; 6]>,
    /// Longest payload of a frame in bytes.
    pub mtu: u32,
    /// The group that it is in (`ip link show group`).
    pub group: u32,
    /// Index of the interface below it, unless that lies in another namespace.
    pub lower: Option<u32>,
    /// Whether it is a macvlan.
    pub is_macvlan: bool,
    /// Whether its frames are Ethernet's. Those of the loopback are not.
    pub is_ethernet: bool,
    /// Whether it is up, whatever its carrier.
    pub is_up: bool,
    /// Whether it has a carrier.
    pub carrier: Option<bool>,
    /// How often it has got or lost its carrier.
    pub carrier_changes: u32,
    /// The kernel's counters that count neither frames nor bytes, by its names.
    pub counters: Vec<(&'static str, u64)>,
}

/// Something of an interface that can be set.
#[derive(Clone, Copy, Debug)]
pub enum Setting<'a> {
    /// Up, or down.
    Up(bool),
    /// Answers no ARP.
    NoArp,
    /// Takes no IPv6 address by itself when it comes up.
    NoIpv6Address,
    /// The name.
    Name(&'a str),
    /// What people see beside the name.
    Alias(&'a str),
    /// The MTU in bytes.
    Mtu(u32),
    /// The network namespace to which it moves.
    Namespace(BorrowedFd<'a>),
    /// An XDP program; the flags are `XDP_FLAGS_*` of linux/if_link.h.
    Program(BorrowedFd<'a>, u32),
}

/// A macvlan that is to be made, in bridge mode.
#[derive(Clone, Copy, Debug)]
pub struct Macvlan<'a> {
    /// Its name.
    pub name: &'a str,
    /// Index of its NIC.
    pub lower: u32,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Its group.
    pub group: u32,
}

impl Rtnetlink {
    /// All interfaces, in the kernel's order. Three system calls or more; no privileges.
    pub fn links(&self) -> Result<Vec<InterfaceInfo>> {
        let all = self.socket.list(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        let link = |message| match message {
            RouteNetlinkMessage::NewLink(link) => Some(InterfaceInfo::from(link)),
            _ => None,
        };
        Ok(all.into_iter().filter_map(link).collect())
    }

    /// The interface with this index. Two system calls; no privileges. The kernel answers under the
    /// lock under which all interfaces are changed: microseconds, but up to a second while many
    /// namespaces are being removed.
    pub fn link(&self, index: u32) -> Result<InterfaceInfo> {
        self.ask_link(of(index)).map(InterfaceInfo::from)
    }

    /// The interface with this name; otherwise like [`link`](Self::link).
    pub fn link_named(&self, name: &str) -> Result<InterfaceInfo> {
        let mut request = LinkMessage::default();
        request.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.ask_link(request).map(InterfaceInfo::from)
    }

    /// The XDP programs of an interface; otherwise like [`link`](Self::link).
    pub fn programs(&self, index: u32) -> Result<Modes> {
        programs(&self.ask_link(of(index))?)
    }

    fn ask_link(&self, request: LinkMessage) -> Result<LinkMessage> {
        match self.socket.ask(RouteNetlinkMessage::GetLink(request))? {
            RouteNetlinkMessage::NewLink(link) => Ok(link),
            other => Err(unexpected(&other)),
        }
    }

    /// Sets something of an interface, in one step. Two system calls. Needs `CAP_NET_ADMIN`.
    pub fn set(&self, index: u32, settings: &[Setting<'_>]) -> Result<()> {
        let mut link = of(index);
        settings.iter().for_each(|setting| setting.write(&mut link));
        self.socket.change(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Makes a macvlan; fails if there is an interface of this name. Needs `CAP_NET_ADMIN`.
    pub fn make_macvlan(&self, new: &Macvlan<'_>) -> Result<()> {
        let mode = InfoData::MacVlan(vec![InfoMacVlan::Mode(MacVlanMode::Bridge)]);
        let mut link = LinkMessage::default();
        link.attributes = vec![
            LinkAttribute::IfName(new.name.to_owned()),
            LinkAttribute::Link(new.lower),
            LinkAttribute::Address(new.mac.to_vec()),
            LinkAttribute::Mtu(new.mtu),
            LinkAttribute::Group(new.group),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::MacVlan), LinkInfo::Data(mode)]),
        ];
        self.socket.change(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes an interface. Needs `CAP_NET_ADMIN`.
    pub fn remove(&self, index: u32) -> Result<()> {
        self.socket.change(RouteNetlinkMessage::DelLink(of(index)), 0)
    }
}

fn of(index: u32) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.header.index = index;
    link
}

impl Setting<'_> {
    fn write(&self, link: &mut LinkMessage) {
        let attribute = match *self {
            Self::Up(up) => {
                link.header.change_mask |= LinkFlags::Up;
                link.header.flags.set(LinkFlags::Up, up);
                return;
            }
            Self::NoArp => {
                link.header.change_mask |= LinkFlags::Noarp;
                link.header.flags |= LinkFlags::Noarp;
                return;
            }
            Self::NoIpv6Address => {
                let none = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
                LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![none])])
            }
            Self::Name(name) => LinkAttribute::IfName(name.to_owned()),
            Self::Alias(alias) => LinkAttribute::IfAlias(alias.to_owned()),
            Self::Mtu(mtu) => LinkAttribute::Mtu(mtu),
            Self::Namespace(namespace) => LinkAttribute::NetNsFd(namespace.as_raw_fd()),
            Self::Program(program, flags) => {
                LinkAttribute::Xdp(vec![LinkXdp::Fd(program.as_raw_fd()), LinkXdp::Flags(flags)])
            }
        };
        link.attributes.push(attribute);
    }
}

impl From<LinkMessage> for InterfaceInfo {
    fn from(message: LinkMessage) -> Self {
        let mut link = InterfaceInfo {
            index: message.header.index,
            is_ethernet: message.header.link_layer_type == LinkLayerType::Ether,
            is_up: message.header.flags.contains(LinkFlags::Up),
            ..InterfaceInfo::default()
        };
        let mut elsewhere = false;
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Address(bytes) => link.mac = bytes.as_slice().try_into().ok(),
                LinkAttribute::Mtu(mtu) => link.mtu = mtu,
                LinkAttribute::Group(group) => link.group = group,
                LinkAttribute::Link(lower) => link.lower = Some(lower),
                LinkAttribute::LinkNetNsId(_) => elsewhere = true,
                LinkAttribute::LinkInfo(info) => {
                    link.is_macvlan = info.contains(&LinkInfo::Kind(InfoKind::MacVlan));
                }
                LinkAttribute::Carrier(carrier) => link.carrier = Some(carrier != 0),
                LinkAttribute::CarrierChanges(changes) => link.carrier_changes = changes,
                LinkAttribute::Stats64(stats) => link.counters = counters(&stats),
                _ => {}
            }
        }
        link.lower = link.lower.filter(|_| !elsewhere);
        link
    }
}

fn programs(link: &LinkMessage) -> Result<Modes> {
    let xdp = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Xdp(xdp) => Some(xdp),
        _ => None,
    });
    let mut ids = Modes::default();
    for attribute in xdp.ok_or_else(|| Error::malformed("an interface without XDP"))? {
        match attribute {
            LinkXdp::ProgId(id) => ids[0] = *id,
            LinkXdp::DrvProgId(id) => ids[1] = *id,
            LinkXdp::SkbProgId(id) => ids[2] = *id,
            LinkXdp::HwProgId(id) => ids[3] = *id,
            _ => {}
        }
    }
    Ok(ids)
}

fn counters(stats: &Stats64) -> Vec<(&'static str, u64)> {
    vec![
        ("rx_errors", stats.rx_errors),
        ("tx_errors", stats.tx_errors),
        ("rx_dropped", stats.rx_dropped),
        ("tx_dropped", stats.tx_dropped),
        ("collisions", stats.collisions),
        ("rx_length_errors", stats.rx_length_errors),
        ("rx_over_errors", stats.rx_over_errors),
        ("rx_crc_errors", stats.rx_crc_errors),
        ("rx_frame_errors", stats.rx_frame_errors),
        ("rx_fifo_errors", stats.rx_fifo_errors),
        ("rx_missed_errors", stats.rx_missed_errors),
        ("tx_aborted_errors", stats.tx_aborted_errors),
        ("tx_carrier_errors", stats.tx_carrier_errors),
        ("tx_fifo_errors", stats.tx_fifo_errors),
        ("tx_heartbeat_errors", stats.tx_heartbeat_errors),
        ("tx_window_errors", stats.tx_window_errors),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{read, written};
    use rustix::io::Errno;

    #[test]
    fn the_program_is_found_among_other_attributes() {
        let mut link = of(3);
        assert_eq!(programs(&link).unwrap_err().errno(), Errno::PROTO);
        link.attributes.push(LinkAttribute::IfName("eth0".into()));
        link.attributes.push(LinkAttribute::Xdp(vec![LinkXdp::Flags(2)]));
        assert_eq!(programs(&link).unwrap(), [0; 4]);
        let xdp = vec![LinkXdp::Flags(2), LinkXdp::ProgId(77), LinkXdp::SkbProgId(78)];
        link.attributes[1] = LinkAttribute::Xdp(xdp);
        assert_eq!(programs(&link).unwrap(), [77, 0, 78, 0]);
    }

    #[test]
    fn cut_answers_never_panic() {
        let mut link = of(3);
        link.attributes.push(LinkAttribute::Xdp(vec![LinkXdp::ProgId(77)]));
        let whole = written(RouteNetlinkMessage::NewLink(link), 1, 0);
        for length in 1..whole.len() {
            // With a true length of the message, so that its attributes are what is cut.
            let mut cut = whole[..length].to_vec();
            if let Some(field) = cut.get_mut(..4) {
                field.copy_from_slice(&(length as u32).to_ne_bytes());
            }
            let mut found = |_: RouteNetlinkMessage| ();
            let _ = read(&cut, 1, false, &mut found);
        }
    }

    #[test]
    fn a_lower_interface_in_another_namespace_is_none_here() {
        let mut message = of(3);
        message.attributes = vec![LinkAttribute::Link(9), LinkAttribute::Address(vec![2; 6])];
        let link = InterfaceInfo::from(message.clone());
        assert_eq!((link.index, link.lower, link.mac), (3, Some(9), Some([2; 6])));
        message.attributes.push(LinkAttribute::LinkNetNsId(0));
        message.attributes.push(LinkAttribute::Address(vec![0; 20]));
        let link = InterfaceInfo::from(message);
        assert_eq!((link.lower, link.mac), (None, None));
    }

    #[test]
    fn settings_go_into_one_request() {
        let mut link = of(3);
        for setting in [Setting::Up(false), Setting::NoArp, Setting::Mtu(9000)] {
            setting.write(&mut link);
        }
        assert_eq!(link.header.change_mask, LinkFlags::Up | LinkFlags::Noarp);
        assert_eq!(link.header.flags, LinkFlags::Noarp);
        assert_eq!(link.attributes, [LinkAttribute::Mtu(9000)]);
    }

    #[test]
    fn the_loopback_has_counters_and_no_program() {
        let kernel = Rtnetlink::open().unwrap();
        let lo = kernel.link(1).unwrap();
        assert_eq!((lo.name.as_str(), lo.mac), ("lo", Some([0; 6])));
        assert!(!lo.is_ethernet);
        assert!(lo.mtu > 1500 && lo.counters.contains(&("tx_window_errors", 0)), "{lo:?}");
        assert_eq!(kernel.link_named("lo").unwrap().index, 1);
        assert_eq!(kernel.programs(1).unwrap(), [0; 4]);
        assert!(kernel.links().unwrap().iter().any(|link| link.index == 1));
    }
}
