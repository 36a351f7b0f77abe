//! What happens next: a timing wheel for the near future, heaps for this moment and the far future.
//!
//! Nearly all events of a network lie a few frames' times ahead. The wheel takes them in constant
//! time: each of its slots is a list of the events of one short span of time, in no order. When the
//! clock reaches a slot, its few events go to a small heap, which puts them in order. Events beyond
//! the wheel's horizon, mostly timers, wait in a second heap. `examples/events.rs` measures this
//! against one heap for all.

use crate::Time;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Slots of the wheel: 64 words of 64 bits, so that one more word says which words are not empty.
const SLOTS: usize = 4096;
const WORDS: usize = SLOTS / 64;
/// The end of a list.
const NONE: u32 = u32::MAX;

/// An event and its time. Among events of the same time, the first that was added comes first.
#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    at: Time,
    order: u64,
    event: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// Reversed, because the heap of the standard library has the greatest on top.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// Future events in the order of their times.
#[derive(Debug)]
pub struct EventQueue<T> {
    /// A slot lasts 2 to the power of this, in picoseconds.
    shift: u32,
    /// The number of the slot, since the beginning of time, whose events are in `current`.
    opened: u64,
    /// Events of the opened slot.
    current: BinaryHeap<Entry<T>>,
    /// The wheel: the first entry in each slot's list.
    heads: Box<[u32; SLOTS]>,
    /// A bit for each slot that has events, and one for each of these words that is not zero.
    occupied: [u64; WORDS],
    summary: u64,
    /// Entries of lists; free ones are a list, too.
    entries: Vec<(Option<Entry<T>>, u32)>,
    free: u32,
    /// Events at or after the wheel's horizon.
    far: BinaryHeap<Entry<T>>,
    added: u64,
    len: usize,
}

