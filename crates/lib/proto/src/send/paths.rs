//! The paths of a send window: which the next frame goes by, and which work (`PROTOCOL.md` §11).

use super::{BulkSize, SendWindow, Transmission};
use crate::path::{self, Path};
use crate::path_set::PathSet;
use crate::time::Instant;
use crate::{PathCounters, ProtocolConfig};
use gigae_wire::{PathId, SeqNo};

/// Bulk frames for which the flight of the socket's path has room at least.
const FRAMES_IN_FLIGHT: u32 = 4;

/// Least timeout in nanoseconds of the socket's path. A peer whose program computes answers only
/// after its progress thread has waited for a millisecond, and a repeated bulk frame is long.
const LEAST_BULK_TIMEOUT: u64 = 2_000_000;

impl<T> SendWindow<T> {
    /// The session is up. Both ends have `count` paths, of which one is known to work. The others
    /// are dead until a probe is answered. Returns the paths to probe.
    pub(crate) fn open_paths(
        &mut self,
        count: usize,
        working: PathId,
        config: &ProtocolConfig,
    ) -> PathSet {
        let mut probes = PathSet::NONE;
        (self.keeps_to_first, self.has_bulk, self.shares_queues) = (false, false, false);
        for (id, path) in self.numbered_mut() {
            path.begin_anew(config);
            if id != working {
                path.die();
                if id.index() < count {
                    probes.insert(id);
                } else {
                    path.leave();
                }
            }
        }
        probes
    }

    /// The same where the second path is a socket for bulk frames, and `has` says whether the peer
    /// has one too. It is dead, and nothing probes it before it is [wanted](Self::want_bulk).
    pub(crate) fn open_bulk(&mut self, has: bool, config: &ProtocolConfig) -> PathSet {
        (self.keeps_to_first, self.has_bulk, self.shares_queues) = (false, has, false);
        self.bulk_size = BulkSize::default();
        self.paths_mut().for_each(|path| path.begin_anew(config));
        for path in &mut self.further {
            path.die();
            path.leave();
        }
        PathSet::NONE
    }

    /// Whether [`share_queues`](Self::share_queues) was called in this session.
    #[inline]
    pub(crate) fn shares_queues(&self) -> bool {
        self.shares_queues
    }

    /// Credit is shared. So paths over links begin with fewer frames, and look at round trips.
    #[cold]
    pub(crate) fn share_queues(&mut self) {
        self.shares_queues = true;
        self.first.share_queues();
        if !self.has_bulk {
            self.further.iter_mut().for_each(Path::share_queues);
        }
    }

    /// Whether bulk frames can go by the socket now.
    #[inline]
    fn is_bulk_up(&self) -> bool {
        self.has_bulk && self.further[0].is_usable()
    }

    /// Most datagrams of the next bulk frame, if bulk frames can go by the socket now.
    #[inline]
    pub(crate) fn bulk_datagrams(&self) -> Option<u8> {
        // Several frames are under way at a time, so that the network is never empty while the
        // acknowledgement of one comes back.
        let of_flight = |flight: u32| u8::try_from(flight / FRAMES_IN_FLIGHT).unwrap_or(u8::MAX);
        self.is_bulk_up().then(|| {
            let (_, flight) = self.further[0].flight();
            self.bulk_size.datagrams().min(of_flight(flight)).max(1)
        })
    }

    /// Whether a frame that goes out now by the socket waits behind others there.
    #[inline]
    pub(crate) fn is_behind_others(&mut self, sent: &Transmission) -> bool {
        let own = self.slot(sent.seq).datagrams.into();
        self.path(sent.path).flight().0 > own
    }

    /// Bulk frames would go by the socket if it worked. Returns the path to probe, unless it is
    /// probed already or nothing can be expected of it.
    pub(crate) fn want_bulk(&mut self) -> PathSet {
        if !self.has_bulk || self.is_by_first() || !self.further[0].is_left() {
            return PathSet::NONE;
        }
        self.further[0].die();
        PathSet::of(PathId::SOCKET)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> + Clone {
        std::iter::once(&self.first).chain(&self.further)
    }

    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        std::iter::once(&mut self.first).chain(&mut self.further)
    }

    /// The paths with their numbers, in order.
    fn numbered_mut(&mut self) -> impl Iterator<Item = (PathId, &mut Path)> {
        self.paths_mut().enumerate().map(|(number, path)| (PathId::new(number), path))
    }

    /// The numbers of the paths, in order.
    pub(super) fn path_ids(&self) -> impl Iterator<Item = PathId> + use<T> {
        PathId::all(1 + self.further.len())
    }

    #[inline(always)]
    pub(super) fn path(&mut self, id: PathId) -> &mut Path {
        if id.is_first() { &mut self.first } else { &mut self.further[id.index() - 1] }
    }

    #[inline]
    fn path_of(&self, id: PathId) -> &Path {
        if id.is_first() { &self.first } else { &self.further[id.index() - 1] }
    }

    /// The path for the next frame, if there are several.
    #[inline(never)]
    pub(super) fn choose(&self) -> Option<PathId> {
        if self.is_by_first() {
            return self.first.has_room().then_some(PathId::FIRST);
        }
        if self.has_bulk {
            let next = if self.lost > 0 { self.next_lost() } else { self.sent };
            let path = self.by_class(self.slot_of(next).bulk)?;
            return self.path_of(path).has_room().then_some(path);
        }
        path::choose(self.paths(), None)
    }

