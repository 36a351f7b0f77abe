//! Sleeping in `select`.

use super::PmContext;
use super::alarm::Alarm;
use super::context::list;
use super::state::call;
use std::ffi::c_int;

/// Descriptors for `select` and `poll`. See the header, as for all that follow.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmGetFd(pmc: *mut PmContext, fd: *mut c_int, nfdp: *mut c_int) -> c_int {
    call(pmc, |context| {
        let alarm = match context.alarm.take() {
            Some(alarm) => alarm,
            None => Alarm::new(context.state.endpoint())?,
        };
        let alarm = context.alarm.insert(alarm);
        // SAFETY: the caller's promise.
        unsafe { list(&[alarm.fd()], fd, nfdp) }
    })
}

/// Before `select`.
#[unsafe(no_mangle)]
pub extern "C" fn pmBeforeSelect(pmc: *mut PmContext) -> c_int {
    call(pmc, |context| {
        context.selecting = true;
        context.arm()
    })
}

/// After `select`.
#[unsafe(no_mangle)]
pub extern "C" fn pmAfterSelect(pmc: *mut PmContext) -> c_int {
    call(pmc, |context| {
        context.selecting = false;
        if let Some(alarm) = &context.alarm {
            alarm.set(None)?;
        }
        context.progress()
    })
}
