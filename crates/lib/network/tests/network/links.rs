//! Times to the picosecond.

use crate::plain::{Plain, frame, hosts};
use gigae_network::{Forwarding, LeafSpine, Link, Network, Rate, Switch, Time, Topology};

fn one_switch(forwarding: Forwarding) -> Topology {
    let switch = Switch { forwarding, ..Switch::new(Time::ns(500)) };
    Topology::one_switch(3, Link::new(Rate::gbit(10), Time::ns(100)), switch, Time::ns(1_500))
}

/// When host 1 handles frames of these lengths that host 0 sends at once.
fn arrivals(topology: Topology, lengths: &[u32]) -> Vec<Time> {
    let count = topology.hosts();
    let mut network = Network::new(topology, hosts(count), 1);
    network.call(0, |host, _| {
        host.to_send.extend(lengths.iter().map(|&length| frame(0, count - 1, length)));
    });
    assert!(!network.run(Time::ms(10)));
    assert_eq!(network.now(), Time::ms(10));
    network.host(count - 1).received.iter().map(|&(at, _)| at).collect()
}

#[test]
fn a_frame_arrives_when_its_last_bit_has_passed_every_link() {
    // A byte takes 800 ps. On each link: 8 B of preamble and 1,000 B; the gap does not delay it.
    let each = 1_008 * 800;
    let fixed = 100_000 + 500_000 + 100_000 + 1_500_000;
    let expected = Time(2 * each + fixed);
    assert_eq!(arrivals(one_switch(Forwarding::StoreAndForward), &[1_000]), [expected]);
    // The switch begins after 8 + 64 B.
    let expected = Time(72 * 800 + each + fixed);
    assert_eq!(arrivals(one_switch(Forwarding::CutThrough), &[1_000]), [expected]);
}

#[test]
fn frames_follow_each_other_with_preamble_and_gap() {
    let times = arrivals(one_switch(Forwarding::StoreAndForward), &[1_000, 1_000, 64, 10]);
    let gaps: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]).0).collect();
    // The short frames wait for the second one, and arrive one shortest frame behind each other.
    // The last one is padded to 64 B.
    assert_eq!(gaps, [1_020 * 800, 84 * 800, 84 * 800]);
}

#[test]
fn a_cut_through_switch_stores_frames_for_a_faster_link() {
    let core_link = Link::new(Rate::gbit(40), Time::ZERO);
    let host_link = Link::new(Rate::gbit(10), Time::ZERO);
    let switch = Switch { forwarding: Forwarding::CutThrough, ..Switch::new(Time::ZERO) };
    let (leaves, hosts_per_leaf, spines) = (2, 1, 1);
    let plan = LeafSpine { leaves, hosts_per_leaf, spines, host_link, core_link, switch };
    let topology = Topology::leaf_spine(plan, Time::ZERO);
    // To the first leaf 1,008 B at 800 ps. To the spine and the second leaf each 72 B at 200 ps:
    // the spine's links are equally fast, and the last link is slower. Then 1,008 B at 800 ps.
    let expected = Time(1_008 * 800 + 2 * 72 * 200 + 1_008 * 800);
    assert_eq!(arrivals(topology.clone(), &[1_000]), [expected]);
    assert_eq!(topology.ideal(&topology.path(0, 1, 0), 0, 0, 1_000), expected);
}

#[test]
fn the_ideal_time_is_that_of_an_idle_network() {
    let published = LeafSpine::published();
    let cut_through = Switch { forwarding: Forwarding::CutThrough, ..published.switch };
    let mut narrow = Topology::leaf_spine(published, Time::ns(1_500));
    narrow.set_rate_to(143, Rate::gbit(1));
    let topologies = [
        one_switch(Forwarding::StoreAndForward),
        one_switch(Forwarding::CutThrough),
        Topology::leaf_spine(published, Time::ns(1_500)),
        Topology::leaf_spine(LeafSpine { switch: cut_through, ..published }, Time::ZERO),
        narrow,
    ];
    for (number, topology) in topologies.into_iter().enumerate() {
        for (full, last) in [(0, 64), (0, 700), (1, 0), (1, 64), (7, 1_499), (100, 90), (5, 0)] {
            let lengths: Vec<u32> =
                (0..full).map(|_| 1_500).chain((last > 0).then_some(last)).collect();
            let path = topology.path(0, topology.hosts() - 1, 0);
            let ideal = topology.ideal(&path, full, 1_500, last);
            let simulated = arrivals(topology.clone(), &lengths);
            assert_eq!(
                simulated.last(),
                Some(&ideal),
                "topology {number}, {full} full frames, last {last}"
            );
        }
    }
}

