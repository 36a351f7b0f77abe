//! A node that the program does not know, and what it can send: any frame, in any name.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part of it")]

use crate::world::CHANNEL;
use gigae_proto::{Arrival, Body, Protocol};
use gigae_wire::{Discard, Epoch, Flags, Handshake, Header, Hello, Kind, MacAddr, PathId, Paths};

pub type End = Protocol<Vec<u8>, Vec<u8>>;

/// The attacker's own address.
pub const ATTACKER: MacAddr = MacAddr([2, 0, 0xbb, 0, 0, 1]);

pub fn header(kind: Kind, from: u32, to: Epoch) -> Header {
    let src_epoch = Epoch(from);
    let (seq, ack) = (src_epoch.first_seq(), to.first_seq());
    Header {
        kind,
        channel: CHANNEL,
        src_port: 0,
        dst_port: 0,
        src_epoch,
        dst_epoch: to,
        seq,
        ack,
        credit: 64,
        flags: Flags::NONE,
    }
}

/// What an answer offers: the victim's epoch and token.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub epoch: Epoch,
    pub token: u64,
}

/// The payload of a frame of the handshake that names these links, padded as a Hello is.
pub fn said(macs: &[MacAddr], echo: u64, max_operations: u16) -> [u8; Handshake::LONGEST] {
    let hello = Hello { max_payload: 1468, reorder_window: 256, max_operations };
    let mut payload = [0; Handshake::LONGEST];
    Handshake { hello, token: 7, echo, links: Paths::links(macs) }.write(&mut payload);
    payload
}

/// The attacker proposes a session, saying that it has these addresses; what the answer offers.
pub fn propose(end: &mut End, from: MacAddr, epoch: u32, macs: &[MacAddr]) -> Offer {
    let header = header(Kind::Hello, epoch, Epoch::UNKNOWN);
    let payload = said(macs, 0, 1468);
    end.handle(
        Arrival { path: PathId::FIRST, from: &from.into(), header: &header, payload: &payload },
        &mut None,
    )
    .unwrap();
    loop {
        let transmit = end.poll_transmit().expect("an answer");
        if transmit.header.kind == Kind::HelloAck {
            let Body::Control(said, _) = transmit.body else { panic!("{transmit:?}") };
            let token = Handshake::parse(said).unwrap().token;
            return Offer { epoch: transmit.header.src_epoch, token };
        }
    }
}

/// The attacker takes an offer by a path and sends the first frame of the session.
pub fn confirm(
    end: &mut End,
    (path, from): (PathId, MacAddr),
    (epoch, offer): (u32, Offer),
    macs: &[MacAddr],
) -> Result<(), Discard> {
    let confirm = header(Kind::Confirm, epoch, offer.epoch);
    let payload = said(macs, offer.token, 1468);
    end.handle(
        Arrival { path, from: &from.into(), header: &confirm, payload: &payload },
        &mut None,
    )?;
    let header = header(Kind::Data, epoch, offer.epoch);
    end.handle(
        Arrival { path, from: &from.into(), header: &header, payload: &[9] },
        &mut Some(vec![9]),
    )
}
