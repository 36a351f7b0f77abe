//! One direction of a link: the port that sends, and its queues.

use crate::frame::{Frames, NONE, PRIORITIES};
use crate::{Frame, HostId, QueueLength, Rate, Time};

/// What a link ends at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Host(HostId),
    Switch(u32),
}

/// What a port did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames that it sent.
    pub frames: u64,
    /// Bytes of these on the wire, with preamble and gap.
    pub wire_bytes: u64,
    /// Frames that found no room in the buffer.
    pub dropped: u64,
    /// Bytes of these, from address to checksum.
    pub dropped_bytes: u64,
    /// Frames that it marked.
    pub marked: u64,
    /// Frames that the link lost, after they were sent.
    pub lost: u64,
}

/// Frames of one priority, first in, first out.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

/// A port and the link behind it.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) rate: Rate,
    /// From the last bit's departure until the next node handles the frame.
    pub(crate) delay: Time,
    pub(crate) node: Node,
    pub(crate) peer: Node,
    /// Chance of a loss, in parts of 2^64.
    pub(crate) loss: u64,
    /// The next node is a switch that handles frames when it has their headers.
    pub(crate) cut_through: bool,
    lists: [List; PRIORITIES],
    /// A bit for each list that is not empty.
    waiting: u8,
    /// Bytes in the buffer for this port, with those of the frame that is being sent, until the end
    /// of the gap behind it.
    pub(crate) held: u64,
    /// Bytes of the frame that is being sent.
    pub(crate) sending: u64,
    /// The end of the gap behind the frame that is being sent.
    pub(crate) busy_until: Time,
    /// Whether an event at `busy_until` is in the queue of events.
    pub(crate) waking: bool,
    pub(crate) counters: PortCounters,
    pub(crate) length: QueueLength,
}

impl Port {
    pub(crate) fn new(node: Node, peer: Node, rate: Rate, delay: Time, loss: f64) -> Self {
        assert!((0.0..=1.0).contains(&loss), "a loss of {loss} is not between 0 and 1");
        Self {
            rate,
            delay,
            node,
            peer,
            loss: (loss * u64::MAX as f64) as u64,
            cut_through: false,
            lists: [List { first: NONE, last: NONE }; PRIORITIES],
            waiting: 0,
            held: 0,
            sending: 0,
            busy_until: Time::ZERO,
            waking: false,
            counters: PortCounters::default(),
            length: QueueLength::default(),
        }
    }

    /// Appends a frame to the queue of its priority.
    pub(crate) fn append<P>(&mut self, frames: &mut Frames<P>, id: u32) {
        let priority = usize::from(frames.get(id).priority) % PRIORITIES;
        frames.slot(id).next = NONE;
        let list = &mut self.lists[priority];
        match list.last {
            NONE => list.first = id,
            last => frames.slot(last).next = id,
        }
        list.last = id;
        self.waiting |= 1 << priority;
    }

    /// Whether frames wait.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting != 0
    }

    /// Removes the first frame of the highest priority.
    pub(crate) fn remove<P>(&mut self, frames: &mut Frames<P>) -> Option<u32> {
        let priority = self.waiting.checked_ilog2()? as usize;
        let list = &mut self.lists[priority];
        let id = list.first;
        list.first = frames.slot(id).next;
        if list.first == NONE {
            list.last = NONE;
            self.waiting &= !(1 << priority);
        }
        Some(id)
    }

    /// Counts a frame as sent.
    pub(crate) fn count<P>(&mut self, frame: &Frame<P>) {
        self.counters.frames += 1;
        self.counters.wire_bytes += u64::from(frame.wire_bytes());
    }
}
