//! Giving up what a broker does not need.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::io;

/// What a broker keeps: each is tested to be needed.
///
/// `NET_ADMIN`: interfaces, attaching a program. `NET_RAW`: AF_XDP sockets. `BPF`: loading a program.
pub const KEPT: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW).union(CapabilitySet::BPF);

/// Their names, for people.
const NAMES: &str = "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF";

/// Gives up all capabilities but [`KEPT`] (and, where the limit of locked memory cannot be lifted,
/// `CAP_IPC_LOCK`), for good: also those that programs begun by this one could get
/// (bounding set, `no_new_privs`). Raises the limits of descriptors and locked memory as far as permitted,
/// before. For the calling thread: the process should have no other yet.
///
/// Fails if one of those is missing.
pub fn confine() -> io::Result<()> {
    let now = rustix::thread::capabilities(None)?;
    let locking = if raise_limits() { CapabilitySet::empty() } else { CapabilitySet::IPC_LOCK };
    let kept = KEPT | locking & now.permitted;
    if !now.permitted.contains(KEPT) {
        let text = format!("a broker needs {NAMES}; run it as root or by its systemd unit");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    rustix::thread::set_no_new_privs(true)?;
    for capability in CapabilitySet::all().difference(kept).iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // This kernel has no such capability; or a supervisor has left us no right to do this, and
            // without set-user-id programs the set means nothing.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(e) => return Err(e.into()),
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let empty = CapabilitySet::empty();
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: empty };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Frame memory counts as locked by whoever registers it, and each port takes three descriptors. Whether any
/// amount may be locked.
fn raise_limits() -> bool {
    let endless = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, endless).is_err() {
        let maximum = getrlimit(Resource::Memlock).maximum;
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
    let unlimited = getrlimit(Resource::Memlock).current.is_none();
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    unlimited
}
