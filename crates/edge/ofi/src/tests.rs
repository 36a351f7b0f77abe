//! The objects as C uses them, by their tables, with two endpoints on a simulated network.

use crate::address::{LEN, UNSPECIFIED};
use crate::core::Core;
use crate::domain::{Domain, Opener};
use crate::endpoint::Ep;
use crate::error::Code;
use crate::lock::Threads;
use crate::object::inner;
use crate::request::one;
use crate::sys::*;
use crate::{atomic, fabric};
use gigae::{Endpoint, Options, Progress};
use gigae_sim::{Faults, Network};
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, zeroed};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;

/// Calls an entry of a table as libfabric's inline functions do.
macro_rules! call {
    ($object:expr, $table:ident, $entry:ident $(, $argument:expr)*) => {{
        let object = $object;
        // SAFETY: an open object, whose table has no empty place.
        unsafe { ((*(*object).$table).$entry).unwrap()(object $(, $argument)*) }
    }};
}

/// The same for what all objects have.
macro_rules! general {
    ($object:expr, $entry:ident $(, $argument:expr)*) => {{
        let fid = $object.cast::<fid>();
        // SAFETY: an open object, whose table has no empty place.
        unsafe { ((*(*fid).ops).$entry).unwrap()(fid $(, $argument)*) }
    }};
}

/// A description in which nothing is set.
fn empty<T: Copy>() -> T {
    // SAFETY: tests ask for C's descriptions, which are plain numbers and pointers.
    unsafe { zeroed() }
}

fn context(n: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(n)
}

fn minus(code: Code) -> isize {
    -(code.0 as isize)
}

/// Contexts of a node's objects.
const CQ: usize = 101;
const SENDS: usize = 102;
const RECEIVES: usize = 103;

/// An endpoint with all that belongs to it.
struct TestEndpoint {
    domain: *mut fid_domain,
    ep: *mut fid_ep,
    cq: *mut fid_cq,
    av: *mut fid_av,
    sends: *mut fid_cntr,
    receives: *mut fid_cntr,
}

/// What is asked of a node.
#[derive(Clone, Copy, Default)]
struct NodeOptions {
    tx_flags: u64,
    caps: u64,
    /// Keys of registered memory are the program's.
    own_keys: bool,
    /// The number of links to use as one, if there are several.
    links: usize,
    /// What the program promises of its threads.
    threads: Threads,
    /// No progress while the program makes none.
    manual: bool,
}

impl TestEndpoint {
    fn open(net: &Network, seed: u32, asked: NodeOptions) -> Self {
        let net = net.clone();
        let opener = Box::new(move || {
            let options = match asked.links {
                0 => Options::new("sim"),
                links => Options::trunk((0..links).map(|n| format!("sim{n}"))),
            };
            let progress = if asked.manual { Progress::Manual } else { Progress::Auto };
            let options = options.progress(progress);
            options.peer_timeout(Duration::from_millis(10)).open_simulated(&net, seed)
        });
        Self::opened(opener, asked)
    }

    /// One whose endpoint the opener opens.
    fn opened(opener: Opener, asked: NodeOptions) -> Self {
        let mut domain = null_mut();
        let inner = Domain::new(opener, asked.threads, asked.own_keys, None);
        // SAFETY: a place to write to.
        unsafe { fabric::put_domain(inner, &mut domain, null_mut()).unwrap() };
        Self::within(domain, asked)
    }

