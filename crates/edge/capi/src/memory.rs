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

/// The part of such memory that these bytes are, if they begin there. Refuses those that end beyond
/// it.
pub(crate) fn shared(data: *const c_void, len: usize) -> EntryResult<Option<SharedBuffer>> {
    let all = allocated();
    let Some((start, buffer)) = all.range(..=data.addr()).next_back() else { return Ok(None) };
    let at = data.addr() - start;
    // One of no bytes has its address all the same.
    if at >= buffer.len().max(1) {
        return Ok(None);
    }
    let Some(part) = buffer.part(at, len) else {
        let left = buffer.len() - at;
        let text = format!("{len} bytes, but {left} are left of memory of gigae_memory_alloc");
        return Err(Error::invalid(text));
    };
    if len > MAX_OPERATION {
        let text = format!("{len} bytes are too long to register: divide them, 1 GiB at most");
        return Err(Error::new(Code::TooLong, text));
    }
    Ok(Some(part))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_begin_in_an_allocation_and_end_beyond_it_are_refused() {
        for len in [0, 1, 100] {
            let mut memory = ptr::null_mut();
            // SAFETY: a place for the address.
            assert_eq!(unsafe { gigae_memory_alloc(len, &raw mut memory) }, 0);
            let at = |at: usize| memory.cast::<u8>().wrapping_add(at).cast::<c_void>().cast_const();
            assert_eq!(shared(memory, len).unwrap().map(|part| part.len()), Some(len));
            assert!(shared(memory, len + 1).is_err(), "{len}");
            assert!(shared(memory, usize::MAX).is_err(), "{len}");
            if len > 1 {
                assert_eq!(shared(at(1), len - 1).unwrap().map(|part| part.len()), Some(len - 1));
                assert!(shared(at(1), len).is_err() && shared(at(len - 1), 2).is_err());
            }
            assert!(shared(at(len.max(1)), 1).unwrap().is_none(), "{len}: other memory");
            assert_eq!(gigae_memory_free(memory), 0);
            assert!(shared(memory, 1).unwrap().is_none());
        }
    }
}
