//! Devices: the list of nodes, and the interface.

use super::nodes::{self, Nodes};
use super::{Fault, PmDevice, PmResult, answer};
use crate::error::Error;
use crate::handle::{HandleTable, contain};
use crate::text;
use rustix::io::Errno;
use std::ffi::{c_char, c_int};
use std::ptr;

/// The one type of device, `PM_ETHERNET`.
const ETHERNET: &str = "ethernet";

/// All open devices of the process.
pub(super) static DEVICES: HandleTable<Nodes> = HandleTable::new(3);

/// Opens a device. See the header, as for all that follow.
///
/// # Safety
/// Pointers are NULL or as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmOpenDevice(
    r#type: *mut c_char,
    argc: c_int,
    argv: *mut *mut c_char,
    pmdp: *mut *mut PmDevice,
) -> c_int {
    // SAFETY: the caller's promise.
    answer(guard(|| unsafe {
        text::put(pmdp, ptr::null_mut(), "where to put the device")?;
        if text::take(r#type, "the type")? != ETHERNET {
            return Err(Fault::new(Errno::NODEV, "no such type of device; give ethernet"));
        }
        let nodes = nodes::read(config(argc, argv)?)?;
        let handle = DEVICES.insert(Box::new(nodes))?;
        Ok(text::put(pmdp, ptr::without_provenance_mut(handle), "where to put the device")?)
    }))
}

/// The argument of `-config`, if there is one.
///
/// # Safety
/// `argv` is NULL or has `argc` pointers to text that stays for `'a`.
unsafe fn config<'a>(argc: c_int, argv: *mut *mut c_char) -> PmResult<Option<&'a str>> {
    let mut file = None;
    let count = usize::try_from(argc).map_err(|_| Fault::invalid("argc is negative"))?;
    if count > 0 && argv.is_null() {
        return Err(Error::null("argv").into());
    }
    let mut at = 0;
    while at < count {
        // SAFETY: the caller's promise.
        let word = |at: usize| unsafe { text::take(*argv.add(at), "an argument") };
        match word(at)? {
            "-config" if at + 1 < count => {
                file = Some(word(at + 1)?);
                at += 1;
            }
            // The name of a program, as in main's argv.
            first if at == 0 && !first.starts_with('-') => {}
            other => {
                let why = format!("unknown argument {other}; give -config FILE or nothing");
                return Err(Fault::invalid(&why));
            }
        }
        at += 1;
    }
    Ok(file)
}

/// Closes a device.
#[unsafe(no_mangle)]
pub extern "C" fn pmCloseDevice(pmd: *mut PmDevice) -> c_int {
    answer(guard(|| {
        drop(DEVICES.remove(pmd.addr(), |_| Ok(()))?);
        Ok(())
    }))
}

/// Runs a call without a context: nothing unwinds into C.
pub(super) fn guard(work: impl FnOnce() -> PmResult<()>) -> PmResult<()> {
    contain(|| Ok(work()))?
}
