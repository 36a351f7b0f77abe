//! Names peers. C code knows each by a number (`numbers.rs`).

use crate::abi::EndpointHandle;
use crate::endpoint::call;
use crate::error::{Code, EntryResult, Error};
use crate::text;
use gigae::{Address, MacAddr};
use std::ffi::{c_char, c_int, c_void};
use std::net::IpAddr;

/// Names an endpoint by its address in text. See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_peer(
    endpoint: *mut EndpointHandle,
    address: *const c_char,
    peer: *mut u32,
) -> c_int {
    let parse = || {
        // SAFETY: the caller's promise.
        let address = unsafe { text::take(address, "the address")? };
        address.parse().map_err(|e| Error::new(Code::Address, e))
    };
    // SAFETY: the caller's promise.
    unsafe { name(endpoint, parse, peer) }
}

/// Names an endpoint by its MAC address. See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_peer_by_mac(
    endpoint: *mut EndpointHandle,
    mac: *const u8,
    port: u16,
    channel: u8,
    peer: *mut u32,
) -> c_int {
    let read = || {
        // SAFETY: the caller's promise: six bytes.
        let mac = unsafe { text::bytes(mac.cast::<c_void>(), 6)? };
        let mac = mac.try_into().map_err(|_| Code::Address)?;
        Ok(Address::from(MacAddr(mac)).port(port).channel(channel))
    };
    // SAFETY: the caller's promise.
    unsafe { name(endpoint, read, peer) }
}

/// Names an endpoint by its IP address. See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_peer_by_ip(
    endpoint: *mut EndpointHandle,
    ip: *const c_void,
    len: usize,
    port: u16,
    channel: u8,
    peer: *mut u32,
) -> c_int {
    let read = || {
        if len != 4 && len != 16 {
            return Err(Error::invalid("an IP address has 4 or 16 bytes"));
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { text::bytes(ip, len)? };
        let ip = match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
            (Ok(v4), _) => IpAddr::from(v4),
            (_, Ok(v6)) => IpAddr::from(v6),
            _ => return Err(Code::Address.into()),
        };
        Ok(Address::from(ip).port(port).channel(channel))
    };
    // SAFETY: the caller's promise.
    unsafe { name(endpoint, read, peer) }
}

/// # Safety
/// `to` is NULL or points to a writable number.
unsafe fn name(
    endpoint: *mut EndpointHandle,
    address: impl FnOnce() -> EntryResult<Address>,
    to: *mut u32,
) -> c_int {
    call(endpoint, |state| {
        // SAFETY: the caller's promise.
        unsafe { text::put(to, 0, "where to put the peer")? };
        let peer = state.endpoint().peer(address()?)?;
        // SAFETY: the caller's promise.
        unsafe { text::put(to, state.peers.number(peer), "where to put the peer")? };
        Ok(0)
    })
}

/// The address of a peer as text. See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_peer_address(
    endpoint: *mut EndpointHandle,
    peer: u32,
    text: *mut c_char,
    size: usize,
) -> c_int {
    call(endpoint, |state| {
        let address = state.endpoint().address(state.peer(peer)?);
        // SAFETY: the caller's promise.
        unsafe { text::give(&address.to_string(), text, size) }
    })
}
