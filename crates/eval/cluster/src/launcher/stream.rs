//! The socket to the launcher, `PMI_FD`.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// A launcher answers at once, but for a fence: there it waits for the ranks that start last.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection to the launcher.
#[derive(Debug)]
pub struct PmiStream(OwnedFd);

/// Whether this process has a socket of this number.
pub(super) fn is_socket(fd: i32) -> bool {
    if fd < 0 {
        return false;
    }
    // SAFETY: fstat(2) takes any number. The borrow ends with this function, in which no other
    // thread of this process closes the launcher's descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::fs::fstat(borrowed).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Socket
    })
}

impl PmiStream {
    /// The socket of this number, which stays open as long as the process lives.
    pub fn of(fd: i32) -> io::Result<Self> {
        if !is_socket(fd) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "PMI_FD is no open socket"));
        }
        // SAFETY: the launcher has opened it for this process, and nothing here closes it.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        Ok(Self(rustix::io::fcntl_dupfd_cloexec(borrowed, 3)?))
    }

    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let timeout = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
        let mut wanted = [PollFd::new(&self.0, flags)];
        match poll(&mut wanted, Some(&timeout)) {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("it did not answer within {} s", PATIENCE.as_secs()),
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl From<OwnedFd> for PmiStream {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl Read for PmiStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait(PollFlags::IN)?;
        Ok(rustix::io::read(&self.0, buffer)?)
    }
}

impl Write for PmiStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.wait(PollFlags::OUT)?;
        Ok(rustix::io::write(&self.0, buffer)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The next byte; the end of the connection is an error.
pub(super) fn byte(stream: &mut impl Read) -> io::Result<u8> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    Ok(byte[0])
}
