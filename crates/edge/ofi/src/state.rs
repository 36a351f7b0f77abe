//! What the lock of an endpoint guards: the library's endpoint, what reports to whom, and the operations
//! that are going on.

use crate::accesses::Watched;
use crate::address::{NOT_AVAILABLE, UNSPECIFIED};
use crate::av::Vector;
use crate::counter::Counter;
use crate::cq::{Entry, Queue};
use crate::error::{Code, Outcome};
use crate::mr::Region;
use crate::report::{Claimed, Receiver};
use crate::request::{Kind, Request};
use crate::sys::{self, iovec};
use gigae::{Accesses, Endpoint, Label, Memory, OpId, OperationError, Peer};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

/// Sends and accesses to remote memory that may be going on; further ones are told to come again. Less
/// than the uses after which the library uses an operation's number again.
pub(crate) const MOST_SENDS: usize = 2048;

/// Completions taken per look, so that a look of one thread ends while others cause new ones.
const BATCH: usize = 256;

/// Looks after which plain messages, which only other programs send, are thrown away: they would
/// hold operations of the same peer back.
const SWEEP_EVERY: u32 = 256;

/// Bytes that must be left of a memory for several messages, unless the caller says otherwise.
const LEAST_LEFT: usize = 64;

/// What an endpoint reports to, and how.
#[derive(Default)]
pub(crate) struct Binding {
    pub(crate) enabled: bool,
    pub(crate) vector: Option<Arc<Vector>>,
    pub(crate) tx: Option<Arc<Queue>>,
    pub(crate) rx: Option<Arc<Queue>>,
    /// Only operations that ask for it are reported.
    pub(crate) tx_selective: bool,
    pub(crate) rx_selective: bool,
    /// By what they count.
    pub(crate) counters: Vec<(u64, Arc<Counter>)>,
    /// Flags of operations that bring none.
    pub(crate) tx_flags: u64,
    pub(crate) rx_flags: u64,
    /// A receive's source matters.
    pub(crate) directed: bool,
    /// Memories that were bound, and are not closed before the endpoint.
    pub(crate) regions: Vec<Arc<Region>>,
    /// What peers had done with memory here when it was last counted, if a counter is bound for that.
    pub(crate) accesses: Option<Accesses>,
}

/// An operation that can be cancelled.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    op: OpId,
    context: *mut c_void,
    receives: bool,
}

// SAFETY: the context is only compared.
unsafe impl Send for Live {}

/// What is guarded.
pub(crate) struct State {
    pub(crate) endpoint: Endpoint,
    pub(crate) binding: Binding,
    /// Peers by their numbers in the vector, and the way back, as far as they were needed.
    peers: Vec<Option<Peer>>,
    numbers: HashMap<Peer, u64>,
    /// The one that was asked for last.
    last: Option<(Peer, u64)>,
    /// The vector's changes when `numbers` was right.
    known: u64,
    pub(crate) live: Vec<Option<Live>>,
    pub(crate) free: Vec<u32>,
    #[expect(clippy::vec_box, reason = "the boxes move between here and the library")]
    pub(crate) spare: Vec<Box<Request>>,
    /// Receives of several messages: their requests come back with the last one.
    pub(crate) several: HashMap<OpId, Receiver>,
    pub(crate) claims: HashMap<usize, Claimed>,
    /// Memories that peers may use.
    pub(crate) regions: usize,
    pub(crate) watched: Vec<Watched>,
    pub(crate) sends: usize,
    /// A message came whose sender waits for its acknowledgement.
    pub(crate) awaited: bool,
    pub(crate) least_left: usize,
    looks: u32,
}

/// What an operation is started with besides its memory.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) context: *mut c_void,
    /// Flags of the operation.
    pub(crate) flags: u64,
    /// It is reported only if it fails.
    pub(crate) silent: bool,
}

impl Call {
    pub(crate) fn new(context: *mut c_void, flags: u64) -> Self {
        Self { context, flags, silent: false }
    }

    pub(crate) fn silent(flags: u64) -> Self {
        Self { context: null_mut(), flags: flags | sys::FI_INJECT, silent: true }
    }
}

/// Longest data that are copied when they are handed over, in bytes. More would cost more than waiting.
pub(crate) const INJECT_SIZE: usize = 4096;

