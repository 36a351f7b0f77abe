//! The CPU that a stream costs, by the bytes that arrived.

use crate::cost::Cost;
use crate::plan::Cpus;

/// What a stream costs its ends, in microseconds of CPU per KB (1,024 bytes), as netperf says it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// The sending thread.
    pub sender: f64,
    /// The receiving thread.
    pub receiver: f64,
    /// Interrupts on their CPUs, hard and soft.
    pub interrupts: f64,
}

impl Demand {
    /// Of the costs of both ends, sender first, and the bytes that arrived; `None` if none did.
    pub fn of(cpus: Cpus, [local, remote]: [&Cost; 2], bytes: f64) -> Option<Self> {
        let [sender, receiver, interrupts] = match cpus {
            Cpus::Two => [local.own(), remote.own(), local.cpu_interrupts + remote.cpu_interrupts],
            Cpus::One => on_one(local, remote),
        };
        let per = |seconds: f64| seconds * 1e6 / (bytes / 1024.0);
        (bytes > 0.0).then(|| Self {
            sender: per(sender),
            receiver: per(receiver),
            interrupts: per(interrupts),
        })
    }

    /// All of it.
    pub fn sum(&self) -> f64 {
        self.sender + self.receiver + self.interrupts
    }

    /// All of it in seconds per GB (10^9 bytes).
    pub fn seconds_per_gigabyte(&self) -> f64 {
        self.sum() / 1e6 * (1e9 / 1024.0)
    }
}

/// Seconds of two threads and of the interrupts on the one CPU that both have. Both ends have read
/// its times.
fn on_one(local: &Cost, remote: &Cost) -> [f64; 3] {
    let threads = local.cpu_thread + remote.cpu_thread;
    let work = |end: &Cost| end.cpu_thread + end.cpu_others;
    let cpu = Cost {
        cpu_thread: threads,
        cpu_interrupts: local.cpu_interrupts.max(remote.cpu_interrupts),
        cpu_others: work(local).max(work(remote)) - threads,
        steal: local.steal.max(remote.steal),
        ..Cost::default()
    };
    let share = if threads > 0.0 { cpu.own() / threads } else { 0.0 };
    [local.cpu_thread * share, remote.cpu_thread * share, cpu.cpu_interrupts]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_on_one_cpu_cost_what_that_cpu_worked() {
        // Of the 0.9 s of both threads, 0.3 s were interrupts; each end takes the other for another
        // thread.
        let end = |thread, others| Cost {
            cpu_thread: thread,
            cpu_interrupts: 0.4,
            cpu_others: others,
            ..Cost::default()
        };
        let (local, remote) = (end(0.6, 0.0), end(0.3, 0.3));
        let found = Demand::of(Cpus::One, [&local, &remote], 1024e6).unwrap();
        for (found, expected) in [
            (found.sender, 0.4),
            (found.receiver, 0.2),
            (found.interrupts, 0.4),
            (found.sum(), 1.0),
        ] {
            assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
        }
        assert_eq!(Demand::of(Cpus::One, [&local, &remote], 0.0), None);
    }
}
