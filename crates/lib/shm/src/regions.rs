//! Registered memory that neighbours use without its owner: what an endpoint keeps as the owner,
//! for all neighbours and for each, and what it keeps of a neighbour's memory.

use crate::access_words::{AccessCounts, AccessWords, SLOTS, WORDS};
use crate::buffer::SharedBuffer;
use crate::region_messages::{Ask, DirectRights, Permit};
use gigae_memfd::SharedMemory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::{PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::time::Duration;

/// The name of a page of access words in `/proc/PID/fd` until it is passed on.
const NAME: &str = "gigae-access";

/// Seconds until a neighbour is asked again for a region that it did not permit.
const ASK_AGAIN: u32 = 8;

/// Most regions of a neighbour that are remembered as not permitted.
const MOST_REMEMBERED: usize = 4 * SLOTS;

/// While a neighbour is inside a region: looks without a pause, and the pauses between the others.
const LOOKS: u32 = 1000;
const PAUSE: Duration = Duration::from_micros(50);

/// The registered memories of this endpoint that neighbours may use.
#[derive(Default)]
pub(crate) struct OwnRegions {
    by_key: HashMap<u64, OwnRegion>,
    /// Counts of permits that have ended.
    ended: AccessCounts,
}

struct OwnRegion {
    buffer: SharedBuffer,
    rights: DirectRights,
    /// Counts of permits that have ended.
    ended: AccessCounts,
}

impl OwnRegions {
    pub(crate) fn insert(&mut self, key: u64, buffer: SharedBuffer, rights: DirectRights) {
        let ended = AccessCounts::default();
        self.by_key.insert(key, OwnRegion { buffer, rights, ended });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(crate) fn has(&self, key: u64) -> bool {
        self.by_key.contains_key(&key)
    }

    /// No neighbour gets it any more. Those that have it keep it until it is revoked.
    pub(crate) fn remove(&mut self, key: u64) -> Option<AccessCounts> {
        Some(self.by_key.remove(&key)?.ended)
    }

    /// Counts of permits that have ended: of one region, if it is here, or of all so far.
    pub(crate) fn ended(&self, key: Option<u64>) -> AccessCounts {
        match key {
            None => self.ended,
            Some(key) => self.by_key.get(&key).map_or(AccessCounts::default(), |it| it.ended),
        }
    }

    fn end(&mut self, key: u64, counts: AccessCounts) {
        self.ended.add(counts);
        if let Some(region) = self.by_key.get_mut(&key) {
            region.ended.add(counts);
        }
    }
}

/// The regions that one neighbour may use.
pub(crate) struct Permits {
    page: SharedMemory,
    slots: [Option<Granted>; SLOTS],
    /// The number of the last permit.
    last: u64,
}

#[derive(Clone, Copy)]
struct Granted {
    region: u64,
    number: u64,
    /// What the neighbour had counted in this slot before.
    before: AccessCounts,
}

impl Permits {
    /// With the page that a neighbour has made.
    pub(crate) fn new(page: OwnedFd) -> std::io::Result<Self> {
        Ok(Self { page: SharedMemory::map(page, WORDS)?, slots: [None; SLOTS], last: 0 })
    }

    fn words(&self) -> AccessWords<'_> {
        AccessWords::new(self.page.words())
    }

    /// Permits the use of a region, if it is here, and says so to the neighbour. Otherwise the
    /// neighbour gets no answer.
    pub(crate) fn grant(
        &mut self,
        own: &OwnRegions,
        region: u64,
        socket: &OwnedFd,
    ) -> Result<(), Errno> {
        let Some(OwnRegion { buffer, rights, .. }) = own.by_key.get(&region) else {
            return Ok(());
        };
        let is = |slot: &Option<Granted>| slot.is_some_and(|granted| granted.region == region);
        let slot = self.slots.iter().position(is);
        let Some(slot) = slot.or_else(|| self.slots.iter().position(Option::is_none)) else {
            return Ok(());
        };
        let number = match self.slots[slot] {
            Some(granted) => granted.number,
            None => {
                self.last += 1;
                let (number, before) = (self.last, self.words().counts(slot));
                self.words().permit(slot, number);
                self.slots[slot] = Some(Granted { region, number, before });
                number
            }
        };
        let (start, words) = buffer.place();
        let (len, rights) = (buffer.len(), *rights);
        let permit = Permit { region, slot, number, start, len, words, rights };
        if rights.write {
            return permit.send(socket, buffer.fd());
        }
        let path = format!("/proc/self/fd/{}", buffer.fd().as_raw_fd());
        let to_read = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        permit.send(socket, to_read.as_fd())
    }

    /// Takes the permits for a region, or for all, away. [`wait`](Self::wait) afterwards.
    pub(crate) fn revoke(&self, region: Option<u64>) {
        self.granted(region).for_each(|(slot, _)| self.words().revoke(slot));
    }

    /// Waits until the neighbour at the other end of the socket is inside none of the regions whose
    /// permits were revoked, or is gone, and counts what it did. As long as the neighbour is
    /// stopped inside.
    pub(crate) fn wait(&mut self, region: Option<u64>, socket: &OwnedFd, own: &mut OwnRegions) {
        let revoked: Vec<_> = self.granted(region).collect();
        for (slot, granted) in revoked {
            let mut looks = 0;
            while self.words().is_inside(slot) {
                looks += 1;
                if looks < LOOKS {
                    std::hint::spin_loop();
                } else if is_gone(socket) {
                    break;
                } else {
                    std::thread::sleep(PAUSE);
                }
            }
            own.end(granted.region, self.words().counts(slot).since(granted.before));
            self.slots[slot] = None;
        }
    }

    /// What the neighbour has counted by permits that have not ended: of one region, or of all.
    pub(crate) fn counts(&self, region: Option<u64>) -> AccessCounts {
        let mut all = AccessCounts::default();
        for (slot, granted) in self.granted(region) {
            all.add(self.words().counts(slot).since(granted.before));
        }
        all
    }

    fn granted(&self, region: Option<u64>) -> impl Iterator<Item = (usize, Granted)> {
        let of = move |granted: &Granted| region.is_none_or(|region| granted.region == region);
        let granted = |(slot, granted): (usize, &Option<Granted>)| Some((slot, (*granted)?));
        self.slots.iter().enumerate().filter_map(granted).filter(move |(_, it)| of(it))
    }
}

/// Whether the process at the other end has closed the connection or is gone: whether it has run
/// its last instruction. Forked children of it may hold the connection open, so this asks for the
/// process itself, too, where its number is known here.
fn is_gone(socket: &OwnedFd) -> bool {
    let ended = PollFlags::HUP | PollFlags::ERR;
    if returns(socket, PollFlags::empty()).intersects(ended) {
        return true;
    }
    let Ok(peer) = sockopt::socket_peercred(socket) else { return false };
    match pidfd_open(peer.pid, PidfdFlags::empty()) {
        // Readable from the end of its last thread on.
        Ok(process) => returns(&process, PollFlags::IN).contains(PollFlags::IN),
        // Its number may belong to another process by now. That is not mistaken for the end of this
        // one, whose connection still tells.
        Err(why) => why == Errno::SRCH,
    }
}

/// What poll(2) says at once about a descriptor.
fn returns(fd: &OwnedFd, events: PollFlags) -> PollFlags {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::new(fd, events)];
    match poll(&mut polled, Some(&none)) {
        Ok(_) => polled[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}

/// A read or a write of a neighbour's memory.
#[derive(Debug)]
pub enum DirectAccess<'a> {
    /// Fills these bytes.
    Read(&'a mut [u8]),
    /// Writes these.
    Write(&'a [u8]),
}

/// What is known of a neighbour's registered memories.
#[derive(Default)]
pub(crate) struct NeighbourRegions {
    /// See [`AccessWords`]. Made for the first question.
    page: Option<SharedMemory>,
    by_key: HashMap<u64, RegionState>,
}

enum RegionState {
    /// The neighbour was asked, and may be asked again from this second on.
    Asked {
        again_at: u32,
    },
    Mapped(SharedMemory, Permit),
}

impl NeighbourRegions {
    /// Reads or writes bytes of a region, beginning at an offset. `rest` bytes of the same access
    /// are behind these; the owner counts the last part. False, with no effect, if that is not
    /// possible now: the first time, the owner is asked over the socket. One copy.
    pub(crate) fn access(
        &mut self,
        region: u64,
        offset: u64,
        access: DirectAccess<'_>,
        rest: usize,
        (now, socket): (u32, &OwnedFd),
    ) -> bool {
        match (self.by_key.get(&region), &self.page) {
            (Some(RegionState::Mapped(memory, permit)), Some(page)) => {
                let words = AccessWords::new(page.words());
                let Some(at) = place(permit, offset, &access, rest) else { return false };
                let Some(inside) = words.enter(permit.slot, permit.number) else {
                    // Deregistered. If it is registered again, the next access finds it.
                    self.by_key.remove(&region);
                    return false;
                };
                let is_write = matches!(access, DirectAccess::Write(_));
                match access {
                    DirectAccess::Read(into) => memory.read(at, into),
                    DirectAccess::Write(from) => memory.write(at, from),
                }
                if rest == 0 {
                    inside.count(is_write);
                }
                true
            }
            (Some(&RegionState::Asked { again_at }), _) if again_at > now => false,
            _ => {
                if self.by_key.len() >= MOST_REMEMBERED {
                    self.by_key.retain(|_, known| matches!(known, RegionState::Mapped(..)));
                }
                let again_at = now.saturating_add(ASK_AGAIN);
                self.by_key.insert(region, RegionState::Asked { again_at });
                // Without an answer the access goes the ordinary way.
                let _ = self.ask(region, socket);
                false
            }
        }
    }

    fn ask(&mut self, region: u64, socket: &OwnedFd) -> std::io::Result<()> {
        if self.page.is_some() {
            return Ok(Ask::send(socket, region, None)?);
        }
        let (page, fd) = SharedMemory::create(NAME, WORDS)?;
        Ask::send(socket, region, Some(fd.as_fd()))?;
        self.page = Some(page);
        Ok(())
    }

    /// Maps what the neighbour has permitted, if it was asked for it. If that fails, accesses go in
    /// frames.
    pub(crate) fn permitted(&mut self, permit: Permit, memory: OwnedFd) {
        let asked = matches!(self.by_key.get(&permit.region), Some(RegionState::Asked { .. }));
        let Some(memory) = asked.then(|| permit.map(memory).ok()).flatten() else { return };
        let other = |known: &RegionState| matches!(known, RegionState::Mapped(_, other) if other.slot == permit.slot);
        // The slot had another region, which is not permitted any more.
        self.by_key.retain(|_, known| !other(known));
        self.by_key.insert(permit.region, RegionState::Mapped(memory, permit));
    }

    /// Unmaps what is not permitted any more.
    pub(crate) fn clean(&mut self) {
        let Some(page) = &self.page else { return };
        let words = AccessWords::new(page.words());
        self.by_key.retain(|_, known| match known {
            RegionState::Mapped(_, permit) => words.is_permitted(permit.slot, permit.number),
            RegionState::Asked { .. } => true,
        });
    }

    /// Mapped regions.
    #[cfg(test)]
    pub(crate) fn mapped(&self) -> usize {
        let is_mapped = |known: &&RegionState| matches!(known, RegionState::Mapped(..));
        self.by_key.values().filter(is_mapped).count()
    }
}

/// Where an access begins in the memory. `None` if it, or the rest of it, is not permitted: the
/// owner says why.
fn place(permit: &Permit, offset: u64, access: &DirectAccess<'_>, rest: usize) -> Option<usize> {
    let (allowed, len) = match access {
        DirectAccess::Read(into) => (permit.rights.read, into.len()),
        DirectAccess::Write(from) => (permit.rights.write, from.len()),
    };
    let offset = usize::try_from(offset).ok()?;
    let within = offset.checked_add(len)?.checked_add(rest)? <= permit.len;
    (allowed && within).then(|| permit.start + offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::sync::atomic::{AtomicBool, Ordering};

    const BOTH: DirectRights = DirectRights { read: true, write: true };

    /// The neighbour is killed there, as far as the owner can know.
    #[test]
    fn the_owner_waits_until_a_neighbour_is_outside_or_gone() {
        let flags = SocketFlags::CLOEXEC;
        for killed in [false, true] {
            let (here, there) =
                socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
            let (page, fd) = SharedMemory::create("gigae-test", WORDS).unwrap();
            let mut own = OwnRegions::default();
            own.insert(7, SharedBuffer::new(100).unwrap(), BOTH);
            let mut permits = Permits::new(fd).unwrap();
            permits.grant(&own, 7, &here).unwrap();
            let (permit, _memory) = Permit::receive(&there).unwrap().unwrap();
            let inside = AccessWords::new(page.words()).enter(permit.slot, permit.number).unwrap();
            inside.count(true);
            permits.revoke(Some(7));
            let out = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    out.store(true, Ordering::SeqCst);
                    match killed {
                        true => {
                            std::mem::forget(inside);
                            drop(there);
                        }
                        false => drop(inside),
                    }
                });
                permits.wait(Some(7), &here, &mut own);
                assert!(out.load(Ordering::SeqCst), "somebody is still inside");
            });
            assert_eq!(own.ended(Some(7)), AccessCounts { writes: 1, reads: 0 });
            let again = AccessWords::new(page.words()).enter(permit.slot, permit.number);
            assert!(again.is_none(), "the permit is not good any more");
        }
    }

    #[test]
    fn no_neighbour_has_more_regions_than_slots_and_a_free_one_is_given_again() {
        let flags = SocketFlags::CLOEXEC;
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let (page, fd) = SharedMemory::create("gigae-test", WORDS).unwrap();
        let (mut own, buffer) = (OwnRegions::default(), SharedBuffer::new(100).unwrap());
        let mut permits = Permits::new(fd).unwrap();
        let mut given = Vec::new();
        for key in 0..=SLOTS as u64 {
            own.insert(key, buffer.clone(), BOTH);
            permits.grant(&own, key, &here).unwrap();
            given.extend(Permit::receive(&there).unwrap_or_default().map(|(permit, _)| permit));
        }
        assert_eq!(given.len(), SLOTS);
        let words = AccessWords::new(page.words());
        words.enter(given[3].slot, given[3].number).unwrap().count(false);
        assert_eq!(permits.counts(Some(3)), AccessCounts { writes: 0, reads: 1 });
        permits.revoke(Some(3));
        permits.wait(Some(3), &here, &mut own);
        permits.grant(&own, SLOTS as u64, &here).unwrap();
        let (permit, _) = Permit::receive(&there).unwrap().unwrap();
        assert_eq!((permit.slot, permit.region), (given[3].slot, SLOTS as u64));
        assert!(words.enter(given[3].slot, given[3].number).is_none(), "another's slot");
        let none = AccessCounts::default();
        assert_eq!((permits.counts(Some(SLOTS as u64)), permits.counts(Some(3))), (none, none));
        assert_eq!(own.ended(None), AccessCounts { writes: 0, reads: 1 });
    }
}
