//! Ports on a NIC for processes without privileges.
//!
//! Opening an AF_XDP link needs capabilities, using it does not. So a small privileged daemon, the
//! *broker*, opens links for others. For each client it makes a macvlan child of the NIC
//! (`gigae-macvlan`), opens a link on it with everything fixed that must be fixed
//! (`gigae_xdp::XdpLink::make`), and passes the parts to the client as descriptors. From then on
//! frames go directly between the client and the kernel, as fast as if the client had opened the
//! link itself.
//!
//! ```text
//!  client                                   broker
//!    connect ─────────────────────────────▶  who is it (SO_PEERCRED), and where? may he?
//!    request: NIC, EtherType, channels ───▶  Quotas: within the limits?
//!    fills, seals it  ◀─────── empty memory  LentMemory::new
//!    filled ──────────────────────────────▶  in its user's turn: Child::make, XdpLink::make
//!    XdpLink::assemble  ◀── socket, claim ─  closes its own copies
//!    ... frames ...
//!    ends, or is killed ── end of file ───▶  removes the child; counts the rest until it is gone
//! ```
//!
//! | module | is |
//! |---|---|
//! | `protocol` | the messages as bytes; everything may be hostile |
//! | `quotas` | who may have what, without a socket |
//! | `server` | the broker: one thread, one `poll` |
//! | `fair_queue` | whose turn it is |
//! | `lent` | what clients have of the broker's, and whether they still have it |
//! | `kernel` | what a broker has the kernel do |
//! | `client` | asking |
//! | `daemon` | the broker as a process |
//! | `config`, `names`, `privileges` | `/etc/gigae/broker.toml`, users and groups, giving up privileges |
//!
//! **Not done here.** The broker passes no AF_PACKET socket: a process with one may bind it to
//! every interface and send on each, by bind(2) and sendto(2), without a capability. No port has a
//! UDP envelope: a child has no IP address. `SECURITY.md` says what a client can do with its port.

mod client;
mod config;
mod daemon;
mod fair_queue;
mod kernel;
mod lent;
mod message;
mod names;
mod privileges;
mod protocol;
mod quotas;
mod server;

pub use client::{BrokerError, Port, PortOffer, SOCKET, VARIABLE, nics, socket};
pub use config::{Allowed, BrokerConfig, CONFIG, ConfigError, Limits};
pub use daemon::{listen, run};
pub use kernel::{Kernel, MadePort};
pub use names::PeerProcess;
pub use privileges::KEPT;
pub use protocol::{
    ANSWER_LEN, Answer, DESCRIPTORS, Malformed, REQUEST_LEN, Refusal, RefusalCode, Request,
    VERSION, filled,
};
pub use quotas::{PortGrant, Quotas, UserUsage};
pub use server::Broker;
