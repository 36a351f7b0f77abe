//! Completion queues: what has ended, in the order in which it did.
//!
//! A queue grows where a reader is slow: nothing is ever lost. Reading makes progress at the
//! endpoints that report here.

use crate::address::NOT_AVAILABLE;
use crate::domain::Domain;
use crate::error::{Code, Outcome, Stub, explain, guard, status};
use crate::object::{self, descriptor, inner, lock, table};
use crate::spin::Spin;
use crate::sys::{
    self, fi_cq_attr, fi_cq_err_entry, fi_cq_tagged_entry, fi_ops, fi_ops_cq, fid, fid_cq,
};
use crate::wait::{Sources, Wait, end_of};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Entries for which there is room at once, unless the caller wants more.
const USUAL_SIZE: usize = 1024;

/// Something has ended.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    /// The sender's number in the address vector.
    pub(crate) source: u64,
    /// Why not well: the code, the second number, and the bytes that had no room.
    pub(crate) error: Option<(Code, c_int, usize)>,
}

// SAFETY: the pointers are only handed on.
unsafe impl Send for Entry {}

impl Entry {
    pub(crate) const NONE: Self = Self {
        context: null_mut(),
        flags: 0,
        len: 0,
        buf: null_mut(),
        data: 0,
        tag: 0,
        source: NOT_AVAILABLE,
        error: None,
    };
}

/// What the descriptor leads to.
pub(crate) struct Queue {
    entries: Mutex<VecDeque<Entry>>,
    /// How many there are, for those who look in vain.
    count: AtomicUsize,
    /// Bytes of an entry in the caller's format.
    entry_size: usize,
    pub(crate) sources: Sources,
    pub(crate) wait: Option<Wait>,
    spin: Spin,
    _domain: Arc<Domain>,
}

impl Queue {
    pub(crate) fn push(&self, entry: Entry) {
        {
            let mut entries = lock(&self.entries);
            entries.push_back(entry);
            self.count.store(entries.len(), Ordering::Release);
        }
        if let Some(wait) = &self.wait {
            wait.signal();
        }
    }

    fn has_entries(&self) -> bool {
        !lock(&self.entries).is_empty()
    }

    /// Makes progress; whether there is something to read.
    pub(crate) fn has_news(&self) -> Outcome<bool> {
        if self.has_entries() {
            return Ok(true);
        }
        self.sources.progress()?;
        Ok(self.has_entries())
    }

    /// Takes entries without error. The lock is held for all of them.
    ///
    /// # Safety
    /// There is room for `count` entries at `to`, and for as many addresses at `sources` unless it is
    /// NULL.
    unsafe fn take(&self, to: *mut u8, count: usize, sources: *mut u64) -> Outcome<usize> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Err(Code::AGAIN);
        }
        let mut entries = lock(&self.entries);
        let mut taken = 0;
        while taken < count {
            match entries.front() {
                Some(entry) if entry.error.is_none() => {}
                Some(_) if taken == 0 => return Err(Code::AVAILABLE),
                _ => break,
            }
            let Some(entry) = entries.pop_front() else { break };
            let whole = fi_cq_tagged_entry {
                op_context: entry.context,
                flags: entry.flags,
                len: entry.len,
                buf: entry.buf,
                data: entry.data,
                tag: entry.tag,
            };
            // SAFETY: the caller's promise; each format is the beginning of the longest.
            unsafe {
                let place = to.add(taken * self.entry_size);
                place.copy_from((&raw const whole).cast(), self.entry_size);
                if !sources.is_null() {
                    sources.add(taken).write(entry.source);
                }
            }
            taken += 1;
        }
        self.count.store(entries.len(), Ordering::Release);
        if taken == 0 { Err(Code::AGAIN) } else { Ok(taken) }
    }

    /// # Safety
    /// As for [`take`](Self::take).
    unsafe fn read(&self, to: *mut c_void, count: usize, sources: *mut u64) -> Outcome<usize> {
        if to.is_null() && count > 0 {
            return Err(Code::INVALID);
        }
        // SAFETY: the caller's promise.
        let taken = unsafe {
            match self.take(to.cast(), count, sources) {
                Err(Code::AGAIN) => {
                    self.sources.progress()?;
                    self.take(to.cast(), count, sources)
                }
                taken => taken,
            }
        };
        match taken {
            Err(Code::AGAIN) => _ = self.spin.vain(),
            _ => self.spin.found(),
        }
        taken
    }

    pub(crate) fn prepare(&self) -> Outcome<()> {
        let wait = self.wait.as_ref().ok_or(Code::INVALID)?;
        self.sources.progress()?;
        wait.prepare(&self.sources, || self.has_entries())
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

/// Whether there is something to sleep on.
pub(crate) fn wait_of(object: sys::fi_wait_obj) -> Outcome<Option<Wait>> {
    match object {
        sys::FI_WAIT_NONE => Ok(None),
        sys::FI_WAIT_UNSPEC | sys::FI_WAIT_FD | sys::FI_WAIT_YIELD => Ok(Some(Wait::new()?)),
        _ => Err(Code::NO_SYS),
    }
}

/// Opens a queue.
///
/// # Safety
/// Pointers are NULL or to what their types say.
pub(crate) unsafe extern "C" fn open(
    domain: *mut sys::fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let domain = inner::<_, Domain>(domain)?;
        let (size, format, wait) = match attr.as_ref() {
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
            entries: Mutex::new(VecDeque::with_capacity(room)),
            count: AtomicUsize::new(0),
            entry_size,
            sources: Sources::default(),
            wait,
            spin: Spin::new(),
            _domain: Arc::clone(domain),
        };
        let fid = descriptor(sys::FI_CLASS_CQ, context, &OPS);
        object::open(fid_cq { fid, ops: table(&CQ_OPS) }, Arc::new(queue), cq)
    })
}

