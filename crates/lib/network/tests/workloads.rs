//! Workloads on a network, with the Homa model as the protocol.

use gigae_network::workload::{
    AllToAll, Drive, Echo, Framing, Incast, Lengths, Message, Poisson, Record, RingAllreduce,
    SlowdownTable, Traffic, drive,
};
use gigae_network::yardstick::{Homa, HomaConfig};
use gigae_network::{Buffer, LeafSpine, Link, Network, Rate, Switch, Time, Topology};

fn star(hosts: u32, buffer: Buffer) -> Topology {
    let link = Link::new(Rate::gbit(10), Time::ns(100));
    let switch = Switch { buffer, ..Switch::new(Time::ns(250)) };
    Topology::one_switch(hosts, link, switch, Time::us(1))
}

fn network(topology: Topology, config: HomaConfig, seed: u64) -> Network<Homa> {
    let hosts = (0..topology.hosts()).map(|_| Homa::new(config)).collect();
    Network::new(topology, hosts, seed)
}

fn framing() -> Framing {
    HomaConfig::published().framing
}

/// A list of messages.
struct Listed(std::vec::IntoIter<Message>);

impl Traffic for Listed {
    fn next(&mut self) -> Option<Message> {
        self.0.next()
    }
}

#[test]
fn a_lone_message_has_a_slowdown_of_one() {
    let topology = Topology::leaf_spine(LeafSpine::published(), Time::us(1));
    for length in [1, 100, 1_442, 1_443, 9_700, 100_000, 5_000_000] {
        for (source, destination) in [(0, 1), (0, 143)] {
            let message = Message { at: Time::us(5), source, destination, length, tag: 0 };
            let mut network = network(topology.clone(), HomaConfig::published(), 1);
            let mut traffic = Listed(vec![message].into_iter());
            let records = drive(&mut network, &mut traffic, Time::NEVER);
            let table = SlowdownTable::new(&records, &topology, framing(), Time::ZERO..Time::NEVER);
            let slowdowns: Vec<f64> =
                table.classes.iter().filter(|c| c.count() > 0).map(|c| c.quantile(1.0)).collect();
            // Grants keep up with the link: they arrive before 9,700 B have left.
            assert_eq!(slowdowns, [1.0], "{length} B from {source} to {destination}");
        }
    }
}

#[test]
fn an_incast_takes_the_time_of_its_bytes() {
    for (senders, length) in [(20, 100_000), (100, 100_000), (8, 1_000)] {
        let mut network = network(star(senders + 1, Buffer::Unlimited), HomaConfig::published(), 1);
        let port = network.topology().port_to(0);
        let records = drive(&mut network, &mut Incast::new(senders, length), Time::NEVER);
        assert_eq!(records.len(), senders as usize);
        let last = records.iter().map(|record| record.completed).max().unwrap();
        let wire = framing().wire_bytes(length) * u64::from(senders);
        let least = Rate::gbit(10).time(1).0 * wire;
        assert!(last.0 > least, "no faster than the link");
        assert!((last.0 as f64) < 1.01 * least as f64 + 4e6, "{last:?} for {least} ps");
        // The first 9,700 B of each, rounded up to 7 frames, are in the queue at once.
        let unscheduled = u64::from(senders) * u64::from(length.min(7 * 1_442));
        assert!(network.queue_length(port).most() > unscheduled * 8 / 10);
    }
}

#[test]
fn an_incast_ends_although_frames_are_dropped() {
    let retry = Some(Time::us(200));
    let config = HomaConfig { retry, ..HomaConfig::published() };
    let mut network = network(star(101, Buffer::PerPort(128 << 10)), config, 1);
    let records = drive(&mut network, &mut Incast::new(100, 100_000), Time::ms(100));
    assert!(network.totals().dropped > 100, "{:?}", network.totals());
    assert!(records.iter().all(|record| record.completed < Time::ms(20)));
}

#[test]
fn messages_arrive_over_links_that_lose_frames() {
    let link = Link { loss: 0.02, ..Link::new(Rate::gbit(10), Time::ns(100)) };
    let topology = Topology::one_switch(8, link, Switch::new(Time::ns(250)), Time::us(1));
    let config = HomaConfig { retry: Some(Time::us(100)), ..HomaConfig::published() };
    for seed in 0..5 {
        let lengths = Lengths::named("w3").unwrap();
        let mut traffic = Poisson::new(&topology, framing(), lengths, 0.3, 500, seed);
        let mut network = network(topology.clone(), config, seed);
        let records = drive(&mut network, &mut traffic, Time::ms(100));
        assert!(network.totals().lost > 10);
        assert!(records.iter().all(|record| record.completed != Time::NEVER), "seed {seed}");
    }
}

#[test]
fn all_to_all_loads_every_port() {
    let mut network = network(star(8, Buffer::Unlimited), HomaConfig::published(), 1);
    let records = drive(&mut network, &mut AllToAll::new(8, 100_000), Time::NEVER);
    assert_eq!(records.len(), 56);
    let last = records.iter().map(|record| record.completed).max().unwrap();
    let least = 800 * framing().wire_bytes(100_000) * 7;
    let ratio = last.0 as f64 / least as f64;
    assert!((1.0..1.3).contains(&ratio), "{ratio} times the time of the bytes");
}

