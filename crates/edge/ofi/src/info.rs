//! The query `fi_getinfo`: one description for each NIC that fits the hints.

use crate::address::{self, FORMAT, LEN};
use crate::error::{Code, OfiResult, status};
use crate::host::{HostInfo, host};
use crate::provider::{INJECT_SIZE, MAX_OPERATION, MOST_PIECES, MOST_SENDS, NAME, VERSION};
use crate::settings::{ProviderSettings, UsableNic};
use crate::sys::{self, fi_info};
use gigae::Address;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

/// The protocol's number among the provider-specific ones, and its version.
const PROTOCOL: u32 = sys::FI_PROV_SPECIFIC as u32 | 0x6769;
const PROTOCOL_VERSION: u32 = 1;

/// The oldest supported interface. Before 1.5, memory registration had another meaning.
const OLDEST: u32 = 1 << 16 | 5;

/// Capabilities that an endpoint has on request.
const PRIMARY: u64 = sys::FI_MSG
    | sys::FI_TAGGED
    | sys::FI_RMA
    | sys::FI_ATOMIC
    | sys::FI_DIRECTED_RECV
    | sys::FI_SEND
    | sys::FI_RECV
    | sys::FI_READ
    | sys::FI_WRITE
    | sys::FI_REMOTE_READ
    | sys::FI_REMOTE_WRITE;

/// Capabilities that it always has.
const SECONDARY: u64 = sys::FI_MULTI_RECV
    | sys::FI_SOURCE
    | sys::FI_RMA_EVENT
    | sys::FI_LOCAL_COMM
    | sys::FI_REMOTE_COMM;

/// Capabilities of sending and receiving.
const TX: u64 = sys::FI_MSG
    | sys::FI_TAGGED
    | sys::FI_RMA
    | sys::FI_ATOMIC
    | sys::FI_SEND
    | sys::FI_READ
    | sys::FI_WRITE;
const RX: u64 = sys::FI_MSG
    | sys::FI_TAGGED
    | sys::FI_RMA
    | sys::FI_ATOMIC
    | sys::FI_RECV
    | sys::FI_REMOTE_READ
    | sys::FI_REMOTE_WRITE
    | sys::FI_DIRECTED_RECV
    | sys::FI_MULTI_RECV
    | sys::FI_SOURCE
    | sys::FI_RMA_EVENT;
const DOMAIN: u64 = sys::FI_LOCAL_COMM | sys::FI_REMOTE_COMM;

/// Flags that operations may have by default.
const TX_FLAGS: u64 = sys::FI_COMPLETION
    | sys::FI_INJECT
    | sys::FI_INJECT_COMPLETE
    | sys::FI_TRANSMIT_COMPLETE
    | sys::FI_DELIVERY_COMPLETE;
const RX_FLAGS: u64 = sys::FI_COMPLETION | sys::FI_MULTI_RECV;

/// The guaranteed order towards one peer: the order of start, except that a write may overtake an
/// earlier read of the same bytes.
const ORDER: u64 = sys::FI_ORDER_RAR
    | sys::FI_ORDER_RAW
    | sys::FI_ORDER_RAS
    | sys::FI_ORDER_WAW
    | sys::FI_ORDER_WAS
    | sys::FI_ORDER_SAR
    | sys::FI_ORDER_SAW
    | sys::FI_ORDER_SAS;

/// Promised number of endpoints of a domain. Each is an endpoint of the library.
const MOST_ENDPOINTS: usize = 64;

/// The parts of a query that are used.
struct InfoQuery<'a> {
    hints: Option<&'a fi_info>,
    /// Only endpoints with this address.
    source: Option<Address>,
    /// Endpoints have the addresses of their NICs.
    alone: bool,
    destination: Option<Address>,
}

