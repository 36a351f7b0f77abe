//! Where a peer is reached beside its first link: by further links, or by a UDP socket
//! (`PROTOCOL.md` §11).

use crate::{Discard, MacAddr};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Most paths of a session: as many NICs as a node can have for one endpoint.
pub const MAX_PATHS: usize = 8;

/// The number of a path, counted from 0. It is also the number of the link at each end: a path
/// leads from a link to the one of the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PathId(u8);

impl PathId {
    /// The path by the first link. Every session has it.
    pub const FIRST: Self = Self(0);

    /// The path by a socket for bulk data, which only an endpoint with one link has.
    pub const SOCKET: Self = Self(1);

    /// The path with this number, which is less than [`MAX_PATHS`].
    #[inline]
    pub const fn new(number: usize) -> Self {
        debug_assert!(number < MAX_PATHS);
        Self(number as u8)
    }

    /// Its number, as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether it is the path by the first link.
    #[inline]
    pub const fn is_first(self) -> bool {
        self.0 == 0
    }

    /// The path that comes `steps` steps later, where there are `count` paths and the first follows
    /// the last.
    ///
    /// # Panics
    /// If `count` is zero.
    #[inline]
    pub const fn after(self, steps: u8, count: u8) -> Self {
        Self(self.0.wrapping_add(steps) % count)
    }

    /// All of `count` paths, in order.
    #[inline]
    pub fn all(count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(Self::new)
    }

    /// All of `count` paths but the first, in order.
    #[inline]
    pub fn further(count: usize) -> impl Iterator<Item = Self> {
        (1..count).map(Self::new)
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What an endpoint has beside its first link. An endpoint names its further links or a socket, not
/// both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Paths {
    /// Nothing: one link, whose address every frame shows.
    #[default]
    None,
    /// Several links.
    Links(Macs),
    /// A UDP socket for bulk data.
    Bulk(SocketAddr),
}

/// The addresses of several links, in order. The first names the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Macs {
    count: u8,
    macs: [MacAddr; MAX_PATHS],
}

/// Where one path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathAddr {
    /// To a link.
    Link(MacAddr),
    /// To a UDP socket.
    Socket(SocketAddr),
}

/// Takes the place of the number of links and says that a socket's address follows. No endpoint has
/// one link and names it.
const SOCKET: u8 = 1;

impl Paths {
    /// Longest form on the wire in bytes: a count and the addresses.
    pub const LONGEST: usize = 1 + MAX_PATHS * 6;

    /// Links with these addresses, up to the first [`MAX_PATHS`]; [`None`](Self::None) if there are
    /// fewer than two.
    pub fn links(addresses: &[MacAddr]) -> Self {
        let count = addresses.len().min(MAX_PATHS);
        if count < 2 {
            return Self::None;
        }
        let mut macs = [MacAddr::default(); MAX_PATHS];
        macs[..count].copy_from_slice(&addresses[..count]);
        Self::Links(Macs { count: count as u8, macs })
    }

    /// Number of paths that the endpoint offers, 1 to [`MAX_PATHS`].
    #[expect(clippy::len_without_is_empty, reason = "there is always one link")]
    pub fn len(&self) -> usize {
        match self {
            Self::None => 1,
            Self::Links(macs) => usize::from(macs.count),
            Self::Bulk(_) => 2,
        }
    }

    /// The address of the first link, if the endpoint named it.
    pub fn first(&self) -> Option<MacAddr> {
        match self {
            Self::Links(macs) => Some(macs.macs[0]),
            _ => None,
        }
    }

    /// Where a path leads, if the endpoint named that.
    #[inline]
    pub fn get(&self, path: PathId) -> Option<PathAddr> {
        match self {
            Self::Links(macs) => {
                macs.macs[..usize::from(macs.count)].get(path.index()).copied().map(PathAddr::Link)
            }
            Self::Bulk(socket) if path == PathId::SOCKET => Some(PathAddr::Socket(*socket)),
            _ => None,
        }
    }

