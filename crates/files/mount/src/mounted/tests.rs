//! Tests of what the kernel's looks get from lists, with a server that the test plays.

use super::*;
use crate::inodes::ROOT;
use crate::listings::Question;
use crate::testing::inode;
use gigae_share::{Caller, Fault, Kind, Named, Reply};
use std::collections::VecDeque;

const NOW: Duration = Duration::ZERO;

fn state() -> State {
    let calls = Arc::new(Calls::new().unwrap());
    let root = inode(Kind::Directory, 2, 1);
    State::new(calls, Caller::new(Duration::from_secs(1), 1), (Vec::new(), &root), 7)
}

/// Names with the numbers of their files, all of this version.
fn page(names: &[(&str, u64)], version: u64) -> Reply<'static> {
    let entry = |(next, (name, id)): (u64, &(&str, u64))| Named {
        name: name.as_bytes().to_vec(),
        inode: inode(Kind::File, *id, version),
        next,
    };
    Reply::Scan((1..).zip(names).map(entry).collect(), true)
}

/// Looks until the root is listed.
fn asks(state: &mut State) -> Question {
    let now = Instant::now();
    let question = (0..100).find_map(|_| state.listings.looked(ROOT, 0, now)).unwrap();
    state.begin(NOW, Call::Ahead(question));
    question
}

fn lists(state: &mut State, names: &[(&str, u64)], version: u64) {
    let question = asks(state);
    state.answer(NOW, Call::Ahead(question), page(names, version));
}

/// The version of a file that a list answers.
fn listed(state: &mut State, name: &str) -> Option<u64> {
    let found = state.listed(ROOT, name.as_bytes(), Instant::now());
    found.map(|(inode, _)| inode.attributes.version)
}

#[test]
fn a_file_that_the_kernel_knows_or_has_known_since_is_asked_for() {
    let mut state = state();
    lists(&mut state, &[("a", 10), ("b", 11), ("hard", 11)], 1);
    assert_eq!((listed(&mut state, "a"), listed(&mut state, "hard")), (Some(1), Some(1)));
    // The server has said something newer of one of its names.
    assert_eq!(state.inodes.found(ROOT, b"b", &inode(Kind::File, 11, 2)), Some(11));
    assert_eq!((listed(&mut state, "a"), listed(&mut state, "hard")), (Some(1), None));
    state.begin(NOW, Call::Forget { number: 11, lookups: 1 });
    assert_eq!((listed(&mut state, "a"), listed(&mut state, "hard")), (Some(1), None));
    lists(&mut state, &[("hard", 11)], 3);
    assert_eq!(listed(&mut state, "hard"), Some(3), "asked for after that");
}

#[test]
fn a_file_that_the_kernel_forgets_while_the_directory_is_listed_is_asked_for() {
    let mut state = state();
    state.inodes.found(ROOT, b"b", &inode(Kind::File, 11, 2));
    let question = asks(&mut state);
    state.begin(NOW, Call::Forget { number: 11, lookups: 1 });
    state.answer(NOW, Call::Ahead(question), page(&[("a", 10), ("b", 11)], 1));
    assert_eq!((listed(&mut state, "a"), listed(&mut state, "b")), (Some(1), None));
}

#[test]
fn a_late_page_is_not_believed() {
    let mut state = state();
    let late = asks(&mut state);
    // A program has found a file gone: what was listed may be wrong.
    state.listings.forget();
    let question = asks(&mut state);
    state.answer(NOW, Call::Ahead(late), page(&[("a", 10)], 1));
    assert_eq!(listed(&mut state, "a"), None);
    state.failed(NOW, Call::Ahead(late), Fault::Gone);
    state.answer(NOW, Call::Ahead(question), page(&[("a", 10)], 2));
    assert_eq!(listed(&mut state, "a"), Some(2));
}

#[test]
fn a_list_that_fails_leaves_the_others() {
    let mut state = state();
    lists(&mut state, &[("a", 10)], 1);
    let question = (0..100).find_map(|_| state.listings.looked(9, 0, Instant::now())).unwrap();
    state.failed(NOW, Call::Ahead(question), Fault::NotFound);
    assert_eq!(listed(&mut state, "a"), Some(1));
    assert!((0..1000).all(|_| state.listings.looked(9, 0, Instant::now()).is_none()));
}

#[test]
fn names_of_files_that_were_open_are_asked_for_when_they_are_removed() {
    for fails in [false, true] {
        let mut state = state();
        state.inodes.found(ROOT, b"open", &inode(Kind::File, 11, 2));
        state.inodes.open(11);
        state.inodes.hide(11, ROOT, b".hidden");
        state.take_calls(NOW, VecDeque::from([Call::Forget { number: 11, lookups: 1 }]));
        state.take_calls(NOW, VecDeque::from([Call::Release { number: 11 }]));
        // Its number is free here, and the server has not removed the name yet.
        lists(&mut state, &[("a", 10), (".hidden", 11), ("hard", 11)], 2);
        let name = (ROOT, b".hidden".to_vec());
        let call = Call::Unhide { number: 11, id: 11, name };
        match fails {
            false => state.answer(NOW, call, Reply::Pong),
            true => state.failed(NOW, call, Fault::NotFound),
        }
        assert_eq!((listed(&mut state, ".hidden"), listed(&mut state, "hard")), (None, None));
        // If it fails since the path is another one, all lists are dropped.
        assert_eq!(listed(&mut state, "a"), if fails { None } else { Some(2) });
    }
}

#[test]
fn what_the_server_could_not_be_asked_for_does_not_come_from_a_list() {
    let mut state = state();
    assert!(state.is_short(ROOT, b"a"));
    assert!(!state.is_short(ROOT, &[b'a'; 256]) && !state.is_short(9, b"a"));
    let mut directory = ROOT;
    for id in 10..10 + MAX_PATH as u64 / 251 {
        let name = [b'a'; 250];
        directory = state.inodes.found(directory, &name, &inode(Kind::Directory, id, 1)).unwrap();
    }
    assert!(state.is_short(directory, b"a") && !state.is_short(directory, &[b'a'; 251]));
}
