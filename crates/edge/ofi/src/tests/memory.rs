//! Remote memory: access, keys, what counters say of it.

use super::*;

/// A memory of `b` that `a` may use in all ways.
pub(super) fn register(p: &EndpointPair, memory: &mut [u8], access: u64) -> *mut fid_mr {
    register_in(p.b.domain, memory, access, 0).unwrap()
}

/// The same under a key, which matters only if keys are the program's.
pub(super) fn register_in(
    domain: *mut fid_domain,
    memory: &mut [u8],
    access: u64,
    key: u64,
) -> Result<*mut fid_mr, Code> {
    let mut mr = null_mut();
    let (data, len) = (memory.as_mut_ptr().cast(), memory.len());
    // SAFETY: an open domain; the memory outlives the region.
    let reg = unsafe { (*(*domain).mr).reg.unwrap() };
    // SAFETY: an open domain; the memory outlives the region.
    match unsafe { reg(domain.cast(), data, len, access, 0, key, 0, &mut mr, null_mut()) } {
        0 => Ok(mr),
        code => Err(Code(-code)),
    }
}

#[test]
fn remote_memory_is_written_read_and_changed_and_refusals_say_why() {
    let p = EndpointPair::new();
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
    let flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
    let (entry, _) = p.done(&p.b, flags, null_mut());
    assert_eq!((entry.len, entry.data), (50_000, 5));
    let into = got.as_mut_ptr().cast();
    assert_eq!(call!(p.a.ep, rma, read, into, 50_000, null_mut(), to, 8, key, context(2)), 0);
    p.done(&p.a, FI_RMA | FI_READ, context(2));
    assert!(got == sent);

    let (mut before, operand, expected) = (0_u64, 5_u64, 7_u64);
    let at = (&raw mut before).cast();
    let operand = (&raw const operand).cast();
    // SAFETY: within the memory, which is not used at this moment.
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
    // SAFETY: the operation is over.
    let (was, is) = unsafe { (at.cast::<u64>().read(), base.cast::<u64>().read_unaligned()) };
    assert_eq!((was, u64::from_le(is)), (7, 5));
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

/// What `fi_atomicvalid` and its like say: the most numbers, or the error.
fn most(p: &EndpointPair, family: u64, datatype: fi_datatype, op: fi_op) -> Result<usize, c_int> {
    let mut count = 0;
    let code = match family {
        0 => call!(p.a.ep, atomic, writevalid, datatype, op, &mut count),
        FI_FETCH_ATOMIC => call!(p.a.ep, atomic, readwritevalid, datatype, op, &mut count),
        _ => call!(p.a.ep, atomic, compwritevalid, datatype, op, &mut count),
    };
    // SAFETY: an empty description.
    let mut attr: fi_atomic_attr = unsafe { zeroed() };
    // SAFETY: an open domain.
    let same = unsafe { atomic::query(p.a.domain, datatype, op, &mut attr, family) };
    assert_eq!((same, attr.count), (code, count));
    if code == 0 { Ok(count) } else { Err(code) }
}

#[test]
fn every_atomic_that_is_said_to_be_there_is_carried_out_and_no_other() {
    let p = EndpointPair::new();
    let mut memory = vec![0_u8; 41];
    let mr = register(&p, &mut memory, FI_REMOTE_WRITE);
    // SAFETY: an open region.
    let key = unsafe { (*mr).key };
    let (to, none) = (p.to_b, null_mut::<c_void>());
    // Pieces of what is given and of what comes back end at different places.
    let list = |bytes: &mut [u8], first: usize, count: usize, size: usize| {
        let at = bytes.as_mut_ptr();
        let ioc = |n: usize, count| fi_ioc { addr: at.wrapping_add(n * size).cast(), count };
        [ioc(0, first), ioc(first, count - first)]
    };
    let mut there = 0;
    for family in [0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC] {
        for (datatype, op) in
            (0..=FI_VOID).flat_map(|kind| (0..=FI_MSWAP).map(move |op| (kind, op)))
        {
            let most = most(&p, family, datatype, op);
            let (before, operand) = ([0x11_u8; 32], &mut [0x22_u8; 32]);
            let (compare, found) = (&mut [0x11_u8; 32], &mut [0_u8; 32]);
            // SAFETY: a region that is not used now.
            unsafe { memory.as_mut_ptr().add(9).copy_from(before.as_ptr(), 32) };
            let count = most.unwrap_or(1);
            let size = 32 / count;
            let first = count / 2;
            let operands = list(operand, first, count, size);
            let compares = list(compare, count - first, count, size);
            let mut results = list(found, 1, count, size);
            let (operands, compares) = (operands.as_ptr(), compares.as_ptr());
            let results = results.as_mut_ptr();
            let at = context(5);
            let code = match family {
                0 => call!(
                    p.a.ep,
                    atomic,
                    writev,
                    operands,
                    none.cast(),
                    2,
                    to,
                    9,
                    key,
                    datatype,
                    op,
                    at
                ),
                FI_FETCH_ATOMIC => call!(
                    p.a.ep,
                    atomic,
                    readwritev,
                    operands,
                    none.cast(),
                    2,
                    results,
                    none.cast(),
                    2,
                    to,
                    9,
                    key,
                    datatype,
                    op,
                    at
                ),
                _ => call!(
                    p.a.ep,
                    atomic,
                    compwritev,
                    operands,
                    none.cast(),
                    2,
                    compares,
                    none.cast(),
                    2,
                    results,
                    none.cast(),
                    2,
                    to,
                    9,
                    key,
                    datatype,
                    op,
                    at
                ),
            };
            if let Err(error) = most {
                assert_eq!(
                    (error, code),
                    (-Code::NO_SYS.0, minus(Code::NO_SYS)),
                    "{datatype} {op}"
                );
                continue;
            }
            assert_eq!(code, 0, "{datatype} {op}");
            let which = if family == 0 { FI_WRITE } else { FI_READ };
            p.done(&p.a, FI_ATOMIC | which, context(5));
            assert_eq!(*found, if family == 0 { [0; 32] } else { before }, "{datatype} {op}");
            if [FI_ATOMIC_WRITE, FI_CSWAP, FI_CSWAP_GE].contains(&op) {
                assert_eq!(memory[9..], *operand, "{datatype} {op}");
            }
            if [FI_ATOMIC_READ, FI_CSWAP_NE, FI_CSWAP_LT].contains(&op) {
                assert_eq!(memory[9..], before, "{datatype} {op}");
            }
            assert_eq!(memory[..9], [0; 9]);
            there += 1;
        }
    }
    // Ten kinds of numbers, of which two have no bits: 11 and 12 operations, 7 that compare.
    assert_eq!(there, 8 * (11 + 12 + 7) + 2 * (8 + 9 + 6));
    // More numbers than that, or another count of what is compared with, is refused.
    let many = [0_u64; 5];
    let data = many.as_ptr().cast();
    assert_eq!(
        call!(p.a.ep, atomic, write, data, 5, none, to, 0, key, FI_UINT64, FI_SUM, none),
        minus(Code::INVALID)
    );
    assert_eq!(general!(mr, close), 0);
    p.close();
}

#[test]
fn keys_are_the_programs_choice_if_it_asks_for_no_others() {
    let p = EndpointPair::having(NodeOptions { own_keys: true, ..NodeOptions::default() });
    let (mut first, mut second) = (vec![0_u8; 64], vec![0_u8; 64]);
    let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    let mr = register_in(p.b.domain, &mut first, access, 0xc0de).unwrap();
    // SAFETY: an open region.
    assert_eq!(unsafe { (*mr).key }, 0xc0de);
    assert_eq!(
        register_in(p.b.domain, &mut second, access, 0xc0de),
        Err(Code::KEY),
        "it is in use"
    );
    let other = register_in(p.b.domain, &mut second, access, 1).unwrap();
    let sent = body(64, 1);
    let data = sent.as_ptr().cast::<c_void>();
    for (key, n) in [(0xc0de, 1), (1, 2)] {
        assert_eq!(call!(p.a.ep, rma, write, data, 64, null_mut(), p.to_b, 0, key, context(n)), 0);
        p.done(&p.a, FI_RMA | FI_WRITE, context(n));
    }
    assert!(first == sent && second == sent);
    assert_eq!(general!(mr, close), 0);
    assert_eq!(call!(p.a.ep, rma, write, data, 64, null_mut(), p.to_b, 0, 0xc0de, context(3)), 0);
    p.failed(&p.a, Code::KEY, context(3));
    let again = register_in(p.b.domain, &mut first, access, 0xc0de).unwrap();
    for mr in [again, other] {
        assert_eq!(general!(mr, close), 0);
    }
    p.close();
}

#[test]
fn what_peers_do_with_memory_is_counted_for_an_endpoint_and_for_one_memory() {
    let p = EndpointPair::new();
    let [writes, reads, own] = [1, 2, 3].map(|number| p.b.counter(number));
    assert_eq!(general!(p.b.ep, bind, writes.cast(), FI_REMOTE_WRITE), 0);
    assert_eq!(general!(p.b.ep, bind, reads.cast(), FI_REMOTE_READ), 0);
    let (mut first, mut second) = (vec![0_u8; 5000], vec![0_u8; 64]);
    let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    let regions = [register(&p, &mut first, access), register(&p, &mut second, access)];
    assert_eq!(general!(regions[0], bind, own.cast(), FI_REMOTE_READ), -Code::NO_SYS.0);
    assert_eq!(general!(regions[0], bind, own.cast(), FI_REMOTE_WRITE), 0);
    // SAFETY: open regions.
    let keys = regions.map(|mr| unsafe { (*mr).key });
    let mut bytes = body(5000, 1);
    let data = bytes.as_mut_ptr().cast::<c_void>();
    for (key, len) in [(keys[0], 5000), (keys[0], 8), (keys[1], 64)] {
        assert_eq!(call!(p.a.ep, rma, write, data, len, null_mut(), p.to_b, 0, key, context(1)), 0);
        p.done(&p.a, FI_RMA | FI_WRITE, context(1));
    }
    for _ in 0..4 {
        assert_eq!(
            call!(p.a.ep, rma, read, data, 64, null_mut(), p.to_b, 0, keys[1], context(2)),
            0
        );
        p.done(&p.a, FI_RMA | FI_READ, context(2));
    }
    // Refused, which counts nothing.
    assert_eq!(call!(p.a.ep, rma, read, data, 65, null_mut(), p.to_b, 0, keys[1], context(3)), 0);
    p.failed(&p.a, Code(libc::ERANGE), context(3));
    let counted = [writes, reads, own].map(|counter| call!(counter, ops, read));
    assert_eq!(counted, [3, 4, 2]);
    for mr in regions {
        assert_eq!(general!(mr, close), 0);
    }
    assert_eq!(general!(p.b.domain, close), -Code::BUSY.0);
    let EndpointPair { a, b, .. } = p;
    let domain = b.domain;
    a.close();
    b.close_endpoint();
    for counter in [writes, reads, own] {
        assert_eq!(general!(domain, close), -Code::BUSY.0, "it has counters");
        assert_eq!(general!(counter, close), 0);
    }
    assert_eq!(general!(domain, close), 0);
}

/// `a` writes into a memory of `b`, with remote data if there are some. The library of `b` has it
/// then, and the provider does not know it yet.
pub(super) fn write_unseen(p: &EndpointPair, key: u64, data: Option<u64>) {
    let (bytes, none) = ([1_u8; 8], null_mut());
    let at = bytes.as_ptr().cast();
    let before = p.b.core().lock().endpoint.accesses().writes;
    let code = match data {
        None => call!(p.a.ep, rma, write, at, 8, none, p.to_b, 0, key, context(1)),
        Some(data) => call!(p.a.ep, rma, writedata, at, 8, none, data, p.to_b, 0, key, context(1)),
    };
    assert_eq!(code, 0);
    p.taken_in(|endpoint| endpoint.accesses().writes > before);
}

#[test]
fn what_peers_did_before_a_counter_is_bound_is_counted_by_those_that_were() {
    let p = EndpointPair::new();
    let [writes, both] = [1, 2].map(|number| p.b.counter(number));
    let mut memory = vec![0_u8; 64];
    let mr = register(&p, &mut memory, FI_REMOTE_WRITE);
    // SAFETY: an open region.
    let key = unsafe { (*mr).key };
    write_unseen(&p, key, None);
    assert_eq!(general!(p.b.ep, bind, writes.cast(), FI_REMOTE_WRITE), 0);
    assert_eq!(call!(writes, ops, read), 0, "it was not bound then");
    write_unseen(&p, key, None);
    assert_eq!(general!(p.b.ep, bind, both.cast(), FI_REMOTE_WRITE | FI_REMOTE_READ), 0);
    assert_eq!([writes, both].map(|counter| call!(counter, ops, read)), [1, 0]);
    write_unseen(&p, key, None);
    assert_eq!([writes, both].map(|counter| call!(counter, ops, read)), [2, 1]);
    assert_eq!(general!(mr, close), 0);
    let EndpointPair { a, b, .. } = p;
    let domain = b.domain;
    a.close();
    b.close_endpoint();
    for object in [writes.cast::<fid>(), both.cast(), domain.cast()] {
        assert_eq!(general!(object, close), 0);
    }
}

#[test]
fn what_peers_did_with_a_memory_is_reported_although_it_is_deregistered() {
    let p = EndpointPair::new();
    let [of_endpoint, of_memory] = [1, 2].map(|number| p.b.counter(number));
    assert_eq!(general!(p.b.ep, bind, of_endpoint.cast(), FI_REMOTE_WRITE), 0);
    let mut memory = vec![0_u8; 64];
    let mr = register(&p, &mut memory, FI_REMOTE_WRITE);
    assert_eq!(general!(mr, bind, of_memory.cast(), FI_REMOTE_WRITE), 0);
    // SAFETY: an open region.
    let key = unsafe { (*mr).key };
    write_unseen(&p, key, Some(5));
    assert_eq!(general!(mr, close), 0);
    assert_eq!([of_endpoint, of_memory].map(|counter| call!(counter, ops, read)), [1, 1]);
    let (entry, source) = p.b.read().unwrap();
    assert_eq!((entry.flags, entry.len), (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, 8));
    assert_eq!((entry.data, source), (5, p.to_a));
    let EndpointPair { a, b, .. } = p;
    let domain = b.domain;
    a.close();
    b.close_endpoint();
    for object in [of_endpoint.cast::<fid>(), of_memory.cast(), domain.cast()] {
        assert_eq!(general!(object, close), 0);
    }
}

#[test]
fn writes_with_data_wait_while_the_queue_that_reports_them_is_full() {
    const COUNT: usize = 40_000;
    let p = EndpointPair::new();
    let mut memory = vec![0_u8; 64];
    let mr = register(&p, &mut memory, FI_REMOTE_WRITE);
    // SAFETY: an open region.
    let key = unsafe { (*mr).key };
    let bytes = [1_u8; 8];
    let (mut started, mut done) = (0, 0);
    let mut write = || {
        let at = bytes.as_ptr().cast();
        while started < COUNT
            && call!(p.a.ep, rma, writedata, at, 8, null_mut(), 5, p.to_b, 0, key, context(1)) == 0
        {
            started += 1;
        }
        while p.a.read().is_ok() {
            done += 1;
        }
        // Makes progress, and takes nothing from the queue.
        assert_eq!(call!(p.b.sends, ops, read), 0);
        p.net.advance_to(p.net.now() + 1_000);
        done
    };
    for _ in 0..100_000 {
        write();
    }
    // What the queue may hold, and what the library answers before its notices are taken.
    let most = 16_384 + 4_096;
    let full = write();
    assert!((16_384..=most).contains(&full), "{full} writes ended");
    // Nor does memory that is deregistered make room for more.
    let mut other = vec![0_u8; 64];
    for _ in 0..100 {
        let mr = register(&p, &mut other, FI_REMOTE_WRITE);
        assert_eq!(general!(mr, close), 0);
        write();
    }
    assert_eq!(write(), full);
    let flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
    let mut read = 0;
    while read < COUNT {
        if let Ok((entry, source)) = p.b.read() {
            assert_eq!((entry.flags, entry.data, source), (flags, 5, p.to_a));
            read += 1;
        } else {
            write();
        }
    }
    while write() < COUNT {}
    assert_eq!(p.b.read().err(), Some(minus(Code::AGAIN)));
    assert_eq!(general!(mr, close), 0);
    p.close();
}

#[test]
fn memory_that_is_registered_before_there_is_an_endpoint_opens_one_once() {
    let net = Network::new(1, Faults::default());
    let opened = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = std::sync::Arc::clone(&opened);
    let opener = Box::new(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Options::new("sim").open_simulated(&net, 1)
    });
    let (mut domain, mut memory) = (null_mut(), [0_u8; 64]);
    // SAFETY: a place to write to.
    unsafe {
        fabric::put_domain(Domain::new(opener, Threads::Any, false, None), &mut domain, null_mut())
            .unwrap()
    };
    for _ in 0..3 {
        let (mut mr, at) = (null_mut(), memory.as_mut_ptr().cast());
        // SAFETY: an open domain; the memory outlives the region.
        let code = unsafe {
            let reg = (*(*domain).mr).reg.unwrap();
            reg(domain.cast(), at, 64, FI_REMOTE_READ, 0, 0, 0, &mut mr, null_mut())
        };
        assert_eq!(code, 0);
        assert_eq!(general!(mr, close), 0);
    }
    // The program's endpoint is that one.
    TestEndpoint::within(domain, NodeOptions::default()).close();
    assert_eq!(opened.load(std::sync::atomic::Ordering::Relaxed), 1);
}
