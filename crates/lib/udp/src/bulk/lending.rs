//! Lends the kernel the pages in which the data of a frame lie, instead of having it copy them.
//!
//! The pages go into a pipe by vmsplice(2), behind a page with what is in front of them, and from
//! there into one buffer of datagrams by splice(2). The kernel copies no data: a NIC reads the
//! program's memory, and a receiver on the same machine copies from it. The kernel has the pages
//! until the frame has left, or until such a receiver has taken it. Nothing reports when. So data
//! may only be lent if they stay as they are until the peer has acknowledged them, and if the peer
//! may see what is written there later.
//!
//! Which way takes less time depends on the processor, on how far the receiver's CPU is, and on the
//! pages. So some frames go either way from time to time, and the faster one is taken.

use super::heads::{HeadPages, PAGE};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{
    IoSliceRaw, PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice, vmsplice,
};
use std::time::Instant;

/// Fewest bytes that are lent: for fewer, a second system call takes longer than a copy.
const LEAST: usize = 16 << 10;

/// Most pages of the data. The kernel describes a buffer by 17 pieces (`MAX_SKB_FRAGS`) unless it
/// was built or set otherwise, and one is for what is in front of the data.
const MOST_PAGES: usize = 16;

/// Bytes of the pipe: the smallest power of two of pages that has room for a frame.
const PIPE: usize = 32 * PAGE;

/// The first version of Linux that takes the pages of a pipe into one datagram of any protocol.
const LINUX: [u32; 2] = [6, 5];

/// Frames from one trial to the next, some 10 ms of a stream, and frames of a trial.
const PERIOD: u32 = 1024;
const TRIAL: u32 = 16;

/// How a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Copied,
    Lent,
}

/// A frame that goes now.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) way: Way,
    /// In a trial, when it began.
    since: Option<Instant>,
}

/// Which way to one peer is faster.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Frames since the last trial began.
    frames: u32,
    /// The times in it for a KiB, in nanoseconds: copied, lent.
    times: [[u64; TRIAL as usize / 2]; 2],
    /// Their medians say that it is faster to lend.
    lends: bool,
}

impl Trial {
    /// How the next frame goes that may be lent.
    #[inline]
    pub(super) fn begin(&mut self) -> Attempt {
        let number = self.frames;
        self.frames = (number + 1) % PERIOD;
        if number == 0 {
            self.times = [[u64::MAX; TRIAL as usize / 2]; 2];
        } else if number == TRIAL {
            let [copied, lent] =
                self.times.map(|mut times| *times.select_nth_unstable(TRIAL as usize / 4).1);
            self.lends = lent < copied;
        }
        let in_trial = number < TRIAL;
        // Of each two frames one, and not always the first: lengths may alternate.
        let lends = if in_trial { number.count_ones().is_multiple_of(2) } else { self.lends };
        let since = in_trial.then(Instant::now);
        Attempt { way: if lends { Way::Lent } else { Way::Copied }, since }
    }

    /// The kernel has taken so many bytes. Their data were `lent`, or copied all the same.
    #[inline]
    pub(super) fn end(&mut self, attempt: &Attempt, lent: bool, bytes: usize) {
        if let Some(since) = attempt.since
            && lent == (attempt.way == Way::Lent)
        {
            let took = since.elapsed().as_nanos() as u64 * 1024 / bytes.max(1) as u64;
            let nth = (self.frames - 1) as usize / 2;
            self.times[attempt.way as usize][nth] = took;
        }
    }
}

/// Why a frame was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotLent {
    /// The socket is full. It has nothing of the frame.
    Full,
    /// The socket has nothing of the frame, which can be sent as a copy.
    Refused,
    /// The socket may have a part of the frame. It must be closed.
    Broken,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Lender {
    /// Whether data are lent.
    pub(super) lends: bool,
    /// Where the pages go in and come out; none before the first frame, and after an error, since
    /// pages would be left in it.
    pipe: Option<Pipe>,
}

#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// Of the data, what is copied with what is in front of them: the part in their first page, if they
/// lie in too many.
fn copied(data: &[u8]) -> usize {
    let before = data.as_ptr().addr() % PAGE;
    let pages = (before + data.len()).div_ceil(PAGE);
    if pages > MOST_PAGES { PAGE - before } else { 0 }
}

