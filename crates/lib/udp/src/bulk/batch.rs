//! The system call that sends a long frame: a buffer that the kernel cuts into datagrams.
//!
//! The datagrams are copied one behind the other into one piece of memory, the same for all frames.
//! That is faster than to have the kernel gather 44 headers and 44 parts: it copies one long piece in
//! a half of the time, and the copy here goes to a cache.

use crate::socket::{Control, Name, UdpSocket};
use crate::transmit::QueuedFrame;
use gigae_link::Arena;
use gigae_wire::{BULK_HEADER_LEN, BulkHeader, HEADER_LEN, Header, MOST_DATAGRAMS, Sealing};
use rustix::io::Errno;
use std::ops::Range;

/// Most datagrams of a frame.
const DATAGRAMS: usize = MOST_DATAGRAMS as usize;

/// Bytes, in whole datagrams, that are read for the checksum before they are copied. Fewer cost more per
/// byte, and more do not all stay in the nearest cache.
const SEALED_AT_A_TIME: usize = 6 << 10;

/// Whether the kernel cuts buffers. Otherwise each datagram is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cutting {
    Yes,
    /// It has refused one. If it takes a datagram of it alone, it cannot.
    Doubted,
    No,
}

/// Memory and descriptions for the kernel, kept so that no call allocates.
pub(super) struct BulkBatch {
    /// Bytes of a frame in a datagram.
    unit: usize,
    pub(super) cutting: Cutting,
    /// Datagrams of the frame at the head of the queue that have left, where each is a buffer.
    left: usize,
    /// The datagrams of a frame.
    datagrams: Vec<u8>,
    /// One for each buffer: all datagrams, or one.
    pieces: Vec<libc::iovec>,
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
            datagrams: Vec::with_capacity(DATAGRAMS * (BULK_HEADER_LEN + unit)),
            pieces: Vec::with_capacity(DATAGRAMS),
            messages: Vec::with_capacity(DATAGRAMS),
        }
    }

    /// Sends a frame, or what is left of the one at the head of the queue. Its last bytes may lie
    /// elsewhere: then it is sealed on the way. Whether it has left whole. One system call.
    pub(super) fn send(
        &mut self,
        frame: &QueuedFrame,
        elsewhere: Option<(&[u8], Sealing)>,
        (socket, arena): (&UdpSocket, &Arena),
    ) -> Result<bool, Errno> {
        let (data, sealing) = elsewhere.map_or((&[][..], None), |(data, s)| (data, Some(s)));
        // SAFETY: the offset was taken from a token of this arena.
        let start = unsafe { arena.base().add(frame.offset as usize) };
        let length = frame.length as usize;
        // SAFETY: the frame is the link's or posted, so nobody writes its bytes, and they are within
        // the arena.
        let first = unsafe { std::slice::from_raw_parts(start.as_ptr(), length - data.len()) };
        let left = if self.cutting == Cutting::Yes { 0 } else { self.left };
        let count = self.write_datagrams((first, data), sealing, left);
        let mut name = socket.name(frame.to);
        let mut control: Control = [0; 16];
        let segment = BULK_HEADER_LEN + self.unit;
        let cut = (self.cutting == Cutting::Yes && count > 1).then_some(segment as u16);
        let control_len = socket.write_control(&mut control, frame.from, cut);
        let buffer = if cut.is_some() { self.datagrams.len() } else { segment };
        self.pieces.clear();
        let piece = |bytes: &mut [u8]| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        self.pieces.extend(self.datagrams.chunks_mut(buffer).map(piece));
        self.messages.clear();
        for piece in &mut self.pieces {
            self.messages.push(message(piece, &mut name, (&mut control, control_len)));
        }
        let sent = socket.send(&mut self.messages)?;
        let whole = sent == self.messages.len();
        self.left = if whole { 0 } else { left + sent };
        Ok(whole)
    }

    /// The frame at the head of the queue is given up.
    pub(super) fn skip_frame(&mut self) {
        self.left = 0;
    }

    /// Writes the datagrams of a frame in two pieces, but for the first ones. Returns how many. One
    /// copy. `sealing` is of a frame of which none is skipped; it reads some datagrams' bytes at a
    /// time, so that the copy finds them in the cache nearest to the processor.
    fn write_datagrams(
        &mut self,
        (first, data): (&[u8], &[u8]),
        mut sealing: Option<Sealing>,
        skipped: usize,
    ) -> usize {
        let length = first.len() + data.len();
        let count = length.div_ceil(self.unit);
        // Repetitions of a frame have its number, so what is missing of one comes with the next.
        let number = Header::seq_of(first);
        self.datagrams.clear();
        let skipped = skipped.min(count - 1);
        let at_a_time = (SEALED_AT_A_TIME / self.unit).max(1);
        for index in skipped..count {
            if let Some(sealing) = &mut sealing
                && index % at_a_time == 0
            {
                let end = ((index + at_a_time) * self.unit).min(length);
                let part = (index * self.unit).max(HEADER_LEN)..end;
                sealing.add(within(first, 0, &part));
                sealing.add(within(data, first.len(), &part));
            }
            let (unit, count) = (self.unit as u16, count as u8);
            let header = BulkHeader { frame: number, unit, index: index as u8, count };
            self.datagrams.extend_from_slice(&header.to_bytes());
            let part = index * self.unit..((index + 1) * self.unit).min(length);
            self.datagrams.extend_from_slice(within(first, 0, &part));
            self.datagrams.extend_from_slice(within(data, first.len(), &part));
        }
        if let Some(sealing) = sealing {
            self.datagrams[BULK_HEADER_LEN..][..4].copy_from_slice(&sealing.finish());
        }
        count - skipped
    }
}

/// The bytes of a part of a frame that lie in this piece of it, which begins at `at`.
fn within<'a>(piece: &'a [u8], at: usize, part: &Range<usize>) -> &'a [u8] {
    let cut = |end: usize| end.saturating_sub(at).min(piece.len());
    &piece[cut(part.start)..cut(part.end)]
}

/// The description of a buffer for the kernel.
fn message(
    piece: &mut libc::iovec,
    (name, name_len): &mut (Name, libc::socklen_t),
    (control, control_len): (&mut Control, usize),
) -> libc::mmsghdr {
    // SAFETY: the structure is plain integers and pointers, for which zeros are valid.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    let header = &mut message.msg_hdr;
    header.msg_name = std::ptr::from_mut(name).cast();
    header.msg_namelen = *name_len;
    header.msg_iov = piece;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = control_len as _;
    message
}
