//! Bytes in several pieces, such as those of a frame that was received in segments.

/// Bytes in one or several pieces, read from the front without a copy.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    front: &'a [u8],
    rest: &'a [&'a [u8]],
    len: usize,
}

impl<'a> Pieces<'a> {
    /// All bytes of `front` and then of `rest`.
    pub fn new(front: &'a [u8], rest: &'a [&'a [u8]]) -> Self {
        let len = front.len() + rest.iter().map(|piece| piece.len()).sum::<usize>();
        Self { front, rest, len }
    }

    /// Number of bytes left.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether none is left.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes `len` bytes off the front; `None` if there are fewer.
    #[inline]
    pub fn split(&mut self, len: usize) -> Option<Self> {
        let left = self.len.checked_sub(len)?;
        let taken = Self { len, ..*self };
        self.len = left;
        self.turn_to(len);
        Some(taken)
    }

    /// Takes an array off the front, as a copy; `None` if there are fewer bytes.
    #[inline]
    pub fn split_array<const N: usize>(&mut self) -> Option<[u8; N]> {
        if let Some(bytes) = self.front.first_chunk().filter(|_| N <= self.len) {
            self.front = &self.front[N..];
            self.len -= N;
            return Some(*bytes);
        }
        let mut bytes = [0; N];
        let mut at = 0;
        for piece in self.split(N)? {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        Some(bytes)
    }

    /// The first bytes, at most `most`, if they lie in one piece.
    #[inline]
    pub(crate) fn front(&self, most: usize) -> Option<&'a [u8]> {
        self.front.get(..self.len.min(most))
    }

    /// A copy of the first bytes, with zeros behind the last.
    #[cold]
    pub(crate) fn copy_front<const N: usize>(&self) -> [u8; N] {
        let (mut bytes, mut at) = ([0; N], 0);
        for piece in *self {
            let piece = &piece[..piece.len().min(N - at)];
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        bytes
    }

    /// Takes bytes off the front, of which there are as many at least.
    #[inline]
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.len -= bytes;
        self.turn_to(bytes);
    }

    #[inline]
    fn turn_to(&mut self, mut bytes: usize) {
        while bytes > self.front.len() {
            bytes -= self.front.len();
            self.turn();
        }
        self.front = &self.front[bytes..];
    }

    fn turn(&mut self) {
        let (&front, rest) = self.rest.split_first().unwrap_or((&(&[] as &[u8]), &[]));
        (self.front, self.rest) = (front, rest);
    }
}

impl<'a> From<&'a [u8]> for Pieces<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self { front: bytes, rest: &[], len: bytes.len() }
    }
}

/// The remaining pieces, one by one; none is empty.
impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while self.len > 0 {
            let piece = &self.front[..self.front.len().min(self.len)];
            self.turn();
            if !piece.is_empty() {
                self.len -= piece.len();
                return Some(piece);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn what_is_taken_is_what_lies_there(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6),
            takes in prop::collection::vec(0usize..30, 0..10),
        ) {
            let all = pieces.concat();
            let rest: Vec<&[u8]> = pieces[1..].iter().map(Vec::as_slice).collect();
            let mut left = Pieces::new(&pieces[0], &rest);
            let mut at = 0;
            for take in takes {
                match left.split(take) {
                    Some(taken) => {
                        prop_assert_eq!(taken.len(), take);
                        prop_assert_eq!(taken.collect::<Vec<_>>().concat(), &all[at..at + take]);
                        at += take;
                    }
                    None => prop_assert!(take > all.len() - at),
                }
                if let Some(bytes) = left.split_array::<3>() {
                    prop_assert_eq!(&bytes[..], &all[at..at + 3]);
                    at += 3;
                } else {
                    prop_assert!(all.len() - at < 3);
                }
                prop_assert_eq!(left.len(), all.len() - at);
            }
            prop_assert_eq!(left.collect::<Vec<_>>().concat(), &all[at..]);
        }
    }
}
