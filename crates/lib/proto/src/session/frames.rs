//! What a session should transmit next, and the headers of its frames.

use super::{Plan, Session, State};
use crate::Config;
use crate::receive::initial_credit;
use crate::time::Instant;
use gigae_wire::{AckReport, Epoch, Flags, Header, Kind, SeqNo};

impl<T, R> Session<T, R> {
    /// What should go out now, in order of urgency. Changes nothing.
    #[inline]
    pub(crate) fn plan(&self) -> Option<Plan> {
        if matches!(self.state, State::Established) { self.plan_up() } else { self.plan_besides() }
    }

    #[inline]
    fn plan_up(&self) -> Option<Plan> {
        let (Some(send), Some(receive)) = (&self.send, &self.receive) else { return None };
        if receive.has_gap() {
            Some(Plan::Ack)
        } else if send.can_transmit() && !self.sizing {
            Some(Plan::Data)
        } else if self.probes != 0 {
            Some(Plan::Probe)
        } else {
            receive.is_due(false).then_some(Plan::Ack)
        }
    }

    #[cold]
    fn plan_besides(&self) -> Option<Plan> {
        match &self.state {
            State::Established => self.plan_up(),
            State::Confirming(repeated, _) if repeated.due => Some(Plan::Confirm),
            State::Confirming(..) => self.plan_up(),
            State::Proposing(repeated) => repeated.due.then_some(Plan::Hello),
            State::Closing => self.farewell.as_ref()?.due.then_some(Plan::Farewell),
            State::Idle => None,
        }
    }

    /// Header of a frame of this session, with acknowledgement and credit as they are now.
    #[inline]
    pub(crate) fn header(&mut self, kind: Kind, port: u16, seq: SeqNo) -> Header {
        let (ack, credit) = match &mut self.receive {
            Some(receive) => receive.fields(kind == Kind::Ack),
            None => (self.remote.first_seq(), 0),
        };
        Header {
            kind,
            channel: self.key.channel,
            src_port: port,
            dst_port: self.key.port,
            src_epoch: self.local,
            dst_epoch: self.remote,
            seq,
            ack,
            credit,
            flags: Flags::NONE,
        }
    }

    /// Builds the Hello that `plan` asked for. Its credit is that of a new session also when it is
    /// repeated: credit once given is never taken back.
    pub(crate) fn hello(&mut self, now: Instant, config: &Config) -> Header {
        if let State::Proposing(repeated) = &mut self.state {
            repeated.sent(now);
        }
        Header {
            kind: Kind::Hello,
            channel: self.key.channel,
            src_port: config.port,
            dst_port: self.key.port,
            src_epoch: self.local,
            dst_epoch: Epoch::UNKNOWN,
            seq: self.local.first_seq(),
            ack: Epoch::UNKNOWN.first_seq(),
            credit: initial_credit(config),
            flags: Flags::NONE,
        }
    }

    /// Whether the peer is asked if it knows the session: questions to it are Confirms then.
    pub(crate) fn is_confirming(&self) -> bool {
        matches!(self.state, State::Confirming(..))
    }

    /// Builds a Confirm, and the token of the peer's that it repeats.
    #[cold]
    pub(crate) fn confirm(&mut self, plan: Plan, now: Instant, config: &Config) -> (Header, u64) {
        let State::Confirming(repeated, token) = &mut self.state else {
            unreachable!("only a session in doubt is confirmed")
        };
        let token = *token;
        if plan == Plan::Confirm {
            repeated.sent(now);
        }
        self.waiting.start();
        let next = self.send.as_ref().map_or(self.local.first_seq(), |send| send.sent());
        let mut header = self.header(Kind::Confirm, config.port, next);
        header.flags = Flags::ASK;
        (header, token)
    }

    /// Builds the Reset that `plan` asked for: its ASK says that its acknowledgement counts and
    /// that an answer is wanted.
    pub(crate) fn reset(&mut self, config: &Config) -> Header {
        let farewell = self.farewell.as_mut().expect("only a closing session says farewell");
        farewell.due = false;
        farewell.since.start();
        Header {
            kind: Kind::Reset,
            channel: self.key.channel,
            src_port: config.port,
            dst_port: self.key.port,
            src_epoch: self.local,
            dst_epoch: farewell.remote,
            seq: self.local.first_seq(),
            ack: farewell.ack,
            credit: 0,
            flags: Flags::ASK,
        }
    }

    /// The report that goes with an Ack frame; returns its length.
    pub(crate) fn write_report(&self, out: &mut [u8; 4 + AckReport::MAX_BITMAP]) -> usize {
        self.receive.as_ref().map_or(0, |r| r.write_report(out))
    }
}
