//! What GigaE does with more than a frame holds: tagged messages of any size, and writes into the
//! peer's memory.

use super::common::{self, ahead, message, read};
use super::gigae::{failed, idle, options};
use crate::channel::{
    Calls, Channel, JOIN_TIMEOUT, NAP, ReceivedMessage, Side, Task, TransportError,
};
use crate::end::Opening;
use crate::end::Probe;
use crate::site::{ChannelAddress, Site};
use ::gigae::{
    Completion, DrainError, Endpoint, MacAddr, Memory, OpId, Peer, RegionKey, Rights, Wanted,
};
use gigae_eval_model::note::Note;
use gigae_eval_model::plan::Wait;
use std::collections::VecDeque;
use std::time::Duration;

/// An endpoint with a peer and what is under way to it.
struct PeerEnds {
    endpoint: Endpoint,
    peer: Peer,
    spin: bool,
    nap: Duration,
    /// Memories that are not under way.
    free: Vec<Vec<u8>>,
    going: Vec<OpId>,
}

impl PeerEnds {
    fn new(endpoint: Endpoint, peer: Peer, task: &Task) -> Self {
        let free = vec![message(task.size); ahead(task.size)];
        let (spin, nap) = (task.wait == Wait::Spin, task.nap());
        Self { endpoint, peer, spin, nap, free, going: Vec::with_capacity(ahead(task.size)) }
    }

    /// The next operation that has ended, unless it is one of ours on the way to the peer.
    fn ended(&mut self) -> Result<Option<Completion>, TransportError> {
        loop {
            let ended = if self.spin {
                self.endpoint.try_completion()
            } else {
                self.endpoint.completion_timeout(self.nap)
            };
            let Some(mut completion) = ended.map_err(failed("waiting for gigae"))? else {
                return Ok(None);
            };
            completion.result.map_err(failed("an operation of gigae"))?;
            let Some(at) = self.going.iter().position(|id| *id == completion.id) else {
                return Ok(Some(completion));
            };
            self.going.swap_remove(at);
            self.free.extend(completion.memory.take().and_then(Memory::into_vec));
            if !self.spin {
                // There is memory to send from: the caller may have waited for that.
                return Ok(None);
            }
        }
    }

    fn settled(&mut self) -> Result<bool, TransportError> {
        match self.endpoint.drain(NAP) {
            Ok(()) => Ok(true),
            Err(DrainError::Timeout(_)) => Ok(false),
            Err(error) => Err(failed("draining gigae")(error)),
        }
    }

    fn calls(&self) -> Calls {
        let link = self.endpoint.counters().link;
        common::calls(&link)
    }

    fn note(&mut self) -> Option<Note> {
        Some(common::note(self.endpoint.link()))
    }
}

/// Tagged messages, each received into a memory that was posted for it.
pub(super) struct Tagged {
    ends: PeerEnds,
    arrived: VecDeque<ReceivedMessage>,
}

impl Tagged {
    pub(super) fn new(endpoint: Endpoint, peer: Peer, task: &Task) -> Result<Self, TransportError> {
        let tagged = Self { ends: PeerEnds::new(endpoint, peer, task), arrived: VecDeque::new() };
        (0..ahead(task.size)).try_for_each(|_| tagged.post(vec![0; task.size]))?;
        Ok(tagged)
    }

    fn post(&self, memory: Vec<u8>) -> Result<(), TransportError> {
        let wanted = Wanted::tag(0).from(self.ends.peer);
        let posted = self.ends.endpoint.start_recv(wanted, memory);
        posted.map(drop).map_err(failed("posting a receive"))
    }

    /// Takes what has ended.
    fn reap(&mut self) -> Result<(), TransportError> {
        let Some(Completion { memory, len, .. }) = self.ends.ended()? else { return Ok(()) };
        let memory = memory.and_then(Memory::into_vec).unwrap_or_default();
        let number = memory.get(..len).and_then(read);
        self.arrived.extend(number.map(|number| ReceivedMessage { number, bytes: len }));
        self.post(memory)
    }
}

impl Channel for Tagged {
    fn send(&mut self, number: u32, _size: usize) -> Result<bool, TransportError> {
        if self.ends.free.is_empty() {
            self.reap()?;
        }
        let Some(mut memory) = self.ends.free.pop() else { return Ok(false) };
        memory[..4].copy_from_slice(&number.to_le_bytes());
        let started = self.ends.endpoint.start_send(self.ends.peer, 0, memory);
        self.ends.going.push(started.map_err(failed("sending by gigae"))?);
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.ends.endpoint.flush().map_err(failed("sending by gigae"))
    }

    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
        if self.arrived.is_empty() {
            self.reap()?;
        }
        Ok(self.arrived.pop_front())
    }

    fn settled(&mut self) -> Result<bool, TransportError> {
        self.ends.settled()
    }

    fn calls(&self) -> Calls {
        self.ends.calls()
    }

    fn note(&mut self) -> Option<Note> {
        self.ends.note()
    }
}

