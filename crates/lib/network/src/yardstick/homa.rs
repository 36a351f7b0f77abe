//! Homa without priorities (Montazeri and others, SIGCOMM 2018): receivers grant, shortest first.
//!
//! A sender begins a message without asking: its first `unscheduled` bytes. The receiver grants the
//! rest to the `degree` messages with the fewest bytes left, each `ahead` bytes beyond what has
//! arrived. A sender's NIC takes grants first, then the message with the fewest bytes left.
//!
//! Left out: priorities in the network, the share of grants for the oldest message (it is newer
//! than the paper), and the answer as acknowledgement. With [`HomaConfig::retry`], a receiver asks
//! for what is missing, and says when a message is complete.

use super::ranges::Ranges;
use crate::workload::{Framing, Message, MessageHost};
use crate::{Context, Frame, Host, HostId, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of a frame without data: less than the shortest.
const CONTROL: u32 = 64;
/// The token of the only timer.
const SWEEP: u64 = 0;

/// What Homa can be set to.
#[derive(Clone, Copy, Debug)]
pub struct HomaConfig {
    /// Frames.
    pub framing: Framing,
    /// Bytes that a sender sends without a grant; rounded up to whole frames.
    pub unscheduled: u32,
    /// Bytes that a receiver grants beyond what has arrived; rounded up to whole frames.
    pub ahead: u32,
    /// Messages that a receiver grants at once; `usize::MAX`: all.
    pub degree: usize,
    /// Without progress for this time, ends ask again. `None`: the network loses nothing.
    pub retry: Option<Time>,
}

impl HomaConfig {
    /// As published for 10 Gbit/s: 9,700 B are the bandwidth-delay product; up to 7 messages.
    pub fn published() -> Self {
        Self {
            framing: Framing { payload: 1_442, header: 76 },
            unscheduled: 9_700,
            ahead: 9_700,
            degree: 7,
            retry: None,
        }
    }
}

/// What a frame of Homa says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomaFrame {
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
    },
    /// The sender may send all before this byte.
    Grant {
        /// The message.
        message: u32,
        /// The place.
        to: u32,
    },
    /// These bytes are missing.
    Resend {
        /// The message.
        message: u32,
        /// The first missing byte.
        from: u32,
        /// The place behind the last missing byte.
        to: u32,
    },
    /// The message has arrived.
    Done {
        /// The message.
        message: u32,
    },
}

/// A message that leaves.
#[derive(Clone, Debug)]
struct Outgoing {
    destination: HostId,
    length: u32,
    sent: u32,
    granted: u32,
    /// Bytes that are sent again.
    again: Option<(u32, u32)>,
    /// The receiver's last sign, and how long the next one may take.
    heard: Time,
    patience: Time,
}

impl Outgoing {
    fn can_send(&self) -> bool {
        self.again.is_some() || self.sent < self.granted
    }
}

/// A message that arrives.
#[derive(Clone, Debug)]
struct Incoming {
    source: HostId,
    length: u32,
    received: u32,
    granted: u32,
    ranges: Ranges,
    heard: Time,
}

impl Incoming {
    fn left(&self) -> u32 {
        self.length - self.received
    }
}

/// A host that speaks Homa.
#[derive(Debug)]
pub struct Homa {
    config: HomaConfig,
    outgoing: BTreeMap<u32, Outgoing>,
    /// Bytes left and number of each outgoing message that can send now.
    ready: BTreeSet<(u32, u32)>,
    incoming: BTreeMap<u32, Incoming>,
    /// Bytes left and number of each incoming message that needs grants, ascending.
    waiting: Vec<(u32, u32)>,
    /// Messages that have arrived; only with `retry`.
    done: BTreeSet<u32>,
    /// Frames without data.
    control: VecDeque<(HostId, HomaFrame)>,
    sweeping: bool,
}

