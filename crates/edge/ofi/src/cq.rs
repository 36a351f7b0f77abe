//! Completion queues: ended operations in the order of their ends. The entries are in
//! `completions.rs`. Reading makes progress at the endpoints that report here.

use crate::completions::{Completions, ReadArray};
use crate::error::{Code, OfiResult, Stub, explain, explanation, guard, status};
use crate::lock::Threads;
use crate::object::{self, KeepAlive, descriptor, inner, table};
use crate::sources::Sources;
use crate::spin::Spin;
use crate::sys::{
    self, fi_cq_attr, fi_cq_err_entry, fi_cq_tagged_entry, fi_ops, fi_ops_cq, fid, fid_cq,
};
use crate::wait::{WaitObject, end_of, wait_control, wait_of};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

/// Room for entries, unless the caller asks for more.
const USUAL_SIZE: usize = 1024;

/// What the descriptor leads to.
pub(crate) struct Queue {
    pub(crate) completions: Arc<Completions>,
    pub(crate) sources: Sources,
    /// Bytes of an entry in the caller's format.
    entry_size: usize,
    spin: Spin,
    pub(crate) domain: KeepAlive,
}

impl Queue {
    pub(crate) fn wait(&self) -> Option<&WaitObject> {
        self.completions.wait.as_ref()
    }

    /// Makes progress. Returns whether there is something to read.
    pub(crate) fn is_ready(&self) -> OfiResult<bool> {
        if !self.completions.was_expected() && !self.completions.is_empty() {
            return Ok(true);
        }
        let progress = self.sources.progress(&mut ReadArray::none());
        if self.completions.is_empty() { progress.and(Ok(false)) } else { Ok(true) }
    }

    /// The program's array.
    ///
    /// # Safety
    /// As long as it is used, there is room for `count` entries at `to`, and for as many addresses
    /// at `sources` unless it is NULL.
    #[inline]
    unsafe fn array(
        &self,
        to: *mut c_void,
        count: usize,
        sources: *mut u64,
    ) -> OfiResult<ReadArray<'_>> {
        if to.is_null() && count > 0 {
            return Err(Code::INVALID);
        }
        let (queue, size) = (&*self.completions, self.entry_size);
        // SAFETY: the caller's promise.
        Ok(unsafe { ReadArray::new(queue, size, to.cast(), count, sources) })
    }

    fn read(&self, array: &mut ReadArray<'_>) -> OfiResult<usize> {
        let read = self.read_into(array);
        match read {
            Err(Code::AGAIN) => _ = self.spin.empty_poll(array.did_work()),
            // An error waits for the program: that is something, too.
            _ => self.spin.found(),
        }
        read
    }

    #[inline(always)]
    fn read_into(&self, array: &mut ReadArray<'_>) -> OfiResult<usize> {
        let is_expected = self.completions.was_expected();
        if !is_expected {
            array.fill()?;
        }
        // Entries go before errors.
        let mut progress = Ok(());
        if is_expected || array.written() == 0 {
            progress = self.sources.progress(array);
            array.fill()?;
        }
        if array.written() == 0 {
            progress?;
            return Err(Code::AGAIN);
        }
        Ok(array.written())
    }

    pub(crate) fn prepare(&self) -> OfiResult<()> {
        let wait = self.wait().ok_or(Code::INVALID)?;
        let progress = self.sources.progress(&mut ReadArray::none());
        let time = || progress.and_then(|()| self.sources.prepare());
        wait.prepare(time, || !self.completions.is_empty_before_sleep())
    }
}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(object::close_entry::<fid_cq, Queue>),
    bind: Stub::NONE,
    control: Some(control),
    ops_open: Stub::NONE,
    tostr: Stub::NONE,
    ops_set: Stub::NONE,
};

static CQ_OPS: fi_ops_cq = fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read: Some(read),
    readfrom: Some(readfrom),
    readerr: Some(readerr),
    sread: Some(sread),
    sreadfrom: Some(sreadfrom),
    signal: Some(signal),
    strerror: Some(strerror),
};

