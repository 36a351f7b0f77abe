//! Directories, and the small files in them.

use super::state::{Batch, Directory, Places};
use super::{ENTRY, Fetcher, MOST_WAITING, Sink};
use crate::entry::{Attributes, Entry, Kind};
use crate::error::Fault;
use crate::message::SMALL;
use crate::names::{MAX_PATH, join};

impl Fetcher {
    /// A directory was found: makes it here, and will list it.
    pub(super) fn enter(
        &mut self,
        parent: Option<u32>,
        from: Vec<u8>,
        to: Vec<u8>,
        attributes: Attributes,
        sink: &mut impl Sink,
    ) {
        if from.len() > MAX_PATH || to.len() > MAX_PATH {
            return self.problem(from, Fault::TooLong);
        }
        let new = match sink.make_directory(&to) {
            Ok(new) => new,
            Err(fault) => return self.problem(from, fault),
        };
        let (listed, missing, places) = (false, 0, Places::default());
        let directory = Directory { parent, from, to, attributes, new, listed, missing, places };
        if !self.room_for(directory.waits()) {
            return;
        }
        let number = self.next_directory;
        self.next_directory = number.wrapping_add(1);
        self.directories.insert(number, directory);
        if let Some(parent) = parent.and_then(|parent| self.directories.get_mut(&parent)) {
            parent.missing += 1;
        }
        self.to_list.push((number, 0));
    }

    /// Counts bytes that wait. A tree with too much of them is refused.
    pub(super) fn room_for(&mut self, bytes: usize) -> bool {
        let room = self.waiting + bytes <= MOST_WAITING;
        match room {
            true => self.waiting += bytes,
            false => self.fail_all(Fault::TooMuch),
        }
        room
    }

    /// A part of a directory's entries.
    pub(super) fn listed(
        &mut self,
        number: u32,
        from: u64,
        entries: Vec<Entry>,
        next: Option<u64>,
        sink: &mut impl Sink,
    ) {
        // Without an entry there is nothing to go on from.
        if next.is_some_and(|next| next == from || entries.is_empty()) {
            return self.fail_all(Fault::Nonsense);
        }
        let Some(directory) = self.directories.get_mut(&number) else { return };
        if next.is_some_and(|next| !directory.places.goes_on(next)) {
            return self.fail_all(Fault::TooMuch);
        }
        let (path, to, new) = (directory.from.clone(), directory.to.clone(), directory.new);
        let mut batch = Batch::new(number, path.len());
        for entry in entries {
            let (from, to) = (join(&path, &entry.name), join(&to, &entry.name));
            match entry.attributes.kind {
                Kind::Directory => self.enter(Some(number), from, to, entry.attributes, sink),
                Kind::Special => self.problem(from, Fault::Special),
                Kind::Symlink => {
                    let made = sink.symlink(&to, &entry.target, &entry.attributes);
                    self.made(from, made);
                }
                Kind::File if entry.attributes.size > SMALL as u64 => {
                    self.enqueue(Some(number), from, to, entry.attributes, sink, new);
                }
                Kind::File => {
                    self.progress.total = self.progress.total.saturating_add(entry.attributes.size);
                    if self.is_there(&to, &entry.attributes, sink, new) {
                        continue;
                    }
                    if !batch.fits(&entry) {
                        self.push(std::mem::replace(&mut batch, Batch::new(number, path.len())));
                    }
                    if !self.room_for(ENTRY + entry.name.len()) {
                        return;
                    }
                    batch.add(entry);
                }
            }
        }
        self.push(batch);
        match next {
            Some(next) => self.to_list.push((number, next)),
            None => self.listing_is_over(number, sink),
        }
    }

    /// Whether a file need not be fetched.
    pub(super) fn is_there(
        &mut self,
        to: &[u8],
        attributes: &Attributes,
        sink: &mut impl Sink,
        new: bool,
    ) -> bool {
        let is_there = !new && !self.options.ignore_times && sink.has(to, attributes);
        if is_there {
            self.progress.skipped += 1;
            self.progress.bytes = self.progress.bytes.saturating_add(attributes.size);
            self.progress.resumed = self.progress.resumed.saturating_add(attributes.size);
        }
        is_there
    }

    fn push(&mut self, batch: Batch) {
        if batch.files.is_empty() {
            return;
        }
        if let Some(directory) = self.directories.get_mut(&batch.directory) {
            directory.missing += 1;
        }
        self.batches.push_back(batch);
    }

    /// Nothing more is in the directory.
    pub(super) fn listing_is_over(&mut self, number: u32, sink: &mut impl Sink) {
        if let Some(directory) = self.directories.get_mut(&number) {
            directory.listed = true;
        }
        self.finish_if_complete(number, sink);
    }

    /// Something in the directory is there, or has failed.
    pub(super) fn one_less(&mut self, number: Option<u32>, sink: &mut impl Sink) {
        let Some(number) = number else { return };
        if let Some(directory) = self.directories.get_mut(&number) {
            directory.missing -= 1;
        }
        self.finish_if_complete(number, sink);
    }

    pub(super) fn more(&mut self, number: Option<u32>) {
        if let Some(directory) = number.and_then(|number| self.directories.get_mut(&number)) {
            directory.missing += 1;
        }
    }

    /// The attributes come last: what is written into a directory changes its time.
    fn finish_if_complete(&mut self, mut number: u32, sink: &mut impl Sink) {
        while let Some(directory) = self.directories.get(&number)
            && directory.listed
            && directory.missing == 0
        {
            let Some(directory) = self.directories.remove(&number) else { return };
            self.waiting -= directory.waits();
            let finished = sink.finish_directory(&directory.to, &directory.attributes);
            self.made(directory.from, finished);
            let Some(parent) = directory.parent else { return };
            if let Some(parent) = self.directories.get_mut(&parent) {
                parent.missing -= 1;
            }
            number = parent;
        }
    }

    /// Small files have arrived.
    pub(super) fn files(
        &mut self,
        batch: Batch,
        files: Vec<Result<(Attributes, &[u8]), Fault>>,
        sink: &mut impl Sink,
    ) {
        if files.len() != batch.files.len() {
            return self.fail_all(Fault::Nonsense);
        }
        self.waiting -= batch.waits();
        let Some(directory) = self.directories.get(&batch.directory) else { return };
        let (path, directory_to) = (directory.from.clone(), directory.to.clone());
        let mut to = Vec::with_capacity(MAX_PATH);
        for ((name, _), file) in batch.files.into_iter().zip(files) {
            to.clear();
            to.extend_from_slice(&directory_to);
            if !to.is_empty() {
                to.push(b'/');
            }
            to.extend_from_slice(&name);
            let stored = match file {
                Ok((attributes, data)) if attributes.kind == Kind::File => {
                    let stored = sink.store(&to, &attributes, data);
                    if stored.is_ok() {
                        self.progress.bytes += attributes.size;
                    }
                    stored
                }
                Ok(_) => Err(Fault::Changed),
                Err(fault) => Err(fault),
            };
            match stored {
                Ok(()) => self.progress.files += 1,
                Err(fault) => self.problem(join(&path, &name), fault),
            }
        }
        self.one_less(Some(batch.directory), sink);
    }

    /// None of them has arrived.
    pub(super) fn no_files(&mut self, batch: Batch, fault: Fault, sink: &mut impl Sink) {
        self.waiting -= batch.waits();
        let path = self.directories[&batch.directory].from.clone();
        for (name, _) in batch.files {
            self.problem(join(&path, &name), fault);
        }
        self.one_less(Some(batch.directory), sink);
    }
}
