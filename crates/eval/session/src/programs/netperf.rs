//! netperf: streams and request-response.

use super::program::{Measure, OwnFigure, Program, ProgramForm, words};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::job::Job;
use gigae_eval_model::transport::CONGESTION_CONTROL;
use std::net::SocketAddr;

pub(super) struct Netperf;

const fn trips(transport: &'static str) -> Measure {
    Measure {
        experiment: Experiment::Rtt,
        transport,
        sizes: [1, 65_507],
        ours: OwnFigure::Mean,
        counts: "round trips per second, at the sender",
        otherwise: "it reads no clock between messages",
    }
}

const MEASURES: [Measure; 4] = [
    Measure {
        experiment: Experiment::Stream,
        transport: "tcp",
        sizes: [1, 1 << 20],
        ours: OwnFigure::Goodput,
        counts: "bits per second that were written, at the sender",
        otherwise: "it counts what was written, some of it still on the way at its end, and reads as much at a time as the buffer has",
    },
    Measure {
        experiment: Experiment::Stream,
        transport: "udp",
        sizes: [1, 65_507],
        ours: OwnFigure::Goodput,
        counts: "bits per second that arrived, at the receiver",
        otherwise: "it writes from a ring of buffers as large as the socket's",
    },
    trips("tcp"),
    trips("udp"),
];

impl Netperf {
    fn test(job: &Job) -> &'static str {
        match (job.is_tcp(), job.experiment) {
            (true, Experiment::Stream) => "TCP_STREAM",
            (true, _) => "TCP_RR",
            (false, Experiment::Stream) => "UDP_STREAM",
            (false, _) => "UDP_RR",
        }
    }

    /// Which of its output selectors has the figure.
    fn selector(job: &Job) -> &'static str {
        match (job.is_tcp(), job.experiment) {
            (false, Experiment::Stream) => "REMOTE_RECV_THROUGHPUT",
            _ => "THROUGHPUT",
        }
    }
}

impl Program for Netperf {
    fn form(&self) -> &'static ProgramForm {
        // The package is not among Debian's free packages.
        &ProgramForm {
            name: "netperf",
            package: "netperf",
            files: ["netperf", "netserver"],
            measures: &MEASURES,
        }
    }

    fn answering(&self, _job: &Job, at: SocketAddr) -> Vec<String> {
        words(["-D", "-f", "-L", &at.ip().to_string(), "-p", &at.port().to_string()])
    }

    fn measuring(&self, job: &Job, to: SocketAddr) -> Vec<String> {
        let (ip, port) = (to.ip().to_string(), to.port().to_string());
        let (seconds, size) = (job.seconds.to_string(), job.size.to_string());
        let mut all =
            words(["-H", &ip, "-p", &port, "-P", "0", "-l", &seconds, "-t", Self::test(job), "--"]);
        match job.experiment {
            Experiment::Stream => all.extend(words(["-m", &size])),
            _ => all.extend(words(["-r", &format!("{size},{size}")])),
        }
        if let Some(bytes) = job.buffer() {
            let bytes = bytes.to_string();
            all.extend(words(["-s", &bytes, "-S", &bytes]));
        }
        all.extend((job.is_tcp() && job.tcp.nodelay).then(|| "-D".to_owned()));
        all.extend(job.is_tcp().then(|| format!("-K{CONGESTION_CONTROL}")));
        all.extend(words(["-k", Self::selector(job)]));
        all
    }

    /// A line of a selector, "=" and a number: of streams 10^6 bits per second, else round trips
    /// per second.
    fn read(&self, job: &Job, said: &str) -> Option<f64> {
        let name = Self::selector(job);
        let value = said.lines().find_map(|line| {
            let (before, after) = line.split_once('=')?;
            (before.trim() == name).then_some(after)
        })?;
        let value: f64 = value.trim().parse().ok()?;
        match job.experiment {
            Experiment::Stream => Some(value / 8.0),
            _ => (value > 0.0).then(|| 1e6 / value),
        }
    }
}
