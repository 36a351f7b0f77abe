//! The control for measurements of `gigae mount`: shows a directory of this host by FUSE.
//!
//! It has the same options, times to live and sizes of requests, and no network. What it takes is
//! the share of FUSE and of this host's file system.
//!
//!     cargo run --release -p gigae-mount --example passthrough -- DIR MOUNTPOINT
//!
//! It ends with `umount MOUNTPOINT`.

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, MountOption, OpenAccMode, OpenFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// As `gigae mount` has them.
const TIME_TO_LIVE: Duration = Duration::from_secs(1);
const LONGEST: u32 = 256 << 10;

#[derive(Default)]
struct State {
    paths: HashMap<u64, PathBuf>,
    open: HashMap<u64, Arc<File>>,
    next: u64,
}

struct Passthrough(Mutex<State>);

fn errno(error: io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(5))
}

impl Passthrough {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, number: INodeNo) -> io::Result<PathBuf> {
        let stale = || io::Error::from_raw_os_error(116);
        self.state().paths.get(&number.0).cloned().ok_or_else(stale)
    }

    fn found(&self, path: PathBuf) -> io::Result<FileAttr> {
        let found = attributes(&fs::symlink_metadata(&path)?);
        self.state().paths.insert(found.ino.0, path);
        Ok(found)
    }

    fn opened(&self, file: File) -> FileHandle {
        let mut state = self.state();
        state.next += 1;
        let handle = state.next;
        state.open.insert(handle, Arc::new(file));
        FileHandle(handle)
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        let bad = || io::Error::from_raw_os_error(9);
        self.state().open.get(&handle.0).cloned().ok_or_else(bad)
    }

    fn entry(&self, found: io::Result<PathBuf>, reply: ReplyEntry) {
        match found.and_then(|path| self.found(path)) {
            Ok(found) => reply.entry(&TIME_TO_LIVE, &found, Generation(0)),
            Err(error) => reply.error(errno(error)),
        }
    }
}

fn done(done: io::Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn kind(kind: fs::FileType) -> FileType {
    match kind {
        kind if kind.is_dir() => FileType::Directory,
        kind if kind.is_symlink() => FileType::Symlink,
        kind if kind.is_fifo() => FileType::NamedPipe,
        _ => FileType::RegularFile,
    }
}

fn attributes(found: &Metadata) -> FileAttr {
    let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    FileAttr {
        // The number of the root is 1 for the kernel, and that of no other file here.
        ino: INodeNo(found.ino() | 1 << 40),
        size: found.len(),
        blocks: found.blocks(),
        atime: modified,
        mtime: modified,
        ctime: modified,
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind(found.file_type()),
        perm: (found.mode() & 0o777) as u16,
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for Passthrough {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(LONGEST);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.path(parent).map(|path| path.join(name)), reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.path(number).and_then(fs::symlink_metadata) {
            Ok(found) => {
                let found = FileAttr { ino: number, ..attributes(&found) };
                reply.attr(&TIME_TO_LIVE, &found);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = self.path(number).and_then(|path| {
            if let Some(mode) = mode {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o777))?;
            }
            match size {
                Some(size) => File::options().write(true).open(path)?.set_len(size),
                None => Ok(()),
            }
        });
        match set {
            Ok(()) => self.getattr(request, number, None, reply),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let made = self.path(parent).map(|path| path.join(name));
        let made = made.and_then(|path| fs::create_dir(&path).map(|()| path));
        self.entry(made, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.path(parent).and_then(|path| fs::remove_file(path.join(name))), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.path(parent).and_then(|path| fs::remove_dir(path.join(name))), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        to_name: &OsStr,
        _: fuser::RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.path(parent).and_then(|from| {
            let to = self.path(to)?.join(to_name);
            fs::rename(from.join(name), &to)?;
            self.found(to).map(|_| ())
        });
        done(renamed, reply);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let write = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let opened =
            self.path(number).and_then(|path| File::options().read(true).write(write).open(path));
        match opened {
            Ok(file) => reply.opened(self.opened(file), FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made = self.path(parent).and_then(|path| {
            let path = path.join(name);
            let mut options = File::options();
            let file = options.read(true).write(true).create(true).mode(mode).open(&path)?;
            Ok((self.found(path)?, self.opened(file)))
        });
        match made {
            Ok((found, handle)) => {
                let (generation, flags) = (Generation(0), FopenFlags::empty());
                reply.created(&TIME_TO_LIVE, &found, generation, handle, flags);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut data = vec![0; len as usize];
        match self.file(handle).and_then(|file| file.read_at(&mut data, offset)) {
            Ok(len) => reply.data(&data[..len]),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file(handle).and_then(|file| file.write_all_at(data, offset)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.state().open.remove(&handle.0);
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        from: u64,
        mut reply: ReplyDirectory,
    ) {
        let list = match self.path(number).and_then(fs::read_dir) {
            Ok(list) => list,
            Err(error) => return reply.error(errno(error)),
        };
        for (n, entry) in list.flatten().enumerate().skip(from as usize) {
            let is = entry.file_type().map_or(FileType::RegularFile, kind);
            if reply.add(INodeNo(n as u64 + 2), n as u64 + 1, is, entry.file_name()) {
                break;
            }
        }
        reply.ok();
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(directory), Some(at)) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::other("write: passthrough DIR MOUNTPOINT"));
    };
    let paths = HashMap::from([(1, directory.canonicalize()?)]);
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("passthrough".into()),
        MountOption::NoAtime,
        MountOption::DefaultPermissions,
        MountOption::CUSTOM(format!("max_read={LONGEST}")),
    ];
    let state = State { paths, ..State::default() };
    fuser::mount(Passthrough(Mutex::new(state)), at, &config)
}
