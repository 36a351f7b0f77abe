//! Which port leads to which Ethernet address, as a switch learns it from what it receives.

use std::collections::HashMap;

/// Most addresses. Frames to others go to all ports.
const MOST: usize = 4096;

/// The bit of an address's first byte that means several receivers (IEEE 802).
const GROUP: u8 = 1;

/// An Ethernet address.
pub(super) type Mac = [u8; 6];

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// By one port.
    Port(usize),
    /// By all other ports of the network.
    Flood,
}

/// The addresses of all networks.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    ports: HashMap<(u16, Mac), usize>,
}

impl Addresses {
    /// Notes that a frame from this address came by a port.
    pub(super) fn learn(&mut self, network: u16, mac: Mac, port: usize) {
        let room = self.ports.len() < MOST;
        match self.ports.get_mut(&(network, mac)) {
            Some(known) => *known = port,
            None if mac[0] & GROUP == 0 && room => {
                self.ports.insert((network, mac), port);
            }
            None => {}
        }
    }

    /// Where frames to an address go.
    pub(super) fn route(&self, network: u16, mac: Mac) -> Route {
        self.ports.get(&(network, mac)).map_or(Route::Flood, |&port| Route::Port(port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Mac = [2, 0, 0, 0, 0, 1];

    #[test]
    fn an_address_is_where_it_was_last_seen_and_groups_are_everywhere() {
        let mut all = Addresses::default();
        assert_eq!(all.route(0, ONE), Route::Flood);
        all.learn(0, ONE, 3);
        assert_eq!((all.route(0, ONE), all.route(1, ONE)), (Route::Port(3), Route::Flood));
        all.learn(0, ONE, 4);
        assert_eq!(all.route(0, ONE), Route::Port(4));
        all.learn(0, [0xff; 6], 4);
        assert_eq!(all.route(0, [0xff; 6]), Route::Flood);
    }

    #[test]
    fn a_node_with_many_addresses_does_not_fill_the_memory() {
        let mut all = Addresses::default();
        all.learn(0, ONE, 1);
        for number in 0..2 * MOST as u32 {
            let [a, b, c, d] = number.to_be_bytes();
            all.learn(0, [6, 0, a, b, c, d], 2);
        }
        assert_eq!(all.ports.len(), MOST);
        all.learn(0, ONE, 5);
        assert_eq!(all.route(0, ONE), Route::Port(5), "a known address may still move");
    }
}
