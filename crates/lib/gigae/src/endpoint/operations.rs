//! The calls for messages of any size and remote memory: what is started here and completed later.
//!
//! These calls do not wait for the peer; [`Endpoint::completion`] does. Every call that makes
//! progress continues operations. They use the same frames as messages, in one order with them. So
//! messages that the program does not receive hold back operations of the same peer (STOP). A
//! program that uses both gives each its own channel.

use super::Endpoint;
use super::waiting::Pause;
use crate::error::{OperationError, RecvError};
use crate::memory::Memory;
use crate::operations::{Completion, Notice, Started, Wanted};
use crate::peer::Peer;
use gigae_transfer::{Accesses, Bytes, Label, OpId, RegionKey, Rights};
use gigae_wire::op::{Action, Change, Number};
use std::time::{Duration, Instant};

/// # Starting operations: tagged messages and remote memory
///
/// An operation is started by one call and ends with a [`Completion`], which brings its memory
/// back. It goes out with the next [`flush`](Endpoint::flush) or any call that makes progress.
///
/// Each byte is copied once at each end, between the operation's memory and frames (besides what
/// the kernel copies). An endpoint may name itself as the peer. Then nothing goes to the wire, and
/// each byte is copied once more.
impl Endpoint {
    /// Starts sending a message of up to 1 GiB, with a tag or with another [`Label`]. It is
    /// completed when all of it has arrived at the peer's endpoint. A message above 64 KiB is
    /// completed when a receive of the peer has taken it. So is a shorter one if the peer already
    /// keeps too many messages that no receive has taken.
    pub fn start_send(
        &self,
        to: Peer,
        label: impl Into<Label>,
        memory: impl Into<Memory>,
    ) -> Started {
        Ok(self.engine().operations().send(to.0, label, memory.into())?)
    }

    /// Puts a message that fits in a frame into one, if nothing prevents that: a session with the
    /// peer is up, its window has room, and no earlier operation waits for that. False if not, and
    /// nothing has happened then: [start](Self::start_send) it. Like an operation, it goes out with
    /// the next [`ring`](Endpoint::ring), [`flush`](Endpoint::flush) or any call that makes
    /// progress; those that go out together share frames.
    ///
    /// One copy, and a system call for each 32 frames: its bytes are in a frame when this returns.
    /// It is not an operation, and has no completion unless the peer is lost before it has
    /// acknowledged it: then there is one for [`OpId::INJECTED`].
    pub fn inject(&self, to: Peer, label: impl Into<Label>, message: &[u8]) -> bool {
        let mut engine = self.engine();
        let injected = engine.inject(to.0, label.into(), message);
        if !injected {
            engine.look(8);
        }
        injected
    }

    /// Starts receiving the first message that is wanted. One that is longer than the memory
    /// fills it and completes with [`OpError::Truncated`](crate::OpError::Truncated).
    pub fn start_recv(&self, wanted: Wanted, memory: impl Into<Memory>) -> Started {
        Ok(self.engine().operations().receive(wanted.selector(), memory.into())?)
    }

    /// Starts receiving the messages that are wanted, one behind the other, until less than `least`
    /// bytes of the memory are left. Each message has a completion with the number that this call
    /// returns; the last one brings the memory back. The receive keeps its place among those that
    /// are posted, so what is left of its memory is used before that of later ones.
    pub fn start_recv_several(
        &self,
        wanted: Wanted,
        memory: impl Into<Memory>,
        least: usize,
    ) -> Started {
        let (wanted, memory) = (wanted.selector(), memory.into());
        Ok(self.engine().operations().receive_several(wanted, memory, least)?)
    }

    /// Starts writing into a memory that the peer has registered, beginning at `offset` there. It
    /// is completed when the bytes are there; if `notice` is given, the peer then gets a [`Notice`]
    /// with it.
    ///
    /// If the memory is mapped here ([`register`](Self::register)), no notice is wanted, and the
    /// peer has acknowledged and answered everything before, this call copies the bytes and the
    /// operation is completed. If it is not mapped, a neighbour is asked for it, at most once in 8
    /// seconds for each key: a `sendmsg` here and a `recvmsg` there.
    pub fn start_write(
        &self,
        to: Peer,
        key: RegionKey,
        offset: u64,
        memory: impl Into<Memory>,
        notice: Option<u64>,
    ) -> Started {
        let (memory, mut engine) = (memory.into(), self.engine());
        if notice.is_none() && engine.write_directly(to.0, (key, offset), &memory) {
            return Ok(engine.carried_out(to.0, memory)?);
        }
        Ok(engine.operations().write(to.0, key, offset, memory, notice)?)
    }

