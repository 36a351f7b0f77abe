//! A network in virtual time: its events, one after the other.

use crate::events::EventQueue;
use crate::frame::{Frames, GAP, PREAMBLE, SHORTEST};
use crate::host::{Completion, Context, Host};
use crate::port::{Node, PortCounters};
use crate::topology::{Buffer, Topology};
use crate::trace::Trace;
use crate::{HostId, PortId, QueueLength, Time};
use oorandom::Rand64;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The node behind the port that sent it last handles a frame.
    Arrive { frame: u32 },
    /// A cut-through switch has the whole of a frame that it could not forward before.
    Stored { frame: u32 },
    /// A port is free.
    Free { port: PortId },
    /// A host's timer ends.
    Timer { host: HostId, token: u64 },
}

/// What became of all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames that hosts sent.
    pub sent: u64,
    /// Frames that reached their hosts.
    pub delivered: u64,
    /// Frames that found no room in a switch.
    pub dropped: u64,
    /// Frames that links lost.
    pub lost: u64,
    /// Events that were handled: the work of the simulation.
    pub events: u64,
}

/// A network with its hosts. The same topology, hosts and seed give the same run, to the frame.
pub struct Network<H: Host> {
    now: Time,
    topology: Topology,
    /// Bytes that each switch holds.
    used: Vec<u64>,
    hosts: Vec<H>,
    frames: Frames<H::Payload>,
    events: EventQueue<Event>,
    completions: Vec<Completion>,
    random: Rand64,
    totals: Totals,
    trace: Option<Trace<H::Payload>>,
}

