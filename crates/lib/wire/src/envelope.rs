//! What carries a GigaE frame from node to node (`PROTOCOL.md` §3): an Ethernet II frame with its
//! own EtherType, or a UDP datagram for networks that carry no unknown EtherTypes.
//!
//! The outer headers towards one node change only in lengths and checksums. So they are built once,
//! as a [`Route`], and copied in front of each frame. Neighbour discovery is not done here: a route
//! needs the next hop's MAC address.

use crate::{Discard, MacAddr, Pieces};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::ops::Range;

const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// A VLAN tag (IEEE Std 802.1Q, clause 9.6).
const ETHERTYPE_TAG: u16 = 0x8100;
/// Its bits that name a VLAN. A tag without is a priority tag.
const VLAN: u16 = 0x0fff;
/// Bytes of the two addresses in front of it.
const ADDRESSES: usize = 12;
const PROTOCOL_UDP: u8 = 17;
/// The Internet's customary initial hop limit (RFC 1700).
const TTL: u8 = 64;

/// Longest outer header in bytes: Ethernet, IPv6, UDP.
pub const MAX_ENVELOPE: usize = ETHERNET_LEN + IPV6_LEN + UDP_LEN;

/// Bytes of a priority tag.
pub const TAG_LEN: usize = 4;

/// How frames of this protocol differ from all others on the same wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Envelope {
    /// Directly in Ethernet II, by EtherType.
    Ethernet {
        /// The EtherType, 0x0600 or more.
        ethertype: u16,
    },
    /// In UDP over IPv4 or IPv6, by destination port. Endpoints may have UDP ports of their own,
    /// which follow from their port ids ([`beyond`]).
    Udp {
        /// The UDP port of this endpoint, which is also the source port of its frames.
        port: u16,
    },
}

impl Envelope {
    /// Local Experimental EtherType 1 (IEEE Std 802, clause 9.2.4): for use inside one
    /// organisation.
    pub const DEFAULT: Self = Self::Ethernet { ethertype: 0x88b5 };

    /// Finds the GigaE frame in an Ethernet frame and says who sent it.
    ///
    /// Does not verify UDP and IPv4 checksums: the frame's checksum covers every byte that is used
    /// except the addresses. A wrong source fails the epoch check. The caller checks the
    /// [`destination`](Self::destination). Refuses IPv4 fragments and IPv6 extension headers, since
    /// no sender of this protocol makes them.
    #[inline]
    pub fn open(self, frame: &[u8]) -> Result<(NodeAddr, &[u8]), Discard> {
        let (from, place) = self.locate(frame, frame.len())?;
        Ok((from, &frame[place]))
    }

    /// Like [`open`](Self::open) for a frame in segments, given the first segment and the frame's
    /// length. Returns where in the whole frame the GigaE frame lies.
    #[inline]
    pub fn locate(self, first: &[u8], len: usize) -> Result<(NodeAddr, Range<usize>), Discard> {
        let (outer, _) = first.split_first_chunk::<ETHERNET_LEN>().ok_or(Discard::Short)?;
        let &[_, _, _, _, _, _, ref mac @ .., high, low] = outer;
        let (mut ethertype, mut start) = (u16::from_be_bytes([high, low]), ETHERNET_LEN);
        if !self.has(ethertype) {
            ethertype =
                behind_tag(first).filter(|&found| self.has(found)).ok_or(Discard::NotOurs)?;
            start += TAG_LEN;
        }
        match self {
            Self::Ethernet { .. } => {
                if MacAddr(*mac).is_group() {
                    return Err(Discard::Malformed);
                }
                Ok((NodeAddr::Ethernet(MacAddr(*mac)), start..len))
            }
            Self::Udp { port } => {
                let packet = first.get(start..).ok_or(Discard::Short)?;
                let (ip, udp) = match ethertype {
                    ETHERTYPE_IPV4 => open_ipv4(packet)?,
                    _ => open_ipv6(packet)?,
                };
                let inner = open_udp(packet, udp, port)?;
                let place = start + inner.start..start + inner.end;
                if place.end > len {
                    return Err(Discard::Short);
                }
                Ok((NodeAddr::Ip { ip, next_hop: MacAddr(*mac) }, place))
            }
        }
    }

