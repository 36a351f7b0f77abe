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
            "        {} crashes, {} closes, {} restarts, {} receivers paused, {} nodes frozen",
            self.crashes, self.closes, self.restarts, self.pauses, self.freezes
        )?;
        writeln!(
            f,
            "carried: {sent} messages sent, {delivered} delivered, {failed} handed back; {} frames sent again;",
            self.repeated
        )?;
        writeln!(
            f,
            "        {} tagged messages, {} received; {} remote accesses; {} operations lost with their peer, {} refused; {} bytes",
            self.tagged, self.received, self.remote, self.lost_operations, self.refused, self.bytes
        )?;
        let counts = Class::ALL.iter().zip(self.violations);
        let words: Vec<_> = counts.map(|(class, n)| format!("{} {n}", class.word())).collect();
        write!(f, "result: {}", words.join(", "))
    }
}
