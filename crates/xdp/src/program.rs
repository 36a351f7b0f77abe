//! The XDP program (`bpf/steer.bpf.c`): loading it with a link's filter, attaching it, giving it a
//! socket. It is detached when the value is dropped and when the process ends, however it ends: with the
//! last copy of the link's descriptor. A process that was forked meanwhile has copies until it begins its
//! own program, so with threads that start other programs it may be there a moment longer.

use aya::maps::{MapError, XskMap};
use aya::programs::links::FdLink;

use aya::programs::{TestRun, TestRunOptions, Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use gigae_link::Filter;
use gigae_wire::{Envelope, MacAddr};
use std::error::Error;
use std::io;
use std::os::fd::BorrowedFd;

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

/// A loaded program, attached or not.
pub(crate) struct Program {
    /// First, so that frames go to the stack before the map is gone.
    attached: Option<FdLink>,
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
        Ok(Self { attached: None, object, name, id })
    }

    /// The kernel's number of it.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Attaches to an interface by a BPF link; native in the driver, or generic above it.
    pub(crate) fn attach(&mut self, interface: u32, native: bool) -> io::Result<()> {
        let mode = if native { XdpMode::Driver } else { XdpMode::Skb };
        let program = xdp(&mut self.object, self.name)?;
        let id = program.attach_to_if_index(interface, mode).map_err(|e| cause(&e))?;
        let link = program.take_link(id).map_err(|e| cause(&e))?;
        // Where BPF links are refused, the library attaches in the old way, which outlives the
        // process. Dropping such a link detaches it.
        let link =
            FdLink::try_from(link).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        self.attached = Some(link);
        Ok(())
    }

    /// Sends the frames of a queue to a socket.
    pub(crate) fn steer(&mut self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let map = self.object.map_mut(SOCKETS).ok_or_else(incomplete)?;
        let mut sockets: XskMap<_> = map.try_into().map_err(|e: MapError| cause(&e))?;
        use std::os::fd::AsRawFd;
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