    /// Whether its frames have this EtherType.
    #[inline]
    fn has(self, ethertype: u16) -> bool {
        match self {
            Self::Ethernet { ethertype: ours } => ours == ethertype,
            Self::Udp { .. } => ethertype == ETHERTYPE_IPV4 || ethertype == ETHERTYPE_IPV6,
        }
    }

    /// The IP address that a frame was sent to, if it has one: an address of the receiving node,
    /// from which answers must come. For frames that [`open`](Self::open) accepted.
    pub fn destination(self, frame: &[u8]) -> Option<IpAddr> {
        let (outer, packet) = frame.split_first_chunk::<ETHERNET_LEN>()?;
        let (ethertype, packet) = match behind_tag(frame) {
            None => (u16::from_be_bytes([outer[12], outer[13]]), packet),
            Some(behind) => (behind, packet.get(TAG_LEN..)?),
        };
        match (self, ethertype) {
            (Self::Udp { .. }, ETHERTYPE_IPV4) => {
                let to: [u8; 4] = *packet.get(16..20)?.first_chunk()?;
                Some(Ipv4Addr::from(to).into())
            }
            (Self::Udp { .. }, ETHERTYPE_IPV6) => {
                let to: [u8; 16] = *packet.get(24..40)?.first_chunk()?;
                Some(Ipv6Addr::from(to).into())
            }
            _ => None,
        }
    }

    /// Bytes of outer headers in front of a GigaE frame, Ethernet header included.
    #[inline]
    pub const fn len_for(self, to: NodeAddr) -> usize {
        match to {
            NodeAddr::Ethernet(_) => ETHERNET_LEN,
            NodeAddr::Ip { ip: IpAddr::V4(_), .. } => ETHERNET_LEN + IPV4_LEN + UDP_LEN,
            NodeAddr::Ip { ip: IpAddr::V6(_), .. } => MAX_ENVELOPE,
        }
    }

    /// Longest outer header in bytes that this envelope may need.
    pub const fn max_len(self) -> usize {
        match self {
            Self::Ethernet { .. } => ETHERNET_LEN,
            Self::Udp { .. } => MAX_ENVELOPE,
        }
    }
}

/// The EtherType behind a frame's priority tag: one that names a priority and no VLAN. `None` if it
/// has no such tag.
#[cold]
#[inline(never)]
fn behind_tag(frame: &[u8]) -> Option<u16> {
    let &[a, b, c, d, high, low] = frame.get(ADDRESSES..)?.first_chunk()?;
    let is_tag = u16::from_be_bytes([a, b]) == ETHERTYPE_TAG;
    let has_vlan = u16::from_be_bytes([c, d]) & VLAN != 0;
    (is_tag && !has_vlan).then_some(u16::from_be_bytes([high, low]))
}

