//! What the kernel wants written and changed: in which order the server gets it, and what the
//! kernel is told then.
//!
//! - A question about a file, and a change of it, wait until what was written before is at the
//!   server.
//! - A rename changes paths, and everything is asked for by its path. So it is asked for alone.
//! - A file that is removed while a program has it open gets another name until it is closed, as
//!   with NFS: the server keeps nothing open for its clients.

use crate::answers::{State, errno, fail};
use crate::calls::Call;
use crate::edits::{Edit, EditReply};
use crate::lifetime::TIME_TO_LIVE;
use crate::parents::Begun;
use fuser::{Errno, FileHandle, FopenFlags, Generation, ReplyWrite};
use gigae_share::{Change, Changed, Fault, Kind, Reply, Request};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Files whose errors are kept until somebody asks for them.
const MOST_TROUBLES: usize = 16;

/// What waits until something else is at the server.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// What waits for chunks of a file up to this one.
    held: Vec<(u64, u64, Call)>,
    /// What is asked for alone.
    alone: Option<Alone>,
    /// What has come since.
    queue: VecDeque<Call>,
    /// Writes that are answered when fewer bytes wait.
    stalled: Vec<(ReplyWrite, u32)>,
    /// Names of files that were removed while they were open.
    names: u64,
    /// Files that are not written whole, which nobody has asked for yet.
    troubles: Vec<(Vec<u8>, Fault)>,
    /// Names that are being removed.
    unhiding: usize,
    is_ending: bool,
}

#[derive(Debug)]
enum Alone {
    /// Until nothing else is on its way.
    Waits(Box<Call>),
    IsAsked,
}

impl Order {
    /// Whether something is asked for alone, or waits for that.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone.is_some()
    }
}

impl State {
    /// Begins with a call, now or when it is its turn.
    pub(crate) fn begin(&mut self, now: Duration, call: Call) {
        if self.order.alone.is_some() {
            return match call {
                Call::Ahead(question) => self.listings.stopped(question),
                call => self.order.queue.push_back(call),
            };
        }
        let follows = match &call {
            Call::Attributes { number, .. }
            | Call::Open { number, .. }
            | Call::Read { number, .. }
            | Call::Flush { number, .. }
            | Call::Unhide { number, .. }
            | Call::Forget { number, .. } => Some(*number),
            Call::Edit(edit, ..) => edit.follows(),
            _ => None,
        };
        match follows.and_then(|number| Some((number, self.writes.barrier(number)?))) {
            Some((number, barrier)) => self.order.held.push((number, barrier, call)),
            None => self.start(now, call),
        }
    }

    /// Its file has all that was written before.
    fn start(&mut self, now: Duration, call: Call) {
        match call {
            Call::Forget { number, lookups } => {
                self.inodes.forgotten(number, lookups);
                if self.inodes.id(number).is_none() {
                    self.writes.forgotten(number);
                }
            }
            Call::Release { number } => self.release(now, number),
            Call::Flush { number, reply } => match self.writes.error(number) {
                Some(fault) => reply.error(errno(fault, false)),
                None => reply.ok(),
            },
            Call::Edit(mut edit, reply, begun) => {
                if let Edit::Sync { number } = edit
                    && let Some(fault) = self.writes.error(number)
                {
                    return reply.error(errno(fault, false));
                }
                self.hide(&mut edit);
                let begun = self.parents.begins(begun);
                if edit.is_alone() {
                    let call = Box::new(Call::Edit(edit, reply, begun));
                    self.order.alone = Some(Alone::Waits(call));
                } else {
                    self.ask(now, Call::Edit(edit, reply, begun));
                }
            }
            call => self.look(now, call),
        }
    }

    /// Goes on with what has waited.
    pub(crate) fn advance(&mut self, now: Duration) {
        loop {
            match self.order.alone.take() {
                Some(Alone::Waits(call)) if self.caller.is_idle() => {
                    self.order.alone = Some(Alone::IsAsked);
                    self.ask(now, *call);
                    continue;
                }
                alone @ Some(_) => {
                    self.order.alone = alone;
                    return;
                }
                None => {}
            }
            let done =
                |(number, barrier, _): &(u64, u64, Call)| self.writes.is_done(*number, *barrier);
            if let Some(at) = self.order.held.iter().position(done) {
                let (_, _, call) = self.order.held.remove(at);
                self.start(now, call);
            } else if let Some(call) = self.order.queue.pop_front() {
                self.begin(now, call);
            } else if let Some(chunk) = self.writes.next() {
                let (number, place) = (chunk.number, chunk.place);
                let file = (self.inodes.path(number), self.inodes.id(number));
                match file {
                    (Some(path), Some(id)) => {
                        let change =
                            Change::Write { path, id, offset: chunk.offset, data: chunk.data };
                        let context = Call::Sent { number, place };
                        self.caller.ask(now, request(change), context);
                    }
                    _ => self.sent(number, place, Err(Fault::Changed)),
                }
            } else {
                return;
            }
        }
    }