    /// How many paths lead from an endpoint with these to one with those: as many as both have, and
    /// one if they are of different kinds.
    pub fn common(&self, other: &Self) -> usize {
        match (self, other) {
            (Self::Links(_), Self::Links(_)) => self.len().min(other.len()),
            // A socket of one family reaches none of the other.
            (Self::Bulk(a), Self::Bulk(b)) if a.is_ipv4() == b.is_ipv4() => 2,
            _ => 1,
        }
    }

    /// Writes the end of a [`crate::Handshake`]; returns its length, zero if there are none.
    ///
    /// # Panics
    /// If `to` is shorter than that.
    pub fn write(&self, to: &mut [u8]) -> usize {
        match self {
            Self::None => 0,
            Self::Links(Macs { count, macs }) => {
                to[0] = *count;
                let mut at = 1;
                for mac in &macs[..usize::from(*count)] {
                    to[at..at + 6].copy_from_slice(&mac.0);
                    at += 6;
                }
                at
            }
            Self::Bulk(socket) => {
                to[0] = SOCKET;
                to[1..3].copy_from_slice(&socket.port().to_be_bytes());
                let mapped = match socket.ip() {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                to[3..19].copy_from_slice(&mapped.octets());
                19
            }
        }
    }

    /// Reads the end of a [`crate::Handshake`]. No bytes mean [`None`](Self::None). Ignores further
    /// bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Discard> {
        let Some((&count, rest)) = bytes.split_first() else {
            return Ok(Self::None);
        };
        if count == SOCKET {
            return parse_socket(rest);
        }
        let bytes = rest.get(..usize::from(count) * 6).ok_or(Discard::Malformed)?;
        let (mut macs, mut used) = ([MacAddr::default(); MAX_PATHS], 0);
        for (mac, bytes) in macs.iter_mut().zip(bytes.chunks_exact(6)) {
            mac.0.copy_from_slice(bytes);
            used += 1;
        }
        if macs[..used].iter().any(|mac| mac.is_group() || mac.0 == [0; 6]) {
            return Err(Discard::Malformed);
        }
        Ok(Self::links(&macs[..used]))
    }
}

