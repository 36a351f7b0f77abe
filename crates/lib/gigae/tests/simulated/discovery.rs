//! Who is there.

use super::*;

/// In this time all have answered, where few are known.
const SPREAD: Duration = Duration::from_millis(6);

#[test]
fn endpoints_that_are_asked_say_who_they_are() {
    let net = Network::new(1, faults());
    let open = |name: &str, port, channels: &[u8], seed| {
        let options = Options::new("sim").name(name).port(port).channels(channels.to_vec());
        options.open_simulated(&net, seed).unwrap()
    };
    let (a, b) = (open("asker", 1, &[9], 1), open("n2", 7, &[0, 8, 255], 2));
    assert!(a.neighbours().is_empty());
    a.ask().unwrap();
    run(&net, [&a, &b], SPREAD);
    let [found] = &a.neighbours()[..] else { panic!("{:?}", a.neighbours()) };
    assert_eq!((found.name.as_str(), found.port), ("n2", 7));
    assert_eq!(found.address, Address::from(b.link().mac).port(7));
    assert_eq!((found.mac, found.ip), (b.link().mac, None));
    assert_eq!((found.mtu, found.max_message, &found.channels[..]), (1500, 1468, &[0, 8, 255][..]));
    assert!(b.neighbours().is_empty(), "whoever asks says nothing of itself");
    a.ask().unwrap();
    run(&net, [&a, &b], SPREAD);
    assert_eq!(a.neighbours().len(), 1, "no node is listed twice");
}

#[test]
fn on_a_network_that_loses_and_doubles_every_endpoint_is_found_in_the_end() {
    for seed in 0..20 {
        let wild = Faults { loss: 0.3, duplication: 0.2, corruption: 0.05, ..faults() };
        let net = Network::new(seed, wild);
        let open = |n: u32| {
            let options = Options::new("sim").name(&format!("n{n}")).linger(Duration::ZERO);
            options.open_simulated(&net, n).unwrap()
        };
        let ends: Vec<_> = (0..9).map(open).collect();
        let mut asked = 0;
        while ends[0].neighbours().len() < 8 {
            assert!(asked < 30, "seed {seed}: only {:?} after {asked}", ends[0].neighbours());
            ends[0].ask().unwrap();
            asked += 1;
            for _ in 0..100 {
                ends.iter().for_each(|end| end.progress().unwrap());
                net.advance_to(net.now() + 1_000_000);
            }
        }
        let names: Vec<_> = ends[0].neighbours().into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"]);
    }
}

#[test]
fn questions_beyond_the_bounded_rate_are_not_answered() {
    let net = Network::new(1, faults());
    let options = Options::new("sim");
    let a = options.clone().open_simulated(&net, 1).unwrap();
    let b = options.open_simulated(&net, 2).unwrap();
    run(&net, [&a, &b], Duration::from_millis(1));
    for _ in 0..200 {
        a.ask().unwrap();
    }
    run(&net, [&a, &b], SPREAD);
    let answers = |end: &Endpoint| end.counters().link.tx_frames;
    assert_eq!(answers(&b), 16);
    assert_eq!(b.counters().protocol.refused, 200 - 16, "the rest is counted");
    net.advance_to(net.now() + 100_000_000);
    a.ask().unwrap();
    run(&net, [&a, &b], SPREAD);
    assert_eq!(answers(&b), 17, "the next period");
}

/// A frame to all from any address, sealed as the protocol's own are.
fn question(from: gigae::MacAddr, src_epoch: u32) -> Vec<u8> {
    use gigae_wire::{Epoch, Flags, HEADER_LEN, Header, Kind, MacAddr, Route, SeqNo};
    let header = Header {
        kind: Kind::Who,
        channel: 77,
        src_port: 3,
        dst_port: 0xffff,
        src_epoch: Epoch(src_epoch),
        dst_epoch: Epoch(0),
        seq: SeqNo(0),
        ack: SeqNo(0),
        credit: 0,
        flags: Flags::NONE,
    };
    let to_all = MacAddr::BROADCAST;
    let route = Route::new(gigae::Envelope::DEFAULT, from.into(), to_all.into()).unwrap();
    let mut frame = vec![0; route.len() + HEADER_LEN];
    header.seal(&mut frame[route.len()..]);
    route.write(&mut frame);
    frame
}

