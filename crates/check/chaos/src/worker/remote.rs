//! What the workload does with memory: its own, which the other uses, and the other's.
//!
//! Each end sends the key of its memory to the other in an untagged message. It sends the key again
//! when it receives a new one, for that life of the other may not know its own.

use super::{Pending, Worker};
use crate::event::{EventKind, Operation, written};
use crate::replay::{AREA, word};
use gigae::{
    Completion, Endpoint, Label, Memory, OpError, Peer, RegionKey, Rights, Status, Wanted,
};
use gigae_torture::body::mix;
use gigae_torture::{ATOMICS, AccessEnding, Regions, WORDS};

/// Operations on the other's memory that go on at once.
const MOST_GOING: usize = 8;

/// A life and a key.
const KEY_LEN: usize = 2 + 8;

/// What is known of both memories while an endpoint is open.
#[derive(Default)]
pub(super) struct RemoteWorker {
    own: Option<RegionKey>,
    /// The other's life, and the key of its memory then.
    other: Option<(u16, RegionKey)>,
    /// The own key has to be sent.
    key_due: bool,
    awaits_key: bool,
    /// Number of the next operation.
    next: u32,
    /// What was in the words that are swapped, as far as is known.
    seen: [u64; WORDS as usize],
}

impl RemoteWorker {
    /// A new endpoint has new memory.
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        let memory = vec![0; Regions::len(2, AREA)];
        let own = endpoint.register(memory, Rights::ALL).ok();
        Self { own, key_due: true, ..Self::default() }
    }
}

impl Worker {
    /// Sends the own key to the other end, and receives its.
    pub(super) fn introduce(&mut self, endpoint: &Endpoint, peer: Peer) {
        let key = self.remote.own.map_or(0, |key| key.0);
        if !self.remote.awaits_key {
            let started = endpoint.start_recv(Wanted::UNTAGGED, vec![0; KEY_LEN]);
            self.remote.awaits_key = self.enter(started, Pending::ReceiveKey);
        }
        // After its last word nothing waits for more.
        if self.remote.key_due && self.sending {
            // What was reported until now may be needed to know this life.
            self.flush();
            let bytes = [&self.life.to_le_bytes()[..], &key.to_le_bytes()].concat();
            let started = endpoint.start_send(peer, Label::UNTAGGED, bytes);
            self.remote.key_due = !self.enter(started, Pending::SendKey);
        }
    }

    /// The own key has arrived, or has to be sent again.
    pub(super) fn key_sent(&mut self, result: Result<(), OpError>) {
        self.remote.key_due |= result.is_err();
    }

    /// A key has come.
    pub(super) fn key_received(&mut self, memory: &[u8], result: Result<(), OpError>) {
        self.remote.awaits_key = false;
        let (Ok(()), Some((life, key))) = (result, memory.split_first_chunk::<2>()) else { return };
        let (life, Some(key)) = (u16::from_le_bytes(*life), key.first_chunk()) else { return };
        let known = (life, RegionKey(u64::from_le_bytes(*key)));
        if self.remote.other != Some(known) {
            self.remote = RemoteWorker {
                other: Some(known),
                key_due: true,
                seen: Default::default(),
                ..std::mem::take(&mut self.remote)
            };
        }
    }

    /// Begins something on the other's memory now and then.
    pub(super) fn operate(&mut self, endpoint: &Endpoint, peer: Peer) {
        let Some((of, key)) = self.remote.other else { return };
        let number = self.remote.next;
        let draw = mix(self.args.seed ^ mix(u64::from(number) << 16 | u64::from(self.life)));
        if self.count(|pending| matches!(pending, Pending::Remote(..))) >= MOST_GOING {
            return;
        }
        self.remote.next += 1;
        if draw.is_multiple_of(3) {
            return;
        }
        let operation = self.operation(draw >> 8);
        self.say(EventKind::Began(number, of, operation));
        self.flush();
        let start = (ATOMICS + usize::from(self.args.me) * AREA) as u64;
        let started = match operation {
            Operation::Write(offset, len, notice) => {
                let bytes = written(self.args.me, self.life, number, len);
                let notice = notice.then_some(word(self.life, number));
                endpoint.start_write(peer, key, start + offset as u64, bytes, notice)
            }
            Operation::Read(offset, len) => {
                endpoint.start_read(peer, key, start + offset as u64, vec![0; len])
            }
            Operation::Add(word, operand) => {
                endpoint.start_fetch_add(peer, key, u64::from(word) * 8, operand)
            }
            Operation::Swap(word, expected, new) => {
                let place = u64::from(WORDS + word) * 8;
                endpoint.start_compare_swap(peer, key, place, expected, new)
            }
        };
        self.enter(started, Pending::Remote(number, of, operation));
    }

    fn operation(&self, draw: u64) -> Operation {
        // Most are short.
        let most = [16, 300, AREA][(draw >> 8) as usize % 3];
        let len = 1 + (draw >> 16) as usize % most;
        let offset = (draw >> 32) as usize % (AREA - len + 1);
        let word = (draw >> 16) as u16 % WORDS;
        match draw % 10 {
            0..=3 => Operation::Write(offset, len, draw.is_multiple_of(10)),
            4..=5 => Operation::Read(offset, len),
            6..=7 => Operation::Add(word, 1 + (draw >> 32) % 1_000),
            _ => {
                let (me, life) = (u64::from(self.args.me), u64::from(self.life));
                // Never written twice, and never 0.
                let new = life << 40 | u64::from(self.remote.next) << 1 | me;
                Operation::Swap(word, self.remote.seen[usize::from(word)], new)
            }
        }
    }

    /// An operation on the memory of that life of the other has ended.
    pub(super) fn done(
        &mut self,
        number: u32,
        of: u16,
        operation: Operation,
        completion: Completion,
    ) {
        let Completion { value, memory, result, .. } = completion;
        let ending = match result {
            Ok(()) => AccessEnding::Done,
            Err(OpError::Lost(_)) => AccessEnding::Lost,
            Err(OpError::Refused(Status::Key)) => AccessEnding::NoKey,
            Err(OpError::Refused(Status::Busy)) => AccessEnding::Busy,
            Err(error) => return self.say(EventKind::Broken(number, error.to_string())),
        };
        let bytes = match operation {
            Operation::Read(..) => memory.and_then(Memory::into_vec).unwrap_or_default(),
            _ => Vec::new(),
        };
        let known = self.remote.other.is_some_and(|(life, _)| life == of);
        match (operation, ending) {
            (Operation::Swap(word, expected, new), AccessEnding::Done) if known => {
                let now = if value == expected { new } else { value };
                self.remote.seen[usize::from(word)] = now;
            }
            // It has a new memory, whose key is on its way.
            (_, AccessEnding::NoKey) if known => self.remote.other = None,
            _ => {}
        }
        self.say(EventKind::Done(number, ending, value, bytes));
    }

    /// Takes the notices of the other's writes.
    pub(super) fn take_notices(&mut self, endpoint: &Endpoint) {
        // What does not work shows in the other calls.
        while let Ok(Some(notice)) = endpoint.try_notice() {
            self.say(EventKind::Noticed(notice.value, notice.offset, notice.len));
        }
    }

    /// Says what the own memory is.
    pub(super) fn say_memory(&mut self, endpoint: &Endpoint) {
        let bytes = self.remote.own.and_then(|key| endpoint.with_region(key, <[u8]>::to_vec));
        if let Some(bytes) = bytes {
            self.say(EventKind::Memory(bytes));
        }
    }
}
