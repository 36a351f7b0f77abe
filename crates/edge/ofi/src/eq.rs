//! Event queues. Endpoints are connectionless, so the only events are the ends of asynchronous
//! insertions into address vectors, and those that the program writes itself.

use crate::error::{Code, OfiResult, Stub, explain, explanation, guard, status};
use crate::object::{self, KeepAlive, descriptor, inner, lock, table};
use crate::sys::{self, fi_eq_attr, fi_eq_entry, fi_eq_err_entry, fi_ops, fi_ops_eq, fid, fid_eq};
use crate::wait::{WaitObject, end_of, wait_control, wait_of};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex};

/// What the descriptor leads to: events with their bytes.
pub(crate) struct Events {
    waiting: Mutex<VecDeque<(u32, Vec<u8>)>>,
    pub(crate) wait: Option<WaitObject>,
    _fabric: KeepAlive,
}

impl Events {
    fn push(&self, event: u32, bytes: Vec<u8>) {
        lock(&self.waiting).push_back((event, bytes));
        if let Some(wait) = &self.wait {
            wait.signal();
        }
    }

    /// Reports that `count` addresses were inserted into an address vector.
    pub(crate) fn inserted(&self, av: *mut fid, context: *mut c_void, count: u64) {
        let entry = fi_eq_entry { fid: av, context, data: count };
        let mut bytes = vec![0; size_of::<fi_eq_entry>()];
        // SAFETY: as many bytes as the entry has.
        unsafe { bytes.as_mut_ptr().copy_from((&raw const entry).cast(), bytes.len()) };
        self.push(sys::FI_AV_COMPLETE, bytes);
    }

    /// # Safety
    /// `event` is NULL or a number, and there are `len` writable bytes at `buf`.
    unsafe fn read(
        &self,
        event: *mut u32,
        buf: *mut c_void,
        len: usize,
        flags: u64,
    ) -> OfiResult<usize> {
        let mut waiting = lock(&self.waiting);
        let (kind, bytes) = waiting.front().ok_or(Code::AGAIN)?;
        if len < bytes.len() || (buf.is_null() && !bytes.is_empty()) {
            return Err(Code::TOO_SMALL);
        }
        let count = bytes.len();
        // SAFETY: the caller's promise.
        unsafe {
            buf.cast::<u8>().copy_from(bytes.as_ptr(), count);
            if !event.is_null() {
                event.write(*kind);
            }
        }
        if flags & sys::FI_PEEK == 0 {
            waiting.pop_front();
        }
        Ok(count)
    }

    pub(crate) fn prepare(&self) -> OfiResult<()> {
        let wait = self.wait.as_ref().ok_or(Code::INVALID)?;
        wait.prepare(|| Ok(None), || !lock(&self.waiting).is_empty())
    }
}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(object::close_entry::<fid_eq, Events>),
    bind: Stub::NONE,
    control: Some(control),
    ops_open: Stub::NONE,
    tostr: Stub::NONE,
    ops_set: Stub::NONE,
};

static EQ_OPS: fi_ops_eq = fi_ops_eq {
    size: size_of::<fi_ops_eq>(),
    read: Some(read),
    readerr: Some(readerr),
    write: Some(write),
    sread: Some(sread),
    strerror: Some(strerror),
};

/// Opens a queue of a fabric, which stays open as long.
///
/// # Safety
/// Pointers are NULL or to what their types say, as for all entries that follow.
pub(crate) unsafe fn open(
    fabric: KeepAlive,
    attr: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> OfiResult<()> {
    // SAFETY: the caller's promise.
    let wait = match unsafe { attr.as_ref() } {
        None => None,
        Some(attr) => wait_of(attr.wait_obj)?,
    };
    let events = Events { waiting: Mutex::default(), wait, _fabric: fabric };
    let fid = descriptor(sys::FI_CLASS_EQ, context, &OPS);
    // SAFETY: the caller's promise: `eq` is NULL or points to a pointer.
    unsafe { object::open(fid_eq { fid, ops: table(&EQ_OPS) }, Arc::new(events), eq) }
}

unsafe extern "C" fn read(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe { inner::<_, Events>(eq)?.read(event, buf, len, flags) })
}

/// No insertion fails asynchronously.
unsafe extern "C" fn readerr(eq: *mut fid_eq, _buf: *mut fi_eq_err_entry, _flags: u64) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe { inner::<_, Events>(eq).and(Err(Code::AGAIN)) })
}

unsafe extern "C" fn write(
    eq: *mut fid_eq,
    event: u32,
    buf: *const c_void,
    len: usize,
    _flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let events = inner::<_, Events>(eq)?;
        if len > isize::MAX as usize || (buf.is_null() && len > 0) {
            return Err(Code::INVALID);
        }
        let bytes = match len {
            0 => Vec::new(),
            _ => std::slice::from_raw_parts(buf.cast::<u8>(), len).to_vec(),
        };
        events.push(event, bytes);
        Ok(len)
    })
}

unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let events = inner::<_, Events>(eq)?;
        let wait = events.wait.as_ref().ok_or(Code::NO_SYS)?;
        let end = end_of(timeout);
        loop {
            match events.read(event, buf, len, flags) {
                Err(Code::AGAIN) => {}
                done => return done,
            }
            match events.prepare() {
                Ok(()) if !wait.sleep(end, true)? => return Err(Code::AGAIN),
                Ok(()) | Err(Code::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
    })
}

unsafe extern "C" fn strerror(
    _eq: *mut fid_eq,
    number: c_int,
    _data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { explanation(explain(number), buf, len) }
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let events = object::of_class::<fid_eq, Events>(fid, sys::FI_CLASS_EQ)?;
        wait_control(events.wait.as_ref(), command, arg)
    })
}
