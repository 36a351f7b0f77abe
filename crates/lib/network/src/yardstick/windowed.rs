//! A sender with a window for each message, which a congestion control sets by acknowledgements.
//!
//! The receiver acknowledges each frame by itself. The NIC takes acknowledgements first, then one
//! frame of each message that its window allows, in turns. A message is a connection of its own:
//! nothing is known from the one before. After a timeout, a time without progress, all missing
//! bytes are sent again. There is no fast retransmission.

use super::ranges::Ranges;
use crate::workload::{Framing, Message, MessageHost};
use crate::{Context, Frame, Host, HostId, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of an acknowledgement: less than the shortest frame.
const ACK: u32 = 64;

/// What an acknowledgement says to the congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When it came.
    pub now: Time,
    /// Since its frame was sent.
    pub rtt: Time,
    /// Bytes.
    pub bytes: u32,
    /// The frame was marked.
    pub marked: bool,
    /// The place of the frame's first byte in the message.
    pub from: u32,
    /// The place of the next byte that will be sent for the first time.
    pub next: u32,
}

/// A congestion control: it has the window of one message.
pub trait Control: Clone {
    /// Changes the window after an acknowledgement.
    fn acked(&mut self, ack: &Acked);

    /// Changes the window after a timeout: a time without progress.
    fn timed_out(&mut self);

    /// The window in bytes. With less than a frame, the sender pauses between two frames.
    fn window(&self) -> f64;
}

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowFrame {
    /// Bytes of a message.
    Data {
        /// The message.
        message: u32,
        /// Its length.
        length: u32,
        /// The first byte's place.
        from: u32,
        /// The place behind the last byte.
        to: u32,
        /// When it was sent.
        sent: Time,
    },
    /// Such a frame has arrived.
    Ack {
        /// The message.
        message: u32,
        /// The first byte's place.
        from: u32,
        /// The place behind the last byte.
        to: u32,
        /// When the frame was sent.
        sent: Time,
        /// The frame was marked.
        marked: bool,
    },
}

/// A message that leaves.
#[derive(Clone, Debug)]
struct Flow<C> {
    destination: HostId,
    length: u32,
    /// The next byte to send, unless it has been acknowledged.
    next: u32,
    /// The greatest `next` so far.
    reached: u32,
    in_flight: u32,
    acked: Ranges,
    acked_bytes: u32,
    control: C,
    rtt: Time,
    progress: Time,
    /// No frame before this time: pacing.
    not_before: Time,
    is_ready: bool,
}

/// A host with windows.
#[derive(Debug)]
pub struct Windowed<C> {
    framing: Framing,
    control: C,
    timeout: Time,
    flows: BTreeMap<u32, Flow<C>>,
    /// Messages that may send, in turns.
    ready: VecDeque<u32>,
    acks: VecDeque<(HostId, WindowFrame)>,
    incoming: BTreeMap<u32, (Ranges, u32)>,
    done: BTreeSet<u32>,
    sweeping: bool,
}

/// The token of the timer that looks for messages without progress. Others are messages' numbers.
const SWEEP: u64 = u64::MAX;

impl<C: Control> Windowed<C> {
    /// A host without messages. Each message begins with a copy of `control`.
    pub fn new(framing: Framing, control: C, timeout: Time) -> Self {
        Self {
            framing,
            control,
            timeout,
            flows: BTreeMap::new(),
            ready: VecDeque::new(),
            acks: VecDeque::new(),
            incoming: BTreeMap::new(),
            done: BTreeSet::new(),
            sweeping: false,
        }
    }

    /// The congestion control of a message that is not done yet.
    pub fn control(&self, message: u32) -> Option<&C> {
        self.flows.get(&message).map(|flow| &flow.control)
    }

    /// Bytes of a message that were acknowledged, if it is not done yet.
    pub fn acked_bytes(&self, message: u32) -> Option<u32> {
        self.flows.get(&message).map(|flow| flow.acked_bytes)
    }

    fn make_ready(&mut self, message: u32) {
        if let Some(flow) = self.flows.get_mut(&message)
            && !flow.is_ready
        {
            flow.is_ready = true;
            self.ready.push_back(message);
        }
    }

    fn receive_data(
        &mut self,
        (message, length): (u32, u32),
        (from, to): (u32, u32),
        context: &mut Context<'_>,
    ) {
        if self.done.contains(&message) {
            return;
        }
        let (ranges, received) = self.incoming.entry(message).or_default();
        *received += ranges.add(from, to);
        if *received == length {
            self.incoming.remove(&message);
            self.done.insert(message);
            context.complete(message);
        }
    }