    /// One more endpoint of a domain, with its own queues.
    fn within(domain: *mut fid_domain, asked: NodeOptions) -> Self {
        let mut node = Self {
            domain,
            ep: null_mut(),
            cq: null_mut(),
            av: null_mut(),
            sends: null_mut(),
            receives: null_mut(),
        };
        let mut tx: fi_tx_attr = empty();
        tx.op_flags = asked.tx_flags;
        let mut info: fi_info = empty();
        (info.tx_attr, info.caps) = (&mut tx, asked.caps);
        assert_eq!(call!(domain, ops, endpoint, &mut info, &mut node.ep, null_mut()), 0);
        let mut attr: fi_cq_attr = empty();
        (attr.format, attr.wait_obj) = (FI_CQ_FORMAT_TAGGED, FI_WAIT_FD);
        assert_eq!(call!(domain, ops, cq_open, &mut attr, &mut node.cq, context(CQ)), 0);
        let mut attr: fi_av_attr = empty();
        assert_eq!(call!(domain, ops, av_open, &mut attr, &mut node.av, null_mut()), 0);
        (node.sends, node.receives) = (node.counter(SENDS), node.counter(RECEIVES));
        let ep = node.ep;
        assert_eq!(general!(ep, control, FI_ENABLE as c_int, null_mut()), -Code::NO_AV.0);
        assert_eq!(general!(ep, bind, node.av.cast(), 0), 0);
        assert_eq!(general!(ep, control, FI_ENABLE as c_int, null_mut()), -Code::NO_CQ.0);
        assert_eq!(general!(ep, bind, node.cq.cast(), FI_TRANSMIT | FI_RECV), 0);
        assert_eq!(general!(ep, bind, node.sends.cast(), FI_SEND), 0);
        assert_eq!(general!(ep, bind, node.receives.cast(), FI_RECV), 0);
        assert_eq!(general!(ep, bind, node.receives.cast(), FI_PEEK), -Code::INVALID.0);
        assert_eq!(
            call!(ep, msg, send, null(), 0, null_mut(), 0, null_mut()),
            minus(Code::BAD_STATE)
        );
        assert_eq!(general!(ep, control, FI_ENABLE as c_int, null_mut()), 0);
        node
    }

    fn counter(&self, number: usize) -> *mut fid_cntr {
        let mut counter = null_mut();
        let opened = call!(self.domain, ops, cntr_open, null_mut(), &mut counter, context(number));
        assert_eq!(opened, 0);
        counter
    }

    fn core(&self) -> &Arc<Core> {
        // SAFETY: an open endpoint.
        unsafe { &inner::<_, Ep>(self.ep).ok().unwrap().core }
    }

    fn name(&self) -> [u8; LEN] {
        let (mut name, mut len) = ([0; LEN], 3);
        let fid = self.ep.cast::<fid>();
        // SAFETY: an open endpoint.
        let getname = unsafe { (*(*self.ep).cm).getname.unwrap() };
        // SAFETY: a place of that length.
        unsafe {
            assert_eq!(getname(fid, name.as_mut_ptr().cast(), &mut len), -Code::TOO_SMALL.0);
            assert_eq!(len, LEN);
            assert_eq!(getname(fid, name.as_mut_ptr().cast(), &mut len), 0);
        }
        name
    }

    fn insert(&self, name: &[u8; LEN]) -> u64 {
        let mut number = 0;
        let inserted =
            call!(self.av, ops, insert, name.as_ptr().cast(), 1, &mut number, 0, null_mut());
        assert_eq!(inserted, 1);
        number
    }

    fn read(&self) -> Result<(fi_cq_tagged_entry, u64), isize> {
        let (mut entry, mut source) = (MaybeUninit::<fi_cq_tagged_entry>::uninit(), 0);
        match call!(self.cq, ops, readfrom, entry.as_mut_ptr().cast(), 1, &mut source) {
            // SAFETY: one entry was written.
            1 => Ok((unsafe { entry.assume_init() }, source)),
            code => Err(code),
        }
    }

    fn error(&self) -> fi_cq_err_entry {
        // SAFETY: plain numbers and pointers.
        let mut entry: fi_cq_err_entry = unsafe { zeroed() };
        assert_eq!(call!(self.cq, ops, readerr, &mut entry, 0), 1);
        let why = call!(self.cq, ops, strerror, entry.prov_errno, null(), null_mut(), 0);
        // SAFETY: text that ends in NUL.
        assert!(!unsafe { std::ffi::CStr::from_ptr(why) }.is_empty());
        entry
    }

    fn close(self) {
        let domain = self.domain;
        assert_eq!(general!(domain, close), -Code::BUSY.0, "it has an endpoint");
        self.close_endpoint();
        assert_eq!(general!(domain, close), 0);
    }

