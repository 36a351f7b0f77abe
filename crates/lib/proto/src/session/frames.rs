//! What a session should transmit next, and the headers of its frames.

use super::{NextFrame, Session, SessionState};
use crate::ProtocolConfig;
use crate::receive::initial_credit;
use crate::send::Class;
use crate::time::Instant;
use gigae_wire::{AckReport, Epoch, Flags, Header, Kind, SeqNo};

impl<T, R> Session<T, R> {
    /// What to transmit now, most urgent first. Changes nothing.
    #[inline]
    pub(crate) fn next_frame(&self) -> Option<NextFrame> {
        if matches!(self.state, SessionState::Established) {
            self.next_frame_up()
        } else {
            self.next_frame_otherwise()
        }
    }

    /// Whether all that is to transmit now is an acknowledgement of what came by a further path,
    /// and any data frame can carry it as well.
    pub(crate) fn can_acknowledge_later(&self) -> bool {
        !self.received_on.is_first()
            && self.next_frame() == Some(NextFrame::Ack)
            && self.receive.as_ref().is_some_and(|receive| !receive.has_gap())
    }

    #[inline]
    fn next_frame_up(&self) -> Option<NextFrame> {
        let (Some(send), Some(receive)) = (&self.send, &self.receive) else { return None };
        if receive.has_gap() {
            Some(NextFrame::Ack)
        } else if send.can_transmit() && !self.sizing {
            Some(NextFrame::Data)
        } else if !self.probes.is_empty() {
            Some(NextFrame::Probe)
        } else {
            receive.is_due(false).then_some(NextFrame::Ack)
        }
    }

    #[cold]
    fn next_frame_otherwise(&self) -> Option<NextFrame> {
        match &self.state {
            SessionState::Established => self.next_frame_up(),
            SessionState::Confirming(repeated, _) if repeated.due => Some(NextFrame::Confirm),
            SessionState::Confirming(..) => self.next_frame_up(),
            SessionState::Proposing(repeated) => repeated.due.then_some(NextFrame::Hello),
            SessionState::Closing => self.close.as_ref()?.due.then_some(NextFrame::Close),
            SessionState::Idle => None,
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

    /// Builds the Hello that [`next_frame`](Self::next_frame) asked for. Its credit is that of a
    /// new session, also when it is repeated: credit is never withdrawn.
    pub(crate) fn hello(&mut self, now: Instant, config: &ProtocolConfig) -> Header {
        if let SessionState::Proposing(repeated) = &mut self.state {
            repeated.sent(now, self.local);
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

    /// Whether this end asks the peer if it knows the session. Questions to the peer are Confirms
    /// then.
    pub(crate) fn is_confirming(&self) -> bool {
        matches!(self.state, SessionState::Confirming(..))
    }

    /// Writes what a data frame of this class says of credit into its header.
    #[cold]
    #[inline(never)]
    pub(crate) fn say(&mut self, class: Class, header: &mut Header) {
        if let Some(send) = &mut self.send {
            header.flags = send.say(class, header.flags);
            self.budget.told = header.flags.demand();
        }
    }

    /// Whether an Ack with these flags goes first.
    #[cold]
    #[inline(never)]
    pub(crate) fn acknowledges_first(&mut self, flags: Flags) -> bool {
        let is_confirming = self.is_confirming();
        self.send.as_mut().is_some_and(|send| send.acknowledges_first(flags)) && !is_confirming
    }

    /// Builds a Confirm. Returns its header and the peer's token that it repeats.
    #[cold]
    pub(crate) fn confirm(
        &mut self,
        frame: NextFrame,
        now: Instant,
        config: &ProtocolConfig,
    ) -> (Header, u64) {
        let SessionState::Confirming(repeated, token) = &mut self.state else {
            unreachable!("only a session in doubt is confirmed")
        };
        let token = *token;
        if frame == NextFrame::Confirm {
            repeated.sent(now, self.local);
        }
        self.waiting.start();
        let next = self.send.as_ref().map_or(self.local.first_seq(), |send| send.sent());
        let mut header = self.header(Kind::Confirm, config.port, next);
        header.flags = Flags::ASK;
        (header, token)
    }

    /// Builds the Reset that [`next_frame`](Self::next_frame) asked for. Its ASK flag says that its
    /// acknowledgement counts and that it wants an answer.
    pub(crate) fn reset(&mut self, config: &ProtocolConfig) -> Header {
        let close = self.close.as_mut().expect("only a closing session closes gracefully");
        close.due = false;
        close.since.start();
        Header {
            kind: Kind::Reset,
            channel: self.key.channel,
            src_port: config.port,
            dst_port: self.key.port,
            src_epoch: self.local,
            dst_epoch: close.remote,
            seq: self.local.first_seq(),
            ack: close.ack,
            credit: 0,
            flags: Flags::ASK,
        }
    }

    /// Writes the report of an Ack frame; returns its length.
    pub(crate) fn write_report(&self, out: &mut [u8; 4 + AckReport::MAX_BITMAP]) -> usize {
        self.receive.as_ref().map_or(0, |r| r.write_report(out))
    }
}
