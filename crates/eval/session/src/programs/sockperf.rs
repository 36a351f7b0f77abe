//! sockperf: round trips; half of each by default, whole ones if asked for.

use super::program::{Measure, OwnFigure, Program, ProgramForm, words};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::job::Job;
use std::net::SocketAddr;

pub(super) struct Sockperf;

const fn trips(transport: &'static str) -> Measure {
    Measure {
        experiment: Experiment::Rtt,
        transport,
        // Its header, and the longest datagram.
        sizes: [14, 65_506],
        ours: OwnFigure::Median,
        counts: "median round trip (--full-rtt; it halves them otherwise), at the sender",
        otherwise: "it keeps the times of all messages and takes them by the processor's counter; its first 0.4 s do not count",
    }
}

const MEASURES: [Measure; 2] = [trips("tcp"), trips("udp")];

/// Options that both ends must have.
fn common(job: &Job, at: SocketAddr) -> Vec<String> {
    let mut all = words(["-i", &at.ip().to_string(), "-p", &at.port().to_string()]);
    if let Some(bytes) = job.buffer() {
        all.extend(words(["--buffer-size", &bytes.to_string()]));
    }
    if job.is_tcp() {
        all.push("--tcp".to_owned());
        all.extend((!job.tcp.nodelay).then(|| "--tcp-avoid-nodelay".to_owned()));
    }
    all
}

impl Program for Sockperf {
    fn form(&self) -> &'static ProgramForm {
        &ProgramForm {
            name: "sockperf",
            package: "sockperf",
            files: ["sockperf", "sockperf"],
            measures: &MEASURES,
        }
    }

    // From version 3.8 on it does.
    fn ipv6(&self) -> bool {
        false
    }

    fn waits_at_udp(&self, job: &Job) -> bool {
        !job.is_tcp()
    }

    fn answering(&self, job: &Job, at: SocketAddr) -> Vec<String> {
        [words(["server"]), common(job, at)].concat()
    }

    fn measuring(&self, job: &Job, to: SocketAddr) -> Vec<String> {
        let (seconds, size) = (job.seconds.to_string(), job.size.to_string());
        let own = words(["--full-rtt", "-t", &seconds, "-m", &size]);
        [words(["ping-pong"]), common(job, to), own].concat()
    }

    fn read(&self, _job: &Job, said: &str) -> Option<f64> {
        let (_, rest) = said.split_once("percentile 50.000 =")?;
        rest.split_whitespace().next()?.parse().ok()
    }
}
