//! A program that is not ours: it passes everything. Loaded by bpf(2) itself.

use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};

/// linux/bpf.h: commands, program type, attachment, and the flags of linux/if_link.h.
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const LINK_UPDATE: libc::c_int = 29;
const LINK_GET_FD_BY_ID: libc::c_int = 30;
const LINK_DETACH: libc::c_int = 34;
const TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const SKB_MODE: u32 = 1 << 1;
const DRV_MODE: u32 = 1 << 2;

/// `r0 = XDP_PASS; exit`.
static CODE: [u64; 2] = [2 << 32 | 0xb7, 0x95];

#[repr(C)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    rest: [u64; 12],
}

#[repr(C)]
struct Create {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
    rest: [u64; 6],
}

pub(crate) struct Program {
    _link: OwnedFd,
    _program: OwnedFd,
}

impl Program {
    pub(crate) fn attach(interface: &str, generic: bool) -> Self {
        let program = load();
        let name = std::ffi::CString::new(interface).unwrap();
        // SAFETY: a string that ends with zero and lives across the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let create = Create {
            program: program.as_raw_fd() as u32,
            interface: index,
            attach: ATTACH_XDP,
            flags: if generic { SKB_MODE } else { DRV_MODE },
            rest: [0; 6],
        };
        Self { _link: bpf(LINK_CREATE, &create), _program: program }
    }
}

/// Loading a program that passes everything: whether that is permitted.
pub(crate) fn try_load() -> std::io::Result<OwnedFd> {
    let mut rest = [0; 12];
    // The upper half of it: what the program will be attached to.
    rest[5] = u64::from(ATTACH_XDP) << 32;
    let load = Load {
        kind: TYPE_XDP,
        instructions: CODE.len() as u32,
        code: CODE.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        rest,
    };
    // SAFETY: a new descriptor that no other code has.
    attempt(PROG_LOAD, &load).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn load() -> OwnedFd {
    try_load().unwrap()
}

/// Takes an interface down; whether that was permitted.
pub(crate) fn set_down(control: &OwnedFd, interface: &str) -> bool {
    // SAFETY: the structure is plain bytes, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = request.ifr_name.iter_mut().zip(interface.bytes());
    name.for_each(|(to, byte)| *to = byte as libc::c_char);
    // SAFETY: this ioctl reads one `ifreq`.
    let result =
        unsafe { libc::ioctl(control.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) };
    result == 0
}

/// The link by which a program is attached.
fn link_of(program: u32) -> OwnedFd {
    let mut links = aya::programs::loaded_links().flatten();
    let link = links.find(|link| link.program_id() == program).expect("it is attached");
    bpf(LINK_GET_FD_BY_ID, &[link.id(), 0, 0])
}

/// Detaches a program of any process.
pub(crate) fn detach(program: u32) {
    call(LINK_DETACH, &[link_of(program).as_raw_fd()]);
}

/// Puts another in its place; that one, which the link keeps.
pub(crate) fn replace(program: u32) -> OwnedFd {
    let new = load();
    call(LINK_UPDATE, &[link_of(program).as_raw_fd(), new.as_raw_fd(), 0, 0]);
    new
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> OwnedFd {
    // SAFETY: a new descriptor that no other code has.
    unsafe { OwnedFd::from_raw_fd(call(command, attributes) as i32) }
}

fn call<T>(command: libc::c_int, attributes: &T) -> libc::c_long {
    attempt(command, attributes).unwrap_or_else(|error| panic!("bpf({command}): {error}"))
}

fn attempt<T>(command: libc::c_int, attributes: &T) -> std::io::Result<libc::c_long> {
    // SAFETY: both structures begin as the kernel's own and are zero beyond what they set; the
    // pointers in them lead to what is static.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
