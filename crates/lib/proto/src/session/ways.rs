//! By which path the frames of a session go (`PROTOCOL.md` §11).

use super::state::REPETITIONS;
use super::{ANSWER, CREDIT, Plan, Session, State};
use crate::Config;
use crate::send::SendWindow;
use gigae_wire::{Flags, NodeAddr};

impl<T, R> Session<T, R> {
    /// Whether this is the peer's address on a path beyond the first.
    #[inline(never)]
    pub(crate) fn is_at(&self, path: usize, node: &NodeAddr) -> bool {
        self.links.get(path).is_some_and(|mac| NodeAddr::Ethernet(mac) == *node)
    }

    /// A frame of this session came with a question, or with the answer to one.
    #[cold]
    pub(crate) fn marked(&mut self, flags: Flags, path: usize, config: &Config) {
        if flags.has(Flags::ASK) {
            self.receive.as_mut().expect("established").ask();
            if self.paths > 1 {
                self.asked |= 1 << path;
                self.probes |= ANSWER;
            }
        }
        if flags.has(Flags::ANSWER) {
            self.send.as_mut().expect("established").revive(path, config);
        }
    }

    /// A link of this end does not work: what flew on it goes again elsewhere.
    pub(crate) fn give_up(&mut self, path: usize) {
        let up = self.is_up();
        if let Some(send) = self.send.as_mut().filter(|_| up) {
            self.probes |= send.give_up(path);
        }
    }

    /// The path for a control frame of this sort, and what is asked or answered on it.
    #[inline]
    pub(crate) fn way(&mut self, plan: Plan) -> (usize, Flags) {
        if self.paths == 1 && plan == Plan::Ack {
            return (0, Flags::NONE);
        }
        self.way_of_several(plan)
    }

    #[cold]
    fn way_of_several(&mut self, plan: Plan) -> (usize, Flags) {
        let alive = |send: &Option<Box<SendWindow<T>>>, wanted: u8| {
            send.as_ref().map_or(0, |send| send.alive(wanted.into()))
        };
        let first = |bits: u16| bits.trailing_zeros() as usize;
        match plan {
            // Of a former session it is known which ways there are, not which still lead there.
            Plan::Hello | Plan::Confirm
                if let State::Proposing(repeated) | State::Confirming(repeated, _) = self.state =>
            {
                (self.in_turn(repeated.tries), Flags::NONE)
            }
            Plan::Farewell if let Some(farewell) = &self.farewell => {
                (self.in_turn(REPETITIONS - farewell.left), Flags::NONE)
            }
            _ if self.asked != 0 => {
                let path = first(self.asked);
                self.asked &= !(1 << path);
                if self.asked == 0 {
                    self.probes &= !ANSWER;
                }
                (path, Flags::ANSWER)
            }
            Plan::Probe if self.probes & !CREDIT != 0 => {
                let path = first(self.probes);
                self.probes &= !(1 << path);
                (path, Flags::ASK)
            }
            Plan::Probe => {
                self.probes = 0;
                let path = alive(&self.send, self.heard_on);
                // Nothing flies whose loss would tell that this path does not work. An answer says
                // otherwise.
                self.heard_on = (path as u8 + 1) % self.paths;
                (path, Flags::ASK)
            }
            _ => {
                let path = alive(&self.send, self.heard_on);
                self.replied_on = path as u8;
                (path, Flags::NONE)
            }
        }
    }

    /// A frame came that had come before: what acknowledged it may be lost because its path works
    /// one way only, so the next acknowledgement goes by another.
    #[cold]
    pub(crate) fn heard_again(&mut self) {
        self.heard_on = (self.replied_on + 1) % self.paths;
    }

    /// The paths one after the other, the one by which the peer was last heard first.
    fn in_turn(&self, n: u8) -> usize {
        usize::from(self.heard_on.wrapping_add(n) % self.paths)
    }
}
