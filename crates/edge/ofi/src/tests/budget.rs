//! What an operation may cost in the provider and the library below it: no allocation once warm.
//!
//! Messages and accesses to oneself take the whole way but for frames on a link, of which the
//! simulated one allocates each. That the links' own ways allocate nothing is shown by the budget
//! of the library.

#[path = "../../../../lib/gigae/tests/heap/mod.rs"]
mod heap;

use super::*;
/// Rounds that may allocate, and rounds that may not. A receiver says only once per 32 KiB of short
/// messages what it has taken.
const WARM: u64 = 2000;
const COUNTED: u64 = 1000;

/// How often what happens in a round, and ends with `ends` entries in the queue, allocates once
/// warm.
fn allocations(p: &EndpointPair, mut start: impl FnMut(), ends: usize) -> u64 {
    let mut rounds = |count| {
        for _ in 0..count {
            start();
            let mut seen = 0;
            while seen < ends {
                match p.a.read() {
                    Ok(_) => seen += 1,
                    Err(code) => assert_eq!(code, minus(Code::AGAIN)),
                }
            }
        }
    };
    rounds(WARM);
    heap::allocations(|| rounds(COUNTED))
}

#[test]
fn once_warm_no_operation_allocates() {
    let p = EndpointPair::new();
    let boxed = heap::allocations(|| drop(std::hint::black_box(Box::new(0_u64))));
    assert_eq!(boxed, 1, "allocations are counted");

    let (sent, mut got) = (body(40_000, 1), vec![0_u8; 40_000]);
    let (data, into) = (sent.as_ptr().cast::<c_void>(), got.as_mut_ptr().cast::<c_void>());
    // A short message, one that is not copied when it is handed over, and one that is pulled.
    for len in [8, 20_000, 40_000] {
        let tagged = || {
            let from = UNSPECIFIED;
            let code = call!(p.a.ep, tagged, recv, into, len, null_mut(), from, 7, 0, context(1));
            assert_eq!(code, 0);
            assert_eq!(call!(p.a.ep, tagged, send, data, len, null_mut(), 0, 7, context(2)), 0);
        };
        assert_eq!(allocations(&p, tagged, 2), 0, "tagged, {len} bytes");
        let untagged = || {
            assert_eq!(call!(p.a.ep, msg, recv, into, len, null_mut(), 0, context(1)), 0);
            assert_eq!(call!(p.a.ep, msg, send, data, len, null_mut(), 0, context(2)), 0);
        };
        assert_eq!(allocations(&p, untagged, 2), 0, "untagged, {len} bytes");
    }
    let injected = || {
        assert_eq!(call!(p.a.ep, msg, recv, into, 8, null_mut(), 0, context(1)), 0);
        assert_eq!(call!(p.a.ep, msg, inject, data, 8, 0), 0);
    };
    assert_eq!(allocations(&p, injected, 1), 0, "injected");

    let mut memory = vec![0_u8; 64];
    let mut mr = null_mut();
    // SAFETY: an open domain; the memory outlives the region.
    unsafe {
        let reg = (*(*p.a.domain).mr).reg.unwrap();
        let (at, access) = (memory.as_mut_ptr().cast(), FI_REMOTE_READ | FI_REMOTE_WRITE);
        assert_eq!(reg(p.a.domain.cast(), at, 64, access, 0, 0, 0, &mut mr, null_mut()), 0);
    }
    // SAFETY: an open region.
    let key = unsafe { (*mr).key };
    let accesses = || {
        assert_eq!(call!(p.a.ep, rma, write, data, 64, null_mut(), 0, 0, key, context(1)), 0);
        assert_eq!(call!(p.a.ep, rma, read, into, 64, null_mut(), 0, 0, key, context(2)), 0);
        let (count, op) = (1, FI_SUM);
        let code = call!(
            p.a.ep,
            atomic,
            write,
            data,
            count,
            null_mut(),
            0,
            0,
            key,
            FI_UINT64,
            op,
            context(3)
        );
        assert_eq!(code, 0);
    };
    assert_eq!(allocations(&p, accesses, 3), 0, "remote memory");
    assert_eq!(general!(mr, close), 0);
    p.close();
}
