//! IP addresses on a simulated network, where no kernel knows any: they follow from the MAC
//! addresses, of the kind that simulated ports have.

use crate::error::PeerError;
use gigae_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address of a node by that of its port: fd00::200:0:1 or 198.18.0.1 for 02:00:00:00:00:01.
/// IPv4 has room for 65,535 ports.
pub fn ip(mac: MacAddr, version_6: bool) -> IpAddr {
    let [a, b, c, d, e, f] = mac.0;
    if version_6 {
        return Ipv6Addr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d, e, f]).into();
    }
    debug_assert!([a, b, c, d] == [2, 0, 0, 0], "no address for {mac}");
    Ipv4Addr::new(198, 18, e, f).into()
}

/// Where frames to such an address go: every node is on the wire.
pub(crate) fn next_hop(to: IpAddr) -> Result<MacAddr, PeerError> {
    let mac = match to {
        IpAddr::V4(to) => MacAddr([2, 0, 0, 0, to.octets()[2], to.octets()[3]]),
        IpAddr::V6(to) => {
            let [.., a, b, c, d, e, f] = to.octets();
            MacAddr([a, b, c, d, e, f])
        }
    };
    if ip(mac, to.is_ipv6()) == to {
        return Ok(mac);
    }
    Err(PeerError::Unreachable(format!("{to} is not an address of a simulated network")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_has_addresses_that_lead_to_it_and_no_others_do() {
        let mac = MacAddr([2, 0, 0, 0, 3, 4]);
        for (version_6, text) in [(false, "198.18.3.4"), (true, "fd00::200:0:304")] {
            let address = ip(mac, version_6);
            assert_eq!(address.to_string(), text);
            assert_eq!(next_hop(address).unwrap(), mac);
        }
        for stranger in ["198.19.3.4", "fd01::200:0:304"] {
            assert!(next_hop(stranger.parse().unwrap()).is_err(), "{stranger}");
        }
    }
}
