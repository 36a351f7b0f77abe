//! Pairs of a figure of ours and one of another program's, on the link that is being measured.

use crate::error::{RepetitionError, RunError, reply_failure, unexpected};
use crate::repetition::{BothEnds, cancel_within, repetition};
use crate::rounds::{EMPTY, MOST_FAILURES, Running};
use gigae_eval_model::results::Skipped;
use gigae_eval_model::transport::CONGESTION_CONTROL;
use gigae_eval_session::control::{ANSWER, Reply, Request};
use gigae_eval_session::programs::answer::OVERTIME;
use gigae_eval_session::programs::process::{ProgramProcess, last_line};
use gigae_eval_session::programs::{self, pairs};
use gigae_eval_session::programs::{Comparison, ProgramError};
use gigae_eval_session::stage::Stage;
use gigae_host::affinity;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A comparison and what it has brought so far.
struct Pairs {
    of: Comparison,
    made: Vec<[f64; 2]>,
    command: String,
    failures: u32,
}

/// The reason why no program runs if the plan measures nothing that a program can measure.
const NOTHING: &str =
    "the plan has no round trips or streams of TCP or UDP on this link to compare it with";

impl Running<'_> {
    /// Leaves those of the programs that the answering end has, too. Asked before anything is
    /// measured.
    pub(super) fn agree_on_programs(&mut self, stage: &mut Stage) -> Result<(), RunError> {
        if self.with.is_empty() {
            return Ok(());
        }
        let there = match stage.session.ask(&Request::Programs, ANSWER)? {
            Reply::Programs(there) => there,
            other => return Err(unexpected(&other)),
        };
        let is_there = |name: &str| there.iter().any(|other| other == name);
        let (both, not): (Vec<_>, Vec<_>) =
            self.with.iter().copied().partition(|program| is_there(program.name()));
        if both.is_empty() || !not.is_empty() && !self.with_any {
            return Err(RunError::Program(programs::missing(&not, "at the answering end")));
        }
        self.with = both;
        Ok(())
    }

    fn comparisons(&self, stage: &Stage, planned: Option<&str>) -> Vec<Comparison> {
        let (site, mut with) = (&stage.site, self.with.clone());
        if site.ip.is_ipv6() {
            with.retain(|program| program.ipv6());
        }
        programs::comparisons(&self.plan.cells(planned, site.mtu), &with, site.mtu)
    }

    /// How long the pairs of a link measure, in seconds.
    pub(super) fn programs_take(&self, stage: &Stage, planned: Option<&str>) -> f64 {
        let each = |one: Comparison| {
            let ours = one.cell.warmup + one.cell.measure;
            ours.as_secs_f64() + f64::from(one.job.seconds)
        };
        let once: f64 = self.comparisons(stage, planned).into_iter().map(each).sum();
        once * f64::from(self.pairs)
    }

    /// Makes the pairs of a link, round after round: in each every comparison has one, in random
    /// order, and ours comes first in every other.
    pub(super) fn beside(
        &mut self,
        stage: &mut Stage,
        link: &str,
        planned: Option<&str>,
    ) -> Result<(), RunError> {
        if self.with.is_empty() {
            return Ok(());
        }
        let found = self.comparisons(stage, planned);
        for program in &self.with {
            if !found.iter().any(|one| one.program.name() == program.name()) {
                self.skipped.push(skipped(link, program.name(), NOTHING));
            }
        }
        if let Err(why) = same_congestion_control(stage) {
            self.skipped.push(skipped(link, "other programs, TCP as ours", &why));
        }
        let begin = |of| Pairs { of, made: Vec::new(), command: String::new(), failures: 0 };
        let mut all: Vec<Pairs> = found.into_iter().map(begin).collect();
        self.total += all.len() as u64 * u64::from(self.pairs);
        for round in 0..self.pairs {
            let mut order: Vec<usize> = (0..all.len()).collect();
            self.shuffle(&mut order);
            for index in order {
                self.pair(stage, link, &mut all[index], round % 2 == 0)?;
                self.done += 1;
            }
        }
        let besides = all.into_iter().filter_map(|one| {
            let command = one.command;
            pairs::beside(&one.of, link, &command, one.made)
        });
        self.programs.extend(besides);
        Ok(())
    }

    /// One pair, and what to make of its failure.
    fn pair(
        &mut self,
        stage: &mut Stage,
        link: &str,
        pairs: &mut Pairs,
        ours_first: bool,
    ) -> Result<(), RunError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        if pairs.failures >= MOST_FAILURES.min(self.pairs) {
            return Ok(());
        }
        let what = format!("{link} {} {} B", pairs.of.label(), pairs.of.job.size);
        self.progress.step(self.done, self.total, &what);
        match make(stage, pairs, ours_first, self.interrupted) {
            Ok(pair) => pairs.made.push(pair),
            Err(_) if self.interrupted.load(Ordering::Relaxed) => {
                return Err(RunError::Interrupted);
            }
            Err(RepetitionError::Fatal(error)) => return Err(error),
            Err(RepetitionError::Unavailable(reason) | RepetitionError::Repetition(reason)) => {
                pairs.failures += 1;
                // The only pair that was planned is as good as given up, too.
                if pairs.failures == MOST_FAILURES.min(self.pairs) {
                    let what = Some(format!("{} {what}", pairs.of.measure.experiment.name()));
                    let skip = skipped(link, &pairs.of.label(), &reason);
                    self.skipped.push(Skipped { what, ..skip });
                }
            }
        }
        Ok(())
    }
}

