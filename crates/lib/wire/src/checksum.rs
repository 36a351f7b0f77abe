//! The checksum of a frame (`PROTOCOL.md` §1): CRC32C (Castagnoli polynomial, RFC 3720 §12.1) with
//! a short payload, XXH3 with a longer one (decision 70).
//!
//! A short frame's CRC takes a few instructions: the processor has one for eight bytes, at any
//! alignment. It takes three cycles, so for longer frames XXH3 is faster. That reads 30 to 50 bytes
//! per nanosecond on any processor with vectors of 256 bits.

use crate::{HEADER_LEN, Pieces};
use core::hash::Hasher;
use twox_hash::XxHash3_64;
use twox_hash::xxhash3_64::{DEFAULT_SECRET_LENGTH, RawHasher, SecretBuffer};

/// Longest payload in bytes that CRC32C covers.
pub(crate) const LONGEST_CRC: usize = 128;

/// Bytes of a header that a checksum covers: all but its own place.
const HEADER: usize = HEADER_LEN - 4;

/// The checksum of a frame, of which these are all bytes that it covers.
#[inline]
pub(crate) fn of(bytes: &[u8]) -> u32 {
    if bytes.len() <= HEADER + LONGEST_CRC { crc32c(bytes) } else { xxh3(bytes) }
}

/// The checksum of a frame, whose header was just written from these words. A short frame's header
/// is summed from the words: reading bytes that were written a moment ago in other pieces makes the
/// processor wait.
#[inline]
pub(crate) fn of_new_frame(header: &[u64; 4], frame: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if frame.len() <= HEADER_LEN + LONGEST_CRC && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        #[expect(unsafe_code, reason = "functions that need a processor feature are called so")]
        return unsafe { by_instruction::of_new_frame(header, &frame[HEADER_LEN..]) };
    }
    let _ = header;
    of(&frame[4..])
}

/// The lower half of XXH3's 64 bits.
fn xxh3(bytes: &[u8]) -> u32 {
    XxHash3_64::oneshot(bytes) as u32
}

/// The checksum of bytes that come in pieces. Allocates nothing.
pub(crate) struct Digest(Sum);

#[expect(clippy::large_enum_variant, reason = "it lives on the stack, and allocates nothing")]
enum Sum {
    /// Its complement.
    Crc(u32),
    Xxh3(RawHasher<&'static [u8; DEFAULT_SECRET_LENGTH]>),
}

impl Digest {
    /// For a payload of `payload` bytes in all.
    pub(crate) fn new(payload: usize) -> Self {
        if payload > LONGEST_CRC {
            return Self(Sum::Xxh3(RawHasher::new(SecretBuffer::default())));
        }
        Self(Sum::Crc(u32::MAX))
    }

    #[inline]
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Sum::Crc(sum) => *sum = add(*sum, bytes),
            Sum::Xxh3(hasher) => hasher.write(bytes),
        }
    }

    pub(crate) fn finish(self) -> u32 {
        match self.0 {
            Sum::Crc(sum) => !sum,
            // The lower half.
            Sum::Xxh3(hasher) => hasher.finish() as u32,
        }
    }
}

/// The checksum of a header without its first four bytes, and of a payload in pieces.
pub(crate) fn of_pieces(header: &[u8], payload: Pieces) -> u32 {
    let mut digest = Digest::new(payload.len());
    digest.add(header);
    payload.for_each(|piece| digest.add(piece));
    digest.finish()
}

#[inline]
fn crc32c(bytes: &[u8]) -> u32 {
    !add(u32::MAX, bytes)
}

/// Adds bytes to the complement of a CRC.
#[inline]
fn add(sum: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        #[expect(unsafe_code, reason = "functions that need a processor feature are called so")]
        return unsafe { by_instruction::add(sum, bytes) };
    }
    by_table(sum, bytes)
}

/// The same on any processor.
fn by_table(sum: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(sum, |sum, &byte| sum >> 8 ^ TABLE[usize::from(sum as u8 ^ byte)])
}

