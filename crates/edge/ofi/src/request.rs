//! An operation's memory, and its completion for libfabric's caller.
//!
//! The library gets a request as the operation's [`Memory`] and returns it with the completion, so
//! no table connects the two. Requests are reused: operations allocate nothing once as many
//! requests exist as were ever in progress at once.

use crate::error::{Code, OfiResult};
use crate::provider::{MAX_OPERATION, MOST_PIECES};
use crate::sys::{self, iovec};
use gigae::{Bytes, Memory};
use std::ffi::c_void;
use std::ptr::null_mut;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Send,
    Receive,
    /// A receive of several messages into one memory.
    MultiReceive,
    /// A receive into its own memory, of a message that was claimed and will be fetched.
    Claim,
    Write,
    Read,
    /// An atomic change. The memory is for the former values; its own memory has the operands.
    Atomic,
}

impl RequestKind {
    /// Whether a peer must answer.
    pub(crate) fn is_outgoing(self) -> bool {
        !matches!(self, Self::Receive | Self::MultiReceive | Self::Claim)
    }

    /// Whether the operation is complete for the caller once its memory can be reused. For messages
    /// that is so unless the caller asks for more. Otherwise it would wait for an acknowledgement,
    /// which a peer whose program does something else does not send.
    pub(crate) fn is_early(self, flags: u64) -> bool {
        let later = flags & (sys::FI_TRANSMIT_COMPLETE | sys::FI_DELIVERY_COMPLETE) != 0;
        match self {
            Self::Send => !later,
            Self::Write => !later && flags & sys::FI_INJECT_COMPLETE != 0,
            _ => false,
        }
    }
}

/// Memory of an operation in C's form.
#[derive(Clone, Copy)]
pub(crate) struct IoVecs {
    pub(crate) list: *const iovec,
    pub(crate) count: usize,
}

impl IoVecs {
    pub(crate) fn new(list: *const iovec, count: usize) -> Self {
        Self { list, count }
    }
}

/// The arguments of an operation besides its memory.
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

/// The parts of a receive that its completions contain.
#[derive(Clone, Copy)]
pub(crate) struct ReceiveContext {
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) reported: bool,
    /// Where its memory begins.
    pub(crate) base: *mut c_void,
}

// SAFETY: the pointers are only handed back.
unsafe impl Send for ReceiveContext {}

/// See the module's description.
pub(crate) struct Request {
    pub(crate) kind: RequestKind,
    /// Its slot among the operations that can be cancelled.
    pub(crate) slot: u32,
    pub(crate) context: *mut c_void,
    /// Of its completion.
    pub(crate) flags: u64,
    /// Whether the caller wants to see a successful completion.
    pub(crate) reported: bool,
    /// Its data were copied, so it is complete for the caller as soon as it was started.
    pub(crate) early: bool,
    pieces: [iovec; MOST_PIECES],
    len: usize,
    /// A copy of the data, or its own memory.
    own: Vec<u8>,
    owned: bool,
    /// Its own memory while it has borrowed memory for a long copy.
    lender: Option<Vec<u8>>,
}

// SAFETY: the caller leaves the memory to the operation until it is completed, whatever thread
// makes the progress; the context is only returned.
unsafe impl Send for Request {}

const NO_PIECE: iovec = iovec { iov_base: null_mut(), iov_len: 0 };

