//! The observer's side: finds endpoints, reads their statistics and frames.

use crate::description::Foreign;
use crate::layout::*;
use crate::memory::{EndpointMemory, NAME};
use crate::{CaptureRecord, EndpointDescription, Statistics};
use gigae_host::proc;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{fs, io};

/// How often to look for statistics that are being written at every look, and how long to wait
/// between: longer than the kernel usually keeps a thread off its processor.
const LOOKS: u32 = 40;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// How long an observer counts as looking after it said so. A killed one then costs an endpoint
/// nothing.
const LOOK: Duration = Duration::from_secs(1);

/// The same for frames. A busy machine usually keeps a process off its CPU for less.
const LOOK_FOR_FRAMES: Duration = Duration::from_secs(2);

/// Now, in nanoseconds of the monotonic clock, which endpoints use.
pub fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// The result of the search for endpoints.
#[derive(Debug, Default)]
pub struct FoundEndpoints {
    /// The endpoints that can be observed, by process.
    pub endpoints: Vec<ObservedEndpoint>,
    /// Processes that this one may not inspect.
    pub denied: usize,
    /// Processes with an endpoint of another release.
    pub foreign: Vec<u32>,
}

/// An endpoint of a process.
#[derive(Debug)]
pub struct ObservedEndpoint {
    /// The process.
    pub pid: u32,
    /// Its command.
    pub command: String,
    /// Its description.
    pub about: EndpointDescription,
    /// Distinguishes it from all other endpoints of this machine while it exists.
    pub key: u64,
    path: PathBuf,
    memory: EndpointMemory,
}

/// What an endpoint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Its program uses it, as far as the endpoint knows.
    Used,
    /// It sleeps until a frame comes.
    Asleep,
    /// It is closed.
    Closed,
}

/// Searches all processes, or one, for endpoints. It may miss one that is just being opened. Reads
/// every process's list of descriptors: some milliseconds with hundreds of processes.
pub fn find(pid: Option<u32>) -> io::Result<FoundEndpoints> {
    let mut found = FoundEndpoints::default();
    let mut seen = HashSet::new();
    let mut pids: Vec<u32> = match pid {
        Some(pid) => vec![pid],
        None => fs::read_dir("/proc")?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect(),
    };
    pids.sort_unstable();
    for pid in pids {
        let descriptors = match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(descriptors) => descriptors,
            Err(error) => {
                found.denied += usize::from(error.kind() == io::ErrorKind::PermissionDenied);
                continue;
            }
        };
        for path in descriptors.filter_map(|entry| Some(entry.ok()?.path())) {
            if is_ours(&path) {
                look(pid, path, &mut seen, &mut found);
            }
        }
    }
    found.endpoints.sort_by_key(|endpoint| (endpoint.pid, endpoint.about.opened));
    Ok(found)
}

/// Whether a descriptor has the name of an endpoint's memory (proc_pid_fd(5)).
fn is_ours(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|to| to.to_str() == Some(&format!("/memfd:{NAME} (deleted)")))
}

/// Adds an endpoint, if this is one: a process may give any file this name, and may be gone by now.
fn look(pid: u32, path: PathBuf, seen: &mut HashSet<u64>, found: &mut FoundEndpoints) {
    let memory = user(pid).and_then(|user| EndpointMemory::open(&path, user));
    let Ok(memory) = memory else { return };
    // A process that forked has it twice.
    let Ok(key) = rustix::fs::fstat(&memory.fd).map(|stat| stat.st_ino) else { return };
    match EndpointDescription::read(memory.words()) {
        Ok(about) if memory.words()[AT_STATE].load(Ordering::Relaxed) != CLOSED => {
            if seen.insert(key) {
                let command = command(pid);
                found.endpoints.push(ObservedEndpoint { pid, command, about, key, path, memory });
            }
        }
        Err(Foreign::Version(_)) => found.foreign.push(pid),
        Ok(_) | Err(Foreign::NoEndpoint) => {}
    }
}

/// The user with whose rights a process makes files: the last number of this line
/// (proc_pid_status(5)). The owner of `/proc/PID` is root if a process gave up rights.
fn user(pid: u32) -> io::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let ids = proc::value(&status, "Uid");
    let user = ids.and_then(|ids| ids.split_whitespace().next_back()?.parse().ok());
    user.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The command of a process, without characters that could do harm on a terminal.
fn command(pid: u32) -> String {
    let name = proc::process::command(pid);
    name.trim().chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect()
}

impl ObservedEndpoint {
    /// Says that an observer looks for the next second. The endpoint then writes statistics ten
    /// times a second while its program uses it.
    pub fn look(&self) {
        self.look_until(now() + LOOK.as_nanos() as u64);
    }

