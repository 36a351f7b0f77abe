//! The program starts and cancels operations other than receives.

use super::{LONGEST, Start, TooLong, Transfer};
use crate::memory::{Bytes, RegionKey};
use crate::operation::{
    MultiReceiveState, OpError, OpId, Operation, Receive, ReceiveTarget, Send, SendState,
    TransferCompletion,
};
use gigae_proto::PeerId;
use gigae_wire::op::{Change, Label};

/// # Starting and cancelling operations
impl<M: Bytes> Transfer<M> {
    fn begin(&mut self, peer: PeerId, operation: Operation<M>) -> Result<OpId, Operation<M>> {
        let id = self.operations.insert(operation)?;
        self.started += 1;
        let state = self.peer(peer);
        state.starting.push_back(id);
        state.engaged += 1;
        self.wake(peer);
        Ok(OpId(id))
    }

    /// Sends a message. It completes once all of it has arrived at the peer's endpoint; an offered
    /// one completes once a receive has pulled the part that it wants.
    pub fn send(
        &mut self,
        peer: PeerId,
        label: impl std::convert::Into<Label>,
        memory: M,
    ) -> Start<M> {
        let label = label.into();
        if memory.len() > LONGEST {
            return Err(TooLong(memory));
        }
        let send = Send { peer, label, memory, state: SendState::Queued };
        self.begin(peer, Operation::Send(send)).map_err(|operation| match operation {
            Operation::Send(send) => TooLong(send.memory),
            _ => unreachable!("handed back as it was given"),
        })
    }

    /// Writes the memory into one that the peer has registered, beginning at `offset`. It completes
    /// once the bytes are there. If `notice` is given, the peer then gets a
    /// [`TransferNotice`](crate::TransferNotice) with it.
    pub fn write(
        &mut self,
        peer: PeerId,
        key: RegionKey,
        offset: u64,
        memory: M,
        notice: Option<u64>,
    ) -> Start<M> {
        if memory.len() > LONGEST {
            return Err(TooLong(memory));
        }
        let write =
            Operation::Write { peer, memory, key: key.0, offset, at: 0, notice, begun: false };
        self.begin(peer, write).map_err(handed_back)
    }

    /// Fills the memory from one that the peer has registered, beginning at `offset` there.
    pub fn read(&mut self, peer: PeerId, key: RegionKey, offset: u64, memory: M) -> Start<M> {
        if memory.len() > LONGEST {
            return Err(TooLong(memory));
        }
        let (len, memory) = (memory.len() as u32, Some(memory));
        let read = Operation::Read { peer, memory, len, key: key.0, offset, got: 0, begun: false };
        self.begin(peer, read).map_err(handed_back)
    }

    /// Atomically changes numbers in a memory that the peer has registered, from `offset` on. The
    /// memory here has the operands, all first ones before all second ones. If the change fetches,
    /// the former values are at its beginning at the end.
    ///
    /// # Panics
    /// If the memory is not as long as the operands, or, for a change without operands, as the
    /// numbers.
    pub fn atomic(
        &mut self,
        peer: PeerId,
        key: RegionKey,
        offset: u64,
        change: Change,
        memory: M,
    ) -> Start<M> {
        assert_eq!(memory.len(), change.operands_len().max(change.len()), "as the change says");
        let memory = Some(memory);
        let atomic = Operation::Atomic { peer, memory, key: key.0, offset, change, begun: false };
        self.begin(peer, atomic).map_err(handed_back)
    }

    /// Cancels an unmatched receive, or a message of which nothing was sent. A receive of several
    /// messages takes no further ones. False if it is too late. The operation's completion comes in
    /// any case.
    pub fn cancel(&mut self, OpId(id): OpId) -> bool {
        match self.operations.get_mut(id) {
            Some(Operation::Receive(Receive { matched: None, .. })) => self.matching.withdraw(id),
            Some(Operation::MultiReceive(several)) if several.state == MultiReceiveState::Open => {
                several.state = MultiReceiveState::Cancelled;
                let arriving = several.arriving;
                self.matching.withdraw(id);
                if arriving > 0 {
                    return true;
                }
            }
            Some(&mut Operation::Send(Send { peer, state: SendState::Queued, .. })) => {
                self.peer(peer).starting.retain(|&queued| queued != id);
            }
            _ => return false,
        }
        self.complete(id, Err(OpError::Cancelled));
        true
    }

    /// Cancels all operations that write to memory of the program, whatever their progress:
    /// receives, reads and atomic changes. Nothing is written there any more. Bytes that still
    /// arrive for them are dropped.
    pub fn cancel_incoming(&mut self) {
        for ended in self.parts.take_all() {
            self.complete_part(ended);
        }
        let mut all: Vec<u32> = self.operations.iter().map(|(id, _)| id).collect();
        all.sort_unstable();
        for id in all {
            let given_up = match self.operations.get_mut(id) {
                Some(Operation::Receive(Receive { target, matched: Some(_), .. })) => {
                    match std::mem::replace(target, ReceiveTarget::Dropped) {
                        ReceiveTarget::Own(memory) => memory,
                        // The receive that it is a part of is reported.
                        ReceiveTarget::Part { .. } | ReceiveTarget::Dropped => continue,
                    }
                }
                Some(Operation::Read { memory, .. }) => match memory.take() {
                    Some(memory) => memory,
                    None => continue,
                },
                Some(Operation::Atomic { memory, change, .. }) if change.fetches() => {
                    match memory.take() {
                        Some(memory) => memory,
                        None => continue,
                    }
                }
                Some(Operation::Receive(_) | Operation::MultiReceive(_)) => {
                    self.matching.withdraw(id);
                    self.complete(id, Err(OpError::Cancelled));
                    continue;
                }
                _ => continue,
            };
            let ended = TransferCompletion::of(OpId(id), None, Err(OpError::Cancelled));
            self.completions.push_back(TransferCompletion { memory: Some(given_up), ..ended });
        }
        self.end_stalls();
    }
}

pub(super) fn handed_back<M>(operation: Operation<M>) -> TooLong<M> {
    match operation {
        Operation::Write { memory, .. }
        | Operation::Read { memory: Some(memory), .. }
        | Operation::Atomic { memory: Some(memory), .. } => TooLong(memory),
        _ => unreachable!("handed back as it was given"),
    }
}
