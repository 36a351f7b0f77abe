//! Progress without the program: one background thread per process, and the lock between it and the
//! program's threads.
//!
//! A program that computes makes no calls. Its peers still wait for acknowledgements,
//! retransmissions, credit and operations on its memory. The thread does that work for all
//! endpoints of the process.
//!
//! # Who has an endpoint when
//!
//! [`Owner`] is the program's handle of an endpoint's state. By [`attend`](Attend::attend) the
//! thread does its work there. The lock (`gate.rs`) keeps the two apart:
//!
//! | state | the program | the thread |
//! |---|---|---|
//! | the program calls now and then | enters with two stores and two loads: no lock, no bus-locked instruction, no system call | looks every [`TICK`] whether the program has called since, and does nothing else |
//! | the program has not called for one to two ticks | its next call takes the endpoint back: one compare-and-swap and one write to wake the thread | attends: on every frame that arrives, and when something is due |
//! | the program sleeps inside a call | wakes by itself | sleeps until the program says that it is awake |
//! | nothing is going on | | sleeps, without a timer |
//!
//! The program pays for no fence, because the thread pays for both. membarrier(2) makes every CPU
//! that runs a thread of this process pass a fence. Where the kernel does not offer it
//! (`CONFIG_MEMBARRIER=n`) or has refused it once (a seccomp filter), the program executes a fence
//! itself.
//!
//! # What else
//!
//! - **Signals**: the thread blocks them all, so handlers run in the program's own threads.
//! - **fork(2)**: a child has no such thread, and the links belong to its parent. The lock's words
//!   lie in memory that the kernel clears in the child (madvise(2), `MADV_WIPEONFORK`). So the
//!   child cannot use an inherited endpoint, and dropping one touches nothing. An endpoint that the
//!   child opens starts its own thread.
//! - **The end**: the thread ends with the process's last endpoint and is joined. So a library that
//!   dlopen(3) loaded can be unloaded.

#![cfg_attr(loom, allow(dead_code, unused_imports))]

mod gate;
mod owner;
#[cfg(not(loom))]
mod thread;

pub use owner::{Attend, Guard, NextTurn, Owner};
#[cfg(not(loom))]
pub use thread::{Attended, TICK, attend, wakeups};
