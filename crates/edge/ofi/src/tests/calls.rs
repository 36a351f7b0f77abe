//! Tagged messages that go to and fro. `tests/system_calls.rs` runs this under strace over a real
//! link and counts system calls; by itself it runs on a simulated network.

use super::*;
use gigae::{Backend, Mode, Wait};
use gigae_fabric::{Fabric, testing};

#[path = "../../../../lib/gigae/tests/strace/mod.rs"]
mod strace;

/// Messages of each case, and before that as many that are not counted.
const MESSAGES: usize = 400;

const LONG: usize = 64 << 10;

/// Over which backend messages go on a cable, when the program runs under strace.
const TRACED: &str = "GIGAE_SYSTEM_CALLS_TRACED";

/// As in the library's test of system calls: nothing depends on time.
fn on_a_cable(fabric: &Fabric, number: u16, backend: Backend, asked: NodeOptions) -> TestEndpoint {
    let node = fabric.node(number);
    let _inside = node.enter().unwrap();
    let options = Options::new(node.interface).backend(backend).wait(Wait::Spin).bulk(false);
    let options = options.progress(Progress::Manual).linger(Duration::from_millis(100));
    let options = options.tuned(256, |config| {
        config.ack_delay = Duration::from_secs(1);
        config.min_rto = Duration::from_secs(2);
        config.max_rto = Duration::from_secs(3);
    });
    TestEndpoint::opened(Box::new(move || options.clone().open()), asked)
}

/// Waits until one end has received, and the other may use its buffer again.
fn until_both_are_done(net: &Network, from: &TestEndpoint, to: &TestEndpoint) {
    let mut waiting = [(to, TRECV), (from, TSEND)].into_iter().peekable();
    while let Some(&(node, flags)) = waiting.peek() {
        match node.read() {
            Ok((entry, _)) => {
                assert_eq!(entry.flags, flags);
                waiting.next();
            }
            Err(code) => {
                assert_eq!(code, minus(Code::AGAIN));
                net.advance_to(net.now() + 6_000);
                let other = if std::ptr::eq(node, to) { from } else { to };
                assert!(call!(other.cq, ops, read, null_mut(), 0) <= 0);
            }
        }
    }
}

/// An end, and its number of the other one.
#[derive(Clone, Copy)]
struct TaggedEnd<'a> {
    node: &'a TestEndpoint,
    other: u64,
}

/// One message from an end to the other.
fn tagged(net: &Network, from: TaggedEnd<'_>, to: TaggedEnd<'_>, sent: &[u8], received: &mut [u8]) {
    let TaggedEnd { node: from, other: to_there } = from;
    let TaggedEnd { node: to, other: to_here } = to;
    let (data, into) = (sent.as_ptr().cast(), received.as_mut_ptr().cast());
    let (len, none) = (sent.len(), null_mut());
    let code = call!(to.ep, tagged, recv, into, len, none, to_here, 7, 0, context(1));
    assert_eq!(code, 0);
    assert_eq!(call!(from.ep, tagged, send, data, len, none, to_there, 7, context(2)), 0);
    until_both_are_done(net, from, to);
}

#[test]
fn tagged_messages_go_to_and_fro() {
    let net = Network::new(1, Faults { delay: Duration::from_micros(5), ..Faults::default() });
    let asked = NodeOptions { caps: FI_DIRECTED_RECV, ..NodeOptions::default() };
    let backend = std::env::var(TRACED).ok().map(|name| match name.as_str() {
        "xdp" => Backend::XdpMode(Mode::XdpGeneric),
        _ => Backend::Packet,
    });
    let cable = backend
        .map(|backend| (testing::fabric("provider calls", |config| config.cable = true), backend));
    let [a, b] = [1, 2].map(|number| match &cable {
        Some((fabric, backend)) => on_a_cable(fabric, number, *backend, asked),
        None => TestEndpoint::open(&net, number.into(), asked),
    });
    let (to_b, to_a) = (a.insert(&b.name()), b.insert(&a.name()));
    let ends = [TaggedEnd { node: &a, other: to_b }, TaggedEnd { node: &b, other: to_a }];
    let (sent, mut received) = (body(LONG, 1), vec![0; LONG]);
    for counted in [false, true] {
        if counted {
            strace::mark("tagged_8_bytes");
        }
        // There and back, so that each carries the acknowledgement of the one before.
        for n in 0..MESSAGES {
            let [from, to] = [ends[n % 2], ends[1 - n % 2]];
            tagged(&net, from, to, &sent[..8], &mut received[..8]);
        }
    }
    strace::mark("end");
    for counted in [false, true] {
        if counted {
            strace::mark("tagged_64_kib");
        }
        for _ in 0..MESSAGES {
            tagged(&net, ends[0], ends[1], &sent, &mut received);
        }
    }
    strace::mark("end");
    assert_eq!(received, sent);
    a.close();
    b.close();
}
