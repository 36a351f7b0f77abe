//! The system call that sends long frames: each in a buffer that the kernel cuts into datagrams.

use crate::socket::{Control, Name, UdpSocket};
use crate::transmit::QueuedFrame;
use gigae_link::Arena;
use gigae_wire::{BULK_HEADER_LEN, BulkHeader, Header};
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

/// Whether the kernel cuts buffers. Otherwise each datagram is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cutting {
    Yes,
    /// It has refused one. If it takes a datagram of it alone, it cannot.
    Doubted,
    No,
}

/// A buffer: where its pieces are, and whether a frame ends with it.
type Buffer = (Range<usize>, bool);

/// Descriptions of buffers for the kernel, kept so that no call allocates.
pub(super) struct BulkBatch {
    /// Bytes of a frame in a datagram.
    unit: usize,
    pub(super) cutting: Cutting,
    /// Datagrams of the frame at the head of the queue that have left, where each is a buffer.
    left: usize,
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
            cutting: Cutting::Yes,
            left: 0,
            headers: Vec::with_capacity(DATAGRAMS),
            pieces: Vec::with_capacity(2 * DATAGRAMS),
            names: Vec::with_capacity(BUFFERS),
            controls: Vec::with_capacity(BUFFERS),
            buffers: Vec::with_capacity(BUFFERS),
            messages: Vec::with_capacity(BUFFERS),
        }
    }

    /// Sends frames from the head of the queue, which is not empty and stays as it is: one system
    /// call.
    pub(super) fn send(
        &mut self,
        queue: &VecDeque<QueuedFrame>,
        (socket, arena): (&UdpSocket, &Arena),
    ) -> Sent {
        self.fill(queue, (socket, arena));
        match socket.send(&mut self.messages) {
            Ok(count) => {
                let sent = &self.buffers[..count];
                let frames = sent.iter().filter(|(_, ends)| *ends).count();
                let behind = sent.iter().rev().take_while(|(_, ends)| !ends).count();
                self.left = if frames > 0 { behind } else { self.left + behind };
                Sent { frames, refused: None }
            }
            Err(errno) => Sent { frames: 0, refused: Some(errno) },
        }
    }

    /// The frame at the head of the queue is given up.
    pub(super) fn skip_frame(&mut self) {
        self.left = 0;
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
            let buffers = if self.cutting == Cutting::Yes { 1 } else { count };
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
        // SAFETY: the offset was taken from a token of this arena.
        let start = unsafe { arena.base().add(frame.offset as usize) };
        // SAFETY: the frame is posted, so nobody writes its bytes, and they are within the arena.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), frame.length as usize) };
        // Repetitions of a frame have its number, so what is missing of one comes with the next.
        let number = Header::seq_of(bytes);
        let mut begin = self.pieces.len();
        let first = self.buffers.is_empty() && self.cutting != Cutting::Yes;
        for index in if first { self.left.min(count - 1) } else { 0 }..count {
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
            if ends || self.cutting != Cutting::Yes {
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