impl Homa {
    /// A host without messages.
    pub fn new(config: HomaConfig) -> Self {
        Self {
            config,
            outgoing: BTreeMap::new(),
            ready: BTreeSet::new(),
            incoming: BTreeMap::new(),
            waiting: Vec::new(),
            done: BTreeSet::new(),
            control: VecDeque::new(),
            sweeping: false,
        }
    }

    /// The end of the last of the frames that begin before `bytes`.
    fn whole_frames(&self, bytes: u32, length: u32) -> u32 {
        let payload = u64::from(self.config.framing.payload);
        let end = u64::from(bytes).div_ceil(payload) * payload;
        end.min(u64::from(length)) as u32
    }

    fn receive_data(
        &mut self,
        source: HostId,
        (message, length): (u32, u32),
        (from, to): (u32, u32),
        context: &mut Context<'_>,
    ) {
        if self.done.contains(&message) {
            self.control.push_back((source, HomaFrame::Done { message }));
            return;
        }
        let unscheduled = self.whole_frames(self.config.unscheduled.max(1), length);
        let mut is_new = false;
        let incoming = self.incoming.entry(message).or_insert_with(|| {
            is_new = true;
            let (ranges, heard) = (Ranges::default(), context.now);
            Incoming { source, length, received: 0, granted: unscheduled, ranges, heard }
        });
        let before = (incoming.left(), message);
        incoming.received += incoming.ranges.add(from, to);
        incoming.heard = context.now;
        let after = (incoming.left(), message);
        let needs_grants = incoming.granted < length;
        if after.0 == 0 {
            self.incoming.remove(&message);
            context.complete(message);
            if self.config.retry.is_some() {
                self.done.insert(message);
                self.control.push_back((source, HomaFrame::Done { message }));
            }
        }
        if !is_new && let Ok(found) = self.waiting.binary_search(&before) {
            self.waiting.remove(found);
        }
        if needs_grants && after.0 > 0 {
            let place = self.waiting.partition_point(|other| *other < after);
            self.waiting.insert(place, after);
        }
        self.grant();
        self.start_sweeping(context);
    }

    /// Grants bytes to the messages with the fewest bytes left.
    fn grant(&mut self) {
        let mut i = 0;
        while i < self.config.degree.min(self.waiting.len()) {
            let message = self.waiting[i].1;
            let incoming = &self.incoming[&message];
            let wanted = incoming.received.saturating_add(self.config.ahead);
            let to = self.whole_frames(wanted, incoming.length);
            if to > incoming.granted {
                self.control.push_back((incoming.source, HomaFrame::Grant { message, to }));
            }
            let incoming = self.incoming.get_mut(&message).expect("it waits");
            incoming.granted = incoming.granted.max(to);
            if incoming.granted == incoming.length {
                // The next message takes its place.
                self.waiting.remove(i);
            } else {
                i += 1;
            }
        }
    }

    /// Changes an outgoing message, and where it stands among those that can send.
    fn change(&mut self, message: u32, change: impl FnOnce(&mut Outgoing)) {
        let Some(outgoing) = self.outgoing.get_mut(&message) else { return };
        self.ready.remove(&(outgoing.length - outgoing.sent, message));
        change(outgoing);
        if outgoing.can_send() {
            self.ready.insert((outgoing.length - outgoing.sent, message));
        } else if outgoing.sent == outgoing.length && self.config.retry.is_none() {
            self.outgoing.remove(&message);
        }
    }

    fn start_sweeping(&mut self, context: &mut Context<'_>) {
        let Some(retry) = self.config.retry else { return };
        let has_work = !self.outgoing.is_empty() || !self.incoming.is_empty();
        if has_work && !self.sweeping {
            self.sweeping = true;
            context.set_timer(context.now + Time(retry.0 / 2), SWEEP);
        }
    }

