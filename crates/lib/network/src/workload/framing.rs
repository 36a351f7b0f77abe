//! How a message is cut into frames.

use crate::{HostId, Time, Topology, wire_bytes};

/// Bytes of messages and of headers in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Bytes of a message in a full frame.
    pub payload: u32,
    /// Bytes of all headers and the checksum.
    pub header: u32,
}

impl Framing {
    /// Full frames of a message, and the length of the frame behind them or 0. Even an empty
    /// message has a frame.
    pub fn frames(self, message: u32) -> (u64, u32) {
        let (full, rest) = (message / self.payload, message % self.payload);
        let last = if rest > 0 || full == 0 { rest + self.header } else { 0 };
        (u64::from(full), last)
    }

    /// The length of a frame with so many bytes of a message.
    pub fn length(self, bytes: u32) -> u32 {
        bytes + self.header
    }

    /// Bytes on a link for a whole message.
    pub fn wire_bytes(self, message: u32) -> u64 {
        let (full, last) = self.frames(message);
        let last = if last > 0 { u64::from(wire_bytes(last)) } else { 0 };
        full * u64::from(wire_bytes(self.length(self.payload))) + last
    }

    /// The time of a message on an idle network, until the receiver handles its last frame.
    pub fn ideal(
        self,
        topology: &Topology,
        source: HostId,
        destination: HostId,
        message: u32,
    ) -> Time {
        let path = topology.path(source, destination, 0);
        let (full, last) = self.frames(message);
        topology.ideal(&path, full, self.length(self.payload), last)
    }
}
