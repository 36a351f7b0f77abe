//! Message bodies that follow from the sender, the receiver and the message's number.
//!
//! A body of 16 bytes or more begins with that identity, sealed by a hash. So a checker knows which
//! message it has before it compares the rest. A shorter one is the beginning of a stream that
//! follows from the identity; its position tells the checker which message it is.
//!
//! This small crate depends on no other crate of ours: soaks, the simulation and the NIC lab verify
//! with it, and none of them uses another.

#![forbid(unsafe_code)]

/// Shortest body that contains its identity.
pub const NAMED: usize = 16;

/// Identifies a message among all that are sent in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// The sending node.
    pub from: u16,
    /// How often that node had been opened before.
    pub life: u16,
    /// The receiving node.
    pub to: u16,
    /// Counted from zero for each combination of the above.
    pub number: u32,
}

impl Id {
    fn word(self) -> u64 {
        let Self { from, life, to, .. } = self;
        u64::from(from) << 48 | u64::from(life) << 32 | u64::from(to)
    }

    fn hash(self, len: usize) -> u64 {
        mix(mix(self.word() ^ 0x6769_6761_6521) ^ (u64::from(self.number) << 24 | len as u64))
    }
}

/// A good mixture of 64 bits (splitmix64, Steele et al. 2014).
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Fills `out` with the stream of `seed`.
pub fn stream(seed: u64, out: &mut [u8]) {
    let mut state = seed;
    for chunk in out.chunks_mut(8) {
        state = mix(state);
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}

/// The message's body of `out.len()` bytes.
pub fn write(id: Id, out: &mut [u8]) {
    let hash = id.hash(out.len());
    if out.len() < NAMED {
        return stream(hash, out);
    }
    let (name, rest) = out.split_at_mut(NAMED);
    name[..2].copy_from_slice(&id.from.to_le_bytes());
    name[2..4].copy_from_slice(&id.life.to_le_bytes());
    name[4..6].copy_from_slice(&id.to.to_le_bytes());
    name[6..10].copy_from_slice(&id.number.to_le_bytes());
    name[10..16].copy_from_slice(&hash.to_le_bytes()[..6]);
    stream(hash, rest);
}

/// The identity in a body. `None` if the body is too short, or not from this crate.
pub fn name(body: &[u8]) -> Option<Id> {
    let name: &[u8; NAMED] = body.first_chunk()?;
    let word = |at: usize| u16::from_le_bytes([name[at], name[at + 1]]);
    let number = u32::from_le_bytes([name[6], name[7], name[8], name[9]]);
    let id = Id { from: word(0), life: word(2), to: word(4), number };
    (name[10..] == id.hash(body.len()).to_le_bytes()[..6]).then_some(id)
}

/// Whether the body is this message's, byte for byte. `scratch` saves an allocation.
pub fn is(id: Id, body: &[u8], scratch: &mut Vec<u8>) -> bool {
    scratch.resize(body.len(), 0);
    write(id, scratch);
    scratch == body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_names_its_message_unless_a_bit_of_the_name_is_wrong() {
        let id = Id { from: 1, life: 2, to: 3, number: 4 };
        for len in [16, 17, 1468] {
            let mut body = vec![0; len];
            write(id, &mut body);
            assert_eq!(name(&body), Some(id));
            assert_eq!(name(&body[..len - 1]), None);
            for bit in 0..NAMED * 8 {
                body[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(name(&body), None);
                body[bit / 8] ^= 1 << (bit % 8);
            }
            assert!(is(id, &body, &mut Vec::new()));
            body[len - 1] ^= 1;
            assert!(!is(id, &body, &mut Vec::new()));
        }
        assert!(is(id, &[], &mut Vec::new()));
    }
}
