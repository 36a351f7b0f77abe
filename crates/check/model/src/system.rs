//! A state: nodes, frames in flight, what has become of every message, and which faults are
//! left.

use crate::form::{Budget, Form, Mutation};
use crate::history::{Flow, Message, Report};
use crate::mutation::distort;
use crate::network::{LinkDirection, Network, digest};
use crate::node::{Frame, Node, Payload, Reported, address, addresses};
use crate::rule::Rule;
use crate::usual;
use gigae_proto::{Arrival, Instant, PeerId, ProtocolConfig, ProtocolCounters};
use gigae_wire::{Epoch, PathId};
use std::sync::Arc;

/// Steps between two rests beyond which frames are taken to answer each other for ever.
const RESTLESS: u16 = 250;

/// What can happen next. Nodes and flows are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Transition {
    /// A program sends its next message.
    Send(usize),
    /// A program gives back the oldest message that it has.
    Take(usize),
    /// Time passes for a node until something is due.
    Tick(usize),
    /// A node sends what it has to send, if it is [lazy](Form::lazy).
    Transmit(usize),
    /// The oldest frame of a direction arrives.
    Arrive(LinkDirection),
    /// A frame that was late arrives.
    ArriveLate(usize),
    /// The oldest frame of a direction vanishes.
    Lose(LinkDirection),
    /// The oldest frame of a direction is late.
    Delay(LinkDirection),
    /// Of the oldest frame of a direction there will be a second one.
    Copy(LinkDirection),
    /// Nothing arrives by a path any more.
    Cut(PathId),
    /// A node forgets all and begins again.
    Restart(usize),
    /// A node closes its endpoint.
    Close(usize),
    /// The network answers the oldest frame of a direction, which has not arrived ([`Mutation`]).
    Forge(LinkDirection),
}

/// See the module's description.
#[derive(Clone, Debug, Hash)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "equal is what has the same hash")]
pub(crate) struct System {
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) network: Network,
    pub(crate) flows: Vec<Flow>,
    pub(crate) budget: Budget,
    /// Steps since the last rest. So no state comes again: at rest only what is counted or time
    /// goes on.
    pub(crate) restless: u16,
    /// The rule that was broken.
    pub(crate) broken: Option<Rule>,
}

/// States are the same if their hashes are: the checker compares them in the same way.
impl PartialEq for System {
    fn eq(&self, other: &Self) -> bool {
        digest(self) == digest(other)
    }
}

impl System {
    /// The beginning.
    pub(crate) fn new(form: &Form) -> Self {
        let count = form.nodes;
        let node = |i| {
            let config = ProtocolConfig { links: addresses(i, form.paths), ..form.config.clone() };
            Arc::new(Node::new(&config, count, form.secret, 0))
        };
        let mut system = Self {
            nodes: (0..count).map(node).collect(),
            network: Network::new(count, form.paths),
            flows: form.flows.iter().map(|&(from, to, n)| Flow::new(from, to, n)).collect(),
            budget: form.budget,
            restless: 0,
            broken: None,
        };
        if form.up {
            for &(from, to, _) in &form.flows {
                for (node, other) in [(from, to), (to, from)] {
                    let node_mut = system.node(node);
                    let peer = node_mut.peer(other);
                    node_mut.proto.propose(peer);
                    system.serve(form, node);
                }
            }
            system.drain(form);
        }
        system
    }

    pub(crate) fn node(&mut self, node: usize) -> &mut Node {
        Arc::make_mut(&mut self.nodes[node])
    }

    fn break_rule(&mut self, rule: Rule) {
        self.broken.get_or_insert(rule);
    }

    fn check(&mut self, result: Result<(), Rule>) {
        if let Err(rule) = result {
            self.break_rule(rule);
        }
    }

    /// Whether nothing is in flight and no program has a message: only time can change anything,
    /// or a program.
    pub(crate) fn is_at_rest(&self) -> bool {
        let rests = |node: &Arc<Node>| node.held.is_empty() && !node.proto.wants_transmit();
        self.network.is_empty() && self.nodes.iter().all(rests)
    }

