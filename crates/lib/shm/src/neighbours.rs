//! The endpoints of this node: which there are, the rings to and from them, and their doorbells.

use crate::frames::Frames;
use crate::meeting::{self, Hello};
use crate::ring::{CONTROL, Damaged, LONGEST, Reader, Ring, Writer};
use gigae_link::RxFrame;
use gigae_memfd::SharedMemory;
use gigae_wire::MacAddr;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Instant;

/// By which a ring's memory is seen in `/proc/PID/fd` until it is handed over.
const NAME: &str = "gigae-shm";

/// Most neighbours each way: more than there are processes on a node. They need two descriptors each, of which
/// there are often 1,024 (`ulimit -n`): beyond, frames go by the NIC.
const MOST: usize = 1024;

/// Most addresses that are remembered as not of this node. A wire on which more are claimed makes the
/// endpoint forget, not grow.
const MOST_REMEMBERED: usize = 1 << 15;

/// Connections taken per look, so that whoever connects without end does not keep the endpoint from its work.
const AT_ONCE: usize = 16;

/// Words of a ring that is accepted: 32 KiB to 64 MiB.
const WORDS: RangeInclusive<u32> = 1 << 12..=1 << 23;

/// Frames of the longest kind that are written before the reader says that it reads: what a session begins with.
/// They go to the NIC, too, and so are repeated, and written again, while nobody reads them here.
const EARLY: usize = 64;

fn words_of(frames: usize, max_frame: usize) -> usize {
    frames.saturating_mul(1 + max_frame.min(LONGEST).div_ceil(8))
}

/// Words of a ring for so many frames of up to so many bytes besides those written early, as far as such a ring may
/// be.
pub(crate) fn words_for(frames: usize, max_frame: usize) -> u32 {
    let words = words_of(frames.saturating_add(EARLY), max_frame).min(*WORDS.end() as usize);
    let words = u32::try_from(words.next_power_of_two()).unwrap_or(u32::MAX);
    words.clamp(*WORDS.start(), *WORDS.end())
}

/// Ethernet header: what a frame has at least.
const ETHERNET: usize = 14;

/// The bit of a group's address.
const GROUP: u64 = 1 << 40;

/// An address as a number, for comparing.
#[inline]
pub(crate) fn key(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// No address.
const NONE: u64 = u64::MAX;

/// How frames get to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// By the NIC.
    Nic,
    /// By the ring of this number.
    Ring(usize),
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressState {
    /// Nobody of that address was here, or nobody for us. It is asked for again at this time, after a wait of so
    /// many seconds.
    Absent {
        again_at: u32,
        wait: u32,
    },
    Here(usize),
}

impl AddressState {
    fn absent(now: u32, wait: u32) -> Self {
        Self::Absent { again_at: now.saturating_add(wait), wait }
    }

    /// Asked for again only if it comes by itself.
    const REFUSED: Self = Self::Absent { again_at: NEVER, wait: NEVER };
}

/// Seconds between two askings at most: what one who has no other way waits for another who comes late, and
/// seldom enough that thousands of peers far away cost nothing.
const LONGEST_WAIT: u32 = 8;

const NEVER: u32 = u32::MAX;

/// Where a frame lies in a ring: which ring, and up to where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    ring: u32,
    head: u64,
}

/// A neighbour to which frames go.
struct Outgoing {
    key: u64,
    /// Of this ring and no other.
    id: u32,
    socket: OwnedFd,
    memory: SharedMemory,
    writer: Writer,
    /// Something was written since the last doorbell.
    due: bool,
}

/// A neighbour from which frames come.
struct Incoming {
    id: u32,
    socket: OwnedFd,
    memory: SharedMemory,
    reader: Reader,
    /// It is gone: what lies in the ring is the last.
    ended: bool,
    done: bool,
}

