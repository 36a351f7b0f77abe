//! Many senders, at the receiver: an end for each sender, in its own thread; of a transport of
//! which one end receives from all senders, that one. The threads of an experiment of cores always
//! have an end each, on CPUs of their own.

use super::client::{Repetition, ServeContext, fits, open, refusal};
use gigae_eval_measure::probe::{GRACE, Signals};
use gigae_eval_measure::site::ChannelAddress;
use gigae_eval_measure::transport::{JOIN_TIMEOUT, Task, TransportError};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::plan::MOST_SENDERS;
use gigae_eval_session::control::answering::{failed, next};
use gigae_eval_session::control::{ControlError, Reply, Request, Session};
use gigae_eval_session::stage::run_cpus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The senders.
pub(super) struct Peers {
    /// Where each is.
    pub(super) addresses: Vec<ChannelAddress>,
    /// The CPUs that the client gives to the receiving threads. Empty: it is on another machine.
    pub(super) cpus: Vec<usize>,
}

/// One repetition. The reply is the one that ends it; `None` when the server is to end.
pub(super) fn gather(
    session: &mut Session,
    context: &ServeContext<'_>,
    task: &Task,
    peers: &Peers,
) -> Result<Option<Reply>, ControlError> {
    let (site, Peers { addresses: peers, cpus }) = (context.site, peers);
    let unavailable = |why: &str| Ok(Some(refusal(&TransportError::Unavailable(why.to_owned()))));
    if peers.is_empty() || peers.len() > MOST_SENDERS as usize {
        return unavailable("so many senders are not served");
    }
    if site.shared_port.is_some() {
        return unavailable(
            "many senders need ports of their own, and the server has one for all (--one-port)",
        );
    }
    if let Err(refused) = fits(task, context.limits, false) {
        return Ok(Some(refused));
    }
    let own_cpus = run_cpus();
    let parallel = task.experiment == Experiment::Cores;
    if parallel && cpus.is_empty() && own_cpus.len() < peers.len() {
        let (needed, cpus) = (peers.len(), own_cpus.len());
        let why = format!("this takes {needed} processors, and the server has {cpus}");
        return Ok(Some(failed(&why)));
    }
    // A client on this machine names some of the server's, and none that it does not have.
    let is_for_them = |cpu: &usize| cpus.is_empty() || cpus.contains(cpu);
    let cpus: Vec<usize> = own_cpus.into_iter().filter(is_for_them).collect();
    if cpus.is_empty() {
        return Ok(Some(failed("the client names processors that the server may not use")));
    }
    let site_of = |number: usize| match parallel {
        true => site.of_thread(number, &cpus),
        false => site.clone(),
    };
    let mut opened = Vec::new();
    for (number, peer) in peers.iter().enumerate() {
        let site = site_of(number);
        match open(&site, task) {
            Ok((transport, opening)) => {
                let one_for_all = transport.receives_from_all && !parallel;
                opened.push((transport, opening, peer, site));
                if one_for_all {
                    break;
                }
            }
            Err(error) => return Ok(Some(refusal(&error))),
        }
    }
    let addresses = opened.iter().map(|(_, opening, ..)| opening.address()).collect();
    session.send(&Reply::Gathering(addresses))?;
    let abort = AtomicBool::new(false);
    let signals: Vec<Signals<'_>> = opened.iter().map(|_| Signals::new(&abort)).collect();
    std::thread::scope(|scope| {
        let ends = opened.into_iter().zip(&signals);
        let workers: Vec<_> = ends
            .map(|((transport, opening, peer, site), signals)| {
                scope.spawn(move || {
                    let site = &site;
                    Repetition { transport, opening, site, task, peer, signals }.answer()
                })
            })
            .collect();
        let longest =
            Duration::from_secs_f64(task.warmup + task.measure) + JOIN_TIMEOUT + GRACE * 2;
        let request = next(session, longest, context.interrupted);
        let cancelled = match &request {
            Ok(Some(Request::Gathered { bytes })) if bytes.len() == peers.len() => {
                finish(&signals, bytes);
                false
            }
            _ => {
                abort.store(true, Ordering::Relaxed);
                true
            }
        };
        let mut all = Vec::new();
        let mut first = None;
        for worker in workers {
            match worker.join() {
                Ok(Ok(answered)) => all.push(answered),
                Ok(Err(error)) => {
                    // The others are no figure without it.
                    abort.store(true, Ordering::Relaxed);
                    first.get_or_insert(failed(&error.to_string()));
                }
                Err(_) => first = Some(failed("a measuring thread panicked")),
            }
        }
        if request?.is_none() {
            return Ok(None);
        }
        Ok(Some(match first {
            _ if cancelled => Reply::Cancelled,
            Some(failure) => failure,
            None => Reply::Counted(all),
        }))
    })
}

/// Sets for each end how much its sender sent, or for the only end how much all sent.
fn finish(signals: &[Signals<'_>], bytes: &[u64]) {
    for (number, one) in signals.iter().enumerate() {
        let all = bytes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        let expected = if signals.len() == bytes.len() { bytes[number] } else { all };
        one.expected.store(expected, Ordering::Release);
        one.finished.store(true, Ordering::Release);
    }
}
