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
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use rustix::process::{WaitOptions, wait};
use rustix::system::RebootCommand;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// The port for reports.
pub(super) const REPORTS: &str = "/dev/ttyS1";

/// Where the root directory is that has the machine's files.
const ROOT: &str = "/machine";

/// This program beneath that directory.
const OWN: &str = "/machine/run/gigae-niclab";

/// Where the machine's files are, and what is written on top of them.
const LOWER: &str = "/lower";
const UPPER: &str = "/upper";

/// How the machine's files are mounted. What has been read stays in memory and is not looked at
/// again.
const NINE: &str = "trans=virtio,version=9p2000.L,msize=512000,cache=loose";

/// A file that QEMU must refuse to create.
const UNWANTED: &str = ".gigae-niclab-must-not-be";

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
        command.args(["guest", ROOT]).env("PATH", PATH).env("HOME", "/run");
    } else {
        command.arg("guest");
    }
    let child = command.spawn()?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get().unsigned_abs() == child.id() => {
                return ended(ExitStatus::from_raw(status.as_raw()));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// How the process that did the job ended. Without success, it may not have reported all.
fn ended(status: ExitStatus) -> io::Result<()> {
    let failed = || io::Error::other(format!("the process that does the job ended with {status}"));
    status.success().then_some(()).ok_or_else(failed)
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
    // Not read-only to this kernel, so that the machine has to refuse.
    mount_at(MACHINE, "9p", lower, MountFlags::empty(), NINE)?;
    let created = File::create_new(lower.join(UNWANTED));
    if created.is_ok() {
        fs::remove_file(lower.join(UNWANTED))?;
    }
    refused(created.map(drop))?;
    unmount(lower, UnmountFlags::empty())?;
    mount_at(MACHINE, "9p", lower, MountFlags::RDONLY, NINE)?;
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

/// Whether the machine refused to have a file created. A guest goes on only if it did.
fn refused(created: io::Result<()>) -> io::Result<()> {
    let why = match created {
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => return Ok(()),
        Err(error) => error.to_string(),
        Ok(()) => "it created one, which was removed".to_owned(),
    };
    Err(io::Error::other(format!("QEMU must refuse to create a file of the machine: {why}")))
}

/// Loads kernel modules, each of which needs only those before it.
fn load(modules: &[String]) -> io::Result<()> {
    for module in modules {
        let name = |error: io::Error| io::Error::new(error.kind(), format!("{module}: {error}"));
        let file = File::open(module).map_err(name)?;
        match rustix::system::finit_module(&file, c"", 0) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(name(error.into())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_guest_goes_on_only_if_the_machine_refuses_to_have_files_created() {
        assert!(refused(Err(Errno::ROFS.into())).is_ok());
        for created in [Ok(()), Err(Errno::ACCESS.into())] {
            let error = refused(created).unwrap_err().to_string();
            assert!(error.starts_with("QEMU must refuse"), "{error}");
        }
    }

    #[test]
    fn a_process_that_fails_or_is_killed_is_an_error_with_its_status() {
        assert!(ended(ExitStatus::from_raw(0)).is_ok());
        let why = |raw| ended(ExitStatus::from_raw(raw)).unwrap_err().to_string();
        assert!(why(101 << 8).contains("exit status: 101"), "{}", why(101 << 8));
        assert!(why(9).contains("signal: 9"), "{}", why(9));
    }
}
