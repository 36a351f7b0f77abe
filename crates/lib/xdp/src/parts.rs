//! A link in parts: what a process that may open AF_XDP sockets gives to one that may not.
//!
//! Opening needs privileges, using does not: the rings are mapped by whoever has the socket, and
//! frames are sent and received by whoever has the rings. So [`make`](crate::XdpLink::make) and
//! [`assemble`](crate::XdpLink::assemble) may run in different processes, with the parts passed
//! from one to the other as descriptors (unix(7), `SCM_RIGHTS`). What somebody can do with the
//! parts, and what not, is in `SECURITY.md`.
//!
//! The frame memory belongs to the process that assembles the link: its pages are there, and
//! charged to its control group, before the other one registers them. The socket cannot be left to
//! that process unbound, for it to register its memory itself: bind(2) asks for no capability and
//! takes any interface. And a registration counts against the limit of locked memory (`ulimit -l`),
//! which is 8 MiB for most users.

use crate::assembly::MAX_SEGMENTS;
use crate::umem::{CHUNK, LONGEST, MAX_FRAMES, SEGMENT, Umem};
use gigae_link::{Info, Mode};
use gigae_wire::MacAddr;
use std::io;
use std::os::fd::OwnedFd;

/// What a link is made of, besides its memory. With the last copy of the socket it ends; the
/// program stays on the interface for as long as that is there.
#[derive(Debug)]
pub struct Parts {
    /// What they are.
    pub description: Description,
    /// The AF_XDP socket, bound to its queue. It cannot be bound anew, nor be given other rings or
    /// memory.
    pub socket: OwnedFd,
    /// A UNIX-domain socket of the interface's network namespace, for looking at the interface.
    pub control: OwnedFd,
}

/// What must be known of a link's parts in order to use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name of the interface.
    pub interface: String,
    /// Its number.
    pub index: u32,
    /// The number of the NIC that carries its frames, if it is a macvlan.
    pub lower: Option<u32>,
    /// Its address.
    pub mac: MacAddr,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// How frames reach the wire.
    pub mode: Mode,
    /// Longest frame in bytes, Ethernet header included.
    pub max_frame: u32,
    /// Frames may be in several chunks of memory.
    pub several: bool,
    /// Transmit frames.
    pub tx_frames: u32,
    /// Receive frames, and how many of them the kernel has at first.
    pub rx_frames: u32,
    /// See `rx_frames`.
    pub rx_ready: u32,
    /// The kernel's number of the attached program.
    pub program: u32,
    /// Whether a vain poll drives the driver.
    pub busy: bool,
    /// Whether the driver says when it wants the doorbell.
    pub need_wakeup: bool,
    /// Why this mode, in one line.
    pub reason: String,
}

impl Description {
    /// Whether a link of this can be, with so much memory: what comes from another process may be
    /// anything.
    pub(crate) fn check(&self, memory: usize) -> io::Result<()> {
        let kinds = [self.tx_frames, self.rx_frames];
        let sound = kinds.iter().all(|&frames| (1..=MAX_FRAMES as u32).contains(&frames))
            && Umem::bytes(self.tx_frames, self.rx_frames) <= memory
            && self.rx_ready <= self.rx_frames
            && (1..=LONGEST as u32).contains(&self.max_frame)
            && (self.several || self.max_frame as usize <= SEGMENT)
            && matches!(self.mode, Mode::XdpZeroCopy | Mode::XdpNative | Mode::XdpGeneric);
        let refused = || io::Error::new(io::ErrorKind::InvalidData, "the parts fit no AF_XDP link");
        if sound { Ok(()) } else { Err(refused()) }
    }

    pub(crate) fn info(&self) -> Info {
        let max_frame = self.max_frame as usize;
        Info {
            interface: self.interface.clone(),
            mac: self.mac,
            mode: self.mode,
            max_frame,
            segment_size: max_frame.min(SEGMENT),
            max_segments: if self.several { MAX_SEGMENTS } else { 1 },
            frame_size: CHUNK,
            tx_frames: self.tx_frames as usize,
            rx_frames: self.rx_frames as usize,
            reason: self.reason.clone(),
        }
    }
}
