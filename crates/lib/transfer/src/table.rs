//! Entries under numbers that are not used again soon: what is over cannot be mistaken for what is.

/// Bits of a number that say the place; the others count how often the place was used.
const PLACE_BITS: u32 = 20;

/// Uses of a place until its numbers come again: one less than the bits have, so that none is `u32::MAX`.
const USES: u32 = u32::MAX >> PLACE_BITS;

/// Most entries at a time.
pub(crate) const MOST: usize = 1 << PLACE_BITS;

#[derive(Debug)]
struct Place<T> {
    uses: u32,
    entry: Option<T>,
}

/// See the module's description. A number is valid again after 4,095 uses of its place at the
/// earliest.
#[derive(Debug)]
pub(crate) struct Table<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// Enters something; hands it back if the table is full.
    pub(crate) fn insert(&mut self, entry: T) -> Result<u32, T> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.places.len() == MOST => return Err(entry),
            None => {
                self.places.push(Place { uses: 0, entry: None });
                (self.places.len() - 1) as u32
            }
        };
        let at = &mut self.places[place as usize];
        at.uses = (at.uses + 1) % USES;
        at.entry = Some(entry);
        Ok(at.uses << PLACE_BITS | place)
    }

    fn place(&self, number: u32) -> Option<usize> {
        let place = number as usize & (MOST - 1);
        (self.places.get(place)?.uses == number >> PLACE_BITS).then_some(place)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.places[self.place(number)?].entry.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let place = self.place(number)?;
        self.places[place].entry.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let place = self.place(number)?;
        let entry = self.places[place].entry.take()?;
        self.free.push(place as u32);
        Some(entry)
    }

    /// All entries with their numbers, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.places.iter().enumerate().filter_map(|(place, at)| {
            Some((at.uses << PLACE_BITS | place as u32, at.entry.as_ref()?))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
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
        table.places.extend((0..MOST).map(|_| Place { uses: 0, entry: None }));
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
