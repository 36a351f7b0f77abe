//! Which bytes of a message have arrived.

/// Bytes from the front, and pieces behind them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    /// All bytes before this one have arrived.
    front: u32,
    /// Pieces behind it: begin and end, ascending, none next to another.
    pieces: Vec<(u32, u32)>,
}

impl Ranges {
    /// Adds bytes and returns how many of them are new.
    pub(crate) fn add(&mut self, from: u32, to: u32) -> u32 {
        let from = from.max(self.front);
        if from >= to {
            return 0;
        }
        // The pieces that touch the new one become one with it.
        let first = self.pieces.partition_point(|&(_, end)| end < from);
        let last = self.pieces.partition_point(|&(begin, _)| begin <= to);
        let known: u32 = self.pieces[first..last]
            .iter()
            .map(|&(begin, end)| end.min(to).saturating_sub(begin.max(from)))
            .sum();
        let (mut begin, mut end) = (from, to);
        if first < last {
            begin = begin.min(self.pieces[first].0);
            end = end.max(self.pieces[last - 1].1);
        }
        if begin == self.front {
            self.front = end;
            self.pieces.drain(first..last);
        } else {
            self.pieces.splice(first..last, [(begin, end)]);
        }
        to - from - known
    }

    /// The first missing bytes before `end`.
    pub(crate) fn missing(&self, end: u32) -> Option<(u32, u32)> {
        self.missing_from(self.front, end)
    }

    /// The first missing bytes at or after `from` and before `end`.
    pub(crate) fn missing_from(&self, from: u32, end: u32) -> Option<(u32, u32)> {
        let mut from = from.max(self.front);
        let mut i = self.pieces.partition_point(|&(_, last)| last <= from);
        if let Some(&(begin, last)) = self.pieces.get(i)
            && begin <= from
        {
            from = last;
            i += 1;
        }
        let to = self.pieces.get(i).map_or(end, |&(begin, _)| begin.min(end));
        (from < to).then_some((from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oorandom::Rand32;

    #[test]
    fn ranges_agree_with_a_list_of_bytes() {
        let mut random = Rand32::new(1);
        for _ in 0..300 {
            let mut bytes = [false; 60];
            let mut ranges = Ranges::default();
            for _ in 0..20 {
                let from = random.rand_range(0..60);
                let to = from + random.rand_range(0..15).min(60 - from);
                let new = (from..to).filter(|&i| !bytes[i as usize]).count();
                bytes[from as usize..to as usize].fill(true);
                assert_eq!(ranges.add(from, to) as usize, new);
                let first = bytes.iter().position(|&byte| !byte);
                let missing = ranges.missing(60);
                assert_eq!(missing.map(|(from, _)| from as usize), first);
                let at = random.rand_range(0..60);
                let later = bytes.iter().skip(at as usize).position(|&byte| !byte);
                let found = ranges.missing_from(at, 60).map(|(from, _)| (from - at) as usize);
                assert_eq!(found, later);
                if let Some((from, to)) = missing {
                    assert!(bytes[from as usize..to as usize].iter().all(|&byte| !byte));
                    assert!(to == 60 || bytes[to as usize]);
                }
            }
        }
    }
}