    #[inline(never)]
    pub(super) fn choose_for(&mut self, seq: SeqNo, repeated: bool) -> PathId {
        if self.is_by_first() {
            return PathId::FIRST;
        }
        if let Some(path) = self.by_class(self.slot_of(seq).bulk) {
            return path;
        }
        let before = repeated.then(|| self.slot(seq).path);
        path::choose(self.paths(), before).unwrap_or(PathId::FIRST)
    }

    /// The path of bulk frames, or of all others, where there is a socket. The link carries
    /// everything; the socket, bulk frames only: others may be longer than its datagrams.
    fn by_class(&self, bulk: bool) -> Option<PathId> {
        self.has_bulk.then(|| {
            let by_socket = bulk && self.further[0].is_usable();
            if by_socket { PathId::SOCKET } else { PathId::FIRST }
        })
    }

    /// Whether a frame that is no bulk frame goes by the first path, if that has room.
    #[inline]
    pub(super) fn goes_by_first(&self) -> bool {
        self.has_bulk || self.is_by_first() || !self.further.iter().any(Path::is_alive)
    }

    #[inline]
    fn is_by_first(&self) -> bool {
        self.keeps_to_first && self.first.is_alive()
    }

    /// Sends everything by the first path for the rest of the session, while that path works.
    pub(crate) fn keep_to_first(&mut self) {
        self.keeps_to_first = true;
    }

    /// Takes a reading of the clock.
    #[inline]
    pub(crate) fn stamp(&mut self, now: Instant) {
        self.first.stamp(now);
        if !self.further.is_empty() {
            self.stamp_further(now);
        }
    }

    #[inline(never)]
    fn stamp_further(&mut self, now: Instant) {
        for path in &mut self.further {
            path.stamp(now);
        }
    }

    /// Gives a path up, unless it is the last one, or the one beside a socket: it is dead until a
    /// probe is answered, and what was in flight on it is sent again by others. Returns the path to
    /// probe.
    pub(crate) fn give_up(&mut self, id: PathId) -> PathSet {
        let another = |(number, path): (usize, &Path)| number != id.index() && path.is_alive();
        if self.has_bulk && id.is_first()
            || !self.path(id).is_alive()
            || !self.paths().enumerate().any(another)
        {
            return PathSet::NONE;
        }
        self.lose_in_flight(id, true);
        self.path(id).give_up();
        PathSet::of(id)
    }

    /// A probe of a path was answered. False if the path was alive.
    pub(crate) fn revive(&mut self, id: PathId, config: &ProtocolConfig) -> bool {
        let revived = self.path(id).revive(config);
        if revived {
            if self.has_bulk {
                let path = self.path(id);
                path.rtt.raise_least(LEAST_BULK_TIMEOUT);
                path.keep_queues_short();
            } else if self.shares_queues {
                self.path(id).share_queues();
            }
            self.doubt_others(PathSet::of(id));
        } else if self.may_die(id) {
            self.path(id).answer();
        }
        revived
    }

    /// Whether a path is given up if it is silent: there are others, and it is not the link beside
    /// a socket.
    fn may_die(&self, id: PathId) -> bool {
        !(self.further.is_empty() || self.has_bulk && id.is_first())
    }

    /// Whether a silent path is asked whether it works. Perhaps the peer is only late, and what was
    /// in flight arrives by another path now.
    pub(super) fn is_asked_when_silent(&self, id: PathId) -> bool {
        self.may_die(id) && self.path_of(id).is_alive()
    }

    /// The path for a frame that is about no path: `wanted` if it is alive, else the first that is.
    pub(crate) fn alive(&self, wanted: PathId) -> PathId {
        let is_wanted = self.paths().nth(wanted.index()).is_some_and(Path::is_alive);
        if is_wanted {
            return wanted;
        }
        self.paths().position(Path::is_alive).map_or(PathId::FIRST, PathId::new)
    }

    /// Whether a path is dead, and so probed.
    pub(crate) fn is_dead(&self, id: PathId) -> bool {
        self.paths().nth(id.index()).is_some_and(|path| !path.is_alive())
    }

    /// The counters of the paths.
    pub(crate) fn path_counters(&self) -> impl Iterator<Item = &PathCounters> {
        self.paths().map(|path| &path.counters)
    }

    /// The earliest deadline of the paths.
    #[inline]
    pub(crate) fn deadline(&self) -> Instant {
        if self.further.is_empty() { self.first.deadline() } else { self.deadline_of_several() }
    }

    #[inline(never)]
    fn deadline_of_several(&self) -> Instant {
        let slowest = path::slowest(self.paths());
        let deadlines = self.path_ids().map(|id| self.deadline_of(id, slowest));
        deadlines.min().unwrap_or(Instant::NEVER)
    }

    /// The deadline of one path, where the slowest one's first timeout is so long.
    pub(super) fn deadline_of(&self, id: PathId, slowest: u64) -> Instant {
        // Nothing that came by the link is acknowledged by a socket.
        let alone = self.further.is_empty() || self.has_bulk;
        let path = self.path_of(id);
        if alone && id.is_first() { path.deadline() } else { path.deadline_among(slowest) }
    }

    /// Nanoseconds after which an answer is overdue.
    pub(crate) fn timeout(&self) -> u64 {
        let alive = self.paths().find(|path| path.is_alive());
        alive.unwrap_or(&self.first).rtt.timeout()
    }

    /// Something has arrived by these paths: the peer is there. The silent paths have no
    /// other excuse, so they are doubted.
    pub(super) fn doubt_others(&mut self, arrived: PathSet) {
        for (id, path) in self.numbered_mut() {
            if arrived.has_other_than(id) {
                path.doubt();
            }
        }
    }
}
