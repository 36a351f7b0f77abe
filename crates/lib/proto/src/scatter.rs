//! Waits of different length for different sessions. Nodes that lost their network at the same
//! moment would otherwise all send again at the same moments, into the same buffer.

/// A number from 0 to `most`, which looks random. It follows from a session's `seed`, which is
/// random, and from how often the session has waited.
pub(crate) fn up_to(most: u64, seed: u32, turn: u32) -> u64 {
    // The last step of MurmurHash3: each bit of the input changes half of the result's bits.
    let mut mixed = seed.wrapping_add(turn.wrapping_mul(0x9E37_79B9));
    mixed = (mixed ^ mixed >> 16).wrapping_mul(0x85EB_CA6B);
    mixed = (mixed ^ mixed >> 13).wrapping_mul(0xC2B2_AE35);
    mixed ^= mixed >> 16;
    (u128::from(most) * u128::from(mixed) / u128::from(u32::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_seeds_and_turns_are_spread_evenly() {
        for of in [|n| (n, 3), |n| (0xDEAD_BEEF, n)] {
            let mut tenths = [0; 10];
            for n in 0..10_000 {
                let (seed, turn) = of(n);
                tenths[(up_to(999, seed, turn) / 100) as usize] += 1;
            }
            assert!(tenths.iter().all(|count| (900..1_100).contains(count)), "{tenths:?}");
        }
        assert_eq!(up_to(0, 7, 7), 0);
    }
}
