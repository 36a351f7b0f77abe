//! The protocol checked exhaustively: all orders in which a few nodes with tiny windows can send,
//! receive, lose, restart and wait.
//!
//! A [`Form`] is such a network. Its states are whole [`Protocol`](gigae_proto::Protocol)s, which
//! are the code that endpoints run and no copy of its rules, the frames in flight, and what has
//! become of every message; its steps are a message sent or given back, a frame that arrives,
//! vanishes, is overtaken or doubled, a timer, a node that restarts or closes. [`check`] lets a
//! model checker (`stateright`) go through every state that any order of steps leads to, and holds
//! each to the [`Rule`]s.
//!
//! That something happens at last is checked in two ways. No state comes twice: clocks go on, and
//! frames that answer each other for ever break a rule; so if all states were looked at, every run
//! has an end. And from every state in which only time can change anything all faults end, and
//! everything must arrive or fail, one message more must arrive, and then there must be silence
//! ([`Rule::Stuck`]).
//!
//! **Time.** Every node has its own clock. Only a timer that fires moves the clock, to the time
//! when something is due. Timers of different nodes fire in any order, also where one's time is
//! longer than the other's. Round trips take no time or that of a timer, and there is one
//! retransmission timeout, not doubled, so that there are few different times.
//!
//! **Network.** Frames of one direction arrive in the order in which they were sent, except those
//! that are late: these arrive at any later time or never, of whatever session. How many are late,
//! lost and doubled is bounded by the form, and so are timers that fire while anything else can
//! happen.
//!
//! **Paths.** With two links a frame takes a nanosecond. Without that, the times could not show
//! which path received a frame later. A path can be cut for good, and everything must arrive by the
//! other. Frames are lost, late and doubled on two paths as on one.
//!
//! What is not looked at: frames of several messages, operations, the search for the longest frame,
//! other versions, bytes (headers are handed over as they are), and everything larger than the
//! forms.
//!
//! A harness that can [mutate](Mutation) the protocol on request shows that the rules notice
//! (`tests/notices.rs`).

#![forbid(unsafe_code)]

mod check;
mod check_report;
mod coverage;
mod form;
pub mod forms;
mod heal;
mod history;
mod mutation;
mod network;
mod node;
mod rule;
mod system;
mod usual;

pub use check::check;
pub use check_report::CheckReport;
pub use coverage::CoverageGoal;
pub use form::{Budget, Form, Mutation};
pub use rule::Rule;
