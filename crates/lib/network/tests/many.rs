//! Hundreds of nodes that run the protocol: they restart together, and their switch fails. In
//! virtual time.
#![allow(missing_docs)]

#[path = "many/mod.rs"]
mod many;

use gigae_network::Time;
use gigae_network::protocol_host::Processor;
use many::{Many, PROCESSOR, all_to_all, clients, neighbours};

/// A port's buffer that is as small for 500 nodes as that of a usual switch is for 10,000.
const SMALL: u64 = 24 << 10;
const NODES: u32 = 500;
const LIMIT: Time = Time::ms(10_000);

#[test]
fn all_talk_again_soon_after_all_restart_together() {
    let mut many = Many::new(NODES, PROCESSOR, SMALL, false);
    let outcome = many.start(&neighbours(NODES, 16, 1), LIMIT);
    println!("16 others: {outcome:?}");
    assert!(outcome.all < Time::ms(1), "{outcome:?}");
    let mut many = Many::new(NODES, PROCESSOR, SMALL, false);
    let outcome = many.start(&clients(NODES), LIMIT);
    println!("a server: {outcome:?}");
    // Three frames of each client take the server 1.5 ms.
    assert!(outcome.dropped > 0 && outcome.all < Time::ms(15), "{outcome:?}");
    let outcome = many.restart_server(LIMIT);
    println!("it restarts: {outcome:?}");
    assert_eq!(outcome.failed, u64::from(NODES) - 1, "each message is sent again");
    assert!(outcome.all < Time::ms(30), "{outcome:?}");
}

/// Without different waits this took 0.6 s after 100 ms, and a third of the frames were dropped.
#[test]
fn senders_that_all_waited_for_a_switch_do_not_all_send_at_the_same_moment() {
    let mut many = Many::new(NODES, PROCESSOR, SMALL, false);
    many.start(&clients(NODES), LIMIT);
    for time in [100, 1_000] {
        let outcome = many.outage(&clients(NODES), 10, 1_468, Time::ms(time), LIMIT);
        println!("{time} ms: {outcome:?}");
        assert!(outcome.all < Time::ms(250), "{outcome:?}");
        assert!(outcome.dropped * 10 < outcome.frames, "{outcome:?}");
    }
}

#[test]
fn all_find_out_that_a_node_is_dead_in_the_stated_time() {
    let mut many = Many::new(100, Processor::IDEAL, SMALL, false);
    many.start(&clients(100), LIMIT);
    let outcome = many.failure(Time::ms(11_000));
    println!("{outcome:?}");
    assert!((Time::ms(10_000)..Time::ms(10_300)).contains(&outcome.all), "{outcome:?}");
    assert!(outcome.frames < 100 * 99, "each tells it at most so often");
}

#[test]
fn each_sends_to_each_in_a_small_multiple_of_the_time_on_the_wire() {
    let mut many = Many::new(64, Processor::IDEAL, SMALL, false);
    let pairs = all_to_all(64, 64);
    assert_eq!(pairs.len(), 64 * 63);
    let first = many.start(&pairs, LIMIT);
    let begin = many.network.now() + Time::ms(100);
    many.network.run(begin);
    many.send(&pairs, 1, 8);
    let second = many.run(pairs.len(), begin, LIMIT);
    println!("first {first:?}\nthen {second:?}");
    // 63 frames of 84 B take 4.2 us at 10 Gbit/s.
    assert!(second.all < Time::us(20) && first.all < Time::us(60), "{first:?} {second:?}");
    assert_eq!((first.dropped, second.dropped), (0, 0));
}

#[test]
fn the_same_nodes_behave_alike_in_each_run() {
    let run = || {
        let mut many = Many::new(50, PROCESSOR, SMALL, false);
        let outcome = many.start(&clients(50), LIMIT);
        (outcome.all, outcome.frames, many.network.totals())
    };
    assert_eq!(run(), run());
}
