//! The side that asks.
//!
//! It lists directories, asks for many small files at once and for parts of large files, and gives
//! what arrives to a [`Sink`]. At most [`WINDOW`] requests are on their way. Every request can be
//! repeated, so what was lost with a session or with a restarted server is asked for again.

mod asked;
mod large;
mod state;
mod tree;

use crate::entry::Attributes;
use crate::error::Fault;
use crate::message::{Reply, Request};
use crate::status::Status;
use state::{Asked, Batch, Directory, Large, Queued};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Requests on their way. With parts of 256 KiB these are 4 MiB, more than any link holds.
pub(crate) const WINDOW: usize = 16;

/// Files and batches that wait at most before another directory is listed.
const QUEUED: usize = 32;

/// Bytes of what may wait, from directories that were listed. A tree that needs more is refused; a
/// hostile server could otherwise fill the memory.
pub(crate) const MOST_WAITING: usize = 256 << 20;

/// What an entry that waits takes beside its paths.
pub(crate) const ENTRY: usize = 192;

/// After so long without a reply, the other end is asked whether it is there.
const ASK_AFTER: Duration = Duration::from_secs(1);

/// Between two tries to reach a peer that was lost.
const TRY_EVERY: Duration = Duration::from_millis(500);

/// Problems that are kept; more are counted.
const MOST_PROBLEMS: usize = 1000;

/// What is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its path at the other end.
    pub from: Vec<u8>,
    /// Its path here, beneath the sink. Empty: the sink itself, which then is a directory.
    pub to: Vec<u8>,
}

/// How it is to be fetched.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Also files that are there with the same size and time.
    pub ignore_times: bool,
    /// A node that answers nothing for so long is given up.
    pub patience: Duration,
}

/// Where fetched files go. Paths are relative to the destination and consist of valid names; the
/// sink makes sure that no symlink leads out of it.
pub trait Sink {
    /// Makes a directory, or finds it. `true`: it is new.
    fn make_directory(&mut self, path: &[u8]) -> Result<bool, Fault>;

    /// Everything in this directory is there: sets its attributes.
    fn finish_directory(&mut self, path: &[u8], attributes: &Attributes) -> Result<(), Fault>;

    /// Makes a symlink, in the place of what is there.
    fn symlink(&mut self, path: &[u8], target: &[u8], attributes: &Attributes)
    -> Result<(), Fault>;

    /// Whether a regular file of this size and time is there.
    fn has(&mut self, path: &[u8], attributes: &Attributes) -> bool;

    /// Writes a whole file, in the place of what is there.
    fn store(&mut self, path: &[u8], attributes: &Attributes, data: &[u8]) -> Result<(), Fault>;

    /// Begins a large file under this number, and returns how many bytes an earlier try has left.
    fn begin(&mut self, file: u32, path: &[u8], attributes: &Attributes) -> Result<u64, Fault>;

    /// The digest of bytes of an earlier try.
    fn digest(&mut self, file: u32, offset: u64, len: usize) -> Result<u128, Fault>;

    /// Writes a part.
    fn write(&mut self, file: u32, offset: u64, data: &[u8]) -> Result<(), Fault>;

    /// All parts are there: gives the file its attributes and its name.
    fn finish(&mut self, file: u32, attributes: &Attributes) -> Result<(), Fault>;

    /// No more of this file comes, for this reason or since everything ends. What is there is left
    /// for another try, if it can be of use.
    fn leave(&mut self, file: u32, fault: Option<Fault>);
}

/// A request to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The number of its reply.
    pub number: u32,
    /// The message.
    pub message: Vec<u8>,
}

/// What the fetcher wants of its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// Send a request, with memory of [`MAX_REPLY`](crate::MAX_REPLY) bytes for its reply.
    Send(Outgoing),
    /// The other end has answered everything up to this request, or it is lost. Stop waiting for
    /// replies to earlier ones that have not begun to arrive, and [say](Fetcher::unanswered) which.
    /// It is wanted once: what the caller says of it may come later.
    Forget(u32),
    /// A reply, or until this time.
    Wait(Duration),
    /// Nothing: it is over.
    Nothing,
}

/// Something that was not fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its path at the other end.
    pub path: Vec<u8>,
    /// Why.
    pub fault: Fault,
}

/// How far it is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Files, directories and symlinks that are there.
    pub files: u64,
    /// Files that were there before.
    pub skipped: u64,
    /// Bytes that have arrived or were there before.
    pub bytes: u64,
    /// Of these, those that were there before.
    pub resumed: u64,
    /// Bytes of all files that were found up to now.
    pub total: u64,
    /// What has failed; more than a thousand are only counted.
    pub problems: Vec<Problem>,
    /// How much has failed.
    pub failed: u64,
}

