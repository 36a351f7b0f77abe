//! The operations of an endpoint by ticket.
//!
//! C knows an operation by a ticket ([`slab`](crate::slab)), beside which its context lies; the library
//! underneath knows it by a number of its own, so there is a table from those to tickets.

use crate::error::{Code, Outcome};
use crate::numbers::NumberHasher;
use crate::slab::Slab;
use gigae::{Endpoint, OpId};
use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::hash::BuildHasherDefault;

/// What C code was told of an operation that was started.
struct Started {
    op: OpId,
    context: *mut c_void,
}

/// The operations of one endpoint whose completions C code has not taken.
pub(crate) struct Operations {
    started: Slab<Started>,
    tickets: HashMap<OpId, u64, BuildHasherDefault<NumberHasher>>,
    /// Taken from the library underneath and not by C code yet, with their tickets.
    ended: VecDeque<(u64, gigae::Completion)>,
}

impl Operations {
    pub(crate) fn new() -> Self {
        Self { started: Slab::new(), tickets: HashMap::default(), ended: VecDeque::new() }
    }

    /// Enters an operation that was just started; its ticket.
    pub(crate) fn insert(
        &mut self,
        endpoint: &Endpoint,
        op: OpId,
        context: *mut c_void,
    ) -> Outcome<u64> {
        // A number comes up again after 4,096 uses: an operation whose completion was not taken by
        // then makes room for the next. That completion waits, so taking it cannot fail.
        while self.tickets.contains_key(&op)
            && let Ok(Some(ended)) = endpoint.try_completion()
        {
            self.keep(ended);
        }
        let ticket = self.started.insert(Started { op, context }).ok_or(Code::TooMany)?;
        self.tickets.insert(op, ticket);
        Ok(ticket)
    }

    pub(crate) fn keep(&mut self, ended: gigae::Completion) {
        let ticket = self.tickets.remove(&ended.id).unwrap_or_default();
        self.ended.push_back((ticket, ended));
    }

    /// The operation with this ticket, if it is still going on.
    pub(crate) fn going(&mut self, ticket: u64) -> Outcome<Option<OpId>> {
        let op = self.started.find(ticket).ok_or(Code::BadHandle)?.op;
        // A number without this ticket is that of a later operation.
        Ok((self.tickets.get(&op) == Some(&ticket)).then_some(op))
    }

    /// Whether there is nothing to take without a look at the library underneath.
    pub(crate) fn is_empty(&self) -> bool {
        self.ended.is_empty()
    }

    /// The next one that has ended: its ticket and its context.
    pub(crate) fn take(&mut self) -> Outcome<(u64, *mut c_void, gigae::Completion)> {
        let (ticket, ended) = self.ended.pop_front().ok_or(Code::Again)?;
        let started = self.started.lift(ticket).ok_or(Code::BadHandle)?;
        self.started.free(ticket);
        Ok((ticket, started.context, ended))
    }
}
