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

/// Refuses a plan that names a knob or a value which does not exist. The error is one line; `name`
/// is what the user calls the plan.
pub fn check(plan: &Plan, name: &str) -> Result<(), PlanError> {
    let Some(tune) = &plan.tune else { return Ok(()) };
    let wrong = |why: String| PlanError::Malformed {
        plan: name.to_owned(),
        reason: format!("[tune]: {why}"),
    };
    for (name, values) in &tune.knobs {
        let knob = by_name(name)
            .ok_or_else(|| wrong(format!("unknown knob '{name}', known: {}", names())))?;
        if let Some(value) = values.iter().find(|value| !knob.accepts(&value.0)) {
            let takes = knob.form().values;
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
    use gigae_eval_model::plan::{KnobValue, SHIPPED};

    #[test]
    fn knobs_have_different_names_and_say_what_they_accept() {
        let names: std::collections::BTreeSet<_> = KNOBS.iter().map(|knob| knob.name()).collect();
        assert_eq!(names.len(), KNOBS.len());
        for knob in KNOBS {
            assert!(!knob.accepts("") && !knob.accepts("$(reboot)"), "{}", knob.name());
            assert!(
                !knob.form().values.is_empty() && !knob.form().about.is_empty(),
                "{}",
                knob.name()
            );
        }
    }

    #[test]
    fn plans_that_name_no_knob_or_value_are_refused_and_the_shipped_ones_are_not() {
        for (name, _) in SHIPPED {
            check(&Plan::load(name).unwrap(), name).unwrap();
        }
        let plan = Plan::load("tuning").unwrap();
        for (knob, value, named) in [
            ("grow", "on", "unknown knob 'grow'"),
            ("gro", "5", "does not take '5' but \"on\" or \"off\""),
            ("mtu", "500", "1280 to 9000"),
        ] {
            let mut plan = plan.clone();
            let values = vec![KnobValue(value.to_owned())];
            plan.tune.as_mut().unwrap().knobs.insert(knob.to_owned(), values);
            let error = check(&plan, "mine").unwrap_err().to_string();
            assert!(error.contains(named) && error.lines().count() == 1, "{error}");
        }
    }
}