    /// Asks for what should have arrived, and repeats the first frame of messages about which no
    /// receiver says anything.
    fn sweep(&mut self, now: Time, retry: Time) {
        for (&message, incoming) in &mut self.incoming {
            if now.since(incoming.heard) < retry {
                continue;
            }
            if let Some((from, to)) = incoming.ranges.missing(incoming.granted) {
                incoming.heard = now;
                let resend = HomaFrame::Resend { message, from, to };
                self.control.push_back((incoming.source, resend));
            }
        }
        let payload = self.config.framing.payload;
        for (&message, outgoing) in &mut self.outgoing {
            if outgoing.can_send() || now.since(outgoing.heard) < outgoing.patience {
                continue;
            }
            // Twice as long each time: the receiver may have enough others to serve.
            outgoing.heard = now;
            outgoing.patience = Time(outgoing.patience.0 * 2);
            outgoing.again = Some((0, payload.min(outgoing.length)));
            self.ready.insert((outgoing.length - outgoing.sent, message));
        }
    }
}

impl Host for Homa {
    type Payload = HomaFrame;

    fn receive(&mut self, frame: Frame<HomaFrame>, context: &mut Context<'_>) {
        let (now, patience) = (context.now, self.config.retry.unwrap_or(Time::NEVER));
        match frame.payload {
            HomaFrame::Data { message, length, from, to } => {
                self.receive_data(frame.source, (message, length), (from, to), context);
            }
            HomaFrame::Grant { message, to } => self.change(message, |outgoing| {
                outgoing.granted = outgoing.granted.max(to);
                (outgoing.heard, outgoing.patience) = (now, patience);
            }),
            HomaFrame::Resend { message, from, to } => self.change(message, |outgoing| {
                // It stands for the grant, too, which may have been lost. What was never sent is no
                // repetition.
                outgoing.granted = outgoing.granted.max(to);
                let to = to.min(outgoing.sent);
                outgoing.again = (from < to).then_some((from, to));
                (outgoing.heard, outgoing.patience) = (now, patience);
            }),
            HomaFrame::Done { message } => {
                if let Some(outgoing) = self.outgoing.remove(&message) {
                    self.ready.remove(&(outgoing.length - outgoing.sent, message));
                }
            }
        }
    }

    fn timer(&mut self, _token: u64, context: &mut Context<'_>) {
        self.sweeping = false;
        if let Some(retry) = self.config.retry {
            self.sweep(context.now, retry);
        }
        self.start_sweeping(context);
    }

    fn next_frame(&mut self, context: &mut Context<'_>) -> Option<Frame<HomaFrame>> {
        let new = |destination, flow, length, payload| {
            let (source, priority, marked) = (context.host, 0, false);
            Frame { source, destination, flow, length, priority, marked, payload }
        };
        if let Some((destination, payload)) = self.control.pop_front() {
            return Some(new(destination, context.host, CONTROL, payload));
        }
        let &(_, message) = self.ready.first()?;
        let framing = self.config.framing;
        let outgoing = &self.outgoing[&message];
        let (destination, length) = (outgoing.destination, outgoing.length);
        let (from, end) = outgoing.again.unwrap_or((outgoing.sent, outgoing.granted));
        let to = end.min(from.saturating_add(framing.payload));
        self.change(message, |outgoing| match &mut outgoing.again {
            Some(again) => {
                again.0 = to;
                outgoing.again = outgoing.again.filter(|&(from, to)| from < to);
            }
            None => outgoing.sent = to,
        });
        let payload = HomaFrame::Data { message, length, from, to };
        Some(new(destination, message, framing.length(to - from), payload))
    }
}

impl MessageHost for Homa {
    fn send(&mut self, number: u32, message: &Message, context: &mut Context<'_>) {
        let (destination, length) = (message.destination, message.length.max(1));
        let granted = self.whole_frames(self.config.unscheduled.max(1), length);
        let (heard, patience) = (context.now, self.config.retry.unwrap_or(Time::NEVER));
        let (sent, again) = (0, None);
        let outgoing = Outgoing { destination, length, sent, granted, again, heard, patience };
        self.outgoing.insert(number, outgoing);
        self.ready.insert((length, number));
        self.start_sweeping(context);
    }
}
