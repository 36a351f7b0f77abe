//! The loop of the forwarder: a switch whose frames leave a fixed time after they came.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::addresses::{Addresses, Mac, Route};
use super::held::{HeldFrames, LONGEST};
use super::socket::{PortSocket, Unsent, VNET_HEADER};
use super::{DelayCounters, KEEP};

/// Frames that are taken from a port before due frames are sent and other ports have their turn.
const BATCH: usize = 16;

/// How often the counters are written while frames wait, and the sockets' losses are read.
const WRITE_EVERY: Duration = Duration::from_millis(10);

/// The kernel ends a sleep late, by about as much as the last ones. So much earlier this asks for
/// the end, this at most, and then looks at the clock until the time has come.
const MOST_EARLY: Duration = Duration::from_micros(60);

/// Bytes of two addresses and a type.
const ETHERNET_HEADER: usize = 14;

/// A port of the switch.
pub(super) struct Port {
    pub(super) socket: PortSocket,
    pub(super) network: u16,
    /// The address of the node behind it.
    pub(super) mac: Mac,
}

/// The switch.
pub(super) struct Forwarder<'a> {
    delay: Duration,
    ports: &'a [Port],
    addresses: Addresses,
    frames: HeldFrames,
    counters: DelayCounters,
    /// How late the kernel ends a sleep, on average over the last ones.
    oversleep: Duration,
    /// Whether frames came since the sockets' losses were read, and when that was.
    came: bool,
    read: Instant,
    /// Where the counters are written, what they were, and when.
    to: File,
    written: (DelayCounters, Instant),
}

impl<'a> Forwarder<'a> {
    pub(super) fn new(delay: Duration, limit: usize, ports: &'a [Port], to: File) -> Self {
        let mut addresses = Addresses::default();
        for (number, port) in ports.iter().enumerate() {
            addresses.learn(port.network, port.mac, number);
        }
        let (counters, now) = (DelayCounters::default(), Instant::now());
        let frames = HeldFrames::new(limit);
        let (oversleep, came, read, written) = (Duration::ZERO, false, now, (counters, now));
        Self { delay, ports, addresses, frames, counters, oversleep, came, read, to, written }
    }

    /// Forwards until the other end of `control` is closed without having said that this is to go
    /// on.
    pub(super) fn run(mut self, control: &OwnedFd) {
        let mut kept = false;
        let sockets = self.ports.iter().map(|port| port.socket.as_fd());
        let watched = sockets.chain([control.as_fd()]);
        let mut watched: Vec<PollFd<'_>> =
            watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        loop {
            self.send_due();
            self.write_counters();
            let due = self.frames.due();
            let begin = Instant::now();
            let asked = due.map(|due| {
                due.saturating_duration_since(begin).saturating_sub(self.oversleep.min(MOST_EARLY))
            });
            let read = self.came.then(|| WRITE_EVERY.saturating_sub(self.read.elapsed()));
            let timeout = asked.into_iter().chain(read).min();
            let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
            // A closed end is always ready, so it is not watched any longer.
            let count = watched.len() - usize::from(kept);
            if poll(&mut watched[..count], timeout.as_ref()).unwrap_or(0) == 0 {
                if let Some(asked) = asked.filter(|asked| read.is_none_or(|read| *asked < read)) {
                    self.learn_oversleep(asked, begin.elapsed());
                }
                continue;
            }
            for (number, port) in watched[..self.ports.len()].iter().enumerate() {
                if !port.revents().is_empty() {
                    self.receive(number);
                    self.send_due();
                }
            }
            if !kept && !watched[count - 1].revents().is_empty() {
                let mut word = [0];
                match rustix::io::read(control, &mut word) {
                    Ok(1) if word == KEEP => kept = true,
                    _ => return,
                }
            }
        }
    }

    /// Takes note of how long a sleep was. One that was not asked for says nothing.
    fn learn_oversleep(&mut self, asked: Duration, took: Duration) {
        if asked > Duration::ZERO {
            let late = took.saturating_sub(asked).min(2 * MOST_EARLY);
            self.oversleep = (self.oversleep * 7 + late) / 8;
        }
    }

    /// Takes frames from a port.
    fn receive(&mut self, number: usize) {
        let Port { socket, network, .. } = &self.ports[number];
        self.came = true;
        for _ in 0..BATCH {
            let room = self.frames.room();
            let Some(length) = socket.receive(room) else { return };
            if length < VNET_HEADER + ETHERNET_HEADER {
                continue;
            }
            if length > LONGEST {
                self.counters.dropped += 1;
                continue;
            }
            let from = mac(&room[VNET_HEADER + 6..]);
            self.addresses.learn(*network, from, number);
            // The clock is read after the frame came: it is never early.
            if !self.frames.push(length, number, Instant::now() + self.delay) {
                self.counters.dropped += 1;
            }
        }
    }

    /// Sends the frames whose time has come.
    fn send_due(&mut self) {
        while let Some(due) = self.frames.due() {
            let Some(late) = Instant::now().checked_duration_since(due) else { return };
            if let Some((from, frame)) = self.frames.first() {
                let network = self.ports[from].network;
                let counters = &mut self.counters;
                let mut send = |to: &Port| match to.socket.send(frame) {
                    Err(Unsent::Full) => counters.dropped += 1,
                    Err(Unsent::Failed) => counters.failed += 1,
                    // The port counts what it drops.
                    Ok(()) | Err(Unsent::Dropped) => {}
                };
                match self.addresses.route(network, mac(&frame[VNET_HEADER..])) {
                    Route::Port(to) if to == from => {}
                    Route::Port(to) => send(&self.ports[to]),
                    Route::Flood => {
                        let all = self.ports.iter().enumerate();
                        all.filter(|(to, port)| port.network == network && *to != from)
                            .for_each(|(_, to)| send(to));
                    }
                }
            }
            self.frames.pop();
            self.counters.frames += 1;
            self.counters.late_ns += u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        }
    }

    /// Writes the counters when there is time, and now and then when there is not.
    fn write_counters(&mut self) {
        if self.came && self.read.elapsed() >= WRITE_EVERY {
            (self.came, self.read) = (false, Instant::now());
            let lost = self.ports.iter().map(|port| port.socket.overflows());
            self.counters.dropped += lost.sum::<u64>();
        }
        let (written, at) = self.written;
        if self.frames.due().is_some() && at.elapsed() < WRITE_EVERY {
            return;
        }
        self.counters.peak = self.frames.peak() as u64;
        if self.counters != written {
            // A reader that misses them sees the next ones.
            let _ = self.to.write_at(&self.counters.to_bytes(), 0);
        }
        self.written = (self.counters, Instant::now());
    }
}

fn mac(bytes: &[u8]) -> Mac {
    let mut mac = [0; 6];
    mac.copy_from_slice(&bytes[..6]);
    mac
}
