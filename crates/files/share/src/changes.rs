//! Each change is carried out once.
//!
//! A client asks again when an answer may be lost, and a second `mkdir` would fail. So the server
//! keeps the answers to the last changes of each client. After a restart it has none of them. Then
//! the kinds of changes that can be repeated are. For the others it looks whether the change is
//! there, and if that does not say it, it answers [`Fault::Unknown`].

use crate::change::{Change, Changed, Done, MOST_CHANGES, Ticket};
use crate::error::Fault;
use crate::inode::Inode;
use crate::message::ReplyHeader;
use crate::source::Source;
use std::collections::{BTreeMap, VecDeque};

/// Clients whose answers are kept: 8 MiB for all of them.
const MOST_CLIENTS: usize = 256;

/// What is kept of a client.
#[derive(Debug)]
struct Record {
    /// The number that the client gave itself.
    client: u64,
    /// The number of this record.
    number: u64,
    /// The client waits for no change with a lower number.
    oldest: u64,
    answers: BTreeMap<u64, Result<Done, Fault>>,
}

/// The last changes of each client.
#[derive(Debug)]
pub(crate) struct Changes<C> {
    /// The one that was used last at the end.
    records: VecDeque<(C, Record)>,
    next: u64,
    boot: u64,
}

impl<C> Changes<C> {
    pub(crate) fn new(start: u64, boot: u64) -> Self {
        Self { records: VecDeque::new(), next: start, boot }
    }
}

impl<C: Copy + Eq> Changes<C> {
    /// Carries out a change, but not again. `out` becomes the reply.
    pub(crate) fn make(
        &mut self,
        (client, ticket): (C, Ticket),
        change: &Change,
        source: &mut impl Source,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let boot = self.boot;
        let record = self.record(client, ticket.client);
        record.oldest = record.oldest.max(ticket.oldest);
        record.answers = record.answers.split_off(&record.oldest);
        if ticket.number < record.oldest {
            // It was given up, and others may have been carried out that came later.
            return Err(Fault::Invalid);
        }
        let number = record.number;
        let answer = match record.answers.get(&ticket.number) {
            Some(answer) => *answer,
            None => {
                let forgotten = ticket.sent_to != 0 && ticket.sent_to != number;
                let answer = match source.change(change) {
                    Err(fault) if forgotten => repeated(change, fault, source),
                    answer => answer,
                };
                // That is asked again, and not answered.
                if answer != Err(Fault::Busy) {
                    if record.answers.len() as u64 >= MOST_CHANGES {
                        record.answers.pop_first();
                    }
                    record.answers.insert(ticket.number, answer);
                }
                answer
            }
        };
        let done = answer?;
        crate::server::begin(ReplyHeader::Changed, out);
        Changed { record: number, boot, done }.encode(out);
        Ok(())
    }

    /// The record of a client, which is a new one if the client is.
    fn record(&mut self, client: C, number: u64) -> &mut Record {
        let known = self.records.iter().rposition(|(of, _)| *of == client);
        let record = match known.and_then(|at| self.records.remove(at)) {
            Some((_, record)) if record.client == number => record,
            _ => {
                self.next = self.next.wrapping_add(1).max(1);
                let (client, number) = (number, self.next);
                Record { client, number, oldest: 0, answers: BTreeMap::new() }
            }
        };
        if self.records.len() == MOST_CLIENTS {
            self.records.pop_front();
        }
        self.records.push_back((client, record));
        let last = self.records.len() - 1;
        &mut self.records[last].1
    }
}

/// The answer to a change that has failed now, and may have been carried out before.
fn repeated(change: &Change, fault: Fault, source: &mut impl Source) -> Result<Done, Fault> {
    match (change, fault) {
        // What was to be removed is not there.
        (Change::Remove { .. }, Fault::NotFound) => Ok(Done::default()),
        (Change::Rename { to, id, .. }, Fault::NotFound | Fault::Exists) => match source.stat(to) {
            Ok((inode, _)) if inode.id == *id => Ok(Done::default()),
            _ => Err(fault),
        },
        (Change::Link { to, id, .. }, Fault::Exists) => match source.stat(to) {
            Ok((inode, _)) if inode.id == *id => Ok(made(inode)),
            _ => Err(fault),
        },
        (Change::Symlink { path, target }, Fault::Exists) => match source.stat(path) {
            Ok((inode, found)) if found == *target => Ok(made(inode)),
            _ => Err(fault),
        },
        // Another client may have made it.
        (Change::File { .. } | Change::Directory { .. }, Fault::Exists) => Err(Fault::Unknown),
        _ => Err(fault),
    }
}

fn made(inode: Inode) -> Done {
    Done { inode: Some(inode), directory: None }
}
