//! When the doorbell rings for what a program sends: at once, or once for several calls. And when
//! long messages that it received are acknowledged.
//!
//! A doorbell is a system call, and costs more than all else that a short message does. What one
//! doorbell sends shares frames. So a call that follows another at once leaves its doorbell to the
//! next one, to a read of a queue or counter, or to the next call after enough was started. A lone
//! message is never delayed.
//!
//! A program that starts several sends and then computes would wait for the library's progress
//! thread, up to a millisecond. That is found out: after a doorbell that came late, the following
//! sends ring at once.
//!
//! The sender of a long message waits for its acknowledgement. A program that has received such a
//! message often answers at once, and the answer carries the acknowledgement. So that is left to
//! the next call that sends or asks for progress. After a call that came late, here too, the
//! following messages are acknowledged at once.

use std::time::{Duration, Instant};

/// So soon after the call before, a call belongs to the same burst.
const GAP: Duration = Duration::from_micros(2);

/// Bytes and calls after which a doorbell rings all the same.
const MOST_BYTES: usize = 60_000;
const MOST_CALLS: u32 = 256;

/// A doorbell that rings so long after the last call came late: the program does something else.
const LATE: Duration = Duration::from_micros(20);

/// Calls without a burst after a late doorbell. Each further one doubles them.
const LEAST_PENALTY: u32 = 64;
const MOST_PENALTY: u32 = 1 << 16;

/// See the module's description.
pub(crate) struct Burst {
    /// When the last call that sends something was over. None if the program has asked for progress
    /// since.
    last: Option<Instant>,
    /// Calls and bytes that wait for a doorbell.
    calls: u32,
    bytes: usize,
    /// Calls that still ring at once because a doorbell came late.
    penalty: u32,
    /// The next penalty.
    next_penalty: u32,
    /// A long message was not acknowledged, unless an answer did it.
    owes: bool,
    /// When it came. None if the program has made a call since.
    owes_since: Option<Instant>,
}

impl Default for Burst {
    fn default() -> Self {
        Self {
            last: None,
            calls: 0,
            bytes: 0,
            penalty: 0,
            next_penalty: LEAST_PENALTY,
            owes: false,
            owes_since: None,
        }
    }
}

impl Burst {
    /// `bytes` more bytes were started.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Whether something waits for a doorbell.
    pub(crate) fn waits(&self) -> bool {
        self.calls > 0
    }

