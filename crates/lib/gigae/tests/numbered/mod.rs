//! Messages of all sizes that say which they are, so that a wrong one is noticed.
#![allow(missing_docs, unreachable_pub)]

/// The bytes of the n-th message, at least 4 and at most `max` of them.
pub fn body(n: u32, max: usize) -> Vec<u8> {
    let len = 4 + (n as usize * 37) % (max - 3);
    let mut body: Vec<u8> = (0..len).map(|i| (i as u32 * 7 + n) as u8).collect();
    body[..4].copy_from_slice(&n.to_be_bytes());
    body
}
