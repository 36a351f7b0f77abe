//! Links that a broker opens, where this process may not do so itself.

use crate::link::AnyLink;
use crate::options::Backend;
use crate::sharing::ClaimedPort;
use gigae_broker::{BrokerError, Request};
use gigae_link::{Filter, Mode, OpenError};
use gigae_wire::Envelope;
use gigae_xdp::XdpConfig;
use std::io;
use std::path::Path;
use tracing::info;

/// The NICs of which a broker would make ports for this user. Fails if none listens, or he may have
/// none. Asks it, which takes milliseconds.
pub fn broker_nics() -> Result<Vec<String>, OpenError> {
    let path = gigae_broker::socket().ok_or_else(none)?;
    gigae_broker::nics(&path).map_err(|error| match error {
        BrokerError::Absent { .. } => {
            let source = io::Error::new(io::ErrorKind::NotFound, error.to_string());
            OpenError::Io { what: "asking a broker", source }
        }
        error => refused(&path, &error),
    })
}

/// Opens a link on a port of `nic` that a broker makes; `None` if there is no broker, or it makes
/// no such links.
pub(crate) fn open(
    nic: &str,
    filter: &Filter,
    backend: Backend,
    tx_frames: usize,
) -> Result<Option<(ClaimedPort, AnyLink)>, OpenError> {
    let Some(path) = gigae_broker::socket() else { return Ok(None) };
    let generic = Backend::XdpMode(Mode::XdpGeneric);
    let (true, Envelope::Ethernet { ethertype }) =
        ([Backend::Auto, Backend::Xdp, generic].contains(&backend), filter.envelope)
    else {
        return Ok(None);
    };
    let usual = XdpConfig::new(nic, filter.clone());
    let request = Request {
        interface: Some(nic.to_owned()),
        ethertype,
        channels: filter.channels,
        long_frames: usual.long_frames,
        tx_frames: tx_frames as u32,
        rx_frames: usual.rx_frames as u32,
        rx_ready: usual.rx_ready as u32,
    };
    match gigae_broker::Port::open(&path, &request) {
        Ok(port) => {
            let link = AnyLink::Xdp(port.link);
            Ok(Some((ClaimedPort::brokered(nic, &link, port.claim, port.connection), link)))
        }
        Err(error @ BrokerError::Absent { .. }) => {
            info!(%error, "no broker");
            Ok(None)
        }
        Err(BrokerError::Link(error)) => Err(error),
        Err(error) => Err(refused(&path, &error)),
    }
}

fn refused(path: &Path, error: &BrokerError) -> OpenError {
    OpenError::Refused { broker: path.display().to_string(), why: error.to_string() }
}

/// No broker listens, or it makes no such link.
pub(crate) fn none() -> OpenError {
    let text = "no broker listens, or it makes no such links: start 'gigae broker', see GIGAE_BROKER, and use \
                an Ethernet envelope and no other backend than AF_XDP";
    let source = io::Error::new(io::ErrorKind::NotFound, text);
    OpenError::Io { what: "asking a broker", source }
}
