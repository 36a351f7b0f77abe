//! Looks now and then whether the link's program is still attached.

use crate::attached::Asker;
use std::time::{Duration, Instant};

/// Silence after which the link looks whether its program is still attached: the kernel tells
/// nobody that it was detached, and asking waits for a lock of the kernel's.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// What is known of the program's being attached.
pub(crate) struct ProgramWatch {
    /// `None` also in another namespace than the interface's, where its number means nothing.
    asker: Option<Asker>,
    /// The kernel's number of the program.
    pub(crate) program: u32,
    /// When it was known to be attached, or to have let a frame through.
    sure_at: Instant,
    /// Frames received until then.
    received: u64,
    /// It was found detached: for good, since only this link would attach it.
    detached: bool,
}

impl ProgramWatch {
    /// Begins now, in the calling thread's namespace, with an attached program. Needs no
    /// privileges.
    pub(crate) fn new(interface: u32, program: u32) -> Self {
        let sees = |asker: &Asker| asker.programs(interface).is_some_and(|p| p.contains(&program));
        let asker = Asker::new().filter(sees);
        Self { asker, program, sure_at: Instant::now(), received: 0, detached: false }
    }

    /// Looks whether the program is still attached, where `received` says that no frame has come
    /// for a while. Reads the clock; after a second without a frame, two system calls.
    pub(crate) fn is_detached(&mut self, interface: u32, received: u64) -> bool {
        let now = Instant::now();
        let silent = self.received == received;
        if !silent || now.duration_since(self.sure_at) >= LOOK_AFTER {
            (self.sure_at, self.received) = (now, received);
            let ask = || self.asker.as_ref()?.programs(interface);
            self.detached |= silent && ask().is_some_and(|ids| !ids.contains(&self.program));
        }
        self.detached
    }
}
