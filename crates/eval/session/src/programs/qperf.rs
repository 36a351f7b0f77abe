//! qperf: streams, counted at the receiver, and half round trips.

use super::program::{Measure, OwnFigure, Program, ProgramForm, words};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::job::Job;
use gigae_eval_model::plan::TcpOptions;
use std::net::SocketAddr;

pub(super) struct Qperf;

const fn trips(transport: &'static str) -> Measure {
    Measure {
        experiment: Experiment::Rtt,
        transport,
        sizes: [1, 65_507],
        ours: OwnFigure::Mean,
        counts: "half the mean round trip (doubled here), at the sender",
        otherwise: "it reads no clock between messages, and its time includes what the first of them take",
    }
}

const MEASURES: [Measure; 4] = [
    Measure {
        experiment: Experiment::Stream,
        transport: "tcp",
        sizes: [1, 1 << 20],
        ours: OwnFigure::Goodput,
        counts: "bytes per second that arrived, at the receiver",
        otherwise: "its receiver waits for whole messages, and what is on the way at its end does not count",
    },
    Measure {
        experiment: Experiment::Stream,
        transport: "udp",
        sizes: [1, 65_507],
        ours: OwnFigure::Goodput,
        counts: "bytes per second that arrived, at the receiver",
        otherwise: "its sender has the kernel's buffer, and its ends stop by timers of their own",
    },
    trips("tcp"),
    trips("udp"),
];

impl Qperf {
    fn test(job: &Job) -> &'static str {
        match (job.is_tcp(), job.experiment) {
            (true, Experiment::Stream) => "tcp_bw",
            (true, _) => "tcp_lat",
            (false, Experiment::Stream) => "udp_bw",
            (false, _) => "udp_lat",
        }
    }
}

impl Program for Qperf {
    fn form(&self) -> &'static ProgramForm {
        &ProgramForm {
            name: "qperf",
            package: "qperf",
            files: ["qperf", "qperf"],
            measures: &MEASURES,
        }
    }

    /// It sets buffers at the answering end only, and there too late for the window's scale.
    fn tcp(&self, wished: TcpOptions) -> TcpOptions {
        TcpOptions { nodelay: false, buffer: None, one_buffer: true, ..wished }
    }

    fn answering(&self, _job: &Job, at: SocketAddr) -> Vec<String> {
        words(["-lp", &at.port().to_string()])
    }

    fn measuring(&self, job: &Job, to: SocketAddr) -> Vec<String> {
        let (ip, port) = (to.ip().to_string(), to.port().to_string());
        let (seconds, size) = (job.seconds.to_string(), job.size.to_string());
        let mut all = words([&ip, "-lp", &port, "-t", &seconds, "-m", &size, "-uu", "-e", "9"]);
        if let Some(bytes) = job.buffer() {
            all.extend(words(["-sb", &bytes.to_string()]));
        }
        all.push(Self::test(job).to_owned());
        all
    }

    /// A line of a name, "=", a number with commas, and its unit.
    fn read(&self, job: &Job, said: &str) -> Option<f64> {
        let (name, unit, scale) = match (job.experiment, job.is_tcp()) {
            (Experiment::Stream, true) => ("bw", "bytes/sec", 1e-6),
            (Experiment::Stream, false) => ("recv_bw", "bytes/sec", 1e-6),
            _ => ("latency", "ns", 2e-3),
        };
        let line = said.lines().find_map(|line| {
            let (before, after) = line.split_once('=')?;
            (before.trim() == name).then_some(after)
        })?;
        let (number, of) = line.trim().split_once(' ')?;
        let number: f64 = number.replace(',', "").parse().ok()?;
        (of.trim() == unit).then_some(number * scale)
    }
}
