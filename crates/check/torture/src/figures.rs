//! What was tried in how many ways, and what came of it.

use crate::violation::Class;
use std::fmt;

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of one run or of many.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Figures {
            $($(#[$doc])* pub $name: u64,)*
            /// Broken promises, as in [`Class::ALL`].
            pub violations: [u64; Class::ALL.len()],
        }

        impl std::ops::AddAssign for Figures {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
                for (a, b) in self.violations.iter_mut().zip(other.violations) {
                    *a += b;
                }
            }
        }
    };
}

figures! {
    /// Runs.
    seeds,
    /// Nodes, over all runs.
    nodes,
    /// Frames that were handed to the network.
    frames,
    /// Frames that the network dropped: at random, for want of buffer, by partitions.
    dropped,
    /// Frames that were delivered twice.
    duplicated,
    /// Frames of which a bit was changed.
    corrupted,
    /// Frames that were delayed, so that others may overtake.
    disordered,
    /// Frames that were sent again by the protocol.
    repeated,
    /// Partitions, both ways.
    partitions,
    /// Partitions, one way.
    one_way,
    /// Links of nodes that failed, in one direction or both, while others worked.
    link_cuts,
    /// Paths beside others that were taken for dead, and that came into use (again).
    deaths,
    /// See `deaths`.
    returns,
    /// Nodes that vanished.
    crashes,
    /// Nodes that were closed as they should be.
    closes,
    /// Nodes that came back.
    restarts,
    /// Nodes that stopped to receive for a while.
    pauses,
    /// Nodes that did nothing at all for a while.
    freezes,
    /// Messages accepted for sending.
    sent,
    /// Messages delivered, each compared.
    delivered,
    /// Messages handed back as failed, each compared.
    failed,
    /// Messages that programs kept for a while, each compared when it was given back.
    kept,
    /// Frames that were copied because programs kept too many.
    copied,
    /// Tagged messages started.
    tagged,
    /// Tagged messages received, each compared.
    received,
    /// Remote writes, reads, additions and swaps that were done.
    remote,
    /// Operations that were lost with their peer.
    lost_operations,
    /// Operations refused because the memory they meant was gone.
    refused,
    /// Operations that were cancelled in time.
    cancelled,
    /// Notices of remote writes taken, each compared.
    notices,
    /// Bytes delivered in all of these.
    bytes,
    /// Virtual time in nanoseconds.
    virtual_time,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, nodes, frames, sent, delivered, failed, .. } = self;
        let seconds = self.virtual_time as f64 / 1e9;
        writeln!(
            f,
            "tried: {seeds} seeds, {nodes} nodes, {frames} frames, {seconds:.0} s of virtual time"
        )?;
        writeln!(
            f,
            "faults: {} frames dropped, {} duplicated, {} corrupted, {} disordered; {} partitions, {} one way;",
            self.dropped,
            self.duplicated,
            self.corrupted,
            self.disordered,
            self.partitions,
            self.one_way
        )?;
        writeln!(
            f,
            "        {} links cut, {} paths dead, {} in use (again); {} crashes, {} closes, {} restarts,",
            self.link_cuts, self.deaths, self.returns, self.crashes, self.closes, self.restarts
        )?;
        writeln!(
            f,
            "        {} receivers paused, {} nodes frozen; {} messages kept, {} frames copied therefore",
            self.pauses, self.freezes, self.kept, self.copied
        )?;
        writeln!(
            f,
            "carried: {sent} messages sent, {delivered} delivered, {failed} handed back; {} frames sent again;",
            self.repeated
        )?;
        writeln!(
            f,
            "        {} tagged messages, {} received; {} remote accesses, {} notices; {} operations lost with",
            self.tagged, self.received, self.remote, self.notices, self.lost_operations
        )?;
        writeln!(
            f,
            "        their peer, {} refused, {} cancelled; {} bytes",
            self.refused, self.cancelled, self.bytes
        )?;
        let counts = Class::ALL.iter().zip(self.violations);
        let words: Vec<_> = counts.map(|(class, n)| format!("{} {n}", class.word())).collect();
        write!(f, "result: {}", words.join(", "))
    }
}