    fn receive_ack(&mut self, message: u32, (from, to): (u32, u32), ack: Acked) {
        let Some(flow) = self.flows.get_mut(&message) else { return };
        let new = flow.acked.add(from, to);
        if new > 0 {
            flow.in_flight = flow.in_flight.saturating_sub(to - from);
            flow.acked_bytes += new;
            flow.progress = ack.now;
            flow.rtt = ack.rtt;
            flow.control.acked(&Acked { next: flow.reached, ..ack });
        }
        if flow.acked_bytes == flow.length {
            self.flows.remove(&message);
        } else {
            self.make_ready(message);
        }
    }

    /// The next bytes of a message, if its window allows them now.
    fn next_bytes(&mut self, message: u32, context: &mut Context<'_>) -> Option<(u32, u32)> {
        let flow = self.flows.get_mut(&message)?;
        let (from, end) = flow.acked.missing_from(flow.next, flow.length)?;
        let to = end.min(from.saturating_add(self.framing.payload));
        let window = flow.control.window();
        if flow.in_flight > 0 && f64::from(flow.in_flight + (to - from)) > window {
            return None;
        }
        if context.now < flow.not_before {
            context.set_timer(flow.not_before, u64::from(message));
            return None;
        }
        let payload = f64::from(self.framing.payload);
        if window < payload {
            flow.not_before = context.now + Time((flow.rtt.0 as f64 * payload / window) as u64);
        }
        flow.next = to;
        flow.reached = flow.reached.max(to);
        flow.in_flight += to - from;
        Some((from, to))
    }

    fn start_sweeping(&mut self, context: &mut Context<'_>) {
        if !self.sweeping && !self.flows.is_empty() {
            self.sweeping = true;
            context.set_timer(context.now + Time(self.timeout.0 / 2), SWEEP);
        }
    }
}

impl<C: Control> Host for Windowed<C> {
    type Payload = WindowFrame;

    fn receive(&mut self, frame: Frame<WindowFrame>, context: &mut Context<'_>) {
        let now = context.now;
        match frame.payload {
            WindowFrame::Data { message, length, from, to, sent } => {
                let marked = frame.marked;
                let ack = WindowFrame::Ack { message, from, to, sent, marked };
                self.acks.push_back((frame.source, ack));
                self.receive_data((message, length), (from, to), context);
            }
            WindowFrame::Ack { message, from, to, sent, marked } => {
                let (rtt, bytes, next) = (now - sent, to - from, 0);
                let ack = Acked { now, rtt, bytes, marked, from, next };
                self.receive_ack(message, (from, to), ack);
            }
        }
    }

    fn timer(&mut self, token: u64, context: &mut Context<'_>) {
        if token != SWEEP {
            self.make_ready(token as u32);
            return;
        }
        self.sweeping = false;
        let mut late = Vec::new();
        for (&message, flow) in &mut self.flows {
            if flow.in_flight > 0 && context.now.since(flow.progress) >= self.timeout {
                flow.progress = context.now;
                (flow.next, flow.in_flight) = (0, 0);
                flow.control.timed_out();
                late.push(message);
            }
        }
        for message in late {
            self.make_ready(message);
        }
        self.start_sweeping(context);
    }

    fn next_frame(&mut self, context: &mut Context<'_>) -> Option<Frame<WindowFrame>> {
        let source = context.host;
        let new = |destination, flow, length, payload| {
            let (priority, marked) = (0, false);
            Frame { source, destination, flow, length, priority, marked, payload }
        };
        if let Some((destination, payload)) = self.acks.pop_front() {
            return Some(new(destination, source, ACK, payload));
        }
        while let Some(message) = self.ready.pop_front() {
            let bytes = self.next_bytes(message, context);
            let Some(flow) = self.flows.get_mut(&message) else { continue };
            let Some((from, to)) = bytes else {
                flow.is_ready = false;
                continue;
            };
            self.ready.push_back(message);
            let (destination, length, sent) = (flow.destination, flow.length, context.now);
            let payload = WindowFrame::Data { message, length, from, to, sent };
            return Some(new(destination, message, self.framing.length(to - from), payload));
        }
        None
    }
}

impl<C: Control> MessageHost for Windowed<C> {
    fn send(&mut self, number: u32, message: &Message, context: &mut Context<'_>) {
        let flow = Flow {
            destination: message.destination,
            length: message.length.max(1),
            next: 0,
            reached: 0,
            in_flight: 0,
            acked: Ranges::default(),
            acked_bytes: 0,
            control: self.control.clone(),
            rtt: Time::ZERO,
            progress: context.now,
            not_before: Time::ZERO,
            is_ready: false,
        };
        self.flows.insert(number, flow);
        self.make_ready(number);
        self.start_sweeping(context);
    }
}
