//! Atomic changes at the owner of a memory.

use gigae_wire::op::{Action, Change, MOST_FETCHED, Number};

/// The bytes that a change works on, before or after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    len: u8,
    bytes: [u8; MOST_FETCHED],
}

impl Values {
    pub(crate) const NONE: Self = Self { len: 0, bytes: [0; MOST_FETCHED] };

    /// Zeros, as many as a change works on.
    pub(crate) fn of(change: &Change) -> Self {
        Self { len: change.len() as u8, ..Self::NONE }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len.into()]
    }
}

/// Calls `$one` for each number with its operands and stores the result there.
macro_rules! each {
    ($type:ty, $to:ident, $new:ident, $compare:ident, $one:expr) => {{
        const SIZE: usize = size_of::<$type>();
        let read = |bytes: &[u8], at: usize| match bytes.get(at..at + SIZE) {
            Some(bytes) => <$type>::from_le_bytes(bytes.try_into().expect("as many bytes")),
            None => <$type>::default(),
        };
        for at in (0..$to.len()).step_by(SIZE) {
            let after: $type = $one(read($to, at), read($new, at), read($compare, at));
            $to[at..at + SIZE].copy_from_slice(&after.to_le_bytes());
        }
    }};
}

/// What integers and floating-point numbers have in common. `$sum`, `$product` and `$bits` differ.
macro_rules! numbers {
    ($type:ty, $action:expr, $to:ident, $new:ident, $compare:ident, $sum:expr, $product:expr, $bits:expr) => {{
        let (zero, one) = (0 as $type, 1 as $type);
        let truth = |is: bool| if is { one } else { zero };
        let action = $action;
        each!($type, $to, $new, $compare, |old: $type, new: $type, compare: $type| {
            let swap = |is: bool| if is { new } else { old };
            match action {
                Action::Min => swap(new < old),
                Action::Max => swap(new > old),
                Action::Sum => $sum(old, new),
                Action::Product => $product(old, new),
                Action::LogicalOr => truth(old != zero || new != zero),
                Action::LogicalAnd => truth(old != zero && new != zero),
                Action::LogicalXor => truth((old != zero) != (new != zero)),
                Action::Read => old,
                Action::Write => new,
                Action::Swap => swap(compare == old),
                Action::SwapUnequal => swap(compare != old),
                Action::SwapLessOrEqual => swap(compare <= old),
                Action::SwapLess => swap(compare < old),
                Action::SwapGreaterOrEqual => swap(compare >= old),
                Action::SwapGreater => swap(compare > old),
                Action::Or | Action::And | Action::Xor | Action::SwapMasked => {
                    $bits(action, old, new, compare)
                }
            }
        })
    }};
}

macro_rules! integers {
    ($type:ty, $action:expr, $to:ident, $new:ident, $compare:ident) => {{
        let bits = |action: Action, old: $type, new: $type, compare: $type| match action {
            Action::Or => old | new,
            Action::And => old & new,
            Action::Xor => old ^ new,
            _ => new & compare | old & !compare,
        };
        let (sum, product) = (<$type>::wrapping_add, <$type>::wrapping_mul);
        numbers!($type, $action, $to, $new, $compare, sum, product, bits)
    }};
}

macro_rules! floats {
    ($type:ty, $action:expr, $to:ident, $new:ident, $compare:ident) => {{
        let (sum, product) = (|a: $type, b: $type| a + b, |a: $type, b: $type| a * b);
        // There is no such change: floating-point numbers have no bits.
        let bits = |_: Action, old: $type, _: $type, _: $type| old;
        numbers!($type, $action, $to, $new, $compare, sum, product, bits)
    }};
}

