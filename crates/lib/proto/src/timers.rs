//! Which session has a deadline, and when.
//!
//! A binary heap in which each peer knows its position, so its deadline can be changed. Finding the
//! earliest one costs nothing; changing one takes some steps (13 with 10,000 waiting peers). Peers
//! without a deadline are not in it.

use crate::{Instant, PeerId};

/// The position of a peer that is not in the heap.
const NOWHERE: u32 = u32::MAX;

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Timers {
    /// No entry is earlier than the one at half its position.
    heap: Vec<(Instant, PeerId)>,
    /// By peer.
    places: Vec<u32>,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self { heap: Vec::new(), places: Vec::new() }
    }

    /// The earliest deadline; [`Instant::NEVER`] without a deadline.
    #[inline]
    pub(crate) fn first(&self) -> Instant {
        self.heap.first().map_or(Instant::NEVER, |&(at, _)| at)
    }

    /// A peer whose deadline has passed, if there is one.
    pub(crate) fn due(&self, now: Instant) -> Option<PeerId> {
        self.heap.first().filter(|&&(at, _)| at <= now).map(|&(_, peer)| peer)
    }

    /// A peer's deadline.
    #[inline]
    pub(crate) fn of(&self, peer: PeerId) -> Instant {
        let place = self.places.get(peer.0 as usize).copied().unwrap_or(NOWHERE);
        self.heap.get(place as usize).map_or(Instant::NEVER, |&(at, _)| at)
    }

    /// Sets a peer's deadline; [`Instant::NEVER`] for none.
    pub(crate) fn set(&mut self, peer: PeerId, at: Instant) {
        let n = peer.0 as usize;
        if n >= self.places.len() {
            self.places.resize(n + 1, NOWHERE);
        }
        let place = self.places[n] as usize;
        match (self.heap.get(place).map(|&(at, _)| at), at) {
            (None, Instant::NEVER) => {}
            (None, _) => {
                self.heap.push((at, peer));
                self.rise(self.heap.len() - 1);
            }
            (Some(_), Instant::NEVER) => {
                self.places[n] = NOWHERE;
                self.heap.swap_remove(place);
                if place < self.heap.len() {
                    let place = self.rise(place);
                    self.sink(place);
                }
            }
            (Some(before), _) => {
                self.heap[place].0 = at;
                if at < before {
                    self.rise(place);
                } else {
                    self.sink(place);
                }
            }
        }
    }

    /// Moves an entry towards the front while it is earlier than the one there. Returns its
    /// position.
    fn rise(&mut self, mut place: usize) -> usize {
        while place > 0 && self.heap[place].0 < self.heap[(place - 1) / 2].0 {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        self.note(place);
        place
    }

    /// Moves an entry towards the back while one there is earlier.
    fn sink(&mut self, mut place: usize) {
        loop {
            let children = 2 * place + 1..(2 * place + 3).min(self.heap.len());
            let Some(child) = children.min_by_key(|&child| self.heap[child].0) else { break };
            if self.heap[child].0 >= self.heap[place].0 {
                break;
            }
            self.swap(place, child);
            place = child;
        }
        self.note(place);
    }

    /// Swaps two entries. Notes the new position of `from`, the one that is being moved.
    fn swap(&mut self, from: usize, to: usize) {
        self.heap.swap(from, to);
        self.note(from);
    }

    fn note(&mut self, place: usize) {
        self.places[self.heap[place].1.0 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_order_of_time_however_often_that_was_changed() {
        let mut timers = Timers::new();
        let mut times = [u64::MAX; 50];
        let mut random = 1u64;
        for _ in 0..5_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (peer, at) = ((random >> 33) as usize % times.len(), random >> 50);
            let at = if at % 4 == 0 { u64::MAX } else { at };
            times[peer] = at;
            timers.set(PeerId(peer as u32), Instant(at));
            assert_eq!(timers.first().0, *times.iter().min().unwrap());
            assert_eq!(timers.of(PeerId(peer as u32)).0, at);
        }
        assert!(times.iter().enumerate().all(|(n, &at)| timers.of(PeerId(n as u32)).0 == at));
        let mut last = 0;
        while let Some(peer) = timers.due(Instant(u64::MAX - 1)) {
            let at = timers.of(peer).0;
            assert!(at >= last && at == times[peer.0 as usize]);
            last = at;
            timers.set(peer, Instant::NEVER);
        }
        assert!(timers.heap.is_empty() && last > 0);
        assert_eq!(timers.of(PeerId(1_000)), Instant::NEVER, "one that never had any");
    }
}
