//! The peers of an endpoint by their numbers in the address vector.

use crate::address::NOT_AVAILABLE;
use crate::addresses::Addresses;
use crate::error::{Code, OfiResult};
use gigae::{Endpoint, Peer};
use std::collections::HashMap;
use std::sync::Arc;

/// Peers by their numbers, and numbers by peer, as far as they were needed.
#[derive(Default)]
pub(crate) struct Peers {
    pub(crate) vector: Option<Arc<Addresses>>,
    peers: Vec<Option<Peer>>,
    numbers: HashMap<Peer, u64>,
    /// The last result.
    last: Option<(Peer, u64)>,
    /// The vector's count of changes when the others were valid.
    known: u64,
}

impl Peers {
    /// The peer with a number in the vector.
    pub(crate) fn peer(&mut self, endpoint: &Endpoint, number: u64) -> OfiResult<Peer> {
        self.refresh();
        let at = usize::try_from(number).map_err(|_| Code::INVALID)?;
        if let Some(Some(peer)) = self.peers.get(at) {
            return Ok(*peer);
        }
        let vector = self.vector.as_ref().ok_or(Code::NO_AV)?;
        let address = vector.address(number).ok_or(Code::INVALID)?;
        let peer = endpoint.peer(address)?;
        if self.peers.len() <= at {
            self.peers.resize(at + 1, None);
        }
        self.peers[at] = Some(peer);
        Ok(peer)
    }

    /// Forgets everything about the vector if it has changed.
    fn refresh(&mut self) {
        let changes = self.vector.as_ref().map_or(0, |vector| vector.changes());
        if changes != self.known {
            self.known = changes;
            self.numbers.clear();
            self.last = None;
            self.peers.clear();
        }
    }

    /// The number of a peer in the vector.
    pub(crate) fn number(&mut self, endpoint: &Endpoint, peer: Peer) -> u64 {
        self.refresh();
        let Some(vector) = &self.vector else { return NOT_AVAILABLE };
        if let Some((last, number)) = self.last
            && last == peer
        {
            return number;
        }
        if let Some(&number) = self.numbers.get(&peer) {
            self.last = Some((peer, number));
            return number;
        }
        let number = vector.number(endpoint.address(peer)).unwrap_or(NOT_AVAILABLE);
        self.numbers.insert(peer, number);
        number
    }
}
