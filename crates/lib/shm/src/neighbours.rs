//! The endpoints of this node: which there are, the rings to and from them, and their doorbells.

mod arriving;
mod region_use;

use crate::frames::Frames;
use crate::lender::Lender;
use crate::regions::{NeighbourRegions, OwnRegions, Permits};
use crate::rendezvous::{self, RingHello};
use crate::ring::{CONTROL, CorruptRing, LONGEST, Reader, Ring, Writer};
use gigae_link::RxFrame;
use gigae_memfd::SharedMemory;
use gigae_wire::MacAddr;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Instant;
use tracing::{debug, trace};

/// The name of a ring's memory in `/proc/PID/fd` until it is passed on.
const NAME: &str = "gigae-shm";

/// Most neighbours in each direction: more than there are processes on a node. Each needs two
/// descriptors, of which a process often has 1,024 (`ulimit -n`). Frames of further neighbours go
/// by the NIC.
const MOST: usize = 1024;

/// Most addresses that are remembered as not of this node. With more, the endpoint forgets
/// addresses instead of growing.
const MOST_REMEMBERED: usize = 1 << 15;

/// Connections accepted per look, so a process that connects without end does not keep the endpoint
/// from its work.
const AT_ONCE: usize = 16;

/// Allowed words of a neighbour's ring: 32 KiB to 64 MiB.
const WORDS: RangeInclusive<u32> = 1 << 12..=1 << 23;

/// Longest frames that are written before the reader says that it reads: the first window of a
/// session. They also go to the NIC. So they are repeated, and written again, while the neighbour
/// does not read.
const EARLY: usize = 64;

/// The address of a key.
fn mac(key: u64) -> MacAddr {
    let [_, _, mac @ ..] = key.to_be_bytes();
    MacAddr(mac)
}

fn words_of(frames: usize, max_frame: usize) -> usize {
    frames.saturating_mul(1 + max_frame.min(LONGEST).div_ceil(8))
}

/// Words of a ring for `frames` frames of `max_frame` bytes, besides the early ones, within the
/// allowed size.
pub(crate) fn words_for(frames: usize, max_frame: usize) -> u32 {
    let words = words_of(frames.saturating_add(EARLY), max_frame).min(*WORDS.end() as usize);
    let words = u32::try_from(words.next_power_of_two()).unwrap_or(u32::MAX);
    words.clamp(*WORDS.start(), *WORDS.end())
}

/// Ethernet header, the least that a frame has.
const ETHERNET: usize = 14;

/// The bit that marks a group address.
const GROUP: u64 = 1 << 40;

/// An address as a number, for comparing.
#[inline]
pub(crate) fn key(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// No address.
const NONE: u64 = u64::MAX;

/// How frames reach an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// By the NIC.
    Nic,
    /// By the ring of this number.
    Ring(usize),
}

/// What is known about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressState {
    /// No endpoint of that address was here, or none that takes our frames. Try again at this time,
    /// after a wait of this many seconds.
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

    /// Not tried again unless the endpoint connects by itself.
    const REFUSED: Self = Self::Absent { again_at: NEVER, wait: NEVER };
}

/// Most seconds between two attempts. Short enough for an endpoint that has no other path and waits
/// for one that starts late; long enough that thousands of remote peers cost nothing.
const LONGEST_WAIT: u32 = 8;

const NEVER: u32 = u32::MAX;

/// Where a frame lies in a ring: which ring, and up to where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingPosition {
    ring: u32,
    head: u64,
}

/// A neighbour to which frames go.
struct OutgoingRing {
    key: u64,
    /// Unique to this ring.
    id: u32,
    socket: OwnedFd,
    memory: SharedMemory,
    writer: Writer,
    /// Something was written since the last doorbell.
    due: bool,
    /// Its registered memories.
    regions: NeighbourRegions,
}

/// A neighbour from which frames come.
struct IncomingRing {
    key: u64,
    id: u32,
    /// Its process, if its memory can be read.
    lender: Option<Lender>,
    socket: OwnedFd,
    memory: SharedMemory,
    reader: Reader,
    /// Registered memories of this endpoint that it may use.
    permits: Option<Box<Permits>>,
    /// The neighbour is gone: nothing comes after what is in the ring.
    ended: bool,
    done: bool,
}

