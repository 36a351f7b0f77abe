//! The objects as C uses them, by their tables, with two endpoints on a simulated network.

use crate::address::{LEN, UNSPECIFIED};
use crate::domain::{self, Domain};
use crate::error::Code;
use crate::request::one;
use crate::sys::*;
use crate::{atomic, av, counter, cq, ep};
use gigae::Options;
use gigae_sim::{Faults, Network};
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, zeroed};
use std::ptr::{null, null_mut};
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
        // SAFETY: likewise.
        unsafe { ((*(*fid).ops).$entry).unwrap()(fid $(, $argument)*) }
    }};
}

fn context(n: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(n)
}

fn minus(code: Code) -> isize {
    -(code.0 as isize)
}

/// An endpoint with all that belongs to it.
struct Node {
    domain: *mut fid_domain,
    ep: *mut fid_ep,
    cq: *mut fid_cq,
    av: *mut fid_av,
    sends: *mut fid_cntr,
    receives: *mut fid_cntr,
}

impl Node {
    fn open(net: &Network, seed: u32, tx_flags: u64, caps: u64, auto: bool) -> Self {
        let net = net.clone();
        let opener = Box::new(move || {
            let options = Options::new("sim").peer_timeout(Duration::from_millis(10));
            options.open_simulated(&net, seed)
        });
        let mut node = Self {
            domain: null_mut(),
            ep: null_mut(),
            cq: null_mut(),
            av: null_mut(),
            sends: null_mut(),
            receives: null_mut(),
        };
        // SAFETY: places to write to, and descriptions of which only what is set here is looked at.
        unsafe {
            domain::put(Domain::new(opener, auto), &mut node.domain, null_mut()).unwrap();
            let mut tx: fi_tx_attr = zeroed();
            tx.op_flags = tx_flags;
            let mut info: fi_info = zeroed();
            (info.tx_attr, info.caps) = (&mut tx, caps);
            assert_eq!(ep::open(node.domain, &mut info, &mut node.ep, null_mut()), 0);
            let mut attr: fi_cq_attr = zeroed();
            (attr.format, attr.wait_obj) = (FI_CQ_FORMAT_TAGGED, FI_WAIT_FD);
            assert_eq!(cq::open(node.domain, &mut attr, &mut node.cq, null_mut()), 0);
            let mut attr: fi_av_attr = zeroed();
            assert_eq!(av::open(node.domain, &mut attr, &mut node.av, null_mut()), 0);
            for counter in [&mut node.sends, &mut node.receives] {
                assert_eq!(counter::open(node.domain, null_mut(), counter, null_mut()), 0);
            }
        }
        let ep = node.ep;
        assert_eq!(general!(ep, control, FI_ENABLE as c_int, null_mut()), -Code::NO_AV.0);
        assert_eq!(general!(ep, bind, node.av.cast(), 0), 0);
        assert_eq!(general!(ep, control, FI_ENABLE as c_int, null_mut()), -Code::NO_CQ.0);
        assert_eq!(general!(ep, bind, node.cq.cast(), FI_TRANSMIT | FI_RECV), 0);
        assert_eq!(general!(ep, bind, node.sends.cast(), FI_SEND), 0);
        assert_eq!(general!(ep, bind, node.receives.cast(), FI_RECV), 0);
        assert_eq!(
            general!(ep, bind, node.receives.cast(), FI_REMOTE_WRITE),
            -Code::NO_SYS.0,
            "what peers do is not counted"
        );
        assert_eq!(
            call!(ep, msg, send, null(), 0, null_mut(), 0, null_mut()),
            minus(Code::BAD_STATE)
        );
        assert_eq!(general!(ep, control, FI_ENABLE as c_int, null_mut()), 0);
        node
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
        assert_eq!(general!(self.cq, close), -Code::BUSY.0, "the endpoint reports there");
        for object in [
            self.ep.cast::<fid>(),
            self.cq.cast(),
            self.av.cast(),
            self.sends.cast(),
            self.receives.cast(),
            self.domain.cast(),
        ] {
            assert_eq!(general!(object, close), 0);
        }
    }
}

/// Two endpoints that know each other and themselves.
struct Pair {
    net: Network,
    a: Node,
    b: Node,
    to_b: u64,
    to_a: u64,
}

