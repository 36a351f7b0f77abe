//! Objects that C code names by ticket.
//!
//! A ticket is a slot and the number of uses of that slot. So a returned ticket, or a copy of one,
//! finds nothing. Taking and returning are a few loads and stores. Memory is allocated only when
//! more objects are in use at once than ever before.

/// Holds objects by ticket.
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// Slots without an object. The last used is on top, since it is still in the cache.
    free: Vec<u32>,
}

struct Slot<T> {
    /// Uses so far. Starts at 1, so a zeroed ticket names nothing.
    uses: u32,
    /// Also `None` while the object is [lifted](Slab::lift).
    object: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Objects in use, lifted ones included.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Keeps an object. `None` if there are as many as tickets can name.
    #[inline]
    pub(crate) fn insert(&mut self, object: T) -> Option<u64> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => self.grow()?,
        };
        let slot = &mut self.slots[at as usize];
        slot.object = Some(object);
        Some(u64::from(slot.uses) << 32 | u64::from(at))
    }

    #[cold]
    fn grow(&mut self) -> Option<u32> {
        let at = u32::try_from(self.slots.len()).ok()?;
        self.slots.push(Slot { uses: 1, object: None });
        // So returning never allocates.
        self.free.reserve(self.slots.len());
        Some(at)
    }

    /// The object of a valid ticket.
    #[inline]
    pub(crate) fn find(&mut self, ticket: u64) -> Option<&mut T> {
        self.slot(ticket)?.object.as_mut()
    }

    /// Takes the object out and keeps the ticket valid, for [`put`](Self::put) or
    /// [`free`](Self::free).
    #[inline]
    pub(crate) fn lift(&mut self, ticket: u64) -> Option<T> {
        self.slot(ticket)?.object.take()
    }

    /// Puts a lifted object back.
    pub(crate) fn put(&mut self, ticket: u64, object: T) {
        if let Some(slot) = self.slot(ticket) {
            slot.object = Some(object);
        }
    }

    /// Ends a ticket whose object was lifted.
    #[inline]
    pub(crate) fn free(&mut self, ticket: u64) {
        if let Some(slot) = self.slot(ticket) {
            slot.uses = slot.uses.wrapping_add(1).max(1);
            self.free.push(ticket as u32);
        }
    }

    /// Drops all objects and ends all tickets.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
    }

    #[inline]
    fn slot(&mut self, ticket: u64) -> Option<&mut Slot<T>> {
        // The low half is the slot, the high half the number of its uses.
        let slot = self.slots.get_mut(ticket as u32 as usize)?;
        (slot.uses == (ticket >> 32) as u32).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_until_it_is_freed_and_a_copy_of_it_finds_nothing_afterwards() {
        let mut slab = Slab::new();
        let first = slab.insert("first").unwrap();
        let second = slab.insert("second").unwrap();
        assert_eq!((slab.lift(first), slab.len()), (Some("first"), 2));
        slab.free(first);
        assert_eq!((slab.lift(first), slab.len()), (None, 1));
        assert_eq!(slab.find(first), None);
        let third = slab.insert("third").unwrap();
        assert_eq!(third as u32, first as u32, "the slot is used again");
        assert_eq!(slab.find(first), None);
        assert_eq!(slab.find(third), Some(&mut "third"));
        slab.free(first);
        assert_eq!(slab.find(second), Some(&mut "second"));
        assert_eq!(slab.len(), 2, "freeing twice frees once");
    }

    #[test]
    fn what_is_lifted_can_be_put_back() {
        let mut slab = Slab::new();
        let ticket = slab.insert(7).unwrap();
        assert_eq!((slab.lift(ticket), slab.lift(ticket)), (Some(7), None));
        slab.put(ticket, 8);
        assert_eq!(slab.find(ticket), Some(&mut 8));
    }

    #[test]
    fn a_zeroed_or_made_up_ticket_names_nothing() {
        let mut slab = Slab::new();
        slab.insert(()).unwrap();
        for ticket in [0, 1, 1 << 32 | 1, 2 << 32, u64::MAX] {
            assert_eq!(slab.find(ticket), None, "{ticket:x}");
        }
    }
}
