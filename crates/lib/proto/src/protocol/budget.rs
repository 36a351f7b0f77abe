//! How much may be on its way to this end from all senders together (`PROTOCOL.md` 6.5 to 6.9).
//!
//! One sender cannot put more in front of this end's port than its own port lets through. Several
//! can. So while several want more credit than they have, their credits together are at most the
//! *budget*. It is the smallest one with which frames come as fast as they ever did of late: it
//! falls slowly, rises while frames come more slowly, and falls fast when frames are missing.
//! Neither rates nor round trips are configured.
//!
//! Shorter transfers come first. One grant in sixteen goes to the others in turns, so that all go
//! on. The decision 109 has the reason for each constant.

mod link;
mod session;

pub(crate) use session::SessionBudget;

use self::link::{LinkRate, ON_WIRE};
use super::newcomers::{Newcomers, OFFER, OFFER_TIME};
use crate::send::SHORT;
use crate::time::Instant;
use crate::{PeerId, PeerKey};
use gigae_wire::SeqNo;
use std::collections::VecDeque;

/// The budget in frames before anything was measured: the bandwidth-delay product of 10 Gbit/s and
/// some 20 us.
const FIRST: u32 = 8;

/// Bounds of the budget. With less, a frame that is late leaves the link idle. With more, the
/// buffers of small switches are full.
const LEAST: u32 = 8;
const MOST: u32 = 256;

/// Parts of a frame in which the budget is counted, so that a small one falls slowly, too.
const PARTS: u32 = 64;

/// One grant in so many goes to another class than the one with the shortest transfers.
const TURNS: u32 = 16;

/// After so many times the budget, and so many nanoseconds at least and at most, credit that was
/// not used does not count any more: the peer computes, is away, means no good, or an
/// acknowledgement was lost.
const UNUSED_BUDGETS: u64 = 16;
const UNUSED: u64 = 1_000_000;
const UNUSED_MOST: u64 = 10_000_000;

/// Or after so many times what credit takes until it is used, if that is longer: it goes to the
/// sender, and its frames come back through queues that others may have filled.
const UNUSED_TURNAROUNDS: u64 = 2;

/// The longest time in nanoseconds that this may be: more than twice that of 512 KiB at 1 Gbit/s. A
/// sender that takes longer slept or computed.
const LONGEST_TURNAROUND: u64 = 10_000_000;

/// Frames that a peer may send unasked at least: a short message, and the beginning of another.
const UNASKED: u32 = SHORT + 2;

/// A lone peer that wants credit shares the link if others have sent within so many nanoseconds.
const MIXED: u64 = 1_000_000;

/// Frames and nanoseconds over which the rate is measured, at least.
const RATE_FRAMES: u64 = 256;
const RATE_TIME: u64 = 100_000;

/// After so many measurements in which the whole budget was used, a larger one is tried.
const TRY_EVERY: u32 = 16;

/// If one frame in so many came from a sender that has others to send to, that may be why frames
/// come slowly. Then no larger budget is tried.
const DIVIDED: u64 = 8;

/// If no more than one frame in so many was lost, the budget does not fall. Frames overtake each
/// other on several processors, and beside TCP the others fill the buffer.
const LOST: u64 = 32;

/// By this part the budget falls after each measurement. A rate that is less than the highest by
/// more than this part is low.
const FALL: u32 = 64;

/// While bytes come less than half as fast as the link has let them through of late, other traffic
/// has the rest of it, or the senders are slow. Then the budget grows as TCP's window does, for
/// trials show little beside the sudden changes of others.
const PRESSED: u64 = 2;

/// A larger budget is kept if it has brought the rate half of the way to the highest, in two
/// measurements: by the second part at least, and the first one is always enough.
const GAIN: u64 = 8;
const LEAST_GAIN: u64 = 64;

/// From this demand on, 64 frames, all transfers count as equally long. What is longer may be a
/// stream without an end, whose sender always has a full window.
const LONG: u8 = 7;

