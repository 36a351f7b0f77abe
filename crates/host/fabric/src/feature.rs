//! Turns offloads of an interface on and off, by the names that `ethtool -k` shows.
//!
//! A sender that hands 64 KB to a veth in one piece ("segmentation offload") crosses it as *one*
//! frame: it would be charged to the token bucket as one, and lost as one. A real wire carries
//! frames, so on shaped or impaired fabrics the nodes' interfaces segment what they send. They also
//! leave checksums to "hardware" that does not exist, so on a corrupting fabric they must compute
//! them, or no receiver could tell.
//!
//! Uses the `SIOCETHTOOL` ioctl (netdevice(7), linux/ethtool.h) in the calling thread's namespace.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType};

/// linux/sockios.h
const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// linux/ethtool.h: how many names a set has.
const ETHTOOL_GSSET_INFO: u32 = 0x37;
/// linux/ethtool.h: the names.
const ETHTOOL_GSTRINGS: u32 = 0x1b;
/// linux/ethtool.h: change features by bit number.
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// linux/ethtool.h: the set of feature names; a name's place is its bit number.
const ETH_SS_FEATURES: u32 = 4;
/// linux/ethtool.h: bytes per name.
const ETH_GSTRING_LEN: usize = 32;

/// What a node's interface does to what its programs send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// Large pieces and unfinished checksums, as a veth does by default.
    AsFound,
    /// One frame at a time.
    Segmented,
    /// One frame at a time with its checksum.
    Checksummed,
}

/// Sets how `interface` sends. Features that the interface does not have are left out.
pub(crate) fn set_sending(interface: &str, sending: Sending) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let names = feature_names(&socket, interface)?;
    let blocks = names.len().div_ceil(32);
    // struct ethtool_sfeatures: cmd, size, then per block of 32 features: valid, requested.
    let mut request = vec![0_u32; 2 + 2 * blocks];
    request[0] = ETHTOOL_SFEATURES;
    request[1] = blocks as u32;
    for (bit, name) in names.iter().enumerate() {
        let on = match kind(name) {
            Kind::Segmentation => sending == Sending::AsFound,
            Kind::Checksum => sending != Sending::Checksummed,
            Kind::Other => continue,
        };
        let (block, mask) = (bit / 32, 1_u32 << (bit % 32));
        request[2 + 2 * block] |= mask;
        request[3 + 2 * block] |= if on { mask } else { 0 };
    }
    // A positive answer says that some features are fixed, which is as good as it gets.
    ethtool(&socket, interface, &mut request)
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Segmentation,
    Checksum,
    Other,
}

/// Generic segmentation (`tx-generic-segmentation`) stays on: it is the kernel's own, done before a
/// frame leaves the node.
fn kind(name: &str) -> Kind {
    match name {
        "tx-generic-segmentation" => Kind::Other,
        "tx-gso-list" => Kind::Segmentation,
        _ if name.starts_with("tx-checksum-") => Kind::Checksum,
        _ if name.starts_with("tx-") && name.ends_with("-segmentation") => Kind::Segmentation,
        _ => Kind::Other,
    }
}

fn feature_names(socket: &OwnedFd, interface: &str) -> io::Result<Vec<String>> {
    // struct ethtool_sset_info: cmd, reserved, a 64-bit mask of sets, one length per set asked for.
    let mut info = [ETHTOOL_GSSET_INFO, 0, 0, 0, 0];
    let mask = (1_u64 << ETH_SS_FEATURES).to_ne_bytes();
    info[2] = u32::from_ne_bytes([mask[0], mask[1], mask[2], mask[3]]);
    info[3] = u32::from_ne_bytes([mask[4], mask[5], mask[6], mask[7]]);
    ethtool(socket, interface, &mut info)?;
    let count = info[4] as usize;
    // struct ethtool_gstrings: cmd, set, length, then the names.
    let mut request = vec![0_u32; 3 + count * ETH_GSTRING_LEN / 4];
    request[0] = ETHTOOL_GSTRINGS;
    request[1] = ETH_SS_FEATURES;
    request[2] = info[4];
    ethtool(socket, interface, &mut request)?;
    let bytes: Vec<u8> = request[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(bytes.chunks_exact(ETH_GSTRING_LEN).map(until_nul).collect())
}

fn until_nul(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// One ethtool command. `request` holds the command's structure in full, its variable part
/// included; the callers size it by what the kernel said.
fn ethtool(socket: &OwnedFd, interface: &str, request: &mut [u32]) -> io::Result<()> {
    // SAFETY: an all-zero ifreq is valid: it is plain data and a null pointer.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    // SAFETY: the name is NUL-terminated (shorter than the array, which was zeroed), and
    // `ifru_data` points to a live, exclusively borrowed structure of the size that its command
    // and its own length field declare.
    if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut ifreq) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_segmentation_is_left_alone() {
        assert_eq!(kind("tx-tcp-segmentation"), Kind::Segmentation);
        assert_eq!(kind("tx-udp-segmentation"), Kind::Segmentation);
        assert_eq!(kind("tx-generic-segmentation"), Kind::Other);
        assert_eq!(kind("tx-checksum-ip-generic"), Kind::Checksum);
        assert_eq!(kind("rx-checksum"), Kind::Other);
    }

    #[test]
    fn the_kernel_names_the_features_of_the_loopback() {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        let names = feature_names(&socket, "lo").unwrap();
        assert!(names.iter().any(|name| name == "tx-tcp-segmentation"), "{names:?}");
    }
}
