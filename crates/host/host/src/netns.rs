//! The network namespace of a thread (network_namespaces(7)): looking at it, entering another one,
//! and coming back.
//!
//! Namespaces belong to threads. Sockets and rings stay in the namespace in which they were
//! opened.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The calling thread's namespace, to open and to tell from others.
pub const OWN: &str = "/proc/thread-self/ns/net";

/// Opens the calling thread's namespace. One system call.
pub fn own() -> io::Result<File> {
    File::open(OWN)
}

/// Moves the calling thread into a namespace: `setns(2)`. Needs `CAP_SYS_ADMIN` in both.
///
/// One system call and nothing else: no allocation, no lock. So a child may call it between fork
/// and exec.
pub fn set(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?)
}

/// Moves the calling thread into a namespace until the guard is dropped. Two system calls, and two
/// more at the end.
pub fn enter(namespace: BorrowedFd<'_>) -> io::Result<NetnsGuard> {
    let former = own()?;
    set(namespace)?;
    Ok(NetnsGuard { former, _of_this_thread: PhantomData })
}

/// Restores the calling thread's former network namespace when dropped.
///
/// It belongs to the thread that entered, so it cannot be sent to another.
#[derive(Debug)]
pub struct NetnsGuard {
    former: File,
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for NetnsGuard {
    fn drop(&mut self) {
        // Fails only if the thread gave its privileges up in between. It then stays where it is.
        let _ = set(self.former.as_fd());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_is_no_network_namespace_is_refused_and_the_thread_stays_where_it_is() {
        let before = fs::read_link(OWN).unwrap();
        for path in ["/dev/null", "/proc/thread-self/ns/uts"] {
            let file = File::open(path).unwrap();
            let error = enter(file.as_fd()).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{path}");
        }
        assert_eq!(fs::read_link(OWN).unwrap(), before);
    }
}
