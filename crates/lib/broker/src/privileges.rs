//! Giving up what a broker does not need.

use gigae_confine::{CapabilitySet, Confined, Confinement, lift_limits};
use std::io;

/// What a broker keeps: each is tested to be needed.
///
/// `NET_ADMIN`: interfaces, attaching a program. `NET_RAW`: AF_XDP sockets. `BPF`: loading a program.
pub const KEPT: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW).union(CapabilitySet::BPF);

/// The user that a broker becomes, unless its configuration names another. Where there is no such user, `nobody`.
const USER: &str = "gigae-broker";

/// Gives up root, all capabilities but [`KEPT`] (and, where the limit of locked memory cannot be lifted,
/// `CAP_IPC_LOCK`), files, ports and system calls, for good. Raises the limits of descriptors and locked memory as far
/// as permitted, before. For a process that has one thread.
///
/// Fails if a capability is missing.
pub(crate) fn confine(user: Option<&str>) -> io::Result<Confined> {
    let locking = match lift_limits() {
        true => CapabilitySet::empty(),
        false => CapabilitySet::IPC_LOCK & rustix::thread::capabilities(None)?.permitted,
    };
    // What the kernel says of interfaces and programs is read in these.
    let needs =
        Confinement::new().keep(KEPT | locking).call(libc::SYS_bpf).read("/proc").read("/sys");
    user.into_iter().chain([USER]).fold(needs, Confinement::user).apply()
}
