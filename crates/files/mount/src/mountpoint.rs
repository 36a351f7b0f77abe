//! Mounting and unmounting.

use crate::answers::State;
use crate::calls::{Call, Calls};
use crate::kernel::Kernel;
use crate::mounted::{Mounted, Shared};
use fuser::{Config, MountOption, Session, SessionACL};
use gigae_share::{Caller, Inode, PART};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the kernel may read ahead: so many parts are on their way while a program reads a file from
/// its beginning to its end. Only root can set it; without it the kernel reads 128 KiB ahead.
const READ_AHEAD_KIB: usize = 8 * PART / 1024;

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the server, for the list of mounts. No comma.
    pub source: String,
    /// Programs may change files.
    pub writable: bool,
    /// Other users of this host may use it, too, as the permissions of the files say.
    pub allow_other: bool,
    /// A question without an answer for so long is EIO.
    pub patience: Duration,
    /// The number of the first request.
    pub first_number: u32,
    /// A random number, which the server knows this mount by.
    pub client: u64,
}

/// Why it cannot be mounted, in one line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountError(String);

impl std::fmt::Display for MountError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MountError {}

/// Where a file system is mounted.
#[derive(Debug)]
pub struct Mountpoint {
    path: PathBuf,
    identity: String,
    /// It was unmounted.
    gone: Arc<AtomicBool>,
}

impl Mountpoint {
    /// Mounts a directory of a share, which has this path there. The thread that reads the kernel's
    /// requests ends when it is unmounted.
    pub fn mount(
        at: &Path,
        root: (Vec<u8>, &Inode),
        options: &Options,
    ) -> Result<(Self, Mounted), MountError> {
        let path = directory(at)?;
        let failed = |error: std::io::Error| explain(at, &error);
        let calls = Arc::new(Calls::new().map_err(failed)?);
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(format!("gigae:{}", options.source)),
            if options.writable { MountOption::RW } else { MountOption::RO },
            MountOption::NoDev,
            MountOption::NoSuid,
            MountOption::NoAtime,
            MountOption::DefaultPermissions,
            MountOption::CUSTOM(format!("max_read={PART}")),
        ];
        if options.allow_other {
            config.acl = SessionACL::All;
        }
        let caller = Caller::new(options.patience, options.first_number);
        let caller = caller.for_changes(options.client);
        let state = State::new(Arc::clone(&calls), caller, root, options.client);
        let state = Shared::new(state);
        let kernel = Kernel::new(Arc::clone(&calls), state.clone());
        let session = Session::new(kernel, &path, &config).map_err(failed)?;
        state.lock().mounted(session.notifier());
        let mounted = mounts().into_iter().rev().find(|(_, at)| *at == path);
        let Some((identity, _)) = mounted else {
            return Err(MountError("cannot read /proc/self/mountinfo; mount /proc".into()));
        };
        // Only a faster read depends on it.
        let device = identity.split_once('/').map_or("", |(_, device)| device);
        let _ = std::fs::write(
            format!("/sys/class/bdi/{device}/read_ahead_kb"),
            READ_AHEAD_KIB.to_string(),
        );
        let gone = Arc::new(AtomicBool::new(false));
        let is_gone = Arc::clone(&gone);
        let queue = Arc::clone(&calls);
        let reads = std::thread::Builder::new().name("mount".into()).spawn(move || {
            // The loop ends without an error when the file system is unmounted. After an error,
            // the mount is still there, and nothing answers it.
            is_gone.store(session.run().is_ok(), Ordering::Relaxed);
            queue.put(Call::Unmounted);
        });
        reads.map_err(failed)?;
        Ok((Self { path, identity, gone }, Mounted::new(calls, state)))
    }

    /// The path, without symlinks.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The numbers of the mount and of its device, by which another process finds it.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Whether it was unmounted. Then what is mounted there belongs to somebody else.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Unmounts it. Programs that use it keep what they have open, until this process ends.
    pub fn unmount(&self) -> Result<(), MountError> {
        if self.is_gone() { Ok(()) } else { unmount_if_there(&self.identity, &self.path) }
    }
}

