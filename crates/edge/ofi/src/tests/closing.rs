//! Closing: what is posted is cancelled, and what others need is not closed before them.

use super::*;
use std::sync::Barrier;

/// What is in memory that may not be written to.
const UNTOUCHED: u8 = 0xa5;

/// The next completion of a queue without progress.
fn cancelled(node: &TestEndpoint) -> usize {
    assert_eq!(node.read().err(), Some(minus(Code::AVAILABLE)));
    let entry = node.error();
    assert_eq!(Code(entry.err), Code::CANCELED);
    entry.op_context.addr()
}

#[test]
fn closing_an_endpoint_cancels_what_is_posted_and_writes_to_it_no_more() {
    let p = EndpointPair::having(NodeOptions { manual: true, ..NodeOptions::default() });
    let delay = Duration::from_micros(5);
    // So slow that messages are there in part.
    p.net.set_faults(Faults { delay, rate: 125_000_000, ..Faults::default() });
    let mut theirs = vec![1_u8; 100_000];
    let mr = memory::register(&p, &mut theirs, FI_REMOTE_READ | FI_REMOTE_WRITE);
    // SAFETY: an open region.
    let key = unsafe { (*mr).key };
    // The end that closes is `a`; `b` sends, and has the memory that `a` reads.
    let mut memories = [0; 7].map(|_| vec![UNTOUCHED; 100_000]);
    let at: [*mut c_void; 7] = memories.each_mut().map(|memory| memory.as_mut_ptr().cast());
    let sent = body(100_000, 1);
    let data = sent.as_ptr().cast();
    let (ep, any) = (p.a.ep, UNSPECIFIED);
    // One in parts, one that is pulled, one each that nothing has come for.
    for (n, tag) in [(0, 1), (1, 2), (2, 3)] {
        let recv = call!(ep, tagged, recv, at[n], 100_000, null_mut(), any, tag, 0, context(n));
        assert_eq!(recv, 0);
    }
    let piece = one(at[3], 100_000);
    // SAFETY: plain numbers and pointers.
    let mut msg: fi_msg = unsafe { zeroed() };
    (msg.msg_iov, msg.iov_count, msg.addr, msg.context) = (&piece, 1, any, context(3));
    assert_eq!(call!(ep, msg, recvmsg, &msg, FI_MULTI_RECV | FI_COMPLETION), 0);
    assert_eq!(call!(ep, msg, recv, at[4], 100_000, null_mut(), any, context(4)), 0);
    assert_eq!(call!(ep, rma, read, at[5], 100_000, null_mut(), p.to_b, 0, key, context(5)), 0);
    let operand = (&raw const at).cast();
    let changed = call!(
        ep,
        atomic,
        readwrite,
        operand,
        1,
        null_mut(),
        at[6],
        null_mut(),
        p.to_b,
        0,
        key,
        FI_UINT64,
        FI_SUM,
        context(6)
    );
    assert_eq!(changed, 0);
    for (len, tag) in [(30_000, 1), (100_000, 2)] {
        let send = call!(p.b.ep, tagged, send, data, len, null_mut(), p.to_a, tag, context(9));
        assert_eq!(send, 0);
    }
    assert_eq!(call!(p.b.ep, msg, send, data, 30_000, null_mut(), p.to_a, context(9)), 0);
    // Until the first bytes of something are there. What is short may have ended by then.
    let mut ended = Vec::new();
    while memories.iter().all(|memory| memory[0] == UNTOUCHED) {
        match p.a.read() {
            Ok((entry, _)) => ended.push(entry.op_context.addr()),
            Err(code) => assert_eq!(code, minus(Code::AGAIN)),
        }
        let _ = p.b.read();
        p.net.advance_to(p.net.now() + 1_000);
    }
    // More is in flight, and what `b` answers still comes.
    for _ in 0..20 {
        let _ = p.b.read();
        p.net.advance_to(p.net.now() + 1_000);
    }
    let then = memories.clone();
    assert_eq!(general!(ep, close), 0);
    assert!(memories == then, "written to after it was closed");
    let mut given_up = Vec::new();
    loop {
        match p.a.read() {
            Ok((entry, _)) => ended.push(entry.op_context.addr()),
            Err(code) if code == minus(Code::AGAIN) => break,
            Err(_) => given_up.push(cancelled(&p.a)),
        }
    }
    assert!([1, 2, 3, 4].iter().all(|one| given_up.contains(one)), "{given_up:?}");
    ended.append(&mut given_up);
    ended.sort_unstable();
    ended.dedup();
    assert_eq!(ended, [0, 1, 2, 3, 4, 5, 6]);
    let TestEndpoint { domain, cq, av, sends, receives, .. } = p.a;
    for object in [cq.cast::<fid>(), av.cast(), sends.cast(), receives.cast(), domain.cast()] {
        assert_eq!(general!(object, close), 0);
    }
    assert_eq!(general!(mr, close), 0);
    p.b.close();
}