    /// A program has written: it goes on as if that were at the server.
    pub(crate) fn write(&mut self, number: u64, offset: u64, data: Vec<u8>, reply: ReplyWrite) {
        let error = self.writes.error(number).map(|fault| errno(fault, false));
        if let Some(error) = error.or(self.order.is_ending.then_some(Errno::EIO)) {
            return reply.error(error);
        }
        // The kernel never writes more at once than a chunk has.
        let len = data.len() as u32;
        self.inodes.wrote(number, offset + u64::from(len));
        self.writes.add(number, offset, data);
        self.calls.set_clean(false);
        match self.writes.is_full() {
            true => self.order.stalled.push((reply, len)),
            false => reply.written(len),
        }
    }

    /// A chunk is at the server, or has failed.
    fn sent(&mut self, number: u64, place: u64, result: Result<u64, Fault>) {
        let is_lost = result.is_err();
        let fault = self.writes.done((number, place), result);
        if is_lost || fault.is_some() {
            self.inodes.lost(number);
        }
        self.inodes.settled(number);
        if let Some(fault) = fault
            && self.order.troubles.len() < MOST_TROUBLES
        {
            let path = self.inodes.path(number).unwrap_or_default();
            self.order.troubles.push((path, fault));
        }
        if !self.inodes.is_open(number) {
            self.inodes.is_written(number, self.writes.end(number));
        }
        if !self.writes.is_full() {
            self.order.stalled.drain(..).for_each(|(reply, len)| reply.written(len));
        }
        self.calls.set_clean(self.writes.is_clean());
    }

    fn release(&mut self, now: Duration, number: u64) {
        if !self.inodes.close(number) {
            return;
        }
        self.writes.closed(number);
        self.inodes.is_written(number, self.writes.end(number));
        self.calls.set_clean(self.writes.is_clean());
        self.unhide(now, number);
    }

    /// Removes the names that a file was given when it was removed, once the server has what was
    /// written to it.
    fn unhide(&mut self, now: Duration, number: u64) {
        let Some(id) = self.inodes.id(number) else { return };
        for name in self.inodes.unhide(number) {
            self.order.unhiding += 1;
            self.begin(now, Call::Unhide { number, id, name });
        }
    }

    /// The server was asked to remove such a name, and has answered, or not.
    fn unhidden(&mut self, id: u64, (parent, name): &(u64, Vec<u8>)) {
        self.order.unhiding -= 1;
        self.listings.name_changed(*parent, name, Instant::now());
        self.parents.changed(*parent, None);
        // The kernel may have forgotten the file before.
        self.listings.file_changed(id);
        self.inodes.unhidden(*parent);
    }

    /// A file that is open keeps a name.
    fn hide(&mut self, edit: &mut Edit) {
        let open = |at: &(u64, Vec<u8>)| {
            self.inodes.named(at.0, &at.1).filter(|&number| self.inodes.is_open(number))
        };
        let hidden = match edit {
            Edit::Remove { at, directory: false, hidden } => open(at).map(|_| hidden),
            Edit::Rename { from, to, new: false, hidden, .. } => {
                let moved = self.inodes.named(from.0, &from.1);
                open(to).filter(|&number| moved != Some(number)).map(|_| hidden)
            }
            _ => None,
        };
        if let Some(hidden) = hidden {
            let name = format!(".gigae-open-{:016x}-{}", self.client, self.order.names);
            *hidden = Some(name.into_bytes());
            self.order.names += 1;
        }
    }

