//! Each change is carried out once.
//!
//! A client asks again when an answer may be lost, and a second `mkdir` would fail. So the server
//! keeps the answers to the last changes of each client. After a restart it has none of them. Then
//! the kinds of changes that can be repeated are. For the others it looks whether the change is
//! there, and if that does not say it, it answers [`Fault::Unknown`]. A source removes and renames
//! nothing but the file that is meant, so another file that has the name by now stays.

use crate::change::{Change, Changed, Done, MOST_CHANGES, Ticket};
use crate::error::Fault;
use crate::inode::Inode;
use crate::message::ReplyHeader;
use crate::source::Source;
use std::collections::{BTreeMap, VecDeque};

/// Clients whose answers are kept: 16 MiB for all of them.
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

/// A change that goes on.
#[derive(Debug)]
struct Work<C> {
    /// The number that the source got.
    number: u64,
    client: C,
    /// The number of the client's record, and that of the change.
    change: (u64, u64),
    /// The requests to be answered: more than one if it was asked for again.
    requests: Vec<u32>,
}

/// The last changes of each client.
#[derive(Debug)]
pub(crate) struct Changes<C> {
    /// The one that was used last at the end.
    records: VecDeque<(C, Record)>,
    next: u64,
    boot: u64,
    works: Vec<Work<C>>,
    next_work: u64,
}

impl<C> Changes<C> {
    pub(crate) fn new(start: u64, boot: u64) -> Self {
        Self { records: VecDeque::new(), next: start, boot, works: Vec::new(), next_work: 0 }
    }
}

impl<C: Copy + Eq> Changes<C> {
    /// Carries out a change, but not again. `out` becomes the reply. `false`: it goes on, and the
    /// request of this number is answered [later](Self::finished).
    pub(crate) fn make(
        &mut self,
        (client, request, ticket): (C, u32, Ticket),
        change: &Change,
        source: &mut impl Source,
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let record = self.record(client, ticket.client);
        record.oldest = record.oldest.max(ticket.oldest);
        record.answers = record.answers.split_off(&record.oldest);
        if ticket.number < record.oldest {
            // It was given up, and others may have been carried out that came later.
            return Err(Fault::Invalid);
        }
        let number = record.number;
        let known = record.answers.get(&ticket.number).copied();
        let is =
            |work: &&mut Work<C>| work.client == client && work.change == (number, ticket.number);
        if let Some(work) = self.works.iter_mut().find(is) {
            work.requests.push(request);
            return Ok(false);
        }
        let answer = match known {
            Some(answer) => answer,
            None => {
                self.next_work += 1;
                let Some(answer) = source.begin(change, self.next_work) else {
                    self.works.push(Work {
                        number: self.next_work,
                        client,
                        change: (number, ticket.number),
                        requests: vec![request],
                    });
                    return Ok(false);
                };
                let forgotten = ticket.sent_to != 0 && ticket.sent_to != number;
                let answer = match answer {
                    Err(fault) if forgotten => repeated(change, fault, source),
                    answer => answer,
                };
                self.keep((number, ticket.number), answer);
                answer
            }
        };
        self.reply(number, answer?, out);
        Ok(true)
    }

    /// Keeps the answer to a change of this record.
    fn keep(&mut self, (record, number): (u64, u64), answer: Result<Done, Fault>) {
        // That is asked again, and not answered.
        if answer == Err(Fault::Busy) {
            return;
        }
        if let Some((_, record)) = self.records.iter_mut().rev().find(|(_, r)| r.number == record) {
            if record.answers.len() as u64 >= MOST_CHANGES {
                record.answers.pop_first();
            }
            record.answers.insert(number, answer);
        }
    }

    fn reply(&self, record: u64, done: Done, out: &mut Vec<u8>) {
        crate::server::begin(ReplyHeader::Changed, out);
        Changed { record, boot: self.boot, done }.encode(out);
    }

    /// What a source had begun has ended. Returns whose requests these replies answer.
    pub(crate) fn finished(
        &mut self,
        work: u64,
        answer: Result<Done, Fault>,
    ) -> Vec<(C, u32, Vec<u8>)> {
        let Some(at) = self.works.iter().position(|begun| begun.number == work) else {
            return Vec::new();
        };
        let work = self.works.swap_remove(at);
        self.keep(work.change, answer);
        let replies = work.requests.into_iter().map(|request| {
            let mut out = Vec::new();
            match answer {
                Ok(done) => self.reply(work.change.0, done, &mut out),
                Err(fault) => crate::server::failed(fault, &mut out),
            }
            (work.client, request, out)
        });
        replies.collect()
    }