    /// Starts filling the memory from one that the peer has registered, beginning at `offset`
    /// there. Like a [write](Self::start_write), it is done at once where that memory is mapped.
    pub fn start_read(
        &self,
        from: Peer,
        key: RegionKey,
        offset: u64,
        memory: impl Into<Memory>,
    ) -> Started {
        let (mut memory, mut engine) = (memory.into(), self.engine());
        if engine.read_directly(from.0, (key, offset), &mut memory) {
            return Ok(engine.carried_out(from.0, memory)?);
        }
        Ok(engine.operations().read(from.0, key, offset, memory)?)
    }

    /// Starts changing numbers of a memory that the peer has registered, from `offset` on. The
    /// memory here has the operands, all first ones before all second ones; when the operation is
    /// completed, and the change fetches, its beginning is what was there before. Nothing comes
    /// between reading and writing a number, except what the owner's program does itself.
    ///
    /// # Panics
    /// If the memory is not as long as the operands are, or as what a change without operands
    /// concerns.
    pub fn start_atomic(
        &self,
        at: Peer,
        key: RegionKey,
        offset: u64,
        change: Change,
        memory: impl Into<Memory>,
    ) -> Started {
        Ok(self.engine().operations().atomic(at.0, key, offset, change, memory.into())?)
    }

    /// Starts adding to eight bytes at `offset` of such a memory: a little-endian number. The
    /// completion has what was there before.
    pub fn start_fetch_add(&self, at: Peer, key: RegionKey, offset: u64, operand: u64) -> Started {
        let operand = operand.to_le_bytes().to_vec();
        self.start_atomic(at, key, offset, word(Action::Sum), operand)
    }

    /// Starts replacing such a number by `new`, if it is `expected`. The completion has what was
    /// there before.
    pub fn start_compare_swap(
        &self,
        at: Peer,
        key: RegionKey,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> Started {
        let operands = [new, expected].map(u64::to_le_bytes).concat();
        self.start_atomic(at, key, offset, word(Action::Swap), operands)
    }

    /// The first message that a receive would get at once: its sender, what it bears, and its
    /// bytes.
    pub fn peek(&self, wanted: Wanted) -> Option<(Peer, Label, usize)> {
        let (peer, label, len) = self.look().transfer.peek(&wanted.selector())?;
        Some((Peer(peer), label, len))
    }

    /// Starts receiving the message that [`peek`](Self::peek) finds, and returns what that does.
    /// `memory` makes the memory, given the message's bytes. `None` if there is no such message;
    /// then no receive is started.
    ///
    /// # Panics
    /// If `memory` uses this endpoint: the message might be gone then.
    pub fn start_recv_found<M: Into<Memory>>(
        &self,
        wanted: Wanted,
        memory: impl FnOnce(usize) -> M,
    ) -> Result<Option<(OpId, Peer, Label, usize)>, OperationError> {
        let (wanted, memory) = (wanted.selector(), |len| memory(len).into());
        let mut engine = self.engine();
        let found = engine.operations().receive_found(wanted, memory)?;
        if found.is_none() {
            engine.look(8);
        }
        Ok(found.map(|(id, peer, label, len)| (id, Peer(peer), label, len)))
    }

    /// Cancels a receive that no message was matched with, or a message of which nothing was sent;
    /// a receive of several messages takes no further ones. False if it is too late or the
    /// operation has ended. The operation has its completion in any case.
    pub fn cancel(&self, id: OpId) -> bool {
        self.engine().operations().cancel(id)
    }

    /// Cancels all operations that write to memory of the program, however far they are: receives,
    /// reads and atomic changes. Nothing is written there any more; the completions are there when
    /// this returns.
    pub fn cancel_incoming(&self) {
        self.engine().operations().cancel_incoming();
    }
}

/// # Registered memory
///
/// Peers read, write and change it by operations of theirs, without a call of this program.
impl Endpoint {
    /// Lets peers that know its key use a memory. With [`Progress::Auto`](crate::Progress::Auto)
    /// they can at any time, else while this program makes calls that make progress.
    ///
    /// A [`SharedBuffer`](crate::SharedBuffer) is also mapped by neighbours
    /// ([`Options::local`](crate::Options::local)) that use it, each at most 128 of one endpoint.
    /// Then a read or write of theirs is one copy by them, at any time and without this endpoint.
    /// With [`Rights::ATOMIC`], writes still come in frames, so that nothing comes between reading
    /// and writing a number. That does not hold for bytes that are also registered without this
    /// right: a write to them may come in between.
    pub fn register(
        &self,
        memory: impl Into<Memory>,
        rights: Rights,
    ) -> Result<RegionKey, OperationError> {
        let mut engine = self.engine();
        let key = engine.operations().register(memory.into(), rights)?;
        engine.lend(key, rights);
        Ok(key)
    }

