//! bpf(2): the commands that the XDP program needs and that no crate used here offers separately.
//!
//! Requests are what linux/bpf.h calls `union bpf_attr`, each up to the last field that its command
//! reads. The kernel takes missing fields as zero.

use aya_obj::generated::bpf_insn;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// linux/bpf.h, `enum bpf_cmd`.
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const PROGRAM_TEST_RUN: libc::c_long = 10;
const OBJECT_INFO: libc::c_long = 15;
const MAP_FREEZE: libc::c_long = 22;
const LINK_CREATE: libc::c_long = 28;
const LINK_DETACH: libc::c_long = 34;

/// linux/bpf.h: `BPF_PROG_TYPE_XDP`, `BPF_XDP`, `BPF_F_XDP_HAS_FRAGS`, `XDP_FLAGS_SKB_MODE` and
/// `XDP_FLAGS_DRV_MODE`.
const TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const HAS_FRAGS: u32 = 1 << 5;
const GENERIC: u32 = 1 << 1;
const DRIVER: u32 = 1 << 2;

/// How often to repeat a load that a signal interrupts.
const ATTEMPTS: usize = 5;

#[repr(C)]
struct MapUpdate {
    map: RawFd,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log: [u64; 2],
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
struct TestRun {
    program: RawFd,
    result: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}

#[repr(C)]
struct ObjectInfoAttr {
    of: RawFd,
    size: u32,
    info: u64,
}

#[repr(C)]
struct LinkCreate {
    program: RawFd,
    interface: u32,
    kind: u32,
    flags: u32,
}

/// Sets element 0 of a map and makes the map read-only, so the verifier knows the value.
///
/// # Safety
/// The value must be as long as those of the map.
pub(crate) unsafe fn fill_and_freeze(map: BorrowedFd<'_>, value: &[u8]) -> io::Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { set(map, 0, value) }?;
    let mut map = map.as_raw_fd();
    // SAFETY: the request is only a descriptor.
    unsafe { call(MAP_FREEZE, &mut map) }.map(drop)
}

/// Sets an element of a map.
///
/// # Safety
/// The value must be as long as those of the map.
pub(crate) unsafe fn set(map: BorrowedFd<'_>, key: u32, value: &[u8]) -> io::Result<()> {
    let (at, from) = (&raw const key as u64, value.as_ptr() as u64);
    let map = map.as_raw_fd();
    let mut update = MapUpdate { map, padding: 0, key: at, value: from, flags: 0 };
    // SAFETY: the kernel reads a key of four bytes and a value, which is long enough (see above).
    unsafe { call(MAP_UPDATE, &mut update) }.map(drop)
}

/// Loads a program for XDP. `frags` says that it accepts frames in several buffers (Linux 5.18).
pub(crate) fn load(
    name: &str,
    instructions: &[bpf_insn],
    licence: &CStr,
    frags: bool,
) -> io::Result<OwnedFd> {
    let mut request = ProgramLoad {
        kind: TYPE_XDP,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: licence.as_ptr() as u64,
        log: [0; 2],
        kernel: 0,
        flags: if frags { HAS_FRAGS } else { 0 },
        name: [0; 16],
        interface: 0,
        attach: ATTACH_XDP,
    };
    // Cut to 15 characters.
    let most = request.name.len() - 1;
    request.name.iter_mut().zip(name.bytes().take(most)).for_each(|(to, from)| *to = from);
    // SAFETY: the kernel reads that many instructions and a text that ends with zero, and nothing
    // else.
    let mut attempt = || unsafe { call(PROGRAM_LOAD, &mut request) };
    let mut loaded = attempt();
    for _ in 1..ATTEMPTS {
        match loaded.as_ref().map_err(io::Error::raw_os_error) {
            Err(Some(libc::EAGAIN)) => {}
            // Linux before 5.11 counts programs as locked memory.
            Err(Some(libc::EPERM)) => {
                let endless = Rlimit { current: None, maximum: None };
                if setrlimit(Resource::Memlock, endless).is_err() {
                    break;
                }
            }
            _ => break,
        }
        loaded = attempt();
    }
    // SAFETY: a descriptor that the kernel has just made for us.
    loaded.map(|made| unsafe { OwnedFd::from_raw_fd(made) })
}

/// The kernel's number of a program.
pub(crate) fn id(program: BorrowedFd<'_>) -> io::Result<u32> {
    // The beginning of `struct bpf_prog_info`: type and number.
    let mut info = [0u32; 2];
    let size = size_of_val(&info) as u32;
    let mut request = ObjectInfoAttr { of: program.as_raw_fd(), size, info: &raw mut info as u64 };
    // SAFETY: the kernel writes no more than `size` bytes, which are there.
    unsafe { call(OBJECT_INFO, &mut request) }?;
    Ok(info[1])
}

/// What a program returns for a frame on queue 0.
pub(crate) fn test_run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    let mut request = TestRun {
        program: program.as_raw_fd(),
        result: 0,
        size_in: frame.len() as u32,
        size_out: 0,
        data_in: frame.as_ptr() as u64,
        data_out: 0,
        repeat: 1,
        duration: 0,
    };
    // SAFETY: the kernel reads a frame of that length, and writes into the request alone.
    unsafe { call(PROGRAM_TEST_RUN, &mut request) }?;
    Ok(request.result)
}

/// A program on an interface. Dropping this detaches it, also while a forked child still has a copy
/// of the descriptor. A child that does not execute another program may drop this, too; the program
/// stays then.
#[derive(Debug)]
pub(crate) struct Attached {
    link: OwnedFd,
    /// The process that attached it.
    process: u32,
}

impl Attached {
    /// Attaches a program to an interface, native in the driver or generic above it. It is detached
    /// at the latest with the last copy of the descriptor.
    pub(crate) fn new(program: BorrowedFd<'_>, interface: u32, native: bool) -> io::Result<Self> {
        let (program, flags) = (program.as_raw_fd(), if native { DRIVER } else { GENERIC });
        let mut request = LinkCreate { program, interface, kind: ATTACH_XDP, flags };
        // SAFETY: the request holds no address; and a descriptor that the kernel has just made for
        // us.
        let link = unsafe { OwnedFd::from_raw_fd(call(LINK_CREATE, &mut request)?) };
        Ok(Self { link, process: std::process::id() })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if std::process::id() == self.process {
            // SAFETY: the request is only a descriptor. If the kernel refuses (the interface is
            // gone, or Linux is older than 5.9), the program goes with the last copy.
            let _ = unsafe { call(LINK_DETACH, &mut self.link.as_raw_fd()) };
        }
    }
}

/// The call itself.
///
/// # Safety
///
/// The request must fit the command, and every address in it must be valid for what the kernel does
/// there.
unsafe fn call<T>(command: libc::c_long, request: &mut T) -> io::Result<RawFd> {
    // SAFETY: pointer and length describe one structure that lives across the call; the rest is the
    // caller's promise.
    let made = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *request, size_of::<T>()) };
    if made < 0 { Err(io::Error::last_os_error()) } else { Ok(made as RawFd) }
}