/// # Safety
/// As the interface says, as for all entries that follow.
unsafe extern "C" fn read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe { inner::<_, Queue>(cq)?.read(buf, count, null_mut()) })
}

unsafe extern "C" fn readfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    source: *mut u64,
) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe { inner::<_, Queue>(cq)?.read(buf, count, source) })
}

unsafe extern "C" fn readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, _flags: u64) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let queue = inner::<_, Queue>(cq)?;
        let to = buf.as_mut().ok_or(Code::INVALID)?;
        let mut entries = lock(&queue.entries);
        let (entry, (code, number, beyond)) = match entries.front() {
            Some(entry) => (*entry, entry.error.ok_or(Code::AGAIN)?),
            None => return Err(Code::AGAIN),
        };
        entries.pop_front();
        queue.count.store(entries.len(), Ordering::Release);
        to.op_context = entry.context;
        to.flags = entry.flags;
        to.len = entry.len;
        to.buf = entry.buf;
        to.data = entry.data;
        to.tag = entry.tag;
        to.olen = beyond;
        to.err = code.0;
        to.prov_errno = number;
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
        let wait = queue.wait.as_ref().ok_or(Code::NO_SYS)?;
        let end = end_of(timeout);
        loop {
            match queue.read(buf, count, source) {
                Err(Code::AGAIN) => {}
                done => return done,
            }
            match queue.prepare() {
                Ok(()) if wait.was_signalled() => return Err(Code::AGAIN),
                Ok(()) if !wait.sleep(end, queue.sources.have_fd())? => return Err(Code::AGAIN),
                Ok(()) if wait.was_signalled() => return Err(Code::AGAIN),
                Ok(()) | Err(Code::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
    })
}

unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        inner::<_, Queue>(cq)?.wait.as_ref().ok_or(Code::NO_SYS)?.interrupt();
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
    unsafe { crate::eq::explanation(explain(number), buf, len) }
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let queue = object::of_class::<fid_cq, Queue>(fid, sys::FI_CLASS_CQ)?;
        wait_control(queue.wait.as_ref(), command, arg)
    })
}

/// Tells what to sleep on.
///
/// # Safety
/// `arg` is NULL or points to what the command wants.
pub(crate) unsafe fn wait_control(
    wait: Option<&Wait>,
    command: c_int,
    arg: *mut c_void,
) -> Outcome<()> {
    if arg.is_null() {
        return Err(Code::INVALID);
    }
    // SAFETY: the caller's promise.
    unsafe {
        match u32::try_from(command) {
            Ok(sys::FI_GETWAIT) => {
                arg.cast::<c_int>().write(wait.ok_or(Code::NO_DATA)?.raw());
                Ok(())
            }
            Ok(sys::FI_GETWAITOBJ) => {
                let object = if wait.is_some() { sys::FI_WAIT_FD } else { sys::FI_WAIT_NONE };
                arg.cast::<sys::fi_wait_obj>().write(object);
                Ok(())
            }
            _ => Err(Code::NO_SYS),
        }
    }
}
