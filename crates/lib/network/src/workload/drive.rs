//! Runs traffic on a network.

use super::{Message, Traffic};
use crate::{Context, Host, Network, Time};

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
/// If a message begins before the network's time, or if what follows from a message does not begin
/// when that has arrived.
pub fn drive<H: MessageHost>(
    network: &mut Network<H>,
    traffic: &mut impl Traffic,
    limit: Time,
) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let (mut completions, mut more) = (Vec::new(), Vec::new());
    let mut next = traffic.next();
    let mut open = 0usize;
    loop {
        let until = next.map_or(limit, |message| message.at.min(limit));
        if network.run(until) {
            network.take_completions(&mut completions);
            for done in completions.drain(..) {
                let record = &mut records[done.message as usize];
                assert_eq!(record.completed, Time::NEVER, "a message completes once");
                record.completed = done.at;
                open -= 1;
                let message = record.message;
                traffic.completed(done.message, &message, done.at, &mut more);
                for message in more.drain(..) {
                    start(network, &mut records, message);
                    open += 1;
                }
            }
            if next.is_none() && open == 0 {
                break;
            }
            continue;
        }
        match next.take() {
            Some(message) if message.at <= limit => {
                start(network, &mut records, message);
                open += 1;
                next = traffic.next();
            }
            // No event is left, or none before the limit.
            _ => break,
        }
    }
    records
}

/// Begins a message now.
fn start<H: MessageHost>(network: &mut Network<H>, records: &mut Vec<Record>, message: Message) {
    assert_eq!(message.at, network.now(), "a message begins at its time");
    let number = u32::try_from(records.len()).expect("fewer than 2^32 messages");
    records.push(Record { message, completed: Time::NEVER });
    network.call(message.source, |host, context| host.send(number, &message, context));
}