    /// The server has answered what nobody but this mount waits for. Else returns the call.
    pub(crate) fn answer_own(&mut self, call: Call, answer: &Reply<'_>) -> Option<Call> {
        match (call, answer) {
            (Call::Sent { number, place }, Reply::Changed(changed)) => {
                if let Some(inode) = changed.done.inode
                    && self.inodes.is(number, &inode)
                {
                    self.inodes.changed(number, &inode);
                }
                self.sent(number, place, Ok(changed.boot));
                None
            }
            (Call::Unhide { id, name, .. }, _) => {
                self.unhidden(id, &name);
                None
            }
            (call, _) => Some(call),
        }
    }

    /// The server was asked for something, and has not done it.
    pub(crate) fn failed(&mut self, now: Duration, call: Call, fault: Fault) {
        let is_there = !matches!(
            fault,
            Fault::NotFound | Fault::Escapes | Fault::Changed | Fault::Gone | Fault::WrongKind
        );
        if !is_there && !matches!(call, Call::Lookup { .. } | Call::Ahead(_)) {
            // The kernel looks for the path anew.
            self.listings.forget();
        }
        match call {
            Call::Ahead(question) => self.listings.failed(question, Instant::now()),
            Call::Lookup { parent, ref name, at, .. } => {
                self.listings.name_answered(parent, name, at);
                fail(call, fault);
            }
            Call::Sent { number, place } => self.sent(number, place, Err(fault)),
            Call::Unhide { id, name, .. } => self.unhidden(id, &name),
            Call::Edit(
                Edit::Rename { from, to, new, hidden: Some(_), linked: false },
                reply,
                begun,
            ) if matches!(fault, Fault::Unsupported | Fault::NotFound | Fault::Changed) => {
                // A file system without hard links: what is open there is lost with its name. Or
                // another file has that name by now.
                let edit = Edit::Rename { from, to, new, hidden: None, linked: false };
                self.ask(now, Call::Edit(edit, reply, begun));
            }
            call => {
                if let Call::Edit(
                    Edit::Rename { to: at, hidden: Some(name), .. }
                    | Edit::Remove { at, hidden: Some(name), .. },
                    ..,
                ) = &call
                    && let Some(number) = self.inodes.named(at.0, &at.1)
                {
                    // It may have that name, which then goes when the file is closed.
                    self.inodes.hides(number, at.0, name);
                }
                if let Call::Edit(edit, _, begun) = &call {
                    self.names_changed(edit, begun.at);
                    if edit.is_alone() {
                        self.order.alone = None;
                    }
                    let name = edit.name().map(|((directory, _), _)| *directory);
                    let directories = name.into_iter().chain(edit.mixes().into_iter().flatten());
                    directories.for_each(|directory| {
                        self.names.forget(directory);
                        self.directory_changed(directory);
                    });
                }
                fail(call, fault);
            }
        }
    }

    /// What was listed before a change, of names that it makes or removes, is not believed any
    /// more. The kernel knows the files. If one of these was a directory, it may be gone.
    fn names_changed(&mut self, edit: &Edit, now: Instant) {
        for (directory, name) in edit.names() {
            self.listings.name_changed(directory, &name, now);
        }
        if let Edit::Remove { at, directory: true, .. } | Edit::Rename { to: at, .. } = edit
            && let Some(number) = self.inodes.named(at.0, &at.1)
        {
            self.listings.forget_directory(number);
            // A program may have it open.
            self.directory_changed(number);
        }
        if let Edit::Rename { from, .. } = edit
            && let Some(number) = self.inodes.named(from.0, &from.1)
        {
            // If it is a directory, that has changed, too.
            self.directory_changed(number);
        }
    }

    /// A directory is another one, if it is one.
    fn directory_changed(&mut self, number: u64) {
        if self.inodes.is_directory(number) {
            self.parents.changed(number, None);
        }
    }

