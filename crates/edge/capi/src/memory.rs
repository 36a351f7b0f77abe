//! Memory for C code that processes of the node can map: `gigae_memory_alloc`.
//!
//! One table has all of it, by address, so that C code registers it like any other memory.

use crate::abi::MAX_OPERATION;
use crate::error::{Code, EntryResult, Error, answer};
use crate::handle::contain;
use crate::text;
use gigae::SharedBuffer;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All of it, by where it begins.
static ALLOCATED: Mutex<BTreeMap<usize, SharedBuffer>> = Mutex::new(BTreeMap::new());

fn allocated() -> MutexGuard<'static, BTreeMap<usize, SharedBuffer>> {
    // A thread that panicked has changed nothing.
    ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part of such memory that these bytes are, if they are all within one.
pub(crate) fn shared(data: *const c_void, len: usize) -> EntryResult<Option<SharedBuffer>> {
    let all = allocated();
    let Some((start, buffer)) = all.range(..=data.addr()).next_back() else { return Ok(None) };
    let part = buffer.part(data.addr() - start, len);
    if part.is_some() && len > MAX_OPERATION {
        let text = format!("{len} bytes are too long to register: divide them, 1 GiB at most");
        return Err(Error::new(Code::TooLong, text));
    }
    Ok(part)
}

/// Allocates. See the header, as for all that follow.
///
/// # Safety
/// `memory` is NULL or points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gigae_memory_alloc(len: usize, memory: *mut *mut c_void) -> c_int {
    answer(contain(|| {
        // SAFETY: the caller's promise. NULL is noticed before anything is made.
        unsafe { text::put(memory, ptr::null_mut(), "where to put the memory's address")? };
        let buffer = SharedBuffer::new(len).map_err(|why| {
            let text = format!(
                "no memory that processes can map: {why}; register memory of malloc instead, which \
                 peers on this node use by frames"
            );
            Error::new(Code::Io, text)
        })?;
        let address = buffer.address();
        allocated().insert(address.addr(), buffer);
        // SAFETY: the caller's promise.
        unsafe { text::put(memory, address.cast(), "where to put the memory's address")? };
        Ok(0)
    }))
}

/// Frees.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_memory_free(memory: *mut c_void) -> c_int {
    answer(contain(|| {
        let freed = allocated().remove(&memory.addr());
        drop(freed.ok_or_else(|| {
            Error::new(Code::BadHandle, "gigae_memory_alloc has not allocated this")
        })?);
        Ok(0)
    }))
}
