//! The library and the evaluator on drivers and kernels that this machine does not have.
//!
//! A *guest* is a QEMU machine in software emulation with two network cards of one model, joined by
//! a cable, and a distribution's kernel. Its first process is this very program, which puts each
//! card into its own network namespace, so that both ends of everything are in one machine:
//!
//! ```text
//!   guest (Linux, the model's driver)
//!   ┌──────────────┐        ┌──────────────┐
//!   │ namespace a  │        │ namespace b  │
//!   │ eth0  .0.1   │        │ eth1  .0.2   │
//!   └──────┬───────┘        └───────┬──────┘
//!          └──── QEMU's netdev ─────┘
//! ```
//!
//! The conformance suite needs that, since it holds both ends in its hands. And it makes a guest's
//! time mean something where QEMU counts instructions instead of looking at a clock (`-icount`):
//! with both ends in one machine there is one count for the whole round trip. Between two machines
//! each would have its own, and a round trip would depend on how fast the host runs them.
//!
//! [`host`] fetches a kernel, makes the image, runs guests and reports what came of it; [`guest`]
//! is what runs inside. They speak by [`job`]: what is asked goes in as a file, reports come out as
//! lines over a serial port.
//!
//! What it does not do: nothing is installed but QEMU, nothing outside the directory of its cache
//! is written, and nothing of the host's network is used but for fetching packages.

#![forbid(unsafe_code)]

pub mod guest;
pub mod host;
pub mod job;
pub mod model;
