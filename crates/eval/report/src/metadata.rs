//! What file servers gave to operations on names, by link.

use crate::asked;
use crate::files::trip_beside;
use gigae_eval_model::metadata::{MetadataFigure, OperationRate};
use gigae_eval_model::number::{many, short};
use gigae_eval_model::results::Results;
use gigae_eval_page::table::{Table, words};

/// The table, if there are any.
pub(crate) fn table(results: &Results) -> Option<Table> {
    let ground = results.metadata.first()?.ground.name();
    let rows = results
        .metadata
        .iter()
        .flat_map(|one| one.operations.iter().map(move |rate| row(results, one, rate)));
    Some(Table {
        title: format!("Operations on names (ground: {ground})"),
        note: "One operation after the other on empty files of one directory, by libnfs, which keeps no answers. \
               create makes a file and closes it; list reads the names of the whole directory. \
               Medians over the n repetitions. Times are from the call to its end, in us; a dash: too few operations for that share. \
               The server answers before a new name is on its disk. RTT: TCP's round trip on the link, in us. \
               Delay: what a frame takes longer one way, in us. \
               Verified: names that a second client saw come, change and go."
            .into(),
        header: words(&[
            "names", "operation", "link", "delay us", "per s", "p50 us", "p99 us", "interval", "n", "RTT us", "verified",
        ]),
        rows: rows.collect(),
    })
}

fn row(results: &Results, one: &MetadataFigure, rate: &OperationRate) -> Vec<String> {
    let [low, high] = rate.ci95.map(many);
    let repeated = rate.repetitions.len() > 1;
    vec![
        one.cell.title(),
        rate.operation.name().to_owned(),
        one.link.clone(),
        asked::delay_of(results, &one.link).map_or("-".into(), |micros| micros.to_string()),
        many(rate.median),
        short(rate.p50_us),
        rate.p99().map_or("-".into(), short),
        if repeated { format!("{low} to {high}") } else { "-".into() },
        rate.repetitions.len().to_string(),
        trip_beside(results, &one.link).map_or("-".into(), |trip| short(trip.median)),
        one.verified.to_string(),
    ]
}