/// Opens one end.
pub(super) fn open(
    site: &Site,
    task: &Task,
    side: Side,
) -> Result<Box<dyn Opening>, TransportError> {
    let endpoint = idle(options(site, task.wait, &task.setting.gigae()))?;
    let region = match side {
        Side::Client => None,
        Side::Server => {
            let memory = vec![0; task.size * ahead(task.size)];
            Some(endpoint.register(memory, Rights::WRITE).map_err(failed("registering memory"))?)
        }
    };
    let (address, task) = (site.address(0), task.clone());
    Ok(Box::new(WriteOpening { endpoint, address, task, region }))
}

struct WriteOpening {
    endpoint: Endpoint,
    address: ChannelAddress,
    task: Task,
    /// The server's memory.
    region: Option<RegionKey>,
}

impl Opening for WriteOpening {
    fn address(&self) -> ChannelAddress {
        self.address.clone()
    }

    /// The server sends its key in a message.
    fn join(self: Box<Self>, peer: &ChannelAddress) -> Result<Box<dyn Probe>, TransportError> {
        let peer = self.endpoint.peer(::gigae::Address::from(MacAddr(peer.mac)));
        let peer = peer.map_err(failed("naming the peer"))?;
        let key = match self.region {
            Some(key) => {
                let sent = self.endpoint.send(peer, &key.0.to_le_bytes());
                sent.map_err(failed("telling the key"))?;
                key
            }
            None => {
                let message = self.endpoint.recv_timeout(JOIN_TIMEOUT);
                let message = message.map_err(failed("receiving the key"))?;
                let key = message.as_ref().and_then(|m| m.first_chunk().copied());
                RegionKey(u64::from_le_bytes(
                    key.ok_or(TransportError::PeerGone("sent no key for registered memory"))?,
                ))
            }
        };
        let ends = PeerEnds::new(self.endpoint, peer, &self.task);
        Ok(Box::new(Writing { ends, key }))
    }
}

struct Writing {
    ends: PeerEnds,
    key: RegionKey,
}

impl Channel for Writing {
    fn send(&mut self, number: u32, size: usize) -> Result<bool, TransportError> {
        if self.ends.free.is_empty() {
            self.ends.ended()?;
        }
        let Some(mut memory) = self.ends.free.pop() else { return Ok(false) };
        memory[..4].copy_from_slice(&number.to_le_bytes());
        let PeerEnds { endpoint, peer, going, .. } = &mut self.ends;
        let offset = (number as usize % ahead(size) * size) as u64;
        let started = endpoint.start_write(*peer, self.key, offset, memory, Some(number.into()));
        going.push(started.map_err(failed("writing by gigae"))?);
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.ends.endpoint.flush().map_err(failed("writing by gigae"))
    }

    fn receive(&mut self) -> Result<Option<ReceivedMessage>, TransportError> {
        let PeerEnds { endpoint, spin, nap, .. } = &self.ends;
        let notice = if *spin { endpoint.try_notice() } else { endpoint.notice_timeout(*nap) };
        let Some(notice) = notice.map_err(failed("waiting for gigae"))? else { return Ok(None) };
        let place = notice.offset as usize..notice.offset as usize + notice.len as usize;
        let read = endpoint.with_region(self.key, |bytes| read(&bytes[place])).flatten();
        // The number of the notice: a later write may have come to the same place already.
        Ok(read
            .map(|_| ReceivedMessage { number: notice.value as u32, bytes: notice.len as usize }))
    }

    fn settled(&mut self) -> Result<bool, TransportError> {
        self.ends.settled()
    }

    fn calls(&self) -> Calls {
        self.ends.calls()
    }

    fn note(&mut self) -> Option<Note> {
        self.ends.note()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::gigae::Options;
    use gigae_sim::{Faults, Network};

    #[test]
    fn a_send_that_has_ended_ends_a_wait_for_memory_to_send_from() {
        let net = Network::new(1, Faults::default());
        let open = |seed| Options::new("sim").open_simulated(&net, seed).unwrap();
        let (endpoint, other) = (open(1), open(2));
        let peer = endpoint.peer(other.identity().address).unwrap();
        let nap = Duration::from_millis(50);
        let (free, going) = (vec![vec![7; 100]], Vec::new());
        let mut ends = PeerEnds { endpoint, peer, spin: false, nap, free, going };
        // A receive for which nothing comes.
        ends.endpoint.start_recv(Wanted::tag(9), vec![0; 10]).unwrap();
        let memory = ends.free.pop().unwrap();
        ends.going.push(ends.endpoint.start_send(peer, 0, memory).unwrap());
        other.start_recv(Wanted::tag(0), vec![0; 100]).unwrap();
        while other.try_completion().unwrap().is_none() {
            ends.endpoint.progress().unwrap();
            net.advance_to(net.now() + 1_000);
        }
        // The acknowledgement is on its way.
        other.prepare_to_wait().unwrap();
        net.advance_to(net.now() + 1_000_000);
        let before = net.now();
        assert!(ends.ended().unwrap().is_none());
        assert_eq!(ends.free, [vec![7; 100]]);
        assert!(net.now() < before + 50_000_000, "it waited for the receive, too");
    }
}
