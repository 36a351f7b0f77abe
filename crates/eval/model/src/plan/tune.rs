//! `[tune]`: which settings of the interfaces and the kernel are tried, beside the present ones.
//!
//! What is measured under each of them are the experiments that say `tune = true`.

use crate::knobs::WantedKnob;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

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
    pub fn wanted(&self) -> Vec<WantedKnob> {
        let values = |values: &Vec<KnobValue>| values.iter().map(ToString::to_string).collect();
        let knobs = self.knobs.iter();
        knobs.map(|(knob, own)| WantedKnob { knob: knob.clone(), values: values(own) }).collect()
    }

    /// How many settings are tried at most, the best ones together included.
    pub fn most_trials(&self) -> usize {
        let values = self.knobs.values().map(Vec::len);
        1 + match self.sweep {
            Sweep::Each => values.sum::<usize>(),
            Sweep::Product => values.fold(1_usize, |all, own| all.saturating_mul(own + 1)) - 1,
        }
    }
}
