//! An endpoint's counters and peers at one moment. The endpoint writes them and observers read
//! them, under a sequence count that is odd during a write.
//!
//! ```text
//!   count  time  peers  rows  |  what it counts (64)  |  of each link (8 x 16)  |  of each peer (256 x 24)
//! ```
//!
//! Every word is stored with release and loaded with acquire order. A reader that sees a word of a
//! new write also sees the odd count before it, and reads again. No fence is needed, and on x86-64
//! both are plain moves.

use crate::layout::STATISTICS_WORDS;
use crate::sync::{AtomicU64, Ordering};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most peers in the statistics.
pub const MOST_PEERS: usize = 256;

const AT_COUNTS: usize = 4;
const MOST_COUNTS: usize = 64;
const AT_LINKS: usize = AT_COUNTS + MOST_COUNTS;
const MOST_LINK_COUNTS: usize = 16;
const AT_PEERS: usize = 256;
const ROW: usize = 24;
/// In a row, address and state come before the values.
const AT_VALUES: usize = 3;
const _: () = assert!(AT_LINKS + crate::MOST_LINKS * MOST_LINK_COUNTS <= AT_PEERS);
const _: () = assert!(AT_PEERS + MOST_PEERS * ROW <= STATISTICS_WORDS);

/// How often a reader begins again before it gives up. A write takes some microseconds, ten times a
/// second.
const TRIES: usize = 100;

/// The address of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PeerAddress {
    /// On this Ethernet.
    Mac([u8; 6]),
    /// At an IP address.
    Ip(IpAddr),
}

/// The phase of the session with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// No session.
    Idle,
    /// A session is being proposed.
    Proposing,
    /// The session is up.
    Up,
    /// This end is closing.
    Closing,
}

/// The statistics of one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatistics {
    /// Its node.
    pub address: PeerAddress,
    /// Its port id.
    pub port: u16,
    /// The channel.
    pub channel: u8,
    /// The phase of the session.
    pub state: PeerState,
    /// Its values, in the order of the names.
    pub values: Vec<u64>,
}

/// The statistics of an endpoint at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The moment, in nanoseconds of the monotonic clock.
    pub at: u64,
    /// The endpoint's counters, in the order of the names.
    pub counts: Vec<u64>,
    /// For each link, in the order of the names.
    pub links: Vec<Vec<u64>>,
    /// Peers with recent activity, at most [`MOST_PEERS`].
    pub peers: Vec<PeerStatistics>,
    /// Number of peers that the endpoint knows.
    pub known: u64,
}

/// Statistics that are being written. Entries for which there is no room are left out.
pub struct StatisticsWriter<'a> {
    words: &'a [AtomicU64],
    rows: usize,
}

impl<'a> StatisticsWriter<'a> {
    /// Begins a write; readers wait until [`end`](Self::end). Only one writer may be active at a
    /// time. Two would spoil the statistics and nothing else.
    pub(crate) fn begin(words: &'a [AtomicU64], at: u64) -> Self {
        let count = words[0].load(Ordering::Relaxed);
        words[0].store(count | 1, Ordering::Relaxed);
        let sheet = Self { words, rows: 0 };
        sheet.put(1, at);
        sheet
    }

    fn put(&self, place: usize, word: u64) {
        self.words[place].store(word, Ordering::Release);
    }

    fn put_row(&self, place: usize, most: usize, values: &[u64]) {
        values[..values.len().min(most)]
            .iter()
            .enumerate()
            .for_each(|(i, &v)| self.put(place + i, v));
    }

    /// Writes the endpoint's counters.
    pub fn counts(&self, values: &[u64]) {
        self.put_row(AT_COUNTS, MOST_COUNTS, values);
    }

    /// The same for a link.
    pub fn link(&self, link: usize, values: &[u64]) {
        if link < crate::MOST_LINKS {
            self.put_row(AT_LINKS + link * MOST_LINK_COUNTS, MOST_LINK_COUNTS, values);
        }
    }

