//! The sending half of a session: a sliding window over unacknowledged messages
//! (`PROTOCOL.md` §5 and §7).
//!
//! ```text
//!   base            sent             next        base + capacity
//!    |  in flight    |   queued       |   free     |
//! ```
//!
//! Each transmission has a number of its own. A frame is lost when one that was transmitted later
//! (by more than [`REORDERING`]) has arrived and it has not; this one rule serves first sendings
//! and repeats, selective repeat and go-back-N alike. It knows nothing of peers or headers.

use crate::rtt::Rtt;
use crate::time::{Instant, Since};
use gigae_wire::{AckReport, Discard, Kind, SeqNo};
use std::collections::VecDeque;

/// Transmissions by which a frame may be overtaken before it counts as lost, when the receiver
/// keeps what comes out of order: the customary three of TCP (RFC 5681) and QUIC (RFC 9002 §6.1.1).
const REORDERING: i32 = 3;

/// Frames in flight at the beginning of a session; grows with each acknowledgement.
const INITIAL_FLIGHT: u32 = 64;

/// A loss never reduces the frames in flight below this. It covers a Gigabit Ethernet's
/// bandwidth-delay product (some 10 frames) and fits the smallest switch buffers, so that random
/// loss does not throttle a link that is not congested.
const LEAST_FLIGHT: u32 = 32;

/// Frames in flight after everything timed out: almost nothing is known of the path then. Ten full
/// frames are what TCP begins with (RFC 6928).
const RESTART_FLIGHT: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    Flying,
    Lost,
    /// Held by the receiver beyond a gap.
    Held,
}

#[derive(Debug)]
struct Slot<T> {
    /// `None` only where the slot is outside the window.
    token: Option<T>,
    state: State,
    /// Sent more than once: its acknowledgement says nothing about the round-trip time.
    repeated: bool,
    /// What it carries: Data, Batch or Op.
    kind: Kind,
    len: u16,
    /// Number of its latest transmission.
    transmission: u32,
    /// The clock's last reading before that.
    sent_at: Instant,
}

/// The round trip that is being timed: one at a time, as in RFC 6298.
#[derive(Clone, Copy, Debug)]
enum Sample {
    None,
    /// Of this frame, sent once.
    Running(SeqNo, Since),
    /// Begun at this moment; it ends with the next reading of the clock.
    Ended(Instant),
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct SendWindow<T> {
    slots: Box<[Slot<T>]>,
    base: SeqNo,
    sent: SeqNo,
    next: SeqNo,
    /// First number for which there is no credit.
    limit: SeqNo,
    flying: u32,
    lost: u32,
    /// Frames that may fly.
    flight: u32,
    threshold: u32,
    /// Acknowledgements towards the next increase of `flight` above the threshold.
    grown: u32,
    /// Losses before this number belong to a loss event that was already reacted to.
    recovery: SeqNo,
    next_transmission: u32,
    /// Latest transmission known to have arrived.
    arrived: u32,
    /// Since when the oldest frame has been unacknowledged: since its transmission or since the one
    /// before it was acknowledged (RFC 6298 §5.3).
    waiting: Since,
    sample: Sample,
}

/// What [`SendWindow::transmit`] chose.
pub(crate) struct Outgoing {
    pub(crate) seq: SeqNo,
    pub(crate) repeated: bool,
    pub(crate) kind: Kind,
}

impl<T> SendWindow<T> {
    pub(crate) fn new(first: SeqNo, capacity: u16) -> Self {
        let empty = || Slot {
            token: None,
            state: State::Queued,
            repeated: false,
            kind: Kind::Data,
            len: 0,
            transmission: 0,
            sent_at: Instant(0),
        };
        let mut window = Self {
            slots: std::iter::repeat_with(empty).take(capacity.into()).collect(),
            base: first,
            sent: first,
            next: first,
            limit: first,
            flying: 0,
            lost: 0,
            flight: 0,
            threshold: 0,
            grown: 0,
            recovery: first,
            next_transmission: 1,
            arrived: 0,
            waiting: Since::Never,
            sample: Sample::None,
        };
        window.restart(first);
        window
    }

