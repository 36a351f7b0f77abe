//! Who uses a MAC address on this node: the process that has bound the UNIX name made of it.
//!
//! Abstract names (unix(7)) belong to the network namespace, as addresses do, need no privileges
//! and go with the last copy of the socket's descriptor, also after SIGKILL. Any process of the
//! namespace can take any name, so that a claim keeps addresses apart among those who mean well,
//! and no more.

use gigae_wire::MacAddr;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;

/// A MAC address that this process uses, and no other process of this node.
#[derive(Debug)]
pub struct Claim(OwnedFd);

impl Claim {
    /// Claims the address in the calling thread's network namespace: binds `gigae/` and the address
    /// as text, such as `gigae/02:00:00:00:00:01`. `None` if another process has it. Two system
    /// calls; no privileges.
    pub fn take(mac: MacAddr) -> io::Result<Option<Self>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let name = SocketAddrUnix::new_abstract_name(format!("gigae/{mac}").as_bytes())?;
        match rustix::net::bind(&socket, &name) {
            Ok(()) => Ok(Some(Self(socket))),
            Err(Errno::ADDRINUSE) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

/// The bound socket: a sequenced-packet one that does not listen yet and does not block. The
/// address stays claimed as long as any copy of it is open.
impl AsFd for Claim {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Claim> for OwnedFd {
    fn from(claim: Claim) -> Self {
        claim.0
    }
}

/// From the socket of the process that claimed the address.
impl From<OwnedFd> for Claim {
    fn from(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_claimed_once_until_the_last_copy_is_closed() {
        let mac = MacAddr([2, 0, 0, 0, 0xc1, 0xa1]);
        let first = Claim::take(mac).unwrap().unwrap();
        assert!(Claim::take(mac).unwrap().is_none());
        assert!(Claim::take(MacAddr([2, 0, 0, 0, 0xc1, 0xa2])).unwrap().is_some());
        let copy = first.as_fd().try_clone_to_owned().unwrap();
        drop(first);
        assert!(Claim::take(mac).unwrap().is_none(), "a copy is open");
        drop(Claim::from(copy));
        assert!(Claim::take(mac).unwrap().is_some());
    }
}
