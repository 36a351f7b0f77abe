//! The numbers by which C code names peers.

use gigae::Peer;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The peers by number: 1, 2, 3 ... in the order in which they came up. A zeroed variable names no
/// peer.
#[derive(Default)]
pub(crate) struct PeerNumbers {
    peers: Vec<Peer>,
    numbers: HashMap<Peer, u32, BuildHasherDefault<NumberHasher>>,
    /// Most messages come from the same peer as the one before.
    last: Option<(Peer, u32)>,
}

impl PeerNumbers {
    #[inline]
    pub(crate) fn peer(&self, number: u32) -> Option<Peer> {
        self.peers.get((number as usize).checked_sub(1)?).copied()
    }

    #[inline]
    pub(crate) fn number(&mut self, peer: Peer) -> u32 {
        if let Some((last, number)) = self.last
            && last == peer
        {
            return number;
        }
        // Far fewer than 2^32: the protocol's table of sessions is bounded.
        let next = self.peers.len() as u32 + 1;
        let number = *self.numbers.entry(peer).or_insert(next);
        if number == next {
            self.peers.push(peer);
        }
        self.last = Some((peer, number));
        number
    }
}

/// Hashes the small number of a peer or an operation. It comes from this process, so no attacker
/// can choose it to cause collisions.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, n: u32) {
        // 2^64 divided by the golden ratio: adjacent numbers also differ in the high bits.
        self.0 = (self.0 ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
