//! The user, the capabilities and `no_new_privs`.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, Gid, Uid};
use std::io;

/// The numbers of a user and of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UserIds {
    uid: u32,
    gid: u32,
}

/// The user and the group `nobody` where `/etc/passwd` does not say (kernel: overflowuid).
const NOBODY: UserIds = UserIds { uid: 65534, gid: 65534 };

/// The names of capabilities, for people.
pub fn names(capabilities: CapabilitySet) -> String {
    let all: Vec<String> =
        capabilities.iter_names().map(|(name, _)| format!("CAP_{name}")).collect();
    match all.is_empty() {
        true => "no capability".into(),
        false => all.join(", "),
    }
}

/// Raises the limits of descriptors and of locked memory as far as the process may. True if it may
/// lock any amount; otherwise frame memory needs `CAP_IPC_LOCK`. To be called before the rights are
/// given up.
pub fn lift_limits() -> bool {
    let endless = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, endless).is_err() {
        let maximum = getrlimit(Resource::Memlock).maximum;
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Memlock).current.is_none()
}

/// Fails, with what to do, if the process lacks any of these capabilities.
pub fn require(capabilities: CapabilitySet) -> io::Result<()> {
    let missing = capabilities.difference(rustix::thread::capabilities(None)?.permitted);
    if missing.is_empty() {
        return Ok(());
    }
    let text =
        format!("the process lacks {}; run it as root or by its systemd unit", names(missing));
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Keeps these capabilities only; uid 0 becomes the first of these users that exists. Returns the
/// uid.
pub(crate) fn assume(keep: CapabilitySet, users: &[String]) -> io::Result<u32> {
    require(keep)?;
    rustix::thread::set_no_new_privs(true)?;
    for capability in CapabilitySet::all().difference(keep).iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // The kernel does not know this capability, or a supervisor took CAP_SETPCAP. The
            // latter does no harm: `no_new_privs` keeps programs from using the set.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if rustix::process::geteuid().is_root() && !users.is_empty() {
        become_user(lookup(users))?;
    }
    rustix::thread::clear_ambient_capability_set()?;
    let inheritable = CapabilitySet::empty();
    let sets = CapabilitySets { effective: keep, permitted: keep, inheritable };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(rustix::process::geteuid().as_raw())
}

/// Real, effective and saved ids, and no further groups. The permitted capabilities survive this.
fn become_user(user: UserIds) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    rustix::thread::set_keep_capabilities(true)?;
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    Ok(rustix::thread::set_keep_capabilities(false)?)
}

/// Whether a process of uid 0 can become this user
/// ([`Confinement::user`](crate::Confinement::user)): `/etc/passwd` has it, and it is not root.
pub fn is_local_user(name: &str) -> bool {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    find(&passwd, name).is_some()
}

/// The first of these users in `/etc/passwd`, else `nobody`. Other sources of users (LDAP) are not
/// asked: a daemon's user is the machine's own.
fn lookup(users: &[String]) -> UserIds {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut wanted = users.iter().map(String::as_str).chain(["nobody"]);
    wanted.find_map(|user| find(&passwd, user)).unwrap_or(NOBODY)
}

fn find(passwd: &str, user: &str) -> Option<UserIds> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is = fields.next() == Some(user);
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        // A line that makes the daemon's user root is a mistake.
        (is && uid != 0).then_some(UserIds { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name_and_is_never_root() {
        let passwd =
            "root:x:0:0::/:/bin/sh\nbad\ngigaex:x:7:7::/:\ngigae:x:998:997::/:\nevil:x:0:5::/:\n";
        assert_eq!(find(passwd, "gigae"), Some(UserIds { uid: 998, gid: 997 }));
        for user in ["root", "evil", "giga", "bad", ""] {
            assert_eq!(find(passwd, user), None, "{user}");
        }
    }

    #[test]
    fn capabilities_are_named_as_people_know_them() {
        let some = CapabilitySet::NET_RAW | CapabilitySet::BPF;
        assert_eq!(names(some), "CAP_NET_RAW, CAP_BPF");
        assert_eq!(names(CapabilitySet::empty()), "no capability");
    }
}
