//! Frames of one session: counters, replay windows, and keys that roll without a message.

use crate::aead::{FrameKey, TAG_LEN, Tag};
use crate::{Level, ReplayWindow, Suite};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use zeroize::{Zeroize, Zeroizing};

/// Paths of a session, as in `PROTOCOL.md` 11: 0 to 7.
pub const PATHS: usize = 8;

/// Bits of a counter below the path.
const PATH_SHIFT: u32 = 56;

/// Frames of one phase of all paths before the sender rolls: 2^31, half of the 2^32 allowed.
pub const FRAMES_OF_A_PHASE: u64 = 1 << 31;

/// Frames that a key seals at most. A sender comes here if it sends more than 2^31 frames within a
/// minute of a roll, and then it has to wait.
pub const MOST_OF_A_PHASE: u64 = 1 << 32;

/// Nanoseconds before the sender rolls: an hour.
pub const TIME_OF_A_PHASE: u64 = 3_600_000_000_000;

/// Nanoseconds for which a receiver takes frames of the phase before: 30 s, more than a frame can
/// be late.
pub const OVERLAP: u64 = 30_000_000_000;

/// Path in the upper 8 bits, number of the frame on it in the lower 56. It is the nonce, and stands
/// in the frame, so no two frames under a key have the same one. Counters go on over phases.
pub type Counter = u64;

/// What the sender writes beside the frame: 24 bytes and one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// See [`Counter`].
    pub counter: Counter,
    /// Parity of the phase.
    pub phase: bool,
    /// Over header and body; counter and phase are in nonce and key.
    pub tag: Tag,
}

/// Why a frame was not sealed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a key has sealed 2^32 frames within a minute of its beginning: send the rest after the next roll"
)]
pub struct Exhausted;

/// Why a frame was refused. Nothing of the session has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No such path.
    #[error("a sealed frame names a path that does not exist: drop it")]
    Path,
    /// This counter has come, or is too old.
    #[error("a sealed frame came twice or too late: drop it")]
    Replayed,
    /// Forged, changed on the way, or of another session, direction or phase.
    #[error(
        "a sealed frame has a wrong tag: drop it; if all do, begin a new session, and if that \
         fails, check that both keys are the same"
    )]
    BadTag,
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

pub(crate) fn expand(secret: &[u8; 32], label: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut out = Zeroizing::new([0; 32]);
    let prk = Prk::new_less_safe(HKDF_SHA256, secret);
    let done = prk.expand(&[b"gigae sealed 1 ", label], Length(32)).and_then(|o| o.fill(&mut *out));
    done.expect("32 bytes are one block of HKDF");
    out
}

/// The secret of one direction, which only goes forward.
struct Secret {
    bytes: Zeroizing<[u8; 32]>,
    suite: Suite,
    level: Level,
}

impl Secret {
    fn key(&self) -> FrameKey {
        let label = [b'k', self.suite as u8, self.level as u8];
        FrameKey::new(self.suite, self.level, &expand(&self.bytes, &label))
    }

    /// The secret of the next phase. It replaces this one, which is erased.
    fn step(&mut self) {
        let mut next = expand(&self.bytes, b"next");
        self.bytes.copy_from_slice(&*next);
        next.zeroize();
    }
}

/// Seals the frames that an end sends.
pub struct Sealer {
    secret: Secret,
    key: FrameKey,
    phase: bool,
    next: [u64; PATHS],
    frames: u64,
    since: u64,
}

impl Sealer {
    pub(crate) fn new(secret: Zeroizing<[u8; 32]>, suite: Suite, level: Level, now: u64) -> Self {
        let secret = Secret { bytes: secret, suite, level };
        let key = secret.key();
        Self { secret, key, phase: false, next: [0; PATHS], frames: 0, since: now }
    }

    /// Rolls the key if it is due. Call it once per batch with a monotonic time in nanoseconds.
    /// Costs a comparison, and about 2 us when it rolls. Returns whether it did.
    pub fn roll_if_due(&mut self, now: u64) -> bool {
        let is_due =
            self.frames >= FRAMES_OF_A_PHASE || now.saturating_sub(self.since) >= TIME_OF_A_PHASE;
        // Two rolls within the overlap would give a receiver three keys to know.
        if is_due && now.saturating_sub(self.since) >= 2 * OVERLAP {
            self.roll(now);
            return true;
        }
        false
    }

