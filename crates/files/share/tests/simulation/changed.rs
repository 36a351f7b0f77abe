//! Changes on the same network: each is carried out once, and none too late.

use crate::world::{Client, Faults, MS, World, attributes};
use crate::written::Written;
use gigae_share::{Caller, Change, Done, Fault, Inode, Kind, Reply, Request, Ticket, Want};
use oorandom::Rand32;
use std::collections::BTreeMap;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A file or directory that may be changed.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    id: u64,
    kind: Kind,
    data: Vec<u8>,
}

/// What changes have made, by path.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    files: BTreeMap<Vec<u8>, Made>,
    next_id: u64,
    /// Every change that has succeeded.
    done: usize,
}

impl Disk {
    pub(crate) fn stat(&self, path: &[u8]) -> Result<Inode, Fault> {
        self.files.get(path).map(inode).ok_or(Fault::NotFound)
    }

    fn make(&mut self, path: &[u8], kind: Kind, new: bool) -> Result<Option<Inode>, Fault> {
        if self.files.contains_key(path) && new {
            return Err(Fault::Exists);
        }
        self.next_id += 1;
        let made = Made { id: self.next_id + 1, kind, data: Vec::new() };
        Ok(Some(inode(self.files.entry(path.to_vec()).or_insert(made))))
    }

    pub(crate) fn change(&mut self, change: &Change) -> Result<Done, Fault> {
        let changed = match change {
            Change::File { path, new, .. } => self.make(path, Kind::File, *new),
            Change::Directory { path, .. } => self.make(path, Kind::Directory, true),
            Change::Remove { path, .. } | Change::Rename { from: path, .. }
                if self.files.get(path).is_some_and(|made| is_other(change, made.id)) =>
            {
                Err(Fault::Changed)
            }
            Change::Remove { path, .. } => {
                self.files.remove(path).map(|_| None).ok_or(Fault::NotFound)
            }
            Change::Rename { from, to, new, .. } => {
                if self.files.contains_key(to) && *new {
                    return Err(Fault::Exists);
                }
                let moved = self.files.remove(from).ok_or(Fault::NotFound)?;
                self.files.insert(to.clone(), moved);
                Ok(None)
            }
            Change::Write { path, id, offset, data } => {
                let file = self.files.get_mut(path).ok_or(Fault::NotFound)?;
                if file.id != *id {
                    return Err(Fault::Changed);
                }
                let begin = *offset as usize;
                file.data.resize(file.data.len().max(begin + data.len()), 0);
                file.data[begin..begin + data.len()].copy_from_slice(data);
                Ok(Some(inode(file)))
            }
            _ => Err(Fault::Invalid),
        };
        self.done += usize::from(changed.is_ok());
        changed.map(|inode| Done { inode, ..Done::default() })
    }
}

/// Whether it means another file than the one of this identity.
fn is_other(change: &Change, is: u64) -> bool {
    match change {
        Change::Remove { id, .. } | Change::Rename { id, .. } => *id != 0 && *id != is,
        _ => false,
    }
}

fn inode(made: &Made) -> Inode {
    let attributes = attributes(made.kind, made.data.len(), 1);
    Inode { attributes, id: made.id, links: 1, blocks: 0, changed: (0, 0) }
}

/// A program that makes a file, writes to it, gives it another name, and so on.
#[derive(Debug, Default)]
struct Program {
    step: usize,
    id: u64,
    /// What it has written, and what of it may or may not be there.
    written: u8,
    perhaps: Vec<u8>,
    /// It has made nothing, or not known what: it stops.
    stopped: Option<Fault>,
}

/// The steps of a program. The last one is not done by those that keep their file.
const STEPS: usize = 9;

struct Programs {
    caller: Caller<usize>,
    programs: Vec<Program>,
    rng: Rand32,
    changes: usize,
    failed: Vec<Fault>,
}

impl Programs {
    fn new(patience: Duration, count: usize, now: Duration, seed: u64) -> Self {
        let caller = Caller::new(patience, 1).for_changes(seed + 77);
        let programs = (0..count).map(|_| Program::default()).collect();
        let (rng, failed) = (Rand32::new(seed), Vec::new());
        let mut programs = Self { caller, programs, rng, changes: 0, failed };
        (0..count).for_each(|n| programs.go_on(now, n));
        programs
    }

    fn path(n: usize, renamed: bool) -> Vec<u8> {
        format!("disk/{n}{}", if renamed { "-b" } else { "" }).into_bytes()
    }

    fn go_on(&mut self, now: Duration, n: usize) {
        let keeps = n.is_multiple_of(2);
        let program = &mut self.programs[n];
        let (path, renamed) = (Self::path(n, false), Self::path(n, true));
        let change = match program.step {
            0 => Change::File { path, mode: 0, new: true, truncate: false },
            1..=4 | 6 => {
                program.written += 1;
                // Long ones may be overtaken by short ones.
                let len = if self.rng.rand_range(0..3) == 0 { 70_000 } else { 10 };
                let path = if program.step == 6 { renamed } else { path };
                let data = vec![program.written; len];
                Change::Write { path, id: program.id, offset: 0, data }
            }
            5 => Change::Rename { from: path, to: renamed, id: program.id, new: true },
            7 if !keeps => Change::Remove { path: renamed, id: 0, directory: false },
            8 if !keeps => Change::Directory { path, mode: 0 },
            9 if !keeps => Change::Remove { path, id: 0, directory: true },
            _ => return,
        };
        self.changes += 1;
        self.caller.ask(now, Request::Change { ticket: Ticket::default(), change }, n);
    }

