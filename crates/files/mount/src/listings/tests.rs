//! Tests of the lists, in virtual time.

use super::*;
use crate::testing::inode;

fn named(name: &[u8], id: u64, next: u64) -> Named {
    Named { name: name.to_vec(), inode: inode(Kind::File, id, 1), next }
}

/// Looks until the directory is listed. Returns how many that were, and what is asked.
fn looks(listings: &mut Listings, directory: u64, size: u64, now: Instant) -> (usize, Question) {
    let look = |count| Some((count, listings.looked(directory, size, now)?));
    (1..100_000).find_map(look).unwrap()
}

/// A directory that has one page.
fn listed(listings: &mut Listings, directory: u64, names: &[&[u8]], now: Instant) {
    let (_, question) = looks(listings, directory, 0, now);
    let entries: Vec<_> = (0..).zip(names).map(|(n, name)| named(name, 10 + n, 1 + n)).collect();
    assert_eq!(listings.page(question, (entries, true), now), None);
}

#[test]
fn after_some_looks_names_come_from_a_list() {
    let (mut listings, now) = (Listings::default(), Instant::now());
    let (count, first) = looks(&mut listings, 7, 0, now);
    assert_eq!((count, first.directory, first.from), (FEW_LOOKS, 7, 0));
    assert_eq!(listings.known(7, b"a", now), None, "it has not arrived");
    assert!(!listings.are_complete());
    assert_eq!(listings.looked(7, 0, now), None, "it is asked for");
    let page = (vec![named(b"a", 2, 5), named(b"\xff", 3, 9)], false);
    let second = listings.page(first, page, now).unwrap();
    assert_eq!((second.directory, second.from), (7, 9));
    let is = |id| Some((inode(Kind::File, id, 1), TIME_TO_LIVE));
    assert_eq!((listings.known(7, b"a", now), listings.known(7, b"\xff", now)), (is(2), is(3)));
    let itself = Named { inode: inode(Kind::Directory, 7, 1), ..named(b".", 7, 10) };
    assert_eq!(listings.page(second, (vec![named(b"b", 4, 11), itself], true), now), None);
    assert_eq!(listings.known(7, b"b", now), is(4));
    for (directory, name) in [(7, &b"c"[..]), (7, b"."), (8, b"a")] {
        assert_eq!(listings.known(directory, name, now), None);
    }
    assert!(listings.are_complete());
}

#[test]
fn a_page_that_answers_an_older_question_is_not_believed() {
    let (mut listings, now) = (Listings::default(), Instant::now());
    let (_, old) = looks(&mut listings, 7, 0, now);
    listings.forget();
    let page = || (vec![named(b"a", 2, 5)], true);
    assert_eq!(listings.page(old, page(), now), None);
    let (_, new) = looks(&mut listings, 7, 0, now);
    assert_eq!(listings.page(old, page(), now), None);
    assert_eq!(listings.known(7, b"a", now), None, "late");
    // What becomes of the old question does not end the new one.
    listings.stopped(old);
    listings.failed(old, now);
    listings.page(new, page(), now);
    assert!(listings.known(7, b"a", now).is_some());
    listings.page(new, (vec![named(b"b", 3, 5)], true), now);
    assert_eq!(listings.known(7, b"b", now), None, "twice");
    // Another directory has that number.
    let (_, old) = looks(&mut listings, 7, 0, now);
    listings.forget_directory(7);
    listings.page(old, page(), now);
    assert_eq!(listings.known(7, b"a", now), None);
}

#[test]
fn a_list_is_believed_for_the_rest_of_its_time() {
    let (mut listings, begin) = (Listings::default(), Instant::now());
    let (asked, later) = (begin, begin + TIME_TO_LIVE / 2);
    let (_, first) = looks(&mut listings, 7, 0, asked);
    let second = listings.page(first, (vec![named(b"a", 2, 5)], false), later).unwrap();
    assert_eq!(listings.page(second, (vec![named(b"b", 3, 6)], true), later), None);
    let left = |name: &[u8], at| listings.known(7, name, begin + at).map(|(_, left)| left);
    let almost = TIME_TO_LIVE * 9 / 10;
    assert_eq!(left(b"a", almost), Some(TIME_TO_LIVE / 10));
    assert_eq!(left(b"b", almost), Some(TIME_TO_LIVE * 6 / 10), "asked for later");
    assert_eq!(left(b"a", TIME_TO_LIVE), None);
    assert!(left(b"b", TIME_TO_LIVE).is_some());
}