    /// A change was carried out.
    pub(crate) fn edited(
        &mut self,
        now: Duration,
        (mut edit, reply, begun): (Edit, EditReply, Begun),
        changed: Changed,
    ) {
        self.names_changed(&edit, begun.at);
        edit.mixes().into_iter().flatten().for_each(|directory| {
            self.names.forget(directory);
            self.directory_changed(directory);
        });
        if let Some(((directory, name), is_there)) = edit.name() {
            let parent = changed.done.parent.as_ref();
            let versions = parent.and_then(|parent| parent.names);
            self.names.changed((*directory, name), is_there, (versions, begun.at));
            self.parents.changed(*directory, parent.map(|parent| (parent, begun)));
        }
        if let Edit::Rename { hidden: Some(_), linked: linked @ false, .. } = &mut edit {
            *linked = true;
            return self.ask(now, Call::Edit(edit, reply, begun));
        }
        if edit.is_alone() {
            self.order.alone = None;
        }
        match (edit, reply, changed.done.inode) {
            (Edit::File { at, truncate, .. }, EditReply::Created(reply), Some(inode)) => {
                let Some(number) = self.inodes.found(at.0, &at.1, &inode) else {
                    return reply.error(Errno::ELOOP);
                };
                if inode.attributes.kind != Kind::File {
                    // Another node has made something else in the meantime.
                    self.inodes.forgotten(number, 1);
                    return reply.error(Errno::ESTALE);
                }
                self.inodes.open(number);
                self.inodes.changed(number, &inode);
                if truncate {
                    self.inodes.is_written(number, self.writes.end(number));
                }
                let attributes = self.attributes(number, &inode);
                let (generation, flags) = (Generation(0), FopenFlags::empty());
                reply.created(&TIME_TO_LIVE, &attributes, generation, FileHandle(0), flags);
            }
            (Edit::Directory { at, .. }, EditReply::Entry(reply), Some(inode)) => {
                let Some(number) = self.inodes.found(at.0, &at.1, &inode) else {
                    return reply.error(Errno::ELOOP);
                };
                self.listings.forget_directory(number);
                if let Some(version) = changed.done.empty {
                    self.names.made(number, version, begun.at);
                }
                let attributes = self.attributes(number, &inode);
                reply.entry(&TIME_TO_LIVE, &attributes, Generation(0));
            }
            (
                Edit::File { at, .. } | Edit::Symlink { at, .. } | Edit::Link { to: at, .. },
                EditReply::Entry(reply),
                Some(inode),
            ) => match self.inodes.found(at.0, &at.1, &inode) {
                Some(number) => {
                    let attributes = self.attributes(number, &inode);
                    reply.entry(&TIME_TO_LIVE, &attributes, Generation(0));
                }
                None => reply.error(Errno::ELOOP),
            },
            (Edit::Set { number, size, .. }, EditReply::Attributes(reply), Some(inode)) => {
                if !self.inodes.is(number, &inode) {
                    return reply.error(Errno::ESTALE);
                }
                if size.is_some() {
                    self.inodes.is_written(number, self.writes.end(number));
                }
                self.inodes.seen(number, &inode);
                self.inodes.changed(number, &inode);
                reply.attr(&TIME_TO_LIVE, &self.attributes(number, &inode));
            }
            (Edit::Rename { from, to, hidden, .. }, EditReply::Done(reply), None) => {
                if let Some(hidden) = hidden
                    && let Some(number) = self.inodes.named(to.0, &to.1)
                {
                    self.inodes.hide(number, to.0, &hidden);
                }
                self.inodes.renamed((from.0, &from.1), (to.0, &to.1));
                reply.ok();
            }
            (Edit::Remove { at, hidden: Some(hidden), .. }, EditReply::Done(reply), None) => {
                if let Some(number) = self.inodes.named(at.0, &at.1) {
                    self.inodes.hide(number, at.0, &hidden);
                }
                reply.ok();
            }
            (Edit::Remove { .. }, EditReply::Done(reply), None) => reply.ok(),
            (Edit::Sync { number }, EditReply::Done(reply), None) => {
                match self.writes.synced(number, changed.boot) {
                    Some(fault) => reply.error(errno(fault, false)),
                    None => reply.ok(),
                }
            }
            (_, reply, _) => reply.error(Errno::EIO),
        }
    }

    /// The end is near: programs write no more, and what they have written is sent.
    pub(crate) fn end(&mut self, now: Duration) {
        self.order.is_ending = true;
        self.writes.send_all();
        for number in self.inodes.hidden() {
            self.unhide(now, number);
        }
        self.advance(now);
    }

    /// Whether everything that was written is at the server or has failed.
    pub(crate) fn is_written(&self) -> bool {
        self.writes.is_idle() && self.order.unhiding == 0
    }

    /// A file, by its path in the share, to which not everything was written.
    pub(crate) fn trouble(&mut self) -> Option<(Vec<u8>, Fault)> {
        self.order.troubles.pop()
    }
}

/// The caller gives it its number.
pub(crate) fn request(change: Change) -> Request {
    Request::Change { ticket: gigae_share::Ticket::default(), change }
}
