//! The state behind the lock of an endpoint: the library's endpoint, the program's settings, and
//! one part for each concern.
//!
//! | part | what it keeps |
//! |---|---|
//! | `peers` | peers by their numbers in the address vector |
//! | `operations` | operations that are going on, and spare requests |
//! | `receives` | receives of several messages, and claimed messages |
//! | `burst` | when the doorbell rings |
//! | `reports` | queues and counters |
//! | `remote` | memory that peers may use, and what they do with it |
//!
//! Operations start here, and this file polls the library; `finish.rs` ends operations.

mod burst;
mod finish;
mod operations;
mod peers;
pub(crate) mod receives;
mod remote;
mod reports;

use crate::address::UNSPECIFIED;
use crate::completions::{CompletionEntry, ReadArray};
use crate::count::Count;
use crate::error::{Code, OfiResult};
use crate::provider::{INJECT_SIZE, MOST_SENDS};
use crate::request::{Call, IoVecs, Request, RequestKind, class};
use crate::state::burst::Burst;
use crate::state::operations::CancellableOperations;
use crate::state::peers::Peers;
use crate::state::receives::{Claimed, Receives};
use crate::state::remote::Remote;
use crate::state::reports::Reports;
use crate::sys::{self, iovec};
use gigae::{
    Completion, Endpoint, Label, Memory, OpId, OperationError, Peer, RegionKey, Rights, Wanted,
};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

/// Completions taken per poll, so the poll of one thread ends while others cause new ones.
const BATCH: usize = 256;

/// Entries of the queue for receives from which on peers cause no more, until half as many are
/// left. A peer would otherwise fill the memory of a program that does not read this queue: with
/// empty messages for a receive of several, or with writes that bring remote data.
///
/// Completions of the library are still taken then, so sends end in a queue that is read. In
/// return the queue gets what the library has at that moment, too: its completions of receives of
/// several (bound B10 of SECURITY.md). Messages that come later wait, at their senders if there are
/// many. Notices stay in the library, so the writers of many remote data wait, too (B5).
pub(crate) const MOST_UNREAD: usize = 16_384;

/// Longest message in bytes that goes straight into a frame of the link while others wait for the
/// doorbell.
const MOST_IN_BURST: usize = 256;

/// Polls after which plain messages are dropped. Only other programs send them, and they would hold
/// back operations of the same peer.
const SWEEP_EVERY: u32 = 256;

/// The program's settings.
#[derive(Default)]
pub(crate) struct ProgramSettings {
    pub(crate) enabled: bool,
    /// Flags of operations without flags of their own.
    pub(crate) tx_flags: u64,
    pub(crate) rx_flags: u64,
    /// Whether a receive's source matters.
    pub(crate) directed: bool,
}

/// See the module's description.
pub(crate) struct EndpointState {
    pub(crate) endpoint: Endpoint,
    pub(crate) choice: ProgramSettings,
    pub(crate) peers: Peers,
    pub(crate) operations: CancellableOperations,
    pub(crate) receives: Receives,
    pub(crate) reports: Reports,
    pub(crate) remote: Remote,
    burst: Burst,
    polls: u32,
    /// Peers cause no more entries.
    held: bool,
}

