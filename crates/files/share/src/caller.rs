//! The side that asks single questions, for a file system that is mounted.
//!
//! Each question has an answer or an error after a bounded time. What is lost with a session or a
//! restarted server is asked again. A change has a number, so that it is carried out once.
//!
//! A server that sends replies is alive, however slow it is: only silence makes questions fail
//! soon. The replies to questions that were given up are still received. Otherwise they would stay
//! at the server, which answers only so many requests of a client at a time.

use crate::change::{MOST_CHANGES, Ticket};
use crate::error::Fault;
use crate::fetcher::{Outgoing, Want};
use crate::message::{Reply, Request};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Requests on their way. The server allows twice as many.
const WINDOW: usize = 16;

/// After so long without a reply, the other end is asked whether it is there.
const ASK_AFTER: Duration = Duration::from_secs(1);

/// Between two tries to reach a server that was lost, or that has too much to do.
const TRY_EVERY: Duration = Duration::from_millis(500);

/// A server that answers others, but not this question, is waited for so many times as long.
const WHILE_ALIVE: u32 = 20;

/// Questions whether the other end is there that wait for an answer. After that there is one
/// [each minute](RARELY).
const MOST_PINGS: usize = 8;

/// Between two of those.
const RARELY: Duration = Duration::from_secs(60);

/// Numbers at the end that only questions whether the other end is there may use. So the numbers
/// begin again even if the answer to something else is lost.
const RESERVED: u32 = 64;

/// How long a question waits while the server is known to be silent. Else each of a program's
/// questions would wait as long as the first one.
const WHILE_SILENT: Duration = Duration::from_secs(2);

/// Something to be answered, with what the caller needs to do so.
#[derive(Debug)]
struct Question<T> {
    request: Request,
    asked: Duration,
    context: T,
}

impl<T> Question<T> {
    /// Of a change: which one it is.
    fn ticket(&self) -> Option<&Ticket> {
        match &self.request {
            Request::Change { ticket, .. } => Some(ticket),
            _ => None,
        }
    }
}

/// What a request was sent for.
#[derive(Debug)]
enum Asked<T> {
    Question(Question<T>),
    /// A question that has got an error. Its reply will be dropped.
    GivenUp,
    /// Whether the other end is there.
    Ping,
}

/// Asks questions. Time is an argument, counted from any beginning.
///
/// The caller asks [`next`](Self::next) again and again, and [`failed`](Self::failed) for what has
/// no answer. Between that it gives replies to [`reply`](Self::reply).
#[derive(Debug)]
pub struct Caller<T> {
    patience: Duration,
    next_number: u32,
    /// By number.
    in_flight: BTreeMap<u32, Asked<T>>,
    waiting: VecDeque<Question<T>>,
    /// When a reply came last, or the first question of a busy time was asked.
    heard: Duration,
    /// Questions whether the other end is there, since it was heard of last.
    pings: u32,
    pinged: Duration,
    /// No reply has come for the time that a question waits.
    silent: bool,
    /// A session was lost since.
    after_loss: bool,
    /// No request before this time.
    not_before: Duration,
    forget: Option<u32>,
    /// The number of this client, for its changes.
    client: u64,
    next_change: u64,
    /// The server's record of this client. At first it is not known.
    record: u64,
}

/// No server has this record.
const NO_RECORD: u64 = u64::MAX;

impl<T> Caller<T> {
    /// Gives up questions when no reply has come for so long. The first request has this number:
    /// late replies to another program's requests, which the same peer has sent, then are no
    /// replies to this one's.
    pub fn new(patience: Duration, first_number: u32) -> Self {
        Self {
            patience,
            next_number: first_number.max(1),
            in_flight: BTreeMap::new(),
            waiting: VecDeque::new(),
            heard: Duration::ZERO,
            pings: 0,
            pinged: Duration::ZERO,
            silent: false,
            after_loss: false,
            not_before: Duration::ZERO,
            forget: None,
            client: 0,
            next_change: 1,
            record: NO_RECORD,
        }
    }

