//! What a soak sends: streams, sizes, and how fast, all as functions of the seed.
//!
//! Both ends compute the same. So a receiver knows size and bytes of everything before it arrives,
//! without a message about it. No clock and no socket here.

use gigae_body::{Id, mix};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Kinds of traffic between two ends, each in both directions, each with its own count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Plain GigaE messages, of a byte to a frame.
    Message,
    /// Tagged GigaE messages, of a byte to 1 MiB.
    Tagged,
    /// Writes into the peer's memory with a notice, read back; the peer counts them by an atomic
    /// change.
    Memory,
    /// Pieces of a TCP stream.
    Tcp,
    /// TCP requests.
    Ask,
    /// Their answers.
    Answer,
}

/// All of them, in the order of their counts.
pub const STREAMS: [Stream; 6] =
    [Stream::Message, Stream::Tagged, Stream::Memory, Stream::Tcp, Stream::Ask, Stream::Answer];

/// Bytes of a registered memory that are written to; eight more are the counter.
pub const REGION: usize = 16 << 10;

/// A phase of a stream: it is idle, slow, steady or a burst for so long.
const PHASE: Duration = Duration::from_secs(2);

/// Credit that a stream may gather while it cannot send, in time at its rate.
const GATHERED: f64 = 0.25;

/// The same of all streams of one direction together, in time at the agreed rate: what may go out
/// at once beyond it, and the rest of the piece that is begun with the last of the credit.
const BURST: f64 = 0.05;

impl Stream {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Message => "messages",
            Self::Tagged => "tagged messages",
            Self::Memory => "remote memory",
            Self::Tcp => "TCP stream",
            Self::Ask => "TCP requests",
            Self::Answer => "TCP answers",
        }
    }

    /// Whether it goes by TCP.
    pub fn is_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::Ask | Self::Answer)
    }

    /// Part of the rate in one direction. A read doubles what a write costs, and an answer is as
    /// long as a request on average, so that GigaE and TCP have about one half each.
    fn share(self) -> f64 {
        match self {
            Self::Message => 0.15,
            Self::Tagged => 0.20,
            Self::Memory => 0.08,
            Self::Tcp => 0.30,
            Self::Ask => 0.09,
            // As fast as it is asked.
            Self::Answer => 0.0,
        }
    }
}

/// What both ends must agree on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Seed of sizes, pauses and bursts.
    pub seed: u64,
    /// Number of the round: no two have the same bytes.
    pub round: u16,
    /// Bytes per second towards each peer, all streams of one direction together.
    pub rate: f64,
    /// Longest plain message in bytes.
    pub message: usize,
}

/// Slowest rate towards a peer, in bytes per second: below it, a stream would seem to stall.
pub const SLOWEST: f64 = 20_000.0;
/// Fastest: 100 Gbit/s.
pub const FASTEST: f64 = 12.5e9;

impl Traffic {
    /// Refuses what would be no load or no end.
    pub fn check(&self) -> Result<(), String> {
        if !(SLOWEST..=FASTEST).contains(&self.rate) {
            return Err(format!(
                "{:.0} bytes/s for a client are not from {SLOWEST} to {FASTEST}; choose another --rate",
                self.rate
            ));
        }
        if self.message == 0 || self.message > 1 << 16 {
            return Err("plain messages of that length do not exist".into());
        }
        Ok(())
    }

    /// The number `number` of a stream from one end to another. Numbers count from zero in each
    /// round.
    pub fn id(&self, stream: Stream, from: u8, to: u8, number: u32) -> Id {
        let kind = (stream as u16) << 8;
        let life = (mix(self.seed) as u16).wrapping_add(self.round);
        Id { from: kind | u16::from(from), life, to: kind | u16::from(to), number }
    }

    fn hash(&self, id: Id) -> u64 {
        let ends = u64::from(id.from) << 48 | u64::from(id.to) << 32 | u64::from(id.number);
        mix(mix(self.seed ^ u64::from(id.life) << 40) ^ ends)
    }

    /// Longest of a stream, in bytes. What takes seconds at a low rate is shorter there.
    pub fn longest(&self, stream: Stream) -> usize {
        let in_time = (self.rate * stream.share()) as usize;
        match stream {
            Stream::Message => self.message,
            Stream::Tagged => in_time.clamp(4 << 10, 1 << 20),
            Stream::Memory => in_time.clamp(1 << 10, REGION),
            Stream::Tcp => in_time.clamp(4 << 10, 64 << 10),
            Stream::Ask | Stream::Answer => 4 << 10,
        }
    }