impl EndpointState {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            choice: ProgramSettings::default(),
            peers: Peers::default(),
            operations: CancellableOperations::default(),
            receives: Receives::new(),
            reports: Reports::default(),
            remote: Remote::default(),
            burst: Burst::default(),
            polls: 0,
            held: false,
        }
    }

    fn enabled(&self) -> OfiResult<()> {
        if self.choice.enabled { Ok(()) } else { Err(Code::BAD_STATE) }
    }

    /// The peer with a number in the vector.
    pub(crate) fn peer(&mut self, number: u64) -> OfiResult<Peer> {
        self.enabled()?;
        self.peers.peer(&self.endpoint, number)
    }

    /// The number of a peer in the vector.
    pub(crate) fn number(&mut self, peer: Peer) -> u64 {
        self.peers.number(&self.endpoint, peer)
    }

    /// A request for an operation with this memory.
    ///
    /// # Safety
    /// As many pieces as it says, of memory that stays until the operation is completed.
    pub(crate) unsafe fn request(
        &mut self,
        kind: RequestKind,
        call: Call,
        memory: IoVecs,
    ) -> OfiResult<Box<Request>> {
        self.enabled()?;
        let mut request = self.operations.spare();
        // SAFETY: the caller's promise.
        if let Err(code) = unsafe { request.set_memory(memory) } {
            self.operations.put_back(request);
            return Err(code);
        }
        request.kind = kind;
        request.context = call.context;
        request.reported = !call.silent;
        request.early = false;
        request.flags = 0;
        Ok(request)
    }

    /// Puts a short message into a frame if nothing prevents it, and reports it without a request.
    /// Returns whether it did. The doorbell is the caller's.
    ///
    /// # Safety
    /// As for [`request`](Self::request).
    pub(crate) unsafe fn inject(
        &mut self,
        peer: Peer,
        label: Label,
        call: Call,
        memory: IoVecs,
    ) -> bool {
        if memory.count != 1 || !RequestKind::Send.is_early(call.flags) {
            return false;
        }
        // SAFETY: the caller's promise.
        let iovec { iov_base, iov_len } = unsafe { memory.list.read() };
        // In a burst, longer ones are better off as operations: many of them are bulk data.
        let most = if self.burst.waits() { MOST_IN_BURST } else { INJECT_SIZE };
        if iov_len > most || iov_base.is_null() {
            return false;
        }
        // SAFETY: the caller's promise, as above; nothing writes there while the operation is
        // started.
        let message = unsafe { std::slice::from_raw_parts(iov_base.cast::<u8>(), iov_len) };
        if !self.endpoint.inject(peer, label, message) {
            return false;
        }
        self.burst.add(iov_len);
        self.reports.count(sys::FI_SEND, true);
        let wanted = self.reports.wants_tx(call.flags);
        if let (true, false, Some(queue)) = (wanted, call.silent, &self.reports.tx) {
            let (context, flags) = (call.context, sys::FI_SEND | class(label.untagged));
            queue.push(CompletionEntry { context, flags, len: iov_len, ..CompletionEntry::NONE });
        }
        true
    }

    /// A request for an operation that a peer must answer; refuses too many at once. Copies the
    /// data to send if the call says so.
    ///
    /// # Safety
    /// As for [`request`](Self::request).
    pub(crate) unsafe fn outgoing(
        &mut self,
        kind: RequestKind,
        call: Call,
        flags: u64,
        memory: IoVecs,
    ) -> OfiResult<Box<Request>> {
        if self.operations.outgoing >= MOST_SENDS {
            self.progress(&mut ReadArray::none())?;
            return Err(Code::AGAIN);
        }
        // SAFETY: the caller's promise.
        let mut request = unsafe { self.request(kind, call, memory)? };
        request.flags = flags;
        let wanted = self.reports.wants_tx(call.flags);
        request.reported &= wanted && self.reports.tx.is_some();
        let len = gigae::Bytes::len(&*request);
        if call.flags & sys::FI_INJECT != 0 {
            if len > INJECT_SIZE {
                self.operations.put_back(request);
                return Err(Code::TOO_LONG);
            }
            request.copy();
        } else {
            request.early = kind.is_early(call.flags) && self.operations.copy(&mut request);
        }
        self.operations.outgoing += 1;
        Ok(request)
    }

    /// Hands a request to the library. `start` starts the operation.
    pub(crate) fn start(
        &mut self,
        mut request: Box<Request>,
        start: impl FnOnce(&Endpoint, Memory) -> Result<OpId, OperationError>,
    ) -> OfiResult<()> {
        let slot = self.operations.enter();
        self.burst.add(gigae::Bytes::len(&*request));
        request.slot = slot;
        let early = early_entry(&mut request);
        let (kind, context) = (request.kind, request.context);
        let several = (kind == RequestKind::MultiReceive).then(|| request.receiver());
        match start(&self.endpoint, request.into_memory()) {
            Ok(op) => {
                if let Some(receiver) = several {
                    self.enter_several(op, receiver);
                }
                self.operations.started(slot, op, kind, context);
                if let (Some(entry), Some(queue)) = (early, &self.reports.tx) {
                    queue.push(entry);
                }
                Ok(())
            }
            Err(error) => Err(self.not_started(slot, error)),
        }
    }

    /// The library refused the request that it was just handed.
    fn not_started(&mut self, slot: u32, OperationError(memory): OperationError) -> Code {
        // SAFETY: the memory is that request's.
        let request = memory.and_then(|memory| unsafe { Request::from_memory(memory) });
        if let Some(request) = request {
            self.operations.give_back(request);
        }
        self.operations.leave(slot);
        Code::AGAIN
    }

    /// Starts receiving the message that the library would give a receive at once, if there is one.
    /// It is kept in the request's own memory, or discarded. One look at the library: the thread
    /// may end the message's session between two.
    pub(crate) fn start_claim(
        &mut self,
        wanted: Wanted,
        call: Call,
        keep: bool,
    ) -> OfiResult<Option<(Peer, Label, usize)>> {
        let none = IoVecs::new(std::ptr::null(), 0);
        // SAFETY: the request has no memory.
        let mut request = unsafe { self.request(RequestKind::Claim, call, none)? };
        let slot = self.operations.enter();
        request.slot = slot;
        let mut unused = Some(request);
        let found = self.endpoint.start_recv_found(wanted, |len| {
            let mut request = unused.take().expect("there is one message");
            if keep {
                request.expect(len);
            }
            request.into_memory()
        });
        match found {
            Ok(Some((op, peer, label, len))) => {
                self.operations.started(slot, op, RequestKind::Claim, call.context);
                if keep {
                    let claim = (slot, Claimed::Arriving);
                    self.receives.claims.insert(call.context.addr(), claim);
                }
                Ok(Some((peer, label, len)))
            }
            Ok(None) => {
                self.operations.leave(slot);
                if let Some(request) = unused {
                    self.operations.give_back(request);
                }
                Ok(None)
            }
            Err(error) => Err(self.not_started(slot, error)),
        }
    }

    /// Sends what was started, unless more is about to come. The operation was accepted, and its
    /// completion comes: the next poll reports an error of the doorbell.
    pub(crate) fn send_off(&mut self, flags: u64) {
        if flags & sys::FI_MORE != 0 {
            return;
        }
        // Only a reader of a queue says that the program asks for progress.
        if let Some(queue) = &self.reports.tx
            && self.burst.may_wait(Instant::now)
        {
            queue.expect_read();
            return;
        }
        let _ = self.endpoint.ring();
        if self.burst.rung(Instant::now()) {
            let _ = self.endpoint.acknowledge();
        }
    }

    /// Sends acknowledgements that have waited too long: the program posts a receive. Errors are
    /// reported by the next poll.
    #[inline]
    pub(crate) fn acknowledge_late(&mut self) {
        if self.burst.overdue(Instant::now) {
            let _ = self.endpoint.acknowledge();
        }
    }

    /// Sends what waits for that: the program asks for progress. Errors are reported by the poll
    /// that follows.
    fn ring_late(&mut self) {
        if self.burst.polled(Instant::now) {
            let _ = self.endpoint.ring();
        }
        if self.burst.owed(Instant::now) {
            let _ = self.endpoint.acknowledge();
        }
    }

    /// The peer whose messages a receive takes.
    pub(crate) fn source(&mut self, number: u64) -> OfiResult<Option<Peer>> {
        self.enabled()?;
        if !self.choice.directed || number == UNSPECIFIED {
            return Ok(None);
        }
        self.peer(number).map(Some)
    }

    /// Cancels the first receive with a context, if it is not too late.
    pub(crate) fn cancel(&mut self, context: *mut c_void) -> OfiResult<()> {
        // Takes ended operations first: their numbers are not valid any more.
        while self.look(&mut ReadArray::none())? == BATCH {}
        let op = self.operations.receive(context).ok_or(Code::NO_ENTRY)?;
        if !self.endpoint.cancel(op) {
            return Err(Code::NO_ENTRY);
        }
        self.look(&mut ReadArray::none()).map(drop)
    }

    /// Cancels everything that would write to the program's memory, without a poll of the link.
    /// From then on nothing is reported, and the library ends what was to be sent.
    pub(crate) fn detach(&mut self) {
        self.endpoint.cancel_incoming();
        while let Some(completion) = self.endpoint.take_completion() {
            self.finish(completion, &mut ReadArray::none());
        }
        self.count_remote();
        while self.report_notice(&mut ReadArray::none()) {}
        self.receives.claims.clear();
        (self.choice, self.reports) = (ProgramSettings::default(), Reports::default());
        self.peers.vector = None;
        self.remote.accesses = None;
    }

    /// Whether there is nothing to do: the empty poll of a program that waits.
    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.burst.is_over() && !self.held && !self.remote.may_notify && self.endpoint.is_idle()
    }

    /// Takes in what has arrived and reports ended operations.
    #[inline(always)]
    pub(crate) fn progress(&mut self, array: &mut ReadArray<'_>) -> OfiResult<()> {
        if self.is_idle() { Ok(()) } else { self.progress_busy(array) }
    }

    #[inline(never)]
    fn progress_busy(&mut self, array: &mut ReadArray<'_>) -> OfiResult<()> {
        array.note_work();
        self.ring_late();
        self.look(array)?;
        if self.remote.may_notify {
            self.look_for_accesses(array);
        }
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(SWEEP_EVERY) {
            self.sweep();
        }
        Ok(())
    }

    /// Counts and reports what peers have done with memory here.
    fn look_for_accesses(&mut self, array: &mut ReadArray<'_>) {
        self.count_remote();
        while !self.held && self.report_notice(array) {
            self.hold_back();
        }
    }

    #[cold]
    fn sweep(&mut self) {
        while let Ok(Some(message)) = self.endpoint.try_recv() {
            drop(message);
        }
    }

    /// Takes completions of the library. Returns how many.
    #[inline]
    fn look(&mut self, array: &mut ReadArray<'_>) -> OfiResult<usize> {
        // One poll of the link. Further completions that it brought are taken without another poll.
        let count = match self.endpoint.try_completion()? {
            Some(first) => self.finish_all(first, array),
            None => 0,
        };
        if count > 0 || self.held {
            self.hold_back();
        }
        if std::mem::take(&mut self.receives.awaited) && !self.burst.may_owe(Instant::now) {
            self.endpoint.acknowledge()?;
        }
        Ok(count)
    }

    /// Ends this operation, and those that the same poll ended.
    fn finish_all(&mut self, first: Completion, array: &mut ReadArray<'_>) -> usize {
        let (mut count, mut next) = (0, Some(first));
        while let Some(completion) = next {
            self.finish(completion, array);
            count += 1;
            next = if count < BATCH { self.endpoint.take_completion() } else { None };
        }
        count
    }

    /// Holds peers back once the queue for receives is full, until half of that is left. So a
    /// program that reads slowly does not change it with each entry.
    fn hold_back(&mut self) {
        let unread = self.reports.rx.as_ref().map_or(0, |queue| queue.len());
        let on = if self.held { unread > MOST_UNREAD / 2 } else { unread >= MOST_UNREAD };
        if on != self.held {
            self.held = on;
            self.endpoint.hold_back(on);
        }
    }

    /// Registers memory for peers, under this key or one that the library chooses.
    pub(crate) fn register(
        &mut self,
        key: Option<RegionKey>,
        memory: Memory,
        rights: Rights,
    ) -> OfiResult<RegionKey> {
        let key = match key {
            None => self.endpoint.register(memory, rights)?,
            Some(key) => {
                self.endpoint.register_as(key, memory, rights)?;
                key
            }
        };
        self.remote.regions += 1;
        self.remote.may_notify = true;
        Ok(key)
    }

    /// Deregisters it, and counts what peers did with it. Notices of its writes come with the next
    /// polls.
    pub(crate) fn deregister(&mut self, key: RegionKey) {
        self.remote.regions -= 1;
        if let Some((_, writes)) = self.endpoint.deregister(key) {
            self.remote.unwatch(key, writes);
        }
        self.count_remote();
    }

    /// From now on counts what peers do with memory here, also by a counter that is about to be
    /// bound.
    pub(crate) fn count_accesses(&mut self) {
        self.count_remote();
        self.remote.accesses.get_or_insert_with(|| self.endpoint.accesses());
    }

    /// Counts what peers write into a memory.
    pub(crate) fn watch(&mut self, key: RegionKey, counter: &Arc<Count>) {
        self.remote.watch(&self.endpoint, key, counter);
    }

    /// Whether the endpoint counts something by this counter.
    pub(crate) fn is_counted_by(&self, counter: &Arc<Count>) -> bool {
        let mut bound = self.reports.counters.iter();
        bound.any(|(_, bound)| Arc::ptr_eq(bound, counter)) || self.remote.is_counted_by(counter)
    }

    /// Counts what peers have done with memory here since the last poll.
    pub(crate) fn count_remote(&mut self) {
        self.remote.count(&self.endpoint, &self.reports);
    }

    /// Reports the remote data of one write. False if there are no more.
    fn report_notice(&mut self, array: &mut ReadArray<'_>) -> bool {
        let Some(notice) = self.endpoint.take_notice() else {
            self.remote.may_notify = self.remote.regions > 0;
            return false;
        };
        let source = self.number(notice.peer);
        if let Some(queue) = &self.reports.rx {
            let flags = sys::FI_RMA | sys::FI_REMOTE_WRITE | sys::FI_REMOTE_CQ_DATA;
            let (len, data) = (notice.len as usize, notice.value);
            let entry = CompletionEntry { flags, len, data, source, ..CompletionEntry::NONE };
            array.report(queue, entry);
        }
        true
    }
}

/// The completion for a caller whose data were copied and that does not care whether they have
/// arrived, once the operation was started.
fn early_entry(request: &mut Request) -> Option<CompletionEntry> {
    if !std::mem::take(&mut request.early) {
        return None;
    }
    let (reported, len) = (std::mem::take(&mut request.reported), gigae::Bytes::len(request));
    let (context, flags) = (request.context, request.flags);
    // The program may use it for something else by the time this fails.
    request.context = null_mut();
    reported.then_some(CompletionEntry { context, flags, len, ..CompletionEntry::NONE })
}
