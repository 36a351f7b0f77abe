//! What an Atomic does to numbers in memory.

/// Most bytes of memory that one Atomic changes. With as many bytes to compare, its operands still
/// fit into every frame.
pub const MOST_FETCHED: usize = 32;

/// What is done to a number `old` with an operand `new`; the last seven have a second operand,
/// `compare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// The smaller of both.
    Min = 0,
    /// The larger of both.
    Max = 1,
    /// Their sum; that of integers is taken modulo 2^bits.
    Sum = 2,
    /// Their product; that of integers is taken modulo 2^bits.
    Product = 3,
    /// 1 if one of them is not zero, else 0.
    LogicalOr = 4,
    /// 1 if both are not zero, else 0.
    LogicalAnd = 5,
    /// The bits that at least one of them has.
    Or = 6,
    /// The bits that both have.
    And = 7,
    /// 1 if exactly one of them is not zero, else 0.
    LogicalXor = 8,
    /// The bits that exactly one of them has.
    Xor = 9,
    /// `old`, unchanged. No operand.
    Read = 10,
    /// `new`.
    Write = 11,
    /// `new`, if `compare` equals `old`.
    Swap = 12,
    /// `new`, if `compare` does not equal `old`.
    SwapUnequal = 13,
    /// `new`, if `compare` is less than or equal to `old`.
    SwapLessOrEqual = 14,
    /// `new`, if `compare` is less than `old`.
    SwapLess = 15,
    /// `new`, if `compare` is greater than or equal to `old`.
    SwapGreaterOrEqual = 16,
    /// `new`, if `compare` is greater than `old`.
    SwapGreater = 17,
    /// The bits of `new` that are set in `compare`, the others of `old`.
    SwapMasked = 18,
}

impl Action {
    /// All, by their codes.
    pub const ALL: [Self; 19] = [
        Self::Min,
        Self::Max,
        Self::Sum,
        Self::Product,
        Self::LogicalOr,
        Self::LogicalAnd,
        Self::Or,
        Self::And,
        Self::LogicalXor,
        Self::Xor,
        Self::Read,
        Self::Write,
        Self::Swap,
        Self::SwapUnequal,
        Self::SwapLessOrEqual,
        Self::SwapLess,
        Self::SwapGreaterOrEqual,
        Self::SwapGreater,
        Self::SwapMasked,
    ];

    /// Operands for each number.
    pub const fn operands(self) -> usize {
        match self {
            Self::Read => 0,
            action if action as u8 >= Self::Swap as u8 => 2,
            _ => 1,
        }
    }

    /// Whether it works on single bits, which floating-point numbers do not offer.
    const fn is_bitwise(self) -> bool {
        matches!(self, Self::Or | Self::And | Self::Xor | Self::SwapMasked)
    }
}

/// The type of a number. All are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are Rust's")]
pub enum Number {
    I8 = 0,
    U8 = 1,
    I16 = 2,
    U16 = 3,
    I32 = 4,
    U32 = 5,
    I64 = 6,
    U64 = 7,
    F32 = 8,
    F64 = 9,
}

impl Number {
    /// All, by their codes.
    pub const ALL: [Self; 10] = [
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F32,
        Self::F64,
    ];

    /// Its bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// What an Atomic does: the same to one number or to several adjacent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    action: Action,
    number: Number,
    count: u8,
    fetch: bool,
}

impl Change {
    /// `None` if these numbers do not have this action, if `count` is zero, or if they are more
    /// than [`MOST_FETCHED`] bytes. `fetch` says whether the answer returns the former values.
    pub fn new(action: Action, number: Number, count: usize, fetch: bool) -> Option<Self> {
        let has_bits = !matches!(number, Number::F32 | Number::F64);
        let fits = count > 0 && count <= MOST_FETCHED / number.size();
        let there = fits && (has_bits || !action.is_bitwise());
        there.then_some(Self { action, number, count: count as u8, fetch })
    }

    /// What is done.
    pub const fn action(&self) -> Action {
        self.action
    }

    /// To which numbers.
    pub const fn number(&self) -> Number {
        self.number
    }

    /// Whether the answer returns the former values.
    pub const fn fetches(&self) -> bool {
        self.fetch
    }

    /// Bytes of memory that it changes.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub const fn len(&self) -> usize {
        self.count as usize * self.number.size()
    }

    /// Bytes of all operands: all first operands, then all second ones.
    pub const fn operands_len(&self) -> usize {
        self.len() * self.action.operands()
    }

    pub(super) fn to_bytes(self) -> [u8; 4] {
        [self.action as u8, self.number as u8, self.count, self.fetch.into()]
    }

    pub(super) fn from_bytes([action, number, count, fetch]: [u8; 4]) -> Option<Self> {
        let action = *Action::ALL.get(usize::from(action))?;
        let number = *Number::ALL.get(usize::from(number))?;
        if fetch > 1 {
            return None;
        }
        Self::new(action, number, count.into(), fetch == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_places_and_what_is_no_change_is_refused() {
        assert!(Action::ALL.iter().enumerate().all(|(n, &action)| action as usize == n));
        assert!(Number::ALL.iter().enumerate().all(|(n, &number)| number as usize == n));
        for (bytes, there) in [
            ([2, 7, 4, 1], true),
            ([2, 7, 5, 1], false),
            ([2, 0, 32, 0], true),
            ([2, 0, 0, 0], false),
            ([6, 8, 1, 0], false),
            ([18, 9, 1, 1], false),
            ([19, 0, 1, 0], false),
            ([0, 10, 1, 0], false),
            ([0, 0, 1, 2], false),
        ] {
            let change = Change::from_bytes(bytes);
            assert_eq!(change.is_some(), there, "{bytes:?}");
            assert!(change.is_none_or(|change| change.to_bytes() == bytes));
        }
    }
}
