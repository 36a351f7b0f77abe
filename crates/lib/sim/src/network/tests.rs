use super::*;
use std::time::Duration;

fn frame(to: MacAddr, n: u8) -> Vec<u8> {
    let mut frame = vec![n; 100];
    frame[..6].copy_from_slice(&to.0);
    frame
}

fn run(seed: u64) -> (Vec<Vec<u8>>, Tally) {
    let faults = Faults {
        loss: 0.2,
        duplication: 0.1,
        corruption: 0.1,
        disorder: 0.2,
        disorder_by: Duration::from_micros(50),
        delay: Duration::from_micros(5),
        ..Faults::default()
    };
    let net = Network::new(seed, faults);
    let (a, _) = net.add_port();
    let (b, mac) = net.add_port();
    for i in 0..200 {
        net.send(a, &frame(mac, i));
        net.advance_to(net.now() + 1000);
    }
    net.advance_to(1_000_000);
    (std::iter::from_fn(|| net.receive(b)).collect(), net.tally())
}

#[test]
fn the_same_seed_gives_the_same_frames_and_another_gives_others() {
    let (frames, tally) = run(7);
    assert_eq!((frames.clone(), tally), run(7));
    assert_ne!(frames, run(8).0);
    assert!(tally.lost > 0 && tally.duplicated > 0 && tally.corrupted > 0);
    assert_eq!(tally.sent + tally.duplicated - tally.lost, tally.delivered);
}

#[test]
fn a_frame_is_there_after_its_delay_and_not_before() {
    let delay = Duration::from_micros(5);
    let net = Network::new(1, Faults { delay, ..Faults::default() });
    let ((a, _), (b, mac)) = (net.add_port(), net.add_port());
    net.send(a, &frame(mac, 1));
    net.advance_to(4_999);
    assert!(!net.has_arrived(b));
    assert_eq!(net.next_arrival(), Some(5_000));
    net.advance_to(5_000);
    assert_eq!(net.receive(b), Some(frame(mac, 1)));
}

#[test]
fn a_cut_is_one_way_if_asked() {
    let net = Network::new(1, Faults::default());
    let ((a, mac_a), (b, mac_b)) = (net.add_port(), net.add_port());
    net.cut(b, true, false);
    net.send(a, &frame(mac_b, 1));
    net.send(b, &frame(mac_a, 2));
    assert!(net.has_arrived(b) && !net.has_arrived(a));
}

#[test]
fn two_ports_are_severed_in_one_direction_and_others_are_not() {
    let net = Network::new(1, Faults::default());
    let ((a, mac_a), (b, mac_b), (c, _)) = (net.add_port(), net.add_port(), net.add_port());
    net.sever(a, b, true);
    for from in [a, c] {
        net.send(from, &frame(mac_b, 1));
    }
    net.send(b, &frame(mac_a, 2));
    let at = |port| std::iter::from_fn(|| net.receive(port)).count();
    assert_eq!((at(a), at(b)), (1, 1));
    net.join_all();
    net.send(a, &frame(mac_b, 1));
    assert_eq!((at(b), net.tally().lost), (1, 1));
}

#[test]
fn a_port_that_is_reopened_has_its_address_and_gets_what_was_on_the_way() {
    let delay = Duration::from_micros(5);
    let net = Network::new(1, Faults { delay, ..Faults::default() });
    let ((a, _), (b, mac_b)) = (net.add_port(), net.add_port());
    net.send(a, &frame(mac_b, 1));
    net.advance_to(5_000);
    assert!(net.has_arrived(b));
    net.send(a, &frame(mac_b, 2));
    net.reopen(b);
    assert_eq!(net.add_port(), (b, mac_b));
    assert!(net.receive(b).is_none());
    net.advance_to(10_000);
    assert_eq!(net.receive(b), Some(frame(mac_b, 2)));
    assert_ne!(net.add_port().0, b);
}

#[test]
fn arrivals_name_each_port_once() {
    let net = Network::new(1, Faults::default());
    let ((a, mac_a), (b, mac_b)) = (net.add_port(), net.add_port());
    for (from, to) in [(a, mac_b), (b, mac_a), (a, mac_b)] {
        net.send(from, &frame(to, 1));
    }
    let mut ports = Vec::new();
    net.arrivals(&mut ports);
    assert_eq!(ports, [b, a]);
    net.arrivals(&mut ports);
    assert_eq!(ports.len(), 2);
    net.send(a, &frame(mac_b, 1));
    net.arrivals(&mut ports);
    assert_eq!(ports, [b, a, b]);
}

