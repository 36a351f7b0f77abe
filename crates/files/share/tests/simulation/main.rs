//! Fetcher and server on a network in virtual time, with faults by seed.
#![allow(missing_docs)]

mod changed;
mod limits;
mod mounted;
mod world;
mod written;

use gigae_share::{Fault, Kind};
use world::{Faults, World};

#[test]
fn a_tree_arrives_as_it_is_and_a_second_copy_finds_it() {
    for seed in 0..100 {
        let mut world = World::new(seed);
        let fetcher = world.run(Faults::default());
        assert_eq!((fetcher.fatal(), fetcher.progress().failed), (None, 0));
        world.compare();
        let files = world.shared.0.values().filter(|node| node.attributes.kind == Kind::File);
        let files = files.count() as u64;
        assert_eq!(world.run(Faults::default()).progress().skipped, files);
        assert!(world.most_in_flight <= 17, "the window and a ping: {}", world.most_in_flight);
    }
}

#[test]
fn what_is_lost_with_a_session_is_asked_for_again() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        let fetcher = world.run(Faults { cut: 20, ..Faults::default() });
        assert_eq!((fetcher.fatal(), fetcher.progress().failed), (None, 0), "seed {seed}");
        world.compare();
    }
}

#[test]
fn a_server_that_is_killed_and_started_again_goes_on() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        let fetcher = world.run(Faults { server_dies: 20, cut: 5, ..Faults::default() });
        assert_eq!((fetcher.fatal(), fetcher.progress().failed), (None, 0), "seed {seed}");
        world.compare();
    }
}

#[test]
fn a_client_that_is_killed_uses_what_it_had_written() {
    let (mut starts, mut resumed) = (0, 0);
    for seed in 0..200 {
        let mut world = World::new(seed);
        let faults = Faults { client_dies: 5, power_fails: 300, ..Faults::default() };
        let fetcher = world.run(faults);
        assert_eq!((fetcher.fatal(), fetcher.progress().failed), (None, 0), "seed {seed}");
        world.compare();
        starts += world.starts;
        resumed += world.written.resumed;
    }
    assert!(starts > 100 && resumed > 10 << 20, "{starts} starts, {resumed} bytes resumed");
}

#[test]
fn a_file_that_changes_is_named_and_never_mixed() {
    let mut changed = 0;
    for seed in 0..200 {
        let mut world = World::new(seed);
        let fetcher = world.run(Faults { changes: 100, cut: 5, ..Faults::default() });
        assert_eq!(fetcher.fatal(), None);
        for problem in &fetcher.progress().problems {
            assert_eq!(problem.fault, Fault::Changed, "seed {seed}");
            changed += 1;
        }
        // Another try gets the rest, and no file has bytes of two versions.
        let fetcher = world.run(Faults::default());
        assert_eq!((fetcher.fatal(), fetcher.progress().failed), (None, 0), "seed {seed}");
        world.compare();
    }
    assert!(changed > 10, "{changed}");
}

#[test]
fn a_disk_that_is_full_ends_it_and_the_next_try_goes_on() {
    for seed in 0..50 {
        let mut world = World::new(seed);
        world.written.room = Some(100_000);
        let fetcher = world.run(Faults::default());
        let all: usize = world.shared.0.values().map(|node| node.data.len()).sum();
        if all > 200_000 {
            assert_eq!(fetcher.fatal(), Some(Fault::Full), "seed {seed}");
        }
        world.written.room = None;
        world.written.restart();
        assert_eq!(world.run(Faults::default()).fatal(), None);
        world.compare();
    }
}

/// The sink checks every path that it is given.
#[test]
fn whatever_a_server_says_nothing_is_written_elsewhere() {
    for seed in 0..1000 {
        let mut world = World::new(seed);
        world.run(Faults { lies: 50, cut: 5, ..Faults::default() });
    }
}
