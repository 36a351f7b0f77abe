//! The models against figures that were published with their protocols.

use gigae_network::workload::{Echo, Incast, Lengths, Poisson, SlowdownTable, drive};
use gigae_network::yardstick::{Control, Dctcp, Homa, HomaConfig, Swift, Windowed};
use gigae_network::{Buffer, Link, Network, Rate, Switch, Time, Topology};

const PUBLISHED: &str = include_str!("../data/homa-published.txt");

/// Slowdowns at the 99th percentile by class of length: simulated and published.
fn homa(workload: &str, system: &str, config: HomaConfig, count: u32) -> Vec<(f64, f64)> {
    let link = Link::new(Rate::gbit(10), Time::ns(100));
    // 16 hosts. A request of 100 B and its response take 5.4 us on an idle network: the paper has
    // 15 us with slowdowns of 2.5 to 2.8.
    let topology = Topology::one_switch(16, link, Switch::new(Time::ns(250)), Time::ns(2_100));
    let lengths = Lengths::named(workload).unwrap();
    // Requests are half of the load.
    let traffic = Poisson::new(&topology, config.framing, lengths, 0.38, count, 1);
    let hosts = (0..16).map(|_| Homa::new(config)).collect();
    let mut network = Network::new(topology.clone(), hosts, 1);
    let records = drive(&mut network, &mut Echo(traffic), Time::NEVER);
    let last = records.iter().map(|record| record.message.at).max().unwrap();
    let span = Time(last.0 / 10)..Time(last.0 / 10 * 9);
    let table = SlowdownTable::of_echoes(&records, &topology, config.framing, span);
    assert_eq!(table.unfinished, 0);
    let name = format!("{} 76 {system} ", workload.to_uppercase());
    let published = PUBLISHED.lines().find_map(|line| line.strip_prefix(&name)).unwrap();
    let published = published.split_whitespace().map(|figure| figure.parse().unwrap());
    let simulated = table.classes.iter().map(|class| class.quantile(0.99));
    simulated.zip(published).collect()
}

/// Each class of length within 0.7 to 1.4 times the published figure.
fn homa_is_as_slow_as_published(workload: &str, count: u32) {
    let classes = homa(workload, "HomaP1", HomaConfig::published(), count);
    println!("{workload}: {classes:.1?}");
    for (class, (simulated, published)) in classes.iter().enumerate() {
        let ratio = simulated / published;
        assert!((0.7..1.4).contains(&ratio), "{workload}, class {class}: {simulated}");
    }
}

#[test]
fn homa_without_priorities_is_as_slow_as_published_for_w3() {
    homa_is_as_slow_as_published("w3", 100_000);
}

#[test]
fn homa_without_priorities_is_as_slow_as_published_for_w4() {
    homa_is_as_slow_as_published("w4", 6_000);
}

/// Long messages to host 0 from hosts of their own, on a network with a round trip of 80 us; the
/// first 40 ms are not counted.
fn long_flows<C: Control>(
    control: C,
    senders: u32,
    mark_above: Option<u64>,
) -> Network<Windowed<C>> {
    let framing = HomaConfig::published().framing;
    let link = Link::new(Rate::gbit(10), Time::us(10));
    let switch = Switch { mark_above, buffer: Buffer::Unlimited, ..Switch::new(Time::ns(250)) };
    let topology = Topology::one_switch(senders + 1, link, switch, Time::us(18));
    let new = |_| Windowed::new(framing, control.clone(), Time::ms(10));
    let mut network = Network::new(topology, (0..=senders).map(new).collect(), 1);
    let port = network.topology().port_to(0);
    drive(&mut network, &mut Incast::new(senders, u32::MAX / 2), Time::ms(40));
    network.restart_counters();
    network.keep_histogram(port);
    network.run(Time::ms(100));
    network
}

/// Jain's index of the bytes that the senders' messages have got acknowledged.
fn jain<C: Control>(network: &Network<Windowed<C>>, senders: u32) -> f64 {
    let bytes = |n: u32| f64::from(network.host(n + 1).acked_bytes(n).unwrap());
    let sum: f64 = (0..senders).map(bytes).sum();
    let squares: f64 = (0..senders).map(|n| bytes(n) * bytes(n)).sum();
    sum * sum / (f64::from(senders) * squares)
}

/// The part of the time in which the port to host 0 was busy, of 60 ms.
fn busy<C: Control>(network: &Network<Windowed<C>>) -> f64 {
    let bytes = network.counters(network.topology().port_to(0)).wire_bytes;
    bytes as f64 * 800.0 / Time::ms(60).0 as f64
}

