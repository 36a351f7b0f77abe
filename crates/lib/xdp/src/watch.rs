//! Checks now and then whether the link's program is still attached.

use gigae_netlink::Rtnetlink;
use std::time::{Duration, Instant};
use tracing::debug;

/// Time without a frame after which the link checks whether its program is still attached. The
/// kernel does not report that it was detached, and asking waits for a lock of the kernel.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// What is known about the program's attachment.
pub(crate) struct ProgramWatch {
    /// Also `None` in another namespace than the interface's, where its number means nothing.
    kernel: Option<Rtnetlink>,
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
        let kernel = Rtnetlink::open().ok().filter(sees);
        Self { kernel, program, sure_at: Instant::now(), received: 0, detached: false }
    }

    /// Whether the program is detached. `received` shows whether frames still come. Reads the
    /// clock; after a second without a frame, two system calls.
    pub(crate) fn is_detached(&mut self, interface: u32, received: u64) -> bool {
        let now = Instant::now();
        let silent = self.received == received;
        if !silent || now.duration_since(self.sure_at) >= LOOK_AFTER {
            (self.sure_at, self.received) = (now, received);
            let ask = || {
                let programs = self.kernel.as_ref()?.programs(interface);
                if let Err(error) = &programs {
                    debug!(%error, "whether the program is attached cannot be asked");
                }
                programs.ok()
            };
            self.detached |= silent && ask().is_some_and(|ids| !ids.contains(&self.program));
        }
        self.detached
    }
}
