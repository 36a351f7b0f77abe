//! One way to a peer, as the sender knows it: what flies there, what has arrived, how long that
//! takes, and whether anything does (`PROTOCOL.md` §7 and §11).
//!
//! A session has one path for each link that both ends have. Frames are counted on each by
//! themselves: what is transmitted on one path arrives in order or not at all, whatever overtakes it
//! on another. Knows nothing of sequence numbers but of the one frame that it times.

use crate::Config;
use crate::rtt::Rtt;
use crate::time::{Instant, Since};
use gigae_wire::{MAX_PATHS, SeqNo};

/// Transmissions by which a frame may be overtaken before it counts as lost, when the receiver
/// keeps what comes out of order: the customary three of TCP (RFC 5681) and QUIC (RFC 9002 §6.1.1).
pub(crate) const REORDERING: i32 = 3;

/// Frames in flight at the beginning of a session; grows with each acknowledgement.
const INITIAL_FLIGHT: u32 = 64;

/// A loss never reduces the frames in flight below this. It covers a Gigabit Ethernet's
/// bandwidth-delay product (some 10 frames) and fits the smallest switch buffers, so that random
/// loss does not throttle a link that is not congested.
const LEAST_FLIGHT: u32 = 32;

/// The same where the receiver keeps nothing out of order. With each loss all that flies is sent in
/// vain, so it is as little as covers that product.
const LEAST_IN_ORDER: u32 = 10;

/// Frames in flight after everything timed out: almost nothing is known of the path then. Ten full
/// frames are what TCP begins with (RFC 6928).
const RESTART_FLIGHT: u32 = 10;

/// Longest first timeout of a path in nanoseconds while there are others, and longest wait after that
/// for a sign of life once the peer is known to be there; then the path is dead. Twice this and a
/// round trip is what a cut link may cost, with room for what has to go again within 50 ms. More than
/// a busy peer usually sleeps.
const LONGEST_FIRST: u64 = 10_000_000;

/// Least wait in nanoseconds for that sign of life: two links of a busy peer may be served by two of
/// its CPUs, of which one is late.
const LEAST_DOUBT: u64 = 2_000_000;

/// First wait in nanoseconds for the answer to a probe of a dead path; doubled with each repetition.
const PROBE_INTERVAL: u64 = 1_000_000;

/// Longest wait in nanoseconds between two probes.
const LONGEST_PROBE_INTERVAL: u64 = 100_000_000;

/// What happened on the paths over one link, in all sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathCounters {
    /// Data frames that were transmitted here and had to be repeated, here or elsewhere.
    pub lost: u64,
    /// Times that a path was given up because nothing arrived on it any more.
    pub deaths: u64,
    /// Times that one came back because a probe was answered.
    pub returns: u64,
}

impl PathCounters {
    pub(crate) fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.deaths += other.deaths;
        self.returns += other.returns;
    }
}

/// The round trip that is being timed: one at a time, as in RFC 6298.
#[derive(Clone, Copy, Debug, Hash)]
enum Sample {
    None,
    /// Of this frame, sent once, when so many had arrived.
    Running(SeqNo, Since, u32),
    /// Begun at this moment; it ends with the next reading of the clock. So many frames have arrived
    /// meanwhile.
    Ended(Instant, u32),
}

/// What is known of a path (rules 11.4 and 11.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    /// Frames arrive, as far as is known.
    Sound,
    /// The retransmission timer has fired and nothing has arrived since: the path does not work, or the
    /// peer does not listen.
    Silent,
    /// The peer has taken in something by another path since then: a last wait.
    Doubted,
    /// Nothing goes out here before a probe is answered: since when, or since the last probe, and the
    /// wait until the next one.
    Dead(Since, u64),
}