    /// Begins anew, empty, at another number. The memory is kept.
    pub(crate) fn restart(&mut self, first: SeqNo) {
        debug_assert!(self.is_empty());
        self.base = first;
        self.sent = first;
        self.next = first;
        self.limit = first;
        self.flying = 0;
        self.lost = 0;
        self.flight = INITIAL_FLIGHT.min(self.capacity());
        self.threshold = self.capacity();
        self.grown = 0;
        self.recovery = first;
        self.next_transmission = 1;
        self.arrived = 0;
        self.waiting = Since::Never;
        self.sample = Sample::None;
    }

    fn capacity(&self) -> u32 {
        u32::try_from(self.slots.len()).expect("at most 32,768")
    }

    #[inline]
    fn slot(&mut self, seq: SeqNo) -> &mut Slot<T> {
        let mask = self.slots.len() - 1;
        &mut self.slots[seq.0 as usize & mask]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.base == self.next
    }

    /// Whether nothing more can be admitted before something is acknowledged.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.next.ahead_of(self.base).cast_unsigned() >= self.capacity()
    }

    /// Number that the next new data frame will have on the wire.
    #[inline]
    pub(crate) fn sent(&self) -> SeqNo {
        self.sent
    }

    /// Whether frames are on the way or must be repeated: an acknowledgement is expected.
    #[inline]
    pub(crate) fn awaits_answer(&self) -> bool {
        self.base != self.sent
    }