    /// Rolls now. The caller leaves at least [`OVERLAP`] twice between two rolls.
    pub fn roll(&mut self, now: u64) {
        self.secret.step();
        self.key = self.secret.key();
        self.phase = !self.phase;
        (self.frames, self.since) = (0, now);
    }

    /// Seals a frame in place: `header` bytes of header, which stay readable, and the body.
    ///
    /// # Errors
    /// If the key has sealed [`MOST_OF_A_PHASE`] frames. The frame is as it was.
    ///
    /// # Panics
    /// If `path` is not below [`PATHS`].
    pub fn seal(
        &mut self,
        path: u8,
        frame: &mut [u8],
        header: usize,
    ) -> Result<Trailer, Exhausted> {
        if self.frames >= MOST_OF_A_PHASE {
            return Err(Exhausted);
        }
        let next = &mut self.next[usize::from(path)];
        let counter = u64::from(path) << PATH_SHIFT | *next;
        *next += 1;
        self.frames += 1;
        Ok(Trailer { counter, phase: self.phase, tag: self.key.seal(counter, frame, header) })
    }
}

/// Opens the frames that an end receives.
pub struct Opener {
    secret: Secret,
    /// Of the next phase, computed when the present one begins.
    next: FrameKey,
    current: FrameKey,
    previous: Option<FrameKey>,
    phase: bool,
    since: u64,
    windows: [ReplayWindow; PATHS],
}

impl Opener {
    pub(crate) fn new(secret: Zeroizing<[u8; 32]>, suite: Suite, level: Level, now: u64) -> Self {
        let mut secret = Secret { bytes: secret, suite, level };
        let current = secret.key();
        secret.step();
        let next = secret.key();
        let windows = std::array::from_fn(|_| ReplayWindow::default());
        Self { secret, next, current, previous: None, phase: false, since: now, windows }
    }

    /// Forgets the key of the phase before when its time is over. Call it once per batch.
    pub fn forget_if_due(&mut self, now: u64) {
        if self.previous.is_some() && now.saturating_sub(self.since) >= OVERLAP {
            self.previous = None;
        }
    }

    /// Opens a frame in place. Takes each counter once. A frame of the next phase with a good tag
    /// begins that phase here.
    pub fn open(
        &mut self,
        now: u64,
        trailer: &Trailer,
        frame: &mut [u8],
        header: usize,
    ) -> Result<(), OpenError> {
        self.forget_if_due(now);
        let path = (trailer.counter >> PATH_SHIFT) as usize;
        let number = trailer.counter & ((1 << PATH_SHIFT) - 1);
        let window = self.windows.get_mut(path).ok_or(OpenError::Path)?;
        if !window.admits(number) {
            return Err(OpenError::Replayed);
        }
        let is_current = trailer.phase == self.phase;
        // Frames of the other parity are late ones while the former key is there, else of the next
        // phase: a sender does not roll twice within the overlap.
        let key = match &self.previous {
            _ if is_current => &self.current,
            Some(previous) => previous,
            None => &self.next,
        };
        key.open(trailer.counter, frame, header, &trailer.tag).map_err(|_| OpenError::BadTag)?;
        window.note(number);
        if !is_current && self.previous.is_none() {
            self.advance(now);
        }
        Ok(())
    }

    fn advance(&mut self, now: u64) {
        self.secret.step();
        let next = std::mem::replace(&mut self.next, self.secret.key());
        self.previous = Some(std::mem::replace(&mut self.current, next));
        self.phase = !self.phase;
        self.since = now;
    }
}

/// Bytes that a sealed frame has more: counter and tag. Without the checksum's four it is 20.
pub const OVERHEAD: usize = 8 + TAG_LEN;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_seals_no_more_than_its_frames() {
        let secret = Zeroizing::new([7; 32]);
        let mut sealer = Sealer::new(secret, Suite::Aes128Gcm, Level::Encrypt, 0);
        let mut frame = [1; 40];
        sealer.frames = MOST_OF_A_PHASE - 1;
        let last = sealer.seal(0, &mut frame, 32).unwrap();
        let sealed = frame;
        assert_eq!(sealer.seal(0, &mut frame, 32), Err(Exhausted));
        assert_eq!(frame, sealed);
        assert!(!sealer.roll_if_due(2 * OVERLAP - 1) && sealer.roll_if_due(2 * OVERLAP));
        let next = sealer.seal(0, &mut frame, 32).unwrap();
        assert_eq!((next.counter, next.phase), (last.counter + 1, !last.phase));
    }
}
