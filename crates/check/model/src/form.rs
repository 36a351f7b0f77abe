//! What is checked: a form is a small network, and what it may do at worst.

use crate::coverage::CoverageGoal;
use gigae_proto::ProtocolConfig;
use std::time::Duration;

/// A few nodes with tiny windows, the messages that their programs send, and how often the network
/// and the nodes may misbehave. All orders in which that can happen are looked at.
#[derive(Clone, Debug)]
pub struct Form {
    /// Names the form in the table.
    pub name: String,
    /// Nodes, 2 or 3.
    pub nodes: usize,
    /// Links of each node, 1 or 2, which are paths of one session.
    pub paths: usize,
    /// The sender, the receiver, and how many messages.
    pub flows: Vec<(usize, usize, u8)>,
    /// Of all nodes.
    pub config: ProtocolConfig,
    /// What the epochs of all nodes are computed from in their first lives, and so their sequence
    /// numbers.
    pub secret: u128,
    /// Every session is up at the beginning.
    pub up: bool,
    /// Nodes send later than they could: several frames arrive, or messages are sent, in between,
    /// as with an endpoint that is busy.
    pub lazy: bool,
    /// What may go wrong.
    pub budget: Budget,
    /// What has to occur somewhere, or the form does not reach what it is for.
    pub reaches: Vec<CoverageGoal>,
    /// What the harness does wrong, so that something must be found.
    pub mutation: Mutation,
}

/// A secret with which the first session of the first node with the second has an epoch near the
/// last number, so that its sequence numbers wrap. Found by trying; the forms that are to reach the
/// wrap say so if it is one no more.
const WRAPS: u128 = 0x2b38_34e1;

/// How often something may go wrong; what is left of it is part of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Frames that vanish.
    pub lost: u8,
    /// Frames that are overtaken: they come at any later time, or never.
    pub late: u8,
    /// Frames of which a second one comes at any later time, or never.
    pub copied: u8,
    /// Timers that fire while frames are on the way or the program has taken no notice of a
    /// message: that time passes then. They are free while nothing else can happen.
    pub early: u8,
    /// Nodes that forget all and begin again.
    pub restarts: u8,
    /// Paths by which nothing arrives any more.
    pub cuts: u8,
    /// Nodes that close their endpoint, and open one again once the graceful close is over.
    pub closes: u8,
}

/// What the harness does wrong on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Nothing.
    None,
    /// The network may answer a data frame with an Ack before it has arrived.
    ForgedAck,
    /// The network may answer a data frame with a Reset that ends the session.
    ForgedReset,
    /// Credit is not asked for again: an Ack with ASK vanishes.
    MuteProbes,
    /// Acks acknowledge one frame more than came.
    AcksAhead,
    /// Acks take back credit that was given.
    TakesCreditBack,
    /// Late frames have the epochs and numbers that the receiver expects, as if it did not look at
    /// them.
    BlindToEpochs,
    /// Late data frames have the number that the receiver expects, as if it did not know what has
    /// come.
    BlindToNumbers,
    /// A node that restarts uses its former epochs again.
    SameEpochs,
}

impl Form {
    /// Two nodes without faults. The first one sends. The session begins with the handshake.
    pub fn new(name: impl Into<String>, messages: u8) -> Self {
        let config = ProtocolConfig {
            send_window: 2,
            receive_window: 2,
            reorder_window: 2,
            // Half of them may be kept out of order.
            receive_frames: 16,
            ack_every: 2,
            ack_delay: Duration::from_micros(50),
            // One timeout: the number of different times stays small.
            min_rto: Duration::from_millis(1),
            max_rto: Duration::from_millis(1),
            peer_timeout: Duration::MAX,
            ..ProtocolConfig::default()
        };
        Self {
            name: name.into(),
            nodes: 2,
            paths: 1,
            flows: vec![(0, 1, messages)],
            config,
            secret: WRAPS,
            up: false,
            lazy: false,
            budget: Budget::default(),
            reaches: vec![CoverageGoal::AllDone],
            mutation: Mutation::None,
        }
    }

    /// The second node sends this many messages, too.
    #[must_use]
    pub fn and_back(mut self, messages: u8) -> Self {
        self.flows.push((1, 0, messages));
        self
    }

    /// A third node sends as many to the second as the first.
    #[must_use]
    pub fn and_a_third(mut self) -> Self {
        self.nodes = 3;
        self.flows.push((2, 1, self.flows[0].2));
        self
    }

    /// Frames that may be in flight (a power of two), that may be granted, and kept out of order.
    #[must_use]
    pub fn windows(mut self, send: u16, receive: u16, reorder: u16) -> Self {
        self.config.send_window = send;
        self.config.receive_window = receive;
        self.config.reorder_window = reorder;
        self
    }

    /// The sessions are up at the beginning.
    #[must_use]
    pub fn up(mut self) -> Self {
        self.up = true;
        self
    }

    /// Nodes send later than they could.
    #[must_use]
    pub fn lazy(mut self) -> Self {
        self.lazy = true;
        self
    }

    /// All nodes have two links.
    #[must_use]
    pub fn two_paths(mut self) -> Self {
        self.paths = 2;
        self
    }

    /// An acknowledgement for every `frames` frames.
    #[must_use]
    pub fn ack_every(mut self, frames: u16) -> Self {
        self.config.ack_every = frames;
        self
    }

    /// A peer that is silent for so long is lost.
    #[must_use]
    pub fn peer_timeout(mut self, time: Duration) -> Self {
        self.config.peer_timeout = time;
        self
    }

    /// What may go wrong.
    #[must_use]
    pub fn faults(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// What has to occur besides.
    #[must_use]
    pub fn reaches(mut self, goals: &[CoverageGoal]) -> Self {
        self.reaches.extend(goals);
        self
    }

    /// What the harness does wrong.
    #[must_use]
    pub fn mutate(mut self, mutation: Mutation) -> Self {
        self.mutation = mutation;
        self
    }
}
