//! How a caller waits for frames: the choice between time and CPU.

use std::time::Duration;

/// How blocking calls wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Polls without end: the shortest round trip, one CPU fully used.
    Spin,
    /// Sleeps in the kernel at once: no CPU while idle, a wake-up (tens of microseconds) per wait.
    Sleep,
    /// Polls for as long as that has lately paid, at most about the cost of a wake-up, then sleeps.
    #[default]
    Adaptive,
}

/// Longest spin: about what a wake-up on another CPU costs (60 us and more where it was measured),
/// so that waiting never costs more than twice the better of spinning and sleeping.
const LONGEST_SPIN: Duration = Duration::from_micros(100);

/// Shortest spin: a few round trips on a fast link.
const SHORTEST_SPIN: Duration = Duration::from_micros(6);

/// Decides between spinning and sleeping during one endpoint's life.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) style: Wait,
    spin: Duration,
}

impl Waiter {
    pub(crate) fn new(style: Wait) -> Self {
        Self { style, spin: LONGEST_SPIN }
    }

    /// Whether to go on polling, having polled in vain for so long.
    #[inline]
    pub(crate) fn keeps_spinning(&self, waited: Duration) -> bool {
        match self.style {
            Wait::Spin => true,
            Wait::Sleep => false,
            Wait::Adaptive => waited < self.spin,
        }
    }

    /// A wait ended while spinning: that paid.
    #[inline]
    pub(crate) fn spun(&mut self) {
        self.spin = LONGEST_SPIN;
    }

    /// A wait ended in sleep after a vain spin: the next one spins half as long.
    pub(crate) fn slept(&mut self) {
        self.spin = (self.spin / 2).max(SHORTEST_SPIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_adaptive_waiter_soon_hardly_spins_and_one_quick_answer_restores_it() {
        let mut waiter = Waiter::new(Wait::Adaptive);
        assert!(waiter.keeps_spinning(LONGEST_SPIN / 2));
        (0..10).for_each(|_| waiter.slept());
        assert!(!waiter.keeps_spinning(SHORTEST_SPIN));
        assert!(waiter.keeps_spinning(SHORTEST_SPIN / 2), "or it would never find out");
        waiter.spun();
        assert!(waiter.keeps_spinning(LONGEST_SPIN / 2));
    }

    #[test]
    fn the_other_styles_do_only_one_thing() {
        assert!(Waiter::new(Wait::Spin).keeps_spinning(Duration::from_secs(3600)));
        assert!(!Waiter::new(Wait::Sleep).keeps_spinning(Duration::ZERO));
    }
}
