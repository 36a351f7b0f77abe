//! The checker of remote memory (`PROTOCOL.md` 9.5 to 9.7).
//!
//! Each life of a node registers one memory: words that all change atomically, then an area for
//! each other node, into which that node alone writes and which it reads back. So every byte has
//! few values that it may have: that of the last write known to be done, and those of writes that
//! are going on or were lost with their session.

use crate::lives::Lives;
use crate::pair::NodePair;
use crate::violation::{CheckResult, Class, Violation};
use std::collections::BTreeMap;

/// Words that are added to, and as many behind them that are swapped.
pub const WORDS: u16 = 16;

/// Bytes of all of them.
pub const ATOMICS: usize = WORDS as usize * 2 * 8;

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessEnding {
    /// It was done.
    Done,
    /// The peer was lost; how much was done is not known.
    Lost,
    /// The owner does not know the key: nothing was done.
    NoKey,
    /// The owner has too many notices: nothing was done.
    Busy,
}

/// A write that is going on, or was lost.
#[derive(Clone, Debug)]
struct UnconfirmedWrite {
    number: u32,
    offset: usize,
    bytes: Vec<u8>,
    /// Bytes that a later write has not replaced for certain.
    live: Vec<bool>,
    lost: bool,
}

impl UnconfirmedWrite {
    fn at(&self, place: usize) -> Option<u8> {
        let at = place.checked_sub(self.offset)?;
        self.live.get(at)?.then(|| self.bytes[at])
    }
}

#[derive(Clone, Debug)]
struct Read {
    number: u32,
    offset: usize,
    expected: Vec<u8>,
    /// Writes that may or may not be seen.
    others: Vec<UnconfirmedWrite>,
}

/// What one node has in the memory of another's present life.
#[derive(Clone, Debug, Default)]
struct Area {
    bytes: Vec<u8>,
    writes: Vec<UnconfirmedWrite>,
    reads: Vec<Read>,
}

#[derive(Clone, Debug, Default)]
struct Adds {
    /// What was there before, the operand, the node, and the number of its operation.
    done: Vec<(u64, u64, u16, u32)>,
    lost: u64,
}

#[derive(Clone, Debug, Default)]
struct Swaps {
    /// From what to what.
    done: BTreeMap<u64, u64>,
    /// All that was ever to be written.
    tokens: Vec<u64>,
    lost: bool,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct Regions {
    lives: Lives,
    area: usize,
    numbers: u32,
    /// By owner and writer.
    areas: BTreeMap<(u16, u16), (u16, Area)>,
    /// By owner and word, of its present life.
    adds: BTreeMap<(u16, u16), (u16, Adds)>,
    swaps: BTreeMap<(u16, u16), (u16, Swaps)>,
}

/// An operation on a node's memory, as its initiator knows it.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Who started it, on whose memory.
    pub pair: NodePair,
    /// The life of the owner whose memory is meant.
    pub life: u16,
    /// When it was started, in virtual nanoseconds.
    pub at: u64,
    /// Among all of a run.
    pub number: u32,
}

/// A swap of a word: what it writes if it finds what it expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Which of the words that are swapped.
    pub word: u16,
    /// What it replaces.
    pub expected: u64,
    /// What it writes.
    pub token: u64,
}

impl Regions {
    /// A world of `nodes` nodes, none of which is open, with areas of `area` bytes.
    pub fn new(nodes: usize, area: usize) -> Self {
        Self { lives: Lives::new(nodes), area, ..Self::default() }
    }

    /// A node opens its endpoint and registers its memory.
    pub fn opened(&mut self, node: u16) {
        self.lives.opened(node);
    }

    /// A node's endpoint is gone.
    pub fn gone(&mut self, node: u16, now: u64) {
        self.lives.gone(node, now);
    }

    /// Bytes of each node's memory in a world of `nodes` nodes.
    pub fn len(nodes: usize, area: usize) -> usize {
        ATOMICS + nodes * area
    }

    /// Where a node's area begins in others' memories.
    pub fn start(&self, writer: u16) -> usize {
        ATOMICS + usize::from(writer) * self.area
    }