impl Lender {
    /// Whether the data of a frame may be lent, with so many bytes in front of them.
    #[inline]
    pub(super) fn may_lend(&self, head: usize, data: &[u8]) -> bool {
        self.lends && data.len() >= LEAST && head + copied(data) <= PAGE
    }

    /// Sends a frame by a connected socket to the peer whose pages for heads these are: what is in
    /// front of the data, and the data. Two system calls.
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        pages: &mut HeadPages,
        head: [&[u8]; 2],
        data: &[u8],
    ) -> Result<(), NotLent> {
        let (first, lent) = data.split_at(copied(data));
        let inside = pages.take().and_then(|page| {
            let mut length = 0;
            for piece in [head[0], head[1], first] {
                let room = page.get_mut(length..length + piece.len()).ok_or(Errno::NOBUFS)?;
                room.copy_from_slice(piece);
                length += piece.len();
            }
            self.pipe()?.fill([&page[..length], lent])
        });
        let sent = match (inside, &self.pipe) {
            (Ok(bytes), Some(pipe)) => pipe.empty(bytes, socket),
            _ => Err(NotLent::Refused),
        };
        if sent.is_err() {
            pages.put_back();
            self.pipe = None;
        }
        sent
    }

    fn pipe(&mut self) -> Result<&Pipe, Errno> {
        match &mut self.pipe {
            Some(pipe) => Ok(pipe),
            none => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
                // If the user has too many pipes, frames of fewer pages fit.
                let _ = fcntl_setpipe_size(&write, PIPE);
                Ok(none.insert(Pipe { read, write }))
            }
        }
    }
}

impl Pipe {
    /// Puts a frame into the pipe. Returns its bytes.
    fn fill(&self, pieces: [&[u8]; 2]) -> Result<usize, Errno> {
        let raw = pieces.map(IoSliceRaw::from_slice);
        // SAFETY: the kernel only reads the pages.
        let inside = unsafe { vmsplice(&self.write, &raw, SpliceFlags::NONBLOCK)? };
        let whole = pieces.iter().map(|piece| piece.len()).sum();
        if inside == whole { Ok(whole) } else { Err(Errno::NOBUFS) }
    }

    /// Sends what is in the pipe as one buffer.
    fn empty(&self, bytes: usize, socket: BorrowedFd<'_>) -> Result<(), NotLent> {
        match splice(&self.read, None, socket, None, bytes, SpliceFlags::NONBLOCK) {
            Ok(sent) if sent == bytes => Ok(()),
            Err(Errno::AGAIN | Errno::INTR) => Err(NotLent::Full),
            // The kernel adds 16 pages at a time. It counts those before an error as sent, although
            // it may have given them up. An error may also be about an earlier frame, such as a
            // report that the peer has closed its port.
            Ok(_) | Err(_) => Err(NotLent::Broken),
        }
    }
}

