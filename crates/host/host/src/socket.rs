//! What the kernel says of a socket, and rustix does not ask: in which network namespace it is, and
//! who is at the other end.

use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// linux/sockios.h: a descriptor of a socket's network namespace.
const SIOCGSKNS: libc::Ioctl = 0x894c;

/// The network namespace of a socket. Needs `CAP_NET_ADMIN` there. One system call.
pub fn namespace(socket: impl AsFd) -> Result<OwnedFd> {
    // SAFETY: this ioctl has no argument; what it returns is a descriptor or an error.
    let file = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCGSKNS) };
    if file < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just made for us.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// The process at the other end of a connection between UNIX-domain sockets, and its user and group
/// (unix(7), `SO_PEERCRED`): the process that connected, or that listens there. Its number is zero
/// if it is not visible here (another PID namespace), which rustix has no value for. One system
/// call.
pub fn peer(socket: impl AsFd) -> Result<libc::ucred> {
    // No user's, in case the kernel writes less than all of it.
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: pointer and length describe one structure that lives across the call, and all of
    // whose values are valid.
    let result = unsafe {
        let (fd, at) = (socket.as_fd().as_raw_fd(), (&raw mut peer).cast());
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, at, &raw mut length)
    };
    match result {
        0 => Ok(peer),
        _ => Err(Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_kernel_says_who_is_at_the_other_end() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = peer(&ours).unwrap();
        assert_eq!(peer.uid, rustix::process::getuid().as_raw());
        assert_eq!(peer.gid, rustix::process::getgid().as_raw());
        assert_eq!(peer.pid, std::process::id() as i32);
    }
}
