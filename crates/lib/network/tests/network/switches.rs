//! Buffers, marks, priorities, fairness and routes.

use crate::plain::{Plain, frame, hosts};
use gigae_network::{
    Buffer, Forwarding, Frame, LeafSpine, Link, Network, Rate, Switch, Time, Topology,
};
use std::collections::HashMap;

/// Hosts at 10 Gbit/s without any delay.
fn star(count: u32, switch: Switch) -> Network<Plain> {
    let link = Link::new(Rate::gbit(10), Time::ZERO);
    Network::new(Topology::one_switch(count, link, switch, Time::ZERO), hosts(count), 1)
}

fn switch() -> Switch {
    Switch::new(Time::ZERO)
}

fn send(network: &mut Network<Plain>, frames: impl IntoIterator<Item = Frame<u32>>) {
    for frame in frames {
        network.call(frame.source, |host, _| host.to_send.push_back(frame));
    }
}

/// Hosts 1 to `senders` each send one frame of 1,000 B to host 0 at once.
fn burst(switch: Switch, senders: u32, count: u32) -> Network<Plain> {
    let mut network = star(count, switch);
    network.keep_histogram(network.topology().port_to(0));
    send(&mut network, (1..=senders).map(|source| frame(source, 0, 1_000)));
    network.run(Time::ms(1));
    network
}

#[test]
fn a_frame_is_dropped_if_it_needs_one_byte_too_many() {
    for (bytes, received) in [(999, 0), (1_000, 1), (1_999, 1), (2_000, 2), (4_999, 4), (5_000, 5)]
    {
        let mut network = burst(Switch { buffer: Buffer::PerPort(bytes), ..switch() }, 5, 6);
        let port = network.topology().port_to(0);
        assert_eq!(network.host(0).received.len(), received, "{bytes} B");
        let counters = network.counters(port);
        assert_eq!(counters.dropped, 5 - received as u64);
        assert_eq!(counters.dropped_bytes, 1_000 * counters.dropped);
        assert_eq!(network.queue_length(port).most(), 1_000 * received as u64);
    }
}

#[test]
fn room_is_free_at_the_end_of_the_gap_behind_a_frame() {
    // One frame's room. The second frame arrives when the first one and the gap behind it have
    // left, or a byte's time before that.
    for (early, received) in [(0, 2), (1, 1)] {
        let mut network = star(3, Switch { buffer: Buffer::PerPort(1_000), ..switch() });
        send(&mut network, [frame(1, 0, 1_000)]);
        network.run(Time((1_020 - early) * 800));
        send(&mut network, [frame(2, 0, 1_000)]);
        network.run(Time::ms(1));
        assert_eq!(network.host(0).received.len(), received, "{early} B too early");
    }
}

#[test]
fn a_shared_buffer_has_a_dynamic_threshold() {
    // Alpha 1 of 12,000 B: the sixth frame would hold 6,000 of 7,000 free bytes; the seventh 7,000
    // of 6,000. With alpha 1/2: the fourth 4,000 of 4,500; the fifth 5,000 of 4,000.
    for (alpha, received) in [((1, 1), 6), ((1, 2), 4), ((8, 1), 10)] {
        let buffer = Buffer::Shared { bytes: 12_000, alpha };
        let network = burst(Switch { buffer, ..switch() }, 10, 11);
        assert_eq!(network.host(0).received.len(), received, "alpha {alpha:?}");
    }
    // All ports share it: what one holds, another cannot.
    let buffer = Buffer::Shared { bytes: 12_000, alpha: (1, 1) };
    let mut network = star(12, Switch { buffer, ..switch() });
    send(&mut network, (2..8).map(|source| frame(source, 0, 1_000)));
    send(&mut network, (8..12).map(|source| frame(source, 1, 1_000)));
    network.run(Time::ms(1));
    assert_eq!(network.host(0).received.len(), 6);
    // 6,000 B are free: 1,000, 2,000 and 3,000 of 6,000, 5,000, 4,000; not 4,000 of 3,000.
    assert_eq!(network.host(1).received.len(), 3);
    // All is free again afterwards, also what no later frame has asked for.
    send(&mut network, (2..8).map(|source| frame(source, 0, 1_000)));
    network.run(Time::ms(2));
    assert_eq!(network.host(0).received.len(), 12);
}

