//! Removes directories that other programs have filled, whatever they have put there.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For so long a program that was killed may still make a file.
const DYING: Duration = Duration::from_secs(2);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Removes a file, or a directory with all that is in it. What is not there is removed. Directories
/// without permissions get them first.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + DYING;
    loop {
        match once(path) {
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(PAUSE);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        }
    }
}

fn once(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path)?.is_dir() {
        true => empty(path).and_then(|()| fs::remove_dir(path)),
        false => fs::remove_file(path),
    }
}

/// Takes no memory and no descriptor for each level: a client may nest directories without end.
/// Each directory below the top comes to the top before it is emptied.
fn empty(top: &Path) -> io::Result<()> {
    open_up(top)?;
    let mut number = 0_u64;
    loop {
        let mut is_empty = true;
        for entry in fs::read_dir(top)? {
            let path = entry?.path();
            is_empty = false;
            if !fs::symlink_metadata(&path)?.is_dir() {
                fs::remove_file(&path)?;
                continue;
            }
            open_up(&path)?;
            for below in fs::read_dir(&path)? {
                let below = below?.path();
                if fs::symlink_metadata(&below)?.is_dir() {
                    // Without the right to write to it, it cannot be moved.
                    open_up(&below)?;
                    fs::rename(&below, unused(top, &mut number))?;
                } else {
                    fs::remove_file(&below)?;
                }
            }
            fs::remove_dir(&path)?;
        }
        if is_empty {
            return Ok(());
        }
    }
}

fn unused(top: &Path, number: &mut u64) -> PathBuf {
    loop {
        *number += 1;
        let path = top.join(format!("removed-{number}"));
        if fs::symlink_metadata(&path).is_err() {
            return path;
        }
    }
}

fn open_up(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, PermissionsExt::from_mode(0o700))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_deep_or_has_no_permissions_or_leads_out_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let (top, outside) = (place.path().join("top"), place.path().join("outside"));
        fs::create_dir_all(outside.join("kept")).unwrap();
        fs::create_dir_all(top.join("a/removed-1/b")).unwrap();
        fs::write(top.join("a/file"), "x").unwrap();
        fs::create_dir(top.join("removed-1")).unwrap();
        symlink(&outside, top.join("link")).unwrap();
        symlink(&outside, top.join("a/link")).unwrap();
        fs::set_permissions(top.join("a/removed-1"), PermissionsExt::from_mode(0o000)).unwrap();
        fs::set_permissions(top.join("a"), PermissionsExt::from_mode(0o500)).unwrap();
        remove(&top).unwrap();
        assert!(!top.exists() && outside.join("kept").exists());
        remove(&top).unwrap();
    }

    /// Deeper than a path may be long, and than a process may open directories.
    #[test]
    fn directories_may_be_nested_without_end() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        fs::create_dir(&top).unwrap();
        let mut directory = fs::File::open(&top).unwrap();
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&directory, "d", 0o700.into()).unwrap();
            let flags = rustix::fs::OFlags::DIRECTORY;
            let below = rustix::fs::openat(&directory, "d", flags, 0.into()).unwrap();
            directory = below.into();
        }
        drop(directory);
        remove(&top).unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn a_program_that_still_makes_files_is_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        fs::create_dir(&top).unwrap();
        let (path, (tell, told)) = (top.clone(), std::sync::mpsc::channel());
        let maker = std::thread::spawn(move || {
            for number in 0.. {
                if fs::write(path.join(number.to_string()), "").is_err() || number == 20_000 {
                    return;
                }
                let _ = tell.send(());
            }
        });
        told.recv().unwrap();
        remove(&top).unwrap();
        maker.join().unwrap();
        assert!(!top.exists());
    }
}
