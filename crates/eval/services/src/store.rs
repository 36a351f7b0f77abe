//! The files: made in a temporary directory, with contents that follow from their size, and removed
//! with it.
//!
//! The directory is in `TMPDIR` or else in `/var/tmp`, because `/tmp` is memory on many systems; a
//! server for other machines has it where its owner says ([`Place`]). Its process holds a lock on
//! it. Those without a lock are of processes that are gone, and are removed at the next start
//! ([`Place::sweep`]).

use crate::error::ServiceError;
use crate::removal;
use crate::service::UPLOADS;
use rustix::fs::{
    Advice, CWD, FlockOperation, OFlags, RenameFlags, fadvise, flock, renameat, renameat_with,
    statvfs, syncfs,
};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory in which stores may be, and what to do if it is not suitable.
#[derive(Clone, Debug)]
pub struct Place {
    directory: PathBuf,
    advice: &'static str,
    /// Room that stays free, and new files that others can still make.
    spare: u64,
    spare_files: u64,
}

/// What the names of these directories begin with.
const PREFIX: &str = "gigae-files-";

/// Without `TMPDIR`: on a disk by the file system hierarchy standard, section 5.15.
const PLACE: &str = "/var/tmp";

/// Bytes that are made and read at a time.
const PIECE: usize = 256 << 10;

/// Files in each directory of a tree.
pub(crate) const OF_DIRECTORY: u32 = 100;

/// The name of the directory that servers export.
pub(crate) const EXPORT: &str = "export";

/// Beside the files, for configuration and logs.
const SPARE: u64 = 16 << 20;

/// Of a disk for other machines, one part of so many stays free, and no more bytes than these.
const STAYS_FREE: u64 = 20;
const MOST_STAYS_FREE: u64 = 1 << 30;

/// Copies of trees with so many files stay until the end of a run. ext4 uses the number of a
/// removed file again only after a minute or more, and looks at all such numbers for each new file:
/// after the removal of 20,000 files, 10,000 new ones took 3.2 s instead of 0.2 s.
const MANY: u32 = 1000;

/// Whether copies of a tree with so many files stay until the end of the run.
pub fn is_kept(files: u32) -> bool {
    files >= MANY
}

/// A directory with the files of a run.
#[derive(Debug)]
pub struct FileStore {
    directory: PathBuf,
    place: Place,
    files: Vec<StoredFile>,
    /// The directory, locked.
    _lock: File,
}

/// A file of the store, or a tree of files.
#[derive(Clone, Debug)]
pub struct StoredFile {
    /// Its name in the exported directory.
    pub name: String,
    /// Its bytes, or those of each file of the tree.
    pub size: u64,
    /// How many files; more than one are a tree.
    pub files: u32,
    hash: [u8; 32],
}

impl Drop for FileStore {
    fn drop(&mut self) {
        // What cannot be removed now goes at the next start.
        let _ = removal::remove(&self.directory);
    }
}

