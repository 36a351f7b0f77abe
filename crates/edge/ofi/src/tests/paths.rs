//! Whole paths through the provider, from `fi_tsend` to the entries that `fi_cq_read` gives at both
//! ends. What they take is counted by `tests/paths.rs`, which runs this test as releases are built,
//! under valgrind.

use super::*;

/// Messages that are counted, and before that some that are not.
const MESSAGES: usize = 512;
const WARM: usize = 2048;

const LONG: usize = 64 << 10;

/// A tagged message from one node to the other, both of which read their queues.
#[inline(always)]
fn tagged(p: &EndpointPair, sent: &[u8], received: &mut [u8]) {
    let (data, into) = (sent.as_ptr().cast(), received.as_mut_ptr().cast());
    let (len, none) = (sent.len(), null_mut());
    let code = call!(p.b.ep, tagged, recv, into, len, none, p.to_a, 7, 0, context(1));
    assert_eq!(code, 0);
    assert_eq!(call!(p.a.ep, tagged, send, data, len, none, p.to_b, 7, context(2)), 0);
    let mut ends = [(&p.b, 1), (&p.a, 2)].into_iter().peekable();
    for _ in 0..100_000 {
        let Some(&(node, expected)) = ends.peek() else { return };
        match node.read() {
            Ok((entry, _)) => {
                assert_eq!(entry.op_context, context(expected));
                ends.next();
            }
            Err(code) => {
                assert_eq!(code, minus(Code::AGAIN));
                // Longer than a frame is on its way; the other end looks, too.
                p.net.advance_to(p.net.now() + 6_000);
                let other = if expected == 1 { &p.a } else { &p.b };
                assert!(call!(other.cq, ops, read, null_mut(), 0) <= 0);
            }
        }
    }
    panic!("a message does not come");
}

#[inline(never)]
fn measured_tagged_8_bytes(p: &EndpointPair, sent: &[u8], received: &mut [u8]) {
    tagged(p, sent, received);
}

#[inline(never)]
fn measured_tagged_64_kib(p: &EndpointPair, sent: &[u8], received: &mut [u8]) {
    tagged(p, sent, received);
}

#[test]
fn tagged_messages_pass_from_queue_to_queue() {
    // As Open MPI asks.
    let (caps, threads) = (FI_DIRECTED_RECV, Threads::Domain);
    let p = EndpointPair::having(NodeOptions { caps, threads, ..NodeOptions::default() });
    let (sent, mut received) = (body(LONG, 1), vec![0; LONG]);
    for _ in 0..WARM {
        tagged(&p, &sent[..8], &mut received[..8]);
    }
    for _ in 0..MESSAGES {
        measured_tagged_8_bytes(&p, &sent[..8], &mut received[..8]);
    }
    assert_eq!(received[..8], sent[..8]);
    for _ in 0..WARM / 8 {
        tagged(&p, &sent, &mut received);
    }
    for _ in 0..MESSAGES {
        measured_tagged_64_kib(&p, &sent, &mut received);
    }
    assert_eq!(received, sent);
    for case in ["tagged_8_bytes", "tagged_64_kib"] {
        println!("\nmeasured_{case} {MESSAGES}");
    }
    p.close();
}