#[test]
fn a_large_directory_needs_more_looks_and_a_huge_one_is_not_listed() {
    let (mut listings, now) = (Listings::default(), Instant::now());
    let size = BYTES_OF_AN_ENTRY * 1000;
    assert_eq!(looks(&mut listings, 7, size, now).0, FEW_LOOKS + 1000 / ENTRIES_OF_A_LOOK);
    let never = |listings: &mut Listings, directory, size, at| {
        (0..10_000).all(|_| listings.looked(directory, size, at).is_none())
    };
    assert!(never(&mut listings, 8, u64::MAX, now));
    // Looks of long ago do not count.
    let mut at = now;
    for _ in 0..20 {
        at += TIME_TO_LIVE;
        assert!(listings.looked(9, 0, at).is_none() && listings.looked(9, 0, at).is_none());
    }
    // What it had the last time is better than the estimate.
    listed(&mut listings, 10, &[b"a"], now);
    assert_eq!(looks(&mut listings, 10, size, now).0, FEW_LOOKS);
    listed(&mut listings, 15, &[b"a"], now);
    let later = now + TIME_TO_LIVE;
    // A list that has no end, also of the same names, or comes too slowly, is not asked for again
    // soon. Nor is one for which the server has an error.
    let mut question = looks(&mut listings, 11, 0, now).1;
    for n in 1.. {
        let entries = (0..100).map(|i| named(format!("{i}").as_bytes(), 2, n * 100));
        let next = listings.page(question, (entries.collect(), false), now);
        let Some(next) = next else { break };
        assert!(n <= MOST_ENTRIES as u64 / 100);
        question = next;
    }
    let (_, slow) = looks(&mut listings, 12, 0, now);
    assert_eq!(listings.page(slow, (vec![named(b"a", 2, 5)], false), later), None);
    let (_, fails) = looks(&mut listings, 13, 0, now);
    listings.failed(fails, now);
    assert!(listings.known(15, b"a", now).is_some(), "the others stay");
    for directory in 11..=13 {
        assert!(never(&mut listings, directory, 0, later));
        assert_eq!(looks(&mut listings, directory, 0, later + REMEMBERED).0, FEW_LOOKS);
    }
    // One that had to stop for something else may be asked for again.
    let (_, stops) = looks(&mut listings, 14, 0, now);
    listings.stopped(stops);
    assert_eq!(looks(&mut listings, 14, 0, now).0, FEW_LOOKS);
}

#[test]
fn what_was_changed_here_since_is_asked_for_alone() {
    let (mut listings, now) = (Listings::default(), Instant::now());
    listings.name_changed(7, b"a", now);
    listings.file_changed(10);
    listed(&mut listings, 7, &[b"a", b"b", b"c"], now);
    assert!(listings.known(7, b"a", now).is_some(), "changed before");
    listings.name_changed(7, b"b", now);
    listings.file_changed(12);
    assert_eq!((listings.known(7, b"b", now), listings.known(7, b"c", now)), (None, None));
    assert!(listings.known(7, b"a", now).is_some());
    // While a list is asked for.
    let (_, question) = looks(&mut listings, 7, 0, now);
    listings.name_changed(7, b"a", now);
    let page = (vec![named(b"a", 10, 5), named(b"c", 12, 6)], true);
    listings.page(question, page, now);
    assert_eq!(listings.known(7, b"a", now), None);
    assert!(listings.known(7, b"c", now).is_some(), "it was changed before that");
    listings.forget();
    assert_eq!(listings.known(7, b"c", now), None);
}

#[test]
fn what_the_server_has_said_later_counts() {
    let (mut listings, now) = (Listings::default(), Instant::now());
    let (_, question) = looks(&mut listings, 7, 0, now);
    listings.name_answered(7, b"gone", now);
    let page = (vec![named(b"a", 10, 5), named(b"b", 11, 6), named(b"gone", 12, 7)], true);
    listings.page(question, page, now);
    listings.name_answered(7, b"a", now);
    listings.name_answered(7, b"not listed", now);
    assert_eq!((listings.known(7, b"gone", now), listings.known(7, b"a", now)), (None, None));
    assert!(listings.known(7, b"b", now).is_some());
    assert_eq!(listings.lists[&7].changed.len(), 2, "what is not in the list takes no memory");
}

