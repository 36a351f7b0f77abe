//! Rank 0: it has the connections to all ranks that measure, and says what they do.
//!
//! A measurement takes four exchanges: all open their ends; all learn where the other ends are, and
//! measure; what was sent is reported; who received it learns how much that is, and reports.

use crate::error::ClusterError;
use crate::message::{Command, End, Failure, Report, Sent};
use gigae_eval_measure::probe::{Answered, GRACE};
use gigae_eval_measure::site::ChannelAddress;
use gigae_eval_measure::transport::{JOIN_TIMEOUT, Task};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::transport;
use gigae_eval_session::control::answering::LOOK;
use gigae_eval_session::control::{ANSWER, ControlError, Session};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for the rest of a report whose beginning is there.
const REST: Duration = Duration::from_secs(4);

/// A host that is not needed for so long is told that the run goes on.
pub(crate) const WAIT_EVERY: Duration = Duration::from_secs(30);

/// What an answer may take longer on a busy host.
const BUSY: Duration = Duration::from_secs(20);

/// A rank that measures, as rank 0 knows it.
pub(crate) struct Remote {
    pub(crate) session: Session,
    pub(crate) rank: u32,
    pub(crate) host: String,
    /// When it was told something.
    pub(crate) told: Instant,
}

/// All of them, by the numbers of their hosts.
pub(crate) struct Coordinator<'a> {
    pub(crate) remotes: Vec<Remote>,
    pub(crate) interrupted: &'a AtomicBool,
}

/// What there is of hosts.
enum Look {
    /// The host that was asked has said something.
    Answer,
    /// This one has closed its connection.
    Gone(usize),
    /// Nothing.
    Nothing,
}

/// From one host to another.
pub(crate) type Flow = (usize, usize);

/// What became of a flow.
pub(crate) struct Measured {
    /// The host whose end could not be opened.
    pub(crate) unopened: Option<usize>,
    /// At the end that asks or sends.
    pub(crate) sent: Result<Sent, Failure>,
    /// At the other end; many flows of one transport may have one in common.
    pub(crate) answered: Result<Answered, Failure>,
}

/// The ends of a host in a measurement.
#[derive(Default)]
struct HostEnds {
    ends: Vec<End>,
    /// Of each end, the flows that it belongs to.
    flows: Vec<Vec<usize>>,
    opened: Vec<Result<ChannelAddress, Failure>>,
}

