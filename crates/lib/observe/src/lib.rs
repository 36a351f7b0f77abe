//! Looking at endpoints from outside while they run: their counters, their peers, and every frame that
//! they send and receive. `tcpdump` sees none of those frames over AF_XDP.
//!
//! # Who owns what
//!
//! Each endpoint has a piece of shared memory of its own, a memfd named `gigae-endpoint` (memfd_create(2)),
//! and keeps its descriptor open. Whoever may trace the process (ptrace(2): the same user, or root) can
//! open it by `/proc/PID/fd`, and nobody else. There is no name in any file system, so nothing is left
//! behind when a process is killed.
//!
//! | part | written by | says |
//! |---|---|---|
//! | header | the endpoint, once | what it is: links, port id, channels, names of all figures |
//! | control | observers; the endpoint's own words | until when somebody looks; how far the ring was read; how far written |
//! | figures | the endpoint | its counters and peers, under a sequence count |
//! | ring | the endpoint | captured frames |
//!
//! An observer says until when it looks, a second ahead (two for frames), again and again: one that is killed costs the
//! endpoint nothing soon after. Nobody waits for anybody: the endpoint drops what the ring has no room for and
//! counts it, and an observer that finds figures being written reads again.
//!
//! # Trust
//!
//! Neither side trusts the other: a process may name a memfd as ours are named, and an observer has the
//! memory writable. All shared words are atomics, read and written one by one, so that nothing that the
//! other side does is undefined behaviour here; every place is masked or compared with the length that
//! *this* side knows; and a file is mapped only if it is sealed against becoming shorter, which would end
//! the reader with a signal (`SIGBUS`). A hostile endpoint can tell an observer wrong figures, a hostile
//! observer can spoil a capture, and that is all.
//!
//! What it does *not* do: filter frames, look at their contents, show anything.

#![cfg_attr(loom, allow(dead_code, unused_imports))]

mod about;
mod layout;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod observed;
#[cfg(not(loom))]
mod observer;
pub mod pcapng;
mod ring;
mod statistics;
mod sync;

pub use about::{About, LinkAbout, MOST_LINKS, Wire};
pub use ring::{Direction, Record};
pub use statistics::{
    MOST_PEERS, PeerAddress, PeerState, PeerStatistics, Statistics, StatisticsWriter,
};

#[cfg(not(loom))]
pub use observed::{Observed, Tap};
#[cfg(not(loom))]
pub use observer::{Activity, Capture, CaptureError, Endpoint, FoundEndpoints, find, now};
