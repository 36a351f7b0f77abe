//! An endpoint as discovery finds it (`PROTOCOL.md` §10).

use crate::address::Address;
use gigae_wire::MacAddr;
use std::net::IpAddr;

/// An endpoint as it describes itself: one that answered [`Endpoint::ask`](crate::Endpoint::ask).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its node's name: up to 63 letters, digits, `-`, `_` and `.`. Nothing makes it unique.
    pub name: String,
    /// Its address, on the first of its channels: a peer.
    pub address: Address,
    /// Its interface's MAC address. Zeros where the endpoint that asked is over a UDP socket, which
    /// sees none.
    pub mac: MacAddr,
    /// An IP address of its interface.
    pub ip: Option<IpAddr>,
    /// Its interface's MTU in bytes.
    pub mtu: usize,
    /// Longest message in bytes that it can receive.
    pub max_message: usize,
    /// Its port id.
    pub port: u16,
    /// The channels it has open.
    pub channels: Vec<u8>,
}
