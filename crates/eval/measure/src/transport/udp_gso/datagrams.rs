//! Messages that are a datagram each.

use super::Trains;
use crate::channel::{Calls, Channel, ReceivedMessage, Slept, TransportError};
use crate::transport::common::{message, read, try_again};
use gigae_eval_model::note::Note;
use std::io::{IoSlice, Read};

/// More than the kernel joins: it makes no IP packet longer than 65,535 B.
const JOINED: usize = 1 << 16;

pub(super) struct Datagrams {
    trains: Trains,
    size: usize,
    /// The next train, and how much of it is written.
    outgoing: Vec<u8>,
    filled: usize,
    /// The last train that came: what of it was not looked at yet.
    incoming: Vec<u8>,
    rest: std::ops::Range<usize>,
}

impl Datagrams {
    pub(super) fn new(trains: Trains, size: usize) -> Self {
        let outgoing = message(size).repeat(trains.longest());
        Self { trains, size, outgoing, filled: 0, incoming: vec![0; JOINED], rest: 0..0 }
    }

    /// Sends what is written; `false` if there is no room now.
    fn push(&mut self) -> Result<bool, TransportError> {
        if self.filled > 0 {
            if !self.trains.send(&[IoSlice::new(&self.outgoing[..self.filled])])? {
                return Ok(false);
            }
            self.filled = 0;
        }
        Ok(true)
    }

    /// Receives a train, if there is one.
    fn refill(&mut self) -> Result<(), TransportError> {
        self.trains.ask();
        match self.trains.socket.read(&mut self.incoming) {
            Ok(bytes) => {
                self.trains.received(bytes)?;
                self.rest = 0..bytes;
                Ok(())
            }
            Err(error) if try_again(&error) => Ok(()),
            Err(error) => Err(TransportError::io("receiving by UDP with GRO")(error)),
        }
    }
}

impl Channel for Datagrams {
    fn send(&mut self, number: u32, size: usize) -> Result<bool, TransportError> {
        if self.filled == self.outgoing.len() && !self.push()? {
            return Ok(false);
        }
        self.outgoing[self.filled..self.filled + 4].copy_from_slice(&number.to_le_bytes());
        self.filled += size;
        if self.filled == self.outgoing.len() {
            self.push()?;
        }
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.push().map(drop)
    }

    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
        self.trains.slept = Slept::No;
        if self.rest.is_empty() {
            // What found no room when it was flushed.
            self.push()?;
            self.refill()?;
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let datagram = self.rest.start..self.rest.start + self.size;
        self.rest.start = datagram.end;
        let number = read(&self.incoming[datagram]).unwrap_or(0);
        Ok(Some(ReceivedMessage { number, bytes: self.size }))
    }

    fn slept(&self) -> Slept {
        self.trains.slept
    }

    fn settled(&mut self) -> Result<bool, TransportError> {
        self.push()
    }

    fn calls(&self) -> Calls {
        self.trains.calls
    }

    fn note(&mut self) -> Option<Note> {
        Some(self.trains.note())
    }
}
