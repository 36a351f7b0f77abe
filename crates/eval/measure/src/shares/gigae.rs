//! Flows of gigae: the hub has one endpoint, and so has each other node. Messages that do not fit a
//! frame are [tagged](super::tagged).

use super::endpoint::{answer, answer_all, not_received, not_sent, sleep};
use super::tagged;
use super::work::{Counters, Hub, LOOK, PAUSE, Role, TRIP, Trip, Work};
use crate::site::Site;
use crate::transport::TransportError;
use crate::transport::gigae::{idle, options};
use ::gigae::{Address, Endpoint, MacAddr, Peer, TrySendError};
use gigae_eval_model::plan::{Backend, GigaeOptions, Wait};
use gigae_eval_model::shares::Way;
use std::time::Instant;

/// Messages to a peer before it is another one's turn.
const TURN: usize = 8;

/// The hub.
pub(super) struct GigaeHub {
    endpoint: Endpoint,
    address: Address,
    own: GigaeOptions,
    way: Way,
    size: usize,
    /// The other end of each flow, and its number.
    flows: Vec<(Peer, usize)>,
}

fn open(site: &Site, own: &GigaeOptions) -> Result<(Endpoint, Address), TransportError> {
    let endpoint = idle(options(site, Wait::Sleep, own))?;
    let address = match own.backend {
        Backend::Udp => Address::from(site.ip),
        _ => Address::from(MacAddr(site.address(0).mac)),
    };
    Ok((endpoint, address))
}

fn peer(endpoint: &Endpoint, address: Address) -> Result<Peer, TransportError> {
    endpoint.peer(address).map_err(|error| TransportError::Unavailable(error.to_string()))
}

/// Whether messages of this size need more than a frame.
fn is_long(endpoint: &Endpoint, size: usize) -> bool {
    size > endpoint.max_message()
}

impl GigaeHub {
    /// Opens it in the node of the calling thread.
    pub(super) fn open(
        site: &Site,
        own: &GigaeOptions,
        way: Way,
        size: usize,
    ) -> Result<Self, TransportError> {
        let (endpoint, address) = open(site, own)?;
        Ok(Self { endpoint, address, own: *own, way, size, flows: Vec::new() })
    }
}

impl Hub for GigaeHub {
    fn flow(&mut self, site: &Site, number: usize) -> Result<Vec<Work>, TransportError> {
        let (endpoint, address) = open(site, &self.own)?;
        self.flows.push((peer(&self.endpoint, address)?, number));
        let (hub, size) = (peer(&endpoint, self.address)?, self.size);
        Ok(vec![match self.way {
            Way::In => Work::new(Role::Sends, move |counters| match is_long(&endpoint, size) {
                true => tagged::send(&endpoint, hub, size, counters),
                false => send(&endpoint, hub, size, counters),
            }),
            Way::Out => Work::new(Role::Receives, move |counters| {
                receive_all(&endpoint, &[(hub, number)], size, counters)
            }),
        }])
    }

    fn asker(&mut self, site: &Site) -> Result<Vec<Work>, TransportError> {
        let (endpoint, _) = open(site, &self.own)?;
        let hub = peer(&endpoint, self.address)?;
        Ok(vec![Work::new(Role::Sends, move |counters| ask(&endpoint, hub, counters))])
    }

    fn work(self: Box<Self>) -> Vec<Work> {
        let Self { endpoint, way, size, flows, .. } = *self;
        vec![match way {
            Way::In => Work::new(Role::Receives, move |counters| {
                receive_all(&endpoint, &flows, size, counters)
            }),
            // It answers until all is over.
            Way::Out => Work::new(Role::Receives, move |counters| match is_long(&endpoint, size) {
                true => tagged::send_to_all(&endpoint, &flows, size, counters),
                false => send_to_all(&endpoint, &flows, size, counters),
            }),
        }]
    }
}

/// Sends to the hub as fast as there is room.
fn send(
    endpoint: &Endpoint,
    hub: Peer,
    size: usize,
    counters: &Counters,
) -> Result<Vec<Trip>, TransportError> {
    let message = vec![1; size];
    while !counters.is_stopped() {
        // Waits while the window is full; a hub that is gone ends it.
        endpoint.send(hub, &message).map_err(not_sent)?;
    }
    Ok(Vec::new())
}

fn receive_all(
    endpoint: &Endpoint,
    flows: &[(Peer, usize)],
    size: usize,
    counters: &Counters,
) -> Result<Vec<Trip>, TransportError> {
    match is_long(endpoint, size) {
        true => tagged::receive(endpoint, flows, size, counters),
        false => receive(endpoint, flows, counters),
    }
}

/// Counts the messages of flows, and answers those of anyone else.
fn receive(
    endpoint: &Endpoint,
    flows: &[(Peer, usize)],
    counters: &Counters,
) -> Result<Vec<Trip>, TransportError> {
    while !counters.is_over() {
        let Some(message) = endpoint.recv_timeout(LOOK).map_err(not_received)? else { continue };
        let (from, bytes) = (message.from(), message.len());
        drop(message);
        match flows.iter().find(|(peer, _)| *peer == from) {
            Some((_, flow)) => counters.add(*flow, bytes),
            None => answer(endpoint, from)?,
        }
    }
    Ok(Vec::new())
}

/// Sends to all flows in turn, and answers meanwhile.
fn send_to_all(
    endpoint: &Endpoint,
    flows: &[(Peer, usize)],
    size: usize,
    counters: &Counters,
) -> Result<Vec<Trip>, TransportError> {
    let message = vec![1; size];
    while !counters.is_over() {
        let mut has_moved = answer_all(endpoint)?;
        if !counters.is_stopped() {
            for &(peer, _) in flows {
                has_moved |= send_a_turn(endpoint, peer, &message)?;
            }
        }
        if !has_moved {
            sleep(endpoint)?;
        }
    }
    Ok(Vec::new())
}

/// Sends some messages, as far as there is room; whether there was any.
fn send_a_turn(endpoint: &Endpoint, to: Peer, message: &[u8]) -> Result<bool, TransportError> {
    for sent in 0..TURN {
        match endpoint.try_send(to, message) {
            Ok(()) => {}
            Err(TrySendError::WouldBlock(())) => return Ok(sent > 0),
            Err(TrySendError::Refused(error)) => return Err(not_sent(error)),
        }
    }
    Ok(true)
}

/// Asks the hub, one question after the other.
fn ask(endpoint: &Endpoint, hub: Peer, counters: &Counters) -> Result<Vec<Trip>, TransportError> {
    let mut trips = Vec::new();
    while !counters.is_stopped() {
        let began = Instant::now();
        endpoint.send(hub, &[2; TRIP]).map_err(not_sent)?;
        while endpoint.recv_timeout(LOOK).map_err(not_received)?.is_none() {
            if counters.is_stopped() {
                return Ok(trips);
            }
        }
        trips.push(Trip { began, took: began.elapsed() });
        std::thread::sleep(PAUSE);
    }
    Ok(trips)
}
