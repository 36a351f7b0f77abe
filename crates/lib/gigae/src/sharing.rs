//! Which interface an endpoint gets where several processes use one NIC.

use crate::link::AnyLink;
use gigae_link::{Interface, Link, OpenError};
use gigae_macvlan::{Child, Claim};
use gigae_netlink::Rtnetlink;
use gigae_shm::name_in_ip;
use gigae_wire::{Envelope, MacAddr};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::info;

/// An address is free with the last copy of its claim, and a process that another thread has just
/// forked has copies until it begins its own program: milliseconds, on a busy machine tens of them.
/// So an endpoint waits for an address that this process had. It does not wait for an address that
/// another process has: otherwise each further rank of an MPI program on a node would wait.
const FREE_WITHIN: Duration = Duration::from_millis(200);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// Whether a NIC is shared with other processes that use gigae; each has its own interface then. In
/// the UDP envelope each has its own UDP port instead.
///
/// A *child* is an interface that the kernel puts beside the NIC (macvlan), with a random address.
/// It is removed with its endpoint; after SIGKILL, the next process removes it. Frames cost more
/// there: AF_PACKET, or AF_XDP in generic mode if asked for. A child needs `CAP_NET_ADMIN`. It has
/// no IP address, so it exists in an Ethernet envelope only; the socket for long messages
/// ([`Options::bulk`](crate::Options::bulk)) has the NIC's. It does not answer
/// [`Endpoint::ask`](crate::Endpoint::ask). The kernel carries frames between the children of a NIC
/// and between them and the wire, but not between a child and an endpoint on the NIC itself. Those
/// two reach each other only with [`Options::local`](crate::Options::local).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// The NIC itself, even if other programs use it.
    #[default]
    Alone,
    /// The NIC itself if no other endpoint has it, otherwise a child. In the UDP envelope: the NIC
    /// itself, with the first UDP port that is free, and the port id of that UDP port if it is not
    /// that of [`Options::port`](crate::Options::port).
    Auto,
    /// Always a child. In the UDP envelope the same as `Auto`.
    Child,
}

/// The interface of one link. Dropped after the link.
pub(crate) struct ClaimedPort {
    nic: String,
    /// Holds the address for this process, which other processes can see. `None` if another had it
    /// first. In the UDP envelope that is the UDP port.
    claim: Option<Claim>,
    /// There, the NIC's address, if no other endpoint had it.
    _nic: Option<Claim>,
    child: Option<Child>,
    /// The name of a child that a broker has made, and the connection: when it closes, the broker
    /// removes the child.
    brokered: Option<(String, OwnedFd)>,
    why: &'static str,
}

/// What a name of an interface names: one, or several of which one is meant.
pub(crate) fn alternatives(name: &str) -> impl Iterator<Item = &str> {
    name.split('/')
}

impl ClaimedPort {
    /// Finds it among the alternatives, or makes it there.
    pub(crate) fn of(
        nics: &str,
        sharing: Sharing,
        envelope: Envelope,
        named: bool,
    ) -> Result<Self, OpenError> {
        if let Envelope::Udp { port } = envelope {
            return Self::in_ip(nics, sharing, port, named);
        }
        let Some((first, _)) = nics.split_once('/') else {
            return Self::new(nics, sharing, named);
        };
        if sharing == Sharing::Child {
            return Self::new(first, sharing, named);
        }
        match (Self::first_free(nics)?, sharing) {
            (Some(port), _) => Ok(port),
            (None, Sharing::Auto) => Self::new(first, Sharing::Child, named),
            (None, _) => Err(all_in_use(nics)),
        }
    }

    /// In the UDP envelope, where processes that share a NIC differ by their UDP ports. Fails if
    /// another endpoint has the port, except with [`Sharing::Alone`].
    fn in_ip(nics: &str, sharing: Sharing, udp: u16, named: bool) -> Result<Self, OpenError> {
        let first = alternatives(nics).next().unwrap_or_default();
        let free = if nics.contains('/') { Self::first_free(nics)? } else { None };
        let port = match free {
            Some(port) => port,
            None if nics.contains('/') && sharing == Sharing::Alone => {
                return Err(all_in_use(nics));
            }
            None => Self::itself(first, claim(Interface::find(first)?.mac, Duration::ZERO)?),
        };
        let name = name_in_ip(Interface::find(&port.nic)?.index, udp);
        let patience =
            if named && sharing == Sharing::Alone { patience(name) } else { Duration::ZERO };
        let own = claim(name, patience)?;
        if own.is_none() && sharing != Sharing::Alone {
            let text = format!("another endpoint has UDP port {udp} of '{}'", port.nic);
            let source = io::Error::new(io::ErrorKind::AddrInUse, text);
            return Err(OpenError::Io { what: "sharing the NIC", source });
        }
        Ok(Self { claim: own, _nic: port.claim, ..port })
    }

