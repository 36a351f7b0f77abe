//! Cipher suites, security levels, and the choice that both ends make alike.

use crate::HandshakeError;

/// What protects the frames of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nothing; this crate has no keys for such a session.
    None,
    /// Nobody else can make or change a frame. Others can read it.
    Authenticate,
    /// The same, and nobody else can read the payload.
    Encrypt,
}

/// An algorithm for frames. The discriminant is the bit in an [`Offer`] and the byte on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Suite {
    /// AEGIS-128L with a tag of 128 bits; without encryption AEGIS-MAC-128L.
    Aegis128L = 0,
    /// AES-128-GCM; without encryption GMAC.
    Aes128Gcm = 1,
    /// ChaCha20-Poly1305; without encryption over an empty plaintext.
    ChaCha20Poly1305 = 2,
}

impl Suite {
    /// All suites, the fastest on a processor with AES instructions first.
    pub const ALL: [Self; 3] = [Self::Aegis128L, Self::Aes128Gcm, Self::ChaCha20Poly1305];

    /// Bytes of its key: 16 or 32.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aegis128L | Self::Aes128Gcm => 16,
            Self::ChaCha20Poly1305 => 32,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// What an end has: the lowest level that it takes, and its suites in order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    level: Level,
    rank: [Option<Suite>; 3],
}

/// Bytes of an [`Offer`] on the wire.
pub const OFFER_LEN: usize = 4;

impl Offer {
    /// The offer of this processor: AES suites first if it has AES instructions, ChaCha20 first
    /// otherwise. Never falls back below `level`.
    pub fn of_this_processor(level: Level) -> Self {
        let [aegis, gcm, chacha] = Suite::ALL.map(Some);
        let rank = if has_aes() { [aegis, gcm, chacha] } else { [chacha, None, None] };
        Self { level, rank }
    }

    /// An offer of the given suites, the best first. Repeated suites count once.
    pub fn new(level: Level, suites: &[Suite]) -> Self {
        let mut rank = [None; 3];
        let mut count = 0;
        for &suite in suites {
            if !rank.contains(&Some(suite)) {
                rank[count] = Some(suite);
                count += 1;
            }
        }
        Self { level, rank }
    }

    /// The level that this end demands.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Level, then the suites by rank; 255 is no suite.
    pub fn encode(&self) -> [u8; OFFER_LEN] {
        let [a, b, c] = self.rank.map(|suite| suite.map_or(u8::MAX, |suite| suite as u8));
        [self.level as u8, a, b, c]
    }

    /// Reads what [`encode`](Self::encode) wrote. Unknown suites are left out.
    pub fn decode(bytes: [u8; OFFER_LEN]) -> Result<Self, HandshakeError> {
        let level = match bytes[0] {
            0 => Level::None,
            1 => Level::Authenticate,
            2 => Level::Encrypt,
            _ => return Err(HandshakeError::Malformed),
        };
        let mut known = [None; 3];
        let suites = bytes[1..].iter().filter_map(|&code| Suite::from_code(code));
        for (place, suite) in known.iter_mut().zip(suites) {
            *place = Some(suite);
        }
        let known: Vec<Suite> = known.into_iter().flatten().collect();
        Ok(Self::new(level, &known))
    }

    /// What both ends use: both demand the same level, and the suite whose two ranks have the
    /// smallest sum. If two are equal, the suite that stands first in [`Suite::ALL`]. Both ends
    /// compute the same, whichever of them proposed.
    pub fn choose(&self, peer: &Self) -> Result<(Level, Suite), HandshakeError> {
        if self.level != peer.level || self.level == Level::None {
            return Err(HandshakeError::Level { own: self.level, peer: peer.level });
        }
        let rank = |offer: &Self, suite| offer.rank.iter().position(|&at| at == Some(suite));
        let sum = |suite| Some(rank(self, suite)? + rank(peer, suite)?);
        let best = Suite::ALL.into_iter().filter_map(|suite| Some((sum(suite)?, suite))).min();
        best.map(|(_, suite)| (self.level, suite)).ok_or(HandshakeError::NoCommonSuite)
    }
}

fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has = false;
    has
}
