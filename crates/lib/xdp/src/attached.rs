//! Which XDP program is attached to an interface: asks the kernel, and tells it (rtnetlink(7), `IFLA_XDP`).

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;

/// linux/rtnetlink.h, linux/netlink.h and linux/if_link.h.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_FD: u16 = 1;
const IFLA_XDP_FLAGS: u16 = 3;
/// linux/if_link.h: `XDP_FLAGS_UPDATE_IF_NOEXIST`, `XDP_FLAGS_SKB_MODE`, `XDP_FLAGS_DRV_MODE`.
const UNLESS_THERE_IS_ONE: u32 = 1 << 0;
const GENERIC: u32 = 1 << 1;
const DRIVER: u32 = 1 << 2;
const NLA_F_NESTED: u16 = 1 << 15;
/// `IFLA_XDP_PROG_ID`, or one of the ids per mode when several are attached.
const PROGRAM_IDS: std::ops::RangeInclusive<u16> = 4..=7;
const MODES: usize = 4;
/// Bytes of `nlmsghdr` and `ifinfomsg`.
const HEADER: usize = 16;
const LINK_HEADER: usize = 16;

/// Asks about the interfaces of the network namespace in which it was made, whichever thread asks.
pub(crate) struct Asker(OwnedFd);

impl Asker {
    /// One system call. `None` if the kernel has no such sockets for us.
    pub(crate) fn new() -> Option<Self> {
        let kind = SocketType::RAW;
        // NETLINK_ROUTE, number zero.
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, None);
        socket.ok().map(Self)
    }

    /// The ids of the programs attached to the interface, by mode, with zeros where there is none; `None`
    /// if the kernel does not say. Two system calls, of which the first waits for the lock under which all
    /// interfaces are changed: microseconds, but up to a second while many namespaces are being removed.
    pub(crate) fn programs(&self, interface: u32) -> Option<[u32; MODES]> {
        rustix::net::send(&self.0, &request(interface), SendFlags::empty()).ok()?;
        // The kernel sizes answers to a request for one link to fit 32 KiB, and answers before `send` ends.
        let mut answer = [0; 32 * 1024];
        let (length, _) = rustix::net::recv(&self.0, &mut answer[..], RecvFlags::DONTWAIT).ok()?;
        find(answer.get(..length)?)
    }
}

/// The id of the program attached to an interface of the calling thread's namespace, in whatever mode.
/// `None` also when the kernel does not say.
pub(crate) fn program(interface: u32) -> Option<u32> {
    Asker::new()?.programs(interface)?.into_iter().find(|&id| id != 0)
}

/// Attaches a program to an interface of the calling thread's namespace for as long as the interface is there. Fails
/// if it has one. Four system calls.
pub(crate) fn attach(program: BorrowedFd<'_>, interface: u32, native: bool) -> io::Result<()> {
    let flags = UNLESS_THERE_IS_ONE | if native { DRIVER } else { GENERIC };
    let list = [
        attribute(IFLA_XDP_FD, &program.as_raw_fd().to_ne_bytes()),
        attribute(IFLA_XDP_FLAGS, &flags.to_ne_bytes()),
    ];
    let attributes = attribute(IFLA_XDP | NLA_F_NESTED, &list.concat());
    let message = message(RTM_SETLINK, NLM_F_REQUEST | NLM_F_ACK, interface, &attributes);
    let Asker(socket) = Asker::new().ok_or(Errno::AFNOSUPPORT)?;
    rustix::net::send(&socket, &message, SendFlags::empty())?;
    // The kernel answers before `send` ends.
    let mut answer = [0; 1024];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    match refusal(answer.get(..length).unwrap_or_default()) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// What an acknowledgement says: an error's number, or zero.
fn refusal(message: &[u8]) -> Option<i32> {
    let is_one = message.get(4..6)? == NLMSG_ERROR.to_ne_bytes();
    let error = i32::from_ne_bytes(*message.get(HEADER..)?.first_chunk()?);
    is_one.then_some(error.checked_neg()?)
}

fn request(interface: u32) -> Vec<u8> {
    message(RTM_GETLINK, NLM_F_REQUEST, interface, &[])
}

fn message(kind: u16, flags: u16, interface: u32, attributes: &[u8]) -> Vec<u8> {
    let mut message = vec![0; HEADER + LINK_HEADER];
    let length = (message.len() + attributes.len()) as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&flags.to_ne_bytes());
    message[HEADER + 4..HEADER + 8].copy_from_slice(&interface.to_ne_bytes());
    message.extend(attributes);
    message
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Zeros everywhere if the interface has no program.
fn find(message: &[u8]) -> Option<[u32; MODES]> {
    if message.get(4..6)? != RTM_NEWLINK.to_ne_bytes() {
        return None;
    }
    let (_, xdp) =
        attributes(message.get(HEADER + LINK_HEADER..)?).find(|&(t, _)| t == IFLA_XDP)?;
    let mut ids = [0; MODES];
    for (kind, value) in attributes(xdp).filter(|(kind, _)| PROGRAM_IDS.contains(kind)) {
        ids[usize::from(kind - PROGRAM_IDS.start())] = u32::from_ne_bytes(*value.first_chunk()?);
    }
    Some(ids)
}

/// Walks a list of attributes: length, type, value, padding to four bytes.
fn attributes(mut list: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// Flags in the high bits of the type (`NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`).
    const TYPE: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let &[l0, l1, t0, t1] = list.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = list.get(4..length)?;
        list = list.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([t0, t1]) & TYPE, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(attributes: &[u8]) -> Vec<u8> {
        let mut message = vec![0; HEADER + LINK_HEADER];
        message[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
        message.extend(attributes);
        message
    }

    #[test]
    fn the_program_is_found_among_other_attributes() {
        let xdp = [attribute(2, &[1]), attribute(4, &77u32.to_ne_bytes())].concat();
        let list = [attribute(3, b"eth0\0"), attribute(IFLA_XDP | 0x8000, &xdp)].concat();
        assert_eq!(find(&answer(&list)), Some([77, 0, 0, 0]));
        assert_eq!(find(&answer(&attribute(IFLA_XDP, &attribute(2, &[0])))), Some([0; MODES]));
    }

    #[test]
    fn cut_answers_never_panic() {
        let xdp = attribute(4, &77u32.to_ne_bytes());
        let whole = answer(&attribute(IFLA_XDP, &xdp));
        for length in 0..whole.len() {
            assert_eq!(find(&whole[..length]), None, "{length}");
        }
        assert_eq!(find(&answer(&[0; 64])), None);
    }

    #[test]
    fn an_acknowledgement_says_which_error_or_none() {
        let mut answer = vec![0; HEADER];
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        assert_eq!(refusal(&answer), None);
        let with = |error: i32| refusal(&[&answer[..], &error.to_ne_bytes()].concat());
        assert_eq!((with(0), with(-16), with(i32::MIN)), (Some(0), Some(16), None));
        assert_eq!(refusal(&[0; HEADER + 4]), None);
    }

    #[test]
    fn the_loopback_has_no_program() {
        assert_eq!(program(1), None);
    }
}
