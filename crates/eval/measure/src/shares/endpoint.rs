//! What flows of gigae do with an endpoint, whatever their messages are.

use super::work::{LOOK, TRIP};
use crate::transport::TransportError;
use crate::transport::gigae::failed;
use ::gigae::{Endpoint, Peer, RecvError, SendError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(super) fn not_sent(error: SendError) -> TransportError {
    failed("sending by gigae")(error)
}

pub(super) fn not_received(error: RecvError) -> TransportError {
    failed("receiving by gigae")(error)
}

/// Answers a question.
pub(super) fn answer(endpoint: &Endpoint, to: Peer) -> Result<(), TransportError> {
    endpoint.send(to, &[3; TRIP]).map_err(not_sent)
}

/// Answers all questions that have come; whether there was any.
pub(super) fn answer_all(endpoint: &Endpoint) -> Result<bool, TransportError> {
    let mut has_any = false;
    while let Some(message) = endpoint.try_recv().map_err(not_received)? {
        let from = message.from();
        drop(message);
        answer(endpoint, from)?;
        has_any = true;
    }
    Ok(has_any)
}

/// Sleeps until a frame arrives, which may make room.
pub(super) fn sleep(endpoint: &Endpoint) -> Result<(), TransportError> {
    let Some(fd) = endpoint.fd() else { return Ok(()) };
    let left = endpoint.prepare_to_wait().map_err(not_sent)?;
    let nap = left.map_or(LOOK, |left| left.min(LOOK));
    if nap.is_zero() {
        return Ok(());
    }
    let timeout = Timespec::try_from(nap).ok();
    match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(TransportError::io("waiting for frames")(error.into())),
    }
}
