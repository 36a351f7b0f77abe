//! Making, finding and removing children.

use crate::Claim;
use gigae_link::{Interface, OpenError};
use gigae_netlink::{Error, InterfaceInfo, Macvlan, Rtnetlink, Setting};
use gigae_wire::MacAddr;
use rustix::io::Errno;
use std::io;
use std::time::{Duration, Instant};

/// The group (`ip link show group 26473`) in which children are made, "gi" as a number: the only
/// mark that an interface can have from its first moment on. A macvlan of this group is ours, and
/// no other is.
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

/// An interface of this process's own on a NIC. Dropping it removes it, unless a fork of the
/// process that made it does so.
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
    /// Makes a child of the NIC `parent`, up, with its own address and the NIC's MTU, in the
    /// calling thread's network namespace. Removes what killed processes left on this NIC before.
    ///
    /// Needs `CAP_NET_ADMIN`. Some 30 system calls; milliseconds, of which most is the kernel's
    /// lock under which all interfaces are changed. Fails where there is no such NIC, where it is
    /// down, or where it belongs to a bridge or bond.
    pub fn make(parent: &str) -> Result<Self, OpenError> {
        let nic = Interface::find(parent)?;
        let what = "asking the kernel about interfaces";
        let io = |e: Error| OpenError::Io { what, source: e.into() };
        let kernel = Rtnetlink::open().map_err(io)?;
        let links = kernel.links().map_err(io)?;
        sweep(&kernel, &links, Some(nic.index));
        let (mac, claim) = draw().map_err(|source| OpenError::Io { what, source })?;
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

    /// The claim to its address. A copy of its socket in another process keeps the child from
    /// counting as left over.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// IPv6 first: it would get an address as soon as it is up.
    fn prepare(&self) -> Result<(), Error> {
        match self.kernel.set(self.index, &[Setting::NoIpv6Address]) {
            Err(e) if matches!(e.errno(), Errno::AFNOSUPPORT | Errno::OPNOTSUPP) => {} // No IPv6 here.
            result => result?,
        }
        // The kernel answers for this host's IP addresses on every interface that is asked
        // (ip-sysctl, `arp_ignore`): others would send what is for the host to the child, and lose
        // it with the child.
        self.kernel.set(self.index, &[Setting::Up(true), Setting::NoArp, Setting::Alias(ALIAS)])
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
            let _ = self.kernel.remove(self.index);
        }
    }
}

/// A child of some NIC of this namespace.
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
    /// No process has claimed its address: its process was killed.
    pub left_over: bool,
}

/// All children in the calling thread's network namespace. Some ten system calls, two more for each
/// child; no privileges.
pub fn children() -> io::Result<Vec<Found>> {
    let kernel = Rtnetlink::open()?;
    let links = kernel.links()?;
    let name = |index| Some(links.iter().find(|link| Some(link.index) == index)?.name.clone());
    let found = links.iter().filter(|link| is_ours(link)).map(|link| {
        let (parent, index, mac) = (name(link.lower), link.index, mac(link));
        let left_over = Claim::take(mac)?.is_some();
        Ok(Found { name: link.name.clone(), index, mac, parent, left_over })
    });
    found.collect()
}

/// Removes the children in the calling thread's network namespace whose processes were killed;
/// their names. Needs `CAP_NET_ADMIN` if there are any.
pub fn remove_left_overs() -> io::Result<Vec<String>> {
    let kernel = Rtnetlink::open()?;
    Ok(sweep(&kernel, &kernel.links()?, None))
}

fn is_ours(link: &InterfaceInfo) -> bool {
    link.is_macvlan && link.group == GROUP
}

fn mac(link: &InterfaceInfo) -> MacAddr {
    MacAddr(link.mac.unwrap_or_default())
}

/// Removes what is left over on one NIC, or on any; their names. A child's claim is held during its
/// removal, so that only one of several processes removes the child.
fn sweep(kernel: &Rtnetlink, links: &[InterfaceInfo], on: Option<u32>) -> Vec<String> {
    // Children of a macvlan are the kernel's children of its NIC.
    let nic = on.map(|index| {
        let own = links.iter().find(|link| link.index == index && link.is_macvlan);
        own.and_then(|link| link.lower).unwrap_or(index)
    });
    let mut removed = Vec::new();
    for link in links.iter().filter(|link| is_ours(link) && (nic.is_none() || link.lower == nic)) {
        let Ok(Some(_claim)) = Claim::take(mac(link)) else { continue };
        // What was listed may be another interface by now.
        let same = index_of(kernel, &link.name, mac(link)).is_ok_and(|index| index == link.index);
        if same && kernel.remove(link.index).is_ok() {
            removed.push(link.name.clone());
        }
    }
    removed
}

/// An address that no interface of this node has.
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
    links: &[InterfaceInfo],
    nic: &Interface,
    mac: MacAddr,
) -> Result<String, Error> {
    let free = |name: &String| links.iter().all(|link| link.name != *name);
    let names = (0..).map(|n| format!("gigae{n}")).filter(free).take(NAMES);
    let mut result = Err(Error::from(Errno::EXIST));
    for name in names {
        let (lower, mtu) = (nic.index, nic.mtu as u32);
        let new = Macvlan { name: &name, lower, mac: mac.0, mtu, group: GROUP };
        result = kernel.make_macvlan(&new).map(|()| name);
        if !matches!(&result, Err(e) if e.errno() == Errno::EXIST) {
            break;
        }
    }
    result
}

/// The index of the interface with this name and address.
fn index_of(kernel: &Rtnetlink, name: &str, address: MacAddr) -> Result<u32, Error> {
    let link = kernel.link_named(name)?;
    if mac(&link) == address { Ok(link.index) } else { Err(Errno::NODEV.into()) }
}

fn explain(error: Error, parent: &str) -> OpenError {
    match error.errno() {
        Errno::PERM | Errno::ACCESS => OpenError::MissingCapability {
            what: "making an interface of this process's own on a shared NIC",
            capability: "CAP_NET_ADMIN",
        },
        Errno::OPNOTSUPP => OpenError::Unsupported {
            what: "macvlan (CONFIG_MACVLAN)",
            instead: "name a NIC of this process's own, such as an SR-IOV function",
        },
        Errno::BUSY => {
            let text = format!("'{parent}' is part of a bridge or bond; name that instead");
            OpenError::Io { what: "sharing the NIC", source: io::Error::other(text) }
        }
        Errno::INVAL => {
            let text =
                format!("'{parent}' is not an Ethernet NIC that can be shared; name another NIC");
            OpenError::Io { what: "sharing the NIC", source: io::Error::other(text) }
        }
        _ => OpenError::Io { what: "making an interface on the NIC", source: error.into() },
    }
}
