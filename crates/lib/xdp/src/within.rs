//! Waits for what the kernel does a little later and tells nobody.

use std::time::{Duration, Instant};

/// Pause between looks at something that takes a while.
const PAUSE: Duration = Duration::from_micros(100);

/// Looks until `done` says so or the time is up; whether it did.
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
