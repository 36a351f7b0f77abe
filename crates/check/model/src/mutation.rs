//! What the harness does wrong on request, to show that the rules notice it.

use crate::form::{Form, Mutation};
use crate::network::LinkDirection;
use crate::node::{Frame, Payload};
use crate::system::System;
use gigae_wire::{Flags, Header, Kind};

impl System {
    /// What a late frame looks like to a receiver that does not look at epochs, or at numbers.
    pub(crate) fn falsify(&self, form: &Form, direction: LinkDirection, frame: Frame) -> Frame {
        let reported = &self.nodes[direction.to].reported[direction.from];
        let mut header = frame.header;
        if form.mutation == Mutation::BlindToEpochs && header.kind.is_of_session() {
            (header.dst_epoch, header.src_epoch) = reported.epochs;
        }
        if matches!(form.mutation, Mutation::BlindToEpochs | Mutation::BlindToNumbers)
            && header.kind.is_data()
        {
            header.seq = reported.ack;
        }
        Frame { header, ..frame }
    }

    /// The network answers the oldest frame of a direction, which has not arrived.
    pub(crate) fn forge(&mut self, form: &Form, direction: LinkDirection) {
        let Some(frame) = self.network.first(direction) else { return };
        let asked = frame.header;
        let (kind, flags) = match form.mutation {
            Mutation::ForgedReset => (Kind::Reset, Flags::ANSWER),
            _ => (Kind::Ack, Flags::NONE),
        };
        let header = Header {
            kind,
            src_epoch: asked.dst_epoch,
            dst_epoch: asked.src_epoch,
            seq: asked.ack,
            ack: asked.seq + 1,
            credit: 1,
            flags,
            ..asked
        };
        let life = self.nodes[direction.to].life;
        let frame = Frame { header, body: Payload::Control(Vec::new()), life };
        self.arrive(
            form,
            LinkDirection { from: direction.to, to: direction.from, ..direction },
            frame,
        );
    }
}

/// What a node's frame becomes; `None` if it vanishes.
pub(crate) fn distort(form: &Form, mut frame: Frame) -> Option<Frame> {
    let header = &mut frame.header;
    let is_ack = header.kind == Kind::Ack;
    match form.mutation {
        Mutation::MuteProbes if is_ack && header.flags.has(Flags::ASK) => return None,
        Mutation::AcksAhead if is_ack => header.ack += 1,
        Mutation::TakesCreditBack if is_ack => header.credit = 0,
        _ => {}
    }
    Some(frame)
}
