//! Makes a link of its parts, and takes it apart again.

use crate::assembly::Assembly;
use crate::link::XdpLink;
use crate::parts::{Description, LinkParts};
use crate::socket::{RingSizes, XskSocket, opening};
use crate::umem::Umem;
use crate::watch::ProgramWatch;
use gigae_link::{Arena, Interface, LinkCounters, Mode, OpenError, Posting};

impl XdpLink {
    /// Makes a link of its parts. Needs no privileges; some fifteen system calls.
    ///
    /// # Safety
    /// The parts must be as [`make`](Self::make) returned them for this very memory. No other user
    /// may use either: the frame memory and the rings belong to this link and the kernel.
    pub unsafe fn assemble(parts: LinkParts, arena: Arena) -> Result<Self, OpenError> {
        let LinkParts { description, socket, control } = parts;
        description
            .check(arena.len())
            .map_err(|source| OpenError::Io { what: "taking over a link", source })?;
        let (tx, rx) = (description.tx_frames, description.rx_frames);
        let mut umem = Umem::new(arena, tx, rx);
        umem.provide(description.rx_ready as usize);
        // They are in the fill ring already, or get there before the socket is bound. Some may have
        // frames that came since.
        while umem.missing().is_some() {}
        // SAFETY: passed on to the caller.
        let socket = unsafe { XskSocket::map(socket, RingSizes::new(tx, rx)) }.map_err(opening)?;
        let info = description.info();
        let interface = Interface {
            name: description.interface.clone(),
            index: description.index,
            lower: description.lower,
            mac: description.mac,
            mtu: description.mtu as usize,
            control,
        };
        Ok(Self {
            posting: Posting::new(&info),
            assembly: description.several.then(Assembly::default),
            watch: ProgramWatch::new(interface.index, description.program),
            busy: description.busy,
            must_poll: description.busy || description.mode == Mode::XdpZeroCopy,
            need_wakeup: description.need_wakeup,
            info,
            interface,
            program: None,
            socket,
            umem,
            counters: LinkCounters::default(),
            rx_invalid: 0,
            empty_polls: 0,
        })
    }

    /// The parts of a link that has all its transmit frames, and whose kernel has the first receive
    /// chunks, as at first.
    pub(crate) fn into_parts(self) -> LinkParts {
        let description = Description {
            interface: self.info.interface,
            index: self.interface.index,
            lower: self.interface.lower,
            mac: self.info.mac,
            mtu: self.interface.mtu as u32,
            mode: self.info.mode,
            max_frame: self.info.max_frame as u32,
            several: self.assembly.is_some(),
            tx_frames: self.info.tx_frames as u32,
            rx_frames: self.info.rx_frames as u32,
            rx_ready: self.umem.ready() as u32,
            program: self.watch.program,
            busy: self.busy,
            need_wakeup: self.need_wakeup,
            reason: self.info.reason,
        };
        debug_assert!(self.umem.kernel_has_the_first(), "what `assemble` takes for granted");
        LinkParts { description, socket: self.socket.into_fd(), control: self.interface.control }
    }
}
