//! Frames beyond a gap: those that are carried out before the gap is filled (`PROTOCOL.md` 14.4),
//! and the report of all of them.

use super::ReceiveWindow;
use gigae_wire::{AckReport, SeqNo};

impl<R> ReceiveWindow<R> {
    /// Hands out the frame that has just been kept, if it may be carried out at once. Those before
    /// it are on their way, so they do not count as missing, and their credit not as used.
    #[cold]
    pub(crate) fn take_early(&mut self) -> Option<R> {
        let (seq, back) = (self.latest, self.overtakes?);
        if back > 0 && !self.was_carried_out(SeqNo(seq.0.wrapping_sub(back.into()))) {
            return None;
        }
        let at = seq.0 as usize & self.kept.len().checked_sub(1)?;
        let buffer = self.kept[at].as_mut()?.buffer.take()?;
        self.held += 1;
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        self.early_count += 1;
        Some(buffer)
    }

    /// Whether a frame before one that is kept was delivered.
    fn was_carried_out(&self, seq: SeqNo) -> bool {
        let at = seq.0 as usize & (self.kept.len() - 1);
        seq.is_before(self.next) || self.kept[at].as_ref().is_some_and(|kept| kept.buffer.is_none())
    }

    /// Writes the report that goes with an Ack frame and returns its length; zero if nothing is
    /// missing.
    pub(crate) fn write_report(&self, out: &mut [u8; 4 + AckReport::MAX_BITMAP]) -> usize {
        if !self.gap {
            return 0;
        }
        out[..4].copy_from_slice(&self.latest.0.to_be_bytes());
        if self.kept_count == 0 {
            return 4;
        }
        let highest = if self.highest.is_before(self.early) { self.early } else { self.highest };
        let beyond = highest.ahead_of(self.next + 1).max(0).cast_unsigned() as usize;
        let bytes = beyond.div_ceil(8).min(AckReport::MAX_BITMAP);
        out[4..4 + bytes].fill(0);
        let mask = self.kept.len() - 1;
        for i in 0..beyond.min(bytes * 8) {
            let seq = self.next + 1 + u32::try_from(i).expect("at most 1,024");
            if self.kept[seq.0 as usize & mask].is_some() {
                out[4 + i / 8] |= 1 << (i % 8);
            }
        }
        4 + bytes
    }
}
