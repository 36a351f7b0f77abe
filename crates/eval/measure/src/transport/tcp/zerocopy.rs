//! `MSG_ZEROCOPY`: the kernel sends from the program's memory, and says in the socket's error queue
//! when it is done with which writes (Documentation/networking/msg_zerocopy.rst). Where it could
//! not do without a copy, it says that, too.

use crate::channel::{Calls, TransportError};
use crate::transport::common::try_again;
use gigae_eval_model::note::Zerocopy;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// linux/errqueue.h: who reports, and that the kernel copied.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// Lets a socket's writes be without a copy.
pub(super) fn allow(socket: &Socket) -> Result<(), TransportError> {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    let (level, option, from) = (libc::SOL_SOCKET, libc::SO_ZEROCOPY, (&raw const on).cast());
    // SAFETY: pointer and length describe an integer that lives across the call.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, from, length) };
    if done == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(TransportError::Unavailable(format!(
        "this kernel has no MSG_ZEROCOPY ({error}); use Linux 4.14 or newer"
    )))
}

/// Which memories the kernel still reads.
pub(super) struct Completions {
    /// The memory of each write that is under way, the oldest first; absent for those that are
    /// done.
    writes: VecDeque<Option<usize>>,
    /// The kernel's number of the oldest.
    first: u32,
    /// Writes under way from each memory.
    from: Vec<u32>,
    pub(super) outcome: Zerocopy,
}

impl Completions {
    /// For `memories` memories.
    pub(super) fn new(memories: usize) -> Self {
        let (writes, from) = (VecDeque::new(), vec![0; memories]);
        Self { writes, first: 0, from, outcome: Zerocopy::default() }
    }

    /// A write from this memory has begun.
    pub(super) fn wrote(&mut self, memory: usize) {
        self.writes.push_back(Some(memory));
        self.from[memory] += 1;
    }

    /// Whether the kernel reads this memory.
    pub(super) fn has(&self, memory: usize) -> bool {
        self.from[memory] > 0
    }

    /// Whether the kernel reads any.
    pub(super) fn is_waiting(&self) -> bool {
        !self.writes.is_empty()
    }

    /// The kernel is done with the writes from number `low` to `high`, which may wrap.
    fn complete(&mut self, low: u32, high: u32, copied: bool) {
        let begin = low.wrapping_sub(self.first) as usize;
        let end = (high.wrapping_sub(self.first) as usize).saturating_add(1);
        for place in begin..end.min(self.writes.len()) {
            let Some(memory) = self.writes.get_mut(place).and_then(Option::take) else { continue };
            self.from[memory] -= 1;
            self.outcome.writes += 1;
            self.outcome.copied += u64::from(copied);
        }
        while self.writes.front() == Some(&None) {
            self.writes.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Takes all completions that are in the error queue.
    pub(super) fn reap(
        &mut self,
        socket: &Socket,
        calls: &mut Calls,
    ) -> Result<(), TransportError> {
        while self.is_waiting() {
            calls.all += 1;
            match next(socket) {
                Ok(Some(said)) if said.ee_origin == SO_EE_ORIGIN_ZEROCOPY => {
                    let copied = said.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0;
                    self.complete(said.ee_info, said.ee_data, copied);
                }
                Ok(_) => {}
                Err(error) if try_again(&error) => break,
                Err(error) => return Err(TransportError::io("reading TCP's completions")(error)),
            }
        }
        Ok(())
    }

    /// Sleeps until there are completions, for so long at most.
    pub(super) fn wait(&self, socket: &Socket, nap: Duration) -> Result<(), TransportError> {
        let timeout = Timespec::try_from(nap).ok();
        // The error queue wakes without being asked for.
        match poll(&mut [PollFd::new(socket, PollFlags::empty())], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(TransportError::io("waiting for TCP's completions")(error.into())),
        }
    }
}

/// The next entry of a socket's error queue; `None` if it is not what an error queue has.
fn next(socket: &Socket) -> io::Result<Option<libc::sock_extended_err>> {
    let mut control = [0_u64; 16];
    // SAFETY: the structure is plain integers and pointers, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the message describes the control words, which live across the call, and no other
    // memory.
    if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the control words are those of above, as long as the kernel has said.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: not null, so a header lies there within the control words, and behind it the
        // structure that its level and type name, perhaps unaligned.
        unsafe {
            let kind = ((*header).cmsg_level, (*header).cmsg_type);
            if matches!(
                kind,
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
            ) {
                let said = libc::CMSG_DATA(header).cast::<libc::sock_extended_err>();
                return Ok(Some(said.read_unaligned()));
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_is_free_when_all_its_writes_are_done_in_whatever_order() {
        let mut completions = Completions::new(2);
        completions.first = u32::MAX;
        for memory in [0, 0, 1] {
            completions.wrote(memory);
        }
        completions.complete(0, 0, true);
        assert!(completions.has(0) && completions.has(1));
        completions.complete(u32::MAX, u32::MAX, false);
        assert!(!completions.has(0) && completions.has(1));
        completions.complete(1, 1, false);
        assert!(!completions.has(1) && !completions.is_waiting());
        assert_eq!(completions.outcome, Zerocopy { writes: 3, copied: 1 });
        assert_eq!(completions.first, 2);
    }

    #[test]
    fn completions_of_writes_that_never_were_change_nothing() {
        let mut completions = Completions::new(1);
        completions.complete(0, u32::MAX, true);
        completions.wrote(0);
        completions.complete(5, 9, true);
        completions.complete(u32::MAX, 3, true);
        assert!(completions.has(0));
        assert_eq!(completions.outcome, Zerocopy::default());
        completions.complete(0, 9, false);
        assert!(!completions.has(0));
    }
}
