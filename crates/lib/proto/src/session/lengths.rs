//! How long the frames of a session may be (`PROTOCOL.md` §12).

use super::Session;
use crate::ProtocolConfig;
use crate::config::LEAST_PART;
use crate::size::{Echo, SizeFrame};
use crate::time::Since;
use gigae_wire::{Kind, PathId};

impl<T, R> Session<T, R> {
    /// Asks for the longest frames that both ends accept, unless every network carries them. Data
    /// wait for the answer.
    pub(super) fn ask_size(&mut self, config: &ProtocolConfig) {
        let message = config.max_payload.min(self.peer.max_payload);
        let longest = config.max_operations.min(self.peer.max_operations).max(message);
        self.sizing = longest > config.sure_payload;
        if self.sizing {
            let next = message > config.sure_payload && message < longest;
            // A socket for bulk data carries no such question.
            let by = if config.bulk.is_some() { PathId::FIRST } else { self.received_on };
            let sizes = self.sizes.get_or_insert_default();
            sizes.ask([longest, if next { message } else { 0 }], by);
            self.probes.size = true;
        }
    }

    /// Nothing of what was in flight by the link has arrived. Asks again, if there are long frames
    /// that could go in parts: the network may carry less than it did.
    #[cold]
    pub(super) fn doubt_size(&mut self, config: &ProtocolConfig) {
        // Where parts do not fit, there is nothing to do about it.
        let take_parts = config.max_payload.min(self.peer.max_payload) >= LEAST_PART;
        let send = self.send.as_mut().filter(|_| take_parts && !self.sizing);
        if send.is_some_and(|send| send.has_longer(config.sure_payload)) {
            self.ask_size(config);
            self.asks_size_again = self.sizing;
        }
    }

    /// The peer asks about a frame that has arrived.
    #[cold]
    pub(crate) fn on_probe(&mut self, echo: Echo, path: PathId) {
        self.sizes.get_or_insert_default().on_question(echo, path);
        self.probes.size = true;
    }

    /// A frame of this end has arrived. Returns whether it shows that longer ones vanish.
    #[cold]
    pub(crate) fn on_echo(&mut self, echo: Echo, config: &ProtocolConfig) -> bool {
        let Some(sizes) = &mut self.sizes else { return false };
        let settled = sizes.on_answer(echo);
        // A repetition that was due may not be needed any more.
        self.probes.size = sizes.is_due();
        // The peer is there, so its time begins again; but not where unacknowledged data led to the
        // question. If those never arrive, the session must end.
        if self.waiting != Since::Never && !self.asks_size_again {
            self.waiting = Since::Next;
            self.spared = false;
        }
        let Some(len) = settled else { return false };
        if sizes.is_over() {
            self.sizes = None;
        }
        self.sizing = false;
        let len = if len == 0 { config.sure_payload } else { len };
        let both = config.max_operations.min(self.peer.max_operations);
        self.peer.max_operations = self.peer.max_operations.min(len);
        if !std::mem::take(&mut self.asks_size_again) {
            self.peer.max_payload = self.peer.max_payload.min(len);
        } else if let Some(send) = &mut self.send {
            send.divide(len);
        }
        len < both
    }

    /// The Probe or Echo that [`next_frame`](Self::next_frame) asked for: kind, contents, length of
    /// the payload, and path.
    #[cold]
    pub(crate) fn next_size(&mut self) -> Option<(Kind, Echo, u16, PathId)> {
        let sizes = self.sizes.as_mut()?;
        let next = sizes.next();
        self.probes.size &= sizes.is_due();
        if sizes.is_over() {
            self.sizes = None;
        }
        let alive =
            |wanted: PathId| self.send.as_ref().map_or(PathId::FIRST, |send| send.alive(wanted));
        Some(match next? {
            SizeFrame::Question(echo, path) => (Kind::Probe, echo, echo.len, alive(path)),
            SizeFrame::Answer(echo, path) => (Kind::Echo, echo, 0, path),
        })
    }

    /// The length to which a probe of a dead path is padded. The path comes back only if it carries
    /// what the others carry.
    #[cold]
    pub(crate) fn pad(&mut self, path: PathId, config: &ProtocolConfig) -> u16 {
        let probe = self.send.as_ref().is_some_and(|send| send.is_dead(path));
        if let Some(bulk) = config.bulk.filter(|_| !path.is_first()) {
            // A dead path comes back if it carries a datagram of the longest.
            return match std::mem::take(&mut self.asks) {
                _ if probe => bulk.longest(1),
                true => bulk.longest(bulk.most),
                false => 0,
            };
        }
        let longest = config.max_operations.min(self.peer.max_operations);
        if probe && longest > config.sure_payload { longest } else { 0 }
    }

    /// Whether a message waits until the length of frames is known.
    #[cold]
    pub(super) fn wants_size(&self) -> bool {
        self.sizing
            && (self.sizes.as_ref().is_some_and(|sizes| sizes.wanted)
                || self.send.as_ref().is_some_and(|send| !send.is_empty()))
    }
}
