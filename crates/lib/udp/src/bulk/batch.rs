//! The system call that sends long frames: each in a buffer that the kernel cuts into datagrams.

use crate::batch::QueuedFrame;
use crate::socket::{Control, Name, UdpSocket};
use gigae_link::Arena;
use gigae_wire::{BULK_HEADER_LEN, BulkHeader};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ops::Range;

/// Most datagrams of a call, and most buffers: 11 frames of 44 datagrams.
const DATAGRAMS: usize = 512;
const BUFFERS: usize = 64;

/// What became of the frames at the head of the queue.
pub(super) struct Sent {
    /// So many have left.
    pub(super) frames: usize,
    /// Why the next one was not taken.
    pub(super) refused: Option<Errno>,
}

/// A buffer: where its pieces are, and whether a frame ends with it.
type Buffer = (Range<usize>, bool);

/// Descriptions of buffers for the kernel, kept so that no call allocates.
pub(super) struct BulkBatch {
    /// Bytes of a frame in a datagram.
    unit: usize,
    /// The kernel cuts buffers. Otherwise each datagram is one.
    pub(super) cuts: bool,
    next_number: u32,
    headers: Vec<[u8; BULK_HEADER_LEN]>,
    /// Two for each datagram: its header, and its part of the frame.
    pieces: Vec<libc::iovec>,
    names: Vec<(Name, libc::socklen_t)>,
    controls: Vec<(Control, usize)>,
    buffers: Vec<Buffer>,
    messages: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in it are written anew for each call, by the thread that makes it.
unsafe impl Send for BulkBatch {}

impl std::fmt::Debug for BulkBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkBatch").finish_non_exhaustive()
    }
}

impl BulkBatch {
    pub(super) fn new(unit: usize) -> Self {
        Self {
            unit,
            cuts: true,
            next_number: 0,
            headers: Vec::with_capacity(DATAGRAMS),
            pieces: Vec::with_capacity(2 * DATAGRAMS),
            names: Vec::with_capacity(BUFFERS),
            controls: Vec::with_capacity(BUFFERS),
            buffers: Vec::with_capacity(BUFFERS),
            messages: Vec::with_capacity(BUFFERS),
        }
    }

    /// Sends frames from the head of the queue, which is not empty and stays as it is: one system
    /// call. A frame of which a part was refused is sent again as a whole.
    pub(super) fn send(
        &mut self,
        queue: &VecDeque<QueuedFrame>,
        (socket, arena): (&UdpSocket, &Arena),
    ) -> Sent {
        self.fill(queue, (socket, arena));
        match socket.send(&mut self.messages) {
            Ok(count) => {
                let ends = self.buffers[..count].iter().filter(|(_, ends)| *ends);
                Sent { frames: ends.count(), refused: None }
            }
            Err(errno) => Sent { frames: 0, refused: Some(errno) },
        }
    }

    fn fill(&mut self, queue: &VecDeque<QueuedFrame>, (socket, arena): (&UdpSocket, &Arena)) {
        self.headers.clear();
        self.pieces.clear();
        self.names.clear();
        self.controls.clear();
        self.buffers.clear();
        self.messages.clear();
        for frame in queue {
            let count = (frame.length as usize).div_ceil(self.unit);
            let buffers = if self.cuts { 1 } else { count };
            let has_room =
                self.headers.len() + count <= DATAGRAMS && self.buffers.len() + buffers <= BUFFERS;
            if !has_room && !self.buffers.is_empty() {
                break;
            }
            self.add(frame, count, (socket, arena));
        }
        // Now that nothing moves any more.
        for (i, (pieces, _)) in self.buffers.iter().enumerate() {
            // SAFETY: the structure is plain integers and pointers, for which zeros are valid.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            let header = &mut message.msg_hdr;
            header.msg_name = (&raw mut self.names[i].0).cast();
            header.msg_namelen = self.names[i].1;
            header.msg_iov = self.pieces[pieces.clone()].as_mut_ptr();
            header.msg_iovlen = pieces.len() as _;
            header.msg_control = self.controls[i].0.as_mut_ptr().cast();
            header.msg_controllen = self.controls[i].1 as _;
            self.messages.push(message);
        }
    }

    /// Adds a frame of so many datagrams. There is room, so no vector moves.
    fn add(&mut self, frame: &QueuedFrame, count: usize, (socket, arena): (&UdpSocket, &Arena)) {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        // SAFETY: the offset was taken from a token of this arena.
        let start = unsafe { arena.base().add(frame.offset as usize) };
        let mut begin = self.pieces.len();
        for index in 0..count {
            let at = index * self.unit;
            let len = self.unit.min(frame.length as usize - at);
            let header = BulkHeader {
                frame: number,
                unit: self.unit as u16,
                index: index as u8,
                count: count as u8,
            };
            self.headers.push(header.to_bytes());
            let header = self.headers.last_mut().expect("just pushed").as_mut_ptr();
            self.pieces.push(libc::iovec { iov_base: header.cast(), iov_len: BULK_HEADER_LEN });
            // SAFETY: within the frame's bytes.
            let part = unsafe { start.as_ptr().add(at) };
            self.pieces.push(libc::iovec { iov_base: part.cast(), iov_len: len });
            let ends = index + 1 == count;
            if ends || !self.cuts {
                let pieces = begin..self.pieces.len();
                begin = pieces.end;
                let segment = (pieces.len() > 2).then_some((BULK_HEADER_LEN + self.unit) as u16);
                let mut control: Control = [0; 16];
                let used = socket.write_control(&mut control, frame.from, segment);
                self.controls.push((control, used));
                self.names.push(socket.name(frame.to));
                self.buffers.push((pieces, ends));
            }
        }
    }
}
