//! File transfer: requests of a hostile client, and replies of a hostile server.

use crate::meter::within;
use crate::script::Script;
use gigae_share::{
    Answer, Attributes, Caller, Change, Done, Entry, Fault, Fetcher, Inode, Kind, Listed,
    MAX_REPLY, MAX_REQUEST, Named, Options, Parent, Reply, Request, Server, Sink, Source, Space,
    Ticket, Want, Wanted, digest, valid_name, valid_path,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// A reply at each end, and what it becomes when it is read: an entry of 35 bytes is one of some
/// 100, and each directory is kept until everything in it is there.
const MEMORY: usize = 64 << 20;

/// Messages of one input.
const MOST_MESSAGES: usize = 200;

/// What a server does with requests, and a fetcher or a mounted file system with replies.
///
/// # Panics
/// If one of them does, needs too much memory, or asks its files for a path that leads elsewhere.
pub fn files(input: &[u8]) {
    within(MEMORY, || {
        let mut script = Script::new(input);
        match script.byte() % 4 {
            0 | 2 => requests(&mut script),
            1 => replies(&mut script),
            _ => answers(&mut script),
        }
    });
}

fn message(script: &mut Script<'_>) -> Vec<u8> {
    let len = script.u16() as usize % 600;
    script.take(len).to_vec()
}

fn requests(script: &mut Script<'_>) {
    let (mut server, mut out) = (Server::default(), Vec::new());
    let mut owed = [0usize; 4];
    for _ in 0..MOST_MESSAGES {
        if script.is_over() {
            break;
        }
        let client = script.byte() % 4;
        if client == 3 && owed[0] > 0 {
            owed[0] -= 1;
            server.sent(0);
            continue;
        }
        let mut request = vec![1, script.byte() % 16];
        request.extend_from_slice(&script.u32().to_le_bytes());
        if request[1] == 15 {
            // The numbers of a change are near each other.
            for _ in 0..4 {
                request.extend_from_slice(&u64::from(script.byte() % 8).to_le_bytes());
            }
        }
        request.extend(message(script));
        if script.byte().is_multiple_of(16) {
            request.resize(MAX_REQUEST + 1, 0);
        }
        match server.handle(client, &request, &mut Few, &mut out) {
            Answer::Reply(number) => {
                assert_eq!(number.to_le_bytes(), request[2..6]);
                assert!(!out.is_empty() && out.len() <= MAX_REPLY);
                owed[usize::from(client)] += 1;
            }
            Answer::Take { sources, to, .. } => {
                let named = sources.iter().all(|(path, name)| valid_path(path) && valid_name(name));
                assert!(named && valid_path(&to));
                owed[usize::from(client)] += 1;
            }
            Answer::Status(_) | Answer::Cancel { .. } => owed[usize::from(client)] += 1,
            Answer::Later => unreachable!("this source begins nothing"),
            Answer::Ignore => {}
        }
        assert!(owed.iter().all(|&owed| owed <= gigae_share::MOST_IN_FLIGHT));
        assert_eq!(server.in_flight(), owed.iter().sum::<usize>());
    }
}

fn replies(script: &mut Script<'_>) {
    let options = Options { ignore_times: false, patience: Duration::from_secs(30) };
    let wanted = vec![Wanted { from: b"x".to_vec(), to: b"to".to_vec() }];
    let (mut now, mut sink) = (Duration::ZERO, Checked::default());
    let mut fetcher = Fetcher::new(wanted, options, now);
    let mut asked: Vec<u32> = Vec::new();
    for _ in 0..MOST_MESSAGES {
        match fetcher.next(now, &mut sink) {
            Want::Send(request) => {
                assert!(request.message.len() <= MAX_REQUEST && asked.len() < 100);
                asked.push(request.number);
            }
            Want::Forget(before) => {
                asked.retain(|&number| {
                    if number < before {
                        fetcher.unanswered(number);
                    }
                    number >= before
                });
            }
            Want::Wait(until) if script.is_over() || asked.is_empty() => now = until,
            Want::Wait(_) => {
                let number = asked.remove(usize::from(script.byte()) % asked.len());
                match script.byte() {
                    0 => fetcher.unanswered(number),
                    1 => fetcher.lost(now),
                    kind => {
                        fetcher.reply(now, number, &reply(script, kind), &mut sink);
                    }
                }
            }
            Want::Nothing => break,
        }
    }
    fetcher.stop(&mut sink);
    assert!(sink.open.is_empty(), "what was begun is left or finished");
}

fn reply(script: &mut Script<'_>, kind: u8) -> Vec<u8> {
    let mut reply = vec![kind % 16];
    let body = message(script);
    if matches!(reply[0], 5 | 6 | 13) {
        // Anybody can compute a digest.
        reply.extend_from_slice(&digest(&body).to_le_bytes());
    }
    reply.extend(body);
    reply
}

fn answers(script: &mut Script<'_>) {
    let path = || b"x".to_vec();
    let mut caller = Caller::new(Duration::from_secs(30), 1 + script.u32() % 2 * (u32::MAX - 5));
    let (mut now, mut open) = (Duration::ZERO, [false; MOST_MESSAGES]);
    let mut asked: Vec<u32> = Vec::new();
    for n in 0..MOST_MESSAGES {
        if !script.is_over() {
            let request = match script.byte() % 6 {
                0 => Some(Request::Stat { path: path() }),
                1 => Some(Request::Scan { path: path(), from: 1, most: 0 }),
                2 => Some(Request::Range { path: path(), id: 2, offset: 0, len: 9 }),
                3 => Some(Request::Space { path: path() }),
                4 => Some(Request::Change {
                    ticket: Ticket::default(),
                    change: Change::Directory { path: path(), mode: 0 },
                }),
                _ => None,
            };
            if let Some(request) = request {
                caller.ask(now, request, n);
                open[n] = true;
            }
        }
        while let Some((question, _)) = caller.failed(now) {
            assert!(std::mem::take(&mut open[question]), "one answer");
        }
        match caller.next(now) {
            Want::Send(request) => {
                assert!(!asked.contains(&request.number) && asked.len() < 100);
                asked.push(request.number);
            }
            Want::Forget(before) => asked.retain(|&number| {
                if number < before {
                    caller.unanswered(number);
                }
                number >= before
            }),
            Want::Wait(until) if script.is_over() || asked.is_empty() => now = now.max(until),
            Want::Nothing if script.is_over() => break,
            Want::Wait(_) | Want::Nothing => {
                let Some(last) = asked.len().checked_sub(1) else { continue };
                let number = asked.remove(usize::from(script.byte()).min(last));
                match script.byte() {
                    0 => caller.unanswered(number),
                    1 => caller.lost(now),
                    kind => {
                        let reply = reply(script, kind);
                        let Some((question, answer)) = caller.reply(now, number, &reply) else {
                            continue;
                        };
                        assert!(std::mem::take(&mut open[question]), "one answer");
                        if let Ok(Reply::Scan(entries, _)) = answer {
                            let named =
                                |name: &[u8]| valid_name(name) || matches!(name, b"." | b"..");
                            assert!(entries.iter().all(|entry| named(&entry.name)));
                        }
                    }
                }
            }
        }
    }
}

/// A source with one directory and one file.
struct Few;

fn attributes(kind: Kind) -> Attributes {
    let size = if kind == Kind::File { 9 } else { 0 };
    Attributes { kind, sparse: true, mode: 0, size, seconds: 0, nanoseconds: 0, version: 1 }
}

impl Source for Few {
    type Directory = ();

    fn look(&mut self, path: &[u8]) -> Result<(Attributes, Vec<u8>), Fault> {
        assert!(valid_path(path));
        let kind = if path.is_empty() { Kind::Directory } else { Kind::File };
        Ok((attributes(kind), Vec::new()))
    }

    fn list(
        &mut self,
        path: &[u8],
        from: u64,
        take: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Listed, Fault> {
        assert!(valid_path(path));
        for n in from..from.saturating_add(100_000) {
            let (name, attributes) = (n.to_string().into_bytes(), attributes(Kind::File));
            if !take(&Entry { name, attributes, target: Vec::new() }) {
                return Ok(Listed::Until(n));
            }
        }
        Ok(Listed::All)
    }

    fn directory(&mut self, path: &[u8]) -> Result<(), Fault> {
        assert!(valid_path(path));
        Ok(())
    }

    fn small(
        &mut self,
        (): &(),
        name: &[u8],
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<Attributes, Fault> {
        assert!(valid_name(name));
        if most < 9 {
            return Err(Fault::Changed);
        }
        out.extend_from_slice(&[1; 9]);
        Ok(attributes(Kind::File))
    }

    fn read(&mut self, path: &[u8], _: u64, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        assert!(valid_path(path) && offset.checked_add(out.len() as u64).is_some());
        Ok(())
    }

    fn data(&mut self, path: &[u8], _: u64, from: u64) -> Result<Option<(u64, u64)>, Fault> {
        assert!(valid_path(path));
        Ok(Some((from, from + 1)))
    }

    fn stat(&mut self, path: &[u8]) -> Result<(Inode, Vec<u8>), Fault> {
        assert!(valid_path(path));
        Ok((inode(), Vec::new()))
    }

    fn scan(
        &mut self,
        path: &[u8],
        from: u64,
        take: &mut dyn FnMut(&Named) -> bool,
    ) -> Result<bool, Fault> {
        assert!(valid_path(path));
        for n in from..from.saturating_add(100_000) {
            let name = n.to_string().into_bytes();
            if !take(&Named { name, inode: inode(), next: n.saturating_add(1) }) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn range(
        &mut self,
        path: &[u8],
        _: u64,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(Inode, usize), Fault> {
        assert!(valid_path(path) && offset.checked_add(out.len() as u64).is_some());
        Ok((inode(), out.len() / 2))
    }

    fn change(&mut self, change: &Change) -> Result<Done, Fault> {
        match change {
            Change::File { path, .. }
            | Change::Directory { path, .. }
            | Change::Symlink { path, .. }
            | Change::Remove { path, .. }
            | Change::Set { path, .. }
            | Change::Open { path, .. }
            | Change::Sync { path, .. } => assert!(valid_path(path)),
            Change::Rename { from, to, .. } | Change::Link { from, to, .. } => {
                assert!(valid_path(from) && valid_path(to));
            }
            Change::Write { path, offset, data, .. } => {
                assert!(valid_path(path) && data.len() <= gigae_share::PART);
                assert!(offset.checked_add(data.len() as u64).is_some());
            }
        }
        let parent = Inode { attributes: attributes(Kind::Directory), ..inode() };
        let parent = Parent { inode: parent, names: Some((1, 2)) };
        Ok(Done { inode: Some(inode()), empty: Some(3), parent: Some(parent) })
    }

    fn space(&mut self, path: &[u8]) -> Result<Space, Fault> {
        assert!(valid_path(path));
        Ok(Space::default())
    }
}

fn inode() -> Inode {
    Inode { attributes: attributes(Kind::File), id: 2, links: 1, blocks: 0, changed: (0, 0) }
}

/// A sink that checks what it is asked for.
#[derive(Default)]
struct Checked {
    open: BTreeSet<u32>,
}

impl Checked {
    fn check(path: &[u8]) -> Result<(), Fault> {
        assert!(path.split(|&byte| byte == b'/').all(valid_name));
        Ok(())
    }
}

impl Sink for Checked {
    fn make_directory(&mut self, path: &[u8]) -> Result<bool, Fault> {
        Self::check(path).map(|()| false)
    }

    fn finish_directory(&mut self, path: &[u8], _: &Attributes) -> Result<(), Fault> {
        Self::check(path)
    }

    fn symlink(&mut self, path: &[u8], target: &[u8], _: &Attributes) -> Result<(), Fault> {
        assert!(!target.contains(&0));
        Self::check(path)
    }

    fn has(&mut self, path: &[u8], attributes: &Attributes) -> bool {
        Self::check(path).is_ok() && attributes.size == 77
    }

    fn store(&mut self, path: &[u8], attributes: &Attributes, data: &[u8]) -> Result<(), Fault> {
        assert_eq!(attributes.size, data.len() as u64);
        Self::check(path)
    }

    fn begin(&mut self, file: u32, path: &[u8], attributes: &Attributes) -> Result<u64, Fault> {
        assert!(self.open.insert(file));
        Self::check(path).map(|()| attributes.size / 2)
    }

    fn digest(&mut self, file: u32, _: u64, len: usize) -> Result<u128, Fault> {
        assert!(self.open.contains(&file) && len <= gigae_share::PART);
        Ok(0)
    }

    fn write(&mut self, file: u32, offset: u64, data: &[u8]) -> Result<(), Fault> {
        assert!(self.open.contains(&file) && offset.checked_add(data.len() as u64).is_some());
        Ok(())
    }

    fn finish(&mut self, file: u32, _: &Attributes) -> Result<(), Fault> {
        assert!(self.open.remove(&file));
        Ok(())
    }

    fn leave(&mut self, file: u32, _: Option<Fault>) {
        assert!(self.open.remove(&file));
    }
}
