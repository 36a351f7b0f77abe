//! What follows from settings that were tried: which is recommended, what it brings and what it
//! costs.

use super::text::{bytes, differ, mark_doubtful, name, of_name};
use gigae_eval_model::choice;
use gigae_eval_model::choice::{Judgement, Objectives, RatioChange};
use gigae_eval_model::number::{self, short};
use gigae_eval_model::results::Estimate;
use gigae_eval_model::results::{Results, Series};
use gigae_eval_model::trials::{Trial, Tuning};

/// A setting worth having, and what is known of it.
pub struct Recommended<'a> {
    /// The setting.
    pub trial: &'a Trial,
    /// Set beside the present one.
    pub judgement: Judgement,
}

/// The setting that is worth most, if one is worth more than the present one. The best ones
/// together were tried again after all others, so that what looked good by chance had to do so
/// twice: a setting that was chosen alone and did not is not recommended.
pub fn recommended<'a>(results: &Results, tuning: &'a Tuning) -> Option<Recommended<'a>> {
    let (link, by) = (&tuning.link, &tuning.by);
    let present = Objectives::of(&results.series, link, by);
    let judged = |trial: &'a Trial| {
        let judgement = Objectives::of(&trial.series, link, by).against(&present);
        Recommended { trial, judgement }
    };
    let again = tuning.trials.iter().find(|trial| trial.best && trial.failed.is_none());
    let other =
        |trial: &&Trial| !trial.best && again.is_none_or(|again| again.settings != trial.settings);
    let others = tuning.trials.iter().filter(other);
    let all = again.into_iter().chain(others).map(judged);
    let good = all.filter(|one| one.judgement.worth() > 1.0);
    // Of equal ones the one that was tried again, which comes first.
    good.reduce(|best, one| if one.judgement.worth() > best.judgement.worth() { one } else { best })
}

/// The command lines that make a setting, at the measuring and at the answering end.
pub fn commands(tuning: &Tuning, trial: &Trial) -> [Vec<String>; 2] {
    [&tuning.local, &tuning.remote].map(|ends| {
        let of = |set: &gigae_eval_model::knobs::Set| {
            let state =
                ends.iter().find(|state| state.knob == set.knob && state.changes(&set.value))?;
            state.values.iter().find(|one| one.value == set.value).map(|one| one.commands.clone())
        };
        trial.settings.iter().filter_map(of).flatten().collect()
    })
}

/// Which setting is recommended.
pub(super) fn tuning(results: &Results) -> Vec<String> {
    results.tuning.iter().filter_map(|tuning| on_link(results, tuning)).collect()
}