impl<T: Copy> EventQueue<T> {
    /// A queue for a network where about `per_microsecond` events happen each microsecond.
    ///
    /// The number decides how long a slot is, and nothing else: a wrong one only costs time.
    pub fn new(per_microsecond: u64) -> Self {
        // One or two events a slot: a slot of 2^20 ps is about a microsecond. The shortest is 1 ns.
        let shift = 20u32.saturating_sub(per_microsecond.max(1).ilog2()).max(10);
        Self {
            shift,
            opened: 0,
            current: BinaryHeap::new(),
            heads: Box::new([NONE; SLOTS]),
            occupied: [0; WORDS],
            summary: 0,
            entries: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            added: 0,
            len: 0,
        }
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing more happens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event. `at` must not be before the last event that [`EventQueue::pop`] returned.
    #[inline]
    pub fn push(&mut self, at: Time, event: T) {
        let entry = Entry { at, order: self.added, event };
        self.added += 1;
        self.len += 1;
        self.place(entry);
    }

    /// Removes the next event, unless it is after `limit`.
    #[inline]
    pub fn pop(&mut self, limit: Time) -> Option<(Time, T)> {
        while self.current.is_empty() {
            if !self.open_next(limit) {
                return None;
            }
        }
        if self.current.peek()?.at > limit {
            return None;
        }
        let entry = self.current.pop()?;
        self.len -= 1;
        Some((entry.at, entry.event))
    }

    #[inline]
    fn place(&mut self, entry: Entry<T>) {
        let slot = entry.at.0 >> self.shift;
        if slot <= self.opened {
            self.current.push(entry);
        } else if slot - self.opened < SLOTS as u64 {
            let slot = slot as usize % SLOTS;
            let next = self.heads[slot];
            self.heads[slot] = match self.free {
                NONE => {
                    self.entries.push((Some(entry), next));
                    u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 events")
                }
                free => {
                    let place = &mut self.entries[free as usize];
                    self.free = place.1;
                    *place = (Some(entry), next);
                    free
                }
            };
            self.occupied[slot / 64] |= 1 << (slot % 64);
            self.summary |= 1 << (slot / 64);
        } else {
            self.far.push(entry);
        }
    }

    /// Opens the next slot that has events, if it does not begin after `limit`.
    fn open_next(&mut self, limit: Time) -> bool {
        let next = match self.next_occupied() {
            Some(next) => next,
            None => match self.far.peek() {
                Some(entry) => entry.at.0 >> self.shift,
                None => return false,
            },
        };
        if next > limit.0 >> self.shift {
            return false;
        }
        self.opened = next;
        let slot = next as usize % SLOTS;
        let mut at = std::mem::replace(&mut self.heads[slot], NONE);
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        if self.occupied[slot / 64] == 0 {
            self.summary &= !(1 << (slot / 64));
        }
        while at != NONE {
            let place = &mut self.entries[at as usize];
            if let Some(entry) = place.0.take() {
                self.current.push(entry);
            }
            let next = std::mem::replace(&mut place.1, self.free);
            self.free = at;
            at = next;
        }
        // The horizon has moved with the opened slot.
        while let Some(entry) = self.far.peek() {
            if (entry.at.0 >> self.shift) - self.opened >= SLOTS as u64 {
                break;
            }
            let entry = self.far.pop().expect("there is one");
            self.place(entry);
        }
        true
    }

    /// The first slot after the opened one that has events.
    fn next_occupied(&self) -> Option<u64> {
        if self.summary == 0 {
            return None;
        }
        let from = (self.opened as usize + 1) % SLOTS;
        let (word, bit) = (from / 64, from % 64);
        let ahead = self.occupied[word] & (u64::MAX << bit);
        let found = if ahead != 0 {
            word * 64 + ahead.trailing_zeros() as usize
        } else {
            // The words after this one, then those from the beginning; this one's low bits last.
            let later = self.summary & ((u64::MAX << word) << 1);
            let word = match later {
                0 => self.summary.trailing_zeros() as usize,
                later => later.trailing_zeros() as usize,
            };
            word * 64 + self.occupied[word].trailing_zeros() as usize
        };
        let distance = (found + SLOTS - from) % SLOTS;
        Some(self.opened + 1 + distance as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oorandom::Rand64;

    /// The queue against a sorted list: the same events in the same order, for slots of all
    /// lengths, events in this slot, on the wheel and beyond it, ties, and pauses.
    #[test]
    fn events_come_in_the_order_of_time_and_of_adding() {
        for (seed, per_microsecond) in [(1, 1), (2, 30), (3, 10_000), (4, 100)] {
            let mut random = Rand64::new(seed);
            let mut queue = EventQueue::new(per_microsecond);
            let mut expected: Vec<(Time, u32)> = Vec::new();
            let (mut now, mut number, mut compared) = (Time::ZERO, 0, 0);
            for step in 0..20_000 {
                if random.rand_range(0..2) == 0 || step < 100 {
                    let span =
                        [1, 4_000, 2_000_000, 10_000_000_000][random.rand_range(0..4) as usize];
                    let at = now + Time(random.rand_range(0..span));
                    queue.push(at, number);
                    let place = expected.partition_point(|&(other, _)| other <= at);
                    expected.insert(place, (at, number));
                    number += 1;
                } else {
                    let limit = now + Time(random.rand_range(0..40_000_000));
                    let next = expected.first().copied().filter(|&(at, _)| at <= limit);
                    assert_eq!(queue.pop(limit), next, "step {step} of seed {seed}");
                    now = match next {
                        Some((at, _)) => at,
                        None => limit,
                    };
                    if next.is_some() {
                        expected.remove(0);
                        compared += 1;
                    }
                }
                assert_eq!(queue.len(), expected.len());
            }
            assert!(compared > 1_000, "{compared} events were compared");
            while let Some(next) = queue.pop(Time::NEVER) {
                assert_eq!(next, expected.remove(0));
            }
            assert!(expected.is_empty() && queue.is_empty());
        }
    }
}
