//! How many datagrams a bulk frame takes.
//!
//! A frame of many datagrams costs the ends hardly more than one of a single datagram. But it is
//! lost as a whole if one of them is. So frames become smaller when some are lost, down to one
//! datagram, and larger again when none is for a while.

use gigae_wire::MOST_DATAGRAMS;

/// Frames that arrive without a loss before frames become larger. With one datagram in a hundred
/// lost, frames of one datagram mostly stay so.
const CLEAN: u8 = 64;

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(crate) struct BulkSize {
    datagrams: u8,
    /// Frames that have arrived since the last loss or growth.
    clean: u8,
}

impl Default for BulkSize {
    fn default() -> Self {
        Self { datagrams: MOST_DATAGRAMS, clean: 0 }
    }
}

impl BulkSize {
    /// Most datagrams of the next frame.
    pub(crate) fn datagrams(&self) -> u8 {
        self.datagrams
    }

    /// A frame has arrived.
    pub(crate) fn arrived(&mut self) {
        self.clean += 1;
        if self.clean == CLEAN {
            self.clean = 0;
            self.datagrams = (self.datagrams * 2).min(MOST_DATAGRAMS);
        }
    }

    /// Frames were lost.
    pub(crate) fn lost(&mut self) {
        self.clean = 0;
        self.datagrams = (self.datagrams / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_make_frames_smaller_and_clean_ones_larger() {
        let mut size = BulkSize::default();
        assert_eq!(size.datagrams(), MOST_DATAGRAMS);
        for _ in 0..10 {
            size.lost();
        }
        assert_eq!(size.datagrams(), 1);
        (1..CLEAN).for_each(|_| size.arrived());
        assert_eq!(size.datagrams(), 1);
        size.lost();
        (1..CLEAN).for_each(|_| size.arrived());
        assert_eq!(size.datagrams(), 1, "a loss restarts the count");
        size.arrived();
        assert_eq!(size.datagrams(), 2);
        (0..10 * u32::from(CLEAN)).for_each(|_| size.arrived());
        assert_eq!(size.datagrams(), MOST_DATAGRAMS);
    }
}
