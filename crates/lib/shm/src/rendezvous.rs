//! How two endpoints of one node find each other: names, users, and the first message.

use gigae_host::netns;
use gigae_link::{ChannelSet, Filter};
use gigae_memfd::SharedMemory;
use gigae_wire::{Envelope, MacAddr, port_within_node};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Most connections that wait to be accepted, within the kernel's limit (`net.core.somaxconn`): all
/// processes of a node may start at once.
const BACKLOG: i32 = 4096;

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// The first bytes of a hello: what it is, and its version and that of the ring.
const MAGIC: [u8; 8] = *b"gigaeshm";
const VERSION: u8 = 3;

/// What names an endpoint in the UDP envelope, on an interface with this number and with this UDP
/// port: in place of a MAC address, which all endpoints of the interface share.
pub fn name_in_ip(interface: u32, port: u16) -> MacAddr {
    let ([_, a, b, c], [d, e]) = (interface.to_be_bytes(), port.to_be_bytes());
    // A local address of a kind that no NIC and no child has (IEEE Std 802c, "reserved").
    MacAddr([0x06, a, b, c, d, e])
}

fn address(scope: &str, mac: MacAddr) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("{scope}/{mac}").as_bytes())
}

fn socket() -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)
}

/// Takes the name of an address in the calling thread's network namespace and listens there:
/// `gigae/02:00:00:00:00:01` with the scope `gigae`. Three system calls. `AddrInUse`: another
/// endpoint has it.
pub fn bind(scope: &str, mac: MacAddr) -> std::io::Result<OwnedFd> {
    let socket = socket()?;
    rustix::net::bind(&socket, &address(scope, mac)?)?;
    listen(socket)
}

/// Listens at a name that was taken earlier, with a socket of the same kind.
pub fn listen(name: OwnedFd) -> std::io::Result<OwnedFd> {
    rustix::net::listen(&name, BACKLOG)?;
    rustix::io::ioctl_fionbio(&name, true)?;
    Ok(name)
}

/// The network namespace of the calling thread, which decides where names are looked up. `None`
/// without `/proc`. One system call.
pub(crate) fn namespace() -> Option<(u64, u64)> {
    let stat = rustix::fs::stat(netns::OWN).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// Calls in the network namespace of a socket, which the calling thread enters and leaves again.
/// Needs `CAP_SYS_ADMIN` in both namespaces and `CAP_NET_ADMIN` in the socket's. Seven system
/// calls: the thread tries the way back before it leaves, which `netns::enter` does not do.
pub(crate) fn in_namespace_of<T>(
    socket: &OwnedFd,
    call: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let own = netns::own().map_err(errno)?;
    let other = gigae_host::socket::namespace(socket).map_err(|_| Errno::XDEV)?;
    netns::set(own.as_fd()).map_err(errno)?;
    netns::set(other.as_fd()).map_err(errno)?;
    let result = call();
    netns::set(own.as_fd()).expect("a thread may return to the namespace that it came from");
    result
}

/// Whether the other end belongs to this process's user.
fn is_own(socket: &OwnedFd) -> bool {
    gigae_host::socket::peer(socket).is_ok_and(|peer| gigae_host::user::is_own(peer.uid))
}

/// Connects to the endpoint that listens for an address, if it belongs to this process's user.
/// Four or five system calls; two if none listens.
pub(crate) fn connect(scope: &str, mac: MacAddr) -> Result<OwnedFd, Errno> {
    let socket = socket()?;
    rustix::net::connect(&socket, &address(scope, mac)?)?;
    if is_own(&socket) { Ok(socket) } else { Err(Errno::PERM) }
}

/// The next waiting connection, unless it is another user's.
pub(crate) fn accept(listener: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let socket = rustix::net::accept_with(listener, FLAGS)?;
    Ok(Some(socket).filter(is_own))
}

/// What a connecting endpoint says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RingHello {
    pub(crate) mac: MacAddr,
    /// Which frames it takes. If the two endpoints take different frames, they use the NIC.
    pub(crate) filter: Filter,
    /// Words in the ring without its control words: a power of two.
    pub(crate) words: u32,
    /// Where the ring's memory begins in the address space of this process.
    pub(crate) ring_at: u64,
}

impl RingHello {
    const LEN: usize = 64;

    /// The address that a frame with these first bytes goes to; `None` if no endpoint of this node
    /// has it.
    #[inline]
    pub(crate) fn address_in(&self, frame: &[u8]) -> Option<[u8; 6]> {
        match self.filter.envelope {
            Envelope::Ethernet { .. } => frame.first_chunk().copied(),
            Envelope::Udp { .. } => Some(self.name_at(port_within_node(frame)?).0),
        }
    }

