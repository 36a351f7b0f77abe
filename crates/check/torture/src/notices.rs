//! The checker of writes with notice (`PROTOCOL.md` 9.5 to 9.7).
//!
//! A write that completed has one notice at the owner, with its place and length. A refused write
//! has none. A lost write may have one. Notices come in the order in which their writer started the
//! writes.

use crate::lives::Lives;
use crate::memory::{Access, AccessEnding};
use crate::pair::NodePair;
use crate::violation::{CheckResult, Class, Violation};
use std::collections::BTreeMap;

/// Bytes of the owner's memory that a notice reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticedRange {
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub len: u32,
}

#[derive(Clone, Copy, Debug)]
struct WriteWithNotice {
    /// Its number in its run, and the writer's word.
    number: u32,
    /// Of the owner whose memory is meant.
    life: u16,
    place: NoticedRange,
    ended: Option<AccessEnding>,
    noticed: bool,
}

/// A notice that a life of an owner has taken.
#[derive(Clone, Copy, Debug)]
struct TakenNotice {
    /// Of the owner.
    life: u16,
    /// Of the write.
    number: u32,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct Notices {
    lives: Lives,
    /// By writer and owner, in the order in which they were started.
    writes: BTreeMap<NodePair, Vec<WriteWithNotice>>,
    /// The last notice of a writer that an owner has taken.
    last: BTreeMap<NodePair, TakenNotice>,
}

impl Notices {
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

    /// A write with notice begins: the word of its notice is the access' number.
    pub fn started(&mut self, access: Access, offset: u64, len: usize) {
        let Access { pair, life, number, .. } = access;
        let place = NoticedRange { offset, len: len as u32 };
        let write = WriteWithNotice { number, life, place, ended: None, noticed: false };
        self.writes.entry(pair).or_default().push(write);
    }

    fn write(&mut self, pair: NodePair, number: u64) -> Option<&mut WriteWithNotice> {
        let writes = self.writes.get_mut(&pair)?;
        let at = writes.binary_search_by_key(&number, |write| write.number.into()).ok()?;
        Some(&mut writes[at])
    }

    /// A write has ended, with notice or without.
    pub fn ended(&mut self, access: Access, ending: AccessEnding) -> CheckResult {
        let Some(write) = self.write(access.pair, access.number.into()) else { return Ok(()) };
        write.ended = Some(ending);
        if write.noticed && matches!(ending, AccessEnding::NoKey | AccessEnding::Busy) {
            let what = format!("{write:?} was refused, and its notice was there");
            return Err(Violation::new(Class::Doubled, access.pair, what));
        }
        Ok(())
    }

    /// The owner has taken a notice: the writer's word, and the place that was written.
    pub fn taken(&mut self, pair: NodePair, word: u64, place: NoticedRange) -> CheckResult {
        let broken = |class, what: String| Err(Violation::new(class, pair, what));
        let life = self.lives.of(pair.to).number;
        let Some(write) = self.write(pair, word) else {
            return broken(Class::Torn, format!("a notice {word} that no node has sent"));
        };
        if write.place != place {
            return broken(Class::Torn, format!("{write:?} was reported as {place:?}"));
        }
        if write.life != life {
            return broken(Class::Epoch, format!("{write:?} was reported to life {life}"));
        }
        if write.noticed || matches!(write.ended, Some(AccessEnding::NoKey | AccessEnding::Busy)) {
            return broken(Class::Doubled, format!("{write:?} was reported once more"));
        }
        write.noticed = true;
        let number = write.number;
        let last = self.last.insert(pair, TakenNotice { life, number });
        match last.filter(|last| last.life == life && last.number > number) {
            Some(last) => broken(Class::Order, format!("notice {number} after {}", last.number)),
            None => Ok(()),
        }
    }

    /// Everything is over, and every open node has taken all notices.
    pub fn settle(&self) -> CheckResult {
        for (&pair, writes) in &self.writes {
            let owner = self.lives.of(pair.to);
            let owed = |write: &&WriteWithNotice| {
                let present = owner.is_open && owner.number == write.life;
                present && write.ended == Some(AccessEnding::Done) && !write.noticed
            };
            if let Some(write) = writes.iter().find(owed) {
                let what = format!("{write:?} is done and was not reported");
                return Err(Violation::new(Class::Lost, pair, what));
            }
        }
        Ok(())
    }
}