    /// Whether a message waits and nothing but missing credit holds it back.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.sent != self.next && self.sent == self.limit && self.base == self.sent
    }

    /// Longest queued message in bytes.
    pub(crate) fn longest(&self) -> u16 {
        self.slots.iter().filter(|s| s.token.is_some()).map(|s| s.len).max().unwrap_or(0)
    }

    /// Admits a frame, or hands it back when the window is full.
    #[inline]
    pub(crate) fn push(&mut self, token: T, kind: Kind, len: u16) -> Result<(), T> {
        if self.is_full() {
            return Err(token);
        }
        let next = self.next;
        let slot = self.slot(next);
        slot.token = Some(token);
        slot.state = State::Queued;
        slot.repeated = false;
        slot.kind = kind;
        slot.len = len;
        self.next += 1;
        Ok(())
    }

    /// Lets `extend` add a message to the last frame, if that was never transmitted. It is given the
    /// buffer and returns the frame's new length, or `None` if the message does not fit.
    #[inline]
    pub(crate) fn append(&mut self, extend: impl FnOnce(&mut T) -> Option<u16>) -> bool {
        if self.sent == self.next {
            return false;
        }
        let last = SeqNo(self.next.0.wrapping_sub(1));
        let slot = self.slot(last);
        if slot.kind == Kind::Op {
            return false;
        }
        let Some(len) = slot.token.as_mut().and_then(extend) else { return false };
        slot.len = len;
        slot.kind = Kind::Batch;
        true
    }

    /// Raises the limit of the credit; it never goes back.
    #[inline]
    pub(crate) fn credit(&mut self, ack: SeqNo, credit: u16) {
        let limit = ack + u32::from(credit);
        if self.limit.is_before(limit) {
            self.limit = limit;
        }
    }

    /// Whether a frame should be transmitted now, within the flight and the credit.
    #[inline]
    pub(crate) fn can_transmit(&self) -> bool {
        self.flying < self.flight
            && (self.lost > 0 || (self.sent != self.next && self.sent.is_before(self.limit)))
    }

    /// The frame to transmit when [`can_transmit`](Self::can_transmit), marked as in flight: first
    /// what is lost, then what is new. `now` is the clock's last reading.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Instant) -> Outgoing {
        let seq = if self.lost > 0 {
            self.lost -= 1;
            self.first_lost()
        } else {
            self.sent += 1;
            SeqNo(self.sent.0.wrapping_sub(1))
        };
        self.flying += 1;
        let transmission = self.next_transmission;
        self.next_transmission = transmission.wrapping_add(1);
        let slot = self.slot(seq);
        let repeated = slot.state == State::Lost;
        slot.state = State::Flying;
        slot.repeated |= repeated;
        slot.transmission = transmission;
        slot.sent_at = now;
        let kind = slot.kind;
        if seq == self.base {
            self.waiting = Since::Next;
        }
        match self.sample {
            Sample::None if !repeated => self.sample = Sample::Running(seq, Since::Next),
            Sample::Running(timed, _) if timed == seq => self.sample = Sample::None,
            _ => {}
        }
        Outgoing { seq, repeated, kind }
    }

    /// The clock was read.
    #[inline]
    pub(crate) fn date(&mut self, now: Instant, rtt: &mut Rtt) {
        self.waiting.date(now);
        match &mut self.sample {
            Sample::None => {}
            Sample::Running(_, since) => since.date(now),
            Sample::Ended(began) => {
                rtt.sample(now.nanos_since(*began));
                self.sample = Sample::None;
            }
        }
    }

    /// A frame has arrived, perhaps the one that is being timed. One that came back before the clock
    /// was read even once says nothing.
    #[inline]
    fn end_sample(&mut self, arrived: impl Fn(SeqNo) -> bool) {
        if let Sample::Running(seq, since) = self.sample
            && arrived(seq)
        {
            self.sample = match since {
                Since::At(began) => Sample::Ended(began),
                Since::Never | Since::Next => Sample::None,
            };
        }
    }

    /// The buffer of a message within the window.
    #[inline]
    pub(crate) fn message(&mut self, seq: SeqNo) -> &mut T {
        self.slot(seq).token.as_mut().expect("a slot within the window holds its message")
    }

    fn first_lost(&mut self) -> SeqNo {
        let mut seq = self.base;
        while self.slot(seq).state != State::Lost {
            seq += 1;
            debug_assert!(seq.is_before(self.sent), "the count of lost frames is wrong");
        }
        seq
    }

    /// Takes a cumulative acknowledgement: messages before `ack` are done and go to `done`.
    /// Returns how many. An acknowledgement of what was never sent is refused.
    #[inline]
    pub(crate) fn acknowledge(
        &mut self,
        ack: SeqNo,
        rtt: &mut Rtt,
        done: &mut VecDeque<T>,
    ) -> Result<u32, Discard> {
        if self.sent.is_before(ack) {
            return Err(Discard::Window);
        }
        if !self.base.is_before(ack) {
            return Ok(0);
        }
        let count = ack.ahead_of(self.base).cast_unsigned();
        while self.base != ack {
            let base = self.base;
            let slot = self.slot(base);
            let token = slot.token.take().expect("a slot within the window holds its message");
            let (state, transmission) = (slot.state, slot.transmission);
            done.push_back(token);
            self.leave(state);
            self.arrive(transmission);
            self.base += 1;
        }
        self.end_sample(|timed| timed.is_before(ack));
        self.waiting = if self.awaits_answer() { Since::Next } else { Since::Never };
        rtt.progress();
        self.grow(count);
        Ok(count)
    }

    /// Takes what the receiver reports beyond the cumulative acknowledgement, after that was taken.
    /// `keeps` says whether the receiver keeps frames out of order.
    pub(crate) fn report(
        &mut self,
        now: Instant,
        ack: SeqNo,
        report: &AckReport<'_>,
        rtt: &Rtt,
        keeps: bool,
    ) {
        for offset in report.offsets() {
            let seq = ack + offset;
            if seq.is_before(self.base) || !seq.is_before(self.sent) {
                continue;
            }
            let slot = self.slot(seq);
            let (state, transmission) = (slot.state, slot.transmission);
            slot.state = State::Held;
            if state != State::Held {
                self.leave(state);
                self.arrive(transmission);
                self.end_sample(|timed| timed == seq);
            }
        }
        let reordering = if keeps { REORDERING } else { self.dropped(now, report.latest, rtt) };
        self.detect(reordering);
    }

    /// Go-back-N: the frame that led to the report has itself been dropped, so everything up to it
    /// must go again. A report too soon after its repetition is about the former sending.
    fn dropped(&mut self, now: Instant, latest: SeqNo, rtt: &Rtt) -> i32 {
        if !latest.is_before(self.base) && latest.is_before(self.sent) {
            let slot = self.slot(latest);
            let stale = slot.repeated && now.nanos_since(slot.sent_at) < rtt.half();
            let transmission = slot.transmission;
            if slot.state == State::Flying && !stale {
                self.arrive(transmission);
            }
        }
        -1
    }

    /// Marks as lost what was transmitted more than `reordering` before the latest arrival.
    fn detect(&mut self, reordering: i32) {
        let mut seq = self.base;
        let mut found = None;
        while seq != self.sent {
            let arrived = self.arrived;
            let slot = self.slot(seq);
            let behind = arrived.wrapping_sub(slot.transmission).cast_signed();
            if slot.state == State::Flying && behind > reordering {
                slot.state = State::Lost;
                self.flying -= 1;
                self.lost += 1;
                found = Some(seq);
            }
            seq += 1;
        }
        if found.is_some_and(|last| !last.is_before(self.recovery)) {
            self.recovery = self.sent;
            self.threshold = (self.flight * 7 / 10).max(LEAST_FLIGHT).min(self.capacity());
            self.flight = self.threshold;
        }
    }

    /// The retransmission timeout fired: the oldest frame goes again, as a question to the receiver
    /// what else is missing; if that is not answered either, or `all`, everything goes again.
    pub(crate) fn time_out(&mut self, now: Instant, all: bool) {
        self.waiting = Since::At(now);
        let end = if all { self.sent } else { self.base + 1 };
        let mut seq = self.base;
        while seq != end {
            let slot = self.slot(seq);
            if slot.state == State::Flying {
                slot.state = State::Lost;
                self.flying -= 1;
                self.lost += 1;
            }
            seq += 1;
        }
        if all {
            self.threshold = (self.flight / 2).max(LEAST_FLIGHT).min(self.capacity());
            self.flight = RESTART_FLIGHT.min(self.capacity());
            self.recovery = self.sent;
        } else {
            // Room for the question even when the flight is full.
            self.flight = self.flight.max(self.flying + 1);
        }
    }

    /// Empties the window: every frame in order, with what it carries.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Kind, T)> + '_ {
        let (base, count) = (self.base, self.next.ahead_of(self.base).cast_unsigned());
        self.base = self.next;
        self.sent = self.next;
        self.flying = 0;
        self.lost = 0;
        self.waiting = Since::Never;
        self.sample = Sample::None;
        let mask = self.slots.len() - 1;
        let slots = &mut self.slots;
        (0..count).filter_map(move |i| {
            let slot = &mut slots[(base + i).0 as usize & mask];
            Some((slot.kind, slot.token.take()?))
        })
    }

    #[inline]
    fn leave(&mut self, state: State) {
        match state {
            State::Flying => self.flying -= 1,
            State::Lost => self.lost -= 1,
            State::Queued | State::Held => {}
        }
    }

    #[inline]
    fn arrive(&mut self, transmission: u32) {
        if transmission.wrapping_sub(self.arrived).cast_signed() > 0 {
            self.arrived = transmission;
        }
    }

    /// Slow start up to the threshold, then one more frame per flight (RFC 5681).
    #[inline]
    fn grow(&mut self, acknowledged: u32) {
        if self.flight >= self.capacity() {
            return;
        }
        if self.flight < self.threshold {
            self.flight = (self.flight + acknowledged).min(self.threshold);
            return;
        }
        self.grown += acknowledged;
        if self.grown >= self.flight {
            self.grown -= self.flight;
            self.flight += 1;
        }
    }

    /// When the oldest frame is overdue.
    #[inline]
    pub(crate) fn deadline(&self, timeout: u64) -> Instant {
        self.waiting.after(timeout)
    }
}
