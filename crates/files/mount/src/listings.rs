//! Directories in which programs look at many files by name.
//!
//! Each look is a round trip. After some of them in a short time, the directory is listed, and
//! later looks at files that are there are answered from the list. A list is believed until it is
//! [`TIME_TO_LIVE`] old, counted from when the server was asked for it. The kernel gets only the
//! rest of that time.
//!
//! - A list answers only for a file that the kernel does not know, and has not known since the
//!   server was asked. So a list never changes what the kernel has of a file: its size, its bytes,
//!   its names. The caller says when the kernel [has forgotten](Listings::file_changed) a file.
//! - A name that is not in a list may be there: between two pages, the places of names in the
//!   directory may have changed, and some file systems find names by other spellings.
//! - A directory is listed in the background, in [pages](PAGE). Until a name has arrived, it is
//!   asked for alone. So no look waits longer than for one page.
//! - The list of a large directory has to be worth it: the more files it has, the more looks come
//!   before it.
//! - A name that this mount has changed, or has asked for, since the server was asked for the list
//!   is asked for alone. So this mount's own changes count at once.
//!
//! Time is an argument. The order of questions and changes is counted here.

use crate::lifetime::TIME_TO_LIVE;
use gigae_share::{Inode, Kind, Named, valid_name};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Bytes of a reply. Other replies wait so long: some 350 files, less than a millisecond.
pub(crate) const PAGE: u32 = 32 << 10;

/// Looks at names of a small directory, before it is listed.
const FEW_LOOKS: usize = 3;

/// So many entries of a list cost what one look costs: some 2 us each at both ends, and 70 us.
const ENTRIES_OF_A_LOOK: usize = 32;

/// Entries of a directory that is listed.
const MOST_ENTRIES: usize = 10_000;

/// Bytes of all lists.
const MOST_BYTES: usize = 8 << 20;

/// What an entry, or a name that was changed, takes besides the name.
const ENTRY: usize = 160;

/// Directories whose looks are counted.
const MOST_COUNTED: usize = 256;

/// Files that were changed here since they were listed.
const MOST_CHANGED: usize = 10_000;

/// How long the number of files of a directory is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Bytes that an entry takes in a directory of common file systems, at most: an estimate before
/// it was ever listed.
const BYTES_OF_AN_ENTRY: u64 = 24;

/// Looks at names of a directory that the server was asked for alone.
#[derive(Debug)]
struct Looks {
    since: Instant,
    count: usize,
    /// Entries that it had, and when.
    entries: Option<(usize, Instant)>,
}

impl Looks {
    fn new(now: Instant) -> Self {
        Self { since: now, count: 0, entries: None }
    }
}

/// When the server was asked: the time, and the place in the order of questions and changes.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Instant,
    order: u64,
}

/// A list, as far as it has arrived.
#[derive(Debug)]
struct List {
    /// The question that is on its way.
    asks: Option<(u64, Asked)>,
    /// When its pages were asked for.
    pages: Vec<Asked>,
    /// Entries that have arrived.
    entries: usize,
    /// Names with their page.
    names: HashMap<Vec<u8>, (Inode, usize)>,
    /// Names that were changed here, with the place of that in the order.
    changed: HashMap<Vec<u8>, u64>,
    bytes: usize,
}

impl List {
    /// When the server was asked for what is here and on its way.
    fn asked(&self) -> impl Iterator<Item = Asked> {
        self.pages.iter().copied().chain(self.asks.map(|(_, asked)| asked))
    }
}

/// Asks for a page of a directory's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) directory: u64,
    /// Where the page begins.
    pub(crate) from: u64,
    /// No two questions have the same one.
    pub(crate) number: u64,
}

/// Lists by the number of the directory.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    looks: HashMap<u64, Looks>,
    lists: HashMap<u64, List>,
    /// Files that were changed, with the place of that in the order.
    changed: HashMap<u64, u64>,
    order: u64,
    questions: u64,
}

