//! NetPIPE over TCP: half round trips of blocks, the least of several trials.

use super::program::{Measure, OwnFigure, Program, ProgramForm, words};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::job::Job;
use gigae_eval_model::plan::TcpOptions;
use std::net::SocketAddr;

pub(super) struct Netpipe;

/// Microseconds of a round trip in half a second of one.
const TRIP: f64 = 2e6;

const MEASURES: [Measure; 1] = [Measure {
    experiment: Experiment::Rtt,
    transport: "tcp",
    sizes: [1, 1 << 20],
    ours: OwnFigure::LeastMean,
    counts: "half the mean round trip, the least of three trials (doubled here), at the sender",
    otherwise: "it reads the clock once per trial, and takes the best of three",
}];

impl Netpipe {
    /// The arguments that say the size of a block. Both ends need them.
    fn block(job: &Job, at: SocketAddr) -> Vec<String> {
        let (size, buffer) = (job.size.to_string(), job.buffer().unwrap_or(0).to_string());
        words(["-l", &size, "-u", &size, "-p", "0", "-b", &buffer, "-P", &at.port().to_string()])
    }
}

impl Program for Netpipe {
    fn form(&self) -> &'static ProgramForm {
        &ProgramForm {
            name: "netpipe",
            package: "netpipe-tcp",
            files: ["NPtcp", "NPtcp"],
            measures: &MEASURES,
        }
    }

    fn tcp(&self, wished: TcpOptions) -> TcpOptions {
        TcpOptions { nodelay: true, one_buffer: true, ..wished }
    }

    fn ipv6(&self) -> bool {
        false
    }

    fn answering(&self, job: &Job, at: SocketAddr) -> Vec<String> {
        Self::block(job, at)
    }

    fn measuring(&self, job: &Job, to: SocketAddr) -> Vec<String> {
        let own = words(["-h", &to.ip().to_string(), "-o", "/dev/stdout"]);
        [Self::block(job, to), own].concat()
    }

    /// A line of bytes, megabits per second and seconds, after remarks.
    fn read(&self, job: &Job, said: &str) -> Option<f64> {
        let numbers = |line: &str| -> Option<Vec<f64>> {
            line.split_whitespace().map(|word| word.parse().ok()).collect()
        };
        let line = said.lines().filter_map(numbers).find(|row| row.len() == 3)?;
        (line[0] == job.size as f64).then_some(line[2] * TRIP)
    }
}
