//! What a writable share fetches from its clients.

use super::exchange::Exchange;
use gigae::Peer;
use gigae_share::{
    Fault, Fetcher, MOST_PROBLEMS, Options, Server, Status, Want, Wanted, duplicate, join,
    valid_path,
};
use gigae_tree::{Destination, Export, Place};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Pushes at the same time. Each has up to 4 MiB on its way.
const MOST: usize = 16;

/// Clients whose last push is remembered, for their question how it ended.
const MOST_KNOWN: usize = 256;

/// Replies that are waited for before a push is refused: those of all pushes, and as many that have
/// begun to arrive for pushes that have ended. Each has memory of 260 KiB.
const MOST_EXPECTED: usize = 512;

/// A client that answers nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a client waits for the answer how far its push is, if that is not over before. So it
/// knows the end as soon as it is there.
const ANSWER_AFTER: Duration = Duration::from_millis(100);

/// What a client has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) id: u64,
    pub(crate) sources: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) to: Vec<u8>,
    pub(crate) ignore_times: bool,
    pub(crate) exact: bool,
}

/// A push that goes on.
struct Running {
    to: Vec<u8>,
    fetcher: Fetcher,
    destination: Destination,
}

enum State {
    Running(Box<Running>),
    Over(Box<Status>),
}

struct Job {
    id: u64,
    /// Its destination is a new path.
    new: bool,
    state: State,
    /// The client's question how far it is, and when it is answered at the latest.
    asked: Option<(u32, Duration)>,
}