#[test]
fn what_may_be_no_file_is_asked_for_alone() {
    let (mut listings, now) = (Listings::default(), Instant::now());
    let (_, question) = looks(&mut listings, 7, 0, now);
    let special = Named { inode: inode(Kind::Special, 3, 0), ..named(b"a", 3, 1) };
    let link = Named { inode: inode(Kind::Symlink, 4, 0), ..named(b"l", 4, 2) };
    listings.page(question, (vec![special, link], true), now);
    assert_eq!(listings.known(7, b"a", now), None);
    assert!(listings.known(7, b"l", now).is_some());
}

#[test]
fn lists_and_what_is_counted_are_bounded() {
    let (mut listings, now) = (Listings::default(), Instant::now());
    for directory in 0..1000 {
        listings.looked(directory, 0, now);
    }
    assert_eq!(listings.looks.len(), MOST_COUNTED);
    listings.file_changed(1);
    assert!(listings.changed.is_empty(), "nothing is listed");
    let bytes = |listings: &Listings| listings.lists.values().map(|list| list.bytes).sum::<usize>();
    let later = now + TIME_TO_LIVE;
    let name = |n: u64| format!("{n:0240}").into_bytes();
    for directory in 0..100 {
        let mut question = looks(&mut listings, directory, 0, later).1;
        for page in 0..20u64 {
            let entries = (1..=100).map(|n| named(&name(page * 100 + n), n, page * 100 + n));
            match listings.page(question, (entries.collect(), page == 19), later) {
                Some(next) => question = next,
                None => assert_eq!(page, 19),
            }
        }
        assert!(bytes(&listings) <= MOST_BYTES);
    }
    let before = bytes(&listings);
    assert!(listings.lists.contains_key(&99) && before > MOST_BYTES / 2);
    // Names that were changed take memory, too: once.
    for _ in 0..2 {
        listings.name_changed(99, b"again", later);
    }
    assert_eq!(bytes(&listings), before + ENTRY + b"again".len());
    for n in 1..=30_000 {
        listings.name_changed(99, &name(n), later);
        assert!(bytes(&listings) <= MOST_BYTES);
    }
    assert!(listings.lists.is_empty());
    listed(&mut listings, 7, &[b"a"], later);
    for n in 0..=MOST_CHANGED as u64 {
        listings.file_changed(n);
    }
    assert!(listings.lists.is_empty() && listings.changed.is_empty());
    // Old lists are dropped, and changes that are older than all that are left.
    listed(&mut listings, 7, &[b"a"], later);
    listings.file_changed(1);
    listed(&mut listings, 8, &[b"a"], later + TIME_TO_LIVE / 2);
    listings.file_changed(2);
    listed(&mut listings, 9, &[b"a"], later + TIME_TO_LIVE);
    assert!(listings.lists.contains_key(&8) && !listings.lists.contains_key(&7));
    assert_eq!(listings.changed.keys().collect::<Vec<_>>(), [&2]);
}

/// Names of the directory that [`Server`] has, by their numbers.
const NAMES: u64 = 12;

/// A directory of a server, which remembers how it was. Several names may be one file.
struct Server {
    /// By name: since when it is which file.
    names: Vec<Vec<(Instant, Option<u64>)>>,
    /// By file: since when it has which version.
    files: Vec<Vec<(Instant, u64)>>,
}

impl Server {
    fn at<T: Copy>(past: &[(Instant, T)], now: Instant) -> T {
        past.iter().rev().find(|(since, _)| *since <= now).unwrap().1
    }

    /// File and version of a name.
    fn name(&self, name: u64, now: Instant) -> Option<(u64, u64)> {
        let file = Self::at(&self.names[name as usize], now)?;
        Some((file, Self::at(&self.files[file as usize], now)))
    }

    /// Whether it was so at some time from this one on.
    fn was(&self, name: u64, what: Option<(u64, u64)>, since: Instant, now: Instant) -> bool {
        let names = self.names[name as usize].iter().map(|(at, _)| *at);
        let files = self.files.iter().flatten().map(|(at, _)| *at);
        let changes = names.chain(files).filter(|at| since <= *at && *at <= now);
        changes.chain([since]).any(|at| self.name(name, at) == what)
    }

