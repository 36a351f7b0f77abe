//! A domain: one NIC, or several as one, and the endpoint of the library there, which is opened when
//! it is first needed and closed with the last object that uses it.

use crate::core::Core;
use crate::error::{Code, Outcome, Stub, status};
use crate::object::{self, descriptor, inner, lock, table};
use crate::settings::Settings;
use crate::sys::{self, fi_info, fi_ops, fi_ops_domain, fid, fid_domain, fid_fabric};
use gigae::{Endpoint, OpenError};
use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};

type Opener = Box<dyn Fn() -> Result<Endpoint, OpenError> + Send + Sync>;

/// What the descriptor leads to.
pub(crate) struct Domain {
    opener: Opener,
    core: Mutex<Weak<Core>>,
    /// Progress while the program makes none, by a thread.
    pub(crate) auto: bool,
    /// It has its endpoint.
    pub(crate) taken: AtomicBool,
}

impl Domain {
    pub(crate) fn new(opener: Opener, auto: bool) -> Self {
        Self { opener, core: Mutex::new(Weak::new()), auto, taken: AtomicBool::new(false) }
    }

    /// The endpoint of the library.
    pub(crate) fn core(&self) -> Outcome<Arc<Core>> {
        let mut core = lock(&self.core);
        if let Some(core) = core.upgrade() {
            return Ok(core);
        }
        let opened = Core::new((self.opener)()?)?;
        *core = Arc::downgrade(&opened);
        Ok(opened)
    }
}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(object::close_entry::<fid_domain, Domain>),
    bind: Stub::NONE,
    control: Stub::NONE,
    ops_open: Stub::NONE,
    tostr: Stub::NONE,
    ops_set: Stub::NONE,
};

static DOMAIN_OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: Some(crate::av::open),
    cq_open: Some(crate::cq::open),
    endpoint: Some(crate::ep::open),
    scalable_ep: Stub::NONE,
    cntr_open: Some(crate::counter::open),
    poll_open: Stub::NONE,
    stx_ctx: Stub::NONE,
    srx_ctx: Stub::NONE,
    query_atomic: Some(crate::atomic::query),
    query_collective: Stub::NONE,
    endpoint2: Some(crate::ep::open2),
};

/// Opens a domain.
///
/// # Safety
/// Pointers are NULL or to what their types say, as for all entries that follow.
pub(crate) unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { open2(fabric, info, domain, 0, context) }
}

/// The same with flags, of which there are none.
pub(crate) unsafe extern "C" fn open2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let _ = inner::<_, crate::fabric::Fabric>(fabric)?;
        let attr = info.as_ref().and_then(|info| info.domain_attr.as_ref()).ok_or(Code::INVALID)?;
        if flags != 0 {
            return Err(Code::INVALID);
        }
        let name = crate::address::text(attr.name)?.ok_or(Code::INVALID)?.to_owned();
        let settings = Settings::read()?;
        let auto = attr.data_progress == sys::FI_PROGRESS_AUTO || settings.progress_thread;
        let opener = Box::new(move || settings.options(&name).open());
        put(Domain::new(opener, auto), domain, context)
    })
}

/// Puts a domain in C's hands.
///
/// # Safety
/// `domain` is NULL or points to a writable pointer.
pub(crate) unsafe fn put(
    inner: Domain,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> Outcome<()> {
    let fid: fid = descriptor(sys::FI_CLASS_DOMAIN, context, &OPS);
    let descriptor = fid_domain { fid, ops: table(&DOMAIN_OPS), mr: table(&crate::mr::MR_OPS) };
    // SAFETY: the caller's promise.
    unsafe { object::open(descriptor, Arc::new(inner), domain) }
}
