//! Flows of gigae whose messages are longer than a frame: tagged messages, some of each flow under
//! way at a time. Questions and answers are messages as [everywhere](super::gigae).

use super::endpoint::{answer_all, sleep};
use super::work::{Counters, LOOK, Trip};
use crate::transport::TransportError;
use crate::transport::common::ahead;
use crate::transport::gigae::failed;
use ::gigae::{Endpoint, Memory, OpId, Peer, Wanted};

/// An operation under way, and the flow to which it belongs.
type Going = (OpId, usize);

/// Messages of some flows that are on their way from or to an endpoint.
struct Messages<'a> {
    endpoint: &'a Endpoint,
    /// The other end of each flow, and its number.
    flows: &'a [(Peer, usize)],
    size: usize,
    going: Vec<Going>,
}

impl<'a> Messages<'a> {
    fn new(endpoint: &'a Endpoint, flows: &'a [(Peer, usize)], size: usize) -> Self {
        Self { endpoint, flows, size, going: Vec::with_capacity(flows.len() * ahead(size)) }
    }

    /// Starts as many messages of each flow as are under way at a time.
    fn start_all(
        &mut self,
        start: impl Fn(&mut Self, usize, Vec<u8>) -> Result<(), TransportError>,
    ) -> Result<(), TransportError> {
        let times = ahead(self.size);
        (0..times * self.flows.len()).try_for_each(|n| start(self, n / times, vec![1; self.size]))
    }

    fn send(&mut self, flow: usize, memory: Vec<u8>) -> Result<(), TransportError> {
        let started = self.endpoint.start_send(self.flows[flow].0, 0, memory);
        self.going.push((started.map_err(failed("sending by gigae"))?, flow));
        Ok(())
    }

    fn receive(&mut self, flow: usize, memory: Vec<u8>) -> Result<(), TransportError> {
        let wanted = Wanted::tag(0).from(self.flows[flow].0);
        let started = self.endpoint.start_recv(wanted, memory);
        self.going.push((started.map_err(failed("posting a receive"))?, flow));
        Ok(())
    }

    /// The next that has ended: its flow, its bytes, and its memory. With `waits`, one may still
    /// end.
    fn ended(&mut self, waits: bool) -> Result<Option<(usize, usize, Vec<u8>)>, TransportError> {
        let ended = match waits {
            true => self.endpoint.completion_timeout(LOOK),
            false => self.endpoint.try_completion(),
        };
        let Some(completion) = ended.map_err(failed("waiting for gigae"))? else { return Ok(None) };
        completion.result.map_err(failed("an operation of gigae"))?;
        let found = self.going.iter().position(|(id, _)| *id == completion.id);
        let Some(at) = found else { return Ok(None) };
        let (_, flow) = self.going.swap_remove(at);
        let memory = completion.memory.and_then(Memory::into_vec).unwrap_or_default();
        Ok(Some((flow, completion.len, memory)))
    }
}

/// Sends to the hub as fast as there is room.
pub(super) fn send(
    endpoint: &Endpoint,
    hub: Peer,
    size: usize,
    counters: &Counters,
) -> Result<Vec<Trip>, TransportError> {
    let flows = [(hub, 0)];
    let mut messages = Messages::new(endpoint, &flows, size);
    messages.start_all(Messages::send)?;
    while !counters.is_stopped() {
        if let Some((flow, _, memory)) = messages.ended(true)? {
            messages.send(flow, memory)?;
        }
    }
    Ok(Vec::new())
}

/// Counts the messages of flows, and answers questions meanwhile.
pub(super) fn receive(
    endpoint: &Endpoint,
    flows: &[(Peer, usize)],
    size: usize,
    counters: &Counters,
) -> Result<Vec<Trip>, TransportError> {
    let mut messages = Messages::new(endpoint, flows, size);
    messages.start_all(Messages::receive)?;
    while !counters.is_over() {
        let mut has_moved = answer_all(endpoint)?;
        while let Some((flow, bytes, memory)) = messages.ended(false)? {
            counters.add(flows[flow].1, bytes);
            messages.receive(flow, memory)?;
            has_moved = true;
        }
        if !has_moved {
            sleep(endpoint)?;
        }
    }
    Ok(Vec::new())
}

/// Sends to all flows at once, and answers meanwhile.
pub(super) fn send_to_all(
    endpoint: &Endpoint,
    flows: &[(Peer, usize)],
    size: usize,
    counters: &Counters,
) -> Result<Vec<Trip>, TransportError> {
    let mut messages = Messages::new(endpoint, flows, size);
    messages.start_all(Messages::send)?;
    while !counters.is_over() {
        let mut has_moved = answer_all(endpoint)?;
        while let Some((flow, _, memory)) = messages.ended(false)? {
            if !counters.is_stopped() {
                messages.send(flow, memory)?;
            }
            has_moved = true;
        }
        if !has_moved {
            sleep(endpoint)?;
        }
    }
    Ok(Vec::new())
}
