//! Gives up the privileges that a broker does not need.

use gigae_confine::{CapabilitySet, Confined, Confinement, lift_limits};
use std::io;

/// The capabilities that a broker keeps. Tests show that each is needed.
///
/// `NET_ADMIN`: interfaces, attaching a program. `NET_RAW`: AF_XDP sockets. `BPF`: loading a
/// program.
pub const KEPT: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW).union(CapabilitySet::BPF);

/// The user that a broker becomes, unless its configuration names another. If there is no such
/// user, `nobody`.
const USER: &str = "gigae-broker";

/// Permanently gives up root, all capabilities but [`KEPT`], files, ports and system calls. Also
/// keeps `CAP_IPC_LOCK` where the limit of locked memory cannot be lifted. Before that, raises the
/// limits of descriptors and locked memory as far as permitted. For a process with one thread.
///
/// Fails if a capability is missing.
pub(crate) fn confine(user: Option<&str>) -> io::Result<Confined> {
    let locking = match lift_limits() {
        true => CapabilitySet::empty(),
        false => CapabilitySet::IPC_LOCK & rustix::thread::capabilities(None)?.permitted,
    };
    // The kernel's files about interfaces and programs are in these directories.
    let needs =
        Confinement::new().keep(KEPT | locking).call(libc::SYS_bpf).read("/proc").read("/sys");
    user.into_iter().chain([USER]).fold(needs, Confinement::user).apply()
}