/// A time of [`SessionBudget::mark`]. It wraps after an hour, which is far longer than it matters.
pub(super) fn micros(now: Instant) -> u32 {
    ((now.0 / 1_000) as u32).max(1)
}

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(super) struct Budget {
    /// Peers that want credit, by class, in turns.
    queues: [VecDeque<PeerId>; LONG as usize + 1],
    turn: u32,
    /// Peers that want more than they have.
    pub(super) wanting: u32,
    /// Credit of these that counts.
    pub(super) outstanding: u32,
    /// Whether credit is rationed, and since when.
    is_rationed: bool,
    since: Instant,
    /// In [`PARTS`] of a frame.
    limit: u32,
    /// Up to here the budget grows fast: a little less than where frames were last missing.
    safe: u32,
    /// The budget was raised lately: from this, at this rate; what that should gain; whether one
    /// measurement has shown already that this helps.
    tried: Option<(u32, u64, u64, bool)>,
    /// Credit in HelloAcks, and that of sessions as they come up.
    offers: Newcomers,
    openings: Newcomers,
    /// Number of the present measurement, its frames, and when it began.
    measurement: u32,
    frames: u64,
    bytes: u64,
    began: Instant,
    /// Highest rate of late, and that of the last measurement, in frames per second.
    rate: u64,
    last_rate: u64,
    /// What the link has let through of late, from all senders or from one.
    link: LinkRate,
    /// A larger budget has just been kept: perhaps a still larger one helps, too.
    has_helped: bool,
    /// The last data frame's peer and time, and when there were two within [`MIXED`].
    last: (Option<PeerId>, Instant),
    mixed: Option<Instant>,
    /// Since then the whole budget was given away, peers that lost frames, how many these were, and
    /// frames of senders that also send to others.
    used_up: bool,
    missing: u32,
    lost: u64,
    divided: u64,
    /// Data frames that have arrived, and the peer to which the last one went.
    arrived: u32,
    last_to: Option<PeerId>,
    /// Peers whose credit is watched, and since when.
    watched: VecDeque<(PeerId, Instant)>,
    /// Nanoseconds until credit was used, the longest of late.
    turnaround: u64,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            queues: std::array::from_fn(|_| VecDeque::new()),
            turn: 0,
            wanting: 0,
            outstanding: 0,
            is_rationed: false,
            since: Instant(0),
            limit: FIRST * PARTS,
            safe: MOST * PARTS,
            tried: None,
            offers: Newcomers::default(),
            openings: Newcomers::default(),
            measurement: 0,
            frames: 0,
            bytes: 0,
            began: Instant(0),
            rate: 0,
            last_rate: 0,
            link: LinkRate::default(),
            has_helped: true,
            last: (None, Instant(0)),
            mixed: None,
            used_up: false,
            missing: 0,
            lost: 0,
            divided: 0,
            arrived: 0,
            last_to: None,
            watched: VecDeque::new(),
            turnaround: 0,
        }
    }

    /// Credit for a peer that proposes a session now.
    pub(super) fn offer(&mut self, to: PeerKey, now: Instant) -> u16 {
        self.offers.next(to, now, self.is_rationed)
    }

    /// Whether several peers have just proposed sessions.
    pub(super) fn offers_to_several(&self) -> bool {
        self.offers.count > 1
    }

    /// Credit for a peer with which a session comes up now.
    pub(super) fn open(&mut self, to: PeerKey, now: Instant) -> u16 {
        let credit = self.openings.next(to, now, self.is_rationed);
        self.ration(now);
        credit
    }

    /// Whether several peers want more than they have.
    #[inline]
    pub(super) fn is_rationed(&self) -> bool {
        self.is_rationed
    }

    /// What it depends on has changed.
    pub(super) fn ration(&mut self, now: Instant) {
        let is_rationed = self.wanting > 1
            || self.wanting == 1 && self.is_mixed(now)
            || self.openings.count > 1 && !self.openings.is_over(now);
        let before = std::mem::replace(&mut self.is_rationed, is_rationed);
        if self.is_rationed && !before {
            self.since = now;
            self.measure_again(now);
        }
    }

    fn measure_again(&mut self, now: Instant) {
        self.measurement = self.measurement.wrapping_add(1);
        self.begin(now);
    }

    fn begin(&mut self, now: Instant) {
        (self.frames, self.bytes, self.divided) = (0, 0, 0);
        (self.missing, self.lost) = (0, 0);
        (self.began, self.used_up) = (now, false);
    }

    /// The budget in frames.
    fn limit(&self) -> u32 {
        self.limit / PARTS
    }

    /// Frames of a grant: each is an acknowledgement, and a large budget needs fewer. `None` if the
    /// budget is used up.
    pub(super) fn grant(&mut self) -> Option<u32> {
        let frames = self.portion();
        let is_left = self.outstanding + frames <= self.limit();
        self.used_up |= !is_left;
        is_left.then_some(frames)
    }

    /// Frames of a grant.
    fn portion(&self) -> u32 {
        (self.limit() / 8).max(1)
    }

    /// Whether a peer may get a whole grant more.
    pub(super) fn may_get(&self, of: &SessionBudget) -> bool {
        let most = self.most(of);
        of.counted + self.portion().min(most) <= most
    }

    /// Frames that a peer without demand may always send: what it sends unasked should not take
    /// more room than half of the budget.
    pub(super) fn unasked(&self, now: Instant) -> u32 {
        let shares = self.is_rationed || self.is_mixed(now);
        if shares { (self.limit() / 2).max(UNASKED) } else { OFFER.into() }
    }

    /// Most credit of one peer: as much as the link carries in a round trip, or less if it did not
    /// use that in time.
    pub(super) fn most(&self, of: &SessionBudget) -> u32 {
        let limit = if self.wanting > 1 { self.limit() / 2 } else { self.limit() };
        (limit >> of.halvings).max(1)
    }

    /// When to look at the budget again.
    #[inline]
    pub(super) fn deadline(&self) -> Instant {
        if self.is_rationed { self.next_look() } else { Instant::NEVER }
    }

    #[cold]
    fn next_look(&self) -> Instant {
        let openings = match self.openings.count {
            0 | 1 => Instant::NEVER,
            _ => self.openings.since.after(OFFER_TIME),
        };
        let watched = self.watched.front().map_or(Instant::NEVER, |entry| self.unused_at(entry.1));
        openings.min(watched)
    }

    /// When credit that is watched since then is unused.
    fn unused_at(&self, since: Instant) -> Instant {
        let budgets = UNUSED_BUDGETS * u64::from(self.limit()) * 1_000_000_000;
        let time = budgets.checked_div(self.rate).unwrap_or(0).clamp(UNUSED, UNUSED_MOST);
        since.max(self.since).after(time.max(UNUSED_TURNAROUNDS * self.turnaround))
    }

    /// Frames of a peer have come up to here: perhaps all those for which it had credit when that
    /// began to be watched. A sender that has others to send to may only have been busy with them.
    pub(super) fn note_used(
        &mut self,
        of: &mut SessionBudget,
        to: SeqNo,
        is_divided: bool,
        now: Instant,
    ) {
        let Some((_, since)) = of.mark.take_if(|mark| !to.is_before(mark.0)) else { return };
        let took = u64::from(micros(now).wrapping_sub(since)) * 1_000;
        if since > 0 && !is_divided && took <= LONGEST_TURNAROUND {
            self.turnaround = took.max(self.turnaround - self.turnaround / 16);
        }
    }

    /// Watches whether a peer uses its credit.
    pub(super) fn watch(&mut self, peer: PeerId, now: Instant) {
        self.watched.push_back((peer, now));
    }

    /// The next peer that should have used its credit by now.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<PeerId> {
        let &(peer, since) = self.watched.front()?;
        (now >= self.unused_at(since)).then(|| self.watched.pop_front())?;
        Some(peer)
    }

    /// New peers are not new for ever.
    pub(super) fn advance(&mut self, now: Instant) {
        if self.openings.is_over(now) {
            self.openings = Newcomers::default();
        }
        self.ration(now);
        self.measure(now);
    }

    /// A data frame has come.
    pub(super) fn note_frame(
        &mut self,
        peer: PeerId,
        length: usize,
        is_divided: bool,
        now: Instant,
    ) {
        let bytes = length as u64 + ON_WIRE;
        self.link.note_frame(bytes, now);
        self.bytes += if self.is_rationed { bytes } else { 0 };
        self.frames += u64::from(self.is_rationed);
        self.divided += u64::from(self.is_rationed && is_divided);
        self.arrived = self.arrived.wrapping_add(1);
        if self.last.0.is_some_and(|last| last != peer) && now.nanos_since(self.last.1) < MIXED {
            self.mixed = Some(now);
        }
        self.last = (Some(peer), now);
    }

    /// A data frame goes to a peer. Returns whether the last one went to another.
    pub(super) fn sends_to(&mut self, peer: PeerId) -> bool {
        self.last_to.replace(peer).is_some_and(|last| last != peer)
    }

    /// Whether others than the sender of the last frame have sent lately.
    fn is_mixed(&self, now: Instant) -> bool {
        self.mixed.is_some_and(|mixed| now.nanos_since(mixed) < MIXED)
    }

    /// Credit is left, and no peer may get more now. If none wants more, what comes says nothing
    /// about the budget.
    pub(super) fn nobody_waits(&mut self, now: Instant) {
        if self.wanting == 0 {
            self.begin(now);
        } else {
            self.used_up = true;
        }
    }

    /// So many frames of a peer are missing now. They are lost if half of the budget has come
    /// since. Before that, they may have been overtaken.
    pub(super) fn note_missing(&mut self, of: &mut SessionBudget, missing: u32) {
        if missing == 0 && of.missing_since.is_none() {
            return;
        }
        let since = of.missing_since.unwrap_or(self.arrived);
        of.missing_since = (missing > 0).then_some(since);
        let is_lost = self.arrived.wrapping_sub(since) > self.limit() / 2;
        if !is_lost {
            return;
        }
        // What is missing still, or again, counts when another half of the budget has come.
        of.missing_since = (missing > 0).then_some(self.arrived);
        self.lost += u64::from(missing.max(1));
        let before = std::mem::replace(&mut of.missed_in, self.measurement.wrapping_add(1));
        self.missing += u32::from(before != of.missed_in);
    }

    /// Takes a reading of the clock.
    fn measure(&mut self, now: Instant) {
        let time = now.nanos_since(self.began);
        if self.frames < RATE_FRAMES || time < RATE_TIME {
            return;
        }
        let rate = self.frames.saturating_mul(1_000_000_000) / time;
        let is_slow = rate < self.rate - self.rate / u64::from(FALL);
        self.rate = rate.max(self.rate - self.rate / 256);
        let bytes = self.bytes.saturating_mul(1_000_000_000) / time;
        let is_pressed = bytes < self.link.rate / PRESSED;
        let is_evidence = self.used_up && self.divided * DIVIDED < self.frames;
        let tries = is_slow || self.has_helped || self.measurement.is_multiple_of(TRY_EVERY);
        let (before, mut has_helped) = (self.limit, false);
        // One frame for each budget that has come, as TCP's window grows in each round trip.
        let rounds = self.frames.min(1 << 16) as u32 / (before / PARTS);
        self.safe = (self.safe + rounds * PARTS).min(MOST * PARTS);
        self.limit = if self.missing > 1 && self.lost * LOST > self.frames {
            // One peer alone may mean no good, or have a bad line.
            self.tried = None;
            self.safe = (before / 8 * 7).max(LEAST * PARTS);
            before / 10 * 7
        } else if is_pressed && is_evidence {
            self.tried = None;
            before + rounds * PARTS
        } else if let Some((limit, rate_before, gain, is_sure)) = self.tried.take() {
            if rate < rate_before + gain {
                // More credit has not helped, so the link gives no more now.
                self.rate = rate.max(rate_before);
                limit
            } else {
                // Once may be by chance.
                self.tried = (!is_sure).then_some((limit, rate_before, gain, true));
                has_helped = is_sure;
                before
            }
        } else if tries && is_evidence {
            let before_it = rate.max(self.last_rate);
            let lacks = self.rate.saturating_sub(before_it) / 2;
            let gain = lacks.clamp(before_it / LEAST_GAIN, before_it / GAIN);
            self.tried = Some((before, before_it, gain, false));
            (before + before / 4).min(self.safe.max(before + PARTS))
        } else {
            before - before / FALL
        }
        .clamp(LEAST * PARTS, MOST * PARTS);
        (self.last_rate, self.has_helped) = (rate, has_helped);
        self.measure_again(now);
    }

    /// Queues a peer that may get more credit.
    pub(super) fn queue(&mut self, peer: PeerId, of: &mut SessionBudget) {
        of.is_queued = true;
        self.queues[of.class()].push_back(peer);
    }

    /// Takes the next peer out of the queues: one with a short transfer, or sometimes another.
    pub(super) fn next(&mut self) -> Option<PeerId> {
        let classes = self.queues.len();
        self.turn = (self.turn + 1) % (TURNS * u32::from(LONG + 1));
        let is_short = !self.turn.is_multiple_of(TURNS);
        let first = if is_short { 0 } else { (self.turn / TURNS) as usize };
        let filled = |class: &usize| !self.queues[class % classes].is_empty();
        let class = (first..first + classes).find(filled)?;
        self.queues[class % classes].pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget in use, and the next moments of it.
    fn measure(budget: &mut Budget, times: u64, each: impl Fn(&mut Budget)) {
        budget.wanting = 2;
        budget.ration(Instant(0));
        for _ in 0..times {
            budget.frames = RATE_FRAMES;
            each(budget);
            budget.measure(budget.began.after(RATE_TIME));
        }
    }

    #[test]
    fn only_frames_missing_from_several_peers_reduce_the_budget() {
        let (mut one, mut both) = (Budget::new(), Budget::new());
        (one.limit, both.limit) = (100 * PARTS, 100 * PARTS);
        let lose = |budget: &mut Budget, of: &mut SessionBudget, frames: u32| {
            budget.note_missing(of, 1);
            budget.arrived += frames;
            budget.note_missing(of, 0);
        };
        measure(&mut one, 1, |budget| {
            let mut lossy = SessionBudget::default();
            (0..100).for_each(|_| lose(budget, &mut lossy, 51));
        });
        assert_eq!(one.limit(), 98, "a little less, as always");
        measure(&mut both, 1, |budget| {
            let mut lossy = [SessionBudget::default(); 2];
            (0..9).for_each(|n| lose(budget, &mut lossy[n % 2], 51));
        });
        assert_eq!(both.limit(), 70);
        measure(&mut both, 1, |budget| {
            let mut overtaken = [SessionBudget::default(); 2];
            overtaken.iter_mut().for_each(|of| lose(budget, of, 35));
        });
        assert_eq!(both.limit(), 68, "a little less, as always");
        measure(&mut both, 1, |budget| {
            let mut lossy = [SessionBudget::default(); 2];
            (0..8).for_each(|n| lose(budget, &mut lossy[n % 2], 51));
        });
        assert_eq!(both.limit(), 67, "few frames");
    }

    #[test]
    fn a_small_budget_falls_slowly_too_and_a_larger_one_is_tried() {
        let mut budget = Budget::new();
        budget.limit = 16 * PARTS;
        measure(&mut budget, 5, |_| {});
        assert!((13..16).contains(&budget.limit()), "{}", budget.limit());
        measure(&mut budget, 1_000, |budget| budget.used_up = true);
        assert!(budget.limit() <= LEAST + 2, "no rate is gained: {}", budget.limit());
        // The rate grows with the budget up to 64 frames.
        for _ in 0..2_000 {
            budget.frames = RATE_FRAMES * u64::from(budget.limit().min(64));
            budget.used_up = true;
            budget.measure(budget.began.after(RATE_TIME));
        }
        assert!((56..=90).contains(&budget.limit()), "{}", budget.limit());
    }

    #[test]
    fn a_larger_budget_is_not_tried_while_senders_also_send_to_others() {
        let tried = |divided| {
            let mut budget = Budget::new();
            budget.limit = 16 * PARTS;
            measure(&mut budget, 1, |budget| budget.frames *= 4);
            let before = budget.limit;
            measure(&mut budget, 1, |budget| (budget.used_up, budget.divided) = (true, divided));
            budget.limit > before
        };
        assert!(tried(RATE_FRAMES / DIVIDED - 1), "few frames");
        assert!(!tried(RATE_FRAMES / DIVIDED));
    }

    #[test]
    fn beside_other_traffic_the_budget_grows_as_a_window_of_tcp() {
        let after = |frames: u64, divided: u64| {
            let mut budget = Budget::new();
            budget.link.rate = 10 * RATE_FRAMES * 1_000_000_000 / RATE_TIME;
            let bytes = frames;
            budget.limit = 16 * PARTS;
            measure(&mut budget, 4, |budget| {
                (budget.frames, budget.divided, budget.used_up) = (frames, divided, true);
                budget.bytes = bytes;
            });
            budget.limit()
        };
        assert!(after(RATE_FRAMES, 0) > 35, "{}", after(RATE_FRAMES, 0));
        assert!(after(6 * RATE_FRAMES, 0) <= 20, "more than half of the link");
        assert!(after(RATE_FRAMES, RATE_FRAMES) <= 20, "the senders are busy");
    }

    #[test]
    fn a_grant_of_a_larger_budget_is_for_more_frames() {
        let mut budget = Budget::new();
        assert_eq!(budget.grant(), Some(1));
        budget.limit = 16 * PARTS;
        assert_eq!(budget.grant(), Some(2));
        budget.outstanding = 15;
        assert_eq!(budget.grant(), None);
    }

    #[test]
    fn every_class_gets_turns() {
        let mut budget = Budget::new();
        let mut of =
            [1, 3, 7].map(|demand| SessionBudget { demand, said: 9, ..Default::default() });
        let mut turns = [0; 3];
        for n in 0..3 {
            budget.queue(PeerId(n), &mut of[n as usize]);
        }
        for _ in 0..1_280 {
            let peer = budget.next().unwrap();
            turns[peer.0 as usize] += 1;
            budget.queue(peer, &mut of[peer.0 as usize]);
        }
        assert!(turns[0] > 1_200 && turns[1] >= 20 && turns[2] >= 20, "{turns:?}");
        let liar = SessionBudget { demand: 1, said: 1, given: 64, ..Default::default() };
        assert_eq!(liar.class(), usize::from(LONG));
    }
}
