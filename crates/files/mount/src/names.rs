//! Directories of which all names are known, so that nobody needs to ask for one that is not there.
//!
//! The kernel asks for a name before it makes a file. In a directory that a program of this host
//! has made, there is nothing but what programs of this host have made there, as long as the
//! versions of the directory before and after each change say so. As the names and attributes that
//! the kernel has, this is believed for [a second](TIME_TO_LIVE) after the server was asked.

use crate::lifetime::TIME_TO_LIVE;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

/// Directories that are known.
const MOST_DIRECTORIES: usize = 64;

/// Names of a directory. One with more is asked for them.
const MOST_NAMES: usize = 32_768;

#[derive(Debug)]
struct Known {
    version: u64,
    asked: Instant,
    names: HashSet<Vec<u8>>,
}

/// Directories by number.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<u64, Known>);

impl Names {
    /// A directory was made: it is empty. The server was asked for it at this time.
    pub(crate) fn made(&mut self, number: u64, version: u64, asked: Instant) {
        if self.0.len() >= MOST_DIRECTORIES {
            self.0.retain(|_, known| known.asked.elapsed() < TIME_TO_LIVE);
        }
        if self.0.len() < MOST_DIRECTORIES {
            self.0.insert(number, Known { version, asked, names: HashSet::new() });
        }
    }

    /// Whether a directory has no such name.
    pub(crate) fn lacks(&self, number: u64, name: &[u8], now: Instant) -> bool {
        self.0.get(&number).is_some_and(|known| {
            now.saturating_duration_since(known.asked) < TIME_TO_LIVE && !known.names.contains(name)
        })
    }

    /// The server has made or removed a name, for which it was asked at this time, and the versions
    /// of the directory were these.
    pub(crate) fn changed(
        &mut self,
        (number, name): (u64, &[u8]),
        is_there: bool,
        (versions, asked): (Option<(u64, u64)>, Instant),
    ) {
        let Some(known) = self.0.get_mut(&number) else { return };
        match versions {
            Some((before, after)) if before == known.version && known.names.len() < MOST_NAMES => {
                (known.version, known.asked) = (after, asked);
                match is_there {
                    true => known.names.insert(name.to_vec()),
                    false => known.names.remove(name),
                };
            }
            _ => self.forget(number),
        }
    }

    /// Something else may have changed its names.
    pub(crate) fn forget(&mut self, number: u64) {
        self.0.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_directory_has_the_names_that_were_made_there() {
        let (mut names, now) = (Names::default(), Instant::now());
        names.made(7, 100, now);
        assert!(names.lacks(7, b"a", now) && !names.lacks(8, b"a", now));
        names.changed((7, b"a"), true, (Some((100, 101)), now));
        assert!(!names.lacks(7, b"a", now) && names.lacks(7, b"b", now));
        names.changed((7, b"a"), false, (Some((101, 102)), now));
        assert!(names.lacks(7, b"a", now));
        // Another node has made a name.
        names.changed((7, b"b"), true, (Some((103, 104)), now));
        assert!(!names.lacks(7, b"c", now));
        names.made(7, 100, now);
        names.changed((7, b"b"), true, (None, now));
        assert!(!names.lacks(7, b"c", now), "the server does not know");
    }

    #[test]
    fn a_name_is_asked_for_when_the_last_answer_is_a_second_old() {
        let (mut names, now) = (Names::default(), Instant::now());
        names.made(7, 100, now);
        let later = now + TIME_TO_LIVE * 9 / 10;
        assert!(names.lacks(7, b"a", later));
        assert!(!names.lacks(7, b"a", now + TIME_TO_LIVE));
        names.changed((7, b"a"), true, (Some((100, 101)), later));
        assert!(names.lacks(7, b"b", now + TIME_TO_LIVE));
        assert!(!names.lacks(7, b"b", later + TIME_TO_LIVE));
    }

    #[test]
    fn what_is_known_is_bounded() {
        let (mut names, now) = (Names::default(), Instant::now());
        for number in 0..1000 {
            names.made(number, 1, now);
        }
        assert_eq!(names.0.len(), MOST_DIRECTORIES);
        for n in 0..=MOST_NAMES as u64 {
            names.changed((7, &n.to_le_bytes()), true, (Some((n + 1, n + 2)), now));
        }
        assert!(!names.lacks(7, b"a", now));
    }
}
