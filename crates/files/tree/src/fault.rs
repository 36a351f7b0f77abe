//! What an error of the kernel means for a transfer.

use gigae_share::Fault;
use rustix::io::Errno;

/// A missing file is also [`Fault::NotFound`] if a part of its path is no directory.
pub(crate) fn fault(error: Errno) -> Fault {
    match error {
        Errno::NOENT | Errno::NOTDIR => Fault::NotFound,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => Fault::Denied,
        Errno::XDEV | Errno::LOOP => Fault::Escapes,
        Errno::NOSPC | Errno::DQUOT => Fault::Full,
        // Some file systems refuse some names by EINVAL.
        Errno::INVAL | Errno::ILSEQ | Errno::FBIG | Errno::OPNOTSUPP => Fault::Unsuitable,
        Errno::NOSYS => Fault::Unsupported,
        Errno::NAMETOOLONG => Fault::TooLong,
        Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY => Fault::WrongKind,
        Errno::STALE => Fault::Gone,
        Errno::MFILE | Errno::NFILE | Errno::AGAIN => Fault::Busy,
        Errno::NXIO | Errno::NODEV => Fault::Special,
        _ => Fault::Disk,
    }
}

/// The same where a mounted file system changes something.
pub(crate) fn of_change(error: Errno) -> Fault {
    match error {
        Errno::EXIST => Fault::Exists,
        Errno::NOTEMPTY => Fault::NotEmpty,
        Errno::DQUOT => Fault::Quota,
        Errno::FBIG => Fault::TooBig,
        Errno::ROFS => Fault::ReadOnly,
        Errno::BUSY | Errno::TXTBSY => Fault::Locked,
        // A path with a part that is no directory, or a name with a slash at its end.
        Errno::ISDIR => Fault::Exists,
        error => fault(error),
    }
}

/// The same where a file gets a name: here the kernel resolves no path that may lead out.
pub(crate) fn of_name(error: Errno) -> Fault {
    match error {
        Errno::XDEV => Fault::OtherDisk,
        error => of_change(error),
    }
}

/// The same where it gets one more name. EPERM: the file system has no hard links, or the file may
/// not be linked.
pub(crate) fn of_link(error: Errno) -> Fault {
    match error {
        Errno::PERM | Errno::OPNOTSUPP => Fault::Unsupported,
        error => of_name(error),
    }
}

/// The same where a file is read: if that fails, others may well be read.
pub(crate) fn of_source(error: Errno) -> Fault {
    match fault(error) {
        Fault::Disk | Fault::Unsuitable => Fault::Unreadable,
        fault => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_another_file_system_does_not_lead_out_of_the_export() {
        assert_eq!(of_name(Errno::XDEV), Fault::OtherDisk);
        assert_eq!(of_link(Errno::XDEV), Fault::OtherDisk);
        assert_eq!(of_change(Errno::XDEV), Fault::Escapes, "a path");
        // A rename may go on without the hard link, but not if something else is wrong.
        assert_eq!(of_link(Errno::PERM), Fault::Unsupported);
        assert_eq!(of_link(Errno::NOSPC), Fault::Full);
    }
}
