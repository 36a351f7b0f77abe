//! A protocol that only sends what it is given, and notes what it receives.

use gigae_network::{Context, Frame, Host, HostId, Time};
use std::collections::VecDeque;

/// Sends its frames as fast as its NIC takes them.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    pub(crate) to_send: VecDeque<Frame<u32>>,
    /// When each was received, with its payload.
    pub(crate) received: Vec<(Time, Frame<u32>)>,
}

impl Host for Plain {
    type Payload = u32;

    fn receive(&mut self, frame: Frame<u32>, context: &mut Context<'_>) {
        self.received.push((context.now(), frame));
    }

    fn timer(&mut self, token: u64, _context: &mut Context<'_>) {
        // Timers of tests send a frame of these bytes from host 0 to host 1.
        self.to_send.push_back(frame(0, 1, token as u32));
    }

    fn next_frame(&mut self, _context: &mut Context<'_>) -> Option<Frame<u32>> {
        self.to_send.pop_front()
    }
}

/// A frame of this length.
pub(crate) fn frame(source: HostId, destination: HostId, length: u32) -> Frame<u32> {
    let (flow, priority, marked, payload) = (0, 0, false, 0);
    Frame { source, destination, flow, length, priority, marked, payload }
}

/// So many hosts.
pub(crate) fn hosts(count: u32) -> Vec<Plain> {
    (0..count).map(|_| Plain::default()).collect()
}
