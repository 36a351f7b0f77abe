//! Large files: several parts are on their way at the same time.

use super::state::{Asked, Large, Queued};
use super::{Fetcher, Sink};
use crate::entry::Attributes;
use crate::error::Fault;
use crate::message::PART;
use crate::names::MAX_PATH;
use std::collections::VecDeque;
use std::ops::Range;

/// Large files at the same time: enough that files of some parts fill the window.
const AT_ONCE: usize = 8;

impl Fetcher {
    /// A large file was found, or one that was named.
    pub(super) fn enqueue(
        &mut self,
        directory: Option<u32>,
        from: Vec<u8>,
        to: Vec<u8>,
        attributes: Attributes,
        sink: &mut impl Sink,
        new: bool,
    ) {
        self.progress.total = self.progress.total.saturating_add(attributes.size);
        if from.len() > MAX_PATH || to.len() > MAX_PATH {
            return self.problem(from, Fault::TooLong);
        }
        if self.is_there(&to, &attributes, sink, new) {
            return;
        }
        let queued = Queued { directory, from, to, attributes };
        if !self.room_for(queued.waits()) {
            return;
        }
        self.more(directory);
        self.queue.push_back(queued);
    }

    /// The next request for a file that has begun, or that begins now.
    pub(super) fn next_of_large(&mut self, sink: &mut impl Sink) -> Option<Asked> {
        loop {
            let found = self.large.iter_mut().find_map(|(&n, file)| Some((n, file.next(n)?)));
            if let Some((number, asked)) = found {
                self.large.get_mut(&number)?.asked += 1;
                return Some(asked);
            }
            if self.large.len() >= AT_ONCE || self.fatal.is_some() {
                return None;
            }
            let queued = self.queue.pop_front()?;
            self.begin(queued, sink);
        }
    }

    fn begin(&mut self, queued: Queued, sink: &mut impl Sink) {
        // Only few have begun at the same time, so they do not count.
        self.waiting -= queued.waits();
        let Queued { directory, from, to, attributes } = queued;
        let number = self.next_file;
        self.next_file = number.wrapping_add(1);
        let left = match sink.begin(number, &to, &attributes) {
            Ok(left) => left.min(attributes.size),
            Err(fault) => {
                self.problem(from, fault);
                return self.one_less(directory, sink);
            }
        };
        let all = attributes.size.div_ceil(PART as u64);
        // A part that is there only in part is fetched again.
        let left = if left == attributes.size { all } else { left / PART as u64 };
        let file = Large {
            directory,
            from,
            attributes,
            parts: VecDeque::from_iter((all > 0).then_some(0..all)),
            left,
            damaged: VecDeque::new(),
            mapped: !attributes.sparse,
            asked_for_map: false,
            asked: 0,
            failed: None,
        };
        self.large.insert(number, file);
        self.end_if_complete(number, sink);
    }

    /// Where the file has data: only those parts are fetched.
    pub(super) fn mapped(
        &mut self,
        number: u32,
        places: &[(u64, u64)],
        more: bool,
        sink: &mut impl Sink,
    ) {
        let Some(file) = self.large.get_mut(&number) else { return };
        file.asked -= 1;
        file.mapped = true;
        let all = file.attributes.size.div_ceil(PART as u64);
        let mut parts: VecDeque<Range<u64>> = VecDeque::new();
        let rest = places.last().filter(|_| more).map(|&(_, end)| (end, u64::MAX));
        for &(start, end) in places.iter().chain(&rest) {
            let (start, end) = (start / PART as u64, end.div_ceil(PART as u64).min(all));
            match parts.back_mut() {
                Some(last) if last.end >= start => last.end = last.end.max(end),
                _ if start < end => parts.push_back(start..end),
                _ => {}
            }
        }
        let fetched: u64 = parts.iter().map(|range| range.end - range.start).sum();
        let holes = (all - fetched).saturating_mul(PART as u64).min(file.attributes.size);
        self.progress.total = self.progress.total.saturating_sub(holes);
        file.parts = parts;
        self.end_if_complete(number, sink);
    }

    /// The digests of parts that an earlier try may have left.
    pub(super) fn compare(
        &mut self,
        number: u32,
        first: u64,
        digests: &[u128],
        sink: &mut impl Sink,
    ) {
        let Some(file) = self.large.get_mut(&number) else { return };
        file.asked -= 1;
        for (part, &expected) in (first..).zip(digests) {
            let (offset, len) = file.bytes(part);
            match sink.digest(number, offset, len as usize) {
                Ok(found) if found == expected => {
                    self.progress.bytes += u64::from(len);
                    self.progress.resumed += u64::from(len);
                }
                _ => file.damaged.push_back(part),
            }
        }
        self.end_if_complete(number, sink);
    }

    /// A part has arrived.
    pub(super) fn part(&mut self, number: u32, offset: u64, data: &[u8], sink: &mut impl Sink) {
        let Some(file) = self.large.get_mut(&number) else { return };
        file.asked -= 1;
        if file.failed.is_none() {
            match sink.write(number, offset, data) {
                Ok(()) => self.progress.bytes += data.len() as u64,
                Err(fault) => file.failed = Some(fault),
            }
        }
        self.end_if_complete(number, sink);
    }

    /// A request for the file has failed.
    pub(super) fn large_failed(&mut self, number: u32, fault: Fault, sink: &mut impl Sink) {
        let Some(file) = self.large.get_mut(&number) else { return };
        file.asked -= 1;
        file.failed.get_or_insert(fault);
        self.end_if_complete(number, sink);
    }

    fn end_if_complete(&mut self, number: u32, sink: &mut impl Sink) {
        let Some(file) = self.large.get(&number) else { return };
        if file.asked > 0 || (file.failed.is_none() && !file.is_complete()) {
            return;
        }
        let Some(file) = self.large.remove(&number) else { return };
        let result = match file.failed {
            None => sink.finish(number, &file.attributes),
            Some(fault) => {
                sink.leave(number, Some(fault));
                Err(fault)
            }
        };
        self.made(file.from, result);
        self.one_less(file.directory, sink);
    }
}
