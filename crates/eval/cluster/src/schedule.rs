//! What is measured in which order, and how long that takes.

use crate::results::Sizes;
use crate::rounds;
use gigae_eval_measure::transport::Task;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::plan::{Condition, Setting, TcpOptions, Wait};

/// How often each host is the receiver of many.
pub(crate) const INCAST_TIMES: usize = 2;

/// A measurement's opening and closing, as a rule, in seconds.
const BESIDE: f64 = 0.15;

/// The same for each host: commands and answers of rank 0.
const BESIDE_EACH: f64 = 0.000_3;

/// Share of a measurement that comes before it and is discarded.
const WARMUP: f64 = 0.25;

/// What all measurements have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timing {
    /// Measured seconds.
    pub(crate) seconds: f64,
    /// How the ends wait.
    pub(crate) wait: Wait,
    /// Payloads.
    pub(crate) sizes: Sizes,
}

impl Timing {
    /// Seconds before that.
    pub(crate) fn warmup(&self) -> f64 {
        self.seconds * WARMUP
    }

    /// What both ends of a measurement do.
    pub(crate) fn task(&self, experiment: Experiment, transport: &str) -> Task {
        let size = match experiment {
            Experiment::Rtt => self.sizes.trip,
            Experiment::Incast => self.sizes.incast,
            _ => self.sizes.stream,
        };
        let tcp = TcpOptions { nodelay: true, ..TcpOptions::default() };
        Task {
            experiment,
            transport: transport.to_owned(),
            setting: if transport == "tcp" { Setting::Tcp(tcp) } else { Setting::Default },
            condition: Condition::default(),
            wait: self.wait,
            size,
            warmup: self.warmup(),
            measure: self.seconds,
            rate: None,
        }
    }
}

/// How many measurements a run has, each of many hosts at once.
pub(crate) fn steps(hosts: usize, transports: usize) -> usize {
    let pairs = rounds::pairs(hosts).len() * 3;
    transports * (pairs + rounds::shifts(hosts) * 2 + hosts * INCAST_TIMES)
}

/// How long they take, in seconds.
pub(crate) fn estimate(hosts: usize, transports: usize, timing: &Timing) -> f64 {
    let each = timing.seconds + timing.warmup() + BESIDE + BESIDE_EACH * hosts as f64;
    steps(hosts, transports) as f64 * each
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_grows_with_hosts_and_seconds() {
        let timing = |seconds| Timing {
            seconds,
            wait: Wait::Sleep,
            sizes: Sizes { trip: 8, stream: 65_536, incast: 1400 },
        };
        assert_eq!(steps(2, 1), 3 + 2 + 4);
        assert_eq!(steps(4, 2), 2 * (9 + 4 + 8));
        // As docs/how-to/measure-a-cluster.md says.
        assert_eq!([4, 16, 128, 1000].map(|hosts| steps(hosts, 2)), [42, 170, 1290, 10_010]);
        assert!(estimate(4, 2, &timing(0.2)) < estimate(8, 2, &timing(0.2)));
        assert!(estimate(4, 2, &timing(0.2)) < estimate(4, 2, &timing(0.4)));
        let task = timing(0.2).task(Experiment::Rtt, "tcp");
        assert!(task.setting.tcp().nodelay && task.size == 8 && task.warmup > 0.0);
    }
}
