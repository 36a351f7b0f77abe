//! Turns the library's completions into completions for the program.

use crate::address::NOT_AVAILABLE;
use crate::completions::ReadArray;
use crate::provider::COPIED_SIZE;
use crate::request::{ReceiveContext, Request, RequestKind};
use crate::state::EndpointState;
use crate::state::receives::Claimed;
use crate::state::reports::ReceiveEnd;
use crate::sys;
use gigae::{Bytes, Completion, OpError, OpId};

impl EndpointState {
    /// Handles the end of an operation of the library.
    pub(super) fn finish(&mut self, mut completion: Completion, array: &mut ReadArray<'_>) {
        if completion.id == OpId::INJECTED {
            return self.reports.lose_injected(&completion, array);
        }
        let request = match completion.memory.take() {
            // SAFETY: all memory that operations of this endpoint were given is a request's.
            Some(memory) => unsafe { Request::from_memory(memory) },
            None => return self.finish_several(&completion, None, array),
        };
        let Some(mut request) = request else { return };
        self.operations.leave(request.slot);
        match request.kind {
            RequestKind::Send | RequestKind::Write | RequestKind::Read | RequestKind::Atomic => {
                self.operations.outgoing -= 1;
                self.reports.sent(&mut request, &completion, array);
                self.operations.put_back(request);
            }
            RequestKind::MultiReceive => {
                self.finish_several(&completion, Some(request), array);
            }
            RequestKind::Claim => {
                let ended = self.ended(&completion);
                self.finish_claim(request, ended, array);
            }
            RequestKind::Receive => {
                let ended = self.ended(&completion);
                self.reports.received(request.receiver(), &ended, array);
                self.operations.put_back(request);
            }
        }
    }

    fn ended(&mut self, completion: &Completion) -> ReceiveEnd {
        let &Completion { tag, data, at, len, total, result, .. } = completion;
        // A shorter message was mostly complete for its sender when it was copied. A frame for each
        // would cost more than the others gain.
        self.receives.awaited |= total > COPIED_SIZE;
        let source = completion.peer.map_or(NOT_AVAILABLE, |peer| self.number(peer));
        ReceiveEnd { source, tag, data, at, len, total, result }
    }

    /// A receive of several messages was started.
    pub(super) fn enter_several(&mut self, op: OpId, receiver: ReceiveContext) {
        // A number comes again after 4,094 uses, also if completions of the earlier receive still
        // wait in the library. Those of the new one come behind them.
        while self.receives.several.contains_key(&op)
            && let Some(completion) = self.endpoint.take_completion()
        {
            self.finish(completion, &mut ReadArray::none());
            self.hold_back();
        }
        self.receives.several.insert(op, receiver);
    }

    /// A message came into a memory for several. With the last one the program gets its memory
    /// back.
    fn finish_several(
        &mut self,
        completion: &Completion,
        request: Option<Box<Request>>,
        array: &mut ReadArray<'_>,
    ) {
        let Some(&receiver) = self.receives.several.get(&completion.id) else { return };
        let last = if request.is_some() { sys::FI_MULTI_RECV } else { 0 };
        let ended = self.ended(completion);
        let receiver = ReceiveContext { flags: receiver.flags | last, ..receiver };
        self.reports.received(receiver, &ended, array);
        if let Some(request) = request {
            self.receives.several.remove(&completion.id);
            self.operations.put_back(request);
        }
    }

    fn finish_claim(
        &mut self,
        request: Box<Request>,
        ended: ReceiveEnd,
        array: &mut ReadArray<'_>,
    ) {
        let (key, claims) = (request.context.addr(), &mut self.receives.claims);
        // The slot of one that has arrived may be that of another operation now.
        let is_awaited = |(slot, claimed): &(u32, Claimed)| match claimed {
            Claimed::Arriving | Claimed::Wanted(_) => *slot == request.slot,
            Claimed::Arrived(..) => false,
        };
        if !claims.get(&key).is_some_and(is_awaited) {
            // It was discarded.
            return self.operations.put_back(request);
        }
        if let Some((_, Claimed::Wanted(wanted))) = claims.remove(&key) {
            self.deliver(wanted, &request, ended, array);
            self.operations.put_back(request);
        } else {
            claims.insert(key, (request.slot, Claimed::Arrived(request, ended)));
        }
    }

    /// Copies a claimed message to the memory of its receive.
    pub(crate) fn deliver(
        &mut self,
        mut wanted: Box<Request>,
        claimed: &Request,
        ended: ReceiveEnd,
        array: &mut ReadArray<'_>,
    ) {
        let len = ended.len.min(wanted.len());
        let result = match ended.result {
            // The message of a cancelled operation is lost.
            Err(OpError::Cancelled) => ended.result,
            result => {
                wanted.write(0, &claimed.own()[..len]);
                if result.is_ok() && len < ended.total { Err(OpError::Truncated) } else { result }
            }
        };
        self.reports.received(wanted.receiver(), &ReceiveEnd { len, result, ..ended }, array);
        self.operations.put_back(wanted);
    }
}
