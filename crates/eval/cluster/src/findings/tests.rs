//! What is found in clusters in which one thing is slow.

use super::*;
use crate::results::testing::synthetic;

/// A cluster of hosts `h1` and so on, with these ways three times as slow as others.
fn with(hosts: usize, is_slow: impl Fn(usize, usize) -> bool) -> ClusterResults {
    let mut results = synthetic(hosts);
    for one in &mut results.transports {
        for a in 0..hosts {
            for b in a + 1..hosts {
                let at = rounds::index(hosts, a, b);
                // Names are counted from 1.
                if is_slow(a + 1, b + 1) {
                    one.forward[at] = one.forward[at].map(|rate| rate / 3.0);
                }
                if is_slow(b + 1, a + 1) {
                    one.backward[at] = one.backward[at].map(|rate| rate / 3.0);
                }
                if is_slow(a + 1, b + 1) && is_slow(b + 1, a + 1) {
                    one.trip_p50[at] = one.trip_p50[at].map(|trip| trip * 3.0);
                }
            }
        }
    }
    results
}

/// The sentences about streams by gigae.
fn of_streams(results: &ClusterResults) -> Vec<String> {
    let all = findings(results);
    all.into_iter().filter(|one| one.starts_with("gigae") && one.contains("stream")).collect()
}

#[test]
fn nothing_is_found_where_all_is_well() {
    for hosts in [3, 4, 7, 16] {
        let all = findings(&synthetic(hosts));
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].starts_with("No host, link or switch port is slow"), "{all:?}");
        assert_eq!(slow_pairs(&synthetic(hosts)), vec![0; hosts]);
    }
    let two = findings(&synthetic(2));
    assert!(two.len() == 1 && two[0].contains("nothing to compare"), "{two:?}");
}

#[test]
fn a_host_all_of_whose_pairs_are_slow_is_named() {
    for hosts in [4, 5, 8, 40] {
        let results = with(hosts, |a, b| a == 3 || b == 3);
        let all = findings(&results);
        assert_eq!(all.len(), 4, "latency and bandwidth of two transports: {all:?}");
        for one in &all {
            assert!(one.contains("h3 is slow with every other host"), "{one}");
            assert!(one.contains("3.0") || one.contains("2.9") || one.contains("3.1"), "{one}");
        }
        assert_eq!(slow_pairs(&results)[2], hosts - 1);
        assert_eq!(slow_pairs(&results)[0], 1);
    }
}

#[test]
fn one_direction_of_a_host_is_its_cable_or_port() {
    let sends = of_streams(&with(8, |a, _| a == 5));
    assert_eq!(sends.len(), 1, "{sends:?}");
    assert!(sends[0].contains("h5 is slow in what it sends, but not"), "{sends:?}");
    assert!(sends[0].contains("its cable and its switch port"), "{sends:?}");
    let receives = of_streams(&with(8, |_, b| b == 1));
    assert_eq!(receives.len(), 1, "{receives:?}");
    assert!(receives[0].contains("h1 is slow in what it receives, but not"), "{receives:?}");
}

#[test]
fn a_pair_alone_is_a_link() {
    let both = of_streams(&with(8, |a, b| (a.min(b), a.max(b)) == (2, 7)));
    assert_eq!(both.len(), 1, "{both:?}");
    assert!(both[0].contains("only the way between h2 and h7 is slow"), "{both:?}");
    let one = of_streams(&with(8, |a, b| (a, b) == (7, 2)));
    assert!(one.len() == 1 && one[0].contains("from h7 to h2"), "{one:?}");
    let two = of_streams(&with(8, |a, b| [(7, 2), (3, 4)].contains(&(a, b))));
    assert_eq!(two.len(), 2, "{two:?}");
}

#[test]
fn a_group_that_is_slow_with_the_others_is_behind_a_switch_or_uplink() {
    for (hosts, first) in [(8, 7), (8, 5), (12, 10)] {
        let all = of_streams(&with(hosts, |a, b| (a >= first) != (b >= first)));
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].contains("but not among themselves"), "{all:?}");
        assert!(all[0].contains("switch or uplink"), "{all:?}");
        assert!(all[0].contains(&format!("the {} hosts", hosts - first + 1)), "{all:?}");
    }
}

