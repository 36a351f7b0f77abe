//! What was listed last of each directory that is open.

use gigae_share::Named;
use std::collections::HashSet;

/// Parts that are kept. What is dropped is asked for again.
const MOST_PARTS: usize = 64;

/// A part of a directory: entries in a row.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) from: u64,
    pub(crate) entries: Vec<Named>,
    /// Nothing follows.
    pub(crate) last: bool,
}

impl Part {
    /// `None`: it leads back to where the listing was, or nowhere, so that it would have no end.
    pub(crate) fn new(from: u64, entries: Vec<Named>, last: bool) -> Option<Self> {
        let mut places = HashSet::from([from]);
        let goes_on = entries.iter().all(|entry| places.insert(entry.next));
        (goes_on && (last || !entries.is_empty())).then_some(Self { from, entries, last })
    }

    /// The entries from a point on. `None`: they are not in it.
    pub(crate) fn rest(&self, from: u64) -> Option<&[Named]> {
        let at = match from {
            from if from == self.from => 0,
            _ => self.entries.iter().position(|entry| entry.next == from)? + 1,
        };
        let rest = &self.entries[at..];
        if rest.is_empty() && !self.last { None } else { Some(rest) }
    }
}

/// Parts by the handle of the directory, the one that was used last at the end. The kernel asks for
/// some entries at a time, and the server gives thousands.
#[derive(Debug, Default)]
pub(crate) struct Directories(Vec<(u64, Part)>);

impl Directories {
    /// Takes what was listed, if that has the entries from this point on. From the beginning on,
    /// a directory is always listed anew.
    pub(crate) fn take(&mut self, handle: u64, from: u64) -> Option<Part> {
        let at = self.0.iter().position(|(of, _)| *of == handle)?;
        if from == 0 || self.0[at].1.rest(from).is_none() {
            return None;
        }
        Some(self.0.remove(at).1)
    }

    /// Keeps what was listed. The kernel has the entries up to this point: if these are all of the
    /// directory, they are not kept.
    pub(crate) fn keep(&mut self, handle: u64, mut part: Part, given: u64) {
        if part.last && part.entries.last().is_some_and(|entry| entry.next == given) {
            (part.from, part.entries) = (given, Vec::new());
        }
        self.close(handle);
        if self.0.len() == MOST_PARTS {
            self.0.remove(0);
        }
        self.0.push((handle, part));
    }

    pub(crate) fn close(&mut self, handle: u64) {
        self.0.retain(|(of, _)| *of != handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_share::{Attributes, Inode, Kind};

    fn part(from: u64, next: &[u64], last: bool) -> Part {
        let attributes = Attributes {
            kind: Kind::File,
            sparse: false,
            mode: 0,
            size: 0,
            seconds: 0,
            nanoseconds: 0,
            version: 0,
        };
        let inode = Inode { attributes, id: 2, links: 1, blocks: 0, changed: (0, 0) };
        let entry = |&next: &u64| Named { name: next.to_string().into_bytes(), inode, next };
        Part { from, entries: next.iter().map(entry).collect(), last }
    }

    #[test]
    fn a_listing_goes_on_behind_any_entry_and_begins_anew() {
        let mut directories = Directories::default();
        directories.keep(7, part(0, &[30, 10, 20], false), 10);
        assert!(directories.take(7, 0).is_none() && directories.take(8, 30).is_none());
        let taken = directories.take(7, 10).unwrap();
        assert_eq!(taken.rest(10).unwrap()[0].next, 20);
        assert_eq!(taken.rest(0).unwrap().len(), 3);
        directories.keep(7, taken, 20);
        assert!(directories.take(7, 20).is_none(), "the server has more");
        directories.keep(7, part(20, &[], true), 20);
        assert!(directories.take(7, 20).unwrap().rest(20).unwrap().is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut directories = Directories::default();
        directories.keep(7, part(0, &[30, 10, 20], true), 10);
        assert_eq!(directories.take(7, 10).unwrap().entries.len(), 3, "the kernel wants more");
        directories.keep(7, part(0, &[30, 10, 20], true), 20);
        let end = directories.take(7, 20).unwrap();
        assert!(end.entries.is_empty() && end.rest(20).unwrap().is_empty());
        for handle in 0..1000 {
            directories.keep(handle, part(0, &[1, 2], false), 1);
        }
        assert_eq!(directories.0.len(), MOST_PARTS);
        assert!(directories.take(935, 1).is_none() && directories.take(936, 1).is_some());
        directories.close(999);
        assert!(directories.take(999, 1).is_none());
    }

    #[test]
    fn a_listing_that_leads_back_is_refused() {
        let new = |from, next: &[u64], last| Part::new(from, part(from, next, last).entries, last);
        assert!(new(0, &[3, 1, 2], false).is_some() && new(7, &[], true).is_some());
        assert!(new(7, &[], false).is_none(), "nothing, and not the end");
        assert!(new(7, &[8, 7], false).is_none() && new(7, &[8, 9, 8], true).is_none());
    }
}
