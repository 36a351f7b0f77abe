//! What follows from two links of one run that differ in one thing: a switch between the ends, or
//! the rate.

use super::text::{by_size, bytes, differ, mark_doubtful, name, of_name, plain};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::{change, mbit, short};
use gigae_eval_model::plan::{LinkPlan, Wait};
use gigae_eval_model::results::{Results, Series};

/// What is said of each pair of links.
const TRANSPORTS: [&str; 3] = ["tcp", "udp", "gigae"];

/// The plan's virtual links that were measured, by name.
fn virtual_links(results: &Results) -> Vec<(&str, &LinkPlan)> {
    let virtual_one = |name: &&str| {
        let mut all = results.environment.link.iter();
        all.any(|link| link.name == **name && link.kind == "fabric")
    };
    let links = results.links().into_iter().filter(virtual_one);
    links.filter_map(|name| Some((name, results.plan.link.get(name)?))).collect()
}

/// Whether two links are the same but for the cable or the switch, and the rate.
fn alike(one: &LinkPlan, other: &LinkPlan) -> bool {
    let size = |link: &LinkPlan| (link.mtu, link.links, link.nodes, link.queues, link.buffer);
    let changed = |link: &LinkPlan| link.server_rate_mbit.is_some() || link.is_disturbed();
    size(one) == size(other) && ![one, other].into_iter().any(changed)
}

/// The cells of a transport on both links with the same size: the smallest of a round trip, the
/// largest of a stream; spinning ends where there are any.
fn both<'a>(
    results: &'a Results,
    experiment: Experiment,
    links: [&'a str; 2],
    transport: &str,
) -> Option<[&'a Series; 2]> {
    let of = |wait| {
        let [one, other] = links.map(|link| plain(results, experiment, link, wait));
        let (one, other) = (by_size(&one, transport), by_size(&other, transport));
        let pair = |one: &&'a Series| {
            let same = other.iter().find(|other| other.size == one.size)?;
            Some([*one, *same])
        };
        match experiment {
            Experiment::Stream => one.iter().rev().find_map(pair),
            _ => one.iter().find_map(pair),
        }
    };
    [Wait::Spin, Wait::Sleep].into_iter().find_map(of)
}

/// What a switch between the ends costs: a cable beside a switch that limits no rate.
pub(super) fn switch(results: &Results) -> Vec<String> {
    let links = virtual_links(results);
    let direct = links.iter().filter(|(_, link)| link.cable);
    let switched = |(_, link): &&(&str, &LinkPlan)| !link.cable && link.rate_mbit.is_none();
    let mut sentences = Vec::new();
    for (direct, cable) in direct {
        for (switched, _) in links.iter().filter(switched).filter(|(_, link)| alike(cable, link)) {
            for experiment in [Experiment::Rtt, Experiment::Stream] {
                let of = |transport| {
                    both(results, experiment, [*direct, *switched], transport).map(say_switch)
                };
                sentences.extend(TRANSPORTS.into_iter().filter_map(of));
            }
        }
    }
    sentences
}

fn say_switch([direct, switched]: [&Series; 2]) -> String {
    let size = bytes(direct.size);
    let at = format!("{}, {}; {}", direct.link, switched.link, direct.wait.name());
    let (here, there) = (short(direct.median), short(switched.median));
    let by = if differ(direct, switched) {
        format!("{} without it", change(direct.median / switched.median - 1.0))
    } else {
        "no difference".to_owned()
    };
    let sentence = match direct.experiment {
        Experiment::Stream => format!(
            "Through a switch {} carries {there} MB/s in writes of {size}, directly {here} MB/s: {by} ({at}).",
            name(&direct.transport)
        ),
        _ => format!(
            "Through a switch {} round trip of {size} takes {there} us, directly {here} us: {by} ({at}).",
            of_name(&direct.transport)
        ),
    };
    mark_doubtful(sentence, &[direct, switched])
}

/// What a slower link does to TCP's round trip: each rate beside the next lower one.
pub(super) fn link_rate(results: &Results) -> Vec<String> {
    let mut shaped: Vec<(u64, &str, &LinkPlan)> = virtual_links(results)
        .into_iter()
        .filter_map(|(name, link)| Some((link.rate_mbit?, name, link)))
        .collect();
    shaped.sort_by_key(|(rate, ..)| std::cmp::Reverse(*rate));
    let pairs = shaped.iter().enumerate().filter_map(|(place, fast)| {
        let slower = |slow: &&(u64, &str, &LinkPlan)| slow.0 < fast.0 && alike(fast.2, slow.2);
        Some((fast, shaped[place + 1..].iter().find(slower)?))
    });
    let say = |(fast, slow): (&(u64, &str, &LinkPlan), &(u64, &str, &LinkPlan))| {
        let cells = both(results, Experiment::Rtt, [fast.1, slow.1], "tcp")?;
        Some(say_rate(cells, [fast.0, slow.0]))
    };
    pairs.filter_map(say).collect()
}

