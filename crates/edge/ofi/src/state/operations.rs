//! The operations of an endpoint that are in progress, and spare requests.

use crate::provider::{COPIED_SIZE, INJECT_SIZE, MOST_COPIES};
use crate::request::{Request, RequestKind};
use gigae::OpId;
use std::ffi::c_void;

/// An operation that can be cancelled.
#[derive(Clone, Copy)]
struct CancellableOperation {
    op: OpId,
    context: *mut c_void,
    receives: bool,
}

// SAFETY: the context is only compared.
unsafe impl Send for CancellableOperation {}

/// See the module's description.
#[derive(Default)]
pub(crate) struct CancellableOperations {
    live: Vec<Option<CancellableOperation>>,
    /// Free slots among them.
    free: Vec<u32>,
    #[expect(clippy::vec_box, reason = "the boxes move between here and the library")]
    spare: Vec<Box<Request>>,
    /// Memory for long copies, that which was used last at the end, and how many requests have
    /// such.
    copies: Vec<Vec<u8>>,
    copies_lent: usize,
    /// Sends and accesses to remote memory.
    pub(crate) outgoing: usize,
}

impl CancellableOperations {
    /// A spare request, or a new one.
    pub(crate) fn spare(&mut self) -> Box<Request> {
        self.spare.pop().unwrap_or_else(Request::new)
    }

    /// Copies a request's data if they are short enough. False if they stay where they are.
    pub(crate) fn copy(&mut self, request: &mut Request) -> bool {
        let len = gigae::Bytes::len(request);
        if len > INJECT_SIZE {
            if len > COPIED_SIZE || self.copies_lent == MOST_COPIES {
                return false;
            }
            self.copies_lent += 1;
            request.borrow(self.copies.pop().unwrap_or_default());
        }
        request.copy();
        true
    }

    /// Takes back a request whose operation has ended.
    pub(crate) fn put_back(&mut self, mut request: Box<Request>) {
        if let Some(memory) = request.give_borrowed() {
            self.copies_lent -= 1;
            self.copies.push(memory);
        }
        self.spare.push(request);
    }

    /// Takes back a request that was never started.
    pub(crate) fn give_back(&mut self, request: Box<Request>) {
        self.outgoing -= usize::from(request.kind.is_outgoing());
        self.put_back(request);
    }

    /// A slot for an operation that is about to start.
    pub(crate) fn enter(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.live.push(None);
            self.live.len() as u32 - 1
        })
    }

    /// The operation was started.
    pub(crate) fn started(&mut self, slot: u32, op: OpId, kind: RequestKind, context: *mut c_void) {
        let receives = matches!(kind, RequestKind::Receive | RequestKind::MultiReceive);
        self.live[slot as usize] = Some(CancellableOperation { op, context, receives });
    }

    /// The operation was not started, or has ended.
    pub(crate) fn leave(&mut self, slot: u32) {
        self.live[slot as usize] = None;
        self.free.push(slot);
    }

    /// The first receive with a context.
    pub(crate) fn receive(&self, context: *mut c_void) -> Option<OpId> {
        let fits = |live: &&CancellableOperation| live.receives && live.context == context;
        self.live.iter().flatten().find(fits).map(|live| live.op)
    }
}
