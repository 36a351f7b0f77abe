//! A virtual Gigabit Ethernet out of network namespaces.
//!
//! A [`Fabric`] is a switch (a namespace with a bridge) and 2 to 64 nodes (a namespace each, with
//! an interface, `eth0`, wired to a port of the switch by a veth pair). The ports of the switch
//! shape what they send to the link rate and can lose, duplicate and corrupt frames by a seeded,
//! repeatable choice.
//!
//! ```text
//!   {prefix}-n1        {prefix}-sw          {prefix}-n2
//!   ┌────────┐   ┌────────────────────┐   ┌────────┐
//!   │   eth0 ├───┤ p1 ── bridge ── p2 ├───┤ eth0   │
//!   └────────┘   └────────────────────┘   └────────┘
//!   198.18.0.1    impair -> tbf on the     198.18.0.2
//!                 way out of p1 and p2
//! ```
//!
//! A fabric of several networks ([`FabricConfig::networks`]) has a bridge for each, and the nodes
//! an interface to each: `eth0`, `eth1` and so on. Ports are p1, p2 ..., on the second network
//! p1-1, p2-1 ...
//!
//! # What the shaper counts
//!
//! A token bucket (tc-tbf(8)) on each port charges a frame its length with the 14 bytes of the
//! Ethernet header, plus 24 for preamble, check sequence and gap, and 84 at least: what it takes on
//! a real wire. [`FabricConfig::payload_limit`] says what remains for a payload; UDP and TCP reach
//! 99 to 100 % of it. The counters ([`PortCounters`], `tc -s`) show frames without those 24 bytes.
//!
//! The bucket would charge a 64 KB piece of TCP ("segmentation offload") as one frame, and the
//! impairments would lose it as one. So nodes of a shaped or impaired fabric have these offloads
//! switched off, and every sender crosses the wire in frames; on an unshaped fabric they stay on,
//! as found. On a corrupting fabric checksum offload is off too: over a veth a checksum is
//! otherwise never computed, and a corrupted TCP segment would be delivered.
//!
//! Frames of a socket (TCP, UDP, `AF_PACKET`, `AF_XDP` in copy mode alike) stay charged to its send
//! buffer until the *switch's* port has sent them. So a single sender is held back by the bucket as
//! by the transmit queue of the sender's own network card, and seldom overruns the port's buffer;
//! many senders to one node do.
//!
//! # Delay
//!
//! With [`FabricConfig::delay`] a process of ours takes the place of the bridge: every frame leaves
//! the switch that long after it came, in order. Nodes of such a fabric send UDP in single
//! datagrams; TCP's long pieces stay whole unless the fabric is shaped or impaired. Frames with a
//! VLAN tag do not pass. A program that creates such a fabric calls [`become_forwarder`] first.
//!
//! # What it does not do
//!
//! The way from a node *to* the switch is not shaped (an `AF_XDP` sender passes by every queue of
//! the sender's own interface), so one node that sends to several others at once is not held to one
//! link's rate. There are no loops, no VLANs and no reordering. Nothing is made outside
//! the fabric's own namespaces, and nothing is removed that does not carry the fabric's mark (see
//! [`Fabric::down`]).
//!
//! # What it needs
//!
//! Set-up is done by the ordinary programs `ip` and `tc` (iproute2) and needs `CAP_SYS_ADMIN` and
//! `CAP_NET_ADMIN`. A process of an ordinary user gains both by [`gain_privileges`], in its own
//! user namespace. Impairments also need `CAP_BPF` outside of user namespaces (part of root's set).
//!
//! A thread inside a node (see [`Node::enter`]) still sees the *former* namespace's
//! `/sys/class/net`, because sysfs shows the namespace that it was mounted in. Use netlink, an
//! ioctl, `/proc/thread-self/net/` or `/proc/sys/net/`, which follow the thread.

mod config;
mod delay;
mod error;
mod fabric;
mod feature;
mod impair;
mod netns;
mod node;
mod outage;
mod state;
mod status;
mod tool;
mod topology;
mod userns;

#[cfg(feature = "testing")]
pub mod testing;

pub use config::{Delay, FabricConfig, Impairments, Rate};
pub use delay::{DelayCounters, become_forwarder};
pub use error::FabricError;
pub use fabric::{Down, Fabric, Process};
pub use gigae_host::netns::NetnsGuard;
pub use impair::ImpairmentCounters;
pub use netns::leave_network;
pub use node::Node;
pub use outage::Outage;
pub use state::OwnerProcess;
pub use status::{NodeStatus, PortCounters, Status};
pub use userns::gain_privileges;
