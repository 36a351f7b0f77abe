//! The knobs that there are.

use super::knob::Knob;
use super::{congestion, ethtool, files, frequency, quota, steering};
use gigae_eval_model::plan::{Plan, PlanError};

/// All knobs, in the order in which they are listed.
pub const KNOBS: &[&dyn Knob] = &[
    &ethtool::RX_USECS,
    &ethtool::RX_FRAMES,
    &ethtool::TX_USECS,
    &ethtool::TX_FRAMES,
    &ethtool::ADAPTIVE_RX,
    &ethtool::RX_RING,
    &ethtool::TX_RING,
    &ethtool::TSO,
    &ethtool::GSO,
    &ethtool::GRO,
    &ethtool::LRO,
    &ethtool::RX_CHECKSUM,
    &ethtool::TX_CHECKSUM,
    &ethtool::MTU,
    &files::NAPI_DEFER,
    &files::GRO_FLUSH,
    &files::BUSY_POLL,
    &files::BUSY_READ,
    &congestion::CONGESTION_CONTROL,
    &steering::RPS,
    &steering::IRQ,
    &quota::CPU_QUOTA,
    &frequency::CPU_FREQUENCY,
];

/// The knob of this name.
pub fn by_name(name: &str) -> Option<&'static dyn Knob> {
    KNOBS.iter().copied().find(|knob| knob.name() == name)
}

/// Refuses a plan that names a knob or a value which does not exist. The error is one line.
pub fn check(plan: &Plan) -> Result<(), PlanError> {
    let Some(tune) = &plan.tune else { return Ok(()) };
    let wrong = |why: String| PlanError::Malformed {
        plan: plan.name.clone(),
        reason: format!("[tune]: {why}"),
    };
    for (name, values) in &tune.knobs {
        let knob = by_name(name)
            .ok_or_else(|| wrong(format!("unknown knob '{name}', known: {}", names())))?;
        if let Some(value) = values.iter().find(|value| !knob.accepts(&value.0)) {
            let takes = knob.values();
            return Err(wrong(format!("knob '{name}' does not take '{value}' but {takes}")));
        }
    }
    Ok(())
}

/// All names, for errors.
pub fn names() -> String {
    KNOBS.iter().map(|knob| knob.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_have_different_names_and_say_what_they_accept() {
        let names: std::collections::BTreeSet<_> = KNOBS.iter().map(|knob| knob.name()).collect();
        assert_eq!(names.len(), KNOBS.len());
        for knob in KNOBS {
            assert!(!knob.accepts("") && !knob.accepts("$(reboot)"), "{}", knob.name());
            assert!(!knob.values().is_empty() && !knob.about().is_empty(), "{}", knob.name());
        }
    }
}
