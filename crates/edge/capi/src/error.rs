//! The error codes for C, their conversion from the library's errors, and the text of each thread's
//! last error.

use crate::clip;
use gigae::{
    ClusterError, DrainError, LinkError, OpError, OpenError, PeerError, RecvError, SendError,
    Status, TrySendError,
};
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::io::ErrorKind;

/// The codes, with the texts of `gigae_error_text`; `ALL` is for comparing them with the header.
macro_rules! codes {
    ($($code:ident $name:literal = $value:literal: $text:literal,)*) => {
        /// The error codes of the entries.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code { $($code = $value,)* }

        impl Code {
            /// Every code with its name in the header.
            pub(crate) const ALL: &[(Self, &'static str)] = &[$((Self::$code, $name),)*];

            fn c_text(self) -> &'static CStr {
                match self { $(Self::$code => $text,)* }
            }
        }
    };
}

codes! {
    Again "GIGAE_AGAIN" = -1: c"nothing there or no room now; receive or make progress, then try again",
    Timeout "GIGAE_TIMEOUT" = -2: c"the given time passed before it happened; wait longer or check the peer",
    Failed "GIGAE_FAILED" = -3: c"messages sent earlier failed; take them with gigae_take_failure, then continue",
    TooLong "GIGAE_TOO_LONG" = -4: c"the message is too long; gigae_max_message says what is possible",
    Invalid "GIGAE_INVALID" = -5: c"an argument is NULL, out of range or unknown; gigae_last_error says which",
    BadHandle "GIGAE_BAD_HANDLE" = -6: c"this handle, buffer, message, operation or key is closed, used up or was never valid; open, take or start a new one",
    InCall "GIGAE_IN_CALL" = -7: c"another thread is in a call on this handle; use it from one thread at a time",
    Busy "GIGAE_BUSY" = -8: c"the program still holds buffers or messages; send or drop them, then continue",
    Panicked "GIGAE_PANICKED" = -9: c"an error in the library stopped this endpoint; close it, open another and report this",
    NoInterface "GIGAE_NO_INTERFACE" = -10: c"there is no such network interface here",
    Down "GIGAE_DOWN" = -11: c"the interface is down; bring it up with 'ip link set NAME up'",
    Gone "GIGAE_GONE" = -12: c"the interface is gone; close the endpoint and open it again",
    Permission "GIGAE_PERMISSION" = -13: c"not permitted; run as root or grant the capability that gigae_last_error names",
    Mtu "GIGAE_MTU" = -14: c"the interface's MTU is too small; raise it with 'ip link set NAME mtu BYTES'",
    Unsupported "GIGAE_UNSUPPORTED" = -15: c"this kernel or link cannot do this; choose another backend",
    Taken "GIGAE_TAKEN" = -16: c"another program has the interface's XDP hook or queue, or detached this endpoint from it; end it or use the packet backend",
    Io "GIGAE_IO" = -17: c"a system call failed; gigae_last_error says which",
    Address "GIGAE_ADDRESS" = -18: c"not an address, or not one for this envelope; give a MAC address for Ethernet, an IP address for UDP",
    Channel "GIGAE_CHANNEL" = -19: c"this channel is not open here; open it with gigae_options_channels",
    TooMany "GIGAE_TOO_MANY" = -20: c"too many peers, or too many open in this process; close one",
    Unreachable "GIGAE_UNREACHABLE" = -21: c"there is no route to this IP address; check the address and the routes",
    Other "GIGAE_OTHER" = -22: c"an error without its own code; gigae_last_error says which",
    Truncated "GIGAE_TRUNCATED" = -23: c"the message is longer than the memory that it was received into; post more",
    Cancelled "GIGAE_CANCELLED" = -24: c"the operation was cancelled",
    Lost "GIGAE_LOST" = -25: c"the peer was lost; it is not known how much was done",
    NoRegion "GIGAE_NO_REGION" = -26: c"the peer has no memory registered under this key; ask it for the current key",
    Bounds "GIGAE_BOUNDS" = -27: c"the bytes are not all within the remote memory; check offset and length",
    Rights "GIGAE_RIGHTS" = -28: c"the remote memory was registered without the right to do this",
    Notices "GIGAE_NOTICES" = -29: c"the peer has not taken its notices; try again when it has",
    Cluster "GIGAE_CLUSTER" = -30: c"the cluster file is missing, wrong or lacks a node; gigae_last_error says where",
}

impl Code {
    /// The text of the code.
    pub(crate) fn text(self) -> &'static str {
        self.c_text().to_str().unwrap_or_default()
    }

    /// The code of a failed operation.
    pub(crate) fn of_operation(e: OpError) -> Self {
        match e {
            OpError::Truncated => Self::Truncated,
            OpError::Cancelled => Self::Cancelled,
            OpError::Lost(_) => Self::Lost,
            OpError::Refused(Status::Key) => Self::NoRegion,
            OpError::Refused(Status::Bounds) => Self::Bounds,
            OpError::Refused(Status::Rights) => Self::Rights,
            OpError::Refused(Status::Busy) => Self::Notices,
            _ => Self::Other,
        }
    }

    fn of(code: c_int) -> Option<Self> {
        Self::ALL.iter().map(|&(known, _)| known).find(|&known| known as c_int == code)
    }
}

