//! An endpoint whose peers keep to no rule.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test uses some of it")]

use gigae_proto::PeerId;
use gigae_transfer::{RegionKey, Transfer, TransferConfig, predictable_keys};
use gigae_wire::Epoch;
use gigae_wire::op::{MAX_OP_HEADER, Op, Status};

pub const ATTACKER: PeerId = PeerId(0);
pub const EPOCH: Epoch = Epoch(7);

/// An endpoint, and what it sends to its peers.
pub struct Victim {
    pub transfer: Transfer<Vec<u8>>,
}

impl Victim {
    pub fn new(config: TransferConfig) -> Self {
        Self { transfer: Transfer::new(config, predictable_keys(1)) }
    }

    /// One operation of a peer.
    pub fn hand(&mut self, from: PeerId, epoch: Epoch, op: Op, data: &[u8]) {
        let mut frame = vec![0; MAX_OP_HEADER + data.len()];
        let header = op.write(data.len() as u16, &mut frame);
        frame.truncate(header);
        frame.extend_from_slice(data);
        self.transfer.handle(from, epoch, frame[..].into());
    }

    /// What it answers to a peer, all at once.
    pub fn answers(&mut self, to: PeerId, epoch: Epoch) -> Vec<Op> {
        let mut answers = Vec::new();
        let mut frame = vec![0; 1468];
        loop {
            let len = self.transfer.fill(to, epoch, &mut frame);
            if len == 0 {
                return answers;
            }
            self.transfer.framed(to);
            self.transfer.acknowledged(to);
            let mut payload = frame[..len].into();
            while let Some((op, _)) = Op::take(&mut payload).unwrap() {
                answers.push(op);
            }
        }
    }

    pub fn statuses(&mut self) -> Vec<Status> {
        let answers = self.answers(ATTACKER, EPOCH);
        answers
            .into_iter()
            .filter_map(|op| if let Op::Done { status, .. } = op { Some(status) } else { None })
            .collect()
    }

    pub fn notices(&mut self) -> usize {
        std::iter::from_fn(|| self.transfer.poll_notice()).count()
    }
}

pub fn write(id: u32, RegionKey(key): RegionKey, total: u32, at: u32, notice: Option<u64>) -> Op {
    Op::Write { id, key, offset: 0, total, at, notice }
}

pub fn eager(tag: u64) -> Op {
    Op::Eager { label: tag.into() }
}

pub fn offer(id: u32) -> Op {
    Op::Offer { id, label: 5.into(), total: 1 << 20 }
}
