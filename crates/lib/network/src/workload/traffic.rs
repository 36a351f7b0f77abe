//! Which messages begin when.

use super::{Framing, Lengths};
use crate::{HostId, Rate, Time, Topology};
use oorandom::Rand64;
use std::f64::consts::LN_2;

/// A message from host to host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When it begins.
    pub at: Time,
    /// The sender.
    pub source: HostId,
    /// The receiver.
    pub destination: HostId,
    /// Bytes.
    pub length: u32,
    /// What the traffic wants to know when the message has arrived.
    pub tag: u64,
}

/// A source of messages.
pub trait Traffic {
    /// The next message that begins by itself. Times ascend.
    fn next(&mut self) -> Option<Message>;

    /// A message has arrived as a whole. `number` counts messages in the order in which they were
    /// sent. What follows from it begins now: push it to `more`.
    fn completed(&mut self, number: u32, message: &Message, at: Time, more: &mut Vec<Message>) {
        let _ = (number, message, at, more);
    }
}

/// Messages that begin at random, independent of each other, between random pairs of hosts.
#[derive(Debug)]
pub struct Poisson {
    hosts: u32,
    lengths: Lengths,
    /// The mean time between two messages, of all hosts together.
    spacing: f64,
    at: f64,
    left: u32,
    random: Rand64,
}

impl Poisson {
    /// `count` messages that load each host's link to a part `load` of its rate in each direction:
    /// their bytes on the wire with all headers, but no acknowledgements or grants.
    pub fn new(
        topology: &Topology,
        framing: Framing,
        lengths: Lengths,
        load: f64,
        count: u32,
        seed: u64,
    ) -> Self {
        let hosts = topology.hosts();
        assert!(hosts > 1, "a message needs two hosts");
        let rate: Rate = topology.host_rate();
        let picoseconds_per_byte = 8e12 / rate.bits_per_second();
        let bytes = lengths.mean_of(|length| framing.wire_bytes(length) as f64);
        let spacing = bytes * picoseconds_per_byte / load / f64::from(hosts);
        let random = Rand64::new(u128::from(seed));
        Self { hosts, lengths, spacing, at: 0.0, left: count, random }
    }
}

impl Traffic for Poisson {
    fn next(&mut self) -> Option<Message> {
        self.left = self.left.checked_sub(1)?;
        // `rand_float` is below 1, so the logarithm is finite.
        self.at -= self.spacing * logarithm(1.0 - self.random.rand_float());
        let hosts = u64::from(self.hosts);
        let source = self.random.rand_range(0..hosts) as u32;
        let other = self.random.rand_range(0..hosts - 1) as u32;
        let destination = other + u32::from(other >= source);
        let length = self.lengths.sample(&mut self.random);
        Some(Message { at: Time(self.at as u64), source, destination, length, tag: 0 })
    }
}

/// The natural logarithm, by arithmetic alone. The one of the system's library may differ in its
/// last bit from machine to machine, and a run with it.
fn logarithm(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let mantissa = f64::from_bits((bits & (u64::MAX >> 12)) | (1023 << 52));
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    // The series of the inverse hyperbolic tangent; the ratio is at most a third.
    let (mut term, mut sum) = (ratio, 0.0);
    for odd in (1..40).step_by(2) {
        sum += term / f64::from(odd);
        term *= square;
    }
    2.0 * sum + exponent as f64 * LN_2
}

/// Hosts 1 to `senders` send one message each to host 0 at time zero.
#[derive(Clone, Debug)]
pub struct Incast {
    senders: u32,
    length: u32,
    next: u32,
}

impl Incast {
    /// So many senders, so many bytes each.
    pub fn new(senders: u32, length: u32) -> Self {
        Self { senders, length, next: 0 }
    }
}

impl Traffic for Incast {
    fn next(&mut self) -> Option<Message> {
        self.next += 1;
        let (source, destination, length) = (self.next, 0, self.length);
        let message = Message { at: Time::ZERO, source, destination, length, tag: 0 };
        (source <= self.senders).then_some(message)
    }
}

