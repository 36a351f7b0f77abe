//! The checker of plain messages: callers report every message that was accepted, failed,
//! acknowledged or delivered, and the checker returns a violation as soon as a promise is broken.
//!
//! What it holds the library to (`PROTOCOL.md` §4, §5, §8): what one life of a sender sends to one
//! life of a receiver arrives once, in order, byte for byte. A message may be skipped only if it
//! was handed back as failed before, or may have been taken by a former life of the receiver.
//! Nothing of a former life of the sender comes after the first message of the next.
//!
//! It knows nothing of endpoints, so that a test can report false events and see them found.

use crate::body::{self, Id, NAMED};
use crate::lives::{Life, Lives};
use crate::pair::NodePair;
use crate::violation::{CheckResult, Class, Violation};
use std::collections::BTreeMap;

/// How long a gap may stay open before it is taken for a loss, in virtual nanoseconds: it decides
/// only whether the violation is called lost or out of order.
const GRACE: u64 = 100_000_000;

/// Bodies that do not name themselves are looked for among this many neighbours of the one
/// expected.
const NEIGHBOURS: u32 = 256;

/// A message that was accepted for sending.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: u64,
    len: u16,
    failed: bool,
    delivered: bool,
}

/// What one life of a node has sent to another node.
#[derive(Clone, Debug, Default)]
struct Stream {
    sent: Vec<Sent>,
    /// All before this number are acknowledged or failed at the sender.
    acknowledged: u32,
}

/// A place in all that a node sends to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamPlace {
    /// Of the sender.
    pub(crate) life: u16,
    /// Of the message in that life.
    pub(crate) number: u32,
}

impl StreamPlace {
    pub(crate) fn of(id: Id) -> Self {
        Self { life: id.life, number: id.number }
    }
}

/// Where the present life of a receiver is in what a node sends to it.
#[derive(Clone, Debug, Default)]
struct Reader {
    life: u16,
    /// Where the next message is.
    at: Option<StreamPlace>,
    /// What came before the first message that names itself.
    prefix: Vec<Vec<u8>>,
    /// Numbers that were passed over although no failure of them was reported.
    missing: Vec<u32>,
}

/// What one node has sent to another, and how much of it that one has read.
#[derive(Clone, Debug, Default)]
struct PairTraffic {
    streams: Vec<Stream>,
    reader: Reader,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct Messages {
    lives: Lives,
    traffic: BTreeMap<NodePair, PairTraffic>,
    /// The first gap that is open, and since when.
    suspect: Option<(u64, Violation)>,
    scratch: Vec<u8>,
    /// Messages delivered and found right.
    pub delivered: u64,
}

impl Messages {
    /// A world of `nodes` nodes, none of which is open.
    pub fn new(nodes: usize) -> Self {
        Self { lives: Lives::new(nodes), ..Self::default() }
    }

    /// A node opens its endpoint.
    pub fn opened(&mut self, node: u16) {
        self.lives.opened(node);
    }

    /// A node's endpoint is gone.
    pub fn gone(&mut self, node: u16, now: u64) {
        self.lives.gone(node, now);
    }

    /// The number that the next message from a node to another will have.
    pub fn next(&self, from: u16, to: u16) -> Id {
        let life = self.lives.of(from).number;
        let traffic = self.traffic.get(&NodePair { from, to });
        let stream = traffic.and_then(|t| t.streams.get(usize::from(life)));
        Id { from, life, to, number: stream.map_or(0, |s| s.sent.len() as u32) }
    }

    /// That message was accepted, with `len` bytes.
    pub fn sent(&mut self, id: Id, len: usize, now: u64) {
        let traffic = self.traffic.entry(NodePair::of(id)).or_default();
        let life = usize::from(id.life);
        if traffic.streams.len() <= life {
            traffic.streams.resize_with(life + 1, Stream::default);
        }
        let stream = &mut traffic.streams[life];
        debug_assert_eq!(stream.sent.len() as u32, id.number);
        let len = u16::try_from(len).expect("no longer than a frame");
        stream.sent.push(Sent { at: now, len, failed: false, delivered: false });
    }

