//! Whether others have changed the names in a directory, where the file system's times do not say
//! that.
//!
//! The kernel reports each name that is made or removed in a directory that is watched
//! (inotify(7)), and has done so when the call returns that has made or removed it. So after a
//! change of ours there is one report, and each further one is another process's. Only directories
//! are watched that were made here: of others, nobody needs that.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{RawDir, fstatfs, inotify};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::mem::MaybeUninit;

/// Directories that are watched, as many as a client keeps names of.
const MOST_DIRECTORIES: usize = 64;

/// Reports that are read at once, with names of the greatest length.
const REPORTS: usize = 15;

/// Bytes of such a report.
const REPORT: usize = 16 + 256;

/// ext4, XFS, Btrfs, tmpfs. In a file system of the network, others make names without a report.
const LOCAL: [u64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994];

#[derive(Debug)]
struct Watched {
    /// The directory's identity.
    id: u64,
    watch: i32,
    /// One more after each change.
    version: u64,
}

/// Directories that are watched.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    inotify: Option<OwnedFd>,
    /// The one that was made last at the end.
    directories: VecDeque<Watched>,
    /// Directories that were watched.
    count: u64,
}

impl Watches {
    /// A directory was made, and is open. Returns its version, if it is empty and can be watched.
    pub(crate) fn made(&mut self, directory: &OwnedFd, id: u64) -> Option<u64> {
        if !LOCAL.contains(&(fstatfs(directory).ok()?.f_type as u64)) {
            return None;
        }
        // The kernel's queue has room for its reports.
        self.catch_up();
        if self.inotify.is_none() {
            let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
            self.inotify = Some(inotify::init(flags).ok()?);
        }
        let kernel = self.inotify.as_ref()?;
        let names = inotify::WatchFlags::CREATE
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::MOVED_FROM
            | inotify::WatchFlags::MOVED_TO;
        // No name is looked up again.
        let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let flags = names | inotify::WatchFlags::ONLYDIR;
        let watch = inotify::add_watch(kernel, link, flags).ok()?;
        // What others have made before that is not reported.
        if !is_empty(directory) {
            let _ = inotify::remove_watch(kernel, watch);
            return None;
        }
        if self.directories.len() == MOST_DIRECTORIES
            && let Some(first) = self.directories.pop_front()
        {
            let _ = inotify::remove_watch(kernel, first.watch);
        }
        self.count += 1;
        let version = self.count << 32;
        self.directories.push_back(Watched { id, watch, version });
        Some(version)
    }

    /// The version of a directory now.
    pub(crate) fn version(&mut self, id: u64) -> Option<u64> {
        if self.directories.iter().all(|directory| directory.id != id) {
            return None;
        }
        self.catch_up();
        self.directories.iter().find(|known| known.id == id).map(|known| known.version)
    }

    /// The versions before and after one change of a name here, if it was the only one in between.
    pub(crate) fn changed(&mut self, id: u64, before: u64) -> Option<(u64, u64)> {
        let after = self.version(id)?;
        (after == before + 1).then_some((before, after))
    }

    /// Reads all reports. If some are lost, nothing is watched any more.
    fn catch_up(&mut self) {
        if self.read().is_err() {
            self.directories.clear();
            self.inotify = None;
        }
    }

    /// Reads all reports.
    fn read(&mut self) -> Result<(), Errno> {
        let Some(kernel) = &self.inotify else { return Ok(()) };
        let mut buffer = [MaybeUninit::uninit(); (REPORTS + 1) * REPORT];
        let mut reports = inotify::Reader::new(kernel, &mut buffer);
        let mut count = 0;
        loop {
            let report = match reports.next() {
                Ok(report) => report,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            let (watch, what) = (report.wd(), report.events());
            count += 1;
            if what.contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                return Err(Errno::OVERFLOW);
            }
            if what.contains(inotify::ReadFlags::IGNORED) {
                self.directories.retain(|known| known.watch != watch);
            } else if let Some(known) =
                self.directories.iter_mut().find(|known| known.watch == watch)
            {
                known.version += 1;
            }
            // One more would have been read with these.
            if reports.is_buffer_empty() && std::mem::take(&mut count) < REPORTS {
                return Ok(());
            }
        }
    }
}

