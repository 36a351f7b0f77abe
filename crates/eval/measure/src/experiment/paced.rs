//! Round trips under load: messages go out by a fixed schedule, whether earlier ones have been
//! answered or not, and each is timed from the moment at which it should have gone.
//!
//! A ping-pong waits for its answers, and so never sees the queue that a busy program waits in; and
//! a time from the real sending leaves out how late it was ("coordinated omission"). The measuring
//! end spins, so that it keeps to its schedule; the answering end waits as the plan says and is
//! that of [`rtt`](super::rtt).

pub use super::rtt::answer;

use super::Method;
use super::pace::Pace;
use crate::channel::Channel;
use crate::probe::{Asked, BATCH, LOOKS, LOST_AFTER, Loop, MOST_SAMPLES, ProbeError, charge, keep};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) const METHOD: Method =
    Method { figure: super::median, samples: super::asked, lost: super::missed };

/// A sender that is behind its schedule stops so long after the schedule's end; what it has not
/// sent by then counts as lost.
const OVERTIME: Duration = Duration::from_secs(1);

/// The messages of a repetition and when each should go.
struct Schedule {
    begin: Instant,
    interval: f64,
    /// Messages of the warm-up.
    warm: u64,
    /// All messages.
    all: u64,
    /// How long the reading of the counters between the two parts took: so much later is the
    /// measured one, or its first messages would be late by that.
    pause: Duration,
}

impl Schedule {
    fn new(begin: Instant, rate: f64, warmup: f64, measure: f64) -> Self {
        let warm = (warmup * rate) as u64;
        let all = warm + ((measure * rate) as u64).clamp(1, MOST_SAMPLES as u64);
        Self { begin, interval: 1.0 / rate, warm, all, pause: Duration::ZERO }
    }

    fn time(&self, number: u64) -> Instant {
        let pause = if number < self.warm { Duration::ZERO } else { self.pause };
        self.begin + Duration::from_secs_f64(number as f64 * self.interval) + pause
    }

    fn end(&self) -> Instant {
        self.time(self.all) + OVERTIME
    }
}

