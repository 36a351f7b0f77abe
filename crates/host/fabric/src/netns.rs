//! Named network namespaces: making, entering, proving whose they are, removing.
//!
//! A namespace is made in a separate thread (`unshare(2)`), marked while it has no name yet, and
//! only then given its name under `/run/netns`, the directory of ip-netns(8). So a namespace that
//! has a name has the mark, at whatever moment a process may be killed, and the mark alone says
//! whether it may be removed. The mark is the alias of its loopback interface.
//!
//! What can remain of a kill in between is an empty file under `/run/netns`, which is not a
//! namespace at all; [`remove`] takes it away when asked for that name.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gigae_host::netns::{self, NetnsGuard};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;

use crate::state::Lock;
use crate::{FabricError, tool};

/// Where ip-netns(8) keeps the names.
const DIRECTORY: &str = "/run/netns";

/// `f_type` of a namespace's file, `NSFS_MAGIC` of linux/magic.h.
const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;

/// What there is under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NetnsState {
    /// Nothing.
    Nothing,
    /// An empty file: the naming of a namespace was cut short.
    Remnant,
    /// A namespace with this mark (empty when it carries none).
    Namespace { mark: String },
}

/// The file of the namespace `name`.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Opens the namespace `name`.
pub(crate) fn open(name: &str) -> Result<File, FabricError> {
    File::open(path(name))
        .map_err(|error| FabricError::system(format!("opening the namespace {name}"), error))
}

/// The number by which the kernel identifies a namespace.
pub(crate) fn inode(name: &str) -> Result<u64, FabricError> {
    fs::metadata(path(name))
        .map(|metadata| metadata.ino())
        .map_err(|error| FabricError::system(format!("looking at the namespace {name}"), error))
}

/// Names that are in `/run/netns` now.
pub(crate) fn names() -> Result<Vec<String>, FabricError> {
    let entries = match fs::read_dir(DIRECTORY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => {
            other.map_err(|error| FabricError::system(format!("reading {DIRECTORY}"), error))?
        }
    };
    Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// Makes the namespace `name` with the mark `mark`, its loopback up, after running `prepare` in it
/// (while it is still nameless). Fails when the name is taken.
pub(crate) fn create(
    name: &str,
    mark: &str,
    prepare: impl FnOnce() -> Result<(), FabricError> + Send,
) -> Result<(), FabricError> {
    prepare_directory()?;
    on_a_thread(|| {
        leave_network()?;
        prepare()?;
        tool::batch("ip", &format!("link set dev lo alias {mark}\nlink set dev lo up\n"))?;
        let target = path(name);
        let taken = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => FabricError::Foreign { name: name.to_owned() },
            _ => FabricError::system(format!("naming the namespace {name}"), error),
        };
        OpenOptions::new().write(true).create_new(true).open(&target).map_err(taken)?;
        rustix::mount::mount_bind(netns::OWN, &target).map_err(|error| {
            let _ = fs::remove_file(&target);
            FabricError::system(format!("naming the namespace {name}"), error)
        })
    })
}

/// Fails when this process may not make network namespaces, by making a nameless one.
#[cfg(feature = "testing")]
pub(crate) fn possible() -> Result<(), FabricError> {
    on_a_thread(leave_network)
}

/// Moves the calling thread into a new network namespace that no other thread has, and that has no
/// name. Needs `CAP_SYS_ADMIN`.
pub fn leave_network() -> Result<(), FabricError> {
    // SAFETY: the flags hold neither CLONE_FILES nor CLONE_FS, so no descriptor or path that
    // another thread relies on changes under it.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|error| FabricError::privileged("making a network namespace", error))
}

/// Runs `work` in a separate thread inside the namespace `name`.
pub(crate) fn inside<T: Send>(
    name: &str,
    work: impl FnOnce() -> Result<T, FabricError> + Send,
) -> Result<T, FabricError> {
    let namespace = open(name)?;
    on_a_thread(|| {
        netns::set(namespace.as_fd()).map_err(|error| {
            FabricError::system(format!("entering the namespace {name}"), error)
        })?;
        work()
    })
}

/// Looks at what there is under `name`.
pub(crate) fn look(name: &str) -> Result<NetnsState, FabricError> {
    let metadata = match fs::symlink_metadata(path(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(NetnsState::Nothing),
        other => other.map_err(|error| FabricError::system(format!("looking at {name}"), error))?,
    };
    let kind = rustix::fs::statfs(path(name))
        .map_err(|error| FabricError::system(format!("looking at {name}"), error))?
        .f_type;
    if kind != NSFS_MAGIC {
        let remnant = metadata.is_file() && metadata.len() == 0;
        return Ok(if remnant {
            NetnsState::Remnant
        } else {
            NetnsState::Namespace { mark: String::new() }
        });
    }
    let link = inside(name, || tool::json("ip", &["link", "show", "dev", "lo"]))?;
    let mark = link[0]["ifalias"].as_str().unwrap_or_default().to_owned();
    Ok(NetnsState::Namespace { mark })
}

/// Takes the name away. The namespace itself ends when its last process and descriptor are gone.
pub(crate) fn remove(name: &str) -> Result<(), FabricError> {
    let target = path(name);
    match rustix::mount::unmount(&target, UnmountFlags::DETACH) {
        // EINVAL: not a mount point (a remnant); ENOENT: already gone.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
        Err(error) => {
            return Err(FabricError::system(format!("removing the namespace {name}"), error));
        }
    }
    match fs::remove_file(&target) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(FabricError::system(format!("removing the namespace {name}"), error))
        }
        _ => Ok(()),
    }
}

/// Moves the calling thread into the namespace `name` until the guard is dropped.
pub(crate) fn enter(name: &str) -> Result<NetnsGuard, FabricError> {
    let namespace = open(name)?;
    netns::enter(namespace.as_fd())
        .map_err(|error| FabricError::privileged(format!("entering the namespace {name}"), error))
}

/// Namespaces belong to threads: what changes the namespace does so in a thread that then ends.
fn on_a_thread<T: Send>(
    work: impl FnOnce() -> Result<T, FabricError> + Send,
) -> Result<T, FabricError> {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Makes `/run/netns` a shared mount, as ip-netns(8) does, so that a name taken away here is taken
/// away in every mount namespace.
fn prepare_directory() -> Result<(), FabricError> {
    let fail = |error: io::Error| FabricError::privileged(format!("preparing {DIRECTORY}"), error);
    // Two at once would bind it twice, and names be taken away from one of the two alone.
    let _lock = Lock::of_all()?;
    fs::create_dir_all(DIRECTORY).map_err(fail)?;
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    match rustix::mount::mount_change(DIRECTORY, shared) {
        Ok(()) => return Ok(()),
        Err(Errno::INVAL) => {}
        Err(error) => return Err(fail(error.into())),
    }
    rustix::mount::mount_bind_recursive(DIRECTORY, DIRECTORY)
        .map_err(|error| fail(error.into()))?;
    rustix::mount::mount_change(DIRECTORY, shared).map_err(|error| fail(error.into()))
}
