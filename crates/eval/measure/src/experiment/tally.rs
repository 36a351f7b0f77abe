//! Bytes that arrive, by time: what the receiver's goodput is made of.

use crate::probe::Answered;
use std::time::{Duration, Instant};

/// Length of the pieces for which a stream's rate is recorded. Longer than a scheduling hiccup,
/// short enough that a repetition has several.
const SLICE: Duration = Duration::from_millis(10);

/// Most slices that are kept: more than the longest repetition has, and few enough that both lists
/// fit well into a message of the control connection, with eleven bytes for each.
const MOST_SLICES: usize = 1 << 14;

/// Counts arriving bytes by time.
pub(super) struct Tally {
    warmup: Duration,
    pub(super) bytes: u64,
    messages: u64,
    first: Option<Instant>,
    /// End of the warm-up and the bytes that had arrived by then.
    mark: Option<(Instant, u64)>,
    /// The last arrival and all bytes by then.
    last: Option<(Instant, u64)>,
    slice: Option<(Instant, u64)>,
    slices: Vec<u32>,
    warm_slices: Vec<u32>,
}

impl Tally {
    pub(super) fn new(warmup: Duration) -> Self {
        Self {
            warmup,
            bytes: 0,
            messages: 0,
            first: None,
            mark: None,
            last: None,
            slice: None,
            slices: Vec::new(),
            warm_slices: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.messages += 1;
    }

    /// What was added since the last call had arrived by `now`.
    pub(super) fn tick(&mut self, now: Instant) {
        let first = *self.first.get_or_insert(now);
        let before = self.last.replace((now, self.bytes)).unwrap_or((now, self.bytes));
        if self.mark.is_none() && now >= first + self.warmup {
            // An end that was kept off its processor takes in at once what waited. That counts, and
            // so does the time in which it came.
            self.mark = Some(before);
            self.slice = Some(before);
        }
        let (begin, bytes) = *self.slice.get_or_insert((now, self.bytes));
        let elapsed = now - begin;
        if elapsed >= SLICE {
            let rate = (self.bytes - bytes) as f64 / (elapsed.as_secs_f64() * 1e3);
            let slices = if self.mark.is_some() { &mut self.slices } else { &mut self.warm_slices };
            // By its time: a pause is one look, and as long as many slices.
            let times = (elapsed.as_secs_f64() / SLICE.as_secs_f64()).round() as usize;
            let room = MOST_SLICES.saturating_sub(slices.len());
            slices.extend(std::iter::repeat_n(rate as u32, times.min(room)));
            self.slice = Some((now, self.bytes));
        }
    }

    /// When the last message came.
    pub(super) fn last(&self) -> Option<Instant> {
        self.last.map(|(at, _)| at)
    }

    pub(super) fn answer(&self) -> Answered {
        let (measured_bytes, measured_seconds) = match (self.mark, self.last) {
            (Some((begin, before)), Some((end, bytes))) => {
                (bytes - before, (end - begin).as_secs_f64())
            }
            _ => (0, 0.0),
        };
        Answered {
            messages: self.messages,
            bytes: self.bytes,
            measured_bytes,
            measured_seconds,
            measured_from: self.mark.map_or(0.0, |(begin, _)| by_the_clock(begin)),
            slices: self.slices.clone(),
            warmup: self.warm_slices.clone(),
            ..Answered::default()
        }
    }
}

/// A moment of the past as the clock says it, in seconds.
fn by_the_clock(moment: Instant) -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = now.tv_sec as f64 + now.tv_nsec as f64 / 1e9;
    now - moment.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_the_warm_up_do_not_count_and_the_time_runs_to_the_last_arrival() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let mut tally = Tally::new(Duration::from_millis(10));
        for ms in 0..=30 {
            tally.add(1000);
            tally.tick(at(ms));
        }
        // Marked with the 10 messages that came before 10 ms; 21 more arrive until 30 ms.
        let answer = tally.answer();
        assert_eq!((answer.measured_bytes, answer.messages), (21_000, 31));
        assert!((answer.measured_seconds - 0.021).abs() < 1e-9);
        assert_eq!(answer.slices, [1000, 1000]);
    }

    /// It does not look for 60 ms, in which the warm-up ends. Everything that the link brought in
    /// that time is there then.
    #[test]
    fn an_end_that_was_kept_off_its_processor_is_not_faster_than_the_link() {
        let zero = Instant::now();
        let mut tally = Tally::new(Duration::from_millis(20));
        for ms in (0..=10).chain(70..=80) {
            tally.add(1000 * if ms == 70 { 60 } else { 1 });
            tally.tick(zero + Duration::from_millis(ms));
        }
        let answer = tally.answer();
        assert_eq!((answer.measured_bytes, answer.measured_from > 0.0), (70_000, true));
        assert!((answer.measured_seconds - 0.070).abs() < 1e-9);
        assert_eq!(answer.slices, [1000; 7]);
    }

    #[test]
    fn two_looks_at_a_stream_are_enough_for_its_rate() {
        let zero = Instant::now();
        let mut tally = Tally::new(Duration::from_millis(20));
        for ms in [0, 36] {
            tally.add(36_000);
            tally.tick(zero + Duration::from_millis(ms));
        }
        assert_eq!(tally.answer().slices, [1000; 4]);
    }

    #[test]
    fn a_pause_counts_by_its_time_among_the_slices() {
        let zero = Instant::now();
        let mut tally = Tally::new(Duration::ZERO);
        for ms in (0..=90).chain([490]) {
            tally.add(if ms == 490 { 4000 } else { 1000 });
            tally.tick(zero + Duration::from_millis(ms));
        }
        let mut slices = tally.answer().slices;
        assert_eq!(slices.len(), 49);
        slices.sort_unstable();
        assert_eq!(slices[slices.len() / 2], 10);
        // However long it takes.
        tally.tick(zero + Duration::from_secs(100_000));
        assert_eq!(tally.answer().slices.len(), MOST_SLICES);
    }

    #[test]
    fn a_stream_that_never_came_has_no_rate() {
        let answer = Tally::new(Duration::ZERO).answer();
        assert_eq!((answer.measured_bytes, answer.measured_seconds), (0, 0.0));
    }
}
