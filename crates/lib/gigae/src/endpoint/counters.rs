//! What an endpoint and its links have counted.

use super::Endpoint;
use crate::link::AnyLink;
use gigae_link::{Info, Link};

/// Counts since the endpoint was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages, retransmissions, STOPs, wrong checksums and all else that the protocol counts.
    pub protocol: gigae_proto::ProtocolCounters,
    /// Tagged messages by the way they went, and operations that were refused.
    pub operations: gigae_transfer::TransferCounters,
    /// Frames, doorbell system calls, wake-ups and all else that the link counts.
    pub link: gigae_link::LinkCounters,
    /// Received frames that had to be copied because too many were lent.
    pub copied: u64,
    /// How often the clock was read (some 25 ns each time).
    pub clock_reads: u64,
    /// How often the progress thread acted for this endpoint
    /// ([`Progress::Auto`](crate::Progress::Auto)).
    pub progress_turns: u64,
    /// How often the process's progress thread has woken up, for all endpoints.
    pub progress_wakeups: u64,
}

/// What an endpoint keeps for its peers at the moment. SECURITY.md ("What a peer can make us keep")
/// states the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Entries in the tables of peers.
    pub peers: gigae_proto::TableUsage,
    /// Messages, notices and completions that the program has not taken, and memory for more.
    pub operations: gigae_transfer::TransferUsage,
    /// IP nodes to which the route is known, or was asked for by a stranger.
    pub ip_routes: usize,
}

/// A link of an endpoint, and what happened there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathStatistics {
    /// What it is.
    pub info: Info,
    /// Frames, doorbells and all else that the link counts.
    pub link: gigae_link::LinkCounters,
    /// Frames that were lost there, how often it was given up and how often it came back, over all
    /// peers. Of an endpoint's only link, only the lost frames are of interest.
    pub counters: gigae_proto::PathCounters,
}

/// # Counters
impl Endpoint {
    /// What was counted since the endpoint was opened. The kernel's own counts cost a system call.
    pub fn counters(&self) -> Counters {
        let engine = self.look();
        Counters {
            protocol: *engine.proto.counters(),
            operations: *engine.transfer.counters(),
            link: engine.links.all().map(Link::counters).fold(Default::default(), sum),
            copied: engine.inbox.copied(),
            clock_reads: engine.clock.reads(),
            progress_turns: engine.progress_turns(),
            progress_wakeups: gigae_progress::wakeups(),
        }
    }

    /// What is kept for peers at the moment.
    pub fn usage(&self) -> Usage {
        let engine = self.look();
        Usage {
            peers: engine.proto.usage(),
            operations: engine.transfer.usage(),
            ip_routes: engine.route_table.len(),
        }
    }

    /// Its links, each with what happened there since the endpoint was opened: one, or several as
    /// one ([`Options::trunk`](crate::Options::trunk)). The kernel's own counts cost a system call
    /// for each link.
    pub fn paths(&self) -> Vec<PathStatistics> {
        let engine = self.look();
        let paths = engine.proto.paths().into_iter();
        let path = |(link, counters): (&AnyLink, _)| PathStatistics {
            info: link.info().clone(),
            link: link.counters(),
            counters,
        };
        engine.links.all().zip(paths).map(path).collect()
    }
}

/// What two links have counted together.
fn sum(a: gigae_link::LinkCounters, b: gigae_link::LinkCounters) -> gigae_link::LinkCounters {
    gigae_link::LinkCounters {
        tx_frames: a.tx_frames + b.tx_frames,
        rx_frames: a.rx_frames + b.rx_frames,
        doorbells: a.doorbells + b.doorbells,
        drives: a.drives + b.drives,
        waits: a.waits + b.waits,
        wakeups: a.wakeups + b.wakeups,
        rx_dropped: a.rx_dropped + b.rx_dropped,
        tx_invalid: a.tx_invalid + b.tx_invalid,
        memory_tx_frames: a.memory_tx_frames + b.memory_tx_frames,
        memory_rx_frames: a.memory_rx_frames + b.memory_rx_frames,
        memory_full: a.memory_full + b.memory_full,
    }
}
