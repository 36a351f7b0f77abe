//! Making, finding and removing children.

use crate::Claim;
use gigae_link::{Interface, OpenError, Rtnetlink};
use gigae_wire::MacAddr;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoMacVlan, LinkAttribute,
    LinkFlags, LinkInfo, LinkMessage, MacVlanMode,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;
use std::io;
use std::time::{Duration, Instant};

/// The group (`ip link show group 26473`) in which children are made, "gi" as a number: the only mark that
/// an interface can have from its first moment on. A macvlan of this group is ours, and no other is.
pub const GROUP: u32 = 0x6769;

/// What people see in `ip link`.
const ALIAS: &str = "gigae";

/// Addresses are drawn from 2^46: a second draw is needed about never.
const DRAWS: usize = 8;

/// Names that may be taken by others while one looks for a free one.
const NAMES: usize = 1000;

/// A new interface has its carrier as soon as a task of the kernel's has run.
const CARRIER_WITHIN: Duration = Duration::from_millis(500);

/// Pause between looks.
const PAUSE: Duration = Duration::from_micros(200);

/// An interface of this process's own on a NIC. Dropping it removes it, unless a fork of the process
/// that made it does so.
#[derive(Debug)]
pub struct Child {
    name: String,
    mac: MacAddr,
    index: u32,
    parent: String,
    kernel: Rtnetlink,
    /// The process that made it.
    maker: u32,
    claim: Claim,
}

impl Child {
    /// Makes a child of the NIC `parent`, up, with an address of its own and the NIC's MTU, in the
    /// calling thread's network namespace. Removes what killed processes left on this NIC before.
    ///
    /// Needs `CAP_NET_ADMIN`. Some 30 system calls; milliseconds, of which most is the kernel's lock under
    /// which all interfaces are changed. Fails where there is no such NIC, where it is down, or where it
    /// belongs to a bridge or bond.
    pub fn make(parent: &str) -> Result<Self, OpenError> {
        let nic = Interface::find(parent)?;
        let what = "asking the kernel about interfaces";
        let kernel = Rtnetlink::open().map_err(|e| OpenError::Io { what, source: e.into() })?;
        let io = |source| OpenError::Io { what, source };
        let links = links(&kernel).map_err(io)?;
        sweep(&kernel, &links, Some(nic.index));
        let (mac, claim) = draw().map_err(io)?;
        let name = create(&kernel, &links, &nic, mac).map_err(|e| explain(e, parent))?;
        let index = index_of(&kernel, &name, mac).map_err(io)?;
        let maker = std::process::id();
        let child = Self { name, mac, index, parent: parent.into(), kernel, maker, claim };
        // From here on, dropping it removes the interface.
        child.prepare().map_err(|e| explain(e, parent))?;
        child.await_carrier(&nic)?;
        Ok(child)
    }

    /// Its name, `gigae0` or another number.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address, drawn at random among those that are administered locally.
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// Its index in its namespace.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The NIC's name when the child was made.
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// The claim to its address. A copy of its socket in another process keeps the child from counting
    /// as left over.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// IPv6 first: it would get an address as soon as it is up.
    fn prepare(&self) -> io::Result<()> {
        let none = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
        let families = vec![AfSpecUnspec::Inet6(vec![none])];
        match self.set(LinkFlags::empty(), LinkAttribute::AfSpecUnspec(families)) {
            Err(e) if is(&e, Errno::AFNOSUPPORT) || is(&e, Errno::OPNOTSUPP) => {} // No IPv6 here.
            result => result?,
        }
        // The kernel answers for this host's IP addresses on every interface that is asked (ip-sysctl,
        // `arp_ignore`): others would send what is for the host to the child, and lose it with the child.
        self.set(LinkFlags::Up | LinkFlags::Noarp, LinkAttribute::IfAlias(ALIAS.into()))
    }

