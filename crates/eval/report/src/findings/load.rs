//! What follows from round trips under load.

use super::text::{bytes, differ, mark_doubtful, name};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::{grouped, percent, short};
use gigae_eval_model::plan::Condition;
use gigae_eval_model::results::{Results, Series};

/// A tail that is this many times the one of the lowest rate is a queue.
const QUEUED: f64 = 2.0;

/// Lost messages above this share mean that a rate was too high.
const TOO_FAST: f64 = 0.01;

/// The curves of a run over the rate: what differs in nothing else, by ascending rate.
fn curves(results: &Results) -> Vec<Vec<&Series>> {
    let mut curves: Vec<Vec<&Series>> = Vec::new();
    for series in results.series.iter().filter(|one| one.experiment == Experiment::Paced) {
        let same = |curve: &&mut Vec<&Series>| {
            let key = |one: &Series| {
                let condition = Condition { rate: None, ..one.condition };
                let variant = one.variant.clone();
                (
                    one.link.clone(),
                    one.transport.clone(),
                    variant,
                    one.wait,
                    one.size,
                    condition.words(),
                )
            };
            key(curve[0]) == key(series)
        };
        match curves.iter_mut().find(same) {
            Some(curve) => curve.push(series),
            None => curves.push(vec![series]),
        }
    }
    for curve in &mut curves {
        curve.sort_by(|a, b| {
            a.condition.rate.unwrap_or(0.0).total_cmp(&b.condition.rate.unwrap_or(0.0))
        });
    }
    curves
}

fn rate(series: &Series) -> String {
    let rate = series.condition.rate.unwrap_or(0.0);
    grouped(rate as u64, ",") + "/s"
}

/// Up to which rate the tail stays what it is when there is little to do.
pub(super) fn load(results: &Results) -> Vec<String> {
    let curves = curves(results);
    curves
        .iter()
        .filter(|curve| curve[0].condition.bulk == 0)
        .filter_map(|curve| say(curve))
        .collect()
}

fn say(curve: &[&Series]) -> Option<String> {
    let (first, last) = (curve.first()?, curve.last()?);
    if curve.len() < 2 {
        return None;
    }
    let at = format!("{}, {}, {}", bytes(first.size), first.link, first.wait.name());
    let calm = |one: &&&Series| one.p99 < first.p99 * QUEUED && one.loss() <= TOO_FAST;
    let who = name(&first.transport);
    let tail = format!(
        "{who} answers {} with a 99th percentile of {} us from the intended time (median {} us)",
        rate(first),
        short(first.p99),
        short(first.median)
    );
    let broken = curve.iter().find(|one| !calm(one));
    let used = [*first, broken.unwrap_or(last)];
    let sentence = match broken {
        None => format!(
            "{tail}, and {} with {} us: no queue builds up to there ({at}).",
            rate(last),
            short(last.p99)
        ),
        Some(broken) if broken.loss() > TOO_FAST => format!(
            "{tail}; of {}, {} are not answered in time ({at}).",
            rate(broken),
            percent(broken.loss())
        ),
        Some(broken) => format!(
            "{tail}, and {} with {} us, {} times as much: there a queue builds up ({at}).",
            rate(broken),
            short(broken.p99),
            short(broken.p99 / first.p99)
        ),
    };
    Some(mark_doubtful(sentence, &used))
}

/// What a bulk stream on the same link does to round trips, and how much of that is the switch's
/// queue.
pub(super) fn bufferbloat(results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    for beside in results.series.iter().filter(|one| one.condition.bulk > 0) {
        let quiet = Condition { bulk: 0, ..beside.condition };
        let alone = results.of(beside.experiment, &beside.link, beside.wait).find(|one| {
            (&one.transport, &one.variant, one.size)
                == (&beside.transport, &beside.variant, beside.size)
                && one.condition == quiet
        });
        if let Some(alone) = alone.filter(|one| one.experiment.is_trip() && one.median > 0.0) {
            sentences.push(say_bloat(results, beside, alone));
        }
    }
    sentences
}

fn say_bloat(results: &Results, beside: &Series, alone: &Series) -> String {
    let who = name(&beside.transport);
    let streams = match beside.condition.bulk {
        1 => "a bulk stream".to_owned(),
        streams => format!("{streams} bulk streams"),
    };
    let rate = beside.condition.rate.map_or(String::new(), |_| format!("{}, ", rate(beside)));
    let at = format!("{}, {rate}{}, {}", bytes(beside.size), beside.link, beside.wait.name());
    if !differ(beside, alone) {
        return mark_doubtful(
            format!("Beside {streams} {who} answers no later ({at})."),
            &[beside, alone],
        );
    }
    let added = beside.median - alone.median;
    let queue =
        results.environment.link.iter().find(|link| link.name == beside.link).and_then(|link| {
            let full = f64::from(link.switch_buffer?) * 8.0 / link.rate? * 1e6;
            Some(format!("; the switch's buffer, when full, is {} us long", short(full)))
        });
    let sentence = format!(
        "Beside {streams} {who} answers in {} us instead of {} us, {} us more{} ({at}).",
        short(beside.median),
        short(alone.median),
        short(added),
        queue.unwrap_or_default()
    );
    mark_doubtful(sentence, &[beside, alone])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, results};
    use super::*;

    fn paced(all: &Results, rate: f64, p99: f64) -> Series {
        let condition = Condition { rate: Some(rate), ..Condition::default() };
        let series = cell(all, Experiment::Paced, "tcp", 64, p99 / 2.0);
        Series { condition, p99, sent: 1000, lost: 0, ..series }
    }

    #[test]
    fn the_rate_at_which_the_tail_rises_is_named() {
        let mut all = results(&["gigabit"]);
        all.series = vec![
            paced(&all, 50_000.0, 90.0),
            paced(&all, 1000.0, 20.0),
            paced(&all, 10_000.0, 22.0),
        ];
        assert_eq!(
            load(&all),
            [
                "TCP answers 1,000/s with a 99th percentile of 20.0 us from the intended time (median 10.0 us), \
              and 50,000/s with 90.0 us, 4.50 times as much: there a queue builds up (64 B, gigabit, spin)."
            ]
        );
        all.series[0].p99 = 30.0;
        assert!(load(&all)[0].contains("no queue builds up"), "{:?}", load(&all));
        all.series[0].lost = 300;
        assert!(load(&all)[0].contains("of 50,000/s, 30 % are not answered"), "{:?}", load(&all));
    }

    #[test]
    fn what_a_stream_beside_adds_stands_beside_the_queue_of_the_switch() {
        let mut all = results(&["gigabit"]);
        all.environment.link[0].rate = Some(1e9);
        all.environment.link[0].switch_buffer = Some(250_000);
        let alone = paced(&all, 1000.0, 40.0);
        let mut beside = paced(&all, 1000.0, 3000.0);
        beside.condition.bulk = 1;
        all.series = vec![alone, beside];
        assert_eq!(
            bufferbloat(&all),
            [
                "Beside a bulk stream TCP answers in 1500 us instead of 20.0 us, 1480 us more; the switch's \
              buffer, when full, is 2000 us long (64 B, 1,000/s, gigabit, spin)."
            ]
        );
        // The stream's cells do not count as the link's own tail.
        assert!(load(&all).is_empty());
        all.series[1].ci95 = [19.0, 1600.0];
        assert!(bufferbloat(&all)[0].contains("answers no later"), "{:?}", bufferbloat(&all));
    }
}
