//! Address vectors, domains, and what is refused.

use super::*;
use crate::cq::Queue;

#[test]
fn addresses_are_looked_up_removed_and_named_again() {
    let p = EndpointPair::new();
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
fn endpoints_of_a_domain_have_addresses_of_their_own_and_the_same_memory() {
    let p = EndpointPair::new();
    let mut bytes = [vec![0_u8; 64], vec![0_u8; 64]];
    let [first, second] = &mut bytes;
    let early = memory::register(&p, first, FI_REMOTE_WRITE);
    let other = TestEndpoint::within(p.b.domain, NodeOptions::default());
    let late = memory::register(&p, second, FI_REMOTE_WRITE);
    assert_ne!(other.name(), p.b.name());
    let to_other = p.a.insert(&other.name());
    let sent = body(64, 1);
    let data = sent.as_ptr().cast::<c_void>();
    // Each has its own messages.
    for (to, node, n) in [(to_other, &other, 1), (p.to_b, &p.b, 2)] {
        let mut got = [0_u8; 64];
        let into = got.as_mut_ptr().cast();
        assert_eq!(call!(node.ep, msg, recv, into, 64, null_mut(), UNSPECIFIED, context(n)), 0);
        assert_eq!(call!(p.a.ep, msg, inject, data, 64, to), 0);
        p.done(node, RECV, context(n));
        assert_eq!(got[..], sent);
    }
    // SAFETY: open regions.
    for key in [early, late].map(|mr| unsafe { (*mr).key }) {
        for to in [p.to_b, to_other] {
            bytes.iter_mut().for_each(|bytes| bytes.fill(0));
            let (write, at) = (FI_RMA | FI_WRITE, context(3));
            assert_eq!(call!(p.a.ep, rma, write, data, 64, null_mut(), to, 0, key, at), 0);
            loop {
                match p.a.read() {
                    Ok((entry, _)) => {
                        break assert_eq!((entry.flags, entry.op_context), (write, at));
                    }
                    Err(code) => assert_eq!(code, minus(Code::AGAIN)),
                }
                assert_eq!(other.read().err(), Some(minus(Code::AGAIN)));
                assert_eq!(p.b.read().err(), Some(minus(Code::AGAIN)));
                p.net.advance_to(p.net.now() + 1_000);
            }
            assert_eq!(bytes.iter().filter(|bytes| **bytes == sent).count(), 1);
        }
    }
    // What is registered stays when an endpoint closes, and the next one is a way to it.
    other.close_endpoint();
    let again = TestEndpoint::within(p.b.domain, NodeOptions::default());
    let to_again = p.a.insert(&again.name());
    bytes.iter_mut().for_each(|bytes| bytes.fill(0));
    // SAFETY: an open region.
    let key = unsafe { (*early).key };
    assert_eq!(call!(p.a.ep, rma, write, data, 64, null_mut(), to_again, 0, key, context(4)), 0);
    while p.a.read().is_err() {
        assert_eq!(again.read().err(), Some(minus(Code::AGAIN)));
        p.net.advance_to(p.net.now() + 1_000);
    }
    assert_eq!(bytes[0], sent);
    again.close_endpoint();
    for mr in [early, late] {
        assert_eq!(general!(mr, close), 0);
    }
    p.close();
}

#[test]
fn an_endpoint_whose_link_is_down_does_not_stop_others_that_report_to_the_same_queue() {
    let p = EndpointPair::new();
    let (mut ep, counter) = (null_mut(), p.a.counter(7));
    let (mut info, mut tx): (fi_info, fi_tx_attr) = (empty(), empty());
    info.tx_attr = &mut tx;
    assert_eq!(call!(p.a.domain, ops, endpoint, &mut info, &mut ep, null_mut()), 0);
    for (object, flags) in [
        (p.a.av.cast::<fid>(), 0),
        (p.a.cq.cast(), FI_TRANSMIT | FI_RECV),
        (counter.cast(), FI_SEND),
    ] {
        assert_eq!(general!(ep, bind, object, flags), 0);
    }
    assert_eq!(general!(ep, control, FI_ENABLE as c_int, null_mut()), 0);
    let mut set = null_mut();
    assert_eq!(call!(p.a.domain, ops, poll_open, null_mut(), &mut set), 0);
    for object in [p.a.cq.cast::<fid>(), counter.cast()] {
        assert_eq!(call!(set, ops, poll_add, object, 0), 0);
    }
    let mut ready = [null_mut(); 2];
    let mut polled = || call!(set, ops, poll, ready.as_mut_ptr(), 2);
    // SAFETY: an open queue.
    let queue = unsafe { inner::<_, Queue>(p.a.cq).ok().unwrap() };

    let sent = body(100_000, 1);
    let data = sent.as_ptr().cast();
    let mut got = [1, 2].map(|n| (n, vec![0_u8; 100_000]));
    for (n, got) in &mut got {
        let into = got.as_mut_ptr().cast();
        let recv = call!(p.b.ep, msg, recv, into, 100_000, null_mut(), UNSPECIFIED, context(*n));
        assert_eq!(recv, 0);
    }
    let send =
        |ep: *mut fid_ep, n| call!(ep, msg, send, data, 100_000, null_mut(), p.to_b, context(n));
    assert_eq!(send(p.a.ep, 3), 0);
    let port = p.net.port_of(gigae::MacAddr([2, 0, 0, 0, 0, 1])).unwrap();
    p.net.set_down(port, true);
    assert_eq!(p.a.read().err(), Some(minus(Code::IO)), "nothing else is there to read");
    assert_eq!(queue.prepare(), Err(Code::IO));
    assert_eq!(polled(), -Code::IO.0);
    assert_eq!(send(ep, 4), 0);
    let mut looks = 0..10_000;
    while queue.completions.is_empty() {
        assert!(looks.next().is_some(), "the other endpoint stands still");
        let prepared = queue.prepare();
        assert!([Err(Code::AGAIN), Err(Code::IO)].contains(&prepared), "{prepared:?}");
        let _ = p.b.read();
        p.net.advance_to(p.net.now() + 1_000);
    }
    assert_eq!(queue.prepare(), Err(Code::AGAIN), "there is something to read");
    p.done(&p.a, SEND, context(4));
    assert_eq!(polled(), 1, "the counter has changed");
    assert_eq!(polled(), -Code::IO.0, "it was said");
    p.net.set_down(port, false);
    p.done(&p.a, SEND, context(3));

    assert_eq!(ready[0], context(7));
    for object in [set.cast::<fid>(), ep.cast(), counter.cast()] {
        assert_eq!(general!(object, close), 0);
    }
    assert!(got.iter().all(|(_, got)| *got == sent));
    p.close();
}

#[test]
fn objects_that_are_not_there_are_refused_by_name() {
    let p = EndpointPair::new();
    let (none, refused) = (null_mut(), -Code::NO_SYS.0);
    assert_eq!(call!(p.a.domain, ops, scalable_ep, none, null_mut(), null_mut()), refused);
    assert_eq!(call!(p.a.domain, ops, stx_ctx, null_mut(), null_mut(), null_mut()), refused);
    assert_eq!(call!(p.a.domain, ops, srx_ctx, null_mut(), null_mut(), null_mut()), refused);
    assert_eq!(call!(p.a.domain, ops, query_collective, FI_BARRIER, null_mut(), 0), refused);
    let (mut fabric, mut domain) = (null_mut(), null_mut());
    let mut attr: fi_fabric_attr = empty();
    // SAFETY: an empty description, and a place to write to.
    assert_eq!(unsafe { fabric::open(&mut attr, &mut fabric, null_mut()) }, 0);
    let code = call!(fabric, ops, domain, &mut empty::<fi_info>(), &mut domain, null_mut());
    assert_eq!(code, -Code::INVALID.0, "the call does not say of which NIC");
    assert_eq!(call!(fabric, ops, wait_open, null_mut(), null_mut()), refused);
    assert_eq!(call!(fabric, ops, passive_ep, null_mut(), null_mut(), null_mut()), refused);
    assert_eq!(general!(fabric, close), 0);
    // An address vector that others would share, and one for scalable endpoints.
    let mut vector = null_mut();
    let mut attr: fi_av_attr = empty();
    attr.name = c"shared".as_ptr();
    assert_eq!(call!(p.a.domain, ops, av_open, &mut attr, &mut vector, null_mut()), refused);
    (attr.name, attr.rx_ctx_bits) = (null(), 2);
    assert_eq!(call!(p.a.domain, ops, av_open, &mut attr, &mut vector, null_mut()), refused);
    let mut attr: fi_cq_attr = empty();
    let mut queue = null_mut();
    attr.wait_obj = FI_WAIT_SET;
    assert_eq!(call!(p.a.domain, ops, cq_open, &mut attr, &mut queue, null_mut()), refused);
    p.close();
}

#[test]
fn an_endpoint_over_several_links_exchanges_messages_with_others_and_itself() {
    let p = EndpointPair::having(NodeOptions { links: 2, ..NodeOptions::default() });
    let (sent, mut got) = (body(300_000, 1), vec![0_u8; 300_000]);
    let (data, into) = (sent.as_ptr().cast(), got.as_mut_ptr().cast());
    for (to, node) in [(p.to_b, &p.b), (0, &p.a)] {
        assert_eq!(
            call!(node.ep, msg, recv, into, 300_000, null_mut(), UNSPECIFIED, context(1)),
            0
        );
        assert_eq!(call!(p.a.ep, msg, send, data, 300_000, null_mut(), to, context(2)), 0);
        // In whatever order they come to the one queue.
        let ends = [p.next(node).ok().unwrap().0, p.next(&p.a).ok().unwrap().0];
        let mut flags = ends.map(|entry| entry.flags);
        flags.sort_unstable();
        assert_eq!(flags, [RECV.min(SEND), RECV.max(SEND)]);
        assert!(got == sent);
        got.fill(0);
    }
    p.close();
}
