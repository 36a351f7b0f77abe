//! What several rules need: the cells that stand for a transport, and words for them.

use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::grouped;
use gigae_eval_model::plan::{Condition, Wait};
use gigae_eval_model::results::{Results, Series};
use gigae_eval_model::transport;
use gigae_eval_page::table::reference_tcp;

/// The cells of an experiment on a link that stand for their transport: at its defaults, TCP with
/// the papers' settings.
pub(super) fn plain<'a>(
    results: &'a Results,
    experiment: Experiment,
    link: &'a str,
    wait: Wait,
) -> Vec<&'a Series> {
    let tcp = reference_tcp(results);
    let stands = |series: &&Series| {
        let expected = tcp.as_deref().filter(|_| series.transport == "tcp");
        series.variant.as_deref() == expected && series.condition == Condition::default()
    };
    results.of(experiment, link, wait).filter(stands).filter(|series| series.median > 0.0).collect()
}

/// One transport's cells of these, by ascending size.
pub(super) fn by_size<'a>(series: &[&'a Series], transport: &str) -> Vec<&'a Series> {
    let mut found: Vec<&Series> =
        series.iter().copied().filter(|one| one.transport == transport).collect();
    found.sort_by_key(|one| one.size);
    found
}

/// Whether two figures differ: their intervals do not overlap.
pub(super) fn differ(one: &Series, other: &Series) -> bool {
    one.ci95[0] > other.ci95[1] || other.ci95[0] > one.ci95[1]
}

/// A sentence made of these figures. It gets a mark if one of them has a doubt that not all figures
/// share, as in the tables.
pub(super) fn mark_doubtful(sentence: String, of: &[&Series]) -> String {
    let doubtful = of.iter().any(|series| series.doubt_codes().next().is_some());
    if doubtful { sentence + " !" } else { sentence }
}

/// A transport as it begins a sentence or is within one.
pub(super) fn name(transport: &str) -> &str {
    transport::by_name(transport).map_or(transport, |spec| spec.title)
}

/// The same with what belongs to it.
pub(super) fn of_name(transport: &str) -> String {
    format!("{}'s", name(transport))
}

/// A whole number with commas: `65,536`.
pub(super) fn bytes(size: usize) -> String {
    format!("{} B", grouped(size as u64, ","))
}