/// The client's loop.
pub fn ask<C: Channel>(channel: &mut C, run: &Loop<'_>) -> Result<Asked, ProbeError> {
    let task = run.task;
    let rate = task.condition.rate.ok_or(ProbeError::Silent("a paced experiment has a rate"))?;
    let read = || run.meter.read().map_err(ProbeError::Counters);
    let (mut before, mut calls) = (read()?, channel.calls());
    let pace = Pace::new(task);
    let mut schedule = Schedule::new(Instant::now(), rate, task.warmup, task.measure);
    let mut asked = Asked::default();
    let mut waiting = vec![true; schedule.all as usize];
    let (mut answered, mut looks) = (0, 0u32);
    let mut is_warm = schedule.warm == 0;
    let mut last = schedule.begin;
    while answered < schedule.all {
        let mut now = Instant::now();
        if !is_warm && asked.sent == schedule.warm && schedule.time(asked.sent) <= now {
            // The costs are those of the messages that count.
            (before, calls, is_warm) = (read()?, channel.calls(), true);
            schedule.pause = now.elapsed();
            now += schedule.pause;
        }
        let mut due = 0;
        // All of the warm-up goes before the counters are read.
        let most = if is_warm { schedule.all } else { schedule.warm };
        while asked.sent < most && due < BATCH && schedule.time(asked.sent) <= now {
            let late = now > schedule.end();
            if late || pace.early(asked.sent) || !channel.send(asked.sent as u32, task.size)? {
                break;
            }
            asked.sent += 1;
            due += 1;
        }
        if due > 0 {
            channel.flush()?;
        }
        let mut news = false;
        while let Some(arrival) = channel.receive()? {
            let number = arrival.number as usize;
            // An answer that comes twice counts once.
            if !waiting.get(number).is_some_and(|waiting| *waiting) {
                continue;
            }
            waiting[number] = false;
            (last, news) = (Instant::now(), true);
            answered += 1;
            let late = last.saturating_duration_since(schedule.time(number as u64)).as_nanos();
            let late = Some(u32::try_from(late).unwrap_or(u32::MAX));
            let warm = (number as u64) < schedule.warm;
            keep(if warm { &mut asked.warmup } else { &mut asked.samples }, late);
            // What is due goes out, however many answers wait.
            if asked.sent < schedule.all && schedule.time(asked.sent) <= last {
                break;
            }
        }
        looks = looks.wrapping_add(1);
        if news || !looks.is_multiple_of(LOOKS) {
            continue;
        }
        if run.signals.abort.load(Ordering::Relaxed) {
            return Err(ProbeError::Interrupted);
        }
        let quiet = now > schedule.end() || asked.sent == schedule.all;
        if quiet && now > last.max(schedule.time(asked.sent)) + LOST_AFTER {
            break;
        }
    }
    let made = channel.calls();
    asked.lost = schedule.all - answered;
    asked.cost = before.until(&read()?);
    charge(&mut asked.cost, calls, made);
    asked.bytes = asked.sent * task.size as u64;
    asked.sent = schedule.all;
    asked.repeated = channel.repeated();
    asked.note = channel.note();
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Calls, ReceivedMessage, Task, TransportError};
    use crate::cost::Meter;
    use crate::probe::Signals;
    use gigae_eval_model::experiment::Experiment;
    use gigae_eval_model::plan::{Condition, Setting, Wait};
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicBool;

    /// A peer that answers everything at once, but for the first messages, which it holds back
    /// until `hold` of them are there; some it answers twice, some never.
    #[derive(Default)]
    struct Peer {
        held: usize,
        hold: usize,
        never: Option<u32>,
        answers: VecDeque<u32>,
        calls: u64,
    }

    impl Channel for Peer {
        fn send(&mut self, number: u32, _size: usize) -> Result<bool, TransportError> {
            if Some(number) != self.never {
                self.answers.extend([number, number]);
            }
            self.held += 1;
            self.calls += 1;
            Ok(true)
        }
        fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
            let ready = self.held >= self.hold;
            let number = if ready { self.answers.pop_front() } else { None };
            Ok(number.map(|number| ReceivedMessage { number, bytes: 8 }))
        }
        fn calls(&self) -> Calls {
            Calls { all: self.calls, send: self.calls, ..Calls::default() }
        }
    }

    fn asked(peer: Peer, rate: f64, allowed: Option<f64>) -> Asked {
        asked_after(0.01, peer, rate, allowed)
    }

    fn asked_after(warmup: f64, mut peer: Peer, rate: f64, allowed: Option<f64>) -> Asked {
        let task = Task {
            experiment: Experiment::Paced,
            transport: "test".into(),
            setting: Setting::Default,
            condition: Condition { rate: Some(rate), ..Condition::default() },
            wait: Wait::Spin,
            size: 8,
            warmup,
            measure: 0.04,
            rate: allowed,
        };
        let abort = AtomicBool::new(false);
        let meter = Meter::new(&crate::site::Site::find("lo").unwrap());
        let signals = Signals::new(&abort);
        let run = Loop { task: &task, meter: &meter, signals: &signals, reliable: false };
        ask(&mut peer, &run).unwrap()
    }

    #[test]
    fn every_message_of_the_schedule_is_sent_and_counted_once() {
        let asked = asked(Peer::default(), 1000.0, None);
        assert_eq!((asked.warmup.len(), asked.samples.len()), (10, 40));
        assert_eq!((asked.sent, asked.lost), (50, 0));
    }

    #[test]
    fn an_answer_that_waits_is_timed_from_when_its_message_should_have_gone() {
        // The peer holds all answers back until the last message has been sent: the first waits for
        // the whole schedule, each later one a millisecond less.
        let asked = asked(Peer { hold: 50, ..Peer::default() }, 1000.0, None);
        let all = asked.warmup.iter().chain(&asked.samples);
        for (number, time) in all.enumerate() {
            let least = (49 - number as u32) * 1_000_000;
            assert!(*time >= least, "{number}: timed from elsewhere: {time} ns of {least}");
        }
    }

    #[test]
    fn a_schedule_faster_than_what_is_allowed_keeps_to_that() {
        // 8 kB/s are wanted and 4 kB/s allowed: the message of this number has to wait twice as
        // long.
        let asked = asked(Peer::default(), 1000.0, Some(4000.0));
        assert_eq!((asked.warmup.len() + asked.samples.len(), asked.lost), (50, 0));
        // A microsecond for rounding.
        let least = |number: usize| (number as u32 * 1_000_000).saturating_sub(1000);
        for (number, time) in asked.warmup.iter().enumerate() {
            assert!(*time >= least(number), "{number}: too early: {time} ns");
        }
        // The measured part begins later than planned, by the time in which the counters are read.
        // But it waits as much longer from message to message.
        let first = asked.samples[0];
        assert!(first >= 1_000_000, "the backlog is forgotten: {first} ns");
    }

    #[test]
    fn an_answer_that_never_comes_is_lost_and_ends_nothing() {
        let asked = asked(Peer { never: Some(30), ..Peer::default() }, 1000.0, None);
        assert_eq!((asked.samples.len(), asked.sent, asked.lost), (39, 50, 1));
    }

    #[test]
    fn the_costs_are_those_of_the_measured_messages() {
        let asked = asked_after(0.04, Peer::default(), 1000.0, None);
        assert_eq!((asked.warmup.len(), asked.samples.len()), (40, 40));
        assert_eq!(asked.cost.send_calls, 40);
    }
}
