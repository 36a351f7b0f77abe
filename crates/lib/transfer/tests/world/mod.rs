//! Two and three ends joined by ordered frames without loss.
#![allow(dead_code, reason = "each file of tests uses some of it")]

use gigae_proto::PeerId;
use gigae_transfer::{
    Expected, PlacedPayload, Selector, Transfer, TransferCompletion, TransferConfig,
    predictable_keys,
};
use gigae_wire::{Epoch, Pieces};
use std::collections::VecDeque;

/// Bytes of a frame's payload.
pub(crate) const FRAME: usize = 1468;

/// Ends that know each other by their places, every end numbering its peers as here.
pub(crate) struct World {
    pub(crate) ends: Vec<Transfer<Vec<u8>>>,
    /// Frames in flight, by (from, to), and how many may be.
    pub(crate) wires: Vec<Vec<VecDeque<Vec<u8>>>>,
    pub(crate) window: usize,
    /// Bytes of a frame's payload.
    pub(crate) frame: usize,
    /// Long data stay in place until they are sent, and are received where they belong if they are
    /// expected.
    pub(crate) in_place: bool,
    pub(crate) epoch: Vec<Vec<Epoch>>,
    /// Every end reads long messages in the others' memory.
    pub(crate) lends: bool,
    /// The bytes that can be read so, by the address where they begin.
    pub(crate) readable: Vec<(u64, Vec<u8>)>,
}

impl World {
    pub(crate) fn new(ends: usize) -> Self {
        Self::with(ends, &TransferConfig::default())
    }

    pub(crate) fn with(ends: usize, config: &TransferConfig) -> Self {
        Self {
            ends: (0..ends)
                .map(|n| Transfer::new(config.clone(), predictable_keys(n as u64 + 1)))
                .collect(),
            wires: vec![vec![VecDeque::new(); ends]; ends],
            window: 16,
            frame: FRAME,
            in_place: false,
            epoch: vec![vec![Epoch(7); ends]; ends],
            lends: false,
            readable: Vec::new(),
        }
    }

    /// Fills what the windows allow and takes in what is there, once for each end.
    pub(crate) fn step(&mut self) -> bool {
        let mut moved = false;
        for from in 0..self.ends.len() {
            for _ in 0..self.ends[from].ready() {
                let Some(peer) = self.ends[from].poll_ready() else { break };
                let to = peer.0 as usize;
                if self.wires[from][to].len() >= self.window {
                    self.ends[from].postpone(peer);
                    continue;
                }
                if self.lends {
                    self.ends[from].lend(peer, true);
                    moved |= self.ends[from].has_fetches(peer);
                    if !self.fetch(from, peer) {
                        self.ends[from].postpone(peer);
                        continue;
                    }
                }
                let (mut frame, epoch) = (vec![0; self.frame], self.epoch[from][to]);
                let len = if self.in_place {
                    let (len, left) = self.ends[from].fill_in_place(peer, epoch, &mut frame);
                    if let Some(left) = left {
                        let data = self.ends[from].data(peer, left).unwrap().bytes;
                        frame[len - left.len()..len].copy_from_slice(data);
                    }
                    len
                } else {
                    self.ends[from].fill(peer, epoch, &mut frame)
                };
                frame.truncate(len);
                if len > 0 {
                    self.ends[from].framed(peer);
                    gigae_wire::op::check(frame[..].into()).unwrap();
                    self.wires[from][to].push_back(frame);
                    moved = true;
                }
            }
        }
        for from in 0..self.ends.len() {
            for to in 0..self.ends.len() {
                if let Some(frame) = self.wires[from][to].pop_front() {
                    let epoch = self.epoch[to][from];
                    if self.in_place && self.place(from, to, &frame) {
                        self.ends[from].acknowledged(PeerId(to as u32));
                        moved = true;
                        continue;
                    }
                    // In segments, as a receiver may have it; they end anywhere.
                    let cut = frame.len() * 2 / 3;
                    let rest = [&frame[cut..]];
                    let pieces = Pieces::new(&frame[..cut], &rest);
                    self.ends[to].handle(PeerId(from as u32), epoch, pieces);
                    self.ends[from].acknowledged(PeerId(to as u32));
                    moved = true;
                }
            }
        }
        moved
    }

    /// Reads what a peer has offered, in its memory, up to 4 MiB. False if there is more.
    pub(crate) fn fetch(&mut self, end: usize, peer: PeerId) -> bool {
        let Self { ends, readable, .. } = self;
        ends[end].fetch(peer, &mut (4 << 20), |at, into| {
            let found = readable.iter().find_map(|(begins, bytes)| {
                let from = usize::try_from(at.checked_sub(*begins)?).ok()?;
                bytes.get(from..from.checked_add(into.len())?)
            });
            if let Some(bytes) = found {
                into.copy_from_slice(bytes);
            }
            found.is_some()
        })
    }

    /// A message that the others can read where it lies.
    pub(crate) fn readable(&mut self, len: usize, seed: usize) -> Vec<u8> {
        let bytes = body(len, seed);
        self.readable.push((bytes.as_ptr().addr() as u64, bytes.clone()));
        bytes
    }

    /// Receives a frame as a link does that scatters: its data are written where others are
    /// expected before anybody looks what they are. Whether they were expected there.
    fn place(&mut self, from: usize, to: usize, frame: &[u8]) -> bool {
        let (epoch, end) = (self.epoch[to][from], &mut self.ends[to]);
        let Some((expected, room)) = end.expect() else { return false };
        let data = frame.get(Expected::HEADER..).unwrap_or(&[]);
        let len = data.len().min(room.len());
        room[..len].copy_from_slice(&data[..len]);
        if expected.peer != PeerId(from as u32) || !expected.is_in(frame.into(), len) {
            end.misplaced();
            return false;
        }
        assert_eq!(end.expected(expected, len), Some(&data[..len]));
        let behind = Pieces::from(&data[len..]);
        let placed = PlacedPayload { expected, len, behind };
        end.handle_placed(PeerId(from as u32), epoch, placed);
        true
    }

    pub(crate) fn run(&mut self) {
        while self.step() {}
    }

    pub(crate) fn completions(&mut self, end: usize) -> Vec<TransferCompletion<Vec<u8>>> {
        std::iter::from_fn(|| self.ends[end].poll_completion()).collect()
    }

    pub(crate) fn only(&mut self, end: usize) -> TransferCompletion<Vec<u8>> {
        let mut all = self.completions(end);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }
}

pub(crate) fn from(peer: u32, tag: u64) -> Selector {
    Selector { source: Some(PeerId(peer)), tag, ..Selector::default() }
}

pub(crate) fn anything() -> Selector {
    Selector { ignore: u64::MAX, ..Selector::default() }
}

pub(crate) fn body(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 7 + (i >> 8)) as u8).collect()
}
