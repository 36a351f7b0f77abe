//! When long messages are acknowledged. The receiver reads its queue once, and no thread acts for
//! it: the network is simulated.

use super::*;

const LONG: usize = 64 << 10;

/// `b` has received a long message of `a`, and read nothing since. `a` waits, and its memory stays.
fn received() -> (EndpointPair, Vec<u8>) {
    let net = Network::new(1, Faults { delay: Duration::from_micros(5), ..Faults::default() });
    // So few frames that none of them is acknowledged before the program answers.
    net.set_mtu(9000);
    let p = EndpointPair::on(net, NodeOptions { manual: true, ..NodeOptions::default() });
    let (sent, mut got) = (body(LONG, 1), vec![0; LONG]);
    // The first ones bring the session up, and find out how long frames may be.
    for n in 0..10 {
        let (data, into, none) = (sent.as_ptr().cast(), got.as_mut_ptr().cast(), null_mut());
        let posted = call!(p.b.ep, msg, recv, into, LONG, none, UNSPECIFIED, context(1));
        assert_eq!(posted, 0);
        assert_eq!(call!(p.a.ep, msg, send, data, LONG, none, p.to_b, context(2)), 0);
        p.done(&p.b, RECV, context(1));
        if n < 9 {
            p.done(&p.a, SEND, context(2));
        }
    }
    (p, sent)
}

/// The send of `a` ends while the program of `b` makes no call.
fn is_acknowledged(p: &EndpointPair) -> bool {
    for _ in 0..100 {
        p.net.advance_to(p.net.now() + 1_000);
        match p.a.read() {
            Ok((entry, _)) => {
                assert_eq!((entry.flags, entry.op_context), (SEND, context(2)));
                return true;
            }
            Err(code) => assert_eq!(code, minus(Code::AGAIN)),
        }
    }
    false
}

fn inject(from: &TestEndpoint, to: u64) {
    let data = [1_u8; 8];
    assert_eq!(call!(from.ep, msg, inject, data.as_ptr().cast(), 8, to), 0);
}

#[test]
fn an_answer_carries_the_acknowledgement_of_a_long_message() {
    let (p, _sent) = received();
    let frames = || p.b.core().lock().endpoint.counters().link.tx_frames;
    let before = frames();
    inject(&p.b, p.to_a);
    assert_eq!(frames() - before, 1);
    assert!(is_acknowledged(&p));
    p.close();
}

#[test]
fn a_message_to_another_peer_brings_the_acknowledgement_of_a_long_one() {
    let (p, _sent) = received();
    let c = TestEndpoint::open(&p.net, 3, NodeOptions { manual: true, ..NodeOptions::default() });
    inject(&p.b, p.b.insert(&c.name()));
    assert!(is_acknowledged(&p));
    p.close();
    c.close();
}

#[test]
fn a_program_that_computes_and_posts_a_receive_acknowledges_a_long_message() {
    let (p, _sent) = received();
    std::thread::sleep(Duration::from_micros(100));
    let posted = call!(p.b.ep, msg, recv, null_mut(), 0, null_mut(), UNSPECIFIED, context(3));
    assert_eq!(posted, 0);
    assert!(is_acknowledged(&p));
    p.close();
}
