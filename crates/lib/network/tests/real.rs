//! The library's own endpoints on the simulated network.

use gigae::Options;
use gigae_network::real::Real;
use gigae_network::{Buffer, Link, Network, Rate, Switch, Time, Topology};

/// Bytes of a message that fill a frame.
const FULL: usize = 1_468;

fn network(hosts: u32, loss: f64, buffer: Buffer, seed: u32) -> Network<Real> {
    with(hosts, loss, buffer, seed, |options| options)
}

fn with(
    hosts: u32,
    loss: f64,
    buffer: Buffer,
    seed: u32,
    options: fn(Options) -> Options,
) -> Network<Real> {
    let link = Link { loss, ..Link::new(Rate::gbit(10), Time::ns(100)) };
    let switch = Switch { buffer, ..Switch::new(Time::ns(250)) };
    let topology = Topology::one_switch(hosts, link, switch, Time::us(2));
    let hosts = Real::hosts(hosts, seed, options).expect("memory for frames");
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
fn a_short_message_takes_the_time_of_its_path() {
    let mut network = network(2, 0.0, Buffer::Unlimited, 1);
    // The first one makes the session.
    network.call(0, |host, context| host.send(1, vec![1; 8], context));
    network.run(Time::ms(1));
    network.call(0, |host, context| host.send(1, vec![2; 8], context));
    network.run(Time::ms(2));
    let received = &network.host(1).received;
    let sent = Time::ms(1);
    let path = network.topology().ideal(&[0, network.topology().port_to(1)], 0, 0, 64);
    assert_eq!(received.len(), 2);
    assert_eq!(received[1].0, sent + path, "a frame of 64 B");
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
    // Even three frames of each sender are too many, and nothing limits what they put in front of
    // the port.
    let own_credit = |options: Options| options.shared_credit(false);
    let mut network = with(21, 0.0, Buffer::PerPort(64 << 10), 1, own_credit);
    let last = send_all(&mut network, 20, 69);
    let least = 800 * 20 * 69 * 1_538;
    let (ratio, totals) = (last.0 as f64 / least as f64, network.totals());
    println!("20 x 101 kB: {ratio:.2} times the time of the bytes, {totals:?}");
    assert!(totals.dropped > 0);
    assert!((1.0..10.0).contains(&ratio), "{ratio} times the time of the bytes");
}

#[test]
fn one_receiver_does_not_hold_up_another() {
    let mut network = network(3, 0.0, Buffer::Unlimited, 1);
    network.call(0, |host, context| {
        for number in 0..5_000 {
            host.send(1, message(number), context);
        }
        host.send(2, message(0), context);
    });
    network.run(Time::ms(1));
    assert_eq!(network.host(2).received.len(), 1);
    let waiting = network.host(0).waiting();
    assert!(waiting > 3_000, "{waiting} messages wait for the window of host 1");
}

#[test]
fn a_trace_holds_whole_frames() {
    let path = std::env::temp_dir().join(format!("gigae-real-trace-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    let mut network = network(2, 0.0, Buffer::Unlimited, 1);
    network.set_trace(Real::trace(Box::new(file), &[0, 1]).unwrap());
    network.call(0, |host, context| {
        host.send(1, message(7), context);
        host.send(1, vec![9], context);
    });
    network.run(Time::ms(1));
    network.take_trace().unwrap().finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut frames: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut reader = pcap_file::pcapng::PcapNgReader::new(&bytes[..]).unwrap();
    while let Some(block) = reader.next_block() {
        if let Some(packet) = block.unwrap().into_owned().into_enhanced_packet() {
            assert_eq!(packet.original_len as usize, packet.data.len(), "no byte is left out");
            frames.push((packet.interface_id, packet.data.into_owned()));
        }
    }
    assert_eq!(frames.len() as u64, network.counters(0).frames + network.counters(1).frames);
    let (first, second) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    for (port, frame) in &frames {
        let (to, from) = if *port == 0 { (second, first) } else { (first, second) };
        // The EtherType of the library follows the addresses at once.
        assert_eq!(frame[..14], [&to[..], &from[..], &[0x88, 0xB5]].concat());
        assert!(frame.len() >= 60);
    }
    let holds = |(_, frame): &(u32, Vec<u8>)| frame.windows(FULL).any(|part| part == message(7));
    assert_eq!(frames.iter().filter(|frame| holds(frame)).count(), 1);
}