    /// Messages came back as failed: all of one peer's that were to come back, in their order.
    pub fn failed(&mut self, from: u16, to: u16, bodies: &[Vec<u8>]) -> CheckResult {
        let pair = NodePair { from, to };
        let broken = |class, what: String| Err(Violation::new(class, pair, what));
        let life = self.lives.of(from).number;
        let traffic = self.traffic.get_mut(&pair);
        let stream = traffic.and_then(|t| t.streams.get_mut(usize::from(life)));
        let Some(stream) = stream.filter(|s| s.sent.len() >= bodies.len()) else {
            return broken(Class::Torn, format!("{} failed, more than were sent", bodies.len()));
        };
        let first = stream.sent.len() - bodies.len();
        if first < stream.acknowledged as usize {
            let known = stream.acknowledged;
            let what = format!("{first} failed, and all before {known} had been acknowledged");
            return broken(Class::Doubled, what);
        }
        for (number, body) in (first..).zip(bodies) {
            let id = Id { from, life, to, number: number as u32 };
            let sent = &mut stream.sent[number];
            if sent.failed {
                return broken(Class::Doubled, format!("{number} failed a second time"));
            }
            if usize::from(sent.len) != body.len() || !body::is(id, body, &mut self.scratch) {
                return broken(Class::Torn, format!("{number} failed with other bytes or order"));
            }
            sent.failed = true;
        }
        stream.acknowledged = stream.sent.len() as u32;
        Ok(())
    }

    /// All that a node has sent is acknowledged.
    pub fn drained(&mut self, from: u16) {
        let life = usize::from(self.lives.of(from).number);
        let all = NodePair { from, to: 0 }..=NodePair { from, to: u16::MAX };
        for (_, traffic) in self.traffic.range_mut(all) {
            if let Some(stream) = traffic.streams.get_mut(life) {
                stream.acknowledged = stream.sent.len() as u32;
            }
        }
    }

    /// A message was delivered, from the node that the library says.
    pub fn received(&mut self, from: u16, to: u16, body: &[u8], now: u64) -> CheckResult {
        let pair = NodePair { from, to };
        let broken = |class, what: String| Err(Violation::new(class, pair, what));
        let receiver = self.lives.of(to);
        let Some(traffic) = self.traffic.get_mut(&pair) else {
            return broken(Class::Torn, format!("{} bytes, and nothing was sent", body.len()));
        };
        if traffic.reader.life != receiver.number {
            traffic.check_prefix_of_a_former_life(pair)?;
            traffic.reader = Reader { life: receiver.number, ..Reader::default() };
        }
        let named = body::name(body);
        let id = match (named, traffic.reader.at) {
            (Some(id), _) => {
                if NodePair::of(id) != pair {
                    return broken(Class::Torn, format!("it is {id:?}"));
                }
                id
            }
            (None, _) if body.len() >= NAMED => {
                let start = &body[..NAMED];
                let what = format!("{} bytes that no node sent: {start:02x?}", body.len());
                return broken(Class::Torn, what);
            }
            (None, None) => {
                traffic.reader.prefix.push(body.to_vec());
                return Ok(());
            }
            (None, Some(next)) => {
                let number = traffic.find(pair, next, body, &mut self.scratch)?;
                Id { from, life: next.life, to, number }
            }
        };
        let stream = traffic.streams.get(usize::from(id.life));
        let sent = stream.and_then(|s| s.sent.get(id.number as usize));
        let Some(sent) = sent else {
            return broken(Class::Torn, format!("{id:?} was never sent"));
        };
        if usize::from(sent.len) != body.len() || !body::is(id, body, &mut self.scratch) {
            return broken(Class::Torn, format!("{id:?} with {} other bytes", body.len()));
        }
        let before = traffic.reader.prefix.len() as u64;
        traffic.advance(id, receiver.former_end, &mut self.scratch)?;
        self.delivered += 1 + before;
        if let Some(&missing) = traffic.reader.missing.first()
            && self.suspect.is_none()
        {
            let what = format!("{missing} of {id:?} was passed over at {now} ns");
            self.suspect = Some((now, Violation::new(Class::Lost, pair, what)));
        }
        Ok(())
    }

    /// Whether a gap has been open for too long.
    pub fn overdue(&self, now: u64) -> CheckResult {
        match &self.suspect {
            Some((since, violation)) if now > since + GRACE => Err(violation.clone()),
            _ => Ok(()),
        }
    }