    /// Its length in bytes: every power of two is as frequent, and one in 16 is as long as it goes.
    pub fn size(&self, stream: Stream, id: Id) -> usize {
        let (hash, longest) = (self.hash(id), self.longest(stream));
        if hash.is_multiple_of(16) {
            return longest;
        }
        let power = (hash >> 8) % u64::from(longest.ilog2() + 1);
        let within = (hash >> 16) % (1 << power);
        ((1 << power) + within as usize).min(longest)
    }

    /// Where in the peer's memory this one is written.
    pub fn offset(&self, id: Id, size: usize) -> usize {
        (self.hash(id) >> 20) as usize % (REGION - size + 1)
    }

    /// Factor to a stream's rate at a time of the round: a pause, slow, steady or a burst. Never
    /// two pauses in a row; 1 on average.
    fn factor(&self, stream: Stream, from: u8, to: u8, at: Duration) -> f64 {
        let phase = (at.as_millis() / PHASE.as_millis()) as u32;
        let hash = self.hash(Id { life: !self.round, ..self.id(stream, from, to, phase) });
        match hash % 8 {
            0 if phase.is_multiple_of(2) => 0.0,
            0 | 1 => 0.25,
            2..=5 => 1.0,
            6 => 1.25,
            _ => 2.4,
        }
    }
}

/// What one end may send to one peer, all streams together: a token bucket of the agreed rate. In
/// any time of `t` seconds no more than `rate * (t + BURST)` bytes and one piece go out, whatever
/// the streams' bursts are.
#[derive(Debug)]
pub struct Budget {
    rate: f64,
    /// Bytes, below zero what the last piece took ahead; and when that was.
    credit: Mutex<(f64, Duration)>,
}

impl Budget {
    /// For one direction of this traffic. The streams share it.
    pub fn new(traffic: &Traffic) -> Arc<Self> {
        let credit = Mutex::new((0.0, Duration::ZERO));
        Arc::new(Self { rate: traffic.rate, credit })
    }

    /// Bytes that may be sent at this time since the round began; none if that is not above zero.
    fn credit(&self, now: Duration) -> f64 {
        let mut credit = self.credit.lock().unwrap_or_else(PoisonError::into_inner);
        let earned = self.rate * now.saturating_sub(credit.1).as_secs_f64();
        *credit = ((credit.0 + earned).min(self.rate * BURST), now.max(credit.1));
        credit.0
    }

    /// `bytes` bytes go out.
    pub fn spend(&self, bytes: usize) {
        self.credit.lock().unwrap_or_else(PoisonError::into_inner).0 -= bytes as f64;
    }
}

/// The numbers of the ends of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndNumbers {
    /// Who sends.
    pub from: u8,
    /// To whom.
    pub to: u8,
}

/// Says when a stream may send.
pub struct Pacer {
    traffic: Traffic,
    stream: Stream,
    ends: EndNumbers,
    budget: Arc<Budget>,
    /// Bytes; below zero what was sent ahead.
    credit: f64,
    last: Duration,
}

impl Pacer {
    /// For a stream from one end to another, which shares `budget` with the others of this
    /// direction.
    pub fn new(traffic: &Traffic, stream: Stream, ends: EndNumbers, budget: &Arc<Budget>) -> Self {
        let (traffic, budget) = (traffic.clone(), Arc::clone(budget));
        Self { traffic, stream, ends, budget, credit: 0.0, last: Duration::ZERO }
    }

    /// Whether something may be sent at this time since the round began.
    pub fn due(&mut self, now: Duration) -> bool {
        let rate = self.rate(now);
        self.credit += rate * now.saturating_sub(self.last).as_secs_f64();
        self.credit = self.credit.min(rate * GATHERED).max(self.credit.min(1.0));
        self.last = now;
        self.credit > 0.0 && self.may_answer(now)
    }

    /// The same for an answer, which goes as fast as it is asked for and the agreed rate allows.
    pub fn may_answer(&self, now: Duration) -> bool {
        self.budget.credit(now) > 0.0
    }

