//! Which XDP features a driver announces: one question to the kernel's generic netlink family
//! "netdev" (Documentation/netlink/specs/netdev.yaml, Linux 6.3).

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink};

use crate::data::Xdp;

/// linux/netlink.h: flag of a request; type of an error message.
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;

/// linux/genetlink.h: the family that knows the others, its question and its attributes.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// linux/netdev.h: the question for one device and its attributes.
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;

/// linux/netdev.h, `enum netdev_xdp_act`.
const BASIC: u64 = 1;
const REDIRECT: u64 = 2;
const XSK_ZEROCOPY: u64 = 8;
const RX_SG: u64 = 32;
const NDO_XMIT_SG: u64 = 64;

/// Bytes of a netlink header (struct nlmsghdr) and of a generic one behind it (struct genlmsghdr).
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;

/// What the driver of interface `index` announces; `None` where the kernel cannot say.
pub(super) fn features(index: u32) -> Option<Xdp> {
    let socket =
        rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, Some(netlink::GENERIC))
            .ok()?;
    let name = attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
    let family = ask(&socket, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &name).ok()?;
    let family = u16::from_ne_bytes(find(&family, CTRL_ATTR_FAMILY_ID)?.try_into().ok()?);
    let device = attribute(NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes());
    understand(&ask(&socket, family, NETDEV_CMD_DEV_GET, &device).ok()?)
}

fn understand(attributes: &[u8]) -> Option<Xdp> {
    let bits = u64::from_ne_bytes(find(attributes, NETDEV_A_DEV_XDP_FEATURES)?.try_into().ok()?);
    let has = |bit| bits & bit != 0;
    let segments = find(attributes, NETDEV_A_DEV_XDP_ZC_MAX_SEGS)
        .and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?)));
    Some(Xdp {
        native: has(BASIC),
        redirect: has(REDIRECT),
        zero_copy: has(XSK_ZEROCOPY),
        rx_multi_buffer: has(RX_SG),
        tx_multi_buffer: has(NDO_XMIT_SG),
        zero_copy_segments: segments.filter(|_| has(XSK_ZEROCOPY)),
    })
}

/// Sends one request and returns the attributes of its answer. The kernel answers within the call,
/// so nothing here can wait for long.
fn ask(socket: &OwnedFd, family: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let length = HEADER + GENERIC_HEADER + attributes.len();
    let mut request = Vec::with_capacity(length);
    request.extend((length as u32).to_ne_bytes());
    request.extend(family.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and port: one question at a time on a socket of its own needs neither.
    request.extend([0; 8]);
    // Command, version, two reserved bytes.
    request.extend([command, 1, 0, 0]);
    request.extend(attributes);
    rustix::net::send(socket, &request, SendFlags::empty())?;
    // An answer of either family is far smaller than this; DONTWAIT, for it is there already.
    let mut answer = vec![0; 16_384];
    let (length, _) = rustix::net::recv(socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    answer.truncate(length);
    let refused = answer.get(4..6).is_none_or(|kind| kind == NLMSG_ERROR.to_ne_bytes());
    if refused || answer.len() < HEADER + GENERIC_HEADER {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(answer.split_off(HEADER + GENERIC_HEADER))
}

/// An attribute: its length without padding, its type, its value, padding to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from(((4 + value.len()) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The value of the first attribute of this kind.
fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    while let Some((head, _)) = attributes.split_at_checked(4) {
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = attributes.get(4..length)?;
        if u16::from_ne_bytes([head[2], head[3]]) == kind {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_become_words() {
        let mut answer = attribute(NETDEV_A_DEV_IFINDEX, &7_u32.to_ne_bytes());
        answer.extend(attribute(NETDEV_A_DEV_XDP_FEATURES, &(BASIC | REDIRECT).to_ne_bytes()));
        answer.extend(attribute(NETDEV_A_DEV_XDP_ZC_MAX_SEGS, &1_u32.to_ne_bytes()));
        let expected = Xdp { native: true, redirect: true, ..Xdp::default() };
        assert_eq!(understand(&answer), Some(expected));
    }

    #[test]
    fn a_cut_or_lying_answer_is_no_answer() {
        let whole = attribute(NETDEV_A_DEV_XDP_FEATURES, &BASIC.to_ne_bytes());
        for length in 0..whole.len() {
            assert_eq!(understand(&whole[..length]), None, "{length} bytes");
        }
        for lie in [0_u16, 3, 200] {
            let mut bytes = whole.clone();
            bytes[..2].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(understand(&bytes), None, "length {lie}");
        }
    }
}