impl State {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            binding: Binding::default(),
            peers: Vec::new(),
            numbers: HashMap::new(),
            last: None,
            known: 0,
            live: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            several: HashMap::new(),
            claims: HashMap::new(),
            regions: 0,
            watched: Vec::new(),
            sends: 0,
            awaited: false,
            least_left: LEAST_LEFT,
            looks: 0,
        }
    }

    fn bound(&self) -> Outcome<()> {
        if self.binding.enabled { Ok(()) } else { Err(Code::BAD_STATE) }
    }

    /// The peer with a number in the vector.
    pub(crate) fn peer(&mut self, number: u64) -> Outcome<Peer> {
        self.bound()?;
        self.refresh();
        let at = usize::try_from(number).map_err(|_| Code::INVALID)?;
        if let Some(Some(peer)) = self.peers.get(at) {
            return Ok(*peer);
        }
        let vector = self.binding.vector.as_ref().ok_or(Code::NO_AV)?;
        let address = vector.address(number).ok_or(Code::INVALID)?;
        let peer = self.endpoint.peer(address)?;
        if self.peers.len() <= at {
            self.peers.resize(at + 1, None);
        }
        self.peers[at] = Some(peer);
        Ok(peer)
    }

    /// Forgets what was known of the vector if it has changed.
    fn refresh(&mut self) {
        let changes = self.binding.vector.as_ref().map_or(0, |vector| vector.changes());
        if changes != self.known {
            self.known = changes;
            self.numbers.clear();
            self.last = None;
            self.peers.clear();
        }
    }

    /// The number of a peer in the vector.
    pub(crate) fn number(&mut self, peer: Peer) -> u64 {
        self.refresh();
        let Some(vector) = &self.binding.vector else { return NOT_AVAILABLE };
        if let Some((last, number)) = self.last
            && last == peer
        {
            return number;
        }
        if let Some(&number) = self.numbers.get(&peer) {
            self.last = Some((peer, number));
            return number;
        }
        let number = vector.number(self.endpoint.address(peer)).unwrap_or(NOT_AVAILABLE);
        self.numbers.insert(peer, number);
        number
    }

    /// A request for an operation with this memory.
    ///
    /// # Safety
    /// `count` pieces of memory that stays until the operation is completed.
    pub(crate) unsafe fn request(
        &mut self,
        kind: Kind,
        call: Call,
        (pieces, count): (*const iovec, usize),
    ) -> Outcome<Box<Request>> {
        self.bound()?;
        let mut request = self.spare.pop().unwrap_or_else(Request::new);
        // SAFETY: the caller's promise.
        if let Err(code) = unsafe { request.lend(pieces, count) } {
            self.spare.push(request);
            return Err(code);
        }
        request.kind = kind;
        request.context = call.context;
        request.reported = !call.silent;
        request.early = false;
        request.flags = 0;
        Ok(request)
    }

    /// Sends a short message at once if nothing stands in its way, and reports it: no request is needed then.
    /// Whether that is so.
    ///
    /// # Safety
    /// As for [`request`](Self::request).
    pub(crate) unsafe fn inject(
        &mut self,
        (peer, label): (Peer, Label),
        call: Call,
        flags: u64,
        (pieces, count): (*const iovec, usize),
    ) -> bool {
        if count != 1 || call.flags & sys::FI_MORE != 0 || !is_early(Kind::Send, call.flags) {
            return false;
        }
        // SAFETY: the caller's promise.
        let iovec { iov_base, iov_len } = unsafe { pieces.read() };
        if iov_len > INJECT_SIZE || iov_base.is_null() {
            return false;
        }
        // SAFETY: likewise; nobody writes there while the operation is started.
        let message = unsafe { std::slice::from_raw_parts(iov_base.cast::<u8>(), iov_len) };
        if !self.endpoint.inject(peer, label, message) {
            return false;
        }
        self.count(sys::FI_SEND, true);
        let wanted = !self.binding.tx_selective || call.flags & sys::FI_COMPLETION != 0;
        if let (true, false, Some(queue)) = (wanted, call.silent, &self.binding.tx) {
            let context = call.context;
            queue.push(Entry { context, flags, len: iov_len, ..Entry::NONE });
        }
        true
    }

    /// A request for an operation that others have to answer: not too many at once. What it sends is
    /// copied if the call says so.
    ///
    /// # Safety
    /// As for [`request`](Self::request).
    pub(crate) unsafe fn outgoing(
        &mut self,
        kind: Kind,
        call: Call,
        flags: u64,
        memory: (*const iovec, usize),
    ) -> Outcome<Box<Request>> {
        if self.sends >= MOST_SENDS {
            self.progress()?;
            return Err(Code::AGAIN);
        }
        // SAFETY: the caller's promise.
        let mut request = unsafe { self.request(kind, call, memory)? };
        request.flags = flags;
        let wanted = !self.binding.tx_selective || call.flags & sys::FI_COMPLETION != 0;
        request.reported &= wanted && self.binding.tx.is_some();
        let len = gigae::Bytes::len(&*request);
        if call.flags & sys::FI_INJECT != 0 {
            if len > INJECT_SIZE {
                self.spare.push(request);
                return Err(Code::TOO_LONG);
            }
            request.copy();
        } else if is_early(kind, call.flags) && len <= INJECT_SIZE {
            request.copy();
            request.early = true;
        }
        self.sends += 1;
        Ok(request)
    }

    /// Hands a request to the library. `start` names the operation.
    pub(crate) fn start(
        &mut self,
        mut request: Box<Request>,
        start: impl FnOnce(&Endpoint, Memory) -> Result<OpId, OperationError>,
    ) -> Outcome<()> {
        let slot = self.enter();
        request.slot = slot;
        let early = early_entry(&mut request);
        let context = request.context;
        let receives = matches!(request.kind, Kind::Receive | Kind::Several);
        let several = (request.kind == Kind::Several).then(|| request.receiver());
        match start(&self.endpoint, request.into_memory()) {
            Ok(op) => {
                if let Some(receiver) = several {
                    self.several.insert(op, receiver);
                }
                self.live[slot as usize] = Some(Live { op, context, receives });
                if let (Some(entry), Some(queue)) = (early, &self.binding.tx) {
                    queue.push(entry);
                }
                Ok(())
            }
            Err(OperationError(memory)) => {
                // SAFETY: the memory is the request's that was just handed over.
                let request = memory.and_then(|memory| unsafe { Request::from_memory(memory) });
                if let Some(request) = request {
                    self.sends -= usize::from(is_outgoing(request.kind));
                    self.spare.push(request);
                }
                self.free.push(slot);
                Err(Code::AGAIN)
            }
        }
    }

    fn enter(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.live.push(None);
            self.live.len() as u32 - 1
        })
    }

    /// Gives a request that was never started back.
    pub(crate) fn give_back(&mut self, request: Box<Request>) {
        self.sends -= usize::from(is_outgoing(request.kind));
        self.spare.push(request);
    }

    /// What was started goes out, unless more is about to come. It was accepted, and its completion comes: an
    /// error of the doorbell is the next look's.
    pub(crate) fn send_off(&mut self, flags: u64) {
        if flags & sys::FI_MORE == 0 {
            let _ = self.endpoint.ring();
        }
    }

    /// Whom a receive wants messages from.
    pub(crate) fn source(&mut self, number: u64) -> Outcome<Option<Peer>> {
        self.bound()?;
        if !self.binding.directed || number == UNSPECIFIED {
            return Ok(None);
        }
        self.peer(number).map(Some)
    }

    /// Cancels the first receive with a context, if that is not too late.
    pub(crate) fn cancel(&mut self, context: *mut c_void) -> Outcome<()> {
        // The numbers of operations that have ended are nobody's.
        while self.look()? == BATCH {}
        let fits = |live: &&Live| live.receives && live.context == context;
        let op = self.live.iter().flatten().find(fits).ok_or(Code::NO_ENTRY)?.op;
        if !self.endpoint.cancel(op) {
            return Err(Code::NO_ENTRY);
        }
        self.look().map(drop)
    }

    /// Cancels what would write to the program's memory and says so, without a look at the link. From then on
    /// nothing is reported; what was to be sent is the library's to end.
    pub(crate) fn detach(&mut self) -> Binding {
        self.endpoint.cancel_incoming();
        while let Some(completion) = self.endpoint.take_completion() {
            self.finish(completion);
        }
        self.claims.clear();
        std::mem::take(&mut self.binding)
    }

    pub(crate) fn progress(&mut self) -> Outcome<()> {
        self.look()?;
        if self.regions > 0 {
            self.count_remote();
            while let Some(notice) = self.endpoint.take_notice() {
                let source = self.number(notice.peer);
                if let Some(queue) = &self.binding.rx {
                    let flags = sys::FI_RMA | sys::FI_REMOTE_WRITE | sys::FI_REMOTE_CQ_DATA;
                    let (len, data) = (notice.len as usize, notice.value);
                    queue.push(Entry { flags, len, data, source, ..Entry::NONE });
                }
            }
        }
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(SWEEP_EVERY) {
            while let Ok(Some(message)) = self.endpoint.try_recv() {
                drop(message);
            }
        }
        Ok(())
    }

    /// Takes completions of the library's; how many.
    fn look(&mut self) -> Outcome<usize> {
        // One look at the link: what else it brought is taken as it is.
        let (mut count, mut next) = (0, self.endpoint.try_completion()?);
        while let Some(completion) = next {
            self.finish(completion);
            count += 1;
            next = if count < BATCH { self.endpoint.take_completion() } else { None };
        }
        if std::mem::take(&mut self.awaited) {
            // The program may not call again for long.
            self.endpoint.prepare_to_wait()?;
        }
        Ok(count)
    }
}

fn is_outgoing(kind: Kind) -> bool {
    !matches!(kind, Kind::Receive | Kind::Several | Kind::Claim)
}

/// What a caller is told once the operation was started, if its data were copied and it does not care whether they
/// have arrived.
fn early_entry(request: &mut Request) -> Option<Entry> {
    if !std::mem::take(&mut request.early) {
        return None;
    }
    let (reported, len) = (std::mem::take(&mut request.reported), gigae::Bytes::len(request));
    let (context, flags) = (request.context, request.flags);
    // It may be used for something else by the time at which this fails.
    request.context = null_mut();
    reported.then_some(Entry { context, flags, len, ..Entry::NONE })
}

/// Whether it is enough for the caller that the memory can be used again. Of messages, that is so
/// unless the caller wants more: it would wait for an acknowledgement that a peer whose program has
/// what it wants, and does something else, does not send.
fn is_early(kind: Kind, flags: u64) -> bool {
    let later = flags & (sys::FI_TRANSMIT_COMPLETE | sys::FI_DELIVERY_COMPLETE) != 0;
    match kind {
        Kind::Send => !later,
        Kind::Write => !later && flags & sys::FI_INJECT_COMPLETE != 0,
        _ => false,
    }
}
