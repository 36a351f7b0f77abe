//! Tables of operations and of memories. Numbers of operations go on the wire, in 32 bits.

use gigae_slots::Slots;

/// Numbers come again after 4,094 uses of a place at the earliest, and none is `u32::MAX`.
pub(crate) type SlotTable<T> = Slots<u32, T, 20, 12>;

/// Most entries at a time.
pub(crate) const MOST: usize = SlotTable::<()>::MOST;
