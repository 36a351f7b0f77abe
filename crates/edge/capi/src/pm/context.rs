//! Contexts: opening, closing, and the nodes that a context communicates with.

use super::device::{DEVICES, guard};
use super::state::{CONTEXTS, Context, call};
use super::{Fault, PmContext, PmDevice, PmResult, answer};
use crate::error::Error;
use crate::text;
use gigae::Options;
use rustix::io::Errno;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::time::{Duration, Instant};

/// Longest wait in closing until the windows have room for the last messages. The endpoint then
/// waits for their acknowledgement.
const LINGER: Duration = Duration::from_secs(1);

/// Opens a context. See the header, as for all that follow.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmOpenContext(
    pmd: *mut PmDevice,
    ctx: c_int,
    pmcp: *mut *mut PmContext,
) -> c_int {
    // SAFETY: the caller's promise.
    answer(guard(|| unsafe {
        text::put(pmcp, ptr::null_mut(), "where to put the context")?;
        let table = DEVICES.with(pmd.addr(), |nodes| Ok(nodes.clone()))?;
        let why = || Fault::invalid("a context's number is from 0 to 255");
        let channel = u8::try_from(ctx).map_err(|_| why())?;
        let options = Options::trunk(&table.interfaces).channels([channel]);
        gigae::log_to_stderr();
        let endpoint = options.payload_checksum(table.checksum).open().map_err(Error::from)?;
        let context = Context::new(endpoint, channel, table)?;
        let handle = CONTEXTS.insert(Box::new(context))?;
        Ok(text::put(pmcp, ptr::without_provenance_mut(handle), "where to put the context")?)
    }))
}

/// Sends the last messages, if their receivers have room for them in time.
fn settle(context: &mut Context) {
    let end = Instant::now() + LINGER;
    while !context.waiting.is_empty() && Instant::now() < end {
        if context.progress().is_err() {
            break;
        }
    }
}

/// Closes a context.
#[unsafe(no_mangle)]
pub extern "C" fn pmCloseContext(pmc: *mut PmContext) -> c_int {
    answer(guard(|| {
        let send_rest = |context: &mut Context| {
            settle(context);
            Ok(())
        };
        drop(CONTEXTS.remove(pmc.addr(), send_rest)?);
        Ok(())
    }))
}

/// Not possible here.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmAttachContext(
    _type: *mut c_char,
    _fd: c_int,
    pmcp: *mut *mut PmContext,
) -> c_int {
    // SAFETY: the caller's promise.
    answer(guard(|| unsafe {
        text::put(pmcp, ptr::null_mut(), "where to put the context")?;
        Err(Fault::new(Errno::NODEV, "contexts stay in their process; open one with pmOpenContext"))
    }))
}

/// Chooses nodes.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmAssociateNodes(
    pmc: *mut PmContext,
    nodes: *const c_int,
    nnode: c_int,
) -> c_int {
    call(pmc, |context| {
        let count = usize::try_from(nnode).map_err(|_| Fault::invalid("nnode is negative"))?;
        if nodes.is_null() || count == 0 {
            return Err(Fault::invalid("no nodes are given"));
        }
        // SAFETY: the caller's promise; an int's number of ints is less than a slice can have.
        context.associate(unsafe { std::slice::from_raw_parts(nodes, count) })
    })
}

/// This node's number.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmGetSelf(pmc: *mut PmContext, node: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    call(pmc, |context| unsafe { Ok(text::put(node, context.me, "where to put the node")?) })
}

/// All nodes.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmGetNodeList(
    pmc: *mut PmContext,
    nodes: *mut c_int,
    nnodep: *mut c_int,
) -> c_int {
    call(pmc, |context| {
        let all: Vec<c_int> = context.table.nodes.keys().copied().collect();
        // SAFETY: the caller's promise.
        unsafe { list(&all, nodes, nnodep) }
    })
}

/// Returns numbers like `pmGetFd`: always their count, and all of them if there is room.
///
/// # Safety
/// `count` is NULL or says for how many numbers `into` has room.
pub(super) unsafe fn list(all: &[c_int], into: *mut c_int, count: *mut c_int) -> PmResult<()> {
    // SAFETY: the caller's promise.
    let count = unsafe { count.as_mut() }.ok_or_else(|| Error::null("the number of places"))?;
    let room = usize::try_from(*count).map_err(|_| Fault::invalid("the room is negative"))?;
    *count = c_int::try_from(all.len()).unwrap_or(c_int::MAX);
    if room < all.len() {
        return Err(Errno::NOSPC.into());
    }
    if into.is_null() {
        return Err(Error::null("the places").into());
    }
    // SAFETY: the caller's promise, and there is room.
    unsafe { into.copy_from_nonoverlapping(all.as_ptr(), all.len()) };
    Ok(())
}

/// Longest message.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmGetMtu(pmc: *mut PmContext, mtu: *mut usize) -> c_int {
    call(pmc, |context| {
        let longest = context.state.endpoint().max_message();
        // SAFETY: the caller's promise.
        unsafe { text::put(mtu, longest, "where to put the length")? };
        Ok(())
    })
}

/// Writes a description to standard error.
#[unsafe(no_mangle)]
pub extern "C" fn pmDumpContext(pmc: *mut PmContext) -> c_int {
    call(pmc, |context| {
        // If standard error does not work, nothing can be reported.
        let _ = context.dump(&mut std::io::stderr().lock());
        Ok(())
    })
}

/// Not possible here.
#[unsafe(no_mangle)]
pub extern "C" fn pmTimeRequest(pmc: *mut PmContext, _dest: c_int) -> c_int {
    call(pmc, |_| Err(Errno::NOSYS.into()))
}
