//! What `fuser` calls in its own thread for each request of the kernel.

use crate::calls::{Call, Calls, Listing};
use fuser::{
    FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEntry, ReplyOpen, ReplyStatfs,
    Request,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests of readahead that the kernel has on their way. The server answers as many at a time.
const BACKGROUND: u16 = 16;

/// Passes requests on.
#[derive(Debug)]
pub(crate) struct Kernel {
    calls: Arc<Calls>,
    next_handle: AtomicU64,
}

impl Kernel {
    pub(crate) fn new(calls: Arc<Calls>) -> Self {
        Self { calls, next_handle: AtomicU64::new(1) }
    }
}

impl Filesystem for Kernel {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The node sends attributes with all names. With FUSE_READDIRPLUS_AUTO the kernel would
        // take only the first ones, and ask for each of the others when a program looks at it.
        let wanted = InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_AUTO_INVAL_DATA;
        // A kernel that lacks some works without them.
        let _ = config.add_capabilities(wanted & config.capabilities());
        let _ = config.set_max_write(gigae_share::PART as u32);
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes().to_vec();
        self.calls.put(Call::Lookup { parent: parent.0, name, reply });
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.calls.put(Call::Forget { number: number.0, lookups });
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.calls.put(Call::Attributes { number: number.0, reply });
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        self.calls.put(Call::ReadLink { number: number.0, reply });
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.calls.put(Call::Open { number: number.0, reply });
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
        self.calls.put(Call::Read { number: number.0, offset, len, begun: 0, reply });
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
        reply: fuser::ReplyEmpty,
    ) {
        self.calls.put(Call::CloseDirectory { handle: handle.0 });
        reply.ok();
    }

    fn statfs(&self, _: &Request, number: INodeNo, reply: ReplyStatfs) {
        self.calls.put(Call::Space { number: number.0, reply });
    }
}
