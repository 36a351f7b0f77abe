//! In order, exactly once, nothing lost (`PROTOCOL.md` §5 to §7).
#![allow(missing_docs)]

mod world;

use gigae_proto::{ProtocolConfig, Unsent};
use gigae_sim::Faults;
use gigae_wire::Kind;
use std::time::Duration;
use world::{World, micros, quiet};

/// Sends `count` numbered messages as the window allows and checks that all arrive in order.
fn transfer(w: &mut World, count: u32, limit: Duration) {
    let end = w.now() + limit;
    let mut next = 0;
    while w.nodes[1].received.len() < count as usize {
        while next < count {
            match w.try_send(0, 1, &next.to_be_bytes()) {
                Ok(()) => next += 1,
                Err(Unsent::WouldBlock(_)) => break,
                Err(other) => panic!("{other:?}"),
            }
        }
        w.run(micros(100));
        assert!(w.now() < end, "{} of {count} messages came in time", w.nodes[1].received.len());
    }
    w.run(Duration::from_secs(1));
    let expected: Vec<_> = (0..count).map(u32::to_be_bytes).collect();
    assert_eq!(w.received(1), expected.iter().map(|b| &b[..]).collect::<Vec<_>>());
    assert!(!w.nodes[0].proto.has_unacknowledged());
}

/// A session that is up, with nothing in flight.
fn warm(config: &ProtocolConfig) -> World {
    let mut w = World::pair(quiet(), config);
    w.send(0, 1, b"warm-up");
    w.send(1, 0, b"warm-up");
    w.run(Duration::from_millis(10));
    for node in &mut w.nodes {
        node.received.clear();
        node.sent.clear();
    }
    w
}

#[test]
fn a_stream_without_faults_is_never_sent_twice_and_rarely_acknowledged() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    transfer(&mut w, 10_000, Duration::from_secs(10));
    assert_eq!(w.nodes[0].proto.counters().retransmissions, 0);
    assert!(w.nodes[1].count(Kind::Ack) <= 10_000 / 16 + 200, "one in sixteen, and stragglers");
}

#[test]
fn a_ping_pong_needs_no_acknowledgement_frames() {
    let mut w = warm(&ProtocolConfig::default());
    for i in 0..100u8 {
        w.send(0, 1, &[i]);
        w.run(micros(6));
        w.send(1, 0, &[i]);
        w.run(micros(6));
    }
    assert_eq!((w.nodes[0].received.len(), w.nodes[1].received.len()), (100, 100));
    assert_eq!((w.nodes[0].count(Kind::Ack), w.nodes[1].count(Kind::Ack)), (0, 0));
}

/// On a link that is full, frames of several acknowledgements' worth are always in flight.
#[test]
fn after_one_loss_go_back_n_repeats_what_flew_and_nothing_else() {
    let link = Faults { rate: 125_000_000, delay: micros(10), ..Faults::default() };
    for window in [4, 16, 64, 256] {
        let config = ProtocolConfig {
            send_window: window,
            receive_window: window,
            ..ProtocolConfig::default()
        };
        let mut w = World::pair(link, &config.go_back_n());
        w.nodes[0].drop_sent = vec![1000];
        let mut next = 0_u32;
        while w.nodes[1].received.len() < 4000 {
            let mut message = [0; 1400];
            message[..4].copy_from_slice(&next.to_be_bytes());
            match w.try_send(0, 1, &message) {
                Ok(()) => next += 1,
                Err(_) => w.run(micros(2)),
            }
        }
        let in_order = w.nodes[1].received.iter().zip(0_u32..);
        assert!(in_order.into_iter().all(|((_, m), n)| m[..4] == n.to_be_bytes()));
        let counters = w.nodes[0].proto.counters();
        assert!((1..=u64::from(window)).contains(&counters.retransmissions), "{counters:?}");
    }
}

#[test]
fn one_lost_message_costs_one_resend() {
    let mut w = warm(&ProtocolConfig::default());
    w.nodes[0].drop_sent = vec![3];
    for i in 0..20u8 {
        w.send(0, 1, &[i]);
    }
    w.run(micros(100));
    assert_eq!(w.received(1), (0..20u8).map(|i| vec![i]).collect::<Vec<_>>());
    assert_eq!(w.nodes[0].proto.counters().retransmissions, 1);
    assert_eq!(w.nodes[0].proto.counters().timeouts, 0, "found by the report, not by waiting");
}