/// What happened at a descriptor that is watched.
#[derive(Clone, Copy)]
enum EventSource {
    Listener,
    /// A ring to a neighbour, by its number.
    Outgoing(u32),
    /// A ring from a neighbour, or a connection that has said nothing yet.
    Incoming(u32),
}

impl EventSource {
    fn data(self) -> epoll::EventData {
        epoll::EventData::new_u64(match self {
            Self::Listener => 0,
            Self::Outgoing(number) => 1 << 32 | u64::from(number),
            Self::Incoming(id) => 2 << 32 | u64::from(id),
        })
    }

    fn of(data: epoll::EventData) -> Self {
        let data = data.u64();
        match data >> 32 {
            1 => Self::Outgoing(data as u32),
            2 => Self::Incoming(data as u32),
            _ => Self::Listener,
        }
    }
}

/// See the module's description.
pub(crate) struct Neighbours {
    scope: String,
    /// Where the endpoint was opened: a thread that calls it from elsewhere would meet others there.
    namespace: Option<(u64, u64)>,
    /// What is said to whoever is connected to.
    hello: Hello,
    listener: OwnedFd,
    /// The listener is among the doors: not while this process has no descriptor left for who knocks.
    listens: bool,
    /// Readable while something has happened at the listener or a connection.
    pub(crate) events: OwnedFd,
    known: HashMap<u64, AddressState>,
    /// Whole seconds since it began, as of the last look.
    began: Instant,
    now: u32,
    /// The address of the last frame: most frames go where the last one went.
    last: (u64, Via),
    outgoing: Vec<Option<Outgoing>>,
    /// Of whose doorbell is to be rung.
    due: Vec<usize>,
    incoming: Vec<Incoming>,
    /// Connections that have said nothing yet.
    silent: Vec<(u32, OwnedFd)>,
    next_id: u32,
    /// With whose ring the next poll begins.
    turn: usize,
    /// A doorbell met nobody: look at the connections soon.
    pub(crate) look_soon: bool,
}