    fn access(&mut self, pair: NodePair, life: u16, at: u64) -> Access {
        self.numbers += 1;
        Access { pair, life, at, number: self.numbers }
    }

    fn is_present(&self, access: &Access) -> bool {
        let owner = self.lives.of(access.pair.to);
        owner.is_open && owner.number == access.life
    }

    fn area(&mut self, pair: NodePair) -> &mut Area {
        let life = self.lives.of(pair.to).number;
        let (of, area) = self.areas.entry((pair.to, pair.from)).or_default();
        if *of != life || area.bytes.is_empty() {
            *of = life;
            *area = Area { bytes: vec![0; self.area], ..Area::default() };
        }
        area
    }

    /// A write into the writer's own area begins, at `offset` of it, with a key of that life.
    pub fn write(
        &mut self,
        pair: NodePair,
        life: u16,
        offset: usize,
        bytes: &[u8],
        now: u64,
    ) -> Access {
        let access = self.access(pair, life, now);
        if self.is_present(&access) {
            let (bytes, live) = (bytes.to_vec(), vec![true; bytes.len()]);
            let write =
                UnconfirmedWrite { number: access.number, offset, bytes, live, lost: false };
            let area = self.area(pair);
            area.reads.iter_mut().for_each(|read| read.others.push(write.clone()));
            area.writes.push(write);
        }
        access
    }

    /// How an access ended that names the key of a life, as far as that alone shows: whether the
    /// memory is one that is there.
    fn ended(&self, access: &Access, ending: AccessEnding) -> CheckResult<bool> {
        let owner = self.lives.of(access.pair.to);
        let gone = match () {
            () if owner.number != access.life => Some(owner.former_end),
            () if !owner.is_open => Some(owner.end),
            () => None,
        };
        let (pair, what) = (access.pair, format!("{access:?} ended as {ending:?}"));
        match (ending, gone) {
            // With lives in between, the access's own life ended even earlier.
            (AccessEnding::Done, Some(end)) if access.at > end => {
                Err(Violation::new(Class::Epoch, pair, what + ", the memory being gone before"))
            }
            (AccessEnding::NoKey, None) => Err(Violation::new(Class::Broken, pair, what)),
            _ => Ok(gone.is_none()),
        }
    }

    /// A write has ended.
    pub fn written(&mut self, access: Access, ending: AccessEnding) -> CheckResult {
        if !self.ended(&access, ending)? {
            return Ok(());
        }
        let area = self.area(access.pair);
        let Some(at) = area.writes.iter().position(|w| w.number == access.number && !w.lost) else {
            let what = format!("{access:?} was completed twice");
            return Err(Violation::new(Class::Doubled, access.pair, what));
        };
        match ending {
            AccessEnding::Lost => area.writes[at].lost = true,
            AccessEnding::Done => {
                let done = area.writes.remove(at);
                let range = done.offset..done.offset + done.bytes.len();
                for place in range.clone() {
                    // What another operation has replaced since then stays so.
                    if done.live[place - done.offset] {
                        area.bytes[place] = done.bytes[place - done.offset];
                    }
                }
                for earlier in &mut area.writes[..at] {
                    for place in range.clone() {
                        if let Some(live) =
                            place.checked_sub(earlier.offset).and_then(|i| earlier.live.get_mut(i))
                        {
                            *live = false;
                        }
                    }
                }
                area.writes.retain(|w| !w.lost || w.live.contains(&true));
            }
            AccessEnding::NoKey | AccessEnding::Busy => drop(area.writes.remove(at)),
        }
        Ok(())
    }

    /// A read of the reader's own area begins.
    pub fn read(
        &mut self,
        pair: NodePair,
        life: u16,
        offset: usize,
        len: usize,
        now: u64,
    ) -> Access {
        let access = self.access(pair, life, now);
        if self.is_present(&access) {
            let area = self.area(pair);
            let mut expected = area.bytes[offset..][..len].to_vec();
            for (i, byte) in expected.iter_mut().enumerate() {
                for write in area.writes.iter().filter(|w| !w.lost) {
                    *byte = write.at(offset + i).unwrap_or(*byte);
                }
            }
            let others = area.writes.iter().filter(|w| w.lost).cloned().collect();
            area.reads.push(Read { number: access.number, offset, expected, others });
        }
        access
    }

