//! The common part of all objects: C holds a pointer to a descriptor (`fid`), behind which this
//! side's state lies.
//!
//! An object lives in its own box from opening to closing. Objects that are bound to it share its
//! state. So closing in the wrong order is refused and never dangerous.

use crate::error::{Code, OfiResult, Stub, status};
use crate::sys::{self, fi_ops, fid};
use std::any::Any;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard};

/// An object as C sees it: `F` begins with the descriptor.
#[repr(C)]
pub(crate) struct Object<F, T> {
    pub(crate) descriptor: F,
    pub(crate) inner: Arc<T>,
}

/// An object that stays open as long as this is kept.
pub(crate) type KeepAlive = Arc<dyn Any + Send + Sync>;

/// Gives an object to C.
///
/// # Safety
/// `to` is NULL or points to a writable pointer.
pub(crate) unsafe fn open<F, T>(descriptor: F, inner: Arc<T>, to: *mut *mut F) -> OfiResult<()> {
    if to.is_null() {
        return Err(Code::INVALID);
    }
    let object = Box::into_raw(Box::new(Object { descriptor, inner }));
    // SAFETY: the caller's promise; the descriptor is the object's beginning.
    unsafe { to.write(object.cast()) };
    Ok(())
}

/// The state of an object.
///
/// # Safety
/// `descriptor` is NULL or of an object of this type that is open for `'a`.
pub(crate) unsafe fn inner<'a, F: 'a, T: 'a>(descriptor: *mut F) -> OfiResult<&'a Arc<T>> {
    // SAFETY: the caller's promise.
    unsafe { descriptor.cast::<Object<F, T>>().as_ref() }
        .map(|object| &object.inner)
        .ok_or(Code::INVALID)
}

/// Keeps an object open.
///
/// # Safety
/// As for [`inner`].
pub(crate) unsafe fn keep<F: 'static, T: Any + Send + Sync>(
    descriptor: *mut F,
) -> OfiResult<KeepAlive> {
    // SAFETY: the caller's promise.
    unsafe { inner::<F, T>(descriptor) }.map(|inner| Arc::clone(inner) as KeepAlive)
}

/// Like [`inner`], by the general descriptor, whose class is checked.
///
/// # Safety
/// `descriptor` is NULL or of an open object, of this type if it is of this class.
pub(crate) unsafe fn of_class<'a, F: 'a, T: 'a>(
    descriptor: *mut fid,
    class: u32,
) -> OfiResult<&'a Arc<T>> {
    // SAFETY: the caller's promise.
    unsafe {
        match descriptor.as_ref() {
            Some(fid) if fid.fclass == class as usize => inner(descriptor.cast::<F>()),
            _ => Err(Code::INVALID),
        }
    }
}

/// Closes an object that no other object uses. First calls `leave`; if that panics, the object is
/// still open, and the program can close it again.
///
/// # Safety
/// As for [`inner`]; after a success the descriptor is not used any more.
pub(crate) unsafe fn close<F, T>(descriptor: *mut fid, leave: impl FnOnce(&T)) -> OfiResult<()> {
    // SAFETY: the caller's promise.
    let inner = unsafe { inner::<F, T>(descriptor.cast())? };
    if Arc::strong_count(inner) > 1 {
        return Err(Code::BUSY);
    }
    leave(inner);
    // SAFETY: `open` has made the box.
    drop(unsafe { Box::from_raw(descriptor.cast::<Object<F, T>>()) });
    Ok(())
}

/// The general descriptor of a new object.
pub(crate) fn descriptor(class: u32, context: *mut c_void, ops: &'static fi_ops) -> fid {
    fid { fclass: class as usize, context, ops: table(ops) }
}

/// A table of entries as C expects it. Nothing writes to it.
pub(crate) fn table<T>(ops: &'static T) -> *mut T {
    (&raw const *ops).cast_mut()
}

/// A lock whose holder may have panicked. What it guards is consistent between any two calls of the
/// library, which is all that matters then.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Closing an object of one type, as an entry.
pub(crate) unsafe extern "C" fn close_entry<F, T>(descriptor: *mut fid) -> c_int {
    // SAFETY: C closes an object with the table of that object's type, and does not use it again.
    status(|| unsafe { close::<F, T>(descriptor, |_| {}) })
}

/// The general entries of an object that can only be closed.
pub(crate) const fn only_close<F, T>() -> fi_ops {
    fi_ops {
        size: size_of::<fi_ops>(),
        close: Some(close_entry::<F, T>),
        bind: Stub::NONE,
        control: Stub::NONE,
        ops_open: Stub::NONE,
        tostr: Stub::NONE,
        ops_set: Stub::NONE,
    }
}

/// The general descriptor is the first thing in each of these.
const _: () = {
    assert!(std::mem::offset_of!(sys::fid_ep, fid) == 0);
    assert!(std::mem::offset_of!(sys::fid_cq, fid) == 0);
    assert!(std::mem::offset_of!(sys::fid_av, fid) == 0);
    assert!(std::mem::offset_of!(sys::fid_domain, fid) == 0);
};
