//! What has arrived at the peer (`PROTOCOL.md` §7).

use super::SendWindow;
use super::slots::{SentFrame, SlotState};
use crate::path_set::PathSet;
use crate::time::Instant;
use gigae_wire::{Discard, PathId, SeqNo};
use std::collections::VecDeque;

impl<T> SendWindow<T> {
    /// Takes a cumulative acknowledgement: messages before `ack` are done and go to `done`. Returns
    /// how many. Refuses an acknowledgement of something that was never sent.
    #[inline(always)]
    pub(crate) fn acknowledge(
        &mut self,
        now: Instant,
        ack: SeqNo,
        done: &mut VecDeque<T>,
    ) -> Result<u32, Discard> {
        if self.sent.is_before(ack) {
            return Err(Discard::Window);
        }
        if !self.base.is_before(ack) {
            return Ok(0);
        }
        let count = ack.ahead_of(self.base).cast_unsigned();
        // Most frames were sent once, by the first path. That path takes them all in one call.
        let (mut usual, mut latest) = (0, 0);
        while self.base != ack {
            let base = self.base;
            let slot = self.slot(base);
            let token = slot.token.take().expect("a slot within the window holds its message");
            let once_by_first = (SlotState::InFlight, PathId::FIRST, false);
            if (slot.state, slot.path, slot.repeated) == once_by_first {
                (usual, latest) = (usual + u32::from(slot.datagrams), slot.transmission);
            } else {
                let arrival = slot.sent_frame();
                self.arrive(now, &arrival);
            }
            done.push_back(token);
            self.base += 1;
        }
        if usual > 0 {
            self.first.arrive(latest, usual);
        }
        let most = self.capacity();
        let arrived = self.first.settle(most, |timed| timed.is_before(ack));
        if !self.further.is_empty() {
            self.settle_further(most, ack, arrived);
        }
        if self.undeliverable > 0 {
            self.detect(true, false);
            self.count_undeliverable();
        }
        Ok(count)
    }

    #[inline(never)]
    fn settle_further(&mut self, most: u32, ack: SeqNo, first: bool) {
        let mut arrived = if first { PathSet::of(PathId::FIRST) } else { PathSet::NONE };
        for (number, path) in (1..).zip(&mut self.further) {
            if path.settle(most, |timed| timed.is_before(ack)) {
                arrived.insert(PathId::new(number));
            }
        }
        self.doubt_others(arrived);
    }

    /// A frame that was sent has arrived.
    #[inline(never)]
    pub(super) fn arrive(&mut self, now: Instant, arrival: &SentFrame) {
        let &SentFrame { state, path, datagrams, transmission, repeated, early, sent_at } = arrival;
        let datagrams = u32::from(datagrams);
        if state == SlotState::Held {
            return;
        }
        self.lost -= u32::from(state == SlotState::Lost);
        if !path.is_first() && self.has_bulk {
            self.bulk_size.arrived();
        }
        let path = self.path(path);
        // One that overtakes others says nothing of them.
        let too_soon = repeated && now.nanos_since(sent_at) < path.rtt.half();
        if state == SlotState::Lost && !repeated {
            path.was_overtaken(transmission);
        }
        if early || too_soon {
            path.arrive_late(if state == SlotState::InFlight { datagrams } else { 0 });
        } else {
            match state {
                SlotState::InFlight => path.arrive(transmission, datagrams),
                _ => path.arrive_after_all(transmission),
            }
        }
    }
}
