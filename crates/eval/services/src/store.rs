//! The files: made in a temporary directory, with contents that follow from their size, and removed
//! with it.
//!
//! The directory is in `TMPDIR` or else in `/var/tmp`, because `/tmp` is memory on many systems.
//! Its name has the number of this process, which holds a lock on it. Those of processes that are
//! gone are removed at the next start ([`FileStore::sweep`]). The lock tells a process of another
//! PID namespace from one that is gone.

use crate::error::ServiceError;
use gigae_host::proc::process;
use rustix::fs::{Advice, FlockOperation, fadvise, flock, statvfs};
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What the names of these directories begin with.
const PREFIX: &str = "gigae-files-";

/// Without `TMPDIR`: on a disk by the file system hierarchy standard, section 5.15.
const PLACE: &str = "/var/tmp";

/// Bytes that are made and read at a time.
const PIECE: usize = 256 << 10;

/// Beside the files, for configuration and logs.
const SPARE: u64 = 16 << 20;

/// A directory with the files of a run.
#[derive(Debug)]
pub struct FileStore {
    directory: PathBuf,
    files: Vec<StoredFile>,
    /// The directory, locked.
    _lock: File,
}

/// A file of the store.
#[derive(Clone, Debug)]
pub struct StoredFile {
    /// Its name in the exported directory.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    hash: [u8; 32],
}

impl Drop for FileStore {
    fn drop(&mut self) {
        // What cannot be removed now goes at the next start.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl FileStore {
    /// An empty store with room for so many bytes.
    pub fn new(needed: u64) -> Result<Self, ServiceError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let place = place();
        let made = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        let new = || loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let directory = place.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match made(&directory) {
                // A process of another PID namespace may have this one's number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let lock = File::open(&directory)?;
                    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
                    return Ok(Self { directory, files: Vec::new(), _lock: lock });
                }
            }
        };
        let store = new().map_err(|source| ServiceError::Store {
            what: "make a directory",
            directory: place.display().to_string(),
            source,
        })?;
        made(&store.export())
            .and_then(|()| made(&store.copies()))
            .map_err(|source| store.failed("make a directory", source))?;
        let stat = statvfs(&store.directory)
            .map_err(|error| store.failed("see how much room there is", error.into()))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < needed.saturating_add(SPARE) {
            let (free, needed) = (free / 1_000_000, needed.div_ceil(1_000_000));
            return Err(ServiceError::Full { directory: store.say(), free, needed });
        }
        Ok(store)
    }

    /// The directory for configurations.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory that servers export.
    pub fn export(&self) -> PathBuf {
        self.directory.join("export")
    }

    /// The directory for copies.
    pub fn copies(&self) -> PathBuf {
        self.directory.join("copies")
    }

    /// Makes a file of this size, if there is none, and waits until it is on the disk.
    pub fn create(&mut self, size: u64) -> Result<StoredFile, ServiceError> {
        if let Some(file) = self.files.iter().find(|file| file.size == size) {
            return Ok(file.clone());
        }
        let name = size.to_string();
        let made = write(&self.export().join(&name), size);
        let hash = made.map_err(|source| self.failed("write a file", source))?;
        let file = StoredFile { name, size, hash };
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

    /// Whether a copy is the file; removes the copy.
    pub fn verify(&self, file: &StoredFile, copy: &Path) -> Result<bool, ServiceError> {
        let hash = File::open(copy).and_then(hash_of);
        let hash = hash.map_err(|source| self.failed("read a copy", source))?;
        fs::remove_file(copy).map_err(|source| self.failed("remove a copy", source))?;
        Ok(hash == file.hash)
    }

    /// Says what failed here.
    pub(crate) fn failed(&self, what: &'static str, source: io::Error) -> ServiceError {
        ServiceError::Store { what, directory: self.say(), source }
    }

    fn say(&self) -> String {
        self.directory.parent().unwrap_or(&self.directory).display().to_string()
    }

    /// Removes the directories of processes that are gone.
    pub fn sweep() {
        let own = rustix::process::geteuid().as_raw();
        for entry in fs::read_dir(place()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
            let gone =
                pid.and_then(|pid| pid.parse().ok()).is_some_and(|pid| !process::exists(pid));
            // Anyone may make directories there; another user's are not ours.
            let ours = entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == own);
            let free = || -> io::Result<()> {
                Ok(flock(File::open(entry.path())?, FlockOperation::NonBlockingLockExclusive)?)
            };
            if gone && ours && free().is_ok() {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

fn place() -> PathBuf {
    let named = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from(PLACE), PathBuf::from);
    // Servers have other working directories.
    std::path::absolute(&named).unwrap_or(named)
}

/// Contents that no file system or server can compress: a generator of Marsaglia's (xorshift64),
/// which begins at the size.
fn write(path: &Path, size: u64) -> io::Result<[u8; 32]> {
    let mut file = File::create_new(path)?;
    let (mut hasher, mut state, mut left) = (Sha256::new(), size | 1 << 63, size);
    let mut piece = vec![0; PIECE];
    while left > 0 {
        for word in piece.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let now = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
        hasher.update(&piece[..now]);
        file.write_all(&piece[..now])?;
        left -= now as u64;
    }
    file.sync_all()?;
    Ok(hasher.finalize().into())
}

fn hash_of(mut file: File) -> io::Result<[u8; 32]> {
    let (mut hasher, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.finalize().into()),
            some => hasher.update(&piece[..some]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_file_only_if_every_byte_is() {
        let mut store = FileStore::new(1 << 20).unwrap();
        let file = store.create(300_001).unwrap();
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
    fn files_of_different_sizes_have_different_contents_and_the_same_size_the_same() {
        let (mut one, mut other) = (FileStore::new(0).unwrap(), FileStore::new(0).unwrap());
        let hashes = |store: &mut FileStore, size| store.create(size).unwrap().hash;
        assert_eq!(hashes(&mut one, 5000), hashes(&mut other, 5000));
        assert_ne!(hashes(&mut one, 5001), hashes(&mut other, 5002));
    }

    #[test]
    fn a_store_goes_with_its_value_and_is_of_this_user_alone() {
        let mut store = FileStore::new(0).unwrap();
        let directory = store.directory().to_owned();
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        store.create(10).unwrap();
        FileStore::sweep();
        assert!(directory.exists(), "its process is alive");
        // The number of no process of this PID namespace.
        let foreign = directory.with_file_name(format!("{PREFIX}4999999-{}", std::process::id()));
        fs::create_dir(&foreign).unwrap();
        let lock = File::open(&foreign).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        FileStore::sweep();
        assert!(foreign.exists(), "another process holds it");
        drop(lock);
        FileStore::sweep();
        assert!(!foreign.exists());
        drop(store);
        assert!(!directory.exists());
    }

    #[test]
    fn too_little_room_is_said_before_anything_is_written() {
        let error = FileStore::new(u64::MAX / 2).unwrap_err().to_string();
        assert!(error.contains("make room, or set TMPDIR") && !error.contains('\n'), "{error}");
    }
}