#[test]
fn one_lost_message_costs_everything_behind_it_under_go_back_n() {
    let config = ProtocolConfig { shared_credit: false, ..ProtocolConfig::default() };
    let mut w = warm(&config.go_back_n());
    w.nodes[0].drop_sent = vec![3];
    for i in 0..20u8 {
        w.send(0, 1, &[i]);
    }
    w.run(micros(100));
    assert_eq!(w.received(1), (0..20u8).map(|i| vec![i]).collect::<Vec<_>>());
    assert_eq!(w.nodes[0].proto.counters().retransmissions, 17);
    assert_eq!(w.nodes[1].proto.counters().out_of_order, 16);
    assert_eq!(w.nodes[0].proto.counters().timeouts, 0);
}

#[test]
fn what_a_receiver_could_not_keep_goes_again_without_waiting_for_a_timeout() {
    let mut w = warm(&ProtocolConfig { reorder_window: 1, ..ProtocolConfig::default() });
    w.nodes[0].drop_sent = vec![3];
    for i in 0..20u8 {
        w.send(0, 1, &[i]);
    }
    w.run(micros(100));
    assert_eq!(w.received(1), (0..20u8).map(|i| vec![i]).collect::<Vec<_>>());
    assert_eq!(w.nodes[0].proto.counters().timeouts, 0, "found by the report");
}

#[test]
fn one_lost_ack_costs_nothing_when_a_later_one_comes() {
    let mut w = warm(&ProtocolConfig::default());
    w.nodes[1].drop_sent = vec![0];
    for i in 0..40u8 {
        w.send(0, 1, &[i]);
        w.run(micros(2));
    }
    w.run(Duration::from_millis(10));
    assert_eq!(w.received(1).len(), 40);
    assert_eq!(w.nodes[0].proto.counters().retransmissions, 0);
}

#[test]
fn one_lost_ack_of_the_last_message_costs_one_resend() {
    let mut w = warm(&ProtocolConfig::default());
    w.nodes[1].drop_sent = vec![0];
    w.send(0, 1, b"last");
    w.run(Duration::from_millis(10));
    assert_eq!(w.received(1), [b"last"]);
    assert_eq!(w.nodes[0].proto.counters().retransmissions, 1);
    assert_eq!(w.nodes[1].proto.counters().duplicates, 1);
    assert!(!w.nodes[0].proto.has_unacknowledged());
}

#[test]
fn a_resend_that_is_lost_too_is_sent_again() {
    let mut w = warm(&ProtocolConfig::default());
    w.nodes[0].drop_sent = vec![3, 20];
    for i in 0..20u8 {
        w.send(0, 1, &[i]);
    }
    w.run(Duration::from_millis(10));
    assert_eq!(w.received(1).len(), 20);
    assert_eq!(w.nodes[0].proto.counters().retransmissions, 2);
}

#[test]
fn a_receiver_that_does_not_read_stops_the_sender_before_a_frame_must_be_dropped() {
    let config =
        ProtocolConfig { receive_window: 64, shared_credit: false, ..ProtocolConfig::default() };
    let mut w = warm(&config);
    w.nodes[1].reads = false;
    for i in 0..200u8 {
        w.send(0, 1, &[i]);
    }
    w.run(Duration::from_secs(60));
    assert_eq!(w.nodes[1].holding.len(), 64);
    assert_eq!(w.nodes[1].proto.counters().window, 0, "nothing had to be dropped");
    assert_eq!(w.nodes[0].proto.counters().stops, 1);
    assert!(w.nodes[0].failed.is_empty(), "a stopped peer is not a lost one");
    w.nodes[1].reads = true;
    w.run(Duration::from_secs(1));
    assert_eq!(w.received(1), (0..200u8).map(|i| vec![i]).collect::<Vec<_>>());
}

#[test]
fn a_lost_go_does_not_hang_the_sender() {
    let config = ProtocolConfig { receive_window: 64, ..ProtocolConfig::default() };
    let mut w = warm(&config);
    w.nodes[1].reads = false;
    for i in 0..100u8 {
        w.send(0, 1, &[i]);
    }
    w.run(Duration::from_secs(1));
    let nth = w.nodes[1].sent.len();
    w.nodes[1].drop_sent = (nth..nth + 3).collect();
    w.nodes[1].reads = true;
    w.run(Duration::from_secs(1));
    assert_eq!(w.received(1).len(), 100);
    assert!(w.nodes[0].proto.counters().probes > 0);
}

#[test]
fn channels_do_not_wait_for_each_other() {
    let config =
        ProtocolConfig { receive_window: 64, shared_credit: false, ..ProtocolConfig::default() };
    let mut w = warm(&config);
    w.nodes[1].reads = false;
    for i in 0..100u8 {
        w.send(0, 1, &[i]);
    }
    w.run(Duration::from_millis(10));
    let node = w.nodes[1].links[0].1.into();
    let other = gigae_proto::PeerKey { node, port: 0, channel: 200 };
    let peer = w.nodes[0].proto.peer(other).unwrap();
    w.nodes[0].proto.send(peer, 5, b"other".to_vec()).unwrap();
    w.run(Duration::from_millis(10));
    assert_eq!(w.nodes[1].holding.len(), 65);
}

