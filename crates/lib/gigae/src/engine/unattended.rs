//! What the process's thread does for an endpoint whose program makes no calls
//! ([`crate::Progress::Auto`]).

use super::{BACKLOG_NAP, Engine};
use gigae_link::LinkError;
use gigae_progress::{Attend, NextTurn};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Batches of frames in one turn, after which another endpoint has one.
const MOST_BATCHES: usize = 16;

/// Between two tries on a link that does not work: an interface that is up again is used this soon.
const AFTER_ERROR: Duration = Duration::from_millis(100);

impl Engine {
    /// A descriptor that polls readable when the thread has taken in what the program may want. Two
    /// system calls.
    pub(crate) fn wakeup_descriptor(&mut self) -> io::Result<OwnedFd> {
        self.wakeup.descriptor()
    }

    /// Turns of the thread since the endpoint was opened.
    pub(crate) fn progress_turns(&self) -> u64 {
        self.wakeup.turns
    }

    /// Whether there is something for the program.
    pub(crate) fn has_events(&self) -> bool {
        self.has_messages() || self.has_failures() || self.has_completions()
    }

    /// The program is about to sleep on the endpoint's descriptor. Its call will have left as
    /// number `calls`. Whether the thread has taken in something since the last time.
    pub(crate) fn watch_from_outside(&mut self, calls: u32) -> bool {
        self.wakeup.watch_from(calls)
    }

    /// Takes in what has arrived, sends what is due, and gets ready for sleeping. Returns how many
    /// frames came, and whether there may be more.
    fn take_turn(&mut self, wanted: &dyn Fn() -> bool) -> Result<(usize, bool), LinkError> {
        self.update_clock();
        let mut came = 0;
        for _ in 0..MOST_BATCHES {
            let count = self.progress()?;
            came += count;
            if count == 0 {
                self.reap();
                if self.acknowledge()? && !self.links.prepare_to_wait() {
                    return Ok((came, self.doorbell.backlog));
                }
            }
            if wanted() {
                break;
            }
        }
        Ok((came, true))
    }
}

impl Attend for Engine {
    fn attend(&mut self, calls: u32, wanted: &dyn Fn() -> bool) -> NextTurn {
        self.wakeup.turns += 1;
        let program_watches = self.wakeup.is_watched(calls);
        let turn = self.take_turn(wanted);
        self.quiet = false;
        self.leave_figures_soon();
        // Whether the program sleeps there is not known for sure: it may have made other calls
        // since it said so.
        if !self.wakeup.is_readable() && (self.has_events() || !matches!(turn, Ok((0, _)))) {
            self.wakeup.wake_program();
        }
        let due = match turn {
            Ok((_, true)) => Some(BACKLOG_NAP),
            Ok(_) => self.time_left(),
            Err(_) => Some(AFTER_ERROR),
        };
        NextTurn { due, program_watches: program_watches && !self.wakeup.is_readable() }
    }
}
