//! What stands in front of a bulk frame, by the socket and, in parts, by the link (`PROTOCOL.md` §13).

/// Bytes of a [`BulkHeader`].
pub const BULK_HEADER_LEN: usize = 8;

/// Most datagrams of a frame: 64 KiB of MTU 1500, which the kernel cuts and joins at a time.
pub const MOST_DATAGRAMS: u8 = 44;

/// The first bytes of a [`BulkHeader`]. Datagrams without a header carry bytes of programs, which are
/// seldom these.
const MARK: [u8; 4] = [0xb6, b'G', b'E', 0x9d];

/// What stands in front of a bulk frame, in its first datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkHeader {
    /// Bytes of the frame, which are behind this header.
    pub length: u16,
    /// Bytes of each of its datagrams but the last, this header included.
    pub unit: u16,
}

impl BulkHeader {
    /// As bytes.
    #[inline]
    pub fn to_bytes(self) -> [u8; BULK_HEADER_LEN] {
        let ([a, b, c, d], [e, f]) = (MARK, self.length.to_be_bytes());
        let [g, h] = self.unit.to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// From the first bytes of a datagram of `len` bytes. `None` if no sender of this protocol begins
    /// a frame with such a datagram.
    #[inline]
    pub fn parse(bytes: [u8; BULK_HEADER_LEN], len: usize) -> Option<Self> {
        let [mark @ .., e, f, g, h] = bytes;
        let header = Self { length: u16::from_be_bytes([e, f]), unit: u16::from_be_bytes([g, h]) };
        let unit = usize::from(header.unit);
        let fits = header.length > 0 && unit > BULK_HEADER_LEN && len == unit.min(header.whole());
        (mark == MARK && fits).then_some(header)
    }

    /// Bytes of all datagrams of the frame.
    #[inline]
    pub fn whole(self) -> usize {
        BULK_HEADER_LEN + usize::from(self.length)
    }
}

/// Bytes of a [`PartHeader`].
pub const PART_HEADER_LEN: usize = 8;

/// Most parts of a frame.
pub const MOST_PARTS: u8 = 64;

/// Which part of which bulk frame the payload of a frame of the link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHeader {
    /// The sender's number for the frame: the `seq` of its header.
    pub frame: u32,
    /// Bytes of the frame in each of its parts but the last.
    pub unit: u16,
    /// Number of this part among those of the frame.
    pub index: u8,
    /// Parts of the frame, 1 to [`MOST_PARTS`].
    pub count: u8,
}

impl PartHeader {
    /// As bytes.
    #[inline]
    pub fn to_bytes(self) -> [u8; PART_HEADER_LEN] {
        let [a, b, c, d] = self.frame.to_be_bytes();
        let [e, f] = self.unit.to_be_bytes();
        [a, b, c, d, e, f, self.index, self.count]
    }

    /// From bytes, with `len` bytes of the frame behind them. `None` if no sender of this protocol
    /// sends such a part.
    #[inline]
    pub fn parse(bytes: [u8; PART_HEADER_LEN], len: usize) -> Option<Self> {
        let [a, b, c, d, e, f, index, count] = bytes;
        let unit = u16::from_be_bytes([e, f]);
        let header = Self { frame: u32::from_be_bytes([a, b, c, d]), unit, index, count };
        let fits =
            if header.is_last() { (1..=unit.into()).contains(&len) } else { len == unit.into() };
        (index < count && count <= MOST_PARTS && unit > 0 && fits).then_some(header)
    }

    /// Whether no part of the frame comes behind this one.
    #[inline]
    pub fn is_last(self) -> bool {
        self.count.checked_sub(1) == Some(self.index)
    }

    /// Where in the frame its bytes begin.
    #[inline]
    pub fn offset(self) -> usize {
        usize::from(self.index) * usize::from(self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bulk_frame_begins_with_the_documented_bytes() {
        let header = BulkHeader { length: 0x0102, unit: 0x0506 };
        let bytes = header.to_bytes();
        assert_eq!(bytes, [0xb6, b'G', b'E', 0x9d, 1, 2, 5, 6]);
        // The frame is whole in its first datagram, or that is full.
        assert_eq!(BulkHeader::parse(bytes, 0x0102 + 8), Some(header));
        let long = BulkHeader { length: 5000, unit: 1472 };
        assert_eq!((BulkHeader::parse(long.to_bytes(), 1472), long.whole()), (Some(long), 5008));
    }

    #[test]
    fn no_other_datagram_begins_a_bulk_frame() {
        let good = BulkHeader { length: 100, unit: 50 };
        let parsed = |header: BulkHeader, len| BulkHeader::parse(header.to_bytes(), len).is_some();
        assert!(parsed(good, 50) && !parsed(good, 49) && !parsed(good, 51) && !parsed(good, 108));
        let short = BulkHeader { length: 30, unit: 50 };
        assert!(parsed(short, 38) && !parsed(short, 37) && !parsed(short, 50));
        assert!(!parsed(BulkHeader { length: 0, unit: 50 }, 8));
        assert!(!parsed(BulkHeader { length: 100, unit: 8 }, 8));
        assert!(!parsed(BulkHeader { length: 100, unit: 0 }, 0));
        for at in 0..4 {
            let mut bytes = good.to_bytes();
            bytes[at] ^= 1;
            assert_eq!(BulkHeader::parse(bytes, 50), None);
        }
    }

    #[test]
    fn the_layout_of_a_part_is_the_documented_one_and_is_read_back() {
        let header = PartHeader { frame: 0x0102_0304, unit: 0x0506, index: 7, count: 9 };
        assert_eq!(header.to_bytes(), [1, 2, 3, 4, 5, 6, 7, 9]);
        assert_eq!(PartHeader::parse(header.to_bytes(), 0x0506), Some(header));
        assert_eq!(header.offset(), 7 * 0x0506);
    }

    #[test]
    fn a_part_that_nobody_sends_is_refused() {
        let good = PartHeader { frame: 1, unit: 100, index: 1, count: 2 };
        let parsed = |header: PartHeader, len| PartHeader::parse(header.to_bytes(), len).is_some();
        assert!(parsed(good, 100) && parsed(good, 1));
        assert!(!parsed(good, 0) && !parsed(good, 101));
        let first = PartHeader { index: 0, ..good };
        assert!(parsed(first, 100) && !parsed(first, 99));
        assert!(!parsed(PartHeader { index: 2, ..good }, 100));
        assert!(!parsed(PartHeader { count: 0, index: 0, ..good }, 100));
        assert!(!parsed(PartHeader { index: u8::MAX, ..good }, 100));
        let most = PartHeader { count: MOST_PARTS, ..good };
        assert!(parsed(most, 100));
        assert!(!parsed(PartHeader { count: MOST_PARTS + 1, ..good }, 100));
        assert!(!parsed(PartHeader { unit: 0, index: 0, ..good }, 0));
        assert!(!parsed(PartHeader { unit: 0, ..good }, 0));
    }
}
