//! Handles: numbers that C code holds as pointers, and the guard of every entry.
//!
//! A handle names a slot in a table and the number of uses of that slot. So a closed handle stays
//! invalid, also when its slot is used again. Each slot has one word of state. A call swaps it from
//! idle to busy and back. That is the only atomic operation of a call, and it refuses a second
//! thread (and a signal handler during a call). A panic marks the slot as broken: it can only be
//! closed then.

mod word;

use crate::error::{Code, EntryResult, Error};
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use word::{Phase, Word};

/// Objects of one kind that may be open at once in a process. An endpoint locks megabytes of memory
/// and occupies a queue of a NIC, so there can never be that many.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 10;

/// Bits that distinguish the kinds of handles. Never zero, so no handle is NULL.
const KIND_BITS: u32 = 3;

/// Bits for the uses of a slot, so that a handle has room for them.
const USES_MASK: usize = usize::MAX >> (SLOT_BITS + KIND_BITS);

/// All open objects of one kind.
pub(crate) struct HandleTable<T> {
    kind: usize,
    slots: [HandleSlot<T>; SLOTS],
}

struct HandleSlot<T> {
    state: Word,
    object: UnsafeCell<Option<Box<T>>>,
}

// SAFETY: an object is touched only by the thread that set its slot's state to busy, and what it
// wrote is released with the state; so it moves between threads and is never shared.
unsafe impl<T: Send> Sync for HandleTable<T> {}

impl<T> HandleTable<T> {
    /// An empty table. `kind` is from 1 to 7, different for each table.
    pub(crate) const fn new(kind: usize) -> Self {
        assert!(kind > 0 && kind >> KIND_BITS == 0);
        Self { kind, slots: [const { HandleSlot::empty() }; SLOTS] }
    }

    /// Keeps an object and gives it a handle.
    pub(crate) fn insert(&self, object: Box<T>) -> Result<usize, Error> {
        for (at, slot) in self.slots.iter().enumerate() {
            if let Some(uses) = slot.state.occupy(USES_MASK) {
                // SAFETY: this thread has just set the slot from free to busy.
                unsafe { *slot.object.get() = Some(object) };
                slot.state.leave(uses, Phase::Idle);
                return Ok(uses << (SLOT_BITS + KIND_BITS) | at << KIND_BITS | self.kind);
            }
        }
        Err(Error::new(Code::TooMany, format!("{SLOTS} are open in this process; close one")))
    }

    /// Runs one call on an object. A panic in it breaks the handle.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        handle: usize,
        call: impl FnOnce(&mut T) -> EntryResult<R>,
    ) -> EntryResult<R> {
        let (slot, uses) = self.find(handle)?;
        slot.enter(uses, Phase::Idle)?;
        // SAFETY: this thread has just set the slot from idle to busy.
        let object = unsafe { (*slot.object.get()).as_deref_mut() };
        let result = contain(|| object.map_or(Err(Code::BadHandle.into()), call));
        let broken = matches!(&result, Err(e) if e.code == Code::Panicked);
        slot.state.leave(uses, if broken { Phase::Broken } else { Phase::Idle });
        result
    }

    /// Takes an object out and ends its handle, if `may` agrees. Does not ask for a broken one.
    pub(crate) fn remove(
        &self,
        handle: usize,
        may: impl FnOnce(&mut T) -> EntryResult<()>,
    ) -> EntryResult<Box<T>> {
        let (slot, uses) = self.find(handle)?;
        let broken = match slot.enter(uses, Phase::Idle) {
            Err(e) if e.code == Code::Panicked => slot.enter(uses, Phase::Broken).map(|()| true)?,
            entered => entered.map(|()| false)?,
        };
        // SAFETY: this thread has just set the slot from idle or broken to busy.
        let object = unsafe { &mut *slot.object.get() };
        if let (false, Some(object)) = (broken, object.as_deref_mut())
            && let Err(refused) = contain(|| may(object))
        {
            let panicked = refused.code == Code::Panicked;
            slot.state.leave(uses, if panicked { Phase::Broken } else { Phase::Idle });
            return Err(refused);
        }
        let object = object.take().ok_or(Code::BadHandle);
        slot.state.leave(uses, Phase::Free);
        Ok(object?)
    }

    #[inline]
    fn find(&self, handle: usize) -> Result<(&HandleSlot<T>, usize), Error> {
        if handle == 0 {
            return Err(Error::null("the handle"));
        }
        if handle & ((1 << KIND_BITS) - 1) != self.kind {
            return Err(Code::BadHandle.into());
        }
        let slot = &self.slots[handle >> KIND_BITS & (SLOTS - 1)];
        Ok((slot, handle >> (SLOT_BITS + KIND_BITS)))
    }
}

impl<T> HandleSlot<T> {
    const fn empty() -> Self {
        Self { state: Word::new(), object: UnsafeCell::new(None) }
    }

    /// From `phase` to busy.
    #[inline]
    fn enter(&self, uses: usize, phase: Phase) -> Result<(), Error> {
        self.state.enter(uses, phase).map_err(|seen| refusal(seen).into())
    }
}