    /// Writes the next peer. Returns whether there is room for another.
    pub fn peer(
        &mut self,
        address: PeerAddress,
        port: u16,
        channel: u8,
        state: PeerState,
        values: &[u64],
    ) -> bool {
        if self.rows >= MOST_PEERS {
            return false;
        }
        let at = AT_PEERS + self.rows * ROW;
        let (kind, [high, low]) = match address {
            PeerAddress::Mac([a, b, c, d, e, f]) => {
                (0, [0, u64::from_be_bytes([0, 0, a, b, c, d, e, f])])
            }
            PeerAddress::Ip(IpAddr::V4(ip)) => (4, [0, u32::from(ip).into()]),
            PeerAddress::Ip(IpAddr::V6(ip)) => {
                let bits = u128::from(ip);
                (6, [(bits >> 64) as u64, bits as u64])
            }
        };
        let state = state as u64;
        self.put(at, kind << 32 | state << 24 | u64::from(channel) << 16 | u64::from(port));
        self.put(at + 1, high);
        self.put(at + 2, low);
        self.put_row(at + AT_VALUES, ROW - AT_VALUES, values);
        self.rows += 1;
        self.rows < MOST_PEERS
    }

    /// Ends the write; `known` is the number of peers that the endpoint knows.
    pub(crate) fn end(self, known: u64) {
        self.put(2, known);
        self.put(3, self.rows as u64);
        let count = self.words[0].load(Ordering::Relaxed);
        self.words[0].store((count | 1).wrapping_add(1), Ordering::Release);
    }
}

impl Statistics {
    /// Reads the statistics: as many counters, counters per link and values per peer as `names`
    /// says, for `links` links. `None` if they were never written, or were being written at every
    /// look, because the process was stopped or killed during a write.
    pub(crate) fn read(words: &[AtomicU64], links: usize, names: [usize; 3]) -> Option<Self> {
        let words = (0..TRIES).find_map(|_| whole(words))?;
        let row = |at: usize, names: usize, most: usize| words[at..at + names.min(most)].to_vec();
        let peer = |i: usize| {
            let at = AT_PEERS + i * ROW;
            let (about, high, low) = (words[at], words[at + 1], words[at + 2]);
            let [_, _, mac @ ..] = low.to_be_bytes();
            PeerStatistics {
                address: match about >> 32 {
                    4 => PeerAddress::Ip(Ipv4Addr::from(low as u32).into()),
                    6 => PeerAddress::Ip(
                        Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).into(),
                    ),
                    _ => PeerAddress::Mac(mac),
                },
                port: about as u16,
                channel: (about >> 16) as u8,
                state: match about >> 24 & 0xff {
                    1 => PeerState::Proposing,
                    2 => PeerState::Up,
                    3 => PeerState::Closing,
                    _ => PeerState::Idle,
                },
                values: row(at + AT_VALUES, names[2], ROW - AT_VALUES),
            }
        };
        let rows = usize::try_from(words[3]).unwrap_or(usize::MAX).min(MOST_PEERS);
        let link = |i| row(AT_LINKS + i * MOST_LINK_COUNTS, names[1], MOST_LINK_COUNTS);
        Some(Self {
            at: words[1],
            counts: row(AT_COUNTS, names[0], MOST_COUNTS),
            links: (0..links.min(crate::MOST_LINKS)).map(link).collect(),
            peers: (0..rows).map(peer).collect(),
            known: words[2],
        })
    }
}

