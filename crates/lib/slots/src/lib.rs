//! Objects under numbers that are not used again soon: a number whose object is gone, a copy of it,
//! or a made-up number finds nothing.
//!
//! A number is a place, and above it how often that place was used. Numbers are of 64 bits where a
//! program holds them, of 32 bits where they go on the wire. None is zero and none has all bits
//! set. Entering and removing are a few loads and stores; memory is allocated only when there are
//! more objects than ever before. For one thread at a time.
//!
//! This is a separate crate because `gigae-transfer` and `gigae-capi` share it: the numbers of
//! operations and memories, and the C library's tickets.

#![forbid(unsafe_code)]

/// See the crate's description. Of a number's bits, `PLACE_BITS` say the place, and the `USES_BITS`
/// above them how often it was used.
#[derive(Debug)]
pub struct Slots<N, T, const PLACE_BITS: u32, const USES_BITS: u32> {
    places: Vec<Slot<T>>,
    /// Places without an object, the last used on top since it is still in the cache.
    free: Vec<u32>,
    number: std::marker::PhantomData<N>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Which use this is. [`FREE`] between two uses, so that no number finds the next use
    /// beforehand.
    uses: u64,
    /// Which use the next one will be.
    next: u32,
    /// `None` also while the object is [lifted](Slots::lift).
    object: Option<T>,
}

/// No number has this many uses, because some of its bits are the place.
const FREE: u64 = u64::MAX;

impl<N, T, const PLACE_BITS: u32, const USES_BITS: u32> Default
    for Slots<N, T, PLACE_BITS, USES_BITS>
{
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), number: std::marker::PhantomData }
    }
}

