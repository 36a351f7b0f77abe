//! Checks now and then whether the link's program is still attached.

use crate::kernel_query::KernelQuery;
use gigae_netlink::{Modes, Rtnetlink};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::debug;

/// Time without a frame after which the link checks whether its program is still attached. The
/// kernel does not report that it was detached, and asking waits for a lock of the kernel. So a
/// thread asks ([`KernelQuery`]): peers would get no frame of an endpoint that waits for that lock.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// What is known about the program's attachment.
pub(crate) struct ProgramWatch {
    /// Also `None` in another namespace than the interface's, where its number means nothing.
    kernel: Option<Arc<Mutex<Rtnetlink>>>,
    /// What is asked at present.
    query: Option<KernelQuery>,
    /// The kernel's number of the program.
    pub(crate) program: u32,
    /// When it was last known to be attached, or passed a frame.
    sure_at: Instant,
    /// Frames received until then.
    received: u64,
    /// It was found detached. This is final, since only this link would attach it.
    detached: bool,
}

impl ProgramWatch {
    /// Begins now, in the calling thread's namespace, with an attached program. Needs no
    /// privileges.
    pub(crate) fn new(interface: u32, program: u32) -> Self {
        let sees = |kernel: &Rtnetlink| {
            kernel.programs(interface).is_ok_and(|programs| programs.contains(&program))
        };
        let kernel = Rtnetlink::open().ok().filter(sees).map(Mutex::new).map(Arc::new);
        let query = None;
        Self { kernel, query, program, sure_at: Instant::now(), received: 0, detached: false }
    }

    /// Whether the program is known to be detached. `received` shows whether frames still come.
    /// Reads the clock; after a second without a frame, starts a thread. Waits for its answer for a
    /// millisecond at most, here and at every later look until it is there.
    pub(crate) fn is_detached(&mut self, interface: u32, received: u64) -> bool {
        let kernel = self.kernel.clone();
        let ask = move || {
            let kernel = kernel?;
            let programs =
                kernel.lock().unwrap_or_else(PoisonError::into_inner).programs(interface);
            if let Err(error) = &programs {
                debug!(%error, "whether the program is attached cannot be asked");
            }
            programs.ok()
        };
        self.look(Instant::now(), received, ask)
    }

    fn look(
        &mut self,
        now: Instant,
        received: u64,
        ask: impl FnOnce() -> Option<Modes> + Send + 'static,
    ) -> bool {
        let silent = self.received == received;
        if !silent || now.duration_since(self.sure_at) >= LOOK_AFTER {
            (self.sure_at, self.received) = (now, received);
            if silent && self.query.is_none() && self.kernel.is_some() {
                let asked = KernelQuery::ask(ask);
                if let Err(error) = &asked {
                    debug!(%error, "no thread to ask whether the program is attached");
                }
                self.query = asked.ok();
            }
        }
        if let Some(answer) = self.query.as_ref().and_then(KernelQuery::answer) {
            self.query = None;
            self.detached |= answer.is_some_and(|ids| !ids.contains(&self.program));
        }
        self.detached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    const PROGRAM: u32 = 7;

    fn watch() -> ProgramWatch {
        let kernel = Rtnetlink::open().unwrap();
        ProgramWatch {
            kernel: Some(Arc::new(Mutex::new(kernel))),
            query: None,
            program: PROGRAM,
            sure_at: Instant::now(),
            received: 5,
            detached: false,
        }
    }

    /// A kernel that answers when the test says so.
    fn late() -> (Sender<Modes>, impl FnOnce() -> Option<Modes> + Send + 'static) {
        let (say, answer): (_, Receiver<Modes>) = channel();
        (say, move || answer.recv().ok())
    }

    /// Looks until the query was answered.
    fn settle(watch: &mut ProgramWatch, now: Instant) -> bool {
        while watch.query.is_some() {
            watch.look(now, watch.received, || None);
        }
        watch.detached
    }

    #[test]
    fn a_look_does_not_wait_for_a_kernel_that_answers_late() {
        let mut watch = watch();
        let later = watch.sure_at + LOOK_AFTER;
        for (programs, detached) in [([0, PROGRAM, 0, 0], false), ([0; 4], true)] {
            watch.sure_at = later - LOOK_AFTER;
            let (say, ask) = late();
            // It returns, although there is no answer.
            assert!(!watch.look(later, 5, ask));
            assert!(watch.query.is_some());
            say.send(programs).unwrap();
            assert_eq!(settle(&mut watch, later), detached);
        }
    }

    #[test]
    fn while_frames_come_nothing_is_asked_and_what_is_asked_is_asked_once() {
        let mut watch = watch();
        let (begin, asked) = (watch.sure_at, || -> Option<Modes> { unreachable!("asked") });
        assert!(!watch.look(begin + LOOK_AFTER / 2, 5, asked));
        assert!(!watch.look(begin + LOOK_AFTER, 6, asked));
        assert!(watch.query.is_none());
        let (say, ask) = late();
        assert!(!watch.look(begin + 2 * LOOK_AFTER, 6, ask));
        assert!(!watch.look(begin + 4 * LOOK_AFTER, 6, asked));
        drop(say);
        // The kernel did not say: the program counts as attached.
        assert!(!settle(&mut watch, begin + 4 * LOOK_AFTER));
    }
}