    /// What was written and not synced may be lost, as by a new start of the machine.
    pub(crate) fn lost(&mut self) {
        self.boot = self.boot.wrapping_add(1);
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
        // What was to be removed is not there, or something else has its name.
        (Change::Remove { .. }, Fault::NotFound | Fault::Changed) => Ok(Done::default()),
        (Change::Rename { to, id, .. }, Fault::NotFound | Fault::Exists | Fault::Changed) => {
            match source.stat(to) {
                Ok((inode, _)) if inode.id == *id => Ok(Done::default()),
                _ => Err(fault),
            }
        }
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
    Done { inode: Some(inode), ..Done::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Attributes, Entry};
    use crate::message::Reply;
    use crate::source::Listed;

    /// Everything that it begins goes on, and is begun once.
    #[derive(Default)]
    struct Slow(Vec<u64>);

    impl Source for Slow {
        type Directory = ();

        fn look(&mut self, _: &[u8]) -> Result<(Attributes, Vec<u8>), Fault> {
            Err(Fault::Invalid)
        }

        fn list(
            &mut self,
            _: &[u8],
            _: u64,
            _: &mut dyn FnMut(&Entry) -> bool,
        ) -> Result<Listed, Fault> {
            Err(Fault::Invalid)
        }

        fn directory(&mut self, _: &[u8]) -> Result<(), Fault> {
            Err(Fault::Invalid)
        }

        fn small(
            &mut self,
            (): &(),
            _: &[u8],
            _: usize,
            _: &mut Vec<u8>,
        ) -> Result<Attributes, Fault> {
            Err(Fault::Invalid)
        }

        fn read(&mut self, _: &[u8], _: u64, _: u64, _: &mut [u8]) -> Result<(), Fault> {
            Err(Fault::Invalid)
        }

        fn data(&mut self, _: &[u8], _: u64, _: u64) -> Result<Option<(u64, u64)>, Fault> {
            Err(Fault::Invalid)
        }

        fn begin(&mut self, _: &Change, work: u64) -> Option<Result<Done, Fault>> {
            self.0.push(work);
            None
        }
    }

    #[test]
    fn a_change_that_goes_on_is_answered_at_its_end_and_a_failed_disk_is_told_to_all() {
        let (mut changes, mut slow) = (Changes::new(1, 500), Slow::default());
        let sync = Change::Sync { path: b"f".to_vec(), id: 9 };
        let mut out = Vec::new();
        let mut ask = |changes: &mut Changes<u8>, client, request, number| {
            let ticket = Ticket { client: 77, number, oldest: 0, sent_to: 0 };
            changes.make((client, request, ticket), &sync, &mut slow, &mut out)
        };
        assert_eq!(ask(&mut changes, 1, 10, 0), Ok(false));
        assert_eq!(ask(&mut changes, 2, 20, 0), Ok(false));
        assert_eq!(ask(&mut changes, 1, 11, 0), Ok(false), "asked for again");
        let boot = |message: &[u8]| match Reply::decode(message) {
            Ok(Reply::Changed(changed)) => changed.boot,
            reply => panic!("{reply:?}"),
        };
        let replies = changes.finished(1, Ok(Done::default()));
        assert!(replies.iter().map(|reply| (reply.0, reply.1)).eq([(1, 10), (1, 11)]));
        assert!(replies.iter().all(|reply| boot(&reply.2) == 500));
        assert!(changes.finished(1, Ok(Done::default())).is_empty());
        assert_eq!(ask(&mut changes, 1, 12, 0), Ok(true), "its answer is kept");
        changes.lost();
        let replies = changes.finished(2, Err(Fault::Disk));
        assert!(
            replies.len() == 1 && Reply::decode(&replies[0].2) == Ok(Reply::Failed(Fault::Disk))
        );
        assert_eq!(ask(&mut changes, 2, 21, 0), Err(Fault::Disk));
        assert_eq!(ask(&mut changes, 1, 13, 0), Ok(true));
        assert_eq!(boot(&out), 501);
        assert_eq!(slow.0, [1, 2]);
    }
}
