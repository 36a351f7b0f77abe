//! A process's last endpoint closes while another thread opens one: the thread of the one ends, and
//! that of the other starts. In a separate process, where no other endpoint keeps the thread.
#![allow(missing_docs)]

use gigae_host::affinity;
use gigae_progress::{Attend, NextTurn, Owner, TICK, attend};
use rustix::event::{EventfdFlags, eventfd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Often enough for threads to meet at any point.
const ROUNDS: u32 = 2_000;

struct Nothing;

impl Attend for Nothing {
    fn attend(&mut self, _: u32, _: &dyn Fn() -> bool) -> NextTurn {
        NextTurn { due: None, program_watches: false }
    }
}

#[test]
fn the_last_endpoint_closes_while_another_one_opens_and_stays_open() {
    // On one CPU a thread that has just started often runs before one that has just been woken.
    affinity::pin(affinity::allowed()[0]).unwrap();
    let open = || {
        let frames = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let owner = Owner::new(Nothing, true).unwrap();
        let attended = attend(&owner, [frames].into()).unwrap();
        (attended, owner)
    };
    for _ in 0..ROUNDS {
        let last = open();
        let (both, closed) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
        let theirs = (Arc::clone(&both), Arc::clone(&closed));
        std::thread::spawn(move || {
            theirs.0.wait();
            drop(last);
            theirs.1.store(true, Ordering::Release);
        });
        both.wait();
        let _opened = open();
        let end = Instant::now() + PATIENCE;
        while !closed.load(Ordering::Acquire) {
            assert!(Instant::now() < end, "it does not close");
            std::thread::sleep(TICK);
        }
    }
}
