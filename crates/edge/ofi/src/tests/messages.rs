//! Messages, tagged and untagged.

use super::*;
use crate::provider::{COPIED_SIZE, MOST_COPIES};
use crate::request::{Call, IoVecs, RequestKind};

#[test]
fn tagged_and_untagged_messages_of_all_sizes_arrive_where_they_belong() {
    let p = EndpointPair::new();
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
fn what_is_injected_is_copied_and_not_reported_and_what_is_too_long_is_refused() {
    let p = EndpointPair::with(0, 0);
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
    let p = EndpointPair::new();
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
    // SAFETY: an open endpoint.
    unsafe {
        assert_eq!(cancel(p.b.ep.cast(), context(3)), minus(Code::NO_ENTRY));
        assert_eq!(cancel(p.b.ep.cast(), context(2)), 0);
        assert_eq!(cancel(p.b.ep.cast(), context(2)), minus(Code::NO_ENTRY));
    }
    p.failed(&p.b, Code::CANCELED, context(2));

    let EndpointPair { net, a, b, to_b, .. } = p;
    b.close();
    let sent = body(100_000, 1);
    // It has said that it is gone; from then on there is no endpoint.
    for why in [FI_ECONNRESET, FI_EHOSTUNREACH] {
        let data = sent.as_ptr().cast();
        assert_eq!(call!(a.ep, msg, send, data, 100_000, null_mut(), to_b, context(4)), 0);
        let error = loop {
            match a.read() {
                Err(code) if code == minus(Code::AGAIN) => net.advance_to(net.now() + 100_000),
                Err(code) => break code,
                Ok(_) => panic!("no endpoint is there"),
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
    let p = EndpointPair::new();
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
fn a_message_that_was_copied_is_complete_before_the_peer_has_done_anything() {
    let p = EndpointPair::new();
    let mut sent: Vec<_> = (0..MOST_COPIES + 2).map(|n| body(COPIED_SIZE, n)).collect();
    let mut long = body(COPIED_SIZE + 1, 9);
    let send = |data: &[u8], n: usize| {
        let (data, len) = (data.as_ptr().cast(), data.len());
        call!(p.a.ep, tagged, send, data, len, null_mut(), p.to_b, 7, context(n))
    };
    assert_eq!(send(&long, 1000), 0);
    for (n, data) in sent.iter_mut().enumerate() {
        assert_eq!(send(data, n), 0);
        let is_complete = match p.a.read() {
            Ok((entry, _)) => entry.op_context == context(n),
            Err(_) => false,
        };
        assert_eq!(is_complete, n < MOST_COPIES, "message {n}");
        // Its memory is the program's again.
        if is_complete {
            data.fill(0);
        }
    }
    let mut got = vec![0_u8; COPIED_SIZE + 1];
    let into = got.as_mut_ptr().cast();
    for n in std::iter::once(9).chain(0..sent.len()) {
        let receive = |p: &EndpointPair| {
            call!(
                p.b.ep,
                tagged,
                recv,
                into,
                COPIED_SIZE + 1,
                null_mut(),
                UNSPECIFIED,
                7,
                0,
                context(1)
            )
        };
        assert_eq!(receive(&p), 0);
        let (entry, _) = p.done(&p.b, TRECV, context(1));
        assert!(got[..entry.len] == body(entry.len, n), "message {n}");
    }
    // Those that were not copied are complete now, too.
    (0..3).for_each(|_| assert!(p.next(&p.a).is_ok()));
    long.fill(0);
    // The memory of the copies is used again.
    for n in 0..3 * MOST_COPIES {
        assert_eq!(send(&sent[0], n), 0);
        let (entry, _) = p.a.read().ok().unwrap();
        assert_eq!(entry.flags, TSEND);
        assert_eq!(
            call!(
                p.b.ep,
                tagged,
                recv,
                into,
                COPIED_SIZE,
                null_mut(),
                UNSPECIFIED,
                7,
                0,
                context(1)
            ),
            0
        );
        p.done(&p.b, TRECV, context(1));
    }
    p.close();
}

/// Posts a memory for several messages.
fn post_several(node: &TestEndpoint, memory: &mut [u8], context: *mut c_void) {
    let piece = one(memory.as_mut_ptr().cast(), memory.len());
    // SAFETY: plain numbers and pointers.
    let mut msg: fi_msg = unsafe { zeroed() };
    (msg.msg_iov, msg.iov_count, msg.addr, msg.context) = (&piece, 1, UNSPECIFIED, context);
    assert_eq!(call!(node.ep, msg, recvmsg, &msg, FI_MULTI_RECV | FI_COMPLETION), 0);
}

#[test]
fn what_is_left_of_a_memory_for_several_messages_is_used_before_the_next_memory() {
    for (len, early) in [(1024, 0), (1024, 20), (20_000, 0), (40_000, 1), (40_000, 0)] {
        let p = EndpointPair::new();
        let count = 24;
        let mut memories = [0; 4].map(|_| vec![0_u8; len * count / 4]);
        let bodies: Vec<_> = (0..count).map(|n| body(len, n)).collect();
        let mut ended = 0;
        let send = |n: usize| {
            let data = bodies[n].as_ptr().cast();
            call!(p.a.ep, msg, send, data, len, null_mut(), p.to_b, context(9))
        };
        // Some are there before any memory is.
        (0..early).for_each(|n| assert_eq!(send(n), 0));
        for _ in 0..100 {
            let _ = p.a.read();
            assert_eq!(p.b.read().err(), Some(minus(Code::AGAIN)));
            p.net.advance_to(p.net.now() + 1_000);
        }
        for (n, memory) in memories.iter_mut().enumerate() {
            post_several(&p.b, memory, context(n));
        }
        (early..count).for_each(|n| assert_eq!(send(n), 0));
        while ended < count {
            let (entry, _) = p.next(&p.b).ok().unwrap();
            let (memory, n) = (ended / (count / 4), ended % (count / 4));
            let last = if n + 1 == count / 4 { FI_MULTI_RECV } else { 0 };
            assert_eq!((entry.op_context, entry.flags), (context(memory), RECV | last), "{ended}");
            assert_eq!(entry.buf, memories[memory][n * len..].as_ptr().cast_mut().cast());
            ended += 1;
        }
        assert_eq!(memories.concat(), bodies.concat());
        p.close();
    }
}

#[test]
fn a_memory_for_several_messages_that_is_cancelled_comes_back_once() {
    let p = EndpointPair::new();
    let (mut memory, sent) = (vec![0_u8; 250], body(70, 1));
    post_several(&p.b, &mut memory, context(5));
    assert_eq!(call!(p.a.ep, msg, inject, sent.as_ptr().cast(), 70, p.to_b), 0);
    p.done(&p.b, RECV, context(5));
    // SAFETY: an open endpoint.
    let cancel = unsafe { (*(*p.b.ep).ops).cancel.unwrap() };
    // SAFETY: an open endpoint.
    let codes = unsafe { [cancel(p.b.ep.cast(), context(5)), cancel(p.b.ep.cast(), context(5))] };
    assert_eq!(codes, [0, minus(Code::NO_ENTRY)]);
    let entry = p.failed(&p.b, Code::CANCELED, context(5));
    assert_eq!(entry.flags, RECV | FI_MULTI_RECV);
    // Less than the least that messages want is not posted at all.
    let piece = one(memory.as_mut_ptr().cast(), 10);
    // SAFETY: plain numbers and pointers.
    let mut msg: fi_msg = unsafe { zeroed() };
    (msg.msg_iov, msg.iov_count, msg.addr) = (&piece, 1, UNSPECIFIED);
    assert_eq!(call!(p.b.ep, msg, recvmsg, &msg, FI_MULTI_RECV), minus(Code::INVALID));
    // Nor is a piece that is not there.
    msg.msg_iov = std::ptr::null();
    assert_eq!(call!(p.b.ep, msg, recvmsg, &msg, FI_MULTI_RECV), minus(Code::INVALID));
    p.close();
}

/// Sends empty messages to `b`, each with its number as data, until one is refused or there are
/// `count`. Returns how many there are then.
fn send_empty(p: &EndpointPair, mut sent: u64, count: u64) -> u64 {
    let nothing = [0_u8; 1];
    let send = |n: u64| call!(p.a.ep, msg, injectdata, nothing.as_ptr().cast(), 0, n, p.to_b);
    while sent < count && send(sent) == 0 {
        sent += 1;
    }
    // Progress, also if no send made any.
    assert_eq!(p.a.read().err(), Some(minus(Code::AGAIN)));
    sent
}

#[test]
fn a_peer_fills_a_queue_that_is_not_read_to_a_bound_and_nothing_is_lost() {
    const COUNT: u64 = 60_000;
    let p = EndpointPair::new();
    let mut memory = vec![0_u8; 250];
    post_several(&p.b, &mut memory, context(5));
    // Until the peer can send no more. Reading the counter makes progress, as does reading a queue
    // for sends, and leaves the receives where they are.
    let (mut sent, mut idle) = (0, 0);
    while idle < 5_000 {
        let before = sent;
        sent = send_empty(&p, sent, COUNT);
        idle = if sent > before { 0 } else { idle + 1 };
        assert_eq!(call!(p.b.sends, ops, read), 0);
        p.net.advance_to(p.net.now() + 1_000);
    }
    // What the queue may hold before the library knows, one poll, and what the library has then.
    let held = p.b.core().lock().reports.rx.as_ref().unwrap().len();
    assert!((16_384..=16_384 + 256 + 16_384).contains(&held), "{held} entries");
    assert!(sent < COUNT, "the rest waits at the sender");
    // In the meantime, what this end sends ends.
    let (long, mut got) = (body(40_000, 1), vec![0_u8; 40_000]);
    let (data, into) = (long.as_ptr().cast(), got.as_mut_ptr().cast());
    assert_eq!(call!(p.a.ep, msg, recv, into, 40_000, null_mut(), UNSPECIFIED, context(1)), 0);
    assert_eq!(call!(p.b.ep, msg, send, data, 40_000, null_mut(), p.to_a, context(2)), 0);
    let has_ended = (0..200_000).any(|_| {
        call!(p.a.receives, ops, read);
        p.net.advance_to(p.net.now() + 1_000);
        call!(p.b.sends, ops, read) == 1
    });
    assert!(has_ended);
    p.done(&p.a, RECV, context(1));
    assert!(got == long);
    // Everything arrives in order once it is read.
    let (mut arrived, mut idle) = (0, 0);
    while arrived < COUNT {
        match p.b.read() {
            Ok((entry, _)) if entry.flags == SEND => assert_eq!(entry.op_context, context(2)),
            Ok((entry, source)) => {
                assert_eq!((entry.flags, entry.data), (RECV | FI_REMOTE_CQ_DATA, arrived));
                assert_eq!((entry.op_context, source), (context(5), p.to_a));
                (arrived, idle) = (arrived + 1, 0);
            }
            Err(code) => {
                assert_eq!(code, minus(Code::AGAIN), "after {arrived} messages");
                assert!(idle < 200_000, "{arrived} of {sent} messages");
                idle += 1;
                sent = send_empty(&p, sent, COUNT);
                p.net.advance_to(p.net.now() + 1_000);
            }
        }
    }
    p.close();
}

/// Messages of 40,000 bytes with the tags 0, 1 and so on, which `b` knows of and has not received.
fn offered(p: &EndpointPair, count: usize) -> Vec<Vec<u8>> {
    let sent: Vec<_> = (0..count).map(|n| body(40_000, n)).collect();
    for (tag, data) in (0..).zip(&sent) {
        let data = data.as_ptr().cast();
        let send = call!(p.a.ep, tagged, send, data, 40_000, null_mut(), p.to_b, tag, context(9));
        assert_eq!(send, 0);
    }
    for _ in 0..100 {
        p.net.advance_to(p.net.now() + 1_000);
        assert_eq!(p.a.read().err(), Some(minus(Code::AGAIN)), "no receive has taken them");
        assert_eq!(p.b.read().err(), Some(minus(Code::AGAIN)));
    }
    sent
}

#[test]
fn a_message_is_peeked_at_claimed_and_discarded() {
    let p = EndpointPair::new();
    // SAFETY: plain numbers and pointers.
    let mut msg: fi_msg_tagged = unsafe { zeroed() };
    (msg.addr, msg.tag, msg.ignore, msg.context) = (UNSPECIFIED, 0, 0xff, context(1));
    for flags in [FI_PEEK, FI_PEEK | FI_DISCARD, FI_PEEK | FI_CLAIM] {
        assert_eq!(call!(p.b.ep, tagged, recvmsg, &msg, flags), 0);
        p.failed(&p.b, Code::NO_MESSAGE, context(1));
    }
    // None of these waits for a message.
    assert_eq!(call!(p.b.ep, tagged, recvmsg, &msg, FI_CLAIM), minus(Code::NO_MESSAGE));
    assert_eq!(p.b.core().lock().endpoint.outstanding(), 0);
    let _sent = offered(&p, 3);
    for flags in [FI_PEEK, FI_PEEK | FI_DISCARD, FI_PEEK | FI_CLAIM] {
        assert_eq!(call!(p.b.ep, tagged, recvmsg, &msg, flags), 0);
        let (entry, source) = p.done(&p.b, TRECV, context(1));
        let first = u64::from(flags == FI_PEEK | FI_CLAIM);
        assert_eq!((entry.tag, entry.len, source), (first, 40_000, p.to_a), "{flags:x}");
    }
    // No other receive gets the claimed one.
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

#[test]
fn a_message_that_is_being_discarded_is_not_taken_for_one_that_was_claimed_with_its_context() {
    // Discarded without a claim, and after one.
    for discards in [&[FI_PEEK | FI_DISCARD][..], &[FI_PEEK | FI_CLAIM, FI_CLAIM | FI_DISCARD]] {
        let p = EndpointPair::new();
        let sent = offered(&p, 2);
        // SAFETY: plain numbers and pointers.
        let mut msg: fi_msg_tagged = unsafe { zeroed() };
        (msg.addr, msg.tag, msg.ignore, msg.context) = (UNSPECIFIED, 0, 0xff, context(1));
        for &flags in discards.iter().chain(&[FI_PEEK | FI_CLAIM]) {
            assert_eq!(call!(p.b.ep, tagged, recvmsg, &msg, flags), 0);
            // At once, so the context is free.
            assert_eq!(p.b.read().unwrap().0.op_context, context(1));
        }
        let mut got = vec![0_u8; 40_000];
        let piece = one(got.as_mut_ptr().cast(), 40_000);
        (msg.msg_iov, msg.iov_count) = (&piece, 1);
        assert_eq!(call!(p.b.ep, tagged, recvmsg, &msg, FI_CLAIM), 0);
        let (entry, _) = p.done(&p.b, TRECV, context(1));
        assert_eq!((entry.tag, entry.len), (1, 40_000));
        assert!(got == sent[1]);
        p.close();
    }
}

#[test]
fn messages_to_oneself_arrive() {
    let p = EndpointPair::new();
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
fn what_is_refused_while_the_interface_is_down_is_not_sent() {
    let p = EndpointPair::new();
    let (sent, mut first, mut second) = ([7_u8; 8], [0_u8; 8], [0_u8; 8]);
    let data = sent.as_ptr().cast();
    for (into, n) in [(&mut first, 1), (&mut second, 2)] {
        let into = into.as_mut_ptr().cast();
        assert_eq!(call!(p.b.ep, msg, recv, into, 8, null_mut(), UNSPECIFIED, context(n)), 0);
    }
    let port = p.net.port_of(gigae::MacAddr([2, 0, 0, 0, 0, 1])).unwrap();
    p.net.set_down(port, true);
    // A program that learns that it was not sent sends it again.
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
fn a_message_that_was_not_started_has_not_ended() {
    let p = EndpointPair::new();
    let (sent, mut got) = ([7_u8; 8], [0_u8; 8]);
    let piece = one(sent.as_ptr().cast(), 8);
    // As the library refuses when 1,048,576 operations are going on.
    let refused = {
        let mut state = p.a.core().lock();
        let call = Call::new(context(1), 0);
        // SAFETY: one piece of memory that stays.
        let request = unsafe {
            state.outgoing(RequestKind::Send, call, SEND, IoVecs::new(&piece, 1)).unwrap()
        };
        state.start(request, |_, memory| Err(gigae::OperationError(Some(memory))))
    };
    assert_eq!(refused, Err(Code::AGAIN));
    assert_eq!(p.a.read().err(), Some(minus(Code::AGAIN)), "it was refused and has ended");
    // A refused program tries again, and gets one completion.
    let into = got.as_mut_ptr().cast();
    assert_eq!(call!(p.b.ep, msg, recv, into, 8, null_mut(), UNSPECIFIED, context(2)), 0);
    assert_eq!(call!(p.a.ep, msg, send, piece.iov_base, 8, null_mut(), p.to_b, context(1)), 0);
    let (entry, _) = p.done(&p.a, SEND, context(1));
    assert_eq!(entry.len, 8);
    p.done(&p.b, RECV, context(2));
    assert_eq!(p.a.read().err(), Some(minus(Code::AGAIN)));
    assert_eq!(got, sent);
    p.close();
}

#[test]
fn a_memory_for_several_messages_may_have_the_number_of_one_whose_completions_wait() {
    // Numbers of operations come again after 4,094 uses of a place.
    for count in 4_088..4_100 {
        let p = EndpointPair::new();
        let mut memories = [64, 16_384, 64].map(|len| vec![0_u8; len]);
        let [first, second, third] = &mut memories;
        let mut sent = 0;
        let mut send = |len: usize| {
            let message = body(len, 1);
            assert_eq!(call!(p.a.ep, msg, inject, message.as_ptr().cast(), len, p.to_b), 0);
            sent += 1;
            p.taken_in(|endpoint| endpoint.usage().operations.completions == sent);
        };
        post_several(&p.b, first, context(1));
        post_several(&p.b, second, context(2));
        // They fill the first memory, whose number is free then, and part of the second.
        send(64);
        (0..count).for_each(|_| send(1));
        post_several(&p.b, third, context(3));
        let rest = body(16_384 - count, 1);
        let (data, len) = (rest.as_ptr().cast(), rest.len());
        assert_eq!(call!(p.a.ep, msg, send, data, len, null_mut(), p.to_b, context(9)), 0);
        assert_eq!(call!(p.a.ep, msg, inject, data, 64, p.to_b), 0);
        p.done(&p.b, RECV | FI_MULTI_RECV, context(1));
        for _ in 0..count {
            p.done(&p.b, RECV, context(2));
        }
        p.done(&p.b, RECV | FI_MULTI_RECV, context(2));
        p.done(&p.b, RECV | FI_MULTI_RECV, context(3));
        p.done(&p.a, SEND, context(9));
        p.close();
    }
}