impl Request {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            kind: RequestKind::Send,
            slot: 0,
            context: null_mut(),
            flags: 0,
            reported: false,
            early: false,
            pieces: [NO_PIECE; MOST_PIECES],
            len: 0,
            own: Vec::new(),
            owned: false,
            lender: None,
        })
    }

    /// Sets the memory of an operation.
    ///
    /// # Safety
    /// There are as many pieces as it says. Their memory stays and may be used until the operation
    /// is completed.
    pub(crate) unsafe fn set_memory(&mut self, pieces: IoVecs) -> OfiResult<()> {
        let IoVecs { list, count } = pieces;
        if count > MOST_PIECES || (list.is_null() && count > 0) {
            return Err(Code::INVALID);
        }
        self.owned = false;
        self.pieces = [NO_PIECE; MOST_PIECES];
        self.len = 0;
        for n in 0..count {
            // SAFETY: the caller's promise.
            let piece = unsafe { list.add(n).read() };
            let (base, len) = (piece.iov_base, piece.iov_len);
            if base.is_null() && len > 0 {
                return Err(Code::INVALID);
            }
            self.len = self
                .len
                .checked_add(len)
                .filter(|&len| len <= MAX_OPERATION)
                .ok_or(Code::TOO_LONG)?;
            self.pieces[n] = piece;
        }
        Ok(())
    }

    /// Another request for the same memory.
    pub(crate) fn again(&self) -> Box<Self> {
        Box::new(Self { pieces: self.pieces, len: self.len, ..*Self::new() })
    }

    /// Uses this memory for its [`copy`](Self::copy).
    pub(crate) fn borrow(&mut self, memory: Vec<u8>) {
        self.lender = Some(std::mem::replace(&mut self.own, memory));
    }

    /// Gives borrowed memory back.
    pub(crate) fn give_borrowed(&mut self) -> Option<Vec<u8>> {
        let own = self.lender.take()?;
        Some(std::mem::replace(&mut self.own, own))
    }

    /// Copies the data, so the caller has its memory back.
    pub(crate) fn copy(&mut self) {
        let mut own = std::mem::take(&mut self.own);
        if own.len() < self.len {
            own.resize(self.len, 0);
        }
        Bytes::read(self, 0, &mut own[..self.len]);
        (self.own, self.owned) = (own, true);
        // The request does not refer to the caller's memory any more.
        self.pieces = [NO_PIECE; MOST_PIECES];
    }

    /// Gives the request its own memory for `len` bytes. A peer names that number, so memory is
    /// allocated as the bytes arrive.
    pub(crate) fn expect(&mut self, len: usize) {
        self.own = Vec::new();
        (self.owned, self.len) = (true, len);
    }

    /// Copies the operands of an atomic change, each of `len` bytes, into the request. The caller's
    /// memory is for the former values: see [`fetched`](Self::fetched).
    ///
    /// # Safety
    /// The pieces of each have `len` bytes.
    pub(crate) unsafe fn bring(&mut self, operands: &[&[iovec; MOST_PIECES]], len: usize) {
        self.own.clear();
        for piece in operands.iter().copied().flatten().filter(|piece| piece.iov_len > 0) {
            // SAFETY: the caller's promise.
            let bytes = unsafe { std::slice::from_raw_parts(piece.iov_base.cast(), piece.iov_len) };
            self.own.extend_from_slice(bytes);
        }
        let whole = self.own.len().max(len);
        self.own.resize(whole, 0);
        (self.owned, self.len) = (true, whole);
    }

    /// Hands over the former values of an atomic change, if the caller wants them.
    pub(crate) fn fetched(&mut self) {
        let own = std::mem::take(&mut self.own);
        self.owned = false;
        self.len = self.pieces.iter().map(|piece| piece.iov_len).sum();
        let len = self.len;
        self.write(0, &own[..len]);
        self.own = own;
    }

    /// The bytes in its own memory.
    pub(crate) fn own(&self) -> &[u8] {
        &self.own[..self.len.min(self.own.len())]
    }

    /// The parts that completions of a receive contain.
    pub(crate) fn receiver(&self) -> ReceiveContext {
        let Self { context, flags, reported, .. } = *self;
        ReceiveContext { context, flags, reported, base: self.pieces[0].iov_base }
    }

    /// The request as memory for the library.
    pub(crate) fn into_memory(self: Box<Self>) -> Memory {
        Memory::Other(self)
    }

    /// The request that the library returns as the memory of a completion.
    ///
    /// # Safety
    /// The memory was made by [`into_memory`](Self::into_memory).
    pub(crate) unsafe fn from_memory(memory: Memory) -> Option<Box<Self>> {
        match memory {
            Memory::Other(other) => {
                let request = Box::into_raw(other).cast::<Self>();
                // SAFETY: the caller's promise: the box holds a request.
                Some(unsafe { Box::from_raw(request) })
            }
            Memory::Vec(_) | Memory::Shared(_) => None,
        }
    }

    /// Where `len` bytes from `at` on lie, if one piece of the caller's memory has all of them.
    fn piece(&self, mut at: usize, len: usize) -> Option<*mut u8> {
        if self.owned {
            return None;
        }
        for piece in &self.pieces {
            if at < piece.iov_len {
                let fits = len <= piece.iov_len - at;
                // SAFETY: within the piece.
                return fits.then(|| unsafe { piece.iov_base.cast::<u8>().add(at) });
            }
            at -= piece.iov_len;
        }
        None
    }

    /// Visits the pieces of `len` bytes from `at` on, with the offset of each among those bytes.
    fn visit(&self, mut at: usize, len: usize, mut use_piece: impl FnMut(*mut u8, usize, usize)) {
        assert!(at <= self.len && len <= self.len - at, "outside of the memory");
        let mut done = 0;
        for piece in &self.pieces {
            if at >= piece.iov_len {
                at -= piece.iov_len;
                continue;
            }
            let part = (piece.iov_len - at).min(len - done);
            // SAFETY: within the piece.
            use_piece(unsafe { piece.iov_base.cast::<u8>().add(at) }, done, part);
            done += part;
            at = 0;
            if done == len {
                break;
            }
        }
    }
}