/// Applies a change to `old`. `operands` has as many bytes as the change says.
pub(crate) fn apply(change: &Change, old: &Values, operands: &[u8]) -> Values {
    let (new, compare) = operands.split_at(operands.len().min(change.len()));
    let mut out = *old;
    if change.action() == Action::Read {
        return out;
    }
    let to = out.bytes_mut();
    match change.number() {
        Number::I8 => integers!(i8, change.action(), to, new, compare),
        Number::U8 => integers!(u8, change.action(), to, new, compare),
        Number::I16 => integers!(i16, change.action(), to, new, compare),
        Number::U16 => integers!(u16, change.action(), to, new, compare),
        Number::I32 => integers!(i32, change.action(), to, new, compare),
        Number::U32 => integers!(u32, change.action(), to, new, compare),
        Number::I64 => integers!(i64, change.action(), to, new, compare),
        Number::U64 => integers!(u64, change.action(), to, new, compare),
        Number::F32 => floats!(f32, change.action(), to, new, compare),
        Number::F64 => floats!(f64, change.action(), to, new, compare),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies a change to one number.
    fn one<const N: usize>(
        action: Action,
        number: Number,
        [old, new, compare]: [[u8; N]; 3],
    ) -> [u8; N] {
        let change = Change::new(action, number, 1, true).unwrap();
        let mut before = Values::of(&change);
        before.bytes_mut().copy_from_slice(&old);
        let operands = [new, compare].concat();
        let after = apply(&change, &before, &operands[..change.operands_len()]);
        after.bytes().try_into().unwrap()
    }

    #[test]
    fn every_action_does_to_integers_what_it_says() {
        use Action::*;
        let signed = |action, old: i16, new: i16, compare: i16| {
            i16::from_le_bytes(one(action, Number::I16, [old, new, compare].map(i16::to_le_bytes)))
        };
        for (action, [old, new, compare], after) in [
            (Min, [-3, 2, 0], -3),
            (Min, [2, -3, 0], -3),
            (Max, [-3, 2, 0], 2),
            (Sum, [i16::MAX, 1, 0], i16::MIN),
            (Product, [300, 300, 0], 24_464),
            (LogicalOr, [0, -5, 0], 1),
            (LogicalOr, [0, 0, 0], 0),
            (LogicalAnd, [2, 4, 0], 1),
            (LogicalAnd, [2, 0, 0], 0),
            (LogicalXor, [2, 4, 0], 0),
            (LogicalXor, [0, 4, 0], 1),
            (Or, [5, 6, 0], 7),
            (And, [5, 6, 0], 4),
            (Xor, [5, 6, 0], 3),
            (Read, [5, 6, 0], 5),
            (Write, [5, 6, 0], 6),
            (Swap, [5, 6, 5], 6),
            (Swap, [5, 6, 4], 5),
            (SwapUnequal, [5, 6, 4], 6),
            (SwapUnequal, [5, 6, 5], 5),
            (SwapLessOrEqual, [5, 6, 5], 6),
            (SwapLessOrEqual, [5, 6, 7], 5),
            (SwapLess, [5, 6, -7], 6),
            (SwapLess, [5, 6, 5], 5),
            (SwapGreaterOrEqual, [5, 6, 5], 6),
            (SwapGreaterOrEqual, [5, 6, -7], 5),
            (SwapGreater, [5, 6, 7], 6),
            (SwapGreater, [5, 6, 5], 5),
            (SwapMasked, [0x0f0f, 0x1234, 0x00ff], 0x0f34),
        ] {
            assert_eq!(signed(action, old, new, compare), after, "{action:?}");
        }
        let unsigned = |action, old: u8, new: u8| one(action, Number::U8, [[old], [new], [0]])[0];
        assert_eq!(unsigned(Min, 0xff, 1), 1);
        assert_eq!(unsigned(Max, 0xff, 1), 0xff);
        assert_eq!(unsigned(Sum, 0xff, 2), 1);
    }

    #[test]
    fn numbers_with_a_point_are_added_compared_and_have_truth() {
        use Action::*;
        let double = |action, old: f64, new: f64, compare: f64| {
            f64::from_le_bytes(one(action, Number::F64, [old, new, compare].map(f64::to_le_bytes)))
        };
        for (action, [old, new, compare], after) in [
            (Sum, [1.5, 2.25, 0.0], 3.75),
            (Product, [1.5, -2.0, 0.0], -3.0),
            (Min, [1.5, -2.0, 0.0], -2.0),
            (Max, [1.5, f64::NAN, 0.0], 1.5),
            (LogicalAnd, [0.5, 0.25, 0.0], 1.0),
            (LogicalXor, [0.5, 0.25, 0.0], 0.0),
            (Swap, [0.5, 9.0, 0.5], 9.0),
            (SwapLess, [0.5, 9.0, 0.5], 0.5),
        ] {
            assert_eq!(double(action, old, new, compare), after, "{action:?}");
        }
    }

    #[test]
    fn several_numbers_are_changed_each_by_its_own_operands() {
        let change = Change::new(Action::Swap, Number::U32, 3, true).unwrap();
        let bytes =
            |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let mut before = Values::of(&change);
        before.bytes_mut().copy_from_slice(&bytes(&[1, 2, 3]));
        let after = apply(&change, &before, &bytes(&[10, 20, 30, 1, 0, 3]));
        assert_eq!(after.bytes(), bytes(&[10, 2, 30]));
    }
}
