//! Poll sets: return which queues and counters are ready, without sleeping.

use crate::completions::ReadArray;
use crate::counter::Counter;
use crate::cq::Queue;
use crate::domain::Domain;
use crate::error::{Code, OfiResult, guard, status};
use crate::object::{self, descriptor, inner, lock, table};
use crate::sys::{self, fi_ops_poll, fi_poll_attr, fid, fid_cntr, fid_cq, fid_poll};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

/// What can be in a set.
enum Pollable {
    Queue(Arc<Queue>),
    /// With its values when it was last reported.
    Counter(Arc<Counter>, [u64; 2]),
}

/// See [`Pollable`], and how the program names it.
struct PollSetMember {
    fid: *mut fid,
    context: *mut c_void,
    watched: Pollable,
}

// SAFETY: the pointers are only compared and handed back.
unsafe impl Send for PollSetMember {}

/// What the descriptor leads to.
pub(crate) struct PollSet(Mutex<Vec<PollSetMember>>, Arc<Domain>);

impl PollSetMember {
    /// Makes progress. Returns whether there is something to read that was not reported yet.
    fn is_ready(&mut self) -> OfiResult<bool> {
        match &mut self.watched {
            Pollable::Queue(queue) => queue.is_ready(),
            Pollable::Counter(counter, seen) => {
                let progress = counter.sources.progress(&mut ReadArray::none());
                let before = std::mem::replace(seen, counter.count.values());
                if *seen == before { progress.and(Ok(false)) } else { Ok(true) }
            }
        }
    }
}

static OPS: sys::fi_ops = object::only_close::<fid_poll, PollSet>();

static POLL_OPS: fi_ops_poll = fi_ops_poll {
    size: size_of::<fi_ops_poll>(),
    poll: Some(poll),
    poll_add: Some(add),
    poll_del: Some(remove),
};

/// Opens a set of a domain, which stays open as long.
///
/// # Safety
/// Pointers are NULL or to what their types say, as for all entries that follow.
pub(crate) unsafe fn open(
    domain: Arc<Domain>,
    attr: *mut fi_poll_attr,
    set: *mut *mut fid_poll,
) -> OfiResult<()> {
    // SAFETY: the caller's promise.
    if unsafe { attr.as_ref() }.is_some_and(|attr| attr.flags != 0) {
        return Err(Code::INVALID);
    }
    let fid = descriptor(sys::FI_CLASS_POLL, std::ptr::null_mut(), &OPS);
    let inner = Arc::new(PollSet(Mutex::default(), domain));
    // SAFETY: the caller's promise: `set` is NULL or points to a pointer.
    unsafe { object::open(fid_poll { fid, ops: table(&POLL_OPS) }, inner, set) }
}

/// The contexts of the ready members, in the order in which they were added, as many as there is
/// room for.
unsafe extern "C" fn poll(set: *mut fid_poll, contexts: *mut *mut c_void, count: c_int) -> c_int {
    // SAFETY: the caller's promise: room for `count` contexts.
    guard(|| unsafe {
        let mut members = lock(&inner::<_, PollSet>(set)?.0);
        let room = usize::try_from(count).map_err(|_| Code::INVALID)?;
        if contexts.is_null() && room > 0 {
            return Err(Code::INVALID);
        }
        let (mut written, mut first) = (0, Ok(()));
        for member in members.iter_mut() {
            if written == room {
                break;
            }
            match member.is_ready() {
                Ok(true) => {
                    contexts.add(written).write(member.context);
                    written += 1;
                }
                Ok(false) => {}
                Err(code) => first = first.and(Err(code)),
            }
        }
        // An error is for a program that finds nothing else.
        if written == 0 { first.and(Ok(0)) } else { Ok(written) }
    }) as c_int
}

unsafe extern "C" fn add(set: *mut fid_poll, event: *mut fid, flags: u64) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let set = inner::<_, PollSet>(set)?;
        let fid = event.as_ref().ok_or(Code::INVALID)?;
        if flags != 0 {
            return Err(Code::INVALID);
        }
        let watched = match fid.fclass as u32 {
            sys::FI_CLASS_CQ => {
                let queue = inner::<_, Queue>(event.cast::<fid_cq>())?;
                set.1.check(&queue.domain)?;
                Pollable::Queue(Arc::clone(queue))
            }
            sys::FI_CLASS_CNTR => {
                let counter = inner::<_, Counter>(event.cast::<fid_cntr>())?;
                set.1.check(&counter.domain)?;
                Pollable::Counter(Arc::clone(counter), counter.count.values())
            }
            // An event queue needs no progress: reading it shows everything.
            _ => return Err(Code::NO_SYS),
        };
        lock(&set.0).push(PollSetMember { fid: event, context: fid.context, watched });
        Ok(())
    })
}

unsafe extern "C" fn remove(set: *mut fid_poll, event: *mut fid, _flags: u64) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let mut members = lock(&inner::<_, PollSet>(set)?.0);
        let at = members.iter().position(|member| member.fid == event).ok_or(Code::INVALID)?;
        members.remove(at);
        Ok(())
    })
}
