//! Tickets, by which C code holds objects, and the operations of an endpoint by ticket.
//!
//! C code names an operation by a ticket, which also leads to its context. The library underneath
//! has its own number for it, so a table leads from those numbers to tickets.

use crate::error::{Code, EntryResult};
use crate::numbers::NumberHasher;
use gigae::{Endpoint, OpId};
use gigae_slots::Slots;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::hash::BuildHasherDefault;

/// Objects that C code holds by ticket. No ticket is zero, so a zeroed one names nothing.
pub(crate) type Tickets<T> = Slots<u64, T, 32, 32>;

/// What C code knows of an operation that was started.
struct StartedOperation {
    op: OpId,
    context: *mut c_void,
}

/// The operations of one endpoint whose completions C code has not taken yet.
pub(crate) struct OperationTickets {
    started: Tickets<StartedOperation>,
    tickets: HashMap<OpId, u64, BuildHasherDefault<NumberHasher>>,
    /// Completions taken from the library underneath and not yet by C code, with their tickets.
    ended: VecDeque<(u64, gigae::Completion)>,
}

impl OperationTickets {
    pub(crate) fn new() -> Self {
        Self { started: Tickets::default(), tickets: HashMap::default(), ended: VecDeque::new() }
    }

    /// Inserts an operation that was just started. Returns its ticket.
    pub(crate) fn insert(
        &mut self,
        endpoint: &Endpoint,
        op: OpId,
        context: *mut c_void,
    ) -> EntryResult<u64> {
        // A number repeats after 4,094 uses. An operation whose completion is still waiting then
        // makes room for the next. The completion waits, so taking it cannot fail.
        while self.tickets.contains_key(&op)
            && let Ok(Some(ended)) = endpoint.try_completion()
        {
            self.keep(ended);
        }
        let ticket =
            self.started.insert(StartedOperation { op, context }).map_err(|_| Code::TooMany)?;
        self.tickets.insert(op, ticket);
        Ok(ticket)
    }

    pub(crate) fn keep(&mut self, ended: gigae::Completion) {
        let ticket = self.tickets.remove(&ended.id).unwrap_or_default();
        self.ended.push_back((ticket, ended));
    }

    /// The operation with this ticket, if it is still in progress.
    pub(crate) fn going(&mut self, ticket: u64) -> EntryResult<Option<OpId>> {
        let op = self.started.get(ticket).ok_or(Code::BadHandle)?.op;
        // A number without this ticket belongs to a later operation.
        Ok((self.tickets.get(&op) == Some(&ticket)).then_some(op))
    }

    /// Completions to take without asking the library underneath.
    pub(crate) fn ended(&self) -> usize {
        self.ended.len()
    }

    /// Whether there is nothing to take without asking the library underneath.
    pub(crate) fn is_empty(&self) -> bool {
        self.ended.is_empty()
    }

    /// The next operation that has ended: its ticket, its context and its completion.
    pub(crate) fn take(&mut self) -> EntryResult<(u64, *mut c_void, gigae::Completion)> {
        let (ticket, ended) = self.ended.pop_front().ok_or(Code::Again)?;
        let started = self.started.remove(ticket).ok_or(Code::BadHandle)?;
        Ok((ticket, started.context, ended))
    }
}
