//! What this kernel has to confine a process with.

use std::fmt;

/// What the kernel has, or what it enforces on a confined process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Rules for files and ports.
    pub landlock: Landlock,
    /// Rules for system calls.
    pub seccomp: Seccomp,
}

/// Landlock, from Linux 5.13 on, if its build and its command line enable it. Each
/// value has what the one before it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Landlock {
    /// The kernel has none of it.
    Absent,
    /// The kernel was built with it and started without it.
    Disabled,
    /// It restricts files (Linux 5.13 to 6.6).
    Files,
    /// It restricts files and TCP ports (from Linux 6.7 on).
    FilesAndTcp,
    /// It also restricts signals to processes outside (from Linux 6.12 on).
    FilesTcpAndSignals,
}

/// seccomp with filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seccomp {
    /// The kernel has no filters.
    Absent,
    /// It refuses system calls.
    Calls,
}

impl Kernel {
    /// What the running kernel has.
    pub fn look() -> Self {
        Self { landlock: Landlock::look(), seccomp: Seccomp::look() }
    }

    /// Whether it has everything that a daemon would use.
    pub fn is_whole(self) -> bool {
        self.landlock == Landlock::FilesTcpAndSignals && self.seccomp == Seccomp::Calls
    }
}

impl Landlock {
    fn look() -> Self {
        const VERSION: libc::c_uint = 1;
        let nothing = std::ptr::null::<libc::c_void>();
        // SAFETY: with this flag the call takes no attributes and only returns a number.
        let abi =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
        match abi {
            ..1 if std::io::Error::last_os_error().raw_os_error() == Some(libc::EOPNOTSUPP) => {
                Self::Disabled
            }
            ..1 => Self::Absent,
            1..4 => Self::Files,
            4..6 => Self::FilesAndTcp,
            6.. => Self::FilesTcpAndSignals,
        }
    }
}

impl Seccomp {
    fn look() -> Self {
        let action: u32 = libc::SECCOMP_RET_ERRNO;
        // SAFETY: the kernel reads one u32 at the address and writes nothing.
        let available = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action)
        };
        if available == 0 { Self::Calls } else { Self::Absent }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Landlock: {}; seccomp: {}", self.landlock, self.seccomp)
    }
}

impl fmt::Display for Landlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "not in this kernel",
            Self::Disabled => "not enabled when this kernel was started (lsm=landlock,...)",
            Self::Files => "files",
            Self::FilesAndTcp => "files and TCP ports",
            Self::FilesTcpAndSignals => "files, TCP ports and signals",
        })
    }
}

impl fmt::Display for Seccomp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "not in this kernel",
            Self::Calls => "system calls",
        })
    }
}