    fn set(&self, flags: LinkFlags, attribute: LinkAttribute) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = self.index;
        link.header.flags = flags;
        link.header.change_mask = flags;
        link.attributes.push(attribute);
        self.kernel.change(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Without a carrier the kernel drops what is sent, and a self-test would not be made.
    fn await_carrier(&self, nic: &Interface) -> Result<(), OpenError> {
        let (own, start) = (Interface::find(&self.name)?, Instant::now());
        while nic.has_carrier() && !own.has_carrier() && start.elapsed() < CARRIER_WITHIN {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.maker == std::process::id() {
            // It may be gone with its NIC.
            let _ = remove(&self.kernel, self.index);
        }
    }
}

/// A child that stands on some NIC of this namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its address.
    pub mac: MacAddr,
    /// Name of its NIC, or nothing if that lies in another namespace.
    pub parent: Option<String>,
    /// Nobody has claimed its address: its process was killed.
    pub left_over: bool,
}

/// All children in the calling thread's network namespace. Some ten system calls, two more for each
/// child; no privileges.
pub fn children() -> io::Result<Vec<Found>> {
    let kernel = Rtnetlink::open()?;
    let links = links(&kernel)?;
    let name = |index| Some(links.iter().find(|link| Some(link.index) == index)?.name.clone());
    let found = links.iter().filter(|link| link.ours).map(|link| {
        let left_over = Claim::take(link.mac)?.is_some();
        let (parent, index, mac) = (name(link.parent), link.index, link.mac);
        Ok(Found { name: link.name.clone(), index, mac, parent, left_over })
    });
    found.collect()
}

/// Removes the children in the calling thread's network namespace whose processes were killed; their
/// names. Needs `CAP_NET_ADMIN` if there are any.
pub fn remove_left_overs() -> io::Result<Vec<String>> {
    let kernel = Rtnetlink::open()?;
    Ok(sweep(&kernel, &links(&kernel)?, None))
}

/// What must be known of an interface.
struct Known {
    name: String,
    index: u32,
    mac: MacAddr,
    /// Of a macvlan: its NIC's index, if that is of this namespace.
    parent: Option<u32>,
    ours: bool,
}

fn links(kernel: &Rtnetlink) -> io::Result<Vec<Known>> {
    let all = kernel.list(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    Ok(all.into_iter().filter_map(read).collect())
}

fn read(message: RouteNetlinkMessage) -> Option<Known> {
    let RouteNetlinkMessage::NewLink(link) = message else { return None };
    let index = link.header.index;
    let mut known =
        Known { name: String::new(), index, mac: MacAddr([0; 6]), parent: None, ours: false };
    let (mut group, mut is_macvlan, mut elsewhere) = (0, false, false);
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => known.name = name,
            LinkAttribute::Address(bytes) => {
                known.mac = bytes.as_slice().try_into().map_or(known.mac, MacAddr);
            }
            LinkAttribute::Link(parent) => known.parent = Some(parent),
            LinkAttribute::LinkNetNsId(_) => elsewhere = true,
            LinkAttribute::Group(number) => group = number,
            LinkAttribute::LinkInfo(info) => {
                is_macvlan = info.contains(&LinkInfo::Kind(InfoKind::MacVlan));
            }
            _ => {}
        }
    }
    known.parent = known.parent.filter(|_| is_macvlan && !elsewhere);
    known.ours = is_macvlan && group == GROUP;
    Some(known)
}

/// Removes what is left over on one NIC, or on any; their names. The claim is held meanwhile, so that of
/// several who sweep one does.
fn sweep(kernel: &Rtnetlink, links: &[Known], on: Option<u32>) -> Vec<String> {
    // Children of a macvlan are the kernel's children of its NIC.
    let nic = on.map(|index| {
        let parent = links.iter().find(|link| link.index == index).and_then(|link| link.parent);
        parent.unwrap_or(index)
    });
    let mut removed = Vec::new();
    for link in links.iter().filter(|link| link.ours && (nic.is_none() || link.parent == nic)) {
        let Ok(Some(_claim)) = Claim::take(link.mac) else { continue };
        // What was listed may be another interface by now.
        let same = index_of(kernel, &link.name, link.mac).is_ok_and(|index| index == link.index);
        if same && remove(kernel, link.index).is_ok() {
            removed.push(link.name.clone());
        }
    }
    removed
}

