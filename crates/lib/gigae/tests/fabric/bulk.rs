//! The socket for bulk data beside a link: what goes by it, and what happens when it stops to work.

use super::*;
use gigae::{Memory, Wanted};
use std::process::Command;

const LONG: usize = 300_000;

/// Bytes of message `n`.
fn long(n: u32) -> Vec<u8> {
    body(n, 1400).into_iter().chain((0..).map(|i: u32| (i ^ n) as u8)).take(LONG).collect()
}

/// Sends messages of this range, each when the one before has arrived whole.
fn exchange_long(a: &Endpoint, b: &Endpoint, address: &Address, range: std::ops::Range<u32>) {
    let to_b = a.peer(*address).unwrap();
    for n in range {
        b.start_recv(Wanted::tag(u64::from(n)), vec![0; LONG]).unwrap();
        a.start_send(to_b, u64::from(n), long(n)).unwrap();
        let mut got = None;
        let end = std::time::Instant::now() + PATIENCE;
        while got.is_none() {
            assert!(
                std::time::Instant::now() < end,
                "message {n} does not arrive: {:?} {:?}",
                a.paths(),
                b.paths()
            );
            a.progress().unwrap();
            got = b.completion_timeout(Duration::from_millis(1)).unwrap();
        }
        let completion = got.unwrap();
        completion.result.unwrap();
        let bytes = completion.memory.and_then(Memory::into_vec).unwrap();
        assert!(bytes == long(n), "message {n}");
        let sent = a.completion_timeout(PATIENCE).unwrap().expect("it is acknowledged");
        sent.result.unwrap();
    }
}

/// Frames that an endpoint has received by its link and by its socket.
fn received(endpoint: &Endpoint) -> [u64; 2] {
    let paths = endpoint.paths();
    [0, 1].map(|path| paths.get(path).map_or(0, |path| path.link.rx_frames))
}

fn pair(fabric: &Fabric, options: &Options) -> [Endpoint; 2] {
    [1, 2].map(|n| on(&fabric.node(n), options.clone()).unwrap())
}

pub(crate) fn long_messages_go_by_the_socket_and_short_ones_by_the_link() {
    for mtu in [1500, 9000] {
        let fabric = testing::fabric("bulk", |config: &mut FabricConfig| config.mtu = mtu);
        for backend in [Backend::Xdp, Backend::Packet] {
            let [a, b] = pair(&fabric, &options(backend));
            let to_b = Address::from(gigae::MacAddr(fabric.node(2).mac));
            exchange_long(&a, &b, &to_b, 0..2);
            let before = received(&b);
            exchange_long(&a, &b, &to_b, 2..12);
            let after = received(&b);
            let [link, socket] = [0, 1].map(|path| after[path] - before[path]);
            // Ten messages in frames of up to 64 KiB. The link has an offer for each, and
            // acknowledgements. A loss on a busy machine may make some frames shorter.
            assert!((40..=100).contains(&socket), "{socket} frames by the socket");
            assert!(link <= 100, "{link} frames by the link");
        }
    }
}

pub(crate) fn without_a_socket_the_link_carries_everything() {
    let fabric = testing::fabric("nobulk", |_| ());
    let to_b = Address::from(gigae::MacAddr(fabric.node(2).mac));
    let with = on(&fabric.node(1), options(Backend::Xdp)).unwrap();
    let without = on(&fabric.node(2), options(Backend::Xdp).bulk(false)).unwrap();
    exchange_long(&with, &without, &to_b, 0..5);
    assert_eq!((with.paths().len(), without.paths().len()), (2, 1));
    assert_eq!(received(&without)[1], 0);
}

/// A node that loses its IP address gets nothing by the socket any more, and everything by the link.
pub(crate) fn a_socket_that_stops_to_work_costs_no_message() {
    let fabric = testing::fabric("bulkdies", |_| ());
    let [a, b] = pair(&fabric, &options(Backend::Xdp));
    let to_b = Address::from(gigae::MacAddr(fabric.node(2).mac));
    exchange_long(&a, &b, &to_b, 0..5);
    let address = |action: &str| {
        let _inside = fabric.node(2).enter().unwrap();
        let at = format!("{}/24", fabric.node(2).ipv4);
        let done = Command::new("ip").args(["address", action, &at, "dev", "eth0"]).status();
        assert!(done.unwrap().success());
    };
    let before = received(&b);
    assert!(before[1] > 0);
    // What is on the way is numbered, so it goes by the link in parts.
    address("del");
    exchange_long(&a, &b, &to_b, 5..10);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(a.paths()[1].counters.deaths, 1);
    address("add");
    // Until it may be asked again.
    std::thread::sleep(Duration::from_millis(1500));
    exchange_long(&a, &b, &to_b, 10..15);
    let before = received(&b);
    exchange_long(&a, &b, &to_b, 15..20);
    assert!(received(&b)[1] >= before[1] + 20, "it carries long messages again");
    assert_eq!(a.paths()[1].counters.returns, 1, "{:?}", a.paths());
}

pub(crate) fn long_messages_survive_a_wire_that_loses_doubles_and_corrupts() {
    let fabric = testing::fabric("bulkwild", |config: &mut FabricConfig| {
        config.loss = 0.02;
        config.duplicate = 0.01;
        config.corrupt = 0.01;
        config.seed = 7;
    });
    let [a, b] = pair(&fabric, &options(Backend::Xdp));
    exchange_long(&a, &b, &Address::from(gigae::MacAddr(fabric.node(2).mac)), 0..30);
}
