//! Endpoints on a simulated network: the public API without a kernel, in virtual time.
#![allow(missing_docs)]

use gigae::{Address, Endpoint, Options, Peer, Reason, RecvError, SendError, TrySendError};
use gigae_sim::{Faults, Network};
use std::time::Duration;

fn faults() -> Faults {
    Faults { delay: Duration::from_micros(5), ..Faults::default() }
}

/// Two endpoints that know each other.
fn pair(net: &Network, options: &Options) -> (Endpoint, Endpoint, Peer, Peer) {
    let a = options.clone().open_simulated(net, 1).unwrap();
    let b = options.clone().open_simulated(net, 2).unwrap();
    let to_b = a.peer(Address::from(b.link().mac)).unwrap();
    let to_a = b.peer(Address::from(a.link().mac)).unwrap();
    (a, b, to_b, to_a)
}

/// Lets time pass while both ends make progress.
fn run(net: &Network, ends: [&Endpoint; 2], time: Duration) {
    let end = net.now() + time.as_nanos() as u64;
    while net.now() < end {
        for endpoint in ends {
            endpoint.progress().unwrap();
        }
        net.advance_to(net.now() + 1_000);
    }
}

#[test]
fn a_message_arrives_as_it_was_sent_and_an_answer_goes_back_to_its_sender() {
    let net = Network::new(1, faults());
    let (a, b, to_b, to_a) = pair(&net, &Options::new("sim"));
    a.send(to_b, b"question").unwrap();
    run(&net, [&a, &b], Duration::from_micros(100));
    let question = b.try_recv().unwrap().expect("it has arrived");
    assert_eq!((&question[..], question.from()), (&b"question"[..], to_a));
    b.send(question.from(), b"answer").unwrap();
    drop(question);
    run(&net, [&a, &b], Duration::from_micros(100));
    assert_eq!(&a.try_recv().unwrap().unwrap()[..], b"answer");
    a.drain(Duration::ZERO).unwrap();
}

#[test]
fn a_buffer_filled_in_place_is_what_arrives() {
    let net = Network::new(1, faults());
    let (a, b, to_b, _to_a) = pair(&net, &Options::new("sim"));
    let mut buffer = a.buffer().unwrap();
    assert_eq!(buffer.len(), 1468);
    buffer[..5].copy_from_slice(b"gigae");
    buffer.send(to_b, 5).unwrap();
    run(&net, [&a, &b], Duration::from_micros(100));
    assert_eq!(&b.try_recv().unwrap().unwrap()[..], b"gigae");
}

#[test]
fn queued_messages_go_with_one_doorbell() {
    let net = Network::new(1, faults());
    let (a, b, to_b, _to_a) = pair(&net, &Options::new("sim"));
    a.send(to_b, b"up").unwrap();
    run(&net, [&a, &b], Duration::from_micros(100));
    let before = a.counters().link.doorbells;
    for i in 0..10 {
        a.queue(to_b, &[i]).unwrap();
    }
    assert_eq!(a.counters().link.doorbells, before);
    a.flush().unwrap();
    assert_eq!(a.counters().link.doorbells, before + 1);
}

#[test]
fn what_is_queued_goes_out_with_the_next_receive_at_the_latest() {
    let net = Network::new(1, faults());
    let (a, b, to_b, _to_a) = pair(&net, &Options::new("sim"));
    a.queue(to_b, b"queued").unwrap();
    assert!(a.try_recv().unwrap().is_none());
    run(&net, [&a, &b], Duration::from_micros(100));
    assert_eq!(&b.try_recv().unwrap().unwrap()[..], b"queued");
}

#[test]
fn a_message_that_is_too_long_is_refused_with_the_limit() {
    let net = Network::new(1, faults());
    let (a, _b, to_b, _to_a) = pair(&net, &Options::new("sim"));
    let Err(SendError::TooLong { len: 1469, max: 1468 }) = a.send(to_b, &[0; 1469]) else {
        panic!("accepted");
    };
    let Err(TrySendError::Refused(SendError::TooLong { .. })) = a.try_send(to_b, &[0; 1469]) else {
        panic!("accepted");
    };
}

