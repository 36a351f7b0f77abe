//! Landlock: which files and TCP ports the process may still use.

use crate::kernel::{Kernel, Landlock};
use crate::{Confinement, Ports};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The newest rights that we ask for: ioctl(2) on devices. An older kernel enforces what it knows.
const NEWEST: ABI = ABI::V5;

/// Restricts the calling thread; says what the kernel enforces.
pub(crate) fn restrict(needs: &Confinement) -> io::Result<Landlock> {
    let has = Kernel::look().landlock;
    match has {
        Landlock::Absent | Landlock::Disabled => {}
        _ => rules(needs).and_then(RulesetCreated::restrict_self).map(drop).map_err(to_io)?,
    }
    Ok(has)
}

/// Rules for a program that this process starts, in addition to its own ones: files, TCP ports and
/// signals. Only [`Confinement::fence`] makes one.
#[derive(Debug)]
pub struct Fence {
    rules: OwnedFd,
}

impl Fence {
    /// `None`: this kernel has no Landlock.
    pub(crate) fn new(needs: &Confinement) -> io::Result<Option<Self>> {
        match Kernel::look().landlock {
            Landlock::Absent | Landlock::Disabled => Ok(None),
            _ => {
                let rules: Option<OwnedFd> = rules(needs).map_err(to_io)?.into();
                Ok(rules.map(|rules| Self { rules }))
            }
        }
    }

    /// Restricts the calling thread for good. It makes two system calls and nothing else, so a
    /// process may call it between fork(2) and execve(2).
    pub fn close(&self) -> io::Result<()> {
        rustix::thread::set_no_new_privs(true)?;
        // SAFETY: the descriptor is a set of rules, which the kernel only reads.
        match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.rules.as_raw_fd(), 0) }
        {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn rules(needs: &Confinement) -> Result<RulesetCreated, RulesetError> {
    let all = AccessFs::from_all(NEWEST);
    let run = AccessFs::from_read(NEWEST);
    let read = run & !BitFlags::from(AccessFs::Execute);
    let mut rules = Ruleset::default();
    if !needs.all_files {
        rules = rules.handle_access(all)?;
    }
    let ports = [(AccessNet::BindTcp, &needs.bind), (AccessNet::ConnectTcp, &needs.connect)];
    for (access, _) in ports.iter().filter(|(_, ports)| **ports != Ports::Any) {
        rules = rules.handle_access(*access)?;
    }
    let mut rules = rules.scope(Scope::Signal)?.create()?;
    if !needs.all_files {
        let write = all & !BitFlags::from(AccessFs::Execute);
        rules = rules
            .add_rules(path_beneath_rules(&needs.read, read))?
            .add_rules(path_beneath_rules(&needs.write, write))?
            .add_rules(path_beneath_rules(&needs.run, run))?;
    }
    for (access, ports) in ports {
        if let Ports::Only(ports) = ports {
            rules = rules.add_rules(
                ports.iter().map(|port| Ok::<_, RulesetError>(NetPort::new(*port, access))),
            )?;
        }
    }
    Ok(rules)
}

fn to_io(error: RulesetError) -> io::Error {
    io::Error::other(format!("restricting files by Landlock: {error}"))
}
