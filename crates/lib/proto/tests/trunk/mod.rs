//! Nodes with several links each, and a stream of messages between two of them.
#![allow(dead_code, missing_docs, unreachable_pub)]

use crate::world::{World, micros, quiet};
use gigae_proto::{ProtocolConfig, Unsent};
use gigae_sim::Faults;
use std::time::Duration;

/// Bytes per second of a Gigabit Ethernet.
pub const GIGABIT: u64 = 125_000_000;

/// Bytes of a message in these tests, and of the frame that carries it.
pub const MESSAGE: usize = 1400;
pub const FRAME: usize = 14 + 32 + MESSAGE;

pub fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Windows as the library sets them for `links` links.
pub fn config(links: usize) -> ProtocolConfig {
    let window = u16::try_from((256 * links).next_power_of_two().min(1024)).unwrap();
    ProtocolConfig {
        send_window: window,
        receive_window: window,
        reorder_window: window,
        ..ProtocolConfig::default()
    }
}

pub fn trunk(links: usize, seed: u64) -> World {
    World::with_links(&[links, links], seed, quiet(), &config(links))
}

/// Gives the links of both nodes kinds of their own.
pub fn kinds(w: &mut World, faults: &[Faults]) {
    for node in &w.nodes {
        for (&(port, _), faults) in node.links.iter().zip(faults) {
            w.net.set_port_faults(port, *faults);
        }
    }
}

/// A link of this rate with a delay of 20 us.
pub fn link(rate: u64) -> Faults {
    Faults { rate, delay: micros(20), ..Faults::default() }
}

/// Cuts the links of this number at the first node.
pub fn cut(w: &World, path: usize, cut: bool) {
    w.net.cut(w.nodes[0].links[path].0, cut, cut);
}

/// A stream of numbered messages from the first node to the second, which are checked as they come.
pub struct Stream {
    pub sent: u32,
    pub got: usize,
    /// Longest time between two arrivals.
    pub pause: Duration,
    pub last: u64,
}

impl Stream {
    pub fn new(w: &World) -> Self {
        Self { sent: 0, got: w.nodes[1].received.len(), pause: Duration::ZERO, last: w.net.now() }
    }

    pub fn push(&mut self, w: &mut World) {
        let mut message = vec![0; MESSAGE];
        loop {
            message[..4].copy_from_slice(&self.sent.to_be_bytes());
            match w.try_send(0, 1, &message) {
                Ok(()) => self.sent += 1,
                Err(Unsent::WouldBlock(_)) => return,
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    /// Lets messages flow for so long.
    pub fn flow(&mut self, w: &mut World, time: Duration) {
        let end = w.now() + time;
        while w.now() < end {
            self.push(w);
            self.step(w);
        }
    }

    pub fn step(&mut self, w: &mut World) {
        w.run(micros(100));
        let (now, received) = (w.net.now(), w.nodes[1].received.len());
        if received > self.got {
            self.pause = self.pause.max(Duration::from_nanos(now - self.last));
            (self.last, self.got) = (now, received);
        }
    }

    /// Everything that was sent arrives, once and in order.
    pub fn end(mut self, w: &mut World) -> Duration {
        let limit = w.now() + Duration::from_secs(20);
        while w.nodes[0].proto.has_unacknowledged() {
            self.step(w);
            assert!(w.now() < limit, "{} of {} came in time", self.got, self.sent);
        }
        let number = |message: &[u8]| u32::from_be_bytes(*message.first_chunk().expect("a number"));
        let wrong = w.nodes[1].received.iter().zip(0..).find(|((_, m), n)| number(m) != *n);
        assert!(wrong.is_none(), "in order: {:?}", wrong.map(|((_, m), n)| (number(m), n)));
        assert_eq!(w.nodes[1].received.len(), self.sent as usize, "each once");
        assert!(w.nodes[0].failed.is_empty());
        self.pause
    }
}

/// The part of what these links carry together that messages get, once that has settled.
pub fn share(rates: &[u64]) -> f64 {
    let mut w = trunk(rates.len(), 1);
    kinds(&mut w, &rates.iter().map(|&rate| link(rate)).collect::<Vec<_>>());
    let mut stream = Stream::new(&w);
    stream.flow(&mut w, millis(50));
    let (before, began) = (stream.got, w.net.now());
    stream.flow(&mut w, millis(200));
    let bytes = (stream.got - before) * FRAME;
    let seconds = (w.net.now() - began) as f64 / 1e9;
    stream.end(&mut w);
    bytes as f64 / seconds / rates.iter().sum::<u64>() as f64
}