    /// The name of the endpoint with this UDP port on the same interface.
    pub(crate) fn name_at(&self, port: u16) -> MacAddr {
        let ([a, b, c, d, _, _], [high, low]) = (self.mac.0, port.to_be_bytes());
        MacAddr([a, b, c, d, high, low])
    }

    /// Whether both ends take the same frames but for their UDP ports, which are part of their
    /// names.
    pub(crate) fn takes_as(&self, other: &Self) -> bool {
        let (own, others) = (self.filter.envelope, other.filter.envelope);
        let in_ip = |envelope| matches!(envelope, Envelope::Udp { .. });
        let same = own == others || in_ip(own) && in_ip(others);
        same && self.filter.channels == other.filter.channels
    }

    fn write(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let (kind, number) = match self.filter.envelope {
            Envelope::Ethernet { ethertype } => (1, ethertype),
            Envelope::Udp { port } => (2, port),
        };
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = VERSION;
        bytes[9] = kind;
        bytes[10..12].copy_from_slice(&number.to_ne_bytes());
        bytes[12..18].copy_from_slice(&self.mac.0);
        bytes[20..24].copy_from_slice(&self.words.to_ne_bytes());
        bytes[56..].copy_from_slice(&self.ring_at.to_ne_bytes());
        for (to, word) in bytes[24..56].chunks_mut(8).zip(self.filter.channels.words()) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        if bytes[..8] != MAGIC || bytes[8] != VERSION {
            return None;
        }
        let number = u16::from_ne_bytes([bytes[10], bytes[11]]);
        let envelope = match bytes[9] {
            1 => Envelope::Ethernet { ethertype: number },
            2 => Envelope::Udp { port: number },
            _ => return None,
        };
        let mac = MacAddr(bytes[12..18].try_into().ok()?);
        let words = u32::from_ne_bytes(bytes[20..24].try_into().ok()?);
        let ring_at = u64::from_ne_bytes(bytes[56..].try_into().ok()?);
        let (channels, _) = bytes[24..56].as_chunks::<8>();
        let word = |channel: u8| u64::from_ne_bytes(channels[usize::from(channel / 64)]);
        let is_set = |channel: &u8| word(*channel) >> (channel % 64) & 1 == 1;
        let channels: ChannelSet = (0..=u8::MAX).filter(is_set).collect();
        Some(Self { mac, filter: Filter { envelope, channels }, words, ring_at })
    }

    /// Sends the hello and passes the ring.
    pub(crate) fn send(&self, to: &OwnedFd, memory: impl AsFd) -> Result<(), Errno> {
        let descriptors = [memory.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(to, &[IoSlice::new(&self.write())], &mut ancillary, flags)?;
        Ok(())
    }
}

/// The hello of a connection, or `AGAIN` if none has come yet. `BADMSG` for anything but a hello
/// with one correct memfd.
pub(crate) fn greeting(socket: &OwnedFd) -> Result<(RingHello, OwnedFd), Errno> {
    let mut bytes = [0; RingHello::LEN + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received =
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor = descriptors.next().and_then(|mut descriptors| descriptors.next());
    let whole = !received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    let hello = RingHello::read(&bytes[..received.bytes]).filter(|_| whole);
    Ok((hello.ok_or(Errno::BADMSG)?, descriptor.ok_or(Errno::BADMSG)?))
}

/// The ring that came with a hello.
pub(crate) fn map(
    hello: &RingHello,
    memory: &OwnedFd,
    words: std::ops::RangeInclusive<u32>,
) -> Option<SharedMemory> {
    let fits = words.contains(&hello.words) && hello.words.is_power_of_two();
    let len = crate::ring::CONTROL + hello.words as usize;
    fits.then(|| SharedMemory::map(memory, len).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_says_what_was_said_and_nothing_else_is_one() {
        for envelope in [Envelope::DEFAULT, Envelope::Udp { port: 47_000 }] {
            let channels = [0, 63, 64, 255].into_iter().collect();
            let mac = MacAddr([2, 0, 0, 1, 2, 3]);
            let filter = Filter { envelope, channels };
            let hello = RingHello { mac, filter, words: 1 << 16, ring_at: 0x7fff_1234_5678_9000 };
            let bytes = hello.write();
            assert_eq!(RingHello::read(&bytes), Some(hello));
            assert_eq!(RingHello::read(&bytes[..bytes.len() - 1]), None);
            assert_eq!(RingHello::read(&[&bytes[..], &[0]].concat()), None);
            for at in 0..10 {
                let mut wrong = bytes;
                wrong[at] ^= 0x80;
                assert_eq!(RingHello::read(&wrong), None, "byte {at}");
            }
        }
    }
}