/// The sender of an IPv4 packet, and where in it the UDP datagram lies.
fn open_ipv4(packet: &[u8]) -> Result<(IpAddr, Range<usize>), Discard> {
    let h: &[u8; IPV4_LEN] = packet.first_chunk().ok_or(Discard::Short)?;
    let header = usize::from(h[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    let fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3fff != 0;
    if h[0] >> 4 != 4 || header < IPV4_LEN || h[9] != PROTOCOL_UDP || fragment {
        return Err(Discard::NotOurs);
    }
    Ok((Ipv4Addr::new(h[12], h[13], h[14], h[15]).into(), header..total))
}

fn open_ipv6(packet: &[u8]) -> Result<(IpAddr, Range<usize>), Discard> {
    let h: &[u8; IPV6_LEN] = packet.first_chunk().ok_or(Discard::Short)?;
    if h[0] >> 4 != 6 || h[6] != PROTOCOL_UDP {
        return Err(Discard::NotOurs);
    }
    let length = usize::from(u16::from_be_bytes([h[4], h[5]]));
    let source: [u8; 16] = *h[8..].first_chunk().ok_or(Discard::Short)?;
    Ok((Ipv6Addr::from(source).into(), IPV6_LEN..IPV6_LEN + length))
}

/// The datagram in an Ethernet frame that was built for a link over a UDP socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The own address that it goes from.
    pub from: IpAddr,
    /// Where it goes.
    pub to: SocketAddr,
    /// Where in the frame its payload lies.
    pub payload: Range<usize>,
}

impl Datagram {
    /// Finds it, whatever its ports are. `None` if the frame has no UDP datagram.
    #[inline]
    pub fn within(frame: &[u8]) -> Option<Self> {
        let (outer, packet) = frame.split_first_chunk::<ETHERNET_LEN>()?;
        let (from, udp) = match u16::from_be_bytes([outer[12], outer[13]]) {
            ETHERTYPE_IPV4 => open_ipv4(packet).ok()?,
            ETHERTYPE_IPV6 => open_ipv6(packet).ok()?,
            _ => return None,
        };
        let port = u16::from_be_bytes(*packet.get(udp.start + 2..)?.first_chunk()?);
        let inner = open_udp(packet, udp, port).ok()?;
        let payload = ETHERNET_LEN + inner.start..ETHERNET_LEN + inner.end;
        let to = Envelope::Udp { port }.destination(frame)?;
        (payload.end <= frame.len()).then_some(Self { from, to: (to, port).into(), payload })
    }
}

/// Port ids from here on stand for UDP ports of their own.
const OWN_PORTS: u16 = 1 << 15;

/// By how much the UDP port of an endpoint with this port id is beyond the one that all nodes agree
/// on (`PROTOCOL.md` §3.2).
#[inline]
pub const fn beyond(port_id: u16) -> u16 {
    port_id.saturating_sub(OWN_PORTS)
}

/// The port id of the UDP port so far beyond the one that all nodes agree on, if it has one.
pub const fn port_id_beyond(further: u16) -> Option<u16> {
    OWN_PORTS.checked_add(further)
}

/// The UDP port of a port id, from the UDP port of another one.
const fn port_from_ids(own: u16, from: u16, to: u16) -> u16 {
    own.wrapping_sub(beyond(from)).wrapping_add(beyond(to))
}

/// The UDP port that a frame goes to, if its node sends it to one of the node's own addresses.
#[inline]
pub fn port_within_node(frame: &[u8]) -> Option<u16> {
    let (outer, packet) = frame.split_first_chunk::<ETHERNET_LEN>()?;
    let udp = match u16::from_be_bytes([outer[12], outer[13]]) {
        ETHERTYPE_IPV4 if packet.get(12..16)? == packet.get(16..20)? => IPV4_LEN,
        ETHERTYPE_IPV6 if packet.get(8..24)? == packet.get(24..40)? => IPV6_LEN,
        _ => return None,
    };
    Some(u16::from_be_bytes(*packet.get(udp + 2..)?.first_chunk()?))
}

/// Where in a packet the payload of the datagram lies.
fn open_udp(packet: &[u8], datagram: Range<usize>, port: u16) -> Result<Range<usize>, Discard> {
    let h = packet.get(datagram.start..).and_then(<[u8]>::first_chunk::<UDP_LEN>);
    let h = h.filter(|_| datagram.start + UDP_LEN <= datagram.end).ok_or(Discard::Short)?;
    if u16::from_be_bytes([h[2], h[3]]) != port {
        return Err(Discard::NotOurs);
    }
    let length = usize::from(u16::from_be_bytes([h[4], h[5]]));
    let end = datagram.start + length;
    if length < UDP_LEN || end > datagram.end {
        return Err(Discard::Short);
    }
    Ok(datagram.start + UDP_LEN..end)
}

/// The address of a node.
#[derive(Clone, Copy, Debug)]
pub enum NodeAddr {
    /// On this Ethernet.
    Ethernet(MacAddr),
    /// At an IP address, reached through the next hop's MAC address.
    Ip {
        /// The node's address.
        ip: IpAddr,
        /// The neighbour to send to: the node itself or a router. Not part of the identity.
        next_hop: MacAddr,
    },
}

impl PartialEq for NodeAddr {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ethernet(a), Self::Ethernet(b)) => a == b,
            (Self::Ip { ip: a, .. }, Self::Ip { ip: b, .. }) => a == b,
            _ => false,
        }
    }
}