/// # Safety
/// Pointers are NULL or to what their types say.
pub(crate) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        if info.is_null() {
            return Err(Code::INVALID);
        }
        info.write(null_mut());
        if version < OLDEST {
            return Err(Code::NO_DATA);
        }
        let host = host().ok_or(Code::OTHER)?;
        let hints = hints.as_ref();
        if let Some(hints) = hints {
            check(hints)?;
        }
        let node = address::text(node)?;
        let named = match node {
            None => None,
            Some(node) => Some(address::resolve(node, address::text(service)?)?),
        };
        let (mut source, mut destination) = match flags & sys::FI_SOURCE {
            0 => (None, named),
            _ => (named, None),
        };
        if let Some(hints) = hints {
            source = source.or(source_of(hints)?);
            destination = destination.or(destination_of(hints)?);
        }
        let settings = ProviderSettings::read()?;
        let alone = settings.is_alone();
        let wanted = InfoQuery { hints, source, alone, destination };
        let list = settings.permitted().iter().rev().try_fold(null_mut(), |next, nic| {
            describe(host, version, &wanted, nic, next).inspect_err(|_| host.free_info(next))
        })?;
        if list.is_null() {
            return Err(Code::NO_DATA);
        }
        info.write(list);
        Ok(())
    })
}

/// An address in the hints.
///
/// # Safety
/// `addr` is NULL or points to `len` bytes.
unsafe fn given(addr: *const c_void, len: usize) -> OfiResult<Option<[u8; LEN]>> {
    if addr.is_null() || len == 0 {
        return Ok(None);
    }
    if len < LEN {
        return Err(Code::NO_DATA);
    }
    // SAFETY: the caller's promise.
    Ok(Some(unsafe { addr.cast::<[u8; LEN]>().read() }))
}

/// The address for opening an endpoint, if the program wants a certain one.
///
/// # Safety
/// The source address is NULL or as long as the description says.
pub(crate) unsafe fn source_of(info: &fi_info) -> OfiResult<Option<Address>> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { given(info.src_addr, info.src_addrlen)? };
    let bytes = bytes.filter(|bytes| !address::is_provisional(bytes));
    bytes.map(|bytes| address::decode(&bytes).map_err(|_| Code::NO_DATA)).transpose()
}

/// The address of the peer.
///
/// # Safety
/// The destination address is NULL or as long as the description says.
unsafe fn destination_of(info: &fi_info) -> OfiResult<Option<Address>> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { given(info.dest_addr, info.dest_addrlen)? };
    bytes.map(|bytes| address::decode(&bytes).map_err(|_| Code::NO_DATA)).transpose()
}

fn fits(condition: bool) -> OfiResult<()> {
    if condition { Ok(()) } else { Err(Code::NO_DATA) }
}

/// Whether any NIC can do what is asked for.
///
/// # Safety
/// The description's parts are NULL or there.
unsafe fn check(hints: &fi_info) -> OfiResult<()> {
    fits(hints.caps & !(PRIMARY | SECONDARY) == 0)?;
    fits(hints.addr_format == sys::FI_FORMAT_UNSPEC || hints.addr_format == FORMAT)?;
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(attr) = hints.fabric_attr.as_ref() {
            fits(address::text(attr.name)?.is_none_or(|name| name == NAME))?;
            fits(address::text(attr.prov_name)?.is_none_or(|name| name == NAME))?;
        }
        if let Some(attr) = hints.ep_attr.as_ref() {
            fits(matches!(attr.type_, sys::FI_EP_UNSPEC | sys::FI_EP_RDM))?;
            fits(attr.protocol == 0 || attr.protocol == PROTOCOL)?;
            fits(attr.max_msg_size <= MAX_OPERATION)?;
            fits(attr.tx_ctx_cnt <= 1 && attr.rx_ctx_cnt <= 1 && attr.auth_key_size == 0)?;
            let raw = attr.max_order_raw_size.max(attr.max_order_waw_size);
            fits(raw <= MAX_OPERATION && attr.max_order_war_size == 0)?;
        }
        if let Some(attr) = hints.domain_attr.as_ref() {
            let remote = hints.caps & (sys::FI_RMA | sys::FI_ATOMIC) != 0;
            // It would mean addresses instead of offsets.
            fits(!remote || attr.mr_mode != sys::FI_MR_BASIC as c_int)?;
            fits(attr.mr_key_size <= 8 && attr.cq_data_size <= 8 && attr.auth_key_size == 0)?;
            fits(attr.caps & !DOMAIN == 0 && attr.ep_cnt <= MOST_ENDPOINTS)?;
            fits(attr.mr_iov_limit <= MOST_PIECES)?;
        }
        if let Some(attr) = hints.tx_attr.as_ref() {
            fits(attr.caps & !(PRIMARY | SECONDARY) == 0 && attr.op_flags & !TX_FLAGS == 0)?;
            fits(attr.msg_order & !ORDER == 0 && attr.comp_order & !sys::FI_ORDER_DATA == 0)?;
            fits(attr.inject_size <= INJECT_SIZE && attr.size <= MOST_SENDS)?;
            fits(attr.iov_limit <= MOST_PIECES && attr.rma_iov_limit <= 1)?;
        }
        if let Some(attr) = hints.rx_attr.as_ref() {
            fits(attr.caps & !(PRIMARY | SECONDARY) == 0 && attr.op_flags & !RX_FLAGS == 0)?;
            fits(attr.msg_order & !ORDER == 0 && attr.comp_order & !sys::FI_ORDER_DATA == 0)?;
            fits(attr.iov_limit <= MOST_PIECES)?;
        }
    }
    Ok(())
}