#[test]
fn an_uplink_that_is_slow_in_one_direction_is_named_with_its_hosts() {
    for (first, count) in [(13, 4), (9, 8), (15, 2)] {
        let is_behind = |host| host >= first;
        let sends = of_streams(&with(16, |a, b| is_behind(a) && !is_behind(b)));
        assert_eq!(sends.len(), 1, "{sends:?}");
        let named = format!("the {count} hosts h{first}");
        assert!(sends[0].contains(&named), "{sends:?}");
        assert!(sends[0].contains("in what they send to the others, but not"), "{sends:?}");
        assert!(sends[0].contains("uplink between them and the others, in the direction to"));
        assert!(sends[0].contains("1/3.0") || sends[0].contains("1/3.1"), "{sends:?}");
        let receives = of_streams(&with(16, |a, b| !is_behind(a) && is_behind(b)));
        assert_eq!(receives.len(), 1, "{receives:?}");
        assert!(receives[0].contains(&named), "{receives:?}");
        assert!(receives[0].contains("in what they receive from the others"), "{receives:?}");
        assert!(receives[0].contains("in the direction from the others"), "{receives:?}");
    }
}

#[test]
fn a_slow_uplink_hides_neither_a_slow_host_nor_a_slow_pair() {
    let uplink = |a: usize, b: usize| a >= 13 && b < 13;
    let all = of_streams(&with(16, |a, b| uplink(a, b) || (a == 3 && b != 3) || (a, b) == (5, 6)));
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all[0].contains("the 4 hosts h13, h14, h15 and h16"), "{all:?}");
    assert!(all[1].contains("h3 is slow in what it sends, but not"), "{all:?}");
    assert!(all[2].contains("from h5 to h6"), "{all:?}");
}

/// Such as two hosts of which one has a second way, or a figure that was lucky.
#[test]
fn a_good_pair_across_a_slow_uplink_does_not_hide_it() {
    for (hosts, first) in [(16, 13), (16, 9), (12, 10), (40, 30)] {
        let lucky = |a: usize, b: usize| [(2, first), (first, 2)].contains(&(a, b));
        let named = format!("the {} hosts h{first}", hosts - first + 1);
        let both = |a: usize, b: usize| (a >= first) != (b >= first) && !lucky(a, b);
        let all = of_streams(&with(hosts, both));
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].contains(&named) && all[0].contains("switch or uplink"), "{all:?}");
        let sends = of_streams(&with(hosts, |a, b| a >= first && b < first && !lucky(a, b)));
        assert_eq!(sends.len(), 1, "{sends:?}");
        assert!(sends[0].contains(&named) && sends[0].contains("in what they send"), "{sends:?}");
        if first - 1 <= hosts - first + 2 {
            // Without the slow host, the other side is the smaller one.
            continue;
        }
        // Beside it, a slow host and a slow pair.
        let more = |a: usize, b: usize| both(a, b) || (a == 3 && b != 3) || (a, b) == (5, 6);
        let all = of_streams(&with(hosts, more));
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(all[0].contains(&named) && all[1].contains("h3 is slow"), "{all:?}");
        assert!(all[2].contains("from h5 to h6"), "{all:?}");
    }
}

#[test]
fn slow_pairs_here_and_there_are_no_uplink() {
    let all = of_streams(&with(16, |a, b| (a * 7 + b * 11) % 5 == 0));
    assert!(!all.iter().any(|one| one.contains("uplink")), "{all:?}");
}

#[test]
fn a_group_that_is_slow_among_itself_shares_a_switch() {
    let all = of_streams(&with(12, |a, b| a >= 9 && b >= 9));
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].contains("the 4 hosts h9, h10, h11 and h12"), "{all:?}");
    assert!(all[0].contains("the switch that they share"), "{all:?}");
}

#[test]
fn two_slow_hosts_are_both_named() {
    let all = of_streams(&with(10, |a, b| [a, b].iter().any(|one| [2, 9].contains(one))));
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].contains("h2 is slow") && all[1].contains("h9 is slow"), "{all:?}");
}

#[test]
fn a_host_of_which_nothing_is_known_is_not_slow() {
    let mut results = synthetic(6);
    for one in &mut results.transports {
        for other in 0..5 {
            let at = rounds::index(6, other, 5);
            (one.forward[at], one.backward[at], one.trip_p50[at]) = (None, None, None);
        }
    }
    results.failed = 30;
    let all = findings(&results);
    assert_eq!(all, ["30 measurements failed."]);
}

#[test]
fn hosts_that_share_a_machine_are_said_to() {
    let shared = ClusterResults { machines: 1, ..synthetic(4) };
    let all = findings(&shared);
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].contains("4 hosts are namespaces on 1 machine"), "{all:?}");
    assert!(all[1].starts_with("No host"), "{all:?}");
}

#[test]
fn a_large_group_is_shortened() {
    let all = of_streams(&with(60, |a, b| (a > 40) != (b > 40)));
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].contains("h48 and 12 more"), "{all:?}");
}