impl Job {
    fn running(&mut self) -> Option<&mut Running> {
        match &mut self.state {
            State::Running(running) => Some(running),
            State::Over(_) => None,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    fn status(&self) -> Status {
        match &self.state {
            State::Over(status) => (**status).clone(),
            State::Running(running) => running.fetcher.progress().status(false),
        }
    }

    /// Answers the client's question how far it is.
    fn answer(&mut self, exchange: &mut Exchange, peer: Peer) -> Result<(), String> {
        let Some((number, _)) = self.asked.take() else { return Ok(()) };
        let mut out = exchange.buffer();
        Server::<()>::status(Ok(&self.status()), &mut out);
        exchange.reply(peer, number, out)
    }

    /// Ends it: nothing more is expected for it, and nothing of it stays open.
    fn end(&mut self, exchange: &mut Exchange, peer: Peer) {
        let new = self.new;
        if let Some(Running { to, fetcher, destination }) = self.running() {
            fetcher.stop(destination);
            exchange.forget(peer, u32::MAX);
            // A new name is in the directory above.
            let above = to.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            let beneath = if new { &to[..above] } else { &to[..] };
            let left = destination.left().iter().map(|left| join(beneath, left));
            let status = Status {
                fatal: fetcher.fatal(),
                left: left.filter(|left| valid_path(left)).take(MOST_PROBLEMS).collect(),
                ..fetcher.progress().status(true)
            };
            self.state = State::Over(Box::new(status));
        }
    }
}

/// Pushes by client.
#[derive(Default)]
pub(crate) struct Jobs(HashMap<Peer, Job>);

impl Jobs {
    /// Begins one, unless the client has it already. Whether its path is a new one.
    pub(crate) fn begin(
        &mut self,
        exchange: &mut Exchange,
        peer: Peer,
        push: Push,
        export: &Export,
    ) -> Result<Result<bool, Fault>, String> {
        // Nothing is left unanswered of a push that this one replaces.
        if let Some(job) = self.0.get_mut(&peer) {
            job.answer(exchange, peer)?;
        }
        Ok(self.begin_new(exchange, peer, push, export))
    }

    fn begin_new(
        &mut self,
        exchange: &mut Exchange,
        peer: Peer,
        push: Push,
        export: &Export,
    ) -> Result<bool, Fault> {
        if let Some(job) = self.0.get(&peer).filter(|job| job.id == push.id) {
            return Ok(job.new);
        }
        let now = exchange.now();
        for (&of, job) in &mut self.0 {
            // Another client's holds the files of the same destination: if that client was killed,
            // not for longer than needed. If it comes back, it begins again.
            let ends = of == peer
                || job.running().is_some_and(|run| run.to == push.to && run.fetcher.is_silent(now));
            if ends {
                job.end(exchange, of);
            }
        }
        self.0.remove(&peer);
        let running = self.0.values().filter(|job| !job.is_over()).count();
        if running >= MOST || exchange.expected() >= MOST_EXPECTED {
            return Err(Fault::Busy);
        }
        if self.0.len() >= MOST_KNOWN {
            self.0.retain(|_, job| !job.is_over() || job.asked.is_some());
        }
        if duplicate(push.sources.iter().map(|(_, name)| &name[..])).is_some() {
            return Err(Fault::Invalid);
        }
        let Push { id, sources, to, ignore_times, exact } = push;
        let Place { destination, name } = Place::beneath(export, &to, exact)?;
        let new = name.is_some();
        let wanted = match (name, &sources[..]) {
            (Some(to), [(from, _)]) => vec![Wanted { from: from.clone(), to }],
            (Some(_), _) => return Err(Fault::NotFound),
            (None, _) => {
                sources.into_iter().map(|(from, name)| Wanted { from, to: name }).collect()
            }
        };
        let options = Options { ignore_times, patience: PATIENCE };
        let number = RandomState::new().build_hasher().finish() >> 33;
        let fetcher = Fetcher::new(wanted, options, now).first_number(number as u32);
        let state = State::Running(Box::new(Running { to, fetcher, destination }));
        self.0.insert(peer, Job { id, new, state, asked: None });
        Ok(new)
    }

    /// A client asks how far its push is. It is answered when that is over, and after a while.
    pub(crate) fn asked(
        &mut self,
        exchange: &mut Exchange,
        peer: Peer,
        number: u32,
    ) -> Result<(), String> {
        let Some(job) = self.0.get_mut(&peer) else {
            let mut out = exchange.buffer();
            Server::<()>::status(Err(Fault::NotFound), &mut out);
            return exchange.reply(peer, number, out);
        };
        job.answer(exchange, peer)?;
        job.asked = Some((number, exchange.now() + ANSWER_AFTER));
        if job.is_over() { job.answer(exchange, peer) } else { Ok(()) }
    }

    /// Stops this one of a client.
    pub(crate) fn cancel(
        &mut self,
        exchange: &mut Exchange,
        peer: Peer,
        id: u64,
    ) -> Result<Status, Fault> {
        let job = self.0.get_mut(&peer).filter(|job| job.id == id).ok_or(Fault::NotFound)?;
        job.end(exchange, peer);
        Ok(job.status())
    }

    /// Sends what is to be asked, and answers what is to be answered. Returns when something is to
    /// be done next.
    pub(crate) fn ask(&mut self, exchange: &mut Exchange) -> Result<Duration, String> {
        let now = exchange.now();
        let mut next = now + PATIENCE;
        for (&peer, job) in &mut self.0 {
            while let Some(running) = job.running() {
                match running.fetcher.next(now, &mut running.destination) {
                    Want::Send(request) => exchange.ask(peer, request)?,
                    Want::Forget(before) => exchange.forget(peer, before),
                    Want::Wait(until) => {
                        next = next.min(until);
                        break;
                    }
                    Want::Nothing => job.end(exchange, peer),
                }
            }
            match job.asked {
                Some((_, until)) if job.is_over() || until <= now => job.answer(exchange, peer)?,
                Some((_, until)) => next = next.min(until),
                None => {}
            }
        }
        Ok(next)
    }

    /// A reply has arrived.
    pub(crate) fn reply(&mut self, now: Duration, peer: Peer, number: u32, message: &[u8]) {
        if let Some(running) = self.running(peer) {
            running.fetcher.reply(now, number, message, &mut running.destination);
        }
    }

    /// A reply will not come.
    pub(crate) fn unanswered(&mut self, peer: Peer, number: u32) {
        if let Some(running) = self.running(peer) {
            running.fetcher.unanswered(number);
        }
    }

    /// A client was lost.
    pub(crate) fn lost(&mut self, now: Duration, peer: Peer) {
        if let Some(running) = self.running(peer) {
            running.fetcher.lost(now);
        }
    }

    fn running(&mut self, peer: Peer) -> Option<&mut Running> {
        self.0.get_mut(&peer)?.running()
    }

    /// Whether nothing is being fetched.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.values().all(Job::is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae::Address;
    use gigae_sim::{Faults, Network};

    /// Nobody answers, so each push leaves everything that it has asked for.
    #[test]
    fn pushes_that_end_leave_no_memory_for_their_replies() {
        let directory = tempfile::TempDir::new().unwrap();
        let export = Export::open(directory.path()).unwrap();
        let network = Network::new(1, Faults::default());
        let endpoint = gigae::Options::new("sim").open_simulated(&network, 1).unwrap();
        let address: Address = "02:00:00:00:00:09".parse().unwrap();
        let peer = endpoint.peer(address).unwrap();
        let mut exchange = Exchange::new(endpoint, Some(gigae_share::MAX_REQUEST)).unwrap();
        let mut jobs = Jobs::default();
        for id in 0..200 {
            let push = Push {
                id,
                sources: (0..16u8).map(|n| (vec![b'a' + n], vec![b'a' + n])).collect(),
                to: Vec::new(),
                ignore_times: false,
                exact: false,
            };
            assert_eq!(jobs.begin(&mut exchange, peer, push, &export), Ok(Ok(false)));
            jobs.ask(&mut exchange).unwrap();
            while exchange.take().unwrap().is_some() {}
            assert!((1..=32).contains(&exchange.expected()), "{}: {id}", exchange.expected());
        }
    }
}
