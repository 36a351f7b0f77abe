//! Runs traffic on a network.

use super::{Message, Traffic};
use crate::{Completion, Context, Host, Network, Time};

/// A protocol that carries messages. It calls [`Context::complete`] at the receiver.
pub trait MessageHost: Host {
    /// Begins to send a message. Its source is this host.
    fn send(&mut self, number: u32, message: &Message, context: &mut Context<'_>);
}

/// A message and when it had arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The message.
    pub message: Message,
    /// When it had arrived as a whole, or [`Time::NEVER`].
    pub completed: Time,
}

/// Sends all messages of the traffic, and lets time pass until all have arrived, nothing more
/// happens, or `limit`. Returns all messages, in the order of their numbers.
///
/// # Panics
/// As [`Drive::advance`].
pub fn drive<H: MessageHost>(
    network: &mut Network<H>,
    traffic: &mut impl Traffic,
    limit: Time,
) -> Vec<Record> {
    let mut drive = Drive::new(traffic);
    drive.advance(network, limit);
    drive.into_records()
}

/// Traffic that is on its way: [`drive`] in steps, so that the caller can look at the network in
/// between, or end early. The steps do not change the run.
pub struct Drive<'a, T> {
    traffic: &'a mut T,
    records: Vec<Record>,
    /// The message that begins next.
    next: Option<Message>,
    /// Messages that have begun and not arrived.
    open: usize,
    completions: Vec<Completion>,
    more: Vec<Message>,
}

impl<'a, T: Traffic> Drive<'a, T> {
    /// Traffic that has not begun.
    pub fn new(traffic: &'a mut T) -> Self {
        let next = traffic.next();
        let (records, completions, more) = Default::default();
        Self { traffic, records, next, open: 0, completions, more }
    }

    /// Lets time pass until all messages have arrived, nothing more happens, or `until`. Returns
    /// whether all have arrived.
    ///
    /// # Panics
    /// If a message begins before the network's time, or if what follows from a message does not
    /// begin when that has arrived.
    pub fn advance<H: MessageHost>(&mut self, network: &mut Network<H>, until: Time) -> bool {
        loop {
            if self.next.is_none() && self.open == 0 {
                return true;
            }
            let stop = self.next.map_or(until, |message| message.at.min(until));
            if network.run(stop) {
                self.complete(network);
                continue;
            }
            match self.next {
                Some(message) if message.at <= until => {
                    self.start(network, message);
                    self.next = self.traffic.next();
                }
                // No event is left, or none before the end of this step.
                _ => return false,
            }
        }
    }

    /// The messages that have begun so far, in the order of their numbers.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The same, at the end.
    pub fn into_records(self) -> Vec<Record> {
        self.records
    }

    /// Sees to messages that have arrived.
    fn complete<H: MessageHost>(&mut self, network: &mut Network<H>) {
        let mut completions = std::mem::take(&mut self.completions);
        network.take_completions(&mut completions);
        for done in completions.drain(..) {
            let record = &mut self.records[done.message as usize];
            assert_eq!(record.completed, Time::NEVER, "a message completes once");
            record.completed = done.at;
            self.open -= 1;
            let (message, mut more) = (record.message, std::mem::take(&mut self.more));
            self.traffic.completed(done.message, &message, done.at, &mut more);
            for message in more.drain(..) {
                self.start(network, message);
            }
            self.more = more;
        }
        self.completions = completions;
    }

    /// Begins a message now.
    fn start<H: MessageHost>(&mut self, network: &mut Network<H>, message: Message) {
        assert_eq!(message.at, network.now(), "a message begins at its time");
        let number = u32::try_from(self.records.len()).expect("fewer than 2^32 messages");
        self.records.push(Record { message, completed: Time::NEVER });
        self.open += 1;
        network.call(message.source, |host, context| host.send(number, &message, context));
    }
}
