//! What guests cost: round trips and a stream of TCP by the same programs, between two guests and
//! between their nodes; and a system call of a program.
//!
//! The nodes are measured before the guests boot ([`outside`]). A guest that runs receives all
//! frames of its node's interface and takes time of its CPU.

use super::{MountLab, MountNodes, SHORT, system};
use crate::error::ServiceError;
use crate::installed::find;
use gigae_eval_session::programs::ProgramError;
use gigae_eval_session::programs::answer::listens;
use gigae_eval_session::programs::process::ProgramProcess;
use gigae_host::affinity;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Seconds of the stream, and of the round trips. A machine that does nothing for all of them, such
/// as one whose disk is busy with other work, gives no figure: sockperf ends by time, not by count.
const STREAM_SECONDS: u32 = 2;
const TRIP_SECONDS: u32 = 4;

/// Ports of both programs.
const TRIP_PORT: u16 = 11111;
const STREAM_PORT: u16 = 5201;

/// How long a server has to open its port, and how often it is looked.
const START: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

/// A program with both ends' arguments.
struct Probe {
    program: &'static str,
    port: u16,
    answering: String,
    measuring: String,
    read: fn(&str) -> Option<f64>,
}

/// sockperf: whole round trips of 14 bytes. A guest has no cycle counter that it trusts.
fn trip(server: Ipv4Addr) -> Probe {
    let common = format!("--tcp --no-rdtsc -i {server} -p {TRIP_PORT}");
    Probe {
        program: "sockperf",
        port: TRIP_PORT,
        answering: format!("server {common}"),
        measuring: format!("ping-pong {common} --full-rtt -t {TRIP_SECONDS} -m 14"),
        read: |said| {
            let (_, rest) = said.split_once("percentile 50.000 =")?;
            rest.split_whitespace().next()?.parse().ok()
        },
    }
}

/// iperf3: a stream, counted at the receiver.
fn stream(server: Ipv4Addr) -> Probe {
    Probe {
        program: "iperf3",
        port: STREAM_PORT,
        answering: format!("-s -B {server} -p {STREAM_PORT}"),
        measuring: format!("-c {server} -p {STREAM_PORT} -J -i 0 -t {STREAM_SECONDS}"),
        read: |said| {
            let begin = said.find('{')?;
            let report: serde_json::Value = serde_json::from_str(&said[begin..]).ok()?;
            Some(report["end"]["sum_received"]["bits_per_second"].as_f64()? / 8e6)
        },
    }
}

impl Probe {
    fn figure(&self, said: &str) -> Result<f64, ServiceError> {
        let found = (self.read)(said).filter(|value| value.is_finite() && *value > 0.0);
        found.ok_or_else(|| ServiceError::no_figure(self.program, said))
    }

    /// Between both guests.
    fn inside(
        &self,
        lab: &mut MountLab<'_>,
        interrupted: &AtomicBool,
    ) -> Result<f64, ServiceError> {
        let Self { program, port, answering, measuring, .. } = self;
        let ([client, server], _) = lab.ends();
        let start = format!("{program} {answering}");
        let start = system::background(&start, program, &system::listens(*port));
        server.run(&format!("start {program}"), &start, SHORT, interrupted)?;
        let said = client.run(
            &format!("run {program}"),
            &format!("{program} {measuring}"),
            SHORT,
            interrupted,
        )?;
        let end = format!("kill $(cat /run/{program}.pid)");
        server.run(&format!("end {program}"), &end, SHORT, interrupted)?;
        self.figure(&said)
    }

    /// Between both nodes, on the CPUs of the guests.
    fn outside(
        &self,
        place: &MountNodes<'_>,
        interrupted: &AtomicBool,
    ) -> Result<f64, ServiceError> {
        let program = self.program;
        let path = find(program).ok_or_else(|| ServiceError::Missing {
            programs: program.into(),
            packages: program.into(),
        })?;
        let start = |which: usize, arguments: &str| {
            let failed =
                |error| ProgramError::Start { program, source: std::io::Error::other(error) };
            let inside = place.nodes[which].enter().map_err(failed)?;
            let words: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            let process = affinity::pinned(place.cpus[which], || {
                ProgramProcess::start(program, &path, &words)
            })?;
            Ok::<_, ProgramError>((process, inside))
        };
        let (mut server, inside) = start(1, &self.answering)?;
        let deadline = Instant::now() + START;
        while !listens(self.port, false) {
            if let Some(status) = server.ended() {
                return Err(server.gone(status).into());
            }
            if Instant::now() > deadline {
                return Err(server.late("did not wait for a connection").into());
            }
            std::thread::sleep(LOOK);
        }
        drop(inside);
        let (client, inside) = start(0, &self.measuring)?;
        drop(inside);
        self.figure(&client.finish(SHORT, interrupted)?)
    }
}

