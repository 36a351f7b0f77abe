//! From the kernel's requests to the server's replies and back.

use crate::calls::{Call, Calls, Listing};
use crate::directories::{Directories, Part};
use crate::inodes::Inodes;
use crate::lifetime::TIME_TO_LIVE;
use crate::listings::{Listings, PAGE, Question};
use crate::names::Names;
use crate::parents::Parents;
use crate::writes::Writes;
use crate::writing::{Order, request};
use fuser::{Errno, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, Notifier};
use gigae_share::{
    Caller, Change, Changed, Done, Fault, Inode, Kind, MAX_REPLY, PART, Reply, Request, Want, join,
    valid_name,
};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// After so long without a new one, lists take no memory.
const FORGET_AFTER: Duration = Duration::from_secs(10);

/// So often a read is asked for again that ends before the file does.
const MOST_TRIES: u32 = 4;

/// What is known of a file system that is mounted, and what is asked about it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) calls: Arc<Calls>,
    pub(crate) caller: Caller<Call>,
    pub(crate) inodes: Inodes,
    pub(crate) names: Names,
    pub(crate) parents: Parents,
    pub(crate) listings: Listings,
    /// When the last page of a list arrived.
    listed_at: Duration,
    pub(crate) writes: Writes,
    pub(crate) order: Order,
    directories: Directories,
    /// `None` until it is mounted.
    notifier: Option<Notifier>,
    /// Whose all files are.
    owner: (u32, u32),
    /// The number by which the server knows this mount.
    pub(crate) client: u64,
    unmounted: bool,
}

