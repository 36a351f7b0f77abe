//! The XDP program (`bpf/steer.bpf.c`): loads it with a link's filter, attaches it, gives it a
//! socket. A BPF link keeps it attached until the link closes, or until the process ends, however
//! it ends. On an interface that was made for one link the program stays until the interface is
//! removed.

use crate::attached;
use crate::bpf::{self, Attached};
use aya::include_bytes_aligned;
use aya::maps::{Map, MapData, MapError, XskMap};
use aya_obj::Object;
use gigae_link::Filter;
use gigae_wire::{Envelope, MacAddr};
use std::error::Error;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Compiled from the C file beside it; a test checks that.
static OBJECT: &[u8] = include_bytes_aligned!("../bpf/steer.bpf.o");

/// The program's name in the object and in the kernel.
pub(crate) const NAME: &str = "gigae_steer";

/// The same for frames that may be in several buffers.
const NAME_SG: &str = "gigae_steer_sg";

/// The map of sockets in the object.
const SOCKETS: &str = "sockets";

/// The program's decision about a frame (linux/bpf.h, `enum xdp_action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The kernel's stack gets it.
    Pass,
    /// The socket gets it.
    Redirect,
    /// The program never decides this.
    Other(u32),
}

/// A loaded program and its map of sockets. Both stay in the kernel as long as the program is
/// attached.
pub(crate) struct Program {
    sockets: XskMap<MapData>,
    program: OwnedFd,
    id: u32,
}

impl Program {
    /// Loads the program for frames of `filter` to `mac`, each in one buffer or (`sg`, Linux 5.18)
    /// in several, with room for sockets of the queues up to `queue`. Takes some ten system calls.
    ///
    /// Does not use `aya`'s loader: that parses the kernel's description of all its types, 5 MB,
    /// before it learns that the program uses none of them.
    pub(crate) fn load(filter: &Filter, mac: MacAddr, queue: u32, sg: bool) -> io::Result<Self> {
        let name = if sg { NAME_SG } else { NAME };
        let mut object = Object::parse(OBJECT).map_err(|e| cause(&e))?;
        set_globals(&mut object, filter, mac)?;
        let mut maps = Vec::new();
        for (name, mut map) in std::mem::take(&mut object.maps) {
            if name == SOCKETS {
                map.set_max_entries(queue + 1);
            }
            let made = MapData::create(map.clone(), &name, None).map_err(|e| cause(&e))?;
            if !map.data().is_empty() {
                bpf::fill_and_freeze(made.fd().as_fd(), map.data())?;
            }
            maps.push((name, map, made));
        }
        let code = object.functions.keys().map(|&(section, _)| section).collect();
        let known = maps.iter().map(|(n, map, made)| (&n[..], made.fd().as_fd().as_raw_fd(), map));
        object.relocate_maps(known, &code).map_err(|e| cause(&e))?;
        object.relocate_calls(&code).map_err(|e| cause(&e))?;
        let found = object.programs.get(name).ok_or_else(incomplete)?;
        let function = object.functions.get(&found.function_key()).ok_or_else(incomplete)?;
        let program = bpf::load(name, &function.instructions, &found.license, sg)?;
        let sockets = maps.into_iter().find(|(name, ..)| name == SOCKETS).ok_or_else(incomplete)?;
        let sockets = Map::XskMap(sockets.2).try_into().map_err(|e: MapError| cause(&e))?;
        let id = bpf::id(program.as_fd())?;
        Ok(Self { sockets, program, id })
    }

    /// The kernel's number of the program.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Attaches to an interface by a BPF link, native in the driver or generic above it.
    pub(crate) fn attach(&self, interface: u32, native: bool) -> io::Result<Attached> {
        Attached::new(self.program.as_fd(), interface, native)
    }

    /// Attaches to an interface until that is removed. No descriptor keeps the program, so the user
    /// of the interface has none.
    pub(crate) fn attach_for_good(&self, interface: u32, native: bool) -> io::Result<()> {
        attached::attach(self.program.as_fd(), interface, native)
    }

    /// Redirects the frames of a queue to a socket.
    pub(crate) fn steer(&mut self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.sockets.set(queue, socket.as_raw_fd(), 0).map_err(|e| cause(&e))
    }

    /// The program's decision about a frame on queue 0 (`BPF_PROG_TEST_RUN`). It also passes a
    /// matching frame while queue 0 has no socket.
    pub(crate) fn judge(&self, frame: &[u8]) -> io::Result<Verdict> {
        Ok(match bpf::test_run(self.program.as_fd(), frame)? {
            2 => Verdict::Pass,
            4 => Verdict::Redirect,
            other => Verdict::Other(other),
        })
    }
}

/// Sets which frames the program takes.
fn set_globals(object: &mut Object, filter: &Filter, mac: MacAddr) -> io::Result<()> {
    let (ethertype, port) = match filter.envelope {
        Envelope::Ethernet { ethertype } => (ethertype, 0),
        Envelope::Udp { port } => (0, port),
    };
    let (ethertype, port) = (ethertype.to_be_bytes(), port.to_be_bytes());
    let channels = filter.channels.words().map(u64::to_ne_bytes);
    let globals = [
        ("own_mac", &mac.0[..]),
        ("ethertype", &ethertype),
        ("udp_port", &port),
        ("channels", channels.as_flattened()),
    ];
    let globals = globals.into_iter().map(|(name, bytes)| (name, (bytes, true))).collect();
    object.patch_map_data(globals).map_err(|e| cause(&e))
}

/// The object in this library does not fit this file.
fn incomplete() -> io::Error {
    io::Error::other("the XDP object lacks its program or map; rebuild the library")
}

/// The system error inside one of the loader's errors, or otherwise its text on one line.
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
