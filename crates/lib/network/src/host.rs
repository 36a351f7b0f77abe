//! What a host's protocol is to the network.

use crate::events::EventQueue;
use crate::network::Event;
use crate::{Frame, HostId, Time};

/// A host with its protocol.
///
/// The NIC pulls: whenever its port is free, it asks for the next frame. So the host decides at the
/// last moment what it sends, and its own order counts.
pub trait Host {
    /// What the protocol writes into a frame.
    type Payload;

    /// A frame has arrived.
    fn receive(&mut self, frame: Frame<Self::Payload>, context: &mut Context<'_>);

    /// A timer has ended. A timer cannot be cancelled: the host ignores those it no longer needs.
    fn timer(&mut self, token: u64, context: &mut Context<'_>);

    /// The port is free. After `None`, the NIC asks again when the host was called.
    fn next_frame(&mut self, context: &mut Context<'_>) -> Option<Frame<Self::Payload>>;
}

/// A message that has arrived as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The message's number.
    pub message: u32,
    /// When its last frame was handled.
    pub at: Time,
}

/// What a host can do while it is called.
pub struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) host: HostId,
    pub(crate) events: &'a mut EventQueue<Event>,
    pub(crate) completions: &'a mut Vec<Completion>,
}

impl Context<'_> {
    /// The virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The host that is called.
    pub fn host(&self) -> HostId {
        self.host
    }

    /// Calls [`Host::timer`] at a time, or now if that is over.
    pub fn set_timer(&mut self, at: Time, token: u64) {
        self.events.push(at.max(self.now), Event::Timer { host: self.host, token });
    }

    /// Says that a message has arrived as a whole.
    pub fn complete(&mut self, message: u32) {
        self.completions.push(Completion { message, at: self.now });
    }
}
