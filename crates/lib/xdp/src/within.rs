//! Waits for what the kernel does a little later without a report.

use std::time::{Duration, Instant};

/// Pause between looks at something that takes a while.
const PAUSE: Duration = Duration::from_micros(100);

/// Looks until `done` returns true or the time is up. Returns whether it did.
pub(crate) fn within(time: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}