/// Why a slot in this phase cannot be entered. `None`: the handle is from another use of the slot.
#[cold]
fn refusal(seen: Option<Phase>) -> Code {
    match seen {
        Some(Phase::Busy) => Code::InCall,
        Some(Phase::Broken) => Code::Panicked,
        _ => Code::BadHandle,
    }
}

/// Runs `call` and turns a panic into an error: nothing unwinds into C.
#[inline]
pub(crate) fn contain<R>(call: impl FnOnce() -> EntryResult<R>) -> EntryResult<R> {
    // A panic may have left something half done. Nothing looks at it again: the handle is broken.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(panic)))
}

#[cold]
fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let said = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "it said nothing".to_owned(),
    };
    // Dropping a payload of unknown kind could panic in turn; this leaks a few bytes once.
    std::mem::forget(panic);
    Error::new(Code::Panicked, format!("{} ({said})", Code::Panicked.text()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn code<R>(outcome: EntryResult<R>) -> Code {
        outcome.err().expect("it is refused").code
    }

    fn count(table: &HandleTable<u32>, handle: usize) -> EntryResult<u32> {
        table.with(handle, |n| {
            *n += 1;
            Ok(*n)
        })
    }

    #[test]
    fn a_closed_handle_is_refused_also_when_its_place_is_used_again() {
        static TABLE: HandleTable<u32> = HandleTable::new(1);
        let first = TABLE.insert(Box::new(0)).unwrap();
        assert_eq!(count(&TABLE, first).unwrap(), 1);
        assert_eq!(*TABLE.remove(first, |_| Ok(())).unwrap(), 1);
        let second = TABLE.insert(Box::new(10)).unwrap();
        assert_eq!(code(count(&TABLE, first)), Code::BadHandle);
        assert_eq!(code(TABLE.remove(first, |_| Ok(()))), Code::BadHandle);
        assert_eq!(count(&TABLE, second).unwrap(), 11);
    }

    #[test]
    fn what_was_never_a_handle_is_refused() {
        static TABLE: HandleTable<u32> = HandleTable::new(1);
        static OTHER: HandleTable<u32> = HandleTable::new(2);
        let other = OTHER.insert(Box::new(0)).unwrap();
        assert_eq!(code(count(&TABLE, 0)), Code::Invalid);
        for handle in [1, 2, 3, 5, 0x1001, other, usize::MAX, usize::MAX - 2] {
            assert_eq!(code(count(&TABLE, handle)), Code::BadHandle, "{handle:x}");
        }
    }

    #[test]
    fn a_panic_breaks_the_handle_and_it_can_still_be_closed() {
        static TABLE: HandleTable<u32> = HandleTable::new(1);
        let handle = TABLE.insert(Box::new(0)).unwrap();
        let error = TABLE.with::<()>(handle, |_| panic!("of {}", "a test")).unwrap_err();
        assert_eq!(error.code, Code::Panicked);
        assert!(error.to_string().contains("(of a test)"), "{error}");
        assert_eq!(code(count(&TABLE, handle)), Code::Panicked);
        assert!(TABLE.remove(handle, |_| panic!("a broken one is not asked")).is_ok());
        assert_eq!(code(count(&TABLE, handle)), Code::BadHandle);
    }

    #[test]
    fn a_second_thread_is_refused_while_a_call_goes_on() {
        static TABLE: HandleTable<u32> = HandleTable::new(1);
        let handle = TABLE.insert(Box::new(0)).unwrap();
        let (inside, is_inside) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let first = std::thread::spawn(move || {
            TABLE.with(handle, |_| {
                inside.send(()).unwrap();
                may_go_on.recv().unwrap();
                Ok(())
            })
        });
        is_inside.recv().unwrap();
        assert_eq!(code(count(&TABLE, handle)), Code::InCall);
        assert_eq!(code(TABLE.remove(handle, |_| Ok(()))), Code::InCall);
        go_on.send(()).unwrap();
        first.join().unwrap().unwrap();
        assert_eq!(count(&TABLE, handle).unwrap(), 1, "it was only refused meanwhile");
    }

    #[test]
    fn an_object_that_may_not_be_removed_stays() {
        static TABLE: HandleTable<u32> = HandleTable::new(1);
        let handle = TABLE.insert(Box::new(0)).unwrap();
        assert_eq!(code(TABLE.remove(handle, |_| Err(Code::Busy.into()))), Code::Busy);
        assert_eq!(count(&TABLE, handle).unwrap(), 1);
    }

    #[test]
    fn a_full_table_says_so_and_takes_more_when_one_is_closed() {
        static TABLE: HandleTable<u32> = HandleTable::new(1);
        let all: Vec<_> = (0..SLOTS).map(|_| TABLE.insert(Box::new(0)).unwrap()).collect();
        assert_eq!(code(TABLE.insert(Box::new(0))), Code::TooMany);
        TABLE.remove(all[500], |_| Ok(())).unwrap();
        assert!(TABLE.insert(Box::new(0)).is_ok());
    }
}
