//! Threads of a program, with each promise that the program can make.

use super::*;
use crate::cq::Queue;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Messages of each thread.
const MESSAGES: usize = 300;

/// An endpoint that threads share.
struct Shared<'a>(&'a TestEndpoint);

// SAFETY: the tests call it as the program promised to.
unsafe impl Sync for Shared<'_> {}

impl Shared<'_> {
    fn node(&self) -> &TestEndpoint {
        self.0
    }
}

fn alone(threads: Threads) -> (Network, TestEndpoint) {
    let net = Network::new(1, Faults::default());
    let node = TestEndpoint::open(&net, 1, NodeOptions { threads, ..NodeOptions::default() });
    node.insert(&node.name());
    (net, node)
}

/// Posts a receive and sends the message for it, to the endpoint itself. Its first completion has
/// the context `n`, its second one `n + 1`.
fn pass(node: &TestEndpoint, n: usize, sent: &[u8; 8], received: &mut [u8; 8]) {
    let (data, into) = (sent.as_ptr().cast(), received.as_mut_ptr().cast());
    let (none, tag) = (null_mut(), n as u64);
    let posted = call!(node.ep, tagged, recv, into, 8, none, UNSPECIFIED, tag, 0, context(n));
    assert_eq!(posted, 0);
    assert_eq!(call!(node.ep, tagged, send, data, 8, none, 0, tag, context(n + 1)), 0);
}

/// Reads up to four entries at once; their contexts.
fn read_some(node: &TestEndpoint) -> Vec<usize> {
    let mut entries = [const { MaybeUninit::<fi_cq_tagged_entry>::uninit() }; 4];
    match call!(node.cq, ops, read, entries.as_mut_ptr().cast(), 4) {
        code if code < 0 => {
            assert_eq!(code, minus(Code::AGAIN));
            Vec::new()
        }
        // SAFETY: that many entries were written.
        count => entries[..count as usize]
            .iter()
            .map(|entry| unsafe { entry.assume_init_ref() }.op_context.addr())
            .collect(),
    }
}

#[test]
fn threads_share_an_endpoint_and_each_completion_is_read_once() {
    let (_net, node) = alone(Threads::Any);
    let (shared, seen) = (Shared(&node), Mutex::new(HashSet::new()));
    let all = 3 * 2 * MESSAGES;
    let read = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 1..4 {
            let (shared, seen, read) = (&shared, &seen, &read);
            scope.spawn(move || {
                let sent: Vec<[u8; 8]> =
                    (0..MESSAGES).map(|n| ((thread << 32) + n).to_le_bytes()).collect();
                let mut received = vec![[0; 8]; MESSAGES];
                let take = || {
                    let contexts = read_some(shared.node());
                    read.fetch_add(contexts.len(), Ordering::Relaxed);
                    for context in contexts {
                        assert!(seen.lock().unwrap().insert(context), "read twice");
                    }
                };
                for (n, (sent, received)) in sent.iter().zip(&mut received).enumerate() {
                    pass(shared.node(), (thread << 20) + 2 * n, sent, received);
                    take();
                }
                while read.load(Ordering::Relaxed) < all {
                    take();
                }
                assert_eq!(received, sent);
            });
        }
    });
    assert_eq!(seen.lock().unwrap().len(), all);
    node.close();
}