#[test]
fn dctcp_holds_the_queue_where_its_analysis_says() {
    // The paper's K for 10 Gbit/s: 65 frames. Its analysis for N flows: the queue is at most K + N,
    // and swings by sqrt(2 N (C RTT + K)) / 2.
    let frame = 1_518.0;
    for senders in [2, 10] {
        let control = Dctcp::new(HomaConfig::published().framing.payload);
        let mut network = long_flows(control, senders, Some((65.0 * frame) as u64));
        let port = network.topology().port_to(0);
        let queue = network.queue_length(port).clone();
        let in_flight = 80e-6 * 1e10 / 8.0 / 1_538.0;
        let n = f64::from(senders);
        let (most, swing) = (65.0 + n, (2.0 * n * (in_flight + 65.0)).sqrt() / 2.0);
        let [low, mean, high] = [
            queue.quantile(0.01).unwrap() as f64 / frame,
            queue.mean() / frame,
            queue.quantile(0.99).unwrap() as f64 / frame,
        ];
        println!("{senders}: {low:.1} {mean:.1} {high:.1}; {most:.1} - {swing:.1}");
        assert!((high / most - 1.0).abs() < 0.2, "{senders}: greatest {high} for {most}");
        let expected = most - swing / 2.0;
        assert!((mean / expected - 1.0).abs() < 0.2, "{senders}: mean {mean} for {expected}");
        assert!(low > most - 2.0 * swing, "{senders}: least {low} for {}", most - swing);
        assert!(busy(&network) > 0.999, "the link is never idle");
        assert!(jain(&network, senders) > 0.9, "{}", jain(&network, senders));
    }
}

#[test]
fn swift_holds_the_round_trip_at_its_target() {
    // Every sender adds a frame for each round trip, so many senders are above the target: with 50,
    // a sixth.
    for (senders, tolerance) in [(2, 0.05), (10, 0.06), (50, 0.2)] {
        let framing = HomaConfig::published().framing;
        let control = Swift::new(framing.payload, Time::us(120), Time::us(60));
        let mut network = long_flows(control, senders, None);
        let port = network.topology().port_to(0);
        let queue = network.queue_length(port).mean();
        // The time of the queue, and the rest of the round trip: delays, latencies, turnarounds,
        // and frame and acknowledgement on two links each.
        let rtt = queue * 800e-6 * 1_538.0 / 1_518.0 + 4.0 * 10.0 + 2.0 * (18.0 + 0.25) + 2.6;
        let targets = (0..senders)
            .map(|n| network.host(n + 1).control(n).unwrap().target().micros())
            .sum::<f64>();
        let target = targets / f64::from(senders);
        println!("{senders}: {rtt:.1} of {target:.1} us, busy {:.3}", busy(&network));
        assert!((rtt / target - 1.0).abs() < tolerance, "{senders}: {rtt} us for {target} us");
        assert!(busy(&network) > 0.99, "{}", busy(&network));
        assert!(jain(&network, senders) > 0.9, "{}", jain(&network, senders));
    }
}

#[test]
fn many_senders_with_swift_share_a_link() {
    // 100 windows share 10 frames of bandwidth-delay product and the target's queue of some 60, so
    // they are below one frame. Ultra Ethernet's simulator has 1.035 for 127 senders of 2 MB with
    // its own control by senders.
    let framing = HomaConfig::published().framing;
    let control = Swift::new(framing.payload, Time::us(50), Time::us(50)).with_window(1.0);
    let link = Link::new(Rate::gbit(10), Time::us(1));
    let topology = Topology::one_switch(101, link, Switch::new(Time::ns(250)), Time::us(2));
    for (length, bound) in [(100_000, 1.1), (1_000_000, 1.035)] {
        let new = |_| Windowed::new(framing, control.clone(), Time::ms(10));
        let mut network = Network::new(topology.clone(), (0..101).map(new).collect(), 1);
        let records = drive(&mut network, &mut Incast::new(100, length), Time::ms(500));
        let last = records.iter().map(|record| record.completed).max().unwrap();
        let least = Rate::gbit(10).time(1).0 * 100 * framing.wire_bytes(length);
        let ratio = last.0 as f64 / least as f64;
        let queue = network.queue_length(network.topology().port_to(0)).most();
        println!("{length} B: {ratio:.3} times the time of the bytes, queue at most {queue} B");
        assert!((1.0..bound).contains(&ratio), "{length} B: {ratio} times the time of the bytes");
        assert!(queue < 300_000, "two frames of each sender: {queue} B");
    }
}

/// Full buffers and links lose frames. Only timeouts recover them.
#[test]
fn messages_with_windows_arrive_although_frames_are_lost() {
    let framing = HomaConfig::published().framing;
    let link = Link { loss: 0.01, ..Link::new(Rate::gbit(10), Time::us(1)) };
    let switch = Switch {
        buffer: Buffer::PerPort(64 << 10),
        mark_above: Some(30_000),
        ..Switch::new(Time::ZERO)
    };
    let topology = Topology::one_switch(9, link, switch, Time::us(1));
    let new = |_| Windowed::new(framing, Dctcp::new(framing.payload), Time::us(500));
    let mut network = Network::new(topology, (0..9).map(new).collect(), 1);
    let records = drive(&mut network, &mut Incast::new(8, 300_000), Time::ms(1_000));
    assert!(records.iter().all(|record| record.completed != Time::NEVER));
    let totals = network.totals();
    assert!(totals.lost > 10 && totals.dropped > 10, "{totals:?}");
}
