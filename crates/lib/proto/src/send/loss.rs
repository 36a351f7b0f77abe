//! Which frames are lost, by what the receiver reports and by the time (`PROTOCOL.md` §7).

use super::SendWindow;
use super::slots::SlotState;
use crate::ProtocolCounters;
use crate::path::{self, AfterProbe};
use crate::path_set::PathSet;
use crate::time::Instant;
use gigae_wire::{AckReport, MAX_PATHS, PathId, SeqNo};

/// Timeouts in a row that repeat only the oldest frame, which asks what else is missing. A peer
/// that was only kept off its CPU for a millisecond then answers before everything is repeated.
const QUESTIONS: u32 = 2;

/// What was due.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expired {
    /// Paths to probe.
    pub(crate) to_probe: PathSet,
    /// Those of them that were just given up.
    pub(crate) given_up: PathSet,
    /// The peer's socket for bulk data has answered no probe, and no further one goes out.
    pub(crate) is_bulk_silent: bool,
    /// Everything in flight by a link was lost: the peer is away, or the network carries frames of
    /// such a length no more.
    pub(crate) is_link_silent: bool,
}

impl<T> SendWindow<T> {
    /// The first frame to send again, of which there is one.
    pub(super) fn next_lost(&self) -> SeqNo {
        let mut seq = self.base;
        while self.slot_of(seq).state != SlotState::Lost {
            seq += 1;
            debug_assert!(seq.is_before(self.sent), "the count of lost frames is wrong");
        }
        seq
    }

    /// Takes the receiver's report of frames beyond the cumulative acknowledgement, after that was
    /// taken. `keeps` says whether the receiver keeps frames out of order. Returns how many frames
    /// are lost by this.
    pub(crate) fn report(
        &mut self,
        now: Instant,
        ack: SeqNo,
        report: &AckReport<'_>,
        keeps: bool,
    ) -> u32 {
        for offset in report.offsets() {
            let seq = ack + offset;
            if seq.is_before(self.base) || !seq.is_before(self.sent) {
                continue;
            }
            let slot = self.slot(seq);
            let arrival = slot.sent_frame();
            slot.state = SlotState::Held;
            self.arrive(now, &arrival);
        }
        let (most, mask) = (self.capacity(), self.slots.len().wrapping_sub(1));
        let Self { slots, first, further, .. } = self;
        let mut arrived = PathSet::NONE;
        for (number, path) in std::iter::once(first).chain(further).enumerate() {
            let held = |timed: SeqNo| slots[timed.0 as usize & mask].state == SlotState::Held;
            if path.settle(most, held) {
                arrived.insert(PathId::new(number));
            }
        }
        self.doubt_others(arrived);
        let dropped = self.dropped(now, report.latest);
        let lost = self.detect(!keeps || dropped, keeps);
        if !keeps {
            self.count_undeliverable();
        }
        lost
    }

    /// For go-back-N, or a receiver that could keep no more: whether the receiver dropped the frame
    /// that led to the report, so that everything up to it must be repeated. A report that comes
    /// too soon after its repetition is about the former transmission.
    fn dropped(&mut self, now: Instant, latest: SeqNo) -> bool {
        if !latest.is_before(self.base) && latest.is_before(self.sent) {
            let slot = self.slot(latest);
            let (path, transmission) = (slot.path, slot.transmission);
            let (in_flight, repeated) = (slot.state == SlotState::InFlight, slot.repeated);
            let since = now.nanos_since(slot.sent_at);
            let path = self.path(path);
            let stale = repeated && since < path.rtt.half();
            if in_flight && !stale {
                path.overtake(transmission);
                return true;
            }
        }
        false
    }

    /// Marks frames as lost that were sent before the latest arrival on the same path, and cannot
    /// only be overtaken. None can if frames arrive `in_order` or not at all. `keeps` says whether
    /// the receiver keeps frames out of order. Returns how many.
    pub(super) fn detect(&mut self, in_order: bool, keeps: bool) -> u32 {
        let (mut seq, most, before) = (self.base, self.capacity(), self.lost);
        // How many are found on each path, and the last one. Its number shows whether the loss is a
        // new event.
        let mut found = [None; MAX_PATHS];
        while seq != self.sent {
            let slot = self.slot(seq);
            let (path, transmission) = (slot.path, slot.transmission);
            if slot.state == SlotState::InFlight
                && self.path(path).is_behind(transmission, in_order)
            {
                self.lose(seq);
                let (count, last) = found[path.index()].get_or_insert((0, transmission));
                (*count, *last) = (*count + 1, transmission);
            }
            seq += 1;
        }
        for (path, found) in self.paths_mut().zip(found) {
            if let Some((count, last)) = found {
                path.slow_down(last, count, most, keeps);
            }
        }
        if self.has_bulk && found[PathId::SOCKET.index()].is_some() {
            self.bulk_size.lost();
        }
        self.lost - before
    }

