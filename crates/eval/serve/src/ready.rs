//! Waiting for a descriptor.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::time::Duration;

/// Whether there is something to accept or to read within this time.
pub(super) fn readable(what: &impl AsFd, timeout: Duration) -> bool {
    let mut wanted = [PollFd::new(what, PollFlags::IN)];
    poll(&mut wanted, Timespec::try_from(timeout).ok().as_ref()).is_ok_and(|ready| ready > 0)
}