impl State {
    pub(crate) fn new(
        calls: Arc<Calls>,
        caller: Caller<Call>,
        root: (Vec<u8>, &Inode),
        client: u64,
    ) -> Self {
        Self {
            calls,
            caller,
            inodes: Inodes::new(root.0, root.1),
            names: Names::default(),
            parents: Parents::default(),
            listings: Listings::default(),
            listed_at: Duration::ZERO,
            writes: Writes::default(),
            order: Order::default(),
            directories: Directories::default(),
            notifier: None,
            owner: (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
            client,
            unmounted: false,
        }
    }

    /// It is mounted.
    pub(crate) fn mounted(&mut self, notifier: Notifier) {
        self.notifier = Some(notifier);
    }

    /// Whether it was unmounted.
    pub(crate) fn has_ended(&self) -> bool {
        self.unmounted
    }

    /// Takes the kernel's requests.
    pub(crate) fn take_calls(&mut self, now: Duration, calls: VecDeque<Call>) {
        for call in calls {
            match call {
                Call::Write { number, offset, data, reply } => {
                    self.write(number, offset, data, reply);
                }
                Call::CloseDirectory { handle } => self.directories.close(handle),
                Call::Unmounted => self.unmounted = true,
                call => self.begin(now, call),
            }
        }
        self.advance(now);
        self.forgets();
    }

    /// What to do now.
    pub(crate) fn next(&mut self, now: Duration) -> Want {
        while let Some((call, fault)) = self.caller.failed(now) {
            self.failed(now, call, fault);
            self.advance(now);
        }
        if now > self.listed_at + FORGET_AFTER && self.listings.are_complete() {
            self.listings.forget();
        }
        self.caller.next(now)
    }

    /// A reply has arrived.
    pub(crate) fn reply(&mut self, now: Duration, number: u32, message: &[u8]) {
        match self.caller.reply(now, number, message) {
            Some((call, Ok(reply))) => self.answer(now, call, reply),
            Some((call, Err(fault))) => self.failed(now, call, fault),
            None => return,
        }
        self.advance(now);
        self.forgets();
    }

    /// Answers from what is known, or asks the server.
    pub(crate) fn look(&mut self, now: Duration, call: Call) {
        let call = match call {
            Call::Read { number, offset, len, tries, reply, .. } => {
                let begun = self.inodes.read_begins(number);
                Call::Read { number, offset, len, begun, tries, reply }
            }
            Call::List { number, handle, from, reply } => match self.directories.take(handle, from)
            {
                Some(part) => return self.fill(number, handle, from, part, reply),
                None => Call::List { number, handle, from, reply },
            },
            Call::Lookup { parent, name, at, reply, .. } => {
                let begun = self.inodes.stamp(self.inodes.named(parent, &name));
                Call::Lookup { parent, name, at, begun, reply }
            }
            Call::Attributes { number, reply, .. } => {
                let begun = self.inodes.stamp(Some(number));
                Call::Attributes { number, begun, reply }
            }
            call => call,
        };
        self.ask(now, call);
    }

    pub(crate) fn ask(&mut self, now: Duration, call: Call) {
        match self.question(&call) {
            Ok(request) => self.caller.ask(now, request, call),
            Err(fault) => self.failed(now, call, fault),
        }
    }

    fn question(&self, call: &Call) -> Result<Request, Fault> {
        let path = |number: u64| self.inodes.path(number).ok_or(Fault::Changed);
        Ok(match call {
            Call::Lookup { parent, name, .. } => {
                if !valid_name(name) {
                    return Err(Fault::TooLong);
                }
                Request::Stat { path: checked(join(&path(*parent)?, name))? }
            }
            Call::Open { number, write: true, truncate, .. } => {
                let id = self.inodes.id(*number).ok_or(Fault::Changed)?;
                request(Change::Open { path: path(*number)?, id, truncate: *truncate })
            }
            Call::Unhide { name: (parent, name), id, .. } => {
                let path = checked(join(&path(*parent)?, name))?;
                request(Change::Remove { path, id: *id, directory: false })
            }
            Call::Edit(edit, ..) => request(edit.change(&self.inodes)?),
            Call::Attributes { number, .. }
            | Call::ReadLink { number, .. }
            | Call::Open { number, .. } => Request::Stat { path: path(*number)? },
            Call::Read { number, offset, len, .. } => {
                // The kernel was asked to ask for no more. Less would be taken for the file's end.
                if *len as usize > PART {
                    return Err(Fault::Invalid);
                }
                let id = self.inodes.id(*number).ok_or(Fault::Changed)?;
                Request::Range { path: path(*number)?, id, offset: *offset, len: *len }
            }
            Call::List { number, from, .. } => {
                Request::Scan { path: path(*number)?, from: *from, most: MAX_REPLY as u32 }
            }
            Call::Ahead(Question { directory, from, .. }) => {
                Request::Scan { path: path(*directory)?, from: *from, most: PAGE }
            }
            Call::Space { number, .. } => Request::Space { path: path(*number)? },
            Call::Write { .. }
            | Call::Flush { .. }
            | Call::Release { .. }
            | Call::Sent { .. }
            | Call::Forget { .. }
            | Call::CloseDirectory { .. }
            | Call::Unmounted => unreachable!("nothing is asked for these"),
        })
    }

    pub(crate) fn answer(&mut self, now: Duration, call: Call, answer: Reply<'_>) {
        let Some(call) = self.answer_own(call, &answer) else { return };
        match (call, answer) {
            (Call::Lookup { parent, name, at, begun, reply }, Reply::Stat(inode, _)) => {
                if self.writes.end(inode.id) == 0 {
                    self.inodes.answered(inode.id, begun);
                }
                self.listings.name_answered(parent, &name, at);
                self.parents.seen(inode.id, inode.attributes.version);
                let is_new = self.inodes.id(inode.id).is_none();
                match self.inodes.found(parent, &name, &inode) {
                    Some(number) => {
                        let attributes = self.attributes(number, &inode);
                        reply.entry(&TIME_TO_LIVE, &attributes, Generation(0));
                    }
                    None => reply.error(Errno::ELOOP),
                }
                if is_new {
                    self.looked(now, parent, at);
                }
            }
            (Call::Edit(edit, reply, begun), Reply::Changed(changed)) => {
                self.edited(now, (edit, reply, begun), changed);
            }
            (call, Reply::Changed(Changed { done: Done { inode: Some(inode), .. }, .. })) => {
                self.answer_known(call, &inode, b"");
            }
            (call, Reply::Stat(inode, target)) => self.answer_known(call, &inode, &target),
            (
                Call::Read { number, offset, len, begun, tries, reply },
                Reply::Range(inode, data),
            ) => {
                if !self.inodes.is(number, &inode) {
                    self.listings.forget();
                    return reply.error(Errno::ESTALE);
                }
                let Some(data) = bytes(data, offset, len, inode.attributes.size) else {
                    return reply.error(Errno::EIO);
                };
                self.inodes.read(number, inode.attributes.version);
                // The kernel gets no attributes here, also if they are others now: then it would
                // not take the end of a file that has become shorter from reads on their way. It
                // asks for them after [`TIME_TO_LIVE`]. A read that fails is repeated by the kernel
                // where it was only ahead of a program.
                let end = offset + data.len() as u64;
                if data.len() < len as usize && !self.inodes.read_ends_at(number, end, begun) {
                    if tries < MOST_TRIES && self.inodes.writes(number) {
                        // A program of this host may have written behind that.
                        let (begun, tries) = (0, tries + 1);
                        let call = Call::Read { number, offset, len, begun, tries, reply };
                        return self.begin(now, call);
                    }
                    return reply.error(Errno::EIO);
                }
                reply.data(data);
            }
            (Call::List { number, handle, from, reply }, Reply::Scan(entries, last)) => {
                match Part::new(from, entries, last) {
                    Some(part) => self.fill(number, handle, from, part, reply),
                    None => fail(Call::List { number, handle, from, reply }, Fault::Nonsense),
                }
            }
            (Call::Ahead(question), Reply::Scan(entries, last)) => {
                self.page(now, question, Part::new(question.from, entries, last));
            }
            (Call::Space { reply, .. }, Reply::Space(space)) => {
                let ([blocks, free, available], [files, files_free]) = (space.blocks, space.files);
                let longest = gigae_share::MAX_NAME as u32;
                let block = space.block;
                reply.statfs(blocks, free, available, files, files_free, block, longest, block);
            }
            (call, _) => self.failed(now, call, Fault::Nonsense),
        }
    }

    /// Answers a question for a file that the kernel has found before.
    fn answer_known(&mut self, call: Call, inode: &Inode, target: &[u8]) {
        let (Call::Attributes { number, .. }
        | Call::ReadLink { number, .. }
        | Call::Open { number, .. }) = call
        else {
            return fail(call, Fault::Nonsense);
        };
        if !self.inodes.is(number, inode) {
            self.listings.forget();
            return fail(call, Fault::Changed);
        }
        match call {
            Call::Attributes { begun, reply, .. } => {
                if self.writes.end(number) == 0 {
                    self.inodes.answered(number, begun);
                }
                self.inodes.seen(number, inode);
                self.parents.seen(number, inode.attributes.version);
                reply.attr(&TIME_TO_LIVE, &self.attributes(number, inode));
            }
            Call::ReadLink { reply, .. } => reply.data(target),
            Call::Open { reply, write, truncate, .. } => {
                let end = self.writes.end(number);
                let size = inode.attributes.size.max(end);
                if write && !truncate && self.inodes.must_look_again(number, size) {
                    // The kernel keeps its size when it opens a file, and appends there. After this
                    // error it drops the attributes, looks the path up, and opens the file again.
                    self.listings.forget();
                    self.looks_again(number);
                    return reply.error(Errno::ESTALE);
                }
                self.inodes.open(number);
                self.inodes.is_written(number, end);
                // Close-to-open: the size, too, is the one of now. If the file was made empty, the
                // kernel knows that.
                match truncate {
                    true => drop(self.inodes.seen(number, inode)),
                    false => self.seen(number, inode),
                }
                let mut flags = FopenFlags::empty();
                flags.set(
                    FopenFlags::FOPEN_KEEP_CACHE,
                    self.inodes.opened(number, inode.attributes.version),
                );
                // Closing what only reads waits for nothing: one request less.
                flags.set(FopenFlags::FOPEN_NOFLUSH, !write);
                reply.opened(FileHandle(0), flags);
            }
            call => fail(call, Fault::Nonsense),
        }
    }

    /// The kernel is to ask for the attributes of a file again that are others than it has.
    fn seen(&mut self, number: u64, inode: &Inode) {
        if self.inodes.is_new(number, inode.attributes.version) {
            self.looks_again(number);
        }
    }

    fn looks_again(&self, number: u64) {
        // The other thread may wait for the state meanwhile. That is no deadlock: this call waits
        // for none of the kernel's requests, which this thread would have to answer.
        if let Some(notifier) = &self.notifier {
            // A negative offset leaves the bytes that the kernel has. It need not know the file.
            let _ = notifier.inval_inode(INodeNo(number), -1, 0);
        }
    }

    /// A page of a directory's list has arrived. `None`: it makes no sense.
    fn page(&mut self, now: Duration, question: Question, part: Option<Part>) {
        self.listed_at = now;
        let Some(part) = part else {
            return self.listings.failed(question, Instant::now());
        };
        if let Some(next) = self.listings.page(question, (part.entries, part.last), Instant::now())
        {
            self.begin(now, Call::Ahead(next));
        }
    }

    /// Gives the kernel as many entries as it has room for.
    fn fill(&mut self, number: u64, handle: u64, from: u64, part: Part, listing: Listing) {
        let mut given = from;
        match listing {
            Listing::Names(mut reply) => {
                for entry in part.rest(from).unwrap_or_default() {
                    let kind = kind(entry.inode.attributes.kind);
                    let of = match &entry.name[..] {
                        b"." => number,
                        b".." => self.inodes.parent(number),
                        _ => entry.inode.id,
                    };
                    if reply.add(INodeNo(of), entry.next, kind, OsStr::from_bytes(&entry.name)) {
                        break;
                    }
                    given = entry.next;
                }
                reply.ok();
            }
            Listing::Full(mut reply) => {
                for entry in part.rest(from).unwrap_or_default() {
                    let told = self.inodes.told(entry.inode.id);
                    let of = match &entry.name[..] {
                        b"." => number,
                        b".." => self.inodes.parent(number),
                        // Without a number, the kernel asks for it by its name.
                        name => {
                            self.parents.seen(entry.inode.id, entry.inode.attributes.version);
                            self.inodes.found(number, name, &entry.inode).unwrap_or(0)
                        }
                    };
                    let attributes = self.attributes(of, &entry.inode);
                    let name = OsStr::from_bytes(&entry.name);
                    let (next, generation) = (entry.next, Generation(0));
                    let ttl = &TIME_TO_LIVE;
                    if reply.add(INodeNo(of), next, name, ttl, &attributes, generation) {
                        if valid_name(&entry.name) {
                            self.inodes.restore(of, told);
                        }
                        break;
                    }
                    given = entry.next;
                }
                reply.ok();
            }
        }
        self.directories.keep(handle, part, given);
    }

    pub(crate) fn attributes(&self, number: u64, inode: &Inode) -> FileAttr {
        let attributes = &inode.attributes;
        let modified = time(attributes.seconds, attributes.nanoseconds);
        FileAttr {
            ino: INodeNo(number),
            size: self.inodes.size(number, attributes.size),
            blocks: inode.blocks,
            // A time of access would need a message for each look.
            atime: modified,
            mtime: modified,
            ctime: time(inode.changed.0, inode.changed.1),
            crtime: SystemTime::UNIX_EPOCH,
            kind: kind(attributes.kind),
            perm: attributes.mode,
            nlink: inode.links,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

fn checked(path: Vec<u8>) -> Result<Vec<u8>, Fault> {
    if path.len() > gigae_share::MAX_PATH { Err(Fault::TooLong) } else { Ok(path) }
}

/// What of a reply's bytes a read gets, which asked for `len` at `offset`. The attributes are newer
/// than the bytes: if the file has become shorter in between, it ends there. Fewer bytes than the
/// file has are no answer, since the kernel would take them for its end.
fn bytes(data: &[u8], offset: u64, len: u32, size: u64) -> Option<&[u8]> {
    let most = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    match data.len() {
        got if got > len as usize || got < most.min(len as usize) => None,
        got => Some(&data[..got.min(most)]),
    }
}

/// Devices, sockets and FIFOs are shown as sockets: nothing can be opened by them.
fn kind(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Special => FileType::Socket,
    }
}

fn time(seconds: i64, nanoseconds: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(whole),
        _ => SystemTime::UNIX_EPOCH.checked_sub(whole),
    };
    let time = time.and_then(|time| time.checked_add(Duration::from_nanos(nanoseconds.into())));
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// What a program learns of a fault. `finds`: a missing file is a name that is not there, and not a
/// file that was removed.
pub(crate) fn errno(fault: Fault, finds: bool) -> Errno {
    match fault {
        Fault::NotFound if finds => Errno::ENOENT,
        // The kernel looks for the path anew, and then says what it finds.
        Fault::NotFound | Fault::Escapes | Fault::Changed | Fault::Gone | Fault::WrongKind => {
            Errno::ESTALE
        }
        Fault::Denied => Errno::EACCES,
        Fault::Special => Errno::ENXIO,
        Fault::ReadOnly => Errno::EROFS,
        Fault::Full => Errno::ENOSPC,
        Fault::Quota => Errno::EDQUOT,
        Fault::TooBig => Errno::EFBIG,
        Fault::Exists => Errno::EEXIST,
        Fault::NotEmpty => Errno::ENOTEMPTY,
        Fault::TooLong => Errno::ENAMETOOLONG,
        Fault::Unsuitable => Errno::EINVAL,
        Fault::Locked => Errno::EBUSY,
        Fault::OtherDisk => Errno::EXDEV,
        Fault::Unsupported => Errno::EOPNOTSUPP,
        _ => Errno::EIO,
    }
}

/// Answers with an error.
pub(crate) fn fail(call: Call, fault: Fault) {
    let finds = match &call {
        Call::Edit(edit, ..) => edit.finds(),
        call => matches!(call, Call::Lookup { .. }),
    };
    let error = errno(fault, finds);
    match call {
        Call::Lookup { reply, .. } => reply.error(error),
        Call::Attributes { reply, .. } => reply.error(error),
        Call::ReadLink { reply, .. } | Call::Read { reply, .. } => reply.error(error),
        Call::Open { reply, .. } => reply.error(error),
        Call::List { reply: Listing::Names(reply), .. } => reply.error(error),
        Call::List { reply: Listing::Full(reply), .. } => reply.error(error),
        Call::Space { reply, .. } => reply.error(error),
        Call::Edit(_, reply, _) => reply.error(error),
        Call::Write { reply, .. } => reply.error(error),
        Call::Flush { reply, .. } => reply.error(error),
        Call::Release { .. }
        | Call::Sent { .. }
        | Call::Unhide { .. }
        | Call::Forget { .. }
        | Call::CloseDirectory { .. }
        | Call::Ahead(_)
        | Call::Unmounted => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_read_fit_the_size_of_the_file() {
        let data = [7; 100];
        assert_eq!(bytes(&data, 50, 100, 1000), Some(&data[..]));
        assert_eq!(bytes(&data, 50, 200, 150), Some(&data[..]), "its end");
        assert_eq!(bytes(&data, 50, 100, 60), Some(&data[..10]), "it has become shorter");
        assert_eq!(bytes(&data, 50, 100, 9), Some(&data[..0]));
        assert_eq!(bytes(&data, 50, 99, 1000), None, "more than was asked for");
        assert_eq!(bytes(&data, 50, 101, 1000), None, "some are missing");
        assert_eq!(bytes(&data, u64::MAX, 100, u64::MAX), Some(&data[..0]));
        assert_eq!(bytes(&[], 0, 100, 0), Some(&data[..0]));
    }

    #[test]
    fn times_before_1970_and_out_of_range_are_converted() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
        assert_eq!(time(-2, 500_000_000), before);
        // The kernel's times have 64 bits of seconds: only what exceeds these is out of range.
        assert_eq!(
            time(i64::MAX, 999_999_999).duration_since(time(i64::MAX, 0)).unwrap().as_secs(),
            0
        );
        assert!(time(i64::MIN, 0) <= SystemTime::UNIX_EPOCH);
        assert_eq!(time(0, 1), SystemTime::UNIX_EPOCH + Duration::from_nanos(1));
    }
}