    /// Counts the frames that were already in flight when the last loss was found, and still are.
    #[cold]
    pub(super) fn count_undeliverable(&mut self) {
        let mut seq = self.base;
        self.undeliverable = 0;
        while seq != self.sent {
            let slot = self.slot(seq);
            let (state, path, transmission) = (slot.state, slot.path, slot.transmission);
            let sent_before =
                state == SlotState::InFlight && self.path(path).is_before_recovery(transmission);
            self.undeliverable += u32::from(sent_before);
            seq += 1;
        }
    }

    /// Marks a frame in flight as lost.
    fn lose(&mut self, seq: SeqNo) {
        let slot = self.slot(seq);
        slot.state = SlotState::Lost;
        let (path, datagrams) = (slot.path, slot.datagrams);
        self.path(path).lose(seq, datagrams.into());
        self.lost += 1;
    }

    /// Marks frames in flight on a path as lost because of the time: all, or only the oldest. That
    /// they arrive after all says nothing of their order, as with those that are repeated.
    pub(super) fn lose_in_flight(&mut self, path: PathId, all: bool) {
        let mut seq = self.base;
        while seq != self.sent {
            let slot = self.slot(seq);
            if slot.state == SlotState::InFlight && slot.path == path {
                self.slot(seq).repeated = true;
                self.lose(seq);
                if !all {
                    break;
                }
            }
            seq += 1;
        }
        if self.undeliverable > 0 {
            self.count_undeliverable();
        }
    }

    /// Frames that are lost and wait to be sent again.
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    /// Whether a timeout has fired since something was acknowledged.
    pub(crate) fn is_silent(&self) -> bool {
        self.first.rtt.timeouts() > 0
    }

    /// Repeats everything in flight: nothing of it has arrived.
    #[cold]
    pub(crate) fn repeat_all(&mut self) {
        for path in self.path_ids() {
            self.lose_in_flight(path, true);
        }
    }

    /// Does what is due at `now`.
    pub(crate) fn expire(&mut self, now: Instant, counters: &mut ProtocolCounters) -> Expired {
        let slowest = path::slowest(self.paths());
        let mut expired = Expired::default();
        for id in self.path_ids() {
            if now < self.deadline_of(id, slowest) {
                continue;
            }
            let has_bulk = self.has_bulk;
            let path = self.path(id);
            if path.is_alive() {
                counters.timeouts += 1;
                expired.given_up = expired.given_up.union(self.time_out(id, now));
                let by_link = id.is_first() || !has_bulk;
                expired.is_link_silent |= by_link && self.path(id).rtt.timeouts() == QUESTIONS + 1;
                if self.is_asked_when_silent(id) {
                    expired.to_probe.insert(id);
                }
            } else if has_bulk {
                match path.probed_or_left(now) {
                    AfterProbe::Probe => expired.to_probe.insert(id),
                    AfterProbe::FirstLeft => expired.is_bulk_silent = true,
                    AfterProbe::Nothing => {}
                }
            } else {
                path.probed(now);
                expired.to_probe.insert(id);
            }
        }
        expired.to_probe = expired.to_probe.union(expired.given_up);
        expired
    }

    /// The retransmission timeout of a path fired. The oldest frame is repeated, which asks the
    /// receiver what else is missing. If that is not answered either, everything is repeated. With
    /// several paths, another path carries the repeated frame. If the peer answers by that path and
    /// not by this one, this one is dead.
    fn time_out(&mut self, id: PathId, now: Instant) -> PathSet {
        if self.path(id).is_doubted() {
            let dead = self.give_up(id);
            if !dead.is_empty() {
                return dead;
            }
        }
        if self.has_bulk && !id.is_first() {
            self.bulk_size.lost();
        }
        // Numbers begin at the epoch, which is random.
        let (most, seed) = (self.capacity(), self.base.0);
        let path = self.path(id);
        path.time_out(now, seed);
        let all = path.rtt.timeouts() > QUESTIONS;
        self.lose_in_flight(id, all);
        let path = self.path(id);
        if all {
            path.restart(most, path.rtt.timeouts() - QUESTIONS - 1);
        } else {
            path.make_room();
        }
        PathSet::NONE
    }
}
