//! The socket to the kernel's routing (rtnetlink(7)). What it can ask is defined beside the
//! answers, in `link.rs` and `route.rs`.

use crate::socket::Socket;
use crate::{Error, Result};
use netlink_packet_route::RouteNetlinkMessage;

/// See the module's description.
#[derive(Debug)]
pub struct Rtnetlink {
    pub(crate) socket: Socket,
}

impl Rtnetlink {
    /// In the calling thread's network namespace. Four system calls; no privileges.
    pub fn open() -> Result<Self> {
        // NETLINK_ROUTE is protocol 0.
        Ok(Self { socket: Socket::open(None)? })
    }
}

pub(crate) fn unexpected(answer: &RouteNetlinkMessage) -> Error {
    Error::malformed(format!("an answer of type {}", answer.message_type()))
}
