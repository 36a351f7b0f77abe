//! The library's own endpoints as hosts that carry messages of any length.
//!
//! A message of an endpoint has at most a frame. So a longer one is sent as a train of messages,
//! each with the number and the length of the whole in front. They arrive in order.

use gigae::{OpenError, Options};
use gigae_network::real::Real;
use gigae_network::workload::{Framing, Message, MessageHost};
use gigae_network::{Context, Frame, Host, PortId, Trace};
use std::collections::HashMap;
use std::io::{self, Write};

/// Bytes of a full frame, from address to checksum.
const FULL: u32 = 1_518;
/// Bytes of the number and of the length in each message of a train.
const LABEL: usize = 8;

/// An endpoint.
pub(super) struct LibraryHost {
    real: Real,
    /// Bytes of a message that fills a frame.
    payload: u32,
    /// Bytes that are missing of messages that have begun to arrive.
    missing: HashMap<u32, u32>,
}

impl LibraryHost {
    /// So many endpoints, and how they cut messages into frames.
    pub(super) fn hosts(
        count: u32,
        seed: u64,
        shared_credit: bool,
    ) -> Result<(Vec<Self>, Framing), OpenError> {
        let options = |options: Options| options.shared_credit(shared_credit);
        let hosts = Real::hosts(count, seed as u32, options)?;
        let payload = hosts[0].endpoint().max_message() as u32;
        let host = |real| Self { real, payload, missing: HashMap::new() };
        let framing = Framing { payload, header: FULL - payload };
        Ok((hosts.into_iter().map(host).collect(), framing))
    }

    /// Begins a capture file with whole frames.
    pub(super) fn trace(
        out: Box<dyn Write + Send>,
        ports: &[PortId],
    ) -> io::Result<Trace<Vec<u8>>> {
        Real::trace(out, ports)
    }

    /// Sees to what the endpoint has received.
    fn take_received(&mut self, context: &mut Context<'_>) {
        for (_, _, bytes) in self.real.received.drain(..) {
            let word = |at: usize| {
                let word = bytes[at..at + 4].first_chunk().expect("a label");
                u32::from_be_bytes(*word)
            };
            let (number, length) = (word(0), word(4));
            let missing = self.missing.entry(number).or_insert(length);
            *missing = missing.saturating_sub(bytes.len() as u32);
            if *missing == 0 {
                self.missing.remove(&number);
                context.complete(number);
            }
        }
    }
}

impl Host for LibraryHost {
    type Payload = Vec<u8>;

    fn receive(&mut self, frame: Frame<Vec<u8>>, context: &mut Context<'_>) {
        self.real.receive(frame, context);
        self.take_received(context);
    }

    fn timer(&mut self, token: u64, context: &mut Context<'_>) {
        self.real.timer(token, context);
        self.take_received(context);
    }

    fn next_frame(&mut self, context: &mut Context<'_>) -> Option<Frame<Vec<u8>>> {
        self.real.next_frame(context)
    }
}

impl MessageHost for LibraryHost {
    fn send(&mut self, number: u32, message: &Message, context: &mut Context<'_>) {
        let mut left = message.length;
        while left > 0 {
            let bytes = left.min(self.payload);
            let mut train = vec![0; (bytes as usize).max(LABEL)];
            train[..4].copy_from_slice(&number.to_be_bytes());
            train[4..LABEL].copy_from_slice(&message.length.to_be_bytes());
            self.real.send(message.destination, train, context);
            left -= bytes;
        }
        self.take_received(context);
    }
}
