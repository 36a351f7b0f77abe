//! What a broker needs from the kernel. A trait, so tests can attack the whole broker without
//! privileges.

use crate::names::{Namespace, PeerProcess};
use crate::protocol::Request;
use gigae_link::{Filter, LentMemory, Mode, OpenError};
use gigae_macvlan::Child;
use gigae_wire::Envelope;
use gigae_xdp::{BusyPoll, Description, LinkParts, XdpConfig, XdpLink};
use rustix::fd::{AsFd, OwnedFd};
use std::fmt;
use std::io;
use std::time::Instant;

/// Clients, ports, and the time.
pub trait Kernel {
    /// The interface of a port. Dropping it removes it.
    type Interface: fmt::Debug;

    /// The process that has connected.
    fn peer(&mut self, connection: &OwnedFd) -> io::Result<PeerProcess>;

    /// Makes a port on the first of these NICs where that is possible, with this frame memory.
    fn make(
        &mut self,
        request: &Request,
        nics: &[String],
        memory: &LentMemory,
    ) -> Result<MadePort<Self::Interface>, OpenError>;

    /// The time.
    fn now(&self) -> Instant;
}

/// A port that was made.
#[derive(Debug)]
pub struct MadePort<I> {
    /// Its interface.
    pub interface: I,
    /// The NIC that it is on.
    pub nic: String,
    /// The description of its link.
    pub description: Description,
    /// The AF_XDP socket.
    pub socket: OwnedFd,
    /// The claim to its address.
    pub claim: OwnedFd,
}

/// The running kernel.
#[derive(Debug)]
pub(crate) struct Linux {
    here: Namespace,
}

impl Linux {
    /// Serves the network namespace of this socket.
    pub(crate) fn new(listener: &OwnedFd) -> io::Result<Self> {
        Namespace::of(listener).map(|here| Self { here })
    }
}

impl Kernel for Linux {
    type Interface = Child;

    fn peer(&mut self, connection: &OwnedFd) -> io::Result<PeerProcess> {
        PeerProcess::of(connection, self.here)
    }

    fn make(
        &mut self,
        request: &Request,
        nics: &[String],
        memory: &LentMemory,
    ) -> Result<MadePort<Child>, OpenError> {
        let asked = request.interface.as_slice();
        let nics = if asked.is_empty() { nics } else { asked };
        let mut refused = None;
        for nic in nics {
            match Child::make(nic) {
                Ok(child) => return port(request, child, memory),
                // Another NIC may be up.
                Err(e @ (OpenError::NoInterface { .. } | OpenError::InterfaceDown(_))) => {
                    refused.get_or_insert(e);
                }
                Err(e) => return Err(e),
            }
        }
        Err(refused.expect("a configuration names at least one NIC"))
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

fn port(
    request: &Request,
    child: Child,
    memory: &LentMemory,
) -> Result<MadePort<Child>, OpenError> {
    let claim = child.claim().as_fd().try_clone_to_owned();
    let claim = claim.map_err(|source| OpenError::Io { what: "claiming an address", source })?;
    let LinkParts { description, socket, .. } = link(request, &child, memory)?;
    let nic = child.parent().to_owned();
    Ok(MadePort { interface: child, nic, description, socket, claim })
}

fn link(request: &Request, child: &Child, memory: &LentMemory) -> Result<LinkParts, OpenError> {
    let envelope = Envelope::Ethernet { ethertype: request.ethertype };
    let filter = Filter { envelope, channels: request.channels };
    let config = XdpConfig {
        mode: Some(Mode::XdpGeneric),
        tx_frames: request.tx_frames as usize,
        rx_frames: request.rx_frames as usize,
        rx_ready: request.rx_ready as usize,
        long_frames: request.long_frames,
        busy_poll: BusyPoll::Off,
        // There is nothing to choose.
        notes: None,
        ..XdpConfig::new(child.name(), filter)
    };
    let mut parts = XdpLink::make(&config, memory)?;
    parts.description.reason = "the mode that an interface on a shared NIC has".to_owned();
    Ok(parts)
}
