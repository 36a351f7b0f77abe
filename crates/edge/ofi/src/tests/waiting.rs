//! Sleeping, polling, and progress by itself.

use super::*;
use crate::completions::ReadArray;
use crate::counter::Counter;

/// The fabric, which says whether a program may sleep.
fn open_fabric() -> *mut fid_fabric {
    let (mut attr, mut fabric) = (empty(), null_mut());
    // SAFETY: an empty description, and a place to write to.
    assert_eq!(unsafe { fabric::open(&mut attr, &mut fabric, null_mut()) }, 0);
    fabric
}

/// A counter of `b` with a descriptor to sleep on.
fn sleeping_counter(p: &EndpointPair, counted: u64) -> *mut fid_cntr {
    let mut counter = null_mut();
    let mut attr: fi_cntr_attr = empty();
    attr.wait_obj = FI_WAIT_FD;
    assert_eq!(call!(p.b.domain, ops, cntr_open, &mut attr, &mut counter, null_mut()), 0);
    assert_eq!(general!(p.b.ep, bind, counter.cast(), counted), 0);
    counter
}

#[test]
fn a_program_sleeps_on_a_queue_until_something_is_there_or_somebody_wakes_it() {
    let p = EndpointPair::new();
    let fabric = open_fabric();
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
    // Counters make progress, but take nothing from queues.
    while call!(p.b.receives, ops, read) == 0 {
        call!(p.a.sends, ops, read);
        p.net.advance_to(p.net.now() + 1_000);
    }
    assert!(wakes());
    assert_eq!(may_sleep(fids.as_mut_ptr()), -Code::AGAIN.0, "there is something to read");
    p.done(&p.b, RECV, context(1));
    assert_eq!(general!(fabric, close), 0);
    p.close();
}

#[test]
fn a_counter_that_has_changed_since_its_program_looked_is_no_reason_to_sleep() {
    let p = EndpointPair::new();
    let counter = sleeping_counter(&p, FI_REMOTE_WRITE);
    let mut memory = vec![0_u8; 64];
    let mr = memory::register(&p, &mut memory, FI_REMOTE_WRITE);
    // SAFETY: an open region.
    let key = unsafe { (*mr).key };
    // SAFETY: an open counter.
    let inner = unsafe { inner::<_, Counter>(counter).ok().unwrap() };
    let wait = inner.count.wait.as_ref().unwrap();
    // The steps of `Counter::prepare`, and the thread between them.
    assert_eq!(inner.sources.progress(&mut ReadArray::none()), Ok(()));
    memory::write_unseen(&p, key, None);
    let prepared = wait.prepare(|| inner.sources.prepare(), || inner.has_changed());
    assert_eq!(prepared, Err(Code::AGAIN));
    assert_eq!(inner.prepare(), Ok(()));
    assert_eq!(general!(mr, close), 0);
    let EndpointPair { a, b, .. } = p;
    let domain = b.domain;
    a.close();
    b.close_endpoint();
    for object in [counter.cast::<fid>(), domain.cast()] {
        assert_eq!(general!(object, close), 0);
    }
}

#[test]
fn a_counter_that_changed_while_the_program_looked_elsewhere_is_no_reason_to_sleep() {
    let p = EndpointPair::new();
    let fabric = open_fabric();
    let counters = [FI_SEND, FI_RECV].map(|counted| sleeping_counter(&p, counted));
    let [sends, receives] = counters;
    let mut fids = counters.map(|counter| counter.cast::<fid>());
    let may_sleep =
        |fids: &mut [*mut fid]| call!(fabric, ops, trywait, fids.as_mut_ptr(), fids.len() as c_int);
    let mut memory = [0_u8; 4];
    let into = memory.as_mut_ptr().cast();
    let post = |n| {
        let posted = call!(p.b.ep, msg, recv, into, 4, null_mut(), UNSPECIFIED, context(n));
        assert_eq!(posted, 0);
    };
    let send = |len| {
        let data = [1_u8; 8];
        assert_eq!(call!(p.a.ep, msg, inject, data.as_ptr().cast(), len, p.to_b), 0);
        p.net.advance_to(p.net.now() + 10_000);
    };
    post(1);
    send(4);
    // Messages wait at the link from then on until `b` looks.
    p.done(&p.b, RECV, context(1));
    post(2);
    assert_eq!(counters.map(|counter| call!(counter, ops, read)), [0, 1]);
    assert_eq!(may_sleep(&mut fids), 0);

    // The look at the first counter finds what the second counts.
    send(4);
    assert_eq!(may_sleep(&mut fids), -Code::AGAIN.0, "it changed after it was read");
    assert_eq!(may_sleep(&mut fids), 0, "it was said");
    assert_eq!(counters.map(|counter| call!(counter, ops, read)), [0, 2]);

    // The read of the one number finds what changes the other.
    post(3);
    assert_eq!(call!(receives, ops, readerr), 0);
    send(8);
    assert_eq!(call!(receives, ops, read), 2);
    assert_eq!(may_sleep(&mut fids), -Code::AGAIN.0, "no call has read the errors since");
    assert_eq!(call!(receives, ops, readerr), 1);
    assert_eq!(may_sleep(&mut fids), 0);

    assert_eq!(general!(fabric, close), 0);
    let EndpointPair { a, b, .. } = p;
    let domain = b.domain;
    a.close();
    b.close_endpoint();
    for object in [sends.cast::<fid>(), receives.cast(), domain.cast()] {
        assert_eq!(general!(object, close), 0);
    }
}

#[test]
fn a_poll_set_returns_the_queues_and_counters_that_are_ready_a_counter_once() {
    let p = EndpointPair::new();
    let mut set = null_mut();
    assert_eq!(call!(p.b.domain, ops, poll_open, null_mut(), &mut set), 0);
    for object in [p.b.cq.cast::<fid>(), p.b.sends.cast(), p.b.receives.cast()] {
        assert_eq!(call!(set, ops, poll_add, object, 0), 0);
    }
    assert_eq!(call!(set, ops, poll_add, p.b.ep.cast(), 0), -Code::NO_SYS.0);
    assert_eq!(general!(p.b.sends, close), -Code::BUSY.0, "it is in a set");
    let polled = |room: c_int| {
        let mut contexts = [null_mut(); 4];
        let count = call!(set, ops, poll, contexts.as_mut_ptr(), room);
        assert!(count >= 0, "{count}");
        contexts[..count as usize].to_vec()
    };
    assert!(polled(4).is_empty());
    assert_eq!(call!(p.b.ep, msg, recv, null_mut(), 0, null_mut(), UNSPECIFIED, context(1)), 0);
    assert_eq!(call!(p.a.ep, msg, inject, null(), 0, p.to_b), 0);
    let ready = loop {
        // Asking makes progress.
        let ready = polled(4);
        if !ready.is_empty() {
            break ready;
        }
        call!(p.a.sends, ops, read);
        p.net.advance_to(p.net.now() + 1_000);
    };
    assert_eq!(ready, [context(CQ), context(RECEIVES)]);
    assert_eq!(polled(4), [context(CQ)], "the queue was not read");
    assert!(polled(0).is_empty());
    p.done(&p.b, RECV, context(1));
    assert!(polled(4).is_empty());
    for object in [p.b.cq.cast::<fid>(), p.b.sends.cast(), p.b.receives.cast()] {
        assert_eq!(call!(set, ops, poll_del, object, 0), 0);
    }
    assert_eq!(call!(set, ops, poll_del, p.b.cq.cast(), 0), -Code::INVALID.0);
    assert_eq!(general!(set, close), 0);
    p.close();
}
