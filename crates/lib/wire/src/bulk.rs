//! The header of each datagram that carries a part of a bulk frame (`PROTOCOL.md` §13).

/// Bytes of a [`BulkHeader`].
pub const BULK_HEADER_LEN: usize = 8;

/// Most datagrams of a frame: 64 KiB of MTU 1500, which the kernel cuts and joins at a time.
pub const MOST_DATAGRAMS: u8 = 44;

/// Most parts of a frame, by the socket or by the link.
pub const MOST_PARTS: u8 = 64;

/// Which part of which frame a datagram carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkHeader {
    /// The sender's number for the frame: the `seq` of its header.
    pub frame: u32,
    /// Bytes of the frame in each of its datagrams but the last.
    pub unit: u16,
    /// Number of this datagram among those of the frame.
    pub index: u8,
    /// Parts of the frame, 1 to [`MOST_PARTS`].
    pub count: u8,
}

impl BulkHeader {
    /// As bytes.
    #[inline]
    pub fn to_bytes(self) -> [u8; BULK_HEADER_LEN] {
        let [a, b, c, d] = self.frame.to_be_bytes();
        let [e, f] = self.unit.to_be_bytes();
        [a, b, c, d, e, f, self.index, self.count]
    }

    /// From bytes, with `len` bytes of the frame behind them. `None` if no sender of this protocol
    /// sends such a datagram.
    #[inline]
    pub fn parse(bytes: [u8; BULK_HEADER_LEN], len: usize) -> Option<Self> {
        let [a, b, c, d, e, f, index, count] = bytes;
        let unit = u16::from_be_bytes([e, f]);
        let header = Self { frame: u32::from_be_bytes([a, b, c, d]), unit, index, count };
        let fits =
            if header.is_last() { (1..=unit.into()).contains(&len) } else { len == unit.into() };
        (index < count && count <= MOST_PARTS && unit > 0 && fits).then_some(header)
    }

    /// Whether no datagram of the frame comes behind this one.
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
    fn the_layout_is_the_documented_one_and_is_read_back() {
        let header = BulkHeader { frame: 0x0102_0304, unit: 0x0506, index: 7, count: 9 };
        assert_eq!(header.to_bytes(), [1, 2, 3, 4, 5, 6, 7, 9]);
        assert_eq!(BulkHeader::parse(header.to_bytes(), 0x0506), Some(header));
        assert_eq!(header.offset(), 7 * 0x0506);
    }

    #[test]
    fn what_nobody_sends_is_refused() {
        let good = BulkHeader { frame: 1, unit: 100, index: 1, count: 2 };
        let parsed = |header: BulkHeader, len| BulkHeader::parse(header.to_bytes(), len).is_some();
        assert!(parsed(good, 100) && parsed(good, 1));
        assert!(!parsed(good, 0) && !parsed(good, 101));
        let first = BulkHeader { index: 0, ..good };
        assert!(parsed(first, 100) && !parsed(first, 99));
        assert!(!parsed(BulkHeader { index: 2, ..good }, 100));
        assert!(!parsed(BulkHeader { count: 0, index: 0, ..good }, 100));
        assert!(!parsed(BulkHeader { index: u8::MAX, ..good }, 100));
        let most = BulkHeader { count: MOST_PARTS, ..good };
        assert!(parsed(most, 100));
        assert!(!parsed(BulkHeader { count: MOST_PARTS + 1, ..good }, 100));
        assert!(!parsed(BulkHeader { unit: 0, index: 0, ..good }, 0));
        assert!(!parsed(BulkHeader { unit: 0, ..good }, 0));
    }
}
