//! Operations between the frames and `gigae_transfer`: those that arrived are carried out, those that
//! were started here fill frames.

use super::{DOORBELL_EVERY, Engine, READY_BESIDES};
use crate::operations::Memory;
use crate::outbound::{Outbound, PAYLOAD};
use gigae_link::LinkError;
use gigae_proto::{Delivery, Ended, PeerId};
use gigae_transfer::Transfer;

impl Engine {
    /// The program's operations, to start or cancel some: the next poll looks at them.
    #[inline]
    pub(crate) fn operations(&mut self) -> &mut Transfer<Memory> {
        self.quiet = false;
        &mut self.transfer
    }

    /// Whether operations have ended or notices wait.
    pub(crate) fn has_completions(&self) -> bool {
        self.transfer.has_completions()
    }

    /// Whether anything that was sent or started is not acknowledged or answered.
    pub(crate) fn is_owed(&self) -> bool {
        self.proto.has_unacknowledged() || self.transfer.is_owed()
    }

    /// Carries out the operations that have arrived. One copy of their data; the frames go back at
    /// once.
    #[inline(never)]
    pub(super) fn operate(&mut self) {
        // What was acknowledged belongs to sessions that may be among those that have ended.
        self.reap();
        let Self { proto, transfer, inbox, links, .. } = self;
        while let Some(Delivery { peer, epoch, buffer }) = proto.poll_operations() {
            let (path, frame, payload) = inbox.read(buffer);
            transfer.handle(peer, epoch, links.arenas.bytes(path, &frame)[payload].into());
            links.recycle(path, frame);
            proto.release(peer, epoch);
        }
        while let Some(Ended { peer, epoch, reason }) = proto.poll_ended() {
            transfer.ended(peer, epoch, reason);
        }
        if self.proto.credit() as usize + READY_BESIDES > self.ready {
            self.provide();
        }
    }

    /// Fills frames with operations, as many as windows and frames allow, the peers taking turns.
    #[inline(never)]
    pub(super) fn fill(&mut self) -> Result<(), LinkError> {
        let mut waiting = 0;
        while waiting < self.transfer.ready() {
            let Some(peer) = self.transfer.poll_ready() else { break };
            match self.fill_frame(peer) {
                Some(true) => {
                    waiting = 0;
                    self.unposted += 1;
                    if self.unposted >= DOORBELL_EVERY {
                        self.transmit()?;
                    }
                }
                Some(false) => {}
                None => {
                    self.transfer.postpone(peer);
                    waiting += 1;
                }
            }
        }
        Ok(())
    }

    /// Fills one frame with operations for a peer. False if there are none; `None` if it has to wait.
    fn fill_frame(&mut self, peer: PeerId) -> Option<bool> {
        let Some((epoch, longest)) = self.proto.established(peer) else {
            self.proto.propose(peer);
            return None;
        };
        if self.proto.is_full(peer) {
            return None;
        }
        let mut frame = self.take()?;
        let longest = usize::from(longest.min(self.proto.config().max_payload));
        let bytes = &mut self.arena.bytes_mut(&mut frame)[PAYLOAD..][..longest];
        let len = self.transfer.fill(peer, epoch, bytes);
        if len == 0 {
            self.give_back_unsent(frame);
            return Some(false);
        }
        self.transfer.framed(peer);
        let len = u16::try_from(len).expect("no longer than a frame");
        let frame = Outbound::operations(frame, len, peer);
        if self.proto.send_operations(peer, len, frame).is_err() {
            unreachable!("the session is up and its window has room");
        }
        Some(true)
    }
}
