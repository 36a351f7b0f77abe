//! Where an endpoint is.

use gigae_wire::{MacAddr, ParseMacError};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Names an endpoint: its node, its port id there, and the channel on which it is spoken to.
///
/// As text: the node's MAC or IP address, then `/PORT` and `/CHANNEL` if they are not zero, as in
/// `02:00:00:00:00:02`, `02:00:00:00:00:02/7` or `198.18.0.2/7/1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) channel: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    Mac(MacAddr),
    Ip(IpAddr),
}

impl Address {
    /// The same node at another port id. Several endpoints on one node differ by it.
    #[must_use]
    pub const fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Its port id.
    #[must_use]
    pub const fn port_id(&self) -> u16 {
        self.port
    }

    /// The same endpoint on another channel. Messages on different channels do not wait for each
    /// other and are not ordered among each other.
    #[must_use]
    pub const fn channel(mut self, channel: u8) -> Self {
        self.channel = channel;
        self
    }
}

impl From<MacAddr> for Address {
    /// The endpoint with port id 0 on channel 0 of the node with this address.
    fn from(mac: MacAddr) -> Self {
        Self { host: Host::Mac(mac), port: 0, channel: 0 }
    }
}

impl From<IpAddr> for Address {
    /// The same for nodes that are reached in the UDP envelope.
    fn from(ip: IpAddr) -> Self {
        Self { host: Host::Ip(ip), port: 0, channel: 0 }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Host::Mac(mac) => mac.fmt(f)?,
            Host::Ip(ip) => ip.fmt(f)?,
        }
        match (self.port, self.channel) {
            (0, 0) => Ok(()),
            (port, 0) => write!(f, "/{port}"),
            (port, channel) => write!(f, "/{port}/{channel}"),
        }
    }
}

/// Text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an address; write it as 02:00:00:00:00:02 or 198.18.0.2, with /PORT and /CHANNEL if needed"
)]
pub struct ParseAddressError(String);

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let error = || ParseAddressError(text.into());
        let mut parts = text.split('/');
        let host = parts.next().unwrap_or_default();
        let host = match host.parse() {
            Ok(mac) => Host::Mac(mac),
            Err(ParseMacError) => Host::Ip(host.parse().map_err(|_| error())?),
        };
        let port = parts.next().map_or(Ok(0), str::parse).map_err(|_| error())?;
        let channel = parts.next().map_or(Ok(0), str::parse).map_err(|_| error())?;
        match parts.next() {
            None => Ok(Self { host, port, channel }),
            Some(_) => Err(error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_as_it_is_written() {
        for text in
            ["02:00:00:00:00:02", "02:00:00:00:00:02/7", "198.18.0.2/0/1", "fd00::2/65535/255"]
        {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_named_in_the_error() {
        for text in [
            "",
            "node7",
            "02:00:00:00:00:02/",
            "02:00:00:00:00:02/70000",
            "198.18.0.2/1/256",
            "198.18.0.2/1/2/3",
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is not an address")), "{error}");
        }
    }
}
