//! What can go wrong with a link: while opening it, and later.

use std::io;

/// A link could not be opened. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such interface in this network namespace.
    #[error("no interface '{name}' here; choose one of: {}", .existing.join(", "))]
    NoInterface {
        /// The name asked for.
        name: String,
        /// The names there are.
        existing: Vec<String>,
    },
    /// The interface exists but is administratively down.
    #[error("interface '{0}' is down; bring it up with 'ip link set {0} up'")]
    InterfaceDown(String),
    /// The process may not do this.
    #[error(
        "{what} is not permitted; run as root, with a broker ('gigae broker'), in the UDP envelope (Backend::Auto), or grant {capability}"
    )]
    MissingCapability {
        /// What was tried.
        what: &'static str,
        /// The capability it needs, in the manual's spelling.
        capability: &'static str,
    },
    /// The interface's MTU cannot hold a frame of the least useful size.
    #[error(
        "MTU {mtu} of '{interface}' is too small; set at least {needed} with 'ip link set {interface} mtu {needed}'"
    )]
    MtuTooSmall {
        /// The interface.
        interface: String,
        /// Its MTU in bytes.
        mtu: usize,
        /// What is needed in bytes.
        needed: usize,
    },
    /// The kernel lacks something.
    #[error("this kernel has no {what}; {instead}")]
    Unsupported {
        /// What it lacks.
        what: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// AF_XDP works there in generic mode at best, which was not to be chosen.
    #[error(
        "AF_XDP has generic mode only on '{interface}' ({why}); ask for that mode or use the packet backend"
    )]
    OnlyGeneric {
        /// The interface.
        interface: String,
        /// Why in no better mode.
        why: String,
    },
    /// Another program's XDP program is attached to the interface.
    #[error(
        "another XDP program (id {program}) is attached to '{interface}'; detach it with 'ip link set {interface} xdp off' or use the packet backend"
    )]
    ForeignProgram {
        /// The interface.
        interface: String,
        /// The kernel's id of the program.
        program: u32,
    },
    /// The queue is already in use by another AF_XDP socket.
    #[error(
        "queue {queue} of '{interface}' already has an AF_XDP socket; end its owner, choose another queue or use the packet backend"
    )]
    QueueBusy {
        /// The interface.
        interface: String,
        /// The receive queue.
        queue: u32,
    },
    /// The broker that was asked for a port makes none.
    #[error("the broker at '{broker}' refuses: {why}")]
    Refused {
        /// Where it listens.
        broker: String,
        /// What it says.
        why: String,
    },
    /// A system call failed for another reason.
    #[error("{what} failed: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// An open link stopped working.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The interface is down; it may come back.
    #[error("interface '{0}' went down; bring it up with 'ip link set {0} up'")]
    Down(String),
    /// The interface or its namespace is gone; open a new link.
    #[error("interface '{0}' is gone; open the endpoint again")]
    Gone(String),
    /// Another program has detached or replaced the link's XDP program, so nothing arrives any
    /// more; open a new link. Calls on it say so within 1.5 seconds.
    #[error(
        "the XDP program of '{0}' was detached or replaced by another program; open the endpoint again, or use the packet backend"
    )]
    Detached(String),
    /// A system call failed for another reason.
    #[error("{what} failed: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}