/// What each value of a byte adds.
static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut value = 0;
    while value < 256 {
        let (mut sum, mut bit) = (value as u32, 0);
        while bit < 8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[value] = sum;
        value += 1;
    }
    table
};

#[cfg(target_arch = "x86_64")]
mod by_instruction {
    use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};

    #[inline]
    #[target_feature(enable = "sse4.2")]
    pub(super) fn of_new_frame(header: &[u64; 4], payload: &[u8]) -> u32 {
        // The instruction takes bytes as they lie in memory.
        let first = _mm_crc32_u32(u32::MAX, (header[0] as u32).swap_bytes());
        let sum = header[1..].iter();
        let sum = sum.fold(first.into(), |sum, &word| _mm_crc32_u64(sum, word.swap_bytes()));
        !add(sum as u32, payload)
    }

    #[inline]
    #[target_feature(enable = "sse4.2")]
    pub(super) fn add(sum: u32, bytes: &[u8]) -> u32 {
        let (words, rest) = bytes.as_chunks();
        let sum =
            words.iter().fold(sum.into(), |sum, &w| _mm_crc32_u64(sum, u64::from_le_bytes(w)));
        // The upper half is zero by the instruction's definition.
        let mut sum = sum as u32;
        let (words, rest) = rest.as_chunks();
        for &word in words {
            sum = _mm_crc32_u32(sum, u32::from_le_bytes(word));
        }
        for &byte in rest {
            sum = _mm_crc32_u8(sum, byte);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 §B.4: CRC32C of 32 zero bytes, of 32 bytes of ones, and of 0 to 31.
    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(of(&[0; 32]), 0x8a91_36aa);
        assert_eq!(of(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(of(&core::array::from_fn::<u8, 32, _>(|i| i as u8)), 0x46dd_794e);
    }

    fn in_two_pieces(bytes: &[u8], at: usize) -> u32 {
        let (header, payload) = bytes.split_at(HEADER.min(bytes.len()));
        let (a, b) = payload.split_at(at.min(payload.len()));
        of_pieces(header, Pieces::new(a, &[b]))
    }

    fn sample<const N: usize>() -> [u8; N] {
        core::array::from_fn(|i| (i * 31 + i / 7) as u8)
    }

    #[test]
    fn every_length_and_place_gives_the_same_as_the_plain_definition() {
        // Under Miri, which takes minutes for all, some of each kind: whole words, rests, short and
        // long.
        let (lengths, places) = if cfg!(miri) { (29, 7) } else { (1, 1) };
        let bytes: [u8; 300] = sample();
        for len in (0..=HEADER + LONGEST_CRC).step_by(lengths) {
            for start in (0..16).step_by(places) {
                let piece = &bytes[start..start + len];
                let plain = !piece.iter().fold(u32::MAX, |sum, &byte| {
                    (0..8).fold(sum ^ u32::from(byte), |sum, _| {
                        sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 }
                    })
                });
                assert_eq!(of(piece), plain, "{len} bytes at {start}");
                assert_eq!(!by_table(u32::MAX, piece), plain, "{len} bytes at {start}, by table");
                assert_eq!(in_two_pieces(piece, len / 3), plain, "{len} bytes at {start}, in two");
            }
        }
    }

    /// The lower halves of what the reference implementation gives (xxHash 0.8.4, `XXH3_64bits`).
    #[test]
    fn a_long_payload_is_summed_by_xxh3_in_one_piece_and_in_several() {
        let bytes: [u8; HEADER + 65_535] = sample();
        let sums = [(LONGEST_CRC + 1, 0x70b0_84e4), (2_049, 0x28ad_f4c3), (65_535, 0x5b7a_a625)];
        for (payload, sum) in sums {
            if cfg!(miri) && payload > 10_000 {
                continue;
            }
            let bytes = &bytes[..HEADER + payload];
            assert_eq!(of(bytes), sum, "{payload} bytes");
            assert_eq!(in_two_pieces(bytes, payload / 3), sum, "{payload} bytes, in two");
        }
    }
}
