//! What the ends say of the settings that a plan tries.

use serde::{Deserialize, Serialize};

/// Whose setting a knob is, and so how far it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KnobOwner {
    /// The driver of the interface.
    Driver,
    /// The kernel, for this interface.
    Kernel,
    /// The whole machine; not changed for a virtual network.
    Machine,
    /// The measuring program's own; nothing that matters outlives it.
    Program,
}

impl KnobOwner {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Kernel => "kernel",
            Self::Machine => "machine",
            Self::Program => "program",
        }
    }
}

/// A value of a knob that a trial asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// Name of the knob.
    pub knob: String,
    /// The value, in the plan's words.
    pub value: String,
}

/// A knob that a plan names. The control connection has it as a pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(String, Vec<String>)", into = "(String, Vec<String>)")]
pub struct WantedKnob {
    /// Its name.
    pub knob: String,
    /// The values that may be asked for, in the plan's words.
    pub values: Vec<String>,
}

impl From<(String, Vec<String>)> for WantedKnob {
    fn from((knob, values): (String, Vec<String>)) -> Self {
        Self { knob, values }
    }
}

impl From<WantedKnob> for (String, Vec<String>) {
    fn from(wanted: WantedKnob) -> Self {
        (wanted.knob, wanted.values)
    }
}

/// What one end says of a knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnobState {
    /// Its name.
    pub knob: String,
    /// Whose setting it is.
    pub belongs: KnobOwner,
    /// Its value before anything is changed, for people; of several interfaces the first one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<String>,
    /// Why this end does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// What else to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The values that the plan asks for, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<ValueState>,
}

/// What one end says of a value of a knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueState {
    /// In the plan's words.
    pub value: String,
    /// Whether it is the present one.
    pub same: bool,
    /// Why it cannot be set here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// The command lines that set it by hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

impl KnobState {
    /// Whether this value changes something at this end.
    pub fn changes(&self, value: &str) -> bool {
        self.absent.is_none()
            && self.values.iter().any(|one| one.value == value && !one.same && one.absent.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wanted_knob_is_a_pair_on_the_control_connection() {
        let wanted = WantedKnob { knob: "mtu".into(), values: vec!["9000".into()] };
        let text = serde_json::to_string(&wanted).unwrap();
        assert_eq!(text, r#"["mtu",["9000"]]"#);
        assert_eq!(serde_json::from_str::<WantedKnob>(&text).unwrap(), wanted);
    }
}