impl Listings {
    /// Whether there are lists, and nothing more is being asked for.
    pub(crate) fn are_complete(&self) -> bool {
        !self.lists.is_empty() && self.lists.values().all(|list| list.asks.is_none())
    }

    /// The file of a name, and for how long that is believed. The caller asks the server if the
    /// kernel knows the file.
    pub(crate) fn known(
        &self,
        directory: u64,
        name: &[u8],
        now: Instant,
    ) -> Option<(Inode, Duration)> {
        let list = self.lists.get(&directory)?;
        let (inode, page) = list.names.get(name)?;
        let asked = list.pages.get(*page)?;
        let changes = [list.changed.get(name), self.changed.get(&inode.id)];
        let is_changed = changes.into_iter().flatten().any(|changed| *changed > asked.order);
        // What has no attributes is listed as special, too.
        if is_changed || inode.attributes.kind == Kind::Special {
            return None;
        }
        let left = TIME_TO_LIVE.checked_sub(now.saturating_duration_since(asked.at))?;
        (!left.is_zero()).then_some((*inode, left))
    }

    /// The server was asked for a name alone, and the kernel did not know that file. Whether the
    /// directory, which has this size, is to be listed, too: then returns what to ask.
    pub(crate) fn looked(&mut self, directory: u64, size: u64, now: Instant) -> Option<Question> {
        if self.looks.len() >= MOST_COUNTED && !self.looks.contains_key(&directory) {
            let is_new = |since| now.saturating_duration_since(since) < TIME_TO_LIVE;
            self.looks.retain(|_, looks| is_new(looks.since));
            if self.looks.len() >= MOST_COUNTED {
                return None;
            }
        }
        let looks = self.looks.entry(directory).or_insert_with(|| Looks::new(now));
        if now.saturating_duration_since(looks.since) >= TIME_TO_LIVE {
            (looks.since, looks.count) = (now, 0);
        }
        looks.count += 1;
        let known = looks.entries.filter(|(_, at)| now.saturating_duration_since(*at) < REMEMBERED);
        let entries = known.map_or_else(
            || usize::try_from(size / BYTES_OF_AN_ENTRY).unwrap_or(usize::MAX),
            |(entries, _)| entries,
        );
        let is_asked = self.lists.get(&directory).is_some_and(|list| list.asks.is_some());
        if is_asked
            || entries > MOST_ENTRIES
            || looks.count < FEW_LOOKS + entries / ENTRIES_OF_A_LOOK
        {
            return None;
        }
        looks.count = 0;
        self.drop_old(now);
        let list = List {
            asks: None,
            pages: Vec::new(),
            entries: 0,
            names: HashMap::new(),
            changed: HashMap::new(),
            bytes: 0,
        };
        self.lists.insert(directory, list);
        self.question(directory, 0, now)
    }

    /// The question for a page.
    fn question(&mut self, directory: u64, from: u64, now: Instant) -> Option<Question> {
        let list = self.lists.get_mut(&directory)?;
        self.questions += 1;
        list.asks = Some((self.questions, Asked { at: now, order: self.order }));
        Some(Question { directory, from, number: self.questions })
    }

    /// The list that waits for the answer to this question, and when that was asked.
    fn takes(&mut self, question: Question) -> Option<(&mut List, Asked)> {
        let list = self.lists.get_mut(&question.directory)?;
        let (_, asked) = list.asks.take_if(|(number, _)| *number == question.number)?;
        Some((list, asked))
    }

