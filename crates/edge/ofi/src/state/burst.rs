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
//! the next doorbell, to whomever it sends, and to the next call that asks for progress. A receive
//! that is posted late acknowledges, too: such calls keep the progress thread away. After a call
//! that came late, here too, the following messages are acknowledged at once.

use std::time::{Duration, Instant};

/// So soon after the call before, a call belongs to the same burst.
const GAP: Duration = Duration::from_micros(2);

/// Bytes and calls after which a doorbell rings all the same.
const MOST_BYTES: usize = 60_000;
const MOST_CALLS: u32 = 256;

/// A doorbell that rings so long after the last call came late: the program does something else. So
/// did an acknowledgement that is sent so long after its message came.
const LATE: Duration = Duration::from_micros(20);

/// Calls without a burst after a late doorbell, and long messages that are acknowledged at once
/// after a late acknowledgement. Each further one doubles them.
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
    /// Calls that ring at once because a doorbell came late.
    doorbells: Penalty,
    /// When the first long message came that was not acknowledged.
    owed_since: Option<Instant>,
    /// Long messages that are acknowledged at once because an acknowledgement came late.
    acknowledgements: Penalty,
}

/// How many times nothing is left to a later call, since that came late.
struct Penalty {
    left: u32,
    next: u32,
}

impl Penalty {
    const NONE: Self = Self { left: 0, next: LEAST_PENALTY };

    /// Something was left to a later call since then, which comes now.
    fn judge(&mut self, since: Instant, now: Instant) {
        if now.duration_since(since) > LATE {
            self.left = self.next;
            self.next = (2 * self.next).min(MOST_PENALTY);
        } else {
            self.next = LEAST_PENALTY;
        }
    }

    /// Whether it applies, once.
    fn applies(&mut self) -> bool {
        let applies = self.left > 0;
        self.left = self.left.saturating_sub(1);
        applies
    }
}

impl Default for Burst {
    fn default() -> Self {
        Self {
            last: None,
            calls: 0,
            bytes: 0,
            doorbells: Penalty::NONE,
            owed_since: None,
            acknowledgements: Penalty::NONE,
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
        self.last.is_none() && self.owed_since.is_none()
    }

    /// A long message came. Whether its acknowledgement can wait for the program's next call.
    pub(crate) fn may_owe(&mut self, now: impl FnOnce() -> Instant) -> bool {
        let may_owe = !self.acknowledgements.applies();
        if may_owe {
            self.owed_since.get_or_insert_with(now);
        }
        may_owe
    }

    /// The program asks for progress. Whether to acknowledge long messages now.
    pub(crate) fn owed(&mut self, now: impl FnOnce() -> Instant) -> bool {
        let Some(since) = self.owed_since.take() else { return false };
        self.acknowledgements.judge(since, now());
        true
    }

    /// The program posts a receive. Whether long messages have waited too long for their
    /// acknowledgement.
    #[inline]
    pub(crate) fn overdue(&mut self, now: impl FnOnce() -> Instant) -> bool {
        let Some(since) = self.owed_since else { return false };
        let now = now();
        now.duration_since(since) > LATE && self.owed(|| now)
    }

    /// A call that sends something is done but for its doorbell. Whether that can wait. Reads the
    /// clock only if no read of a queue came between it and the call before.
    pub(crate) fn may_wait(&mut self, now: impl FnOnce() -> Instant) -> bool {
        let Some(last) = self.last else { return false };
        let now = now();
        let follows = now.duration_since(last) < GAP;
        if self.waits() && !follows {
            self.doorbells.judge(last, now);
        }
        let waits = !self.doorbells.applies()
            && follows
            && self.owed_since.is_none()
            && self.bytes < MOST_BYTES
            && self.calls < MOST_CALLS;
        if waits {
            self.calls += 1;
            self.last = Some(now);
        }
        waits
    }

    /// The doorbell has rung after a call. Whether to acknowledge long messages now, unless what
    /// was sent has done so.
    pub(crate) fn rung(&mut self, now: Instant) -> bool {
        (self.calls, self.bytes) = (0, 0);
        self.last = Some(now);
        self.owed(|| now)
    }

    /// The program asks for progress. Whether the doorbell is to ring for calls that waited.
    pub(crate) fn polled(&mut self, now: impl FnOnce() -> Instant) -> bool {
        let waits = self.waits();
        if let Some(last) = self.last.take()
            && waits
        {
            self.doorbells.judge(last, now());
        }
        (self.calls, self.bytes) = (0, 0);
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of a program; says of each whether its doorbell rang at once.
    struct Program {
        burst: Burst,
        now: Instant,
        /// Doorbells that acknowledged long messages.
        acknowledged: u32,
    }

    impl Program {
        fn new() -> Self {
            Self { burst: Burst::default(), now: Instant::now(), acknowledged: 0 }
        }

        fn after(&mut self, time: Duration) {
            self.now += time;
        }

        fn send(&mut self, bytes: usize) -> bool {
            self.after(Duration::from_nanos(300));
            self.burst.add(bytes);
            let rings = !self.burst.may_wait(|| self.now);
            if rings {
                self.acknowledged += u32::from(self.burst.rung(self.now));
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

        /// Posts a receive; says whether that acknowledges.
        fn post(&mut self) -> bool {
            self.burst.overdue(|| self.now)
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
    fn a_long_message_is_acknowledged_by_the_next_doorbell_or_read() {
        let mut program = Program::new();
        for n in 1..100 {
            assert!(!program.receive());
            assert!(!program.burst.is_over());
            assert!(!program.post(), "an answer may follow");
            assert!(program.send(8), "the answer is not delayed");
            assert_eq!(program.acknowledged, n);
            // Whatever the program does afterwards.
            program.after(Duration::from_millis(1));
            assert!(!program.read());
            assert!(!program.acknowledges());
            assert!(program.burst.is_over());

            assert!(!program.receive());
            assert!(program.acknowledges());
            assert!(program.burst.is_over());
        }
    }

    #[test]
    fn no_send_waits_while_a_long_message_is_not_acknowledged() {
        let mut program = Program::new();
        assert!(program.send(8));
        assert!(!program.receive());
        assert!(program.send(8));
        assert_eq!(program.acknowledged, 1);
        assert!(!program.send(8));
    }

    #[test]
    fn a_program_that_computes_after_a_long_message_and_then_sends_is_found_out() {
        let mut program = Program::new();
        let late = (0..10_000).filter(|_| {
            let late = !program.receive();
            program.after(Duration::from_millis(1));
            program.send(8);
            program.read();
            late
        });
        let late = late.count();
        assert!((1..=10).contains(&late), "{late} late acknowledgements");
    }

    #[test]
    fn a_receive_that_is_posted_late_acknowledges() {
        let mut program = Program::new();
        assert!(!program.post());
        assert!(!program.receive());
        program.after(2 * LATE);
        assert!(program.post());
        assert!(!program.post());
        assert!(program.receive(), "the following ones are acknowledged at once");
    }

    #[test]
    fn late_doorbells_delay_no_acknowledgement_and_the_other_way_round() {
        let mut program = Program::new();
        program.receive();
        program.after(Duration::from_millis(1));
        assert!(program.acknowledges());
        assert_eq!((0..64).filter(|_| program.send(8)).count(), 1);
        assert!(program.receive(), "no send has used that up");

        let mut program = Program::new();
        assert!(program.send(8) && !program.send(8));
        program.after(Duration::from_millis(1));
        assert!(program.read());
        assert!(!program.receive());
        assert!(program.acknowledges());
        assert!(program.send(8) && program.send(8));
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
