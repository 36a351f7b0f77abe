//! How many datagrams may be in flight on a path (`PROTOCOL.md` §7.5): a number that grows with
//! acknowledgements and falls with losses, and what is known of its last fall.

/// Frames in flight at the beginning of a session. Each acknowledgement raises the number.
const INITIAL_FLIGHT: u32 = 64;

/// A loss never reduces the frames in flight below this. It covers a Gigabit Ethernet's
/// bandwidth-delay product (some 10 frames) and fits the smallest switch buffers, so that random
/// loss does not throttle a link that is not congested.
pub(crate) const LEAST_FLIGHT: u32 = 32;

/// The same where the receiver keeps nothing out of order. Each loss wastes everything in flight,
/// so this is just enough to cover that product.
pub(crate) const LEAST_IN_ORDER: u32 = 10;

/// Frames in flight after everything timed out: almost nothing is known of the path then. TCP
/// begins with ten full frames (RFC 6928). When everything times out again, half of them, and so on
/// down to one: thousands of senders may wait for the same port.
pub(crate) const RESTART_FLIGHT: u32 = 10;

/// Datagrams that may be in flight on a path, and up to how many the number doubles.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Flight {
    pub(crate) most: u32,
    pub(crate) threshold: u32,
}

impl Flight {
    /// For a session that begins, with a send window of so many frames.
    pub(crate) fn new(window: u32) -> Self {
        Self { most: INITIAL_FLIGHT.min(window), threshold: window }
    }

    /// Something was lost. Fewer may be in flight, but no fewer than `least`.
    pub(crate) fn reduce(&mut self, least: u32, window: u32) {
        self.threshold = (self.most * 7 / 10).max(least).min(window);
        self.most = self.threshold;
    }

    /// Everything was lost, as `before` times before.
    pub(crate) fn restart(&mut self, window: u32, before: u32) {
        self.threshold = (self.most / 2).max(LEAST_FLIGHT).min(window);
        self.most = (RESTART_FLIGHT >> before.min(RESTART_FLIGHT)).clamp(1, window);
    }

    /// Nothing was lost: it is again what it was before that, at least.
    pub(crate) fn undo(&mut self, before: Self) {
        self.most = self.most.max(before.most);
        self.threshold = self.threshold.max(before.threshold);
    }
}

/// A fall of the flight. It was wrong if half of the frames that it was for were only overtaken:
/// where queues only overflow, none is.
///
/// Small, because every path has one: windows are less than 65,536 frames.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Fall {
    /// The flight before it.
    most: u16,
    threshold: u16,
    /// The first transmission that belongs to it.
    first: u32,
    /// Frames that have counted as lost then or since, whenever they were sent, and those that
    /// belong to it and arrived before they were repeated. Zero if there is no fall, or if it stays
    /// whatever comes.
    lost: u16,
    overtaken: u16,
}

/// How many later transmissions may arrive before one that is on its way: three as with TCP
/// (RFC 5681) and QUIC (RFC 9002 §6.1.1), and more where more have been seen.
const USUAL: u8 = 3;
const MOST: u8 = 64;

/// What is known of how frames of a path overtake each other.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Reordering {
    later: u8,
    /// The last fall of the flight.
    fall: Fall,
}

impl Reordering {
    /// Nothing is known.
    pub(crate) fn new() -> Self {
        Self { later: USUAL, fall: Fall::default() }
    }

    /// How many may arrive before one that is on its way: at most half of what is in flight, so
    /// that what follows a lost frame shows its loss.
    pub(crate) fn most(&self, in_flight: u32) -> u32 {
        u32::from(self.later).min((in_flight / 2).max(USUAL.into()))
    }

    /// One more frame counts as lost.
    pub(crate) fn lose(&mut self) {
        if self.fall.lost > 0 {
            self.fall.lost = self.fall.lost.saturating_add(1);
        }
    }

    /// The flight falls because so many transmissions from `first` on are lost.
    pub(crate) fn fell(&mut self, before: Flight, first: u32, lost: u32) {
        if self.fall.lost > 0 {
            self.late();
        }
        let small = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
        let (most, threshold) = (small(before.most), small(before.threshold));
        self.fall = Fall { most, threshold, first, lost: small(lost), overtaken: 0 };
    }

    /// A fall was right as far as is known, or a timeout fired.
    pub(crate) fn late(&mut self) {
        self.later = (self.later - 1).max(USUAL);
    }

    /// The last fall stays, whatever comes.
    pub(crate) fn settle(&mut self) {
        self.fall = Fall::default();
    }

    /// A frame that counted as lost because of others, and was not repeated, has arrived. If the
    /// last fall was wrong by that, it ends, and its first transmission is returned.
    pub(crate) fn was_overtaken(
        &mut self,
        transmission: u32,
        arrived: u32,
        flight: &mut Flight,
    ) -> Option<u32> {
        let later = arrived.wrapping_sub(transmission).cast_signed().clamp(0, MOST.into());
        self.later = self.later.max(later as u8);
        let fall = &mut self.fall;
        if fall.lost == 0 || transmission.wrapping_sub(fall.first).cast_signed() < 0 {
            return None;
        }
        fall.overtaken += 1;
        if fall.overtaken < fall.lost.div_ceil(2) {
            return None;
        }
        let Fall { most, threshold, first, .. } = std::mem::take(fall);
        flight.undo(Flight { most: most.into(), threshold: threshold.into() });
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Flight = Flight { most: 100, threshold: 80 };

    #[test]
    fn a_fall_was_wrong_if_half_of_its_frames_were_only_overtaken() {
        let (mut reordering, mut flight) = (Reordering::new(), Flight { most: 70, threshold: 70 });
        reordering.fell(BEFORE, 10, 3);
        assert_eq!(reordering.was_overtaken(10, 14, &mut flight), None);
        assert_eq!(reordering.was_overtaken(9, 14, &mut flight), None, "of an earlier fall");
        assert_eq!(flight.most, 70);
        assert_eq!(reordering.was_overtaken(11, 15, &mut flight), Some(10));
        assert_eq!((flight.most, flight.threshold), (100, 80));
        // More are lost then than were overtaken.
        reordering.fell(BEFORE, 20, 2);
        (0..2).for_each(|_| reordering.lose());
        assert_eq!(reordering.was_overtaken(21, 25, &mut flight), None);
        reordering.settle();
        assert_eq!(reordering.was_overtaken(22, 25, &mut flight), None);
    }

    #[test]
    fn a_path_on_which_frames_overtake_each_other_waits_for_more() {
        let (mut reordering, mut flight) = (Reordering::new(), BEFORE);
        assert_eq!(reordering.most(40), 3);
        reordering.was_overtaken(10, 40, &mut flight);
        reordering.was_overtaken(50, 60, &mut flight);
        assert_eq!((reordering.most(40), reordering.most(4)), (20, 3));
        (0..30).for_each(|_| reordering.late());
        assert_eq!(reordering.most(40), 3);
        reordering.was_overtaken(500, 1, &mut flight);
        assert_eq!(reordering.most(256), 3, "nothing later has arrived");
        reordering.was_overtaken(u32::MAX, 500, &mut flight);
        assert_eq!(reordering.most(256), 64);
    }

    #[test]
    fn a_flight_that_has_grown_meanwhile_does_not_shrink() {
        let mut flight = Flight { most: 60, threshold: 120 };
        flight.undo(BEFORE);
        assert_eq!((flight.most, flight.threshold), (100, 120));
    }
}
