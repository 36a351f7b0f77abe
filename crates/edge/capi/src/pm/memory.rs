//! Remote memory: locked regions and transfers between them.

use super::held::{LockedRegion, PendingTransfer, TransferKind};
use super::state::{Context, call};
use super::{Fault, NODE_ANY, PmContext, PmResult};
use crate::caller_memory::CallerMemory;
use crate::text;
use gigae::{Endpoint, Memory, Peer, RegionKey, Rights, Started};
use rustix::io::Errno;
use std::ffi::{c_char, c_int};

/// `pmAddrHandle`: the region's key, then an offset that the program may add to.
fn split(handle: u128) -> (u64, u64) {
    ((handle >> 64) as u64, handle as u64)
}

/// The handles of a transfer's regions.
#[derive(Clone, Copy)]
struct TransferHandles {
    remote: u128,
    local: u128,
}

impl Context {
    /// Checks a node that a region may be for.
    fn owner(&self, node: c_int) -> PmResult<()> {
        if node == NODE_ANY { Ok(()) } else { self.peer(node).map(|_| ()) }
    }

    /// `len` bytes of a region that is locked here, and its key.
    fn local(&self, handle: u128, len: usize) -> PmResult<(Memory, u64)> {
        let (key, offset) = split(handle);
        let region = self.locked.iter().find(|locked| locked.key == key).ok_or_else(|| {
            Fault::invalid(
                "the local handle does not name a region that is locked here; use pmMLock",
            )
        })?;
        let at = usize::try_from(offset).ok();
        let part = at.filter(|_| len > 0).and_then(|at| region.memory.part(at, len));
        let part = part.ok_or_else(|| {
            Fault::invalid("there are no bytes, or they are not all within the local region")
        })?;
        Ok((Memory::Other(Box::new(part)), key))
    }

    fn transfer(
        &mut self,
        kind: TransferKind,
        node: c_int,
        handles: TransferHandles,
        len: usize,
        start: impl FnOnce(&Endpoint, Peer, RegionKey, u64, Memory) -> Started,
    ) -> PmResult<()> {
        let peer = self.peer(node)?;
        let (memory, own) = self.local(handles.local, len)?;
        // Takes ended transfers first, so no number of an operation is inserted twice.
        self.reap()?;
        let (key, offset) = split(handles.remote);
        let endpoint = self.state.endpoint();
        let started = start(endpoint, peer, RegionKey(key), offset, memory);
        let id = started.map_err(|_| Fault::from(Errno::NOBUFS))?;
        self.transfers.insert(id, PendingTransfer { kind, own, peer });
        // The transfer was started. The next call reports an error of the doorbell.
        let _ = endpoint.flush();
        Ok(())
    }

    fn is_done(&mut self, kind: TransferKind) -> PmResult<()> {
        self.progress()?;
        self.reap()?;
        if let Some(fault) = self.refused[kind as usize].take() {
            return Err(fault);
        }
        let going = self.transfers.values().any(|transfer| transfer.kind == kind);
        if going { Err(Errno::BUSY.into()) } else { Ok(()) }
    }
}

/// Locks a region. See the header, as for all that follow.
///
/// # Safety
/// Pointers are NULL or as the header says. The library also uses the region until it is unlocked
/// or the context closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmMLock(
    pmc: *mut PmContext,
    rmt_node: c_int,
    addr: *mut c_char,
    len: usize,
    hndlp: *mut u128,
) -> c_int {
    call(pmc, |context| {
        context.owner(rmt_node)?;
        if len == 0 || hndlp.is_null() {
            return Err(Fault::invalid(
                "the region is empty, or the pointer for its handle is NULL",
            ));
        }
        // SAFETY: the caller's promise.
        let memory = unsafe { CallerMemory::new(addr.cast(), len)? };
        let shared = Memory::Other(Box::new(memory.clone()));
        let registered =
            context.state.endpoint().register(shared, Rights::READ.with(Rights::WRITE));
        let RegionKey(key) = registered.map_err(|_| Fault::from(Errno::NOSPC))?;
        context.locked.push(LockedRegion { key, node: rmt_node, memory });
        // SAFETY: the caller's promise.
        unsafe { text::put(hndlp, u128::from(key) << 64, "where to put the handle")? };
        Ok(())
    })
}

/// Unlocks a region.
///
/// # Safety
/// `addr` is only compared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmMUnlock(
    pmc: *mut PmContext,
    rmt_node: c_int,
    addr: *mut c_char,
    len: usize,
) -> c_int {
    call(pmc, |context| {
        context.owner(rmt_node)?;
        context.reap()?;
        let wanted = (addr.cast_const().cast(), len);
        let is =
            |locked: &LockedRegion| locked.node == rmt_node && locked.memory.extent() == wanted;
        let at = context.locked.iter().position(is).ok_or(Errno::NOENT)?;
        let key = context.locked[at].key;
        if context.transfers.values().any(|transfer| transfer.own == key) {
            return Err(Errno::BUSY.into());
        }
        context.state.endpoint().deregister(RegionKey(key));
        context.locked.remove(at);
        Ok(())
    })
}

/// Starts copying to a remote region.
#[unsafe(no_mangle)]
pub extern "C" fn pmWrite(
    pmc: *mut PmContext,
    rmt_node: c_int,
    rmt_hndl: u128,
    local_hndl: u128,
    len: usize,
) -> c_int {
    let handles = TransferHandles { remote: rmt_hndl, local: local_hndl };
    call(pmc, |context| {
        context.transfer(
            TransferKind::Write,
            rmt_node,
            handles,
            len,
            |endpoint, to, key, at, memory| endpoint.start_write(to, key, at, memory, None),
        )
    })
}

/// Starts copying from a remote region.
#[unsafe(no_mangle)]
pub extern "C" fn pmRead(
    pmc: *mut PmContext,
    rmt_node: c_int,
    rmt_hndl: u128,
    local_hndl: u128,
    len: usize,
) -> c_int {
    let handles = TransferHandles { remote: rmt_hndl, local: local_hndl };
    call(pmc, |context| {
        context.transfer(
            TransferKind::Read,
            rmt_node,
            handles,
            len,
            |endpoint, from, key, at, memory| endpoint.start_read(from, key, at, memory),
        )
    })
}

/// Whether all writes have ended.
#[unsafe(no_mangle)]
pub extern "C" fn pmIsWriteDone(pmc: *mut PmContext) -> c_int {
    call(pmc, |context| context.is_done(TransferKind::Write))
}

/// Whether all reads have ended.
#[unsafe(no_mangle)]
pub extern "C" fn pmIsReadDone(pmc: *mut PmContext) -> c_int {
    call(pmc, |context| context.is_done(TransferKind::Read))
}
