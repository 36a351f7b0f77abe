//! Observes endpoints from outside while they run: their counters, their peers, and every frame
//! that they send and receive. Over AF_XDP, `tcpdump` sees none of those frames.
//!
//! # Who owns what
//!
//! Each endpoint has its own shared memory, a memfd named `gigae-endpoint` (memfd_create(2)), and
//! keeps its descriptor open. Only a process that may trace the endpoint's process (ptrace(2): the
//! same user, or root) can open it by `/proc/PID/fd`. There is no name in any file system, so
//! nothing is left behind when a process is killed.
//!
//! | part | written by | says |
//! |---|---|---|
//! | header | the endpoint, once | what it is: links, port id, channels, names of all counters |
//! | control | observers; the endpoint's own words | until when an observer looks; how far the ring was read; how far written |
//! | statistics | the endpoint | its counters and peers, under a sequence count |
//! | ring | the endpoint | captured frames |
//!
//! An observer says again and again until when it looks: one second ahead, two for frames. So a
//! killed observer soon costs the endpoint nothing. Neither side waits for the other. The endpoint
//! drops frames for which the ring has no room and counts them. An observer that finds the
//! statistics being written reads again.
//!
//! # Trust
//!
//! Neither side trusts the other: any process may give a memfd this name, and an observer can write
//! to the memory. All shared words are atomics, read and written one by one, so nothing that the
//! other side does is undefined behaviour here. Every position is masked or compared with the
//! length that *this* side knows. A file is mapped only if it is sealed against shrinking, which
//! would end the reader with a signal (`SIGBUS`). A hostile endpoint can show an observer wrong
//! numbers, and a hostile observer can spoil a capture. Neither can do more.
//!
//! This crate does *not* filter frames, look at their contents, or display anything.

#![cfg_attr(loom, allow(dead_code, unused_imports))]

mod description;
mod layout;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod observer;
pub mod pcapng;
#[cfg(not(loom))]
mod publisher;
mod ring;
mod statistics;
mod sync;

pub use description::{Encapsulation, EndpointDescription, LinkDescription, MOST_LINKS};
pub use ring::{CaptureRecord, Direction};
pub use statistics::{
    MOST_PEERS, PeerAddress, PeerState, PeerStatistics, Statistics, StatisticsWriter,
};

#[cfg(not(loom))]
pub use observer::{Activity, Capture, CaptureError, FoundEndpoints, ObservedEndpoint, find, now};
#[cfg(not(loom))]
pub use publisher::{Publisher, Tap};
