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

/// An operation that is over is searched among this many that were asked first. Peers choose the
/// order of their answers, so a search among all would be work that they can cause.
const NEAREST: usize = 32;

/// This many operations that are over may be among the expected ones beyond what the others allow.
const MOST_OVER: usize = 64;

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

    /// Whether an Op frame with this payload begins with `len` bytes of these data.
    pub fn is_in(&self, mut payload: Pieces, len: usize) -> bool {
        let reply = Op::Reply { id: self.operation, at: self.at };
        Op::take(&mut payload)
            .is_ok_and(|first| first.is_some_and(|(op, data)| op == reply && data.len() == len))
    }
}

/// # Data that a link puts where they belong
impl<M: Bytes> Transfer<M> {
    /// The data that should come next, and the memory where they belong: at most as many bytes come
    /// as it has.
    pub fn expect(&mut self) -> Option<(Expected, &mut [u8])> {
        let operation = match self.coming {
            Some(id) => id,
            None => self.first_asked()?,
        };
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
            && self.progress_of(id).is_some_and(|(of, got, left)| {
                (of, got) == (peer, at) && (1..=left).contains(&len)
            });
        // Otherwise the operation has ended since.
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

    /// The operation that asked first, of those that are not over.
    fn first_asked(&mut self) -> Option<u32> {
        loop {
            let first = *self.expecting.front()?;
            if self.progress_of(first).is_some() {
                return Some(first);
            }
            self.expecting.pop_front();
        }
    }

    /// An operation that asked for data is over. If many asked before it, its number stays where it
    /// is until it is dropped later. Until then it may become the number of another operation. Then
    /// that one is expected too soon.
    pub(crate) fn expect_no_more(&mut self, id: u32) {
        if self.coming == Some(id) {
            self.coming = None;
        }
        if let Some(at) = self.expecting.iter().take(NEAREST).position(|&other| other == id) {
            self.expecting.remove(at);
        } else if self.expecting.len() > 2 * self.operations.len() + MOST_OVER {
            self.drop_over();
        }
    }

    /// Drops the numbers of operations that are over: more than half, so few for each that ended.
    #[cold]
    fn drop_over(&mut self) {
        let mut expecting = std::mem::take(&mut self.expecting);
        expecting.retain(|&id| self.progress_of(id).is_some());
        self.expecting = expecting;
    }

    /// From whom the data of an operation come, how many have come, and how many are missing.
    /// `None` if it is over, or has not asked for them.
    fn progress_of(&self, id: u32) -> Option<(PeerId, u32, usize)> {
        let (peer, got, expected) = match self.operations.get(id)? {
            Operation::Receive(Receive { room, matched: Some(matched), .. })
                if matched.is_pulled() =>
            {
                let &Matched { peer, total, got, .. } = matched;
                (peer, got, total.min(*room))
            }
            &Operation::Read { peer, len, got, begun: true, .. } => (peer, got, len),
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

#[cfg(test)]
mod tests {
    use super::{MOST_OVER, NEAREST};
    use crate::memory::{RegionKey, predictable_keys};
    use crate::{Transfer, TransferConfig};
    use gigae_proto::PeerId;
    use gigae_wire::Epoch;
    use gigae_wire::op::{MAX_OP_HEADER, Op};

    const PEER: PeerId = PeerId(0);
    const EPOCH: Epoch = Epoch(7);

    /// Sends a read; returns its number.
    fn ask(transfer: &mut Transfer<Vec<u8>>) -> u32 {
        transfer.read(PEER, RegionKey(1), 0, vec![0; 4]).unwrap();
        let mut frame = [0; 1468];
        let len = transfer.fill(PEER, EPOCH, &mut frame);
        transfer.framed(PEER);
        transfer.acknowledged(PEER);
        let mut payload = frame[..len].into();
        match Op::take(&mut payload).unwrap() {
            Some((Op::Read { id, .. }, _)) => id,
            other => panic!("{other:?}"),
        }
    }

    fn reply(transfer: &mut Transfer<Vec<u8>>, id: u32) {
        let mut frame = vec![0; MAX_OP_HEADER];
        let header = Op::Reply { id, at: 0 }.write(4, &mut frame);
        frame.truncate(header);
        frame.extend_from_slice(&[1; 4]);
        transfer.handle(PEER, EPOCH, frame[..].into());
        assert!(transfer.poll_completion().is_some_and(|done| done.result.is_ok()));
    }

    #[test]
    fn operations_that_are_over_do_not_gather_behind_those_that_a_peer_does_not_answer() {
        const UNANSWERED: usize = NEAREST + 8;
        let mut transfer = Transfer::new(TransferConfig::default(), predictable_keys(1));
        let unanswered: Vec<u32> = (0..UNANSWERED).map(|_| ask(&mut transfer)).collect();
        for n in 0..10_000 {
            let id = ask(&mut transfer);
            reply(&mut transfer, id);
            let kept = transfer.expecting.len();
            assert!(kept <= 2 * UNANSWERED + MOST_OVER, "{kept} after {n}");
        }
        for id in unanswered {
            assert_eq!(transfer.first_asked(), Some(id));
            reply(&mut transfer, id);
        }
        assert_eq!(transfer.first_asked(), None);
        assert_eq!((transfer.expecting.len(), transfer.coming), (0, None));
    }
}