#[test]
fn a_question_from_an_address_of_no_node_is_not_answered() {
    let net = Network::new(1, faults());
    let b = Options::new("sim").open_simulated(&net, 2).unwrap();
    let (port, mac) = net.add_port();
    let ask = |frame: &[u8]| {
        net.send(port, frame);
        for _ in 0..20 {
            b.progress().unwrap();
            net.advance_to(net.now() + 1_000);
        }
        std::iter::from_fn(|| net.receive(port)).count()
    };
    assert_eq!(ask(&question(mac, 5)), 1);
    assert_eq!(ask(&question(gigae::MacAddr([0xff; 6]), 5)), 0, "all");
    assert_eq!(ask(&question(gigae::MacAddr([1, 0, 0x5e, 0, 0, 1]), 5)), 0, "a group");
    assert_eq!(ask(&question(b.link().mac, 5)), 0, "itself");
    assert_eq!(ask(&question(mac, 0)), 0, "without a number");
    let mut cut = question(mac, 5);
    cut[30] ^= 1;
    assert_eq!(ask(&cut), 0, "a wrong checksum");
    assert_eq!(ask(&question(mac, 5)), 1);
}

#[test]
fn an_answer_that_was_not_asked_for_is_not_believed_nor_an_ip_of_a_group() {
    use gigae_wire::{Envelope, Epoch, HEADER_LEN, Header, Here, Kind, Route};
    let net = Network::new(1, faults());
    let a = Options::new("sim").open_simulated(&net, 1).unwrap();
    let (port, mac) = net.add_port();
    a.ask().unwrap();
    net.advance_to(net.now() + 10_000);
    let asked = net.receive(port).expect("the question goes to all");
    let (asked, payload) = Header::parse(&asked[14..]).unwrap();
    assert_eq!((asked.kind, payload.len()), (Kind::Who, 0));
    let answer = |question: Epoch, to_port: u16, ip: &str| {
        let ip = Some(ip.parse().unwrap());
        let here = Here { max_payload: 9, mtu: 1500, ip, channels: [0; 32], name: "attacker" };
        let mut payload = [0; Here::LONGEST];
        let len = here.write(&mut payload);
        let header = Header {
            kind: Kind::Here,
            src_port: 5,
            dst_port: to_port,
            src_epoch: Epoch(0),
            dst_epoch: question,
            ..asked
        };
        let route = Route::new(Envelope::DEFAULT, mac.into(), a.link().mac.into()).unwrap();
        let mut frame = vec![0; route.len() + HEADER_LEN + len];
        frame[route.len() + HEADER_LEN..].copy_from_slice(&payload[..len]);
        header.seal(&mut frame[route.len()..]);
        route.write(&mut frame);
        net.send(port, &frame);
        net.advance_to(net.now() + 10_000);
        a.progress().unwrap();
        a.neighbours()
    };
    assert!(answer(Epoch(asked.src_epoch.0 ^ 1), 0, "198.18.0.1").is_empty(), "not the question");
    assert!(answer(asked.src_epoch, 1, "198.18.0.1").is_empty(), "another port");
    for (ip, told) in [("224.0.0.1", false), ("127.0.0.1", false), ("198.18.0.1", true)] {
        let heard = answer(asked.src_epoch, 0, ip);
        assert_eq!((heard.len(), heard[0].ip.is_some()), (1, told), "{ip}");
    }
}

/// `count` endpoints behind ports of 10 Gbit/s. The first one asks.
fn many(count: u32, buffer: u64) -> (Network, Vec<Endpoint>) {
    let net = Network::new(1, Faults { rate: 1_250_000_000, buffer, ..faults() });
    let open = |n: u32| {
        let options = Options::new("sim").name(&format!("n{n}")).linger(Duration::ZERO);
        let options = options.tuned(if n == 0 { 1_024 } else { 65 }, |_| ());
        options.open_simulated(&net, n + 1).unwrap()
    };
    let ends = (0..count).map(open).collect();
    (net, ends)
}

/// Lets all make progress for as long as answers to one question take.
fn answer(net: &Network, ends: &[Endpoint]) {
    for _ in 0..SPREAD.as_micros() / 50 {
        ends.iter().for_each(|end| end.progress().unwrap());
        net.advance_to(net.now() + 50_000);
    }
}

#[test]
fn hundreds_that_are_asked_do_not_answer_at_the_same_moment() {
    // Some twenty answers fit.
    let (net, ends) = many(300, 2 << 10);
    ends[0].ask().unwrap();
    answer(&net, &ends);
    assert_eq!((ends[0].neighbours().len(), net.tally().lost), (299, 0));
}

#[test]
fn one_that_has_found_more_asks_them_to_answer_over_a_longer_time() {
    use gigae_wire::{Header, Kind};
    let (net, ends) = many(400, 1 << 20);
    let (mirror, _) = net.add_port();
    let asked = || {
        ends[0].ask().unwrap();
        net.advance_to(net.now() + 100_000);
        let frames: Vec<_> = std::iter::from_fn(|| net.receive(mirror)).collect();
        let header = frames.iter().map(|frame| Header::parse(&frame[14..]).unwrap().0);
        header.filter(|header| header.kind == Kind::Who).map(|header| header.credit).next()
    };
    assert_eq!(asked(), Some(50), "5 ms");
    answer(&net, &ends);
    assert_eq!(ends[0].neighbours().len(), 399);
    assert_eq!(asked(), Some(79), "20 us for each");
}
