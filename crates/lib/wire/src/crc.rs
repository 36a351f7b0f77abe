//! CRC32C (Castagnoli polynomial, RFC 3720 §12.1).
//!
//! `crc-fast` sums long frames: it folds 27 bytes per nanosecond. For short ones its handling of
//! alignment costs more than the sum itself. Those use the processor's CRC instruction, eight bytes
//! at a time, at any alignment.

/// Longest piece in bytes for the instruction. It takes three cycles per eight bytes, so folding is
/// faster from here on.
const SHORT: usize = 128;

/// The CRC of some bytes.
#[inline]
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() <= SHORT && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        #[expect(unsafe_code, reason = "functions that need a processor feature are called so")]
        return unsafe { short(bytes) };
    }
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC of a frame from its fifth byte on, whose header was just written from these words. A
/// short frame's header is summed from the words: reading bytes that were written a moment ago in
/// other pieces makes the processor wait.
#[inline]
pub(crate) fn of_new_frame(header: &[u64; 4], frame: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if frame.len() <= SHORT && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        #[expect(unsafe_code, reason = "functions that need a processor feature are called so")]
        return unsafe { short_frame(header, &frame[32..]) };
    }
    crc_fast::crc32_iscsi(&frame[4..])
}

/// The CRC of bytes that come in pieces.
pub(crate) struct Digest(crc_fast::Digest);

impl Digest {
    pub(crate) fn new() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }

    #[inline]
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> u32 {
        // A sum of 32 bits by its definition.
        self.0.finalize() as u32
    }
}

/// The CRC of bytes in several pieces.
pub(crate) fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = Digest::new();
    pieces.into_iter().for_each(|piece| digest.add(piece));
    digest.finish()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short(bytes: &[u8]) -> u32 {
    !add(u32::MAX, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short_frame(header: &[u64; 4], payload: &[u8]) -> u32 {
    use core::arch::x86_64::{_mm_crc32_u32, _mm_crc32_u64};
    // The instruction takes bytes as they lie in memory.
    let first = _mm_crc32_u32(u32::MAX, (header[0] as u32).swap_bytes());
    let sum = header[1..].iter().fold(first.into(), |sum, &w| _mm_crc32_u64(sum, w.swap_bytes()));
    !add(sum as u32, payload)
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse4.2")]
fn add(sum: u32, bytes: &[u8]) -> u32 {
    use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks();
    let sum = words.iter().fold(sum.into(), |sum, &w| _mm_crc32_u64(sum, u64::from_le_bytes(w)));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 §B.4: CRC32C of 32 zero bytes, of 32 bytes of ones, and of 0 to 31.
    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&core::array::from_fn::<u8, 32, _>(|i| i as u8)), 0x46dd_794e);
    }

    #[test]
    fn every_length_and_place_gives_the_same_as_the_plain_definition() {
        // Under Miri, which takes minutes for all, some of each kind: whole words, rests, short and
        // long.
        let (lengths, places) = if cfg!(miri) { (29, 7) } else { (1, 1) };
        let bytes: [u8; 300] = core::array::from_fn(|i| (i * 31 + i / 7) as u8);
        for len in (0..=200).step_by(lengths) {
            for start in (0..16).step_by(places) {
                let piece = &bytes[start..start + len];
                let plain = !piece.iter().fold(u32::MAX, |sum, &byte| {
                    (0..8).fold(sum ^ u32::from(byte), |sum, _| {
                        sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 }
                    })
                });
                assert_eq!(crc32c(piece), plain, "{len} bytes at {start}");
                let (a, b) = piece.split_at(len / 3);
                assert_eq!(of_pieces([a, b]), plain, "{len} bytes at {start}, in two pieces");
            }
        }
    }
}