impl<H: Host> Network<H> {
    /// A network at time zero. `seed` decides which frames links lose.
    ///
    /// # Panics
    /// If there are not as many hosts as the topology has.
    pub fn new(topology: Topology, hosts: Vec<H>, seed: u64) -> Self {
        assert_eq!(hosts.len(), topology.hosts() as usize, "one protocol for each host");
        let used = vec![0; topology.switches.len()];
        // At full load, each port sends a full frame in the time of 1,500 bytes, with two events.
        let frame_time = topology.host_rate().time(1_500).0;
        let busy = 2 * topology.ports.len() as u64 * Time::us(1).0 / frame_time;
        Self {
            now: Time::ZERO,
            topology,
            used,
            hosts,
            frames: Frames::new(),
            events: EventQueue::new(busy),
            completions: Vec::new(),
            random: Rand64::new(u128::from(seed)),
            totals: Totals::default(),
            trace: None,
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The plan.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// A host.
    pub fn host(&self, host: HostId) -> &H {
        &self.hosts[host as usize]
    }

    /// What became of all frames.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Frames on their way: on links and in switches.
    pub fn in_flight(&self) -> usize {
        self.frames.len()
    }

    /// What a port did since the begin or [`Network::restart_counters`].
    pub fn counters(&self, port: PortId) -> PortCounters {
        self.topology.ports[port as usize].counters
    }

    /// How long a port's queue was, until now.
    pub fn queue_length(&mut self, port: PortId) -> &QueueLength {
        self.settle(port);
        let port = &mut self.topology.ports[port as usize];
        port.length.change(self.now, port.held);
        &port.length
    }

    /// Keeps a histogram of a port's queue from now on, for percentiles. A later call forgets what
    /// an earlier one kept.
    pub fn keep_histogram(&mut self, port: PortId) {
        // The time until now does not count.
        self.queue_length(port);
        self.topology.ports[port as usize].length.keep_histogram();
    }

    /// Sets the counters and queue lengths of all ports to zero, after a warm-up.
    pub fn restart_counters(&mut self) {
        for port in 0..self.topology.ports.len() as PortId {
            self.settle(port);
            let port = &mut self.topology.ports[port as usize];
            port.counters = PortCounters::default();
            port.length.restart(self.now);
        }
    }

    /// Writes the frames that some ports send to a capture file from now on.
    pub fn set_trace(&mut self, trace: Trace<H::Payload>) {
        self.trace = Some(trace);
    }

    /// Ends the capture and returns it, to see whether it could be written.
    pub fn take_trace(&mut self) -> Option<Trace<H::Payload>> {
        self.trace.take()
    }

    /// Calls a host now, and lets it send.
    pub fn call<R>(&mut self, host: HostId, call: impl FnOnce(&mut H, &mut Context<'_>) -> R) -> R {
        let mut context = context(self.now, host, &mut self.events, &mut self.completions);
        let result = call(&mut self.hosts[host as usize], &mut context);
        self.offer(host);
        result
    }

    /// Lets time pass until `limit`, or until messages have completed. Returns whether they have:
    /// take them with [`Network::take_completions`].
    pub fn run(&mut self, limit: Time) -> bool {
        while self.completions.is_empty() {
            let Some((at, event)) = self.events.pop(limit) else {
                if limit != Time::NEVER {
                    self.now = self.now.max(limit);
                }
                return false;
            };
            self.now = at;
            self.totals.events += 1;
            self.handle(event);
        }
        true
    }

    /// Moves what has completed to the end of `to`.
    pub fn take_completions(&mut self, to: &mut Vec<Completion>) {
        to.append(&mut self.completions);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { frame } => {
                let port = self.frames.slot(frame).port;
                match self.topology.ports[port as usize].peer {
                    Node::Host(host) => self.deliver(host, frame),
                    Node::Switch(switch) => self.forward(switch, frame),
                }
            }
            Event::Stored { frame } => {
                let port = self.frames.slot(frame).port;
                let Node::Switch(switch) = self.topology.ports[port as usize].peer else {
                    unreachable!("only switches store frames")
                };
                self.enqueue(switch, self.egress(switch, frame), frame);
            }
            Event::Free { port } => {
                self.topology.ports[port as usize].waking = false;
                match self.topology.ports[port as usize].node {
                    Node::Host(host) => self.offer(host),
                    Node::Switch(_) => self.send_next(port),
                }
            }
            Event::Timer { host, token } => self.call(host, |h, context| h.timer(token, context)),
        }
    }

    fn deliver(&mut self, host: HostId, frame: u32) {
        let frame = self.frames.remove(frame);
        self.totals.delivered += 1;
        self.call(host, |h, context| h.receive(frame, context));
    }

    /// Asks a host for a frame, if its NIC is free.
    fn offer(&mut self, host: HostId) {
        let port = &self.topology.ports[host as usize];
        if port.waking {
            return;
        }
        let mut context = context(self.now, host, &mut self.events, &mut self.completions);
        let Some(frame) = self.hosts[host as usize].next_frame(&mut context) else { return };
        self.totals.sent += 1;
        let id = self.frames.add(frame);
        self.transmit(host, id);
        self.wake(host);
    }

    /// The port by which a frame leaves a switch.
    fn egress(&self, switch: u32, frame: u32) -> PortId {
        let frame = self.frames.get(frame);
        self.topology.route(switch, frame.destination, frame.flow)
    }

    fn forward(&mut self, switch: u32, frame: u32) {
        let egress = self.egress(switch, frame);
        let slot = self.frames.slot(frame);
        let from = &self.topology.ports[slot.port as usize];
        let whole_at = slot.whole_at;
        if from.cut_through && self.topology.ports[egress as usize].rate < from.rate {
            self.events.push(whole_at, Event::Stored { frame });
        } else {
            self.enqueue(switch, egress, frame);
        }
    }

    /// Puts a frame into a port's queue, or drops it.
    fn enqueue(&mut self, switch: u32, egress: PortId, frame: u32) {
        self.settle(egress);
        let settings = &self.topology.switches[switch as usize].switch;
        let (buffer, mark_above) = (settings.buffer, settings.mark_above);
        let length = u64::from(self.frames.get(frame).length.max(SHORTEST));
        let used = self.used[switch as usize];
        let port = &mut self.topology.ports[egress as usize];
        let held = port.held + length;
        let fits = match buffer {
            Buffer::Unlimited => true,
            Buffer::PerPort(bytes) => held <= bytes,
            Buffer::Shared { bytes, alpha: (times, of) } => {
                used + length <= bytes && held * of <= (bytes - used) * times
            }
        };
        if !fits {
            port.counters.dropped += 1;
            port.counters.dropped_bytes += length;
            self.totals.dropped += 1;
            self.frames.remove(frame);
            return;
        }
        if mark_above.is_some_and(|above| held > above) {
            port.counters.marked += 1;
            self.frames.get_mut(frame).marked = true;
        }
        port.held = held;
        port.length.change(self.now, held);
        self.used[switch as usize] = used + length;
        let port = &mut self.topology.ports[egress as usize];
        port.append(&mut self.frames, frame);
        if self.now >= port.busy_until {
            self.send_next(egress);
        } else {
            self.wake(egress);
        }
    }

    /// Takes a frame whose transmission is over out of the buffer.
    fn settle(&mut self, port: PortId) {
        let port = &mut self.topology.ports[port as usize];
        if port.sending > 0 && port.busy_until <= self.now {
            port.held -= port.sending;
            port.length.change(port.busy_until, port.held);
            if let Node::Switch(switch) = port.node {
                self.used[switch as usize] -= port.sending;
            }
            port.sending = 0;
        }
    }

    /// Sends the next frame of a switch's port, if the port is free.
    fn send_next(&mut self, id: PortId) {
        self.settle(id);
        let port = &mut self.topology.ports[id as usize];
        if port.busy_until <= self.now {
            let Some(frame) = port.remove(&mut self.frames) else { return };
            port.sending = u64::from(self.frames.get(frame).length.max(SHORTEST));
            self.transmit(id, frame);
        }
        // Without a queue and a shared buffer, nobody needs to know when the port is free again:
        // the next frame finds out.
        let port = &self.topology.ports[id as usize];
        if port.has_waiting() || self.is_shared(port.node) {
            self.wake(id);
        }
    }

    fn is_shared(&self, node: Node) -> bool {
        let Node::Switch(switch) = node else { return false };
        let buffer = self.topology.switches[switch as usize].switch.buffer;
        matches!(buffer, Buffer::Shared { .. })
    }

    /// Sees to an event when the port is free.
    fn wake(&mut self, id: PortId) {
        let port = &mut self.topology.ports[id as usize];
        if !port.waking {
            port.waking = true;
            self.events.push(port.busy_until, Event::Free { port: id });
        }
    }

    /// Puts a frame on a link.
    fn transmit(&mut self, id: PortId, frame: u32) {
        let sent = self.frames.get(frame);
        let port = &mut self.topology.ports[id as usize];
        port.count(sent);
        port.busy_until = self.now + port.rate.time(sent.wire_bytes());
        if let Some(trace) = &mut self.trace {
            trace.frame(self.now, id, sent);
        }
        if port.loss > 0 && self.random.rand_u64() < port.loss {
            port.counters.lost += 1;
            self.totals.lost += 1;
            self.frames.remove(frame);
            return;
        }
        let whole_at = port.busy_until - port.rate.time(GAP) + port.delay;
        let at = match port.cut_through {
            true => self.now + port.rate.time(PREAMBLE + SHORTEST) + port.delay,
            false => whole_at,
        };
        let slot = self.frames.slot(frame);
        (slot.port, slot.whole_at) = (id, whole_at);
        self.events.push(at, Event::Arrive { frame });
    }
}

/// What a host can do, without a borrow of the hosts.
fn context<'a>(
    now: Time,
    host: HostId,
    events: &'a mut EventQueue<Event>,
    completions: &'a mut Vec<Completion>,
) -> Context<'a> {
    Context { now, host, events, completions }
}
