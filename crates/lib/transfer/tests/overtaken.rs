//! Frames with bytes that were asked for, which other frames overtake (`PROTOCOL.md` 14.4).
#![allow(missing_docs)]

mod world;

use gigae_proto::PeerId;
use gigae_transfer::{RegionKey, Rights, Transfer, TransferConfig, predictable_keys};
use gigae_wire::op::Op;
use gigae_wire::{Epoch, Pieces};
use oorandom::Rand32;
use std::collections::{HashSet, VecDeque};
use world::{FRAME, anything, body};

/// A frame on its way.
struct Sent {
    bytes: Vec<u8>,
    is_loose: bool,
    has_come: bool,
}

/// Two ends, each with the frames that it has sent and that are not acknowledged.
struct Pair {
    ends: [Transfer<Vec<u8>>; 2],
    sent: [VecDeque<Sent>; 2],
    overtaken: usize,
}

impl Pair {
    fn new(separates: bool) -> Self {
        let config = TransferConfig { separates, ..TransferConfig::default() };
        let end = |n| {
            let mut end = Transfer::new(config.clone(), predictable_keys(n));
            end.put_shortest_first(4 * FRAME);
            end
        };
        Self { ends: [end(1), end(2)], sent: Default::default(), overtaken: 0 }
    }

    fn peer(end: usize) -> PeerId {
        PeerId(1 - end as u32)
    }

    /// Fills a frame, if there is something.
    fn fill(&mut self, end: usize) -> bool {
        let Some(peer) = self.ends[end].poll_ready() else { return false };
        let mut bytes = vec![0; FRAME];
        let len = self.ends[end].fill(peer, Epoch(7), &mut bytes);
        if len > 0 {
            let is_loose = self.ends[end].is_loose();
            self.ends[end].framed(peer);
            bytes.truncate(len);
            self.sent[end].push_back(Sent { bytes, is_loose, has_come: false });
        }
        true
    }

    /// Lets a frame arrive: the next, or the first behind those that it may overtake.
    fn arrive(&mut self, end: usize, overtakes: bool) -> bool {
        let Some(next) = self.sent[end].iter().position(|frame| !frame.has_come) else {
            return false;
        };
        let rest = self.sent[end].iter().skip(next);
        let ahead = rest.take_while(|frame| frame.is_loose || frame.has_come).count();
        let first = next + ahead;
        let at = if overtakes && first < self.sent[end].len() { first } else { next };
        self.overtaken += usize::from(at > next);
        let frame = &mut self.sent[end][at];
        frame.has_come = true;
        let bytes = frame.bytes.clone();
        self.ends[1 - end].handle(Self::peer(1 - end), Epoch(7), bytes[..].into());
        while self.sent[end].front().is_some_and(|frame| frame.has_come) {
            self.sent[end].pop_front();
            self.ends[end].acknowledged(Self::peer(end));
        }
        true
    }

    /// So many rounds, or until nothing is left.
    fn run(&mut self, random: &mut Rand32, window: usize, rounds: usize) {
        for _ in 0..rounds {
            let mut moved = false;
            for end in [0, 1] {
                while self.sent[end].len() < window && random.rand_range(0..3) > 0 {
                    let filled = self.fill(end);
                    moved |= filled;
                    if !filled {
                        break;
                    }
                }
                moved |= self.arrive(end, random.rand_range(0..2) == 0);
            }
            if !moved && self.ends.iter().all(|end| end.ready() == 0) {
                return;
            }
        }
    }
}

#[test]
fn every_message_and_read_is_whole_although_replies_are_overtaken() {
    let (mut overtaken, mut all_read) = (0, 0);
    for seed in 0..30 {
        let (mut random, mut pair) = (Rand32::new(seed), Pair::new(true));
        let memory = body(50_000, 9);
        let key: RegionKey = pair.ends[1].register(memory.clone(), Rights::READ).unwrap();
        let lengths = [10, 700, 2_000, 5_000, 40_000];
        let lens: Vec<usize> = (0..60).map(|_| lengths[random.rand_range(0..5) as usize]).collect();
        let (mut receives, mut reads) = ([HashSet::new(), HashSet::new()], HashSet::new());
        for (n, &len) in lens.iter().enumerate() {
            for end in [0, 1] {
                let (peer, room) = (Pair::peer(end), vec![0; 40_000]);
                receives[end].insert(pair.ends[end].receive(anything(), room).unwrap());
                pair.ends[end].send(peer, n as u64, body(len, n)).unwrap();
            }
            if n % 10 == 0 {
                let room = vec![0; 40_000];
                reads.insert(pair.ends[0].read(PeerId(1), key, 100, room).unwrap());
            }
            pair.run(&mut random, 1 + n % 12, 8);
        }
        pair.run(&mut random, 16, usize::MAX);
        for (place, (end, receives)) in pair.ends.iter_mut().zip(receives).enumerate() {
            let (mut received, mut read) = (0, 0);
            for done in std::iter::from_fn(|| end.poll_completion()) {
                assert_eq!(done.result, Ok(()), "seed {seed}");
                if receives.contains(&done.id) {
                    let n = done.tag as usize;
                    assert_eq!(done.memory.unwrap()[..done.len], body(lens[n], n), "seed {seed}");
                    received += 1;
                } else if place == 0 && reads.contains(&done.id) {
                    let bytes = done.memory.expect("it comes back");
                    read += usize::from(bytes == memory[100..40_100]);
                }
            }
            assert_eq!(received, lens.len(), "seed {seed}");
            all_read += read;
            assert_eq!((end.counters().invalid, end.outstanding()), (0, 0), "seed {seed}");
        }
        overtaken += pair.overtaken;
    }
    assert!(overtaken > 300, "{overtaken}");
    assert_eq!(all_read, 30 * 6);
}

/// Replies in a frame, and all operations.
fn count(bytes: &[u8]) -> (usize, usize) {
    let (mut payload, mut replies, mut all) = (Pieces::from(bytes), 0, 0);
    while let Some((op, _)) = Op::take(&mut payload).unwrap() {
        replies += usize::from(matches!(op, Op::Reply { .. }));
        all += 1;
    }
    (replies, all)
}

#[test]
fn replies_are_alone_in_their_frames_only_if_that_was_asked_for() {
    for separates in [true, false] {
        let mut pair = Pair::new(separates);
        pair.ends[1].receive(anything(), vec![0; 40_000]).unwrap();
        pair.ends[0].send(PeerId(1), 1, body(40_000, 1)).unwrap();
        let mut mixed = 0;
        for n in 0..200 {
            if n == 20 {
                // While it is pulled.
                pair.ends[0].send(PeerId(1), 2, body(100, 1)).unwrap();
            }
            for end in [0, 1] {
                pair.fill(end);
                for frame in pair.sent[end].iter().filter(|frame| !frame.has_come) {
                    let (replies, all) = count(&frame.bytes);
                    assert_eq!(frame.is_loose, separates && replies == all);
                    mixed += usize::from(replies > 0 && replies < all);
                }
                if n % 3 == 0 {
                    pair.arrive(end, false);
                }
            }
        }
        assert_eq!(mixed == 0, separates, "{mixed}");
    }
}