/// The capabilities to grant for those asked for.
fn capabilities(hints: Option<&fi_info>) -> u64 {
    let asked = hints.map_or(0, |hints| hints.caps);
    if asked & !SECONDARY == 0 {
        return PRIMARY | SECONDARY;
    }
    let mut caps = asked | SECONDARY;
    // No direction means both.
    if caps & (sys::FI_MSG | sys::FI_TAGGED) != 0 && caps & (sys::FI_SEND | sys::FI_RECV) == 0 {
        caps |= sys::FI_SEND | sys::FI_RECV;
    }
    let remote = sys::FI_READ | sys::FI_WRITE | sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE;
    if caps & (sys::FI_RMA | sys::FI_ATOMIC) != 0 && caps & remote == 0 {
        caps |= remote;
    }
    caps
}

/// The list with a description of a NIC in front, if that fits.
///
/// # Safety
/// The hints' parts are NULL or there; `next` is NULL or a list.
unsafe fn describe(
    host: &HostInfo,
    version: u32,
    wanted: &InfoQuery,
    nic: &UsableNic,
    next: *mut fi_info,
) -> OfiResult<*mut fi_info> {
    let InfoQuery { hints, source, alone, destination } = *wanted;
    // SAFETY: the caller's promise.
    let domain = unsafe { hints.and_then(|hints| hints.domain_attr.as_ref()) };
    // SAFETY: the caller's promise, as above.
    let name = unsafe { address::text(domain.map_or(std::ptr::null(), |attr| attr.name))? };
    // A source names the NIC, and may name another port there.
    let other = source.is_some_and(|source| source.port(0) != nic.address.port(0));
    if other || name.is_some_and(|name| name != nic.name) {
        return Ok(next);
    }
    // SAFETY: NULL asks for an empty description.
    let info = unsafe { host.dup_info(std::ptr::null()) };
    // SAFETY: it was just made, with all its parts, and no other code has it.
    unsafe {
        let whole = info.as_mut().ok_or(Code::OTHER)?;
        whole.next = next;
        whole.caps = capabilities(hints);
        whole.addr_format = FORMAT;
        // Otherwise the address is known when the endpoint is open: fi_getname.
        let bytes = match source {
            Some(source) => address::encode(&source),
            None if alone => address::encode(&nic.address),
            None => address::encode_provisional(&nic.address),
        };
        (whole.src_addr, whole.src_addrlen) = allocate(&bytes);
        if let Some(destination) = destination {
            (whole.dest_addr, whole.dest_addrlen) = allocate(&address::encode(&destination));
        }
        fill_contexts(whole, hints);
        fill_endpoint(&mut *whole.ep_attr, hints);
        fill_domain(&mut *whole.domain_attr, domain, &nic.name);
        let fabric = &mut *whole.fabric_attr;
        fabric.name = duplicate(NAME);
        fabric.prov_version = VERSION;
        fabric.api_version = version;
    }
    Ok(info)
}