impl Progress {
    /// The same for the node that has asked for it.
    pub fn status(&self, over: bool) -> Status {
        let problems = self.problems.iter().take(crate::message::MOST_PROBLEMS);
        Status {
            over,
            files: self.files,
            skipped: self.skipped,
            bytes: self.bytes,
            resumed: self.resumed,
            total: self.total,
            problems: problems.map(|problem| (problem.path.clone(), problem.fault)).collect(),
            failed: self.failed,
            ..Status::default()
        }
    }
}

/// Fetches files. Time is an argument, counted from any beginning.
#[derive(Debug)]
pub struct Fetcher {
    options: Options,
    progress: Progress,
    /// What ended it.
    fatal: Option<Fault>,
    next_number: u32,
    in_flight: BTreeMap<u32, Asked>,
    again: VecDeque<Asked>,
    roots: VecDeque<Wanted>,
    directories: BTreeMap<u32, Directory>,
    next_directory: u32,
    /// Directories to be listed on, the last one first: so few are open at a time.
    to_list: Vec<(u32, u64)>,
    batches: VecDeque<Batch>,
    queue: VecDeque<Queued>,
    /// Bytes that are kept in all of these.
    waiting: usize,
    large: BTreeMap<u32, Large>,
    next_file: u32,
    /// When a reply came last, other than a [`Reply::Pong`], and of any kind.
    advanced: Duration,
    heard: Duration,
    /// Questions whether the other end is there, since it was heard of last.
    pings: u32,
    pinged: Duration,
    /// A session was lost since.
    after_loss: bool,
    /// No request before this time.
    not_before: Duration,
    forget: Option<u32>,
    /// The other end's last answer was that it has too much to do.
    busy: bool,
}

/// # What the caller does
///
/// It asks [`next`](Self::next) again and again. Between that it gives replies to
/// [`reply`](Self::reply).
impl Fetcher {
    /// Begins at this time.
    pub fn new(wanted: Vec<Wanted>, options: Options, now: Duration) -> Self {
        Self {
            options,
            progress: Progress::default(),
            fatal: None,
            next_number: 1,
            in_flight: BTreeMap::new(),
            again: VecDeque::new(),
            roots: wanted.into(),
            directories: BTreeMap::new(),
            next_directory: 0,
            to_list: Vec::new(),
            batches: VecDeque::new(),
            queue: VecDeque::new(),
            waiting: 0,
            large: BTreeMap::new(),
            next_file: 0,
            advanced: now,
            heard: now,
            pings: 0,
            pinged: now,
            after_loss: false,
            not_before: now,
            forget: None,
            busy: false,
        }
    }

    /// Gives the first request this number. Late replies to another fetcher's requests, which the
    /// same peer sends, then are no replies to this one's.
    pub fn first_number(mut self, number: u32) -> Self {
        self.next_number = number.max(1);
        self
    }

    /// How far it is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What has ended it before everything was there.
    pub fn fatal(&self) -> Option<Fault> {
        self.fatal
    }

    /// Whether a reply with this number is expected.
    pub fn expects(&self, number: u32) -> bool {
        self.in_flight.contains_key(&number)
    }

    /// Whether the other end has not answered for some seconds.
    pub fn is_silent(&self, now: Duration) -> bool {
        now.saturating_sub(self.heard) > 3 * ASK_AFTER
    }

    /// Ends it here: the parts that were fetched are left for another try.
    pub fn stop(&mut self, sink: &mut impl Sink) {
        for (file, _) in std::mem::take(&mut self.large) {
            sink.leave(file, None);
        }
        self.in_flight.clear();
    }

    /// What to do now.
    pub fn next(&mut self, now: Duration, sink: &mut impl Sink) -> Want {
        if let Some(number) = self.forget.take() {
            return Want::Forget(number);
        }
        if self.fatal.is_none() && self.is_patient_until() <= now && !self.is_over() {
            self.fail_all(if self.busy { Fault::Busy } else { Fault::Silent });
        }
        if self.fatal.is_some() || self.is_over() {
            self.stop(sink);
            return Want::Nothing;
        }
        if now < self.not_before {
            return Want::Wait(self.not_before);
        }
        let ask = self.ask_at();
        if ask <= now {
            (self.pings, self.pinged, self.after_loss) = (self.pings + 1, now, false);
            return Want::Send(self.send(Asked::Ping));
        }
        if self.in_flight.len() < WINDOW
            && let Some(asked) = self.next_request(sink)
        {
            return Want::Send(self.send(asked));
        }
        if self.fatal.is_some() || self.is_over() {
            self.stop(sink);
            return Want::Nothing;
        }
        Want::Wait(ask.min(self.is_patient_until()))
    }