/// What a watched descriptor belongs to.
#[derive(Clone, Copy)]
enum EventSource {
    Listener,
    /// A ring to a neighbour, by its number.
    Outgoing(u32),
    /// A ring from a neighbour, or a connection without a hello so far.
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
    /// Where the endpoint was opened, and where names are looked up.
    namespace: Option<(u64, u64)>,
    /// The hello that is sent to every endpoint that we connect to.
    pub(crate) hello: RingHello,
    listener: OwnedFd,
    /// The listener is watched. Not while there is no memory for new connections, nor a spare
    /// descriptor.
    listens: bool,
    /// For the connection that comes when this process has no other descriptor left.
    spare: Option<OwnedFd>,
    /// Readable while something has happened at the listener or a connection.
    pub(crate) events: OwnedFd,
    known: HashMap<u64, AddressState>,
    /// When it began, and whole seconds since then at the last look.
    began: Instant,
    now: u32,
    /// The address of the last frame. Most frames go where the last one went.
    last_key: u64,
    /// How it went.
    last_via: Via,
    outgoing: Vec<Option<OutgoingRing>>,
    /// Rings whose reader may need a doorbell.
    due: Vec<usize>,
    incoming: Vec<IncomingRing>,
    /// Connections without a hello so far.
    silent: Vec<(u32, OwnedFd)>,
    /// Registered memories that neighbours may use.
    own_regions: OwnRegions,
    next_id: u32,
    /// The ring with which the next poll begins.
    turn: usize,
    /// A doorbell found no reader: look at the connections soon.
    pub(crate) look_soon: bool,
}

