//! Why the other end has not done what it was asked for.

use std::fmt;

/// Why a request failed, in one byte. Both ends have their own words for it, so no text of the
/// other end reaches a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fault {
    /// There is no such file.
    NotFound = 1,
    /// The user that serves has no permission to read it, or to write there.
    Denied = 2,
    /// The path, or a symlink in it, leads out of the export.
    Escapes = 3,
    /// The file has changed since the transfer of it began.
    Changed = 4,
    /// The exported directory was removed.
    Gone = 5,
    /// Neither file, directory nor symlink: a device, socket or FIFO.
    Special = 6,
    /// Nothing can be written there: the export is read-only.
    ReadOnly = 7,
    /// The server has too much to do for others.
    Busy = 8,
    /// The request makes no sense.
    Invalid = 9,
    /// The file system has failed, or does what it should not.
    Disk = 10,
    /// The disk, or the user's quota, is full.
    Full = 11,
    /// A directory is where a file should be, or the other way round.
    WrongKind = 12,
    /// A part has another digest than its bytes.
    Digest = 13,
    /// The name or path is too long.
    TooLong = 14,
    /// The node does not answer.
    Silent = 15,
    /// The answer makes no sense.
    Nonsense = 16,
    /// Another process writes this file.
    Locked = 17,
    /// The file system at the destination cannot hold it.
    Unsuitable = 18,
    /// The kernel is too old.
    Unsupported = 19,
    /// Its node cannot read it.
    Unreadable = 20,
    /// A listing needs too much memory, or has no end.
    TooMuch = 21,
    /// It is there already.
    Exists = 22,
    /// The directory has entries.
    NotEmpty = 23,
    /// The user's quota is full.
    Quota = 24,
    /// The file system cannot hold a file of this length.
    TooBig = 25,
    /// The server was restarted, and does not know whether it has made a change before.
    Unknown = 26,
    /// The two names are in different file systems.
    OtherDisk = 27,
}

impl Fault {
    const ALL: [Self; 27] = [
        Self::NotFound,
        Self::Denied,
        Self::Escapes,
        Self::Changed,
        Self::Gone,
        Self::Special,
        Self::ReadOnly,
        Self::Busy,
        Self::Invalid,
        Self::Disk,
        Self::Full,
        Self::WrongKind,
        Self::Digest,
        Self::TooLong,
        Self::Silent,
        Self::Nonsense,
        Self::Locked,
        Self::Unsuitable,
        Self::Unsupported,
        Self::Unreadable,
        Self::TooMuch,
        Self::Exists,
        Self::NotEmpty,
        Self::Quota,
        Self::TooBig,
        Self::Unknown,
        Self::OtherDisk,
    ];

    /// The one with this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| *fault as u8 == byte)
    }

    /// Whether it is the end of everything, not only of one file.
    pub fn is_fatal(self) -> bool {
        matches!(
            self,
            Self::Gone
                | Self::ReadOnly
                | Self::Busy
                | Self::Disk
                | Self::Full
                | Self::Silent
                | Self::Nonsense
                | Self::Unsupported
                | Self::TooMuch
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "there is no such file; check the path",
            Self::Denied => "permission denied; run the command as a user that may use this file",
            Self::Escapes => "the path leads out of the shared directory; share a directory above",
            Self::Changed => "the file changed while it was copied; copy it again",
            Self::Gone => "the shared directory was removed; share it again",
            Self::Special => "it is a device, socket or FIFO, which is not copied",
            Self::ReadOnly => {
                "the share is read-only; start it with 'gigae share --writable \
                 --trust-every-node DIR'"
            }
            Self::Busy => "the server has too many clients; try again later",
            Self::Invalid => "the other end refused the request; use the same release at both ends",
            Self::Disk => "the file system has failed; look at the kernel's log ('dmesg')",
            Self::Full => "no space left; make room and run the same command again",
            Self::WrongKind => {
                "a file is where a directory should be, or the other way round; remove it or \
                 choose another destination"
            }
            Self::Digest => "the received bytes differ from the file's; test the memory, and retry",
            Self::TooLong => "the name or path is too long; choose a shorter one",
            Self::Silent => {
                "the node does not answer; start 'gigae share' there and run the same command again"
            }
            Self::Locked => "another process copies this file; wait for its end",
            Self::Unsuitable => {
                "the file system there cannot hold this file, by its name or its size; rename it, \
                 or choose another destination"
            }
            Self::Unsupported => "the kernel has no openat2(2); use Linux 5.6 or later",
            Self::Unreadable => "its node cannot read it; look at the kernel's log there ('dmesg')",
            Self::TooMuch => {
                "its directories have too many entries for one copy; copy them one by one"
            }
            Self::Exists => "it is there already; choose another name",
            Self::NotEmpty => "the directory is not empty; remove its files first",
            Self::Quota => "the user's quota there is full; make room and try again",
            Self::TooBig => "the file is too long for the file system there; use another one",
            Self::Unknown => {
                "the server was restarted and does not know whether it made the change; look at \
                 the file and try again"
            }
            Self::OtherDisk => "the names are in different file systems; copy the file instead",
            Self::Nonsense => "the answer makes no sense; use the same release at both ends",
        })
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_number_of_its_own_and_one_line() {
        for fault in Fault::ALL {
            assert_eq!(Fault::from_byte(fault as u8), Some(fault));
            assert!(!fault.to_string().contains('\n'));
        }
        assert_eq!((Fault::from_byte(0), Fault::from_byte(28)), (None, None));
    }
}