#[test]
fn a_frame_passes_only_where_every_mtu_on_its_way_allows_it() {
    let net = Network::new(1, Faults::default());
    let (a, mac_a) = net.add_port();
    net.set_mtu(9000);
    let ((b, mac_b), (c, mac_c)) = (net.add_port(), net.add_port());
    assert_eq!([a, b, c].map(|port| net.mtu(port)), [1500, 9000, 9000]);
    for (from, to, length) in [(a, mac_b, 1515), (b, mac_a, 1515), (b, mac_c, 9015)] {
        let mut long = frame(to, 1);
        long.resize(length, 1);
        net.send(from, &long);
        assert!(![a, b, c].iter().any(|&port| net.has_arrived(port)), "{length} bytes");
        long.truncate(length - 1);
        net.send(from, &long);
        let arrived = [a, b, c].iter().find_map(|&port| net.receive(port));
        assert_eq!(arrived, Some(long));
    }
    assert_eq!((net.tally().too_long, net.tally().lost), (3, 0));
}

#[test]
fn a_black_hole_swallows_what_is_longer_and_nothing_else() {
    let net = Network::new(1, Faults { black_hole: 1514, ..Faults::default() });
    net.set_mtu(9000);
    let ((a, _), (b, mac)) = (net.add_port(), net.add_port());
    let mut long = frame(mac, 1);
    for (length, passes) in [(1514, true), (1515, false), (9014, false), (60, true)] {
        long.resize(length, 1);
        net.send(a, &long);
        assert_eq!(net.receive(b), passes.then(|| long.clone()), "{length} bytes");
    }
    assert_eq!((net.tally().too_long, net.tally().lost), (2, 0));
    net.set_faults(Faults::default());
    long.resize(9014, 1);
    net.send(a, &long);
    assert!(net.receive(b).is_some());
}

#[test]
fn a_port_with_faults_of_its_own_does_not_share_those_of_the_others() {
    let net = Network::new(1, Faults::default());
    let ((a, _), (b, mac_b), (c, mac_c)) = (net.add_port(), net.add_port(), net.add_port());
    net.set_port_faults(c, Faults { delay: Duration::from_micros(5), ..Faults::default() });
    net.send(a, &frame(mac_b, 1));
    net.send(a, &frame(mac_c, 2));
    assert!(net.has_arrived(b) && !net.has_arrived(c));
    assert!(net.wait(&[a, c], Some(10_000)) && net.now() == 5_000);
    assert!(!net.wait(&[a], Some(10_000)) && net.now() == 15_000);
}

#[test]
fn a_full_buffer_drops_and_the_rate_spaces_frames_out() {
    let faults = Faults { rate: 1_000_000_000, buffer: 250, ..Faults::default() };
    let net = Network::new(1, faults);
    let ((a, _), (b, mac)) = (net.add_port(), net.add_port());
    for i in 0..3 {
        net.send(a, &frame(mac, i));
    }
    assert_eq!(net.tally().lost, 1);
    net.advance_to(100);
    assert!(net.receive(b).is_some() && net.receive(b).is_none());
    net.advance_to(200);
    assert!(net.receive(b).is_some());
}

#[test]
fn a_capture_holds_every_frame_with_its_virtual_time() {
    let path = std::env::temp_dir().join(format!("gigae-sim-{}.pcapng", std::process::id()));
    let net = Network::new(1, Faults::default());
    net.capture(std::fs::File::create(&path).unwrap()).unwrap();
    let ((a, _), (_, mac)) = (net.add_port(), net.add_port());
    net.advance_to(1_500_000_042);
    net.send(a, &frame(mac, 9));
    drop(net);
    let file = std::fs::File::open(&path).unwrap();
    let mut reader = pcap_file::pcapng::PcapNgReader::new(file).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Some(packet) = block.unwrap().into_owned().into_enhanced_packet() {
            packets.push((packet.timestamp.as_nanos(), packet.data.into_owned()));
        }
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(packets, [(1_500_000_042, frame(mac, 9))]);
}

#[test]
fn a_caller_that_carries_frames_gets_and_hands_over_each() {
    let net = Network::new(1, Faults { loss: 1.0, ..Faults::default() });
    net.set_relayed();
    let ((a, _), (b, mac)) = (net.add_port(), net.add_port());
    let sent = frame(mac, 9);
    net.send(a, &sent);
    assert!(!net.has_arrived(b), "nothing arrives by itself");
    assert_eq!(net.take_sent(), Some((a, sent.clone())));
    assert_eq!(net.take_sent(), None);
    net.deliver(b, sent.clone());
    let arrived = net.receive(b).unwrap();
    assert!(arrived.starts_with(&sent) && arrived.len() >= 60, "padded as on a wire");
    assert_eq!((net.receive(b), net.tally().lost), (None, 0), "no fault happens to it");
}