/// See the module's description.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Path {
    /// Frames on the way.
    flying: u32,
    /// Frames that may be on the way; zero while the path is dead.
    flight: u32,
    threshold: u32,
    /// Arrivals towards the next increase of `flight` above the threshold.
    grown: u32,
    /// Losses of transmissions before this one belong to a loss event that was already reacted to.
    recovery: u32,
    next_transmission: u32,
    /// Latest transmission known to have arrived.
    arrived: u32,
    /// Frames known to have arrived, and how many of them were looked at.
    delivered: u32,
    settled: u32,
    /// Since when nothing has arrived while something flies or the path is doubted. Never otherwise:
    /// there is nothing to wait for.
    waiting: Since,
    sample: Sample,
    pub(crate) rtt: Rtt,
    /// Nanoseconds per frame that arrived during a round trip, smoothed; zero if unknown.
    interval: u64,
    state: State,
    /// It was in use before it died.
    given_up: bool,
    pub(crate) counters: PathCounters,
}

impl Path {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            flying: 0,
            flight: INITIAL_FLIGHT.min(config.send_window.into()),
            threshold: config.send_window.into(),
            grown: 0,
            recovery: 1,
            next_transmission: 1,
            arrived: 0,
            delivered: 0,
            settled: 0,
            waiting: Since::Never,
            sample: Sample::None,
            rtt: Rtt::new(config),
            interval: 0,
            state: State::Sound,
            given_up: false,
            counters: PathCounters::default(),
        }
    }

    /// Another session begins: nothing is known but what was counted.
    pub(crate) fn begin_anew(&mut self, config: &Config) {
        *self = Self { counters: self.counters, ..Self::new(config) };
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.flying < self.flight
    }

    /// Frames on the way, and how many may be.
    pub(crate) fn flight(&self) -> (u32, u32) {
        (self.flying, self.flight)
    }

    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, State::Dead(..))
    }

    /// Whether frames arrive on the path, as far as is known.
    fn is_sound(&self) -> bool {
        matches!(self.state, State::Sound)
    }

    /// A frame goes out here; returns the number of its transmission.
    #[inline]
    pub(crate) fn transmit(&mut self, seq: SeqNo, repeated: bool) -> u32 {
        self.flying += 1;
        self.waiting.start();
        if matches!(self.sample, Sample::None) && !repeated {
            self.sample = Sample::Running(seq, Since::Next, self.delivered);
        }
        let transmission = self.next_transmission;
        self.next_transmission = transmission.wrapping_add(1);
        transmission
    }

    /// So many frames on the way have arrived, of which this is the latest transmission.
    #[inline]
    pub(crate) fn arrive(&mut self, latest: u32, flying: u32) {
        self.flying -= flying;
        self.delivered = self.delivered.wrapping_add(flying);
        self.overtake(latest);
    }

    /// A frame has arrived that had been taken for lost.
    pub(crate) fn arrive_after_all(&mut self, transmission: u32) {
        self.delivered = self.delivered.wrapping_add(1);
        self.overtake(transmission);
    }

    /// A frame has arrived that was transmitted again so recently that this must be about the former
    /// transmission: it says nothing about what was transmitted between the two.
    #[cold]
    pub(crate) fn arrive_late(&mut self, flying: bool) {
        self.flying -= u32::from(flying);
        self.delivered = self.delivered.wrapping_add(1);
    }

    /// A transmission has reached the receiver.
    #[inline]
    pub(crate) fn overtake(&mut self, transmission: u32) {
        if transmission.wrapping_sub(self.arrived).cast_signed() > 0 {
            self.arrived = transmission;
        }
    }

    /// Whether more than `reordering` later transmissions have been overtaken by one that arrived.
    #[inline]
    pub(crate) fn is_behind(&self, transmission: u32, reordering: i32) -> bool {
        self.arrived.wrapping_sub(transmission).cast_signed() > reordering
    }

    /// Whether a transmission was before the last loss event was noticed.
    pub(crate) fn flew(&self, transmission: u32) -> bool {
        transmission.wrapping_sub(self.recovery).cast_signed() < 0
    }

    /// A frame on the way is taken for lost. If it is being timed, that ends: it will be repeated.
    pub(crate) fn lose(&mut self, seq: SeqNo) {
        self.flying -= 1;
        if self.flying == 0 && self.state != State::Doubted {
            self.waiting = Since::Never;
        }
        self.counters.lost += 1;
        if matches!(self.sample, Sample::Running(timed, ..) if timed == seq) {
            self.sample = Sample::None;
        }
    }

    /// After losses, of which this transmission was the last: fewer may fly, once per flight. `keeps`
    /// says whether the receiver keeps frames out of order.
    pub(crate) fn slow_down(&mut self, last: u32, most: u32, keeps: bool) {
        if last.wrapping_sub(self.recovery).cast_signed() >= 0 {
            let least = if keeps { LEAST_FLIGHT } else { LEAST_IN_ORDER };
            self.recovery = self.next_transmission;
            self.threshold = (self.flight * 7 / 10).max(least).min(most);
            self.flight = self.threshold;
        }
    }

    /// After arrivals: the path works. `timed` says of the frame that is being timed whether it has
    /// arrived. False if nothing has arrived since this was asked last.
    #[inline(always)]
    pub(crate) fn settle(&mut self, most: u32, timed: impl Fn(SeqNo) -> bool) -> bool {
        let fresh = self.delivered.wrapping_sub(self.settled);
        if fresh == 0 {
            return false;
        }
        self.settled = self.delivered;
        if let Sample::Running(seq, since, before) = self.sample
            && timed(seq)
        {
            // One that came back before the clock was read even once says nothing.
            self.sample = match since {
                Since::At(began) => Sample::Ended(began, self.delivered.wrapping_sub(before)),
                Since::Never | Since::Next => Sample::None,
            };
        }
        self.waiting = if self.flying > 0 { Since::Next } else { Since::Never };
        self.rtt.progress();
        if self.is_alive() {
            self.state = State::Sound;
            if self.flight < most {
                self.grow(fresh);
            }
        }
        true
    }

    /// Slow start up to the threshold, then one more frame per flight (RFC 5681).
    fn grow(&mut self, acknowledged: u32) {
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

    /// The clock was read.
    #[inline]
    pub(crate) fn date(&mut self, now: Instant) {
        self.waiting.date(now);
        match &mut self.sample {
            Sample::None => {}
            Sample::Running(_, since, _) => since.date(now),
            &mut Sample::Ended(began, arrived) => {
                self.sample = Sample::None;
                self.timed(now.nanos_since(began), arrived);
            }
        }
        if let State::Dead(since, _) = &mut self.state {
            since.date(now);
        }
    }

    /// A round trip took so long, and so many frames arrived meanwhile.
    #[inline]
    fn timed(&mut self, nanos: u64, arrived: u32) {
        self.rtt.sample(nanos);
        let interval = (nanos / u64::from(arrived.max(1))).max(1);
        self.interval = match self.interval {
            0 => interval,
            before => (3 * before + interval) / 4,
        };
    }

    /// When something must happen by itself, if this is the only path.
    #[inline]
    pub(crate) fn deadline(&self) -> Instant {
        self.waiting.after(self.rtt.timeout())
    }

    /// The same if there are several. An acknowledgement may come back by any of them, so nothing is
    /// late before it would be on the `slowest`, whose first timeout this is.
    pub(crate) fn deadline_among(&self, slowest: u64) -> Instant {
        let timeout = self.rtt.backed_off(slowest);
        self.waiting.after(match self.state {
            State::Sound => timeout.min(LONGEST_FIRST),
            State::Silent if self.rtt.timeouts() == 1 => timeout.min(2 * LONGEST_FIRST),
            State::Silent => timeout,
            State::Doubted => slowest.clamp(LEAST_DOUBT, LONGEST_FIRST),
            State::Dead(since, wait) => return since.after(wait),
        })
    }

    /// The retransmission timer fired, or the last wait of what is the last path is over.
    pub(crate) fn time_out(&mut self, now: Instant) {
        self.state = State::Silent;
        self.waiting = if self.flying > 0 { Since::At(now) } else { Since::Never };
        self.rtt.back_off();
    }

    /// The peer has taken in something by another path: if nothing has arrived here since the timer
    /// fired, a last wait begins.
    pub(crate) fn doubt(&mut self) {
        if self.state == State::Silent {
            self.state = State::Doubted;
            self.waiting = Since::Next;
        }
    }

    /// Whether the wait that ends now was the last.
    pub(crate) fn is_doubted(&self) -> bool {
        self.state == State::Doubted
    }

    /// Everything was taken for lost after several timeouts.
    pub(crate) fn restart(&mut self, most: u32) {
        self.threshold = (self.flight / 2).max(LEAST_FLIGHT).min(most);
        self.flight = RESTART_FLIGHT.min(most);
        self.recovery = self.next_transmission;
    }

    /// Room for a question even when the flight is full.
    pub(crate) fn make_room(&mut self) {
        self.flight = self.flight.max(self.flying + 1);
    }

    /// The path does not work any more. What flew was taken for lost.
    pub(crate) fn give_up(&mut self) {
        self.counters.deaths += 1;
        self.given_up = true;
        self.die();
    }

    /// Nothing goes out here before a probe is answered.
    pub(crate) fn die(&mut self) {
        debug_assert_eq!(self.flying, 0, "what flew is lost");
        self.flight = 0;
        self.waiting = Since::Never;
        self.sample = Sample::None;
        self.state = State::Dead(Since::Next, PROBE_INTERVAL);
    }

    /// The peer has no such path: it is dead and not even probed.
    pub(crate) fn leave(&mut self) {
        self.state = State::Dead(Since::Never, PROBE_INTERVAL);
    }

    /// A probe of a dead path is overdue: the next wait begins.
    pub(crate) fn probed(&mut self, now: Instant) {
        if let State::Dead(since, wait) = &mut self.state {
            *since = Since::At(now);
            *wait = (*wait * 2).min(LONGEST_PROBE_INTERVAL);
        }
    }

    /// A probe was answered: the path begins as one of which almost nothing is known. False if it is alive
    /// already.
    pub(crate) fn revive(&mut self, config: &Config) -> bool {
        if self.is_alive() {
            return false;
        }
        let (transmission, delivered) = (self.next_transmission, self.delivered);
        let returns = self.counters.returns + u64::from(self.given_up);
        let counters = PathCounters { returns, ..self.counters };
        *self = Self {
            flight: RESTART_FLIGHT.min(config.send_window.into()),
            recovery: transmission,
            next_transmission: transmission,
            arrived: transmission.wrapping_sub(1),
            delivered,
            settled: delivered,
            counters,
            ..Self::new(config)
        };
        true
    }

    /// Whatever flew is of no interest any more.
    pub(crate) fn forget(&mut self) {
        self.flying = 0;
        self.waiting = Since::Never;
        self.sample = Sample::None;
    }
}

