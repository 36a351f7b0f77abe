//! The XDP program (`bpf/steer.bpf.c`): loading it with a link's filter, attaching it, giving it a
//! socket. What keeps it attached is the descriptor of a BPF link; it is detached when that is closed and
//! when the process ends, however it ends: with the last copy of the descriptor. A process that was forked meanwhile has copies until it begins its
//! own program, so with threads that start other programs it may be there a moment longer.

use aya::maps::{MapError, XskMap};
use aya::programs::{TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use gigae_link::Filter;
use gigae_wire::{Envelope, MacAddr};
use std::error::Error;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Compiled from the C file beside it; the check for that is part of the tests.
static OBJECT: &[u8] = include_bytes_aligned!("../bpf/steer.bpf.o");

/// The program's name in the object and in the kernel.
pub(crate) const NAME: &str = "gigae_steer";

/// The same for frames that may be in several buffers.
const NAME_SG: &str = "gigae_steer_sg";

/// The map of sockets in the object.
const SOCKETS: &str = "sockets";

/// What the program decides about a frame (linux/bpf.h, `enum xdp_action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The kernel's stack gets it.
    Pass,
    /// The socket gets it.
    Redirect,
    /// The program never decides this.
    Other(u32),
}

/// linux/bpf.h: `BPF_LINK_CREATE`, `BPF_XDP`, `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE`.
const LINK_CREATE: libc::c_long = 28;
const ATTACH_XDP: u32 = 37;
const GENERIC: u32 = 1 << 1;
const DRIVER: u32 = 1 << 2;

/// `union bpf_attr` of linux/bpf.h, as far as making a link reads it.
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    kind: u32,
    flags: u32,
}

/// A loaded program and its map of sockets. Both stay in the kernel for as long as they are attached.
pub(crate) struct Program {
    object: Ebpf,
    name: &'static str,
    id: u32,
}

impl Program {
    /// Loads the program for frames of `filter` to `mac`, each in one buffer or (`sg`, Linux 5.18) in
    /// several, with room for sockets of the queues up to `queue`.
    pub(crate) fn load(filter: &Filter, mac: MacAddr, queue: u32, sg: bool) -> io::Result<Self> {
        let name = if sg { NAME_SG } else { NAME };
        let (ethertype, port) = match filter.envelope {
            Envelope::Ethernet { ethertype } => (ethertype, 0),
            Envelope::Udp { port } => (0, port),
        };
        let (ethertype, port, words) = (ethertype.to_be(), port.to_be(), filter.channels.words());
        let mut object = EbpfLoader::new()
            // The program uses no kernel type, so the kernel's own BTF need not be read.
            .btf(None)
            .override_global("own_mac", &mac.0[..], true)
            .override_global("ethertype", &ethertype, true)
            .override_global("udp_port", &port, true)
            .override_global("channels", &words[..], true)
            .map_max_entries(SOCKETS, queue + 1)
            .load(OBJECT)
            .map_err(|e| cause(&e))?;
        let program = xdp(&mut object, name)?;
        program.load().map_err(|e| cause(&e))?;
        let id = program.info().map_err(|e| cause(&e))?.id();
        Ok(Self { object, name, id })
    }

    /// The kernel's number of it.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Attaches to an interface by a BPF link; native in the driver, or generic above it. It is detached
    /// with the last copy of the descriptor.
    pub(crate) fn attach(&mut self, interface: u32, native: bool) -> io::Result<OwnedFd> {
        let program = xdp(&mut self.object, self.name)?;
        let program = program.fd().map_err(|e| cause(&e))?.as_fd().as_raw_fd() as u32;
        let flags = if native { DRIVER } else { GENERIC };
        let mut request = LinkCreate { program, interface, kind: ATTACH_XDP, flags };
        let length = size_of_val(&request);
        // SAFETY: pointer and length describe one structure that lives across the call.
        let made = unsafe { libc::syscall(libc::SYS_bpf, LINK_CREATE, &raw mut request, length) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that the kernel has just made for us.
        Ok(unsafe { OwnedFd::from_raw_fd(made as libc::c_int) })
    }

    /// Sends the frames of a queue to a socket.
    pub(crate) fn steer(&mut self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let map = self.object.map_mut(SOCKETS).ok_or_else(incomplete)?;
        let mut sockets: XskMap<_> = map.try_into().map_err(|e: MapError| cause(&e))?;
        sockets.set(queue, socket.as_raw_fd(), 0).map_err(|e| cause(&e))
    }

    /// What the program decides about a frame on queue 0 (`BPF_PROG_TEST_RUN`). A matching frame
    /// passes too while queue 0 has no socket.
    pub(crate) fn judge(&mut self, frame: &[u8]) -> io::Result<Verdict> {
        let options = TestRunOptions { data_in: Some(frame), ..TestRunOptions::new() };
        let result = xdp(&mut self.object, self.name)?.test_run(options).map_err(|e| cause(&e))?;
        Ok(match result.return_value {
            2 => Verdict::Pass,
            4 => Verdict::Redirect,
            other => Verdict::Other(other),
        })
    }
}

fn xdp<'a>(object: &'a mut Ebpf, name: &str) -> io::Result<&'a mut Xdp> {
    let program = object.program_mut(name).ok_or_else(incomplete)?;
    program.try_into().map_err(|_| incomplete())
}

/// The object in this library is not the one that this file was written for.
fn incomplete() -> io::Error {
    io::Error::other("the XDP object lacks its program or map; build the library anew")
}

/// The system's error at the bottom of one of the loader's errors, or else its text on one line.
fn cause(error: &(dyn Error + 'static)) -> io::Error {
    let mut next = Some(error);
    while let Some(e) = next {
        if let Some(code) = e.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(code);
        }
        next = e.source();
    }
    io::Error::other(error.to_string().lines().next().unwrap_or_default().to_owned())
}

/// Whether the program with this id is one of ours.
pub(crate) fn is_ours(id: u32) -> bool {
    aya::programs::loaded_programs()
        .flatten()
        .any(|program| program.id() == id && program.name().starts_with(NAME.as_bytes()))
}
