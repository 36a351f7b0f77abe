//! No frame appears or vanishes, on random networks; the same seed gives the same run.

use crate::plain::{Plain, frame, hosts};
use gigae_network::{
    Buffer, Forwarding, Frame, LeafSpine, Link, Network, Rate, Switch, Time, Topology, Totals,
};
use oorandom::Rand64;

/// A random network with random frames at random times. It compares the counters along the way,
/// and returns the totals and a sum over all arrivals.
fn random_run(seed: u64) -> (Totals, u64) {
    let mut random = Rand64::new(u128::from(seed));
    let mut pick = |count: u64| random.rand_range(0..count);
    let forwarding = [Forwarding::StoreAndForward, Forwarding::CutThrough][pick(2) as usize];
    let buffer = [
        Buffer::Unlimited,
        Buffer::PerPort(5_000 + pick(50_000)),
        Buffer::Shared { bytes: 20_000 + pick(200_000), alpha: (1 + pick(8), 1 + pick(8)) },
    ][pick(3) as usize];
    let mark_above = [None, Some(pick(20_000))][pick(2) as usize];
    let switch = Switch { latency: Time(pick(1_000_000)), forwarding, buffer, mark_above };
    let mut link = || Link {
        rate: Rate::gbit([1, 10, 40][pick(3) as usize]),
        delay: Time(pick(2_000_000)),
        loss: [0.0, 0.01][pick(2) as usize],
    };
    let (host_link, core_link) = (link(), link());
    let (leaves, spines) = (1 + pick(3) as u32, 1 + pick(3) as u32);
    let hosts_per_leaf = 2 + pick(4) as u32;
    let plan = LeafSpine { leaves, hosts_per_leaf, spines, host_link, core_link, switch };
    let topology = Topology::leaf_spine(plan, Time(pick(3_000_000)));
    let count = topology.hosts();
    let mut network: Network<Plain> = Network::new(topology, hosts(count), seed);
    for _ in 0..50 {
        for _ in 0..pick(100) {
            let source = pick(u64::from(count)) as u32;
            let destination = (source + 1 + pick(u64::from(count) - 1) as u32) % count;
            let (flow, priority) = (pick(1 << 32) as u32, pick(8) as u8);
            let frame = Frame { flow, priority, ..frame(source, destination, pick(9_000) as u32) };
            network.call(source, |host, _| host.to_send.push_back(frame));
        }
        let pause = Time(pick(40_000_000));
        network.run(network.now() + pause);
        let totals = network.totals();
        let gone = totals.delivered + totals.dropped + totals.lost;
        assert_eq!(totals.sent, gone + network.in_flight() as u64, "seed {seed}");
    }
    network.run(Time::NEVER);
    let totals = network.totals();
    assert_eq!(network.in_flight(), 0, "seed {seed}");
    assert_eq!(totals.sent, totals.delivered + totals.dropped + totals.lost, "seed {seed}");
    // Ports agree with the totals, and no buffer holds anything.
    let switches = (0..leaves + spines).flat_map(|switch| network.topology().ports_of(switch));
    let ports: Vec<_> = (0..count).chain(switches).collect();
    let counters = ports.iter().map(|&port| network.counters(port));
    let (dropped, lost) =
        counters.fold((0, 0), |(dropped, lost), c| (dropped + c.dropped, lost + c.lost));
    assert_eq!((dropped, lost), (totals.dropped, totals.lost), "seed {seed}");
    network.restart_counters();
    assert!(ports.iter().all(|&port| network.queue_length(port).most() == 0), "seed {seed}");
    let mut sum = 0u64;
    for host in 0..count {
        assert!(network.host(host).to_send.is_empty(), "seed {seed}");
        for (at, frame) in &network.host(host).received {
            assert_eq!(frame.destination, host);
            let value = at.0 ^ (u64::from(frame.flow) << 20) ^ u64::from(frame.marked);
            sum = sum.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ value;
        }
    }
    (totals, sum)
}

#[test]
fn frames_are_delivered_dropped_lost_or_on_their_way() {
    let (mut dropped, mut lost) = (0, 0);
    for seed in 0..150 {
        let (totals, _) = random_run(seed);
        assert!(totals.delivered > 0);
        dropped += totals.dropped;
        lost += totals.lost;
    }
    assert!(dropped > 1_000 && lost > 1_000, "{dropped} dropped, {lost} lost");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..20 {
        assert_eq!(random_run(seed), random_run(seed));
    }
    assert_ne!(random_run(1), random_run(2));
}

/// If these constants change, figures in the documentation may change with them.
#[test]
fn a_random_run_has_the_same_result_on_every_machine() {
    let (sent, delivered, dropped, lost, events) = (2_712, 2_238, 424, 50, 14_407);
    let totals = Totals { sent, delivered, dropped, lost, events };
    assert_eq!(random_run(7), (totals, 329_151_111_881_740_534));
}
