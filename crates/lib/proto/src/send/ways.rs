//! The paths of a send window: which the next frame goes by, and which work (`PROTOCOL.md` §11).

use super::SendWindow;
use crate::path::{self, Path};
use crate::time::Instant;
use crate::{Config, PathCounters};
use gigae_wire::SeqNo;

impl<T> SendWindow<T> {
    /// The session is up: so many paths are there at both ends, of which one is known to work. The
    /// others are dead until a probe is answered; which are to be probed, by bit.
    pub(crate) fn open_paths(&mut self, count: usize, working: usize, config: &Config) -> u16 {
        let mut probes = 0;
        self.keeps_to_first = false;
        for (i, path) in self.paths_mut().enumerate() {
            path.begin_anew(config);
            if i != working {
                path.die();
                if i < count {
                    probes |= 1 << i;
                } else {
                    path.leave();
                }
            }
        }
        probes
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

    /// The path for the next frame, of several.
    #[inline(never)]
    pub(super) fn choose(&self) -> Option<usize> {
        if self.is_by_first() {
            return self.first.has_room().then_some(0);
        }
        path::choose(self.paths(), None)
    }

    #[inline(never)]
    pub(super) fn choose_for(&mut self, seq: SeqNo, repeated: bool) -> usize {
        if self.is_by_first() {
            return 0;
        }
        let before = repeated.then(|| self.slot(seq).path.into());
        path::choose(self.paths(), before).unwrap_or(0)
    }

    fn is_by_first(&self) -> bool {
        self.keeps_to_first && self.first.is_alive()
    }

    /// For the rest of the session, nothing goes by another path than the first while that works.
    pub(crate) fn keep_to_first(&mut self) {
        self.keeps_to_first = true;
    }

    /// The clock was read.
    #[inline]
    pub(crate) fn date(&mut self, now: Instant) {
        self.first.date(now);
        if !self.further.is_empty() {
            self.date_further(now);
        }
    }

    #[inline(never)]
    fn date_further(&mut self, now: Instant) {
        for path in &mut self.further {
            path.date(now);
        }
    }

    /// A path does not work: unless it is the last one, it is dead until a probe is answered, and
    /// what flew there goes again elsewhere. Returns it, to be probed, by bit.
    pub(crate) fn give_up(&mut self, i: usize) -> u16 {
        let another = |(n, path): (usize, &Path)| n != i && path.is_alive();
        if !self.path(i).is_alive() || !self.paths().enumerate().any(another) {
            return 0;
        }
        self.lose_in_flight(i, true);
        self.path(i).give_up();
        1 << i
    }

    /// A probe of a path was answered.
    pub(crate) fn revive(&mut self, i: usize, config: &Config) {
        if self.path(i).revive(config) {
            self.doubt_others(1 << i);
        }
    }

    /// The path for what says nothing of paths: `wanted` if it is alive, else the first that is.
    pub(crate) fn alive(&self, wanted: usize) -> usize {
        let is_wanted = self.paths().nth(wanted).is_some_and(Path::is_alive);
        if is_wanted { wanted } else { self.paths().position(Path::is_alive).unwrap_or(0) }
    }

    /// Whether a path is being probed.
    pub(crate) fn is_dead(&self, path: usize) -> bool {
        self.paths().nth(path).is_some_and(|path| !path.is_alive())
    }

    /// What happened on the paths.
    pub(crate) fn path_counters(&self) -> impl Iterator<Item = &PathCounters> {
        self.paths().map(|path| &path.counters)
    }

    /// When the next thing is due by itself.
    #[inline]
    pub(crate) fn deadline(&self) -> Instant {
        if self.further.is_empty() { self.first.deadline() } else { self.deadline_of_several() }
    }

    #[inline(never)]
    fn deadline_of_several(&self) -> Instant {
        let slowest = path::slowest(self.paths());
        let deadlines = self.paths().map(|path| path.deadline_among(slowest));
        deadlines.min().unwrap_or(Instant::NEVER)
    }

    /// A wait after which an answer is overdue, in nanoseconds.
    pub(crate) fn timeout(&self) -> u64 {
        let alive = self.paths().find(|path| path.is_alive());
        alive.unwrap_or(&self.first).rtt.timeout()
    }

    /// Something has arrived by these paths, by bit: the peer is there. Those that are silent have
    /// no other excuse.
    pub(super) fn doubt_others(&mut self, heard: u16) {
        for (i, path) in self.paths_mut().enumerate() {
            if heard & !(1 << i) != 0 {
                path.doubt();
            }
        }
    }
}
