//! Which user has the next turn, and how much of the broker's time each user has had.
//!
//! Making or removing a port occupies the broker, and the kernel's lock over all interfaces, for
//! some ten milliseconds. The broker does one piece of work at a time, for the user who has had the
//! least time lately. So a user who asks for much waits for himself, and others wait for one piece
//! of work at most.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time that a user may use at once: making and removing ports on every processor of a large node,
/// twice.
const AT_ONCE: Duration = Duration::from_secs(20);

/// One part in this many of the time is forgotten per time that passes: what a user may use in the
/// long run.
const SHARE: u32 = 4;

/// The time that a user has had, and when it was updated.
#[derive(Clone, Copy, Debug)]
struct TimeUsed {
    time: Duration,
    at: Instant,
}

impl TimeUsed {
    /// What of it is not forgotten yet.
    fn left(self, now: Instant) -> Duration {
        self.time.saturating_sub(now.saturating_duration_since(self.at) / SHARE)
    }
}

/// Chooses the user whose work is done next, by the time that each user has had.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    /// Only users who have had some time: fewer than pieces of work in [`AT_ONCE`].
    had: HashMap<u32, TimeUsed>,
}

impl FairQueue {
    /// A user has used so much more time.
    pub(crate) fn charge(&mut self, user: u32, time: Duration, now: Instant) {
        self.had.retain(|_, had| !had.left(now).is_zero());
        let time = self.had(user, now) + time;
        self.had.insert(user, TimeUsed { time, at: now });
    }

    /// The next of these users, and how long to wait for the turn: zero, unless all have had too
    /// much.
    pub(crate) fn next(
        &self,
        users: impl Iterator<Item = u32>,
        now: Instant,
    ) -> Option<(u32, Duration)> {
        let least = users.map(|user| (self.had(user, now), user)).min()?;
        let too_much = least.0.saturating_sub(AT_ONCE);
        Some((least.1, too_much * SHARE))
    }

    /// Number of users in the table.
    pub(crate) fn len(&self) -> usize {
        self.had.len()
    }

    fn had(&self, user: u32, now: Instant) -> Duration {
        self.had.get(&user).map_or(Duration::ZERO, |had| had.left(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_user_who_had_the_least_time_is_next() {
        let (mut fair_queue, now) = (FairQueue::default(), Instant::now());
        assert_eq!(fair_queue.next([].into_iter(), now), None);
        fair_queue.charge(1, SECOND, now);
        fair_queue.charge(2, SECOND / 2, now);
        assert_eq!(fair_queue.next([1, 2].into_iter(), now), Some((2, Duration::ZERO)));
        assert_eq!(fair_queue.next([1, 2, 3].into_iter(), now), Some((3, Duration::ZERO)));
        assert_eq!(fair_queue.next([1].into_iter(), now), Some((1, Duration::ZERO)), "alone");
    }

    /// One has a hundred requests, each of a second, the other one of a millisecond now and then.
    #[test]
    fn a_user_with_much_to_do_delays_others_by_one_piece_of_work() {
        let (mut fair_queue, mut now) = (FairQueue::default(), Instant::now());
        for _ in 0..100 {
            let (next, _) = fair_queue.next([1].into_iter(), now).unwrap();
            assert_eq!(next, 1);
            fair_queue.charge(1, SECOND, now);
            // The other came in the meantime.
            assert_eq!(fair_queue.next([1, 2].into_iter(), now).unwrap(), (2, Duration::ZERO));
            now += SECOND;
            fair_queue.charge(2, SECOND / 1000, now);
        }
    }

    #[test]
    fn in_the_long_run_a_user_has_a_quarter_of_the_time() {
        let (mut fair_queue, start) = (FairQueue::default(), Instant::now());
        let (mut now, mut worked) = (start, Duration::ZERO);
        while now < start + 1000 * SECOND {
            let (_, wait) = fair_queue.next([1].into_iter(), now).unwrap();
            now += wait;
            if wait.is_zero() {
                now += SECOND;
                worked += SECOND;
                fair_queue.charge(1, SECOND, now);
            }
        }
        assert!(worked <= AT_ONCE + 252 * SECOND, "{worked:?}");
        assert!(worked >= 240 * SECOND, "{worked:?}");
    }

    #[test]
    fn a_user_without_recent_use_is_forgotten() {
        let (mut fair_queue, now) = (FairQueue::default(), Instant::now());
        (0..1000).for_each(|user| fair_queue.charge(user, SECOND, now));
        assert_eq!(fair_queue.len(), 1000);
        fair_queue.charge(7, SECOND, now + 5 * SECOND);
        assert_eq!(fair_queue.len(), 1);
    }
}
