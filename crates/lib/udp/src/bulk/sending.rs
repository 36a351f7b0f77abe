//! The system call that sends a long frame: a buffer that the kernel cuts into datagrams.
//!
//! The kernel gathers the buffer from three places: the bulk header, the frame, and the data that
//! end it, which may lie in the program's memory. So nothing is copied here. Where long data are
//! lent, the kernel does not copy them either. Where datagrams come
//! one by one, each has a number, and the frame is copied into a piece with all of them: for many
//! short pieces the kernel takes longer.

use super::connected::{Connected, LendingTo};
use super::lending::{self, Attempt, Lender, NotLent, Way};
use crate::socket::{ControlMessages, KernelAddress, UdpSocket};
use crate::transmit::QueuedFrame;
use gigae_link::Arena;
use gigae_wire::{BULK_HEADER_LEN, BulkHeader, MOST_DATAGRAMS, NumberedHeader};
use rustix::io::Errno;
use std::collections::HashSet;
use std::net::IpAddr;

/// Most datagrams of a frame.
const DATAGRAMS: usize = MOST_DATAGRAMS as usize;

/// Most nodes that are remembered because the kernel does not cut buffers towards them.
const MOST_UNCUT: usize = 1024;

/// Memory and descriptions for the kernel, kept so that no call allocates.
pub(super) struct Sender {
    /// Bytes of a datagram.
    unit: u16,
    /// Nodes towards which the kernel does not cut buffers: there each datagram is one. It may be
    /// only some, such as those for which datagrams are encrypted (IPsec).
    uncut: HashSet<IpAddr>,
    /// The kernel has refused to cut the frame at the head of the queue. If it takes a datagram of
    /// it alone, it does not cut towards that node.
    doubted: bool,
    /// Datagrams of the frame at the head of the queue that have left, where each is a buffer.
    left: usize,
    /// The number of the next frame whose datagrams have numbers.
    frame: u8,
    /// The datagrams of the frame at the head of the queue, if the kernel does not cut it or they
    /// have numbers. Empty until they are put there.
    datagrams: Vec<u8>,
    pieces: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    connected: Connected,
    lender: Lender,
}

// SAFETY: the pointers in it are written again for each call, by the thread that makes it.
unsafe impl Send for Sender {}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl Sender {
    pub(super) fn new(unit: u16) -> Self {
        Self {
            unit,
            uncut: HashSet::new(),
            doubted: false,
            left: 0,
            frame: 0,
            datagrams: Vec::new(),
            pieces: Vec::with_capacity(DATAGRAMS),
            messages: Vec::with_capacity(DATAGRAMS),
            connected: Connected::default(),
            lender: Lender::default(),
        }
    }

    pub(super) fn set_lending(&mut self, lends: bool) {
        self.lender.lends = lends && lending::is_supported();
    }

    /// Whether the kernel is to cut the next frame, which goes to this node.
    #[inline]
    pub(super) fn cuts(&self, to: IpAddr) -> bool {
        !self.doubted && !self.uncut.contains(&to)
    }

    /// The kernel has refused the frame at the head of the queue, perhaps because it cannot cut it.
    pub(super) fn doubt(&mut self) {
        self.doubted = true;
    }

    /// The kernel has taken the frame at the head of the queue, which goes to this node, or a part
    /// of it. Whether this shows that it does not cut towards that node.
    #[inline]
    pub(super) fn taken(&mut self, to: IpAddr) -> bool {
        std::mem::take(&mut self.doubted) && self.never_cut(to)
    }

    /// Does not let the kernel cut what goes to this node any more. Whether that is new.
    #[cold]
    pub(super) fn never_cut(&mut self, to: IpAddr) -> bool {
        if self.uncut.len() == MOST_UNCUT {
            self.uncut.clear();
        }
        self.uncut.insert(to)
    }

