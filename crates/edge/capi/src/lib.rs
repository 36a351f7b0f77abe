//! The library for C programs: `libgigae.so`, `libgigae.a`, declared and explained in
//! `include/gigae.h` and its parts.
//!
//! It only translates. Every entry does the same four things. It looks the handle up ([`handle`],
//! which also refuses closed handles and second threads and stops panics). It checks its arguments.
//! It makes one call of the library underneath. It turns the result into a code ([`error`]).
//!
//! C code holds no Rust object. Handles are numbers in the form of pointers. `gigae_buffer` and
//! `gigae_message` hold the address of bytes and a ticket ([`tickets`]) for the object, which stays
//! here. So whatever C code does to them, it gets an error and not a crash, as long as its pointers
//! point to memory of the right size.

pub mod abi;
mod caller_memory;
#[cfg(any(test, feature = "calls"))]
pub mod calls;
mod clip;
pub mod cluster;
pub mod endpoint;
pub mod error;
mod handle;
pub mod info;
pub mod memory;
mod numbers;
pub mod operation;
pub mod options;
pub mod peer;
pub mod pm;
pub mod receive;
pub mod region;
pub mod send;
mod text;
mod tickets;
pub mod wait;

#[cfg(test)]
mod abi_tests;
#[cfg(test)]
mod call_tests;
