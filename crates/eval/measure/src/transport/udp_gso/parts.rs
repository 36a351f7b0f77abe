//! Messages that are longer than a datagram.
//!
//! At both ends, messages lie in memories that take turns: a ring of slots, each with room for a
//! part, and a fixed number of slots for each message. Nothing is copied: the kernel gathers
//! headers and parts, and scatters them at the receiver to where the next parts belong. If others
//! came, because some were lost, they are moved.

use super::{TRAIN, Trains};
use crate::channel::{Calls, Channel, ReceivedMessage, Slept, TransportError};
use crate::transport::common::{ahead, message, read, try_again};
use gigae_eval_model::note::Note;
use gigae_eval_model::transport::PART_HEADER;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut, Read};

/// Numbers of the message and of the part within it.
type Header = [u8; PART_HEADER];

fn header(number: u32, part: u32) -> Header {
    (u64::from(part) << 32 | u64::from(number)).to_le_bytes()
}

fn numbers(header: Header) -> (u32, u32) {
    let both = u64::from_le_bytes(header);
    (both as u32, (both >> 32) as u32)
}

pub(super) struct Parts {
    trains: Trains,
    outgoing: Outgoing,
    incoming: Assembly,
    arrived: VecDeque<ReceivedMessage>,
}

/// Messages on their way to the kernel.
struct Outgoing {
    memory: Vec<u8>,
    /// Bytes of a slot, and slots of a message.
    part: usize,
    parts: usize,
    /// The slots' headers, once they are written.
    headers: Vec<Header>,
    /// The next slot to be sent, and how many are waiting.
    first: usize,
    waiting: usize,
}

impl Outgoing {
    fn new(size: usize, part: usize) -> Self {
        let (turns, parts) = (ahead(size), size.div_ceil(part));
        let memory = message(parts * part).repeat(turns);
        Self {
            memory,
            part,
            parts,
            headers: vec![Header::default(); turns * parts],
            first: 0,
            waiting: 0,
        }
    }

    /// Writes a message; `false` if there is no room.
    fn write(&mut self, number: u32) -> bool {
        let slots = self.headers.len();
        if self.waiting + self.parts > slots {
            return false;
        }
        let start = (self.first + self.waiting) % slots;
        self.memory[start * self.part..][..4].copy_from_slice(&number.to_le_bytes());
        for (part, place) in self.headers[start..start + self.parts].iter_mut().enumerate() {
            *place = header(number, part as u32);
        }
        self.waiting += self.parts;
        true
    }

    /// The next train, of `most` datagrams at most.
    fn train(&self, most: usize) -> Vec<IoSlice<'_>> {
        let (before, from) = self.memory.split_at(self.first * self.part);
        let slots = from.chunks(self.part).chain(before.chunks(self.part));
        let headers = self.headers[self.first..].iter().chain(&self.headers[..self.first]);
        let pieces = headers.zip(slots).take(self.waiting.min(most));
        pieces.flat_map(|(header, part)| [IoSlice::new(header), IoSlice::new(part)]).collect()
    }

    fn sent(&mut self, datagrams: usize) {
        self.first = (self.first + datagrams) % self.headers.len();
        self.waiting -= datagrams;
    }
}

/// Puts messages together.
pub(super) struct Assembly {
    size: usize,
    memory: Vec<u8>,
    part: usize,
    parts: usize,
    /// Headers of the last train.
    headers: [Header; TRAIN],
    /// Where the next part belongs, and of which message it is unless it is the first.
    slot: usize,
    number: u32,
}

impl Assembly {
    pub(super) fn new(size: usize, part: usize) -> Self {
        let parts = size.div_ceil(part);
        let memory = vec![0; ahead(size) * parts * part];
        let headers = [Header::default(); TRAIN];
        Self { size, memory, part, parts, headers, slot: 0, number: 0 }
    }

    /// Where the next train belongs.
    pub(super) fn room(&mut self) -> Vec<IoSliceMut<'_>> {
        let (before, from) = self.memory.split_at_mut(self.slot * self.part);
        let slots = from.chunks_mut(self.part).chain(before.chunks_mut(self.part));
        let pieces = self.headers.iter_mut().zip(slots);
        pieces.flat_map(|(header, part)| [IoSliceMut::new(header), IoSliceMut::new(part)]).collect()
    }

    /// `datagrams` datagrams came into the room. Gives each message that is complete now.
    pub(super) fn take(&mut self, datagrams: usize, mut complete: impl FnMut(ReceivedMessage)) {
        let slots = self.memory.len() / self.part;
        let came = self.slot;
        for i in 0..datagrams {
            let (number, part) = numbers(self.headers[i]);
            let next = self.slot % self.parts;
            if part as usize != next || (next > 0 && number != self.number) {
                // Something is missing: the present message never becomes complete.
                self.slot -= next;
                if part != 0 {
                    continue;
                }
            }
            let from = (came + i) % slots * self.part;
            if from != self.slot * self.part {
                self.memory.copy_within(from..from + self.part, self.slot * self.part);
            }
            self.number = number;
            self.slot += 1;
            if self.slot.is_multiple_of(self.parts) {
                let start = (self.slot - self.parts) * self.part;
                read(&self.memory[start..start + self.size]);
                complete(ReceivedMessage { number, bytes: self.size });
            }
            self.slot %= slots;
        }
    }
}

impl Parts {
    pub(super) fn new(trains: Trains, size: usize, part: usize) -> Self {
        let (outgoing, incoming) = (Outgoing::new(size, part), Assembly::new(size, part));
        Self { trains, outgoing, incoming, arrived: VecDeque::new() }
    }

    /// Sends what is written, or all that makes whole trains; `false` if there is no room now.
    fn push(&mut self, all: bool) -> Result<bool, TransportError> {
        let most = self.trains.longest();
        let least = if all { 1 } else { most };
        while self.outgoing.waiting >= least {
            let train = self.outgoing.train(most);
            let datagrams = train.len() / 2;
            if !self.trains.send(&train)? {
                return Ok(false);
            }
            self.outgoing.sent(datagrams);
        }
        Ok(true)
    }

    fn refill(&mut self) -> Result<(), TransportError> {
        self.trains.ask();
        let got = self.trains.socket.read_vectored(&mut self.incoming.room());
        match got {
            Ok(bytes) => {
                let datagrams = self.trains.received(bytes)?;
                self.incoming.take(datagrams, |arrival| self.arrived.push_back(arrival));
                Ok(())
            }
            Err(error) if try_again(&error) => Ok(()),
            Err(error) => Err(TransportError::io("receiving by UDP with GRO")(error)),
        }
    }
}

impl Channel for Parts {
    fn send(&mut self, number: u32, _size: usize) -> Result<bool, TransportError> {
        if !self.push(false)? || !self.outgoing.write(number) {
            return Ok(false);
        }
        self.push(false)?;
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.push(true).map(drop)
    }

    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
        self.trains.slept = Slept::No;
        if self.arrived.is_empty() {
            // What found no room when it was flushed.
            self.push(true)?;
            self.refill()?;
        }
        Ok(self.arrived.pop_front())
    }

    fn slept(&self) -> Slept {
        self.trains.slept
    }

    fn settled(&mut self) -> Result<bool, TransportError> {
        self.push(true)
    }

    fn calls(&self) -> Calls {
        self.trains.calls
    }

    fn note(&mut self) -> Option<Note> {
        Some(self.trains.note())
    }
}
