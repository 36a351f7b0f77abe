//! What both ends have said, put in the order of time and told to the checker of `gigae-torture`.

use crate::event::{Event, Taken, What};
use gigae_torture::body::{self, Id};
use gigae_torture::{Ending, Messages, Post, Tagged, Violation, Want, tagged_body};
use std::collections::BTreeMap;

/// What came of the messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Accepted for sending.
    pub sent: u64,
    /// Arrived, each compared.
    pub delivered: u64,
    /// Tagged messages that were received, each compared.
    pub tagged: u64,
    /// Handed back, by reason.
    pub failed: BTreeMap<String, u64>,
}

/// Checks both ends' events, each in its own order. Of an end that is there to the last, the events go on
/// until everything was read, and do not include its close.
pub fn check(logs: [&[Event]; 2]) -> Result<Tally, Violation> {
    let (mut messages, mut tagged) = (Messages::new(2), Tagged::new(2));
    let mut tally = Tally::default();
    let mut steps: Vec<(u64, u16, Step)> = Vec::new();
    for (node, log) in (0..).zip(logs) {
        let timed = steps_of(node, log).into_iter();
        steps.extend(timed.map(|(at, step)| (at, node, step)));
    }
    // Stable: what one end said in the same nanosecond stays as it was said.
    steps.sort_by_key(|&(at, ..)| at);
    for (at, node, step) in steps {
        match step {
            Step::Opened => {
                messages.opened(node);
                tagged.opened(node);
            }
            Step::Gone => {
                messages.gone(node, at);
                tagged.gone(node, at);
            }
            Step::Sent(id, len) => {
                tally.sent += 1;
                messages.sent(id, len.into(), at);
            }
            Step::Received(id, len) => messages.received(id.from, node, &bytes(id, len), at)?,
            Step::Torn(len) => messages.received(1 - node, node, &vec![0; len.max(16)], at)?,
            Step::Failed(reason, failed) => {
                *tally.failed.entry(reason).or_default() += failed.len() as u64;
                let bodies: Vec<_> = failed.into_iter().map(|(id, len)| bytes(id, len)).collect();
                messages.failed(node, 1 - node, &bodies)?;
            }
            Step::Drained => messages.drained(node),
            Step::Started(id, len) => tagged.started(id, 0, len, at),
            Step::Ended(id, success) => tagged.ended(id, success)?,
            Step::Tagged(taken) => {
                let id =
                    Id { life: (taken.tag >> 48) as u16, number: taken.tag as u32, ..other(node) };
                let post = Post { index: taken.index, want: ANY, room: ROOM };
                let ending = match taken {
                    Taken { lost: true, .. } => Ending::Lost,
                    Taken { len, total, .. } if len < total => Ending::Truncated,
                    _ => Ending::Whole,
                };
                // They were compared where they arrived.
                let bytes = tagged_body(id, taken.total);
                let (lens, pair) = ((taken.len, taken.total), (1 - node, node));
                tagged.received(pair, post, taken.tag, lens, (&bytes, ending))?;
            }
        }
    }
    messages.settle()?;
    tagged.settle()?;
    (tally.delivered, tally.tagged) = (messages.delivered, tagged.delivered);
    Ok(tally)
}

/// What every receive wants.
const ANY: Want = Want { class: None, from: None };

/// Bytes that a receive has room for: less than the longest message.
pub const ROOM: usize = 40_000;

/// What the other end sends to this one.
fn other(node: u16) -> Id {
    Id { from: 1 - node, life: 0, to: node, number: 0 }
}

fn bytes(id: Id, len: u16) -> Vec<u8> {
    let mut bytes = vec![0; len.into()];
    body::write(id, &mut bytes);
    bytes
}

/// What the checker is told.
enum Step {
    Opened,
    Gone,
    Sent(Id, u16),
    Received(Id, u16),
    Torn(usize),
    Failed(String, Vec<(Id, u16)>),
    Drained,
    Started(Id, usize),
    Ended(Id, bool),
    Tagged(Taken),
}