impl<N, T, const PLACE_BITS: u32, const USES_BITS: u32> Slots<N, T, PLACE_BITS, USES_BITS>
where
    N: Copy + Into<u64> + TryFrom<u64>,
{
    /// Most objects at a time.
    pub const MOST: usize = 1 << PLACE_BITS;

    /// Uses of a place until its numbers come again.
    pub const USES: u32 = (u32::MAX >> (32 - USES_BITS)) - 1;

    /// Objects that are in, lifted ones included.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Enters an object; hands it back if there is no number left.
    #[inline]
    pub fn insert(&mut self, object: T) -> Result<N, T> {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.places.len() < Self::MOST => self.grow(),
            None => return Err(object),
        };
        let place = &mut self.places[at as usize];
        place.uses = place.next.into();
        place.next = if place.next == Self::USES { 1 } else { place.next + 1 };
        place.object = Some(object);
        Ok(Self::number(place.uses, at))
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let at = self.places.len();
        self.places.push(Slot { uses: FREE, next: 1, object: None });
        // So that removing never allocates.
        self.free.reserve(self.places.len());
        at as u32
    }

    /// The object with this number.
    #[inline]
    pub fn get(&self, number: N) -> Option<&T> {
        self.places[self.find(number)?].object.as_ref()
    }

    /// The object with this number.
    #[inline]
    pub fn get_mut(&mut self, number: N) -> Option<&mut T> {
        let at = self.find(number)?;
        self.places[at].object.as_mut()
    }

    /// Takes the object out and leaves the number good, for [`put`](Self::put).
    #[inline]
    pub fn lift(&mut self, number: N) -> Option<T> {
        let at = self.find(number)?;
        self.places[at].object.take()
    }

    /// Puts a lifted object back.
    pub fn put(&mut self, number: N, object: T) {
        if let Some(at) = self.find(number) {
            self.places[at].object = Some(object);
        }
    }

    /// Ends the number, and returns its object, unless that is lifted.
    #[inline]
    pub fn remove(&mut self, number: N) -> Option<T> {
        let at = self.find(number)?;
        let place = &mut self.places[at];
        place.uses = FREE;
        self.free.push(at as u32);
        place.object.take()
    }

    /// All objects with their numbers, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (N, &T)> {
        self.places.iter().enumerate().filter_map(|(at, place)| {
            let object = place.object.as_ref()?;
            Some((Self::number(place.uses, at as u32), object))
        })
    }

    #[inline]
    fn find(&self, number: N) -> Option<usize> {
        let number = number.into();
        let at = number as usize & (Self::MOST - 1);
        (self.places.get(at)?.uses == number >> PLACE_BITS).then_some(at)
    }

    #[inline]
    fn number(uses: u64, at: u32) -> N {
        let number = N::try_from(uses << PLACE_BITS | u64::from(at));
        number.ok().expect("a number has so many bits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers on the wire, and those of programs.
    type Short<T> = Slots<u32, T, 20, 12>;
    type Long<T> = Slots<u64, T, 32, 32>;

    #[test]
    fn a_number_that_is_over_finds_nothing_even_when_its_place_is_used_again() {
        let mut slots = Short::default();
        let first = slots.insert('a').unwrap();
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b').unwrap();
        assert_ne!(first, second);
        assert_eq!((slots.get(first), slots.get(second)), (None, Some(&'b')));
        assert_eq!((slots.remove(first), slots.len()), (None, 1));
        assert_eq!(slots.iter().collect::<Vec<_>>(), [(second, &'b')]);
        slots.remove(second);
        assert_eq!(slots.iter().count(), 0);
    }

    #[test]
    fn the_numbers_of_a_place_come_again_when_all_were_used() {
        let mut slots = Short::default();
        assert_eq!(Short::<()>::USES, 4094);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..Short::<()>::USES {
            let number = slots.insert(()).unwrap();
            assert!(seen.insert(number));
            slots.remove(number).unwrap();
        }
        let again = slots.insert(()).unwrap();
        assert!(!seen.insert(again), "the first comes again");
    }

    #[test]
    fn no_number_is_zero_or_has_all_bits_set() {
        // Whatever the place is, the uses above it keep the number from both.
        let mut slots = Slots::<u32, (), 28, 4>::default();
        assert_eq!(Slots::<u32, (), 28, 4>::USES, 14);
        assert_eq!(Slots::<u64, (), 32, 32>::USES, u32::MAX - 1);
        for _ in 0..20 {
            let number = slots.insert(()).unwrap();
            assert!((1..15).contains(&(number >> 28)), "{number:x}");
            slots.remove(number);
        }
    }

    #[test]
    fn a_copy_of_a_number_finds_nothing_once_its_object_was_removed() {
        let mut slots = Long::default();
        let first = slots.insert("first").unwrap();
        let second = slots.insert("second").unwrap();
        assert_eq!((slots.lift(first), slots.len()), (Some("first"), 2));
        assert_eq!(slots.remove(first), None, "it was lifted");
        assert_eq!((slots.lift(first), slots.len()), (None, 1));
        assert_eq!(slots.get_mut(first), None);
        let third = slots.insert("third").unwrap();
        assert_eq!(third as u32, first as u32, "the place is used again");
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.get_mut(third), Some(&mut "third"));
        slots.remove(first);
        assert_eq!(slots.get_mut(second), Some(&mut "second"));
        assert_eq!(slots.len(), 2, "removing twice removes once");
    }

    #[test]
    fn what_is_lifted_can_be_put_back() {
        let mut slots = Long::default();
        let number = slots.insert(7).unwrap();
        assert_eq!((slots.lift(number), slots.lift(number)), (Some(7), None));
        slots.put(number, 8);
        assert_eq!(slots.get_mut(number), Some(&mut 8));
    }

    #[test]
    fn a_zeroed_or_made_up_number_names_nothing() {
        let mut slots = Long::default();
        slots.insert(()).unwrap();
        for number in [0, 1, 1 << 32 | 1, 2 << 32, u64::MAX] {
            assert_eq!(slots.get_mut(number), None, "{number:x}");
        }
    }

    #[test]
    fn the_number_of_the_next_use_names_nothing_and_frees_nothing() {
        let mut slots = Long::default();
        let first = slots.insert('a').unwrap();
        assert_eq!(slots.remove(first), Some('a'));
        let next = first + (1 << 32);
        assert_eq!((slots.remove(next), slots.lift(next)), (None, None));
        slots.put(next, 'x');
        assert_eq!((slots.get(next), slots.len()), (None, 0));
        let (second, third) = (slots.insert('b').unwrap(), slots.insert('c').unwrap());
        assert_eq!((slots.get(second), slots.get(third)), (Some(&'b'), Some(&'c')));
        assert_eq!(slots.len(), 2);
    }

    #[test]
    fn a_full_table_hands_the_object_back() {
        let mut slots = Slots::<u32, u8, 2, 30>::default();
        let all: Vec<_> = (0..4).map(|n| slots.insert(n).unwrap()).collect();
        assert_eq!(slots.insert(9), Err(9));
        slots.remove(all[1]);
        assert!(slots.insert(9).is_ok());
    }
}
