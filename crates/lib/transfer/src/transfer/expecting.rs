//! Data that a link copies to where they belong: which come next, and that they have come.
//!
//! The link learns where the next data belong before it knows what comes. Only data
//! that this end asked for are expected: a message that it pulls, or a read. Their memory is the
//! operation's until that is over, and what it contains until then means nothing. So a wrong
//! expectation does no harm but a copy.

use super::Transfer;
use crate::memory::Bytes;
use crate::operation::{Matched, Operation, Receive, ReceiveTarget};
use gigae_proto::PeerId;
use gigae_wire::op::Op;
use gigae_wire::{Epoch, Pieces};

/// Fewer bytes are not worth an expectation.
const LEAST: usize = 8 << 10;

/// Data that should come next: behind the header of an Op frame and that of a Reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// From whom.
    pub peer: PeerId,
    operation: u32,
    at: u32,
}

/// The payload of a frame whose first data lie where they belong, as was expected.
#[derive(Clone, Copy, Debug)]
pub struct PlacedPayload<'a> {
    /// Which data.
    pub expected: Expected,
    /// How many bytes of them.
    pub len: usize,
    /// What comes behind them.
    pub behind: Pieces<'a>,
}

impl Expected {
    /// Bytes of the operation's header that comes in front of the data.
    pub const HEADER: usize = Op::Reply { id: 0, at: 0 }.header_len();

    /// Whether an Op frame with this payload begins with so many bytes of these data.
    pub fn is_in(&self, mut payload: Pieces, len: usize) -> bool {
        let reply = Op::Reply { id: self.operation, at: self.at };
        Op::take(&mut payload)
            .is_ok_and(|first| first.is_some_and(|(op, data)| op == reply && data.len() == len))
    }
}

/// # Data that a link puts where they belong
impl<M: Bytes> Transfer<M> {
    /// The data that should come next, and the memory where they belong: at most so many come.
    pub fn expect(&mut self) -> Option<(Expected, &mut [u8])> {
        let operation = *self.expecting.front()?;
        let (peer, at, left) = self.progress_of(operation)?;
        let place = self.place_of(operation, at as usize, left).filter(|_| left >= LEAST)?;
        Some((Expected { peer, operation, at }, place))
    }

    /// The first `len` bytes of the memory where these data belong.
    pub fn expected(&mut self, expected: Expected, len: usize) -> Option<&[u8]> {
        let Expected { operation, at, .. } = expected;
        self.place_of(operation, at as usize, len).map(|place| &*place)
    }

    /// A frame came whose data were placed, and it was not the expected one.
    pub fn misplaced(&mut self) {
        self.counters.misplaced += 1;
    }

    /// Like [`handle`](Self::handle), for a frame whose first data lie where they belong.
    pub fn handle_placed(&mut self, peer: PeerId, epoch: Epoch, placed: PlacedPayload) {
        let PlacedPayload { expected, len, behind } = placed;
        let Expected { operation: id, at, .. } = expected;
        let holds = self.peer(peer).epoch == Some(epoch)
            && peer == expected.peer
            && self
                .progress_of(id)
                .is_some_and(|(of, got, left)| (of, got) == (peer, at) && len <= left);
        // Otherwise the operation has ended meanwhile.
        if holds {
            self.counters.placed += 1;
            self.came(peer, id, at as usize + len);
        } else {
            self.counters.invalid += 1;
        }
        if !behind.is_empty() {
            self.handle(peer, epoch, behind);
        } else {
            self.settle(peer);
        }
    }

    /// More comes for this operation next.
    #[inline]
    pub(crate) fn expect_more(&mut self, id: u32) {
        if self.expecting.front() != Some(&id)
            && let Some(at) = self.expecting.iter().position(|&other| other == id)
        {
            self.expecting.remove(at);
            self.expecting.push_front(id);
        }
    }

    /// An operation that asked for data is over.
    pub(crate) fn expect_no_more(&mut self, id: u32) {
        if let Some(at) = self.expecting.iter().position(|&other| other == id) {
            self.expecting.remove(at);
        }
    }

    /// From whom the data of an operation come, how many have come, and how many are missing.
    /// `None` if it is over.
    fn progress_of(&self, id: u32) -> Option<(PeerId, u32, usize)> {
        let (peer, got, expected) = match self.operations.get(id)? {
            Operation::Receive(Receive { room, matched: Some(matched), .. })
                if matched.is_pulled() =>
            {
                let &Matched { peer, total, got, .. } = matched;
                (peer, got, total.min(*room))
            }
            &Operation::Read { peer, len, got, .. } => (peer, got, len),
            _ => return None,
        };
        Some((peer, got, (expected - got) as usize))
    }

    /// Where `len` bytes of its data from `at` on belong, if they can be written in place.
    pub(super) fn place_of(&mut self, id: u32, at: usize, len: usize) -> Option<&mut [u8]> {
        let (of, first) = match self.operations.get(id)? {
            Operation::Receive(Receive { target: ReceiveTarget::Part { of, at, .. }, .. }) => {
                (*of, *at as usize)
            }
            _ => (id, 0),
        };
        let memory = match self.operations.get_mut(of)? {
            Operation::Receive(Receive { target: ReceiveTarget::Own(memory), .. }) => memory,
            Operation::MultiReceive(several) => &mut several.memory,
            Operation::Read { memory: Some(memory), .. } => memory,
            _ => return None,
        };
        memory.slice_mut(first + at, len)
    }
}
