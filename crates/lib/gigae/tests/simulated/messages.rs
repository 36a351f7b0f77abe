//! Messages: sent, refused, handed back, kept; the same for the same seed.

use super::*;

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

/// Operations report their own failures, so nothing must be taken before others go on.
#[test]
fn a_message_that_failed_and_was_not_taken_holds_back_no_operation() {
    let net = Network::new(1, faults());
    let options = Options::new("sim").peer_timeout(Duration::from_millis(50));
    let (a, b, to_b, to_a) = warm(&net, &options);
    net.set_faults(Faults { loss: 1.0, ..faults() });
    a.send(to_b, b"lost").unwrap();
    run(&net, [&a, &b], Duration::from_millis(300));
    net.set_faults(faults());
    let key = a.register(vec![7; 8], gigae::Rights::ALL).unwrap();
    b.start_recv(gigae::Wanted::tag(2), vec![0; 200_000]).unwrap();
    a.start_send(to_b, 2, vec![1; 200_000]).unwrap();
    run(&net, [&a, &b], Duration::from_millis(20));
    b.start_read(to_a, key, 0, vec![0; 8]).unwrap();
    a.start_recv(gigae::Wanted::tag(1), vec![0; 100]).unwrap();
    b.start_send(to_a, 1, vec![1; 100]).unwrap();
    run(&net, [&a, &b], Duration::from_millis(20));
    let done = |end: &Endpoint| {
        std::iter::from_fn(|| end.take_completion()).map(|done| done.result).collect::<Vec<_>>()
    };
    assert_eq!(done(&b), [Ok(()); 3]);
    assert_eq!(done(&a), [Ok(()); 2]);
    // A message would overtake the one that failed.
    assert!(matches!(a.send(to_b, b"next"), Err(SendError::Failed)));
    assert_eq!(&*a.take_failure().unwrap(), b"lost");
    a.send(to_b, b"next").unwrap();
    run(&net, [&a, &b], Duration::from_millis(1));
    assert_eq!(&*b.try_recv().unwrap().unwrap(), b"next");
}

/// Their nodes are there and answer, but their programs take nothing.
#[test]
fn peers_that_do_not_receive_leave_transmit_frames_for_others() {
    const SLOW: u64 = 40;
    let net = Network::new(1, faults());
    let a = Options::new("sim").open_simulated(&net, 1).unwrap();
    let others = (2..=SLOW + 2).map(|seed| Options::new("sim").open_simulated(&net, seed as u32));
    let mut others: Vec<_> = others.map(Result::unwrap).collect();
    let fast = others.pop().unwrap();
    let to: Vec<_> = others.iter().map(|b| a.peer(b.link().mac).unwrap()).collect();
    let to_fast = a.peer(fast.link().mac).unwrap();
    let key = a.register(vec![7; 8], gigae::Rights::ALL).unwrap();
    let to_a = fast.peer(a.link().mac).unwrap();
    let mut sent = 0;
    for _ in 0..400 {
        for (&to, other) in to.iter().zip(&others) {
            while a.try_send(to, &[0; 1000]).is_ok() {
                sent += 1;
            }
            other.progress().unwrap();
        }
        net.advance_to(net.now() + 10_000);
    }
    assert!(sent > 40 * 64, "{sent}: their first credits, and what waits");
    for n in 0..100_u8 {
        while a.try_send(to_fast, &[n]).is_err() {
            run(&net, [&a, &fast], Duration::from_micros(20));
        }
        run(&net, [&a, &fast], Duration::from_micros(50));
        assert_eq!(&*fast.try_recv().unwrap().expect("it has arrived"), &[n]);
    }
    fast.start_read(to_a, key, 0, vec![0; 8]).unwrap();
    run(&net, [&a, &fast], Duration::from_millis(1));
    assert_eq!(fast.take_completion().expect("it is answered").result, Ok(()));
}

#[test]
fn a_send_does_not_wait_for_transmit_buffers_that_only_the_program_can_free() {
    let net = Network::new(1, faults());
    let options = Options::new("sim").peer_timeout(Duration::from_millis(50)).tuned(128, |_| {});
    let (a, b, to_b, _to_a) = warm(&net, &options);
    let c = a.peer(Address::from(gigae::MacAddr([2, 0, 0, 0, 0, 77]))).unwrap();
    let mut held: Vec<_> = std::iter::from_fn(|| a.try_buffer()).collect();
    assert_eq!(a.send(to_b, b"held").unwrap_err().to_string(), SendError::BuffersHeld.to_string());
    assert!(matches!(a.buffer(), Err(SendError::BuffersHeld)));
    assert!(matches!(a.try_send(to_b, b"held"), Err(TrySendError::WouldBlock(()))));
    // The messages to a node that is not there have the rest of the buffers, and the program does
    // not look at them.
    for _ in 0..8 {
        held.pop().unwrap().send(c, 1).unwrap();
    }
    run(&net, [&a, &b], Duration::from_millis(100));
    assert!(matches!(a.send(to_b, b"failed"), Err(SendError::Failed)));
    assert!(matches!(a.buffer(), Err(SendError::Failed)));
    while let Some(failed) = a.take_failure() {
        assert_eq!((failed.len(), failed.to()), (1, c));
    }
    a.send(to_b, b"arrives").unwrap();
    run(&net, [&a, &b], Duration::from_millis(1));
    assert_eq!(&*b.try_recv().unwrap().unwrap(), b"arrives");
}

#[test]
fn a_blocking_call_moves_the_simulated_time_however_it_waits() {
    for wait in [gigae::Wait::Spin, gigae::Wait::Adaptive, gigae::Wait::Sleep] {
        let net = Network::new(1, faults());
        let options = Options::new("sim").peer_timeout(Duration::from_millis(50)).wait(wait);
        let (a, _b, to_b, _to_a) = warm(&net, &options);
        net.set_faults(Faults { loss: 1.0, ..faults() });
        let refused = (0..10_000).find_map(|_| a.send(to_b, &[0; 1400]).err());
        assert!(matches!(refused, Some(SendError::Failed)), "{wait:?}: {refused:?}");
    }
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
            kept.extend(std::iter::from_fn(|| b.try_recv().unwrap()));
        }
    }
    assert_eq!(kept.len(), 12 * 64, "each sender was stopped at its first credit");
    assert_eq!(b.counters().copied, 12 * 64 - 64, "a sixteenth of the 1,024 frames may be lent");
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

/// The window of a stream doubles with each full window, as if its frames were delivered together.
#[test]
fn a_stream_of_operations_that_fills_its_window_soon_has_a_larger_one() {
    let net = Network::new(1, faults());
    let (a, b, to_b, to_a) = warm(&net, &Options::new("sim"));
    let key = b.register(vec![0; 2_000], gigae::Rights::ALL).unwrap();
    let stream = |count: usize| {
        for _ in 0..count {
            a.start_write(to_b, key, 0, vec![7; 1_400], None).unwrap();
        }
        let before = frames_sent(&a);
        a.ring().unwrap();
        frames_sent(&a) - before
    };
    assert_eq!(stream(64), 63, "the first window, less the warm-up");
    // All of them lie there when the receiver looks, and it sends something.
    net.advance_to(net.now() + 1_000_000);
    b.send(to_a, b"acknowledges").unwrap();
    run(&net, [&a, &b], Duration::from_millis(1));
    assert_eq!(stream(256), 127, "the second");
}
