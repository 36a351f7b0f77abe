//! What a fetcher keeps of requests, directories and files.

use super::{ENTRY, Wanted};
use crate::entry::{Attributes, Entry};
use crate::error::Fault;
use crate::message::{MAX_REPLY, MAX_REQUEST, MOST_DIGESTS, MOST_NAMES, PART};
use std::collections::VecDeque;
use std::ops::Range;

/// A request whose reply is expected, or that is sent again.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Ping,
    Look(Wanted),
    /// A directory, and from where on.
    List(u32, u64),
    Small(Batch),
    /// A large file, first byte, and how many.
    Read(u32, u64, u32),
    Map(u32),
    /// A large file, first part, and how many.
    Digests(u32, u64, u32),
}

/// A directory of which something is not there yet.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) parent: Option<u32>,
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
    pub(super) attributes: Attributes,
    /// It was made now, so nothing can be there already.
    pub(super) new: bool,
    pub(super) listed: bool,
    /// What it has that is not there yet: files and directories.
    pub(super) missing: u64,
    pub(super) places: Places,
}

impl Directory {
    /// Bytes that it takes while it waits.
    pub(super) fn waits(&self) -> usize {
        ENTRY + self.from.len() + self.to.len()
    }
}

/// Where the parts of a directory's listing begin, as far as needed to see that they repeat: a
/// place, and how many follow before a later one takes its place.
#[derive(Debug, Default)]
pub(super) struct Places {
    remembered: u64,
    since: u64,
    most: u64,
}

impl Places {
    /// Whether a listing that goes on there has an end, as far as it can be known.
    pub(super) fn goes_on(&mut self, next: u64) -> bool {
        if next == self.remembered {
            return false;
        }
        self.since += 1;
        if self.since > self.most {
            (self.remembered, self.since, self.most) = (next, 0, 2 * self.most + 1);
        }
        true
    }
}

/// Small files of a directory that are asked for at once.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) directory: u32,
    pub(super) files: Vec<(Vec<u8>, Attributes)>,
    /// Bytes of the reply.
    reply: u64,
    /// Bytes of the request.
    request: usize,
}

/// What a file adds to a reply beside its bytes, at most.
const HEAD: u64 = 48;

impl Batch {
    pub(super) fn new(directory: u32, path: usize) -> Self {
        Self { directory, files: Vec::new(), reply: 64, request: 64 + path }
    }

    pub(super) fn fits(&self, entry: &Entry) -> bool {
        self.files.len() < MOST_NAMES
            && self.reply + entry.attributes.size + HEAD <= MAX_REPLY as u64
            && self.request + entry.name.len() + 2 <= MAX_REQUEST
    }

    /// Bytes that its files take while they wait.
    pub(super) fn waits(&self) -> usize {
        self.files.iter().map(|(name, _)| ENTRY + name.len()).sum()
    }

    pub(super) fn add(&mut self, entry: Entry) {
        self.reply += entry.attributes.size + HEAD;
        self.request += entry.name.len() + 2;
        self.files.push((entry.name, entry.attributes));
    }
}

/// A file that has not begun.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) directory: Option<u32>,
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
    pub(super) attributes: Attributes,
}

impl Queued {
    /// Bytes that it takes while it waits.
    pub(super) fn waits(&self) -> usize {
        ENTRY + self.from.len() + self.to.len()
    }
}

/// A file that has begun.
#[derive(Debug)]
pub(super) struct Large {
    pub(super) directory: Option<u32>,
    pub(super) from: Vec<u8>,
    pub(super) attributes: Attributes,
    /// Parts to ask for, in order.
    pub(super) parts: VecDeque<Range<u64>>,
    /// Of these, those that an earlier try may have left: their digests are compared first.
    pub(super) left: u64,
    /// Parts that an earlier try has left with other bytes.
    pub(super) damaged: VecDeque<u64>,
    /// Whether it is known where the file has data.
    pub(super) mapped: bool,
    pub(super) asked_for_map: bool,
    /// Requests on their way.
    pub(super) asked: usize,
    /// It has failed; the last reply ends it.
    pub(super) failed: Option<Fault>,
}

impl Large {
    pub(super) fn next(&mut self, number: u32) -> Option<Asked> {
        if self.failed.is_some() {
            return None;
        }
        if !self.mapped {
            let asked_before = std::mem::replace(&mut self.asked_for_map, true);
            return (!asked_before).then_some(Asked::Map(number));
        }
        if let Some(range) = self.take(self.left, MOST_DIGESTS.into()) {
            let count = u32::try_from(range.end - range.start).ok()?;
            return Some(Asked::Digests(number, range.start, count));
        }
        let damaged = self.damaged.pop_front();
        let part = damaged.or_else(|| Some(self.take(u64::MAX, 1)?.start))?;
        let (offset, len) = self.bytes(part);
        Some(Asked::Read(number, offset, len))
    }

    pub(super) fn is_complete(&self) -> bool {
        self.mapped && self.asked == 0 && self.parts.is_empty() && self.damaged.is_empty()
    }

    /// The next parts of this file's list: some in a row, all before `below`.
    fn take(&mut self, below: u64, count: u64) -> Option<Range<u64>> {
        let first = self.parts.front_mut()?;
        if first.start >= below {
            return None;
        }
        let end = first.end.min(below).min(first.start + count);
        let taken = first.start..end;
        first.start = end;
        if first.is_empty() {
            self.parts.pop_front();
        }
        Some(taken)
    }

    pub(super) fn bytes(&self, part: u64) -> (u64, u32) {
        let offset = part * PART as u64;
        let len = (self.attributes.size - offset).min(PART as u64);
        (offset, u32::try_from(len).expect("a part is short"))
    }
}
