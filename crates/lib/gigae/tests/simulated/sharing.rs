//! Small messages that share a frame.

use super::*;

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
    // Nothing is acknowledged in the meantime: 64 frames are in flight, the rest waits and is put
    // together.
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
    // More rounds than the link has frames: a frame that was given back too early would be
    // overwritten.
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