#[test]
fn a_ring_has_two_rounds_of_steps() {
    let topology = star(6, Buffer::Unlimited);
    let mut network = network(topology.clone(), HomaConfig::published(), 1);
    let records = drive(&mut network, &mut RingAllreduce::new(6, 600_000), Time::NEVER);
    assert_eq!(records.len(), 6 * 10);
    // No two messages share a port, but for grants. So each step takes the ideal time.
    let ideal = framing().ideal(&topology, 0, 1, 100_000);
    let last = records.iter().map(|record| record.completed).max().unwrap();
    let ratio = last.0 as f64 / (10 * ideal.0) as f64;
    assert!((1.0..1.06).contains(&ratio), "{ratio} times the ideal time");
}

#[test]
fn poisson_arrivals_have_their_load() {
    let topology = star(16, Buffer::Unlimited);
    for name in ["w3", "imc10"] {
        let lengths = Lengths::named(name).unwrap();
        let mut traffic = Poisson::new(&topology, framing(), lengths, 0.6, 300_000, 3);
        let (mut bytes, mut end, mut from) = (0, Time::ZERO, [0u32; 16]);
        while let Some(message) = traffic.next() {
            assert!(message.source != message.destination && message.at >= end);
            bytes += framing().wire_bytes(message.length);
            from[message.source as usize] += 1;
            end = message.at;
        }
        let load = bytes as f64 * 800.0 / 16.0 / end.0 as f64;
        assert!((load - 0.6).abs() < 0.02, "{name}: {load}");
        assert!(from.iter().all(|count| (18_000..19_500).contains(count)), "{from:?}");
    }
}

fn echoes(seed: u64) -> Vec<Record> {
    let topology = star(16, Buffer::Unlimited);
    let lengths = Lengths::named("w2").unwrap();
    let traffic = Poisson::new(&topology, framing(), lengths, 0.3, 2_000, seed);
    drive(&mut network(topology, HomaConfig::published(), seed), &mut Echo(traffic), Time::NEVER)
}

#[test]
fn every_request_has_a_response_and_the_same_seed_the_same_run() {
    let records = echoes(1);
    assert_eq!(records.len(), 4_000);
    assert_eq!(records, echoes(1));
    assert_ne!(records, echoes(2));
    let table = SlowdownTable::of_echoes(
        &records,
        &star(16, Buffer::Unlimited),
        framing(),
        Time::ZERO..Time::NEVER,
    );
    assert_eq!(table.classes.iter().map(|class| class.count()).sum::<usize>(), 2_000);
    assert_eq!(table.unfinished, 0);
    let p50 = table.classes[0].quantile(0.5);
    assert!((1.0..2.0).contains(&p50), "{p50}");
    assert!(table.to_string().contains("1500 to 9999"));
}

/// Random arrivals, lengths and Homa's decisions. If the constant changes, figures in the
/// documentation may change with it.
#[test]
fn random_arrivals_have_the_same_result_on_every_machine() {
    let sum = echoes(1).iter().fold(0u64, |sum, record| {
        let value = record.message.at.0 ^ record.completed.0.rotate_left(32);
        sum.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ value
    });
    assert_eq!(sum, 6_087_780_602_580_600_411);
}

#[test]
#[should_panic(expected = "a message begins at its time")]
fn no_message_begins_in_the_past() {
    let mut network = network(star(2, Buffer::Unlimited), HomaConfig::published(), 1);
    network.run(Time::us(1));
    drive(&mut network, &mut Incast::new(1, 100), Time::NEVER);
}

#[test]
fn steps_do_not_change_a_run() {
    let topology = star(8, Buffer::PerPort(64 << 10));
    let config = HomaConfig { retry: Some(Time::us(500)), ..HomaConfig::published() };
    let run = |step: Option<Time>| {
        let lengths = Lengths::named("w4").unwrap();
        let mut traffic = Echo(Poisson::new(&topology, framing(), lengths, 0.3, 500, 1));
        let mut network = network(topology.clone(), config, 1);
        let Some(step) = step else {
            let records = drive(&mut network, &mut traffic, Time::NEVER);
            return (records, network.totals());
        };
        let mut drive = Drive::new(&mut traffic);
        let mut now = Time::ZERO;
        while !drive.advance(&mut network, now) {
            assert_eq!(network.now(), now);
            now += step;
        }
        assert!(!drive.records().is_empty());
        (drive.into_records(), network.totals())
    };
    let whole = run(None);
    assert_eq!(whole.0.len(), 1_000);
    assert_eq!(run(Some(Time::us(7))), whole);
    assert_eq!(run(Some(Time::ms(3))), whole);
}

#[test]
fn classes_below_a_length_are_one_class() {
    let records = echoes(3);
    let topology = star(16, Buffer::Unlimited);
    let table = SlowdownTable::of_echoes(&records, &topology, framing(), Time::ZERO..Time::NEVER);
    let below = table.below(10_000);
    assert_eq!(below.count(), table.classes[0].count() + table.classes[1].count());
    let greatest = table.classes[0].quantile(1.0).max(table.classes[1].quantile(1.0));
    assert_eq!((below.quantile(1.0), below.from, below.to), (greatest, 0, 10_000));
    assert_eq!(table.below(9_999).count(), table.classes[0].count());
}