    /// The first of several interfaces that is up and that no other endpoint has; `None` if others
    /// have all that are up.
    fn first_free(nics: &str) -> Result<Option<Self>, OpenError> {
        let start = Instant::now();
        loop {
            let (mut refused, mut taken, mut longest) = (None, false, Duration::ZERO);
            for nic in alternatives(nics) {
                match Interface::find(nic) {
                    Ok(found) => match claim(found.mac, Duration::ZERO)? {
                        Some(claim) => return Ok(Some(Self::itself(nic, Some(claim)))),
                        None => (taken, longest) = (true, longest.max(patience(found.mac))),
                    },
                    Err(e @ (OpenError::NoInterface { .. } | OpenError::InterfaceDown(_))) => {
                        refused.get_or_insert(e);
                    }
                    Err(e) => return Err(e),
                }
            }
            match refused {
                Some(error) if !taken => return Err(error),
                _ if start.elapsed() >= longest => return Ok(None),
                _ => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Finds or makes it in the calling thread's network namespace. `named`: others look for it
    /// there.
    fn new(nic: &str, sharing: Sharing, named: bool) -> Result<Self, OpenError> {
        let mac = Interface::find(nic)?.mac;
        let why = match sharing {
            Sharing::Alone => {
                let patience = if named { patience(mac) } else { Duration::ZERO };
                return Ok(Self::itself(nic, claim(mac, patience)?));
            }
            Sharing::Auto => match claim(mac, patience(mac))? {
                Some(claim) => return Ok(Self::itself(nic, Some(claim))),
                None => "which another endpoint uses",
            },
            Sharing::Child => "as asked for",
        };
        let child = Some(Child::make(nic)?);
        let name = child.as_ref().map(Child::name);
        info!(%nic, child = name, why, "the NIC is shared: a child was made");
        Ok(Self { child, why, ..Self::itself(nic, None) })
    }

    fn itself(nic: &str, claim: Option<Claim>) -> Self {
        Self { nic: nic.into(), claim, _nic: None, child: None, brokered: None, why: "" }
    }

    /// What a broker has made, for a link.
    pub(crate) fn brokered(nic: &str, link: &AnyLink, claim: Claim, connection: OwnedFd) -> Self {
        let brokered = Some((link.info().interface.clone(), connection));
        let why = "by the broker, since this process lacks the privileges";
        Self { brokered, why, ..Self::itself(nic, Some(claim)) }
    }

    /// The child's name.
    fn child(&self) -> Option<&str> {
        let brokered = || self.brokered.as_ref().map(|(name, _)| &name[..]);
        self.child.as_ref().map(Child::name).or_else(brokered)
    }

    /// The number of the interface to open.
    pub(crate) fn index(&self) -> Result<u32, OpenError> {
        Ok(Interface::find(self.interface())?.index)
    }

    /// The name of the interface to open.
    pub(crate) fn interface(&self) -> &str {
        self.child().unwrap_or(&self.nic)
    }

    /// The NIC, which has the IP addresses; that of a child is the one that it stands beside.
    pub(crate) fn nic(&self) -> &str {
        &self.nic
    }

    /// The name under which endpoints of this node find it, unless another has it.
    pub(crate) fn claim(&self) -> Option<&Claim> {
        self.child.as_ref().map(Child::claim).or(self.claim.as_ref())
    }

    /// What people see of it: `gigae0@eth1` for a child, as in `ip link`.
    pub(crate) fn shown(&self) -> String {
        match self.child() {
            Some(child) => format!("{child}@{}", self.nic),
            None => self.nic.clone(),
        }
    }

    pub(crate) fn is_child(&self) -> bool {
        self.child().is_some()
    }

    /// Why it is a child, if it is.
    pub(crate) fn reason(&self) -> Option<String> {
        let child = self.child()?;
        Some(format!("'{child}' shares '{}', {}", self.nic, self.why))
    }
}

/// The Ethernet interfaces of the calling thread's network namespace that are up; none where the
/// kernel does not say. Children are left out: they belong to the processes that share a NIC.
pub fn nics() -> Vec<(String, MacAddr)> {
    let links = Rtnetlink::open().and_then(|kernel| kernel.links()).unwrap_or_default();
    let children = gigae_macvlan::children().unwrap_or_default();
    let is_child = |name: &str| children.iter().any(|child| child.name == name);
    let found = links.into_iter().filter(|link| link.is_ethernet && link.is_up);
    let found = found.filter(|link| !is_child(&link.name));
    found.filter_map(|link| Some((link.name, MacAddr(link.mac?)))).collect()
}

fn all_in_use(nics: &str) -> OpenError {
    let text = format!(
        "other endpoints use each of {}; name more, or share one (Options::sharing)",
        nics.replace('/', ", ")
    );
    let source = io::Error::new(io::ErrorKind::AddrInUse, text);
    OpenError::Io { what: "choosing an interface", source }
}

/// The NIC's own address; `None` if another endpoint has it for all of `patience`.
fn claim(mac: MacAddr, patience: Duration) -> Result<Option<Claim>, OpenError> {
    let what = "claiming the NIC's address";
    let start = Instant::now();
    loop {
        let claim = Claim::take(mac).map_err(|source| OpenError::Io { what, source })?;
        if claim.is_some() {
            had().insert(mac.0);
        }
        if claim.is_some() || start.elapsed() >= patience {
            return Ok(claim);
        }
        std::thread::sleep(PAUSE);
    }
}

/// How long to wait for an address.
fn patience(mac: MacAddr) -> Duration {
    if had().contains(&mac.0) { FREE_WITHIN } else { Duration::ZERO }
}

/// The addresses of NICs that endpoints of this process have or had.
fn had() -> MutexGuard<'static, BTreeSet<[u8; 6]>> {
    static HAD: Mutex<BTreeSet<[u8; 6]>> = Mutex::new(BTreeSet::new());
    // A panic elsewhere leaves the set whole.
    HAD.lock().unwrap_or_else(PoisonError::into_inner)
}