fn parse_socket(bytes: &[u8]) -> Result<Paths, Discard> {
    let (port, rest) = bytes.split_first_chunk::<2>().ok_or(Discard::Malformed)?;
    let ip = Ipv6Addr::from(*rest.first_chunk::<16>().ok_or(Discard::Malformed)?).to_canonical();
    let port = u16::from_be_bytes(*port);
    let is_node = match ip {
        IpAddr::V4(ip) => !ip.is_multicast() && !ip.is_broadcast() && ip != Ipv4Addr::UNSPECIFIED,
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unspecified(),
    };
    // Behind a loopback address are programs of the receiver's own node.
    if port == 0 || !is_node || ip.is_loopback() {
        return Err(Discard::Malformed);
    }
    Ok(Paths::Bulk(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn mac(n: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 1, n])
    }

    fn written(paths: &Paths) -> Vec<u8> {
        let mut room = [0; Paths::LONGEST];
        let len = paths.write(&mut room);
        room[..len].to_vec()
    }

    /// The layout in `PROTOCOL.md` §11, byte for byte.
    #[test]
    fn the_layout_is_the_documented_one_and_one_link_is_left_out() {
        let two = Paths::links(&[mac(1), mac(2)]);
        assert_eq!(written(&two), [2, 2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 2]);
        let one = Paths::links(&[mac(1)]);
        assert_eq!((written(&one).len(), one.len(), one.get(PathId::FIRST)), (0, 1, None));
    }

    #[test]
    fn the_first_path_follows_the_last_and_a_path_is_shown_as_its_number() {
        let paths = |count| PathId::all(count).collect::<Vec<_>>();
        assert_eq!(paths(2), [PathId::FIRST, PathId::SOCKET]);
        assert!(PathId::further(8).eq(paths(8).into_iter().skip(1)));
        let last = PathId::new(7);
        assert_eq!((last.index(), last.is_first(), PathId::FIRST.is_first()), (7, false, true));
        assert_eq!((last.after(1, 8), PathId::FIRST.after(5, 3)), (PathId::FIRST, PathId::new(2)));
        assert_eq!(std::format!("{last} {last:?}"), "7 7");
    }

    #[test]
    fn what_is_written_is_read_back_and_more_behind_it_is_ignored() {
        let all: Vec<_> = (1..=8).map(mac).collect();
        for count in 0..=8 {
            let paths = Paths::links(&all[..count]);
            let mut bytes = written(&paths);
            assert_eq!(Paths::parse(&bytes), Ok(paths));
            if count > 1 {
                bytes.push(7);
                assert_eq!(Paths::parse(&bytes), Ok(paths));
                let last = PathId::new(count - 1);
                assert_eq!(paths.get(last), Some(PathAddr::Link(mac(count as u8))));
                let named = PathId::all(MAX_PATHS).filter(|&path| paths.get(path).is_some());
                assert!(named.eq(PathId::all(count)));
            }
        }
    }

    #[test]
    fn of_more_links_than_there_can_be_the_first_are_taken() {
        let mut bytes = vec![9];
        (1..=9).for_each(|n| bytes.extend(mac(n).0));
        let paths = Paths::parse(&bytes).unwrap();
        let last = PathId::new(7);
        assert_eq!((paths.len(), paths.get(last)), (8, Some(PathAddr::Link(mac(8)))));
        bytes.pop();
        assert_eq!(Paths::parse(&bytes), Err(Discard::Malformed), "the list is cut off");
    }

    #[test]
    fn a_socket_has_the_documented_layout() {
        let four = Paths::Bulk("198.18.0.1:4791".parse().unwrap());
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1];
        assert_eq!(written(&four), [&[1, 0x12, 0xb7][..], &mapped].concat());
        let six = Paths::Bulk("[fd00::1]:4791".parse().unwrap());
        for paths in [four, six] {
            let mut bytes = written(&paths);
            bytes.push(7);
            assert_eq!(Paths::parse(&bytes), Ok(paths));
            assert_eq!(Paths::parse(&bytes[..18]), Err(Discard::Malformed));
            let Paths::Bulk(socket) = paths else { unreachable!() };
            assert_eq!((paths.len(), paths.get(PathId::FIRST)), (2, None));
            assert_eq!(paths.get(PathId::SOCKET), Some(PathAddr::Socket(socket)));
        }
        for bad in [
            "0.0.0.0:1",
            "224.0.0.1:1",
            "255.255.255.255:1",
            "[::]:1",
            "[ff02::1]:1",
            "1.2.3.4:0",
            "127.0.0.1:1",
            "[::1]:1",
        ] {
            let bytes = written(&Paths::Bulk(bad.parse().unwrap()));
            assert_eq!(Paths::parse(&bytes), Err(Discard::Malformed), "{bad}");
        }
    }

    #[test]
    fn paths_of_two_kinds_have_the_first_in_common() {
        let links = Paths::links(&[mac(1), mac(2), mac(3)]);
        let four = Paths::Bulk("198.18.0.1:4791".parse().unwrap());
        let six = Paths::Bulk("[fd00::1]:4791".parse().unwrap());
        assert_eq!(links.common(&Paths::links(&[mac(4), mac(5)])), 2);
        assert_eq!((four.common(&four), six.common(&six)), (2, 2));
        for (a, b) in [(links, four), (four, six), (Paths::None, four), (links, Paths::None)] {
            assert_eq!((a.common(&b), b.common(&a)), (1, 1));
        }
    }

    #[test]
    fn an_address_that_is_no_node_is_malformed() {
        for bad in [[0; 6], [0xff; 6], [1, 0, 0, 0, 0, 1]] {
            let bytes = written(&Paths::links(&[mac(1), MacAddr(bad)]));
            assert_eq!(Paths::parse(&bytes), Err(Discard::Malformed));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Paths::parse(&bytes);
        }
    }
}
