//! Flows of several nodes that share one port: the ends of all flows are in one process, each in
//! the network namespace of its node.
//!
//! One node, the *hub*, has one end of every flow; the other ends are on nodes of their own. A node
//! more asks the hub meanwhile, with 8 bytes, and waits for as many. A [`Hub`] opens the ends of
//! one transport and gives the work of their threads. The caller enters the nodes, starts the
//! threads, and looks at the [`Counters`].
//!
//! All ends sleep while they wait: with more nodes than processors, one that spins takes the time
//! of those for which it waits.

mod endpoint;
mod gigae;
mod tagged;
mod tcp;
mod work;

use crate::site::Site;
use crate::transport::TransportError;
use gigae_eval_model::plan::Setting;
use gigae_eval_model::shares::Way;

pub use work::{Counters, Hub, Role, Trip, Work};

/// The hub of a transport, `gigae` or `tcp`, in the node of the calling thread; `size` are the
/// bytes of a message.
pub fn hub(
    transport: &str,
    site: &Site,
    setting: &Setting,
    (way, size): (Way, usize),
) -> Result<Box<dyn Hub>, TransportError> {
    match transport {
        "gigae" => Ok(Box::new(gigae::GigaeHub::open(site, &setting.gigae(), way, size)?)),
        "tcp" => Ok(Box::new(tcp::TcpHub::open(site, setting.tcp(), way, size)?)),
        other => Err(TransportError::Unavailable(format!("'{other}' has no flows"))),
    }
}