#[test]
fn what_peers_did_before_an_endpoint_is_closed_is_reported() {
    let p = EndpointPair::new();
    let writes = p.b.counter(1);
    assert_eq!(general!(p.b.ep, bind, writes.cast(), FI_REMOTE_WRITE), 0);
    let mut memory = vec![0_u8; 64];
    let mr = memory::register(&p, &mut memory, FI_REMOTE_WRITE);
    // SAFETY: an open region.
    let key = unsafe { (*mr).key };
    memory::write_unseen(&p, key, Some(5));
    let EndpointPair { a, b, to_a, .. } = p;
    assert_eq!(general!(b.ep, close), 0);
    assert_eq!(call!(writes, ops, read), 1);
    let (entry, source) = b.read().unwrap();
    assert_eq!((entry.data, source), (5, to_a));
    let TestEndpoint { domain, cq, av, sends, receives, .. } = b;
    for object in [mr.cast::<fid>(), cq.cast(), av.cast(), sends.cast(), receives.cast()] {
        assert_eq!(general!(object, close), 0);
    }
    for object in [writes.cast::<fid>(), domain.cast()] {
        assert_eq!(general!(object, close), 0);
    }
    a.close();
}

#[test]
fn closing_an_endpoint_closes_its_link_even_if_memory_stays_registered() {
    let p = EndpointPair::new();
    let mut memory = vec![0_u8; 64];
    let mr = memory::register(&p, &mut memory, FI_REMOTE_WRITE);
    // SAFETY: an open region.
    let key = unsafe { (*mr).key };
    assert_eq!(call!(p.a.ep, msg, inject, null(), 0, p.to_b), 0);
    let EndpointPair { net, a, b, to_b, .. } = p;
    let domain = b.domain;
    b.close_endpoint();
    let sent = body(64, 1);
    let data = sent.as_ptr().cast::<c_void>();
    assert_eq!(call!(a.ep, rma, write, data, 64, null_mut(), to_b, 0, key, context(1)), 0);
    let error = loop {
        match a.read() {
            Err(code) if code == minus(Code::AGAIN) => net.advance_to(net.now() + 100_000),
            other => break other.err(),
        }
    };
    assert_eq!(error, Some(minus(Code::AVAILABLE)), "no endpoint is there");
    assert_eq!(memory, [0; 64]);
    assert_eq!(general!(mr, close), 0);
    assert_eq!(general!(domain, close), 0);
    a.close();
}