/// Opens a queue of a domain, which stays open as long.
///
/// # Safety
/// Pointers are NULL or to what their types say.
pub(crate) unsafe fn open(
    domain: KeepAlive,
    threads: Threads,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> OfiResult<()> {
    // SAFETY: the caller's promise.
    let (size, format, wait) = match unsafe { attr.as_ref() } {
        None => (0, sys::FI_CQ_FORMAT_UNSPEC, None),
        Some(attr) if attr.flags & !sys::FI_AFFINITY != 0 => return Err(Code::INVALID),
        Some(attr) => (attr.size, attr.format, wait_of(attr.wait_obj)?),
    };
    let entry_size = match format {
        sys::FI_CQ_FORMAT_UNSPEC | sys::FI_CQ_FORMAT_CONTEXT => size_of::<sys::fi_cq_entry>(),
        sys::FI_CQ_FORMAT_MSG => size_of::<sys::fi_cq_msg_entry>(),
        sys::FI_CQ_FORMAT_DATA => size_of::<sys::fi_cq_data_entry>(),
        sys::FI_CQ_FORMAT_TAGGED => size_of::<fi_cq_tagged_entry>(),
        _ => return Err(Code::NO_SYS),
    };
    let room = size.clamp(USUAL_SIZE, 1 << 16);
    let queue = Queue {
        completions: Arc::new(Completions::new(room, wait, threads)),
        sources: Sources::new(threads),
        entry_size,
        spin: Spin::new(),
        domain,
    };
    let fid = descriptor(sys::FI_CLASS_CQ, context, &OPS);
    // SAFETY: the caller's promise: `cq` is NULL or points to a pointer.
    unsafe { object::open(fid_cq { fid, ops: table(&CQ_OPS) }, Arc::new(queue), cq) }
}

/// # Safety
/// As the interface says, as for all entries that follow.
unsafe extern "C" fn read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { readfrom(cq, buf, count, null_mut()) }
}

unsafe extern "C" fn readfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    source: *mut u64,
) -> isize {
    let mut array = ReadArray::none();
    // SAFETY: the caller's promise.
    let read = guard(|| unsafe {
        let queue = inner::<_, Queue>(cq)?;
        array = queue.array(buf, count, source)?;
        queue.read(&mut array)
    });
    // A panic does not take back what is in the program's array.
    if read < 0 && array.written() > 0 { array.written().cast_signed() } else { read }
}

unsafe extern "C" fn readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, _flags: u64) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let queue = inner::<_, Queue>(cq)?;
        let to = buf.as_mut().ok_or(Code::INVALID)?;
        let (entry, failure) = queue.completions.take_failed()?;
        to.op_context = entry.context;
        to.flags = entry.flags;
        to.len = entry.len;
        to.buf = entry.buf;
        to.data = entry.data;
        to.tag = entry.tag;
        to.olen = failure.beyond;
        to.err = failure.code.0;
        to.prov_errno = failure.number;
        to.err_data_size = 0;
        Ok(1)
    })
}

unsafe extern "C" fn sread(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { sreadfrom(cq, buf, count, null_mut(), cond, timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    source: *mut u64,
    _cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let queue = inner::<_, Queue>(cq)?;
        let wait = queue.wait().ok_or(Code::NO_SYS)?;
        let end = end_of(timeout);
        loop {
            match queue.read(&mut queue.array(buf, count, source)?) {
                Err(Code::AGAIN) => {}
                done => return done,
            }
            match queue.prepare() {
                Ok(()) if wait.was_signalled() => return Err(Code::AGAIN),
                Ok(()) if !wait.sleep(end, queue.sources.have_fd())? => return Err(Code::AGAIN),
                Ok(()) if wait.was_signalled() => return Err(Code::AGAIN),
                Ok(()) => {}
                Err(Code::AGAIN) if end.is_some_and(|end| Instant::now() >= end) => {
                    return Err(Code::AGAIN);
                }
                Err(Code::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
    })
}

unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        inner::<_, Queue>(cq)?.wait().ok_or(Code::NO_SYS)?.interrupt();
        Ok(())
    })
}

unsafe extern "C" fn strerror(
    _cq: *mut fid_cq,
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
        let queue = object::of_class::<fid_cq, Queue>(fid, sys::FI_CLASS_CQ)?;
        wait_control(queue.wait(), command, arg)
    })
}
