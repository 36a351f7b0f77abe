//! The paths of a send window: which the next frame goes by, and which work (`PROTOCOL.md` §11).

use super::{BulkSize, SendWindow, Transmission};
use crate::path::{self, Path};
use crate::path_set::PathSet;
use crate::time::Instant;
use crate::{PathCounters, ProtocolConfig};
use gigae_wire::SeqNo;

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
        working: usize,
        config: &ProtocolConfig,
    ) -> PathSet {
        let mut probes = PathSet::NONE;
        (self.keeps_to_first, self.has_bulk) = (false, false);
        for (i, path) in self.paths_mut().enumerate() {
            path.begin_anew(config);
            if i != working {
                path.die();
                if i < count {
                    probes.insert(i);
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
        (self.keeps_to_first, self.has_bulk) = (false, has);
        self.bulk_size = BulkSize::default();
        self.paths_mut().for_each(|path| path.begin_anew(config));
        for path in &mut self.further {
            path.die();
            path.leave();
        }
        PathSet::NONE
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
        self.path(sent.path.into()).flight().0 > own
    }

    /// Bulk frames would go by the socket if it worked. Returns the path to probe, unless it is
    /// probed already or nothing can be expected of it.
    pub(crate) fn want_bulk(&mut self) -> PathSet {
        if !self.has_bulk || self.is_by_first() || !self.further[0].is_left() {
            return PathSet::NONE;
        }
        self.further[0].die();
        PathSet::of(1)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> + Clone {
        std::iter::once(&self.first).chain(&self.further)
    }

    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        std::iter::once(&mut self.first).chain(&mut self.further)
    }

    #[inline(always)]
    pub(super) fn path(&mut self, path: usize) -> &mut Path {
        if path == 0 { &mut self.first } else { &mut self.further[path - 1] }
    }

    #[inline]
    fn path_of(&self, path: usize) -> &Path {
        if path == 0 { &self.first } else { &self.further[path - 1] }
    }

    /// The path for the next frame, if there are several.
    #[inline(never)]
    pub(super) fn choose(&self) -> Option<usize> {
        if self.is_by_first() {
            return self.first.has_room().then_some(0);
        }
        if self.has_bulk {
            let next = if self.lost > 0 { self.next_lost() } else { self.sent };
            let path = self.by_class(self.slot_of(next).bulk)?;
            return self.path_of(path).has_room().then_some(path);
        }
        path::choose(self.paths(), None)
    }

    #[inline(never)]
    pub(super) fn choose_for(&mut self, seq: SeqNo, repeated: bool) -> usize {
        if self.is_by_first() {
            return 0;
        }
        if let Some(path) = self.by_class(self.slot_of(seq).bulk) {
            return path;
        }
        let before = repeated.then(|| self.slot(seq).path.into());
        path::choose(self.paths(), before).unwrap_or(0)
    }

    /// The path of bulk frames, or of all others, where there is a socket. The link carries
    /// everything; the socket, bulk frames only: others may be longer than its datagrams.
    fn by_class(&self, bulk: bool) -> Option<usize> {
        self.has_bulk.then(|| usize::from(bulk && self.further[0].is_usable()))
    }

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
    pub(crate) fn give_up(&mut self, i: usize) -> PathSet {
        let another = |(n, path): (usize, &Path)| n != i && path.is_alive();
        if self.has_bulk && i == 0
            || !self.path(i).is_alive()
            || !self.paths().enumerate().any(another)
        {
            return PathSet::NONE;
        }
        self.lose_in_flight(i, true);
        self.path(i).give_up();
        PathSet::of(i)
    }

    /// A probe of a path was answered. False if the path was alive.
    pub(crate) fn revive(&mut self, i: usize, config: &ProtocolConfig) -> bool {
        let revived = self.path(i).revive(config);
        if revived {
            if self.has_bulk {
                let path = self.path(i);
                path.rtt.raise_least(LEAST_BULK_TIMEOUT);
                path.keep_queues_short();
            }
            self.doubt_others(PathSet::of(i));
        }
        revived
    }

    /// The path for a frame that is about no path: `wanted` if it is alive, else the first that is.
    pub(crate) fn alive(&self, wanted: usize) -> usize {
        let is_wanted = self.paths().nth(wanted).is_some_and(Path::is_alive);
        if is_wanted { wanted } else { self.paths().position(Path::is_alive).unwrap_or(0) }
    }

    /// Whether a path is dead, and so probed.
    pub(crate) fn is_dead(&self, path: usize) -> bool {
        self.paths().nth(path).is_some_and(|path| !path.is_alive())
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
        let deadlines = (0..=self.further.len()).map(|path| self.deadline_of(path, slowest));
        deadlines.min().unwrap_or(Instant::NEVER)
    }

    /// The deadline of one path, where the slowest one's first timeout is so long.
    pub(super) fn deadline_of(&self, path: usize, slowest: u64) -> Instant {
        // Nothing that came by the link is acknowledged by a socket.
        let alone = self.further.is_empty() || self.has_bulk;
        let path_of = self.path_of(path);
        if alone && path == 0 { path_of.deadline() } else { path_of.deadline_among(slowest) }
    }

    /// Nanoseconds after which an answer is overdue.
    pub(crate) fn timeout(&self) -> u64 {
        let alive = self.paths().find(|path| path.is_alive());
        alive.unwrap_or(&self.first).rtt.timeout()
    }

    /// Something has arrived by these paths: the peer is there. The silent paths have no
    /// other excuse, so they are doubted.
    pub(super) fn doubt_others(&mut self, arrived: PathSet) {
        for (i, path) in self.paths_mut().enumerate() {
            if arrived.has_other_than(i) {
                path.doubt();
            }
        }
    }
}
