//! The sending half of a session: a sliding window over unacknowledged messages
//! (`PROTOCOL.md` §5 and §7).
//!
//! ```text
//!   base            sent             next        base + capacity
//!    |  in flight    |   queued       |   free     |
//! ```
//!
//! Each transmission goes out on one [path](crate::path) and has a number of its own there. A frame is
//! lost when one that was transmitted later on the same path (by more than [`REORDERING`]) has
//! arrived and it has not; this one rule serves first sendings and repeats, selective repeat and
//! go-back-N alike. It knows nothing of peers or headers.

mod figures;

use crate::path::{self, Path, REORDERING};
use crate::time::Instant;
use crate::{Config, Counters, PathCounters};
use gigae_wire::{AckReport, Discard, Kind, MAX_PATHS, SeqNo};
use std::collections::VecDeque;

/// Timeouts in a row that repeat only the oldest frame, as a question what else is missing. A peer
/// that was merely kept off its CPU for a millisecond then answers before everything goes again.
const QUESTIONS: u32 = 2;

/// Slots that a window begins with: what a program that asks and waits for the answer needs, and a
/// few more.
const FEWEST_SLOTS: usize = 4;

/// Slots of a window that are worth keeping for another: more were needed by a burst, which pays for
/// its own in a few allocations.
const MOST_SPARE_SLOTS: usize = 8;

/// How many windows' worth of those.
const MOST_SPARE: usize = 64;

/// Slots that no window has now.
pub(crate) type Spare<T> = Vec<Slots<T>>;
type Slots<T> = Box<[Slot<T>]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Queued,
    Flying,
    Lost,
    /// Held by the receiver beyond a gap.
    Held,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Slot<T> {
    /// `None` only where the slot is outside the window.
    token: Option<T>,
    state: State,
    /// Sent more than once: its acknowledgement says nothing about the round-trip time.
    repeated: bool,
    /// What it carries: Data, Batch or Op.
    kind: Kind,
    len: u16,
    /// The path of its latest transmission, and the number there.
    path: u8,
    transmission: u32,
    /// The clock's last reading before that.
    sent_at: Instant,
}

/// What is known of a frame that has arrived.
struct Arrival {
    state: State,
    path: u8,
    transmission: u32,
    repeated: bool,
    sent_at: Instant,
}

impl<T> Slot<T> {
    fn empty() -> Self {
        Self {
            token: None,
            state: State::Queued,
            repeated: false,
            kind: Kind::Data,
            len: 0,
            path: 0,
            transmission: 0,
            sent_at: Instant(0),
        }
    }

    #[inline]
    fn arrival(&self) -> Arrival {
        let &Self { state, path, transmission, repeated, sent_at, .. } = self;
        Arrival { state, path, transmission, repeated, sent_at }
    }
}

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(crate) struct SendWindow<T> {
    /// A power of two, at most the window; none while a window that is empty has given them up.
    slots: Slots<T>,
    /// Frames that may be in it.
    window: u16,
    base: SeqNo,
    sent: SeqNo,
    next: SeqNo,
    /// First number for which there is no credit.
    limit: SeqNo,
    /// Frames to transmit again.
    lost: u32,
    /// Go-back-N: frames on the way that the receiver will drop, for one before them is lost.
    doomed: u32,
    /// The first path, and those that further links make, of which at least one is alive.
    first: Path,
    further: Box<[Path]>,
    /// Nothing goes by another path than the first while that works.
    keeps_to_first: bool,
}

/// What [`SendWindow::transmit`] chose.
pub(crate) struct Outgoing {
    pub(crate) seq: SeqNo,
    pub(crate) repeated: bool,
    pub(crate) kind: Kind,
    pub(crate) path: u8,
}

impl<T> SendWindow<T> {
    pub(crate) fn new(first: SeqNo, config: &Config) -> Self {
        Self {
            slots: Box::default(),
            window: config.send_window,
            base: first,
            sent: first,
            next: first,
            limit: first,
            lost: 0,
            doomed: 0,
            first: Path::new(config),
            further: (1..config.own_paths()).map(|_| Path::new(config)).collect(),
            keeps_to_first: false,
        }
    }

