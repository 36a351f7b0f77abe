//! iperf3: streams, counted at the receiver; reports in JSON.

use super::program::{Measure, OwnFigure, Program, ProgramForm, words};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::job::Job;
use gigae_eval_model::transport::CONGESTION_CONTROL;
use std::net::SocketAddr;

pub(super) struct Iperf3;

const MEASURES: [Measure; 2] = [
    Measure {
        experiment: Experiment::Stream,
        transport: "tcp",
        sizes: [4, 1 << 20],
        ours: OwnFigure::Goodput,
        counts: "bits per second that arrived, at the receiver",
        otherwise: "it asks select(2) before each read and after ten writes, and reads no more at a time than it writes",
    },
    Measure {
        experiment: Experiment::Stream,
        transport: "udp",
        // A number and a time are in each datagram.
        sizes: [16, 65_507],
        ours: OwnFigure::Goodput,
        counts: "bits per second that arrived, at the receiver",
        otherwise: "both its ends read the clock for each datagram, and its receiver asks select(2), which decides what is lost",
    },
];

impl Program for Iperf3 {
    fn form(&self) -> &'static ProgramForm {
        &ProgramForm {
            name: "iperf3",
            package: "iperf3",
            files: ["iperf3", "iperf3"],
            measures: &MEASURES,
        }
    }

    fn answering(&self, _job: &Job, at: SocketAddr) -> Vec<String> {
        words(["-s", "-1", "-B", &at.ip().to_string(), "-p", &at.port().to_string()])
    }

    fn measuring(&self, job: &Job, to: SocketAddr) -> Vec<String> {
        let (ip, port) = (to.ip().to_string(), to.port().to_string());
        let (seconds, size) = (job.seconds.to_string(), job.size.to_string());
        let mut all = words(["-c", &ip, "-p", &port, "-J", "-i", "0", "-t", &seconds, "-l", &size]);
        if let Some(bytes) = job.buffer() {
            all.extend(words(["-w", &bytes.to_string()]));
        }
        if job.is_tcp() {
            all.extend(words(["-C", CONGESTION_CONTROL]));
            all.extend(job.tcp.nodelay.then(|| "-N".to_owned()));
        } else {
            // As fast as it can.
            all.extend(words(["-u", "-b", "0"]));
        }
        all
    }

    fn read(&self, _job: &Job, said: &str) -> Option<f64> {
        let report: serde_json::Value = serde_json::from_str(said).ok()?;
        Some(report["end"]["sum_received"]["bits_per_second"].as_f64()? / 8e6)
    }
}