    /// A read has ended with these bytes.
    pub fn was_read(&mut self, access: Access, bytes: &[u8], ending: AccessEnding) -> CheckResult {
        if !self.ended(&access, ending)? {
            return Ok(());
        }
        let area = self.area(access.pair);
        let Some(at) = area.reads.iter().position(|r| r.number == access.number) else {
            let what = format!("{access:?} was completed twice");
            return Err(Violation::new(Class::Doubled, access.pair, what));
        };
        let read = area.reads.swap_remove(at);
        if ending != AccessEnding::Done {
            return Ok(());
        }
        for (i, (&got, &expected)) in bytes.iter().zip(&read.expected).enumerate() {
            let place = read.offset + i;
            if got != expected && !read.others.iter().any(|w| w.at(place) == Some(got)) {
                let what = format!("{access:?}: byte {place} is {got:#x} and not {expected:#x}");
                return Err(Violation::new(Class::Torn, access.pair, what));
            }
        }
        Ok(())
    }

    /// An addition to a word begins.
    pub fn add(&mut self, pair: NodePair, life: u16, now: u64) -> Access {
        self.access(pair, life, now)
    }

    /// An addition has ended, with what was there before.
    pub fn added(
        &mut self,
        access: Access,
        word: u16,
        operand: u64,
        before: u64,
        ending: AccessEnding,
    ) -> CheckResult {
        if !self.ended(&access, ending)? {
            return Ok(());
        }
        let (of, adds) = self.adds.entry((access.pair.to, word)).or_default();
        if *of != access.life {
            (*of, *adds) = (access.life, Adds::default());
        }
        match ending {
            AccessEnding::Done => {
                adds.done.push((before, operand, access.pair.from, access.number));
            }
            AccessEnding::Lost => adds.lost += operand,
            AccessEnding::NoKey | AccessEnding::Busy => {}
        }
        Ok(())
    }

    /// A swap of a word begins: what it writes, which is never written twice.
    pub fn swap(&mut self, pair: NodePair, life: u16, word: u16, now: u64) -> (Access, u64) {
        let token = u64::from(self.numbers + 1) << 16 | u64::from(pair.from);
        (self.swap_to(pair, life, word, token, now), token)
    }

    /// The same by a caller that chooses the token and never uses it twice.
    pub fn swap_to(
        &mut self,
        pair: NodePair,
        life: u16,
        word: u16,
        token: u64,
        now: u64,
    ) -> Access {
        let access = self.access(pair, life, now);
        if self.is_present(&access) {
            self.swaps_of(&access, word).tokens.push(token);
        }
        access
    }

    fn swaps_of(&mut self, access: &Access, word: u16) -> &mut Swaps {
        let (of, swaps) = self.swaps.entry((access.pair.to, word)).or_default();
        if *of != access.life {
            (*of, *swaps) = (access.life, Swaps::default());
        }
        swaps
    }

    /// A swap has ended, with what was there before.
    pub fn swapped(
        &mut self,
        access: Access,
        swap: Swap,
        before: u64,
        ending: AccessEnding,
    ) -> CheckResult {
        if !self.ended(&access, ending)? {
            return Ok(());
        }
        let swaps = self.swaps_of(&access, swap.word);
        swaps.lost |= ending == AccessEnding::Lost;
        if ending != AccessEnding::Done {
            return Ok(());
        }
        let broken = |class, what| Err(Violation::new(class, access.pair, what));
        if before != 0 && !swaps.tokens.contains(&before) {
            return broken(Class::Torn, format!("{access:?} found {before:#x}, never written"));
        }
        let Swap { expected, token, .. } = swap;
        if before == expected && swaps.done.insert(expected, token).is_some() {
            return broken(Class::Doubled, format!("{expected:#x} was swapped twice"));
        }
        Ok(())
    }

    /// A node's life ends: what it had started on others' memories is as good as lost.
    pub fn abandoned(&mut self, node: u16) {
        for ((_, writer), (_, area)) in &mut self.areas {
            if *writer == node {
                area.writes.iter_mut().for_each(|write| write.lost = true);
                area.reads.clear();
            }
        }
    }

