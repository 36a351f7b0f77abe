//! The real thread beside a program that comes and goes: never both inside, and neither waits
//! without end.
#![allow(missing_docs)]

use gigae_progress::{Attend, NextTurn, Owner, TICK, attend};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is only touched by who is inside, so plain numbers.
struct CountedState {
    inside: bool,
    by_program: u64,
    by_thread: u64,
    turns: Arc<AtomicU64>,
    due: Option<Duration>,
}

impl CountedState {
    fn touch(&mut self) {
        assert!(!std::mem::replace(&mut self.inside, true), "both are inside");
        std::hint::black_box(&mut *self);
        self.inside = false;
    }
}

impl Attend for CountedState {
    fn attend(&mut self, _: u32, wanted: &dyn Fn() -> bool) -> NextTurn {
        for _ in 0..100 {
            self.touch();
            self.by_thread += 1;
            if wanted() {
                break;
            }
        }
        self.turns.fetch_add(1, Ordering::Relaxed);
        NextTurn { due: self.due, program_watches: false }
    }
}

fn guarded(due: Option<Duration>) -> (Owner<CountedState>, Arc<AtomicU64>, OwnedFd) {
    let turns = Arc::new(AtomicU64::new(0));
    let (inside, by_program, by_thread) = (false, 0, 0);
    let value = CountedState { inside, by_program, by_thread, turns: Arc::clone(&turns), due };
    let frames = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    (Owner::new(value, true).unwrap(), turns, frames)
}

fn until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(TICK);
    }
}

#[test]
fn program_and_thread_come_and_go_and_are_never_inside_at_once() {
    let (owner, turns, frames) = guarded(Some(Duration::from_micros(20)));
    let attended = attend(&owner, [frames.try_clone().unwrap()].into()).unwrap();
    let mut calls = 0_u64;
    for round in 0..400_u32 {
        for _ in 0..1_000 {
            let mut guard = owner.enter();
            guard.touch();
            guard.by_program += 1;
            calls += 1;
        }
        // Away for shorter and longer than the thread leaves it.
        std::thread::sleep(TICK * (round % 5));
    }
    assert!(turns.load(Ordering::Relaxed) > 0, "the thread had turns");
    drop(attended);
    let last = turns.load(Ordering::Relaxed);
    let guard = owner.enter();
    assert_eq!(guard.by_program, calls);
    assert!(guard.by_thread >= last);
    drop(guard);
    std::thread::sleep(TICK * 10);
    assert_eq!(turns.load(Ordering::Relaxed), last, "it is not attended any more");
}

#[test]
fn what_arrives_while_the_program_is_away_has_a_turn_each_time() {
    let (owner, turns, frames) = guarded(None);
    let _attended = attend(&owner, [frames.try_clone().unwrap()].into()).unwrap();
    until("the first turn", || turns.load(Ordering::Relaxed) > 0);
    for _ in 0..100 {
        let before = turns.load(Ordering::Relaxed);
        rustix::io::write(&frames, &1_u64.to_ne_bytes()).unwrap();
        until("a turn for what arrived", || turns.load(Ordering::Relaxed) > before);
    }
    // Without an arrival and with nothing due, the thread takes no turn.
    std::thread::sleep(TICK * 20);
    let before = turns.load(Ordering::Relaxed);
    std::thread::sleep(TICK * 40);
    assert_eq!(turns.load(Ordering::Relaxed), before);
    owner.enter().touch();
}

#[test]
fn what_arrives_by_any_of_several_descriptors_has_a_turn() {
    let (owner, turns, first) = guarded(None);
    let second = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let fds = [&first, &second].map(|fd| fd.try_clone().unwrap());
    let _attended = attend(&owner, fds.into()).unwrap();
    until("the first turn", || turns.load(Ordering::Relaxed) > 0);
    for n in 0..50 {
        let before = turns.load(Ordering::Relaxed);
        let fd = if n % 2 == 0 { &second } else { &first };
        rustix::io::write(fd, &1_u64.to_ne_bytes()).unwrap();
        until("a turn for what arrived", || turns.load(Ordering::Relaxed) > before);
    }
}

#[test]
fn a_program_that_sleeps_inside_has_no_turn_taken_and_is_attended_after_it() {
    let (owner, turns, frames) = guarded(None);
    let _attended = attend(&owner, [frames.try_clone().unwrap()].into()).unwrap();
    owner.sleep(|value| {
        let before = turns.load(Ordering::Relaxed);
        rustix::io::write(&frames, &1_u64.to_ne_bytes()).unwrap();
        std::thread::sleep(TICK * 40);
        assert_eq!(turns.load(Ordering::Relaxed), before, "the program is inside");
        value.touch();
    });
    let before = turns.load(Ordering::Relaxed);
    until("a turn after it", || turns.load(Ordering::Relaxed) > before);
}

#[test]
fn an_endpoint_whose_turn_panics_is_attended_no_more_and_others_are() {
    struct Panics;
    impl Attend for Panics {
        fn attend(&mut self, _: u32, _: &dyn Fn() -> bool) -> NextTurn {
            panic!("as the test wants it");
        }
    }
    let (owner, turns, frames) = guarded(None);
    let panics = Owner::new(Panics, true).unwrap();
    let _panics = attend(&panics, [frames.try_clone().unwrap()].into()).unwrap();
    let _attended = attend(&owner, [frames.try_clone().unwrap()].into()).unwrap();
    for _ in 0..10 {
        let before = turns.load(Ordering::Relaxed);
        owner.enter().touch();
        until("a turn beside one that panics", || turns.load(Ordering::Relaxed) > before);
        drop(panics.enter());
    }
}

#[test]
fn endpoints_that_come_and_go_in_several_threads_all_have_turns() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let (owner, turns, frames) = guarded(None);
                    let attended = attend(&owner, [frames.try_clone().unwrap()].into()).unwrap();
                    until("a turn", || turns.load(Ordering::Relaxed) > 0);
                    drop(attended);
                    owner.enter().touch();
                }
            });
        }
    });
}
