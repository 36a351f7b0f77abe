//! An open endpoint and what C code holds of it.

use crate::abi::{EndpointHandle, OptionsHandle};
use crate::error::{Code, EntryResult, Error, answer};
use crate::handle::{HandleTable, contain};
use crate::numbers::PeerNumbers;
use crate::tickets::{OperationTickets, Tickets};
use crate::{options, text};
use gigae::{Endpoint, Message, Options, Peer, SendBuffer};
use std::ffi::{c_char, c_int};
use std::ptr::{self, NonNull};

/// Everything behind one `gigae_endpoint`.
pub(crate) struct OpenEndpoint {
    /// Buffers and messages that C code holds; they borrow from the endpoint.
    pub(crate) buffers: Tickets<SendBuffer<'static>>,
    pub(crate) messages: Tickets<Message<'static>>,
    pub(crate) peers: PeerNumbers,
    pub(crate) operations: OperationTickets,
    /// From a box. Not a box, since that would claim to be the only access to the endpoint.
    endpoint: NonNull<Endpoint>,
}

// SAFETY: an endpoint may move between threads, and everything that borrows from it is here with it
// (or, between two statements of one entry, on the stack of the thread that uses it). C's contexts
// are only returned.
unsafe impl Send for OpenEndpoint where Endpoint: Send {}

impl OpenEndpoint {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self {
            buffers: Tickets::default(),
            messages: Tickets::default(),
            peers: PeerNumbers::default(),
            operations: OperationTickets::new(),
            endpoint: NonNull::from(Box::leak(Box::new(endpoint))),
        }
    }

    /// The endpoint. The lifetime only serves to keep what borrows from it in this same
    /// `OpenEndpoint`.
    #[inline]
    pub(crate) fn endpoint(&self) -> &'static Endpoint {
        // SAFETY: it lives until this state is dropped, which drops what borrows from it first;
        // and it is never borrowed mutably.
        unsafe { self.endpoint.as_ref() }
    }

    /// The peer with this number.
    #[inline]
    pub(crate) fn peer(&self, number: u32) -> EntryResult<Peer> {
        self.peers.peer(number).ok_or_else(|| {
            Error::invalid(format!("peer {number} is not known; get one from gigae_peer"))
        })
    }

    /// Fails while C code holds something that closing would free.
    fn may_close(&mut self) -> EntryResult<()> {
        match (self.buffers.len(), self.messages.len()) {
            (0, 0) => Ok(()),
            (buffers, messages) => Err(Error::new(
                Code::Busy,
                format!(
                    "{buffers} buffers and {messages} messages are held; drop them, then close"
                ),
            )),
        }
    }
}

impl Drop for OpenEndpoint {
    fn drop(&mut self) {
        self.buffers = Tickets::default();
        self.messages = Tickets::default();
        // SAFETY: it came from a box, and nothing borrows from it any more.
        drop(unsafe { Box::from_raw(self.endpoint.as_ptr()) });
    }
}

/// All open endpoints of the process.
pub(crate) static ENDPOINTS: HandleTable<OpenEndpoint> = HandleTable::new(1);

/// Makes one call on an endpoint and returns its code.
#[inline]
pub(crate) fn call(
    endpoint: *const EndpointHandle,
    work: impl FnOnce(&mut OpenEndpoint) -> EntryResult<c_int>,
) -> c_int {
    answer(ENDPOINTS.with(endpoint.addr(), work))
}

/// Opens with every option at its default. See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_open(
    interface: *const c_char,
    endpoint: *mut *mut EndpointHandle,
) -> c_int {
    answer(contain(|| {
        let options = || {
            // SAFETY: the caller's promise.
            let interface = unsafe { text::take(interface, "the interface's name")? };
            Ok(Options::new(interface))
        };
        // SAFETY: the caller's promise.
        unsafe { open(options, endpoint) }
    }))
}

/// Opens with options. See the header.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_open_with(
    options: *const OptionsHandle,
    endpoint: *mut *mut EndpointHandle,
) -> c_int {
    answer(contain(|| {
        let options = || options::OPTIONS.with(options.addr(), |options| Ok(options.clone()));
        // SAFETY: the caller's promise.
        unsafe { open(options, endpoint) }
    }))
}

/// # Safety
/// `to` is NULL or points to a writable pointer.
unsafe fn open(
    options: impl FnOnce() -> EntryResult<Options>,
    to: *mut *mut EndpointHandle,
) -> EntryResult<c_int> {
    // SAFETY: the caller's promise. NULL is noticed before anything is opened.
    unsafe { text::put(to, ptr::null_mut(), "where to put the endpoint")? };
    gigae::log_to_stderr();
    let handle = ENDPOINTS.insert(Box::new(OpenEndpoint::new(options()?.open()?)))?;
    // SAFETY: the caller's promise.
    unsafe { text::put(to, ptr::without_provenance_mut(handle), "where to put the endpoint")? };
    Ok(0)
}

/// Closes an endpoint. See the header.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_close(endpoint: *mut EndpointHandle) -> c_int {
    answer(contain(|| {
        drop(ENDPOINTS.remove(endpoint.addr(), OpenEndpoint::may_close)?);
        Ok(0)
    }))
}
