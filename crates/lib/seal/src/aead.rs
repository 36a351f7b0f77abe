//! One key, and the algorithms under it. No call allocates or takes a lock.

use crate::{Level, Suite};
use aegis::aegis128l::{Aegis128L, Aegis128LMac};
use aws_lc_rs::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes of a tag, whatever the suite.
pub const TAG_LEN: usize = 16;

/// The tag of a frame.
pub type Tag = [u8; TAG_LEN];

/// The tag is wrong: the frame is not of the peer, or was changed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTag;

/// Keys are erased when they are dropped: the own one here, the others by AWS-LC.
#[derive(Zeroize, ZeroizeOnDrop)]
struct AegisKey([u8; 16]);

enum Cipher {
    Aegis(AegisKey),
    Other(LessSafeKey),
}

/// A key for one direction and one phase.
pub struct FrameKey {
    cipher: Cipher,
    level: Level,
}

impl std::fmt::Debug for FrameKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FrameKey")
    }
}

impl FrameKey {
    /// A key of the suite. `key` has 32 bytes; the suite takes as many from the front as it needs.
    /// `level` [`None`](Level::None) is taken as [`Authenticate`](Level::Authenticate).
    pub fn new(suite: Suite, level: Level, key: &[u8; 32]) -> Self {
        let other = |algorithm| {
            let key = UnboundKey::new(algorithm, &key[..suite.key_len()]);
            Cipher::Other(LessSafeKey::new(key.expect("a key of the suite's length")))
        };
        let cipher = match suite {
            Suite::Aegis128L => {
                Cipher::Aegis(AegisKey(key[..16].try_into().expect("16 of 32 bytes")))
            }
            Suite::Aes128Gcm => other(&AES_128_GCM),
            Suite::ChaCha20Poly1305 => other(&CHACHA20_POLY1305),
        };
        Self { cipher, level }
    }

    /// Seals in place. `frame` is a header of `header` bytes (at most the frame's length) and the
    /// body behind it. Without encryption no byte changes.
    pub fn seal(&self, nonce: u64, frame: &mut [u8], header: usize) -> Tag {
        let (header, body) = self.parts(frame, header);
        match &self.cipher {
            Cipher::Aegis(key) if self.level == Level::Encrypt => {
                Aegis128L::<TAG_LEN>::new(&key.0, &wide(nonce)).encrypt_in_place(body, header)
            }
            Cipher::Aegis(key) => mac(key, nonce, header).finalize(),
            Cipher::Other(key) => {
                let tag = key.seal_in_place_separate_tag(narrow(nonce), Aad::from(header), body);
                let tag = tag.expect("a frame is shorter than 64 GiB");
                tag.as_ref().try_into().expect("tags of 16 bytes")
            }
        }
    }

    /// Opens in place. If the tag is wrong, the body is useless afterwards.
    pub fn open(
        &self,
        nonce: u64,
        frame: &mut [u8],
        header: usize,
        tag: &Tag,
    ) -> Result<(), BadTag> {
        let (header, body) = self.parts(frame, header);
        match &self.cipher {
            Cipher::Aegis(key) if self.level == Level::Encrypt => {
                Aegis128L::<TAG_LEN>::new(&key.0, &wide(nonce))
                    .decrypt_in_place(body, tag, header)
                    .map_err(|_| BadTag)
            }
            Cipher::Aegis(key) => mac(key, nonce, header).verify(tag).map_err(|_| BadTag),
            Cipher::Other(key) => key
                .open_in_place_separate_tag(narrow(nonce), Aad::from(header), tag, body)
                .map(drop)
                .map_err(|_| BadTag),
        }
    }

    /// Associated data and plaintext: without encryption all bytes are associated data.
    fn parts<'a>(&self, frame: &'a mut [u8], header: usize) -> (&'a [u8], &'a mut [u8]) {
        let at = if self.level == Level::Encrypt { header.min(frame.len()) } else { frame.len() };
        let (header, body) = frame.split_at_mut(at);
        (header, body)
    }
}

fn mac(key: &AegisKey, nonce: u64, bytes: &[u8]) -> Aegis128LMac<TAG_LEN> {
    let mut mac = Aegis128LMac::new_with_nonce(&key.0, &wide(nonce));
    mac.update(bytes);
    mac
}

/// 96 bits: four zeros, then the transmission counter, big-endian.
fn narrow(nonce: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&nonce.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// 128 bits: eight zeros, then the transmission counter, big-endian.
fn wide(nonce: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&nonce.to_be_bytes());
    bytes
}