    fn answer(&mut self, now: Duration, n: usize, answer: Result<Option<Inode>, Fault>) {
        let program = &mut self.programs[n];
        let writes = matches!(program.step, 1..=4 | 6);
        match answer {
            Ok(inode) => {
                if program.step == 0 {
                    program.id = inode.expect("a new file").id;
                }
                if writes {
                    program.perhaps = vec![program.written];
                }
            }
            Err(fault) => {
                self.failed.push(fault);
                if !writes || fault != Fault::Silent {
                    program.stopped = Some(fault);
                    return;
                }
                program.perhaps.push(program.written);
            }
        }
        program.step += 1;
        assert!(program.step <= STEPS + 1);
        self.go_on(now, n);
    }

    /// What is at the server is what was written last.
    fn check(&self, seed: u64, disk: &Disk) {
        for (n, program) in self.programs.iter().enumerate() {
            if program.stopped.is_some() {
                continue;
            }
            let (first, second) = (Self::path(n, false), Self::path(n, true));
            assert!(!disk.files.contains_key(&first), "seed {seed}, {n}");
            match n % 2 {
                0 => {
                    let data = &disk.files[&second].data;
                    assert!(program.perhaps.contains(&data[0]), "seed {seed}, {n}: {program:?}");
                    assert!(data[..10].iter().all(|byte| *byte == data[0]));
                }
                _ => assert!(!disk.files.contains_key(&second), "seed {seed}, {n}"),
            }
        }
    }
}

impl Client for Programs {
    fn next(&mut self, now: Duration, _: &mut Written) -> Want {
        while let Some((n, fault)) = self.caller.failed(now) {
            self.answer(now, n, Err(fault));
        }
        self.caller.next(now)
    }

    fn reply(&mut self, now: Duration, number: u32, message: &[u8], _: &mut Written) {
        if let Some((n, answer)) = self.caller.reply(now, number, message) {
            let answer = match answer {
                Ok(Reply::Changed(changed)) => Ok(changed.done.inode),
                Ok(_) => Err(Fault::Nonsense),
                Err(fault) => Err(fault),
            };
            self.answer(now, n, answer);
        }
    }

    fn unanswered(&mut self, number: u32) {
        self.caller.unanswered(number);
    }

    fn lost(&mut self, now: Duration) {
        self.caller.lost(now);
    }
}

#[test]
fn a_change_is_carried_out_once_also_if_it_is_asked_for_again() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        let mut programs = Programs::new(PATIENCE * 100, 40, world.now(), seed);
        world.serve(Faults { cut: 50, ..Faults::default() }, &mut programs);
        assert!(programs.failed.is_empty(), "seed {seed}: {:?}", programs.failed);
        assert_eq!(world.shared.1.done, programs.changes, "each once");
        programs.check(seed, &world.shared.1);
    }
}

/// The server has forgotten what it has done.
#[test]
fn after_a_restart_a_change_is_there_or_it_is_said_that_nobody_knows() {
    let mut unknown = 0;
    for seed in 0..300 {
        let mut world = World::new(seed);
        let mut programs = Programs::new(PATIENCE * 100, 40, world.now(), seed);
        world.serve(Faults { server_dies: 10, cut: 10, ..Faults::default() }, &mut programs);
        assert!(programs.failed.iter().all(|fault| *fault == Fault::Unknown));
        unknown += programs.failed.len();
        programs.check(seed, &world.shared.1);
        for (n, program) in programs.programs.iter().enumerate() {
            let makes = matches!(program.step, 0 | 8);
            assert!(program.stopped.is_none() || makes, "seed {seed}, {n}: {program:?}");
        }
    }
    assert!(unknown > 0, "it has happened");
}

/// What was given up is still on its way, and so is what was written since.
#[test]
fn nothing_that_was_given_up_is_carried_out_after_what_came_later() {
    let mut given_up = 0;
    for seed in 0..60 {
        let mut world = World::new(seed);
        let mut programs = Programs::new(MS * 1500, 20, world.now(), seed);
        let faults = Faults { stalls: 10, cut: 5, ..Faults::default() };
        world.serve(faults, &mut programs);
        given_up += programs.failed.len();
        // All that is still on its way arrives.
        world.pass(Duration::from_secs(100));
        world.serve(Faults::default(), &mut programs);
        world.deliver();
        programs.check(seed, &world.shared.1);
    }
    assert!(given_up > 0, "it has happened");
}

/// A client that has died asks for nothing that its successor does not want.
#[test]
fn another_client_of_the_same_peer_has_its_own_numbers() {
    let mut world = World::new(1);
    for client in 0..20 {
        let mut programs = Programs::new(PATIENCE, 1, world.now(), client);
        world.serve(Faults::default(), &mut programs);
        assert!(programs.failed.is_empty());
        programs.check(client, &world.shared.1);
        let path = Programs::path(0, true);
        assert_eq!(world.shared.1.files.remove(&path).map(|made| made.kind), Some(Kind::File));
    }
}
