//! What `fuser` calls in its own thread for each request of the kernel. It answers what is
//! known of names and directories, and passes everything else on.

use crate::calls::{Call, Calls, Listing};
use crate::edits::{Edit, EditReply, Name};
use crate::mounted::Shared;
use crate::parents::Begun;
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite,
    Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FileType, OFlags};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Requests of readahead that the kernel has on their way. The server answers as many at a time.
const BACKGROUND: u16 = 16;

/// Passes requests on.
#[derive(Debug)]
pub(crate) struct Kernel {
    calls: Arc<Calls>,
    state: Shared,
    next_handle: AtomicU64,
}

impl Kernel {
    pub(crate) fn new(calls: Arc<Calls>, state: Shared) -> Self {
        Self { calls, state, next_handle: AtomicU64::new(1) }
    }

    fn edit(&self, edit: Edit, reply: EditReply) {
        self.calls.put(Call::Edit(edit, reply, Begun::now()));
    }
}

impl Filesystem for Kernel {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The node sends attributes with all names. With FUSE_READDIRPLUS_AUTO the kernel would
        // take only the first ones, and ask for each of the others when a program looks at it.
        let wanted = InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_AUTO_INVAL_DATA;
        // A kernel that lacks some works without them.
        let _ = config.add_capabilities(wanted & config.capabilities());
        let _ = config.set_max_write(gigae_share::PART as u32);
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (number, name) = (parent.0, name.as_bytes());
        let asked = self.state.lock().look_up(number, name, reply);
        let Some((reply, at)) = asked else { return };
        let name = name.to_vec();
        self.calls.put(Call::Lookup { parent: number, name, at, begun: 0, reply });
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.calls.put_quietly(Call::Forget { number: number.0, lookups });
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let asked = self.state.lock().look_at(number.0, reply);
        let Some(reply) = asked else { return };
        self.calls.put(Call::Attributes { number: number.0, begun: 0, reply });
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        self.calls.put(Call::ReadLink { number: number.0, reply });
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let truncate = OFlags::from_bits_retain(flags.0 as u32).contains(OFlags::TRUNC);
        let write = truncate || flags.acc_mode() != OpenAccMode::O_RDONLY;
        self.calls.put(Call::Open { number: number.0, write, truncate, reply });
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.calls.put(Call::Read { number: number.0, offset, len, begun: 0, tries: 0, reply });
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        from: u64,
        reply: ReplyDirectory,
    ) {
        let (number, handle, reply) = (number.0, handle.0, Listing::Names(reply));
        self.calls.put(Call::List { number, handle, from, reply });
    }

    fn readdirplus(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        from: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let (number, handle, reply) = (number.0, handle.0, Listing::Full(reply));
        self.calls.put(Call::List { number, handle, from, reply });
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.calls.put_quietly(Call::CloseDirectory { handle: handle.0 });
        reply.ok();
    }

    fn statfs(&self, _: &Request, number: INodeNo, reply: ReplyStatfs) {
        self.calls.put(Call::Space { number: number.0, reply });
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // All files belong to the user who has mounted them.
        let is_own = user.is_none_or(|user| user == rustix::process::getuid().as_raw())
            && group.is_none_or(|group| group == rustix::process::getgid().as_raw());
        if !is_own {
            return reply.error(Errno::EPERM);
        }
        let modified = modified.map(|time| match time {
            TimeOrNow::SpecificTime(time) => time,
            TimeOrNow::Now => SystemTime::now(),
        });
        let (number, mode) = (number.0, mode.map(permissions));
        let edit = Edit::Set { number, mode, size, modified: modified.map(since_1970) };
        self.edit(edit, EditReply::Attributes(reply));
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        if FileType::from_raw_mode(mode) != FileType::RegularFile {
            return reply.error(Errno::EPERM);
        }
        let (at, mode) = (named(parent, name), permissions(mode));
        let edit = Edit::File { at, mode, new: true, truncate: false };
        self.edit(edit, EditReply::Entry(reply));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = OFlags::from_bits_retain(flags as u32);
        let (new, truncate) = (flags.contains(OFlags::EXCL), flags.contains(OFlags::TRUNC));
        let edit = Edit::File { at: named(parent, name), mode: permissions(mode), new, truncate };
        self.edit(edit, EditReply::Created(reply));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let edit = Edit::Directory { at: named(parent, name), mode: permissions(mode) };
        self.edit(edit, EditReply::Entry(reply));
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str().as_bytes().to_vec();
        let edit = Edit::Symlink { at: named(parent, name), target };
        self.edit(edit, EditReply::Entry(reply));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let edit = Edit::Remove { at: named(parent, name), directory: false, hidden: None };
        self.edit(edit, EditReply::Done(reply));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let edit = Edit::Remove { at: named(parent, name), directory: true, hidden: None };
        self.edit(edit, EditReply::Done(reply));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let new = match flags {
            flags if flags.is_empty() => false,
            RenameFlags::RENAME_NOREPLACE => true,
            _ => return reply.error(Errno::EINVAL),
        };
        let (from, to) = (named(parent, name), named(to, to_name));
        let edit = Edit::Rename { from, to, new, hidden: None, linked: false };
        self.edit(edit, EditReply::Done(reply));
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.calls.put(Call::Write { number: number.0, offset, data: data.to_vec(), reply });
    }

    fn flush(&self, _: &Request, number: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        match self.calls.is_clean() {
            true => reply.ok(),
            false => self.calls.put(Call::Flush { number: number.0, reply }),
        }
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.calls.put_quietly(Call::Release { number: number.0 });
        reply.ok();
    }

    fn link(&self, _: &Request, number: INodeNo, to: INodeNo, to_name: &OsStr, reply: ReplyEntry) {
        let edit = Edit::Link { number: number.0, to: named(to, to_name) };
        self.edit(edit, EditReply::Entry(reply));
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let edit = Edit::Sync { number: number.0 };
        self.edit(edit, EditReply::Done(reply));
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let edit = Edit::Sync { number: number.0 };
        self.edit(edit, EditReply::Done(reply));
    }
}

fn named(directory: INodeNo, name: &OsStr) -> Name {
    (directory.0, name.as_bytes().to_vec())
}

fn permissions(mode: u32) -> u16 {
    (mode & 0o777) as u16
}

/// Seconds and nanoseconds.
fn since_1970(time: SystemTime) -> (i64, u32) {
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (seconds(after), after.subsec_nanos()),
        // The kernel's nanoseconds count forward, and `fuser` subtracts them.
        Err(before) => (-seconds(before.duration()), before.duration().subsec_nanos()),
    }
}
