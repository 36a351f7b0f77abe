//! Operations alone: payloads of Op frames in order, as a peer with a session can send them.

use crate::frames::Hostile;
use crate::scenario::{Scenario, play};
use crate::script::Script;
use gigae_proto::{PeerId, Reason};
use gigae_sim::{Faults, Network};
use gigae_transfer::{
    OpError, OpId, RegionKey, Rights, Selector, Transfer, TransferConfig, predictable_keys,
};
use gigae_wire::{Epoch, MacAddr, Pieces, op};

/// The honest peer; the others are hostile.
const HONEST: PeerId = PeerId(0);

/// Bytes of a memory.
const LEN: usize = 4096;

/// Frames that one peer may be owed: an honest reader asks for no more than its memory holds.
const MOST_FRAMES: usize = 100_000;

struct Transfers {
    owner: Transfer<Vec<u8>>,
    honest: Transfer<Vec<u8>>,
    hostile: Hostile,
    /// Memory whose key only the honest peer knows; what it must hold; one that no peer may change.
    secret: RegionKey,
    expected: Vec<u8>,
    fixed: RegionKey,
    epochs: [Epoch; 3],
    /// Started by the honest peer, and completed.
    started: usize,
    done: usize,
    frames: usize,
}

/// Operations of hostile peers at an endpoint that an honest one uses, too. The frames are in order
/// and without loss, as the protocol below gives them.
///
/// # Panics
/// If the owner does, holds too much memory, answers without end, changes memory whose key was
/// secret or that was not given for it, or if an operation of the honest peer fails.
pub fn transfer(input: &[u8]) {
    play::<Transfers>(input);
}

impl Scenario for Transfers {
    /// The owner's memories and operations, 512 KiB unexpected for each of three peers, and 16,384
    /// offers of each.
    const MEMORY: usize = 24 << 20;

    const MOST_STEPS: usize = 4000;

    fn new(_: &mut Script<'_>, _: u128) -> Self {
        let net = Network::new(1, Faults::default());
        let mac = |n| vec![MacAddr([2, 0, 0, 0, 1, n])];
        let mut hostile = Hostile::new(&net, [mac(1), mac(2)]);
        let config =
            TransferConfig { most_notices: 64, fetches: true, ..TransferConfig::default() };
        let mut owner = Transfer::new(config, predictable_keys(0x5eed));
        let mut register = |rights| owner.register(vec![0; LEN], rights).expect("there is room");
        let secret = register(Rights::ALL);
        let fixed = register(Rights::READ);
        let open = register(Rights::ALL);
        hostile.keys = [open.0, fixed.0];
        hostile.secret = secret.0;
        let honest = Transfer::new(TransferConfig::default(), predictable_keys(0x600d));
        let epochs = [Epoch(7); 3];
        let expected = vec![0; LEN];
        let (started, done, frames) = (0, 0, 0);
        Self { owner, honest, hostile, secret, expected, fixed, epochs, started, done, frames }
    }

    fn act(&mut self, n: usize, script: &mut Script<'_>) {
        let what = script.byte();
        let enemy = PeerId(1 + u32::from(what >> 7));
        match what % 16 {
            0 => self.honest_write(n, script),
            1 => self.honest_send(script),
            2 => {
                // Something of the owner's own, towards the hostile peer.
                let len = usize::from(script.u16()) * usize::from(script.byte() % 3);
                let memory = vec![n as u8; len];
                let key = RegionKey(script.u64());
                drop(match script.byte() % 4 {
                    0 => self.owner.send(enemy, u64::from(script.byte() % 4), memory),
                    1 => self.owner.write(enemy, key, 0, memory, None),
                    2 => self.owner.read(enemy, key, 0, memory),
                    _ => {
                        let (action, number) = (op::Action::Sum, op::Number::U64);
                        let change = op::Change::new(action, number, 1, true).expect("there is");
                        self.owner.atomic(enemy, key, 0, change, vec![1; 8])
                    }
                });
            }
            3 if self.owner.outstanding() < 500 => {
                let source = [None, Some(enemy)][usize::from(script.byte() & 1)];
                let kind = script.byte();
                let (tag, untagged) = (u64::from(kind % 4), kind & 16 != 0);
                let selector = Selector { source, tag, ignore: 0, untagged };
                let started = self.owner.receive(selector, vec![0; usize::from(script.u16())]);
                if script.byte() > 200 {
                    let _ = self.owner.cancel(started.expect("there is room"));
                }
            }
            4 => {
                // The session ends, or a new one begins without a word.
                let epoch = &mut self.epochs[enemy.0 as usize];
                if script.byte() & 1 == 0 {
                    self.owner.ended(enemy, *epoch, Reason::Timeout);
                }
                *epoch = Epoch(epoch.0 + 1);
            }
            _ => {
                let mut payload = Vec::new();
                for _ in 0..1 + script.byte() % 4 {
                    self.hostile.operation(script, &mut payload);
                }
                self.hand(enemy, &payload);
            }
        }
        self.settle();
    }

