//! What the tests of `gigae cp` and `gigae mount` have in common: a share, and what is in it.

use gigae_fabric::Node;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub(crate) const MAC: &str = "02:67:69:00:00:01";

pub(crate) fn gigae(node: &Node) -> Command {
    node.command(env!("CARGO_BIN_EXE_gigae")).unwrap()
}

pub(crate) fn says(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

/// A share that is ended with its test.
pub(crate) struct Share(pub(crate) Child);

impl Share {
    pub(crate) fn start(node: &Node, directory: &Path, more: &[&str]) -> Self {
        let mut command = gigae(node);
        command.arg("share").arg(directory).args(["--interface", "eth0"]).args(more);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("sharing"), "{line}");
        Self(child)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One line on standard error that contains `part`.
pub(crate) fn fails(output: &Output, part: &str) {
    let error = says(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with("gigae: ") && error.lines().count() == 1, "{error}");
    assert!(error.contains(part), "{part}: {error}");
}

/// Bytes that follow from a number.
pub(crate) fn bytes(seed: u32, len: usize) -> Vec<u8> {
    let mut rng = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        rng ^= rng << 13;
        rng ^= rng >> 17;
        rng ^= rng << 5;
        rng
    };
    (0..len.div_ceil(4)).flat_map(|_| next().to_le_bytes()).take(len).collect()
}

pub(crate) fn tree(root: &Path, large: usize) {
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    for n in 0..700u32 {
        fs::write(root.join(format!("a/b/{n}")), bytes(n, n as usize * 8)).unwrap();
    }
    fs::write(root.join("a").join(OsStr::from_bytes(b"\xff\x1b[2J")), b"odd").unwrap();
    fs::write(root.join("large"), bytes(1, large)).unwrap();
    fs::write(root.join("a/large"), bytes(2, large / 2 + 1)).unwrap();
    symlink("/etc/passwd", root.join("out")).unwrap();
}

/// All files beneath a directory, by path. One that is renamed at this moment may be missing.
pub(crate) fn files(root: &Path) -> Vec<(PathBuf, fs::Metadata)> {
    let mut found = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(path) = left.pop() {
        let Ok(metadata) = fs::symlink_metadata(root.join(&path)) else { continue };
        if metadata.is_dir() {
            left.extend(
                fs::read_dir(root.join(&path)).unwrap().map(|e| path.join(e.unwrap().file_name())),
            );
        }
        found.push((path, metadata));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}
