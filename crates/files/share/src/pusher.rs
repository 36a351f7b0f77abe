//! The client of a push: asks the server to fetch, and how far it is.

use crate::error::Fault;
use crate::fetcher::{Outgoing, Want};
use crate::message::{Reply, Request};
use crate::status::Status;
use std::time::Duration;

/// Between two questions how far the server is. A server that has no more to say answers so late
/// that the next question goes out at once.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Between two tries to reach a server that was lost.
const TRY_EVERY: Duration = Duration::from_millis(500);

/// After so long without a reply, a request counts as lost. The server answers while it fetches.
const LOST_AFTER: Duration = Duration::from_secs(3);

/// Asks for a push, and follows it to its end.
#[derive(Debug)]
pub struct Pusher {
    take: Request,
    id: u64,
    taken: bool,
    status: Status,
    fatal: Option<Fault>,
    patience: Duration,
    next_number: u32,
    asked: Option<(u32, Duration)>,
    not_before: Duration,
    heard: Duration,
    /// The server's last answer was that it has too much to do.
    busy: bool,
}

impl Pusher {
    /// Begins at this time, under a random number. The server asks for these paths, and gives them
    /// these names.
    pub fn new(
        id: u64,
        sources: Vec<(Vec<u8>, Vec<u8>)>,
        to: Vec<u8>,
        options: crate::Options,
        now: Duration,
    ) -> Self {
        let ignore_times = options.ignore_times;
        Self {
            take: Request::Take { id, sources, to, ignore_times, exact: false },
            id,
            taken: false,
            status: Status::default(),
            fatal: None,
            patience: options.patience,
            next_number: 1,
            asked: None,
            not_before: now,
            heard: now,
            busy: false,
        }
    }

    /// How far the server was when it was asked last.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// What has ended it before the server was ready.
    pub fn fatal(&self) -> Option<Fault> {
        self.fatal
    }

    /// Whether the server has not answered for some seconds.
    pub fn is_silent(&self, now: Duration) -> bool {
        now.saturating_sub(self.heard) > LOST_AFTER
    }

    /// What to do now, as of a [`Fetcher`](crate::Fetcher).
    pub fn next(&mut self, now: Duration) -> Want {
        let given_up = self.heard + self.patience;
        if self.fatal.is_none() && !self.status.over && given_up <= now {
            self.fatal = Some(if self.busy { Fault::Busy } else { Fault::Silent });
        }
        if self.fatal.is_some() || self.status.over {
            return Want::Nothing;
        }
        if let Some((number, since)) = self.asked {
            let lost = since + LOST_AFTER;
            if now < lost {
                return Want::Wait(lost.min(given_up));
            }
            // Once: the caller says later that it has no answer.
            self.asked = Some((number, now));
            return Want::Forget(number + 1);
        }
        if now < self.not_before {
            return Want::Wait(self.not_before);
        }
        let number = self.ask(now);
        let request = if self.taken { &Request::Status } else { &self.take };
        Want::Send(Outgoing { number, message: request.encode(number) })
    }

    /// Ends it here: asks the server to stop.
    pub fn cancel(&mut self, now: Duration) -> Outgoing {
        let number = self.ask(now);
        self.taken = true;
        Outgoing { number, message: Request::Cancel { id: self.id }.encode(number) }
    }

    /// Whether a reply is expected.
    pub fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    fn ask(&mut self, now: Duration) -> u32 {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1).max(1);
        self.asked = Some((number, now));
        number
    }

    /// A reply has arrived.
    pub fn reply(&mut self, now: Duration, number: u32, message: &[u8]) {
        let Some((_, since)) = self.asked.filter(|(asked, _)| *asked == number) else { return };
        self.asked = None;
        let reply = Reply::decode(message);
        self.busy = matches!(reply, Ok(Reply::Failed(Fault::Busy)));
        if self.busy {
            // Not for longer than a silent server is waited for.
            self.not_before = now + TRY_EVERY;
            return;
        }
        self.heard = now;
        self.not_before = since + ASK_EVERY;
        match (self.taken, reply) {
            (false, Ok(Reply::Taken(new))) => {
                self.not_before = now;
                self.taken = true;
                // If it has to begin again, that path is there.
                if let Request::Take { exact, .. } = &mut self.take {
                    *exact |= new;
                }
            }
            (true, Ok(Reply::Status(status))) => {
                self.fatal = status.fatal;
                self.status = status;
            }
            // The server was restarted: it begins again with what it has.
            (true, Ok(Reply::Failed(Fault::NotFound))) => self.taken = false,
            (_, Ok(Reply::Failed(fault))) => self.fatal = Some(fault),
            _ => self.fatal = Some(Fault::Nonsense),
        }
    }

    /// A request, or the reply to it, was lost.
    pub fn unanswered(&mut self, now: Duration, number: u32) {
        if self.asked.is_some_and(|(asked, _)| asked == number) {
            self.asked = None;
            self.not_before = now + TRY_EVERY;
        }
    }
}
