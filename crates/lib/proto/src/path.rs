//! One path to a peer, as the sender knows it: what is in flight, what has arrived, the round trip,
//! and whether the path works (`PROTOCOL.md` §7 and §11).
//!
//! A session has one path for each link that both ends have. Each path counts its own
//! transmissions: what goes by one path arrives in order or not at all, whatever overtakes it on
//! another. A path knows only one sequence number: that of the frame that it times.

use crate::ProtocolConfig;
use crate::flight::{Flight, LEAST_FLIGHT, LEAST_IN_ORDER, RESTART_FLIGHT, Reordering};
use crate::queues::{FIRST_FLIGHT, LEAST_IN_QUEUE, Queues};
use crate::rtt::Rtt;
use crate::time::{Instant, Since};
use gigae_wire::{MAX_PATHS, PathId, SeqNo};
use std::cmp::Ordering;

/// Longest first timeout of a path in nanoseconds while there are others, and longest wait after it
/// for an arrival, once the peer has answered elsewhere. After that the path is dead. A cut link
/// may cost twice this and a round trip; that leaves room to retransmit within 50 ms. A busy peer
/// usually sleeps less.
const LONGEST_FIRST: u64 = 10_000_000;

/// Least wait in nanoseconds for that arrival. Two CPUs of a busy peer may serve its two links, and
/// one of them may be late.
const LEAST_DOUBT: u64 = 2_000_000;

/// First wait in nanoseconds for the answer to a probe of a dead path; doubled with each
/// repetition.
const PROBE_INTERVAL: u64 = 1_000_000;

/// Longest wait in nanoseconds between two probes.
const LONGEST_PROBE_INTERVAL: u64 = 100_000_000;

/// Wait in nanoseconds before a path is probed again after all its probes went unanswered.
const REST: u64 = 1_000_000_000;

/// What happened on the paths over one link, in all sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathCounters {
    /// Data frames that were transmitted here and had to be repeated, here or elsewhere.
    pub lost: u64,
    /// Times that the sender gave a path up because nothing arrived on it any more.
    pub deaths: u64,
    /// Times that a path came back because a probe was answered.
    pub returns: u64,
}

impl PathCounters {
    pub(crate) fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.deaths += other.deaths;
        self.returns += other.returns;
    }
}

/// The round trip that is being timed. One at a time, as in RFC 6298.
#[derive(Clone, Copy, Debug, Hash)]
enum RttSample {
    None,
    /// The timed frame, which was sent once, the time, and how many frames had arrived by then.
    Running(SeqNo, Since, u32),
    /// It began at this moment and ends with the next reading of the clock. The number says how
    /// many frames have arrived since it began.
    Ended(Instant, u32),
}

/// What is known of a path (rules 11.4 and 11.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PathState {
    /// Frames arrive, as far as is known.
    Sound,
    /// The retransmission timer has fired and nothing has arrived since. The path does not work, or
    /// the peer does not read.
    Silent,
    /// The peer has received something by another path since then. The last wait runs.
    Doubted,
    /// Nothing but probes goes out here. Holds the time of death or of the last probe, and the wait
    /// until the next probe.
    Dead(Since, u64),
}

/// What follows when a probe of a path got no answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterProbe {
    /// Another probe.
    Probe,
    /// None until the path is wanted, for the first time since it was alive.
    FirstLeft,
    /// None.
    Nothing,
}

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Path {
    /// Datagrams in flight. A frame is one, unless it is a bulk frame.
    in_flight: u32,
    /// How many may be; none while the path is dead.
    flight: Flight,
    /// Arrivals towards the next increase of `flight` above the threshold.
    grown: u32,
    /// A loss of an earlier transmission than this belongs to a loss event that the path has
    /// already reacted to.
    recovery: u32,
    reordering: Reordering,
    next_transmission: u32,
    /// Latest transmission known to have arrived.
    arrived: u32,
    /// Frames known to have arrived, and how many of them `settle` has handled.
    delivered: u32,
    settled: u32,
    /// Since when nothing has arrived while frames are in flight or the path is doubted. `Never`
    /// otherwise: there is nothing to wait for.
    waiting: Since,
    sample: RttSample,
    pub(crate) rtt: Rtt,
    /// Nanoseconds per frame that arrived during a round trip, smoothed; zero if unknown.
    interval: u32,
    /// Where queues on the way matter.
    queues: Option<Queues>,
    state: PathState,
    /// Readings of the clock also matter for `queues`, or for a dead path.
    watches_clock: bool,
    /// The path was in use before it died.
    given_up: bool,
    /// No probe of the dead path was answered for so long that it was left.
    was_left: bool,
    pub(crate) counters: PathCounters,
}