    /// Whether the program has asked for progress since its last call that sends something, and
    /// since a long message came.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.last.is_none() && !self.owes
    }

    /// A long message came. Whether its acknowledgement can wait for the program's next call.
    pub(crate) fn may_owe(&mut self, now: impl FnOnce() -> Instant) -> bool {
        if self.penalty > 0 {
            self.penalty -= 1;
            return false;
        }
        self.owes = true;
        self.owes_since.get_or_insert_with(now);
        true
    }

    /// The program asks for progress. Whether to acknowledge long messages now.
    pub(crate) fn owed(&mut self, now: impl FnOnce() -> Instant) -> bool {
        if let Some(since) = self.owes_since.take() {
            self.judge(since, now());
        }
        std::mem::take(&mut self.owes)
    }

    /// A call that sends something is done but for its doorbell. Whether that can wait. Reads the
    /// clock only if no read of a queue came between it and the call before.
    pub(crate) fn may_wait(&mut self, now: impl FnOnce() -> Instant) -> bool {
        let Some(last) = self.last else { return false };
        let now = now();
        let follows = now.duration_since(last) < GAP;
        if self.waits() && !follows {
            self.judge(last, now);
        }
        let waits =
            follows && self.penalty == 0 && self.bytes < MOST_BYTES && self.calls < MOST_CALLS;
        self.penalty = self.penalty.saturating_sub(1);
        if waits {
            self.calls += 1;
            self.last = Some(now);
        }
        waits
    }

    /// The doorbell has rung after a call.
    pub(crate) fn rung(&mut self, now: Instant) {
        if let Some(since) = self.owes_since.take() {
            self.judge(since, now);
        }
        (self.calls, self.bytes) = (0, 0);
        self.last = Some(now);
    }

    /// The program asks for progress. Whether the doorbell is to ring for calls that waited.
    pub(crate) fn polled(&mut self, now: impl FnOnce() -> Instant) -> bool {
        let waits = self.waits();
        if let Some(last) = self.last.take()
            && waits
        {
            self.judge(last, now());
        }
        (self.calls, self.bytes) = (0, 0);
        waits
    }

    /// Whether waiting since then was right.
    fn judge(&mut self, since: Instant, now: Instant) {
        if now.duration_since(since) > LATE {
            self.penalty = self.next_penalty;
            self.next_penalty = (2 * self.next_penalty).min(MOST_PENALTY);
        } else {
            self.next_penalty = LEAST_PENALTY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of a program; says of each whether its doorbell rang at once.
    struct Program {
        burst: Burst,
        now: Instant,
    }

    impl Program {
        fn new() -> Self {
            Self { burst: Burst::default(), now: Instant::now() }
        }

        fn after(&mut self, time: Duration) {
            self.now += time;
        }

        fn send(&mut self, bytes: usize) -> bool {
            self.after(Duration::from_nanos(300));
            self.burst.add(bytes);
            let rings = !self.burst.may_wait(|| self.now);
            if rings {
                self.burst.rung(self.now);
            }
            rings
        }

        fn read(&mut self) -> bool {
            self.burst.polled(|| self.now)
        }

        /// Receives a long message; says whether it is acknowledged at once.
        fn receive(&mut self) -> bool {
            self.after(Duration::from_nanos(300));
            !self.burst.may_owe(|| self.now)
        }

        fn acknowledges(&mut self) -> bool {
            self.burst.owed(|| self.now)
        }
    }

    #[test]
    fn a_burst_rings_for_its_first_message_and_when_the_program_asks_for_progress() {
        let mut program = Program::new();
        for _ in 0..100 {
            let rung = (0..64).filter(|_| program.send(8)).count();
            assert_eq!(rung, 1);
            assert!(program.read());
            assert!(!program.read());
            program.after(Duration::from_micros(10));
        }
    }

    #[test]
    fn a_lone_message_rings_at_once() {
        let mut program = Program::new();
        for _ in 0..100 {
            assert!(program.send(8));
            assert!(!program.read());
        }
        for _ in 0..100 {
            assert!(program.send(8));
            program.after(GAP);
        }
    }

    #[test]
    fn enough_bytes_or_calls_ring_without_a_read() {
        let mut program = Program::new();
        let rung = (0..32).filter(|_| program.send(16 << 10)).count();
        assert_eq!(rung, 1 + 31 / 4);
        let mut program = Program::new();
        assert_eq!((0..1000).filter(|_| program.send(8)).count(), 1 + 999 / 257);
    }

    #[test]
    fn a_program_that_computes_after_two_sends_soon_has_no_late_doorbells() {
        let mut program = Program::new();
        let mut late = 0;
        for _ in 0..10_000 {
            let rung = [program.send(4096), program.send(4096)];
            program.after(Duration::from_millis(1));
            late += u32::from(!rung[1]);
            program.read();
            program.after(Duration::from_micros(10));
        }
        assert!((1..=10).contains(&late), "{late} late doorbells");
    }

    #[test]
    fn a_long_message_is_acknowledged_by_the_answer_or_the_next_read() {
        let mut program = Program::new();
        for _ in 0..100 {
            assert!(!program.receive());
            assert!(!program.burst.is_over());
            assert!(program.send(8), "the answer is not delayed");
            // The answer may have gone to another peer.
            program.after(Duration::from_millis(1));
            assert!(program.acknowledges());
            assert!(!program.read());
            assert!(!program.acknowledges());
            assert!(program.burst.is_over());
        }
    }

    #[test]
    fn a_program_that_computes_after_a_long_message_soon_acknowledges_at_once() {
        let mut program = Program::new();
        let mut late = 0;
        for _ in 0..10_000 {
            late += u32::from(!program.receive());
            program.after(Duration::from_millis(1));
            program.acknowledges();
            program.read();
        }
        assert!((1..=10).contains(&late), "{late} late acknowledgements");
    }

    #[test]
    fn a_program_that_never_reads_is_found_out_too() {
        let mut program = Program::new();
        let mut late = 0;
        for _ in 0..10_000 {
            program.send(8);
            late += u32::from(!program.send(8));
            program.after(Duration::from_millis(1));
        }
        assert!((1..=10).contains(&late), "{late} late doorbells");
    }
}
