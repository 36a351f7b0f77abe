//! A link in parts: a process that may open AF_XDP sockets gives them to one that may not.
//!
//! Opening needs privileges, using does not. A process that has the socket maps the rings; a
//! process that has the rings sends and receives frames. So [`make`](crate::XdpLink::make) and
//! [`assemble`](crate::XdpLink::assemble) may run in different processes, and the parts pass from
//! one to the other as descriptors (unix(7), `SCM_RIGHTS`). `SECURITY.md` says what a process can
//! and cannot do with the parts.
//!
//! The frame memory belongs to the process that assembles the link: it allocates the pages, which
//! are charged to its control group, before the other one registers them. That process cannot get
//! an unbound socket to register its memory itself: bind(2) needs no capability and takes any
//! interface. And a registration counts against the limit of locked memory (`ulimit -l`), which is
//! 8 MiB for most users.

use crate::assembly::MAX_SEGMENTS;
use crate::umem::{CHUNK, LONGEST, MAX_FRAMES, SEGMENT, Umem};
use gigae_link::{Info, Mode};
use gigae_wire::MacAddr;
use std::io;
use std::os::fd::OwnedFd;

/// The parts of a link, besides its memory. The link ends with the last copy of the socket. The
/// program stays on the interface as long as that exists.
#[derive(Debug)]
pub struct LinkParts {
    /// The description of the link.
    pub description: Description,
    /// The AF_XDP socket, bound to its queue. It cannot be bound again, and cannot get other rings
    /// or memory.
    pub socket: OwnedFd,
    /// A UNIX-domain socket of the interface's network namespace, for looking at the interface.
    pub control: OwnedFd,
}

/// Everything that a process must know to use the parts of a link.
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
    /// Whether an empty poll drives the driver.
    pub busy: bool,
    /// Whether the driver says when it wants the doorbell.
    pub need_wakeup: bool,
    /// Why this mode, in one line.
    pub reason: String,
}

impl Description {
    /// Whether such a link is possible with so much memory. A description from another process may
    /// have any contents.
    pub(crate) fn check(&self, memory: usize) -> io::Result<()> {
        let kinds = [self.tx_frames, self.rx_frames];
        let sound = kinds.iter().all(|&frames| (1..=MAX_FRAMES as u32).contains(&frames))
            && Umem::bytes(self.tx_frames, self.rx_frames) <= memory
            && self.rx_ready <= self.rx_frames
            && (1..=LONGEST as u32).contains(&self.max_frame)
            && (self.several || self.max_frame as usize <= SEGMENT)
            && matches!(self.mode, Mode::XdpZeroCopy | Mode::XdpNative | Mode::XdpGeneric);
        let refused =
            || io::Error::new(io::ErrorKind::InvalidData, "the parts do not make an AF_XDP link");
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
