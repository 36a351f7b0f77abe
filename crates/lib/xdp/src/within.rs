//! Waits for what the kernel does a little later without a report.

use std::time::{Duration, Instant};

/// Pause between looks at something that takes a while.
const PAUSE: Duration = Duration::from_micros(100);

/// Looks until `done` returns true or the time is up. Returns whether it did.
///
/// The time begins after the first look, which may itself wait for the kernel longer than that. So
/// there is a second one.
pub(crate) fn within(time: Duration, mut done: impl FnMut() -> bool) -> bool {
    if done() {
        return true;
    }
    let end = Instant::now() + time;
    loop {
        std::thread::sleep(PAUSE);
        if done() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
    }
}
