//! What follows from many senders and one receiver.

use super::text::{bytes, differ, mark_doubtful, name};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::{percent, short};
use gigae_eval_model::plan::Condition;
use gigae_eval_model::results::{Results, Series};

/// Jain's index from which on shares count as even: of four senders, one has at most a third
/// more than each other, or three tenths less.
const EVEN: f64 = 0.98;

/// And below which they are uneven: of four, one has twice as much as each other, or a third.
const UNEVEN: f64 = 0.9;

/// A smaller share of lost messages, or ECHOs, is left out of the sentence.
const LEAST_LOSS: f64 = 0.01;

/// What becomes of the goodput from the fewest senders to the most, how they share it, and what it
/// does to the queue.
pub(super) fn incast(results: &Results) -> Vec<String> {
    let mut curves: Vec<Vec<&Series>> = Vec::new();
    for series in results.series.iter().filter(|one| one.experiment == Experiment::Incast) {
        let key = |one: &Series| {
            let condition = Condition { senders: 0, ..one.condition };
            (
                one.link.clone(),
                one.transport.clone(),
                one.variant.clone(),
                one.size,
                condition.words(),
            )
        };
        match curves.iter_mut().find(|curve| key(curve[0]) == key(series)) {
            Some(curve) => curve.push(series),
            None => curves.push(vec![series]),
        }
    }
    for curve in &mut curves {
        curve.sort_by_key(|one| one.condition.senders);
    }
    curves.iter().filter_map(|curve| say(curve)).collect()
}

fn say(curve: &[&Series]) -> Option<String> {
    let (few, many) = (*curve.first()?, *curve.last()?);
    let shares = many.shares.as_ref()?;
    if curve.len() < 2 {
        return None;
    }
    let count = |series: &Series| match series.condition.senders {
        1 => "one sender".to_owned(),
        more => format!("{more} senders"),
    };
    let goodput = match differ(few, many) {
        false => format!("{} MB/s, as of {}", short(many.median), count(few)),
        true => format!("{} MB/s, of {} {}", short(many.median), count(few), short(few.median)),
    };
    let even = match shares.fairness {
        index if index >= EVEN => "evenly",
        index if index >= UNEVEN => "nearly evenly",
        _ => "unevenly",
    };
    let lost = match many.loss() {
        lost if lost >= LEAST_LOSS => format!(", {} are lost", percent(lost)),
        _ => String::new(),
    };
    let trip = |series: &Series| series.shares.as_ref().and_then(|shares| shares.trip_p50);
    let queue = match (trip(few), trip(many)) {
        (Some(few), Some(many)) => {
            format!("; an ECHO takes {} us meanwhile instead of {} us", short(many), short(few))
        }
        _ => String::new(),
    };
    let unanswered = match shares.lost_trips() {
        Some((lost, sent)) if lost as f64 >= sent as f64 * LEAST_LOSS => {
            format!("; {lost} of {sent} ECHOs meanwhile are not answered")
        }
        _ => String::new(),
    };
    let sentence = format!(
        "{} by {} reach {goodput}. They share it {even} (Jain's index {:.2}){lost}{queue}{unanswered} ({}, {}).",
        count(many),
        name(&many.transport),
        shares.fairness,
        bytes(many.size),
        many.link
    );
    Some(mark_doubtful(sentence, &[few, many]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, results};
    use super::*;
    use gigae_eval_model::results::Shares;

    #[test]
    fn goodput_shares_and_queue_of_many_stand_beside_those_of_few() {
        let mut all = results(&["gigabit"]);
        let of = |senders, median, fairness, trip| Series {
            condition: Condition { senders, ..Condition::default() },
            shares: Some(Shares { fairness, trip_p50: Some(trip), ..Shares::default() }),
            sent: 100,
            lost: 0,
            ..cell(&all, Experiment::Incast, "tcp", 1400, median)
        };
        let few = of(1, 117.0, 1.0, 400.0);
        let mut many = of(4, 116.4, 0.992, 4000.0);
        all.series = vec![many.clone(), few.clone()];
        assert_eq!(
            incast(&all),
            [
                "4 senders by TCP reach 116 MB/s, as of one sender. They share it evenly (Jain's index 0.99); an ECHO takes \
                 4000 us meanwhile instead of 400 us (1,400 B, gigabit)."
            ]
        );
        many.shares.as_mut().unwrap().fairness = 0.97;
        all.series[0] = many.clone();
        assert!(incast(&all)[0].contains("share it nearly evenly (Jain's index 0.97)"));
        many.median = 60.0;
        many.ci95 = [59.0, 61.0];
        many.lost = 30;
        many.shares.as_mut().unwrap().fairness = 0.5;
        all.series = vec![few, many];
        let said = &incast(&all)[0];
        assert!(said.contains("60.0 MB/s, of one sender 117. They share it unevenly"), "{said}");
        assert!(said.contains("30 % are lost"), "{said}");
        let shares = all.series[1].shares.as_mut().unwrap();
        (shares.trips_sent, shares.trips_lost) = (Some(22), Some(20));
        let said = &incast(&all)[0];
        assert!(said.contains("; 20 of 22 ECHOs meanwhile are not answered"), "{said}");
        all.series.pop();
        assert!(incast(&all).is_empty(), "nothing to compare with");
    }
}