/// Bytes that dd copies one by one, and so half of its system calls.
const CALLS: u32 = 50_000;

/// Microseconds of a system call that does nothing, of what dd says.
fn call(said: &str) -> Result<f64, ServiceError> {
    let seconds = said.rsplit_once("copied, ").and_then(|(_, rest)| {
        let seconds: f64 = rest.split_once(" s")?.0.parse().ok()?;
        (seconds > 0.0).then_some(seconds)
    });
    let seconds = seconds.ok_or_else(|| ServiceError::no_figure("dd", said))?;
    Ok(seconds * 1e6 / f64::from(2 * CALLS))
}

/// The script that makes them.
fn calls() -> String {
    format!("dd if=/dev/zero of=/dev/null bs=1 count={CALLS} 2>&1")
}

/// What was measured, between guests or without them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Median round trip in microseconds.
    pub trip_us: f64,
    /// MB/s.
    pub stream: f64,
    /// Microseconds of a system call.
    pub call_us: f64,
}

/// Measures all of it between the nodes. No guest may run.
pub fn outside(place: &MountNodes<'_>, interrupted: &AtomicBool) -> Result<Share, ServiceError> {
    let node = place.nodes[1].ipv4;
    let words = ["-c".to_owned(), calls()];
    let trip_us = trip(node).outside(place, interrupted)?;
    let stream = stream(node).outside(place, interrupted)?;
    let process =
        affinity::pinned(place.cpus[0], || ProgramProcess::start("dd", "/bin/sh", &words))?;
    let call_us = call(&process.finish(SHORT, interrupted)?)?;
    Ok(Share { trip_us, stream, call_us })
}

/// Measures all of it between the guests; the system call in the client.
pub fn inside(lab: &mut MountLab<'_>, interrupted: &AtomicBool) -> Result<Share, ServiceError> {
    let ([..], [_, guest]) = lab.ends();
    let trip_us = trip(guest).inside(lab, interrupted)?;
    let stream = stream(guest).inside(lab, interrupted)?;
    let ([client, _], _) = lab.ends();
    let call_us = call(&client.run("run dd", &calls(), SHORT, interrupted)?)?;
    Ok(Share { trip_us, stream, call_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_received_rate_are_read() {
        let node = Ipv4Addr::new(198, 18, 0, 2);
        let said = "sockperf: ---> percentile 50.000 =   65.250\nsockperf: ---> <MIN> = 1\n";
        assert_eq!(trip(node).figure(said).unwrap(), 65.25);
        let said = "{\"end\": {\"sum_received\": {\"bits_per_second\": 8e8}}}";
        assert_eq!(stream(node).figure(said).unwrap(), 100.0);
        for said in ["", "{}", "percentile 50.000 = x"] {
            assert!(trip(node).figure(said).is_err() && stream(node).figure(said).is_err());
        }
        let said = "50000+0 records out\n50000 bytes (50 kB, 49 KiB) copied, 0.5 s, 100 kB/s\n";
        assert_eq!(call(said).unwrap(), 5.0);
        assert!(call("copied, 0 s,").is_err() && call("dd: failed").is_err());
    }

    #[test]
    fn the_error_shows_why_a_program_gave_no_figure() {
        let begin = "sockperf: == version ==\nsockperf: Starting test...\n".repeat(9);
        let said = format!("{begin}sockperf: No messages were received.\n\n");
        let error = trip(Ipv4Addr::LOCALHOST).figure(&said).unwrap_err().to_string();
        assert!(error.ends_with("test... sockperf: No messages were received."), "{error}");
        assert!(error.len() < 250 && !error.contains('\n'), "{error}");
    }
}