    fn look_until(&self, until: u64) {
        self.memory.words()[AT_UNTIL].fetch_max(until, Ordering::Relaxed);
    }

    /// The statistics that it wrote last; `None` if none can be read. Waits at most 200 ms for a
    /// writer that is off its processor.
    pub fn statistics(&self) -> Option<Statistics> {
        let names = self.about.names.each_ref().map(Vec::len);
        let words = &self.memory.words()[AT_STATISTICS..][..STATISTICS_WORDS];
        (0..LOOKS).find_map(|look| {
            if look > 0 {
                std::thread::sleep(BETWEEN_LOOKS);
            }
            Statistics::read(words, self.about.links.len(), names)
        })
    }

    /// Its memory, below `/proc`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it does.
    pub fn activity(&self) -> Activity {
        match self.memory.words()[AT_STATE].load(Ordering::Relaxed) {
            CLOSED => Activity::Closed,
            _ if !is_ours(&self.path) => Activity::Closed,
            ASLEEP => Activity::Asleep,
            _ => Activity::Used,
        }
    }

    /// Begins to capture its frames, the first `snaplen` bytes of each. Only one observer at a time
    /// can.
    pub fn capture(self, snaplen: usize) -> Result<Capture, CaptureError> {
        let Self { memory, .. } = &self;
        // The lock belongs to this opening of the file, and the kernel ends it with that.
        match flock(&memory.fd, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(CaptureError::Busy(self.pid)),
            other => other.map_err(|e| CaptureError::Io(e.into()))?,
        }
        // Allocates all memory now, so the endpoint cannot run out of it in the middle of a frame.
        fallocate(&memory.fd, FallocateFlags::empty(), AT_RING as u64 * 8, RING_WORDS as u64 * 8)
            .map_err(|e| CaptureError::Io(e.into()))?;
        let tail = memory.ring().skip();
        memory.words()[AT_SNAPLEN].store(snaplen as u64, Ordering::Relaxed);
        let dropped = memory.words()[AT_DROPPED].load(Ordering::Relaxed);
        let dropped_before = dropped as u32;
        let mut capture =
            Capture { endpoint: self, tail, dropped, dropped_before, until: u64::MAX, damaged: 0 };
        capture.look();
        Ok(capture)
    }
}

/// The frames of an endpoint. Dropping it ends the capture and frees the ring's memory.
#[derive(Debug)]
pub struct Capture {
    /// The endpoint that is captured.
    pub endpoint: ObservedEndpoint,
    tail: u64,
    dropped: u64,
    dropped_before: u32,
    /// Until when the endpoint captures.
    until: u64,
    /// How often the ring held something that no endpoint writes.
    pub damaged: u64,
}

impl Capture {
    /// Asks for frames for the next two seconds. False if this call came too late after the last
    /// one, because the machine was busy: frames in between may be missing without being counted.
    pub fn look(&mut self) -> bool {
        let now = now();
        let in_time = now < self.until;
        self.until = now + LOOK_FOR_FRAMES.as_nanos() as u64;
        // Release: the ring is ready.
        let words = self.endpoint.memory.words();
        words[AT_CAPTURE_UNTIL].store(self.until, Ordering::Release);
        self.endpoint.look_until(self.until);
        in_time
    }

    /// The next frame, its bytes into `bytes`.
    pub fn next(&mut self, bytes: &mut Vec<u8>) -> Option<CaptureRecord> {
        match self.endpoint.memory.ring().pop(&mut self.tail, bytes) {
            Ok(record) => {
                let mut record = record?;
                // The ring has the sum.
                let sum = record.dropped;
                record.dropped = sum.wrapping_sub(std::mem::replace(&mut self.dropped_before, sum));
                Some(record)
            }
            Err(_) => {
                self.damaged += 1;
                None
            }
        }
    }

    /// Frames that found no room in the ring since the capture began.
    pub fn dropped(&self) -> u64 {
        let words = self.endpoint.memory.words();
        words[AT_DROPPED].load(Ordering::Relaxed).wrapping_sub(self.dropped)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let memory = &self.endpoint.memory;
        memory.words()[AT_CAPTURE_UNTIL].store(0, Ordering::Relaxed);
        // What the endpoint still writes goes to new pages, which no process reads.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(&memory.fd, flags, AT_RING as u64 * 8, RING_WORDS as u64 * 8);
    }
}

/// Why frames cannot be captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// This process already captures them.
    #[error("the frames of process {0} are being captured already; end that capture first")]
    Busy(u32),
    /// The kernel refused something.
    #[error("memory for captured frames: {0}; free some")]
    Io(io::Error),
}
