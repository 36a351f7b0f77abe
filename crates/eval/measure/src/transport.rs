//! How each transport sends and receives: a file per transport.
//!
//! A transport opens one end ([`Opening`]), which has an address that the ends exchange over the
//! control connection; joined with the peer's address it becomes a [`Channel`]. The loops of the
//! experiments know channels only, so that all transports are measured by the same code and the
//! same clock. To add a transport: write one file here with a function `open`, name it in the list
//! below, and say in `gigae_eval_model::transport` what it can do.

mod bulk;
pub(crate) mod common;
pub(crate) mod gigae;
mod icmp;
mod raw;
pub(crate) mod tcp;
mod udp;
mod udp_gso;

pub use crate::channel::{
    Calls, Channel, JOIN_TIMEOUT, NAP, ReceivedMessage, Side, Task, TransportError,
};
pub use crate::end::{Opening, Probe};
pub use gigae::in_memory as gigae_in_memory;

use crate::site::Site;

/// Opens one end of a transport.
type Open = fn(&Site, &Task, Side) -> Result<Box<dyn Opening>, TransportError>;

/// How each transport of [`TRANSPORTS`](gigae_eval_model::transport::TRANSPORTS) is opened.
const OPEN: &[(&str, Open)] = &[
    ("gigae", gigae::open),
    ("gigae-write", bulk::open),
    ("xdp", raw::open_xdp),
    ("packet", raw::open_packet),
    ("udp", udp::open),
    ("udp-gso", udp_gso::open),
    ("tcp", tcp::open),
    ("icmp", icmp::open),
];

/// Opens one end of the task's transport.
pub fn open(site: &Site, task: &Task, side: Side) -> Result<Box<dyn Opening>, TransportError> {
    match OPEN.iter().find(|(name, _)| *name == task.transport) {
        Some((_, open)) => open(site, task, side),
        None => Err(TransportError::Unavailable(format!("unknown transport '{}'", task.transport))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::transport::TRANSPORTS;

    #[test]
    fn every_transport_that_a_plan_can_name_can_be_opened_and_no_other() {
        let named: Vec<&str> = TRANSPORTS.iter().map(|transport| transport.name).collect();
        let opened: Vec<&str> = OPEN.iter().map(|(name, _)| *name).collect();
        assert_eq!(named, opened);
    }
}
