//! Results as they are read and written: schemas, versions, the plan beside them.

use crate::fixtures::{FIXTURE, SECOND, results, second};
use gigae_eval_model::plan::Plan;
use gigae_eval_model::results::Results;
use gigae_eval_report::{html, markdown};
use serde_json::Value;

const SCHEMAS: [(&str, &str); 2] = [
    (FIXTURE, include_str!("../../../model/schema/gigae.eval.1.json")),
    (SECOND, include_str!("../../../model/schema/gigae.eval.2.json")),
];

pub(crate) fn the_fixtures_fit_their_schemas() {
    let (_, present) = SCHEMAS[SCHEMAS.len() - 1];
    let all = [results(), second()].map(|results| (results.to_json(), present));
    let saved = SCHEMAS.map(|(text, schema)| (text.to_owned(), schema));
    for (text, schema) in saved.into_iter().chain(all) {
        let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        // And the schema is not a rubber stamp.
        let mut spoiled = value.clone();
        spoiled["series"][0]["wait"] = "doze".into();
        assert!(!validator.is_valid(&spoiled));
        let mut short = value;
        short["series"][0].as_object_mut().unwrap().remove("ci95");
        assert!(!validator.is_valid(&short));
    }
}

pub(crate) fn results_of_every_version_are_read_as_those_of_this_one() {
    let (_, present) = SCHEMAS[SCHEMAS.len() - 1];
    let validator = jsonschema::validator_for(&serde_json::from_str(present).unwrap()).unwrap();
    let saved = SCHEMAS.map(|(text, _)| Results::parse(text).unwrap());
    for mut results in saved.into_iter().chain([results(), second()]) {
        assert_eq!(results.schema, gigae_eval_model::results::SCHEMA);
        // As with --tui.
        results.environment.live_view = Some(0.0025);
        let again = serde_json::to_value(&results).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&again).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert!(!html::page(&results).is_empty());
        assert!(markdown::page(&results).contains("0.25 % of a CPU"));
    }
}

/// The saved results are parts of a run, and so are their plans: some entries of each list.
pub(crate) fn the_fixture_is_of_the_plan_beside_it() {
    let json = |plan: &Plan| serde_json::to_value(plan).unwrap();
    for (text, plan) in [
        (FIXTURE, include_str!("../../../model/fixtures/plan.toml")),
        (SECOND, include_str!("../../../model/fixtures/plan-2.toml")),
    ] {
        let (saved, whole) = (Results::parse(text).unwrap(), Plan::parse("fixture", plan).unwrap());
        let (saved, whole) = (json(&saved.plan), json(&whole));
        for (key, part) in saved.as_object().unwrap() {
            match (part, &whole[key]) {
                (Value::Array(part), Value::Array(whole)) => {
                    assert!(part.iter().all(|one| whole.contains(one)), "{key}");
                    assert!(!part.is_empty() || whole.is_empty(), "{key}");
                }
                (Value::Object(part), Value::Object(whole)) => {
                    assert!(part.iter().all(|(name, one)| whole[name] == *one), "{key}");
                }
                (part, whole) => assert_eq!(part, whole, "{key}"),
            }
        }
        assert_eq!(saved.as_object().unwrap().len(), whole.as_object().unwrap().len());
    }
}

pub(crate) fn results_read_back_are_what_was_written() {
    assert_eq!(Results::parse(SECOND).unwrap().to_json(), SECOND);
}

pub(crate) fn another_schema_is_refused() {
    let error = Results::parse(&FIXTURE.replace("gigae.eval/1", "gigae.eval/9")).unwrap_err();
    assert!(error.contains("gigae.eval/9"), "{error}");
    assert!(Results::parse("{}").is_err());
}

pub(crate) fn results_from_before_figures_can_still_be_read() {
    let mut old: Value = serde_json::from_str(FIXTURE).unwrap();
    for name in ["runs", "figures"] {
        old.as_object_mut().unwrap().remove(name);
    }
    for name in ["gigae", "xdp", "figure", "row"] {
        old["plan"].as_object_mut().unwrap().remove(name);
    }
    for link in old["environment"]["link"].as_array_mut().unwrap() {
        link.as_object_mut().unwrap().remove("loss");
    }
    let results = Results::parse(&old.to_string()).unwrap();
    assert!(results.figures.is_empty() && results.plan.row.is_empty());
    html::page(&results);
}
