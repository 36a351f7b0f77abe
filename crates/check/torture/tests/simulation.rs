//! The bounded form of the simulation, seeds that once failed, and what makes a run believable.
#![allow(missing_docs)]

use gigae_torture::{Figures, Ip, LinkKind, Scenario, Watch, run};
use std::time::Duration;

/// Runs a seed, which must break nothing.
fn holds(seed: u64) -> (Figures, u64) {
    let outcome = run(&Scenario::draw(seed), Watch::default()).unwrap();
    if let Some(violation) = outcome.violation {
        let again = format!("cargo run --release -p gigae-torture -- --seed {seed} -v");
        panic!("seed {seed}: {violation}\n{}\nagain: {again}", outcome.events.join("\n"));
    }
    (outcome.figures, outcome.digest)
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 17] {
        assert_eq!(holds(seed), holds(seed));
    }
    assert_ne!(holds(3).1, holds(4).1);
}

/// When all was healed, all was acknowledged, and one node had more unread than it reads in one
/// call.
#[test]
fn a_run_ends_when_all_that_was_acknowledged_is_read() {
    holds(144_497);
}

#[test]
fn nothing_is_lost_doubled_torn_out_of_order_or_of_another_epoch() {
    let mut total = Figures::default();
    for seed in 1_000_000..1_000_060 {
        total += holds(seed).0;
    }
    println!("{total}");
    // Every kind of fault and of traffic was there.
    let Figures { dropped, duplicated, corrupted, disordered, partitions, one_way, .. } = total;
    let Figures { crashes, closes, restarts, pauses, freezes, repeated, .. } = total;
    let Figures { delivered, failed, received, remote, lost_operations, refused, .. } = total;
    let faults = [dropped, duplicated, corrupted, disordered, partitions, one_way];
    let ends = [crashes, closes, restarts, pauses, freezes, repeated];
    let traffic = [delivered, failed, received, remote, lost_operations, refused];
    let Figures { link_cuts, deaths, returns, kept, cancelled, notices, .. } = total;
    let more = [link_cuts, deaths, returns, kept, cancelled, notices];
    for counts in [faults, ends, traffic, more] {
        assert!(counts.iter().all(|&n| n > 20), "{counts:?}");
    }
}

/// Runs this scenario, whatever seeds draw.
fn keeps_its_promises(scenario: &Scenario) -> Figures {
    let outcome = run(scenario, Watch::default()).unwrap();
    if let Some(violation) = outcome.violation {
        panic!("{scenario:?}: {violation}\n{}", outcome.events.join("\n"));
    }
    outcome.figures
}

fn all(scenarios: impl Iterator<Item = Scenario>) -> Figures {
    let mut total = Figures::default();
    scenarios.for_each(|scenario| total += keeps_its_promises(&scenario));
    total
}

/// Every kind of fault, none of them rare.
const WILD: [f64; 4] = [0.2, 0.1, 0.05, 0.2];

#[test]
fn links_are_cut_and_come_back_while_others_carry_what_was_in_flight() {
    let scenario = |seed| Scenario {
        links: vec![4, 2, 3],
        kinds: [(125, 10), (12, 300), (1250, 5), (125, 50)]
            .map(|(megabytes, micros)| LinkKind::new(megabytes * 1_000_000, micros))
            .to_vec(),
        frames: 256,
        worst: [0.1, 0.05, 0.02, 0.1],
        change_every: Duration::from_millis(10),
        ..Scenario::plain(seed, 4)
    };
    let Figures { link_cuts, deaths, returns, delivered, .. } = all((0..10).map(scenario));
    assert!(link_cuts > 4 && deaths > 4 && returns > 4, "{link_cuts} {deaths} {returns}");
    assert!(delivered > 4000, "{delivered}");
}

#[test]
fn messages_that_programs_keep_stay_as_they_are_when_others_have_to_be_copied() {
    let scenario = |seed| Scenario {
        frames: 128,
        worst: WILD,
        keep: 95,
        keep_most: 2000,
        operations: 0,
        ..Scenario::plain(seed, 6)
    };
    let Figures { kept, copied, .. } = all((0..4).map(scenario));
    assert!(kept > 4000 && copied > 20, "{kept} {copied}");
}

#[test]
fn every_operation_is_completed_once_and_every_notice_delivered() {
    let scenario = |seed| Scenario {
        worst: WILD,
        operations: 100,
        area: 30_000,
        change_every: Duration::from_millis(2),
        act_every: Duration::from_micros(500),
        ..Scenario::plain(seed, 5)
    };
    let figures = all((0..4).map(scenario));
    let Figures { notices, cancelled, lost_operations, refused, .. } = figures;
    let counts = [notices, cancelled, lost_operations, refused];
    assert!(counts.iter().all(|&n| n > 10), "{counts:?}");
}