/// Why an entry failed.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) code: Code,
    /// Details beyond the code's own text.
    detail: Option<String>,
}

/// The result of an entry's work.
pub(crate) type EntryResult<T> = Result<T, Error>;

impl Error {
    pub(crate) fn new(code: Code, detail: impl fmt::Display) -> Self {
        Self { code, detail: Some(detail.to_string()) }
    }

    /// An argument is NULL and must not be.
    #[cold]
    pub(crate) fn null(what: &str) -> Self {
        Self::new(Code::Invalid, format!("{what} is NULL; give a valid pointer"))
    }

    /// An argument is out of its range.
    #[cold]
    pub(crate) fn invalid(detail: impl fmt::Display) -> Self {
        Self::new(Code::Invalid, detail)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail.as_deref().unwrap_or(self.code.text()))
    }
}

impl From<Code> for Error {
    #[inline]
    fn from(code: Code) -> Self {
        Self { code, detail: None }
    }
}

impl From<OpenError> for Error {
    fn from(e: OpenError) -> Self {
        let code = match &e {
            OpenError::NoInterface { .. } => Code::NoInterface,
            OpenError::InterfaceDown(_) => Code::Down,
            OpenError::MissingCapability { .. } | OpenError::Refused { .. } => Code::Permission,
            OpenError::MtuTooSmall { .. } => Code::Mtu,
            OpenError::Unsupported { .. } => Code::Unsupported,
            OpenError::ForeignProgram { .. } | OpenError::QueueBusy { .. } => Code::Taken,
            // Refused by the library and not by the kernel: options that do not go together.
            OpenError::Io { source, .. }
                if source.kind() == ErrorKind::InvalidInput && source.raw_os_error().is_none() =>
            {
                Code::Invalid
            }
            OpenError::Io { .. } => Code::Io,
            _ => Code::Other,
        };
        Self::new(code, e)
    }
}

impl From<ClusterError> for Error {
    fn from(e: ClusterError) -> Self {
        Self::new(Code::Cluster, e)
    }
}

impl From<LinkError> for Error {
    fn from(e: LinkError) -> Self {
        let code = match &e {
            LinkError::Down(_) => Code::Down,
            LinkError::Gone(_) => Code::Gone,
            LinkError::Detached(_) => Code::Taken,
            LinkError::Io { .. } => Code::Io,
            _ => Code::Other,
        };
        Self::new(code, e)
    }
}

impl From<PeerError> for Error {
    fn from(e: PeerError) -> Self {
        match e {
            // The library's own text names its Rust interface.
            PeerError::Channel(c) => Self::new(
                Code::Channel,
                format!("channel {c} is not open here; open it with gigae_options_channels"),
            ),
            PeerError::Family => Code::Address.into(),
            PeerError::TooMany(_) => Self::new(Code::TooMany, e),
            PeerError::Unreachable(_) => Self::new(Code::Unreachable, e),
            _ => Self::new(Code::Other, e),
        }
    }
}

impl From<SendError> for Error {
    fn from(e: SendError) -> Self {
        match e {
            SendError::Link(e) => e.into(),
            SendError::Failed => Code::Failed.into(),
            SendError::BuffersHeld => Self::new(Code::Busy, e),
            SendError::TooLong { .. } => Self::new(Code::TooLong, e),
            _ => Self::new(Code::Other, e),
        }
    }
}

