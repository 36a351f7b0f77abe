//! The side that answers.

use crate::bytes::Write;
use crate::change::Done;
use crate::changes::Changes;
use crate::entry::Entry;
use crate::error::Fault;
use crate::inode::{INODE, Named};
use crate::message::{DATA_AT, MAX_REPLY, MOST_PLACES, PART, ReplyHeader, Request, SMALL, digest};
use crate::source::{Listed, Source};
use crate::status::Status;
use std::collections::HashMap;
use std::hash::Hash;

/// Replies to one client that may be on their way. A fetcher asks for half as much at a time.
pub const MOST_IN_FLIGHT: usize = 32;

/// Replies to all clients that may be on their way: 256 MiB.
const MOST_IN_ALL: usize = 1024;

/// The last byte that may be used for small files and entries: behind it, nothing is begun.
const ROOM: usize = MAX_REPLY;

/// A listing has at least this much, so that it always goes on: any entry fits.
const LEAST_ROOM: usize = 1024;

/// What the caller does with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Sends the reply under this number, and says later that it [has left](Server::sent).
    Reply(u32),
    /// Begins to fetch from this client. It [says](Server::taken) whether it does, and sends that.
    Take {
        /// The request's number.
        number: u32,
        /// Which push it is: the same one again begins nothing.
        id: u64,
        /// What to ask the client for, and its name here.
        sources: Vec<(Vec<u8>, Vec<u8>)>,
        /// Where to.
        to: Vec<u8>,
        /// Also files of the same size and time.
        ignore_times: bool,
        /// `to` is the new path of the only source, whatever is there.
        exact: bool,
    },
    /// [Says](Server::status) how far that is, and sends it.
    Status(u32),
    /// Stops that, if it is this one, and sends how far it was.
    Cancel {
        /// The request's number.
        number: u32,
        /// Which push.
        id: u64,
    },
    /// Nothing now: the [reply](Server::finished) comes when the change has ended.
    Later,
    /// Nothing: the client breaks the rules.
    Ignore,
}

/// Answers requests of any number of clients. It keeps nothing of them but how many replies are on
/// their way to each, and the answers to their last changes.
#[derive(Debug)]
pub struct Server<C> {
    in_flight: HashMap<C, usize>,
    in_all: usize,
    changes: Changes<C>,
}

impl<C> Default for Server<C> {
    fn default() -> Self {
        Self::new(1, 0)
    }
}

impl<C> Server<C> {
    /// The first number is another one each time that the server is started, the second one each
    /// time that its machine is.
    pub fn new(start: u64, boot: u64) -> Self {
        Self { in_flight: HashMap::new(), in_all: 0, changes: Changes::new(start, boot) }
    }
}

impl<C: Copy + Eq + Hash> Server<C> {
    /// Answers a request of a client. `out` becomes the reply; its former bytes do not matter.
    pub fn handle(
        &mut self,
        client: C,
        message: &[u8],
        source: &mut impl Source,
        out: &mut Vec<u8>,
    ) -> Answer {
        let Ok((number, request)) = Request::decode(message) else { return Answer::Ignore };
        let of_client = self.in_flight.get(&client).copied().unwrap_or(0);
        if of_client >= MOST_IN_FLIGHT {
            return Answer::Ignore;
        }
        *self.in_flight.entry(client).or_default() += 1;
        self.in_all += 1;
        match request {
            Some(Request::Take { id, sources, to, ignore_times, exact }) => {
                return Answer::Take { number, id, sources, to, ignore_times, exact };
            }
            Some(Request::Status) => return Answer::Status(number),
            Some(Request::Cancel { id }) => return Answer::Cancel { number, id },
            Some(Request::Change { ticket, change }) if self.in_all <= MOST_IN_ALL => {
                let asked = (client, number, ticket);
                match self.changes.make(asked, &change, source, out) {
                    Ok(true) => {}
                    Ok(false) => return Answer::Later,
                    Err(fault) => failed(fault, out),
                }
            }
            Some(request) if self.in_all <= MOST_IN_ALL => {
                if let Err(fault) = reply(&request, source, out) {
                    failed(fault, out);
                }
            }
            Some(_) => failed(Fault::Busy, out),
            None => failed(Fault::Invalid, out),
        }
        Answer::Reply(number)
    }

