//! seccomp: a filter that refuses system calls.
//!
//! It is a list of what is refused, not of what is allowed. A list of what is allowed must know
//! every call of the C library, of Rust's and of each library on every kernel; a call that is
//! missing there ends a measurement or a daemon after an update. The calls that give an attacker
//! something new are few and known: they reach other processes, the kernel's own state, namespaces
//! and file systems, or parts of the kernel whose errors often gave away the kernel. None of our
//! daemons makes them. File access, sockets and capabilities have their own rules
//! (`landlock_rules`, `identity`).
//!
//! A refused call fails with `EPERM`; the process goes on. `clone3` fails with `ENOSYS`, since a
//! filter cannot see its flags: C libraries then use `clone`, whose flags for new namespaces are
//! refused.

use crate::kernel::{Kernel, Seccomp};
use libc::{c_long, sock_filter};
use std::io;

/// What every confined process is refused, unless [`crate::Confinement::call`] names it.
const REFUSED: &[c_long] = &[
    // Other processes: their memory and their descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Programs; `Confinement::run` allows them.
    libc::SYS_execve,
    libc::SYS_execveat,
    // The kernel itself and its clocks.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    // Namespaces and file systems: ways around Landlock and the user.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Large parts of the kernel that no daemon of ours uses, and that exploits begin with.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_personality,
    libc::SYS_remap_file_pages,
    libc::SYS_vmsplice,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
];

/// The flags of clone(2) that make a namespace.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// `AUDIT_ARCH_*` of linux/audit.h: the ELF machine, 64 bits, little-endian.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_0000 | libc::EM_X86_64 as u32);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_0000 | libc::EM_AARCH64 as u32);
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_0000 | libc::EM_RISCV as u32);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const ARCHITECTURE: Option<u32> = None;

/// Numbers from here on are x32's on x86-64: the same calls by other numbers. No other machine has
/// any.
const X32: u32 = 0x4000_0000;

// Where `struct seccomp_data` has them; the lower half of an argument comes first on these
// machines.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

/// Refuses all of [`REFUSED`] but these to the calling thread; says whether the kernel does.
/// `no_new_privs` must be set.
pub(crate) fn install(allowed: &[c_long]) -> io::Result<Seccomp> {
    let (Some(machine), Seccomp::Calls) = (ARCHITECTURE, Kernel::look().seccomp) else {
        return Ok(Seccomp::Absent);
    };
    let mut program = program(machine, allowed);
    let whole = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel copies `len` instructions from `filter`, which live until the call
    // returns, and checks them. The call changes nothing but what later system calls of this thread
    // return.
    let done = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const whole)
    };
    match done {
        0 => Ok(Seccomp::Calls),
        _ => Err(io::Error::last_os_error()),
    }
}

fn program(machine: u32, allowed: &[c_long]) -> Vec<sock_filter> {
    let refuse = |errno: i32| ret(libc::SECCOMP_RET_ERRNO | errno as u32);
    let mut program = vec![
        // A call by another machine's numbers (32 bits) can only be meant to get around this
        // filter.
        load(MACHINE),
        compare(libc::BPF_JEQ, machine, 1, 0),
        ret(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
        compare(libc::BPF_JGE, X32, 0, 1),
        ret(libc::SECCOMP_RET_KILL_PROCESS),
    ];
    for number in REFUSED.iter().filter(|number| !allowed.contains(number)) {
        program.extend([compare(libc::BPF_JEQ, *number as u32, 0, 1), refuse(libc::EPERM)]);
    }
    program.extend([
        compare(libc::BPF_JEQ, libc::SYS_clone3 as u32, 0, 1),
        refuse(libc::ENOSYS),
        compare(libc::BPF_JEQ, libc::SYS_clone as u32, 0, 3),
        load(FIRST_ARGUMENT),
        compare(libc::BPF_JSET, NAMESPACES, 0, 1),
        refuse(libc::EPERM),
        ret(libc::SECCOMP_RET_ALLOW),
    ]);
    program
}

fn load(offset: u32) -> sock_filter {
    sock_filter {
        code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16,
        jt: 0,
        jf: 0,
        k: offset,
    }
}

fn ret(action: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: action }
}

/// Skips `yes` instructions if the comparison with `k` holds, and `no` if it does not.
fn compare(comparison: u32, k: u32, yes: u8, no: u8) -> sock_filter {
    let code = (libc::BPF_JMP | comparison | libc::BPF_K) as u16;
    sock_filter { code, jt: yes, jf: no, k }
}