    fn change(&mut self, name: u64, rng: &mut Random, now: Instant) {
        match rng.below(3) {
            0 => self.names[name as usize].push((now, None)),
            1 => self.names[name as usize].push((now, Some(rng.below(self.files.len() as u64)))),
            _ => {
                if let Some((file, version)) = self.name(name, now) {
                    self.files[file as usize].push((now, version + 1));
                }
            }
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// A page on its way: its question, and what it has, once the server has made it.
type Page = (Question, Option<(Vec<Named>, bool)>);

/// Another client and this mount change names and files while they are listed. What is answered
/// from a list was so at the server within [`TIME_TO_LIVE`], and since this mount's last change.
#[test]
fn what_a_list_answers_was_so_a_moment_ago_and_since_the_last_own_change() {
    let mut answered = 0;
    for seed in 1..=300 {
        let mut rng = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let begin = Instant::now();
        let mut now = begin;
        let mut server = Server {
            names: (0..NAMES).map(|n| vec![(begin, (n % 3 > 0).then_some(n / 2))]).collect(),
            files: vec![vec![(begin, 1)]; NAMES as usize],
        };
        let mut listings = Listings::default();
        let mut page: Option<Page> = None;
        // When a change of a name, or of a file, ended last; a change on its way.
        let mut ended = vec![begin; NAMES as usize];
        let mut changed = vec![begin; NAMES as usize];
        let mut own: Option<(u64, bool)> = None;
        for _ in 0..1000 {
            // No two events are at the same time.
            now += TIME_TO_LIVE * (1 + rng.below(40) as u32) / 2000;
            let name = rng.below(NAMES);
            match rng.below(8) {
                0 => server.change(name, &mut rng, now),
                1 if own.is_none() => own = Some((name, false)),
                2 => match own {
                    Some((name, false)) => {
                        let before = server.name(name, now);
                        server.change(name, &mut rng, now);
                        own = Some((name, true));
                        // It is known by the answer which files that were.
                        let files = [before, server.name(name, now)];
                        let files = files.into_iter().flatten().map(|(file, _)| file);
                        let files: Vec<_> = files.collect();
                        // The answer comes at once, or later: then only the name is changed.
                        if rng.below(2) == 0 || !files.is_empty() {
                            listings.name_changed(7, &[name as u8 + 1], now);
                            for file in files {
                                listings.file_changed(file + 2);
                                changed[file as usize] = now;
                            }
                            ended[name as usize] = now;
                            own = None;
                        }
                    }
                    Some((name, true)) => {
                        listings.name_changed(7, &[name as u8 + 1], now);
                        (ended[name as usize], own) = (now, None);
                    }
                    None => {}
                },
                3 => match &mut page {
                    Some((question, made @ None)) => {
                        let end = (question.from + 1 + rng.below(NAMES)).min(NAMES);
                        let entries = (question.from..end).filter_map(|name| {
                            let (file, version) = server.name(name, now)?;
                            let inode = inode(Kind::File, file + 2, version);
                            Some(Named { name: vec![name as u8 + 1], inode, next: name + 1 })
                        });
                        let entries: Vec<_> = entries.collect();
                        *made = Some((entries, end == NAMES));
                    }
                    Some((question, Some(_))) => {
                        let question = *question;
                        let Some((_, Some(made))) = page.take() else { unreachable!() };
                        page = listings.page(question, made, now).map(|next| (next, None));
                    }
                    None => {}
                },
                _ => match listings.known(7, &[name as u8 + 1], now) {
                    Some((inode, left)) => {
                        assert!(!left.is_zero() && left <= TIME_TO_LIVE);
                        let (file, version) = (inode.id - 2, inode.attributes.version);
                        let past = &server.files[file as usize];
                        assert!(version >= Server::at(past, changed[file as usize]));
                        let what = Some((file, version));
                        let since = ended[name as usize];
                        let since = now.checked_sub(TIME_TO_LIVE).map_or(since, |at| since.max(at));
                        assert!(server.was(name, what, since, now), "seed {seed}: {name} {what:?}");
                        answered += 1;
                    }
                    None => {
                        if let Some(question) = listings.looked(7, 0, now) {
                            page = Some((question, None));
                        }
                    }
                },
            }
        }
    }
    assert!(answered > 300, "{answered}");
}
