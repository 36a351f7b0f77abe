//! Users and groups: their numbers by name, and the process at the other end of a connection.

use gigae_host::socket;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Room for an entry of the user database. Larger entries (groups with very many members) also
/// work.
const ROOM: usize = 16 << 10;
const MOST_ROOM: usize = 16 << 20;

/// Most groups of one process that are read: Linux allows 65,536.
const MOST_GROUPS: usize = 65_536;

/// The process at the other end of a connection, as the kernel reports it (unix(7), `SO_PEERCRED`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerProcess {
    /// The user.
    pub uid: u32,
    /// The groups.
    pub groups: Vec<u32>,
    /// The process, for people; zero if its number has no meaning here.
    pub pid: i32,
    /// Its socket is in another network namespace than the broker's.
    pub elsewhere: bool,
}

/// A network namespace: device and inode of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespace(u64, u64);

impl Namespace {
    /// The namespace of a socket. An accepted UNIX-domain socket has the namespace of the
    /// connecting socket. So the kernel says where a client is, whatever the client says or does
    /// later. Three system calls; needs `CAP_NET_ADMIN` there.
    pub(crate) fn of(socket: &impl AsFd) -> io::Result<Self> {
        let about = rustix::fs::fstat(socket::namespace(socket)?)?;
        Ok(Self(about.st_dev, about.st_ino))
    }
}

impl PeerProcess {
    /// The process that connected to this socket, seen from this namespace. Five system calls.
    pub(crate) fn of(connection: &impl AsFd, here: Namespace) -> io::Result<Self> {
        let credentials = socket::peer(connection)?;
        let mut groups = further_groups(connection)?;
        groups.push(credentials.gid);
        // If asking is not permitted, it is elsewhere.
        let elsewhere = Namespace::of(connection).ok() != Some(here);
        Ok(Self { uid: credentials.uid, groups, pid: credentials.pid, elsewhere })
    }
}

/// The supplementary groups (`SO_PEERGROUPS`, Linux 4.13).
fn further_groups(connection: &impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 64];
    loop {
        let mut length = size_of_val(&groups[..]) as libc::socklen_t;
        let fd = connection.as_fd().as_raw_fd();
        // SAFETY: pointer and length describe memory that lives across the call.
        let result = unsafe {
            let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERGROUPS);
            libc::getsockopt(fd, level, option, groups.as_mut_ptr().cast(), &raw mut length)
        };
        let count = length as usize / size_of::<u32>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || count > MOST_GROUPS {
            return Err(error);
        }
        groups.resize(count.max(groups.len()) + 1, 0);
    }
}

/// The number of a user; `None` if there is no such user.
pub(crate) fn user(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    with_room(|room| {
        // SAFETY: the structure is plain integers and pointers, for which zeros are valid.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: a string, and places that live across the call, the room with its length.
        let result = unsafe {
            let (to, length) = (room.as_mut_ptr().cast(), room.len());
            libc::getpwnam_r(name.as_ptr(), &raw mut entry, to, length, &raw mut found)
        };
        (result, (!found.is_null()).then_some(entry.pw_uid))
    })
}

/// The number of a group; `None` if there is no such group.
pub(crate) fn group(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    with_room(|room| {
        // SAFETY: as above.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: as above.
        let result = unsafe {
            let (to, length) = (room.as_mut_ptr().cast(), room.len());
            libc::getgrnam_r(name.as_ptr(), &raw mut entry, to, length, &raw mut found)
        };
        (result, (!found.is_null()).then_some(entry.gr_gid))
    })
}

/// Asks with more and more room, as long as the answer is that there is too little.
fn with_room<T>(mut ask: impl FnMut(&mut [u8]) -> (i32, Option<T>)) -> Option<T> {
    let mut room = ROOM;
    loop {
        match ask(&mut vec![0; room]) {
            (libc::ERANGE, _) if room < MOST_ROOM => room *= 4,
            (0, found) => return found,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    #[test]
    fn root_is_user_and_group_zero() {
        assert_eq!((user("root"), group("root")), (Some(0), Some(0)));
        assert_eq!((user("no-such-user-here"), group("a\0b")), (None, None));
    }

    #[test]
    fn the_kernel_says_which_groups_who_is_there_has() {
        let (ours, _theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let own: Vec<_> = rustix::process::getgroups().unwrap();
        let own: Vec<_> = own.into_iter().map(|group| group.as_raw()).collect();
        assert_eq!(further_groups(&ours).unwrap(), own);
    }
}
