//! Several links as one.

use super::*;

/// Two endpoints with `links` links each, and their ports, which come in the same order.
fn trunks(net: &Network, links: usize) -> (Endpoint, Endpoint, Peer) {
    let options = Options::trunk((0..links).map(|i| format!("sim{i}")));
    let a = options.clone().open_simulated(net, 1).unwrap();
    let b = options.open_simulated(net, 2).unwrap();
    let to_b = a.peer(Address::from(b.link().mac)).unwrap();
    (a, b, to_b)
}

#[test]
fn messages_go_by_all_links_of_a_trunk_and_arrive_in_order() {
    let net = Network::new(1, faults());
    let (a, b, to_b) = trunks(&net, 4);
    let (mut sent, mut got) = (0u32, 0u32);
    let mut message = [7; 1000];
    while got < 10_000 {
        while sent < 10_000 {
            message[..4].copy_from_slice(&sent.to_be_bytes());
            if a.try_send(to_b, &message).is_err() {
                break;
            }
            sent += 1;
        }
        run(&net, [&a, &b], Duration::from_micros(20));
        let mut held = Vec::new();
        while let Some(message) = b.try_recv().unwrap() {
            assert_eq!(message[..4], got.to_be_bytes());
            assert_eq!(b.address(message.from()), Address::from(a.link().mac));
            got += 1;
            held.push(message);
        }
    }
    run(&net, [&a, &b], Duration::from_millis(1));
    a.drain(Duration::ZERO).unwrap();
    for path in a.paths() {
        assert!(path.link.tx_frames > 500, "{path:?}");
        assert_eq!((path.counters.lost, path.counters.deaths), (0, 0));
    }
    assert!(a.counters().link.tx_frames >= 10_000, "all links together");
}

#[test]
fn messages_that_are_kept_stay_what_they_are_whichever_link_they_came_by() {
    let net = Network::new(1, faults());
    let (a, b, to_b) = trunks(&net, 2);
    a.send(to_b, b"both").unwrap();
    run(&net, [&a, &b], Duration::from_millis(1));
    drop(b.try_recv().unwrap().expect("it has arrived"));
    (0..60u32).for_each(|n| a.send(to_b, &n.to_be_bytes()).unwrap());
    run(&net, [&a, &b], Duration::from_millis(1));
    let held: Vec<_> = std::iter::from_fn(|| b.try_recv().unwrap()).collect();
    assert!(b.paths().iter().all(|path| path.link.rx_frames > 5));
    let numbers = held.iter().map(|m| u32::from_be_bytes(*m.first_chunk().unwrap()));
    assert!(numbers.eq(0..60));
    // In any order.
    let (even, odd): (Vec<_>, Vec<_>) = held.into_iter().partition(|m| m[3] % 2 == 0);
    drop(odd);
    assert_eq!(even.iter().map(|m| u64::from(m[3])).sum::<u64>(), 30 * 29);
}

#[test]
fn a_trunk_of_which_a_link_is_cut_goes_on_with_the_others() {
    let net = Network::new(1, faults());
    let (a, b, to_b) = trunks(&net, 2);
    let first = a.link().mac;
    a.send(to_b, b"both").unwrap();
    run(&net, [&a, &b], Duration::from_millis(2));
    net.cut(net.port_of(first).expect("it is there"), true, true);
    assert_eq!(&b.try_recv().unwrap().unwrap()[..], b"both");
    for n in 0..50u32 {
        a.send(to_b, &n.to_be_bytes()).unwrap();
    }
    run(&net, [&a, &b], Duration::from_millis(50));
    for n in 0..50u32 {
        assert_eq!(b.try_recv().unwrap().expect("it has arrived")[..], n.to_be_bytes());
    }
    assert_eq!(a.paths()[0].counters.deaths, 1);
    net.cut(net.port_of(first).expect("it is there"), false, false);
    run(&net, [&a, &b], Duration::from_millis(200));
    assert_eq!(a.paths()[0].counters.returns, 1);
}

#[test]
fn a_trunk_says_who_it_is_by_the_link_by_which_it_is_asked() {
    let net = Network::new(1, faults());
    let trunk = Options::trunk(["sim0", "sim1"]).name("both").open_simulated(&net, 1).unwrap();
    let one = Options::new("sim").name("one").open_simulated(&net, 2).unwrap();
    one.ask().unwrap();
    run(&net, [&trunk, &one], Duration::from_millis(6));
    // The simulated links are on one network, so all are asked.
    let mut found: Vec<_> = one.neighbours().into_iter().map(|n| (n.name, n.mac)).collect();
    found.sort_by_key(|(_, mac)| mac.0);
    let macs = trunk.paths().into_iter().map(|path| path.info.mac);
    assert!(found.into_iter().eq(macs.map(|mac| ("both".to_owned(), mac))));
    trunk.ask().unwrap();
    run(&net, [&trunk, &one], Duration::from_millis(6));
    let found: Vec<_> = trunk.neighbours().into_iter().map(|n| n.name).collect();
    assert_eq!(found, ["one"], "not itself");
}

#[test]
fn a_jumbo_frame_on_any_link_of_a_trunk_goes_back_to_that_link() {
    let net = Network::new(1, faults());
    net.set_mtu(9000);
    let (a, b, to_b) = trunks(&net, 2);
    a.send(to_b, b"up").unwrap();
    run(&net, [&a, &b], Duration::from_micros(200));
    assert!(b.try_recv().unwrap().is_some());
    let (stranger, _) = net.add_port();
    for i in 0..3000_u32 {
        for path in b.paths() {
            let mut long = vec![0; 9014];
            long[..6].copy_from_slice(&path.info.mac.0);
            long[6] = 2;
            long[12..14].copy_from_slice(&[0x88, 0xb5]);
            // Of this version, and too short for what it says.
            (long[18], long[20], long[21]) = (0x37, 0xff, 0xff);
            net.send(stranger, &long);
        }
        a.send(to_b, &i.to_be_bytes()).unwrap();
        run(&net, [&a, &b], Duration::from_micros(20));
        assert_eq!(b.try_recv().unwrap().expect("it has arrived")[..], i.to_be_bytes());
    }
    let counted = b.counters();
    assert_eq!((counted.protocol.short, counted.link.rx_dropped), (6000, 0));
}

#[test]
fn what_cannot_be_a_trunk_is_refused_with_the_reason() {
    let net = Network::new(1, faults());
    let refused = |options: Options| options.open_simulated(&net, 1).unwrap_err().to_string();
    let nine = (0..9).map(|i| format!("eth{i}"));
    assert!(refused(Options::trunk(nine)).contains("1 to 8"));
    assert!(refused(Options::trunk([] as [&str; 0])).contains("1 to 8"));
    assert!(refused(Options::trunk(["eth1", "eth1"])).contains("twice"));
    let udp = gigae::Envelope::Udp { port: 4791 };
    assert!(refused(Options::trunk(["eth1", "eth2"]).envelope(udp)).contains("IP address"));
}
