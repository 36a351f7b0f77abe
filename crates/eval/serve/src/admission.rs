//! Strangers at the entrance: how many connections are taken in a time, and what is said of those
//! that are refused. Both are bounded, so that a flood costs little processor time and little room
//! in the log.

use std::time::{Duration, Instant};

/// Connections that are taken per second, and at once. A refused one costs some 20 us, so that a
/// flood takes 2 % of a processor; the others wait in the kernel's queue. Clients and measured
/// connections are few.
const PER_SECOND: f64 = 1000.0;
const AT_ONCE: f64 = 64.0;

/// How often refused connections are summed up.
const SUM_EVERY: Duration = Duration::from_secs(60);

/// A token bucket of connections.
#[derive(Debug)]
pub(super) struct Admission {
    credit: f64,
    last: Instant,
}

impl Admission {
    pub(super) fn new(now: Instant) -> Self {
        Self { credit: AT_ONCE, last: now }
    }

    /// Whether a connection may be taken now.
    pub(super) fn is_open(&mut self, now: Instant) -> bool {
        let earned = PER_SECOND * now.saturating_duration_since(self.last).as_secs_f64();
        (self.credit, self.last) = ((self.credit + earned).min(AT_ONCE), now.max(self.last));
        self.credit >= 1.0
    }

    /// One was taken.
    pub(super) fn pass(&mut self) {
        self.credit -= 1.0;
    }

    /// Time until one may be taken.
    pub(super) fn wait(&self) -> Duration {
        Duration::from_secs_f64(((1.0 - self.credit) / PER_SECOND).max(0.0))
    }
}

/// What is said of refused connections: the first at once, and then the sum of each minute.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    said: Option<Instant>,
    count: u64,
    last: String,
}

impl Refusals {
    /// One was refused for this reason. Gives a line that is to be said.
    pub(super) fn add(&mut self, now: Instant, reason: String) -> Option<String> {
        if self.said.is_none() {
            self.said = Some(now);
            return Some(reason);
        }
        self.count += 1;
        self.last = reason;
        self.due(now)
    }

    /// The line that is due at this time. After a minute without any, the next is said at once
    /// again.
    pub(super) fn due(&mut self, now: Instant) -> Option<String> {
        let said = self.said?;
        if now.saturating_duration_since(said) < SUM_EVERY {
            return None;
        }
        let (count, last) = (std::mem::take(&mut self.count), std::mem::take(&mut self.last));
        self.said = (count > 0).then_some(now);
        let seconds = now.saturating_duration_since(said).as_secs();
        (count > 0).then(|| format!("{count} more refused in {seconds} s; the last: {last}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_connections_are_taken_at_once_and_per_second() {
        let begin = Instant::now();
        let mut admission = Admission::new(begin);
        let mut flood = |at: Duration| {
            let mut taken = 0;
            while admission.is_open(begin + at) {
                admission.pass();
                taken += 1;
            }
            assert!(
                admission.wait() > Duration::ZERO && admission.wait() <= Duration::from_millis(1)
            );
            taken
        };
        assert_eq!(flood(Duration::ZERO), 64);
        let taken: u32 = (1..=1000).map(|ms| flood(Duration::from_millis(ms))).sum();
        assert!((990..=1001).contains(&taken), "{taken}");
        assert_eq!(flood(Duration::from_secs(3600)), 64);
        // A clock that does not advance gives nothing.
        assert_eq!(flood(Duration::from_secs(3600)), 0);
    }

    #[test]
    fn refusals_are_said_once_and_summed_up_by_the_minute() {
        let (begin, mut refusals) = (Instant::now(), Refusals::default());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(refusals.due(at(0)), None);
        let said: Vec<_> =
            (0..180_000).filter_map(|n| refusals.add(at(n / 1000), format!("no {n}"))).collect();
        assert_eq!(said[0], "no 0");
        assert_eq!(said[1], "60000 more refused in 60 s; the last: no 60000");
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(refusals.due(at(181)).unwrap().starts_with("59999 more refused in 61 s"));
        assert_eq!(refusals.due(at(300)), None);
        assert_eq!(refusals.add(at(301), "again".into()).as_deref(), Some("again"));
    }
}
