//! What may happen to frames, and what did.

use std::time::Duration;

/// What may happen to each frame, independently. Probabilities are from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The frame vanishes.
    pub loss: f64,
    /// The frame arrives twice, the second time after a delay of its own.
    pub duplication: f64,
    /// One bit after the Ethernet addresses is flipped.
    pub corruption: f64,
    /// The frame is delayed by up to `disorder_by` more, so that later ones overtake it.
    pub disorder: f64,
    /// See `disorder`.
    pub disorder_by: Duration,
    /// Time on the way, the same for all frames.
    pub delay: Duration,
    /// Bytes per second that a port receives; zero is without limit.
    pub rate: u64,
    /// Longest wait for a busy port, in bytes of backlog at `rate`; a frame beyond is dropped.
    /// Zero is without limit.
    pub buffer: u64,
    /// Longest frame that passes, in bytes from the Ethernet header on; longer ones vanish without
    /// a word, whatever the ports' MTUs promise. Zero is without limit.
    pub black_hole: usize,
}

/// What happened on the network so far, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Handed in by senders.
    pub sent: u64,
    /// Handed out to receivers' ports.
    pub delivered: u64,
    /// Dropped at random, for want of buffer, or by a partition.
    pub lost: u64,
    /// Dropped because they were longer than the MTU of a port on their way, or than a black hole
    /// lets pass.
    pub too_long: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Changed on the way.
    pub corrupted: u64,
    /// Delayed so that others may overtake.
    pub disordered: u64,
}