impl Eq for NodeAddr {}

impl core::hash::Hash for NodeAddr {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        match self {
            Self::Ethernet(mac) => mac.hash(state),
            Self::Ip { ip, .. } => ip.hash(state),
        }
    }
}

impl fmt::Display for NodeAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ethernet(mac) => mac.fmt(f),
            Self::Ip { ip, .. } => ip.fmt(f),
        }
    }
}

impl From<MacAddr> for NodeAddr {
    fn from(mac: MacAddr) -> Self {
        Self::Ethernet(mac)
    }
}

/// The outer headers towards one node, ready to be copied in front of a frame.
#[derive(Clone, Debug)]
pub struct Route {
    bytes: [u8; MAX_ENVELOPE + TAG_LEN],
    len: u8,
    /// Bytes in front of the IP header or, in the Ethernet envelope, all.
    ethernet: u8,
    kind: RouteKind,
    /// The destination's UDP port follows from the port ids in the GigaE header.
    by_port_id: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RouteKind {
    Ethernet,
    /// The same with a tag.
    Tagged,
    /// Sum of the constant words of the IPv4 header.
    Ipv4(u32),
    /// Sum of the constant words of the pseudo header and the ports.
    Ipv6(u32),
    /// IP whose checksums the kernel writes: the length of the IP header.
    Socket(usize),
}

impl Route {
    /// Builds the outer headers from this node's addresses to another's. `None` if the families
    /// differ or the envelope does not fit the address.
    ///
    /// In the UDP envelope the destination port follows from the own one, which is the source port,
    /// and the port ids in the GigaE header behind it: [`write`](Self::write) reads them there.
    ///
    /// Without a next hop (the MAC address of zeros) they are for a link over a UDP socket: the
    /// kernel finds the way and writes all checksums, so these headers have none.
    pub fn new(envelope: Envelope, from: NodeAddr, to: NodeAddr) -> Option<Self> {
        let own = if let Envelope::Udp { port } = envelope { port } else { 0 };
        let route = Self::to_port(envelope, from, to, own)?;
        Some(Self { by_port_id: route.kind != RouteKind::Ethernet, ..route })
    }

    /// The same to this UDP port, whatever the port ids are.
    pub fn to_port(envelope: Envelope, from: NodeAddr, to: NodeAddr, to_port: u16) -> Option<Self> {
        let mut bytes = [0; MAX_ENVELOPE + TAG_LEN];
        let (kind, ethertype) = match (envelope, from, to) {
            (
                Envelope::Ethernet { ethertype },
                NodeAddr::Ethernet(src),
                NodeAddr::Ethernet(dst),
            ) => {
                bytes[..6].copy_from_slice(&dst.0);
                bytes[6..12].copy_from_slice(&src.0);
                (RouteKind::Ethernet, ethertype)
            }
            (
                Envelope::Udp { port },
                NodeAddr::Ip { ip: src, next_hop: mac },
                NodeAddr::Ip { ip: dst, next_hop },
            ) => {
                bytes[..6].copy_from_slice(&next_hop.0);
                bytes[6..12].copy_from_slice(&mac.0);
                let inner = &mut bytes[ETHERNET_LEN..];
                match (SocketAddr::new(src, port), SocketAddr::new(dst, to_port)) {
                    (SocketAddr::V4(src), SocketAddr::V4(dst)) => {
                        (ipv4_template(inner, src, dst), ETHERTYPE_IPV4)
                    }
                    (SocketAddr::V6(src), SocketAddr::V6(dst)) => {
                        (ipv6_template(inner, src, dst), ETHERTYPE_IPV6)
                    }
                    _ => return None,
                }
            }
            _ => return None,
        };
        let kind = match (kind, to) {
            (RouteKind::Ethernet, _) => kind,
            (_, NodeAddr::Ip { ip, next_hop }) if next_hop == MacAddr::default() => {
                RouteKind::Socket(if ip.is_ipv4() { IPV4_LEN } else { IPV6_LEN })
            }
            _ => kind,
        };
        bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
        let len = u8::try_from(envelope.len_for(to)).expect("at most 62");
        let ethernet = ETHERNET_LEN as u8;
        Some(Self { bytes, len, ethernet, kind, by_port_id: false })
    }

