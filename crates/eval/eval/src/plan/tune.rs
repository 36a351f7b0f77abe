//! `[tune]`: which settings of the interfaces and the kernel are tried, beside the present ones.
//!
//! What is measured under each of them are the experiments that say `tune = true`.

use super::{Cell, Plan};
use crate::{transport, tune};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Most settings that are tried on a link.
const MOST_TRIALS: usize = 64;

/// The settings to try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunePlan {
    /// Names of links; absent: all but loopbacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<String>>,
    /// At which ends.
    #[serde(default)]
    pub ends: TuneEnds,
    /// Which settings are tried together.
    #[serde(default)]
    pub sweep: Sweep,
    /// The transport by whose figures the best ones are chosen.
    pub by: String,
    /// Values by the name of their knob (`gigae tuning knobs`).
    pub knobs: BTreeMap<String, Vec<KnobValue>>,
}

/// At which ends settings are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TuneEnds {
    /// At both; between two machines the other's owner must allow it.
    #[default]
    Both,
    /// At the measuring end only.
    Measuring,
}

/// Which settings are tried together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sweep {
    /// One at a time, all else as it is; then the best ones together.
    #[default]
    Each,
    /// All combinations.
    Product,
}

/// A value: a word, a number, or `true` and `false` for `on` and `off`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KnobValue(pub String);

impl fmt::Display for KnobValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for KnobValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Switch(bool),
            Number(u64),
            Word(String),
        }
        match Raw::deserialize(deserializer) {
            Ok(Raw::Switch(on)) => Ok(Self(if on { "on" } else { "off" }.to_owned())),
            Ok(Raw::Number(number)) => Ok(Self(number.to_string())),
            Ok(Raw::Word(word)) => Ok(Self(word)),
            Err(_) => Err(serde::de::Error::custom("a value is a word or a number")),
        }
    }
}

impl TunePlan {
    /// As the ends want it.
    pub fn wanted(&self) -> Vec<(String, Vec<String>)> {
        let values = |values: &Vec<KnobValue>| values.iter().map(ToString::to_string).collect();
        self.knobs.iter().map(|(knob, own)| (knob.clone(), values(own))).collect()
    }

    /// How many settings are tried at most, the best ones together included.
    pub fn most_trials(&self) -> usize {
        let values = self.knobs.values().map(Vec::len);
        1 + match self.sweep {
            Sweep::Each => values.sum::<usize>(),
            Sweep::Product => values.fold(1_usize, |all, own| all.saturating_mul(own + 1)) - 1,
        }
    }

    fn check(&self, plan: &Plan) -> Result<(), String> {
        if self.knobs.is_empty() {
            return Err(format!("name knobs, of: {}", tune::names()));
        }
        for (name, values) in &self.knobs {
            let knob = tune::by_name(name)
                .ok_or_else(|| format!("unknown knob '{name}', known: {}", tune::names()))?;
            if values.is_empty() {
                return Err(format!("knob '{name}' has no values; it takes {}", knob.values()));
            }
            if let Some(wrong) = values.iter().find(|value| !knob.accepts(&value.0)) {
                return Err(format!("knob '{name}' does not take '{wrong}' but {}", knob.values()));
            }
        }
        if self.most_trials() > MOST_TRIALS {
            return Err(format!("at most {MOST_TRIALS} settings; name fewer values"));
        }
        for name in self.links.iter().flatten() {
            match plan.link.get(name) {
                None => return Err(format!("unknown link '{name}'")),
                Some(link) if link.loopback => {
                    return Err(format!("link '{name}' is the machine's own, which is not tuned"));
                }
                Some(_) => {}
            }
        }
        let tuned = || plan.experiment.iter().filter(|one| one.tune);
        if transport::by_name(&self.by).is_none()
            || !tuned().any(|one| one.transports.contains(&self.by))
        {
            return Err(format!(
                "by = '{}' is no transport of an experiment with tune = true",
                self.by
            ));
        }
        Ok(())
    }
}

impl Plan {
    /// The settings to try on a link; between two machines on the one there is.
    pub fn tune_on(&self, link: Option<&str>) -> Option<&TunePlan> {
        self.tune.as_ref().filter(|tune| match (link, &tune.links) {
            (Some(link), _) if self.is_loopback(link) => false,
            (Some(link), Some(links)) => links.iter().any(|name| name == link),
            (None, _) | (_, None) => true,
        })
    }

    /// The cells of a link in two: those that are measured once, and those under every setting.
    pub fn split_cells(&self, link: Option<&str>, mtu: usize) -> (Vec<Cell>, Vec<Cell>) {
        let tuned = self.tune_on(link).is_some();
        self.cells(link, mtu).into_iter().partition(|cell| !(tuned && cell.tune))
    }

    /// How often the cells of a link are measured in each round, at most: those under every setting count as
    /// often as there are settings, and once more beside the best ones together.
    pub fn most_measured(
        &self,
        link: Option<&str>,
        mtu: usize,
    ) -> impl Iterator<Item = (Cell, u32)> {
        let (once, tuned) = self.split_cells(link, mtu);
        let times = self.tune_on(link).map_or(1, |tune| tune.most_trials() + 2);
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        let once = once.into_iter().map(|cell| (cell, 1));
        once.chain(tuned.into_iter().map(move |cell| (cell, times)))
    }
}

/// Checks `[tune]`; the error says so.
pub(super) fn check(plan: &Plan) -> Result<(), String> {
    let tuned = plan.experiment.iter().any(|one| one.tune);
    match &plan.tune {
        Some(tune) => tune.check(plan).map_err(|why| format!("[tune]: {why}")),
        None if tuned => Err("tune = true needs a [tune] that says which settings".into()),
        None => Ok(()),
    }
}