    /// Everything is over: all faults were healed, and every open node has read all, and all that
    /// it sent is acknowledged or failed.
    pub fn settle(&mut self) -> CheckResult {
        if let Some((_, violation)) = &self.suspect {
            return Err(violation.clone());
        }
        let lives = self.lives.clone();
        for (&pair, traffic) in &mut self.traffic {
            let (sender, receiver) = (lives.of(pair.from), lives.of(pair.to));
            traffic.settle(pair, sender, receiver)?;
        }
        Ok(())
    }
}

impl PairTraffic {
    /// The number of a body that does not name itself.
    fn find(
        &self,
        pair: NodePair,
        next: StreamPlace,
        body: &[u8],
        scratch: &mut Vec<u8>,
    ) -> CheckResult<u32> {
        let StreamPlace { life, number: next } = next;
        let sent = &self.streams[usize::from(life)].sent;
        let mut is = |number: u32| {
            let id = Id { from: pair.from, life, to: pair.to, number };
            sent.get(number as usize).is_some_and(|s| usize::from(s.len) == body.len())
                && body::is(id, body, scratch)
        };
        if is(next) {
            return Ok(next);
        }
        // Missing ones first: they may come after all, out of order.
        if let Some(&number) = self.reader.missing.iter().find(|&&number| is(number)) {
            return Ok(number);
        }
        let (after, before) = (next + 1..next + NEIGHBOURS, next.saturating_sub(NEIGHBOURS)..next);
        if let Some(number) = before.rev().find(|&number| is(number)) {
            return Ok(number);
        }
        after.into_iter().find(|&number| is(number)).ok_or_else(|| {
            let what = format!("{} bytes {body:02x?} where {next} was expected", body.len());
            Violation::new(Class::Torn, pair, what)
        })
    }

    /// The reader is at this message now.
    fn advance(&mut self, id: Id, former_end: u64, scratch: &mut Vec<u8>) -> CheckResult {
        let pair = NodePair::of(id);
        let broken = |class, what: String| Err(Violation::new(class, pair, what));
        match self.reader.at {
            None => {
                let first = self.place_prefix(id, former_end, scratch)?;
                let until = StreamPlace { life: id.life, number: first };
                self.nothing_lost_before(StreamPlace::default(), until, former_end, pair)?;
                for number in first..id.number {
                    let stream = &mut self.streams[usize::from(id.life)];
                    stream.sent[number as usize].delivered = true;
                }
            }
            Some(StreamPlace { life, .. }) if id.life < life => {
                return broken(Class::Epoch, format!("{id:?} came after messages of life {life}"));
            }
            Some(next) if id.life > next.life => {
                self.nothing_lost_before(next, StreamPlace::of(id), former_end, pair)?;
            }
            Some(StreamPlace { number: next, .. }) if id.number < next => {
                let class = match self.reader.missing.contains(&id.number) {
                    true => Class::Order,
                    false => Class::Doubled,
                };
                return broken(class, format!("{id:?} came where {next} was expected"));
            }
            Some(StreamPlace { number: next, .. }) => {
                let sent = &self.streams[usize::from(id.life)].sent;
                let skipped = (next..id.number).filter(|&n| !sent[n as usize].failed);
                self.reader.missing.extend(skipped);
            }
        }
        let sent = &mut self.streams[usize::from(id.life)].sent[id.number as usize];
        if sent.delivered {
            return broken(Class::Epoch, format!("{id:?} had been taken by a former life"));
        }
        sent.delivered = true;
        self.reader.at = Some(StreamPlace { life: id.life, number: id.number + 1 });
        Ok(())
    }

