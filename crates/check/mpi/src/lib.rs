//! MPI programs on hosts that are namespaces of this machine: over gigae, by the provider for
//! libfabric, and over TCP. The tests of MPI and `make mpi` stand on it; not installed.
//!
//! The programs are in `programs/`, in C, and compiled by each MPI's own `mpicc` when they are
//! needed.
//!
//! A job leaves nothing behind, however it ends: all its processes are in a PID namespace that ends
//! with the first of them, which ends with the thread that started it; their files lie in a
//! directory that is removed.

pub mod bench;
pub mod hosts;
pub mod own;
pub mod report;
pub mod slurm;
pub mod speedup;
pub mod vendor;

pub use hosts::Hosts;
pub use vendor::{Job, Transport, Vendor};

/// What went wrong, in one line that says what to do.
pub type Error = String;
