//! The endpoints that report to a queue or a counter. A reader of that makes progress at them.

use crate::completions::ReadArray;
use crate::core::Core;
use crate::error::{Code, OfiResult};
use crate::lock::{Lock, Threads};
use crate::wait::WaitObject;
use std::sync::Arc;
use std::time::Duration;

/// The endpoints. The lock is held while they make progress, so it is taken before theirs.
pub(crate) struct Sources(Lock<Vec<Arc<Core>>>);

impl Sources {
    pub(crate) fn new(threads: Threads) -> Self {
        // SAFETY: the program promised it when it asked for its threading model.
        Self(unsafe { Lock::new(threads, Vec::new()) })
    }

    /// Also makes progress at this endpoint, and wakes for it.
    pub(crate) fn follow(&self, core: &Arc<Core>, wait: Option<&WaitObject>) -> OfiResult<()> {
        {
            let mut all = self.0.lock();
            if !all.iter().any(|known| Arc::ptr_eq(known, core)) {
                all.push(Arc::clone(core));
            }
        }
        wait.map_or(Ok(()), |wait| core.wake(wait))
    }

    /// Ends that. Call this before an endpoint is closed: it is kept open until then.
    pub(crate) fn leave(&self, core: &Arc<Core>, wait: Option<&WaitObject>) {
        self.0.lock().retain(|known| !Arc::ptr_eq(known, core));
        if let Some(wait) = wait {
            core.wake_no_more(wait);
        }
    }

    /// Makes progress at all of them. Returns the first error, which is for a program that finds
    /// nothing else.
    #[inline(always)]
    pub(crate) fn progress(&self, array: &mut ReadArray<'_>) -> OfiResult<()> {
        let mut first = Ok(());
        for core in self.0.lock().iter() {
            first = first.and(core.progress(array));
        }
        first
    }

    /// Whether all of them have a descriptor to sleep on.
    pub(crate) fn have_fd(&self) -> bool {
        self.0.lock().iter().all(|core| core.has_fd())
    }

    /// When one of them must be called again. [`Code::AGAIN`] if something already waits for a
    /// call, or else the first error.
    pub(crate) fn prepare(&self) -> OfiResult<Option<Duration>> {
        let (mut least, mut first): (Option<Duration>, _) = (None, Ok(()));
        for core in self.0.lock().iter() {
            match core.prepare_to_wait() {
                Ok(Some(Duration::ZERO)) => return Err(Code::AGAIN),
                Ok(Some(time)) => least = Some(least.map_or(time, |least| least.min(time))),
                Ok(None) => {}
                Err(code) => first = first.and(Err(code)),
            }
        }
        first.and(Ok(least))
    }
}
