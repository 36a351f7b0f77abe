//! DCTCP's window (Alizadeh and others, SIGCOMM 2010; RFC 8257): it shrinks by the part of bytes
//! that were marked.
//!
//! Left out: delayed acknowledgements, and TCP's reaction to losses but for a timeout.

use super::windowed::{Acked, Control};

/// The gain of the moving average, as published.
const GAIN: f64 = 1.0 / 16.0;
/// The least window in frames, and that at the start (RFC 6928).
const LEAST: f64 = 2.0;
const FIRST: f64 = 10.0;

/// DCTCP.
#[derive(Clone, Debug)]
pub struct Dctcp {
    /// Bytes of a full frame.
    frame: f64,
    window: f64,
    /// The moving average of the marked part.
    alpha: f64,
    slow_start: bool,
    /// Acknowledged and marked bytes in this round trip, which ends with the byte at `end`.
    acked: f64,
    marked: f64,
    end: u32,
    /// The window has shrunk in this round trip.
    reduced: bool,
}

impl Dctcp {
    /// The window of a new connection, with so many bytes of data in a full frame.
    pub fn new(payload: u32) -> Self {
        let frame = f64::from(payload);
        let window = FIRST * frame;
        // As in RFC 8257: the first mark halves the window.
        let (alpha, slow_start, acked, marked, end, reduced) = (1.0, true, 0.0, 0.0, 0, false);
        Self { frame, window, alpha, slow_start, acked, marked, end, reduced }
    }

    /// The moving average of the marked part of all bytes.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }
}

impl Control for Dctcp {
    fn acked(&mut self, ack: &Acked) {
        if ack.from >= self.end {
            if self.acked > 0.0 {
                self.alpha += GAIN * (self.marked / self.acked - self.alpha);
            }
            (self.acked, self.marked, self.end, self.reduced) = (0.0, 0.0, ack.next, false);
        }
        let bytes = f64::from(ack.bytes);
        self.acked += bytes;
        if ack.marked {
            self.marked += bytes;
            self.slow_start = false;
            if !self.reduced {
                self.reduced = true;
                self.window *= 1.0 - self.alpha / 2.0;
            }
        } else if self.slow_start {
            self.window += bytes;
        } else if !self.reduced {
            self.window += self.frame * bytes / self.window;
        }
        self.window = self.window.max(LEAST * self.frame);
    }

    fn timed_out(&mut self) {
        self.slow_start = false;
        self.window = LEAST * self.frame;
    }

    fn window(&self) -> f64 {
        self.window
    }
}
