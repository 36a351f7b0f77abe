//! What a writable share fetches from its clients.

use super::exchange::Exchange;
use gigae::Peer;
use gigae_share::{Fault, Fetcher, Options, Status, Want, Wanted};
use gigae_tree::{Destination, Export, Place};
use std::collections::HashMap;
use std::time::Duration;

/// Pushes at the same time. Each has up to 4 MiB on its way.
const MOST: usize = 16;

/// Clients whose last push is remembered, for their question how it ended.
const MOST_KNOWN: usize = 256;

/// A client that answers nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a client has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) sources: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) to: Vec<u8>,
    pub(crate) ignore_times: bool,
    pub(crate) exact: bool,
}

struct Job {
    push: Push,
    /// Its destination is a new path.
    new: bool,
    fetcher: Fetcher,
    destination: Destination,
    over: bool,
}

/// Pushes by client.
#[derive(Default)]
pub(crate) struct Jobs(HashMap<Peer, Job>);

impl Jobs {
    /// Begins one, unless the client has it already. Whether its path is a new one.
    pub(crate) fn begin(
        &mut self,
        peer: Peer,
        push: Push,
        export: &Export,
        now: Duration,
    ) -> Result<bool, Fault> {
        let known = self.0.get(&peer).filter(|job| !job.over && job.push == push);
        if let Some(job) = known {
            return Ok(job.new);
        }
        self.end(peer);
        if self.0.values().filter(|job| !job.over).count() >= MOST {
            return Err(Fault::Busy);
        }
        if self.0.len() >= MOST_KNOWN {
            self.0.retain(|_, job| !job.over);
        }
        let Place { destination, name } = Place::beneath(export, &push.to, push.exact)?;
        let new = name.is_some();
        let wanted = match (name, &push.sources[..]) {
            (Some(to), [(from, _)]) => vec![Wanted { from: from.clone(), to }],
            (Some(_), _) => return Err(Fault::NotFound),
            (None, sources) => sources
                .iter()
                .map(|(from, name)| Wanted { from: from.clone(), to: name.clone() })
                .collect(),
        };
        let options = Options { ignore_times: push.ignore_times, patience: PATIENCE };
        let fetcher = Fetcher::new(wanted, options, now);
        self.0.insert(peer, Job { push, new, fetcher, destination, over: false });
        Ok(new)
    }

    /// How far a client's is.
    pub(crate) fn status(&self, peer: Peer) -> Result<Status, Fault> {
        let job = self.0.get(&peer).ok_or(Fault::NotFound)?;
        match job.fetcher.fatal() {
            Some(fault) => Err(fault),
            None => Ok(job.fetcher.progress().status(job.over)),
        }
    }

    /// Sends what is to be asked. Returns when something is to be asked next.
    pub(crate) fn ask(&mut self, exchange: &mut Exchange) -> Result<Duration, String> {
        let now = exchange.now();
        let mut next = now + PATIENCE;
        for (&peer, job) in &mut self.0 {
            while !job.over {
                match job.fetcher.next(now, &mut job.destination) {
                    Want::Send(request) => exchange.ask(peer, request)?,
                    Want::Forget(before) => exchange.forget(peer, before),
                    Want::Wait(until) => {
                        next = next.min(until);
                        break;
                    }
                    Want::Nothing => job.over = true,
                }
            }
        }
        Ok(next)
    }

    /// A reply has arrived.
    pub(crate) fn reply(&mut self, now: Duration, peer: Peer, number: u32, message: &[u8]) {
        if let Some(job) = self.0.get_mut(&peer) {
            job.fetcher.reply(now, number, message, &mut job.destination);
        }
    }

    /// A reply will not come.
    pub(crate) fn unanswered(&mut self, peer: Peer, number: u32) {
        if let Some(job) = self.0.get_mut(&peer) {
            job.fetcher.unanswered(number);
        }
    }

    /// A client was lost.
    pub(crate) fn lost(&mut self, now: Duration, peer: Peer) {
        if let Some(job) = self.0.get_mut(&peer) {
            job.fetcher.lost(now);
        }
    }

    /// Whether nothing is being fetched.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.values().all(|job| job.over)
    }

    fn end(&mut self, peer: Peer) {
        if let Some(mut job) = self.0.remove(&peer) {
            job.fetcher.stop(&mut job.destination);
        }
    }
}
