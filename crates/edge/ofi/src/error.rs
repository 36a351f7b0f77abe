//! The results for C: 0 or a count, or a negative error number of libfabric.
//!
//! No panic crosses into C: every entry runs in [`guard`] or [`status`].

use crate::sys;
use gigae::{OpError, OperationError, PeerError, Reason, RecvError, SendError, Status};
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A positive error number of libfabric: those of the system and some more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

pub(crate) type OfiResult<T> = Result<T, Code>;

impl Code {
    pub(crate) const AGAIN: Self = Self(sys::FI_EAGAIN as c_int);
    pub(crate) const INVALID: Self = Self(sys::FI_EINVAL as c_int);
    pub(crate) const NO_DATA: Self = Self(sys::FI_ENODATA as c_int);
    pub(crate) const NO_SYS: Self = Self(sys::FI_ENOSYS as c_int);
    pub(crate) const NO_ENTRY: Self = Self(sys::FI_ENOENT as c_int);
    pub(crate) const NO_MESSAGE: Self = Self(sys::FI_ENOMSG as c_int);
    pub(crate) const NO_OPTION: Self = Self(sys::FI_ENOPROTOOPT as c_int);
    pub(crate) const NO_DEVICE: Self = Self(sys::FI_ENODEV as c_int);
    pub(crate) const BUSY: Self = Self(sys::FI_EBUSY as c_int);
    pub(crate) const TOO_LONG: Self = Self(sys::FI_EMSGSIZE as c_int);
    pub(crate) const TOO_SMALL: Self = Self(sys::FI_ETOOSMALL as c_int);
    pub(crate) const CANCELED: Self = Self(sys::FI_ECANCELED as c_int);
    pub(crate) const TRUNCATED: Self = Self(sys::FI_ETRUNC as c_int);
    pub(crate) const AVAILABLE: Self = Self(sys::FI_EAVAIL as c_int);
    pub(crate) const BAD_STATE: Self = Self(sys::FI_EOPBADSTATE as c_int);
    pub(crate) const NO_AV: Self = Self(sys::FI_ENOAV as c_int);
    pub(crate) const NO_CQ: Self = Self(sys::FI_ENOCQ as c_int);
    pub(crate) const NO_ADDRESS: Self = Self(sys::FI_EADDRNOTAVAIL as c_int);
    pub(crate) const TIMED_OUT: Self = Self(sys::FI_ETIMEDOUT as c_int);
    pub(crate) const IO: Self = Self(sys::FI_EIO as c_int);
    pub(crate) const OTHER: Self = Self(sys::FI_EOTHER as c_int);
    const PERMISSION: Self = Self(sys::FI_EPERM as c_int);
    const RESET: Self = Self(sys::FI_ECONNRESET as c_int);
    const UNREACHABLE: Self = Self(sys::FI_EHOSTUNREACH as c_int);
    pub(crate) const KEY: Self = Self(sys::FI_ENOKEY as c_int);
    const ACCESS: Self = Self(sys::FI_EACCES as c_int);
    const RANGE: Self = Self(libc::ERANGE);

    /// The code of an operation's error. The second number distinguishes errors with the same code;
    /// [`explain`] explains it.
    pub(crate) fn of_operation(error: &OpError) -> (Self, c_int) {
        match error {
            OpError::Truncated => (Self::TRUNCATED, 1),
            OpError::Cancelled => (Self::CANCELED, 2),
            OpError::Lost(Reason::Timeout) => (Self::UNREACHABLE, 3),
            OpError::Lost(Reason::Reset) => (Self::RESET, 4),
            OpError::Lost(_) => (Self::RESET, 5),
            OpError::Refused(Status::Key) => (Self::KEY, 6),
            OpError::Refused(Status::Bounds) => (Self::RANGE, 7),
            OpError::Refused(Status::Rights) => (Self::ACCESS, 8),
            OpError::Refused(Status::Busy) => (Self::BUSY, 9),
            _ => (Self::OTHER, 10),
        }
    }
}