/// Most programs take the congestion control that there is; ours is always the same. On a virtual
/// network the route to the peer has it, for a namespace may not choose every one as its default
/// (tcp(7)); it goes with the network.
fn same_congestion_control(stage: &Stage) -> Result<(), String> {
    let Some(fabric) = &stage.fabric else { return Ok(()) };
    let peer = fabric.node(2).ipv4.to_string();
    route_as_ours(&stage.site.interface, &stage.site.ip.to_string(), &peer)
}

/// Gives the calling thread's route to a peer the congestion control of our TCP.
pub(crate) fn route_as_ours(interface: &str, own: &str, peer: &str) -> Result<(), String> {
    let way = ["route", "replace", peer, "dev", interface, "src", own];
    let failure = |why: &str| {
        format!(
            "programs that cannot choose a congestion control have the system's: 'ip route': {why}"
        )
    };
    let mut command = std::process::Command::new("ip");
    let output = command.args(way).args(["congctl", CONGESTION_CONTROL]).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(failure(&last_line(&String::from_utf8_lossy(&output.stderr), ""))),
        Err(error) => Err(failure(&error.to_string())),
    }
}

fn skipped(link: &str, program: &str, reason: &str) -> Skipped {
    Skipped {
        link: link.to_owned(),
        transport: program.to_owned(),
        what: None,
        reason: reason.to_owned(),
    }
}

fn make(
    stage: &mut Stage,
    pairs: &mut Pairs,
    ours_first: bool,
    interrupted: &AtomicBool,
) -> Result<[f64; 2], RepetitionError> {
    if ours_first {
        let ours = ours(stage, &pairs.of, interrupted)?;
        return Ok([ours, theirs(stage, pairs, interrupted)?]);
    }
    let theirs = theirs(stage, pairs, interrupted)?;
    Ok([ours(stage, &pairs.of, interrupted)?, theirs])
}

fn ours(
    stage: &mut Stage,
    of: &Comparison,
    interrupted: &AtomicBool,
) -> Result<f64, RepetitionError> {
    let BothEnds { asked, answered } = repetition(stage, &of.cell, interrupted)?;
    let figure = of.measure.ours.figure(of.measure.experiment, &asked, &answered);
    figure.ok_or_else(|| RepetitionError::Repetition(EMPTY.to_owned()))
}

fn theirs(
    stage: &mut Stage,
    pairs: &mut Pairs,
    interrupted: &AtomicBool,
) -> Result<f64, RepetitionError> {
    let (program, job) = (pairs.of.program, &pairs.of.job);
    let at = match stage.session.ask(&Request::Program(Box::new(job.clone())), ANSWER)? {
        Reply::Listening { at } => at,
        other => return Err(reply_failure(&other)),
    };
    let said = run(stage, &pairs.of, at, interrupted);
    let ended = stage.session.ask(&Request::Cancel, cancel_within(interrupted))?;
    let said = match (said, ended) {
        (Ok(said), Reply::Cancelled) => said,
        (Err(here), Reply::Failed { reason, .. }) => {
            return Err(RepetitionError::Repetition(format!(
                "{here}; at the answering end: {reason}"
            )));
        }
        (Err(here), Reply::Cancelled) => return Err(RepetitionError::Repetition(here.to_string())),
        (_, other) => return Err(reply_failure(&other)),
    };
    let [file, _] = program.form().files;
    pairs.command = format!("{file} {}", program.measuring(job, at).join(" "));
    let figure = program.read(job, &said).filter(|figure| figure.is_finite() && *figure > 0.0);
    figure.ok_or_else(|| {
        let garbled = ProgramError::Garbled { program: program.name(), last: last_line(&said, "") };
        RepetitionError::Repetition(garbled.to_string())
    })
}

/// The program's measuring end, from its beginning to its end.
fn run(
    stage: &Stage,
    of: &Comparison,
    at: SocketAddr,
    interrupted: &AtomicBool,
) -> Result<String, ProgramError> {
    let [file, _] = of.program.form().files;
    let arguments = of.program.measuring(&of.job, at);
    let process = affinity::pinned(stage.site.cpu, || {
        ProgramProcess::start(of.program.name(), file, &arguments)
    })?;
    process.finish(Duration::from_secs(of.job.seconds.into()) + OVERTIME, interrupted)
}