#[test]
fn nothing_is_lost_doubled_or_reordered_under_every_mix_of_faults() {
    for seed in 0..60 {
        let mut r = oorandom::Rand64::new(seed);
        let faults = Faults {
            loss: r.rand_float() * 0.3,
            duplication: r.rand_float() * 0.1,
            corruption: r.rand_float() * 0.1,
            disorder: r.rand_float() * 0.2,
            disorder_by: micros(r.rand_range(1..200)),
            delay: micros(r.rand_range(1..50)),
            ..Faults::default()
        };
        let config = match seed % 3 {
            0 => ProtocolConfig::default().go_back_n(),
            1 => {
                ProtocolConfig { reorder_window: 16, send_window: 64, ..ProtocolConfig::default() }
            }
            _ => ProtocolConfig::default(),
        };
        let mut w = World::new(2, seed.try_into().unwrap(), faults, &config);
        transfer(&mut w, 1000, Duration::from_secs(60));
    }
}

#[test]
fn a_shaped_link_with_a_small_buffer_is_used_to_the_full() {
    let faults = Faults { rate: 125_000_000, buffer: 128 * 1024, ..quiet() };
    let mut w = World::pair(faults, &ProtocolConfig::default());
    let mut sent = 0u32;
    let body = [7; 1468];
    let end = w.now() + Duration::from_millis(200);
    while w.now() < end {
        while w.try_send(0, 1, &body).is_ok() {
            sent += 1;
        }
        w.run(micros(50));
    }
    let (got, possible) = (w.nodes[1].received.len() as f64, 0.2 * 125e6 / 1514.0);
    assert!(got / possible > 0.97, "{got} of {possible} frames in virtual time ({sent} sent)");
}

#[test]
fn many_to_one_shares_the_receiver_and_loses_nothing() {
    let config = ProtocolConfig { receive_frames: 256, ..ProtocolConfig::default() };
    let faults = Faults { rate: 125_000_000, buffer: 128 * 1024, ..quiet() };
    let mut w = World::new(9, 5, faults, &config);
    let mut next = [0u32; 9];
    while next[1..].iter().any(|&n| n < 300) {
        for (from, next) in next.iter_mut().enumerate().skip(1) {
            while *next < 300 && w.try_send(from, 0, &next.to_be_bytes()).is_ok() {
                *next += 1;
            }
        }
        w.run(micros(100));
        assert!(w.now().0 < 60_000_000_000);
    }
    w.run(Duration::from_secs(5));
    for from in 1..9 {
        let peer = w.peer(0, from);
        let got = w.nodes[0].received.iter().filter(|(p, _)| *p == peer).map(|(_, b)| &b[..]);
        assert!(
            got.eq((0..300u32).map(u32::to_be_bytes).collect::<Vec<_>>().iter().map(|b| &b[..]))
        );
    }
}

#[test]
fn the_window_grows_only_for_a_sender_that_uses_it() {
    let mut w = World::pair(quiet(), &ProtocolConfig::default());
    for i in 0..200 {
        w.send(0, 1, &[i]);
        w.run(micros(100));
    }
    let credit = w.nodes[1].sent.last().expect("acknowledgements").credit;
    assert!((64..=65).contains(&credit), "a little more, since it begins with 16: {credit}");
    for _ in 0..20 {
        (0..200).for_each(|i| w.send(0, 1, &[i]));
        w.run(micros(500));
    }
    assert_eq!(w.nodes[1].sent.last().expect("acknowledgements").credit, 256);
}

#[test]
fn a_peer_gets_the_credit_of_one_that_has_left() {
    let config = ProtocolConfig {
        receive_frames: 64,
        receive_window: 64,
        shared_credit: false,
        ..ProtocolConfig::default()
    };
    let mut w = World::new(3, 1, quiet(), &config);
    for from in [1, 2] {
        w.send(from, 0, b"here");
    }
    w.run(Duration::from_millis(1));
    let exchange = |w: &mut World| {
        for _ in 0..5 {
            (0..40).for_each(|i| w.send(1, 0, &[i]));
            w.run(micros(500));
        }
        w.nodes[0].sent.last().expect("acknowledgements").credit
    };
    assert_eq!(exchange(&mut w), 32, "two share what there is");
    w.nodes[2].proto.close();
    w.run(Duration::from_millis(1));
    assert_eq!(exchange(&mut w), 64);
}
