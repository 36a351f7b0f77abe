//! What precedes a bulk frame, by the socket and, in parts, by the link (`PROTOCOL.md` §13).

/// Bytes of a [`BulkHeader`].
pub const BULK_HEADER_LEN: usize = 8;

/// Most datagrams of a frame: 64 KiB of MTU 1500, which the kernel cuts and joins at a time.
pub const MOST_DATAGRAMS: u8 = 44;

/// The first bytes of a [`BulkHeader`]. Datagrams without a header carry bytes of programs, which
/// are seldom these.
const MARK: [u8; 4] = [0xb6, b'G', b'E', 0x9d];

/// What precedes a bulk frame, in its first datagram.
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

    /// From the first bytes of a datagram of `len` bytes. `None` if no sender of this protocol
    /// begins a frame with such a datagram.
    #[inline]
    pub fn parse(bytes: [u8; BULK_HEADER_LEN], len: usize) -> Option<Self> {
        let [mark @ .., e, f, g, h] = bytes;
        let header = Self { length: u16::from_be_bytes([e, f]), unit: u16::from_be_bytes([g, h]) };
        let unit = usize::from(header.unit);
        let fits = header.length > 0
            && unit > BULK_HEADER_LEN
            && len == unit.min(header.whole())
            && header.whole() <= unit * usize::from(MOST_DATAGRAMS);
        (mark == MARK && fits).then_some(header)
    }

    /// Bytes of all datagrams of the frame.
    #[inline]
    pub fn whole(self) -> usize {
        BULK_HEADER_LEN + usize::from(self.length)
    }
}

/// The first bytes of a [`NumberedHeader`].
const NUMBERED: [u8; 4] = [0xb6, b'G', b'E', 0x9e];

/// The bit of `index` that marks the last datagram of a frame.
const LAST: u8 = 0x80;

/// What precedes each datagram of a bulk frame, where datagrams come one by one and in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedHeader {
    /// Bytes of the frame.
    pub length: u16,
    /// The sender's number for the frame: frames that are under way at a time have different ones.
    pub frame: u8,
    /// Number of this datagram among those of the frame.
    pub index: u8,
    /// It is the frame's last.
    pub last: bool,
}

impl NumberedHeader {
    /// As bytes.
    pub fn to_bytes(self) -> [u8; BULK_HEADER_LEN] {
        let ([a, b, c, d], [e, f]) = (NUMBERED, self.length.to_be_bytes());
        [a, b, c, d, e, f, self.frame, self.index | if self.last { LAST } else { 0 }]
    }

    /// From the first bytes of a datagram of `len` bytes. Also says how many bytes of the frame
    /// each of its datagrams but the last has. `None` if no sender of this protocol sends such a
    /// datagram.
    pub fn parse(bytes: [u8; BULK_HEADER_LEN], len: usize) -> Option<(Self, u16)> {
        let [mark @ .., e, f, frame, index] = bytes;
        let (last, index) = (index & LAST != 0, index & !LAST);
        let header = Self { length: u16::from_be_bytes([e, f]), frame, index, last };
        if mark != NUMBERED || index >= MOST_DATAGRAMS {
            return None;
        }
        let data =
            u16::try_from(len.checked_sub(BULK_HEADER_LEN)?).ok().filter(|&data| data > 0)?;
        let before = header.length.checked_sub(data)?;
        let unit = match u16::from(index) {
            0 if last => header.length,
            index if last => before / index,
            _ => data,
        };
        let starts = usize::from(unit) * usize::from(index);
        let fits = match last {
            true => starts == before.into() && data <= unit,
            false => starts < before.into(),
        };
        let whole = usize::from(header.length) <= usize::from(unit) * usize::from(MOST_DATAGRAMS);
        (fits && whole && unit > 0).then_some((header, unit))
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
        assert!(parsed(BulkHeader { length: 44 * 50 - 8, unit: 50 }, 50));
        assert!(!parsed(BulkHeader { length: 44 * 50 - 7, unit: 50 }, 50));
        for at in 0..4 {
            let mut bytes = good.to_bytes();
            bytes[at] ^= 1;
            assert_eq!(BulkHeader::parse(bytes, 50), None);
        }
    }

    #[test]
    fn a_numbered_datagram_begins_with_the_documented_bytes_and_is_read_back() {
        let header = NumberedHeader { length: 0x0102, frame: 3, index: 4, last: false };
        assert_eq!(header.to_bytes(), [0xb6, b'G', b'E', 0x9e, 1, 2, 3, 4]);
        assert_eq!(NumberedHeader { last: true, ..header }.to_bytes()[7], 0x84);
        for (length, unit) in
            [(1_usize, 7), (7, 7), (8, 7), (64_000, 1464), (64_416, 1464), (100, 3)]
        {
            let count = length.div_ceil(unit);
            for index in 0..count {
                let data = unit.min(length - index * unit);
                let last = index == count - 1;
                let header =
                    NumberedHeader { length: length as u16, frame: 9, index: index as u8, last };
                let unit = if count == 1 { length } else { unit };
                let parsed = NumberedHeader::parse(header.to_bytes(), BULK_HEADER_LEN + data);
                assert_eq!(parsed, Some((header, unit as u16)), "{length} {unit} {index}");
            }
        }
    }

    #[test]
    fn no_other_datagram_is_a_numbered_one() {
        let good = NumberedHeader { length: 100, frame: 0, index: 2, last: true };
        let parsed = |header: NumberedHeader, len| {
            NumberedHeader::parse(header.to_bytes(), BULK_HEADER_LEN + len).is_some()
        };
        // 40, 40 and 20.
        assert!(parsed(good, 20));
        assert!(!parsed(good, 0) && !parsed(good, 19) && !parsed(good, 34) && !parsed(good, 101));
        let inner = NumberedHeader { index: 1, last: false, ..good };
        assert!(parsed(inner, 40) && parsed(inner, 49));
        assert!(!parsed(inner, 50), "the last one and not marked");
        assert!(!parsed(NumberedHeader { index: 44, ..inner }, 1));
        assert!(!parsed(NumberedHeader { length: 0, ..inner }, 1));
        assert!(parsed(NumberedHeader { length: 4400, ..inner }, 100));
        assert!(!parsed(NumberedHeader { length: 4401, ..inner }, 100), "45 datagrams");
        for at in 0..4 {
            let mut bytes = good.to_bytes();
            bytes[at] ^= 4;
            assert_eq!(NumberedHeader::parse(bytes, BULK_HEADER_LEN + 20), None);
        }
        assert_eq!(BulkHeader::parse(good.to_bytes(), 28), None);
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
