//! Posted frames that were not passed to the kernel yet, and the buffers that are made of them.

use crate::socket::{Control, ControlMessages, KernelAddress, UdpSocket};
use crate::transmit::QueuedFrame;
use gigae_link::Arena;
use rustix::io::Errno;
use std::collections::VecDeque;

/// Most frames of a buffer. The kernel's limit was 64 until Linux 6.9, and is 128 since.
const FRAMES: usize = 64;

/// Most bytes of a buffer: an IP packet's 65,535 less its headers, rounded down.
const BYTES: usize = 65_000;

/// Most buffers of a call, and most frames in all of them.
const BUFFERS: usize = 16;
const PIECES: usize = 256;

/// What became of some frames at the head of the queue.
pub(crate) struct BatchResult {
    /// This many frames are done.
    pub(crate) frames: usize,
    /// Why the next buffer was not taken, and how many frames it has.
    pub(crate) refused: Option<(Errno, usize)>,
}

/// Descriptions of buffers for the kernel, kept so that no call allocates.
#[derive(Default)]
pub(crate) struct Batch {
    pieces: Vec<libc::iovec>,
    destinations: Vec<KernelAddress>,
    controls: Vec<ControlMessages>,
    /// Where in `pieces` each buffer begins and ends.
    buffers: Vec<std::ops::Range<usize>>,
    messages: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in it are written again for each call, by the thread that makes it.
unsafe impl Send for Batch {}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            pieces: Vec::with_capacity(PIECES),
            destinations: Vec::with_capacity(BUFFERS),
            controls: Vec::with_capacity(BUFFERS),
            buffers: Vec::with_capacity(BUFFERS),
            messages: Vec::with_capacity(BUFFERS),
        }
    }

    /// Sends frames from the head of the queue, which stays as it is: one system call. `joins`:
    /// frames that go to one node share a buffer.
    pub(crate) fn send(
        &mut self,
        queue: &VecDeque<QueuedFrame>,
        socket: &UdpSocket,
        arena: &Arena,
        joins: bool,
    ) -> BatchResult {
        self.fill(queue, socket, arena, joins);
        match socket.send(&mut self.messages) {
            Ok(count) => BatchResult {
                frames: self.buffers[..count].iter().map(ExactSizeIterator::len).sum(),
                refused: None,
            },
            Err(errno) => BatchResult { frames: 0, refused: Some((errno, self.buffers[0].len())) },
        }
    }

    fn fill(
        &mut self,
        queue: &VecDeque<QueuedFrame>,
        socket: &UdpSocket,
        arena: &Arena,
        joins: bool,
    ) {
        self.pieces.clear();
        self.destinations.clear();
        self.controls.clear();
        self.buffers.clear();
        self.messages.clear();
        let mut rest = queue.iter().copied().peekable();
        while let Some(first) = rest.next() {
            if self.buffers.len() == BUFFERS || self.pieces.len() == PIECES {
                break;
            }
            let begin = self.pieces.len();
            self.pieces.push(piece(arena, &first));
            let (mut bytes, mut last) = (first.length, first.length);
            // A shorter one ends the buffer. It does not join a single longer one: of two Probes of
            // `PROTOCOL.md` §12, one must be able to get lost without the other.
            while joins
                && !first.alone
                && last == first.length
                && self.pieces.len() < PIECES
                && self.pieces.len() - begin < FRAMES
                && let Some(next) = rest.next_if(|next| {
                    (next.to, next.from) == (first.to, first.from)
                        && !next.alone
                        && (next.length == first.length
                            || next.length < first.length && self.pieces.len() - begin > 1)
                        && (bytes + next.length) as usize <= BYTES
                })
            {
                self.pieces.push(piece(arena, &next));
                bytes += next.length;
                last = next.length;
            }
            let frames = begin..self.pieces.len();
            let segment = (frames.len() > 1).then_some(first.length as u16);
            let mut control: Control = [0; 16];
            let length = socket.write_control(&mut control, first.from, segment);
            self.controls.push(ControlMessages { words: control, length });
            self.destinations.push(socket.kernel_address(first.to));
            self.buffers.push(frames);
        }
        // Now that nothing moves any more.
        for (i, frames) in self.buffers.iter().enumerate() {
            // SAFETY: the structure is plain integers and pointers, for which zeros are valid.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            let header = &mut message.msg_hdr;
            header.msg_name = (&raw mut self.destinations[i].name).cast();
            header.msg_namelen = self.destinations[i].length;
            // SAFETY: the buffer's pieces lie in the vector from there on.
            header.msg_iov = unsafe { self.pieces.as_mut_ptr().add(frames.start) };
            header.msg_iovlen = frames.len() as _;
            header.msg_control = self.controls[i].words.as_mut_ptr().cast();
            header.msg_controllen = self.controls[i].length as _;
            self.messages.push(message);
        }
    }
}

fn piece(arena: &Arena, frame: &QueuedFrame) -> libc::iovec {
    // SAFETY: the offset was taken from a token of this arena.
    let start = unsafe { arena.base().add(frame.offset as usize) };
    libc::iovec { iov_base: start.as_ptr().cast(), iov_len: frame.length as usize }
}