    /// The same with a priority tag (IEEE Std 802.1Q): its VLAN is 0, and `priority` is 0 to 7.
    #[must_use]
    pub fn tagged(&self, priority: u8) -> Self {
        let (mut tagged, len) = (self.clone(), TAG_LEN as u8);
        tagged.bytes.copy_within(ADDRESSES..self.len(), ADDRESSES + TAG_LEN);
        tagged.bytes[ADDRESSES..][..2].copy_from_slice(&ETHERTYPE_TAG.to_be_bytes());
        tagged.bytes[ADDRESSES + 2..][..2].copy_from_slice(&[priority << 5, 0]);
        (tagged.len, tagged.ethernet) = (self.len + len, self.ethernet + len);
        if self.kind == RouteKind::Ethernet {
            tagged.kind = RouteKind::Tagged;
        }
        tagged
    }

    /// The UDP port that frames from one port id to another go to, if this leads to the node's own
    /// address.
    pub fn port_within_node(&self, from: u16, to: u16) -> Option<u16> {
        let own = port_within_node(&self.bytes)?;
        self.by_port_id.then(|| port_from_ids(own, from, to))
    }

    /// The destination's MAC address. `None` in the UDP envelope, where that may be a router's.
    #[inline]
    pub fn destination(&self) -> Option<MacAddr> {
        match self.kind {
            RouteKind::Ethernet => self.bytes.first_chunk().map(|bytes| MacAddr(*bytes)),
            _ => None,
        }
    }

    /// Bytes in front of the GigaE frame.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a route is never empty")]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Writes the outer headers into the first [`len`](Self::len) bytes of `frame`, whose other
    /// bytes are a sealed GigaE frame. For IPv6, reads those bytes again for the UDP checksum,
    /// which IPv6 requires (RFC 8200 §8.1). Over IPv4 there is no UDP checksum (RFC 768), as the
    /// frame's checksum covers the frame.
    ///
    /// # Panics
    /// If `frame` is shorter than the headers or longer than an IP packet can be.
    #[inline]
    pub fn write(&self, frame: &mut [u8]) {
        if self.kind == RouteKind::Ethernet {
            frame[..ETHERNET_LEN].copy_from_slice(&self.bytes[..ETHERNET_LEN]);
        } else {
            self.write_segments(frame, Pieces::from(&[][..]));
        }
    }

    /// Writes the destination's UDP port into outer headers that have the own one there. Returns
    /// what that adds to a sum of their words.
    fn aim(&self, frame: &mut [u8]) -> u32 {
        let (outer, inner) = frame.split_at_mut(self.len());
        let ids = crate::header::port_ids(inner);
        let ([.., high, low, _, _, _, _], Some((from, to))) = (outer, ids) else { return 0 };
        let own = u16::from_be_bytes([*high, *low]);
        let port = port_from_ids(own, from, to);
        [*high, *low] = port.to_be_bytes();
        u32::from(port) + u32::from(!own)
    }

