//! Makes progress: waiting messages, ended transfers, and the next deadline.

use super::held::{HeldSend, PendingTransfer, TransferKind};
use super::state::Context;
use super::{Fault, PmResult};
use crate::error::{Code, Error};
use gigae::{SendError, TrySendError};
use rustix::io::Errno;
use std::mem::take;
use std::time::Duration;

impl Context {
    /// Takes the transfers that have ended.
    pub(super) fn reap(&mut self) -> PmResult<()> {
        while let Some(done) = self.state.endpoint().try_completion().map_err(Error::from)? {
            let Some(PendingTransfer { kind, .. }) = self.transfers.remove(&done.id) else {
                continue;
            };
            if let Err(e) = done.result {
                self.refused[kind as usize] = Some(e.into());
            }
        }
        Ok(())
    }

    /// Sends a buffer, or keeps it until the window has room and earlier writes to the node are in
    /// place: a message could overtake them.
    pub(super) fn post(&mut self, message: HeldSend) -> PmResult<()> {
        let HeldSend { ticket, to, len } = message;
        if self.transfers.values().any(|t| t.kind == TransferKind::Write && t.peer == to) {
            self.waiting.push(message);
            return Ok(());
        }
        let buffers = &mut self.state.buffers;
        let buffer = buffers.lift(ticket).ok_or(Error::from(Code::BadHandle))?;
        match buffer.try_queue(to, len) {
            Ok(()) => drop(buffers.remove(ticket)),
            Err(TrySendError::WouldBlock(back)) => {
                buffers.put(ticket, back);
                self.waiting.push(message);
            }
            Err(TrySendError::Refused(e)) => {
                buffers.remove(ticket);
                return Err(self.unsent(e));
            }
        }
        Ok(())
    }

    /// Tries the waiting messages again.
    pub(super) fn retry(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        // They count as sent, so they also wait for a link that is down.
        if let Err(error) = self.state.endpoint().progress() {
            self.fault = Some(self.unsent(error));
            return;
        }
        if !self.transfers.is_empty()
            && let Err(fault) = self.reap()
        {
            self.fault = Some(fault);
        }
        self.post_waiting();
    }

    fn post_waiting(&mut self) {
        for message in take(&mut self.waiting) {
            if let Err(fault) = self.post(message) {
                self.fault = Some(fault);
            }
        }
    }

    /// Continues everything that is in progress.
    pub(super) fn progress(&mut self) -> PmResult<()> {
        self.retry();
        let made = self.state.endpoint().progress();
        made.map_err(|e| self.unsent(e))
    }

    fn unsent(&self, e: SendError) -> Fault {
        match e {
            SendError::Failed => self.failed(),
            other => Error::from(other).into(),
        }
    }

    /// Takes the failed messages, so more can be sent, and says why they failed.
    pub(super) fn failed(&self) -> Fault {
        let mut fault = Fault::new(Errno::IO, "messages failed");
        while let Some(failed) = self.state.endpoint().take_failure() {
            fault = Fault::lost(failed.reason(), &failed.to_string());
        }
        fault
    }

    /// Acknowledges what has arrived and sets the alarm for the next deadline.
    pub(super) fn arm(&mut self) -> PmResult<()> {
        let after = self.prepare_to_wait()?;
        match &self.alarm {
            Some(alarm) => alarm.set(after),
            None => Ok(()),
        }
    }

    /// How long the program may sleep.
    pub(super) fn prepare_to_wait(&mut self) -> PmResult<Option<Duration>> {
        self.retry();
        // Ended transfers wait until the program asks, and are no reason to wake it.
        self.reap()?;
        let after = self.state.endpoint().prepare_to_wait().map_err(Error::from)?;
        // Either may have taken in what a message waited for: room, or the end of a write.
        let before = self.waiting.len();
        self.post_waiting();
        let is_due = self.waiting.len() < before || self.fault.is_some();
        Ok(if is_due { Some(Duration::ZERO) } else { after })
    }
}