    /// Whether a node's timers may fire as often as they want: at rest, and while no other node and
    /// no path is gone, which it would ask for ever.
    fn is_time_free(&self, node: usize) -> bool {
        let gone = |(i, other): (usize, &Arc<Node>)| i != node && other.closed;
        self.is_at_rest() && self.network.cut.is_none() && !self.nodes.iter().enumerate().any(gone)
    }

    /// Everything that can happen now.
    pub(crate) fn steps(&self, form: &Form, steps: &mut Vec<Transition>) {
        if self.broken.is_some() {
            return;
        }
        steps.extend(
            (0..self.flows.len()).filter(|&flow| self.is_ready(flow)).map(Transition::Send),
        );
        let budget = self.budget;
        for (i, node) in self.nodes.iter().enumerate() {
            if !node.held.is_empty() {
                steps.push(Transition::Take(i));
            }
            if node.proto.wants_transmit() {
                steps.push(Transition::Transmit(i));
            }
            let may_tick = budget.early > 0 || self.is_time_free(i);
            if may_tick && node.proto.next_deadline() < Instant::NEVER {
                steps.push(Transition::Tick(i));
            }
            if budget.restarts > 0 || node.closed && !node.proto.is_closing() {
                steps.push(Transition::Restart(i));
            }
            if budget.closes > 0 && !node.closed {
                steps.push(Transition::Close(i));
            }
        }
        if budget.cuts > 0 {
            steps.extend(PathId::all(form.paths).map(Transition::Cut));
        }
        for direction in self.network.directions() {
            let Some(frame) = self.network.first(direction) else { continue };
            steps.push(Transition::Arrive(direction));
            if budget.lost > 0 {
                steps.push(Transition::Lose(direction));
            }
            if budget.late > 0 {
                steps.push(Transition::Delay(direction));
            }
            if budget.copied > 0 {
                steps.push(Transition::Copy(direction));
            }
            let forges = matches!(form.mutation, Mutation::ForgedAck | Mutation::ForgedReset);
            if forges && frame.header.kind.is_data() {
                steps.push(Transition::Forge(direction));
            }
        }
        // Of frames that are the same one may arrive.
        steps.extend(self.network.late_ones().map(Transition::ArriveLate));
    }

    /// Whether a program has something to send, and its endpoint takes it.
    pub(crate) fn is_ready(&self, flow: usize) -> bool {
        let Flow { from, to, left, .. } = self.flows[flow];
        let node = &self.nodes[from];
        let full = |peer: PeerId| node.of(peer) == to && node.proto.is_full(peer);
        left > 0 && !node.closed && !(0..node.proto.peers()).any(|i| full(PeerId(i as u32)))
    }

    /// Whether any node has counted something.
    pub(crate) fn counts(&self, what: impl Fn(&ProtocolCounters) -> u64) -> bool {
        self.nodes.iter().any(|node| what(node.proto.counters()) > 0)
    }

    /// Whether the numbers of a session have begun again from zero.
    pub(crate) fn has_wrapped(&self) -> bool {
        let wrapped = |reported: &Reported| reported.ack.0 < reported.epochs.1.0;
        self.nodes.iter().any(|node| node.reported.iter().any(wrapped))
    }

    /// What comes of a step.
    pub(crate) fn after(&self, form: &Form, step: Transition) -> Self {
        let mut next = self.clone();
        next.take_step(form, step);
        // Only what arrives in turn can lead to more of its kind.
        next.restless += u16::from(matches!(step, Transition::Arrive(..)));
        if next.is_at_rest() {
            next.restless = 0;
        }
        if next.restless > RESTLESS {
            next.break_rule(Rule::Stuck);
        }
        next
    }