    /// Like [`write`](Self::write) for a frame in segments, which continues in `behind`.
    ///
    /// # Panics
    /// If `frame` is shorter than the headers or all longer than an IP packet can be.
    pub fn write_segments(&self, frame: &mut [u8], behind: Pieces) {
        frame[..self.len()].copy_from_slice(&self.bytes[..self.len()]);
        let aimed = if self.by_port_id { self.aim(frame) } else { 0 };
        let packet = &mut frame[self.ethernet.into()..];
        let total = || {
            let total = u16::try_from(packet.len() + behind.len());
            total.expect("an IP packet over 65,535 bytes")
        };
        match self.kind {
            RouteKind::Ethernet | RouteKind::Tagged => {}
            RouteKind::Socket(ip) => {
                let total = total();
                let udp = total - ip as u16;
                let (at, length) = if ip == IPV4_LEN { (2, total) } else { (4, udp) };
                packet[at..at + 2].copy_from_slice(&length.to_be_bytes());
                packet[ip + 4..ip + 6].copy_from_slice(&udp.to_be_bytes());
            }
            RouteKind::Ipv4(sum) => {
                let total = total();
                packet[2..4].copy_from_slice(&total.to_be_bytes());
                packet[10..12].copy_from_slice(&fold(sum + u32::from(total)).to_be_bytes());
                let udp = total - IPV4_LEN as u16;
                packet[IPV4_LEN + 4..IPV4_LEN + 6].copy_from_slice(&udp.to_be_bytes());
            }
            RouteKind::Ipv6(sum) => {
                let udp = total() - IPV6_LEN as u16;
                packet[4..6].copy_from_slice(&udp.to_be_bytes());
                packet[IPV6_LEN + 4..IPV6_LEN + 6].copy_from_slice(&udp.to_be_bytes());
                let payload = words_in(packet[IPV6_LEN + UDP_LEN..].into(), behind);
                let sum = sum + aimed;
                // The length counts twice: in the pseudo header and in the UDP header.
                let check = match fold(sum + 2 * u32::from(udp) + payload) {
                    0 => 0xffff,
                    check => check,
                };
                packet[IPV6_LEN + 6..IPV6_LEN + 8].copy_from_slice(&check.to_be_bytes());
            }
        }
    }
}

fn ipv4_template(packet: &mut [u8], src: SocketAddrV4, dst: SocketAddrV4) -> RouteKind {
    packet[0] = 0x45;
    packet[6] = 0x40; // Do not fragment; the identification may then be zero (RFC 6864 §4.1).
    packet[8] = TTL;
    packet[9] = PROTOCOL_UDP;
    packet[12..16].copy_from_slice(&src.ip().octets());
    packet[16..20].copy_from_slice(&dst.ip().octets());
    packet[20..22].copy_from_slice(&src.port().to_be_bytes());
    packet[22..24].copy_from_slice(&dst.port().to_be_bytes());
    RouteKind::Ipv4(words(&packet[..IPV4_LEN]))
}

fn ipv6_template(packet: &mut [u8], src: SocketAddrV6, dst: SocketAddrV6) -> RouteKind {
    packet[0] = 0x60;
    packet[6] = PROTOCOL_UDP;
    packet[7] = TTL;
    packet[8..24].copy_from_slice(&src.ip().octets());
    packet[24..40].copy_from_slice(&dst.ip().octets());
    packet[40..42].copy_from_slice(&src.port().to_be_bytes());
    packet[42..44].copy_from_slice(&dst.port().to_be_bytes());
    RouteKind::Ipv6(words(&packet[8..44]) + u32::from(PROTOCOL_UDP))
}

/// Sum of big-endian 16-bit words, the last padded with zero (RFC 1071). Sums at most 32,768 words,
/// so 32 bits do not overflow.
pub fn words(bytes: &[u8]) -> u32 {
    let (pairs, last) = bytes.as_chunks::<2>();
    let sum: u32 = pairs.iter().map(|&pair| u32::from(u16::from_be_bytes(pair))).sum();
    sum + last.first().map_or(0, |&b| u32::from(b) << 8)
}

/// The same for bytes in several pieces. If a piece begins in the middle of a word, the bytes of
/// its sum are swapped (RFC 1071 §2).
fn words_in(first: Pieces, behind: Pieces) -> u32 {
    let mut odd = false;
    let mut sum = 0;
    for piece in first.chain(behind) {
        let part = !fold(words(piece));
        sum += u32::from(if odd { part.swap_bytes() } else { part });
        odd ^= piece.len() % 2 == 1;
    }
    sum
}

/// Folds a sum into the Internet checksum.
pub fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests;
