//! Address vectors. Their addresses are in `addresses.rs`. Map and table are the same here.

use crate::address::{self, LEN};
use crate::addresses::Addresses;
use crate::eq::Events;
use crate::error::{Code, OfiResult, Stub, guard, status};
use crate::object::{self, KeepAlive, descriptor, inner, lock, table};
use crate::sys::{self, fi_av_attr, fi_ops, fi_ops_av, fid, fid_av, fid_eq};
use gigae::Address;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex};

/// What the descriptor leads to.
pub(crate) struct Vector {
    pub(crate) addresses: Arc<Addresses>,
    events: Mutex<Option<Arc<Events>>>,
    /// Insertions are reported as events.
    asynchronous: bool,
    _domain: KeepAlive,
}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(object::close_entry::<fid_av, Vector>),
    bind: Some(bind),
    control: Stub::NONE,
    ops_open: Stub::NONE,
    tostr: Stub::NONE,
    ops_set: Stub::NONE,
};

static AV_OPS: fi_ops_av = fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert: Some(insert),
    insertsvc: Some(insertsvc),
    insertsym: Some(insertsym),
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Some(straddr),
    av_set: Stub::NONE,
};

/// Opens a vector of a domain, which stays open as long.
///
/// # Safety
/// Pointers are NULL or to what their types say, as for all entries that follow.
pub(crate) unsafe fn open(
    domain: KeepAlive,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> OfiResult<()> {
    // SAFETY: the caller's promise.
    let attr = unsafe { attr.as_ref() }.ok_or(Code::INVALID)?;
    if !attr.name.is_null() || attr.rx_ctx_bits != 0 {
        return Err(Code::NO_SYS);
    }
    if attr.flags & !(sys::FI_EVENT | sys::FI_SYMMETRIC) != 0 {
        return Err(Code::INVALID);
    }
    let vector = Vector {
        addresses: Arc::default(),
        events: Mutex::new(None),
        asynchronous: attr.flags & sys::FI_EVENT != 0,
        _domain: domain,
    };
    let fid = descriptor(sys::FI_CLASS_AV, context, &OPS);
    // SAFETY: the caller's promise: `av` is NULL or points to a pointer.
    unsafe { object::open(fid_av { fid, ops: table(&AV_OPS) }, Arc::new(vector), av) }
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, _flags: u64) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let vector = object::of_class::<fid_av, Vector>(fid, sys::FI_CLASS_AV)?;
        let events = object::of_class::<fid_eq, Events>(other, sys::FI_CLASS_EQ)?;
        *lock(&vector.events) = Some(Arc::clone(events));
        Ok(())
    })
}

/// The outputs of an insertion for each address.
struct Inserting {
    numbers: *mut u64,
    /// With `FI_SYNC_ERR`: an error for each.
    errors: *mut c_int,
    at: usize,
    well: usize,
}

impl Inserting {
    /// # Safety
    /// `numbers` is NULL or has room for all, and with the flag so has `context` for errors.
    unsafe fn new(numbers: *mut u64, flags: u64, context: *mut c_void) -> Self {
        let errors =
            if flags & sys::FI_SYNC_ERR == 0 { std::ptr::null_mut() } else { context.cast() };
        Self { numbers, errors, at: 0, well: 0 }
    }

    fn next(&mut self, vector: &Vector, address: OfiResult<Address>) {
        let number = vector.addresses.insert(address.ok());
        // SAFETY: what `new` was promised.
        unsafe {
            if !self.numbers.is_null() {
                self.numbers.add(self.at).write(number);
            }
            if !self.errors.is_null() {
                self.errors.add(self.at).write(address.err().map_or(0, |code| code.0));
            }
        }
        self.at += 1;
        self.well += usize::from(address.is_ok());
    }

    /// Returns how many succeeded. An asynchronous vector reports them by an event instead.
    fn end(self, vector: &Vector, av: *mut fid_av, context: *mut c_void) -> OfiResult<usize> {
        if !vector.asynchronous {
            return Ok(self.well);
        }
        let events = lock(&vector.events);
        let events = events.as_ref().ok_or(Code::BAD_STATE)?;
        events.inserted(av.cast(), context, self.well as u64);
        Ok(0)
    }
}

