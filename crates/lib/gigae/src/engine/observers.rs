//! What an engine knows of its observers: whether one looks, and when the figures were written
//! last.

use super::figures::EngineView;
use crate::links::Links;
use gigae_observe::{EndpointDescription, Publisher};
use gigae_proto::Instant;
use std::time::Duration;

/// Between two writings of the figures: as often as a person can read them.
const EVERY: Duration = Duration::from_millis(100);

/// The same for a program that sleeps by itself, and must not be woken for the sake of figures.
const SOON: Duration = Duration::from_millis(10);

/// Peers whose figures an endpoint writes before it sleeps, if no observer looks: it does not go
/// through thousands.
const MOST_UNSEEN: usize = 1024;

/// See the module's description.
pub(super) struct Observers {
    observed: Publisher,
    /// When the figures were written last, and when they were left behind last.
    written: Instant,
    left: Instant,
    /// Frames are being captured.
    tapping: bool,
    asleep: bool,
}

impl Observers {
    /// Lets observers in; `None` where the kernel refuses what that needs.
    pub(super) fn new(about: &EndpointDescription) -> Option<Self> {
        let observed = Publisher::new(about).ok()?;
        let (written, left) = (Instant(0), Instant(0));
        Some(Self { observed, written, left, tapping: false, asleep: false })
    }

    /// Whether they want something: one load.
    #[inline]
    pub(super) fn are_there(&self, now: Instant) -> bool {
        self.observed.until() > now.0 || self.tapping || self.asleep
    }

    /// Begins or ends to capture, and says whether the figures are to be written.
    pub(super) fn serve(&mut self, now: Instant, links: &mut Links) -> bool {
        if self.asleep {
            self.asleep = false;
            self.observed.set_asleep(false);
        }
        let wanted = self.observed.capture_until() > now.0;
        if wanted != self.tapping {
            self.tapping = wanted;
            let taps = wanted.then(|| self.observed.tap());
            links.tap(taps.as_ref());
        }
        self.observed.until() > now.0 && now.since(self.written) >= EVERY
    }

    /// Writes all figures.
    pub(super) fn write_all(&mut self, now: Instant, view: &EngineView<'_>) {
        self.write(now, view, usize::MAX);
    }

    /// Writes the figures while perhaps no observer looks: those of some peers.
    pub(super) fn write_some(&mut self, now: Instant, view: &EngineView<'_>) {
        self.write(now, view, MOST_UNSEEN);
    }

    fn write(&mut self, now: Instant, view: &EngineView<'_>, most: usize) {
        self.written = now;
        let peers = view.proto.peers() as u64;
        self.observed.publish(now.0, peers, |sheet| view.fill_in(sheet, most));
    }

    /// The endpoint is about to sleep for `timeout`. Returns how long it may sleep before it writes
    /// its figures, so that it writes them once and not for each of many short sleeps. `None`: it
    /// must write them now.
    pub(super) fn nap(&self, now: Instant, timeout: Option<Duration>) -> Option<Duration> {
        if let Some(timeout) = timeout.filter(|&timeout| timeout < EVERY) {
            return Some(timeout);
        }
        let age = now.since(self.left);
        (age < EVERY).then(|| EVERY - age)
    }

    /// Whether a program that sleeps by itself, perhaps for long, leaves the figures behind.
    pub(super) fn leaves_soon(&self, now: Instant) -> bool {
        now.since(self.left) >= SOON
    }

    /// Leaves the figures behind.
    pub(super) fn fall_asleep(&mut self, now: Instant, view: &EngineView<'_>) {
        self.write_some(now, view);
        self.asleep = true;
        self.left = now;
        self.observed.set_asleep(true);
    }
}