    pub(crate) fn take_step(&mut self, form: &Form, step: Transition) {
        match step {
            Transition::Send(flow) => self.send(form, flow),
            Transition::Take(node) => self.give_back(form, node),
            Transition::Tick(node) => {
                self.budget.early -= u8::from(!self.is_time_free(node));
                let at = self.nodes[node].proto.next_deadline();
                self.pass_time(form, node, at);
            }
            Transition::Transmit(node) => self.transmit(form, node),
            Transition::Arrive(direction) => {
                if let Some(frame) = self.network.pop(direction) {
                    self.arrive(form, direction, frame);
                }
            }
            Transition::ArriveLate(i) => {
                let (direction, frame) = self.network.late.remove(i);
                let frame = self.falsify(form, direction, frame);
                self.arrive(form, direction, frame);
            }
            Transition::Lose(direction) => {
                self.budget.lost -= 1;
                self.network.pop(direction);
            }
            Transition::Delay(direction) => {
                self.budget.late -= 1;
                let frame = self.network.pop(direction);
                self.network.keep_late(direction, frame);
            }
            Transition::Copy(direction) => {
                self.budget.copied -= 1;
                let frame = self.network.first(direction).cloned();
                self.network.keep_late(direction, frame);
            }
            Transition::Cut(path) => {
                self.budget.cuts -= 1;
                self.network.cut(path);
            }
            Transition::Restart(node) => self.restart(form, node),
            Transition::Close(node) => {
                self.budget.closes -= 1;
                self.node(node).closed = true;
                self.node(node).proto.close();
                self.serve(form, node);
            }
            Transition::Forge(direction) => self.forge(form, direction),
        }
    }

    pub(crate) fn send(&mut self, form: &Form, flow: usize) {
        let (from, to) = (self.flows[flow].from, self.flows[flow].to);
        let number = self.flows[flow].send();
        let message = Message { flow: flow as u8, number };
        let node = self.node(from);
        let peer = node.peer(to);
        usual::compare_sending(&node.proto, peer, message);
        node.proto.send(peer, 1, message).expect("it was asked whether there is room");
        self.serve(form, from);
    }

    pub(crate) fn give_back(&mut self, form: &Form, node: usize) {
        let taker = self.node(node);
        if let Some((peer, epoch)) = taker.held.pop_front() {
            taker.proto.release(peer, epoch);
        }
        self.serve(form, node);
    }

    pub(crate) fn pass_time(&mut self, form: &Form, node: usize, until: Instant) {
        let node_mut = self.node(node);
        node_mut.now = until.max(node_mut.now);
        self.serve(form, node);
    }

    pub(crate) fn restart(&mut self, form: &Form, node: usize) {
        let again = self.node(node);
        let planned = again.closed && !again.proto.is_closing();
        again.restart(form.mutation == Mutation::SameEpochs);
        self.budget.restarts -= u8::from(!planned);
        self.flows.iter_mut().filter(|flow| flow.from == node).for_each(Flow::forget);
    }

    pub(crate) fn arrive(&mut self, form: &Form, direction: LinkDirection, frame: Frame) {
        let LinkDirection { from, to, path } = direction;
        let Frame { header, body, life } = frame;
        let (mut buffer, bytes) = match body {
            Payload::Message(message) => (Some(message), Vec::new()),
            Payload::Control(bytes) => (None, bytes),
        };
        let node = self.node(to);
        if form.paths > 1 {
            // The protocol sees by the time which path received later.
            node.now = Instant(node.now.0 + 1);
            node.proto.advance(node.now);
        }
        let from_node = address(from, path);
        let arrival = Arrival { path, from: &from_node, header: &header, payload: &bytes };
        if let Some(message) = buffer {
            usual::compare_taking(&node.proto, &arrival, message);
        }
        let taken = node.proto.handle(arrival, &mut buffer);
        if taken.is_ok() && header.kind.is_of_session() {
            let owns = node.owns(header.dst_epoch);
            let reported = &mut node.reported[from];
            let old = life < reported.life;
            reported.life = reported.life.max(life);
            if old || !owns {
                self.break_rule(Rule::OldFrame);
            }
        }
        self.serve(form, to);
    }

    /// All that a node does by itself and at once: it hands out what it has, reads its clock and,
    /// unless it is lazy, sends.
    pub(crate) fn serve(&mut self, form: &Form, i: usize) {
        self.hand_out(i);
        let node = self.node(i);
        node.proto.advance(node.now);
        self.hand_out(i);
        if !form.lazy {
            self.transmit(form, i);
        }
    }

