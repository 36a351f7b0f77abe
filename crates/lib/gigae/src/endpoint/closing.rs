//! The end: waiting for what is owed, and the graceful close.

use super::Endpoint;
use super::waiting::Pause;
use crate::engine::Engine;
use crate::error::DrainError;
use gigae_link::LinkError;
use std::time::{Duration, Instant};
use tracing::info;

/// # Closing
///
/// Dropping the endpoint closes it.
impl Endpoint {
    /// Waits until everything that was sent is acknowledged, and every operation except receives is
    /// completed, at most for `timeout`. Messages that arrive during the wait are kept for the next
    /// receive. An acknowledged message has arrived at the peer's endpoint. Only an answer of the
    /// peer's program shows that the program has read it.
    pub fn drain(&self, timeout: Duration) -> Result<(), DrainError> {
        self.drain_unless(timeout, Engine::has_failures)
    }

    fn drain_unless(
        &self,
        timeout: Duration,
        has_failed: impl Fn(&Engine) -> bool,
    ) -> Result<(), DrainError> {
        let end = Instant::now() + timeout;
        self.engine().acknowledge()?;
        let mut pause = Pause::default();
        loop {
            // In one look: between two, the thread may take in that the last message has failed.
            let (has_failed, is_owed) = {
                let engine = self.engine();
                (has_failed(&engine), engine.is_owed())
            };
            if has_failed {
                return Err(DrainError::Failed);
            }
            if !is_owed {
                pause.end(self);
                return Ok(());
            }
            if !pause.pass(self, Some(end))? {
                return Err(DrainError::Timeout(timeout));
            }
            self.engine().progress()?;
        }
    }

    /// Begins the graceful close, as dropping does, without waiting: what is not acknowledged
    /// fails. Once. For simulations: dropping waits in real time.
    #[doc(hidden)]
    pub fn begin_close(&self) -> Result<(), LinkError> {
        self.engine().close()
    }

    /// Whether some peers have neither answered the [close](Self::begin_close) nor been given up.
    #[doc(hidden)]
    pub fn is_closing(&self) -> bool {
        self.engine().proto.is_closing()
    }

    /// Waits a while for the acknowledgement of what was sent, then ends all sessions and waits
    /// until the peers know; all that within [`Options::linger`](crate::Options::linger).
    fn close(&self) -> Result<(), LinkError> {
        let end = Instant::now() + self.linger;
        // Messages that failed before do not keep others from arriving.
        match self.drain_unless(self.linger, |_| false) {
            Err(DrainError::Link(e)) => return Err(e),
            Ok(()) | Err(DrainError::Failed | DrainError::Timeout(_)) => self.engine().close()?,
        }
        let mut pause = Pause::default();
        while self.engine().proto.is_closing() && pause.pass(self, Some(end))? {
            self.engine().progress()?;
        }
        Ok(())
    }
}

impl Drop for Endpoint {
    /// Waits, at most for [`Options::linger`](crate::Options::linger), until the peers have
    /// acknowledged what was sent. Then informs all peers that this endpoint closes and which
    /// messages have arrived here. A peer that is there answers at once. For the others this waits
    /// at most 127 ms, within the same linger. In the end it waits, without a limit, for a
    /// neighbour that is stopped in the middle of a copy ([`deregister`](Self::deregister)).
    ///
    /// In a child of fork(2) nothing happens: the links are the parent's.
    fn drop(&mut self) {
        if self.engine.is_forked() {
            return;
        }
        // By a link that stopped working, no peer can be reached.
        let closed = self.close();
        info!(interface = %self.info.interface, error = closed.err().map(display), "endpoint closed");
        self.attended = None;
        // Its copies of the links' descriptors go before the links.
        self.fd = None;
    }
}
