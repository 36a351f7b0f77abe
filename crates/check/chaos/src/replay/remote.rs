//! Feeds the operations of both ends on each other's memory to the checkers of `gigae-torture`.

use super::steps::Life;
use crate::event::{Operation, written};
use gigae_torture::{
    Access, AccessEnding, CheckResult, Class, NodePair, NoticedRange, Notices, Regions, Swap,
    Violation,
};
use std::collections::BTreeMap;

/// Bytes of an end's area in the other's memory: several frames.
pub const AREA: usize = 6_000;

/// See the module's description.
pub(super) struct RemoteReplay {
    regions: Regions,
    notices: Notices,
    /// By node and number of its present life.
    going: BTreeMap<(u16, u32), (Access, Operation)>,
    /// By writer and the word of its notice.
    words: BTreeMap<(u16, u64), Access>,
    /// As their owners said in the end.
    memory: [Option<Vec<u8>>; 2],
    /// Done, lost with their peer, refused since their memory was gone.
    pub(super) ended: [u64; 3],
    pub(super) noticed: u64,
}

impl RemoteReplay {
    pub(super) fn new() -> Self {
        Self {
            regions: Regions::new(2, AREA),
            notices: Notices::new(2),
            going: BTreeMap::new(),
            words: BTreeMap::new(),
            memory: [None, None],
            ended: [0; 3],
            noticed: 0,
        }
    }

    pub(super) fn opened(&mut self, node: u16) {
        self.regions.opened(node);
        self.notices.opened(node);
    }

    /// A node is gone. No event will report the end of what it had going on.
    pub(super) fn gone(&mut self, node: u16, at: u64) {
        let own: Vec<_> = self.going.range((node, 0)..=(node, u32::MAX)).map(|(k, _)| *k).collect();
        for (access, operation) in own.iter().filter_map(|key| self.going.remove(key)) {
            match operation {
                Operation::Add(word, operand) => self.regions.forgotten(access, word, operand),
                Operation::Swap(word, ..) => self.regions.forgotten(access, word, 0),
                Operation::Write(..) | Operation::Read(..) => {}
            }
        }
        self.regions.abandoned(node);
        self.regions.gone(node, at);
        self.notices.gone(node, at);
        self.memory[usize::from(node)] = None;
    }

    /// A node's life begins something on the memory of the other's life `of`.
    pub(super) fn began(
        &mut self,
        Life { node, life }: Life,
        number: u32,
        of: u16,
        operation: Operation,
        at: u64,
    ) {
        let (pair, regions) = (NodePair { from: node, to: 1 - node }, &mut self.regions);
        let access = match operation {
            Operation::Write(offset, len, notice) => {
                let bytes = written(node, life, number, len);
                let access = regions.write(pair, of, offset, &bytes, at);
                if notice {
                    self.words.insert((node, word(life, number)), access);
                    let place = (regions.start(node) + offset) as u64;
                    self.notices.started(access, place, len);
                }
                access
            }
            Operation::Read(offset, len) => regions.read(pair, of, offset, len, at),
            Operation::Add(..) => regions.add(pair, of, at),
            Operation::Swap(word, _, new) => regions.swap_to(pair, of, word, new, at),
        };
        self.going.insert((node, number), (access, operation));
    }

    /// An operation has ended: how, what was there before an atomic change, what was read.
    pub(super) fn ended(
        &mut self,
        node: u16,
        number: u32,
        ending: AccessEnding,
        value: u64,
        bytes: &[u8],
    ) -> CheckResult {
        let Some((access, operation)) = self.going.remove(&(node, number)) else {
            let what = format!("operation {number} ended twice, or never began");
            let pair = NodePair { from: node, to: 1 - node };
            return Err(Violation::new(Class::Doubled, pair, what));
        };
        match ending {
            AccessEnding::Done => self.ended[0] += 1,
            AccessEnding::Lost => self.ended[1] += 1,
            AccessEnding::NoKey | AccessEnding::Busy => self.ended[2] += 1,
        }
        let regions = &mut self.regions;
        match operation {
            Operation::Write(..) => {
                regions.written(access, ending)?;
                self.notices.ended(access, ending)
            }
            Operation::Read(_, len) if ending == AccessEnding::Done && bytes.len() != len => {
                let what = format!("{} bytes were read of {len}", bytes.len());
                Err(Violation::new(Class::Torn, access.pair, what))
            }
            Operation::Read(..) => regions.was_read(access, bytes, ending),
            Operation::Add(word, operand) => regions.added(access, word, operand, value, ending),
            Operation::Swap(word, expected, token) => {
                regions.swapped(access, Swap { word, expected, token }, value, ending)
            }
        }
    }

    /// The owner has taken a notice.
    pub(super) fn noticed(&mut self, owner: u16, word: u64, place: NoticedRange) -> CheckResult {
        self.noticed += 1;
        let access = self.words.get(&(1 - owner, word));
        let number = access.map_or(u64::MAX, |access| access.number.into());
        self.notices.taken(NodePair { from: 1 - owner, to: owner }, number, place)
    }

    /// What a node says its memory is in the end.
    pub(super) fn memory(&mut self, node: u16, bytes: Vec<u8>) {
        self.memory[usize::from(node)] = Some(bytes);
    }

    /// Everything is over: of ends that are there, nothing may be going on, and their memory must
    /// be what was done to it.
    pub(super) fn settle(&mut self) -> CheckResult {
        if let Some(((node, number), (_, operation))) = self.going.first_key_value() {
            let what = format!("operation {number}, {operation:?}, has not ended");
            let pair = NodePair { from: *node, to: 1 - node };
            return Err(Violation::new(Class::Hung, pair, what));
        }
        for (node, memory) in (0..).zip(&self.memory) {
            let Some(memory) = memory else { continue };
            if memory.len() != Regions::len(2, AREA) {
                let what = format!("a memory has {} bytes", memory.len());
                return Err(Violation::new(Class::Torn, NodePair::of_one(node), what));
            }
            self.regions.settle(node, memory)?;
        }
        self.notices.settle()
    }
}

/// The word of a notice.
pub fn word(life: u16, number: u32) -> u64 {
    u64::from(life) << 32 | u64::from(number)
}