    /// Where the messages that came before the first which names itself belong: the number of the
    /// first of all.
    fn place_prefix(&mut self, id: Id, former_end: u64, scratch: &mut Vec<u8>) -> CheckResult<u32> {
        let prefix = std::mem::take(&mut self.reader.prefix);
        if prefix.is_empty() {
            return Ok(id.number);
        }
        let sent = &self.streams[usize::from(id.life)].sent;
        let count = prefix.len() as u32;
        let (mut end, mut fit) = (id.number, None);
        loop {
            let fits = |first: u32, scratch: &mut Vec<u8>| {
                (first..end).zip(&prefix).all(|(number, body)| {
                    let id = Id { number, ..id };
                    usize::from(sent[number as usize].len) == body.len()
                        && body::is(id, body, scratch)
                })
            };
            if end >= count && fits(end - count, scratch) {
                // Those between were given up before; all others are in order. Bodies of a few
                // bytes may fit several places: nothing is lost if it is not at one of them.
                let (first, pair) = (end - count, NodePair::of(id));
                let until = StreamPlace { life: id.life, number: first };
                match self.nothing_lost_before(StreamPlace::default(), until, former_end, pair) {
                    Ok(()) => return Ok(first),
                    Err(_) => fit = fit.or(Some(first)),
                }
            }
            // A session that ended in between has failed what follows, up to the message itself.
            match end.checked_sub(1) {
                Some(last) if sent[last as usize].failed => end = last,
                _ => break,
            }
        }
        if let Some(first) = fit {
            return Ok(first);
        }
        // They are of a former life of the sender.
        for life in (0..id.life).rev() {
            let stream = &mut self.streams[usize::from(life)];
            let is = |(at, sent): (usize, &Sent), body: &Vec<u8>, scratch: &mut Vec<u8>| {
                let id = Id { life, number: at as u32, ..id };
                usize::from(sent.len) == body.len() && body::is(id, body, scratch)
            };
            let place = (0..=stream.sent.len().saturating_sub(prefix.len())).rev().find(|&first| {
                let sent = stream.sent.iter().enumerate().skip(first);
                sent.len() >= prefix.len()
                    && sent.zip(&prefix).all(|(sent, body)| is(sent, body, scratch))
            });
            if let Some(first) = place {
                let taken = &mut stream.sent[first..][..prefix.len()];
                taken.iter_mut().for_each(|sent| sent.delivered = true);
                return Ok(id.number);
            }
        }
        let what = format!("{count} messages before {id:?} are not those before it");
        Err(Violation::new(Class::Order, NodePair::of(id), what))
    }

    fn check_prefix_of_a_former_life(&self, pair: NodePair) -> CheckResult {
        let lens: Vec<_> = self.reader.prefix.iter().map(Vec::len).collect();
        let fits = |stream: &Stream| {
            stream
                .sent
                .windows(lens.len())
                .any(|sent| sent.iter().zip(&lens).all(|(sent, &len)| usize::from(sent.len) == len))
        };
        if lens.is_empty() || self.streams.iter().any(fits) {
            return Ok(());
        }
        let what = format!("{} short messages that were not sent in this order", lens.len());
        Err(Violation::new(Class::Order, pair, what))
    }

    /// Of what was sent from one place on and before another, nothing has to have been delivered
    /// to the present life of the receiver and was not.
    fn nothing_lost_before(
        &self,
        from: StreamPlace,
        until: StreamPlace,
        former_end: u64,
        pair: NodePair,
    ) -> CheckResult {
        for life in from.life..=until.life {
            let Some(stream) = self.streams.get(usize::from(life)) else { break };
            let first = if life == from.life { from.number } else { 0 };
            // Of a life that is over, only what was acknowledged is owed.
            let end = if life == until.life { until.number } else { stream.acknowledged };
            for number in first..end.max(first) {
                let sent = &stream.sent[number as usize];
                if !sent.failed && !sent.delivered && sent.at > former_end {
                    let id = Id { from: pair.from, life, to: pair.to, number };
                    let what = format!("{id:?}, sent at {} ns, before {until:?}", sent.at);
                    return Err(Violation::new(Class::Lost, pair, what));
                }
            }
        }
        Ok(())
    }

    fn settle(&mut self, pair: NodePair, sender: Life, receiver: Life) -> CheckResult {
        let Some(last) = self.streams.len().checked_sub(1) else { return Ok(()) };
        let stream = &self.streams[last];
        let is_owed_all = sender.is_open && usize::from(sender.number) == last;
        let end = if is_owed_all { stream.sent.len() as u32 } else { stream.acknowledged };
        if !receiver.is_open {
            // No endpoint was there to acknowledge these.
            let there = |s: &Sent| s.failed || s.delivered || s.at <= receiver.end;
            if let Some(at) = stream.sent[..end as usize].iter().position(|s| !there(s)) {
                let what = format!("{at} was acknowledged after the receiver was gone");
                return Err(Violation::new(Class::Epoch, pair, what));
            }
            return Ok(());
        }
        if self.reader.life != receiver.number {
            self.check_prefix_of_a_former_life(pair)?;
            self.reader = Reader { life: receiver.number, ..Reader::default() };
        }
        // Short ones at the very end do not name themselves.
        let mut owed_before = StreamPlace { life: last as u16, number: end };
        if !self.reader.prefix.is_empty() {
            self.check_prefix_of_a_former_life(pair)?;
            owed_before.number = end.saturating_sub(self.reader.prefix.len() as u32);
        }
        let from = self.reader.at.unwrap_or_default();
        self.nothing_lost_before(from, owed_before, receiver.former_end, pair)
    }
}