#[test]
fn what_others_need_is_not_closed_before_them() {
    let p = EndpointPair::new();
    let (mut memory, busy) = (vec![0_u8; 64], -Code::BUSY.0);
    let mr = memory::register(&p, &mut memory, FI_REMOTE_WRITE);
    let counter = p.b.counter(7);
    assert_eq!(general!(mr, bind, counter.cast(), FI_REMOTE_WRITE), 0);
    assert_eq!(general!(mr, bind, p.b.ep.cast(), 0), 0);
    let mut set = null_mut();
    assert_eq!(call!(p.b.domain, ops, poll_open, null_mut(), &mut set), 0);
    assert_eq!(general!(mr, close), busy, "the endpoint was bound to it");
    assert_eq!(general!(counter, close), busy, "the memory counts by it");
    assert_eq!(general!(p.b.av, close), busy);
    let domain = p.b.domain;
    p.b.close_endpoint();
    for object in [mr.cast::<fid>(), counter.cast(), set.cast()] {
        assert_eq!(general!(domain, close), busy);
        assert_eq!(general!(object, close), 0);
    }
    assert_eq!(general!(domain, close), 0);
    p.a.close();

    // A fabric has event queues and domains.
    let (mut fabric, mut events) = (null_mut(), null_mut());
    // SAFETY: an empty description, and a place to write to.
    unsafe {
        let mut attr: fi_fabric_attr = zeroed();
        assert_eq!(fabric::open(&mut attr, &mut fabric, null_mut()), 0);
    }
    assert_eq!(call!(fabric, ops, eq_open, null_mut(), &mut events, null_mut()), 0);
    assert_eq!(general!(fabric, close), busy);
    assert_eq!(general!(events, close), 0);
    assert_eq!(general!(fabric, close), 0);
}

/// Hands an object to another thread.
struct SendPtr<T>(*mut T);

// SAFETY: any thread may use an object.
unsafe impl<T> Send for SendPtr<T> {}

impl<T> SendPtr<T> {
    fn take(self) -> *mut T {
        self.0
    }
}

#[test]
fn an_endpoint_is_closed_though_another_thread_binds_and_closes_memory() {
    let p = EndpointPair::new();
    // Memory takes longer to close if more endpoints have it.
    let others = [(); 4].map(|()| TestEndpoint::within(p.b.domain, NodeOptions::default()));
    let writes = p.b.counter(7);
    let (sent, mut memory) = (body(100_000, 1), vec![0_u8; 64]);
    for round in 0..200 {
        let node = TestEndpoint::within(p.b.domain, NodeOptions::default());
        let (data, to_a) = (sent.as_ptr().cast(), node.insert(&p.a.name()));
        // No receive takes it.
        assert_eq!(call!(node.ep, msg, send, data, 100_000, null_mut(), to_a, context(1)), 0);
        let mr = memory::register(&p, &mut memory, FI_REMOTE_WRITE);
        let (mr, counter) = (SendPtr(mr), SendPtr(writes));
        let (core, barrier) = (Arc::downgrade(node.core()), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mr, counter) = (mr.take(), counter.take());
                barrier.wait();
                // Each time a little later than the endpoint.
                for _ in 0..round % 16 * 30 {
                    std::hint::spin_loop();
                }
                assert_eq!(general!(mr, bind, counter.cast(), FI_REMOTE_WRITE), 0);
                assert_eq!(general!(mr, close), 0);
            });
            barrier.wait();
            assert_eq!(general!(node.ep, close), 0);
            assert_eq!(core.strong_count(), 0, "it still sends from the program's memory");
        });
        let TestEndpoint { cq, av, sends, receives, .. } = node;
        for object in [cq.cast::<fid>(), av.cast(), sends.cast(), receives.cast()] {
            assert_eq!(general!(object, close), 0);
        }
    }
    assert_eq!(general!(writes, close), 0);
    others.into_iter().for_each(TestEndpoint::close_endpoint);
    p.close();
}

#[test]
fn memory_is_closed_while_another_thread_opens_and_closes_endpoints() {
    let p = EndpointPair::new();
    let domain = SendPtr(p.b.domain);
    let mut memories = [(); 16].map(|()| vec![0_u8; 64]);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let domain = domain.take();
            for _ in 0..300 {
                TestEndpoint::within(domain, NodeOptions::default()).close_endpoint();
            }
        });
        while !other.is_finished() {
            let all =
                memories.each_mut().map(|memory| memory::register(&p, memory, FI_REMOTE_WRITE));
            for mr in all {
                assert_eq!(general!(mr, close), 0);
            }
        }
    });
    p.close();
}