fn on_link(results: &Results, tuning: &Tuning) -> Option<String> {
    let (link, by) = (&tuning.link, &tuning.by);
    let present = Objectives::of(&results.series, link, by);
    let judged: Vec<(&Trial, Judgement)> = tuning
        .trials
        .iter()
        .filter(|trial| !trial.best && !trial.series.is_empty())
        .map(|trial| (trial, Objectives::of(&trial.series, link, by).against(&present)))
        .collect();
    if judged.is_empty() {
        return None;
    }
    let tried = judged.len();
    let differ = judged.iter().filter(|(_, judgement)| judgement.differs()).count();
    let who = name(by);
    let Some(Recommended { trial, judgement }) = recommended(results, tuning) else {
        let sentence = if differ == 0 {
            let all: Vec<&str> = judged.iter().map(|(trial, _)| trial.name.as_str()).collect();
            format!(
                "No setting differs from the present one for {who} ({link}; tried: {}).",
                all.join("; ")
            )
        } else {
            format!(
                "No setting is better than the present one for {who}; {differ} of {tried} tried differ from it ({link})."
            )
        };
        return Some(sentence);
    };
    let now = Objectives::of(&trial.series, link, by);
    let (trip, stream) = choice::cells(&trial.series, link, by);
    let before = choice::cells(&results.series, link, by);
    let parts = [
        part(judgement.trip, now.trip, present.trip, |a, b| {
            let size = bytes(trip.map_or(0, |one| one.size));
            format!("a round trip of {size} takes {a} us instead of {b}")
        }),
        part(judgement.goodput, now.goodput, present.goodput, |a, b| {
            let size = bytes(stream.map_or(0, |one| one.size));
            format!("a stream of {size} carries {a} MB/s instead of {b}")
        }),
        part(judgement.demand, now.demand, present.demand, |a, b| {
            format!("a KB takes {a} us of CPU instead of {b}")
        }),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let cost = match judgement.costs() {
        true => "what is worse is its cost",
        false => "it costs none of them",
    };
    let sentence = format!(
        "Recommended by {} figures on {link}: {}; {}; {cost}. {differ} of {tried} settings tried differ from the present one.",
        of_name(by),
        trial.name,
        parts.join(", ")
    );
    let used: Vec<&Series> = [trip, stream, before.0, before.1].into_iter().flatten().collect();
    Some(mark_doubtful(sentence, &used))
}

/// The knobs that make a CPU slower.
const SLOWER: [&str; 2] = ["cpu-quota", "cpu-frequency"];

/// By how much more a stream carries with the whole CPU than with a part of it.
pub(super) fn slower_cpu(results: &Results) -> Vec<String> {
    results.tuning.iter().flat_map(|tuning| slower_on(results, tuning)).collect()
}

fn slower_on(results: &Results, tuning: &Tuning) -> Vec<String> {
    let (link, by) = (&tuning.link, &tuning.by);
    let Some(whole) = choice::cells(&results.series, link, by).1 else { return Vec::new() };
    let say = |trial: &Trial| {
        let [set] = &trial.settings[..] else { return None };
        let alone = SLOWER.contains(&set.knob.as_str()) && !trial.best && trial.failed.is_none();
        let part = choice::cells(&trial.series, link, by).1.filter(|_| alone)?;
        let with = match set.knob.as_str() {
            "cpu-quota" => format!("{} % of a CPU's time at each end", set.value),
            _ => format!("CPUs at {} % of their frequency", set.value),
        };
        let more = match differ(whole, part) {
            true => format!("{} with all of it", number::change(whole.median / part.median - 1.0)),
            false => "no difference".to_owned(),
        };
        let sentence = format!(
            "With {with} {} carries {} MB/s in writes of {}, and {} MB/s without that limit: {more} ({link}).",
            name(by),
            short(part.median),
            bytes(part.size),
            short(whole.median)
        );
        Some(mark_doubtful(sentence, &[whole, part]))
    };
    tuning.trials.iter().filter_map(say).collect()
}

/// One of the three figures, with its change.
fn part(
    change: RatioChange,
    now: Option<Estimate>,
    before: Option<Estimate>,
    say: impl FnOnce(&str, &str) -> String,
) -> Option<String> {
    let (now, before) = (now?.median, before?.median);
    let text = say(&short(now), &short(before));
    Some(match change {
        RatioChange::Better(_) => format!("{text} ({})", number::change(now / before - 1.0)),
        RatioChange::Worse(_) => format!("{text} ({}, worse)", number::change(now / before - 1.0)),
        RatioChange::Same | RatioChange::Unknown => format!("{text} (no difference)"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, results};
    use super::*;
    use gigae_eval_model::experiment::Experiment;
    use gigae_eval_model::knobs::{KnobOwner, KnobState, Set, ValueState};

    fn figures(all: &Results, trip: f64, goodput: f64, demand: f64) -> Vec<Series> {
        let cpu = Estimate { median: demand, ci95: [demand * 0.99, demand * 1.01] };
        vec![
            cell(all, Experiment::Rtt, "tcp", 8, trip),
            Series {
                unit: "MB/s".into(),
                cpu_per_kb: Some(cpu),
                ..cell(all, Experiment::Stream, "tcp", 65_536, goodput)
            },
        ]
    }

    fn set(knob: &str, value: &str) -> Set {
        Set { knob: knob.into(), value: value.into() }
    }

    fn trial(all: &Results, sets: &[Set], best: bool, of: [f64; 3]) -> Trial {
        let series = figures(all, of[0], of[1], of[2]);
        Trial { best, series, ..Trial::new(sets.to_vec()) }
    }

    fn state(knob: &str, value: &str, command: &str) -> KnobState {
        KnobState {
            knob: knob.into(),
            belongs: KnobOwner::Driver,
            present: Some("something".into()),
            absent: None,
            note: None,
            values: vec![ValueState {
                value: value.into(),
                same: false,
                absent: None,
                commands: vec![command.into()],
            }],
        }
    }

    /// With a present setting of 10 us, 1,000 MB/s and 1 us per KB.
    fn tried(trials: impl Fn(&Results) -> Vec<Trial>) -> Results {
        let mut all = results(&["cable"]);
        all.series = figures(&all, 10.0, 1000.0, 1.0);
        let states = vec![
            state("gro", "on", "ethtool -K eth1 gro on"),
            state("rps", "all", "echo 3 > /sys/class/net/eth1/queues/rx-0/rps_cpus"),
        ];
        all.tuning = vec![Tuning {
            link: "cable".into(),
            by: "tcp".into(),
            local: states.clone(),
            remote: states[..1].to_vec(),
            trials: trials(&all),
        }];
        all
    }

    #[test]
    fn the_best_ones_together_are_recommended_with_what_they_bring_and_cost() {
        let all = tried(|all| {
            vec![
                trial(all, &[set("gro", "on")], false, [10.0, 1500.0, 0.8]),
                trial(all, &[set("rps", "all")], false, [8.0, 1000.0, 1.0]),
                trial(all, &[set("mtu", "9000")], false, [20.0, 1000.0, 1.0]),
                trial(all, &[set("gro", "on"), set("rps", "all")], true, [8.0, 1510.0, 1.2]),
            ]
        });
        assert_eq!(
            tuning(&all),
            [
                "Recommended by TCP's figures on cable: gro on; a round trip of 8 B takes 10.0 us instead of 10.0 \
              (no difference), a stream of 65,536 B carries 1500 MB/s instead of 1000 (+50 %), a KB takes 0.80 \
              us of CPU instead of 1.00 (-20 %); it costs none of them. 3 of 3 settings tried differ from the \
              present one."
            ]
        );
        let best = tried(|all| {
            vec![
                trial(all, &[set("gro", "on")], false, [10.0, 1500.0, 1.0]),
                trial(all, &[set("gro", "on"), set("rps", "all")], true, [5.0, 1510.0, 1.2]),
            ]
        });
        let said = &tuning(&best)[0];
        assert!(
            said.contains("gro on, rps all")
                && said.contains("1.20 us of CPU instead of 1.00 (+20 %, worse)"),
            "{said}"
        );
        assert!(said.contains("what is worse is its cost"), "{said}");
        let found = recommended(&best, &best.tuning[0]).unwrap();
        let [here, there] = commands(&best.tuning[0], found.trial);
        assert_eq!((here.len(), &there[..]), (2, &["ethtool -K eth1 gro on".to_owned()][..]));
    }

    #[test]
    fn what_does_not_differ_is_said_as_such() {
        let all = tried(|all| {
            vec![
                trial(all, &[set("gro", "on")], false, [10.1, 1003.0, 1.0]),
                trial(all, &[set("rps", "all")], false, [9.95, 1000.0, 1.01]),
            ]
        });
        assert_eq!(
            tuning(&all),
            ["No setting differs from the present one for TCP (cable; tried: gro on; rps all)."]
        );
        let worse = tried(|all| vec![trial(all, &[set("gro", "on")], false, [20.0, 1000.0, 1.0])]);
        assert_eq!(
            tuning(&worse),
            [
                "No setting is better than the present one for TCP; 1 of 1 tried differ from it (cable)."
            ]
        );
    }

    #[test]
    fn the_whole_cpu_is_set_beside_a_part_of_it() {
        let all = tried(|all| {
            vec![
                trial(all, &[set("cpu-quota", "80")], false, [10.0, 735.3, 1.0]),
                trial(all, &[set("cpu-quota", "50")], false, [10.0, 1001.0, 1.0]),
                trial(all, &[set("cpu-quota", "50"), set("gro", "on")], false, [9.0, 500.0, 1.0]),
                trial(all, &[set("cpu-quota", "25")], true, [9.0, 500.0, 1.0]),
                trial(all, &[set("gro", "on")], false, [9.0, 500.0, 1.0]),
            ]
        });
        assert_eq!(
            slower_cpu(&all),
            [
                "With 80 % of a CPU's time at each end TCP carries 735 MB/s in writes of 65,536 B, and 1000 MB/s without that limit: +36 % with all of it (cable).",
                "With 50 % of a CPU's time at each end TCP carries 1001 MB/s in writes of 65,536 B, and 1000 MB/s without that limit: no difference (cable).",
            ]
        );
    }

    #[test]
    fn what_was_good_once_and_not_again_is_not_recommended() {
        let all = tried(|all| {
            vec![
                trial(all, &[set("gro", "on")], false, [8.0, 1000.0, 1.0]),
                trial(all, &[set("gro", "on")], true, [10.0, 1000.0, 1.0]),
            ]
        });
        assert!(recommended(&all, &all.tuning[0]).is_none());
        assert!(tuning(&all)[0].starts_with("No setting is better"), "{:?}", tuning(&all));
    }

    #[test]
    fn a_trial_that_failed_is_not_counted() {
        let all = tried(|_| vec![Trial { failed: Some("no".into()), ..Trial::new(Vec::new()) }]);
        assert!(tuning(&all).is_empty());
    }
}