impl Neighbours {
    pub(crate) fn new(scope: String, hello: RingHello, listener: OwnedFd) -> Result<Self, Errno> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&events, &listener, EventSource::Listener.data(), epoll::EventFlags::IN)?;
        Ok(Self {
            scope,
            namespace: rendezvous::namespace(),
            hello,
            listener,
            listens: true,
            spare: reserve(&events),
            events,
            known: HashMap::new(),
            began: Instant::now(),
            now: 0,
            last_key: NONE,
            last_via: Via::Nic,
            outgoing: Vec::new(),
            due: Vec::new(),
            incoming: Vec::new(),
            silent: Vec::new(),
            own_regions: OwnRegions::default(),
            next_id: 0,
            turn: 0,
            look_soon: false,
        })
    }

    /// How a frame reaches an address. One comparison if the address is that of the last frame,
    /// else a look-up; the first time, some system calls.
    #[inline]
    pub(crate) fn via(&mut self, key: u64) -> Via {
        if key == self.last_key { self.last_via } else { self.look_up(key) }
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
        (self.last_key, self.last_via) = (key, via);
        via
    }

    /// Looks for an endpoint with an address here. If it finds none, sets when to look again.
    fn ask(&mut self, key: u64, wait: u32) -> Via {
        if self.known.len() >= MOST_REMEMBERED {
            self.known.retain(|_, known| matches!(known, AddressState::Here(_)));
        }
        // For any error: the NIC has a path.
        let connected = self.connect(key);
        if let Err(why) = connected {
            trace!(peer = %mac(key), %why, "no endpoint of this node: frames take the wire");
        }
        let known = connected.map_or(AddressState::absent(self.now, wait), AddressState::Here);
        self.known.insert(key, known);
        if let AddressState::Here(number) = known { Via::Ring(number) } else { Via::Nic }
    }

    fn connect(&mut self, key: u64) -> Result<usize, Errno> {
        let peer = mac(key);
        let connect = || rendezvous::connect(&self.scope, peer);
        let socket = match rendezvous::namespace() == self.namespace {
            true => connect()?,
            // The progress thread of a process with endpoints in several namespaces.
            false => rendezvous::in_namespace_of(&self.listener, connect)?,
        };
        let number = self.outgoing.iter().position(Option::is_none).unwrap_or(self.outgoing.len());
        if number >= MOST {
            return Err(Errno::MFILE);
        }
        let failed = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
        let words = CONTROL + self.hello.words as usize;
        let (memory, fd) = SharedMemory::create(NAME, words).map_err(failed)?;
        let ring_at = memory.words().as_ptr().expose_provenance() as u64;
        RingHello { ring_at, ..self.hello.clone() }.send(&socket, fd)?;
        let door = EventSource::Outgoing(number as u32).data();
        epoll::add(&self.events, &socket, door, epoll::EventFlags::IN)?;
        let (id, writer) = (self.fresh_id(), Writer::default());
        let regions = NeighbourRegions::default();
        let outgoing = OutgoingRing { key, id, socket, memory, writer, due: false, regions };
        debug!(%peer, "a ring is offered to an endpoint of this node");
        match self.outgoing.get_mut(number) {
            Some(place) => *place = Some(outgoing),
            None => self.outgoing.push(Some(outgoing)),
        }
        Ok(number)
    }

    /// Whether the neighbour reads a ring. One load.
    #[inline]
    pub(crate) fn is_welcome(&self, number: usize) -> bool {
        let outgoing = self.outgoing[number].as_ref();
        outgoing.is_some_and(|outgoing| Ring::new(outgoing.memory.words()).is_welcome())
    }

    /// Whether the reader of a ring reads this process's memory, too. One load.
    pub(crate) fn lends_to(&self, number: usize) -> bool {
        let outgoing = self.outgoing[number].as_ref();
        outgoing.is_some_and(|outgoing| Ring::new(outgoing.memory.words()).is_lender())
    }

    /// Copies bytes from an address of a neighbour's process. False if that is not possible.
    pub(crate) fn read_from(&self, key: u64, at: u64, into: &mut [u8]) -> bool {
        // The newest: another process may have had the address before.
        let from = self.incoming.iter().rfind(|from| from.key == key && !from.ended);
        let lender = from.and_then(|from| from.lender.as_ref());
        lender.is_some_and(|lender| lender.read(at, into))
    }

    /// Writes a frame into a ring, if there is room. One copy.
    #[inline]
    pub(crate) fn push(&mut self, number: usize, frame: &[u8]) -> Option<RingPosition> {
        let outgoing = self.outgoing[number].as_mut()?;
        let pushed = outgoing.writer.push(&Ring::new(outgoing.memory.words()), frame);
        if !outgoing.due {
            outgoing.due = true;
            self.due.push(number);
        }
        pushed.then(|| RingPosition { ring: outgoing.id, head: outgoing.writer.head() })
    }

    /// Whether a frame still lies in its ring and will be read.
    pub(crate) fn is_unread(&self, written: RingPosition) -> bool {
        let of = |outgoing: &&OutgoingRing| outgoing.id == written.ring;
        self.outgoing.iter().flatten().find(of).is_some_and(|outgoing| {
            outgoing.writer.is_unread(&Ring::new(outgoing.memory.words()), written.head)
        })
    }

    /// The same before the neighbour reads: leaves room for everything that may come after that.
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

    /// Makes everything that was written visible and wakes the readers. Returns the number of
    /// system calls.
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

    /// Whether any ring comes in.
    #[inline]
    pub(crate) fn sends_nobody(&self) -> bool {
        self.incoming.is_empty()
    }

    /// Whether any ring has a frame: one load each.
    #[inline]
    pub(crate) fn has_arrived(&self) -> bool {
        self.incoming.iter().any(|from| from.reader.has(&Ring::new(from.memory.words())))
    }

    /// Takes frames, up to `max` tokens, each ring in turn. Returns the number of frames, and of
    /// those that were dropped because they were invalid.
    pub(crate) fn receive(
        &mut self,
        frames: &mut Frames,
        max_frame: usize,
        batch: &mut Vec<RxFrame>,
        max: usize,
    ) -> (u64, u64) {
        if max == 0 {
            return (0, 0);
        }
        let rings = self.incoming.len();
        let (before, mut count, mut dropped, mut done) = (batch.len(), 0, 0, false);
        // A division takes longer than all else where there is one ring.
        let first = if rings > 1 { self.turn % rings } else { 0 };
        self.turn = self.turn.wrapping_add(1);
        for at in (first..rings).chain(0..first) {
            let from = &mut self.incoming[at];
            let ring = Ring::new(from.memory.words());
            // Bounded also if every frame is dropped.
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
                    Err(CorruptRing) => {
                        from.done = true;
                        break;
                    }
                };
                if !(ETHERNET..=max_frame).contains(&record.len) {
                    dropped += 1;
                } else if frames.hand_out(&from.reader, &ring, record, batch) {
                    count += 1;
                } else {
                    break;
                }
                from.reader.pass(record);
            }
            from.reader.release(&ring);
            done |= from.done;
        }
        if done {
            self.let_go();
        }
        (count, dropped)
    }

    /// Closes the connections of neighbours from which nothing more comes.
    #[cold]
    fn let_go(&mut self) {
        for mut from in self.incoming.extract_if(.., |from| from.done) {
            Self::settle(&mut from, &mut self.own_regions);
            close(&self.events, from.socket);
        }
    }

    /// Asks all neighbours for doorbells from now on. Look [once more](Self::has_arrived) before
    /// sleeping.
    pub(crate) fn sleep(&self) {
        self.incoming.iter().for_each(|from| Ring::new(from.memory.words()).sleep());
    }

    /// Doorbells are not needed any more.
    pub(crate) fn wake(&self) {
        self.incoming.iter().for_each(|from| Ring::new(from.memory.words()).wake());
    }

    /// Handles events at the connections: new ones, doorbells, ends. One system call if nothing has
    /// happened.
    #[cold]
    pub(crate) fn look(&mut self) {
        self.look_soon = false;
        let now = u32::try_from(self.began.elapsed().as_secs()).unwrap_or(NEVER - 1);
        if now != self.now {
            self.now = now;
            (self.last_key, self.last_via) = (NONE, Via::Nic);
            self.clean_regions();
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

    fn fresh_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    fn read_incoming(&mut self, id: u32) {
        let Some(at) = self.incoming.iter().position(|from| from.id == id) else {
            return self.greet(id);
        };
        if !self.read_asks(at) {
            let from = &mut self.incoming[at];
            from.ended = true;
            unwatch(&self.events, &from.socket);
        }
    }

    fn read_outgoing(&mut self, number: usize) {
        let Some(place) = self.outgoing.get_mut(number) else { return };
        let Some(outgoing) = place.take_if(|outgoing| !Self::read_permits(outgoing)) else {
            return;
        };
        let ring = Ring::new(outgoing.memory.words());
        let (key, welcome, refused) = (outgoing.key, ring.is_welcome(), ring.is_refused());
        debug!(peer = %mac(key), welcome, refused, "no more frames through memory to an endpoint of this node");
        close(&self.events, outgoing.socket);
        self.due.retain(|&due| due != number);
        self.forget(key);
        if refused {
            self.known.insert(key, AddressState::REFUSED);
        } else if !welcome {
            self.known.insert(key, AddressState::absent(self.now, LONGEST_WAIT));
        }
    }

    /// All connections.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> impl Iterator<Item = &OwnedFd> {
        let outgoing = self.outgoing.iter().flatten().map(|to| &to.socket);
        let incoming = self.incoming.iter().map(|from| &from.socket);
        outgoing.chain(incoming).chain(self.silent.iter().map(|(_, socket)| socket))
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

    /// The next frame to an address looks again.
    fn forget(&mut self, key: u64) {
        self.known.remove(&key);
        (self.last_key, self.last_via) = (NONE, Via::Nic);
    }
}

/// A duplicate that only keeps a descriptor in reserve.
fn reserve(of: &OwnedFd) -> Option<OwnedFd> {
    of.try_clone().ok()
}

/// Ends the watch of a connection. Otherwise epoll reports its end again and again, even after it
/// was closed if a forked child has a copy of it.
#[cold]
fn unwatch(events: &OwnedFd, socket: &OwnedFd) {
    let _ = epoll::delete(events, socket);
}

/// Closes a connection that may be watched.
#[cold]
fn close(events: &OwnedFd, socket: OwnedFd) {
    unwatch(events, &socket);
}

/// Wakes the reader at the other end. False if the process there is gone. A connection full of
/// doorbells needs no further one.
#[cold]
fn ring_doorbell(socket: &OwnedFd) -> bool {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    matches!(
        rustix::net::send(socket.as_fd(), &[1], flags),
        Ok(_) | Err(Errno::AGAIN | Errno::INTR)
    )
}
