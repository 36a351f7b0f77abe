//! Fabrics of an ordinary user: a user namespace in which the process has the privileges that one
//! takes.
//!
//! [`gain_privileges`] moves the whole process, once and for good, into three new namespaces
//! (user_namespaces(7)):
//!
//! - a user namespace, in which its user is root;
//! - a network namespace, of which only the loopback is up. So nothing can be done to the host's
//!   network;
//! - a mount namespace with its own `/run`, for the names of network namespaces. What `/run` had
//!   before is still there.
//!
//! All of them end with the last process inside, and every fabric with them. What the kernel
//! reserves for root outside of user namespaces stays reserved: programs of BPF, real-time
//! scheduling, more locked memory, settings of the whole machine.

use std::fs;
use std::io;
use std::path::Path;

use gigae_host::proc;
use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::UnshareFlags;

use crate::fabric::require_capabilities;
use crate::{FabricError, tool};

/// Settings by which a machine forbids ordinary users user namespaces: the file, the value that
/// forbids, and the command that allows.
const FORBIDDING: [(&str, &str, &str); 3] = [
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
    // Debian's and Ubuntu's.
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "sysctl kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
];

/// Where the process's own `/run` keeps what `/run` was before.
const FORMER: &str = "/run/host";

/// Lets this process create fabrics if it may not yet: moves it into its own user namespace. Does
/// nothing for root.
///
/// The process must have one thread. What it starts later is in the namespace, too.
pub fn gain_privileges() -> Result<(), FabricError> {
    if require_capabilities().is_ok() {
        return Ok(());
    }
    become_root().map_err(|error| FabricError::UserNamespace { why: why(&error, proc::read) })?;
    own_run().map_err(|error| FabricError::system("making a /run for this process", error))?;
    tool::batch("ip", "link set dev lo up\n")
}

fn become_root() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNET | UnshareFlags::NEWNS;
    // SAFETY: the flags hold no CLONE_FILES, so the descriptors stay as they are. The kernel
    // refuses CLONE_NEWUSER to a process of several threads, so no other thread relies on a path.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    // A program with file capabilities may not write to its own files below /proc otherwise.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    // Else the kernel refuses to map a group to a process that could not give up groups before.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
    fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))
}

/// Lays a file system of the process's own over `/run`, with links to all that was there, except
/// what is of namespaces and of gigae.
fn own_run() -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let clone = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let former = open_tree(CWD, "/run", clone)?;
    mount("gigae", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=755")?;
    fs::create_dir(FORMER)?;
    move_mount(former, "", CWD, FORMER, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    for entry in fs::read_dir(FORMER)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if text != "netns" && !text.starts_with("gigae") && text != "host" {
            std::os::unix::fs::symlink(
                Path::new("host").join(&name),
                Path::new("/run").join(&name),
            )?;
        }
    }
    Ok(())
}

/// What forbids it and who can allow it, given how files are read.
fn why(error: &io::Error, read: impl Fn(&str) -> String) -> String {
    let forbids = |&&(file, value, _): &&(&str, &str, &str)| read(file).trim() == value;
    match FORBIDDING.iter().find(forbids) {
        Some((file, value, command)) => {
            let setting = file.trim_start_matches("/proc/sys/").replace('/', ".");
            format!("{setting} is {value}; run this as root, or once as root: {command}")
        }
        None => format!(
            "the kernel says: {error}; run this as root, or have the container that it runs in allow user namespaces"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_user_namespaces_is_named_with_its_remedy() {
        let denied = || io::Error::from_raw_os_error(1);
        for (file, value, command) in FORBIDDING {
            let read = |asked: &str| match asked == file {
                true => format!("{value}\n"),
                false => String::new(),
            };
            let text = why(&denied(), read);
            let setting = command.split_once(' ').unwrap().1.split_once('=').unwrap().0;
            assert!(text.starts_with(&format!("{setting} is {value}; run this as root")), "{text}");
            assert!(text.ends_with(command), "{text}");
        }
        let text = why(&denied(), |_| String::new());
        assert!(text.contains("not permitted") && text.contains("container"), "{text}");
    }
}