#[test]
fn endpoints_of_two_threads_go_on_while_a_third_registers_memory() {
    let (_net, first) = alone(Threads::Completion);
    let options = NodeOptions { threads: Threads::Completion, ..NodeOptions::default() };
    let second = TestEndpoint::within(first.domain, options);
    second.insert(&second.name());
    let (nodes, domain) = ([Shared(&first), Shared(&second)], Shared(&first));
    let (done, registered) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for node in &nodes {
            let (done, registered) = (&done, &registered);
            scope.spawn(move || {
                let mut n = 0;
                while n < MESSAGES || !registered.load(Ordering::Relaxed) {
                    let (sent, mut received) = ((n as u64).to_le_bytes(), [0; 8]);
                    pass(node.node(), 2 * n, &sent, &mut received);
                    let mut ended = Vec::new();
                    while ended.len() < 2 {
                        ended.extend(read_some(node.node()));
                    }
                    ended.sort_unstable();
                    assert_eq!((ended, received), (vec![2 * n, 2 * n + 1], sent));
                    n += 1;
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        let (domain, done, registered) = (&domain, &done, &registered);
        scope.spawn(move || {
            let mut memory = [0_u8; 64];
            let mut rounds = 0;
            while rounds < 200 || done.load(Ordering::Relaxed) < 2 {
                let mr = memory::register_in(domain.node().domain, &mut memory, FI_REMOTE_WRITE, 0)
                    .unwrap();
                assert_eq!(general!(mr, close), 0);
                rounds += 1;
                registered.store(rounds >= 200, Ordering::Relaxed);
            }
        });
    });
    second.close_endpoint();
    first.close();
}

#[test]
fn a_program_that_breaks_its_promise_gets_an_error() {
    for threads in [Threads::Domain, Threads::Completion] {
        let (_net, node) = alone(threads);
        let inside = node.core().lock();
        assert_eq!(call!(node.cq, ops, read, null_mut(), 0), minus(Code::OTHER));
        let sent = call!(node.ep, msg, inject, null(), 0, 0);
        assert_eq!(sent, minus(Code::OTHER));
        drop(inside);
        assert_eq!(call!(node.cq, ops, read, null_mut(), 0), minus(Code::AGAIN));
        node.close();
    }
}

#[test]
fn a_counter_keeps_its_value_for_a_program_that_breaks_its_promise() {
    let (_net, node) = alone(Threads::Domain);
    assert_eq!(call!(node.sends, ops, set, 5), 0);
    let inside = node.core().lock();
    assert_eq!(call!(node.sends, ops, read), 5);
    drop(inside);
    node.close();
}

#[test]
fn entries_that_were_read_are_not_lost_when_a_program_breaks_its_promise() {
    let (_net, node) = alone(Threads::Domain);
    let options = NodeOptions { threads: Threads::Domain, ..NodeOptions::default() };
    let second = TestEndpoint::within(node.domain, options);
    let reports = Arc::clone(second.core());
    // SAFETY: an open queue.
    unsafe { inner::<_, Queue>(node.cq).ok().unwrap() }.sources.follow(&reports, None).unwrap();
    let (sent, mut received) = ([1; 8], [0; 8]);
    pass(&node, 1, &sent, &mut received);
    let inside = second.core().lock();
    let mut ended = Vec::new();
    while ended.len() < 2 {
        ended.extend(read_some(&node));
    }
    assert_eq!((ended.len(), received), (2, sent));
    drop(inside);
    // SAFETY: as above.
    unsafe { inner::<_, Queue>(node.cq).ok().unwrap() }.sources.leave(&reports, None);
    drop(reports);
    second.close_endpoint();
    node.close();
}

#[test]
fn what_a_broken_promise_keeps_from_closing_is_still_open() {
    let (_net, node) = alone(Threads::Domain);
    let mut bytes = [0_u8; 64];
    let mr = memory::register_in(node.domain, &mut bytes, FI_REMOTE_WRITE, 0).unwrap();
    // SAFETY: an open region.
    let key = gigae::RegionKey(unsafe { (*mr).key });
    let inside = node.core().lock();
    assert_eq!(general!(mr, close), -Code::OTHER.0);
    assert!(inside.endpoint.region_writes(key).is_some());
    drop(inside);
    assert_eq!(general!(mr, close), 0);
    assert!(node.core().lock().endpoint.region_writes(key).is_none());

    let core = Arc::clone(node.core());
    let inside = core.lock();
    assert_eq!(general!(node.ep, close), -Code::OTHER.0);
    drop(inside);
    drop(core);
    node.close();
}

#[test]
fn messages_pass_whatever_the_program_promises() {
    for threads in [Threads::Any, Threads::Completion, Threads::Domain] {
        let options = NodeOptions { threads, ..NodeOptions::default() };
        // On a simulated network no poll is an empty one; on a cable most are.
        for p in [EndpointPair::having(options), computing::pair(options)] {
            for len in [8, 100_000] {
                exchange(&p, len);
            }
            p.close();
        }
    }
}

#[test]
fn an_endpoint_is_idle_once_all_is_done_and_not_when_something_has_arrived() {
    let p = computing::pair(NodeOptions { threads: Threads::Domain, ..NodeOptions::default() });
    exchange(&p, 8);
    let is_idle = |node: &TestEndpoint| {
        // One of 64 looks says that it is time to read the clock.
        (0..2).any(|_| node.core().lock().endpoint.is_idle())
    };
    while !is_idle(&p.b) {
        assert_eq!(p.b.read().err(), Some(minus(Code::AGAIN)));
    }
    let data = [1_u8; 8];
    assert_eq!(call!(p.a.ep, msg, inject, data.as_ptr().cast(), 8, p.to_b), 0);
    while is_idle(&p.b) {}
    let mut received = [0_u8; 8];
    let into = received.as_mut_ptr().cast();
    assert_eq!(call!(p.b.ep, msg, recv, into, 8, null_mut(), UNSPECIFIED, context(3)), 0);
    p.done(&p.b, RECV, context(3));
    p.close();
}

/// A message from `a` to `b`.
fn exchange(p: &EndpointPair, len: usize) {
    let (sent, mut received) = (body(len, 1), vec![0; len]);
    let (data, into) = (sent.as_ptr().cast(), received.as_mut_ptr().cast());
    let from = UNSPECIFIED;
    let posted = call!(p.b.ep, tagged, recv, into, len, null_mut(), from, 7, 0, context(1));
    assert_eq!(posted, 0);
    let started = call!(p.a.ep, tagged, send, data, len, null_mut(), p.to_b, 7, context(2));
    assert_eq!(started, 0);
    p.done(&p.b, TRECV, context(1));
    p.done(&p.a, TSEND, context(2));
    assert_eq!(received, sent);
}

#[test]
fn entries_go_straight_to_the_reader_in_their_order_and_errors_wait() {
    let p = EndpointPair::new();
    let mut memory = [[0_u8; 8]; 5];
    for (n, into) in memory.iter_mut().enumerate() {
        // The third memory is too short.
        let (into, len) = (into.as_mut_ptr().cast(), if n == 2 { 4 } else { 8 });
        let posted = call!(p.b.ep, msg, recv, into, len, null_mut(), UNSPECIFIED, context(n));
        assert_eq!(posted, 0);
    }
    let data = [7_u8; 8];
    for _ in 0..5 {
        assert_eq!(call!(p.a.ep, msg, inject, data.as_ptr().cast(), 8, p.to_b), 0);
    }
    let last = memory[4].as_ptr();
    // SAFETY: a byte of the last memory.
    p.taken_in(|_| unsafe { last.read_volatile() } == 7);
    // Two have room in the array, and the third is an error.
    assert_eq!(read_some(&p.b), [0, 1]);
    assert_eq!(p.b.read().err(), Some(minus(Code::AVAILABLE)));
    assert_eq!(p.b.error().op_context, context(2));
    assert_eq!(p.b.read().unwrap().0.op_context, context(3));
    assert_eq!(p.b.read().unwrap().0.op_context, context(4));
    assert_eq!(p.b.read().err(), Some(minus(Code::AGAIN)));
    assert_eq!(memory[0], [7; 8]);
    p.close();
}

#[test]
fn queues_and_counters_of_another_domain_are_refused() {
    let (_net, node) = alone(Threads::Any);
    let (_other_net, other) = alone(Threads::Domain);
    let mut ep = null_mut();
    let mut info: fi_info = empty();
    assert_eq!(call!(node.domain, ops, endpoint, &mut info, &mut ep, null_mut()), 0);
    let queue = general!(ep, bind, other.cq.cast(), FI_TRANSMIT | FI_RECV);
    assert_eq!(queue, -Code::INVALID.0);
    assert_eq!(general!(ep, bind, other.sends.cast(), FI_SEND), -Code::INVALID.0);
    assert_eq!(general!(ep, close), 0);
    let mut set = null_mut();
    assert_eq!(call!(node.domain, ops, poll_open, null_mut(), &mut set), 0);
    for object in [other.cq.cast::<fid>(), other.sends.cast()] {
        assert_eq!(call!(set, ops, poll_add, object, 0), -Code::INVALID.0);
    }
    assert_eq!(general!(set, close), 0);
    node.close();
    other.close();
}

/// Such a counter belongs to all endpoints of the domain, and so to all its threads.
#[test]
fn memory_has_no_counter_where_endpoints_belong_to_threads() {
    let (_net, node) = alone(Threads::Completion);
    let mut bytes = [0_u8; 64];
    let mr = memory::register_in(node.domain, &mut bytes, FI_REMOTE_WRITE, 0).unwrap();
    let bound = general!(mr, bind, node.receives.cast(), FI_REMOTE_WRITE);
    assert_eq!(bound, -Code::NO_SYS.0);
    assert_eq!(general!(mr, close), 0);
    node.close();
}
