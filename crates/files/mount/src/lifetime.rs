//! How long something is believed.

use std::time::Duration;

/// How long the kernel uses names and attributes without asking.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(1);
