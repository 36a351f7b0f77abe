//! Peers by the numbers that C code knows them by.

use gigae::Peer;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The numbers that C code knows peers by: 1, 2, 3 ... in the order in which they came up, so that
/// a zeroed variable names nobody.
#[derive(Default)]
pub(crate) struct PeerNumbers {
    peers: Vec<Peer>,
    numbers: HashMap<Peer, u32, BuildHasherDefault<NumberHasher>>,
    /// Most messages come from the same peer as the last.
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
        // Fewer than 2^32 by far: the protocol's table of sessions is bounded.
        let next = self.peers.len() as u32 + 1;
        let number = *self.numbers.entry(peer).or_insert(next);
        if number == next {
            self.peers.push(peer);
        }
        self.last = Some((peer, number));
        number
    }
}

/// Hashes the small number that a peer or an operation is. It comes from this process, so nobody can choose it to
/// make many collide.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, n: u32) {
        // 2^64 divided by the golden ratio: neighbours differ in the high bits, too.
        self.0 = (self.0 ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