    /// The same under a key of the program's choice, which any peer may guess. The memory comes
    /// back, too, if another is registered under this key.
    pub fn register_as(
        &self,
        key: RegionKey,
        memory: impl Into<Memory>,
        rights: Rights,
    ) -> Result<(), OperationError> {
        let mut engine = self.engine();
        engine.operations().register_as(key, memory.into(), rights)?;
        engine.lend(key, rights);
        Ok(())
    }

    /// Takes a registered memory back at once: what peers do with it from now on is refused. Also
    /// returns the last number of [`region_writes`](Self::region_writes). `None` if no memory is
    /// registered under this key.
    ///
    /// Of a [`SharedBuffer`](crate::SharedBuffer): waits while a neighbour copies, usually some
    /// 0.1 ms, and as long as the neighbour is stopped in the middle of that. Dropping the endpoint
    /// does so, too.
    pub fn deregister(&self, key: RegionKey) -> Option<(Memory, u64)> {
        self.engine().deregister(key)
    }

    /// Copies bytes out of a registered memory; false if no memory is registered under the key, or
    /// the bytes are not all in it.
    pub fn read_region(&self, key: RegionKey, offset: usize, out: &mut [u8]) -> bool {
        let engine = self.look();
        match engine.transfer.region(key) {
            Some(memory) if within(memory, offset, out.len()) => {
                memory.read(offset, out);
                true
            }
            _ => false,
        }
    }

    /// Looks at a registered memory where it is; `None` if no memory is registered under the key,
    /// or the memory is not the program's own bytes ([`Memory::Vec`]). The peers get no answer
    /// while `look` runs. If it takes longer than milliseconds, copy the bytes
    /// ([`read_region`](Self::read_region)) and compute with the copy.
    ///
    /// # Panics
    /// If `look` uses this endpoint: others might write there then.
    pub fn with_region<R>(&self, key: RegionKey, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match self.look().transfer.region(key)? {
            Memory::Vec(bytes) => Some(look(bytes)),
            Memory::Shared(_) | Memory::Other(_) => None,
        }
    }

    /// Copies bytes into a registered memory; false if no memory is registered under the key, or
    /// the bytes do not all fit.
    pub fn write_region(&self, key: RegionKey, offset: usize, bytes: &[u8]) -> bool {
        let mut engine = self.look();
        match engine.transfer.region_mut(key) {
            Some(memory) if within(memory, offset, bytes.len()) => {
                memory.write(offset, bytes);
                true
            }
            _ => false,
        }
    }

    /// How many writes and atomic changes of peers in a registered memory were completed. Those of
    /// neighbours that have mapped the memory are counted by the neighbours.
    pub fn region_writes(&self, key: RegionKey) -> Option<u64> {
        self.look().region_writes(key)
    }

    /// How often peers have used registered memories since the endpoint was opened. Some loads.
    /// While a [`SharedBuffer`](crate::SharedBuffer) is registered, also a look at 128 places for
    /// each neighbour that has ever asked for one, and two loads for each that it has mapped.
    pub fn accesses(&self) -> Accesses {
        self.look().accesses()
    }
}

/// # Completions and notices
///
/// `try_...` makes progress and never waits. `take_...` makes none, except that every 64th call
/// that finds nothing is a poll. The others wait as the endpoint's waiting style says.
impl Endpoint {
    /// Operations whose completion the program has not taken: with
    /// [`Progress::Auto`](crate::Progress::Auto) they end at any time. Of a receive of several
    /// messages each completion that waits counts, too.
    pub fn outstanding(&self) -> usize {
        self.look().outstanding()
    }

