//! Removes directories that other programs have filled, whatever they have put there.
//!
//! Everything goes by descriptors, so that no link that appears meanwhile leads out.

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, chmod, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// For so long others may keep the directory from being empty.
const LONGEST: Duration = Duration::from_secs(60);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Removes a file, or a directory with all that is in it. What is not there is removed. Directories
/// without permissions get them first.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let name = CString::new(name.as_encoded_bytes())?;
    let above = openat(CWD, above, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    remove_at(&above, &name, Instant::now() + LONGEST)
}

/// Removes all that is in a directory.
pub(crate) fn clear(directory: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    empty(&openat(CWD, directory, flags, Mode::empty())?, Instant::now() + LONGEST)
}

/// A program that was killed may still make or rename a file: then this tries again.
fn remove_at(above: &OwnedFd, name: &CStr, deadline: Instant) -> io::Result<()> {
    loop {
        let removed = match directory(above, name)? {
            Some(directory) => empty(&directory, deadline)
                .and_then(|()| Ok(unlinkat(above, name, AtFlags::REMOVEDIR)?)),
            None => unlinkat(above, name, AtFlags::empty()).map_err(io::Error::from),
        };
        let Err(error) = removed else { return Ok(()) };
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {}
            _ => return Err(error),
        }
        if matches!(statat(above, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT)) {
            return Ok(());
        }
        in_time(deadline)?;
        std::thread::sleep(PAUSE);
    }
}

fn in_time(deadline: Instant) -> io::Result<()> {
    if Instant::now() < deadline { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
}

/// Takes no memory and no descriptor for each level: a client may nest directories without end.
/// Each directory below the top comes to the top before it is emptied.
fn empty(top: &OwnedFd, deadline: Instant) -> io::Result<()> {
    open_up(top)?;
    let mut number = 0_u64;
    loop {
        let mut is_empty = true;
        for name in names(top)? {
            let name = name?;
            is_empty = false;
            in_time(deadline)?;
            let Some(directory) = directory(top, &name)? else {
                unlinkat(top, &name, AtFlags::empty())?;
                continue;
            };
            open_up(&directory)?;
            for below in names(&directory)? {
                let below = below?;
                in_time(deadline)?;
                match self::directory(&directory, &below)? {
                    // Without the right to write to it, it cannot be moved.
                    Some(deeper) => {
                        open_up(&deeper)?;
                        renameat(&directory, &below, top, unused(top, &mut number)?)?;
                    }
                    None => unlinkat(&directory, &below, AtFlags::empty())?,
                }
            }
            unlinkat(top, &name, AtFlags::REMOVEDIR)?;
        }
        if is_empty {
            return Ok(());
        }
    }
}

/// `None`: it is no directory, or it is gone.
fn directory(above: &OwnedFd, name: &CStr) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    match openat(above, name, flags, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The names in a directory, but for its own and the one above.
fn names(directory: &OwnedFd) -> io::Result<impl Iterator<Item = io::Result<CString>>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let entries = Dir::new(openat(directory, c".", flags, Mode::empty())?)?;
    let named = entries.map(|entry| Ok(entry?.file_name().to_owned()));
    let own = |name: &io::Result<CString>| {
        name.as_ref().is_ok_and(|name| [c".", c".."].contains(&name.as_c_str()))
    };
    Ok(named.filter(move |name| !own(name)))
}

/// A name that is not taken: of an empty directory, which the renaming replaces.
fn unused(top: &OwnedFd, number: &mut u64) -> io::Result<CString> {
    loop {
        *number += 1;
        let name = CString::new(format!("removed-{number}"))?;
        match mkdirat(top, &name, Mode::RWXU) {
            Err(Errno::EXIST) => {}
            made => return Ok(made.map(|()| name)?),
        }
    }
}

/// The descriptor is open for its path alone, which fchmod(2) does not take.
fn open_up(directory: &OwnedFd) -> io::Result<()> {
    Ok(chmod(format!("/proc/self/fd/{}", directory.as_raw_fd()), Mode::RWXU)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

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
        symlink(&outside, &top).unwrap();
        assert!(clear(&top).is_err() && outside.join("kept").exists());
        remove(&top).unwrap();
        assert!(fs::symlink_metadata(&top).is_err() && outside.join("kept").exists());
        clear(&outside).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
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
