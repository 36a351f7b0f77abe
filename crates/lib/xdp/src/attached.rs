//! Which XDP program is attached to an interface, asked of the kernel and changed there by
//! rtnetlink(7).

use gigae_netlink::{Rtnetlink, Setting};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::io;

/// linux/if_link.h: `XDP_FLAGS_UPDATE_IF_NOEXIST`, `XDP_FLAGS_SKB_MODE`, `XDP_FLAGS_DRV_MODE`.
const UNLESS_THERE_IS_ONE: u32 = 1 << 0;
const GENERIC: u32 = 1 << 1;
const DRIVER: u32 = 1 << 2;

/// The id of the program attached to an interface of the calling thread's namespace, in whatever
/// mode. `None` also when the kernel does not say.
pub(crate) fn program(interface: u32) -> Option<u32> {
    let programs = Rtnetlink::open().ok()?.programs(interface).ok()?;
    programs.into_iter().find(|&id| id != 0)
}

/// Attaches a program to an interface of the calling thread's namespace for as long as the
/// interface is there. Fails if it has one. Six system calls.
pub(crate) fn attach(program: BorrowedFd<'_>, interface: u32, native: bool) -> io::Result<()> {
    let flags = UNLESS_THERE_IS_ONE | if native { DRIVER } else { GENERIC };
    let set = |kernel: Rtnetlink| kernel.set(interface, &[Setting::Program(program, flags)]);
    Rtnetlink::open().and_then(set).map_err(|error| match error.errno() {
        // The caller explains these by their numbers.
        known @ (Errno::PERM | Errno::ACCESS | Errno::BUSY | Errno::EXIST) => known.into(),
        _ => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_no_program() {
        assert_eq!(program(1), None);
    }
}