    /// The next operation that has ended, or `None` if none has. Makes progress.
    pub fn try_completion(&self) -> Result<Option<Completion>, RecvError> {
        let mut engine = self.engine();
        let mut ended = engine.transfer.poll_completion();
        if ended.is_none() && !engine.is_idle() {
            engine.progress()?;
            ended = engine.transfer.poll_completion();
            if ended.is_none() {
                // What was acknowledged ends operations, too; what has arrived is waited for more.
                engine.reap();
                ended = engine.transfer.poll_completion();
            }
        }
        Ok(ended.map(Completion::from))
    }

    /// Whether [`try_completion`](Self::try_completion) would find nothing: no operation has
    /// ended, nothing has arrived and nothing is due. Makes no progress. Some loads; a program that
    /// spins calls this before anything else. Every 64th call in a row says no, so that the next
    /// call reads the clock.
    #[inline]
    pub fn is_idle(&self) -> bool {
        let mut engine = self.engine();
        !engine.transfer.has_ended() && engine.is_idle()
    }

    /// The next operation that is known to have ended: after
    /// [`try_completion`](Self::try_completion) the rest of what that look has brought.
    pub fn take_completion(&self) -> Option<Completion> {
        self.take(|engine| engine.transfer.poll_completion()).map(Completion::from)
    }

    /// While this is on, peers cause no further completions of their own accord: receives of
    /// several messages take no more. What has begun goes on, and so do all other operations. But
    /// behind a message that waits for such a receive, the later ones of its sender wait, tagged or
    /// untagged as it is. This is for a program that takes completions and keeps them for another
    /// part of it, which may be slow. Such a program takes no notices in that time, so their
    /// writers wait; they are no reason for a wait to end. Off at first.
    pub fn hold_back(&self, on: bool) {
        self.engine().operations().hold_back(on);
    }

    /// The next operation that has ended; waits for it as the endpoint's waiting style says. `None`
    /// if no operation is [outstanding](Self::outstanding).
    pub fn completion(&self) -> Result<Option<Completion>, RecvError> {
        self.completion_until(None)
    }

    /// The next operation that has ended, or `None` after `timeout` or if no operation is
    /// [outstanding](Self::outstanding).
    pub fn completion_timeout(&self, timeout: Duration) -> Result<Option<Completion>, RecvError> {
        self.completion_until(Some(Instant::now() + timeout))
    }

    fn completion_until(&self, end: Option<Instant>) -> Result<Option<Completion>, RecvError> {
        let mut pause = Pause::default();
        loop {
            if let Some(completion) = self.try_completion()? {
                pause.end(self);
                return Ok(Some(completion));
            }
            // Not a look: it could take in what the wait is for.
            if self.engine().outstanding() == 0 || !pause.pass(self, end)? {
                return Ok(None);
            }
        }
    }

    /// The next notice of a write into a registered memory, or `None` if none has come. Makes
    /// progress.
    pub fn try_notice(&self) -> Result<Option<Notice>, RecvError> {
        let mut engine = self.engine();
        let mut notice = engine.take_notice();
        if notice.is_none() && !engine.is_idle() {
            engine.send_and_progress()?;
            notice = engine.take_notice();
        } else if notice.is_some() {
            // Many may wait, and peers wait for their answers.
            engine.look(1);
        }
        Ok(notice.map(Notice::from))
    }

    /// The next notice that has come.
    pub fn take_notice(&self) -> Option<Notice> {
        self.take(|engine| engine.take_notice()).map(Notice::from)
    }

    /// The next notice, or `None` after `timeout`.
    pub fn notice_timeout(&self, timeout: Duration) -> Result<Option<Notice>, RecvError> {
        let end = Instant::now() + timeout;
        let mut pause = Pause::default();
        loop {
            if let Some(notice) = self.try_notice()? {
                pause.end(self);
                return Ok(Some(notice));
            }
            if !pause.pass(self, Some(end))? {
                return Ok(None);
            }
        }
    }
}

/// What is done to one number of 64 bits.
fn word(action: Action) -> Change {
    Change::new(action, Number::U64, 1, true).expect("there is such a change")
}

fn within(memory: &Memory, offset: usize, len: usize) -> bool {
    offset.checked_add(len).is_some_and(|end| end <= Bytes::len(memory))
}
