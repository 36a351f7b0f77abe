//! Which settings are tried: those that a plan names, as far as the ends have them; and what became
//! of each.

use crate::knobs::{KnobState, Set};
use crate::plan::{Sweep, TunePlan};
use crate::results::Series;
use serde::{Deserialize, Serialize};

/// Settings that are tried together, and what was measured with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// What differs from the present setting, in a few words.
    pub name: String,
    /// The same for programs.
    pub settings: Vec<Set>,
    /// Whether it is the best ones together, tried after the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub best: bool,
    /// What was measured, as under the present setting.
    pub series: Vec<Series>,
    /// Why nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Trial {
    /// One that is yet to be measured.
    pub fn new(settings: Vec<Set>) -> Self {
        let words = |set: &Set| format!("{} {}", set.knob, set.value);
        let name = settings.iter().map(words).collect::<Vec<_>>().join(", ");
        Self { name, settings, best: false, series: Vec::new(), failed: None }
    }
}

/// The settings tried on one link; what was measured under the present one is among the results'
/// own series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// The link.
    pub link: String,
    /// The transport by whose figures the best ones were chosen.
    pub by: String,
    /// The knobs of the measuring end.
    pub local: Vec<KnobState>,
    /// Those of the answering end; empty where only the measuring end was tuned.
    pub remote: Vec<KnobState>,
    /// What was tried, in the plan's order.
    pub trials: Vec<Trial>,
}

/// The trials of a plan, as far as one of the ends has them and they change something there.
pub fn trials(plan: &TunePlan, local: &[KnobState], remote: &[KnobState]) -> Vec<Trial> {
    let states = || local.iter().chain(remote);
    let knobs = plan.knobs.iter().map(|(knob, values)| {
        let changes = |value: &str| states().any(|one| one.knob == *knob && one.changes(value));
        let values = values.iter().map(ToString::to_string).filter(|value| changes(value));
        values.map(|value| Set { knob: knob.clone(), value }).collect::<Vec<_>>()
    });
    match plan.sweep {
        Sweep::Each => knobs.flatten().map(|set| Trial::new(vec![set])).collect(),
        Sweep::Product => {
            let mut all: Vec<Vec<Set>> = vec![Vec::new()];
            for sets in knobs {
                let with = |before: &Vec<Set>| {
                    let one = |set: &Set| [&before[..], std::slice::from_ref(set)].concat();
                    std::iter::once(before.clone()).chain(sets.iter().map(one)).collect::<Vec<_>>()
                };
                all = all.iter().flat_map(with).collect();
            }
            // The first one changes nothing.
            all.into_iter().skip(1).map(Trial::new).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knobs::{KnobOwner, ValueState};
    use crate::plan::TuneEnds;

    fn plan(sweep: Sweep) -> TunePlan {
        let knobs = [("gro", vec!["on", "off"]), ("mtu", vec!["9000"]), ("rx-usecs", vec!["0"])];
        let value = |value: &str| crate::plan::KnobValue(value.to_owned());
        let knobs = knobs
            .into_iter()
            .map(|(name, values)| (name.to_owned(), values.into_iter().map(value).collect()));
        let (links, ends) = (None, TuneEnds::Both);
        TunePlan { links, ends, sweep, by: "tcp".into(), knobs: knobs.collect() }
    }

    fn value(value: &str, same: bool) -> ValueState {
        ValueState { value: value.into(), same, absent: None, commands: Vec::new() }
    }

    fn state(knob: &str, absent: bool, values: Vec<ValueState>) -> KnobState {
        KnobState {
            knob: knob.into(),
            belongs: KnobOwner::Driver,
            present: None,
            absent: absent.then(|| "no".into()),
            note: None,
            values,
        }
    }

    #[test]
    fn what_neither_end_has_or_both_have_already_is_not_tried() {
        let ends = [
            state("gro", false, vec![value("on", true), value("off", false)]),
            state("mtu", false, vec![value("9000", false)]),
            state("rx-usecs", true, vec![]),
        ];
        let names = |sweep| -> Vec<String> {
            trials(&plan(sweep), &ends, &ends).into_iter().map(|trial| trial.name).collect()
        };
        assert_eq!(names(Sweep::Each), ["gro off", "mtu 9000"]);
        assert_eq!(names(Sweep::Product), ["mtu 9000", "gro off", "gro off, mtu 9000"]);
        let other = [state("rx-usecs", false, vec![value("0", false)])];
        assert_eq!(trials(&plan(Sweep::Each), &ends[2..], &other)[0].name, "rx-usecs 0");
    }
}
