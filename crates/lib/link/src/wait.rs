//! The sleep of links that have a descriptor and nothing else to look at.

use crate::LinkError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Longest sleep where nothing can end it early: short beside any timer of a protocol.
const NAP: Duration = Duration::from_millis(1);

/// Sleeps until the descriptor is readable, the time is up or a signal came. Whether it is
/// readable. Without a descriptor it sleeps for a millisecond at most. For backends.
pub fn sleep_on(fd: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> Result<bool, LinkError> {
    let Some(fd) = fd else {
        std::thread::sleep(timeout.unwrap_or(NAP).min(NAP));
        return Ok(false);
    };
    let time = timeout.map(|timeout| Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    match poll(&mut [PollFd::new(&fd, PollFlags::IN)], time.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(e) => Err(LinkError::Io { what: "waiting for frames", source: e.into() }),
    }
}
