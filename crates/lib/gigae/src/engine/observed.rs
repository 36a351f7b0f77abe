//! What observers from outside get (`gigae-observe`): figures ten times a second and every frame,
//! while an observer looks. Without an observer, this costs one load for each poll and doorbell.
//!
//! An endpoint that goes to sleep for long writes its figures before, since an observer cannot wake
//! it.

use super::Engine;
use super::figures::EngineView;
use super::observers::Observers;
use std::time::Duration;

impl Engine {
    /// Lets observers in. An endpoint works as well without, where the kernel refuses what that
    /// needs.
    pub(crate) fn show(&mut self) {
        let (opened, now) = (self.clock.glance(), self.clock.now());
        let (envelope, channels) = (self.route_table.envelope, self.channels);
        let (_, view) = self.observers_and_view();
        let about = view.about(opened, envelope, channels);
        self.observers = Observers::new(&about).map(Box::new);
        if let (Some(observers), view) = self.observers_and_view() {
            observers.write_some(now, &view);
        }
    }

    /// Writes figures and captures frames for observers, if there are any: one load if not.
    #[inline]
    pub(super) fn serve_observers(&mut self) {
        if let Some(observers) = &self.observers
            && observers.are_there(self.clock.now())
        {
            self.serve_observers_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn serve_observers_now(&mut self) {
        let now = self.clock.glance();
        let Self { observers: Some(observers), links, .. } = self else { return };
        if observers.serve(now, links)
            && let (Some(observers), view) = self.observers_and_view()
        {
            observers.write_all(now, &view);
        }
    }

    /// The endpoint is about to sleep for `timeout`. Returns how long it may.
    pub(super) fn leave_figures(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        let now = self.clock.now();
        let Some(observers) = &self.observers else { return timeout };
        let nap = observers.nap(now, timeout);
        if nap.is_none() {
            self.fall_asleep();
            return timeout;
        }
        nap
    }

    /// The program is about to sleep, perhaps for long.
    pub(crate) fn leave_figures_soon(&mut self) {
        let now = self.clock.now();
        if self.observers.as_ref().is_some_and(|observers| observers.leaves_soon(now)) {
            self.fall_asleep();
        }
    }

    fn fall_asleep(&mut self) {
        let now = self.clock.now();
        if let (Some(observers), view) = self.observers_and_view() {
            observers.fall_asleep(now, &view);
        }
    }

    fn observers_and_view(&mut self) -> (Option<&mut Observers>, EngineView<'_>) {
        let Self { observers, links, proto, transfer, inbox, clock, wakeup, .. } = self;
        let (clock_reads, progress_turns) = (clock.reads(), wakeup.turns);
        let view = EngineView { links, proto, transfer, inbox, clock_reads, progress_turns };
        (observers.as_deref_mut(), view)
    }
}
