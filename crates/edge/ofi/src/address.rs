//! Addresses in libfabric's format: the text of a [`gigae::Address`], such as
//! `02:00:00:00:00:02/7/1`, padded with NULs to a fixed length. People can read it without
//! conversion.

use crate::error::{Code, OfiResult};
use crate::settings::ProviderSettings;
use crate::sys;
use gigae::{Address, Cluster};
use std::ffi::{CStr, c_char, c_void};
use std::net::IpAddr;

/// The format's number: "gi" among the provider-specific ones.
pub(crate) const FORMAT: u32 = sys::FI_PROV_SPECIFIC as u32 | 0x6769;

/// Bytes of an address: an IPv6 address (39), port and channel (10), a NUL, and some room.
pub(crate) const LEN: usize = 56;

/// No address: the source of a receive from any peer.
pub(crate) const UNSPECIFIED: u64 = u64::MAX;

/// An unknown address.
pub(crate) const NOT_AVAILABLE: u64 = u64::MAX;

/// Encodes an address for libfabric.
pub(crate) fn encode(address: &Address) -> [u8; LEN] {
    let text = address.to_string();
    let mut bytes = [0; LEN];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// The same for a NIC whose endpoint may get another address, if another process takes this one
/// first. Descriptions contain it when the program asked for no address. The text is the same; the
/// last byte, which no text reaches, marks it.
pub(crate) fn encode_provisional(address: &Address) -> [u8; LEN] {
    let mut bytes = encode(address);
    bytes[LEN - 1] = PROVISIONAL;
    bytes
}

/// Whether an address comes from [`encode_provisional`].
pub(crate) fn is_provisional(bytes: &[u8; LEN]) -> bool {
    bytes[LEN - 1] == PROVISIONAL
}

/// The last byte of a provisional address.
const PROVISIONAL: u8 = 1;

/// Decodes an address from libfabric.
pub(crate) fn decode(bytes: &[u8; LEN]) -> OfiResult<Address> {
    let text = CStr::from_bytes_until_nul(bytes).map_err(|_| Code::INVALID)?;
    text.to_str().ok().and_then(|text| text.parse().ok()).ok_or(Code::INVALID)
}

/// The address of a node by the name that a person gives: an address as text, the IP address of a
/// node, or otherwise a node's name in the cluster file. A service is a port id.
pub(crate) fn resolve(node: &str, service: Option<&str>) -> OfiResult<Address> {
    let address = match (node.parse::<IpAddr>(), node.parse()) {
        (Ok(ip), _) => ProviderSettings::read()?.named(ip)?,
        (_, Ok(address)) => address,
        _ => Cluster::load().and_then(|cluster| cluster.node(node)).map_err(|_| Code::NO_DATA)?,
    };
    match service {
        None => Ok(address),
        Some(port) => Ok(address.port(port.parse().map_err(|_| Code::NO_DATA)?)),
    }
}

/// Text from C, if there is any.
///
/// # Safety
/// `text` is NULL or points to bytes that end in NUL and stay for `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> OfiResult<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().map(Some).map_err(|_| Code::INVALID)
}

/// Returns bytes: as many as there is room for, and the length of all. An error if there is too
/// little room.
///
/// # Safety
/// `len` points to a number, and `to` to that many bytes.
pub(crate) unsafe fn put(bytes: &[u8], to: *mut c_void, len: *mut usize) -> OfiResult<()> {
    if len.is_null() {
        return Err(Code::INVALID);
    }
    // SAFETY: the caller's promise; no more than there is room for.
    unsafe {
        let room = if to.is_null() { 0 } else { *len };
        to.cast::<u8>().copy_from(bytes.as_ptr(), bytes.len().min(room));
        *len = bytes.len();
        if room < bytes.len() { Err(Code::TOO_SMALL) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_address_fits_and_comes_back() {
        let longest = "fd00:1111:2222:3333:4444:5555:6666:7777/65535/255";
        for text in ["02:00:00:00:00:02", "02:00:00:00:00:02/7/1", "198.18.0.2/9", longest] {
            let address = text.parse().unwrap();
            assert_eq!(decode(&encode(&address)), Ok(address));
            assert_eq!(decode(&encode_provisional(&address)), Ok(address));
            assert!(is_provisional(&encode_provisional(&address)));
            assert!(!is_provisional(&encode(&address)));
        }
        assert_eq!(decode(&[b'x'; LEN]), Err(Code::INVALID), "no end");
        assert_eq!(decode(&[0; LEN]), Err(Code::INVALID), "no address");
    }

    #[test]
    fn a_service_is_a_port_id() {
        let address = resolve("02:00:00:00:00:02", Some("7")).unwrap();
        assert_eq!(address.to_string(), "02:00:00:00:00:02/7");
        assert_eq!(resolve("02:00:00:00:00:02", Some("ssh")), Err(Code::NO_DATA));
    }
}
