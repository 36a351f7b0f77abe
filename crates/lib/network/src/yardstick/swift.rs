//! Swift's window (Kumar and others, SIGCOMM 2020): it follows a target for the round-trip time.
//!
//! Left out: the second window for congestion in the host, and the part of the target that grows
//! with the hops of the path: the target is the same for all paths.

use super::windowed::{Acked, Control};
use crate::Time;

/// Factor of the decrease, and the most that one decrease takes, as published.
const BETA: f64 = 0.8;
const MOST: f64 = 0.5;
/// The target grows for windows between these, in frames, as published.
const SMALL: f64 = 0.1;
const LARGE: f64 = 100.0;
/// The least window, in frames: a frame in a thousand round trips.
const LEAST: f64 = 0.001;
/// The window at the start, in frames.
const FIRST: f64 = 10.0;

/// Swift.
#[derive(Clone, Debug)]
pub struct Swift {
    frame: f64,
    /// In frames.
    window: f64,
    base: Time,
    range: Time,
    decreased: Time,
}

impl Swift {
    /// The window of a new connection, with so many bytes of data in a full frame. The target is
    /// `base` for large windows, and up to `range` more for small ones.
    pub fn new(payload: u32, base: Time, range: Time) -> Self {
        let frame = f64::from(payload);
        Self { frame, window: FIRST, base, range, decreased: Time::ZERO }
    }

    /// Begins with another window than 10 frames.
    pub fn with_window(self, frames: f64) -> Self {
        Self { window: frames, ..self }
    }

    /// The round-trip time that it wants now.
    pub fn target(&self) -> Time {
        let range = self.range.0 as f64;
        let slope = range / (1.0 / SMALL.sqrt() - 1.0 / LARGE.sqrt());
        let more = (slope / self.window.sqrt() - slope / LARGE.sqrt()).clamp(0.0, range);
        self.base + Time(more as u64)
    }
}

impl Control for Swift {
    fn acked(&mut self, ack: &Acked) {
        let (target, frames) = (self.target(), f64::from(ack.bytes) / self.frame);
        if ack.rtt < target {
            // One frame for each round trip.
            self.window += if self.window >= 1.0 { frames / self.window } else { frames };
        } else if ack.now.since(self.decreased) >= ack.rtt {
            self.decreased = ack.now;
            let excess = (ack.rtt - target).0 as f64 / ack.rtt.0 as f64;
            self.window *= (1.0 - BETA * excess).max(1.0 - MOST);
        }
        self.window = self.window.clamp(LEAST, 10.0 * LARGE);
    }

    fn timed_out(&mut self) {
        self.window = (self.window * (1.0 - MOST)).max(LEAST);
    }

    fn window(&self) -> f64 {
        self.window * self.frame
    }
}
