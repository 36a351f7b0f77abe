//! The commands that measure a figure again, or one of its lines.

use gigae_eval_model::plan::{CellFilterPair, Cpus, DEFAULT, Size, shell_word};
use gigae_eval_model::results::{Results, Series};

/// What is measured again.
pub(super) type RepeatedCells = Vec<CellFilterPair>;

/// The command of the run, narrowed to a part of its plan; `None` for what `--only` cannot say.
pub(super) fn command(results: &Results, part: &[CellFilterPair]) -> Option<String> {
    let whole = &results.environment.command;
    if whole.is_empty() || part.iter().any(|one| one.value.contains(',')) {
        return None;
    }
    let pairs: Vec<String> = part.iter().map(CellFilterPair::to_string).collect();
    Some(format!("{whole} --only {}", shell_word(&pairs.join(","))))
}

/// The experiment, link and style of waiting that a series belongs to.
pub(super) fn figure(results: &Results, series: &Series) -> RepeatedCells {
    let mut part: RepeatedCells = Vec::new();
    // Between two machines the link there is has another name than the plan's.
    if results.plan.link.contains_key(&series.link) {
        part.push(CellFilterPair::new("link", &series.link));
    }
    part.push(CellFilterPair::new("experiment", series.experiment.name()));
    part.push(CellFilterPair::new("wait", series.wait.name()));
    part
}

/// The transport with its setting and what else is unusual, sizes and rates left open.
pub(super) fn curve(results: &Results, series: &Series) -> RepeatedCells {
    let mut part = vec![CellFilterPair::new("transport", transport(results, series))];
    let same = || results.plan.experiment.iter().filter(|one| one.kind == series.experiment);
    if same().any(|one| !one.cpus.is_empty()) {
        let word = if series.condition.cpus == Cpus::One { "one" } else { "two" };
        part.push(CellFilterPair::new("cpus", word));
    }
    if same().any(|one| !one.bulk.is_empty()) {
        part.push(CellFilterPair::new("bulk", series.condition.bulk.to_string()));
    }
    part
}

/// A transport and its setting.
pub(super) fn transport(results: &Results, series: &Series) -> String {
    let name = &series.transport;
    match &series.variant {
        Some(variant) => format!("{name}/{variant}"),
        None => match results.plan.has_settings(name) {
            // Its defaults, beside the plan's settings.
            true => format!("{name}/{}", DEFAULT),
            false => name.clone(),
        },
    }
}

/// A size, where the plan names it by its number.
pub(super) fn size(results: &Results, bytes: usize) -> Option<CellFilterPair> {
    let named = results.plan.experiment.iter().any(|one| one.sizes.contains(&Size::Bytes(bytes)));
    named.then(|| CellFilterPair::new("size", bytes.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::plan::{Cell, CellFilter};
    use gigae_eval_model::testing;
    use std::collections::BTreeSet;

    /// What was measured of a curve must be what its command measures, at least.
    #[test]
    fn the_command_of_a_curve_measures_all_its_points_and_no_other_curve() {
        for results in [testing::first(), testing::second()] {
            let linked = |one: &&Series| results.plan.link.contains_key(&one.link);
            for one in results.series.iter().filter(linked) {
                let all: RepeatedCells =
                    [figure(&results, one), curve(&results, one)].into_iter().flatten().collect();
                let said = command(&results, &all).unwrap();
                let (_, only) = said.split_once(" --only ").unwrap();
                let only: CellFilter = only.trim_matches('\'').parse().unwrap();
                let part = results.plan.only(&only).unwrap();
                let mtu = part.link[&one.link].mtu as usize;
                let label = |rate: Option<f64>, label: &str| match rate {
                    Some(rate) => label.replace(&format!(" {rate}/s"), ""),
                    None => label.to_owned(),
                };
                let cells: Vec<Cell> = part.cells(Some(&one.link), mtu);
                let again: BTreeSet<_> =
                    cells.iter().map(|cell| label(cell.condition.rate, &cell.label())).collect();
                let own = label(one.condition.rate, &one.label());
                assert_eq!(again, BTreeSet::from([own]), "{said}");
                assert!(cells.iter().any(|cell| cell.size == one.size), "{said}: {}", one.size);
            }
        }
    }

    #[test]
    fn between_machines_no_link_is_named_and_a_comma_cannot_be_said() {
        let mut results = testing::first();
        let mut one = results.series[0].clone();
        one.link = "network".into();
        assert!(figure(&results, &one).iter().all(|one| one.key != "link"));
        assert_eq!(command(&results, &[CellFilterPair::new("transport", "tcp/a,b")]), None);
        results.environment.command.clear();
        assert_eq!(command(&results, &[CellFilterPair::new("transport", "tcp")]), None);
    }
}