fn say_rate([fast, slow]: [&Series; 2], rates: [u64; 2]) -> String {
    let [fast_rate, slow_rate] = rates.map(|rate| mbit(rate as f64 * 1e6));
    let by = match differ(fast, slow) {
        true => change(slow.median / fast.median - 1.0),
        false => "no difference".to_owned(),
    };
    let sentence = format!(
        "TCP's round trip of {} takes {} us at {fast_rate} and {} us at {slow_rate}: {by} ({}, {}; {}). A virtual link holds the rate down, but does not delay a single short frame by it, as a cable does.",
        bytes(fast.size),
        short(fast.median),
        short(slow.median),
        fast.link,
        slow.link,
        fast.wait.name()
    );
    mark_doubtful(sentence, &[fast, slow])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, results};
    use super::*;

    fn cable() -> LinkPlan {
        LinkPlan { cable: true, ..LinkPlan::default() }
    }

    fn shaped(rate: u64) -> LinkPlan {
        LinkPlan { rate_mbit: Some(rate), ..LinkPlan::default() }
    }

    /// Results of two links, with these cells: experiment, transport, size and the median on each.
    fn of(
        links: [(&str, LinkPlan); 2],
        cells: &[(Experiment, &'static str, usize, [f64; 2])],
    ) -> Results {
        let names = [links[0].0, links[1].0];
        let mut all = results(&names);
        all.environment.link.iter_mut().for_each(|link| link.kind = "fabric".into());
        all.plan.link = links.map(|(name, link)| (name.to_owned(), link)).into();
        let base = all.clone();
        all.series.clear();
        for (experiment, transport, size, medians) in cells {
            for (link, median) in names.iter().zip(medians) {
                let one = cell(&base, *experiment, transport, *size, *median);
                all.series.push(Series { link: (*link).to_owned(), ..one });
            }
        }
        all
    }

    #[test]
    fn a_switch_is_charged_with_what_it_costs_round_trips_and_streams() {
        let cells = [
            (Experiment::Rtt, "tcp", 4, [6.0, 7.5]),
            (Experiment::Rtt, "tcp", 64, [6.5, 9.0]),
            (Experiment::Rtt, "gigae", 4, [3.0, 3.01]),
            (Experiment::Stream, "tcp", 65_536, [2000.0, 1600.0]),
        ];
        let links = || [("cable", cable()), ("switch", LinkPlan::default())];
        let all = of(links(), &cells);
        assert_eq!(
            switch(&all),
            [
                "Through a switch TCP's round trip of 4 B takes 7.50 us, directly 6.00 us: -20 % without it (cable, switch; spin).",
                "Through a switch gigae's round trip of 4 B takes 3.01 us, directly 3.00 us: no difference (cable, switch; spin).",
                "Through a switch TCP carries 1600 MB/s in writes of 65,536 B, directly 2000 MB/s: +25 % without it (cable, switch; spin).",
            ]
        );
        // A rate, another MTU or another kind of network would be compared, too.
        let rate = of([("cable", cable()), ("switch", shaped(1000))], &cells);
        assert!(switch(&rate).is_empty());
        let jumbo = LinkPlan { mtu: 9000, ..LinkPlan::default() };
        assert!(switch(&of([("cable", cable()), ("switch", jumbo)], &cells)).is_empty());
        let mut machines = of(links(), &cells);
        machines.environment.link[1].kind = "network".into();
        assert!(switch(&machines).is_empty());
    }

    #[test]
    fn round_trips_of_two_rates_stand_side_by_side() {
        let cells = [(Experiment::Rtt, "tcp", 4, [16.0, 20.0])];
        let all = of([("fast", shaped(1000)), ("slow", shaped(100))], &cells);
        assert_eq!(
            link_rate(&all),
            [
                "TCP's round trip of 4 B takes 16.0 us at 1000 Mbit/s and 20.0 us at 100 Mbit/s: +25 % (fast, slow; spin). A virtual link holds the rate down, but does not delay a single short frame by it, as a cable does."
            ]
        );
        let same = of([("fast", shaped(1000)), ("slow", shaped(1000))], &cells);
        assert!(link_rate(&same).is_empty());
        assert!(link_rate(&of([("a", cable()), ("b", shaped(100))], &cells)).is_empty());
    }
}