#[test]
fn frames_above_the_threshold_are_marked() {
    for (above, marked) in [(5_000, 0), (4_999, 1), (2_000, 3), (999, 5)] {
        let network = burst(Switch { mark_above: Some(above), ..switch() }, 5, 6);
        let seen = network.host(0).received.iter().filter(|(_, frame)| frame.marked).count();
        assert_eq!(seen, marked, "above {above} B");
        assert_eq!(network.counters(network.topology().port_to(0)).marked, marked as u64);
    }
}

#[test]
fn the_queue_of_a_burst_by_hand() {
    let mut network = burst(switch(), 5, 6);
    let port = network.topology().port_to(0);
    // Five frames of 1,000 B arrive after 1,008 B. Each leaves 1,020 B later.
    let area = 1_000.0 * 1_020.0 * 800.0 * (5 + 4 + 3 + 2 + 1) as f64;
    let queue = network.queue_length(port);
    assert!((queue.mean() - area / 1e9).abs() < 1e-6, "{}", queue.mean());
    assert_eq!((queue.most(), queue.quantile(0.5)), (5_000, Some(0)));
    assert_eq!(queue.quantile(1.0), Some(5_000));
    network.restart_counters();
    assert_eq!(network.queue_length(port).most(), 0);
    assert_eq!(network.counters(port).frames, 0);
}

#[test]
fn a_histogram_begins_when_it_is_asked_for() {
    // A frame of 1,000 B is held for 1,020 B of time after its arrival. The histogram has the
    // second half of this, and as long without a frame.
    let mut network = star(2, switch());
    let port = network.topology().port_to(0);
    send(&mut network, [frame(1, 0, 1_000)]);
    let arrival = 1_008 * 800;
    network.run(Time(arrival + 510 * 800));
    network.keep_histogram(port);
    network.run(Time(arrival + 1_530 * 800));
    let queue = network.queue_length(port);
    assert_eq!((queue.quantile(0.5), queue.quantile(0.51)), (Some(0), Some(1_000)));
    // Nothing has asked for the queue since the frame left.
    let mut network = star(2, switch());
    send(&mut network, [frame(1, 0, 1_000)]);
    network.run(Time::us(10));
    network.keep_histogram(port);
    network.run(Time::us(20));
    assert_eq!(network.queue_length(port).quantile(1.0), Some(0));
}

#[test]
#[should_panic(expected = "alpha has parts of 1 to 1,024")]
fn a_threshold_has_bounds() {
    star(2, Switch { buffer: Buffer::Shared { bytes: 1_000, alpha: (1, 0) }, ..switch() });
}

#[test]
fn a_higher_priority_leaves_first_and_frames_of_one_in_order() {
    let mut network = star(10, switch());
    for (source, priority) in (1..10).zip([0, 0, 3, 7, 3, 0, 7, 1, 7]) {
        send(&mut network, [Frame { priority, payload: source, ..frame(source, 0, 1_000) }]);
    }
    network.run(Time::ms(1));
    let order: Vec<u32> = network.host(0).received.iter().map(|(_, f)| f.payload).collect();
    // The first one began before the others were there.
    assert_eq!(order, [1, 4, 7, 9, 3, 5, 8, 2, 6]);
}

