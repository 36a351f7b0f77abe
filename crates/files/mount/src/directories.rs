//! What was listed last of each directory that is open.

use gigae_share::Named;
use std::collections::HashMap;

/// A part of a directory: entries in a row.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) from: u64,
    pub(crate) entries: Vec<Named>,
    /// Nothing follows.
    pub(crate) last: bool,
}

impl Part {
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

/// Parts by the handle of the directory. The kernel asks for some entries at a time, and the server
/// gives thousands.
#[derive(Debug, Default)]
pub(crate) struct Directories(HashMap<u64, Part>);

impl Directories {
    /// Takes what was listed, if that has the entries from this point on. From the beginning on,
    /// a directory is always listed anew.
    pub(crate) fn take(&mut self, handle: u64, from: u64) -> Option<Part> {
        if from == 0 || self.0.get(&handle)?.rest(from).is_none() {
            return None;
        }
        self.0.remove(&handle)
    }

    pub(crate) fn keep(&mut self, handle: u64, part: Part) {
        self.0.insert(handle, part);
    }

    pub(crate) fn close(&mut self, handle: u64) {
        self.0.remove(&handle);
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
        directories.keep(7, part(0, &[30, 10, 20], false));
        assert!(directories.take(7, 0).is_none() && directories.take(8, 30).is_none());
        let taken = directories.take(7, 10).unwrap();
        assert_eq!(taken.rest(10).unwrap()[0].next, 20);
        assert_eq!(taken.rest(0).unwrap().len(), 3);
        directories.keep(7, taken);
        assert!(directories.take(7, 20).is_none(), "the server has more");
        directories.keep(7, part(20, &[], true));
        assert!(directories.take(7, 20).unwrap().rest(20).unwrap().is_empty());
    }
}