impl Coordinator<'_> {
    /// Carries out a measurement of these flows, all at once.
    pub(crate) fn measure(
        &mut self,
        task: &Task,
        flows: &[Flow],
    ) -> Result<Vec<Measured>, ClusterError> {
        let mut hosts = self.ends(task, flows);
        let busy: Vec<usize> =
            (0..hosts.len()).filter(|&host| !hosts[host].ends.is_empty()).collect();
        let unneeded = hosts.iter().enumerate().filter(|(_, host)| host.ends.is_empty());
        for (host, _) in unneeded {
            if self.remotes[host].told.elapsed() > WAIT_EVERY {
                self.send(host, &Command::Wait)?;
            }
        }
        for &host in &busy {
            let ends = hosts[host].ends.clone();
            self.send(host, &Command::Open(ends))?;
        }
        for &host in &busy {
            hosts[host].opened = match self.receive(host, ANSWER)? {
                Report::Opened(list) if list.len() == hosts[host].ends.len() => list,
                _ => return Err(self.confused(host)),
            };
        }
        for &host in &busy {
            let peers = (0..hosts[host].ends.len()).map(|end| peer_of(&hosts, flows, host, end));
            let run = Command::Run(peers.collect());
            self.send(host, &run)?;
        }
        let unknown = || Failure { reason: "nothing was reported".into(), unavailable: false };
        let mut sent: Vec<Result<Sent, Failure>> = flows.iter().map(|_| Err(unknown())).collect();
        let mut answered: Vec<Result<Answered, Failure>> =
            flows.iter().map(|_| Err(unknown())).collect();
        let patience = Duration::from_secs_f64(task.warmup + task.measure)
            + JOIN_TIMEOUT * 2
            + GRACE * 3
            + BUSY;
        for &host in &busy {
            let asking: Vec<usize> = hosts[host].indices(true).collect();
            match self.receive(host, patience)? {
                Report::Asked(list) if list.len() == asking.len() => {
                    for (end, report) in asking.into_iter().zip(list) {
                        sent[hosts[host].flows[end][0]] = report;
                    }
                }
                _ => return Err(self.confused(host)),
            }
        }
        let answering: Vec<usize> =
            busy.iter().copied().filter(|&host| hosts[host].indices(false).count() > 0).collect();
        for &host in &answering {
            let bytes_of = |flow: &usize| sent[*flow].as_ref().map_or(0, |sent| sent.bytes);
            let bytes = hosts[host]
                .indices(false)
                .map(|end| hosts[host].flows[end].iter().map(bytes_of).sum());
            let finish = Command::Finish(bytes.collect());
            self.send(host, &finish)?;
        }
        for &host in &answering {
            match self.receive(host, patience)? {
                Report::Answered(list) if list.len() == hosts[host].indices(false).count() => {
                    for (end, report) in hosts[host].indices(false).zip(list) {
                        for &flow in &hosts[host].flows[end] {
                            answered[flow].clone_from(&report);
                        }
                    }
                }
                _ => return Err(self.confused(host)),
            }
        }
        let all = sent.into_iter().zip(answered).enumerate();
        Ok(all
            .map(|(flow, (sent, answered))| causes(&hosts, flows[flow], sent, answered))
            .collect())
    }

    /// The ends that hosts open.
    fn ends(&self, task: &Task, flows: &[Flow]) -> Vec<HostEnds> {
        let one_for_all =
            transport::by_name(&task.transport).is_some_and(|one| one.receives_from_all);
        let mut hosts: Vec<HostEnds> = self.remotes.iter().map(|_| HostEnds::default()).collect();
        for (flow, &(from, to)) in flows.iter().enumerate() {
            hosts[from].add(task, true, flow);
            let shared = hosts[to].indices(false).next().filter(|_| one_for_all);
            match shared {
                Some(end) => hosts[to].flows[end].push(flow),
                None => hosts[to].add(task, false, flow),
            }
        }
        hosts
    }

    /// Says something to a host.
    pub(crate) fn send(&mut self, host: usize, command: &Command) -> Result<(), ClusterError> {
        let remote = &mut self.remotes[host];
        remote.told = Instant::now();
        remote.session.send(command).map_err(|error| self.gone(host, &error))
    }

    /// What a host answers. A host that is gone ends the run at once, whichever it is: a launcher
    /// soon ends the others as well, and then nobody could say which one was the first.
    fn receive(&mut self, host: usize, patience: Duration) -> Result<Report, ClusterError> {
        let deadline = Instant::now() + patience;
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(ClusterError::Interrupted);
            }
            match self.look(host)? {
                Look::Answer => {
                    let report = self.remotes[host].session.receive(REST);
                    return report.map_err(|error| self.gone(host, &error));
                }
                Look::Gone(other) => return Err(self.gone(other, &ControlError::Closed)),
                Look::Nothing if Instant::now() < deadline => {}
                Look::Nothing => return Err(self.gone(host, &ControlError::Silent("answer"))),
            }
        }
    }

    /// Waits a little for a host's answer, or for any host's end.
    fn look(&self, host: usize) -> Result<Look, ClusterError> {
        let wanted = |(number, remote)| match number == host {
            true => PollFd::new(remote, PollFlags::IN | PollFlags::RDHUP),
            false => PollFd::new(remote, PollFlags::RDHUP),
        };
        let sessions = self.remotes.iter().map(|remote| &remote.session);
        let mut all: Vec<PollFd<'_>> = sessions.enumerate().map(wanted).collect();
        let timeout = Timespec::try_from(LOOK).ok();
        match poll(&mut all, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                let what = "waiting for the other ranks";
                return Err(ClusterError::Io { what, source: error.into() });
            }
        }
        if all[host].revents().contains(PollFlags::IN) {
            // Its last words, perhaps: they are read before its end is seen.
            return Ok(Look::Answer);
        }
        let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let gone = all.iter().position(|one| one.revents().intersects(ends));
        Ok(gone.map_or(Look::Nothing, Look::Gone))
    }

    /// Tells all that the run is over.
    pub(crate) fn over(&mut self) {
        for remote in &mut self.remotes {
            // One that is gone need not know.
            let _ = remote.session.send(&Command::Over);
        }
    }

    fn gone(&self, host: usize, error: &ControlError) -> ClusterError {
        let Remote { rank, host, .. } = &self.remotes[host];
        if self.interrupted.load(Ordering::Relaxed) {
            // All are ended, this one a little earlier.
            return ClusterError::Interrupted;
        }
        ClusterError::Rank { rank: *rank, host: host.clone(), what: became(error) }
    }

    fn confused(&self, host: usize) -> ClusterError {
        self.gone(host, &ControlError::Garbled("another report than was asked for"))
    }
}

