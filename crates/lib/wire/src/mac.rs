//! Ethernet addresses.

use core::fmt;
use core::str::FromStr;

/// A 48-bit Ethernet (MAC) address.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All nodes of an Ethernet (IEEE Std 802.3, clause 3.2.3).
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether the address names a group (multicast or broadcast) and so cannot be a node's.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not six hexadecimal bytes separated by colons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseMacError;

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a MAC address; write it as 02:00:00:00:00:01")
    }
}

impl core::error::Error for ParseMacError {}

impl FromStr for MacAddr {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts
                .next()
                .filter(|p| p.len() == 2 && !p.starts_with('+'))
                .ok_or(ParseMacError)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| ParseMacError)?;
        }
        if parts.next().is_some() { Err(ParseMacError) } else { Ok(Self(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn an_address_reads_back_as_it_is_written() {
        let mac = MacAddr([2, 0, 0xab, 0, 0, 0xff]);
        assert_eq!(mac.to_string(), "02:00:ab:00:00:ff");
        assert_eq!(mac.to_string().parse(), Ok(mac));
    }

    #[test]
    fn what_is_not_six_bytes_is_no_address() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:00:00",
            "2:0:0:0:0:1",
            "02:00:00:00:00:g0",
            "+2:00:00:00:00:01",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(ParseMacError), "{text}");
        }
    }
}
