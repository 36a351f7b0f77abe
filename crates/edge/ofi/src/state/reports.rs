//! Where an endpoint reports: completion queues and counters.

use crate::completions::{CompletionEntry, CompletionFailure, Completions, ReadArray};
use crate::count::Count;
use crate::error::Code;
use crate::request::{ReceiveContext, Request, RequestKind};
use crate::sys;
use gigae::{Completion, OpError};
use std::sync::Arc;

/// The queues and counters of an endpoint.
#[derive(Default)]
pub(crate) struct Reports {
    pub(crate) tx: Option<Arc<Completions>>,
    pub(crate) rx: Option<Arc<Completions>>,
    /// Only operations that ask for it are reported.
    pub(crate) tx_selective: bool,
    pub(crate) rx_selective: bool,
    /// The counters, by what they count.
    pub(crate) counters: Vec<(u64, Arc<Count>)>,
}

/// The end of a receive, or of one message of several.
#[derive(Clone, Copy)]
pub(crate) struct ReceiveEnd {
    pub(crate) source: u64,
    pub(crate) tag: u64,
    pub(crate) data: Option<u64>,
    /// Where in the memory the message begins.
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) total: usize,
    pub(crate) result: Result<(), OpError>,
}

fn failure(error: &OpError, beyond: usize) -> CompletionFailure {
    let (code, number) = Code::of_operation(error);
    CompletionFailure { code, number, beyond }
}

impl Reports {
    /// Whether a send or an access with these flags is reported if it succeeds.
    pub(crate) fn wants_tx(&self, flags: u64) -> bool {
        !self.tx_selective || flags & sys::FI_COMPLETION != 0
    }

    /// The same of a receive.
    pub(crate) fn wants_rx(&self, flags: u64) -> bool {
        !self.rx_selective || flags & sys::FI_COMPLETION != 0
    }

    /// Whether a counter counts one of these.
    pub(crate) fn counts(&self, what: u64) -> bool {
        self.counters.iter().any(|(counted, _)| counted & what != 0)
    }

    /// Counts the end of an operation.
    pub(crate) fn count(&self, what: u64, well: bool) {
        for (counted, counter) in &self.counters {
            if counted & what != 0 {
                counter.add(1, well);
            }
        }
    }

    /// A message that was already reported as complete was lost.
    pub(crate) fn lose_injected(&self, completion: &Completion, array: &mut ReadArray<'_>) {
        self.count(sys::FI_SEND, false);
        if let (Some(queue), Err(error)) = (&self.tx, &completion.result) {
            let error = Some(failure(error, 0));
            let entry = CompletionEntry { flags: sys::FI_SEND, error, ..CompletionEntry::NONE };
            array.report(queue, entry);
        }
    }

    /// A send or an access to remote memory has ended.
    pub(crate) fn sent(
        &self,
        request: &mut Request,
        completion: &Completion,
        array: &mut ReadArray<'_>,
    ) {
        let Completion { len, result, .. } = completion;
        if (request.kind, result) == (RequestKind::Atomic, &Ok(())) {
            request.fetched();
        }
        let &mut Request { context, flags, reported, .. } = request;
        let which = flags & (sys::FI_SEND | sys::FI_READ | sys::FI_WRITE);
        self.count(which, result.is_ok());
        if let Some(queue) = &self.tx {
            let entry = CompletionEntry { context, flags, ..CompletionEntry::NONE };
            match result {
                Ok(()) if reported => array.report(queue, CompletionEntry { len: *len, ..entry }),
                Ok(()) => {}
                Err(error) => {
                    let error = Some(failure(error, 0));
                    array.report(queue, CompletionEntry { error, ..entry });
                }
            }
        }
    }

    /// A receive has ended.
    pub(crate) fn received(
        &self,
        receiver: ReceiveContext,
        ended: &ReceiveEnd,
        array: &mut ReadArray<'_>,
    ) {
        let ReceiveContext { context, flags, reported, base } = receiver;
        self.count(sys::FI_RECV, ended.result.is_ok());
        if let Some(queue) = &self.rx
            && (reported || ended.result.is_err())
        {
            let flags = flags | ended.data.map_or(0, |_| sys::FI_REMOTE_CQ_DATA);
            let beyond = ended.total.saturating_sub(ended.len);
            let entry = CompletionEntry {
                context,
                flags,
                len: ended.len,
                buf: base.wrapping_byte_add(ended.at),
                data: ended.data.unwrap_or_default(),
                tag: ended.tag,
                source: ended.source,
                error: ended.result.as_ref().err().map(|error| failure(error, beyond)),
            };
            array.report(queue, entry);
        }
    }
}
