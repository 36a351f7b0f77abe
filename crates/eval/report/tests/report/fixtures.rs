//! Results of real runs: a part of one as it was saved, of each version of the schema, and all
//! cells of both.

use gigae_eval_model::results::Results;
use gigae_eval_model::testing;

/// Of version 1.
pub(crate) const FIXTURE: &str = include_str!("../../../model/fixtures/results.json");

/// Of version 2.
pub(crate) const SECOND: &str = include_str!("../../../model/fixtures/results-2.json");

/// Most of what there is to show.
pub(crate) fn results() -> Results {
    testing::first()
}

/// Conditions, papers and findings.
pub(crate) fn second() -> Results {
    testing::second()
}