    /// Changes are those of a client with this random number. Another program that uses the same
    /// peer has another one.
    pub fn for_changes(mut self, client: u64) -> Self {
        self.client = client;
        self
    }

    /// Asks for something. The answer comes with `context`.
    pub fn ask(&mut self, now: Duration, mut request: Request, context: T) {
        if self.is_idle() {
            // Nothing was asked, so nothing was answered.
            (self.heard, self.pings) = (now, 0);
        }
        if let Request::Change { ticket, .. } = &mut request {
            let (client, number) = (self.client, self.next_change);
            *ticket = Ticket { client, number, oldest: 0, sent_to: 0 };
            self.next_change += 1;
        }
        self.waiting.push_back(Question { request, asked: now, context });
    }

    /// Whether nothing waits for an answer.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.questions().next().is_none()
    }

    /// The questions that were sent.
    fn questions(&self) -> impl Iterator<Item = (u32, &Question<T>)> {
        self.in_flight.iter().filter_map(|(&number, asked)| match asked {
            Asked::Question(question) => Some((number, question)),
            Asked::GivenUp | Asked::Ping => None,
        })
    }

    fn pings_in_flight(&self) -> usize {
        self.in_flight.values().filter(|asked| matches!(asked, Asked::Ping)).count()
    }

    /// Whether the server sends nothing.
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// What to do now. [`Want::Nothing`]: until something else is asked.
    pub fn next(&mut self, now: Duration) -> Want {
        if let Some(number) = self.forget.take() {
            return Want::Forget(number);
        }
        if self.is_idle() {
            return Want::Nothing;
        }
        if now < self.not_before {
            return Want::Wait(self.not_before.min(self.deadline()));
        }
        let mut until = self.deadline();
        if !self.in_flight.is_empty() {
            let ping = self.ping_at();
            if ping <= now {
                (self.pings, self.pinged, self.after_loss) = (self.pings + 1, now, false);
                if let Some(number) = self.number(u32::MAX) {
                    if self.pings_in_flight() >= MOST_PINGS {
                        self.drop_ping();
                    }
                    self.in_flight.insert(number, Asked::Ping);
                    let message = Request::Ping.encode(number);
                    return Want::Send(Outgoing { number, message });
                }
            }
            until = until.min(self.ping_at());
        }
        if self.in_flight.len() - self.pings_in_flight() < WINDOW
            && self.waiting.front().is_some_and(|question| self.is_kept(question))
            && let Some(number) = self.number(u32::MAX - RESERVED)
            && let Some(mut question) = self.waiting.pop_front()
        {
            let oldest = self.oldest_change();
            if let Request::Change { ticket, .. } = &mut question.request {
                ticket.oldest = oldest.unwrap_or(ticket.number).min(ticket.number);
            }
            let message = question.request.encode(number);
            if let Request::Change { ticket: Ticket { sent_to: sent_to @ 0, .. }, .. } =
                &mut question.request
            {
                // From now on it may have been carried out.
                *sent_to = self.record;
            }
            self.in_flight.insert(number, Asked::Question(question));
            return Want::Send(Outgoing { number, message });
        }
        Want::Wait(until)
    }

    /// The oldest change that waits for an answer.
    fn oldest_change(&self) -> Option<u64> {
        let asked = self.questions().map(|(_, question)| question).chain(&self.waiting);
        asked.filter_map(|question| Some(question.ticket()?.number)).min()
    }

    /// Whether the server will keep the answer to this until it is not asked for again.
    fn is_kept(&self, question: &Question<T>) -> bool {
        match (question.ticket(), self.oldest_change()) {
            (Some(ticket), Some(oldest)) => ticket.number - oldest < MOST_CHANGES,
            _ => true,
        }
    }

    /// A question that got no answer in time.
    pub fn failed(&mut self, now: Duration) -> Option<(T, Fault)> {
        if self.is_idle() {
            return None;
        }
        self.silent |= self.heard + self.patience <= now;
        let limit = self.limit();
        let late = |question: &Question<T>| question.asked + limit <= now;
        if let Some(at) = self.waiting.iter().position(late) {
            return Some((self.waiting.remove(at)?.context, Fault::Silent));
        }
        let (number, _) = self.questions().find(|(_, question)| late(question))?;
        match self.in_flight.insert(number, Asked::GivenUp)? {
            Asked::Question(question) => Some((question.context, Fault::Silent)),
            Asked::GivenUp | Asked::Ping => None,
        }
    }

    /// A reply has arrived. Returns what it answers.
    pub fn reply<'a>(
        &mut self,
        now: Duration,
        number: u32,
        message: &'a [u8],
    ) -> Option<(T, Result<Reply<'a>, Fault>)> {
        let asked = self.in_flight.remove(&number)?;
        (self.heard, self.pings, self.silent) = (now, 0, false);
        let reply = Reply::decode(message).map_err(|_| Fault::Nonsense);
        let question = match asked {
            Asked::Question(question) => question,
            Asked::GivenUp => return None,
            Asked::Ping => {
                // The server answers in order: what it has not answered before this is lost.
                self.forget = self.forget.max(Some(number));
                return None;
            }
        };
        match reply {
            Ok(Reply::Failed(Fault::Busy)) => {
                self.not_before = now + TRY_EVERY;
                self.waiting.push_front(question);
                None
            }
            Ok(Reply::Failed(fault)) => Some((question.context, Err(fault))),
            Ok(Reply::Changed(changed)) => {
                self.record = changed.record;
                Some((question.context, Ok(Reply::Changed(changed))))
            }
            reply => Some((question.context, reply)),
        }
    }

    /// A request, or the reply to it, was lost.
    pub fn unanswered(&mut self, number: u32) {
        if let Some(Asked::Question(question)) = self.in_flight.remove(&number) {
            self.waiting.push_front(question);
        }
    }

    /// The server was lost: no request for a moment, and then the question what is left.
    pub fn lost(&mut self, now: Duration) {
        self.not_before = now + TRY_EVERY;
        (self.pings, self.after_loss) = (0, true);
    }

    /// How long a question may wait.
    fn limit(&self) -> Duration {
        match self.silent {
            true => self.patience.min(WHILE_SILENT),
            false => self.patience * WHILE_ALIVE,
        }
    }

    /// When the first question is given up.
    fn deadline(&self) -> Duration {
        let asked = self.questions().map(|(_, question)| question).chain(&self.waiting);
        let Some(first) = asked.map(|question| question.asked).min() else { return Duration::MAX };
        let late = first + self.limit();
        if self.silent { late } else { late.min(self.heard + self.patience) }
    }

    /// The oldest one of these is not counted any more.
    fn drop_ping(&mut self) {
        let mut asked = self.in_flight.iter();
        let ping = asked.find(|(_, asked)| matches!(asked, Asked::Ping)).map(|(&n, _)| n);
        ping.and_then(|number| self.in_flight.remove(&number));
    }

    /// When the other end is asked whether it is there: later each time, since questions or answers
    /// may be lost, and soon after a session was lost, since other replies may be lost with it.
    fn ping_at(&self) -> Duration {
        let wait = ASK_AFTER * (1 << self.pings.min(5));
        match self.after_loss {
            true => self.not_before.saturating_sub(ASK_AFTER) + wait,
            false if self.pings_in_flight() < MOST_PINGS => self.heard.max(self.pinged) + wait,
            false => self.pinged + RARELY,
        }
    }

    /// A number for a request. None is used twice while a reply to it may come: before the numbers
    /// begin again, all others have been answered or are lost.
    fn number(&mut self, end: u32) -> Option<u32> {
        if self.next_number >= end {
            if !self.in_flight.is_empty() {
                return None;
            }
            self.next_number = 1;
        }
        let number = self.next_number;
        self.next_number += 1;
        Some(number)
    }
}