    fn finish(mut self) {
        self.settle();
        assert_eq!(self.done, self.started, "operations of the honest peer");
        assert_eq!(
            self.owner.region(self.secret),
            Some(&self.expected),
            "memory with a secret key"
        );
        assert_eq!(self.owner.region(self.fixed), Some(&vec![0; LEN]), "not given to be changed");
        assert_eq!(self.honest.counters().invalid, 0);
    }
}

impl Transfers {
    /// As the engine does it: what is not operations exactly is malformed.
    fn hand(&mut self, enemy: PeerId, payload: &[u8]) {
        let (front, behind) = payload.split_at(payload.len() / 3);
        let rest = [behind];
        let pieces = Pieces::new(front, &rest);
        if op::check(pieces).is_ok() {
            self.owner.handle(enemy, self.epochs[enemy.0 as usize], pieces);
        }
    }

    fn honest_write(&mut self, n: usize, script: &mut Script<'_>) {
        let offset = usize::from(script.u16()) % LEN;
        let len = (1 + usize::from(script.u16()) % LEN).min(LEN - offset);
        let bytes: Vec<u8> = (0..len).map(|i| (n + i * 3) as u8).collect();
        self.expected[offset..offset + len].copy_from_slice(&bytes);
        self.begin(|honest, key| honest.write(HONEST, key, offset as u64, bytes, None).ok());
    }

    fn honest_send(&mut self, script: &mut Script<'_>) {
        let bytes = vec![1; usize::from(script.u16()) * 2];
        let selector = Selector { source: Some(HONEST), tag: 9, ignore: 0, untagged: false };
        self.owner.receive(selector, vec![0; bytes.len()]).expect("there is room");
        self.begin(|honest, _| honest.send(HONEST, 9, bytes).ok());
    }

    fn begin(&mut self, start: impl FnOnce(&mut Transfer<Vec<u8>>, RegionKey) -> Option<OpId>) {
        start(&mut self.honest, self.secret).expect("there is room");
        self.started += 1;
    }

    /// Frames pass between the honest ends; what is for a hostile one is acknowledged and
    /// forgotten.
    fn settle(&mut self) {
        let mut moved = true;
        let mut rounds = 0;
        while moved {
            moved = false;
            rounds += 1;
            assert!(rounds < MOST_FRAMES, "the owner never stops answering");
            for _ in 0..self.owner.ready() {
                let Some(peer) = self.owner.poll_ready() else { break };
                self.owner.fetch(peer, &mut (LEN * 2), |at, into| {
                    into.fill(at as u8);
                    at % 3 > 0
                });
                let mut frame = vec![0; 1468];
                let len = self.owner.fill(peer, self.epochs[peer.0 as usize], &mut frame);
                if len == 0 {
                    continue;
                }
                op::check(frame[..len].into()).expect("what is sent is well formed");
                self.owner.framed(peer);
                self.owner.acknowledged(peer);
                self.frames += 1;
                moved = true;
                if peer == HONEST {
                    self.honest.handle(HONEST, Epoch(7), frame[..len].into());
                }
            }
            while let Some(peer) = self.honest.poll_ready() {
                let mut frame = vec![0; 1468];
                let len = self.honest.fill(peer, Epoch(7), &mut frame);
                if len == 0 {
                    continue;
                }
                self.honest.framed(peer);
                self.honest.acknowledged(peer);
                self.owner.handle(HONEST, Epoch(7), frame[..len].into());
                moved = true;
            }
        }
        self.take_completions();
    }

    fn take_completions(&mut self) {
        while let Some(done) = self.honest.poll_completion() {
            assert_eq!(done.result, Ok(()), "an operation of the honest peer");
            self.done += 1;
        }
        while let Some(done) = self.owner.poll_completion() {
            if done.peer == Some(HONEST) {
                assert!(done.result.is_ok() || done.result == Err(OpError::Cancelled), "{done:?}");
            }
            let Some(memory) = done.memory else { continue };
            assert!(done.len <= memory.len(), "{} bytes in {}", done.len, memory.len());
        }
        while let Some(notice) = self.owner.poll_notice() {
            assert!(notice.offset + u64::from(notice.len) <= LEN as u64, "{notice:?}");
        }
    }
}
