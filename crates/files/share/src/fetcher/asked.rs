//! What was asked for, and what its reply does.

use super::state::Asked;
use super::{Fetcher, Sink, Wanted};
use crate::entry::{Attributes, Kind};
use crate::error::Fault;
use crate::message::Reply;

impl Fetcher {
    pub(super) fn handle(&mut self, asked: Asked, reply: Reply<'_>, sink: &mut impl Sink) {
        match (asked, reply) {
            (Asked::Ping, Reply::Pong) => {}
            (Asked::Look(wanted), Reply::Found(attributes, target)) => {
                self.found(wanted, attributes, &target, sink);
            }
            (Asked::Look(wanted), Reply::Failed(fault)) => self.problem(wanted.from, fault),
            (Asked::List(directory, from), Reply::Entries(entries, next)) => {
                self.listed(directory, from, entries, next, sink);
            }
            (Asked::List(directory, _), Reply::Failed(fault)) => {
                self.problem(self.directories[&directory].from.clone(), fault);
                self.listing_is_over(directory, sink);
            }
            (Asked::Small(batch), Reply::Files(files)) => self.files(batch, files, sink),
            (Asked::Small(batch), Reply::Failed(fault)) => self.no_files(batch, fault, sink),
            (Asked::Read(file, offset, len), Reply::Data(data)) if data.len() == len as usize => {
                self.part(file, offset, data, sink);
            }
            (Asked::Map(file), Reply::Places(places, more)) => {
                self.mapped(file, &places, more, sink)
            }
            (Asked::Digests(file, first, count), Reply::Digests(digests))
                if digests.len() == count as usize =>
            {
                self.compare(file, first, &digests, sink);
            }
            (
                Asked::Read(file, ..) | Asked::Map(file) | Asked::Digests(file, ..),
                Reply::Failed(fault),
            ) => self.large_failed(file, fault, sink),
            _ => self.fail_all(Fault::Nonsense),
        }
    }

    /// One of the files that were named.
    fn found(
        &mut self,
        wanted: Wanted,
        attributes: Attributes,
        target: &[u8],
        sink: &mut impl Sink,
    ) {
        let Wanted { from, to } = wanted;
        if to.is_empty() && attributes.kind != Kind::Directory {
            return self.problem(from, Fault::WrongKind);
        }
        match attributes.kind {
            Kind::Directory => self.enter(None, from, to, attributes, sink),
            Kind::Symlink => {
                let made = sink.symlink(&to, target, &attributes);
                self.made(from, made);
            }
            Kind::File => self.enqueue(None, from, to, attributes, sink, false),
            Kind::Special => self.problem(from, Fault::Special),
        }
    }

    /// Something that is complete at once.
    pub(super) fn made(&mut self, from: Vec<u8>, result: Result<(), Fault>) {
        match result {
            Ok(()) => self.progress.files += 1,
            Err(fault) => self.problem(from, fault),
        }
    }
}
