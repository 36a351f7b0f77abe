//! A share and its mount, and what a test does with them.

use crate::sharing::{MAC, Share, files, gigae, tree};
use gigae_fabric::{Fabric, testing};
use rustix::io::Errno;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) struct Two {
    pub(crate) fabric: Fabric,
    pub(crate) shared: TempDir,
    pub(crate) at: TempDir,
}

impl Two {
    pub(crate) fn new(test: &str, large: usize) -> Self {
        let fabric = testing::fabric(test, |config| (config.rate, config.nodes) = (None, 3));
        let (shared, at) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        tree(shared.path(), large);
        Self { fabric, shared, at }
    }

    pub(crate) fn share(&self) -> Share {
        Share::start(&self.fabric.node(1), self.shared.path(), &[])
    }

    pub(crate) fn command(&self, directory: &str, more: &[&str]) -> Command {
        self.command_of(2, self.at.path(), directory, more)
    }

    fn command_of(&self, node: u16, at: &Path, directory: &str, more: &[&str]) -> Command {
        let mut command = gigae(&self.fabric.node(node));
        command.args(["mount", "--interface", "eth0", &format!("{MAC}:{directory}")]);
        command.arg(at).args(more).stderr(Stdio::piped());
        command
    }

    /// A mount of another node.
    pub(crate) fn second(&self, at: &Path, more: &[&str]) -> Mount {
        Mount::start(self.command_of(3, at, "", more), at)
    }

    pub(crate) fn mount(&self, directory: &str, more: &[&str]) -> Mount {
        Mount::start(self.command(directory, more), self.at.path())
    }
}

/// What is mounted, until the end of its test.
pub(crate) struct Mount {
    pub(crate) child: Child,
    lines: BufReader<ChildStderr>,
    pub(crate) at: PathBuf,
}

impl Mount {
    pub(crate) fn start(mut command: Command, at: &Path) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        let mut mount = Self { child, lines, at: at.to_owned() };
        let line = mount.line();
        assert!(line.contains("is mounted"), "{line}");
        mount
    }

    /// The next line on standard error.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Waits for a line with this part.
    pub(crate) fn says(&mut self, part: &str) {
        loop {
            let line = self.line();
            assert!(line.ends_with('\n'), "no line with '{part}'");
            if line.contains(part) {
                return;
            }
        }
    }

    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.at.join(path)
    }

    /// Waits for its end, and returns its exit code.
    pub(crate) fn ends(mut self) -> Option<i32> {
        let code = self.child.wait().unwrap().code();
        assert!(!is_mounted(&self.at));
        code
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(&self.child, "INT");
            let _ = self.child.wait();
        }
        if is_mounted(&self.at) {
            // A test has failed.
            let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        }
    }
}

pub(crate) fn is_mounted(at: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(4) == at.to_str())
}

pub(crate) fn signal(child: &Child, signal: &str) {
    // It may have ended.
    let mut kill = Command::new("kill");
    kill.arg(format!("-{signal}")).arg(child.id().to_string()).stderr(Stdio::null());
    let _ = kill.status();
}

/// Waits for something that comes soon, but not at once.
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The error of an operation.
#[track_caller]
pub(crate) fn is<T: std::fmt::Debug>(result: std::io::Result<T>, errno: Errno) {
    assert_eq!(result.unwrap_err().raw_os_error(), Some(errno.raw_os_error()));
}

/// Every file there is here, with its contents and attributes.
pub(crate) fn same(there: &Path, here: &Path) {
    let (wanted, found) = (files(there), files(here));
    let paths = |files: &[(PathBuf, fs::Metadata)]| {
        files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(paths(&wanted), paths(&found));
    for ((path, a), (_, b)) in wanted.iter().zip(&found) {
        let known = |m: &fs::Metadata| {
            (m.file_type(), m.mode() & 0o777, m.len(), m.nlink(), m.modified().unwrap(), m.ctime())
        };
        assert_eq!(known(a), known(b), "{}", path.display());
        assert_eq!(b.uid(), rustix::process::getuid().as_raw(), "the user's who mounts");
        let (from, to) = (there.join(path), here.join(path));
        if a.is_symlink() {
            assert_eq!(fs::read_link(from).unwrap(), fs::read_link(to).unwrap());
        } else if a.is_file() {
            assert!(fs::read(from).unwrap() == fs::read(to).unwrap(), "{}", path.display());
        }
    }
}