/// The meaning of a second number of [`Code::of_operation`].
pub(crate) fn explain(number: c_int) -> &'static CStr {
    match number {
        1 => c"the message is longer than the memory that it was received into; post more",
        2 => c"it was cancelled",
        3 => c"the peer does not answer; check that its program runs and that the link is up",
        4 => c"the peer restarted or closed its endpoint",
        5 => c"the session with the peer ended; install the same release on both ends",
        6 => c"the peer has no memory registered under this key; ask it for the current key",
        7 => c"the bytes are not all within the remote memory; check address and length",
        8 => c"the remote memory was not registered for this; register it with FI_REMOTE_READ or FI_REMOTE_WRITE",
        9 => c"the peer has too many completions with remote data that it did not read; let it read its completion queue",
        11 => c"there is no such message yet",
        _ => c"no further explanation",
    }
}

/// Returns a text: copied into a buffer, if there is one, and as a constant.
///
/// # Safety
/// `buf` is NULL or points to `len` writable bytes.
pub(crate) unsafe fn explanation(
    text: &'static CStr,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    let bytes = text.to_bytes();
    if !buf.is_null() && len > 0 {
        let count = bytes.len().min(len - 1);
        // SAFETY: the caller's promise.
        unsafe {
            buf.cast::<u8>().copy_from(bytes.as_ptr(), count);
            buf.add(count).write(0);
        }
        return buf;
    }
    text.as_ptr()
}

impl From<OperationError> for Code {
    fn from(_: OperationError) -> Self {
        Self::AGAIN
    }
}

impl From<SendError> for Code {
    fn from(_: SendError) -> Self {
        Self::IO
    }
}

impl From<RecvError> for Code {
    fn from(_: RecvError) -> Self {
        Self::IO
    }
}

impl From<PeerError> for Code {
    fn from(_: PeerError) -> Self {
        Self::NO_ADDRESS
    }
}

impl From<gigae::OpenError> for Code {
    fn from(error: gigae::OpenError) -> Self {
        use gigae::OpenError;
        match &error {
            OpenError::NoInterface { .. } | OpenError::InterfaceDown(_) => Self::NO_DEVICE,
            OpenError::MissingCapability { .. } | OpenError::Refused { .. } => Self::PERMISSION,
            OpenError::Io { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Self::PERMISSION
            }
            _ => Self::IO,
        }
    }
}

impl From<rustix::io::Errno> for Code {
    fn from(error: rustix::io::Errno) -> Self {
        Self(error.raw_os_error())
    }
}

/// Runs an entry that returns a count.
pub(crate) fn guard(entry: impl FnOnce() -> OfiResult<usize>) -> isize {
    match catch_unwind(AssertUnwindSafe(entry)) {
        Ok(Ok(count)) => count.cast_signed(),
        Ok(Err(Code(code))) => -(code as isize),
        Err(_) => -(Code::OTHER.0 as isize),
    }
}

/// Runs an entry that returns a status.
pub(crate) fn status(entry: impl FnOnce() -> OfiResult<()>) -> c_int {
    guard(|| entry().map(|()| 0)) as c_int
}

/// The result of an operation that does not exist.
pub(crate) trait Enosys {
    /// The refusal.
    const REFUSED: Self;
}

impl Enosys for c_int {
    const REFUSED: Self = -Code::NO_SYS.0;
}

impl Enosys for isize {
    const REFUSED: Self = -(Code::NO_SYS.0 as isize);
}

impl Enosys for *const c_char {
    const REFUSED: Self = std::ptr::null();
}

/// The entry of an operation that does not exist. Callers do not check for empty entries in a
/// table.
pub(crate) trait Stub {
    /// The entry that refuses.
    const NONE: Self;
}

macro_rules! stubs {
    ($($argument:ident)*) => {
        impl<R: Enosys, $($argument),*> Stub for Option<unsafe extern "C" fn($($argument),*) -> R> {
            const NONE: Self = {
                unsafe extern "C" fn refuse<R: Enosys, $($argument),*>($(_: $argument),*) -> R {
                    R::REFUSED
                }
                Some(refuse::<R, $($argument),*>)
            };
        }
    };
}

stubs!(A);
stubs!(A B);
stubs!(A B C);
stubs!(A B C D);
stubs!(A B C D E);
stubs!(A B C D E F);
stubs!(A B C D E F G);
stubs!(A B C D E F G H);
stubs!(A B C D E F G H I);
stubs!(A B C D E F G H I J);
stubs!(A B C D E F G H I J K);
stubs!(A B C D E F G H I J K L);
stubs!(A B C D E F G H I J K L M);
stubs!(A B C D E F G H I J K L M N);
stubs!(A B C D E F G H I J K L M N O);
stubs!(A B C D E F G H I J K L M N O P);