/// Whether a directory, which was just opened, has no names.
pub(crate) fn is_empty(directory: &OwnedFd) -> bool {
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        match entry {
            Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use std::fs;
    use std::path::Path;
    use tempfile::TempDir;

    fn open(path: &Path) -> OwnedFd {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).unwrap()
    }

    /// A place that is not in memory of another file system than those that are watched.
    fn place() -> TempDir {
        let place = TempDir::new().unwrap();
        match LOCAL.contains(&(fstatfs(open(place.path())).unwrap().f_type as u64)) {
            true => place,
            // tmpfs.
            false => TempDir::new_in("/dev/shm").unwrap(),
        }
    }

    #[test]
    fn one_own_change_is_told_from_those_of_others() {
        let (place, mut watches) = (place(), Watches::default());
        let path = |name: &str| place.path().join(name);
        let first = watches.made(&open(place.path()), 7).unwrap();
        assert_eq!((watches.version(7), watches.version(8)), (Some(first), None));
        type Step<'a> = &'a dyn Fn();
        let steps: [Step<'_>; 6] = [
            &|| fs::write(path("a"), b"").unwrap(),
            &|| fs::create_dir(path("d")).unwrap(),
            &|| std::os::unix::fs::symlink("a", path("link")).unwrap(),
            &|| fs::hard_link(path("a"), path("hard")).unwrap(),
            &|| fs::remove_file(path("a")).unwrap(),
            &|| fs::remove_dir(path("d")).unwrap(),
        ];
        let mut last = first;
        for step in steps {
            step();
            assert_eq!(watches.changed(7, last), Some((last, last + 1)));
            last += 1;
        }
        // What is written, and what is in directories beneath it, changes no name.
        fs::write(path("hard"), b"more").unwrap();
        assert_eq!(watches.version(7), Some(last));
        for n in 0..100 {
            let before = watches.version(7).unwrap();
            fs::write(path(&format!("own-{n}")), b"").unwrap();
            fs::write(path(&"x".repeat(200)), b"").unwrap();
            fs::rename(path(&"x".repeat(200)), path(&"y".repeat(255))).unwrap();
            fs::remove_file(path(&"y".repeat(255))).unwrap();
            assert_eq!(watches.changed(7, before), None, "another has made a name");
        }
        for n in 0..1000 {
            fs::remove_file(path(&format!("own-{}", n % 100))).unwrap();
            fs::write(path(&format!("own-{}", n % 100)), b"").unwrap();
        }
        let before = watches.version(7).unwrap();
        fs::write(path("z"), b"").unwrap();
        assert_eq!(watches.changed(7, before), Some((before, before + 1)), "all were read");
    }

    #[test]
    fn a_directory_that_is_not_empty_or_is_gone_is_not_watched() {
        let (place, mut watches) = (place(), Watches::default());
        fs::create_dir(place.path().join("d")).unwrap();
        assert_eq!(watches.made(&open(place.path()), 7), None);
        assert!(watches.made(&open(&place.path().join("d")), 8).is_some());
        fs::remove_dir(place.path().join("d")).unwrap();
        assert_eq!(watches.version(8), None);
        let proc = open(Path::new("/proc/self/fd"));
        assert_eq!(watches.made(&proc, 9), None, "no local file system");
    }

    #[test]
    fn what_is_watched_is_bounded_and_lost_reports_end_it() {
        let (place, mut watches) = (place(), Watches::default());
        for n in 0..200 {
            let path = place.path().join(n.to_string());
            fs::create_dir(&path).unwrap();
            assert!(watches.made(&open(&path), n).is_some());
        }
        let known = (0..200).filter(|&n| watches.version(n).is_some()).count();
        assert_eq!((known, watches.version(135)), (MOST_DIRECTORIES, None));
        let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let name = |n: usize| place.path().join("199").join((n % 2).to_string());
        for n in 0..=most.trim().parse::<usize>().unwrap() / 2 {
            fs::write(name(n), b"").unwrap();
            fs::remove_file(name(n)).unwrap();
        }
        assert_eq!((watches.version(199), watches.version(198)), (None, None));
    }
}
