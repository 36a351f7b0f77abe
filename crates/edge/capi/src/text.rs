//! Text and bytes between C and Rust.

use crate::clip::copy;
use crate::error::{EntryResult, Error};
use std::ffi::{CStr, c_char, c_int, c_void};

/// Returns text like `snprintf`: as much as fits, and the length of the whole text in bytes.
///
/// # Safety
/// `into` is NULL or points to `size` writable bytes.
pub(crate) unsafe fn give(text: &str, into: *mut c_char, size: usize) -> EntryResult<c_int> {
    if size > isize::MAX as usize {
        return Err(Error::invalid("the size exceeds the address space"));
    }
    if !into.is_null() {
        // SAFETY: the caller's promise, and a slice can have this size. The memory may be
        // uninitialised in C's terms; bytes are only written here.
        copy(text, unsafe { std::slice::from_raw_parts_mut(into.cast(), size) });
    } else if size > 0 {
        return Err(Error::null("the text's buffer"));
    }
    Ok(c_int::try_from(text.len()).unwrap_or(c_int::MAX))
}

/// Text from C.
///
/// # Safety
/// `text` is NULL or points to bytes that end in NUL and stay as they are for `'a`.
pub(crate) unsafe fn take<'a>(text: *const c_char, what: &str) -> EntryResult<&'a str> {
    if text.is_null() {
        return Err(Error::null(what));
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|_| Error::invalid(format!("{what} is not UTF-8")))
}

/// Bytes from C, at most `most` of them; the length is checked before anything is read. NULL is
/// allowed with a length of 0.
///
/// # Safety
/// `data` is NULL or points to `len` bytes that stay as they are for `'a`.
pub(crate) unsafe fn bytes<'a>(data: *const c_void, len: usize) -> EntryResult<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Error::null("the data"));
    }
    if len > isize::MAX as usize {
        return Err(Error::invalid("the length exceeds the address space"));
    }
    // SAFETY: the caller's promise, and a slice can have this length.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) })
}

/// Writes an out-parameter.
///
/// # Safety
/// `to` is NULL or points to writable, aligned memory for a `T`.
pub(crate) unsafe fn put<T>(to: *mut T, value: T, what: &str) -> EntryResult<()> {
    if to.is_null() {
        return Err(Error::null(what));
    }
    // SAFETY: the caller's promise. The former contents have no Rust destructor.
    unsafe { to.write(value) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_length_is_answered_whatever_fits() {
        let mut buffer = [b'#'; 3];
        // SAFETY: the size is the array's, or NULL comes with a size of 0.
        unsafe {
            assert_eq!(give("four", buffer.as_mut_ptr().cast(), 3).unwrap(), 4);
            assert_eq!(give("four", std::ptr::null_mut(), 0).unwrap(), 4);
            assert!(give("four", std::ptr::null_mut(), 1).is_err());
            assert!(give("four", buffer.as_mut_ptr().cast(), usize::MAX).is_err());
        }
        assert_eq!(buffer, *b"fo\0");
    }
}