impl Pair {
    fn new() -> Self {
        Self::with(0, FI_DIRECTED_RECV)
    }

    fn with(tx_flags: u64, caps: u64) -> Self {
        Self::having(tx_flags, caps, false)
    }

    fn having(tx_flags: u64, caps: u64, auto: bool) -> Self {
        let net = Network::new(1, Faults { delay: Duration::from_micros(5), ..Faults::default() });
        let [a, b] = [1, 2].map(|seed| Node::open(&net, seed, tx_flags, caps, auto));
        // Each is the other's second, so that numbers are no accident.
        a.insert(&a.name());
        b.insert(&b.name());
        let (to_b, to_a) = (a.insert(&b.name()), b.insert(&a.name()));
        Self { net, a, b, to_b, to_a }
    }

    /// Waits for the next completion of a node, or the error that reading it gives.
    fn next(&self, node: &Node) -> Result<(fi_cq_tagged_entry, u64), isize> {
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

    fn done(&self, node: &Node, flags: u64, expected: *mut c_void) -> (fi_cq_tagged_entry, u64) {
        let (entry, source) = self.next(node).unwrap_or_else(|code| {
            panic!("{code}: {}", if code == minus(Code::AVAILABLE) { node.error().err } else { 0 })
        });
        assert_eq!((entry.flags, entry.op_context), (flags, expected));
        (entry, source)
    }

    fn failed(&self, node: &Node, code: Code, expected: *mut c_void) -> fi_cq_err_entry {
        match self.next(node) {
            Ok((entry, _)) => panic!("context {:?} did not fail", entry.op_context),
            Err(error) => assert_eq!(error, minus(Code::AVAILABLE)),
        }
        let entry = node.error();
        assert_eq!((Code(entry.err), entry.op_context), (code, expected));
        entry
    }

    /// Closing waits in real time for the farewells of a network whose time stands still.
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

#[test]
fn tagged_and_untagged_messages_of_all_sizes_arrive_where_they_belong() {
    let p = Pair::new();
    for (n, len) in [0, 1, 1468, 5000, 40_000, 300_000].into_iter().enumerate() {
        let (tagged, plain) = (body(len, n), body(len, n + 50));
        let (mut first, mut second) = (vec![0; len], vec![0; len]);
        let to = p.to_b;
        let (ta, pa) = (tagged.as_ptr().cast(), plain.as_ptr().cast());
        let data = 1 << 63 | n as u64;
        assert_eq!(
            call!(p.a.ep, tagged, senddata, ta, len, null_mut(), data, to, 7, context(1)),
            0
        );
        assert_eq!(call!(p.a.ep, msg, send, pa, len, null_mut(), to, context(2)), 0);
        let into = second.as_mut_ptr().cast();
        assert_eq!(call!(p.b.ep, msg, recv, into, len, null_mut(), UNSPECIFIED, context(3)), 0);
        let into = first.as_mut_ptr().cast();
        let from = p.to_a;
        assert_eq!(call!(p.b.ep, tagged, recv, into, len, null_mut(), from, 7, 0, context(4)), 0);
        for _ in 0..2 {
            let (entry, source) = p.next(&p.b).ok().unwrap();
            assert_eq!((source, entry.len), (p.to_a, len));
            if entry.op_context == context(3) {
                assert_eq!((entry.flags, entry.buf), (RECV, second.as_mut_ptr().cast()));
            } else {
                assert_eq!((entry.flags, entry.data), (TRECV | FI_REMOTE_CQ_DATA, data));
                assert_eq!((entry.op_context, entry.tag), (context(4), 7));
            }
        }
        let mut ended = [0; 2].map(|_| p.next(&p.a).ok().unwrap().0);
        ended.sort_by_key(|entry| entry.op_context);
        assert_eq!(ended.map(|entry| entry.flags), [TSEND, SEND]);
        assert!(first == tagged && second == plain, "{len}");
    }
    assert_eq!(call!(p.a.sends, ops, read), 12);
    assert_eq!(call!(p.b.receives, ops, read), 12);
    assert_eq!(call!(p.b.receives, ops, wait, 12, 0), 0);
    assert_eq!(call!(p.b.receives, ops, wait, 13, 0), -Code::TIMED_OUT.0);
    p.close();
}

#[test]
fn what_is_refused_while_the_interface_is_down_is_not_sent() {
    let p = Pair::new();
    let (sent, mut first, mut second) = ([7_u8; 8], [0_u8; 8], [0_u8; 8]);
    let data = sent.as_ptr().cast();
    for (into, n) in [(&mut first, 1), (&mut second, 2)] {
        let into = into.as_mut_ptr().cast();
        assert_eq!(call!(p.b.ep, msg, recv, into, 8, null_mut(), UNSPECIFIED, context(n)), 0);
    }
    let port = p.net.port_of(gigae::MacAddr([2, 0, 0, 0, 0, 1])).unwrap();
    p.net.set_down(port, true);
    // Whoever is told that it was not sent sends it again.
    let send = || call!(p.a.ep, msg, send, data, 8, null_mut(), p.to_b, context(3));
    let refused = send() != 0;
    p.net.set_down(port, false);
    if refused {
        assert_eq!(send(), 0);
    }
    p.done(&p.a, SEND, context(3));
    p.done(&p.b, RECV, context(1));
    for _ in 0..1_000 {
        assert_eq!(p.b.read().err(), Some(minus(Code::AGAIN)), "it came twice");
        assert_eq!(p.a.read().err(), Some(minus(Code::AGAIN)), "it ended twice");
        p.net.advance_to(p.net.now() + 1_000);
    }
    assert_eq!((first, second), (sent, [0; 8]));
    p.close();
}

#[test]
fn what_is_injected_is_copied_and_not_reported_and_what_is_too_long_is_refused() {
    let p = Pair::with(0, 0);
    let mut sent = body(4096, 1);
    let mut got = vec![0; 4096];
    let into = got.as_mut_ptr().cast();
    assert_eq!(call!(p.a.ep, msg, injectdata, sent.as_ptr().cast(), 4096, 9, p.to_b), 0);
    assert_eq!(
        call!(p.a.ep, msg, inject, sent.as_ptr().cast(), 4097, p.to_b),
        minus(Code::TOO_LONG)
    );
    sent.fill(0);
    // A source does not matter to an endpoint that was not asked to look at it.
    assert_eq!(call!(p.b.ep, msg, recv, into, 4096, null_mut(), 77, context(1)), 0);
    let (entry, _) = p.done(&p.b, RECV | FI_REMOTE_CQ_DATA, context(1));
    assert_eq!((entry.len, entry.data), (4096, 9));
    assert!(got == body(4096, 1));
    // Complete at once, for a caller who only wants the memory back.
    let one = [1_u8; 8];
    assert_eq!(
        call!(p.a.ep, tagged, send, one.as_ptr().cast(), 8, null_mut(), p.to_b, 1, context(2)),
        0
    );
    let (entry, _) = p.a.read().ok().unwrap();
    assert_eq!((entry.op_context, entry.flags), (context(2), TSEND));
    assert!(p.a.read().is_err_and(|code| code == minus(Code::AGAIN)), "once");
    p.close();
}

#[test]
fn truncated_cancelled_and_lost_operations_say_why() {
    let p = Pair::new();
    let (long, mut short) = (body(100, 1), [0_u8; 60]);
    let into = short.as_mut_ptr().cast::<c_void>();
    assert_eq!(call!(p.b.ep, tagged, recv, into, 60, null_mut(), UNSPECIFIED, 1, 0, context(1)), 0);
    assert_eq!(call!(p.a.ep, tagged, inject, long.as_ptr().cast(), 100, p.to_b, 1), 0);
    let entry = p.failed(&p.b, Code::TRUNCATED, context(1));
    assert_eq!((entry.len, entry.olen, entry.tag), (60, 40, 1));
    assert_eq!(short, long[..60]);

    assert_eq!(call!(p.b.ep, tagged, recv, into, 60, null_mut(), UNSPECIFIED, 2, 0, context(2)), 0);
    // SAFETY: an open endpoint.
    let cancel = unsafe { (*(*p.b.ep).ops).cancel.unwrap() };
    // SAFETY: likewise.
    unsafe {
        assert_eq!(cancel(p.b.ep.cast(), context(3)), minus(Code::NO_ENTRY));
        assert_eq!(cancel(p.b.ep.cast(), context(2)), 0);
        assert_eq!(cancel(p.b.ep.cast(), context(2)), minus(Code::NO_ENTRY));
    }
    p.failed(&p.b, Code::CANCELED, context(2));

    let Pair { net, a, b, to_b, .. } = p;
    b.close();
    let sent = body(100_000, 1);
    // It has said that it is gone; from then on there is nobody.
    for why in [FI_ECONNRESET, FI_EHOSTUNREACH] {
        let data = sent.as_ptr().cast();
        assert_eq!(call!(a.ep, msg, send, data, 100_000, null_mut(), to_b, context(4)), 0);
        let error = loop {
            match a.read() {
                Err(code) if code == minus(Code::AGAIN) => net.advance_to(net.now() + 100_000),
                Err(code) => break code,
                Ok(_) => panic!("nobody is there"),
            }
        };
        assert_eq!(error, minus(Code::AVAILABLE));
        let entry = a.error();
        let code = Code(why as c_int);
        assert_eq!((Code(entry.err), entry.op_context, entry.flags), (code, context(4), SEND));
    }
    a.close();
}

#[test]
fn one_memory_takes_several_messages_until_too_little_is_left() {
    let p = Pair::new();
    let least = 50_usize;
    // SAFETY: an open endpoint, and a number.
    unsafe {
        let setopt = (*(*p.b.ep).ops).setopt.unwrap();
        let (level, name) = (FI_OPT_ENDPOINT as c_int, FI_OPT_MIN_MULTI_RECV as c_int);
        assert_eq!(setopt(p.b.ep.cast(), level, name, (&raw const least).cast(), 8), 0);
    }
    let mut memory = vec![0_u8; 250];
    let base = memory.as_mut_ptr();
    let piece = one(base.cast(), 250);
    // SAFETY: plain numbers and pointers.
    let mut msg: fi_msg = unsafe { zeroed() };
    (msg.msg_iov, msg.iov_count, msg.addr, msg.context) = (&piece, 1, UNSPECIFIED, context(5));
    assert_eq!(call!(p.b.ep, msg, recvmsg, &msg, FI_MULTI_RECV | FI_COMPLETION), 0);
    for n in 0..3 {
        let sent = body(70, n);
        assert_eq!(call!(p.a.ep, msg, inject, sent.as_ptr().cast(), 70, p.to_b), 0);
    }
    for n in 0..3 {
        let last = if n == 2 { FI_MULTI_RECV } else { 0 };
        let (entry, _) = p.done(&p.b, RECV | last, context(5));
        // SAFETY: within the memory.
        assert_eq!((entry.buf, entry.len), (unsafe { base.add(70 * n) }.cast(), 70));
    }
    assert_eq!(memory[..210], [body(70, 0), body(70, 1), body(70, 2)].concat());
    p.close();
}

#[test]
fn a_message_is_peeked_at_claimed_and_discarded() {
    let p = Pair::new();
    // SAFETY: plain numbers and pointers.
    let mut msg: fi_msg_tagged = unsafe { zeroed() };
    (msg.addr, msg.tag, msg.ignore, msg.context) = (UNSPECIFIED, 0, 0xff, context(1));
    assert_eq!(call!(p.b.ep, tagged, recvmsg, &msg, FI_PEEK), 0);
    p.failed(&p.b, Code::NO_MESSAGE, context(1));
    for n in 0..3 {
        let sent = body(40_000, n);
        let (data, len) = (sent.as_ptr().cast(), 40_000);
        assert_eq!(
            call!(p.a.ep, tagged, send, data, len, null_mut(), p.to_b, n as u64, context(9)),
            0
        );
        std::mem::forget(sent);
    }
    for _ in 0..100 {
        p.net.advance_to(p.net.now() + 1_000);
        assert_eq!(p.a.read().err(), Some(minus(Code::AGAIN)), "nobody has received them");
        assert_eq!(p.b.read().err(), Some(minus(Code::AGAIN)));
    }
    for flags in [FI_PEEK, FI_PEEK | FI_DISCARD, FI_PEEK | FI_CLAIM] {
        assert_eq!(call!(p.b.ep, tagged, recvmsg, &msg, flags), 0);
        let (entry, source) = p.done(&p.b, TRECV, context(1));
        let first = u64::from(flags == FI_PEEK | FI_CLAIM);
        assert_eq!((entry.tag, entry.len, source), (first, 40_000, p.to_a), "{flags:x}");
    }
    // The claimed one is nobody else's.
    let (mut other, mut own) = (vec![0_u8; 40_000], vec![0_u8; 30_000]);
    let into = other.as_mut_ptr().cast();
    assert_eq!(
        call!(p.b.ep, tagged, recv, into, 40_000, null_mut(), p.to_a, 0, 0xff, context(2)),
        0
    );
    let (entry, _) = p.done(&p.b, TRECV, context(2));
    assert_eq!(entry.tag, 2);
    assert!(other == body(40_000, 2));
    let piece = one(own.as_mut_ptr().cast(), 30_000);
    (msg.msg_iov, msg.iov_count) = (&piece, 1);
    assert_eq!(call!(p.b.ep, tagged, recvmsg, &msg, FI_CLAIM), 0);
    let entry = p.failed(&p.b, Code::TRUNCATED, context(1));
    assert_eq!((entry.len, entry.olen, entry.tag), (30_000, 10_000, 1));
    assert!(own == body(40_000, 1)[..30_000]);
    assert_eq!(call!(p.b.ep, tagged, recvmsg, &msg, FI_CLAIM), minus(Code::NO_MESSAGE));
    p.close();
}

/// A memory of `b` that `a` may use in all ways.
fn register(p: &Pair, memory: &mut [u8], access: u64) -> *mut fid_mr {
    let mut mr = null_mut();
    let (data, len) = (memory.as_mut_ptr().cast(), memory.len());
    // SAFETY: an open domain; the memory outlives the region.
    let reg = unsafe { (*(*p.b.domain).mr).reg.unwrap() };
    // SAFETY: likewise.
    let code = unsafe { reg(p.b.domain.cast(), data, len, access, 0, 0, 0, &mut mr, null_mut()) };
    assert_eq!(code, 0);
    mr
}

#[test]
fn remote_memory_is_written_read_and_changed_and_refusals_say_why() {
    let p = Pair::new();
    let mut memory = vec![0_u8; 100_000];
    let base = memory.as_mut_ptr();
    let mr = register(&p, &mut memory, FI_REMOTE_READ | FI_REMOTE_WRITE);
    // SAFETY: an open region.
    let key = unsafe { (*mr).key };
    let (sent, mut got) = (body(50_000, 3), vec![0_u8; 50_000]);
    let (data, to) = (sent.as_ptr().cast::<c_void>(), p.to_b);
    let write = FI_RMA | FI_WRITE;
    assert_eq!(
        call!(p.a.ep, rma, writedata, data, 50_000, null_mut(), 5, to, 8, key, context(1)),
        0
    );
    p.done(&p.a, write, context(1));
    let told = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
    let (entry, _) = p.done(&p.b, told, null_mut());
    assert_eq!((entry.len, entry.data), (50_000, 5));
    let into = got.as_mut_ptr().cast();
    assert_eq!(call!(p.a.ep, rma, read, into, 50_000, null_mut(), to, 8, key, context(2)), 0);
    p.done(&p.a, FI_RMA | FI_READ, context(2));
    assert!(got == sent);

    let (mut before, operand, expected) = (0_u64, 5_u64, 7_u64);
    let at = (&raw mut before).cast();
    let operand = (&raw const operand).cast();
    // SAFETY: within the memory, which nobody uses at this moment.
    unsafe { base.cast::<u64>().write_unaligned(2_u64.to_le()) };
    let add = |before, n| {
        call!(
            p.a.ep,
            atomic,
            readwrite,
            operand,
            1,
            null_mut(),
            before,
            null_mut(),
            to,
            0,
            key,
            FI_UINT64,
            FI_SUM,
            context(n)
        )
    };
    assert_eq!(add(at, 3), 0);
    p.done(&p.a, FI_ATOMIC | FI_READ, context(3));
    // SAFETY: the operation is over.
    assert_eq!(unsafe { at.cast::<u64>().read() }, 2);
    let swap = |n| {
        call!(
            p.a.ep,
            atomic,
            compwrite,
            operand,
            1,
            null_mut(),
            (&raw const expected).cast(),
            null_mut(),
            at,
            null_mut(),
            to,
            0,
            key,
            FI_UINT64,
            FI_CSWAP,
            context(n)
        )
    };
    assert_eq!(swap(4), 0);
    p.done(&p.a, FI_ATOMIC | FI_READ, context(4));
    // SAFETY: likewise.
    let (was, is) = unsafe { (at.cast::<u64>().read(), base.cast::<u64>().read_unaligned()) };
    assert_eq!((was, u64::from_le(is)), (7, 5));
    let refused = call!(
        p.a.ep,
        atomic,
        write,
        operand,
        1,
        null_mut(),
        to,
        0,
        key,
        FI_DOUBLE,
        FI_SUM,
        context(0)
    );
    assert_eq!(refused, minus(Code::NO_SYS));
    let mut count = 0;
    assert_eq!(call!(p.a.ep, atomic, compwritevalid, FI_UINT64, FI_CSWAP, &mut count), 0);
    assert_eq!(count, 1);

    for (offset, key, code) in [(60_000, key, libc::ERANGE), (0, key ^ 1 << 40, FI_ENOKEY as c_int)]
    {
        assert_eq!(
            call!(p.a.ep, rma, write, data, 50_000, null_mut(), to, offset, key, context(6)),
            0
        );
        p.failed(&p.a, Code(code), context(6));
    }
    assert_eq!(general!(mr, close), 0);
    let into = got.as_mut_ptr().cast();
    assert_eq!(call!(p.a.ep, rma, read, into, 8, null_mut(), to, 0, key, context(7)), 0);
    p.failed(&p.a, Code(FI_ENOKEY as c_int), context(7));
    p.close();
}

#[test]
fn messages_to_oneself_arrive() {
    let p = Pair::new();
    let (sent, mut got) = (body(100_000, 1), vec![0_u8; 100_000]);
    let (data, into) = (sent.as_ptr().cast(), got.as_mut_ptr().cast());
    assert_eq!(call!(p.a.ep, tagged, send, data, 100_000, null_mut(), 0, 3, context(1)), 0);
    assert_eq!(call!(p.a.ep, tagged, recv, into, 100_000, null_mut(), 0, 3, 0, context(2)), 0);
    let mut flags = [0; 2].map(|_| p.next(&p.a).ok().unwrap().0.flags);
    flags.sort_unstable();
    assert_eq!(flags, [TRECV, TSEND]);
    assert!(got == sent);
    p.close();
}

#[test]
fn addresses_are_looked_up_removed_and_named_again() {
    let p = Pair::new();
    let (mut name, mut len) = ([0; LEN], LEN);
    assert_eq!(call!(p.a.av, ops, lookup, p.to_b, name.as_mut_ptr().cast(), &mut len), 0);
    assert_eq!((name, len), (p.b.name(), LEN));
    let mut number = p.to_b;
    assert_eq!(call!(p.a.av, ops, remove, &mut number, 1, 0), 0);
    assert_eq!(
        call!(p.a.av, ops, lookup, p.to_b, name.as_mut_ptr().cast(), &mut len),
        -Code::INVALID.0
    );
    assert_eq!(call!(p.a.ep, msg, inject, null(), 0, p.to_b), minus(Code::INVALID));
    let again = p.a.insert(&p.b.name());
    assert_ne!(again, p.to_b);
    assert_eq!(call!(p.b.ep, msg, inject, null(), 0, p.to_a), 0);
    assert_eq!(call!(p.a.ep, msg, recv, null_mut(), 0, null_mut(), again, context(1)), 0);
    let (_, source) = p.done(&p.a, RECV, context(1));
    assert_eq!(source, again);
    // An address that is none is reported by its number and does not stop the others.
    let names = [[b'x'; LEN], p.b.name()];
    let (mut numbers, mut errors) = ([0; 2], [0_i32; 2]);
    let (names, flags) = (names.as_ptr().cast(), FI_SYNC_ERR);
    let context = errors.as_mut_ptr().cast();
    assert_eq!(call!(p.a.av, ops, insert, names, 2, numbers.as_mut_ptr(), flags, context), 1);
    assert_eq!((numbers[0], errors), (u64::MAX, [Code::INVALID.0, 0]));
    let node = c"02:00:00:00:00:07";
    let mut numbers = [0; 2];
    let service = c"10".as_ptr();
    let to = numbers.as_mut_ptr();
    assert_eq!(call!(p.a.av, ops, insertsym, node.as_ptr(), 1, service, 2, to, 0, null_mut()), 2);
    let mut text = [0_u8; 64];
    call!(p.a.av, ops, lookup, numbers[1], name.as_mut_ptr().cast(), &mut len);
    let mut size = text.len();
    call!(p.a.av, ops, straddr, name.as_ptr().cast(), text.as_mut_ptr().cast(), &mut size);
    assert_eq!(text[..size], *b"02:00:00:00:00:07/11\0");
    p.close();
}

#[test]
fn a_domain_has_one_endpoint_and_says_which_atomics_there_are() {
    let p = Pair::new();
    // SAFETY: an empty description, and places to write to.
    unsafe {
        let mut info: fi_info = zeroed();
        let mut second = null_mut();
        let code = ep::open(p.a.domain, &mut info, &mut second, null_mut());
        assert_eq!(code, -Code::BUSY.0);
        let mut attr: fi_atomic_attr = zeroed();
        assert_eq!(atomic::query(p.a.domain, FI_UINT64, FI_SUM, &mut attr, 0), 0);
        assert_eq!((attr.count, attr.size), (1, 8));
        assert_eq!(atomic::query(p.a.domain, FI_DOUBLE, FI_SUM, &mut attr, 0), -Code::NO_SYS.0);
    }
    p.close();
}

#[test]
fn a_program_sleeps_on_a_queue_until_something_is_there_or_somebody_wakes_it() {
    let p = Pair::new();
    let mut fabric = null_mut();
    // SAFETY: an empty description, and a place to write to.
    unsafe {
        let mut attr: fi_fabric_attr = zeroed();
        assert_eq!(crate::fabric::open(&mut attr, &mut fabric, null_mut()), 0);
    }
    let mut fids = [p.b.cq.cast::<fid>()];
    let may_sleep = |fids: *mut *mut fid| call!(fabric, ops, trywait, fids, 1);
    let mut fd = -1;
    assert_eq!(general!(p.b.cq, control, FI_GETWAIT as c_int, (&raw mut fd).cast()), 0);
    let wakes = || {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    };
    assert_eq!(may_sleep(fids.as_mut_ptr()), 0);
    assert!(!wakes());
    let sread = |timeout| call!(p.b.cq, ops, sread, null_mut(), 0, null(), timeout);
    assert_eq!(sread(3), minus(Code::AGAIN), "the time is over");
    assert_eq!(call!(p.b.cq, ops, signal), 0);
    assert!(wakes());
    assert_eq!(sread(-1), minus(Code::AGAIN), "somebody woke it");

    assert_eq!(call!(p.b.ep, msg, recv, null_mut(), 0, null_mut(), UNSPECIFIED, context(1)), 0);
    assert_eq!(may_sleep(fids.as_mut_ptr()), 0);
    assert_eq!(call!(p.a.ep, msg, inject, null(), 0, p.to_b), 0);
    while !wakes() {
        // Counters make progress, but take nothing from queues.
        call!(p.b.receives, ops, read);
        call!(p.a.sends, ops, read);
        p.net.advance_to(p.net.now() + 1_000);
    }
    assert_eq!(may_sleep(fids.as_mut_ptr()), -Code::AGAIN.0, "there is something to read");
    p.done(&p.b, RECV, context(1));
    assert_eq!(general!(fabric, close), 0);
    p.close();
}

#[test]
fn with_automatic_progress_a_peer_answers_while_its_program_does_nothing() {
    let p = Pair::having(0, 0, true);
    let mut memory = vec![0_u8; 64];
    let mr = register(&p, &mut memory, FI_REMOTE_READ);
    // SAFETY: an open region.
    let key = unsafe { (*mr).key };
    let mut got = [1_u8; 64];
    let into = got.as_mut_ptr().cast();
    assert_eq!(call!(p.a.ep, rma, read, into, 64, null_mut(), p.to_b, 0, key, context(1)), 0);
    let end = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        match p.a.read() {
            Ok((entry, _)) => break assert_eq!(entry.op_context, context(1)),
            Err(code) => assert_eq!(code, minus(Code::AGAIN)),
        }
        assert!(std::time::Instant::now() < end, "nobody answers");
        // Real time, for the other's thread; virtual time is slower, lest the peer be taken for lost.
        std::thread::sleep(Duration::from_millis(1));
        p.net.advance_to(p.net.now() + 5_000);
    }
    assert_eq!(got, [0; 64]);
    assert_eq!(general!(mr, close), 0);
    p.close();
}
