//! A domain: one NIC, or several as one, and the endpoints of the library there, one for each of the
//! program's. Each is opened when it is first needed and closed with the last object that uses it.

use crate::core::Core;
use crate::error::{Code, Outcome, Stub, status};
use crate::fabric::Fabric;
use crate::mr::Region;
use crate::object::{self, descriptor, inner, lock, table};
use crate::request::Request;
use crate::settings::Settings;
use crate::sys::{self, fi_info, fi_ops, fi_ops_domain, fid, fid_domain, fid_fabric};
use gigae::{Endpoint, OpenError, Rights};
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

type Opener = Box<dyn Fn() -> Result<Endpoint, OpenError> + Send + Sync>;

/// What the descriptor leads to.
pub(crate) struct Domain {
    opener: Opener,
    ports: Mutex<Ports>,
    /// Keys of registered memory are the program's choice.
    own_keys: bool,
    /// Where it was opened, unless by a test.
    _fabric: Option<Arc<Fabric>>,
}

/// The library's endpoints, and what is registered with all of them.
#[derive(Default)]
struct Ports {
    all: Vec<Weak<Core>>,
    regions: Vec<Weak<Region>>,
    /// The first, if memory wanted it: programs may register and take back before they open an
    /// endpoint, and opening takes long.
    kept: Option<Arc<Core>>,
}

impl Ports {
    /// Forgets what is closed.
    fn tidy(&mut self) {
        self.all.retain(|core| core.strong_count() > 0);
        self.regions.retain(|region| region.strong_count() > 0);
    }

    /// Opens one more; what is registered can be used through it, too.
    fn open(&mut self, opener: &Opener) -> Outcome<Arc<Core>> {
        // The code that the program gets says little.
        let core = Core::new(opener().inspect_err(|error| eprintln!("gigae: {error}"))?)?;
        for region in self.regions.iter().filter_map(Weak::upgrade) {
            region.join(&core)?;
        }
        self.all.push(Arc::downgrade(&core));
        Ok(core)
    }
}

impl Domain {
    pub(crate) fn new(opener: Opener, own_keys: bool) -> Self {
        Self { opener, ports: Mutex::default(), own_keys, _fabric: None }
    }

    /// The library's endpoint for one of the program's.
    pub(crate) fn take(&self) -> Outcome<Arc<Core>> {
        let mut ports = lock(&self.ports);
        ports.tidy();
        // From now on the program's endpoint keeps it.
        match ports.kept.take() {
            Some(core) => Ok(core),
            None => ports.open(&self.opener),
        }
    }

    /// The program's endpoint is being closed: it is nobody's way to memory any more.
    pub(crate) fn leave(&self, core: &Arc<Core>) {
        let mut ports = lock(&self.ports);
        ports.all.retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(core)));
        for region in ports.regions.iter().filter_map(Weak::upgrade) {
            region.leave(core);
        }
    }

    /// Registers memory with all endpoints of the library, of which there is one at least then. `key`
    /// is the program's, and matters only if the keys are.
    pub(crate) fn register(
        self: &Arc<Self>,
        memory: Box<Request>,
        rights: Rights,
        key: u64,
    ) -> Outcome<Arc<Region>> {
        let mut ports = lock(&self.ports);
        ports.tidy();
        let first = match ports.all.iter().find_map(Weak::upgrade) {
            Some(core) => core,
            None => {
                let core = ports.open(&self.opener)?;
                ports.kept = Some(Arc::clone(&core));
                core
            }
        };
        let key = self.own_keys.then_some(key);
        let region = Region::new((Arc::clone(self), &first), memory, rights, key)?;
        for core in ports.all.iter().filter_map(Weak::upgrade) {
            if !Arc::ptr_eq(&core, &first) {
                region.join(&core)?;
            }
        }
        let region = Arc::new(region);
        ports.regions.push(Arc::downgrade(&region));
        Ok(region)
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
    poll_open: Some(crate::poll::open),
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
        let fabric = inner::<_, Fabric>(fabric)?;
        let info = info.as_ref().ok_or(Code::INVALID)?;
        let attr = info.domain_attr.as_ref().ok_or(Code::INVALID)?;
        if flags != 0 {
            return Err(Code::INVALID);
        }
        let name = crate::address::text(attr.name)?.ok_or(Code::INVALID)?.to_owned();
        let settings = Settings::read()?;
        let source = crate::info::source_of(info)?;
        // Who names the address wants the NIC itself; further endpoints of the domain have others.
        let itself = AtomicBool::new(source.is_some() && !settings.is_alone());
        let opener = Box::new(move || {
            let options = settings.options(&name);
            let endpoint = match source {
                Some(source) => options.port(source.port_id()).open()?,
                None => options.open()?,
            };
            let asked = itself.swap(false, Ordering::Relaxed);
            let first = name.split(',').next().unwrap_or_default();
            if asked && !first.split('/').any(|one| one == endpoint.link().interface) {
                itself.store(true, Ordering::Relaxed);
                return Err(has_another(&name));
            }
            Ok(endpoint)
        });
        let own_keys = attr.mr_mode & sys::FI_MR_PROV_KEY as c_int == 0;
        let mut inner = Domain::new(opener, own_keys);
        inner._fabric = Some(Arc::clone(fabric));
        put(inner, domain, context)
    })
}

fn has_another(name: &str) -> OpenError {
    let text = format!("another endpoint has the address of '{name}'; ask for none");
    let source = io::Error::new(io::ErrorKind::AddrInUse, text);
    OpenError::Io { what: "opening an endpoint at the address that was asked for", source }
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