    /// Closes all but the domain.
    fn close_endpoint(self) {
        assert_eq!(general!(self.cq, close), -Code::BUSY.0, "the endpoint reports there");
        for object in [
            self.ep.cast::<fid>(),
            self.cq.cast(),
            self.av.cast(),
            self.sends.cast(),
            self.receives.cast(),
        ] {
            assert_eq!(general!(object, close), 0);
        }
    }
}

/// Two endpoints that know each other and themselves.
struct EndpointPair {
    net: Network,
    a: TestEndpoint,
    b: TestEndpoint,
    to_b: u64,
    to_a: u64,
}

impl EndpointPair {
    fn new() -> Self {
        Self::with(0, FI_DIRECTED_RECV)
    }

    fn with(tx_flags: u64, caps: u64) -> Self {
        Self::having(NodeOptions { tx_flags, caps, ..NodeOptions::default() })
    }

    fn having(asked: NodeOptions) -> Self {
        let net = Network::new(1, Faults { delay: Duration::from_micros(5), ..Faults::default() });
        Self::on(net, asked)
    }

    fn on(net: Network, asked: NodeOptions) -> Self {
        let [a, b] = [1, 2].map(|seed| TestEndpoint::open(&net, seed, asked));
        // Each is the other's second, so that numbers are no accident.
        a.insert(&a.name());
        b.insert(&b.name());
        let (to_b, to_a) = (a.insert(&b.name()), b.insert(&a.name()));
        Self { net, a, b, to_b, to_a }
    }

    /// Waits for the next completion of a node, or the error that reading it gives.
    fn next(&self, node: &TestEndpoint) -> Result<(fi_cq_tagged_entry, u64), isize> {
        for _ in 0..200_000 {
            match node.read() {
                Err(code) if code == minus(Code::AGAIN) => {}
                done => return done,
            }
            let other = if std::ptr::eq(node, &self.a) { &self.b } else { &self.a };
            // Reading nothing makes progress, too.
            assert_ne!(call!(other.cq, ops, read, null_mut(), 0), minus(Code::IO));
            self.net.advance_to(self.net.now() + 1_000);
        }
        panic!("nothing within 200 ms");
    }

    /// Time passes until the library's endpoint of `b` has taken in what is awaited, as the thread
    /// does it: without a call of `b`'s program.
    fn taken_in(&self, awaited: impl Fn(&Endpoint) -> bool) {
        for _ in 0..200_000 {
            let state = self.b.core().lock();
            state.endpoint.progress().unwrap();
            if awaited(&state.endpoint) {
                return;
            }
            drop(state);
            assert_ne!(call!(self.a.cq, ops, read, null_mut(), 0), minus(Code::IO));
            self.net.advance_to(self.net.now() + 1_000);
        }
        panic!("nothing within 200 ms");
    }

    fn done(
        &self,
        node: &TestEndpoint,
        flags: u64,
        expected: *mut c_void,
    ) -> (fi_cq_tagged_entry, u64) {
        let (entry, source) = self.next(node).unwrap_or_else(|code| {
            panic!("{code}: {}", if code == minus(Code::AVAILABLE) { node.error().err } else { 0 })
        });
        assert_eq!((entry.flags, entry.op_context), (flags, expected));
        (entry, source)
    }

    fn failed(&self, node: &TestEndpoint, code: Code, expected: *mut c_void) -> fi_cq_err_entry {
        match self.next(node) {
            Ok((entry, _)) => panic!("context {:?} did not fail", entry.op_context),
            Err(error) => assert_eq!(error, minus(Code::AVAILABLE)),
        }
        let entry = node.error();
        assert_eq!((Code(entry.err), entry.op_context), (code, expected));
        entry
    }

    /// Closing waits in real time for the graceful close on a network whose time does not pass.
    fn close(self) {
        self.a.close();
        self.b.close();
    }
}

fn body(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 7 + (i >> 8)) as u8).collect()
}

const SEND: u64 = FI_SEND | FI_MSG;
const RECV: u64 = FI_RECV | FI_MSG;
const TSEND: u64 = FI_SEND | FI_TAGGED;
const TRECV: u64 = FI_RECV | FI_TAGGED;

mod acknowledging;
mod budget;
mod calls;
mod closing;
mod computing;
mod memory;
mod messages;
mod objects;
mod paths;
mod threads;
mod waiting;