/// The path on which the next frame would arrive first, of those that have room: by the frames
/// before it and the time that each of them takes. One of which that is not known yet comes first, in
/// order to learn it. Paths on which nothing arrives are left alone while there are others; if there are none,
/// a frame that went by the path `before` takes the next one, so that all are tried in turn.
pub(crate) fn choose<'a>(
    paths: impl Iterator<Item = &'a Path> + Clone,
    before: Option<usize>,
) -> Option<usize> {
    let sound = paths.clone().any(Path::is_sound);
    let open = |path: &Path| path.has_room() && (path.is_sound() || !sound);
    let until = |path: &Path| (u64::from(path.flying) + 1).saturating_mul(path.interval);
    let turn = |i: usize| match before {
        Some(before) if !sound => (i + MAX_PATHS - before - 1) % MAX_PATHS,
        _ => 0,
    };
    let open = paths.enumerate().filter(|(_, path)| open(path));
    open.min_by_key(|&(i, path)| (turn(i), until(path), path.flying)).map(|(i, _)| i)
}

/// The longest first timeout of the paths that are alive.
pub(crate) fn slowest<'a>(paths: impl Iterator<Item = &'a Path>) -> u64 {
    let alive = paths.filter(|path| path.is_alive());
    alive.map(|path| path.rtt.first_timeout()).max().unwrap_or(0)
}