impl<B> From<TrySendError<B>> for Error {
    #[inline]
    fn from(e: TrySendError<B>) -> Self {
        match e {
            TrySendError::WouldBlock(_) => Code::Again.into(),
            TrySendError::Refused(e) => e.into(),
        }
    }
}

impl From<RecvError> for Error {
    fn from(e: RecvError) -> Self {
        match e {
            RecvError::Link(e) => e.into(),
            RecvError::Failed => Code::Failed.into(),
            _ => Self::new(Code::Other, e),
        }
    }
}

impl From<DrainError> for Error {
    fn from(e: DrainError) -> Self {
        match e {
            DrainError::Link(e) => e.into(),
            DrainError::Failed => Code::Failed.into(),
            DrainError::Timeout(_) => Self::new(Code::Timeout, e),
            _ => Self::new(Code::Other, e),
        }
    }
}

/// Longest text kept in bytes: a list of all interfaces of a larger machine.
const LONGEST: usize = 1024;

struct Last {
    code: c_int,
    /// Empty if the code's own text is enough.
    detail: [u8; LONGEST],
}

thread_local! {
    /// Constant and without a destructor: no allocation, and it may be read to the thread's end.
    static LAST: RefCell<Last> = const { RefCell::new(Last { code: 0, detail: [0; LONGEST] }) };
}

/// The result for C: the entry's value, or the code of its error, which is kept for
/// `gigae_last_error`.
#[inline]
pub(crate) fn answer(outcome: EntryResult<c_int>) -> c_int {
    match outcome {
        Ok(value) => value,
        Err(error) => remember(&error),
    }
}

pub(crate) fn remember(error: &Error) -> c_int {
    let code = error.code as c_int;
    LAST.with(|last| {
        // Never borrowed elsewhere while an entry runs, but a signal handler may come between.
        if let Ok(mut last) = last.try_borrow_mut() {
            last.code = code;
            clip::copy(error.detail.as_deref().unwrap_or_default(), &mut last.detail);
        }
    });
    code
}

/// The meaning of a code. Never NULL; constant, so do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_error_text(code: c_int) -> *const c_char {
    let text = match (code, Code::of(code)) {
        (_, Some(code)) => code.c_text(),
        (0.., None) => c"no error",
        (_, None) => c"not a code of this library",
    };
    text.as_ptr()
}

/// The text of this thread's last failed call. See the header.
#[unsafe(no_mangle)]
pub extern "C" fn gigae_last_error() -> *const c_char {
    LAST.with(|last| match last.try_borrow() {
        Ok(last) if last.detail[0] != 0 => last.detail.as_ptr().cast(),
        Ok(last) => gigae_error_text(last.code),
        Err(_) => gigae_error_text(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn last() -> String {
        // SAFETY: the text is this thread's own and ends in NUL.
        unsafe { CStr::from_ptr(gigae_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn the_last_error_stays_until_the_next_and_belongs_to_its_thread() {
        assert_eq!(last(), "no error");
        let waited = DrainError::Timeout(Duration::from_secs(2)).into();
        assert_eq!(answer(Err(waited)), Code::Timeout as c_int);
        assert!(last().contains("after 2s"), "{}", last());
        assert_eq!(answer(Ok(5)), 5);
        assert!(last().contains("after 2s"), "{}", last());
        std::thread::spawn(|| assert_eq!(last(), "no error")).join().unwrap();
        assert_eq!(answer(Err(Code::Again.into())), Code::Again as c_int);
        assert_eq!(last(), Code::Again.text());
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        answer(Err(Error::invalid("\u{fc}".repeat(LONGEST))));
        assert_eq!(last().len(), LONGEST - 2, "two bytes each, and room for the NUL");
    }

    #[test]
    fn every_text_is_one_line_and_every_code_another_number() {
        for (at, (code, name)) in Code::ALL.iter().enumerate() {
            assert_eq!(*code as c_int, -1 - c_int::try_from(at).unwrap(), "{name}");
            assert!(!code.text().is_empty() && !code.text().contains('\n'), "{name}");
        }
    }
}
