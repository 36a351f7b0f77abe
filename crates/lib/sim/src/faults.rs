//! The faults of the network, and how often they happened.

use std::time::Duration;

/// The faults of each frame, independent of each other. Probabilities are from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The frame vanishes.
    pub loss: f64,
    /// The frame arrives twice, the second time with its own delay.
    pub duplication: f64,
    /// One bit after the Ethernet addresses is flipped.
    pub corruption: f64,
    /// The frame is delayed by up to `disorder_by` more, so that later ones overtake it.
    pub disorder: f64,
    /// See `disorder`.
    pub disorder_by: Duration,
    /// Delay of every frame.
    pub delay: Duration,
    /// Bytes per second that a port receives; zero means no limit.
    pub rate: u64,
    /// Longest wait for a busy port, in bytes of backlog at `rate`. Frames beyond it are dropped.
    /// Zero means no limit.
    pub buffer: u64,
    /// Longest frame that passes, in bytes from the Ethernet header on. Longer ones vanish
    /// silently, whatever the ports' MTUs allow. Zero means no limit.
    pub black_hole: usize,
    /// Datagrams of a socket's frame come one by one: the receiver's kernel does not join them.
    /// Says it only; a frame arrives whole.
    pub uncoalesced: bool,
}

/// What happened on the network so far, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sent by the ports.
    pub sent: u64,
    /// Handed to the receivers' ports.
    pub delivered: u64,
    /// Dropped at random, because a buffer was full, or by a partition.
    pub lost: u64,
    /// Dropped because they were longer than the MTU of a port, or than a black hole passes.
    pub too_long: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Changed in flight.
    pub corrupted: u64,
    /// Delayed so that others may overtake.
    pub disordered: u64,
}