/// # Safety
/// The description has its parts, those of the hints are NULL or there.
unsafe fn fill_contexts(info: &mut fi_info, hints: Option<&fi_info>) {
    // SAFETY: the caller's promise.
    unsafe {
        let (tx, rx) = (&mut *info.tx_attr, &mut *info.rx_attr);
        let asked = hints.and_then(|hints| hints.tx_attr.as_ref());
        tx.caps = info.caps & TX;
        tx.op_flags = asked.map_or(0, |attr| attr.op_flags);
        tx.msg_order = ORDER;
        tx.inject_size = INJECT_SIZE;
        tx.size = MOST_SENDS;
        tx.iov_limit = MOST_PIECES;
        tx.rma_iov_limit = 1;
        let asked = hints.and_then(|hints| hints.rx_attr.as_ref());
        rx.caps = info.caps & RX;
        rx.op_flags = asked.map_or(0, |attr| attr.op_flags);
        rx.msg_order = ORDER;
        rx.size = MOST_SENDS;
        rx.iov_limit = MOST_PIECES;
    }
}

/// # Safety
/// The hints' parts are NULL or there.
unsafe fn fill_endpoint(ep: &mut sys::fi_ep_attr, hints: Option<&fi_info>) {
    // SAFETY: the caller's promise.
    let asked = unsafe { hints.and_then(|hints| hints.ep_attr.as_ref()) };
    ep.type_ = sys::FI_EP_RDM;
    ep.protocol = PROTOCOL;
    ep.protocol_version = PROTOCOL_VERSION;
    ep.max_msg_size = MAX_OPERATION;
    ep.max_order_raw_size = MAX_OPERATION;
    ep.max_order_waw_size = MAX_OPERATION;
    // All bits of a tag belong to the program.
    ep.mem_tag_format =
        asked.map(|attr| attr.mem_tag_format).filter(|&f| f != 0).unwrap_or(u64::MAX);
    ep.tx_ctx_cnt = 1;
    ep.rx_ctx_cnt = 1;
}

fn fill_domain(domain: &mut sys::fi_domain_attr, asked: Option<&sys::fi_domain_attr>, name: &str) {
    let or = |asked: u32, usual: u32| if asked == 0 { usual } else { asked };
    domain.name = duplicate(name);
    domain.threading = or(asked.map_or(0, |a| a.threading), sys::FI_THREAD_SAFE);
    domain.control_progress = or(asked.map_or(0, |a| a.control_progress), sys::FI_PROGRESS_AUTO);
    domain.data_progress = or(asked.map_or(0, |a| a.data_progress), sys::FI_PROGRESS_AUTO);
    domain.resource_mgmt = or(asked.map_or(0, |a| a.resource_mgmt), sys::FI_RM_ENABLED);
    domain.av_type = or(asked.map_or(0, |a| a.av_type), sys::FI_AV_TABLE);
    // The library's keys cannot be guessed, so they are preferred where the program accepts them.
    domain.mr_mode = match asked.map(|attr| attr.mr_mode) {
        Some(mode) if mode == sys::FI_MR_SCALABLE as c_int => mode,
        Some(mode) => mode & sys::FI_MR_PROV_KEY as c_int,
        None => sys::FI_MR_PROV_KEY as c_int,
    };
    domain.mr_key_size = 8;
    domain.cq_data_size = 8;
    domain.cq_cnt = 1 << 10;
    domain.cntr_cnt = 1 << 10;
    domain.ep_cnt = MOST_ENDPOINTS;
    domain.tx_ctx_cnt = 1;
    domain.rx_ctx_cnt = 1;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.mr_iov_limit = MOST_PIECES;
    domain.mr_cnt = 1 << 20;
    domain.caps = DOMAIN;
}

/// Memory of C for a description, or a null pointer if there is no memory.
fn allocate(bytes: &[u8; LEN]) -> (*mut c_void, usize) {
    // SAFETY: as many bytes as are copied.
    unsafe {
        let place = libc::malloc(LEN);
        if place.is_null() {
            return (place, 0);
        }
        place.cast::<u8>().copy_from(bytes.as_ptr(), LEN);
        (place, LEN)
    }
}

