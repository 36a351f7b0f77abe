//! The XDP program (`bpf/steer.bpf.c`): loads it, attaches it, gives it the socket and the filter
//! of each queue's link. A BPF link keeps it attached until the last link closes, or until the
//! process ends, however it ends. On an interface that was made for one link the program stays
//! until the interface is removed.

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

/// The maps in the object: a socket and a filter for each queue.
const SOCKETS: &str = "sockets";
const FILTERS: &str = "filters";

/// Queues that the maps have room for at least: more than a NIC usually has. An entry takes 48
/// bytes.
const QUEUES: u32 = 128;

/// Bytes of a filter in the map: EtherType, UDP port, four bytes unused, channels.
const FILTER: usize = 8 + 32;

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

/// A loaded program and its maps. They stay in the kernel as long as the program is attached.
pub(crate) struct Program {
    sockets: XskMap<MapData>,
    filters: MapData,
    queues: u32,
    program: OwnedFd,
    id: u32,
}

impl Program {
    /// Loads the program for frames to `mac`, each in one buffer or (`sg`, Linux 5.18) in several,
    /// with room for the queues up to `queue`. It takes no frame yet. Some ten system calls.
    ///
    /// Does not use `aya`'s loader: that parses the kernel's description of all its types, 5 MB,
    /// before it learns that the program uses none of them.
    pub(crate) fn load(mac: MacAddr, queue: u32, sg: bool) -> io::Result<Self> {
        let name = if sg { NAME_SG } else { NAME };
        let mut object = Object::parse(OBJECT).map_err(|e| cause(&e))?;
        let own_mac = [("own_mac", (&mac.0[..], true))];
        object.patch_map_data(own_mac.into_iter().collect()).map_err(|e| cause(&e))?;
        let queues = QUEUES.max(queue.saturating_add(1));
        let mut maps = Vec::new();
        for (name, mut map) in std::mem::take(&mut object.maps) {
            if name == SOCKETS || name == FILTERS {
                map.set_max_entries(queues);
            }
            let made = MapData::create(map.clone(), &name, None).map_err(|e| cause(&e))?;
            if !map.data().is_empty() {
                // SAFETY: the map was made for these very bytes.
                unsafe { bpf::fill_and_freeze(made.fd().as_fd(), map.data()) }?;
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
        let mut map = |wanted: &str| {
            let at = maps.iter().position(|(name, ..)| name == wanted).ok_or_else(incomplete)?;
            io::Result::Ok(maps.swap_remove(at))
        };
        let (sockets, (_, form, filters)) = (map(SOCKETS)?.2, map(FILTERS)?);
        if form.value_size() as usize != FILTER {
            return Err(incomplete());
        }
        let sockets = Map::XskMap(sockets).try_into().map_err(|e: MapError| cause(&e))?;
        let id = bpf::id(program.as_fd())?;
        Ok(Self { sockets, filters, queues, program, id })
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

    /// Queues that it has room for.
    pub(crate) fn queues(&self) -> u32 {
        self.queues
    }

    /// Redirects the frames of a queue to a socket, as far as the filter takes them. Until the
    /// socket is closed.
    pub(crate) fn steer(
        &mut self,
        queue: u32,
        filter: &Filter,
        socket: BorrowedFd<'_>,
    ) -> io::Result<()> {
        // SAFETY: the length is checked by `load`.
        unsafe { bpf::set(self.filters.fd().as_fd(), queue, &in_map(filter)) }?;
        self.sockets.set(queue, socket.as_raw_fd(), 0).map_err(|e| cause(&e))
    }

    /// Passes all frames of a queue.
    pub(crate) fn pass(&mut self, queue: u32) -> io::Result<()> {
        // SAFETY: the length is checked by `load`.
        unsafe { bpf::set(self.filters.fd().as_fd(), queue, &NOTHING) }
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

/// The filter of a queue without a link.
const NOTHING: [u8; FILTER] = [0; FILTER];

/// A filter as the program reads it.
fn in_map(filter: &Filter) -> [u8; FILTER] {
    let (ethertype, port) = match filter.envelope {
        Envelope::Ethernet { ethertype } => (ethertype, 0),
        Envelope::Udp { port } => (0, port),
    };
    let mut bytes = NOTHING;
    bytes[..2].copy_from_slice(&ethertype.to_be_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    let channels = filter.channels.words().map(u64::to_ne_bytes);
    bytes[8..].copy_from_slice(channels.as_flattened());
    bytes
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