    /// A change that its source had [begun](Source::begin) has ended. Returns replies, and to which
    /// requests of which clients they go.
    pub fn finished(&mut self, work: u64, answer: Result<Done, Fault>) -> Vec<(C, u32, Vec<u8>)> {
        self.changes.finished(work, answer)
    }

    /// The disk has failed: what clients have written and not synced may be lost. All learn of it.
    pub fn lost(&mut self) {
        self.changes.lost();
    }

    /// A reply to this client has arrived there, or is lost.
    pub fn sent(&mut self, client: C) {
        if let Some(count) = self.in_flight.get_mut(&client) {
            *count -= 1;
            self.in_all -= 1;
            if *count == 0 {
                self.in_flight.remove(&client);
            }
        }
    }

    /// Whether replies to this client are on their way.
    pub fn serves(&self, client: C) -> bool {
        self.in_flight.contains_key(&client)
    }

    /// Replies on their way to all clients.
    pub fn in_flight(&self) -> usize {
        self.in_all
    }
}

/// # Replies that the caller makes
impl<C> Server<C> {
    /// The reply to [`Answer::Take`]: whether `to` is a new path.
    pub fn taken(result: Result<bool, Fault>, out: &mut Vec<u8>) {
        match result {
            Ok(exact) => {
                begin(ReplyHeader::Taken, out);
                out.push(u8::from(exact));
            }
            Err(fault) => failed(fault, out),
        }
    }

    /// The reply to [`Answer::Status`] and [`Answer::Cancel`].
    pub fn status(status: Result<&Status, Fault>, out: &mut Vec<u8>) {
        match status {
            Ok(status) => {
                begin(ReplyHeader::Status, out);
                status.encode(out);
            }
            Err(fault) => failed(fault, out),
        }
    }
}

pub(crate) fn begin(kind: ReplyHeader, out: &mut Vec<u8>) {
    out.clear();
    out.push(kind as u8);
}

pub(crate) fn failed(fault: Fault, out: &mut Vec<u8>) {
    begin(ReplyHeader::Failed, out);
    out.push(fault as u8);
}