impl Place {
    /// The one for this run's own files.
    pub fn own() -> Self {
        let named = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from(PLACE), PathBuf::from);
        // Servers have other working directories.
        let directory = std::path::absolute(&named).unwrap_or(named);
        Self {
            directory,
            advice: "set TMPDIR to a directory on a disk",
            spare: SPARE,
            spare_files: 0,
        }
    }

    /// One for clients on other machines: a part of the disk stays free.
    pub fn shared(directory: &Path) -> io::Result<Self> {
        let stat = statvfs(directory)?;
        let size = stat.f_blocks.saturating_mul(stat.f_frsize);
        Ok(Self {
            directory: directory.to_owned(),
            advice: "name another directory with 'gigae serve --allow-files'",
            spare: (size / STAYS_FREE).clamp(SPARE, MOST_STAYS_FREE),
            spare_files: stat.f_files / STAYS_FREE,
        })
    }

    /// An error if there is no room for so many bytes.
    pub fn has_room(&self, needed: u64) -> Result<(), ServiceError> {
        let what = "see how much room there is";
        let stat =
            statvfs(&self.directory).map_err(|error| self.failed(what, io::Error::from(error)))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < needed.saturating_add(self.spare) {
            let free = free.saturating_sub(self.spare);
            let (free, needed) = (free / 1_000_000, needed.div_ceil(1_000_000));
            let (directory, advice) = (self.say(), self.advice);
            return Err(ServiceError::Full { directory, free, needed, advice });
        }
        // File systems without a limit say 0 of 0.
        if stat.f_favail < self.spare_files {
            let (directory, advice) = (self.say(), self.advice);
            return Err(ServiceError::ManyFiles { directory, advice });
        }
        Ok(())
    }

    /// Removes the directories of processes that are gone.
    pub fn sweep(&self) {
        let own = rustix::process::geteuid().as_raw();
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let named = entry.file_name().to_string_lossy().starts_with(PREFIX);
            // Anyone may make directories there; another user's are not ours.
            let ours = entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == own);
            let free = || -> io::Result<()> {
                Ok(flock(File::open(entry.path())?, FlockOperation::NonBlockingLockExclusive)?)
            };
            if named && ours && free().is_ok() {
                let _ = removal::remove(&entry.path());
            }
        }
    }

    fn say(&self) -> String {
        self.directory.display().to_string()
    }

    fn failed(&self, what: &'static str, source: io::Error) -> ServiceError {
        ServiceError::Store { what, directory: self.say(), source, advice: self.advice }
    }
}

impl StoredFile {
    /// SHA-256 in hexadecimal digits; of a tree, with all its names.
    pub fn hash(&self) -> String {
        self.hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl FileStore {
    /// An empty store of this run's own with room for so many bytes.
    pub fn new(needed: u64) -> Result<Self, ServiceError> {
        Self::at(Place::own(), needed)
    }

    /// The same in this place.
    pub fn at(place: Place, needed: u64) -> Result<Self, ServiceError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        place.has_room(needed)?;
        let made = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        let new = || loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            let directory = place.directory.join(&name);
            // It has the lock before it has the name by which others look for it.
            let unnamed = place.directory.join(format!(".{name}"));
            match made(&unnamed) {
                // A process of another PID namespace may have this one's number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let lock = File::open(&unnamed)?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            let named = match renameat_with(CWD, &unnamed, CWD, &directory, RenameFlags::NOREPLACE)
            {
                // This file system cannot: it replaces nothing but an empty directory.
                Err(Errno::INVAL) => renameat(CWD, &unnamed, CWD, &directory),
                named => named,
            };
            match named {
                Err(error) => {
                    fs::remove_dir(&unnamed)?;
                    if ![Errno::EXIST, Errno::NOTEMPTY].contains(&error) {
                        return Err(error.into());
                    }
                }
                Ok(()) => {
                    let (place, files) = (place.clone(), Vec::new());
                    return Ok(Self { directory, place, files, _lock: lock });
                }
            }
        };
        let store = new().map_err(|source| place.failed("make a directory", source))?;
        [store.export(), store.uploads(), store.copies()]
            .iter()
            .try_for_each(|path| made(path))
            .map_err(|source| store.failed("make a directory", source))?;
        Ok(store)
    }

    /// The directory for configurations.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A new directory of this name for a configuration and what belongs to it. What a former one
    /// had says nothing to this one.
    pub(crate) fn directory_of(&self, name: &str) -> Result<PathBuf, ServiceError> {
        let directory = self.directory.join(name);
        let _ = removal::remove(&directory);
        let made = DirBuilder::new().mode(0o700).create(&directory);
        made.map_err(|source| self.failed("make a directory", source))?;
        Ok(directory)
    }

    /// The directory that servers export.
    pub fn export(&self) -> PathBuf {
        self.directory.join(EXPORT)
    }

    /// The directory in it that clients send to.
    pub fn uploads(&self) -> PathBuf {
        self.export().join(UPLOADS)
    }

    /// The directory for copies.
    pub fn copies(&self) -> PathBuf {
        self.directory.join("copies")
    }

    /// A directory for the copy of the client with this number. It is there.
    pub(crate) fn copies_of(&self, client: u32) -> Result<PathBuf, ServiceError> {
        let directory = self.copies().join(client.to_string());
        let made = fs::create_dir_all(&directory);
        made.map_err(|source| self.failed("make a directory", source))?;
        Ok(directory)
    }

    /// The file of this size, or the tree of so many, if it was made.
    pub(crate) fn made(&self, (size, files): (u64, u32)) -> Option<&StoredFile> {
        self.find(&name_of(size, files))
    }

    /// Sizes and numbers of all files and trees.
    pub(crate) fn sizes(&self) -> Vec<(u64, u32)> {
        self.files.iter().map(|file| (file.size, file.files)).collect()
    }

    /// The file of this name, if it was made.
    pub(crate) fn find(&self, name: &str) -> Option<&StoredFile> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Makes a file of this size, or a tree of so many, if there is none, and waits until it is on
    /// the disk.
    pub fn create(&mut self, size: u64, files: u32) -> Result<StoredFile, ServiceError> {
        self.create_as(name_of(size, files), size, files)
    }

    /// Makes another file with the same contents, which programs may write to.
    pub fn create_scratch(&mut self, size: u64) -> Result<StoredFile, ServiceError> {
        self.create_as(format!("scratch-{size}"), size, 1)
    }

    fn create_as(
        &mut self,
        name: String,
        size: u64,
        files: u32,
    ) -> Result<StoredFile, ServiceError> {
        if let Some(file) = self.find(&name) {
            return Ok(file.clone());
        }
        let path = self.export().join(&name);
        let made = if files == 1 { write(&path, size) } else { write_tree(&path, size, files) };
        let hash = made.map_err(|source| {
            // Its name is free for the next attempt.
            let _ = removal::remove(&path);
            self.failed("write a file", source)
        })?;
        let file = StoredFile { name, size, files, hash };
        self.files.push(file.clone());
        Ok(file)
    }

    /// Drops the file from the page cache, so the next process that reads it reads it from the
    /// disk and is charged for the memory.
    pub fn forget(&self, file: &StoredFile) -> Result<(), ServiceError> {
        let path = self.export().join(&file.name);
        let forgotten =
            File::open(path).and_then(|file| Ok(fadvise(&file, 0, None, Advice::DontNeed)?));
        forgotten.map_err(|source| self.failed("drop a file from the page cache", source))
    }

    /// Writes what is still in memory to the disk.
    pub fn settle(&self) -> Result<(), ServiceError> {
        let settled = File::open(&self.directory).and_then(|file| Ok(syncfs(file)?));
        settled.map_err(|source| self.failed("write files to the disk", source))
    }

    /// The file system and its place, for people: `ext4 in /var/tmp`.
    pub fn file_system(&self) -> Option<String> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let path = fs::canonicalize(&self.directory).ok()?;
        Some(format!("{} in {}", file_system(&mounts, &path)?, self.say()))
    }