/// Whether the kernel takes memory that is lent.
pub(super) fn is_supported() -> bool {
    let system = rustix::system::uname();
    let mut numbers = system.release().to_str().unwrap_or_default().split(['.', '-']);
    let version = [(); 2].map(|()| numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0_u32));
    version >= LINUX
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    const HEAD: [&[u8]; 2] = [b"he", b"ad"];

    fn lender() -> (Lender, HeadPages) {
        (Lender { lends: true, ..Lender::default() }, HeadPages::default())
    }

    fn data(n: usize) -> Vec<u8> {
        (0..LEAST + n % 999).map(|i| (i * 7 + i / 255 + n) as u8).collect()
    }

    fn connected() -> [UdpSocket; 2] {
        let [from, to] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        to.set_nonblocking(true).unwrap();
        [from, to]
    }

    /// A frame that is too long for a datagram fails after the first 16 pieces are in the socket.
    #[test]
    fn what_the_kernel_takes_only_a_part_of_counts_as_not_sent() {
        let ((mut lender, mut pages), [from, to]) = (lender(), connected());
        let memory = vec![1; 18 * PAGE];
        let page = memory.as_ptr().align_offset(PAGE);
        let lent = &memory[page..page + MOST_PAGES * PAGE];
        let sent = lender.send(from.as_fd(), &mut pages, HEAD, lent);
        assert_eq!(sent, Err(NotLent::Broken));
        assert!(to.recv(&mut [0; 65_536]).is_err(), "a part of it arrived");
        drop(from);
        let [from, to] = connected();
        lender.send(from.as_fd(), &mut pages, HEAD, &data(2)).unwrap();
        let mut got = [0; 65_536];
        let length = to.recv(&mut got).unwrap();
        assert!(got[..length] == [b"head", &data(2)[..]].concat());
    }

    #[test]
    fn a_report_about_an_earlier_frame_and_no_socket_at_all_are_errors() {
        let (mut lender, mut pages) = lender();
        let [from, to] = connected();
        drop(to);
        lender.send(from.as_fd(), &mut pages, HEAD, &data(0)).unwrap();
        let sent = lender.send(from.as_fd(), &mut pages, HEAD, &data(0));
        assert_eq!(sent, Err(NotLent::Broken));
        let none = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC);
        let sent = lender.send(none.unwrap().as_fd(), &mut pages, HEAD, &data(0));
        assert_eq!(sent, Err(NotLent::Broken));
    }

    #[test]
    fn what_a_full_socket_did_not_take_does_not_come() {
        let (mut lender, mut pages) = lender();
        let (from, to) = UnixDatagram::pair().unwrap();
        from.set_nonblocking(true).unwrap();
        let mut got = [0; 65_536];
        for round in 0..2 {
            let mut taken = Vec::new();
            loop {
                let data = data(round * 100 + taken.len());
                match lender.send(from.as_fd(), &mut pages, HEAD, &data) {
                    Ok(()) => taken.push(data),
                    Err(why) => break assert_eq!(why, NotLent::Full),
                }
                assert!(taken.len() < 10_000, "the socket never gets full");
            }
            assert!(!taken.is_empty());
            for data in taken {
                let length = to.recv(&mut got).unwrap();
                assert!(got[..length] == [b"head", &data[..]].concat());
            }
        }
    }

    #[test]
    fn only_long_data_with_little_in_front_of_them_are_lent() {
        let ((mut lender, _), memory) = (lender(), vec![0; 19 * PAGE]);
        let page = memory.as_ptr().align_offset(PAGE);
        assert!(lender.may_lend(PAGE, &memory[page..page + MOST_PAGES * PAGE]));
        // In 17 pages, of which 100 bytes of the first one are copied.
        let from = page + PAGE - 100;
        let data = &memory[from..from + MOST_PAGES * PAGE];
        assert!(lender.may_lend(PAGE - 100, data) && !lender.may_lend(PAGE - 99, data));
        assert!(lender.may_lend(4, &memory[..LEAST]) && !lender.may_lend(4, &memory[1..LEAST]));
        lender.lends = false;
        assert!(!lender.may_lend(4, &memory[..LEAST]));
    }

    #[test]
    fn after_a_trial_of_both_ways_frames_go_by_the_faster_one() {
        let mut trial = Trial::default();
        for faster in [Way::Lent, Way::Copied, Way::Lent] {
            let mut lent = 0;
            for number in 0..PERIOD {
                let mut attempt = trial.begin();
                lent += u32::from(attempt.way == Way::Lent);
                assert_eq!(attempt.since.is_some(), number < TRIAL);
                // As if the other way had begun long before.
                let before = Duration::from_secs(if attempt.way == faster { 0 } else { 9 });
                attempt.since = attempt.since.and_then(|since| since.checked_sub(before));
                trial.end(&attempt, attempt.way == Way::Lent, LEAST);
            }
            let expected = if faster == Way::Lent { PERIOD - TRIAL / 2 } else { TRIAL / 2 };
            assert_eq!(lent, expected);
        }
    }

    #[test]
    fn frames_are_copied_while_the_kernel_refuses_to_lend_them() {
        let mut trial = Trial::default();
        for number in 0..2 * PERIOD {
            let attempt = trial.begin();
            assert!(attempt.way == Way::Copied || number % PERIOD < TRIAL);
            trial.end(&attempt, false, LEAST);
        }
    }
}
