//! Results of a real run, of each version of the schema.

use gigae_eval_model::results::Results;

/// Of version 1, with most of what there is to show.
pub(crate) const FIXTURE: &str = include_str!("../../../model/fixtures/results.json");

/// Of version 2: conditions, papers and findings.
pub(crate) const SECOND: &str = include_str!("../../../model/fixtures/results-2.json");

pub(crate) fn results() -> Results {
    Results::parse(FIXTURE).unwrap()
}

pub(crate) fn second() -> Results {
    Results::parse(SECOND).unwrap()
}