impl Bytes for Request {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, at: usize, out: &mut [u8]) {
        if self.owned {
            out.copy_from_slice(&self.own[at..][..out.len()]);
            return;
        }
        let len = out.len();
        let to = out.as_mut_ptr();
        // SAFETY: `visit` stays within what `set_memory` was promised and within `out`, which is
        // not the caller's memory.
        self.visit(at, len, |from, place, part| unsafe {
            from.copy_to_nonoverlapping(to.add(place), part);
        });
    }

    fn slice(&self, at: usize, len: usize) -> Option<&[u8]> {
        if self.owned {
            return self.own.get(at..at.checked_add(len)?);
        }
        let from = self.piece(at, len)?;
        // SAFETY: within what `set_memory` was promised: the caller leaves it as it is until the
        // operation is over.
        Some(unsafe { std::slice::from_raw_parts(from, len) })
    }

    /// Memory for copies is used for one peer after the other.
    fn is_lendable(&self) -> bool {
        !self.owned
    }

    fn slice_mut(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
        let to = self.piece(at, len)?;
        // SAFETY: within what `set_memory` was promised: the caller does not use it until the
        // operation is over.
        Some(unsafe { std::slice::from_raw_parts_mut(to, len) })
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        if self.owned {
            let end = at + bytes.len();
            assert!(at <= self.own.len() && end <= self.len, "in order and within");
            if end <= self.own.len() {
                self.own[at..end].copy_from_slice(bytes);
            } else {
                self.own.truncate(at);
                self.own.extend_from_slice(bytes);
            }
            return;
        }
        // SAFETY: `visit` stays within what `set_memory` was promised and within `bytes`, which is
        // not the caller's memory.
        self.visit(at, bytes.len(), |to, place, part| unsafe {
            to.copy_from_nonoverlapping(bytes.as_ptr().add(place), part);
        });
    }
}

/// One piece of memory, as most operations have.
pub(crate) fn one(data: *const c_void, len: usize) -> iovec {
    iovec { iov_base: data.cast_mut(), iov_len: len as _ }
}

/// The flags of a completion by the kind and class of its operation.
pub(crate) fn class(untagged: bool) -> u64 {
    if untagged { sys::FI_MSG } else { sys::FI_TAGGED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_says_of_a_length_allocates_nothing() {
        let mut request = Request::new();
        request.expect(4 << 30);
        assert_eq!((Bytes::len(&*request), request.own.capacity()), (4 << 30, 0));
        request.write(0, &[1; 1000]);
        request.write(1000, &[2; 500]);
        assert!(request.own.capacity() < 4096);
        assert_eq!(request.own(), [vec![1; 1000], vec![2; 500]].concat());
    }

    #[test]
    fn pieces_are_read_and_written_as_one_memory() {
        let mut memory: [Vec<u8>; 4] = [vec![0; 3], vec![], vec![0; 5], vec![0; 4]];
        let pieces = memory.each_mut().map(|piece| one(piece.as_mut_ptr().cast(), piece.len()));
        let mut request = Request::new();
        // SAFETY: four pieces of memory that stays.
        unsafe { request.set_memory(IoVecs::new(pieces.as_ptr(), 4)).unwrap() };
        let body: Vec<u8> = (1..=12).collect();
        for (at, len) in [(0, 12), (2, 5), (3, 0), (8, 4), (12, 0), (4, 1)] {
            request.write(at, &body[at..at + len]);
            let mut out = vec![0; len];
            request.read(at, &mut out);
            assert_eq!(out, body[at..at + len]);
        }
        request.copy();
        assert_eq!(memory.concat(), body);
        assert_eq!(request.own(), body);
        // SAFETY: nothing is read beyond the count.
        let refused = unsafe { request.set_memory(IoVecs::new(pieces.as_ptr(), 5)) };
        assert_eq!(refused, Err(Code::INVALID));
    }
}