/// All words of one write, if it was finished and no other began during this reading.
fn whole(words: &[AtomicU64]) -> Option<Vec<u64>> {
    let before = words[0].load(Ordering::Acquire);
    if before == 0 || before % 2 == 1 {
        std::hint::spin_loop();
        return None;
    }
    let copy: Vec<u64> = words.iter().map(|word| word.load(Ordering::Acquire)).collect();
    (words[0].load(Ordering::Relaxed) == before).then_some(copy)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn words() -> Vec<AtomicU64> {
        (0..STATISTICS_WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let words = words();
        assert_eq!(Statistics::read(&words, 1, [1, 1, 1]), None, "nothing was written");
        let mut sheet = StatisticsWriter::begin(&words, 77);
        sheet.counts(&[1, 2, 3]);
        sheet.link(1, &[4, 5]);
        let addresses = [
            PeerAddress::Mac([2, 3, 4, 5, 6, 7]),
            PeerAddress::Ip("198.18.0.1".parse().unwrap()),
            PeerAddress::Ip("fd00::1:2".parse().unwrap()),
        ];
        let states = [PeerState::Up, PeerState::Proposing, PeerState::Closing];
        for (address, state) in addresses.into_iter().zip(states) {
            assert!(sheet.peer(address, 600, 255, state, &[8, 9]));
        }
        assert_eq!(Statistics::read(&words, 1, [1, 1, 1]), None, "it is being written");
        sheet.end(12);
        let statistics = Statistics::read(&words, 2, [3, 2, 2]).unwrap();
        let peer = |address, state| PeerStatistics {
            address,
            port: 600,
            channel: 255,
            state,
            values: vec![8, 9],
        };
        let expected = Statistics {
            at: 77,
            counts: vec![1, 2, 3],
            links: vec![vec![0, 0], vec![4, 5]],
            peers: addresses.into_iter().zip(states).map(|(a, s)| peer(a, s)).collect(),
            known: 12,
        };
        assert_eq!(statistics, expected);
    }

    #[test]
    fn there_is_room_for_so_many_peers_and_no_more() {
        let words = words();
        let mut sheet = StatisticsWriter::begin(&words, 1);
        let mut room = |n: u8| sheet.peer(PeerAddress::Mac([n; 6]), 0, 0, PeerState::Up, &[1; 100]);
        assert!((0..255).all(&mut room));
        assert!(!room(255) && !room(0));
        sheet.end(1000);
        assert_eq!(Statistics::read(&words, 1, [1, 1, 1]).unwrap().peers.len(), MOST_PEERS);
    }

    #[test]
    fn whatever_lies_there_is_read_as_something() {
        let words = words();
        words.iter().for_each(|word| word.store(u64::MAX - 1, Ordering::Relaxed));
        let statistics = Statistics::read(&words, usize::MAX, [usize::MAX; 3]).unwrap();
        assert_eq!(
            (statistics.peers.len(), statistics.links.len()),
            (MOST_PEERS, crate::MOST_LINKS)
        );
    }

    #[test]
    fn a_reader_beside_the_writer_never_sees_two_writings_mixed() {
        const ROUNDS: u64 = if cfg!(miri) { 3 } else { 20_000 };
        let words = words();
        std::thread::scope(|scope| {
            let words = &words;
            scope.spawn(move || {
                for n in 1..=ROUNDS {
                    let mut sheet = StatisticsWriter::begin(words, n);
                    sheet.counts(&[n; 10]);
                    sheet.peer(PeerAddress::Mac([0; 6]), 0, 0, PeerState::Up, &[n; 5]);
                    sheet.end(n);
                }
            });
            loop {
                let Some(statistics) = Statistics::read(words, 1, [10, 0, 5]) else { continue };
                let n = statistics.at;
                assert!(statistics.counts == [n; 10] && statistics.peers[0].values == [n; 5]);
                if n == ROUNDS {
                    break;
                }
            }
        });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn in_every_order_a_reader_sees_one_writing_or_none() {
        loom::model(|| {
            let words: Arc<Vec<_>> = Arc::new((0..3).map(|_| AtomicU64::new(0)).collect());
            let writing = Arc::clone(&words);
            let writer = loom::thread::spawn(move || {
                for n in 1..=2 {
                    let sheet = StatisticsWriter::begin(&writing, n);
                    sheet.put(2, n);
                    // Like `end`, but without the rows, for which there is no room here.
                    writing[0].store(2 * n, Ordering::Release);
                }
            });
            if let Some(seen) = whole(&words) {
                assert!(seen[1] == seen[2] && seen[0] == 2 * seen[1], "{seen:?}");
            }
            writer.join().unwrap();
            assert_eq!(whole(&words), Some(vec![4, 2, 2]));
        });
    }
}
