//! What `gigae-mpi --speed-up` does: the same work on 1, 2, 4 and 8 hosts, over TCP and over gigae.
//!
//! The hosts are namespaces of one machine and share its processors. So a speed-up beyond their
//! number is not to be expected, and the report says so.

use crate::Error;
use crate::bench::{BOTH, Benchmark, job, name, prefix, value};
use crate::{Hosts, Transport, Vendor};
use gigae_eval_model::stats::median;
use gigae_fabric::{FabricConfig, Rate};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How many hosts do the work, one rank on each.
pub const HOSTS: [u16; 4] = [1, 2, 4, 8];

/// A program and its work, which is divided among the ranks.
pub struct Work {
    /// The program's name.
    pub program: &'static str,
    /// What it does, for people.
    pub what: &'static str,
    /// Keys or unknowns of all ranks together.
    pub all: u32,
    /// Rounds or steps.
    rounds: u32,
}

/// The sort exchanges all its keys in each round, the solver two numbers and its borders.
pub const WORK: [Work; 2] = [
    Work { program: "sort", what: "sort of 1,048,576 keys, 10 times", all: 1 << 20, rounds: 10 },
    Work {
        program: "solve",
        what: "solver of 262,144 unknowns, 200 steps",
        all: 1 << 18,
        rounds: 200,
    },
];

/// Seconds by hosts, one value per run, of each transport.
pub type Seconds = [BTreeMap<u16, Vec<f64>>; 2];

/// Everything that was measured, for each of [`WORK`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeedUps {
    /// In the order of [`WORK`].
    pub seconds: [Seconds; 2],
    /// How many processors the hosts share.
    pub processors: usize,
}

impl Benchmark<'_> {
    /// Measures both programs on each number of hosts. Needs Open MPI.
    pub fn speed_up(&self) -> Result<SpeedUps, Error> {
        let vendor = Vendor::open_mpi()?;
        let nodes = HOSTS[HOSTS.len() - 1];
        let rate = Some(Rate::GIGABIT);
        let config = FabricConfig { prefix: prefix("8"), nodes, rate, ..FabricConfig::default() };
        let hosts = Hosts::up(config)?;
        hosts.tune_tcp()?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let mut found = SpeedUps { processors, ..SpeedUps::default() };
        for (work, seconds) in WORK.iter().zip(&mut found.seconds) {
            let program = vendor.compile(&hosts, &[work.program])?;
            for run in 1..=self.runs {
                for count in HOSTS {
                    let share = (work.all / u32::from(count)).to_string();
                    let arguments = [share, work.rounds.to_string()];
                    let arguments = arguments.each_ref().map(String::as_str);
                    for transport in BOTH {
                        let (over, of, what) = (name(transport), self.runs, work.program);
                        (self.say)(&format!(
                            "{what} on {count} hosts over {over}, run {run} of {of}"
                        ));
                        let job = job(transport, count, &program, &arguments);
                        let stdout = self.run_job(&vendor, &hosts, &job)?.stdout;
                        let all = seconds[transport as usize].entry(count).or_default();
                        all.push(value(&stdout, "time")?);
                    }
                }
            }
        }
        Ok(found)
    }
}

/// A table for each program, and the conditions.
pub fn text(found: &SpeedUps) -> String {
    let mut text = String::new();
    for (work, seconds) in WORK.iter().zip(&found.seconds) {
        let _ = writeln!(text, "{}\n{:>5}{}", work.what, "hosts", BOTH.map(head).concat());
        for count in HOSTS {
            let cells = BOTH.map(|transport| cell(&seconds[transport as usize], count));
            let _ = writeln!(text, "{count:>5}{}", cells.concat());
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "The work is the same on all numbers of hosts. Medians; the speed-up is over one host. The hosts \
         share {} processors, so no speed-up beyond {} is to be expected here.",
        found.processors, found.processors
    );
    text
}

fn head(transport: Transport) -> String {
    format!("{:>12}{:>10}", format!("{}, s", name(transport)), "speed-up")
}

fn cell(seconds: &BTreeMap<u16, Vec<f64>>, count: u16) -> String {
    let of = |count| median(seconds.get(&count)?);
    match (of(1), of(count)) {
        (Some(one), Some(here)) => format!("{here:>12.3}{:>10.2}", one / here),
        _ => format!("{:>12}{:>10}", "-", "-"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_up_is_over_one_host_with_the_same_transport() {
        let of = |seconds: [f64; 4]| HOSTS.into_iter().zip(seconds.map(|one| vec![one])).collect();
        let mut seconds = [Seconds::default(), Seconds::default()];
        let [tcp, gigae] = BOTH.map(|transport| transport as usize);
        seconds[0][tcp] = of([2.0, 1.0, 4.0, 1.6]);
        seconds[0][gigae] = of([3.0, 1.5, 1.0, 1.2]);
        seconds[1][tcp] = BTreeMap::from([(1, vec![1.0, 3.0, 2.0])]);
        let said = text(&SpeedUps { seconds, processors: 2 });
        let lines: Vec<Vec<&str>> =
            said.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["hosts", "TCP,", "s", "speed-up", "gigae,", "s", "speed-up"]);
        assert_eq!(lines[3], ["2", "1.000", "2.00", "1.500", "2.00"]);
        assert_eq!(lines[4], ["4", "4.000", "0.50", "1.000", "3.00"]);
        assert_eq!(lines[9], ["1", "2.000", "1.00", "-", "-"]);
        assert!(said.contains("share 2 processors"), "{said}");
    }

    /// Each rank has the same number of keys or unknowns.
    #[test]
    fn the_work_is_divided_without_a_rest() {
        for work in &WORK {
            assert!(HOSTS.iter().all(|count| work.all % u32::from(*count) == 0));
        }
    }
}
