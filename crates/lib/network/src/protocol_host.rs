//! The protocol as a host, without an endpoint around it: for networks of thousands of nodes.
//!
//! A [`Real`](crate::real::Real) host is a whole endpoint, with memory for its frames. A
//! [`ProtocolHost`] is the same protocol, unchanged, whose messages are numbers. It takes a few
//! kilobytes, and less than one for each peer. It also has what `Real` does not have:
//!
//! - Its NIC asks for the next frame when the port is free, as a short transmit ring does.
//! - Its processor may take time for each received frame, and its receive ring may overflow.
//!
//! Frames have the lengths of the Ethernet envelope, but no bytes, except those of control frames.

use crate::{Context, Frame, Host, HostId, Time};
use gigae_proto::{
    Arrival, Body, Destination, Instant, PeerId, PeerKey, Protocol, ProtocolConfig, Transmit,
    Unsent,
};
use gigae_wire::{HEADER_LEN, Header, MacAddr, NodeAddr, PathId};
use std::collections::VecDeque;

/// Ethernet header and checksum.
const ENVELOPE: u32 = 14 + 4;
/// Frames that an endpoint takes from its link at once.
const BATCH: usize = 64;
/// The timer's number when the processor is done with a batch. Others are times.
const DONE: u64 = u64::MAX;

/// What a host's processor does with received frames.
#[derive(Clone, Copy, Debug)]
pub struct Processor {
    /// The time that it takes for a received frame.
    pub per_frame: Time,
    /// Received frames that may wait for it. Further ones are dropped.
    pub ring: usize,
}

impl Processor {
    /// One that takes no time.
    pub const IDEAL: Self = Self { per_frame: Time::ZERO, ring: usize::MAX };
}

/// A message: its number, and its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// See [`Context::complete`].
    pub number: u32,
    /// Bytes, at most 1,468.
    pub len: u16,
}

/// What a frame carries.
#[derive(Clone, Debug)]
pub struct Packet {
    header: Header,
    body: PacketBody,
}

#[derive(Clone, Debug)]
enum PacketBody {
    Message(Message),
    Control(Box<[u8]>),
}

/// See the module's description.
pub struct ProtocolHost {
    protocol: Protocol<Message, Message>,
    processor: Processor,
    ring: VecDeque<Frame<Packet>>,
    /// Frames at the front of the ring that the processor is handling.
    handling: usize,
    /// Messages that the protocol does not take yet.
    waiting: VecDeque<(PeerId, Message)>,
    /// The next time at which the protocol wants to be called.
    due: Time,
    /// While this is set, every frame that comes is lost: the switch is down.
    pub is_cut_off: bool,
    /// Messages that have arrived.
    pub received: u64,
    /// Frames that found the ring full.
    pub overflows: u64,
    /// Messages that came back because their session ended. They are sent again.
    pub failed: u64,
}

impl ProtocolHost {
    /// A host without peers. `secret` is that of [`Protocol::new`].
    pub fn new(config: ProtocolConfig, secret: u128, processor: Processor) -> Self {
        Self {
            protocol: Protocol::new(config, secret),
            processor,
            ring: VecDeque::new(),
            handling: 0,
            waiting: VecDeque::new(),
            due: Time::NEVER,
            is_cut_off: false,
            received: 0,
            overflows: 0,
            failed: 0,
        }
    }

    /// The node restarts: it knows nothing of what was before.
    pub fn restart(&mut self, secret: u128, context: &Context<'_>) {
        self.protocol = Protocol::new(self.protocol.config().clone(), secret);
        self.protocol.advance(Instant(context.now().nanos()));
        self.ring.truncate(self.handling);
        self.waiting.clear();
        self.due = Time::NEVER;
    }

    /// Sends a message to a host. [`Context::complete`] says that it has arrived.
    pub fn send(&mut self, to: HostId, message: Message, context: &mut Context<'_>) {
        let node = address(to);
        let key = PeerKey { node, port: 0, channel: 0 };
        let peer = self.protocol.peer(key).expect("there is room for all peers");
        self.waiting.push_back((peer, message));
        self.hand_over();
        self.pass_time(context);
    }

    /// The protocol, for its counters.
    pub fn protocol(&self) -> &Protocol<Message, Message> {
        &self.protocol
    }

