//! Messages: one send buffer and one received message at a time.

use super::held::HeldSend;
use super::state::call;
use super::{Fault, PmContext};
use crate::error::{Code, Error};
use crate::text;
use gigae::RecvError;
use rustix::io::Errno;
use std::ffi::{c_char, c_int};

/// Takes a buffer to build a message in. See the header, as for all that follow.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmGetSendBuffer(
    pmc: *mut PmContext,
    dest: c_int,
    bufp: *mut *mut c_char,
    len: usize,
) -> c_int {
    call(pmc, |context| {
        if bufp.is_null() {
            return Err(Error::null("where to put the buffer").into());
        }
        if context.filling.is_some() {
            return Err(Errno::BUSY.into());
        }
        let to = context.peer(dest)?;
        let longest = context.state.endpoint().max_message();
        if !(1..=longest).contains(&len) {
            let why = format!("a message of {len} bytes; 1 to {longest} can be sent");
            return Err(Fault::invalid(&why));
        }
        context.retry();
        let free = context.waiting.iter().all(|message| message.to != to);
        let buffer = free.then(|| context.state.endpoint().try_buffer()).flatten();
        let Some(buffer) = buffer else {
            context.progress()?;
            return Err(Errno::NOBUFS.into());
        };
        let ticket = context.state.buffers.insert(buffer).map_err(|_| Errno::NOMEM)?;
        context.filling = Some(HeldSend { ticket, to, len });
        let bytes = context.state.buffers.get_mut(ticket).ok_or(Error::from(Code::BadHandle))?;
        // SAFETY: the caller's promise.
        unsafe { text::put(bufp, bytes.as_mut_ptr().cast(), "where to put the buffer")? };
        Ok(())
    })
}

/// Not possible here.
///
/// # Safety
/// Nothing is read or written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmGetMulticastBuffer(
    pmc: *mut PmContext,
    _dest: *mut c_int,
    _ndest: c_int,
    _bufp: *mut *mut c_char,
    _len: usize,
) -> c_int {
    call(pmc, |_| Err(Errno::NOSYS.into()))
}

/// Shortens the message that is being built.
#[unsafe(no_mangle)]
pub extern "C" fn pmTruncateBuffer(pmc: *mut PmContext, len: usize) -> c_int {
    call(pmc, |context| {
        let message = context.filling.as_mut().ok_or_else(none_held)?;
        if !(1..=message.len).contains(&len) {
            let why = format!("{len} bytes of a buffer of {}; give 1 or more of them", message.len);
            return Err(Fault::invalid(&why));
        }
        message.len = len;
        Ok(())
    })
}

fn none_held() -> Fault {
    Fault::new(Errno::IO, "no send buffer is held; take one with pmGetSendBuffer")
}

/// Sends the message that was built.
#[unsafe(no_mangle)]
pub extern "C" fn pmSend(pmc: *mut PmContext) -> c_int {
    call(pmc, |context| {
        let message = context.filling.take().ok_or_else(none_held)?;
        if !context.transfers.is_empty()
            && let Err(fault) = context.reap()
        {
            context.fault = Some(fault);
        }
        context.post(message)?;
        // The message goes out in any case. The next call reports an error of the doorbell; an
        // error now would make the program send it twice.
        let _ = context.state.endpoint().flush();
        Ok(())
    })
}

/// The next message, if there is one.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmReceive(
    pmc: *mut PmContext,
    bufp: *mut *mut c_char,
    lenp: *mut usize,
) -> c_int {
    call(pmc, |context| {
        if bufp.is_null() || lenp.is_null() {
            return Err(Error::null("where to put the message").into());
        }
        if context.reading.is_some() {
            return Err(Errno::BUSY.into());
        }
        context.retry();
        if let Some(fault) = context.fault.take() {
            return Err(fault);
        }
        let message = match context.state.endpoint().try_recv() {
            Ok(Some(message)) => message,
            Ok(None) => {
                if context.selecting {
                    // Everything received until now may have changed when there is something to do.
                    context.arm()?;
                }
                return Err(Errno::NOBUFS.into());
            }
            Err(RecvError::Failed) => return Err(context.failed()),
            Err(e) => return Err(Error::from(e).into()),
        };
        let ticket = context.state.messages.insert(message).map_err(|_| Errno::NOMEM)?;
        context.reading = Some(ticket);
        let bytes = context.state.messages.get(ticket).ok_or(Error::from(Code::BadHandle))?;
        // SAFETY: the caller's promise.
        unsafe {
            text::put(bufp, bytes.as_ptr().cast_mut().cast(), "where to put the message")?;
            Ok(text::put(lenp, bytes.len(), "where to put the length")?)
        }
    })
}

/// Returns the message.
#[unsafe(no_mangle)]
pub extern "C" fn pmReleaseReceiveBuffer(pmc: *mut PmContext) -> c_int {
    call(pmc, |context| {
        let none = || Fault::new(Errno::IO, "no message is held; take one with pmReceive");
        let ticket = context.reading.take().ok_or_else(none)?;
        drop(context.state.messages.remove(ticket));
        Ok(())
    })
}
