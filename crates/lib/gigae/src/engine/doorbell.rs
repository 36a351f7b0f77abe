//! What the next doorbell is for.

/// Frames queued without a doorbell after which it is rung all the same: a system call is shared by
/// enough then, and the frames are still in the cache when the kernel copies them.
const DOORBELL_EVERY: usize = 32;

/// See the module's description.
#[derive(Default)]
pub(super) struct Doorbell {
    /// Frames queued since the last one.
    unposted: usize,
    /// It must be rung, also if the protocol has nothing to send: the NIC did not take
    /// everything the last time or there was no NIC to take it, or a question or answer was posted.
    pub(super) backlog: bool,
    /// Operations wait until the NIC has sent more of its frames.
    pub(super) full: bool,
    /// The link did not work when the doorbell rang for messages that had been accepted: it is
    /// asked again before the next one is.
    pub(super) broken: bool,
}

impl Doorbell {
    /// A frame was queued. Whether enough of them wait.
    #[inline]
    pub(super) fn queued(&mut self) -> bool {
        self.queued_bulk(1)
    }

    /// A frame was queued that is as long as this many full ones.
    #[inline]
    pub(super) fn queued_bulk(&mut self, frames: usize) -> bool {
        self.unposted += frames;
        self.unposted >= DOORBELL_EVERY
    }

    /// Frames queued since the last one.
    pub(super) fn unposted(&self) -> usize {
        self.unposted
    }

    /// Whether frames or messages wait for one, or the last one failed.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.unposted > 0 || self.backlog || self.broken
    }

    /// All that was queued is posted.
    #[inline]
    pub(super) fn posted(&mut self) {
        self.unposted = 0;
    }
}