/// An address that nobody on this node has.
fn draw() -> io::Result<(MacAddr, Claim)> {
    for _ in 0..DRAWS {
        let mut bytes = [0; 6];
        getrandom::fill(&mut bytes).map_err(|e| io::Error::other(e.to_string()))?;
        // Administered locally, and no group (IEEE Std 802, clause 8.2).
        bytes[0] = bytes[0] & !0b01 | 0b10;
        if let Some(claim) = Claim::take(MacAddr(bytes))? {
            return Ok((MacAddr(bytes), claim));
        }
    }
    Err(io::Error::other("every address that was drawn is claimed by another process"))
}

/// Makes the interface under the first name that is free.
fn create(
    kernel: &Rtnetlink,
    links: &[Known],
    nic: &Interface,
    mac: MacAddr,
) -> io::Result<String> {
    let free = |name: &String| links.iter().all(|link| link.name != *name);
    let names = (0..).map(|n| format!("gigae{n}")).filter(free).take(NAMES);
    let mut result = Err(Errno::EXIST.into());
    for name in names {
        let mode = InfoData::MacVlan(vec![InfoMacVlan::Mode(MacVlanMode::Bridge)]);
        let mut link = LinkMessage::default();
        link.header.interface_family = AddressFamily::Unspec;
        link.attributes = vec![
            LinkAttribute::IfName(name.clone()),
            LinkAttribute::Link(nic.index),
            LinkAttribute::Address(mac.0.to_vec()),
            LinkAttribute::Mtu(nic.mtu as u32),
            LinkAttribute::Group(GROUP),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::MacVlan), LinkInfo::Data(mode)]),
        ];
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        result = kernel.change(RouteNetlinkMessage::NewLink(link), flags).map(|()| name);
        if !matches!(&result, Err(e) if is(e, Errno::EXIST)) {
            break;
        }
    }
    result
}

/// The index of the interface with this name and address.
fn index_of(kernel: &Rtnetlink, name: &str, mac: MacAddr) -> io::Result<u32> {
    let mut request = LinkMessage::default();
    request.attributes.push(LinkAttribute::IfName(name.into()));
    match read(kernel.ask(RouteNetlinkMessage::GetLink(request))?) {
        Some(known) if known.mac == mac => Ok(known.index),
        _ => Err(Errno::NODEV.into()),
    }
}

fn remove(kernel: &Rtnetlink, index: u32) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = index;
    kernel.change(RouteNetlinkMessage::DelLink(link), 0)
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

fn explain(error: io::Error, parent: &str) -> OpenError {
    match Errno::from_io_error(&error) {
        Some(Errno::PERM | Errno::ACCESS) => OpenError::MissingCapability {
            what: "making an interface of this process's own on a shared NIC",
            capability: "CAP_NET_ADMIN",
        },
        Some(Errno::OPNOTSUPP) => OpenError::Unsupported {
            what: "macvlan (CONFIG_MACVLAN)",
            instead: "name a NIC of this process's own, such as an SR-IOV function",
        },
        Some(Errno::BUSY) => {
            let text = format!("'{parent}' is part of a bridge or bond; name that instead");
            OpenError::Io { what: "sharing the NIC", source: io::Error::other(text) }
        }
        Some(Errno::INVAL) => {
            let text = format!("'{parent}' is no Ethernet that can be shared; name another NIC");
            OpenError::Io { what: "sharing the NIC", source: io::Error::other(text) }
        }
        _ => OpenError::Io { what: "making an interface on the NIC", source: error },
    }
}
