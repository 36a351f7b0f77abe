//! A replay window: a ring of bits over the newest counters of one path (as RFC 6479 does it).

const WORDS: usize = 33;

/// Counters behind the newest one that are still taken: 2,048. One more word is always being
/// cleared.
pub const WINDOW: u64 = (WORDS as u64 - 1) * 64;

/// Which counters of one path have come, over all phases. 272 bytes; a check takes constant time.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// One more than the newest counter.
    next: u64,
    bits: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { next: 0, bits: [0; WORDS] }
    }
}

impl ReplayWindow {
    /// Whether a frame with this counter could be new. Changes nothing: the tag is not known yet.
    pub fn admits(&self, counter: u64) -> bool {
        if counter >= self.next {
            return true;
        }
        self.next - counter <= WINDOW && self.bits[word(counter)] & bit(counter) == 0
    }

    /// Notes a counter whose frame had a good tag. The caller has asked [`admits`](Self::admits).
    pub fn note(&mut self, counter: u64) {
        if counter >= self.next {
            let newest = self.next.saturating_sub(1) / 64;
            let steps = (counter / 64 - newest).min(WORDS as u64);
            for step in 0..steps {
                self.bits[((counter / 64 - step) % WORDS as u64) as usize] = 0;
            }
            self.next = counter + 1;
        }
        self.bits[word(counter)] |= bit(counter);
    }
}

fn word(counter: u64) -> usize {
    (counter / 64 % WORDS as u64) as usize
}

fn bit(counter: u64) -> u64 {
    1 << (counter % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_counter_is_taken_once_and_old_ones_never() {
        let (mut window, mut seen, mut newest) = (ReplayWindow::default(), HashSet::new(), 0u64);
        let mut random = oorandom::Rand64::new(7);
        for _ in 0..200_000 {
            let jump = random.rand_range(0..40) == 0;
            let reach = if jump { 5_000 } else { 30 };
            let counter =
                (newest + random.rand_range(0..reach)).saturating_sub(random.rand_range(0..3_000));
            let is_recent = counter + WINDOW > newest;
            assert_eq!(window.admits(counter), is_recent && !seen.contains(&counter), "{counter}");
            if window.admits(counter) {
                window.note(counter);
                seen.insert(counter);
                newest = newest.max(counter);
            }
        }
    }
}