    /// `bytes` bytes were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.credit -= bytes as f64;
        self.budget.spend(bytes);
    }

    /// Time until the next may be sent, at the present pace.
    pub fn wait(&self, now: Duration) -> Duration {
        let (rate, all) = (self.rate(now), self.budget.credit(now));
        if self.credit > 0.0 && all > 0.0 {
            return Duration::ZERO;
        }
        let own = if rate > 0.0 { -self.credit / rate } else { 1.0 };
        let seconds = own.max(-all / self.traffic.rate);
        Duration::from_secs_f64(seconds.clamp(0.0005, 1.0))
    }

    fn rate(&self, now: Duration) -> f64 {
        let EndNumbers { from, to } = self.ends;
        self.traffic.rate * self.stream.share() * self.traffic.factor(self.stream, from, to, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAFFIC: Traffic = Traffic { seed: 1, round: 0, rate: 2e6, message: 1468 };

    const ENDS: EndNumbers = EndNumbers { from: 0, to: 1 };

    #[test]
    fn sizes_reach_from_one_byte_to_the_longest() {
        for stream in STREAMS {
            let sizes: Vec<_> =
                (0..2000).map(|n| TRAFFIC.size(stream, TRAFFIC.id(stream, 0, 1, n))).collect();
            assert_eq!(sizes.iter().max(), Some(&TRAFFIC.longest(stream)));
            assert_eq!(sizes.iter().min(), Some(&1));
        }
    }

    #[test]
    fn a_write_stays_within_the_memory() {
        for number in 0..2000 {
            let id = TRAFFIC.id(Stream::Memory, 0, 1, number);
            let size = TRAFFIC.size(Stream::Memory, id);
            assert!(TRAFFIC.offset(id, size) + size <= REGION);
        }
    }

    #[test]
    fn a_pacer_keeps_its_rate_over_pauses_and_bursts() {
        let mut pacer = Pacer::new(&TRAFFIC, Stream::Tcp, ENDS, &Budget::new(&TRAFFIC));
        let mut sent = 0;
        for step in 0..600_000 {
            if pacer.due(Duration::from_millis(step)) {
                pacer.sent(1000);
                sent += 1000;
            }
        }
        let asked = 600.0 * TRAFFIC.rate * Stream::Tcp.share();
        assert!((0.8..1.2).contains(&(f64::from(sent) / asked)), "{sent} of {asked}");
    }

    #[test]
    fn all_streams_together_stay_within_the_agreed_rate() {
        let budget = Budget::new(&TRAFFIC);
        let pacer = |stream| Pacer::new(&TRAFFIC, stream, ENDS, &budget);
        let mut pacers: Vec<_> =
            STREAMS.into_iter().map(|stream| (pacer(stream), stream, 0)).collect();
        // What was sent in each millisecond.
        let (mut sent, mut longest) = (Vec::new(), 0);
        for step in 0..60_000 {
            let (now, mut all) = (Duration::from_millis(step), 0);
            for (pacer, stream, number) in &mut pacers {
                // A client that asks without end is answered within the rate, too.
                let may = |pacer: &mut Pacer, stream| match stream {
                    Stream::Answer => pacer.may_answer(now),
                    _ => pacer.due(now),
                };
                while all < 1 << 20 && may(pacer, *stream) {
                    let size = TRAFFIC.size(*stream, TRAFFIC.id(*stream, 0, 1, *number));
                    pacer.sent(size);
                    (*number, all, longest) = (*number + 1, all + size, longest.max(size));
                }
            }
            sent.push(all);
        }
        for window in [1, 10, 100, 1000] {
            let most = sent.windows(window).map(|part| part.iter().sum::<usize>()).max().unwrap();
            let may = TRAFFIC.rate * (window as f64 / 1e3 + BURST) + longest as f64;
            assert!(most as f64 <= may, "{most} bytes in {window} ms, and {may} may");
        }
        let (all, asked) = (sent.iter().sum::<usize>() as f64, 60.0 * TRAFFIC.rate);
        assert!((0.8..1.01).contains(&(all / asked)), "{all} of {asked}");
    }

    #[test]
    fn seeds_rounds_and_directions_differ() {
        let sizes = |traffic: &Traffic, from, to| -> Vec<_> {
            let id = |n| traffic.id(Stream::Tagged, from, to, n);
            (0..20).map(|n| traffic.size(Stream::Tagged, id(n))).collect()
        };
        let here = sizes(&TRAFFIC, 0, 1);
        assert_ne!(here, sizes(&TRAFFIC, 1, 0));
        assert_ne!(here, sizes(&Traffic { round: 1, ..TRAFFIC }, 0, 1));
        assert_ne!(here, sizes(&Traffic { seed: 2, ..TRAFFIC }, 0, 1));
    }
}