    fn transmit(&mut self, form: &Form, i: usize) {
        while let Some((direction, frame)) = self.node(i).next_frame(i) {
            if let Some(frame) = distort(form, frame) {
                self.look_at(direction, &frame);
                self.network.push(direction, frame);
            }
        }
        let node = self.node(i);
        node.proto.advance(node.now);
    }

    /// What the protocol has for the program.
    fn hand_out(&mut self, i: usize) {
        let may_fail = self.nodes.iter().any(|node| node.life > 0 || node.closed)
            || self.nodes[i].proto.config().peer_timeout < std::time::Duration::MAX;
        while let Some(delivery) = self.node(i).proto.poll_delivery() {
            let node = self.node(i);
            let (from, life) = (node.of(delivery.peer), node.life);
            node.held.push_back((delivery.peer, delivery.epoch));
            count(&mut node.reported[from], delivery.epoch);
            let Message { flow, number } = delivery.buffer;
            let result = self.flows[usize::from(flow)].deliver(number, life);
            self.check(result);
        }
        while let Some(Message { flow, number }) = self.node(i).proto.poll_acknowledged() {
            let result = self.flows[usize::from(flow)].report(number, Report::Done);
            self.check(result);
        }
        while let Some(failure) = self.node(i).proto.poll_failure() {
            let Message { flow, number } = failure.buffer;
            let result = self.flows[usize::from(flow)].report(number, Report::Failed);
            self.check(result);
            if !may_fail {
                self.break_rule(Rule::Groundless);
            }
        }
        let proto = &mut self.node(i).proto;
        while proto.poll_discarded().is_some() {}
        while proto.poll_ended().is_some() {}
    }

    /// What a frame that goes out acknowledges and grants, against what was delivered and said
    /// before.
    fn look_at(&mut self, LinkDirection { from, to, .. }: LinkDirection, frame: &Frame) {
        let header = &frame.header;
        if !header.kind.is_of_session() {
            return;
        }
        let node = self.node(from);
        // The Hello reported that much.
        let granted = node.proto.config().receive_window.into();
        let reported = &mut node.reported[to];
        let epochs = (header.src_epoch, header.dst_epoch);
        let first = header.dst_epoch.first_seq();
        if reported.epochs != epochs {
            let delivered = if reported.epochs.0 == epochs.0 { reported.delivered } else { 0 };
            *reported = Reported {
                epochs,
                delivered,
                ack: first,
                limit: first + granted,
                life: reported.life,
            };
        }
        let limit = header.ack + u32::from(header.credit);
        let back = header.ack.is_before(reported.ack) || limit.is_before(reported.limit);
        let ahead = header.ack.ahead_of(first) > reported.delivered.cast_signed();
        (reported.ack, reported.limit) = (header.ack, limit);
        if back {
            self.break_rule(Rule::Withdrawn);
        }
        if ahead {
            self.break_rule(Rule::Ahead);
        }
    }

    /// Delivers and gives back all that can be, without loss, until nothing is left but time.
    /// False if there is no end to it.
    pub(crate) fn drain(&mut self, form: &Form) -> bool {
        for _ in 0..1_000 {
            if self.is_at_rest() {
                return true;
            }
            for direction in self.network.directions() {
                if let Some(frame) = self.network.pop(direction) {
                    self.arrive(form, direction, frame);
                }
            }
            for node in 0..self.nodes.len() {
                self.give_back(form, node);
                self.transmit(form, node);
            }
        }
        false
    }
}

/// One frame more was delivered in the session with this epoch of the receiver's.
fn count(reported: &mut Reported, epoch: Epoch) {
    if reported.epochs.0 != epoch {
        // Of this session nothing was sent yet.
        *reported = Reported {
            epochs: (epoch, Epoch::UNKNOWN),
            life: reported.life,
            ..Reported::default()
        };
    }
    reported.delivered += 1;
}
