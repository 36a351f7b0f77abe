//! What programs have written, until the server has it.
//!
//! A write of a program is answered at once. Its bytes wait here, together with those behind them,
//! and go to the server in chunks, several at the same time. Two chunks that have a byte in common
//! are never on their way together, so the later one wins. Closing a file waits for its chunks.
//!
//! An error stays with the file until nobody has it open any more: each write, fsync and close of
//! it fails. So no program that shares the file takes the error from another one.

use gigae_share::{Fault, PART};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Bytes that wait, or are on their way, before programs that write have to wait.
const MOST_BYTES: usize = 16 << 20;

/// Bytes that a chunk counts at least: it takes memory, too.
const LEAST_BYTES: usize = 4096;

/// Chunks on their way. The server receives as many at a time.
const MOST_IN_FLIGHT: usize = 8;

/// Bytes of a file in a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The file.
    pub(crate) number: u64,
    /// Later chunks have higher ones.
    pub(crate) place: u64,
    pub(crate) offset: u64,
    pub(crate) data: Vec<u8>,
}

/// What a chunk of this length takes of [`MOST_BYTES`].
fn taken_by(len: u64) -> usize {
    (len as usize).max(LEAST_BYTES)
}

impl Chunk {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

/// A chunk on its way.
#[derive(Debug)]
struct Sent {
    place: u64,
    offset: u64,
    end: u64,
}

/// A file that was written to.
#[derive(Debug, Default)]
struct File {
    waiting: VecDeque<Chunk>,
    in_flight: Vec<Sent>,
    /// Chunks up to this one are sent even if they are short.
    wanted: u64,
    error: Option<Fault>,
    /// The start of the server's machine in which the first bytes arrived that are not synced.
    boot: Option<u64>,
    /// Nobody has it open.
    is_closed: bool,
}

impl File {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// Whether its next chunk can be sent. A short one waits for more bytes while others are on
    /// their way, unless somebody waits for it.
    fn is_ready(&self) -> bool {
        let Some(first) = self.waiting.front() else { return false };
        let apart = |sent: &Sent| sent.end <= first.offset || first.end() <= sent.offset;
        let whole = self.waiting.len() > 1 || first.data.len() >= PART;
        self.in_flight.iter().all(apart)
            && (whole || self.in_flight.is_empty() || first.place <= self.wanted)
    }
}

/// What all files have.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    files: BTreeMap<u64, File>,
    /// Files with chunks that wait.
    waiting: BTreeSet<u64>,
    /// The file whose chunk was sent last: the others are next.
    last: u64,
    place: u64,
    bytes: usize,
    in_flight: usize,
    /// The start of the server's machine in which the first bytes of a file arrived that are not
    /// synced, also of files that are closed.
    boots: HashMap<u64, u64>,
}

impl Writes {
    /// A program has written these bytes.
    pub(crate) fn add(&mut self, number: u64, mut offset: u64, mut data: Vec<u8>) {
        let file = self.files.entry(number).or_default();
        file.is_closed = false;
        if let Some(last) = file.waiting.back_mut()
            && last.end() == offset
            && last.place > file.wanted
            && last.data.len() < PART
        {
            let taken = data.len().min(PART - last.data.len());
            self.bytes -= taken_by(last.data.len() as u64);
            last.data.extend_from_slice(&data[..taken]);
            self.bytes += taken_by(last.data.len() as u64);
            data.drain(..taken);
            offset += taken as u64;
        }
        if !data.is_empty() {
            self.place += 1;
            self.bytes += taken_by(data.len() as u64);
            file.waiting.push_back(Chunk { number, place: self.place, offset, data });
            self.waiting.insert(number);
        }
    }

