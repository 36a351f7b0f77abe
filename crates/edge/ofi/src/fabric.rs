//! The fabric and its domains: opens them, and opens other objects from them.
//!
//! Objects only know that what they were opened from stays open as long as they do. So this file
//! knows all of them, and none of them knows this file.

use crate::address;
use crate::atomic;
use crate::av;
use crate::counter::{self, Counter};
use crate::cq::{self, Queue};
use crate::domain::Domain;
use crate::ep;
use crate::eq::{self, Events};
use crate::error::{Code, OfiResult, Stub, status};
use crate::info::source_of;
use crate::lock::Threads;
use crate::mr;
use crate::object::{self, descriptor, inner, keep, table};
use crate::poll;
use crate::provider;
use crate::settings::ProviderSettings;
use crate::sys::{
    self, fi_av_attr, fi_cntr_attr, fi_cq_attr, fi_eq_attr, fi_info, fi_ops, fi_ops_domain,
    fi_ops_fabric, fi_poll_attr, fid, fid_av, fid_cntr, fid_cq, fid_domain, fid_eq, fid_fabric,
    fid_poll,
};
use gigae::OpenError;
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the descriptor leads to.
pub(crate) struct Fabric;

static OPS: fi_ops = object::only_close::<fid_fabric, Fabric>();

static FABRIC_OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: Some(open_domain),
    passive_ep: Stub::NONE,
    eq_open: Some(open_eq),
    wait_open: Stub::NONE,
    trywait: Some(trywait),
    domain2: Some(open_domain2),
};

/// Opens the fabric.
///
/// # Safety
/// Pointers are NULL or to what their types say, as for all entries that follow.
pub(crate) unsafe extern "C" fn open(
    attr: *mut sys::fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let attr = attr.as_ref().ok_or(Code::INVALID)?;
        let name = address::text(attr.name)?;
        if name.is_some_and(|name| name != provider::NAME) {
            return Err(Code::NO_DATA);
        }
        let fid = descriptor(sys::FI_CLASS_FABRIC, context, &OPS);
        let api_version = attr.api_version;
        let descriptor = fid_fabric { fid, ops: table(&FABRIC_OPS), api_version };
        object::open(descriptor, Arc::new(Fabric), fabric)
    })
}

unsafe extern "C" fn open_eq(
    fabric: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { eq::open(keep::<_, Fabric>(fabric)?, attr, eq, context) })
}

/// Whether a program may sleep on the descriptors of these objects.
unsafe extern "C" fn trywait(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let _ = inner::<_, Fabric>(fabric)?;
        for n in 0..usize::try_from(count).map_err(|_| Code::INVALID)? {
            let fid = fids.as_ref().ok_or(Code::INVALID).map(|_| fids.add(n).read())?;
            match fid.as_ref().ok_or(Code::INVALID)?.fclass as u32 {
                sys::FI_CLASS_CQ => inner::<_, Queue>(fid.cast::<fid_cq>())?.prepare()?,
                sys::FI_CLASS_CNTR => inner::<_, Counter>(fid.cast::<fid_cntr>())?.prepare()?,
                sys::FI_CLASS_EQ => inner::<_, Events>(fid.cast::<fid_eq>())?.prepare()?,
                _ => return Err(Code::INVALID),
            }
        }
        Ok(())
    })
}

/// Opens a domain.
///
/// # Safety
/// Pointers are NULL or to what their types say, as for all entries that follow.
unsafe extern "C" fn open_domain(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { open_domain2(fabric, info, domain, 0, context) }
}

/// The same with flags. None exist.
unsafe extern "C" fn open_domain2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let fabric = inner::<_, Fabric>(fabric)?;
        let info = info.as_ref().ok_or(Code::INVALID)?;
        let attr = info.domain_attr.as_ref().ok_or(Code::INVALID)?;
        if flags != 0 {
            return Err(Code::INVALID);
        }
        let name = address::text(attr.name)?.ok_or(Code::INVALID)?.to_owned();
        let settings = ProviderSettings::read()?;
        let source = source_of(info)?;
        // A program that names the address wants the NIC itself. Further endpoints of the domain
        // have other addresses.
        let itself = AtomicBool::new(source.is_some() && !settings.is_alone());
        let opener = Box::new(move || {
            gigae::log_to_stderr();
            let options = settings.options(&name);
            let endpoint = match source {
                Some(source) => options.port(source.port_id()).open()?,
                None => options.open()?,
            };
            let asked = itself.swap(false, Ordering::Relaxed);
            let first = name.split(',').next().unwrap_or_default();
            let on_nic = first.split('/').any(|one| one == endpoint.link().interface);
            let id = endpoint.identity().address.port_id();
            if asked && !(on_nic && source.is_some_and(|source| source.port_id() == id)) {
                itself.store(true, Ordering::Relaxed);
                return Err(has_another(&name));
            }
            Ok(endpoint)
        });
        let own_keys = attr.mr_mode & sys::FI_MR_PROV_KEY as c_int == 0;
        let threads = Threads::promised(attr.threading, info.caps);
        let inner = Domain::new(opener, threads, own_keys, Some(Arc::clone(fabric) as _));
        put_domain(inner, domain, context)
    })
}

fn has_another(name: &str) -> OpenError {
    let text = format!("another endpoint has the address of '{name}'; ask for none");
    let source = io::Error::new(io::ErrorKind::AddrInUse, text);
    OpenError::Io { what: "opening an endpoint at the address that was asked for", source }
}

static DOMAIN: fi_ops = object::only_close::<fid_domain, Domain>();

static DOMAIN_OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: Some(open_av),
    cq_open: Some(open_cq),
    endpoint: Some(ep::open),
    scalable_ep: Stub::NONE,
    cntr_open: Some(open_counter),
    poll_open: Some(open_poll),
    stx_ctx: Stub::NONE,
    srx_ctx: Stub::NONE,
    query_atomic: Some(atomic::query),
    query_collective: Stub::NONE,
    endpoint2: Some(ep::open2),
};

/// Gives a domain to C.
///
/// # Safety
/// `domain` is NULL or points to a writable pointer.
pub(crate) unsafe fn put_domain(
    inner: Domain,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> OfiResult<()> {
    let fid = descriptor(sys::FI_CLASS_DOMAIN, context, &DOMAIN);
    let descriptor = fid_domain { fid, ops: table(&DOMAIN_OPS), mr: table(&mr::MR_OPS) };
    // SAFETY: the caller's promise.
    unsafe { object::open(descriptor, Arc::new(inner), domain) }
}

unsafe extern "C" fn open_av(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { av::open(keep::<_, Domain>(domain)?, attr, av, context) })
}

unsafe extern "C" fn open_cq(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let domain = inner::<_, Domain>(domain)?;
        cq::open(Arc::clone(domain) as _, domain.threads, attr, cq, context)
    })
}

unsafe extern "C" fn open_counter(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    counter: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let domain = inner::<_, Domain>(domain)?;
        counter::open(Arc::clone(domain) as _, domain.threads, attr, counter, context)
    })
}

unsafe extern "C" fn open_poll(
    domain: *mut fid_domain,
    attr: *mut fi_poll_attr,
    set: *mut *mut fid_poll,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { poll::open(Arc::clone(inner::<_, Domain>(domain)?), attr, set) })
}
