//! What differs in the conditions: machine, kernel, NIC, settings, program and plan.

use super::side::Side;
use gigae_eval_model::results::Results;
use gigae_eval_page::table::plain;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A condition that is not the same on all sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConditionDifference {
    /// What.
    pub what: String,
    /// On each side, in their order.
    pub values: Vec<String>,
}

/// What is measured, happens once or is elsewhere already, and so is not a condition.
const NO_CONDITION: [&str; 21] = [
    "about",
    "command",
    "date",
    "duration",
    "figure",
    "idle_local",
    "idle_remote",
    "interface",
    "irqs",
    "link_up",
    "live_view",
    "name",
    "overhead",
    "paper",
    "repeats",
    "row",
    "said",
    "seed",
    "source",
    "takes",
    "timer",
];

/// What the measuring end of the first link says again.
const TWICE: [&str; 8] =
    ["kernel", "cpu", "nic", "driver", "offloads", "mtu", "coalescing", "link"];

/// What an end says beside its inventory.
const BESIDE: [&str; 4] = ["coalescing", "driver", "mtu", "offloads"];

/// All conditions of a run by their place, each place a path of names.
type Facts = BTreeMap<Vec<String>, String>;

/// The conditions in which the sides' first runs differ, what is the same at several places put
/// together.
pub(super) fn differences(sides: &[Side]) -> Vec<ConditionDifference> {
    let facts: Vec<Facts> = sides.iter().map(|side| facts(side.first())).collect();
    let mut places: Vec<&Vec<String>> = facts.iter().flat_map(BTreeMap::keys).collect();
    places.sort();
    places.dedup();
    // By the last part of the path and the values, at which places.
    let mut found: Vec<(String, Vec<String>, Vec<String>)> = Vec::new();
    for place in places {
        // A link or a setting that not all have is in no cell that all have.
        let values = facts.iter().map(|facts| facts.get(place).cloned());
        let Some(values) = values.collect::<Option<Vec<String>>>() else { continue };
        if values.iter().all(|value| *value == values[0]) {
            continue;
        }
        let (at, name) = (place[0].clone(), place[1..].join(" "));
        match found.iter_mut().find(|(known, same, _)| *known == name && *same == values) {
            Some((_, _, places)) => places.push(at),
            None => found.push((name, values, vec![at])),
        }
    }
    let said = |(name, values, places): (String, Vec<String>, Vec<String>)| {
        let everywhere = places.iter().any(String::is_empty);
        let what = if everywhere { name } else { format!("{name} ({})", places.join("; ")) };
        ConditionDifference { what, values }
    };
    found.into_iter().map(said).collect()
}

/// Whether the runs of a side were all made under the same conditions.
pub(super) fn same_within(side: &Side) -> bool {
    let first = facts(side.first());
    side.runs[1..].iter().all(|run| facts(run) == first)
}

/// The first part of each path is where it holds, empty for the whole run.
fn facts(results: &Results) -> Facts {
    let mut facts = Facts::new();
    let mut environment = json(&results.environment);
    let links = environment["link"].take();
    drop_fields(&mut environment, &TWICE);
    flatten(&environment, &mut vec![String::new()], &mut facts);
    let links = links.as_array().cloned().unwrap_or_default();
    // The name of the only link says nothing.
    let alone = links.len() == 1;
    for mut link in links {
        let name = link["name"].as_str().unwrap_or_default().to_owned();
        let (local, remote) = (link["local"].take(), link["remote"].take());
        let link_name = if alone { String::new() } else { format!("link {name}") };
        flatten(&link, &mut vec![link_name.clone(), "link".into()], &mut facts);
        for (end, mut said) in [("measuring end", local), ("answering end", remote)] {
            drop_fields(&mut said["nic"], &BESIDE);
            let place = format!("{link_name} {end}").trim_start().to_owned();
            flatten(&said, &mut vec![place], &mut facts);
        }
    }
    facts.insert(vec![String::new(), "plan".into()], results.plan.name.clone());
    let mut plan = json(&results.plan);
    // The links stand above as they were, what was measured in the cells.
    drop_fields(&mut plan, &["link", "experiment"]);
    flatten(&plan, &mut vec![String::new(), "plan".into()], &mut facts);
    facts.insert(vec![String::new(), "time of a repetition".into()], times(results));
    facts
}

/// How long repetitions measure, after which warm-up, by experiment.
fn times(results: &Results) -> String {
    let say = |one: &gigae_eval_model::plan::ExperimentPlan| {
        format!("{} {} s after {} s", one.kind.name(), one.seconds, one.warmup)
    };
    let mut times: Vec<String> = results.plan.experiment.iter().map(say).collect();
    times.sort();
    times.dedup();
    times.join(", ")
}

fn json(data: &impl Serialize) -> Value {
    serde_json::to_value(data).unwrap_or(Value::Null)
}

fn drop_fields(value: &mut Value, names: &[&str]) {
    if let Value::Object(fields) = value {
        fields.retain(|name, _| !names.contains(&name.as_str()));
    }
}

fn flatten(value: &Value, path: &mut Vec<String>, facts: &mut Facts) {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| !NO_CONDITION.contains(&name.as_str()));
            for (name, value) in fields {
                path.push(name.replace('_', " "));
                flatten(value, path, facts);
                path.pop();
            }
        }
        // A list is one value.
        value => {
            let text = if value.is_null() { "none".into() } else { plain(value) };
            facts.insert(path.clone(), text);
        }
    }
}
