//! The addresses of an endpoint that has several links (`PROTOCOL.md` §11).

use crate::{Discard, MacAddr};

/// Most paths of a session: as many NICs as a node can have for one endpoint.
pub const MAX_PATHS: usize = 8;

/// The addresses of an endpoint's links, in order. The first names the endpoint. Empty for an
/// endpoint with one link: every frame shows that address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Paths {
    count: u8,
    macs: [MacAddr; MAX_PATHS],
}

impl Paths {
    /// Longest form on the wire in bytes: a count and the addresses.
    pub const LONGEST: usize = 1 + MAX_PATHS * 6;

    /// None: one link, whose address every frame shows.
    pub const NONE: Self = Self { count: 0, macs: [MacAddr([0; 6]); MAX_PATHS] };

    /// These addresses, up to the first [`MAX_PATHS`]; [`NONE`](Self::NONE) if there are fewer than
    /// two.
    pub fn new(addresses: &[MacAddr]) -> Self {
        let mut paths = Self::NONE;
        let count = addresses.len().min(MAX_PATHS);
        if count > 1 {
            paths.macs[..count].copy_from_slice(&addresses[..count]);
            paths.count = count as u8;
        }
        paths
    }

    /// Number of links, 1 to [`MAX_PATHS`].
    #[expect(clippy::len_without_is_empty, reason = "there is always one link")]
    pub fn len(&self) -> usize {
        usize::from(self.count.max(1))
    }

    /// The address of a link, if the endpoint named it.
    #[inline]
    pub fn get(&self, path: usize) -> Option<MacAddr> {
        self.macs[..usize::from(self.count)].get(path).copied()
    }

    /// Writes the end of a [`crate::Handshake`]; returns its length, zero if there are none.
    ///
    /// # Panics
    /// If `to` is shorter than that.
    pub fn write(&self, to: &mut [u8]) -> usize {
        if self.count == 0 {
            return 0;
        }
        to[0] = self.count;
        let (mut at, count) = (1, usize::from(self.count));
        for mac in &self.macs[..count] {
            to[at..at + 6].copy_from_slice(&mac.0);
            at += 6;
        }
        at
    }

    /// Reads the end of a [`crate::Handshake`]. No bytes mean [`NONE`](Self::NONE). Ignores further
    /// bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Discard> {
        let Some((&count, rest)) = bytes.split_first() else {
            return Ok(Self::NONE);
        };
        let bytes = rest.get(..usize::from(count) * 6).ok_or(Discard::Malformed)?;
        let (mut macs, mut used) = ([MacAddr::default(); MAX_PATHS], 0);
        for (mac, bytes) in macs.iter_mut().zip(bytes.chunks_exact(6)) {
            mac.0.copy_from_slice(bytes);
            used += 1;
        }
        if macs[..used].iter().any(|mac| mac.is_group() || mac.0 == [0; 6]) {
            return Err(Discard::Malformed);
        }
        Ok(Self::new(&macs[..used]))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn mac(n: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 1, n])
    }

    fn written(paths: &Paths) -> Vec<u8> {
        let mut room = [0; Paths::LONGEST];
        let len = paths.write(&mut room);
        room[..len].to_vec()
    }

    /// The layout in `PROTOCOL.md` §11, byte for byte.
    #[test]
    fn the_layout_is_the_documented_one_and_one_link_is_left_out() {
        let two = Paths::new(&[mac(1), mac(2)]);
        assert_eq!(written(&two), [2, 2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 2]);
        let one = Paths::new(&[mac(1)]);
        assert_eq!((written(&one).len(), one.len(), one.get(0)), (0, 1, None));
    }

    #[test]
    fn what_is_written_is_read_back_and_more_behind_it_is_ignored() {
        let all: Vec<_> = (1..=8).map(mac).collect();
        for count in 0..=8 {
            let paths = Paths::new(&all[..count]);
            let mut bytes = written(&paths);
            assert_eq!(Paths::parse(&bytes), Ok(paths));
            if count > 1 {
                bytes.push(7);
                assert_eq!(Paths::parse(&bytes), Ok(paths));
                assert_eq!(paths.get(count - 1), Some(mac(count as u8)));
                assert_eq!(paths.get(count), None);
            }
        }
    }

    #[test]
    fn of_more_links_than_there_can_be_the_first_are_taken() {
        let mut bytes = vec![9];
        (1..=9).for_each(|n| bytes.extend(mac(n).0));
        let paths = Paths::parse(&bytes).unwrap();
        assert_eq!((paths.len(), paths.get(7)), (8, Some(mac(8))));
        bytes.pop();
        assert_eq!(Paths::parse(&bytes), Err(Discard::Malformed), "the list is cut off");
    }

    #[test]
    fn an_address_that_is_no_node_is_malformed() {
        for bad in [[0; 6], [0xff; 6], [1, 0, 0, 0, 0, 1]] {
            let bytes = written(&Paths::new(&[mac(1), MacAddr(bad)]));
            assert_eq!(Paths::parse(&bytes), Err(Discard::Malformed));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Paths::parse(&bytes);
        }
    }
}