    /// A reply has arrived.
    pub fn reply(&mut self, now: Duration, number: u32, message: &[u8], sink: &mut impl Sink) {
        let Some(asked) = self.in_flight.remove(&number) else { return };
        let Ok(reply) = Reply::decode(message) else { return self.fail_all(Fault::Nonsense) };
        self.busy = matches!(reply, Reply::Failed(Fault::Busy));
        if self.busy {
            // Again later, but not for longer than a silent node is waited for.
            self.not_before = now + TRY_EVERY;
            if !matches!(asked, Asked::Ping) {
                self.again.push_back(asked);
            }
            return;
        }
        (self.heard, self.pings) = (now, 0);
        match asked {
            Asked::Ping => self.forget = Some(number),
            _ => self.advanced = now,
        }
        self.handle(asked, reply, sink);
    }

    /// A request, or the reply to it, was lost.
    pub fn unanswered(&mut self, number: u32) {
        match self.in_flight.remove(&number) {
            Some(Asked::Ping) | None => {}
            Some(asked) => self.again.push_back(asked),
        }
    }

    /// The peer was lost: no request for a moment, and then the question what is left.
    pub fn lost(&mut self, now: Duration) {
        self.not_before = now + TRY_EVERY;
        (self.pings, self.after_loss) = (0, true);
    }
}

impl Fetcher {
    /// Pongs count for a while only: a server that answers nothing else is of no use.
    fn is_patient_until(&self) -> Duration {
        (self.heard + self.options.patience).min(self.advanced + 4 * self.options.patience)
    }

    /// When the other end is asked whether it is there: later each time, since questions or answers
    /// may be lost, and soon after a session was lost, since other replies may be lost with it.
    fn ask_at(&self) -> Duration {
        let since = match self.after_loss {
            true => self.not_before.saturating_sub(ASK_AFTER),
            false => self.heard.max(self.pinged),
        };
        since + ASK_AFTER * (1 << self.pings.min(5))
    }

    fn is_over(&self) -> bool {
        self.in_flight.values().all(|asked| matches!(asked, Asked::Ping))
            && self.again.is_empty()
            && self.roots.is_empty()
            && self.to_list.is_empty()
            && self.batches.is_empty()
            && self.queue.is_empty()
            && self.large.is_empty()
    }

    fn send(&mut self, asked: Asked) -> Outgoing {
        let number = self.next_number;
        // Zero is never used, and a number whose reply is expected is not used either.
        self.next_number = number.checked_add(1).unwrap_or(1);
        let message = self.request(&asked).encode(number);
        self.in_flight.insert(number, asked);
        Outgoing { number, message }
    }

    /// What is asked next: what was lost, then files that have begun, then others, and new
    /// directories only if few files wait.
    fn next_request(&mut self, sink: &mut impl Sink) -> Option<Asked> {
        if let Some(asked) = self.again.pop_front() {
            return Some(asked);
        }
        if let Some(asked) = self.next_of_large(sink) {
            return Some(asked);
        }
        if let Some(batch) = self.batches.pop_front() {
            return Some(Asked::Small(batch));
        }
        if self.batches.len() + self.queue.len() < QUEUED {
            if let Some((directory, from)) = self.to_list.pop() {
                return Some(Asked::List(directory, from));
            }
            if let Some(wanted) = self.roots.pop_front() {
                return Some(Asked::Look(wanted));
            }
        }
        None
    }

    fn request(&self, asked: &Asked) -> Request {
        let path_of = |directory: &u32| self.directories[directory].from.clone();
        let file_of = |file: &u32| (self.large[file].from.clone(), self.large[file].attributes);
        match asked {
            Asked::Ping => Request::Ping,
            Asked::Look(wanted) => Request::Look { path: wanted.from.clone() },
            Asked::List(directory, from) => Request::List { path: path_of(directory), from: *from },
            Asked::Small(batch) => Request::Small {
                path: path_of(&batch.directory),
                names: batch.files.iter().map(|(name, _)| name.clone()).collect(),
            },
            Asked::Read(file, offset, len) => {
                let (path, attributes) = file_of(file);
                let version = attributes.version;
                Request::Read { path, version, offset: *offset, len: *len }
            }
            Asked::Map(file) => {
                let (path, attributes) = file_of(file);
                Request::Map { path, version: attributes.version }
            }
            Asked::Digests(file, first, count) => {
                let (path, Attributes { version, size, .. }) = file_of(file);
                Request::Digests { path, version, size, first: *first, count: *count }
            }
        }
    }

    fn fail_all(&mut self, fault: Fault) {
        self.fatal.get_or_insert(fault);
    }

    /// One file, or everything in a directory, is not fetched.
    fn problem(&mut self, path: Vec<u8>, fault: Fault) {
        self.progress.failed += 1;
        if self.progress.problems.len() < MOST_PROBLEMS {
            self.progress.problems.push(Problem { path, fault });
        }
        if fault.is_fatal() {
            self.fail_all(fault);
        }
    }
}
