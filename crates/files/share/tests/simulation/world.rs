//! Files in memory, and a network in virtual time between a fetcher and a server.
#![allow(missing_docs)]

use crate::changed::Disk;
use crate::written::Written;
use gigae_share::{
    Answer, Attributes, Change, Done, Entry, Fault, Fetcher, Inode, Kind, Listed, MAX_CHANGE,
    MAX_REPLY, Named, Options, Outgoing, Server, Source, Want, Wanted, valid_name,
};
use oorandom::Rand32;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub(crate) const MS: Duration = Duration::from_millis(1);

/// A longer reply waits at the server until the client receives it.
const LONG: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) attributes: Attributes,
    pub(crate) data: Vec<u8>,
}

pub(crate) type Files = BTreeMap<Vec<u8>, Node>;

pub(crate) fn attributes(kind: Kind, size: usize, version: u64) -> Attributes {
    let (mode, seconds) = (0o640 + (version % 7) as u16, 1_000_000 + version as i64);
    let sparse = false;
    Attributes { kind, sparse, mode, size: size as u64, seconds, nanoseconds: 5, version }
}

pub(crate) fn file(data: Vec<u8>, version: u64) -> Node {
    Node { attributes: attributes(Kind::File, data.len(), version), data }
}

pub(crate) fn bytes(rng: &mut Rand32, len: usize) -> Vec<u8> {
    (0..len.div_ceil(4)).flat_map(|_| rng.rand_u32().to_le_bytes()).take(len).collect()
}

/// A tree with directories, symlinks, empty, small, large and sparse files, and odd names.
pub(crate) fn tree(rng: &mut Rand32) -> Files {
    let mut files = Files::new();
    let mut directories = vec![Vec::new()];
    let mut version = 1;
    let directory =
        |version| Node { attributes: attributes(Kind::Directory, 0, version), data: vec![] };
    files.insert(Vec::new(), directory(0));
    for n in 0..rng.rand_range(1..60) {
        version += 1;
        let parent = &directories[rng.rand_range(0..directories.len() as u32) as usize];
        let mut name = format!("{n}").into_bytes();
        match rng.rand_range(0..8) {
            0 => name.push(0xff),
            1 => name.resize(255, b'n'),
            2 => name.push(b'\n'),
            _ => {}
        }
        let path = gigae_share::join(parent, &name);
        let node = match rng.rand_range(0..10) {
            0 | 1 if path.len() < 2000 => {
                directories.push(path.clone());
                directory(version)
            }
            2 => Node {
                attributes: attributes(Kind::Symlink, 3, version),
                data: b"../../x".to_vec(),
            },
            3 => {
                let len = rng.rand_range(0..3 << 20) as usize;
                file(bytes(rng, len), version)
            }
            4 => {
                let mut data = vec![0; 2 << 20];
                data[rng.rand_range(0..2 << 20) as usize] = 1;
                let mut node = file(data, version);
                node.attributes.sparse = true;
                node
            }
            _ => {
                let len = rng.rand_range(0..5000) as usize;
                file(bytes(rng, len), version)
            }
        };
        files.insert(path, node);
    }
    files
}

/// What is shared.
pub(crate) struct Shared(pub Files, pub Disk);

impl Shared {
    fn get(&self, path: &[u8]) -> Result<&Node, Fault> {
        self.0.get(path).ok_or(Fault::NotFound)
    }

    /// A node as a mounted file system sees it.
    fn inode(&self, path: &[u8], node: &Node) -> Inode {
        let id = 2 + self.0.keys().take_while(|of| &of[..] != path).count() as u64;
        let changed = (node.attributes.seconds, 0);
        Inode { attributes: node.attributes, id, links: 1, blocks: 0, changed }
    }

    fn entries(&self, path: &[u8]) -> Vec<Entry> {
        let child = |(of, node): (&Vec<u8>, &Node)| {
            let rest = match path {
                [] => &of[..],
                path => of.strip_prefix(path)?.strip_prefix(b"/")?,
            };
            let target = match node.attributes.kind {
                Kind::Symlink => node.data.clone(),
                _ => Vec::new(),
            };
            valid_name(rest).then(|| Entry {
                name: rest.to_vec(),
                attributes: node.attributes,
                target,
            })
        };
        self.0.iter().filter_map(child).collect()
    }
}

impl Source for Shared {
    type Directory = Vec<u8>;

    fn look(&mut self, path: &[u8]) -> Result<(Attributes, Vec<u8>), Fault> {
        let node = self.get(path)?;
        let is_link = node.attributes.kind == Kind::Symlink;
        Ok((node.attributes, if is_link { node.data.clone() } else { Vec::new() }))
    }