/// One end's events as the checker needs them: a message is sent, at the time at which it was about to be,
/// if it was accepted then, or if nobody knows because the process was killed.
fn steps_of(node: u16, log: &[Event]) -> Vec<(u64, Step)> {
    let mut steps = Vec::new();
    let mut life: Option<u16> = None;
    for (n, Event { at, what }) in log.iter().enumerate() {
        let id = |number| Id { from: node, life: life.unwrap_or(0), to: 1 - node, number };
        let step = match what {
            What::Opened(_) => {
                life = Some(life.map_or(0, |life| life + 1));
                Step::Opened
            }
            What::Intent(first, lens) => {
                let accepted = log[n + 1..].iter().find_map(|event| match event.what {
                    What::Accepted(upto) => Some(upto),
                    What::Gone => Some(u32::MAX),
                    _ => None,
                });
                let numbers = *first..accepted.unwrap_or(u32::MAX);
                let sent = numbers.zip(lens).map(|(number, &len)| Step::Sent(id(number), len));
                steps.extend(sent.map(|step| (*at, step)));
                continue;
            }
            What::Received(id, len) => Step::Received(*id, *len),
            What::Torn(len) => Step::Torn(*len),
            What::Failed(reason, messages) => Step::Failed(reason.clone(), messages.clone()),
            What::Started(number, len) => Step::Started(id(*number), *len),
            What::Ended(number, success) => Step::Ended(id(*number), *success),
            What::Tagged(taken) => Step::Tagged(*taken),
            What::Drained => Step::Drained,
            What::Gone => Step::Gone,
            What::Accepted(_) | What::Trouble(..) | What::Well => continue,
            What::Jumped(_) | What::Counted(..) => continue,
        };
        steps.push((*at, step));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_torture::Class;

    fn log(events: &[(u64, What)]) -> Vec<Event> {
        events.iter().map(|(at, what)| Event { at: *at, what: what.clone() }).collect()
    }

    fn opened() -> What {
        What::Opened("packet".into())
    }

    fn id(number: u32) -> Id {
        Id { from: 0, life: 0, to: 1, number }
    }

    fn sender(last: u32) -> Vec<Event> {
        log(&[
            (1, opened()),
            (10, What::Intent(0, vec![16, 20, 30])),
            (11, What::Accepted(last)),
            (50, What::Drained),
        ])
    }

    #[test]
    fn what_was_accepted_and_arrived_is_counted() {
        let receiver =
            log(&[(2, opened()), (20, What::Received(id(0), 16)), (21, What::Received(id(1), 20))]);
        let tally = check([&sender(2), &receiver]).unwrap();
        assert_eq!((tally.sent, tally.delivered), (2, 2));
    }

    #[test]
    fn what_was_accepted_and_did_not_arrive_is_lost() {
        let receiver = log(&[(2, opened()), (20, What::Received(id(0), 16))]);
        assert_eq!(check([&sender(2), &receiver]).unwrap_err().class, Class::Lost);
    }

    #[test]
    fn what_was_refused_and_arrived_was_never_sent() {
        let receiver = log(&[(2, opened()), (20, What::Received(id(0), 16))]);
        assert_eq!(check([&sender(0), &receiver]).unwrap_err().class, Class::Torn);
    }

    #[test]
    fn what_a_killed_process_was_about_to_send_may_arrive() {
        let killed = log(&[(1, opened()), (10, What::Intent(0, vec![16, 20])), (12, What::Gone)]);
        for count in 0..=2 {
            let arrived = [(20, What::Received(id(0), 16)), (21, What::Received(id(1), 20))];
            let receiver = [&[(2, opened())], &arrived[..count]].concat();
            assert_eq!(check([&killed, &log(&receiver)]).unwrap().delivered, count as u64);
        }
    }

    #[test]
    fn bytes_that_nobody_sent_are_found() {
        let receiver = log(&[(2, opened()), (20, What::Torn(40))]);
        assert_eq!(check([&sender(1), &receiver]).unwrap_err().class, Class::Torn);
    }
}
