//! The first process of a guest: it mounts file systems, loads modules, starts the process that
//! does the job, and switches the machine off.
//!
//! It waits for every process that has lost its parent, as a first process must.
//!
//! A guest that runs programs of the machine has that machine's root directory, read-only (9P).
//! What the guest writes is in its memory (overlayfs). The lower file systems of an overlay are
//! taken not to change, so names that are not there are asked for once only.

use super::serial::Serial;
use crate::job::{Failed, JOB, Job, MACHINE, Report};
use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::process::{WaitOptions, wait};
use rustix::system::RebootCommand;
use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// The port for reports.
pub(super) const REPORTS: &str = "/dev/ttyS1";

/// Where the root directory is that has the machine's files.
const ROOT: &str = "/machine";

/// This program beneath that directory.
const OWN: &str = "/machine/run/gigae-niclab";

/// Where the machine's files are, and what is written on top of them.
const LOWER: &str = "/lower";
const UPPER: &str = "/upper";

/// Where programs are.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Has the job done and ends the machine.
pub fn run() -> ! {
    if let Err(error) = begin() {
        eprintln!("niclab: {error}");
        if let Ok(serial) = Serial::open(REPORTS) {
            serial.send(&Report::Failed(Failed { what: "guest".into(), why: error.to_string() }));
            serial.send(&Report::Done);
            serial.drain();
        }
    }
    // Comes back only if the machine cannot be switched off, which its host then does.
    let _ = rustix::system::reboot(RebootCommand::PowerOff);
    loop {
        std::thread::park();
    }
}

/// Prepares the machine, and waits for the process that does the job.
fn begin() -> io::Result<()> {
    base(Path::new("/"))?;
    let job: Job = serde_json::from_str(&fs::read_to_string(JOB)?)?;
    load(&job.modules)?;
    let mut command = if job.machine { of_machine()? } else { Command::new("/proc/self/exe") };
    if job.machine {
        command.args(["guest", ROOT]).env("PATH", PATH).env("HOME", "/root");
    } else {
        command.arg("guest");
    }
    let child = command.spawn()?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, _))) if pid.as_raw_nonzero().get().unsigned_abs() == child.id() => {
                return Ok(());
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The file systems that every Linux system has.
fn base(root: &Path) -> io::Result<()> {
    let plain = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    for (kind, at, flags) in [
        ("proc", "proc", plain),
        ("sysfs", "sys", plain),
        ("devtmpfs", "dev", MountFlags::NOSUID),
        ("tmpfs", "tmp", plain),
        ("tmpfs", "run", plain),
    ] {
        mount_at(kind, kind, &root.join(at), flags, "")?;
    }
    Ok(())
}

/// Mounts a file system and names it in an error.
fn mount_at(
    source: &str,
    kind: &str,
    at: &Path,
    flags: MountFlags,
    options: &str,
) -> io::Result<()> {
    let options = CString::new(options)?;
    let mounted = fs::create_dir_all(at)
        .and_then(|()| Ok(mount(source, at, kind, flags, options.as_c_str())?));
    mounted.map_err(|error| {
        io::Error::new(error.kind(), format!("mounting {kind} at {}: {error}", at.display()))
    })
}

/// Makes the root directory with the machine's files. The command is this program beneath it.
fn of_machine() -> io::Result<Command> {
    let (lower, upper, root) = (Path::new(LOWER), Path::new(UPPER), Path::new(ROOT));
    // What has been read stays in memory and is not looked at again.
    let nine = "trans=virtio,version=9p2000.L,msize=512000,cache=loose";
    mount_at(MACHINE, "9p", lower, MountFlags::RDONLY, nine)?;
    mount_at("tmpfs", "tmpfs", upper, MountFlags::empty(), "")?;
    for part in ["top", "work"] {
        fs::create_dir(upper.join(part))?;
    }
    let layers = format!("lowerdir={LOWER},upperdir={UPPER}/top,workdir={UPPER}/work");
    mount_at("overlay", "overlay", root, MountFlags::empty(), &layers)?;
    base(root)?;
    // No server exports an overlay by handles.
    mount_at("tmpfs", "tmpfs", &root.join("var/tmp"), MountFlags::empty(), "mode=1777")?;
    fs::write(OWN, "")?;
    mount_bind("/init", OWN)?;
    Ok(Command::new(OWN))
}

/// Loads kernel modules, each of which needs only those before it.
fn load(modules: &[String]) -> io::Result<()> {
    for module in modules {
        let name = |error: io::Error| io::Error::new(error.kind(), format!("{module}: {error}"));
        let file = fs::File::open(module).map_err(name)?;
        match rustix::system::finit_module(&file, c"", 0) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(name(error.into())),
        }
    }
    Ok(())
}
