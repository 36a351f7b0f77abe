//! What the answering end does between two requests, whatever they ask for.

use super::error::ControlError;
use super::message::{Reply, Request};
use super::session::Session;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for the rest of a request whose beginning is there.
const REST: Duration = Duration::from_secs(4);

/// How often a waiting server looks at its flag. Seldom enough to disturb nothing.
pub const LOOK: Duration = Duration::from_millis(200);

/// What a client is said whose server ends.
pub const ENDED: &str = "'gigae serve' was ended there";

/// The next request; `None` when the server is to end.
pub fn next(
    session: &mut Session,
    timeout: Duration,
    interrupted: &AtomicBool,
) -> Result<Option<Request>, ControlError> {
    let deadline = Instant::now() + timeout;
    while Instant::now() < deadline {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if session.readable(LOOK)? {
            return session.receive(REST).map(Some);
        }
    }
    Err(ControlError::Silent("ask for anything"))
}

/// The reply to a request that failed.
pub fn failed(reason: &str) -> Reply {
    Reply::Failed { reason: reason.to_owned(), unavailable: false }
}