#[test]
fn messages_in_udp_keep_the_same_promises() {
    for udp in [Ip::V4, Ip::V6] {
        let scenario = |seed| Scenario {
            udp: Some(udp),
            mtus: vec![1500, 9000],
            worst: WILD,
            until_frames: 10_000,
            ..Scenario::plain(seed, 4)
        };
        assert!(all((0..3).map(scenario)).delivered > 1000);
    }
}

/// The socket fails, loses, doubles and reorders as the link does, and also alone.
#[test]
fn a_socket_for_bulk_data_keeps_the_same_promises() {
    for (udp, uncoalesced) in
        [(None, false), (None, true), (Some(Ip::V4), false), (Some(Ip::V6), true)]
    {
        let scenario = |seed| Scenario {
            bulk: true,
            uncoalesced,
            udp,
            worst: WILD,
            operations: 60,
            longest: 300_000,
            change_every: Duration::from_millis(3),
            ..Scenario::plain(seed, 4)
        };
        let figures = all((0..10).map(scenario));
        let Figures { deaths, returns, link_cuts, received, remote, .. } = figures;
        assert!(deaths > 3 && returns > 3 && link_cuts > 3, "{deaths} {returns} {link_cuts}");
        assert!(received > 100 && remote > 100, "{received} {remote}");
    }
}

/// What has once found a mistake is kept by the mistake's name; the crate concerned has the exact
/// test.
#[test]
fn a_session_that_ends_as_it_begins() {
    let scenario = |seed| Scenario {
        worst: WILD,
        peer_timeout: Duration::from_millis(20),
        change_every: Duration::from_millis(1),
        act_every: Duration::from_millis(2),
        burst: 4,
        until: Duration::from_millis(300),
        ..Scenario::plain(seed, 8)
    };
    let Figures { crashes, closes, restarts, .. } = all((0..4).map(scenario));
    assert!([crashes, closes, restarts].iter().all(|&n| n > 10), "{crashes} {closes} {restarts}");
}

#[test]
fn nodes_of_several_mtus_share_frames() {
    let mtus = vec![1500, 576, 3000];
    let scenario = |seed| Scenario {
        mtus: mtus.clone(),
        worst: WILD,
        operations: 5,
        until_frames: 10_000,
        ..Scenario::plain(seed, 5)
    };
    all((0..4).map(scenario));
}

#[test]
fn operations_whose_owner_vanished_after_it_acknowledged_them() {
    let scenario = |seed| Scenario {
        worst: [0.05, 0.0, 0.0, 0.1],
        operations: 100,
        peer_timeout: Duration::from_millis(40),
        change_every: Duration::from_millis(2),
        until_frames: 10_000,
        ..Scenario::plain(seed, 4)
    };
    assert!(all((0..6).map(scenario)).lost_operations > 100);
}

/// What the program has queued goes before the endpoint looks at its socket, but never into the
/// session that came after its own.
#[test]
fn queued_operations_of_a_session_that_has_ended_do_not_go_into_the_next() {
    for seed in [60_265, 210_166] {
        holds(seed);
    }
    let scenario = |seed| Scenario {
        bulk: true,
        worst: [0.05, 0.0, 0.0, 0.1],
        operations: 100,
        peer_timeout: Duration::from_millis(40),
        change_every: Duration::from_millis(2),
        until_frames: 20_000,
        ..Scenario::plain(seed, 4)
    };
    assert!(all((0..12).map(scenario)).lost_operations > 100);
}

#[test]
fn a_receiver_that_keeps_one_frame_out_of_order() {
    let scenario = |seed| Scenario {
        windows: (256, 256, 1),
        worst: WILD,
        until_frames: 10_000,
        ..Scenario::plain(seed, 3)
    };
    all((0..4).map(scenario));
}

/// The round trip is as long as the time after which the question is repeated.
#[test]
fn an_answer_to_a_question_of_size_that_is_about_to_be_repeated() {
    let scenario = |seed| Scenario {
        mtus: vec![9000],
        kinds: vec![LinkKind::new(0, 500)],
        worst: [0.2, 0.0, 0.0, 0.0],
        peer_timeout: Duration::from_millis(40),
        change_every: Duration::from_millis(1),
        until_frames: 5000,
        ..Scenario::plain(seed, 6)
    };
    all((0..6).map(scenario));
}

/// Runs are independent, so that how many go on at once changes nothing.
#[test]
fn the_command_finds_the_same_with_one_job_and_with_several() {
    let figures = |jobs| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gigae-torture"));
        let output = command.args(["--seeds", "6", "--from", "100", "--jobs", jobs]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_once("\ntook:").expect("it ends with the time").0.to_string()
    };
    assert_eq!(figures("1"), figures("3"));
}