    /// Sends a frame, or what is left of the one at the head of the queue. `elsewhere` are the last
    /// of its bytes, if they lie in other memory, which may be lent if it is `lendable`. Whether it
    /// has left whole. One system call, or two if they are lent.
    pub(super) fn send(
        &mut self,
        frame: &QueuedFrame,
        elsewhere: &[u8],
        lendable: bool,
        socket: &UdpSocket,
        arena: &Arena,
    ) -> Result<bool, Errno> {
        // SAFETY: the offset was taken from a token of this arena.
        let start = unsafe { arena.base().add(frame.offset as usize) };
        let length = frame.length as usize;
        // SAFETY: the frame is the link's or posted, so nothing writes its bytes, and they are
        // within the arena.
        let first = unsafe { std::slice::from_raw_parts(start.as_ptr(), length - elsewhere.len()) };
        let header = BulkHeader { length: length as u16, unit: self.unit };
        let cuts = self.cuts(frame.to.ip());
        let has_numbers = frame.numbered && header.whole() > self.unit.into();
        let header = header.to_bytes();
        let mut pieces = [&header, first, elsewhere];
        if has_numbers || !cuts {
            if self.datagrams.is_empty() {
                match has_numbers {
                    true => self.number([first, elsewhere], length),
                    false => {
                        pieces.iter().for_each(|piece| self.datagrams.extend_from_slice(piece))
                    }
                }
            }
            pieces = [&self.datagrams, &[], &[]];
        }
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        let is_cut = cuts && bytes > self.unit.into();
        // Questions have numbers. Short ones have to come from the link's port.
        let may_be_connected = cuts && (is_cut || !frame.numbered);
        if may_be_connected
            && let Some((by, lending)) = self.connected.socket_for(frame, socket, self.unit)
        {
            let [header, first, data] = pieces;
            let lends = lendable && self.lender.may_lend(header.len() + first.len(), data);
            let mut lending = lending.filter(|_| lends);
            let attempt = lending.as_mut().map(|lending| lending.trial.begin());
            let lent = match (&attempt, &mut lending) {
                (Some(Attempt { way: Way::Lent, .. }), Some(LendingTo { pages, .. })) => {
                    self.lender.send(by, pages, [header, first], data)
                }
                _ => Err(NotLent::Refused),
            };
            let sent = match lent {
                Ok(()) => Ok(()),
                Err(NotLent::Full) => Err(Errno::AGAIN),
                Err(NotLent::Refused) => crate::socket::send(by, &mut pieces.map(piece)),
                Err(NotLent::Broken) => Err(Errno::IO),
            };
            match sent {
                Ok(()) => {
                    if let (Some(attempt), Some(lending)) = (attempt, lending) {
                        lending.trial.end(&attempt, lent.is_ok(), bytes);
                    }
                    self.datagrams.clear();
                    return Ok(true);
                }
                Err(errno @ (Errno::AGAIN | Errno::INTR)) => return Err(errno),
                // The link's socket shows what is wrong, if anything is.
                Err(_) => self.connected.refused(),
            }
        }
        let mut to = socket.kernel_address(frame.to);
        let segment = is_cut.then_some(self.unit);
        let mut control = ControlMessages { words: [0; 16], length: 0 };
        control.length = socket.write_control(&mut control.words, frame.from, segment);
        let mut message = |pieces: &mut [libc::iovec]| message(pieces, &mut to, &mut control);
        self.pieces.clear();
        self.messages.clear();
        if cuts {
            self.left = 0;
            self.pieces.extend(pieces.map(piece));
            self.messages.push(message(&mut self.pieces));
        } else {
            self.pieces.extend(self.datagrams.chunks(self.unit.into()).skip(self.left).map(piece));
            self.messages.extend(self.pieces.chunks_mut(1).map(message));
        }
        let sent = socket.send(&mut self.messages)?;
        let whole = sent == self.messages.len();
        self.left = if whole { 0 } else { self.left + sent };
        if whole {
            self.datagrams.clear();
        }
        Ok(whole)
    }

    /// Writes the datagrams of a frame, each with a number. One copy.
    fn number(&mut self, pieces: [&[u8]; 2], length: usize) {
        let unit = usize::from(self.unit) - BULK_HEADER_LEN;
        let (frame, last) = (self.frame, (length.div_ceil(unit) - 1) as u8);
        self.frame = frame.wrapping_add(1);
        let [mut now, mut next] = pieces;
        for index in 0..=last {
            let length = length as u16;
            let header = NumberedHeader { length, frame, index, last: index == last };
            self.datagrams.extend_from_slice(&header.to_bytes());
            let mut missing = unit;
            while missing > 0 && !now.is_empty() {
                let (head, rest) = now.split_at(missing.min(now.len()));
                self.datagrams.extend_from_slice(head);
                missing -= head.len();
                now = if rest.is_empty() { std::mem::take(&mut next) } else { rest };
            }
        }
    }

    /// The frame at the head of the queue is given up.
    pub(super) fn skip_frame(&mut self) {
        (self.left, self.doubted) = (0, false);
        self.datagrams.clear();
    }
}

/// The kernel reads through it only.
fn piece(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// The description of a buffer for the kernel.
fn message(
    pieces: &mut [libc::iovec],
    to: &mut KernelAddress,
    control: &mut ControlMessages,
) -> libc::mmsghdr {
    // SAFETY: the structure is plain integers and pointers, for which zeros are valid.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    let header = &mut message.msg_hdr;
    header.msg_name = (&raw mut to.name).cast();
    header.msg_namelen = to.length;
    header.msg_iov = pieces.as_mut_ptr();
    header.msg_iovlen = pieces.len() as _;
    header.msg_control = control.words.as_mut_ptr().cast();
    header.msg_controllen = control.length as _;
    message
}