impl Neighbours {
    pub(crate) fn new(scope: String, hello: Hello, listener: OwnedFd) -> Result<Self, Errno> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&events, &listener, EventSource::Listener.data(), epoll::EventFlags::IN)?;
        Ok(Self {
            scope,
            namespace: meeting::namespace(),
            hello,
            listener,
            listens: true,
            events,
            known: HashMap::new(),
            began: Instant::now(),
            now: 0,
            last: (NONE, Via::Nic),
            outgoing: Vec::new(),
            due: Vec::new(),
            incoming: Vec::new(),
            silent: Vec::new(),
            next_id: 0,
            turn: 0,
            look_soon: false,
        })
    }

    /// How a frame gets to an address: one comparison if it is that of the frame before, else a look-up; at
    /// the first time some system calls.
    #[inline]
    pub(crate) fn via(&mut self, key: u64) -> Via {
        if key == self.last.0 { self.last.1 } else { self.look_up(key) }
    }

    #[inline(never)]
    fn look_up(&mut self, key: u64) -> Via {
        let is_nodes = key & GROUP == 0 && key != self::key(self.hello.mac.0);
        let via = match self.known.get(&key) {
            Some(&AddressState::Here(number)) => Via::Ring(number),
            Some(&AddressState::Absent { again_at, .. }) if again_at > self.now => Via::Nic,
            Some(&AddressState::Absent { wait, .. }) => self.ask(key, (2 * wait).min(LONGEST_WAIT)),
            None if is_nodes => self.ask(key, 1),
            None => Via::Nic,
        };
        self.last = (key, via);
        via
    }

    /// Looks whether somebody of an address is here, and if not, when to look again.
    fn ask(&mut self, key: u64, wait: u32) -> Via {
        if self.known.len() >= MOST_REMEMBERED {
            self.known.retain(|_, known| matches!(known, AddressState::Here(_)));
        }
        // Whatever the reason: the NIC knows a way.
        let known =
            self.connect(key).map_or(AddressState::absent(self.now, wait), AddressState::Here);
        self.known.insert(key, known);
        if let AddressState::Here(number) = known { Via::Ring(number) } else { Via::Nic }
    }

    fn connect(&mut self, key: u64) -> Result<usize, Errno> {
        if meeting::namespace() != self.namespace {
            return Err(Errno::XDEV);
        }
        let [_, _, mac @ ..] = key.to_be_bytes();
        let socket = meeting::connect(&self.scope, MacAddr(mac))?;
        let number = self.outgoing.iter().position(Option::is_none).unwrap_or(self.outgoing.len());
        if number >= MOST {
            return Err(Errno::MFILE);
        }
        let failed = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
        let words = CONTROL + self.hello.words as usize;
        let (memory, fd) = SharedMemory::create(NAME, words).map_err(failed)?;
        self.hello.send(&socket, fd)?;
        let door = EventSource::Outgoing(number as u32).data();
        epoll::add(&self.events, &socket, door, epoll::EventFlags::IN)?;
        let (id, writer) = (self.fresh_id(), Writer::default());
        let outgoing = Outgoing { key, id, socket, memory, writer, due: false };
        match self.outgoing.get_mut(number) {
            Some(place) => *place = Some(outgoing),
            None => self.outgoing.push(Some(outgoing)),
        }
        Ok(number)
    }

    /// Whether somebody reads a ring: a load.
    #[inline]
    pub(crate) fn is_welcome(&self, number: usize) -> bool {
        let outgoing = self.outgoing[number].as_ref();
        outgoing.is_some_and(|outgoing| Ring::new(outgoing.memory.words()).is_welcome())
    }

    /// Writes a frame into a ring, if there is room. One copy.
    #[inline]
    pub(crate) fn push(&mut self, number: usize, frame: &[u8]) -> Option<Written> {
        let outgoing = self.outgoing[number].as_mut()?;
        let pushed = outgoing.writer.push(&Ring::new(outgoing.memory.words()), frame);
        if !outgoing.due {
            outgoing.due = true;
            self.due.push(number);
        }
        pushed.then(|| Written { ring: outgoing.id, head: outgoing.writer.head() })
    }

    /// Whether a frame still lies in its ring and will be read.
    pub(crate) fn is_unread(&self, written: Written) -> bool {
        let of = |outgoing: &&Outgoing| outgoing.id == written.ring;
        self.outgoing.iter().flatten().find(of).is_some_and(|outgoing| {
            outgoing.writer.is_unread(&Ring::new(outgoing.memory.words()), written.head)
        })
    }

    /// The same before anybody reads there: no more than leaves room for all that may come after that.
    #[cold]
    pub(crate) fn push_early(&mut self, number: usize, frame: &[u8], max_frame: usize) {
        let words = words_of(EARLY, max_frame) as u64;
        let fits = self.outgoing[number].as_ref().is_some_and(|outgoing| {
            let ring = Ring::new(outgoing.memory.words());
            outgoing.writer.has_room_within(&ring, frame.len(), words)
        });
        if fits {
            self.push(number, frame);
        }
    }

    /// Makes all that was written visible and wakes whom it is for. How many system calls that took.
    #[inline]
    pub(crate) fn flush(&mut self) -> u64 {
        let mut calls = 0;
        while let Some(number) = self.due.pop() {
            let Some(outgoing) = &mut self.outgoing[number] else { continue };
            outgoing.due = false;
            let ring = Ring::new(outgoing.memory.words());
            if outgoing.writer.publish(&ring) {
                calls += 1;
                self.look_soon |= !ring_doorbell(&outgoing.socket);
            }
        }
        calls
    }

    /// Whether frames come from anybody this way.
    #[inline]
    pub(crate) fn sends_nobody(&self) -> bool {
        self.incoming.is_empty()
    }

    /// Whether a frame lies in some ring: a load for each.
    #[inline]
    pub(crate) fn has_arrived(&self) -> bool {
        self.incoming.iter().any(|from| from.reader.has(&Ring::new(from.memory.words())))
    }

    /// Takes up to `max` tokens' worth of frames, each ring in turn. Returns the number of frames and of those that
    /// were dropped because no such frame can be.
    pub(crate) fn receive(
        &mut self,
        (frames, max_frame): (&mut Frames, usize),
        batch: &mut Vec<RxFrame>,
        max: usize,
    ) -> (u64, u64) {
        let (before, mut count, mut dropped) = (batch.len(), 0, 0);
        if max == 0 {
            return (0, 0);
        }
        let (rings, mut done) = (self.incoming.len(), false);
        for step in 0..rings {
            if batch.len() - before >= max {
                break;
            }
            let at = (self.turn + step) % rings;
            let from = &mut self.incoming[at];
            let ring = Ring::new(from.memory.words());
            // Bounded also where all that comes is dropped.
            for _ in 0..max {
                if batch.len() - before >= max {
                    break;
                }
                let record = match from.reader.next(&ring) {
                    Ok(Some(record)) => record,
                    Ok(None) => {
                        from.done |= from.ended;
                        break;
                    }
                    Err(Damaged) => {
                        from.done = true;
                        break;
                    }
                };
                if !(ETHERNET..=max_frame).contains(&record.len) {
                    dropped += 1;
                } else if frames.hand_out((&from.reader, &ring), record, batch) {
                    count += 1;
                } else {
                    break;
                }
                from.reader.pass(record);
            }
            from.reader.release(&ring);
            done |= from.done;
        }
        self.turn = self.turn.wrapping_add(1);
        if done {
            self.incoming.retain(|from| !from.done);
        }
        (count, dropped)
    }

    /// Asks all neighbours for a doorbell from now on. Look [once more](Self::has_arrived) before
    /// sleeping.
    pub(crate) fn sleep(&self) {
        self.incoming.iter().for_each(|from| Ring::new(from.memory.words()).sleep());
    }

    /// Needs no doorbell any more.
    pub(crate) fn wake(&self) {
        self.incoming.iter().for_each(|from| Ring::new(from.memory.words()).wake());
    }

    /// Sees to what has happened at the connections: who came, who rang, who is gone. One system call if
    /// nothing has.
    #[cold]
    pub(crate) fn look(&mut self) {
        self.look_soon = false;
        let now = u32::try_from(self.began.elapsed().as_secs()).unwrap_or(NEVER - 1);
        if now != self.now {
            self.now = now;
            self.last = (NONE, Via::Nic);
            if !self.listens {
                self.listen_again();
            }
        }
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let (flags, data) = (epoll::EventFlags::empty(), EventSource::Listener.data());
        let mut events = [epoll::Event { flags, data }; 64];
        let Ok(count) = epoll::wait(&self.events, &mut events[..], Some(&none)) else { return };
        for event in &events[..count] {
            match EventSource::of(event.data) {
                EventSource::Listener => self.accept(),
                EventSource::Outgoing(number) => self.read_outgoing(number as usize),
                EventSource::Incoming(id) => self.read_incoming(id),
            }
        }
        // There may be more.
        self.look_soon |= count == events.len();
    }

    fn accept(&mut self) {
        for _ in 0..AT_ONCE {
            match meeting::accept(&self.listener) {
                Ok(Some(socket)) => self.enter(socket),
                // Another user's, or gone already.
                Ok(None) | Err(Errno::CONNABORTED) => {}
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => return self.listen_no_more(),
            }
        }
        self.look_soon = true;
    }

    /// There is no descriptor or no memory for who knocks (accept(2)): whoever sleeps would be woken without end.
    /// Who waits there is taken in a second later, if that goes then; its frames go by the NIC, too, meanwhile.
    #[cold]
    fn listen_no_more(&mut self) {
        self.listens = epoll::delete(&self.events, &self.listener).is_err();
    }

    #[cold]
    fn listen_again(&mut self) {
        let (data, flags) = (EventSource::Listener.data(), epoll::EventFlags::IN);
        self.listens = epoll::add(&self.events, &self.listener, data, flags).is_ok();
    }

    /// Takes a connection in. Beyond what there may be, it is closed: its frames go by the NIC.
    fn enter(&mut self, socket: OwnedFd) {
        if self.incoming.len() + self.silent.len() >= MOST {
            return;
        }
        let id = self.fresh_id();
        let door = EventSource::Incoming(id).data();
        if epoll::add(&self.events, &socket, door, epoll::EventFlags::IN).is_ok() {
            self.silent.push((id, socket));
            self.greet(id);
        }
    }

    fn fresh_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    /// Hears what a connection says at first. What does not belong here is closed.
    fn greet(&mut self, id: u32) {
        let Some(at) = self.silent.iter().position(|silent| silent.0 == id) else { return };
        let (hello, memory) = match meeting::greeting(&self.silent[at].1) {
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => return drop(self.silent.swap_remove(at)),
            Ok(greeting) => greeting,
        };
        let (_, socket) = self.silent.swap_remove(at);
        let Some(memory) = meeting::map(&hello, &memory, WORDS) else { return };
        if hello.filter != self.hello.filter {
            return Ring::new(memory.words()).refuse();
        }
        Ring::new(memory.words()).welcome();
        let reader = Reader::default();
        self.incoming.push(Incoming { id, socket, memory, reader, ended: false, done: false });
        // It is here: try the way back, if there was none.
        let key = key(hello.mac.0);
        if matches!(self.known.get(&key), Some(AddressState::Absent { .. })) {
            self.forget(key);
        }
    }

    fn read_incoming(&mut self, id: u32) {
        let Some(from) = self.incoming.iter_mut().find(|from| from.id == id) else {
            return self.greet(id);
        };
        if !read_doorbells(&from.socket) {
            from.ended = true;
            // It would be told again and again.
            let _ = epoll::delete(&self.events, &from.socket);
        }
    }

    fn read_outgoing(&mut self, number: usize) {
        let Some(Some(outgoing)) = self.outgoing.get(number) else { return };
        if read_doorbells(&outgoing.socket) {
            return;
        }
        let ring = Ring::new(outgoing.memory.words());
        let (key, welcome, refused) = (outgoing.key, ring.is_welcome(), ring.is_refused());
        self.outgoing[number] = None;
        self.due.retain(|&due| due != number);
        self.forget(key);
        if refused {
            self.known.insert(key, AddressState::REFUSED);
        } else if !welcome {
            self.known.insert(key, AddressState::absent(self.now, LONGEST_WAIT));
        }
    }

    /// How many addresses are known, neighbours or not.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.known.len()
    }

    /// Time passes.
    #[cfg(test)]
    pub(crate) fn pass_a_second(&mut self) {
        self.began -= std::time::Duration::from_secs(1);
    }

    /// Asks anew with the next frame to an address.
    fn forget(&mut self, key: u64) {
        self.known.remove(&key);
        self.last = (NONE, Via::Nic);
    }
}

/// Wakes whoever sleeps at the other end. False if nobody is there. A connection that is full of doorbells needs no
/// further one.
#[cold]
fn ring_doorbell(socket: &OwnedFd) -> bool {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    matches!(
        rustix::net::send(socket.as_fd(), &[1], flags),
        Ok(_) | Err(Errno::AGAIN | Errno::INTR)
    )
}

/// Takes in the doorbells of a connection. False if the other end is gone.
fn read_doorbells(socket: &OwnedFd) -> bool {
    let mut byte = [0; 8];
    for _ in 0..AT_ONCE {
        match rustix::net::recv(socket, &mut byte, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return false,
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Err(_) => return false,
        }
    }
    true
}
