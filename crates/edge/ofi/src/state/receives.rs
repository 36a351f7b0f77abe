//! Receives other than of one message into one memory.

use crate::request::{ReceiveContext, Request};
use crate::state::reports::ReceiveEnd;
use gigae::OpId;
use std::collections::HashMap;

/// Bytes that must be left in a memory for several messages, unless the caller says otherwise.
const LEAST_LEFT: usize = 64;

/// A message that was claimed.
pub(crate) enum Claimed {
    Arriving,
    Arrived(Box<Request>, ReceiveEnd),
    Wanted(Box<Request>),
}

/// See the module's description.
pub(crate) struct Receives {
    /// Receives of several messages. Their requests come back with the last message.
    pub(crate) several: HashMap<OpId, ReceiveContext>,
    /// Claimed messages by the contexts that they were claimed for, with the slots of the
    /// operations that fetch them. The operation of a message that was discarded goes on without
    /// an entry here, and the program may use its context again. No other operation has its slot
    /// until its completion was taken; the library's number may come again before.
    pub(crate) claims: HashMap<usize, (u32, Claimed)>,
    pub(crate) least_left: usize,
    /// A message came whose sender waits for its acknowledgement.
    pub(crate) awaited: bool,
}

impl Receives {
    pub(crate) fn new() -> Self {
        Self {
            several: HashMap::new(),
            claims: HashMap::new(),
            least_left: LEAST_LEFT,
            awaited: false,
        }
    }
}
