//! What the program is told when an operation has ended.

use crate::address::NOT_AVAILABLE;
use crate::cq::Entry;
use crate::error::Code;
use crate::request::{Kind, Request};
use crate::state::{INJECT_SIZE, State};
use crate::sys;
use gigae::{Bytes, Completion, OpError, OpId};
use std::ffi::c_void;

/// A message that was claimed, by the context that it was claimed for.
pub(crate) enum Claimed {
    Arriving,
    Arrived(Box<Request>, Ended),
    Wanted(Box<Request>),
}

/// What of a receive its completions bear.
#[derive(Clone, Copy)]
pub(crate) struct Receiver {
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) reported: bool,
    /// Where its memory begins.
    pub(crate) base: *mut c_void,
}

// SAFETY: the pointers are only handed back.
unsafe impl Send for Receiver {}

/// The end of a receive, or of one message of several.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    source: u64,
    tag: u64,
    data: Option<u64>,
    /// Where in the memory it begins.
    at: usize,
    len: usize,
    total: usize,
    result: Result<(), OpError>,
}

impl State {
    pub(crate) fn finish(&mut self, mut completion: Completion) {
        if completion.id == OpId::INJECTED {
            return self.lose_injected(&completion);
        }
        let request = match completion.memory.take() {
            // SAFETY: all memory that operations of this endpoint were given is a request's.
            Some(memory) => unsafe { Request::from_memory(memory) },
            None => return self.finish_several(&completion, None),
        };
        let Some(request) = request else { return };
        self.live[request.slot as usize] = None;
        self.free.push(request.slot);
        match request.kind {
            Kind::Send | Kind::Write | Kind::Read | Kind::Atomic => {
                self.finish_outgoing(request, &completion);
            }
            Kind::Several => self.finish_several(&completion, Some(request)),
            Kind::Claim => {
                let ended = self.ended(&completion);
                self.finish_claim(request, ended);
            }
            Kind::Receive => {
                let ended = self.ended(&completion);
                self.report(request.receiver(), &ended);
                self.spare.push(request);
            }
        }
    }

    fn ended(&mut self, completion: &Completion) -> Ended {
        let &Completion { tag, data, at, len, total, result, .. } = completion;
        // What is shorter was complete for its sender when it was copied.
        self.awaited |= total > INJECT_SIZE;
        let source = completion.peer.map_or(NOT_AVAILABLE, |peer| self.number(peer));
        Ended { source, tag, data, at, len, total, result }
    }

    /// A message whose caller was told that it had ended has not arrived.
    fn lose_injected(&mut self, completion: &Completion) {
        self.count(sys::FI_SEND, false);
        if let (Some(queue), Err(error)) = (&self.binding.tx, &completion.result) {
            let (code, number) = Code::of_operation(error);
            let error = Some((code, number, 0));
            queue.push(Entry { flags: sys::FI_SEND, error, ..Entry::NONE });
        }
    }

    fn finish_outgoing(&mut self, mut request: Box<Request>, completion: &Completion) {
        self.sends -= 1;
        let Completion { len, result, .. } = completion;
        if (request.kind, result) == (Kind::Atomic, &Ok(())) {
            request.fetched();
        }
        let Request { context, flags, reported, .. } = *request;
        let which = flags & (sys::FI_SEND | sys::FI_READ | sys::FI_WRITE);
        self.count(which, result.is_ok());
        if let Some(queue) = &self.binding.tx {
            match result {
                Ok(()) if reported => {
                    queue.push(Entry { context, flags, len: *len, ..Entry::NONE });
                }
                Ok(()) => {}
                Err(error) => {
                    let (code, number) = Code::of_operation(error);
                    let error = Some((code, number, 0));
                    queue.push(Entry { context, flags, error, ..Entry::NONE });
                }
            }
        }
        self.spare.push(request);
    }

    pub(crate) fn count(&self, what: u64, well: bool) {
        for (counted, counter) in &self.binding.counters {
            if counted & what != 0 {
                counter.count(1, well);
            }
        }
    }

    /// Tells the end of a receive.
    fn report(&mut self, receiver: Receiver, ended: &Ended) {
        let Receiver { context, flags, reported, base } = receiver;
        self.count(sys::FI_RECV, ended.result.is_ok());
        if let Some(queue) = &self.binding.rx
            && (reported || ended.result.is_err())
        {
            let flags = flags | ended.data.map_or(0, |_| sys::FI_REMOTE_CQ_DATA);
            let error = ended.result.as_ref().err().map(|error| {
                let (code, number) = Code::of_operation(error);
                (code, number, ended.total.saturating_sub(ended.len))
            });
            queue.push(Entry {
                context,
                flags,
                len: ended.len,
                buf: base.wrapping_byte_add(ended.at),
                data: ended.data.unwrap_or_default(),
                tag: ended.tag,
                source: ended.source,
                error,
            });
        }
    }

    /// A message came into a memory for several. With the last one the program has its memory back.
    fn finish_several(&mut self, completion: &Completion, request: Option<Box<Request>>) {
        let Some(&receiver) = self.several.get(&completion.id) else { return };
        let last = if request.is_some() { sys::FI_MULTI_RECV } else { 0 };
        let ended = self.ended(completion);
        self.report(Receiver { flags: receiver.flags | last, ..receiver }, &ended);
        if let Some(request) = request {
            self.several.remove(&completion.id);
            self.spare.push(request);
        }
    }

    fn finish_claim(&mut self, request: Box<Request>, ended: Ended) {
        let key = request.context.addr();
        match self.claims.remove(&key) {
            Some(Claimed::Wanted(wanted)) => self.deliver(wanted, &request, ended),
            Some(_) => {
                self.claims.insert(key, Claimed::Arrived(request, ended));
                return;
            }
            // It was discarded.
            None => {}
        }
        self.spare.push(request);
    }

    /// Copies a claimed message to where it is wanted.
    pub(crate) fn deliver(&mut self, mut wanted: Box<Request>, claimed: &Request, ended: Ended) {
        let len = ended.len.min(wanted.len());
        let result = match ended.result {
            // The message of an operation that was cancelled is nowhere.
            Err(OpError::Cancelled) => ended.result,
            result => {
                wanted.write(0, &claimed.own()[..len]);
                if result.is_ok() && len < ended.total { Err(OpError::Truncated) } else { result }
            }
        };
        self.report(wanted.receiver(), &Ended { len, result, ..ended });
        self.spare.push(wanted);
    }
}
