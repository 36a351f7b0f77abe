//! Entries under numbers that are not used again soon, so an old number does not name a new entry.

/// Bits of a number that name the slot. The others count the uses of the slot.
const SLOT_BITS: u32 = 20;

/// Uses of a slot until its numbers repeat: one less than the bits allow, so that no number is
/// `u32::MAX`.
const USES: u32 = u32::MAX >> SLOT_BITS;

/// Most entries at a time.
pub(crate) const MOST: usize = 1 << SLOT_BITS;

#[derive(Debug)]
struct Slot<T> {
    uses: u32,
    entry: Option<T>,
}

/// See the module's description. A number repeats after 4,095 uses of its slot at the earliest.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Inserts an entry, or hands it back if the table is full.
    pub(crate) fn insert(&mut self, entry: T) -> Result<u32, T> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() == MOST => return Err(entry),
            None => {
                self.slots.push(Slot { uses: 0, entry: None });
                (self.slots.len() - 1) as u32
            }
        };
        let at = &mut self.slots[slot as usize];
        at.uses = (at.uses + 1) % USES;
        at.entry = Some(entry);
        Ok(at.uses << SLOT_BITS | slot)
    }

    fn slot(&self, number: u32) -> Option<usize> {
        let slot = number as usize & (MOST - 1);
        (self.slots.get(slot)?.uses == number >> SLOT_BITS).then_some(slot)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.slots[self.slot(number)?].entry.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let slot = self.slot(number)?;
        self.slots[slot].entry.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let slot = self.slot(number)?;
        let entry = self.slots[slot].entry.take()?;
        self.free.push(slot as u32);
        Some(entry)
    }

    /// All entries with their numbers, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(slot, at)| Some((at.uses << SLOT_BITS | slot as u32, at.entry.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_over_finds_nothing_even_when_its_place_is_used_again() {
        let mut table = Table::new();
        let first = table.insert('a').unwrap();
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('b').unwrap();
        assert_ne!(first, second);
        assert_eq!((table.get(first), table.get(second)), (None, Some(&'b')));
        assert_eq!((table.remove(first), table.len()), (None, 1));
        assert_eq!(table.get(u32::MAX), None);
    }

    #[test]
    fn no_use_of_a_place_has_the_number_that_names_none() {
        let mut table = Table::new();
        table.slots.extend((0..MOST).map(|_| Slot { uses: 0, entry: None }));
        table.free.push(MOST as u32 - 1);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..USES {
            let number = table.insert(()).unwrap();
            assert!(number != u32::MAX && seen.insert(number));
            table.remove(number).unwrap();
        }
        let again = table.insert(()).unwrap();
        assert!(!seen.insert(again), "the first comes again");
    }
}