    /// Whether a copy is the file; removes the copy, or puts it aside if it is a large tree.
    pub fn verify(&self, file: &StoredFile, copy: &Path) -> Result<bool, ServiceError> {
        let hash = || match file.files {
            1 => hash_of(copy, file.size),
            _ => hash_of_tree(copy, file),
        };
        let hash = hash().map_err(|source| self.failed("read a copy", source))?;
        if is_kept(file.files) {
            self.put_aside(copy)?;
        } else {
            self.remove(copy)?;
        }
        Ok(hash == Some(file.hash))
    }

    /// Moves a copy to where it stays until the end.
    fn put_aside(&self, copy: &Path) -> Result<(), ServiceError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let aside = self.directory.join("aside");
        let number = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        let moved = fs::create_dir_all(&aside).and_then(|()| fs::rename(copy, aside.join(number)));
        moved.map_err(|source| self.failed("move a copy", source))
    }

    /// Removes all that clients have sent.
    pub fn clear_uploads(&self) -> Result<(), ServiceError> {
        let cleared = removal::clear(&self.uploads());
        cleared.map_err(|source| self.failed("remove what was sent", source))
    }

    /// Removes a copy, or what a failed client has left of it.
    pub(crate) fn remove(&self, copy: &Path) -> Result<(), ServiceError> {
        removal::remove(copy).map_err(|source| self.failed("remove a copy", source))
    }

    /// Says what failed here.
    pub(crate) fn failed(&self, what: &'static str, source: io::Error) -> ServiceError {
        self.place.failed(what, source)
    }

    /// The place, for people.
    fn say(&self) -> String {
        self.place.say()
    }
}