fn duplicate(text: &str) -> *mut c_char {
    let text = std::ffi::CString::new(text).unwrap_or_default();
    // SAFETY: text that ends in NUL.
    unsafe { libc::strdup(text.as_ptr()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::stand_in::HOST;

    /// What is described of a NIC for hints with such a domain, if anything is.
    fn described(
        caps: u64,
        domain: impl FnOnce(&mut sys::fi_domain_attr),
        source: Option<Address>,
    ) -> Option<&'static fi_info> {
        let nic = UsableNic { name: "eth1".into(), address: "02:00:00:00:00:07".parse().unwrap() };
        // SAFETY: plain numbers and pointers; the description stays.
        unsafe {
            let mut attr: sys::fi_domain_attr = std::mem::zeroed();
            domain(&mut attr);
            let mut hints: fi_info = std::mem::zeroed();
            (hints.caps, hints.domain_attr) = (caps, &mut attr);
            check(&hints).ok()?;
            let alone = false;
            let wanted = InfoQuery { hints: Some(&hints), source, alone, destination: None };
            describe(&HOST, OLDEST, &wanted, &nic, null_mut()).unwrap().as_ref()
        }
    }

    #[test]
    fn keys_are_the_librarys_if_the_program_takes_such_and_its_own_otherwise() {
        let own = sys::FI_MR_PROV_KEY as c_int;
        let all = !(sys::FI_MR_BASIC | sys::FI_MR_SCALABLE) as c_int;
        let scalable = sys::FI_MR_SCALABLE as c_int;
        for (asked, given) in [
            (0, Some(0)),
            (own, Some(own)),
            (all, Some(own)),
            (scalable, Some(scalable)),
            (1, None),
        ] {
            let info = described(sys::FI_RMA, |attr| attr.mr_mode = asked, None);
            // SAFETY: a description has its parts.
            let mode = info.map(|info| unsafe { (*info.domain_attr).mr_mode });
            assert_eq!(mode, given, "{asked:x}");
        }
    }

    #[test]
    fn progress_is_automatic_unless_the_program_asks_for_manual() {
        const MANUAL: u32 = 2;
        for (asked, given) in [
            (0, sys::FI_PROGRESS_AUTO),
            (sys::FI_PROGRESS_AUTO, sys::FI_PROGRESS_AUTO),
            (MANUAL, MANUAL),
        ] {
            let ask = |attr: &mut sys::fi_domain_attr| {
                (attr.control_progress, attr.data_progress) = (asked, asked);
            };
            let info = described(sys::FI_MSG, ask, None).unwrap();
            // SAFETY: a description has its parts.
            let domain = unsafe { &*info.domain_attr };
            assert_eq!((domain.control_progress, domain.data_progress), (given, given));
        }
    }

    #[test]
    fn a_source_names_the_nic_and_may_name_a_port_of_it() {
        let source = |text: &str| {
            let info = described(sys::FI_MSG, |_| (), Some(text.parse().unwrap()))?;
            // SAFETY: the address that was written there.
            Some(unsafe { source_of(info) }.unwrap().unwrap().to_string())
        };
        assert_eq!(source("02:00:00:00:00:07").unwrap(), "02:00:00:00:00:07");
        assert_eq!(source("02:00:00:00:00:07/9").unwrap(), "02:00:00:00:00:07/9");
        assert_eq!(source("02:00:00:00:00:08/9"), None);
        assert_eq!(source("02:00:00:00:00:07/9/1"), None, "another channel");
        let shared = described(sys::FI_MSG, |_| (), None).unwrap();
        // SAFETY: the address that was written there.
        unsafe {
            let bytes = given(shared.src_addr, shared.src_addrlen).unwrap().unwrap();
            assert_eq!(address::decode(&bytes).unwrap().to_string(), "02:00:00:00:00:07");
            assert_eq!(source_of(shared), Ok(None), "it is not known yet whose address it will be");
        }
    }

    #[test]
    fn what_is_not_there_is_not_described() {
        for caps in [sys::FI_COLLECTIVE, sys::FI_SHARED_AV, sys::FI_TRIGGER, sys::FI_NAMED_RX_CTX] {
            assert!(described(caps, |_| (), None).is_none(), "{caps:x}");
        }
        let name = c"eth2".as_ptr().cast_mut();
        assert!(described(sys::FI_MSG, |attr| attr.name = name, None).is_none());
        let many = |attr: &mut sys::fi_domain_attr| attr.ep_cnt = MOST_ENDPOINTS + 1;
        assert!(described(sys::FI_MSG, many, None).is_none());
        let info = described(sys::FI_RMA | sys::FI_RMA_EVENT, |_| (), None).unwrap();
        let both = sys::FI_RMA_EVENT | sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE;
        assert_eq!(info.caps & both, both);
    }
}