    fn list(
        &mut self,
        path: &[u8],
        from: u64,
        take: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Listed, Fault> {
        self.get(path)?;
        for (n, entry) in self.entries(path).iter().enumerate().skip(from as usize) {
            // Some in each reply, so that directories are listed in several.
            if n as u64 == from + 7 || !take(entry) {
                return Ok(Listed::Until(n as u64));
            }
        }
        Ok(Listed::All)
    }

    fn directory(&mut self, path: &[u8]) -> Result<Vec<u8>, Fault> {
        self.get(path).map(|_| path.to_vec())
    }

    fn small(
        &mut self,
        directory: &Vec<u8>,
        name: &[u8],
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<Attributes, Fault> {
        let node = self.get(&gigae_share::join(directory, name))?;
        if node.attributes.kind != Kind::File || node.data.len() > most {
            return Err(Fault::Changed);
        }
        out.extend_from_slice(&node.data);
        Ok(node.attributes)
    }

    fn read(
        &mut self,
        path: &[u8],
        version: u64,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Fault> {
        let node = self.get(path)?;
        let data = node.data.get(offset as usize..).and_then(|data| data.get(..out.len()));
        match data {
            Some(data) if node.attributes.version == version => {
                out.copy_from_slice(data);
                Ok(())
            }
            _ => Err(Fault::Changed),
        }
    }

    fn data(&mut self, path: &[u8], version: u64, from: u64) -> Result<Option<(u64, u64)>, Fault> {
        let node = self.get(path)?;
        if node.attributes.version != version {
            return Err(Fault::Changed);
        }
        let rest = &node.data[(from as usize).min(node.data.len())..];
        Ok(rest.iter().position(|&byte| byte != 0).map(|at| {
            let start = (from + at as u64) / 4096 * 4096;
            (start.max(from), (start + 4096).min(node.data.len() as u64))
        }))
    }

    fn stat(&mut self, path: &[u8]) -> Result<(Inode, Vec<u8>), Fault> {
        if let Ok(inode) = self.1.stat(path) {
            return Ok((inode, Vec::new()));
        }
        let (_, target) = self.look(path)?;
        Ok((self.inode(path, self.get(path)?), target))
    }

    fn scan(
        &mut self,
        path: &[u8],
        from: u64,
        take: &mut dyn FnMut(&Named) -> bool,
    ) -> Result<bool, Fault> {
        self.get(path)?;
        for (n, entry) in self.entries(path).into_iter().enumerate().skip(from as usize) {
            let path = gigae_share::join(path, &entry.name);
            let inode = self.inode(&path, self.get(&path)?);
            let next = n as u64 + 1;
            if n as u64 == from + 7 || !take(&Named { name: entry.name, inode, next }) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn change(&mut self, change: &Change) -> Result<Done, Fault> {
        self.1.change(change)
    }

    fn range(
        &mut self,
        path: &[u8],
        id: u64,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(Inode, usize), Fault> {
        let node = self.get(path)?;
        let inode = self.inode(path, node);
        if inode.id != id {
            return Err(Fault::Changed);
        }
        let rest = node.data.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        Ok((inode, len))
    }
}

/// What goes wrong on the way, each in a thousand messages.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    /// The session ends: everything on its way is lost.
    pub(crate) cut: u32,
    /// The server dies and comes again after a while.
    pub(crate) server_dies: u32,
    /// The client dies and is started again.
    pub(crate) client_dies: u32,
    /// The client's machine dies: what is partial has another bit somewhere.
    pub(crate) power_fails: u32,
    /// A reply has another bit, is cut or replaced by anything.
    pub(crate) lies: u32,
    /// A shared file changes.
    pub(crate) changes: u32,
    /// The server handles nothing for some seconds.
    pub(crate) stalls: u32,
}

/// What asks the server.
pub(crate) trait Client {
    fn next(&mut self, now: Duration, sink: &mut Written) -> Want;
    fn reply(&mut self, now: Duration, number: u32, message: &[u8], sink: &mut Written);
    fn unanswered(&mut self, number: u32);
    fn lost(&mut self, now: Duration);
}

impl Client for Fetcher {
    fn next(&mut self, now: Duration, sink: &mut Written) -> Want {
        self.next(now, sink)
    }

    fn reply(&mut self, now: Duration, number: u32, message: &[u8], sink: &mut Written) {
        self.reply(now, number, message, sink);
    }

    fn unanswered(&mut self, number: u32) {
        self.unanswered(number);
    }

    fn lost(&mut self, now: Duration) {
        self.lost(now);
    }
}

enum Letter {
    Request(Outgoing),
    Reply(u32, Vec<u8>),
    /// The sender learns that the session has ended, and with it these requests.
    Lost(Vec<u32>),
}

pub(crate) struct World {
    pub(crate) rng: Rand32,
    pub(crate) shared: Shared,
    pub(crate) written: Written,
    server: Server<u8>,
    server_up: Duration,
    now: Duration,
    /// In order, each with the time of its arrival.
    letters: VecDeque<(Duration, Letter)>,
    waiting: Vec<u32>,
    /// Long replies that nobody has received.
    left: usize,
    /// What a byte of a reply takes on the network.
    pub(crate) per_byte: Duration,
    network_free: Duration,
    stalled: Duration,
    pub(crate) starts: u32,
    pub(crate) most_in_flight: usize,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rand32::new(seed);
        let shared = Shared(tree(&mut rng), Disk::default());
        Self {
            rng,
            shared,
            written: Written::default(),
            server: Server::default(),
            server_up: Duration::ZERO,
            now: Duration::ZERO,
            letters: VecDeque::new(),
            waiting: Vec::new(),
            left: 0,
            per_byte: Duration::ZERO,
            network_free: Duration::ZERO,
            stalled: Duration::ZERO,
            starts: 0,
            most_in_flight: 0,
        }
    }

    fn happens(&mut self, of_thousand: u32) -> bool {
        self.rng.rand_range(0..1000) < of_thousand
    }

    fn post(&mut self, letter: Letter) {
        let mut arrival = self.now + MS * self.rng.rand_range(0..3);
        match &letter {
            Letter::Reply(_, reply) => {
                let begins = self.network_free.max(self.now);
                self.network_free = begins + self.per_byte * reply.len() as u32;
                arrival = arrival.max(self.network_free);
            }
            Letter::Request(_) => arrival = arrival.max(self.stalled),
            Letter::Lost(_) => {}
        }
        if let Letter::Request(request) = &letter
            && request.message.len() > LONG
        {
            // The receiver fetches it, and others overtake it.
            arrival += MS * self.rng.rand_range(0..50);
            let at = self.letters.partition_point(|(at, _)| *at <= arrival);
            return self.letters.insert(at, (arrival, letter));
        }
        let last = self.letters.back().map_or(Duration::ZERO, |(at, _)| *at);
        self.letters.push_back((arrival.max(last), letter));
    }

    /// Nothing of what is on its way arrives. The client learns of its own messages.
    fn cut(&mut self) {
        let mut lost = Vec::new();
        (0..std::mem::take(&mut self.left)).for_each(|_| self.server.sent(0));
        for (_, letter) in std::mem::take(&mut self.letters) {
            match letter {
                Letter::Request(request) => lost.push(request.number),
                Letter::Reply(..) => self.server.sent(0),
                Letter::Lost(numbers) => lost.extend(numbers),
            }
        }
        if !lost.is_empty() {
            self.post(Letter::Lost(lost));
        }
    }

    /// Runs a copy until it is over, and returns it.
    pub(crate) fn run(&mut self, faults: Faults) -> Fetcher {
        let options = Options { ignore_times: false, patience: Duration::from_secs(30) };
        let wanted = || vec![Wanted { from: Vec::new(), to: b"copy".to_vec() }];
        let mut fetcher = Fetcher::new(wanted(), options, self.now);
        for _ in 0..2_000_000 {
            if self.happens(faults.client_dies) {
                if self.happens(faults.power_fails) {
                    self.written.damage(&mut self.rng);
                }
                self.starts += 1;
                self.cut();
                self.letters.clear();
                self.waiting.clear();
                self.written.restart();
                fetcher = Fetcher::new(wanted(), options, self.now);
            }
            if self.turn(faults, &mut fetcher) {
                return fetcher;
            }
        }
        panic!("it does not end");
    }

    /// Runs any client until it wants nothing.
    pub(crate) fn serve(&mut self, faults: Faults, client: &mut impl Client) {
        for _ in 0..200_000 {
            if self.turn(faults, client) {
                return;
            }
        }
        panic!("it does not end");
    }

    /// Does what the client wants; whether that is nothing.
    fn turn(&mut self, faults: Faults, client: &mut impl Client) -> bool {
        match client.next(self.now, &mut self.written) {
            Want::Send(request) => {
                assert!(request.message.len() <= MAX_CHANGE);
                self.waiting.push(request.number);
                self.most_in_flight = self.most_in_flight.max(self.waiting.len());
                self.post(Letter::Request(request));
            }
            Want::Forget(before) => self.forget(before, client),
            Want::Wait(until) => self.step(until, faults, client),
            Want::Nothing => return true,
        }
        false
    }

    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// The server answers nothing from now on.
    pub(crate) fn stop_server(&mut self) {
        self.server_up = Duration::MAX;
    }

    pub(crate) fn start_server(&mut self) {
        self.server_up = self.now;
    }

    /// The server takes requests, and handles none of them for a while.
    pub(crate) fn stall_server(&mut self, time: Duration) {
        self.stalled = self.now + time;
    }

    pub(crate) fn stalled(&self) -> Duration {
        self.stalled
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// The server gets everything that is still on its way.
    pub(crate) fn deliver(&mut self) {
        for (_, letter) in std::mem::take(&mut self.letters) {
            if let Letter::Request(request) = letter {
                self.server.handle(0, &request.message, &mut self.shared, &mut Vec::new());
            }
        }
    }

    /// As an endpoint does: what has begun to arrive is not cancelled.
    fn forget(&mut self, before: u32, client: &mut impl Client) {
        let arriving = |number: u32| {
            self.letters.iter().any(|(_, l)| matches!(l, Letter::Reply(n, _) if *n == number))
        };
        let (gone, rest) =
            self.waiting.iter().partition(|&&number| number < before && !arriving(number));
        self.waiting = rest;
        let gone: Vec<u32> = gone;
        gone.iter().for_each(|&number| client.unanswered(number));
    }

    fn step(&mut self, until: Duration, faults: Faults, client: &mut impl Client) {
        let Some(&(at, _)) = self.letters.front() else {
            self.now = until.max(self.now + MS);
            return;
        };
        if at > until {
            self.now = until;
            return;
        }
        self.now = self.now.max(at);
        let Some((_, letter)) = self.letters.pop_front() else { return };
        if self.happens(faults.changes) {
            self.change();
        }
        if self.happens(faults.stalls) {
            let time = MS * self.rng.rand_range(0..5000);
            self.stall_server(time);
        }
        if self.happens(faults.cut) {
            self.letters.push_front((at, letter));
            return self.cut();
        }
        if self.happens(faults.server_dies) {
            self.letters.push_front((at, letter));
            self.cut();
            self.server = Server::new(self.rng.rand_u32().into(), 0);
            self.server_up = self.now + MS * self.rng.rand_range(0..3000);
            return;
        }
        match letter {
            Letter::Request(request) if self.now < self.server_up => {
                self.post(Letter::Lost(vec![request.number]));
            }
            Letter::Request(request) => {
                let mut out = Vec::new();
                match self.server.handle(0, &request.message, &mut self.shared, &mut out) {
                    Answer::Reply(number) => {
                        assert!(number == request.number && out.len() <= MAX_REPLY);
                        if self.happens(faults.lies) {
                            self.lie(&mut out);
                        }
                        self.post(Letter::Reply(number, out));
                    }
                    answer => panic!("{answer:?}"),
                }
            }
            Letter::Reply(number, reply) => {
                let waiting = self.waiting.iter().position(|&waiting| waiting == number);
                match waiting {
                    None if reply.len() > LONG => self.left += 1,
                    _ => self.server.sent(0),
                }
                if let Some(at) = waiting {
                    self.waiting.remove(at);
                    client.reply(self.now, number, &reply, &mut self.written);
                }
            }
            Letter::Lost(numbers) => {
                client.lost(self.now);
                for number in numbers {
                    self.waiting.retain(|&waiting| waiting != number);
                    client.unanswered(number);
                }
            }
        }
    }

    fn lie(&mut self, reply: &mut Vec<u8>) {
        let at = self.rng.rand_range(0..reply.len() as u32) as usize;
        match self.rng.rand_range(0..4) {
            0 => reply[at] ^= 1 << self.rng.rand_range(0..8),
            1 => reply.truncate(at),
            2 => {
                let len = self.rng.rand_range(0..300) as usize;
                *reply = bytes(&mut self.rng, len);
                if let Some(kind) = reply.first_mut() {
                    *kind %= 16;
                }
            }
            // A name that leads elsewhere, where there is a name.
            _ => {
                let odd = [&b"/"[..], b"..", b"\0"][self.rng.rand_range(0..3) as usize];
                let end = (at + odd.len()).min(reply.len());
                reply[at..end].copy_from_slice(&odd[..end - at]);
            }
        }
    }

    fn change(&mut self) {
        let n = self.rng.rand_range(0..self.shared.0.len() as u32) as usize;
        let Some(node) = self.shared.0.values_mut().nth(n) else { return };
        if node.attributes.kind == Kind::File && !node.data.is_empty() {
            node.attributes.version += 1000;
            node.attributes.seconds += 1000;
            node.data[0] ^= 0xff;
        }
    }

    /// Whether everything that was copied is as it was shared.
    pub(crate) fn compare(&self) {
        for (path, node) in &self.shared.0 {
            let to = match &path[..] {
                [] => b"copy".to_vec(),
                path => gigae_share::join(b"copy", path),
            };
            assert_eq!(self.written.files.get(&to), Some(node), "{}", gigae_share::printable(path));
        }
        assert_eq!(self.written.files.len(), self.shared.0.len());
    }
}
