//! One end of a connection, before and after its peer has joined.
//!
//! [`Probe`] is implemented for every [`Channel`], so each transport gets its own compiled copy of
//! the same loops, and no call through a table lies between the clock and the message.

use crate::channel::{Channel, TransportError};
use crate::experiment;
use crate::probe::{Answered, Asked, Loop, ProbeError};
use crate::site::ChannelAddress;

/// An end that waits for its peer.
pub trait Opening: Send {
    /// Where the peer reaches this end.
    fn address(&self) -> ChannelAddress;

    /// Completes the channel. Takes at most [`JOIN_TIMEOUT`](crate::transport::JOIN_TIMEOUT).
    fn join(self: Box<Self>, peer: &ChannelAddress) -> Result<Box<dyn Probe>, TransportError>;
}

/// One end of an open connection, with the loops of all experiments.
pub trait Probe: Send {
    /// The client's loop of the task's experiment.
    fn ask(&mut self, run: &Loop<'_>) -> Result<Asked, ProbeError>;
    /// The server's.
    fn answer(&mut self, run: &Loop<'_>) -> Result<Answered, ProbeError>;
}

impl<C: Channel> Probe for C {
    fn ask(&mut self, run: &Loop<'_>) -> Result<Asked, ProbeError> {
        experiment::ask(self, run)
    }

    fn answer(&mut self, run: &Loop<'_>) -> Result<Answered, ProbeError> {
        experiment::answer(self, run)
    }
}