/// Jain's index of the bytes that host 0 receives from four senders within 10 ms, and the part of
/// the time in which its port was busy.
fn shares(buffer: Buffer) -> (f64, f64) {
    let mut network = star(5, Switch { buffer, ..switch() });
    // Senders in lockstep would meet a full buffer in the same order each time. So they have
    // frames of slightly different lengths.
    for source in 1..5 {
        send(&mut network, (0..20_000).map(|_| frame(source, 0, 1_000 + 7 * source)));
    }
    network.run(Time::ms(10));
    let mut bytes: HashMap<u32, f64> = HashMap::new();
    for (_, frame) in &network.host(0).received {
        *bytes.entry(frame.source).or_default() += f64::from(frame.length);
    }
    let (sum, squares) =
        bytes.values().fold((0.0, 0.0), |(sum, squares), b| (sum + b, squares + b * b));
    let busy = network.counters(network.topology().port_to(0)).wire_bytes as f64;
    (sum * sum / (4.0 * squares), busy * 800.0 / Time::ms(10).0 as f64)
}

#[test]
fn senders_share_a_port_evenly() {
    let (jain, busy) = shares(Buffer::Unlimited);
    assert!(jain > 0.9999 && busy > 0.999, "Jain's index {jain}, busy {busy}");
    // A full buffer has room for shorter frames more often.
    let (jain, busy) = shares(Buffer::PerPort(100_000));
    assert!(jain > 0.98 && jain < 0.9999 && busy > 0.999, "Jain's index {jain}, busy {busy}");
}

fn two_tiers(spines: u32) -> Topology {
    let link = Link::new(Rate::gbit(10), Time::ZERO);
    let (leaves, hosts_per_leaf, host_link, core_link) = (4, 4, link, link);
    let plan = LeafSpine { leaves, hosts_per_leaf, spines, host_link, core_link, switch: switch() };
    Topology::leaf_spine(plan, Time::ZERO)
}

#[test]
fn flows_spread_over_all_spines_and_each_keeps_its_path() {
    let topology = two_tiers(4);
    let mut used: HashMap<u32, u32> = HashMap::new();
    for flow in 0..4_000 {
        let path = topology.path(0, 15, flow);
        assert_eq!(path.len(), 4, "NIC, leaf, spine, leaf");
        assert_eq!(path[3], topology.port_to(15));
        assert_eq!(path, topology.path(0, 15, flow));
        *used.entry(path[1]).or_default() += 1;
    }
    assert_eq!(used.len(), 4);
    assert!(used.values().all(|&count| (900..1_100).contains(&count)), "{used:?}");
    // Within a leaf there is one path.
    assert_eq!(topology.path(0, 3, 1), [0, topology.port_to(3)]);
    assert!(topology.ports_of(0).contains(&topology.port_to(3)));
}

#[test]
fn frames_of_a_flow_stay_in_order_and_sprayed_ones_do_not() {
    let in_order = |spray: bool| {
        let mut network = Network::new(two_tiers(4), hosts(16), 1);
        // Short frames overtake long ones on other paths.
        for source in 0..4 {
            let frames = (0..500u32).map(|payload| {
                let flow = if spray { payload * 31 + source } else { source };
                let length = if (payload + source) % 2 == 0 { 1_500 } else { 64 };
                Frame { flow, payload, ..frame(source, 12 + source % 2, length) }
            });
            send(&mut network, frames.collect::<Vec<_>>());
        }
        network.run(Time::NEVER);
        (0..4).all(|source| {
            let received = &network.host(12 + source % 2).received;
            let own = received.iter().filter(|(_, frame)| frame.source == source);
            let numbers: Vec<u32> = own.map(|(_, frame)| frame.payload).collect();
            assert_eq!(numbers.len(), 500);
            numbers.is_sorted()
        })
    };
    assert!(in_order(false));
    assert!(!in_order(true));
}

#[test]
fn cut_through_saves_the_time_of_a_frame_at_each_switch() {
    let arrival = |forwarding| {
        let mut network = star(2, Switch { forwarding, ..switch() });
        send(&mut network, [frame(0, 1, 1_500)]);
        network.run(Time::ms(1));
        network.host(1).received[0].0
    };
    let saved = arrival(Forwarding::StoreAndForward) - arrival(Forwarding::CutThrough);
    assert_eq!(saved, Time((1_508 - 72) * 800));
}