/// Every host sends one message to each other host at time zero: first to the next host, then to
/// the one after it, so that no receiver comes first for all.
#[derive(Clone, Debug)]
pub struct AllToAll {
    hosts: u32,
    length: u32,
    next: u32,
}

impl AllToAll {
    /// So many hosts, so many bytes for each pair and direction.
    pub fn new(hosts: u32, length: u32) -> Self {
        Self { hosts, length, next: 0 }
    }
}

impl Traffic for AllToAll {
    fn next(&mut self) -> Option<Message> {
        let (step, source) = (self.next / self.hosts + 1, self.next % self.hosts);
        self.next += 1;
        let destination = (source + step) % self.hosts;
        let message = Message { at: Time::ZERO, source, destination, length: self.length, tag: 0 };
        (step < self.hosts).then_some(message)
    }
}

/// A reduction over a ring: each host has `bytes` and sends a part of them, an `n`th, to the next
/// host in each of `2 (n - 1)` steps. It begins a step when it has what the step before sent to it.
#[derive(Clone, Debug)]
pub struct RingAllreduce {
    hosts: u32,
    part: u32,
    next: u32,
}

impl RingAllreduce {
    /// So many hosts, so many bytes at each.
    pub fn new(hosts: u32, bytes: u32) -> Self {
        assert!(hosts > 1, "a ring has at least two hosts");
        Self { hosts, part: bytes.div_ceil(hosts), next: 0 }
    }

    fn message(&self, at: Time, source: HostId, step: u64) -> Message {
        let destination = (source + 1) % self.hosts;
        Message { at, source, destination, length: self.part, tag: step }
    }
}

impl Traffic for RingAllreduce {
    fn next(&mut self) -> Option<Message> {
        self.next += 1;
        let source = self.next - 1;
        (source < self.hosts).then(|| self.message(Time::ZERO, source, 1))
    }

    fn completed(&mut self, _number: u32, message: &Message, at: Time, more: &mut Vec<Message>) {
        if message.tag < 2 * (u64::from(self.hosts) - 1) {
            more.push(self.message(at, message.destination, message.tag + 1));
        }
    }
}

/// Requests of other traffic, each with a response of the same length: remote procedure calls.
///
/// Only the messages that begin by themselves ([`Traffic::next`]) are requests. The other traffic
/// does not learn what has arrived, and its tags are lost: a request has tag 0, and its response
/// the request's number plus 1.
#[derive(Clone, Debug)]
pub struct Echo<T>(pub T);

impl<T> Echo<T> {
    /// The request's number, if the message is a response.
    pub fn request_of(message: &Message) -> Option<u32> {
        message.tag.checked_sub(1).map(|number| number as u32)
    }
}

impl<T: Traffic> Traffic for Echo<T> {
    fn next(&mut self) -> Option<Message> {
        Some(Message { tag: 0, ..self.0.next()? })
    }

    fn completed(&mut self, number: u32, message: &Message, at: Time, more: &mut Vec<Message>) {
        if message.tag == 0 {
            let (source, destination) = (message.destination, message.source);
            let tag = u64::from(number) + 1;
            more.push(Message { at, source, destination, length: message.length, tag });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_right() {
        for x in [1e-18, 1e-9, 0.1, 0.3, 0.5, 0.999, 1.0, 2.5] {
            assert!((logarithm(x) - f64::ln(x)).abs() < 1e-12 * (1.0 + f64::ln(x).abs()), "{x}");
        }
    }

    #[test]
    fn every_pair_once() {
        let mut traffic = AllToAll::new(5, 100);
        let mut pairs = Vec::new();
        while let Some(message) = traffic.next() {
            pairs.push((message.source, message.destination));
        }
        assert_eq!(pairs[..5], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]);
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 20);
        assert!(pairs.iter().all(|(from, to)| from != to));
    }
}
