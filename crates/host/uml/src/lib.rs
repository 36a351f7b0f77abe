//! Guests: machines with a kernel of their own, in User-mode Linux.
//!
//! User-mode Linux is a Linux kernel that runs as an ordinary process. It needs no support by the
//! processor and no module of this machine's kernel, so it has file systems that this kernel may
//! not have: NFS, its server, RAID.
//!
//! A guest sees the files of this machine, read-only, as its root directory (hostfs). So programs
//! that are installed here run in it as they are, and no image is made. What it writes is in its
//! memory and on its disks, which are files in the caller's directory.
//!
//! ```text
//!   node's namespace                guest
//!   ┌──────────────────────┐       ┌──────────────────────────────┐
//!   │ eth0 <- AF_PACKET ───┼───────┼─ vec0, an address of its own │
//!   │          pipes ──────┼───────┼─ /dev/tty1: one script after │
//!   │          files ──────┼───────┼─ /dev/loop0 ...  the other   │
//!   └──────────────────────┘       └──────────────────────────────┘
//! ```
//!
//! [`Guest::boot`] starts one, [`Guest::run`] runs a shell script in it. A guest has one processor.
//! It ends with its value, and with this process, with all that it has started: it has a PID
//! namespace of its own.
//!
//! What it does not do: it installs nothing, makes no network and writes nothing outside of the
//! directory that the caller names. A guest cannot either, whatever its root mounts: its processes
//! on this machine are in a mount namespace in which all else is read-only. This does not hold
//! against code that a guest's root loads into the guest's kernel (a module): it has the caller's
//! rights, without `CAP_SYS_ADMIN`.

#![forbid(unsafe_code)]

mod error;
mod guest;
mod init;
mod reply;

pub use error::GuestError;
pub use guest::Guest;
pub use init::{GuestLink, HERE, INTERFACE, MODULES_AT, Machine};

/// The programs that guests need, and Debian's package of each; the kernel is the first.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("linux.uml", "user-mode-linux"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("modprobe", "kmod"),
    ("losetup", "mount"),
    ("mount", "mount"),
    ("ip", "iproute2"),
];
