//! An interface by the ioctls of netdevice(7) and `SIOCETHTOOL` (linux/ethtool.h), through a socket
//! of the caller's: it decides the network namespace, whichever thread asks.

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::{Errno, Result};

/// linux/sockios.h
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// linux/ethtool.h, `ETHTOOL_GDRVINFO`, and the words of `struct ethtool_drvinfo`: the command;
/// driver, version, firmware, bus, each 32 bytes; more.
const GDRVINFO: u32 = 0x03;
const DRVINFO_WORDS: usize = 49;

/// `ethtool -i`. What a driver does not say is `None`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// The driver's name.
    pub driver: Option<String>,
    /// The driver's version.
    pub version: Option<String>,
    /// The firmware's version.
    pub firmware: Option<String>,
    /// Where the device is plugged in.
    pub bus: Option<String>,
}

/// The hardware type (`ARPHRD_*` of linux/if_arp.h) and the first six bytes of the address.
pub fn hardware(socket: impl AsFd, name: &str) -> Result<(u16, [u8; 6])> {
    let request = ask(socket, named(name)?, libc::SIOCGIFHWADDR as libc::Ioctl)?;
    // SAFETY: SIOCGIFHWADDR succeeded, so the kernel has filled this member; every bit pattern is a
    // valid sockaddr.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    Ok((address.sa_family, std::array::from_fn(|i| address.sa_data[i] as u8)))
}

/// The MTU in bytes.
pub fn mtu(socket: impl AsFd, name: &str) -> Result<u32> {
    let request = ask(socket, named(name)?, libc::SIOCGIFMTU as libc::Ioctl)?;
    // SAFETY: SIOCGIFMTU succeeded, so the kernel has filled this member; it is an integer.
    u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).map_err(|_| Errno::RANGE)
}

/// Sets the MTU (`ip link set mtu`).
pub fn set_mtu(socket: impl AsFd, name: &str, mtu: u32) -> Result<()> {
    let mut request = named(name)?;
    request.ifr_ifru.ifru_mtu = i32::try_from(mtu).map_err(|_| Errno::INVAL)?;
    ask(socket, request, libc::SIOCSIFMTU as libc::Ioctl).map(drop)
}

/// The flags (`IFF_*` of linux/if.h).
pub fn flags(socket: impl AsFd, name: &str) -> Result<i32> {
    let request = ask(socket, named(name)?, libc::SIOCGIFFLAGS as libc::Ioctl)?;
    // SAFETY: SIOCGIFFLAGS succeeded, so the kernel has filled this member; it is an integer.
    Ok(i32::from(unsafe { request.ifr_ifru.ifru_flags }))
}

/// The driver, its version and firmware, and where the device is plugged in.
pub fn driver(socket: impl AsFd, name: &str) -> Result<Driver> {
    let mut words = [0; DRVINFO_WORDS];
    words[0] = GDRVINFO;
    // SAFETY: the words are the whole structure of this command.
    unsafe { ethtool(socket, name, &mut words) }?;
    let of = |part: usize| {
        let text = text(&words[1 + 8 * part..9 + 8 * part]);
        (!text.is_empty() && text != "N/A").then_some(text)
    };
    Ok(Driver { driver: of(0), version: of(1), firmware: of(2), bus: of(3) })
}

/// The text in `words` of a structure of ethtool's, up to its NUL.
pub fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// One command of ethtool's, whose number is the first word.
///
/// # Safety
/// `words` must hold the command's whole structure, its variable part included, at the length that
/// the command and the structure itself state: so much the kernel reads and writes.
pub unsafe fn ethtool(socket: impl AsFd, name: &str, words: &mut [u32]) -> Result<()> {
    let mut request = named(name)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    ask(socket, request, SIOCETHTOOL).map(drop)
}

fn named(name: &str) -> Result<libc::ifreq> {
    // SAFETY: an all-zero ifreq is valid: it is plain data and a null pointer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte less, so that the name ends with a NUL.
    if name.len() >= libc::IFNAMSIZ {
        return Err(Errno::INVAL);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn ask(socket: impl AsFd, mut request: libc::ifreq, command: libc::Ioctl) -> Result<libc::ifreq> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the name is NUL-terminated (`named`). The commands used here read and write nothing
    // but the `ifreq`, but for SIOCETHTOOL, which follows `ifru_data`: `ethtool` sets it to a live,
    // exclusively borrowed structure, of whose size its caller has taken care.
    if unsafe { libc::ioctl(fd, command, &raw mut request) } < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_at_their_nul() {
        let words = [u32::from_ne_bytes(*b"veth"), u32::from_ne_bytes(*b"\0abc")];
        assert_eq!(text(&words), "veth");
        assert_eq!(text(&words[..1]), "veth", "a text may be as long as its words");
    }

    #[test]
    fn a_name_too_long_for_the_kernel_is_not_cut_to_another() {
        assert!(named("0123456789abcdef").is_err());
        assert!(named("0123456789abcde").is_ok());
    }

    #[test]
    fn the_loopback_is_no_ethernet_but_has_an_mtu_and_is_up() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(hardware(&socket, "lo").unwrap(), (libc::ARPHRD_LOOPBACK, [0; 6]));
        assert!(mtu(&socket, "lo").unwrap() >= 1500);
        assert_ne!(flags(&socket, "lo").unwrap() & libc::IFF_UP, 0);
        assert_eq!(flags(&socket, "no-such-nic"), Err(Errno::NODEV));
    }
}