    /// Begins anew, empty, at another number. The memory is kept.
    pub(crate) fn restart(&mut self, first: SeqNo) {
        debug_assert!(self.is_empty());
        self.base = first;
        self.sent = first;
        self.next = first;
        self.limit = first;
        (self.lost, self.doomed) = (0, 0);
    }

    /// The session is up: so many paths are there at both ends, of which one is known to work. The
    /// others are dead until a probe is answered; which are to be probed, by bit.
    pub(crate) fn open_paths(&mut self, count: usize, working: usize, config: &Config) -> u16 {
        let mut probes = 0;
        self.keeps_to_first = false;
        for (i, path) in self.paths_mut().enumerate() {
            path.begin_anew(config);
            if i != working {
                path.die();
                if i < count {
                    probes |= 1 << i;
                } else {
                    path.leave();
                }
            }
        }
        probes
    }

    fn paths(&self) -> impl Iterator<Item = &Path> + Clone {
        std::iter::once(&self.first).chain(&self.further)
    }

    fn paths_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        std::iter::once(&mut self.first).chain(&mut self.further)
    }

    #[inline(always)]
    fn path(&mut self, path: usize) -> &mut Path {
        if path == 0 { &mut self.first } else { &mut self.further[path - 1] }
    }

    fn capacity(&self) -> u32 {
        self.window.into()
    }

    /// Makes room for more, from `spare` or by allocation. False if there is as much as the window
    /// allows.
    #[cold]
    pub(crate) fn grow(&mut self, spare: &mut Spare<T>) -> bool {
        let (before, most) = (self.slots.len(), usize::from(self.window));
        if before >= most {
            return false;
        }
        if before == 0
            && let Some(slots) = spare.pop()
        {
            self.slots = slots;
            return true;
        }
        let count = (before * 2).max(FEWEST_SLOTS).min(most);
        let mut slots: Slots<T> = std::iter::repeat_with(Slot::empty).take(count).collect();
        let mut seq = self.base;
        while seq != self.next {
            std::mem::swap(&mut slots[seq.0 as usize & (count - 1)], self.slot(seq));
            seq += 1;
        }
        keep(std::mem::replace(&mut self.slots, slots), spare);
        true
    }

    /// Gives up the memory of an empty window. False if there is none, or something is in it.
    #[cold]
    pub(crate) fn shrink(&mut self, spare: &mut Spare<T>) -> bool {
        let gives = self.is_empty() && self.has_slots();
        if gives {
            keep(std::mem::take(&mut self.slots), spare);
        }
        gives
    }

    /// Whether it has any memory for frames.
    pub(crate) fn has_slots(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Frames in the window.
    pub(crate) fn len(&self) -> u32 {
        self.next.ahead_of(self.base).cast_unsigned()
    }

    #[inline]
    fn slot(&mut self, seq: SeqNo) -> &mut Slot<T> {
        let mask = self.slots.len().wrapping_sub(1);
        &mut self.slots[seq.0 as usize & mask]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.base == self.next
    }

    /// Whether nothing more can be admitted before something is acknowledged.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.capacity()
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

    /// Longest queued message in bytes. Frames with operations are longer, and are queued only once it
    /// is known how long they may be.
    pub(crate) fn longest(&self) -> u16 {
        let messages = self.slots.iter().filter(|s| s.token.is_some() && s.kind != Kind::Op);
        messages.map(|s| s.len).max().unwrap_or(0)
    }

    /// Admits a frame, or hands it back when there is no slot for it: the window may [grow](Self::grow)
    /// then, unless it is full.
    #[inline]
    pub(crate) fn push(&mut self, token: T, kind: Kind, len: u16) -> Result<(), T> {
        if self.len() as usize >= self.slots.len() {
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
        (self.lost > 0 || self.has_new())
            && if self.further.is_empty() { self.first.has_room() } else { self.choose().is_some() }
    }

    /// Whether something new may go out. Not while frames fly that the receiver will drop: it would
    /// overtake their repetition, be dropped too, and so on without end.
    #[inline]
    fn has_new(&self) -> bool {
        self.sent != self.next && self.sent.is_before(self.limit) && self.doomed == 0
    }

    /// The frame to transmit when [`can_transmit`](Self::can_transmit), marked as in flight: first
    /// what is lost, then what is new. `now` is the clock's last reading.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, now: Instant) -> Outgoing {
        let repeated = self.lost > 0;
        let seq = if repeated {
            self.lost -= 1;
            self.first_lost()
        } else {
            self.sent += 1;
            SeqNo(self.sent.0.wrapping_sub(1))
        };
        let path = if self.further.is_empty() { 0 } else { self.choose_for(seq, repeated) };
        let transmission = self.path(path).transmit(seq, repeated);
        let slot = self.slot(seq);
        slot.state = State::Flying;
        slot.repeated |= repeated;
        slot.path = path as u8;
        slot.transmission = transmission;
        slot.sent_at = now;
        Outgoing { seq, repeated, kind: slot.kind, path: path as u8 }
    }

    /// The path for the next frame, of several.
    #[inline(never)]
    fn choose(&self) -> Option<usize> {
        if self.is_by_first() {
            return self.first.has_room().then_some(0);
        }
        path::choose(self.paths(), None)
    }

    #[inline(never)]
    fn choose_for(&mut self, seq: SeqNo, repeated: bool) -> usize {
        if self.is_by_first() {
            return 0;
        }
        let before = repeated.then(|| self.slot(seq).path.into());
        path::choose(self.paths(), before).unwrap_or(0)
    }

    fn is_by_first(&self) -> bool {
        self.keeps_to_first && self.first.is_alive()
    }

    /// For the rest of the session, nothing goes by another path than the first while that works.
    pub(crate) fn keep_to_first(&mut self) {
        self.keeps_to_first = true;
    }

    /// The clock was read.
    #[inline]
    pub(crate) fn date(&mut self, now: Instant) {
        self.first.date(now);
        if !self.further.is_empty() {
            self.date_further(now);
        }
    }

    #[inline(never)]
    fn date_further(&mut self, now: Instant) {
        for path in &mut self.further {
            path.date(now);
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
        // Most were sent once, by the first path; they are told to it together.
        let (mut usual, mut latest) = (0, 0);
        while self.base != ack {
            let base = self.base;
            let slot = self.slot(base);
            let token = slot.token.take().expect("a slot within the window holds its message");
            if (slot.state, slot.path, slot.repeated) == (State::Flying, 0, false) {
                (usual, latest) = (usual + 1, slot.transmission);
            } else {
                let arrival = slot.arrival();
                self.arrive(now, &arrival);
            }
            done.push_back(token);
            self.base += 1;
        }
        if usual > 0 {
            self.first.arrive(latest, usual);
        }
        let most = self.capacity();
        let heard = self.first.settle(most, |timed| timed.is_before(ack));
        if !self.further.is_empty() {
            self.settle_further(most, ack, heard);
        }
        if self.doomed > 0 {
            self.detect(-1, false);
            self.count_doomed();
        }
        Ok(count)
    }

    #[inline(never)]
    fn settle_further(&mut self, most: u32, ack: SeqNo, first: bool) {
        let mut heard = u16::from(first);
        for (i, path) in (1..).zip(&mut self.further) {
            heard |= u16::from(path.settle(most, |timed| timed.is_before(ack))) << i;
        }
        self.doubt_others(heard);
    }

    /// Something has arrived by these paths, by bit: the peer is there. Those that are silent have no
    /// other excuse.
    fn doubt_others(&mut self, heard: u16) {
        for (i, path) in self.paths_mut().enumerate() {
            if heard & !(1 << i) != 0 {
                path.doubt();
            }
        }
    }

    /// A frame that was sent has arrived.
    #[inline(never)]
    fn arrive(&mut self, now: Instant, arrival: &Arrival) {
        let &Arrival { state, path, transmission, repeated, sent_at } = arrival;
        if state == State::Held {
            return;
        }
        self.lost -= u32::from(state == State::Lost);
        let path = self.path(path.into());
        if repeated && now.nanos_since(sent_at) < path.rtt.half() {
            path.arrive_late(state == State::Flying);
        } else {
            match state {
                State::Flying => path.arrive(transmission, 1),
                _ => path.arrive_after_all(transmission),
            }
        }
    }

    /// Takes what the receiver reports beyond the cumulative acknowledgement, after that was taken.
    /// `keeps` says whether the receiver keeps frames out of order.
    pub(crate) fn report(&mut self, now: Instant, ack: SeqNo, report: &AckReport<'_>, keeps: bool) {
        for offset in report.offsets() {
            let seq = ack + offset;
            if seq.is_before(self.base) || !seq.is_before(self.sent) {
                continue;
            }
            let slot = self.slot(seq);
            let arrival = slot.arrival();
            slot.state = State::Held;
            self.arrive(now, &arrival);
        }
        let (most, mask) = (self.capacity(), self.slots.len().wrapping_sub(1));
        let Self { slots, first, further, .. } = self;
        let mut heard = 0;
        for (i, path) in std::iter::once(first).chain(further).enumerate() {
            let held = |timed: SeqNo| slots[timed.0 as usize & mask].state == State::Held;
            heard |= u16::from(path.settle(most, held)) << i;
        }
        self.doubt_others(heard);
        let dropped = self.dropped(now, report.latest);
        self.detect(if keeps && !dropped { REORDERING } else { -1 }, keeps);
        if !keeps {
            self.count_doomed();
        }
    }

    /// Go-back-N, or a receiver that could keep no more: the frame that led to the report has itself
    /// been dropped, so everything up to it must go again. A report too soon after its repetition is
    /// about the former sending.
    fn dropped(&mut self, now: Instant, latest: SeqNo) -> bool {
        if !latest.is_before(self.base) && latest.is_before(self.sent) {
            let slot = self.slot(latest);
            let (path, transmission) = (usize::from(slot.path), slot.transmission);
            let (flying, repeated) = (slot.state == State::Flying, slot.repeated);
            let since = now.nanos_since(slot.sent_at);
            let path = self.path(path);
            let stale = repeated && since < path.rtt.half();
            if flying && !stale {
                path.overtake(transmission);
                return true;
            }
        }
        false
    }

    /// Marks as lost what was transmitted more than `reordering` before the latest arrival on the same
    /// path. `keeps` says whether the receiver keeps frames out of order.
    fn detect(&mut self, reordering: i32, keeps: bool) {
        let (mut seq, most) = (self.base, self.capacity());
        // The last found on each path, whose number tells whether the loss is a new event.
        let mut found = [None; MAX_PATHS];
        while seq != self.sent {
            let slot = self.slot(seq);
            let (path, transmission) = (usize::from(slot.path), slot.transmission);
            if slot.state == State::Flying && self.path(path).is_behind(transmission, reordering) {
                self.lose(seq);
                found[path] = Some(transmission);
            }
            seq += 1;
        }
        for (path, last) in self.paths_mut().zip(found) {
            if let Some(last) = last {
                path.slow_down(last, most, keeps);
            }
        }
    }

    /// Counts the frames that flew already when the last loss was found, and still do.
    #[cold]
    fn count_doomed(&mut self) {
        let mut seq = self.base;
        self.doomed = 0;
        while seq != self.sent {
            let slot = self.slot(seq);
            let (state, path, transmission) = (slot.state, slot.path, slot.transmission);
            let flew = state == State::Flying && self.path(path.into()).flew(transmission);
            self.doomed += u32::from(flew);
            seq += 1;
        }
    }

    /// A frame on the way is lost.
    fn lose(&mut self, seq: SeqNo) {
        let slot = self.slot(seq);
        slot.state = State::Lost;
        let path = usize::from(slot.path);
        self.path(path).lose(seq);
        self.lost += 1;
    }

    /// Takes for lost what flies on a path: all of it, or the oldest only.
    fn lose_flying(&mut self, path: usize, all: bool) {
        let mut seq = self.base;
        while seq != self.sent {
            let slot = self.slot(seq);
            if slot.state == State::Flying && usize::from(slot.path) == path {
                self.lose(seq);
                if !all {
                    break;
                }
            }
            seq += 1;
        }
        if self.doomed > 0 {
            self.count_doomed();
        }
    }

    /// Whether a timeout has fired since something was acknowledged.
    pub(crate) fn is_silent(&self) -> bool {
        self.first.rtt.timeouts() > 0
    }

    /// Nothing that is on its way has arrived.
    #[cold]
    pub(crate) fn repeat_all(&mut self) {
        for path in 0..=self.further.len() {
            self.lose_flying(path, true);
        }
    }

    /// Does what is due at `now`. Returns which paths are to be probed, by bit.
    pub(crate) fn expire(&mut self, now: Instant, counters: &mut Counters) -> u16 {
        let (slowest, mut probes) = (path::slowest(self.paths()), 0);
        let several = !self.further.is_empty();
        for i in 0..=self.further.len() {
            let path = self.path(i);
            let deadline = if several { path.deadline_among(slowest) } else { path.deadline() };
            if now < deadline {
                continue;
            }
            if path.is_alive() {
                counters.timeouts += 1;
                probes |= self.time_out(i, now);
            } else {
                path.probed(now);
                probes |= 1 << i;
            }
        }
        probes
    }

    /// The retransmission timeout of a path fired: the oldest frame goes again, as a question to the
    /// receiver what else is missing; if that is not answered either, everything goes again. With
    /// other paths, the question goes there; if the peer hears those and not this, it is dead.
    fn time_out(&mut self, i: usize, now: Instant) -> u16 {
        if self.path(i).is_doubted() {
            let dead = self.give_up(i);
            if dead != 0 {
                return dead;
            }
        }
        let most = self.capacity();
        let path = self.path(i);
        path.time_out(now);
        let all = path.rtt.timeouts() > QUESTIONS;
        self.lose_flying(i, all);
        let path = self.path(i);
        if all {
            path.restart(most);
        } else {
            path.make_room();
        }
        0
    }

    /// A path does not work: unless it is the last one, it is dead until a probe is answered, and what
    /// flew there goes again elsewhere. Returns it, to be probed, by bit.
    pub(crate) fn give_up(&mut self, i: usize) -> u16 {
        let another = |(n, path): (usize, &Path)| n != i && path.is_alive();
        if !self.path(i).is_alive() || !self.paths().enumerate().any(another) {
            return 0;
        }
        self.lose_flying(i, true);
        self.path(i).give_up();
        1 << i
    }

    /// A probe of a path was answered.
    pub(crate) fn revive(&mut self, i: usize, config: &Config) {
        if self.path(i).revive(config) {
            self.doubt_others(1 << i);
        }
    }

    /// The path for what says nothing of paths: `wanted` if it is alive, else the first that is.
    pub(crate) fn alive(&self, wanted: usize) -> usize {
        let is_wanted = self.paths().nth(wanted).is_some_and(Path::is_alive);
        if is_wanted { wanted } else { self.paths().position(Path::is_alive).unwrap_or(0) }
    }

    /// Whether a path is being probed.
    pub(crate) fn is_dead(&self, path: usize) -> bool {
        self.paths().nth(path).is_some_and(|path| !path.is_alive())
    }

    /// What happened on the paths.
    pub(crate) fn path_counters(&self) -> impl Iterator<Item = &PathCounters> {
        self.paths().map(|path| &path.counters)
    }

    /// Empties the window: every frame in order, with what it carries.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Kind, T)> + '_ {
        let (base, count) = (self.base, self.len());
        self.base = self.next;
        self.sent = self.next;
        (self.lost, self.doomed) = (0, 0);
        self.paths_mut().for_each(Path::forget);
        let mask = self.slots.len().wrapping_sub(1);
        let slots = &mut self.slots;
        (0..count).filter_map(move |i| {
            let slot = &mut slots[(base + i).0 as usize & mask];
            Some((slot.kind, slot.token.take()?))
        })
    }

    /// When the next thing is due by itself.
    #[inline]
    pub(crate) fn deadline(&self) -> Instant {
        if self.further.is_empty() { self.first.deadline() } else { self.deadline_of_several() }
    }

    #[inline(never)]
    fn deadline_of_several(&self) -> Instant {
        let slowest = path::slowest(self.paths());
        let deadlines = self.paths().map(|path| path.deadline_among(slowest));
        deadlines.min().unwrap_or(Instant::NEVER)
    }

    /// A wait after which an answer is overdue, in nanoseconds.
    pub(crate) fn timeout(&self) -> u64 {
        let alive = self.paths().find(|path| path.is_alive());
        alive.unwrap_or(&self.first).rtt.timeout()
    }
}

/// Keeps slots that a window does not need for another, if they are few.
fn keep<T>(slots: Slots<T>, spare: &mut Spare<T>) {
    if (1..=MOST_SPARE_SLOTS).contains(&slots.len()) && spare.len() < MOST_SPARE {
        spare.push(slots);
    }
}