impl Path {
    pub(crate) fn new(config: &ProtocolConfig) -> Self {
        Self {
            in_flight: 0,
            flight: Flight::new(config.send_window.into()),
            grown: 0,
            recovery: 1,
            reordering: Reordering::new(),
            next_transmission: 1,
            arrived: 0,
            delivered: 0,
            settled: 0,
            waiting: Since::Never,
            sample: RttSample::None,
            rtt: Rtt::new(config),
            interval: 0,
            queues: None,
            state: PathState::Sound,
            watches_clock: false,
            given_up: false,
            was_left: false,
            counters: PathCounters::default(),
        }
    }

    /// Another session begins. Only the counters remain.
    pub(crate) fn begin_anew(&mut self, config: &ProtocolConfig) {
        *self = Self { counters: self.counters, ..Self::new(config) };
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight < self.flight.most
    }

    /// Frames in flight, and how many may be.
    pub(crate) fn flight(&self) -> (u32, u32) {
        (self.in_flight, self.flight.most)
    }

    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, PathState::Dead(..))
    }

    /// Whether frames arrive on the path, as far as is known.
    pub(crate) fn is_sound(&self) -> bool {
        matches!(self.state, PathState::Sound)
    }

    /// The same, or one timeout has fired since: the peer may only be busy.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_sound() || self.state == PathState::Silent && self.rtt.timeouts() == 1
    }

    /// Counts a transmission on this path; returns its number.
    #[inline]
    pub(crate) fn transmit(&mut self, seq: SeqNo, repeated: bool, datagrams: u32) -> u32 {
        self.in_flight += datagrams;
        if let Some(queues) = &mut self.queues {
            queues.transmitted(self.in_flight >= self.flight.most);
        }
        self.waiting.start();
        if matches!(self.sample, RttSample::None) && !repeated {
            self.sample = RttSample::Running(seq, Since::Next, self.delivered);
        }
        let transmission = self.next_transmission;
        self.next_transmission = transmission.wrapping_add(1);
        transmission
    }

    /// `in_flight` frames in flight have arrived. `latest` is the number of the latest transmission
    /// among them.
    #[inline]
    pub(crate) fn arrive(&mut self, latest: u32, in_flight: u32) {
        self.in_flight -= in_flight;
        self.delivered = self.delivered.wrapping_add(in_flight);
        self.overtake(latest);
    }

    /// A frame has arrived that was counted as lost.
    pub(crate) fn arrive_after_all(&mut self, transmission: u32) {
        self.delivered = self.delivered.wrapping_add(1);
        self.overtake(transmission);
    }

    /// A frame that counted as lost, and was not repeated, has arrived: it was only overtaken.
    #[cold]
    pub(crate) fn was_overtaken(&mut self, transmission: u32) {
        let Self { reordering, arrived, flight, .. } = self;
        if let Some(first) = reordering.was_overtaken(transmission, *arrived, flight) {
            // What is lost of this flight later is another event.
            self.recovery = first;
        }
    }

    /// A frame has arrived that was retransmitted very recently, so the arrival is that of the
    /// earlier transmission. It says nothing about what went out between the two.
    #[cold]
    pub(crate) fn arrive_late(&mut self, in_flight: u32) {
        self.in_flight -= in_flight;
        self.delivered = self.delivered.wrapping_add(1);
    }

    /// A transmission has reached the receiver.
    #[inline]
    pub(crate) fn overtake(&mut self, transmission: u32) {
        if transmission.wrapping_sub(self.arrived).cast_signed() > 0 {
            self.arrived = transmission;
        }
    }

    /// Whether more transmissions than may overtake it were sent later, and have arrived. None may
    /// if frames arrive `in_order` or not at all.
    #[inline]
    pub(crate) fn is_behind(&self, transmission: u32, in_order: bool) -> bool {
        let most = if in_order { -1 } else { self.reordering.most(self.in_flight).cast_signed() };
        self.arrived.wrapping_sub(transmission).cast_signed() > most
    }

    /// Whether a transmission is older than the last loss event.
    pub(crate) fn is_before_recovery(&self, transmission: u32) -> bool {
        transmission.wrapping_sub(self.recovery).cast_signed() < 0
    }

    /// Counts a frame in flight as lost. If the path times it, the timing ends: the frame will be
    /// repeated.
    pub(crate) fn lose(&mut self, seq: SeqNo, datagrams: u32) {
        self.in_flight -= datagrams;
        if self.in_flight == 0 && self.state != PathState::Doubted {
            self.waiting = Since::Never;
        }
        self.counters.lost += 1;
        self.reordering.lose();
        if matches!(self.sample, RttSample::Running(timed, ..) if timed == seq) {
            self.sample = RttSample::None;
        }
    }

    /// Reduces the frames that may be in flight, once per flight. `lost` more are lost, and `last`
    /// is the last transmission among them. `keeps` says whether the receiver keeps frames out of
    /// order.
    pub(crate) fn slow_down(&mut self, last: u32, lost: u32, most: u32, keeps: bool) {
        if last.wrapping_sub(self.recovery).cast_signed() >= 0 {
            let queues = self.queues.as_ref().filter(|queues| queues.is_shared());
            let least = match keeps {
                _ if queues.is_some_and(Queues::is_long) => LEAST_IN_QUEUE,
                true => LEAST_FLIGHT,
                false => LEAST_IN_ORDER,
            };
            // A flight that is less already does not grow by a loss.
            let least = if queues.is_some() { least.min(self.flight.most) } else { least };
            if keeps && (self.queues.is_none() || queues.is_some()) {
                self.reordering.fell(self.flight, self.recovery, lost);
            }
            self.recovery = self.next_transmission;
            self.flight.reduce(least, most);
            self.forget_queues();
        }
    }

    /// Handles arrivals: the path works. `timed` says whether the timed frame has arrived. Returns
    /// false if nothing has arrived since the last call.
    #[inline(always)]
    pub(crate) fn settle(&mut self, most: u32, timed: impl Fn(SeqNo) -> bool) -> bool {
        let fresh = self.delivered.wrapping_sub(self.settled);
        if fresh == 0 {
            return false;
        }
        self.settled = self.delivered;
        if let RttSample::Running(seq, since, before) = self.sample
            && timed(seq)
        {
            // A frame that came back before any reading of the clock gives no sample.
            self.sample = match since {
                Since::At(began) => RttSample::Ended(began, self.delivered.wrapping_sub(before)),
                Since::Never | Since::Next => RttSample::None,
            };
        }
        self.waiting = if self.in_flight > 0 { Since::Next } else { Since::Never };
        self.rtt.progress();
        if self.is_alive() {
            self.state = PathState::Sound;
            if self.flight.most < most {
                self.grow(fresh);
            }
        }
        true
    }

    /// Slow start up to the threshold, then one more frame per flight (RFC 5681).
    fn grow(&mut self, acknowledged: u32) {
        if self.flight.most < self.flight.threshold {
            self.flight.most = (self.flight.most + acknowledged).min(self.flight.threshold);
            return;
        }
        self.grown += acknowledged;
        if self.grown >= self.flight.most {
            self.grown -= self.flight.most;
            self.flight.most += 1;
        }
    }

    /// Takes a reading of the clock.
    #[inline]
    pub(crate) fn stamp(&mut self, now: Instant) {
        self.waiting.stamp(now);
        match &mut self.sample {
            RttSample::None => {}
            RttSample::Running(_, since, _) => since.stamp(now),
            &mut RttSample::Ended(began, arrived) => {
                self.sample = RttSample::None;
                self.timed(now, now.nanos_since(began), arrived);
            }
        }
        if self.watches_clock {
            self.stamp_rest(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn stamp_rest(&mut self, now: Instant) {
        if let PathState::Dead(since, _) = &mut self.state {
            since.stamp(now);
        }
        if let Some(queues) = &mut self.queues {
            let timeout = self.rtt.first_timeout();
            queues.stamp(now, self.in_flight > 0, timeout, &mut self.flight);
        }
    }

    /// Takes a round trip of this length, during which `arrived` frames arrived.
    #[inline]
    fn timed(&mut self, now: Instant, nanos: u64, arrived: u32) {
        self.rtt.sample(nanos);
        let interval = nanos / u64::from(arrived.max(1));
        let interval = u32::try_from(interval).unwrap_or(u32::MAX).max(1);
        self.interval = match self.interval {
            0 => interval,
            before => ((3 * u64::from(before) + u64::from(interval)) / 4) as u32,
        };
        if self.queues.is_some() {
            self.look_at_queues(now, nanos);
        }
    }

    #[cold]
    #[inline(never)]
    fn look_at_queues(&mut self, now: Instant, nanos: u64) {
        let Some(queues) = &mut self.queues else { return };
        queues.timed(nanos, self.rtt.shortest(), &mut self.flight);
        queues.stamp(now, true, self.rtt.first_timeout(), &mut self.flight);
    }

    /// The queues on this path's way are to be short: it carries bulk data.
    pub(crate) fn keep_queues_short(&mut self) {
        self.queues = Some(Queues::bulk());
    }

    /// Credit is shared: others may send by the same queues at the same moment.
    pub(crate) fn share_queues(&mut self) {
        self.queues = Some(Queues::shared());
        self.watches_clock = true;
        if self.delivered == 0 {
            self.flight.most = self.flight.most.min(FIRST_FLIGHT);
        }
    }

    /// The path's deadline, if it is the only path.
    #[inline]
    pub(crate) fn deadline(&self) -> Instant {
        self.waiting.after(self.rtt.timeout())
    }

    /// The path's deadline, if there are several. An acknowledgement may come back by any path. So
    /// nothing is late before it would be late on the slowest path, whose first timeout is
    /// `slowest`.
    pub(crate) fn deadline_among(&self, slowest: u64) -> Instant {
        let timeout = self.rtt.backed_off(slowest);
        self.waiting.after(match self.state {
            PathState::Sound => timeout.min(LONGEST_FIRST),
            PathState::Silent if self.rtt.timeouts() == 1 => timeout.min(2 * LONGEST_FIRST),
            PathState::Silent => timeout,
            PathState::Doubted => slowest.clamp(LEAST_DOUBT, LONGEST_FIRST),
            PathState::Dead(since, wait) => return since.after(wait),
        })
    }

    /// The retransmission timer fired, or the last wait of the last path that is left is over.
    /// `seed` is a number that is random and differs between sessions.
    pub(crate) fn time_out(&mut self, now: Instant, seed: u32) {
        self.note_late(now);
        self.reordering.late();
        self.state = PathState::Silent;
        self.waiting = if self.in_flight > 0 { Since::At(now) } else { Since::Never };
        self.rtt.back_off(seed);
    }

    /// Where credit is shared, a queue may grow within one round trip to many times what a round
    /// trip took. Then all frames that are timed would be repeated first, and the timeout would
    /// stay too short. So what a timed frame has taken until now counts, if that is long.
    fn note_late(&mut self, now: Instant) {
        if let RttSample::Running(_, Since::At(began), _) = self.sample
            && self.queues.as_ref().is_some_and(Queues::is_shared)
        {
            self.rtt.at_least(now.nanos_since(began));
        }
    }

    /// The peer has received something by another path. If nothing has arrived here since the timer
    /// fired, the last wait begins.
    pub(crate) fn doubt(&mut self) {
        if self.state == PathState::Silent {
            self.state = PathState::Doubted;
            self.waiting = Since::Next;
        }
    }

    /// Whether the wait that ends now is the last one.
    pub(crate) fn is_doubted(&self) -> bool {
        self.state == PathState::Doubted
    }

    /// Everything counts as lost after several timeouts, and was `before` as many times.
    pub(crate) fn restart(&mut self, most: u32, before: u32) {
        self.flight.restart(most, before);
        self.recovery = self.next_transmission;
        self.reordering = Reordering::new();
        self.forget_queues();
    }

    fn forget_queues(&mut self) {
        if let Some(queues) = &mut self.queues {
            queues.lost();
        }
    }

    /// Makes room for a probe even when the flight is full.
    pub(crate) fn make_room(&mut self) {
        self.flight.most = self.flight.most.max(self.in_flight + 1);
    }

    /// Gives the path up. The caller has counted everything in flight as lost.
    pub(crate) fn give_up(&mut self) {
        self.counters.deaths += 1;
        self.given_up = true;
        self.die();
    }

    /// From now on only probes go out here.
    pub(crate) fn die(&mut self) {
        debug_assert_eq!(self.in_flight, 0, "what was in flight is lost");
        self.flight.most = 0;
        self.reordering.settle();
        self.waiting = Since::Never;
        self.sample = RttSample::None;
        self.state = PathState::Dead(Since::Next, PROBE_INTERVAL);
        self.watches_clock = true;
    }

    /// The peer has no such path, or the path is not wanted: it is dead, and nothing probes it.
    pub(crate) fn leave(&mut self) {
        self.state = PathState::Dead(Since::Never, PROBE_INTERVAL);
    }

    /// Whether the path is dead and nothing probes it.
    pub(crate) fn is_left(&self) -> bool {
        matches!(self.state, PathState::Dead(Since::Never, _))
    }

    /// A probe of a dead path got no answer in time. The next wait begins.
    pub(crate) fn probed(&mut self, now: Instant) {
        if let PathState::Dead(since, wait) = &mut self.state {
            *since = Since::At(now);
            *wait = (*wait * 2).min(LONGEST_PROBE_INTERVAL);
        }
    }

    /// The same for a path that is probed only while it is wanted: after the longest wait it rests,
    /// and then it is left.
    pub(crate) fn probed_or_left(&mut self, now: Instant) -> AfterProbe {
        let PathState::Dead(_, wait) = self.state else { return AfterProbe::Nothing };
        match wait.cmp(&LONGEST_PROBE_INTERVAL) {
            Ordering::Less => {
                self.probed(now);
                return AfterProbe::Probe;
            }
            Ordering::Equal => {
                self.state = PathState::Dead(Since::At(now), REST);
            }
            Ordering::Greater => {
                self.leave();
                if !std::mem::replace(&mut self.was_left, true) {
                    return AfterProbe::FirstLeft;
                }
            }
        }
        AfterProbe::Nothing
    }

    /// A probe was answered: the path begins again with almost nothing known. False if it is
    /// already alive.
    pub(crate) fn revive(&mut self, config: &ProtocolConfig) -> bool {
        if self.is_alive() {
            return false;
        }
        let (transmission, delivered) = (self.next_transmission, self.delivered);
        let returns = self.counters.returns + u64::from(self.given_up);
        let counters = PathCounters { returns, ..self.counters };
        let new = Self::new(config);
        let most = RESTART_FLIGHT.min(config.send_window.into());
        *self = Self {
            flight: Flight { most, ..new.flight },
            recovery: transmission,
            reordering: Reordering::new(),
            next_transmission: transmission,
            arrived: transmission.wrapping_sub(1),
            delivered,
            settled: delivered,
            counters,
            ..new
        };
        true
    }

    /// A question about the path was answered while it was alive: it works. The next timeout is as
    /// long as before, since this says nothing about the round trip of frames (Karn's rule).
    pub(crate) fn answer(&mut self) {
        if !self.is_sound() {
            self.state = PathState::Sound;
            if self.in_flight == 0 {
                self.waiting = Since::Never;
            }
        }
    }

    /// Forgets what is in flight.
    pub(crate) fn forget(&mut self) {
        self.in_flight = 0;
        self.waiting = Since::Never;
        self.sample = RttSample::None;
    }
}

/// The path on which the next frame would arrive first, among those with room. The estimate is the
/// number of frames before it times the time per frame. A path whose time per frame is unknown
/// comes first, to learn it. Paths on which nothing arrives are used only if no other path is left.
/// Then a frame that went by the path `before` takes the next one, so all are tried in turn.
pub(crate) fn choose<'a>(
    paths: impl Iterator<Item = &'a Path> + Clone,
    before: Option<PathId>,
) -> Option<PathId> {
    let sound = paths.clone().any(Path::is_sound);
    let open = |path: &Path| path.has_room() && (path.is_sound() || !sound);
    let until = |path: &Path| (u64::from(path.in_flight) + 1).saturating_mul(path.interval.into());
    let turn = |i: usize| match before {
        Some(before) if !sound => (i + MAX_PATHS - before.index() - 1) % MAX_PATHS,
        _ => 0,
    };
    let open = paths.enumerate().filter(|(_, path)| open(path));
    let best = open.min_by_key(|&(i, path)| (turn(i), until(path), path.in_flight));
    best.map(|(i, _)| PathId::new(i))
}

/// The longest first timeout of the paths that are alive.
pub(crate) fn slowest<'a>(paths: impl Iterator<Item = &'a Path>) -> u64 {
    let alive = paths.filter(|path| path.is_alive());
    alive.map(|path| path.rtt.first_timeout()).max().unwrap_or(0)
}
