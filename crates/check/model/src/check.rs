//! The model for the checker, and one run of it.

use crate::check_report::CheckReport;
use crate::coverage::CoverageGoal;
use crate::form::Form;
use crate::rule::Rule;
use crate::system::{System, Transition};
use stateright::{Checker, CheckerBuilder, HasDiscoveries, Model, Property};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Steps of a path beyond which it is taken to have no end.
const DEEPEST: usize = 500;

/// A form, and how often it was healed.
struct CheckedForm {
    form: Form,
    healed: AtomicU64,
}

impl Model for CheckedForm {
    type State = System;
    type Action = Transition;

    fn init_states(&self) -> Vec<System> {
        vec![System::new(&self.form)]
    }

    fn actions(&self, system: &System, steps: &mut Vec<Transition>) {
        system.steps(&self.form, steps);
    }

    fn next_state(&self, system: &System, step: Transition) -> Option<System> {
        Some(system.after(&self.form, step))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! always {
            ($($rule:ident)*) => { vec![$(
                Property::always(Rule::$rule.name(), |_, system: &System| system.broken != Some(Rule::$rule)),
            )*] };
        }
        let mut all =
            always!(Twice Order Gap OldFrame Undelivered Reported Groundless Ahead Withdrawn);
        all.push(Property::always(Rule::Stuck.name(), |checked: &Self, system| {
            if system.broken.is_some() || !system.is_at_rest() || system.can_send() {
                return true;
            }
            checked.healed.fetch_add(1, Ordering::Relaxed);
            system.heal(&checked.form).is_ok()
        }));
        all.extend(CoverageGoal::ALL.map(|goal| Property::sometimes(goal.name(), seen(goal))));
        all
    }
}

/// Whether a state shows it.
fn seen(goal: CoverageGoal) -> fn(&CheckedForm, &System) -> bool {
    match goal {
        CoverageGoal::AllDone => |_, system| system.flows.iter().all(|flow| flow.is_done()),
        CoverageGoal::Stopped => |_, system| system.counts(|c| c.stops),
        CoverageGoal::Probed => |_, system| system.counts(|c| c.probes),
        CoverageGoal::Repeated => |_, system| system.counts(|c| c.retransmissions),
        CoverageGoal::Duplicate => |_, system| system.counts(|c| c.duplicates),
        CoverageGoal::OutOfOrder => |_, system| system.counts(|c| c.out_of_order),
        CoverageGoal::NoRoom => |_, system| system.counts(|c| c.window),
        CoverageGoal::OldEpoch => |_, system| system.counts(|c| c.epoch),
        CoverageGoal::Failed => |_, system| system.counts(|c| c.messages_failed),
        CoverageGoal::Wrapped => |_, system| system.has_wrapped(),
    }
}

/// Looks at every state of a form, but not at many more than `most`, with `threads` threads. A
/// broken rule ends the check.
pub fn check(form: &Form, most: usize, threads: usize) -> CheckReport {
    let begin = Instant::now();
    let checker = prepare(form, most).threads(threads).spawn_dfs().join();
    let found = checker.discoveries();
    let is_broken = Rule::ALL.iter().any(|rule| found.contains_key(rule.name()));
    let (seen, unseen): (Vec<_>, _) =
        CoverageGoal::ALL.into_iter().partition(|goal| found.contains_key(goal.name()));
    CheckReport {
        name: form.name.clone(),
        states: checker.state_count(),
        unique: checker.unique_state_count(),
        healed: checker.model().healed.load(Ordering::Relaxed),
        depth: checker.max_depth(),
        time: begin.elapsed(),
        exhausted: !is_broken && checker.state_count() < most && checker.max_depth() < DEEPEST,
        missed: form.reaches.iter().filter(|goal| unseen.contains(goal)).copied().collect(),
        seen,
        broken: if is_broken { shortest(form, most) } else { Vec::new() },
    }
}

fn prepare(form: &Form, most: usize) -> CheckerBuilder<CheckedForm> {
    let checked = CheckedForm { form: form.clone(), healed: AtomicU64::new(0) };
    checked
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(most)
        .target_max_depth(DEEPEST)
}

/// The shortest paths to what is broken: the depth-first search needs less memory, and finds long
/// ones.
fn shortest(form: &Form, most: usize) -> Vec<(Rule, Vec<String>)> {
    let found = prepare(form, most).spawn_bfs().join().discoveries();
    let steps = |rule: Rule| {
        let path = found.get(rule.name())?.clone();
        Some((rule, path.into_actions().iter().map(|step| format!("{step:?}")).collect()))
    };
    Rule::ALL.into_iter().filter_map(steps).collect()
}
