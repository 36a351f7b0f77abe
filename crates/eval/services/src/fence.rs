//! Which files a server for other machines may use: those of its store, and what programs need.

use gigae_confine::{Confinement, Fence, Ports};
use gigae_eval_model::service::OWN;
use std::io;
use std::path::{Path, PathBuf};

/// Where programs and their libraries lie.
pub const PROGRAMS: [&str; 5] = ["/bin", "/usr", "/lib", "/lib64", "/nix/store"];

/// What file servers and the C library read about this machine. Not all of `/etc`: a client that
/// has logged in may read what its server may read.
const ABOUT_THIS_MACHINE: [&str; 8] = [
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/services",
];

/// Adds what file servers need whose files are in this directory.
pub fn needs(confinement: Confinement, directory: &Path) -> io::Result<Confinement> {
    let own = std::env::current_exe()?;
    let programs = PROGRAMS.iter().map(PathBuf::from).chain([own]);
    let confinement = programs.fold(confinement, Confinement::run);
    let confinement = ABOUT_THIS_MACHINE.iter().fold(confinement, Confinement::read);
    Ok(confinement.read("/dev/urandom").write("/dev/null").write(directory))
}

/// The rules for one server. vsftpd gives clients every file that it can read itself.
pub(crate) fn of(service: &str, directory: &Path) -> io::Result<Option<Fence>> {
    let mut confinement = needs(Confinement::new().bind(Ports::Any), directory)?;
    if service == OWN {
        // It looks at its interface.
        confinement = confinement.read("/proc").read("/sys");
    }
    confinement.fence()
}