/// Unmounts what is mounted on this path, if it is [this mount](Mountpoint::identity).
pub fn unmount_if_there(identity: &str, path: &Path) -> Result<(), MountError> {
    // What was mounted last on a path hides the others.
    let last = mounts().into_iter().rev().find(|(_, at)| at == path);
    if last.is_none_or(|(mounted, _)| mounted != identity) {
        return Ok(());
    }
    let shown = path.display();
    match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => {
            // The second one is that of FUSE 2.
            let succeeds = |program: &&str| {
                let mut helper = Command::new(program);
                helper.args(["-u", "-q", "-z", "--"]).arg(path).stdin(Stdio::null());
                helper.status().is_ok_and(|status| status.success())
            };
            match ["fusermount3", "fusermount"].iter().any(succeeds) {
                true => Ok(()),
                false => Err(MountError(format!(
                    "cannot unmount '{shown}'; run 'fusermount3 -u -z {shown}'"
                ))),
            }
        }
        Err(error) => {
            Err(MountError(format!("cannot unmount '{shown}': {error}; run 'umount -l {shown}'")))
        }
    }
}

/// The path of a directory, without symlinks.
fn directory(at: &Path) -> Result<PathBuf, MountError> {
    let shown = at.display();
    let found = at.canonicalize().and_then(|path| Ok((path.metadata()?.is_dir(), path)));
    match found {
        Ok((true, path)) => Ok(path),
        Ok(_) => Err(MountError(format!("'{shown}' is not a directory; name one to mount on"))),
        Err(error) if error.kind() == ErrorKind::NotConnected => {
            Err(MountError(format!("'{shown}' {}", ended(at))))
        }
        Err(error) => Err(MountError(format!("'{shown}': {error}; make the directory first"))),
    }
}

/// What a directory is that cannot be used.
fn ended(at: &Path) -> String {
    format!("is a mount whose program has ended; run 'umount -l {}'", at.display())
}

fn explain(at: &Path, error: &std::io::Error) -> MountError {
    let text = error.to_string();
    let text = match error.kind() {
        _ if !Path::new("/dev/fuse").exists() => {
            "there is no /dev/fuse; run 'modprobe fuse' as root".into()
        }
        ErrorKind::NotFound => "it needs root, or fusermount3; install the package 'fuse3'".into(),
        ErrorKind::PermissionDenied if text.contains("user_allow_other") => {
            "--allow-other needs the line 'user_allow_other' in /etc/fuse.conf".into()
        }
        ErrorKind::NotConnected => format!("it {}", ended(at)),
        ErrorKind::PermissionDenied => format!("{text}; run the command as root"),
        _ => format!("{}; look at the kernel's log ('dmesg')", text.trim().replace('\n', " ")),
    };
    MountError(format!("cannot mount on '{}': {text}", at.display()))
}

/// Identity and path of each mount of this process's namespace, the last one at the end.
fn mounts() -> Vec<(String, PathBuf)> {
    let list = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mount = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        let number = str::from_utf8(fields.next()?).ok()?;
        let device = str::from_utf8(fields.nth(1)?).ok()?;
        let path = unescaped(fields.nth(1)?);
        Some((format!("{number}/{device}"), PathBuf::from(OsString::from_vec(path))))
    };
    list.split(|&byte| byte == b'\n').filter_map(mount).collect()
}

/// A path in that list: spaces, line ends and backslashes are three octal digits there.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, behind @ ..] = rest {
        rest = behind;
        let digits = behind.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                path.push(byte);
                rest = &behind[3..];
            }
            _ => path.push(*first),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_the_list_of_mounts_is_read_as_it_is() {
        assert_eq!(unescaped(b"/a\\040b\\134\\011c\xff"), b"/a b\\\tc\xff");
        assert_eq!(unescaped(b"/a\\"), b"/a\\");
        assert!(mounts().iter().any(|(_, path)| path == Path::new("/proc")));
    }

    #[test]
    fn only_a_directory_can_be_mounted_on() {
        let fails = |path: &str, part: &str| {
            let error = directory(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        };
        fails("/proc/self/status", "not a directory");
        fails("/nowhere/x", "make the directory");
    }

    #[test]
    fn what_another_has_mounted_stays() {
        let is_proc = |(_, path): &(String, PathBuf)| path == Path::new("/proc");
        let (identity, _) = mounts().into_iter().find(is_proc).unwrap();
        // Another mount of the same device, and another device.
        let (_, device) = identity.split_once('/').unwrap();
        for other in [format!("0/{device}"), "0/999999:1".into(), device.into()] {
            assert_eq!(unmount_if_there(&other, Path::new("/proc")), Ok(()));
            assert!(mounts().iter().any(is_proc));
        }
    }
}
