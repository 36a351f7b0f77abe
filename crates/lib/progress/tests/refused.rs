//! A sandbox in which membarrier(2) says what it can do and refuses to do it: the thread has its
//! turns all the same. In a separate process, whose only thread starts under that filter.
#![allow(missing_docs)]

use gigae_progress::{Attend, NextTurn, Owner, TICK, attend};
use rustix::event::{EventfdFlags, eventfd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Turns(Arc<AtomicU64>);

impl Attend for Turns {
    fn attend(&mut self, _: u32, _: &dyn Fn() -> bool) -> NextTurn {
        self.0.fetch_add(1, Ordering::Relaxed);
        NextTurn { due: Some(TICK), program_watches: false }
    }
}

/// From now on membarrier(2) of this thread, and of those that it starts, does nothing but answer
/// queries (seccomp(2)).
fn refuse_membarrier() {
    let step =
        |code: u32, k: u32, (jt, jf): (u8, u8)| libc::sock_filter { code: code as u16, jt, jf, k };
    // Of `seccomp_data`: the call's number, and the lower half of its first argument.
    let (number, argument) = (0, if cfg!(target_endian = "little") { 16 } else { 20 });
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let query = libc::MEMBARRIER_CMD_QUERY as u32;
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut steps = [
        step(load, number, (0, 0)),
        step(equal, libc::SYS_membarrier as u32, (0, 3)),
        step(load, argument, (0, 0)),
        step(equal, query, (1, 0)),
        step(answer, refusal, (0, 0)),
        step(answer, libc::SECCOMP_RET_ALLOW, (0, 0)),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: plain numbers, and a program that outlives the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn a_refused_barrier_costs_the_thread_no_turn() {
    refuse_membarrier();
    let turns = Arc::new(AtomicU64::new(0));
    let frames = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let owner = Owner::new(Turns(Arc::clone(&turns)), true).unwrap();
    let attended = attend(&owner, [frames].into()).unwrap();
    for _ in 0..3 {
        let had = turns.load(Ordering::Relaxed);
        let end = Instant::now() + PATIENCE;
        while turns.load(Ordering::Relaxed) < had + 3 {
            assert!(Instant::now() < end, "no turn");
            std::thread::sleep(TICK);
        }
        // The program's call ends, and the thread comes back.
        drop(owner.enter());
    }
    drop(attended);
}