    /// Whether programs that write have to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > MOST_BYTES
    }

    /// Sends what the file has. `Some`: somebody waits until that [is done](Self::is_done).
    pub(crate) fn barrier(&mut self, number: u64) -> Option<u64> {
        let file = self.files.get_mut(&number)?;
        let sent = file.in_flight.iter().map(|sent| sent.place).max();
        let barrier = file.waiting.back().map(|last| last.place).or(sent)?;
        file.wanted = file.wanted.max(barrier);
        Some(barrier)
    }

    /// Whether everything up to there is at the server, or has failed.
    pub(crate) fn is_done(&self, number: u64, barrier: u64) -> bool {
        self.files.get(&number).is_none_or(|file| {
            file.waiting.front().is_none_or(|first| first.place > barrier)
                && file.in_flight.iter().all(|sent| sent.place > barrier)
        })
    }

    /// A chunk to be sent.
    pub(crate) fn next(&mut self) -> Option<Chunk> {
        if self.in_flight >= MOST_IN_FLIGHT {
            return None;
        }
        let mut numbers = self.waiting.range(self.last + 1..).chain(&self.waiting);
        let number = *numbers.find(|number| self.files.get(number).is_some_and(File::is_ready))?;
        let file = self.files.get_mut(&number)?;
        let chunk = file.waiting.pop_front()?;
        if file.waiting.is_empty() {
            self.waiting.remove(&number);
        }
        file.in_flight.push(Sent { place: chunk.place, offset: chunk.offset, end: chunk.end() });
        self.in_flight += 1;
        self.last = number;
        Some(chunk)
    }

    /// A chunk is at the server, whose machine was started this time, or has failed. The first
    /// error of a file is returned: the rest of what was written to it is dropped.
    pub(crate) fn done(
        &mut self,
        (number, place): (u64, u64),
        result: Result<u64, Fault>,
    ) -> Option<Fault> {
        let file = self.files.get_mut(&number)?;
        let at = file.in_flight.iter().position(|sent| sent.place == place)?;
        let sent = file.in_flight.swap_remove(at);
        self.in_flight -= 1;
        if let Ok(boot) = result {
            self.boots.entry(number).or_insert(boot);
        }
        self.bytes -= taken_by(sent.end - sent.offset);
        let failed = match result {
            // What was written before may be lost with the machine's memory.
            Ok(boot) if *file.boot.get_or_insert(boot) != boot => Some(Fault::Unknown),
            Ok(_) => None,
            Err(fault) => Some(fault),
        };
        let first = failed.filter(|_| file.error.is_none());
        if let Some(fault) = first {
            file.error = Some(fault);
            self.waiting.remove(&number);
            for dropped in file.waiting.drain(..) {
                self.bytes -= taken_by(dropped.data.len() as u64);
            }
        }
        self.drop_unused(number);
        first
    }

    /// What is wrong with a file.
    pub(crate) fn error(&self, number: u64) -> Option<Fault> {
        self.files.get(&number)?.error
    }

    /// A file was synced in this start of the server's machine. Whether that is the one in which
    /// all of it was written; if not, that is the file's error.
    pub(crate) fn synced(&mut self, number: u64, boot: u64) -> Option<Fault> {
        let before = self.boots.remove(&number);
        let lost = before.filter(|before| *before != boot).map(|_| Fault::Unknown);
        let Some(file) = self.files.get_mut(&number) else { return lost };
        if let Some(fault) = lost {
            file.error.get_or_insert(fault);
        }
        // More may have been written since.
        file.boot = Some(boot);
        if !file.is_idle() {
            self.boots.insert(number, boot);
        }
        file.error
    }

    /// The kernel does not know the file any more.
    pub(crate) fn forgotten(&mut self, number: u64) {
        self.boots.remove(&number);
    }

    /// Where the bytes of a file end that the server does not have; 0 if it has all.
    pub(crate) fn end(&self, number: u64) -> u64 {
        self.files.get(&number).map_or(0, |file| {
            let sent = file.in_flight.iter().map(|sent| sent.end);
            sent.chain(file.waiting.iter().map(Chunk::end)).max().unwrap_or(0)
        })
    }

    /// Nobody has the file open any more.
    pub(crate) fn closed(&mut self, number: u64) {
        if let Some(file) = self.files.get_mut(&number) {
            (file.is_closed, file.wanted) = (true, self.place);
            self.drop_unused(number);
        }
    }

    fn drop_unused(&mut self, number: u64) {
        if self.files.get(&number).is_some_and(|file| file.is_closed && file.is_idle()) {
            self.files.remove(&number);
        }
    }

    /// Whether nothing waits and nothing is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty()
    }

    /// Whether closing any file needs a look here.
    pub(crate) fn is_clean(&self) -> bool {
        self.files.values().all(|file| file.is_idle() && file.error.is_none())
    }

    /// Everything is to be sent.
    pub(crate) fn send_all(&mut self) {
        let place = self.place;
        self.files.values_mut().for_each(|file| file.wanted = place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(writes: &mut Writes) -> Option<(u64, u64, usize, u64)> {
        writes.next().map(|chunk| (chunk.number, chunk.offset, chunk.data.len(), chunk.place))
    }

    #[test]
    fn short_writes_in_a_row_become_long_chunks() {
        let mut writes = Writes::default();
        for n in 0..200 {
            writes.add(7, n * 4096, vec![n as u8; 4096]);
            if n == 0 {
                assert_eq!(next(&mut writes), Some((7, 0, 4096, 1)), "nothing to wait for");
            }
        }
        assert_eq!(next(&mut writes), Some((7, 4096, PART, 2)));
        assert_eq!(next(&mut writes), Some((7, 4096 + PART as u64, PART, 3)));
        assert_eq!(next(&mut writes).map(|chunk| chunk.2), Some(PART));
        assert_eq!(next(&mut writes), None, "the rest may grow");
        let barrier = writes.barrier(7).unwrap();
        let (_, offset, len, place) = next(&mut writes).unwrap();
        assert_eq!((offset + len as u64, place), (200 * 4096, barrier));
        assert_eq!(writes.end(7), 200 * 4096);
        for place in 1..=5 {
            assert!(!writes.is_done(7, barrier));
            assert_eq!(writes.done((7, place), Ok(1)), None);
        }
        assert!(writes.is_done(7, barrier) && writes.is_idle() && writes.is_clean());
        assert_eq!((writes.bytes, writes.end(7), writes.barrier(7)), (0, 0, None));
        writes.closed(7);
        assert!(writes.files.is_empty());
    }

    #[test]
    fn bytes_that_are_written_twice_are_sent_one_after_the_other() {
        let mut writes = Writes::default();
        writes.add(7, 0, vec![1; 100]);
        assert_eq!(next(&mut writes), Some((7, 0, 100, 1)));
        writes.add(7, 50, vec![2; 100]);
        writes.add(7, 500, vec![3; 100]);
        assert_eq!(next(&mut writes), None, "it has bytes of the one that is on its way");
        writes.add(8, 0, vec![4; 10]);
        assert_eq!(next(&mut writes), Some((8, 0, 10, 4)), "another file");
        writes.done((7, 1), Ok(1));
        assert_eq!(next(&mut writes), Some((7, 50, 100, 2)));
        writes.barrier(7);
        assert_eq!(next(&mut writes), Some((7, 500, 100, 3)));
        // Behind a barrier, a new chunk begins.
        writes.add(7, 600, vec![5; 10]);
        let barrier = writes.barrier(7).unwrap();
        writes.add(7, 610, vec![6; 10]);
        assert_eq!(next(&mut writes), Some((7, 600, 10, barrier)));
        writes.done((7, 2), Ok(1));
        writes.done((7, 3), Ok(1));
        writes.done((7, barrier), Ok(1));
        assert!(writes.is_done(7, barrier) && !writes.is_idle());
    }

    #[test]
    fn an_error_stays_until_nobody_has_the_file_open() {
        let mut writes = Writes::default();
        for n in 0..4 {
            writes.add(7, n * 1000, vec![1; 10]);
        }
        let sent: Vec<_> = std::iter::from_fn(|| next(&mut writes)).collect();
        assert_eq!(sent.len(), 3);
        assert_eq!(writes.done((7, 1), Err(Fault::Full)), Some(Fault::Full));
        assert_eq!(writes.done((7, 2), Err(Fault::Denied)), None, "one is said");
        assert!(!writes.is_clean() && next(&mut writes).is_none());
        writes.done((7, 3), Ok(1));
        assert_eq!((writes.bytes, writes.error(7)), (0, Some(Fault::Full)));
        assert_eq!(writes.synced(7, 1), Some(Fault::Full));
        writes.closed(7);
        assert_eq!(writes.error(7), None);
    }

    #[test]
    fn what_a_machine_may_have_lost_is_an_error() {
        let mut writes = Writes::default();
        writes.add(7, 0, vec![1; 10]);
        next(&mut writes);
        writes.done((7, 1), Ok(100));
        assert_eq!(writes.synced(7, 101), Some(Fault::Unknown));
        writes.closed(7);
        writes.add(7, 0, vec![1; 10]);
        next(&mut writes);
        writes.done((7, 2), Ok(100));
        assert_eq!(writes.synced(7, 100), None);
        writes.add(7, 0, vec![1; 10]);
        next(&mut writes);
        assert_eq!(writes.done((7, 3), Ok(101)), Some(Fault::Unknown));
    }

    #[test]
    fn a_restart_between_closing_a_file_and_syncing_it_is_an_error() {
        let mut writes = Writes::default();
        writes.add(7, 0, vec![1; 10]);
        next(&mut writes);
        writes.done((7, 1), Ok(100));
        writes.closed(7);
        // Others may write to it, but it cannot be synced.
        writes.add(7, 0, vec![1; 10]);
        next(&mut writes);
        assert_eq!(writes.done((7, 2), Ok(101)), None);
        assert_eq!(writes.synced(7, 101), Some(Fault::Unknown));
        writes.closed(7);
        assert_eq!(writes.synced(7, 101), None, "it was said");
        writes.add(7, 0, vec![1; 10]);
        next(&mut writes);
        writes.done((7, 3), Ok(101));
        writes.closed(7);
        writes.forgotten(7);
        assert_eq!(writes.synced(7, 102), None);
        assert!(writes.boots.is_empty());
    }

    #[test]
    fn many_short_chunks_count_for_the_memory_that_they_take() {
        let mut writes = Writes::default();
        let most = (MOST_BYTES / LEAST_BYTES) as u64;
        for n in 0..=most {
            assert!(!writes.is_full());
            writes.add(7, n * 2, vec![0; 1]);
        }
        assert!(writes.is_full());
    }

    #[test]
    fn programs_wait_before_too_much_does() {
        let mut writes = Writes::default();
        for n in 0..64 {
            writes.add(n, 0, vec![0; PART]);
            assert!(!writes.is_full());
        }
        writes.add(0, 1 << 40, vec![0; 1]);
        assert!(writes.is_full());
        let sent: Vec<_> = std::iter::from_fn(|| next(&mut writes)).collect();
        assert_eq!(sent.len(), MOST_IN_FLIGHT);
        assert!(sent.iter().map(|chunk| chunk.0).eq(1..=8), "the files take turns");
        writes.done((1, sent[0].3), Ok(1));
        assert!(!writes.is_full());
    }
}
