//! The library's own endpoints on the simulated network.

use gigae_network::real::Real;
use gigae_network::{Buffer, Link, Network, Rate, Switch, Time, Topology};

/// Bytes of a message that fill a frame.
const FULL: usize = 1_468;

fn network(hosts: u32, loss: f64, buffer: Buffer, seed: u32) -> Network<Real> {
    let link = Link { loss, ..Link::new(Rate::gbit(10), Time::ns(100)) };
    let switch = Switch { buffer, ..Switch::new(Time::ns(250)) };
    let topology = Topology::one_switch(hosts, link, switch, Time::us(2));
    let hosts = Real::hosts(hosts, seed, |options| options).expect("memory for frames");
    Network::new(topology, hosts, u64::from(seed))
}

/// A message with its number.
fn message(number: u32) -> Vec<u8> {
    let mut bytes = vec![number as u8; FULL];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Lets each of the first hosts send so many messages to the last one. Returns when it had them
/// all.
fn send_all(network: &mut Network<Real>, senders: u32, count: u32) -> Time {
    for sender in 0..senders {
        for number in 0..count {
            network.call(sender, |host, context| host.send(senders, message(number), context));
        }
    }
    while network.host(senders).received.len() < (senders * count) as usize {
        assert!(network.now() < Time::ms(5_000), "{:?}", network.totals());
        network.run(network.now() + Time::us(10));
    }
    let received = &network.host(senders).received;
    for sender in 0..senders {
        let own = received.iter().filter(|(_, from, _)| *from == sender);
        let numbers = own.map(|(_, _, bytes)| {
            let number = u32::from_be_bytes(*bytes.first_chunk().unwrap());
            assert_eq!(*bytes, message(number));
            number
        });
        assert!(numbers.eq(0..count), "host {sender}: each message once and in order");
    }
    received.last().unwrap().0
}

#[test]
fn two_hosts_fill_their_link() {
    let mut network = network(2, 0.0, Buffer::PerPort(512 << 10), 1);
    let last = send_all(&mut network, 1, 20_000);
    let goodput = 20_000.0 * FULL as f64 / last.seconds();
    // Frames of 1,514 B without checksum, 1,538 B on the wire.
    let limit = 1.25e9 * FULL as f64 / 1_538.0;
    println!("{:.1} MB/s, {:.3} of the limit", goodput / 1e6, goodput / limit);
    assert!(goodput > 0.95 * limit && goodput <= limit, "{goodput} of {limit} B/s");
    assert_eq!(network.totals().dropped, 0);
}

#[test]
fn a_short_message_takes_the_time_of_its_way() {
    let mut network = network(2, 0.0, Buffer::Unlimited, 1);
    // The first one makes the session.
    network.call(0, |host, context| host.send(1, vec![1; 8], context));
    network.run(Time::ms(1));
    network.call(0, |host, context| host.send(1, vec![2; 8], context));
    network.run(Time::ms(2));
    let received = &network.host(1).received;
    let sent = Time::ms(1);
    let way = network.topology().ideal(&[0, network.topology().port_to(1)], 0, 0, 64);
    assert_eq!(received.len(), 2);
    assert_eq!(received[1].0, sent + way, "a frame of 64 B");
}

#[test]
fn messages_arrive_in_order_although_frames_are_lost() {
    for seed in 1..4 {
        let mut network = network(2, 0.01, Buffer::PerPort(512 << 10), seed);
        send_all(&mut network, 1, 3_000);
        assert!(network.totals().lost > 20);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut network = network(2, 0.02, Buffer::PerPort(512 << 10), seed);
        (send_all(&mut network, 1, 1_000), network.totals())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn many_senders_overflow_a_port_and_all_arrives() {
    // Even three frames of each sender are too many.
    let mut network = network(21, 0.0, Buffer::PerPort(64 << 10), 1);
    let last = send_all(&mut network, 20, 69);
    let least = 800 * 20 * 69 * 1_538;
    let (ratio, totals) = (last.0 as f64 / least as f64, network.totals());
    println!("20 x 101 kB: {ratio:.2} times the time of the bytes, {totals:?}");
    assert!(totals.dropped > 0);
}