    /// Hands messages to the protocol, each once.
    fn hand_over(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some((peer, message)) = self.waiting.pop_front() else { return };
            match self.protocol.send(peer, message.len, message) {
                Ok(()) => {}
                Err(Unsent::WouldBlock(message) | Unsent::Failed(message)) => {
                    self.waiting.push_back((peer, message));
                }
                Err(error) => panic!("a message of {} bytes: {error:?}", message.len),
            }
        }
    }

    /// The first frames of the ring reach the protocol.
    fn take_in(&mut self, count: usize, context: &mut Context<'_>) {
        self.protocol.set_now(Instant(context.now().nanos()));
        for Frame { source, payload, .. } in self.ring.drain(..count) {
            let Packet { header, body } = payload;
            let (mut buffer, payload) = match &body {
                PacketBody::Message(message) => (Some(*message), &[][..]),
                PacketBody::Control(bytes) => (None, &bytes[..]),
            };
            let from = &address(source);
            let arrival = Arrival { path: PathId::FIRST, from, header: &header, payload };
            // The protocol counts what it refuses.
            let _ = self.protocol.handle(arrival, &mut buffer);
        }
        self.take_outputs(context);
        self.pass_time(context);
    }

    /// Takes what the protocol has for the program.
    fn take_outputs(&mut self, context: &mut Context<'_>) {
        let protocol = &mut self.protocol;
        let mut is_free = false;
        while let Some(delivery) = protocol.poll_delivery() {
            self.received += 1;
            context.complete(delivery.buffer.number);
            protocol.release(delivery.peer, delivery.epoch);
        }
        while protocol.poll_acknowledged().is_some() {
            is_free = true;
        }
        while let Some(failure) = protocol.poll_failure() {
            self.failed += 1;
            self.waiting.push_back((failure.peer, failure.buffer));
            is_free = true;
        }
        while protocol.poll_ended().is_some() {}
        while protocol.poll_discarded().is_some() {}
        while protocol.poll_replaced().is_some() {}
        if is_free && !self.waiting.is_empty() {
            self.hand_over();
        }
    }

    /// Tells the protocol the time, as an endpoint does that is about to sleep.
    fn pass_time(&mut self, context: &mut Context<'_>) {
        let now = Instant(context.now().nanos());
        self.protocol.advance(now);
        self.protocol.acknowledge_all();
        if self.protocol.has_failures() {
            self.take_outputs(context);
            self.protocol.advance(now);
        }
        // What is due stays due until the NIC takes it, and asks for the time again then.
        if self.protocol.wants_transmit() {
            return;
        }
        let due = match self.protocol.next_deadline() {
            Instant::NEVER => return,
            at => Time::ns(at.0),
        };
        if due < self.due {
            self.due = due;
            context.set_timer(due, due.0);
        }
    }

    /// The processor begins with what waits.
    fn begin(&mut self, context: &mut Context<'_>) {
        self.handling = self.ring.len().min(BATCH);
        if self.handling > 0 {
            let time = Time(self.processor.per_frame.0 * self.handling as u64);
            context.set_timer(context.now() + time, DONE);
        }
    }
}

impl ProtocolHost {
    /// The next frame that the protocol has.
    fn next_of_protocol(&mut self, source: HostId) -> Option<Frame<Packet>> {
        let Transmit { to, header, body, .. } = self.protocol.poll_transmit()?;
        let (body, len) = match body {
            Body::Message(&mut message) => (PacketBody::Message(message), message.len.into()),
            Body::Control(bytes, pad) => {
                let mut bytes = bytes.to_vec();
                bytes.resize(bytes.len().max(pad.into()), 0);
                let len = bytes.len() as u32;
                (PacketBody::Control(bytes.into()), len)
            }
        };
        let destination = number(match to {
            Destination::Peer(peer) => self.protocol.key(peer).node,
            Destination::Unknown(key) => key.node,
        });
        let length = ENVELOPE + HEADER_LEN as u32 + len;
        let flow = source.wrapping_mul(0x9E37_79B9) ^ destination;
        let payload = Packet { header, body };
        Some(Frame { source, destination, flow, length, priority: 0, marked: false, payload })
    }
}

/// The address of a host.
fn address(host: HostId) -> NodeAddr {
    let [a, b, c, d] = (host + 1).to_be_bytes();
    MacAddr([2, 0, a, b, c, d]).into()
}

/// The host with an address.
fn number(node: NodeAddr) -> HostId {
    let NodeAddr::Ethernet(MacAddr([_, _, a, b, c, d])) = node else {
        unreachable!("all nodes have MAC addresses")
    };
    u32::from_be_bytes([a, b, c, d]) - 1
}

impl Host for ProtocolHost {
    type Payload = Packet;

    fn receive(&mut self, frame: Frame<Packet>, context: &mut Context<'_>) {
        if self.is_cut_off {
            return;
        }
        if self.ring.len() >= self.processor.ring {
            self.overflows += 1;
            return;
        }
        self.ring.push_back(frame);
        if self.processor.per_frame == Time::ZERO {
            self.take_in(1, context);
        } else if self.handling == 0 {
            self.begin(context);
        }
    }

    fn timer(&mut self, token: u64, context: &mut Context<'_>) {
        if token == DONE {
            let count = std::mem::take(&mut self.handling);
            self.take_in(count, context);
            self.begin(context);
        } else if token == self.due.0 {
            self.due = Time::NEVER;
            self.pass_time(context);
        }
    }

    fn next_frame(&mut self, context: &mut Context<'_>) -> Option<Frame<Packet>> {
        loop {
            let frame = self.next_of_protocol(context.host());
            // What was sent is waited for from now on. That time passes may make another frame due.
            self.pass_time(context);
            if frame.is_some() || !self.protocol.wants_transmit() {
                return frame;
            }
        }
    }
}
