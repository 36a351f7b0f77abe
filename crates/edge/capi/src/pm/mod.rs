//! PM's API (SCore's PMv2), declared and explained in `include/pm.h`.
//!
//! A context is an endpoint on one channel, and what the program holds of it: by PM's rules one
//! send buffer and one received message. Results are the codes of `errno.h`.

#![allow(non_snake_case, reason = "the names are PM's")]

mod alarm;
pub mod context;
pub mod device;
mod held;
pub mod memory;
pub mod message;
mod nodes;
mod progress;
pub mod select;
mod state;
#[cfg(test)]
mod tests;

use crate::error::{Code, Error, remember};
use gigae::{OpError, Reason, Status};
use rustix::io::Errno;
use std::ffi::{CStr, c_char, c_int};

/// `pmDevice`: never a real object, see [`crate::handle`].
#[repr(C)]
pub struct PmDevice {
    _opaque: [u8; 0],
}

/// `pmContext`: never a real object.
#[repr(C)]
pub struct PmContext {
    _opaque: [u8; 0],
}

/// `PM_NODE_ANY`
const NODE_ANY: c_int = -1;

/// Why a call failed: PM's code, and the text for `gigae_last_error`.
#[derive(Debug)]
pub(crate) struct Fault {
    errno: Errno,
    why: Option<Error>,
}

type PmResult<T> = Result<T, Fault>;

impl Fault {
    fn new(errno: Errno, why: &str) -> Self {
        Self { errno, why: Some(Error::new(Code::Other, why)) }
    }

    /// An invalid argument.
    #[cold]
    fn invalid(why: &str) -> Self {
        Error::invalid(why).into()
    }

    /// A lost peer in PM's terms: a reset network, or a data link that does not work.
    fn lost(reason: Reason, why: &str) -> Self {
        let errno = match reason {
            Reason::Reset | Reason::Closed => Errno::PIPE,
            _ => Errno::IO,
        };
        Self::new(errno, why)
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self { errno, why: None }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let errno = match error.code {
            Code::Invalid | Code::BadHandle | Code::Address | Code::Channel | Code::TooLong => {
                Errno::INVAL
            }
            Code::InCall | Code::Busy => Errno::BUSY,
            Code::NoInterface => Errno::NODEV,
            Code::TooMany => Errno::NOMEM,
            Code::Again => Errno::NOBUFS,
            _ => Errno::IO,
        };
        Self { errno, why: Some(error) }
    }
}

impl From<OpError> for Fault {
    fn from(error: OpError) -> Self {
        let errno = match error {
            OpError::Lost(reason) => return Self::lost(reason, &error.to_string()),
            OpError::Refused(Status::Key) => Errno::NOENT,
            OpError::Refused(Status::Bounds) => Errno::INVAL,
            _ => Errno::IO,
        };
        Self::new(errno, &error.to_string())
    }
}

/// The result for C code.
#[inline]
fn answer(outcome: PmResult<()>) -> c_int {
    let Err(fault) = outcome else { return 0 };
    if let Some(why) = &fault.why {
        remember(why);
    }
    fault.errno.raw_os_error()
}

/// The meaning of the codes that these calls return.
const TEXTS: &[(Errno, &CStr)] = &[
    (Errno::NODEV, c"no such device; give the type ethernet and an existing interface"),
    (Errno::INVAL, c"an argument is NULL, out of range or unknown; see gigae_last_error"),
    (Errno::IO, c"the data link failed, or nothing is held; see gigae_last_error"),
    (Errno::NOMEM, c"no room for another device, context or node; close one"),
    (Errno::NOBUFS, c"no buffer or no message now; receive, then try again"),
    (
        Errno::BUSY,
        c"the context is in use, or a transfer is in progress; wait for it, then try again",
    ),
    (Errno::NOSYS, c"this implementation cannot do that"),
    (Errno::NOSPC, c"too little room for the answer, or too many regions are locked"),
    (Errno::NOENT, c"this memory is not locked; lock it with pmMLock"),
    (Errno::PIPE, c"the other node's end was reset; what was sent to it may be lost"),
];

/// The meaning of a code. See the header, as for all that follow.
#[unsafe(no_mangle)]
pub extern "C" fn pmErrorString(error: c_int) -> *const c_char {
    let known = TEXTS.iter().find(|(errno, _)| errno.raw_os_error() == error);
    let text = match (error, known) {
        (0, _) => c"no error",
        (_, Some((_, text))) => text,
        (_, None) => c"not a code of this library",
    };
    text.as_ptr()
}