fn name_of(size: u64, files: u32) -> String {
    if files == 1 { size.to_string() } else { format!("{files}x{size}") }
}

/// The type of the file system of a path: that of the last mount nearest to it.
fn file_system<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let above = mounts.filter(|(place, _)| path.starts_with(place.replace("\\040", " ")));
    above.max_by_key(|(place, _)| place.len()).map(|(_, kind)| kind)
}

/// Contents that no file system or server can compress: a generator of Marsaglia's (xorshift64).
struct Contents {
    state: u64,
    piece: Vec<u8>,
}

impl Contents {
    /// Those that begin at this number.
    fn from(begin: u64) -> Self {
        Self { state: begin | 1 << 63, piece: vec![0; PIECE] }
    }

    fn write(&mut self, file: &mut File, size: u64, hasher: &mut Sha256) -> io::Result<()> {
        let mut left = size;
        while left > 0 {
            let now = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
            for word in self.piece[..now.next_multiple_of(8)].chunks_exact_mut(8) {
                self.state ^= self.state << 13;
                self.state ^= self.state >> 7;
                self.state ^= self.state << 17;
                word.copy_from_slice(&self.state.to_le_bytes());
            }
            hasher.update(&self.piece[..now]);
            file.write_all(&self.piece[..now])?;
            left -= now as u64;
        }
        Ok(())
    }
}

fn write(path: &Path, size: u64) -> io::Result<[u8; 32]> {
    let (mut file, mut hasher) = (File::create_new(path)?, Sha256::new());
    Contents::from(size).write(&mut file, size, &mut hasher)?;
    file.sync_all()?;
    Ok(hasher.finalize().into())
}

/// Directories and files have numbers of two digits as names. The hash is that of names and bytes,
/// in this order.
fn write_tree(path: &Path, size: u64, files: u32) -> io::Result<[u8; 32]> {
    let (mut contents, mut hasher) = (Contents::from(size), Sha256::new());
    fs::create_dir(path)?;
    for number in 0..files {
        let (directory, file) = (number / OF_DIRECTORY, number % OF_DIRECTORY);
        let names = [directory, file].map(|number| format!("{number:02}"));
        let directory = path.join(&names[0]);
        if file == 0 {
            fs::create_dir(&directory)?;
        }
        hasher.update(names.join("/"));
        let mut file = File::create_new(directory.join(&names[1]))?;
        contents.write(&mut file, size, &mut hasher)?;
    }
    syncfs(File::open(path)?)?;
    Ok(hasher.finalize().into())
}

/// `None`: that is no file of this size. Others may have put anything there.
fn hash_of(path: &Path, size: u64) -> io::Result<Option<[u8; 32]>> {
    let mut hasher = Sha256::new();
    let same = add(path, size, &mut vec![0; PIECE], &mut hasher)?;
    Ok(same.then(|| hasher.finalize().into()))
}

/// `None`: that is no tree of so many files of this size.
fn hash_of_tree(path: &Path, tree: &StoredFile) -> io::Result<Option<[u8; 32]>> {
    let (mut hasher, mut piece) = (Sha256::new(), vec![0; PIECE]);
    let is_directory = |path: &Path| Ok::<_, io::Error>(fs::symlink_metadata(path)?.is_dir());
    if !is_directory(path)? {
        return Ok(None);
    }
    let sorted = |path: &Path, most: u32| -> io::Result<Option<Vec<PathBuf>>> {
        let entries = fs::read_dir(path)?.take(most as usize + 1).map(|entry| Ok(entry?.path()));
        let mut entries = entries.collect::<io::Result<Vec<PathBuf>>>()?;
        entries.sort();
        Ok((entries.len() <= most as usize).then_some(entries))
    };
    let Some(directories) = sorted(path, tree.files.div_ceil(OF_DIRECTORY))? else {
        return Ok(None);
    };
    for directory in directories {
        let files =
            if is_directory(&directory)? { sorted(&directory, OF_DIRECTORY)? } else { None };
        let Some(files) = files else { return Ok(None) };
        for file in files {
            let name = file.strip_prefix(path).unwrap_or(&file);
            hasher.update(name.as_os_str().as_encoded_bytes());
            if !add(&file, tree.size, &mut piece, &mut hasher)? {
                return Ok(None);
            }
        }
    }
    Ok(Some(hasher.finalize().into()))
}