    /// An addition or swap whose end remains unknown: `operand` is zero for a swap.
    pub fn forgotten(&mut self, access: Access, word: u16, operand: u64) {
        if self.is_present(&access) {
            let swap = Swap { word, expected: 0, token: 0 };
            let ended = match operand {
                0 => self.swapped(access, swap, 0, AccessEnding::Lost),
                operand => self.added(access, word, operand, 0, AccessEnding::Lost),
            };
            debug_assert!(ended.is_ok());
        }
    }

    /// Compares a node's memory with what it may be, at any time.
    pub fn audit(&self, owner: u16, memory: &[u8]) -> CheckResult {
        let life = self.lives.of(owner).number;
        for (&(_, writer), (of, area)) in self.areas.range((owner, 0)..=(owner, u16::MAX)) {
            if *of != life {
                continue;
            }
            let there = &memory[self.start(writer)..][..self.area];
            for (place, (&got, &known)) in there.iter().zip(&area.bytes).enumerate() {
                if got != known && !area.writes.iter().any(|w| w.at(place) == Some(got)) {
                    let what = format!("byte {place} of its area is {got:#x} and not {known:#x}");
                    let pair = NodePair { from: writer, to: owner };
                    return Err(Violation::new(Class::Torn, pair, what));
                }
            }
        }
        Ok(())
    }

    /// Everything is over: a node's memory is compared, and its atomic words are added up.
    pub fn settle(&mut self, owner: u16, memory: &[u8]) -> CheckResult {
        self.audit(owner, memory)?;
        let life = self.lives.of(owner).number;
        let word_at = |word: u16| {
            let bytes = memory[usize::from(word) * 8..].first_chunk();
            u64::from_le_bytes(*bytes.expect("a word"))
        };
        for (&(_, word), (of, adds)) in self.adds.range_mut((owner, 0)..=(owner, u16::MAX)) {
            if *of == life {
                adds.settle(owner, word_at(word))?;
            }
        }
        for (&(_, word), (of, swaps)) in self.swaps.range((owner, 0)..=(owner, u16::MAX)) {
            if *of == life {
                swaps.settle(owner, word_at(WORDS + word))?;
            }
        }
        Ok(())
    }
}

impl Adds {
    fn settle(&mut self, owner: u16, there: u64) -> CheckResult {
        self.done.sort_unstable();
        let mut end = 0;
        let mut last = BTreeMap::new();
        let mut gaps = 0;
        for &(before, operand, from, number) in &self.done {
            let pair = NodePair { from, to: owner };
            let broken = |class, what| Err(Violation::new(class, pair, what));
            if before < end {
                let what = format!("two additions found a number between {before} and {end}");
                return broken(Class::Doubled, what);
            }
            if last.insert(from, number).is_some_and(|l| l > number) {
                return broken(
                    Class::Order,
                    format!("addition {number} came before an earlier one"),
                );
            }
            gaps += before - end;
            end = before + operand;
        }
        let unexplained = (there.wrapping_sub(end)).saturating_add(gaps);
        if unexplained > self.lost {
            let class = if there < end { Class::Lost } else { Class::Doubled };
            let what = format!(
                "a word is {there}; {unexplained} more or less than was added, {} at most by additions that were lost",
                self.lost
            );
            return Err(Violation::new(class, NodePair::of_one(owner), what));
        }
        Ok(())
    }
}

impl Swaps {
    fn settle(&self, owner: u16, there: u64) -> CheckResult {
        let broken = |class, what| Err(Violation::new(class, NodePair::of_one(owner), what));
        if there != 0 && !self.tokens.contains(&there) {
            return broken(Class::Torn, format!("a word is {there:#x}, which no node has written"));
        }
        if self.lost {
            return Ok(());
        }
        let (mut at, mut steps) = (0, 0);
        while let Some(&next) = self.done.get(&at) {
            (at, steps) = (next, steps + 1);
        }
        if at != there || steps != self.done.len() {
            let what =
                format!("a word is {there:#x}; {steps} of {} swaps lead there", self.done.len());
            return broken(Class::Lost, what);
        }
        Ok(())
    }
}
