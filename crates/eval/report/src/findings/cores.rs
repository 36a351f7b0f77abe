//! What follows from several threads at each end, and from the library's ceiling.

use super::text::{bytes, differ, mark_doubtful};
use crate::cores::{is_of_curve, messages};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::{grouped, short};
use gigae_eval_model::plan::label;
use gigae_eval_model::results::{Results, Series};
use gigae_eval_model::transport;

/// Rates of Ethernet in Gbit/s for which the processors are counted.
const RATES: [f64; 3] = [10.0, 25.0, 100.0];

/// What Ethernet adds to the MTU of a frame: header, checksum, preamble and the gap behind it.
const ETHERNET_OVERHEAD: usize = 14 + 4 + 8 + 12;

/// The MTU of the link in memory.
const MEMORY_MTU: usize = 1500;

/// How many times as much the most threads carry as one.
pub(super) fn cores(results: &Results) -> Vec<String> {
    let all = || results.series.iter().filter(|one| one.experiment.has_threads());
    let most = |one: &&Series| {
        let mut of_curve = all().filter(|other| is_of_curve(one, other));
        one.condition.threads > 1
            && of_curve.all(|other| other.condition.threads <= one.condition.threads)
    };
    all().filter(most).filter_map(|many| compare(many, &all().collect::<Vec<_>>())).collect()
}

fn compare(many: &Series, all: &[&Series]) -> Option<String> {
    let one = all.iter().find(|one| is_of_curve(one, many) && one.condition.threads == 1)?;
    let threads = many.condition.threads;
    let what = label(&many.transport, many.variant.as_deref());
    let verdict = match differ(one, many) {
        false => "as much as one".to_owned(),
        true => format!("{} times as much as one", short(many.median / one.median)),
    };
    let sentence = format!(
        "{threads} threads at each end by {what} carry {verdict}: {} and {} MB/s ({}, {}, {}).",
        short(many.median),
        short(one.median),
        bytes(many.size),
        many.wait.name(),
        many.link
    );
    Some(mark_doubtful(sentence, &[one, many]))
}

/// How many processors full frames take at common rates: for the library alone, and on each link.
pub(super) fn rates(results: &Results) -> Vec<String> {
    let one = results.series.iter().filter(|one| one.condition.threads == 1);
    // Of several ways of waiting the best counts.
    let mut best: Vec<&Series> = Vec::new();
    for series in one.filter(|one| mtu(results, one).is_some() && one.median > 0.0) {
        let is_same = |other: &&mut &Series| {
            (other.experiment, &other.link, &other.transport, &other.variant)
                == (series.experiment, &series.link, &series.transport, &series.variant)
        };
        match best.iter_mut().find(is_same) {
            Some(other) if other.median < series.median => *other = series,
            Some(_) => {}
            None => best.push(series),
        }
    }
    best.sort_by_key(|one| one.experiment != Experiment::Ceiling);
    best.iter().filter_map(|one| Some(count(one, mtu(results, one)?))).collect()
}

/// The MTU of its link, if each of its messages is a full frame there.
fn mtu(results: &Results, series: &Series) -> Option<usize> {
    let mtu = match series.experiment {
        Experiment::Ceiling => MEMORY_MTU,
        Experiment::Cores => {
            results.environment.link.iter().find(|link| link.name == series.link)?.mtu
        }
        _ => return None,
    };
    let full = transport::by_name(&series.transport)?.frame_payload(mtu);
    (series.size == full).then_some(mtu)
}

fn count(series: &Series, mtu: usize) -> String {
    let own = messages(series);
    let needed = RATES.map(|rate| rate * 1e9 / 8.0 / (mtu + ETHERNET_OVERHEAD) as f64);
    let cores = needed.map(|needed| grouped((needed / own).ceil() as u64, ","));
    let needed = needed.map(|needed| format!("{:.2}", needed / 1e6));
    let what = label(&series.transport, series.variant.as_deref());
    let whose = match series.experiment {
        Experiment::Ceiling => format!("Without a kernel, one processor each way carries {what}'s"),
        _ => format!("On {}, one processor each way carries {what}'s", series.link),
    };
    let sentence = format!(
        "{whose} full frames at {:.2} million per second ({}). Ethernet of {} Gbit/s has {} million: the work of {} \
         processors each way.",
        own / 1e6,
        bytes(series.size),
        and(&RATES.map(|rate| rate.to_string())),
        and(&needed),
        and(&cores)
    );
    mark_doubtful(sentence, &[series])
}

/// "a, b and c".
fn and(all: &[String]) -> String {
    match all {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => all.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, results};
    use super::*;
    use gigae_eval_model::plan::{Condition, Wait};

    #[test]
    fn the_most_threads_stand_beside_one() {
        let mut all = results(&["cable"]);
        let base = all.clone();
        let of = |threads, median| Series {
            condition: Condition { threads, ..Condition::default() },
            ..cell(&base, Experiment::Cores, "gigae", 1468, median)
        };
        all.series = vec![of(2, 900.0), of(1, 500.0), of(4, 1000.0)];
        assert_eq!(
            cores(&all),
            [
                "4 threads at each end by gigae carry 2.00 times as much as one: 1000 and 500 MB/s (1,468 B, spin, cable)."
            ]
        );
        all.series[2] = Series { wait: Wait::Sleep, ..all.series[2].clone() };
        assert_eq!(cores(&all).len(), 1, "another way of waiting has no one thread");
        all.series = vec![of(1, 500.0), of(2, 501.0)];
        assert!(cores(&all)[0].contains("carry as much as one: 501 and 500 MB/s"));
    }

    #[test]
    fn rates_are_counted_in_processors_from_the_best_way_of_waiting() {
        let mut all = results(&["cable"]);
        let base = all.clone();
        let of = |experiment, wait, size, millions: f64| Series {
            condition: Condition { threads: 1, ..Condition::default() },
            wait,
            ..cell(&base, experiment, "gigae", size, millions * size as f64)
        };
        let full = transport::by_name("gigae").unwrap().frame_payload(1500);
        all.series = vec![
            of(Experiment::Cores, Wait::Sleep, full, 0.3),
            of(Experiment::Cores, Wait::Spin, full, 0.5),
            of(Experiment::Cores, Wait::Spin, 8, 20.0),
            of(Experiment::Ceiling, Wait::Spin, full, 5.0),
        ];
        let said = rates(&all);
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!(
            said[0],
            format!(
                "Without a kernel, one processor each way carries gigae's full frames at 5.00 million per second ({}). \
                 Ethernet of 10, 25 and 100 Gbit/s has 0.81, 2.03 and 8.13 million: the work of 1, 1 and 2 processors each way.",
                bytes(full)
            )
        );
        assert!(said[1].starts_with("On cable, one processor each way"), "{}", said[1]);
        assert!(
            said[1].contains("at 0.50 million")
                && said[1].ends_with("of 2, 5 and 17 processors each way."),
            "{}",
            said[1]
        );
    }
}