/// What has become of a rank.
pub(crate) fn became(error: &ControlError) -> String {
    match error {
        ControlError::Closed | ControlError::Io(_) => "has ended".into(),
        ControlError::Gone => "does not answer any more: its host or the way there failed".into(),
        ControlError::Silent(_) => "did not answer in time".into(),
        error => format!("does not understand this version ({error})"),
    }
}

impl HostEnds {
    fn add(&mut self, task: &Task, asks: bool, flow: usize) {
        self.ends.push(End { task: task.clone(), asks });
        self.flows.push(vec![flow]);
    }

    /// The numbers of the ends that ask, or that answer.
    fn indices(&self, asks: bool) -> impl Iterator<Item = usize> + '_ {
        (0..self.ends.len()).filter(move |&end| self.ends[end].asks == asks)
    }
}

/// Where the other end of an end is.
fn peer_of(hosts: &[HostEnds], flows: &[Flow], host: usize, end: usize) -> Option<ChannelAddress> {
    let asks = hosts[host].ends[end].asks;
    hosts[host].flows[end].iter().find_map(|&flow| {
        let (from, to) = flows[flow];
        let other = &hosts[if asks { to } else { from }];
        let its = other.indices(!asks).find(|&end| other.flows[end].contains(&flow))?;
        other.opened[its].as_ref().ok().cloned()
    })
}

/// An end that could not be opened is the reason for what went wrong at both.
fn causes(
    hosts: &[HostEnds],
    (from, to): Flow,
    sent: Result<Sent, Failure>,
    answered: Result<Answered, Failure>,
) -> Measured {
    let unopened = |host: usize| hosts[host].opened.iter().find_map(|one| one.as_ref().err());
    let first = [to, from].into_iter().find_map(|host| Some((host, unopened(host)?.clone())));
    match first {
        Some((host, failure)) => {
            let (sent, answered) = (Err(failure.clone()), Err(failure));
            Measured { unopened: Some(host), sent, answered }
        }
        None => Measured { unopened: None, sent, answered },
    }
}

impl Measured {
    /// At which host there is no figure, and why.
    pub(crate) fn failure(
        &self,
        experiment: Experiment,
        (from, to): Flow,
    ) -> Option<(usize, Failure)> {
        let nothing = |reason: &str| Failure { reason: reason.into(), unavailable: false };
        match (&self.sent, &self.answered) {
            (Err(failure), _) => Some((self.unopened.unwrap_or(from), failure.clone())),
            (_, Err(failure)) => Some((self.unopened.unwrap_or(to), failure.clone())),
            (Ok(sent), _) if experiment.is_trip() && sent.trips.is_none() => {
                let reason = "no round trip was measured; measure longer with --seconds";
                Some((from, nothing(reason)))
            }
            (_, Ok(answered)) if experiment.is_goodput() && answered.measured_seconds <= 0.0 => {
                let reason = "nothing arrived after the warm-up; measure longer with --seconds";
                Some((to, nothing(reason)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_that_of_the_host_where_it_happened() {
        let failure = |reason: &str| Failure { reason: reason.into(), unavailable: true };
        let opened = |result| HostEnds { opened: vec![result], ..HostEnds::default() };
        let ip = std::net::Ipv4Addr::LOCALHOST.into();
        let fine = || opened(Ok(ChannelAddress { ip, port: 0, bulk: 0, mac: [0; 6] }));
        let blamed = |hosts: &[HostEnds], sent, answered| {
            let measured = causes(hosts, (0, 1), sent, answered);
            let (host, failure) = measured.failure(Experiment::Stream, (0, 1)).unwrap();
            (host, failure.reason)
        };
        let sent = || Ok(Sent::default());
        let answered = || Ok(Answered::default());
        let unopened = || Err(failure("the other end could not be opened"));
        let second = [fine(), opened(Err(failure("no driver")))];
        assert_eq!(blamed(&second, unopened(), answered()), (1, "no driver".into()));
        let first = [opened(Err(failure("no driver"))), fine()];
        assert_eq!(blamed(&first, sent(), answered()), (0, "no driver".into()));
        let both = [fine(), fine()];
        assert_eq!(blamed(&both, sent(), Err(failure("lost"))), (1, "lost".into()));
        assert_eq!(blamed(&both, Err(failure("lost")), answered()), (0, "lost".into()));
        assert_eq!(blamed(&both, sent(), answered()).0, 1, "nothing arrived");
    }
}
