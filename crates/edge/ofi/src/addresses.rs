//! The addresses of a vector. Endpoints look them up; `av.rs` inserts and removes.

use crate::address::NOT_AVAILABLE;
use crate::error::{Code, OfiResult};
use crate::object::lock;
use gigae::Address;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Addresses by number. The number is the index, and an index is not used again.
#[derive(Default)]
pub(crate) struct Addresses {
    entries: Mutex<AddressEntries>,
    /// Number of insertions and removals. After a change, what others keep of the vector is old.
    changes: AtomicU64,
}

/// Addresses by number, and the first number of each.
#[derive(Default)]
struct AddressEntries {
    addresses: Vec<Option<Address>>,
    numbers: HashMap<Address, u64>,
}

impl Addresses {
    pub(crate) fn address(&self, number: u64) -> Option<Address> {
        *lock(&self.entries).addresses.get(usize::try_from(number).ok()?)?
    }

    /// The first number of an address.
    pub(crate) fn number(&self, address: Address) -> Option<u64> {
        lock(&self.entries).numbers.get(&address).copied()
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub(crate) fn insert(&self, address: Option<Address>) -> u64 {
        let Some(address) = address else { return NOT_AVAILABLE };
        let mut entries = lock(&self.entries);
        let number = entries.addresses.len() as u64;
        entries.addresses.push(Some(address));
        entries.numbers.entry(address).or_insert(number);
        self.changes.fetch_add(1, Ordering::AcqRel);
        number
    }

    pub(crate) fn remove(&self, number: u64) -> OfiResult<()> {
        let mut entries = lock(&self.entries);
        let at = usize::try_from(number).map_err(|_| Code::INVALID)?;
        let entry = entries.addresses.get_mut(at).ok_or(Code::INVALID)?;
        let Some(address) = entry.take() else { return Err(Code::INVALID) };
        if entries.numbers.get(&address) == Some(&number) {
            let next = entries.addresses.iter().position(|entry| *entry == Some(address));
            match next {
                Some(next) => _ = entries.numbers.insert(address, next as u64),
                None => _ = entries.numbers.remove(&address),
            }
        }
        self.changes.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}
