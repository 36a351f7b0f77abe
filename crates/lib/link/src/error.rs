//! What can go wrong with a link: while opening it, and later.

use std::fmt;
use std::io;

/// A link could not be opened. The text is one line and says what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such interface in this network namespace.
    NoInterface {
        /// The name asked for.
        name: String,
        /// The names there are.
        existing: Vec<String>,
    },
    /// The interface exists but is administratively down.
    InterfaceDown(String),
    /// The process may not do this.
    MissingCapability {
        /// What was tried.
        what: &'static str,
        /// The capability it needs, in the manual's spelling.
        capability: &'static str,
    },
    /// The interface's MTU cannot hold a frame of the least useful size.
    MtuTooSmall {
        /// The interface.
        interface: String,
        /// Its MTU in bytes.
        mtu: usize,
        /// What is needed in bytes.
        needed: usize,
    },
    /// The kernel lacks something.
    Unsupported {
        /// What it lacks.
        what: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// AF_XDP works there in generic mode at best, which was not to be chosen.
    OnlyGeneric {
        /// The interface.
        interface: String,
        /// Why in no better mode.
        why: String,
    },
    /// Another program's XDP program is attached to the interface.
    ForeignProgram {
        /// The interface.
        interface: String,
        /// The kernel's id of the program.
        program: u32,
    },
    /// The queue is already in use by another AF_XDP socket.
    QueueBusy {
        /// The interface.
        interface: String,
        /// The receive queue.
        queue: u32,
    },
    /// The broker that was asked for a port makes none.
    Refused {
        /// Where it listens.
        broker: String,
        /// What it says.
        why: String,
    },
    /// A system call failed for another reason.
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInterface { name, existing } => {
                write!(f, "no interface '{name}' here; choose one of: {}", existing.join(", "))
            }
            Self::InterfaceDown(name) => {
                write!(f, "interface '{name}' is down; bring it up with 'ip link set {name} up'")
            }
            Self::MissingCapability { what, capability } => {
                write!(
                    f,
                    "{what} is not permitted; run as root, with a broker ('gigae broker'), in the UDP envelope (Backend::Auto), or grant {capability}"
                )
            }
            Self::MtuTooSmall { interface, mtu, needed } => write!(
                f,
                "MTU {mtu} of '{interface}' is too small; set at least {needed} with 'ip link set {interface} mtu {needed}'"
            ),
            Self::Unsupported { what, instead } => {
                write!(f, "this kernel has no {what}; {instead}")
            }
            Self::OnlyGeneric { interface, why } => write!(
                f,
                "AF_XDP has generic mode only on '{interface}' ({why}); ask for that mode or use the packet backend"
            ),
            Self::ForeignProgram { interface, program } => write!(
                f,
                "another XDP program (id {program}) is attached to '{interface}'; detach it with 'ip link set {interface} xdp off' or use the packet backend"
            ),
            Self::QueueBusy { interface, queue } => write!(
                f,
                "queue {queue} of '{interface}' already has an AF_XDP socket; end its owner, choose another queue or use the packet backend"
            ),
            Self::Refused { broker, why } => write!(f, "the broker at '{broker}' refuses: {why}"),
            Self::Io { what, source } => write!(f, "{what} failed: {source}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// An open link stopped working.
#[derive(Debug)]
#[non_exhaustive]
pub enum LinkError {
    /// The interface is down; it may come back.
    Down(String),
    /// The interface or its namespace is gone; open a new link.
    Gone(String),
    /// Another program has detached or replaced the link's XDP program, so nothing arrives any more; open a
    /// new link. Calls on it say so within 1.5 seconds.
    Detached(String),
    /// A system call failed for another reason.
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down(name) => {
                write!(f, "interface '{name}' went down; bring it up with 'ip link set {name} up'")
            }
            Self::Gone(name) => write!(f, "interface '{name}' is gone; open the endpoint again"),
            Self::Detached(name) => write!(
                f,
                "the XDP program of '{name}' was detached or replaced by another program; open the endpoint again, or use the packet backend"
            ),
            Self::Io { what, source } => write!(f, "{what} failed: {source}"),
        }
    }
}

impl std::error::Error for LinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