#[test]
fn a_full_link_carries_its_rate() {
    let frames = 10_000;
    let times = arrivals_within(frames, 1_518);
    let seconds = (times[frames - 1] - times[0]).seconds();
    let rate = (frames - 1) as f64 * 1_538.0 * 8.0 / seconds;
    assert!((rate - 1e10).abs() < 1.0, "{rate} bit/s");
}

fn arrivals_within(frames: usize, length: u32) -> Vec<Time> {
    let mut network = Network::new(one_switch(Forwarding::StoreAndForward), hosts(3), 1);
    network.call(0, |host, _| host.to_send.extend((0..frames).map(|_| frame(0, 1, length))));
    network.run(Time::NEVER);
    network.host(1).received.iter().map(|&(at, _)| at).collect()
}

#[test]
fn timers_fire_at_their_time_and_let_the_host_send() {
    let mut network = Network::new(one_switch(Forwarding::StoreAndForward), hosts(3), 1);
    network.call(0, |_, context| {
        for (at, length) in [(Time::us(700), 200), (Time::us(3), 100), (Time::us(3), 101)] {
            context.set_timer(at, length);
        }
    });
    network.run(Time::us(2));
    assert_eq!(network.totals().sent, 0);
    network.run(Time::us(3));
    assert_eq!(network.totals().sent, 1, "the second frame waits for the port");
    network.run(Time::ms(1));
    let lengths: Vec<u32> = network.host(1).received.iter().map(|(_, f)| f.length).collect();
    assert_eq!(lengths, [100, 101, 200]);
}

#[test]
fn losses_have_their_rate_and_follow_from_the_seed() {
    let lost = |seed| {
        let link = Link { loss: 0.01, ..Link::new(Rate::gbit(10), Time::ZERO) };
        let topology = Topology::one_switch(2, link, Switch::new(Time::ZERO), Time::ZERO);
        let mut network: Network<Plain> = Network::new(topology, hosts(2), seed);
        network.call(0, |host, _| host.to_send.extend((0..100_000).map(|_| frame(0, 1, 100))));
        network.run(Time::NEVER);
        let first = network.counters(0).lost;
        assert_eq!(
            first + network.counters(network.topology().port_to(1)).lost,
            network.totals().lost
        );
        let received = network.host(1).received.iter().map(|&(at, _)| at).collect::<Vec<_>>();
        (first, received)
    };
    let (first, received) = lost(1);
    assert!((900..1_100).contains(&first), "{first} of 100,000");
    assert_eq!(lost(1), (first, received.clone()));
    assert_ne!(lost(2).1, received);
}

#[test]
fn a_trace_holds_the_frames_of_its_ports() {
    let dir = std::env::temp_dir().join(format!("gigae-network-trace-{}", std::process::id()));
    let file = std::fs::File::create(&dir).unwrap();
    let mut network = Network::new(one_switch(Forwarding::StoreAndForward), hosts(3), 1);
    let port = network.topology().port_to(1);
    let write = |payload: &u32, out: &mut Vec<u8>| out.extend(payload.to_be_bytes());
    let trace = gigae_network::Trace::new(Box::new(file), &[port, 0], write).unwrap();
    network.set_trace(trace);
    network.call(0, |host, _| {
        let mut first = frame(0, 1, 1_000);
        first.payload = 0x0102_0304;
        host.to_send.extend([first, frame(0, 2, 60)]);
    });
    network.run(Time::ms(1));
    network.take_trace().unwrap().finish().unwrap();
    let bytes = std::fs::read(&dir).unwrap();
    std::fs::remove_file(&dir).unwrap();
    let mut frames = Vec::new();
    let mut reader = pcap_file::pcapng::PcapNgReader::new(&bytes[..]).unwrap();
    while let Some(block) = reader.next_block() {
        if let Some(packet) = block.unwrap().into_owned().into_enhanced_packet() {
            let data = packet.data.into_owned();
            frames.push((
                packet.interface_id,
                packet.timestamp.as_nanos(),
                packet.original_len,
                data,
            ));
        }
    }
    // Frames for host 2 are on host 0's port (interface 1) and not on that to host 1.
    let stored = u128::from(1_008 * 8 / 10 + 600u64);
    let seen: Vec<_> = frames.iter().map(|(port, at, length, _)| (*port, *at, *length)).collect();
    assert_eq!(seen, [(1, 0, 996), (1, 816, 60), (0, stored, 996)]);
    assert_eq!(frames[0].3, [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0x88, 0xB5, 1, 2, 3, 4]);
}
