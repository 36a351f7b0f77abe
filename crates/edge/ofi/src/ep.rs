//! Endpoints: entries for binding, options and cancelling. Opening sets the tables of operations;
//! each table has its own file.

use crate::address;
use crate::atomic::ATOMIC_OPS;
use crate::av::Vector;
use crate::cm::CM_OPS;
use crate::counter::Counter;
use crate::cq::Queue;
use crate::domain::Domain;
use crate::endpoint::Ep;
use crate::error::{Code, Stub, guard, status};
use crate::msg::MSG_OPS;
use crate::object::{self, descriptor, inner, table};
use crate::provider::MOST_SENDS;
use crate::rma::RMA_OPS;
use crate::state::EndpointState;
use crate::sys::{
    self, fi_info, fi_ops, fi_ops_ep, fid, fid_av, fid_cntr, fid_cq, fid_domain, fid_ep,
};
use crate::tagged::TAGGED_OPS;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close),
    bind: Some(bind),
    control: Some(control),
    ops_open: Stub::NONE,
    tostr: Stub::NONE,
    ops_set: Stub::NONE,
};

static EP_OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel: Some(cancel),
    getopt: Some(getopt),
    setopt: Some(setopt),
    tx_ctx: Stub::NONE,
    rx_ctx: Stub::NONE,
    rx_size_left: Some(size_left),
    tx_size_left: Some(size_left),
};

/// Opens an endpoint with its own address.
///
/// # Safety
/// Pointers are NULL or to what their types say, as for all entries that follow.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { open2(domain, info, ep, 0, context) }
}

pub(crate) unsafe extern "C" fn open2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let domain = inner::<_, Domain>(domain)?;
        let info = info.as_ref().ok_or(Code::INVALID)?;
        if flags != 0 || ep.is_null() {
            return Err(Code::INVALID);
        }
        if info
            .ep_attr
            .as_ref()
            .is_some_and(|attr| attr.type_ != sys::FI_EP_RDM && attr.type_ != sys::FI_EP_UNSPEC)
        {
            return Err(Code::NO_SYS);
        }
        let core = domain.take()?;
        {
            let mut state = core.lock();
            state.choice.tx_flags = info.tx_attr.as_ref().map_or(0, |attr| attr.op_flags);
            state.choice.rx_flags = info.rx_attr.as_ref().map_or(0, |attr| attr.op_flags);
            let caps = info.caps | info.rx_attr.as_ref().map_or(0, |attr| attr.caps);
            state.choice.directed = caps & sys::FI_DIRECTED_RECV != 0;
        }
        // From here on, dropping this closes it.
        let inner = Ep::new(core, Arc::clone(domain));
        let descriptor = fid_ep {
            fid: descriptor(sys::FI_CLASS_EP, context, &OPS),
            ops: table(&EP_OPS),
            cm: table(&CM_OPS),
            msg: table(&MSG_OPS),
            rma: table(&RMA_OPS),
            tagged: table(&TAGGED_OPS),
            atomic: table(&ATOMIC_OPS),
            collective: std::ptr::null_mut(),
        };
        object::open(descriptor, Arc::new(inner), ep)
    })
}

/// First cancels everything that was posted, so nothing is written to the program's memory from
/// then on. Then waits for everything that was sent, within the library's linger of a second.
unsafe extern "C" fn close(ep: *mut fid) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { object::close::<fid_ep, Ep>(ep, Ep::leave) })
}

unsafe extern "C" fn bind(ep: *mut fid, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let ep = object::of_class::<fid_ep, Ep>(ep, sys::FI_CLASS_EP)?;
        match other.as_ref().ok_or(Code::INVALID)?.fclass as u32 {
            sys::FI_CLASS_AV => {
                ep.bind_vector(inner::<_, Vector>(other.cast::<fid_av>())?);
                Ok(())
            }
            sys::FI_CLASS_CQ => ep.bind_queue(inner::<_, Queue>(other.cast::<fid_cq>())?, flags),
            sys::FI_CLASS_CNTR => {
                ep.bind_counter(inner::<_, Counter>(other.cast::<fid_cntr>())?, flags)
            }
            // Nothing is ever reported there.
            sys::FI_CLASS_EQ => Ok(()),
            _ => Err(Code::INVALID),
        }
    })
}

unsafe extern "C" fn control(ep: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let ep = object::of_class::<fid_ep, Ep>(ep, sys::FI_CLASS_EP)?;
        let mut state = ep.core.lock();
        let EndpointState { choice, reports, peers, .. } = &mut *state;
        match u32::try_from(command).map_err(|_| Code::INVALID)? {
            sys::FI_ENABLE => {
                if peers.vector.is_none() {
                    return Err(Code::NO_AV);
                }
                let reported = reports.tx.is_some()
                    || reports.counts(sys::FI_SEND | sys::FI_READ | sys::FI_WRITE);
                if !reported && reports.rx.is_none() && !reports.counts(sys::FI_RECV) {
                    return Err(Code::NO_CQ);
                }
                choice.enabled = true;
                Ok(())
            }
            command @ (sys::FI_GETOPSFLAG | sys::FI_SETOPSFLAG) => {
                let flags = arg.cast::<u64>().as_mut().ok_or(Code::INVALID)?;
                let own = match *flags & (sys::FI_TRANSMIT | sys::FI_RECV) {
                    sys::FI_TRANSMIT => &mut choice.tx_flags,
                    sys::FI_RECV => &mut choice.rx_flags,
                    _ => return Err(Code::INVALID),
                };
                if command == sys::FI_GETOPSFLAG {
                    *flags = *own;
                } else {
                    *own = *flags & !(sys::FI_TRANSMIT | sys::FI_RECV);
                }
                Ok(())
            }
            _ => Err(Code::NO_SYS),
        }
    })
}

unsafe extern "C" fn cancel(ep: *mut fid, context: *mut c_void) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let ep = object::of_class::<fid_ep, Ep>(ep, sys::FI_CLASS_EP)?;
        ep.core.lock().cancel(context).map(|()| 0)
    })
}

unsafe extern "C" fn getopt(
    ep: *mut fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let ep = object::of_class::<fid_ep, Ep>(ep, sys::FI_CLASS_EP)?;
        if level != sys::FI_OPT_ENDPOINT as c_int || name != sys::FI_OPT_MIN_MULTI_RECV as c_int {
            return Err(Code::NO_OPTION);
        }
        let least = ep.core.lock().receives.least_left;
        address::put(&least.to_ne_bytes(), value, len)
    })
}

unsafe extern "C" fn setopt(
    ep: *mut fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let ep = object::of_class::<fid_ep, Ep>(ep, sys::FI_CLASS_EP)?;
        if level != sys::FI_OPT_ENDPOINT as c_int || name != sys::FI_OPT_MIN_MULTI_RECV as c_int {
            return Err(Code::NO_OPTION);
        }
        if value.is_null() || len != size_of::<usize>() {
            return Err(Code::INVALID);
        }
        ep.core.lock().receives.least_left = value.cast::<usize>().read_unaligned();
        Ok(())
    })
}

/// As many as may be in progress. Only the library knows how many are.
unsafe extern "C" fn size_left(ep: *mut fid_ep) -> isize {
    // SAFETY: the caller's promise.
    guard(|| unsafe { inner::<_, Ep>(ep).map(|_| MOST_SENDS) })
}
