//! Results against the schema that is kept by hand.

use super::testing::synthetic;
use super::{ClusterResults, PairFailure, Skipped, UnusedRank};
use serde_json::{Map, Value};

const SCHEMA: &str = include_str!("../../schema/gigae.cluster.1.json");

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap()
}

/// Results that have something in every list, and something that could not be measured.
fn full() -> ClusterResults {
    let mut results = synthetic(5);
    let name = || "tcp".to_owned();
    let host = || "h5".to_owned();
    results.unused = vec![UnusedRank { rank: 7, host: host() }];
    results.skipped = vec![Skipped { transport: name(), host: host(), reason: "no driver".into() }];
    results.failures = vec![PairFailure {
        what: "rtt".into(),
        transport: name(),
        from: host(),
        to: "h1".into(),
        reason: "lost".into(),
    }];
    results.failed = 1;
    let first = &mut results.transports[0];
    (first.trip_p50[0], first.incast[2], first.note) = (None, None, Some("AF_PACKET".into()));
    results
}

fn value(results: &ClusterResults) -> Value {
    serde_json::from_str(&results.to_json()).unwrap()
}

/// Calls this with every object of a value, and gives it back.
fn for_each_object(value: &Value, place: &str, act: &mut dyn FnMut(&str, &Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            act(place, fields);
            for (name, field) in fields {
                for_each_object(field, &format!("{place}/{name}"), act);
            }
        }
        // The first one is as the others.
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate().take(1) {
                for_each_object(item, &format!("{place}/{number}"), act);
            }
        }
        _ => {}
    }
}

#[test]
fn results_fit_their_schema() {
    let validator = validator();
    for results in [synthetic(2), synthetic(9), full()] {
        let errors: Vec<String> =
            validator.iter_errors(&value(&results)).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
}

#[test]
fn the_schema_knows_every_field_and_no_other() {
    let (validator, whole) = (validator(), value(&full()));
    let mut objects = Vec::new();
    for_each_object(&whole, "", &mut |place, fields| {
        objects.push((place.to_owned(), fields.keys().cloned().collect::<Vec<_>>()));
    });
    assert_eq!(objects.len(), 10, "{objects:?}");
    for (place, names) in objects {
        for name in names {
            let mut short = whole.clone();
            let of = short.pointer_mut(&place).and_then(Value::as_object_mut).unwrap();
            of.remove(&name);
            assert!(!validator.is_valid(&short), "without {place}/{name}");
            let mut spoiled = whole.clone();
            spoiled.pointer_mut(&place).unwrap()[&name] = Value::from(true);
            let is_a_switch = name == "back";
            assert_eq!(validator.is_valid(&spoiled), is_a_switch, "{place}/{name} is no true");
        }
        let mut more = whole.clone();
        more.pointer_mut(&place).unwrap()["more"] = Value::from(1);
        assert!(!validator.is_valid(&more), "a field more in {place}");
    }
}

#[test]
fn figures_out_of_range_do_not_fit() {
    let (validator, whole) = (validator(), value(&full()));
    for (place, wrong) in [
        ("/schema", Value::from("gigae.cluster/2")),
        ("/hosts", Value::from(vec![whole["hosts"][0].clone()])),
        ("/hosts/0/mac", Value::from("02:00")),
        ("/transports/0/name", Value::from("carrier pigeon")),
        ("/transports/0/forward/0", Value::from(-1.0)),
        ("/transports/0/incast/0/fairness", Value::from(1.5)),
        ("/launcher", Value::from("hand")),
    ] {
        let mut spoiled = whole.clone();
        *spoiled.pointer_mut(place).unwrap() = wrong;
        assert!(!validator.is_valid(&spoiled), "{place}");
    }
}
