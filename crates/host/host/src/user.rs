//! Users, as the kernel names them to this process.

use crate::proc;
use std::sync::LazyLock;

/// The user that the kernel names for all that this process's user namespace has no number for
/// (kernel: `overflowuid`). Read once: hardly anybody sets it.
static OVERFLOW: LazyLock<u32> =
    LazyLock::new(|| overflow_in(&proc::read("/proc/sys/kernel/overflowuid")));

/// Its default.
const OVERFLOW_DEFAULT: u32 = 65_534;

/// The users of this process's user namespace (user_namespaces(7)): first of each range here, first
/// of it outside, length.
const MAP: &str = "/proc/self/uid_map";

/// Whether a user that the kernel named (`SO_PEERCRED`) is this process's effective user. One
/// system call, and a file is read if that user may stand for others.
pub fn is_own(user: u32) -> bool {
    let own = rustix::process::geteuid().as_raw();
    user == own && (own != *OVERFLOW || is_whole(&proc::read(MAP)))
}

/// Whether this process is in a user namespace (user_namespaces(7)) below the machine's own. Root
/// there may not do everything that root may.
pub fn in_user_namespace() -> bool {
    is_below(&proc::read(MAP))
}

/// A kernel without user namespaces has no such file.
fn is_below(map: &str) -> bool {
    !map.trim().is_empty() && !is_whole(map)
}

fn overflow_in(text: &str) -> u32 {
    text.trim().parse().unwrap_or(OVERFLOW_DEFAULT)
}

/// Whether each user has its own number here, as in the initial user namespace.
fn is_whole(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_who_stands_for_those_without_a_number_is_ones_own_only_where_all_have_one() {
        assert_eq!((overflow_in("65534\n"), overflow_in("7\n")), (65_534, 7));
        assert_eq!(overflow_in(""), 65_534, "the file cannot be read");
        assert!(is_whole("         0          0 4294967295\n"), "the initial user namespace");
        assert!(!is_below("         0          0 4294967295\n"));
        assert!(!is_whole("") && !is_below(""), "a kernel without user namespaces");
        for map in [
            "         0       1000          1\n",
            "         0      65534          1\n",
            "         0     100000      65536\n         65536  1  1\n",
            "         0     100000      65536\n",
            "         0          0      65535\n",
            "         0          0 4294967295\n 4294967295 4294967295 1\n",
            "      1000          0 4294966295\n",
        ] {
            assert!(!is_whole(map) && is_below(map), "{map:?}");
        }
    }

    #[test]
    fn where_all_have_a_number_ones_own_is_ones_own_and_no_other() {
        let own = rustix::process::geteuid().as_raw();
        assert!(!is_own(own.wrapping_add(1)));
        assert!(is_own(own) || !is_whole(&proc::read(MAP)));
    }
}