unsafe extern "C" fn insert(
    av: *mut fid_av,
    addr: *const c_void,
    count: usize,
    numbers: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise: `count` addresses.
    guard(|| unsafe {
        let vector = inner::<_, Vector>(av)?;
        if addr.is_null() && count > 0 {
            return Err(Code::INVALID);
        }
        let mut inserting = Inserting::new(numbers, flags, context);
        for n in 0..count {
            let address = address::decode(&addr.cast::<[u8; LEN]>().add(n).read());
            inserting.next(vector, address);
        }
        inserting.end(vector, av, context)
    }) as c_int
}

unsafe extern "C" fn insertsvc(
    av: *mut fid_av,
    node: *const c_char,
    service: *const c_char,
    number: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { insertsym(av, node, 1, service, 1, number, flags, context) }
}

/// Consecutive nodes and ports: counts up the number at the end of each name.
unsafe extern "C" fn insertsym(
    av: *mut fid_av,
    node: *const c_char,
    nodes: usize,
    service: *const c_char,
    services: usize,
    numbers: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| unsafe {
        let vector = inner::<_, Vector>(av)?;
        let node = address::text(node)?.ok_or(Code::INVALID)?;
        let service = address::text(service)?;
        let mut inserting = Inserting::new(numbers, flags, context);
        for n in 0..nodes {
            for s in 0..services {
                let service = service.map(|service| count_up(service, s)).transpose();
                let address = service
                    .and_then(|service| address::resolve(&count_up(node, n)?, service.as_deref()));
                inserting.next(vector, address);
            }
        }
        inserting.end(vector, av, context)
    }) as c_int
}

/// The n-th name after this one: the decimal number at its end plus `n`.
fn count_up(name: &str, n: usize) -> OfiResult<String> {
    if n == 0 {
        return Ok(name.into());
    }
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[stem.len()..];
    let number: usize = digits.parse().map_err(|_| Code::INVALID)?;
    Ok(format!("{stem}{:0width$}", number + n, width = digits.len()))
}

unsafe extern "C" fn remove(
    av: *mut fid_av,
    numbers: *mut u64,
    count: usize,
    _flags: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let vector = inner::<_, Vector>(av)?;
        if numbers.is_null() && count > 0 {
            return Err(Code::INVALID);
        }
        for n in 0..count {
            vector.addresses.remove(numbers.add(n).read())?;
        }
        Ok(())
    })
}

unsafe extern "C" fn lookup(
    av: *mut fid_av,
    number: u64,
    addr: *mut c_void,
    len: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe {
        let address = inner::<_, Vector>(av)?.addresses.address(number).ok_or(Code::INVALID)?;
        match address::put(&address::encode(&address), addr, len) {
            // As much as there was room for; the length shows the rest.
            Err(Code::TOO_SMALL) => Ok(()),
            done => done,
        }
    })
}

unsafe extern "C" fn straddr(
    _av: *mut fid_av,
    addr: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    if addr.is_null() || len.is_null() {
        return std::ptr::null();
    }
    // SAFETY: the caller's promise: an address, and `*len` bytes at `buf`. The address is text and
    // ends in NULs.
    unsafe {
        let bytes = addr.cast::<[u8; LEN]>().read();
        let text = bytes.iter().position(|&byte| byte == 0).unwrap_or(LEN - 1);
        let room = if buf.is_null() { 0 } else { *len };
        if room > 0 {
            let count = text.min(room - 1);
            buf.cast::<u8>().copy_from(bytes.as_ptr(), count);
            buf.add(count).write(0);
        }
        *len = text + 1;
    }
    buf
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_up_as_they_are_written() {
        assert_eq!(count_up("n7", 0).unwrap(), "n7");
        assert_eq!(count_up("n7", 4).unwrap(), "n11");
        assert_eq!(count_up("n007", 4).unwrap(), "n011");
        assert_eq!(count_up("198.18.0.9", 1).unwrap(), "198.18.0.10");
        assert_eq!(count_up("host", 0).unwrap(), "host");
        assert_eq!(count_up("host", 1), Err(Code::INVALID));
    }
}
