//! By which path the frames of a session go (`PROTOCOL.md` §11).

use super::state::REPETITIONS;
use super::{NextFrame, Session, SessionState};
use crate::ProtocolConfig;
use crate::log;
use crate::send::SendWindow;
use gigae_wire::{Flags, NodeAddr, PathAddr, PathId, Paths};

impl<T, R> Session<T, R> {
    /// Whether this is the peer's address on a path beyond the first.
    #[inline(never)]
    pub(crate) fn is_at(&self, path: PathId, node: &NodeAddr) -> bool {
        match self.links.get(path) {
            Some(PathAddr::Link(mac)) => NodeAddr::Ethernet(mac) == *node,
            Some(PathAddr::Socket(socket)) => {
                matches!(node, NodeAddr::Ip { ip, .. } if *ip == socket.ip())
            }
            None => false,
        }
    }

    /// A frame of this session came with a question or an answer.
    #[cold]
    pub(crate) fn marked(&mut self, flags: Flags, path: PathId, config: &ProtocolConfig) {
        if flags.has(Flags::ASK) {
            self.receive.as_mut().expect("established").ask();
            if self.paths > 1 {
                self.probes.answers.insert(path);
            }
        }
        if flags.has(Flags::ANSWER) {
            let send = self.send.as_mut().expect("established");
            if send.revive(path, config) {
                log::path_up(&self.key, path);
                self.forget_coalescing();
            }
        }
    }

    /// A link of this end does not work. What was in flight on it is sent again by other paths.
    pub(crate) fn give_up(&mut self, path: PathId) {
        let up = self.is_up();
        if let Some(send) = self.send.as_mut().filter(|_| up) {
            let given_up = send.give_up(path);
            self.probes.paths = self.probes.paths.union(given_up);
            log::paths_down(&self.key, given_up);
        }
    }

    /// The path for a control frame of this kind, and what it asks or answers there.
    #[inline]
    pub(crate) fn path_for(&mut self, frame: NextFrame) -> (PathId, Flags) {
        if self.paths == 1 && frame == NextFrame::Ack {
            return (PathId::FIRST, Flags::NONE);
        }
        self.path_of_several(frame)
    }

    /// Credit is shared: others may send by the same queues as this session at the same moment.
    #[cold]
    #[inline(never)]
    pub(crate) fn share_queues(&mut self) {
        if let Some(send) = self.send.as_mut().filter(|send| !send.shares_queues()) {
            send.share_queues();
        }
    }

    #[cold]
    fn path_of_several(&mut self, frame: NextFrame) -> (PathId, Flags) {
        let alive = |send: &Option<Box<SendWindow<T>>>, wanted: PathId| {
            send.as_ref().map_or(PathId::FIRST, |send| send.alive(wanted))
        };
        match frame {
            // A former session shows which paths there were, not which of them still work.
            NextFrame::Hello | NextFrame::Confirm
                if let SessionState::Proposing(repeated)
                | SessionState::Confirming(repeated, _) = self.state =>
            {
                (self.in_turn(repeated.tries), Flags::NONE)
            }
            NextFrame::Close if let Some(close) = &self.close => {
                (self.in_turn(REPETITIONS - close.left), Flags::NONE)
            }
            _ if let Some(path) = self.probes.answers.pop() => (path, Flags::ANSWER),
            NextFrame::Probe if let Some(path) = self.probes.paths.pop() => (path, Flags::ASK),
            NextFrame::Probe => {
                self.probes.credit = false;
                let path = alive(&self.send, self.received_on);
                // No data are in flight whose loss would show that this path does not work. An
                // answer shows that it works.
                self.received_on = path.after(1, self.paths);
                (path, Flags::ASK)
            }
            // The sender polls the link anyway; a look at the socket is a system call.
            _ if matches!(self.links, Paths::Bulk(_)) => (PathId::FIRST, Flags::NONE),
            _ => {
                let path = alive(&self.send, self.received_on);
                self.replied_on = path;
                (path, Flags::NONE)
            }
        }
    }

    /// A frame came that had come before: what acknowledged it may be lost because its path works
    /// one way only, so the next acknowledgement goes by another.
    #[cold]
    pub(crate) fn on_duplicate(&mut self) {
        self.received_on = self.replied_on.after(1, self.paths);
        if let Some(send) = &mut self.send {
            send.asked();
        }
    }

    /// The paths one after the other, beginning with the one by which the last frame arrived. A
    /// session neither comes up nor ends by a socket.
    fn in_turn(&self, n: u8) -> PathId {
        if matches!(self.links, Paths::Bulk(_)) {
            return PathId::FIRST;
        }
        self.received_on.after(n, self.paths)
    }
}