fn reply(request: &Request, source: &mut impl Source, out: &mut Vec<u8>) -> Result<(), Fault> {
    match request {
        Request::Ping => begin(ReplyHeader::Pong, out),
        Request::Look { path } => {
            let (attributes, target) = source.look(path)?;
            begin(ReplyHeader::Found, out);
            attributes.encode(out);
            out.put_string(&target);
        }
        Request::List { path, from } => list(path, *from, source, out)?,
        Request::Small { path, names } => {
            let directory = source.directory(path)?;
            begin(ReplyHeader::Files, out);
            out.put(&[0; DATA_AT - 1]);
            for name in names {
                small(&directory, name, source, out);
            }
            seal(out);
        }
        Request::Read { path, version, offset, len } => {
            // Its former bytes need not be cleared: all of them are read over.
            out.resize(DATA_AT + *len as usize, 0);
            source.read(path, *version, *offset, &mut out[DATA_AT..])?;
            out[0] = ReplyHeader::Data as u8;
            seal(out);
        }
        Request::Map { path, version } => map(path, *version, source, out)?,
        Request::Digests { path, version, size, first, count } => {
            begin(ReplyHeader::Digests, out);
            let mut part = vec![0; PART];
            for n in *first..first + u64::from(*count) {
                let offset = n * PART as u64;
                let len = PART.min(usize::try_from(size - offset).unwrap_or(PART));
                source.read(path, *version, offset, &mut part[..len])?;
                out.put(&digest(&part[..len]).to_le_bytes());
            }
        }
        Request::Stat { path } => {
            let (inode, target) = source.stat(path)?;
            begin(ReplyHeader::Stat, out);
            inode.encode(out);
            out.put_string(&target);
        }
        Request::Scan { path, from, most } => {
            begin(ReplyHeader::Scan, out);
            out.push(0);
            let room = ROOM.min(LEAST_ROOM.max(*most as usize));
            let mut take = |entry: &Named| {
                let fits = out.len() + entry.encoded_len() <= room;
                if fits {
                    entry.encode(out);
                }
                fits
            };
            out[1] = u8::from(source.scan(path, *from, &mut take)?);
        }
        Request::Range { path, id, offset, len } => {
            let data_at = DATA_AT + INODE;
            // Its former bytes need not be cleared: what is not read over is cut off.
            out.resize(data_at + *len as usize, 0);
            let (inode, read) = source.range(path, *id, *offset, &mut out[data_at..])?;
            out.truncate(data_at + read);
            let mut head = Vec::with_capacity(INODE);
            inode.encode(&mut head);
            out[DATA_AT..data_at].copy_from_slice(&head);
            out[0] = ReplyHeader::Range as u8;
            seal(out);
        }
        Request::Space { path } => {
            let space = source.space(path)?;
            begin(ReplyHeader::Space, out);
            space.encode(out);
        }
        Request::Take { .. }
        | Request::Status
        | Request::Cancel { .. }
        | Request::Change { .. } => {
            unreachable!("answered elsewhere")
        }
    }
    Ok(())
}

/// Puts the digest of what follows it.
fn seal(out: &mut [u8]) {
    let digest = digest(&out[DATA_AT..]);
    out[1..DATA_AT].copy_from_slice(&digest.to_le_bytes());
}

fn list(path: &[u8], from: u64, source: &mut impl Source, out: &mut Vec<u8>) -> Result<(), Fault> {
    begin(ReplyHeader::Entries, out);
    out.put(&[0; 9]);
    let mut take = |entry: &Entry| {
        let fits = out.len() + entry.encoded_len() <= ROOM;
        if fits {
            entry.encode(out);
        }
        fits
    };
    match source.list(path, from, &mut take)? {
        Listed::Until(next) => {
            out[1] = 1;
            out[2..10].copy_from_slice(&next.to_le_bytes());
        }
        Listed::All => drop(out.drain(2..10)),
    }
    Ok(())
}

/// One small file, or why it is not there. A file that has become too long for the rest of the
/// reply has changed.
fn small<S: Source>(directory: &S::Directory, name: &[u8], source: &mut S, out: &mut Vec<u8>) {
    const HEAD: usize = 1 + 31;
    let at = out.len();
    let most = SMALL.min(ROOM.saturating_sub(at + HEAD));
    out.put(&[0; HEAD]);
    match source.small(directory, name, most, out) {
        Ok(attributes) if out.len() as u64 == (at + HEAD) as u64 + attributes.size => {
            let mut head = Vec::with_capacity(HEAD);
            head.push(0);
            attributes.encode(&mut head);
            out[at..at + HEAD].copy_from_slice(&head);
        }
        failed => {
            out.truncate(at);
            out.put(&[1, failed.err().unwrap_or(Fault::Changed) as u8]);
        }
    }
}

fn map(
    path: &[u8],
    version: u64,
    source: &mut impl Source,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    begin(ReplyHeader::Places, out);
    out.push(0);
    let mut from = 0;
    for _ in 0..MOST_PLACES {
        let Some((start, end)) = source.data(path, version, from)? else { return Ok(()) };
        if start < from || end <= start {
            return Err(Fault::Changed);
        }
        out.put(&start.to_le_bytes());
        out.put(&end.to_le_bytes());
        from = end;
    }
    out[1] = 1;
    Ok(())
}
