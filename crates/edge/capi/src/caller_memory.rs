//! Memory of C code that an operation uses or that is registered.

use crate::abi::MAX_OPERATION;
use crate::error::{Code, EntryResult, Error};
use gigae::{Bytes, Memory};
use std::ffi::c_void;

/// Memory of a C program. The library may use it until the operation completes or the memory is
/// deregistered.
#[derive(Clone)]
pub(crate) struct CallerMemory {
    data: *mut u8,
    len: usize,
}

// SAFETY: the header gives the memory to the library until it is returned, whatever thread uses the
// endpoint.
unsafe impl Send for CallerMemory {}

impl CallerMemory {
    /// Memory of the caller.
    ///
    /// # Safety
    /// `data` points to `len` bytes that stay there, and may be used as operations need, as long as
    /// this value or a copy of it exists.
    pub(crate) unsafe fn new(data: *mut c_void, len: usize) -> EntryResult<Self> {
        if len > MAX_OPERATION {
            let text =
                format!("{len} bytes are too long for one operation: divide it, 1 GiB at most");
            return Err(Error::new(Code::TooLong, text));
        }
        if data.is_null() {
            return Err(Error::null("the data"));
        }
        Ok(Self { data: data.cast(), len })
    }

    /// Where it begins, and its length.
    pub(crate) fn extent(&self) -> (*const u8, usize) {
        (self.data, self.len)
    }

    /// `len` bytes of it from `at` on, if they are all within it.
    pub(crate) fn part(&self, at: usize, len: usize) -> Option<Self> {
        let within = at <= self.len && len <= self.len - at;
        within.then(|| Self { data: self.place(at, len), len })
    }

    /// Where `len` bytes from `at` on are.
    ///
    /// # Panics
    /// If they are not all within the memory.
    fn place(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.len && len <= self.len - at, "outside of the memory");
        // SAFETY: within the memory.
        unsafe { self.data.add(at) }
    }
}

impl Bytes for CallerMemory {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, at: usize, out: &mut [u8]) {
        // SAFETY: `place` has checked the bytes. The caller of `borrow` promised that they may be
        // read, and that they are no frames of the library.
        unsafe { self.place(at, out.len()).copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
    }

    fn slice(&self, at: usize, len: usize) -> Option<&[u8]> {
        let part = self.part(at, len)?;
        // SAFETY: within the memory, which the caller of `borrow` promised to leave as it is until
        // the operation is over.
        Some(unsafe { std::slice::from_raw_parts(part.data, part.len) })
    }

    fn is_lendable(&self) -> bool {
        true
    }

    fn slice_mut(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
        let part = self.part(at, len)?;
        // SAFETY: within the memory, which the caller of `borrow` promised not to use until the
        // operation is over.
        Some(unsafe { std::slice::from_raw_parts_mut(part.data, part.len) })
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        // SAFETY: `place` has checked the bytes. The caller of `borrow` promised that they may be
        // written, and that they are no frames of the library.
        unsafe {
            self.place(at, bytes.len()).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
    }
}

/// Memory for an operation. NULL is allowed with a length of 0.
///
/// # Safety
/// `data` is NULL or points to `len` bytes that stay there until the operation is completed, the
/// memory deregistered or the endpoint closed, and that may be written unless they are only sent.
pub(crate) unsafe fn borrow(data: *mut c_void, len: usize) -> EntryResult<Memory> {
    if len == 0 {
        return Ok(Memory::Vec(Vec::new()));
    }
    // SAFETY: the caller's promise.
    Ok(Memory::Other(Box::new(unsafe { CallerMemory::new(data, len)? })))
}
