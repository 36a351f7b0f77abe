//! Counters of completions. Their values are in `count.rs`.

use crate::completions::ReadArray;
use crate::core::Core;
use crate::count::Count;
use crate::error::{Code, OfiResult, Stub, status};
use crate::lock::Threads;
use crate::object::{self, KeepAlive, descriptor, inner, table};
use crate::sources::Sources;
use crate::spin::Spin;
use crate::sys::{self, fi_cntr_attr, fi_ops, fi_ops_cntr, fid, fid_cntr};
use crate::wait::{WaitObject, end_of, wait_control, wait_of};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the descriptor leads to.
pub(crate) struct Counter {
    pub(crate) count: Arc<Count>,
    pub(crate) sources: Sources,
    spin: Spin,
    /// What the program knows: each number at its last read, or when a call last said not to sleep.
    seen: Count,
    pub(crate) domain: KeepAlive,
}

/// Empty polls of a wait before it begins to sleep briefly between polls.
const LOOKS: u32 = 1000;

/// Length of such a sleep.
const NAP: Duration = Duration::from_micros(100);

impl Counter {
    fn wait(&self) -> Option<&WaitObject> {
        self.count.wait.as_ref()
    }

    /// Also makes progress at this endpoint, and wakes for it.
    pub(crate) fn follow(&self, core: &Arc<Core>) -> OfiResult<()> {
        self.sources.follow(core, self.wait())
    }

    /// Ends that.
    pub(crate) fn leave(&self, core: &Arc<Core>) {
        self.sources.leave(core, self.wait());
    }

    /// Prepares for sleeping on the descriptor.
    pub(crate) fn prepare(&self) -> OfiResult<()> {
        let wait = self.wait().ok_or(Code::INVALID)?;
        let progress = self.sources.progress(&mut ReadArray::none());
        wait.prepare(|| progress.and_then(|()| self.sources.prepare()), || self.has_changed())
    }

    /// Whether there is something that the program does not know. True once.
    pub(crate) fn has_changed(&self) -> bool {
        let [done, failed] = self.count.values();
        let seen = [(&self.seen.done, done), (&self.seen.failed, failed)];
        seen.map(|(seen, now)| seen.swap(now, Ordering::Relaxed)) != [done, failed]
    }

    fn wait_for(&self, threshold: u64, timeout: c_int) -> OfiResult<()> {
        let failed = self.count.failed.load(Ordering::Acquire);
        let end = end_of(timeout);
        let mut polls = 0;
        loop {
            let progress = self.sources.progress(&mut ReadArray::none());
            if self.count.failed.load(Ordering::Acquire) != failed {
                return Err(Code::AVAILABLE);
            }
            if self.count.done.load(Ordering::Acquire) >= threshold {
                return Ok(());
            }
            progress?;
            if end.is_some_and(|end| Instant::now() >= end) {
                return Err(Code::TIMED_OUT);
            }
            polls += 1;
            if polls > LOOKS { std::thread::sleep(NAP) } else { std::thread::yield_now() }
        }
    }
}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(object::close_entry::<fid_cntr, Counter>),
    bind: Stub::NONE,
    control: Some(control),
    ops_open: Stub::NONE,
    tostr: Stub::NONE,
    ops_set: Stub::NONE,
};

static COUNTER_OPS: fi_ops_cntr = fi_ops_cntr {
    size: size_of::<fi_ops_cntr>(),
    read: Some(read),
    readerr: Some(readerr),
    add: Some(add),
    set: Some(set),
    wait: Some(wait),
    adderr: Some(adderr),
    seterr: Some(seterr),
};

/// Opens a counter of a domain, which stays open as long.
///
/// # Safety
/// Pointers are NULL or to what their types say, as for all entries that follow.
pub(crate) unsafe fn open(
    domain: KeepAlive,
    threads: Threads,
    attr: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> OfiResult<()> {
    // SAFETY: the caller's promise.
    let wait = match unsafe { attr.as_ref() } {
        None => None,
        Some(attr) if attr.events != sys::FI_CNTR_EVENTS_COMP => return Err(Code::NO_SYS),
        Some(attr) => wait_of(attr.wait_obj)?,
    };
    let counter = Counter {
        count: Arc::new(Count::new(wait)),
        sources: Sources::new(threads),
        spin: Spin::new(),
        seen: Count::new(None),
        domain,
    };
    let fid = descriptor(sys::FI_CLASS_CNTR, context, &OPS);
    // SAFETY: the caller's promise: `cntr` is NULL or points to a pointer.
    unsafe { object::open(fid_cntr { fid, ops: table(&COUNTER_OPS) }, Arc::new(counter), cntr) }
}

/// The value after progress was made, also if that panics; 0 for an invalid descriptor.
///
/// # Safety
/// The descriptor is NULL or of an open counter.
unsafe fn number(cntr: *mut fid_cntr, which: impl Fn(&Count) -> &AtomicU64) -> u64 {
    // SAFETY: the caller's promise.
    let Ok(counter) = (unsafe { inner::<_, Counter>(cntr) }) else { return 0 };
    let mut array = ReadArray::none();
    // Operations and waits report a link that stopped working.
    status(|| counter.sources.progress(&mut array));
    let number = which(&counter.count).load(Ordering::Acquire);
    match which(&counter.seen).swap(number, Ordering::Relaxed) == number {
        true => _ = counter.spin.empty_poll(array.did_work()),
        false => counter.spin.found(),
    }
    number
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { number(cntr, |count| &count.done) }
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { number(cntr, |count| &count.failed) }
}

/// # Safety
/// The descriptor is NULL or of an open counter.
unsafe fn change(cntr: *mut fid_cntr, how: impl FnOnce(&Count)) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let count = &inner::<_, Counter>(cntr)?.count;
        how(count);
        count.signal();
        Ok(())
    })
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(cntr, |count| _ = count.done.fetch_add(value, Ordering::AcqRel)) }
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(cntr, |count| count.done.store(value, Ordering::Release)) }
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(cntr, |count| _ = count.failed.fetch_add(value, Ordering::AcqRel)) }
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(cntr, |count| count.failed.store(value, Ordering::Release)) }
}

unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { inner::<_, Counter>(cntr)?.wait_for(threshold, timeout) })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let counter = object::of_class::<fid_cntr, Counter>(fid, sys::FI_CLASS_CNTR)?;
        wait_control(counter.wait(), command, arg)
    })
}
