//! Directories in which names were made or removed here, as they were after that.
//!
//! The kernel drops the attributes of a directory when it has made or removed a name there, and
//! asks for them when it next checks permissions: for the next name. The server's answer to the
//! change has them, so that it need not be asked again. As what the kernel has, they are believed
//! for [a second](TIME_TO_LIVE) after the server was asked.
//!
//! A program must not see a directory as it was before a change of its own. If another change of
//! the directory has ended since one was begun, the answer to that one counts only if it follows
//! the one that is known.

use crate::lifetime::TIME_TO_LIVE;
use gigae_share::{Inode, Parent};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Directories that are known.
const MOST_DIRECTORIES: usize = 64;

/// When a change was begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) at: Instant,
    /// How many changes had ended.
    ended: u64,
}

impl Begun {
    /// As if nothing had ended before.
    pub(crate) fn now() -> Self {
        Self { at: Instant::now(), ended: 0 }
    }
}

#[derive(Debug)]
struct Known {
    /// With the time at which the server was asked.
    inode: Option<(Inode, Instant)>,
    /// The version of its names then.
    names: Option<u64>,
    /// Which change of it has ended last.
    ended: u64,
}

/// Directories by number.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    directories: HashMap<u64, Known>,
    /// Changes that have ended.
    ended: u64,
    /// Which change of those that are not known any more had ended last.
    dropped: u64,
}

impl Parents {
    /// A change begins now.
    pub(crate) fn begins(&self, begun: Begun) -> Begun {
        Begun { ended: self.ended, ..begun }
    }

    /// What a directory is, and for how long that may be believed.
    pub(crate) fn known(&self, number: u64) -> Option<(Inode, Duration)> {
        let (inode, asked) = self.directories.get(&number)?.inode?;
        let left = TIME_TO_LIVE.checked_sub(asked.elapsed())?;
        Some((inode, left))
    }

    /// A change of a directory has ended. `parent` is `None` if it has failed, or has changed more
    /// than one name.
    pub(crate) fn changed(&mut self, number: u64, parent: Option<(&Parent, Begun)>) {
        self.ended += 1;
        if self.directories.len() >= MOST_DIRECTORIES && !self.directories.contains_key(&number) {
            self.directories.clear();
            self.dropped = self.ended - 1;
        }
        let new = Known { inode: None, names: None, ended: self.dropped };
        let known = self.directories.entry(number).or_insert(new);
        let follows = |&(parent, begun): &(&Parent, Begun)| {
            let is_next = |(before, _)| known.inode.is_some() && known.names == Some(before);
            known.ended <= begun.ended || parent.names.is_some_and(is_next)
        };
        let parent = parent.filter(follows);
        known.names = parent.and_then(|(parent, _)| parent.names).map(|(_, after)| after);
        known.inode = parent.map(|(parent, begun)| (parent.inode, begun.at));
        known.ended = self.ended;
    }

    /// The server was asked for a directory, which has this version.
    pub(crate) fn seen(&mut self, number: u64, version: u64) {
        if let Some(known) = self.directories.get_mut(&number) {
            known.inode = known.inode.filter(|(inode, _)| inode.attributes.version == version);
        }
    }

    /// The kernel does not know the directory any more.
    pub(crate) fn forget(&mut self, number: u64) {
        if let Some(known) = self.directories.get_mut(&number) {
            known.inode = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::inode;
    use gigae_share::Kind;

    /// A directory that has this version, and had this one.
    fn parent(before: Option<u64>, version: u64) -> Parent {
        let names = before.map(|before| (before, version));
        Parent { inode: inode(Kind::Directory, 7, version), names }
    }

    fn version(parents: &Parents, number: u64) -> Option<u64> {
        parents.known(number).map(|(inode, _)| inode.attributes.version)
    }

    #[test]
    fn a_directory_is_known_for_a_second_after_a_change() {
        let mut parents = Parents::default();
        let begun = parents.begins(Begun::now());
        parents.changed(7, Some((&parent(None, 2), begun)));
        assert_eq!((version(&parents, 7), version(&parents, 8)), (Some(2), None));
        let (_, left) = parents.known(7).unwrap();
        assert!(left <= TIME_TO_LIVE);
        let Some(earlier) = Instant::now().checked_sub(TIME_TO_LIVE) else { return };
        let begun = parents.begins(Begun { at: earlier, ended: 0 });
        parents.changed(7, Some((&parent(None, 3), begun)));
        assert_eq!(version(&parents, 7), None);
    }

    #[test]
    fn of_changes_at_the_same_time_only_the_next_one_counts() {
        let mut parents = Parents::default();
        let (first, second) = (parents.begins(Begun::now()), parents.begins(Begun::now()));
        parents.changed(7, Some((&parent(Some(1), 2), first)));
        parents.changed(7, Some((&parent(Some(2), 3), second)));
        assert_eq!(version(&parents, 7), Some(3));
        // The answers arrive in the other order: the later one may lack the earlier one's change.
        let (first, second) = (parents.begins(Begun::now()), parents.begins(Begun::now()));
        parents.changed(7, Some((&parent(Some(4), 5), second)));
        assert_eq!(version(&parents, 7), Some(5));
        parents.changed(7, Some((&parent(Some(3), 4), first)));
        assert_eq!(version(&parents, 7), None);
        // Of versions nothing is known.
        let (first, second) = (parents.begins(Begun::now()), parents.begins(Begun::now()));
        parents.changed(7, Some((&parent(None, 6), first)));
        parents.changed(7, Some((&parent(None, 7), second)));
        assert_eq!(version(&parents, 7), None);
        let third = parents.begins(Begun::now());
        parents.changed(8, Some((&parent(None, 9), third)));
        parents.changed(7, Some((&parent(None, 8), third)));
        assert_eq!((version(&parents, 7), version(&parents, 8)), (Some(8), Some(9)));
    }

    #[test]
    fn a_directory_is_asked_for_after_another_change_or_if_it_was_seen_otherwise() {
        let mut parents = Parents::default();
        let begun = parents.begins(Begun::now());
        parents.changed(7, None);
        parents.changed(7, Some((&parent(Some(1), 2), begun)));
        assert_eq!(version(&parents, 7), None, "the answer may be from before the other change");
        parents.changed(7, Some((&parent(Some(1), 2), parents.begins(Begun::now()))));
        parents.seen(7, 2);
        assert_eq!(version(&parents, 7), Some(2));
        parents.seen(7, 3);
        assert_eq!(version(&parents, 7), None);
        parents.changed(7, Some((&parent(Some(3), 4), parents.begins(Begun::now()))));
        parents.forget(7);
        assert_eq!(version(&parents, 7), None);
    }

    #[test]
    fn what_is_known_is_bounded_and_what_was_dropped_still_counts() {
        let mut parents = Parents::default();
        let begun = parents.begins(Begun::now());
        parents.changed(7, None);
        for number in 100..1000 {
            let begun = parents.begins(Begun::now());
            parents.changed(number, Some((&parent(None, 2), begun)));
            assert_eq!(version(&parents, number), Some(2));
        }
        assert!(parents.directories.len() <= MOST_DIRECTORIES);
        parents.changed(7, Some((&parent(None, 2), begun)));
        assert_eq!(version(&parents, 7), None);
    }
}