/// Adds the bytes of a file. `false`: it is none, or has another size. It is opened in a way that
/// waits for nobody and follows no link.
fn add(path: &Path, size: u64, piece: &mut [u8], hasher: &mut Sha256) -> io::Result<bool> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        // A link, or a socket.
        Err(error) if [Some(libc::ELOOP), Some(libc::ENXIO)].contains(&error.raw_os_error()) => {
            return Ok(false);
        }
        file => file?,
    };
    let data = file.metadata()?;
    if !data.is_file() || data.len() != size {
        return Ok(false);
    }
    // It may grow meanwhile.
    let (mut file, mut left) = (file.take(size), size);
    loop {
        match file.read(piece)? {
            0 => return Ok(left == 0),
            some => {
                hasher.update(&piece[..some]);
                left -= some as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_file_only_if_every_byte_is() {
        let mut store = FileStore::new(1 << 20).unwrap();
        let file = store.create(300_001, 1).unwrap();
        let (source, copy) = (store.export().join(&file.name), store.copies().join("copy"));
        let bytes = fs::read(&source).unwrap();
        assert_eq!(bytes.len(), 300_001);
        fs::write(&copy, &bytes).unwrap();
        assert!(store.verify(&file, &copy).unwrap() && !copy.exists());
        for wrong in [&bytes[1..], &bytes[..300_000], &[&bytes[..], b"x"].concat(), b""] {
            fs::write(&copy, wrong).unwrap();
            assert!(!store.verify(&file, &copy).unwrap());
        }
        let mut flipped = bytes;
        flipped[300_000] ^= 1;
        fs::write(&copy, flipped).unwrap();
        assert!(!store.verify(&file, &copy).unwrap());
    }

    #[test]
    fn what_is_no_file_of_its_size_is_no_copy_and_nobody_is_waited_for() {
        use rustix::fs::{FileType, Mode, mknodat};
        let mut store = FileStore::new(1 << 20).unwrap();
        let (file, tree) = (store.create(1000, 1).unwrap(), store.create(1000, 100).unwrap());
        let copy = store.copies().join("copy");
        let put: [fn(&Path); 5] = [
            |copy| std::os::unix::fs::symlink("/dev/zero", copy).unwrap(),
            |copy| mknodat(CWD, copy, FileType::Fifo, Mode::RUSR, 0).unwrap(),
            |copy| drop(std::os::unix::net::UnixListener::bind(copy).unwrap()),
            |copy| File::create(copy).unwrap().set_len(1 << 40).unwrap(),
            |copy| fs::create_dir(copy).unwrap(),
        ];
        for put in put {
            put(&copy);
            assert!(!store.verify(&file, &copy).unwrap());
            // And the same in a tree.
            fs::create_dir_all(copy.join("00")).unwrap();
            put(&copy.join("00/00"));
            assert!(!store.verify(&tree, &copy).unwrap() && !copy.exists());
        }
        std::os::unix::fs::symlink(store.export().join(&tree.name), &copy).unwrap();
        assert!(!store.verify(&tree, &copy).unwrap() && !copy.exists());
        assert!(store.export().join(&tree.name).exists());
    }

    #[test]
    fn a_copy_of_a_tree_is_the_tree_only_if_every_name_and_byte_is() {
        let mut store = FileStore::new(1 << 20).unwrap();
        let tree = store.create(100, 200).unwrap();
        let source = store.export().join(&tree.name);
        assert_eq!(fs::read_dir(source.join("01")).unwrap().count(), 100);
        let read = |name: &str| fs::read(source.join(name)).unwrap();
        assert_ne!(read("00/00"), read("00/01"), "each file has its own bytes");
        let copy = || {
            let copy = store.copies_of(0).unwrap().join(&tree.name);
            for directory in ["00", "01"] {
                fs::create_dir_all(copy.join(directory)).unwrap();
                for file in fs::read_dir(source.join(directory)).unwrap().flatten() {
                    let to = copy.join(directory).join(file.file_name());
                    fs::copy(file.path(), to).unwrap();
                }
            }
            copy
        };
        let whole = copy();
        assert!(store.verify(&tree, &whole).unwrap() && !whole.exists());
        let spoiled: [fn(&Path); 6] = [
            |copy| fs::remove_file(copy.join("01/99")).unwrap(),
            |copy| fs::rename(copy.join("01/99"), copy.join("01/a")).unwrap(),
            |copy| fs::write(copy.join("00/00"), [0; 100]).unwrap(),
            |copy| fs::write(copy.join("00/new"), b"").unwrap(),
            |copy| fs::write(copy.join("stray"), b"").unwrap(),
            |copy| fs::create_dir(copy.join("00/below")).unwrap(),
        ];
        for spoil in spoiled {
            let copy = copy();
            spoil(&copy);
            assert!(!store.verify(&tree, &copy).unwrap());
        }
    }

    #[test]
    fn files_of_different_sizes_have_different_contents_and_the_same_size_the_same() {
        let (mut one, mut other) = (FileStore::new(0).unwrap(), FileStore::new(0).unwrap());
        let hashes = |store: &mut FileStore, size| store.create(size, 1).unwrap().hash;
        assert_eq!(hashes(&mut one, 5000), hashes(&mut other, 5000));
        assert_ne!(hashes(&mut one, 5001), hashes(&mut other, 5002));
    }

    #[test]
    fn a_store_goes_with_its_value_and_is_of_this_user_alone() {
        let mut store = FileStore::new(0).unwrap();
        let directory = store.directory().to_owned();
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        store.create(10, 1).unwrap();
        Place::own().sweep();
        assert!(directory.exists(), "its process is alive");
        let foreign = directory.with_file_name(format!("{PREFIX}1-of-{}", std::process::id()));
        fs::create_dir(&foreign).unwrap();
        let lock = File::open(&foreign).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        Place::own().sweep();
        assert!(foreign.exists(), "a process holds it");
        drop(lock);
        Place::own().sweep();
        assert!(!foreign.exists());
        drop(store);
        assert!(!directory.exists());
    }

    #[test]
    fn the_file_system_is_that_of_the_nearest_mount() {
        let mounts = "none / overlay rw 0 0\n/dev/a /var ext4 rw 0 0\nb /var/my\\040tmp tmpfs rw 0 0\n\
                      c /v xfs rw 0 0\n/dev/d /var btrfs rw 0 0\n";
        let of = |path: &str| file_system(mounts, Path::new(path));
        assert_eq!(of("/var/my tmp/x"), Some("tmpfs"));
        assert_eq!(of("/var/tmp/x"), Some("btrfs"));
        assert_eq!(of("/various"), Some("overlay"));
        assert_eq!(file_system("", Path::new("/")), None);
        let store = FileStore::new(0).unwrap();
        store.settle().unwrap();
        let said = store.file_system().unwrap();
        assert!(said.ends_with(&format!(" in {}", store.say())), "{said}");
    }

    #[test]
    fn what_stays_free_counts_even_if_nothing_is_needed() {
        let place = Place { spare: u64::MAX, ..Place::own() };
        let error = place.has_room(0).unwrap_err().to_string();
        assert!(error.contains("has room for 0 MB and the files need 0"), "{error}");
        let enough = Place { spare: 0, ..place };
        assert!(enough.has_room(0).is_ok());
        let error = Place { spare_files: u64::MAX, ..enough }.has_room(0).unwrap_err().to_string();
        assert!(error.contains("new files") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn too_little_room_is_said_before_anything_is_written() {
        let error = FileStore::new(u64::MAX / 2).unwrap_err().to_string();
        assert!(error.contains("make room, or set TMPDIR") && !error.contains('\n'), "{error}");
    }
}