    /// A page has arrived. Returns the question for the next one, if it is to be asked.
    pub(crate) fn page(
        &mut self,
        question: Question,
        (entries, last): (Vec<Named>, bool),
        now: Instant,
    ) -> Option<Question> {
        let Question { directory, from, .. } = question;
        let (list, asked) = self.takes(question)?;
        let page = list.pages.len();
        list.pages.push(asked);
        list.entries += entries.len();
        let next = entries.last().map_or(from, |entry| entry.next);
        for entry in entries {
            if valid_name(&entry.name) {
                let bytes = ENTRY + entry.name.len();
                if list.names.insert(entry.name, (entry.inode, page)).is_none() {
                    list.bytes += bytes;
                }
            }
        }
        let (count, first) = (list.entries, list.pages[0].at);
        let is_slow = now.saturating_duration_since(first) >= TIME_TO_LIVE;
        let goes_on = !last && next != from && count <= MOST_ENTRIES && !is_slow;
        if !goes_on {
            // Else it has more entries than one should ask for, or they arrive too slowly.
            self.remember(directory, if last { count } else { usize::MAX }, now);
        }
        self.drop_most(directory, now);
        if goes_on { self.question(directory, next, now) } else { None }
    }

    /// A page is not asked for after all.
    pub(crate) fn stopped(&mut self, question: Question) {
        self.takes(question);
    }

    /// The server was asked for a page, and has none: the directory is not listed again soon.
    pub(crate) fn failed(&mut self, question: Question, now: Instant) {
        if self.takes(question).is_some() {
            self.remember(question.directory, usize::MAX, now);
        }
    }

    fn remember(&mut self, directory: u64, entries: usize, now: Instant) {
        if let Some(looks) = self.looks.get_mut(&directory) {
            looks.entries = Some((entries, now));
        }
    }

    /// This mount has made, removed or moved this name, or has tried to.
    pub(crate) fn name_changed(&mut self, directory: u64, name: &[u8], now: Instant) {
        self.order += 1;
        let Some(list) = self.lists.get_mut(&directory) else { return };
        if list.changed.insert(name.to_vec(), self.order).is_none() {
            list.bytes += ENTRY + name.len();
        }
        self.drop_most(directory, now);
    }

    /// The server has said of a name alone what it is. A list that was asked for before may know
    /// less.
    pub(crate) fn name_answered(&mut self, directory: u64, name: &[u8], now: Instant) {
        let may_have = |list: &List| list.asks.is_some() || list.names.contains_key(name);
        if self.lists.get(&directory).is_some_and(may_have) {
            self.name_changed(directory, name, now);
        }
    }

    /// This file may have other attributes than were listed: the kernel has forgotten it, or this
    /// mount has removed a name of it.
    pub(crate) fn file_changed(&mut self, id: u64) {
        self.order += 1;
        if self.lists.is_empty() {
            return;
        }
        self.changed.insert(id, self.order);
        if self.changed.len() > MOST_CHANGED {
            self.forget();
        }
    }

    /// This number may be that of another directory by now.
    pub(crate) fn forget_directory(&mut self, directory: u64) {
        self.looks.remove(&directory);
        self.lists.remove(&directory);
    }

    /// Paths may be others by now.
    pub(crate) fn forget(&mut self) {
        self.lists.clear();
        self.changed.clear();
    }

    /// Drops lists if they are too large: this one last.
    fn drop_most(&mut self, directory: u64, now: Instant) {
        if self.is_full() {
            self.drop_old(now);
        }
        if self.is_full() {
            self.lists.retain(|&number, _| number == directory);
        }
        if self.is_full() {
            self.forget();
        }
    }

    fn is_full(&self) -> bool {
        self.lists.values().map(|list| list.bytes).sum::<usize>() > MOST_BYTES
    }

    /// Drops lists of which nothing is believed any more, and changes that are older than all.
    fn drop_old(&mut self, now: Instant) {
        self.lists.retain(|_, list| {
            let last = list.asked().last();
            last.is_some_and(|last| now.saturating_duration_since(last.at) < TIME_TO_LIVE)
        });
        let oldest = self.lists.values().flat_map(List::asked).map(|asked| asked.order).min();
        self.changed.retain(|_, changed| oldest.is_some_and(|oldest| *changed > oldest));
    }
}

#[cfg(test)]
mod tests;