#[test]
fn a_full_window_refuses_to_block_and_gives_the_buffer_back() {
    let net = Network::new(1, faults());
    let (a, b, to_b, _to_a) = pair(&net, &Options::new("sim"));
    let mut sent = 0u32;
    loop {
        match a.try_send(to_b, &sent.to_be_bytes()) {
            Ok(()) => sent += 1,
            Err(TrySendError::WouldBlock(())) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(sent, 256, "the send window");
    run(&net, [&a, &b], Duration::from_millis(5));
    let mut got = 0u32;
    while got < sent {
        while let Some(message) = b.try_recv().unwrap() {
            assert_eq!(message[..], got.to_be_bytes());
            got += 1;
        }
        run(&net, [&a, &b], Duration::from_micros(100));
    }
    a.drain(Duration::ZERO).unwrap();
}

#[test]
fn messages_to_a_lost_peer_come_back_and_nothing_is_silent() {
    let net = Network::new(1, faults());
    let options = Options::new("sim").peer_timeout(Duration::from_millis(50));
    let (a, b, to_b, _to_a) = pair(&net, &options);
    a.send(to_b, b"arrives").unwrap();
    run(&net, [&a, &b], Duration::from_millis(1));
    net.set_faults(Faults { loss: 1.0, ..faults() });
    a.send(to_b, b"one").unwrap();
    a.queue(to_b, b"two").unwrap();
    for _ in 0..100_000 {
        net.advance_to(net.now() + 1_000);
        a.progress().unwrap();
    }
    assert!(matches!(a.try_recv(), Err(RecvError::Failed)));
    assert!(matches!(a.send(to_b, b"three"), Err(SendError::Failed)));
    let failed: Vec<_> =
        std::iter::from_fn(|| a.take_failure()).map(|f| (f.to_vec(), f.to(), f.reason())).collect();
    assert_eq!(
        failed,
        [(b"one".to_vec(), to_b, Reason::Timeout), (b"two".to_vec(), to_b, Reason::Timeout)]
    );
    assert!(a.try_recv().unwrap().is_none());
}

#[test]
fn a_peer_that_closes_says_so_before_any_timeout() {
    let net = Network::new(1, faults());
    let (a, b, to_b, _to_a) = pair(&net, &Options::new("sim"));
    a.send(to_b, b"arrives").unwrap();
    run(&net, [&a, &b], Duration::from_millis(1));
    drop(b);
    a.send(to_b, b"too late").unwrap();
    net.advance_to(net.now() + 10_000);
    a.progress().unwrap();
    assert_eq!(a.take_failure().unwrap().reason(), Reason::Reset);
}

#[test]
fn messages_kept_by_the_application_are_copied_before_the_link_runs_dry() {
    let net = Network::new(1, faults());
    let b = Options::new("sim").open_simulated(&net, 99).unwrap();
    let senders: Vec<_> = (1..=12)
        .map(|seed| Options::new("sim").open_simulated(&net, seed).unwrap())
        .map(|a| (a.peer(Address::from(b.link().mac)).unwrap(), a))
        .collect();
    let mut kept = Vec::new();
    for _ in 0..200 {
        for (to_b, a) in &senders {
            while a.try_send(*to_b, b"kept").is_ok() {}
            run(&net, [a, &b], Duration::from_micros(20));
        }
        kept.extend(std::iter::from_fn(|| b.try_recv().unwrap()));
    }
    assert_eq!(kept.len(), 12 * 64, "each sender was stopped at its first credit");
    assert_eq!(b.counters().copied, 12 * 64 - 512, "half of the 1,024 frames may be lent");
    assert_eq!(b.counters().link.rx_dropped, 0);
    drop(kept);
    for (_, a) in &senders {
        run(&net, [a, &b], Duration::from_millis(1));
    }
    assert!(b.try_recv().unwrap().is_some(), "they go on when the messages are given back");
}

#[test]
fn a_run_under_faults_is_the_same_for_the_same_seed() {
    let once = || {
        let wild = Faults { loss: 0.1, duplication: 0.05, corruption: 0.05, ..faults() };
        let net = Network::new(42, wild);
        let (a, b, to_b, _to_a) = pair(&net, &Options::new("sim"));
        let mut got = Vec::new();
        let mut next = 0u32;
        while got.len() < 500 {
            while next < 500 && a.try_send(to_b, &next.to_be_bytes()).is_ok() {
                next += 1;
            }
            run(&net, [&a, &b], Duration::from_micros(200));
            while let Some(message) = b.try_recv().unwrap() {
                got.push(u32::from_be_bytes(message[..].try_into().unwrap()));
            }
        }
        assert_eq!(got, (0..500).collect::<Vec<_>>());
        (net.now(), net.tally(), a.counters().protocol)
    };
    let first = once();
    assert!(first.2.retransmissions > 0);
    assert_eq!(first, once());
}

/// What a stranger may put on the wire: each frame is counted under its reason and nothing happens.
#[test]
fn hostile_frames_are_counted_and_dropped() {
    use gigae_wire::{Envelope, Epoch, Flags, HEADER_LEN, Header, Kind, Route, SeqNo};
    let net = Network::new(1, faults());
    let (a, b, to_b, _to_a) = pair(&net, &Options::new("sim"));
    let (stranger, mac) = net.add_port();
    let route = Route::new(Envelope::DEFAULT, mac.into(), b.link().mac.into()).unwrap();
    let valid = |kind, payload: &[u8]| {
        let header = Header {
            kind,
            channel: 0,
            src_port: 0,
            dst_port: 0,
            src_epoch: Epoch(7),
            dst_epoch: Epoch(9),
            seq: SeqNo(7),
            ack: SeqNo(9),
            credit: 10,
            flags: Flags::ASK,
        };
        let mut frame = vec![0; route.len() + HEADER_LEN];
        frame.extend_from_slice(payload);
        header.seal(&mut frame[route.len()..]);
        route.write(&mut frame);
        frame
    };
    let data = valid(Kind::Data, &[1; 40]);
    let changed = |at: usize, to: u8| {
        let mut frame = data.clone();
        frame[at] = to;
        frame
    };
    // The network pads to 60 bytes, so a frame is cut short by stating more than there is.
    let frames = [
        changed(route.len() + 6, 0xff),
        changed(route.len() + 4, 0x21),
        changed(route.len() + HEADER_LEN, 2),
        data.clone(),
        valid(Kind::Ack, &[]),
        valid(Kind::Reset, &[]),
        valid(Kind::HelloAck, &[5, 0xbc, 0, 0, 5, 0xbc]),
        valid(Kind::Hello, &[0; 2]),
    ];
    for frame in &frames {
        net.send(stranger, frame);
        run(&net, [&a, &b], Duration::from_micros(20));
    }
    let counted = b.counters().protocol;
    let by_reason =
        [counted.short, counted.version, counted.checksum, counted.epoch, counted.malformed];
    assert_eq!(by_reason, [1, 1, 1, 4, 1], "{counted:?}");
    assert_eq!((counted.messages_received, counted.sessions), (0, 0));
    a.send(to_b, b"still there").unwrap();
    run(&net, [&a, &b], Duration::from_micros(100));
    assert_eq!(&b.try_recv().unwrap().unwrap()[..], b"still there");
}

/// Two endpoints whose session is up, with nothing on the way.
fn warm(net: &Network, options: &Options) -> (Endpoint, Endpoint, Peer, Peer) {
    let (a, b, to_b, to_a) = pair(net, options);
    a.send(to_b, b"warm-up").unwrap();
    run(net, [&a, &b], Duration::from_micros(200));
    assert!(b.try_recv().unwrap().is_some());
    run(net, [&a, &b], Duration::from_micros(200));
    a.drain(Duration::ZERO).unwrap();
    (a, b, to_b, to_a)
}

fn frames_sent(endpoint: &Endpoint) -> u64 {
    endpoint.counters().link.tx_frames
}

#[test]
fn small_messages_that_wait_for_a_doorbell_share_a_frame_and_arrive_one_by_one() {
    let net = Network::new(1, faults());
    let (a, b, to_b, to_a) = warm(&net, &Options::new("sim"));
    let before = frames_sent(&a);
    let bodies: Vec<Vec<u8>> = (0..100u8).map(|n| vec![n; usize::from(n % 13)]).collect();
    for (n, body) in bodies.iter().enumerate() {
        if n % 2 == 0 {
            a.queue(to_b, body).unwrap();
        } else {
            let mut buffer = a.buffer().unwrap();
            buffer[..body.len()].copy_from_slice(body);
            buffer.queue(to_b, body.len()).unwrap();
        }
    }
    a.flush().unwrap();
    assert_eq!(frames_sent(&a), before + 1);
    run(&net, [&a, &b], Duration::from_micros(100));
    for body in &bodies {
        let message = b.try_recv().unwrap().expect("all have arrived");
        assert_eq!((&message[..], message.from()), (&body[..], to_a));
    }
    assert!(b.try_recv().unwrap().is_none());
    run(&net, [&a, &b], Duration::from_micros(200));
    a.drain(Duration::ZERO).unwrap();
    assert_eq!(a.counters().protocol.messages_sent, 101);
    assert_eq!(b.counters().protocol.messages_received, 101);
}

#[test]
fn a_frame_takes_as_many_messages_as_fit_and_the_next_one_begins_another() {
    let net = Network::new(1, faults());
    let (a, b, to_b, _to_a) = warm(&net, &Options::new("sim"));
    let before = frames_sent(&a);
    // 1,468 bytes hold 146 messages of 8 bytes with their lengths, and two of 732.
    for _ in 0..147 {
        a.queue(to_b, &[7; 8]).unwrap();
    }
    a.flush().unwrap();
    assert_eq!(frames_sent(&a), before + 2);
    for len in [732, 732, 733, 732, 1468, 8] {
        a.queue(to_b, &vec![1; len]).unwrap();
    }
    a.flush().unwrap();
    assert_eq!(frames_sent(&a), before + 2 + 5);
    run(&net, [&a, &b], Duration::from_micros(100));
    let mut lengths = Vec::new();
    while let Some(message) = b.try_recv().unwrap() {
        lengths.push(message.len());
    }
    assert_eq!(lengths[..147], [8; 147]);
    assert_eq!(lengths[147..], [732, 732, 733, 732, 1468, 8]);
}

#[test]
fn a_message_that_is_sent_at_once_has_a_frame_of_its_own() {
    let net = Network::new(1, faults());
    let (a, _b, to_b, _to_a) = warm(&net, &Options::new("sim"));
    let before = frames_sent(&a);
    a.send(to_b, b"one").unwrap();
    a.send(to_b, b"two").unwrap();
    assert_eq!(frames_sent(&a), before + 2);
}

#[test]
fn messages_share_a_frame_while_the_flight_holds_them_back() {
    let net = Network::new(1, faults());
    let (a, b, to_b, _to_a) = warm(&net, &Options::new("sim"));
    let before = frames_sent(&a);
    // Nothing is acknowledged meanwhile: 64 frames fly, the rest waits and is put together.
    let bodies: Vec<_> = (0..1000u32).map(u32::to_be_bytes).collect();
    for body in &bodies {
        a.send(to_b, body).unwrap();
    }
    let flying = frames_sent(&a) - before;
    let mut got = Vec::new();
    while got.len() < bodies.len() {
        run(&net, [&a, &b], Duration::from_micros(50));
        while let Some(message) = b.try_recv().unwrap() {
            got.push(<[u8; 4]>::try_from(&message[..]).unwrap());
        }
    }
    assert_eq!(got, bodies);
    assert!(frames_sent(&a) - before < flying + 10, "{flying} and {}", frames_sent(&a) - before);
}

#[test]
fn without_aggregation_every_message_has_a_frame_of_its_own() {
    let net = Network::new(1, faults());
    let (a, _b, to_b, _to_a) = warm(&net, &Options::new("sim").aggregate(false));
    let before = frames_sent(&a);
    for _ in 0..10 {
        a.queue(to_b, b"alone").unwrap();
    }
    a.flush().unwrap();
    assert_eq!(frames_sent(&a), before + 10);
}

#[test]
fn a_message_that_shared_a_frame_keeps_its_bytes_while_others_come_and_go() {
    let net = Network::new(1, faults());
    let (a, b, to_b, _to_a) = warm(&net, &Options::new("sim"));
    let mut kept = Vec::new();
    let mut n = 0u32;
    // More rounds than the link has frames: a frame that was given back too early would be overwritten.
    for round in 0..3000u32 {
        for _ in 0..3 {
            a.queue(to_b, &n.to_be_bytes()).unwrap();
            n += 1;
        }
        a.flush().unwrap();
        run(&net, [&a, &b], Duration::from_micros(20));
        for place in 0..3 {
            let message = b.try_recv().unwrap().expect("it has arrived");
            assert_eq!(message[..], (round * 3 + place).to_be_bytes());
            if round % 300 == 0 && place == 1 {
                kept.push((round * 3 + place, message));
            }
        }
    }
    for (n, message) in kept {
        assert_eq!(message[..], n.to_be_bytes());
    }
}

#[test]
fn shared_frames_past_the_cap_are_copied_and_the_sender_is_stopped_all_the_same() {
    let net = Network::new(1, faults());
    let (a, b, to_b, _to_a) = warm(&net, &Options::new("sim"));
    let mut kept = Vec::new();
    let mut sent = 0u32;
    let mut stalled = 0;
    while stalled < 50 {
        let before = sent;
        for _ in 0..8 {
            match a.try_send(to_b, &sent.to_be_bytes()) {
                Ok(()) => sent += 1,
                Err(TrySendError::WouldBlock(())) => break,
                Err(e) => panic!("{e}"),
            }
        }
        run(&net, [&a, &b], Duration::from_micros(20));
        while let Some(message) = b.try_recv().unwrap() {
            kept.push(message);
        }
        stalled = if sent == before { stalled + 1 } else { 0 };
        assert!(sent < 100_000, "a receiver that keeps everything must stop the sender");
    }
    for (n, message) in kept.iter().enumerate() {
        assert_eq!(message[..], (n as u32).to_be_bytes());
    }
    drop(kept);
    let mut got = 0;
    for _ in 0..200 {
        run(&net, [&a, &b], Duration::from_micros(100));
        while let Some(message) = b.try_recv().unwrap() {
            drop(message);
            got += 1;
        }
    }
    assert!(got > 0, "GO");
    a.drain(Duration::ZERO).unwrap();
}

#[test]
fn messages_of_a_failed_frame_come_back_one_by_one_and_nothing_is_sent_before() {
    let net = Network::new(1, faults());
    let options = Options::new("sim").peer_timeout(Duration::from_millis(50));
    let (a, b, to_b, _to_a) = warm(&net, &options);
    for body in [&b"one"[..], b"", b"three"] {
        a.queue(to_b, body).unwrap();
    }
    net.set_faults(Faults { loss: 1.0, ..faults() });
    a.flush().unwrap();
    run(&net, [&a, &b], Duration::from_millis(60));
    let mut failed = Vec::new();
    while let Some(message) = a.take_failure() {
        assert_eq!((message.to(), message.reason()), (to_b, Reason::Timeout));
        failed.push(message.to_vec());
        if failed.len() < 3 {
            assert!(matches!(a.queue(to_b, b"next"), Err(SendError::Failed)));
            assert!(matches!(a.try_recv(), Err(RecvError::Failed)));
        }
    }
    assert_eq!(failed, [&b"one"[..], b"", b"three"]);
    a.queue(to_b, b"next").unwrap();
}

#[test]
fn a_mix_of_sizes_arrives_in_order_through_loss_with_and_without_a_payload_checksum() {
    for (seed, checksum) in [(1, true), (2, false), (3, true)] {
        let lossy = Faults {
            loss: 0.05,
            duplication: 0.02,
            disorder: 0.05,
            disorder_by: Duration::from_micros(30),
            ..faults()
        };
        let net = Network::new(seed, lossy);
        let options = Options::new("sim").payload_checksum(checksum);
        let (a, b, to_b, _to_a) = pair(&net, &options);
        let body = |n: u32| -> Vec<u8> {
            let len = [0, 4, 8, 40, 300, 731, 1468][(n as usize * 31 + n as usize / 7) % 7];
            (0..len).map(|i| (n as usize + i) as u8).collect()
        };
        let (mut sent, mut got) = (0, 0);
        while got < 3000 {
            for _ in 0..20 {
                if sent == 3000 || a.try_send(to_b, &body(sent)).is_err() {
                    break;
                }
                sent += 1;
            }
            run(&net, [&a, &b], Duration::from_micros(100));
            while let Some(message) = b.try_recv().unwrap() {
                assert_eq!(message[..], body(got));
                got += 1;
            }
        }
    }
}

#[test]
fn hostile_frames_in_segments_are_counted_and_leave_every_buffer_free() {
    let net = Network::new(1, faults());
    net.set_mtu(9000);
    let (a, b, to_b, _to_a) = pair(&net, &Options::new("sim"));
    a.send(to_b, b"up").unwrap();
    run(&net, [&a, &b], Duration::from_micros(200));
    assert!(b.try_recv().unwrap().is_some());
    let (stranger, _) = net.add_port();
    for i in 0..2000_u32 {
        if i.is_multiple_of(10) {
            let mut long = vec![0; 9014];
            long[..6].copy_from_slice(&b.link().mac.0);
            long[6] = 2;
            long[12..14].copy_from_slice(&[0x88, 0xb5]);
            // Of this version, and too short for what it says.
            (long[18], long[20], long[21]) = (0x17, 0xff, 0xff);
            net.send(stranger, &long);
        }
        a.send(to_b, &vec![i as u8; a.max_message()]).unwrap();
        run(&net, [&a, &b], Duration::from_micros(20));
        assert_eq!(&b.try_recv().unwrap().expect("it has arrived")[..], vec![i as u8; 3794]);
    }
    let counted = b.counters();
    assert_eq!((counted.protocol.short, counted.link.rx_dropped), (200, 0));
}

#[test]
fn messages_share_no_frame_that_is_longer_than_the_shorter_mtu() {
    for mtus in [[1500, 9000], [9000, 1500]] {
        let net = Network::new(1, faults());
        let open = |n: u32| {
            net.set_mtu(mtus[n as usize - 1]);
            Options::new("sim").open_simulated(&net, n).unwrap()
        };
        let (a, b) = (open(1), open(2));
        let to_b = a.peer(Address::from(b.link().mac)).unwrap();
        a.send(to_b, b"warm-up").unwrap();
        run(&net, [&a, &b], Duration::from_micros(200));
        let before = frames_sent(&a);
        for i in 0..100_u8 {
            a.queue(to_b, &[i; 100]).unwrap();
        }
        a.flush().unwrap();
        assert_eq!(frames_sent(&a), before + 8, "of up to 1,468 bytes");
        run(&net, [&a, &b], Duration::from_micros(200));
        assert_eq!(&b.try_recv().unwrap().unwrap()[..], b"warm-up");
        for i in 0..100 {
            assert_eq!(&b.try_recv().unwrap().expect("it has arrived")[..], [i; 100]);
        }
        assert_eq!(net.tally().too_long, 0, "{mtus:?}");
    }
}

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
    run(&net, [&a, &b], Duration::from_micros(100));
    let [found] = &a.neighbours()[..] else { panic!("{:?}", a.neighbours()) };
    assert_eq!((found.name.as_str(), found.port), ("n2", 7));
    assert_eq!(found.address, Address::from(b.link().mac).port(7));
    assert_eq!((found.mac, found.ip), (b.link().mac, None));
    assert_eq!((found.mtu, found.max_message, &found.channels[..]), (1500, 1468, &[0, 8, 255][..]));
    assert!(b.neighbours().is_empty(), "whoever asks says nothing of itself");
    a.ask().unwrap();
    run(&net, [&a, &b], Duration::from_micros(100));
    assert_eq!(a.neighbours().len(), 1, "nobody is listed twice");
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
    run(&net, [&a, &b], Duration::from_millis(1));
    let answers = |end: &Endpoint| end.counters().link.tx_frames;
    assert_eq!(answers(&b), 16);
    assert_eq!(b.counters().protocol.refused, 200 - 16, "the rest is counted");
    net.advance_to(net.now() + 100_000_000);
    a.ask().unwrap();
    run(&net, [&a, &b], Duration::from_millis(1));
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
fn a_question_from_who_can_be_no_node_is_not_answered() {
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
        let here = Here { max_payload: 9, mtu: 1500, ip, channels: [0; 32], name: "liar" };
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

/// Two endpoints with so many links each, and their ports, which come in the same order.
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
    run(&net, [&trunk, &one], Duration::from_micros(100));
    // The simulated links are on one network, so all are asked.
    let mut found: Vec<_> = one.neighbours().into_iter().map(|n| (n.name, n.mac)).collect();
    found.sort_by_key(|(_, mac)| mac.0);
    let macs = trunk.paths().into_iter().map(|path| path.info.mac);
    assert!(found.into_iter().eq(macs.map(|mac| ("both".to_owned(), mac))));
    trunk.ask().unwrap();
    run(&net, [&trunk, &one], Duration::from_micros(100));
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
            (long[18], long[20], long[21]) = (0x17, 0xff, 0xff);
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

#[test]
fn a_proposal_to_an_address_that_is_not_its_own_does_not_give_an_endpoint_another() {
    use gigae_wire::{Epoch, Flags, HEADER_LEN, Header, Kind, NodeAddr, Route, SeqNo};
    let envelope = gigae::Envelope::Udp { port: 4791 };
    for v6 in [false, true] {
        let net = Network::new(1, faults());
        let options = Options::new("sim").envelope(envelope);
        let [a, b] = [1, 2].map(|seed| options.clone().open_simulated(&net, seed).unwrap());
        let node = |end: &Endpoint| {
            let mac = end.link().mac;
            NodeAddr::Ip { ip: gigae::simulated_ip(mac, v6), next_hop: mac }
        };
        let NodeAddr::Ip { ip, next_hop } = node(&b) else { unreachable!() };
        let other = match ip {
            std::net::IpAddr::V4(ip) => (ip.to_bits() ^ 0x10).to_be_bytes().into(),
            std::net::IpAddr::V6(ip) => (ip.to_bits() ^ 0x10).to_be_bytes().into(),
        };
        let route = Route::new(envelope, node(&a), NodeAddr::Ip { ip: other, next_hop }).unwrap();
        let hello = Header {
            kind: Kind::Hello,
            channel: 0,
            src_port: 0,
            dst_port: 0,
            src_epoch: Epoch(7),
            dst_epoch: Epoch::UNKNOWN,
            seq: SeqNo(7),
            ack: SeqNo(0),
            credit: 10,
            flags: Flags::NONE,
        };
        let mut frame = vec![0; route.len() + HEADER_LEN];
        frame.extend_from_slice(&[5, 0x8c, 0, 0, 5, 0x8c]);
        hello.seal(&mut frame[route.len()..]);
        route.write(&mut frame);
        net.send(net.add_port().0, &frame);
        run(&net, [&a, &b], Duration::from_micros(20));
        assert_eq!(b.counters().protocol.not_ours, 1);
        let to_b = a.peer(Address::from(ip)).unwrap();
        a.send(to_b, b"question").unwrap();
        run(&net, [&a, &b], Duration::from_millis(5));
        let question = b.try_recv().unwrap().expect("the session is up");
        b.send(question.from(), b"answer").unwrap();
        run(&net, [&a, &b], Duration::from_millis(1));
        let answer = a.try_recv().unwrap().expect("it came from whom it was asked of");
        assert_eq!((&answer[..], answer.from()), (&b"answer"[..], to_b));
    }
}
