//! Many senders and one receiver.

use super::tables::figure;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::{exact, hundredths, short, tenths};
use gigae_eval_model::plan::Condition;
use gigae_eval_model::results::{Results, Series};
use gigae_eval_page::table::{Table, words};

/// Goodput, fairness, loss and the queue, by the number of senders; `None` without any.
pub fn table(results: &Results) -> Option<Table> {
    let many = results.series.iter().filter(|series| series.experiment == Experiment::Incast);
    let mut many: Vec<&Series> = many.collect();
    let place = |series: &Series| results.links().iter().position(|link| *link == series.link);
    many.sort_by_key(|one| {
        (place(one), one.transport.clone(), one.variant.clone(), one.size, one.condition.senders)
    });
    let rows: Vec<Vec<String>> = many.into_iter().map(row).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Many senders, one receiver".into(),
        note: "MB/s of all together at the receiver, and of what the link allows; both ends sleep while they wait. Evenness: Jain's index of the \
               senders' goodputs, 1 if all are the same. Lost: of what was sent, where the transport loses some; repeated: by the \
               transport, segments or frames. ECHO: round trips on the same way meanwhile, in microseconds, of \
               those that were answered; p99 from 100 of them on. ECHOs lost: not answered within 100 ms, of those that were sent."
            .into(),
        header: words(&[
            "link", "transport", "senders", "bytes", "MB/s", "share", "evenness", "lost", "repeated", "ECHO", "p99", "ECHOs lost",
        ]),
        rows,
    })
}

fn row(series: &Series) -> Vec<String> {
    let shares = series.shares.clone().unwrap_or_default();
    let trip = |value: Option<f64>| value.map_or(String::new(), short);
    let plain = Condition { senders: 0, ..series.condition };
    vec![
        series.link.clone(),
        gigae_eval_model::plan::conditional(&series.transport, series.variant.as_deref(), &plain),
        series.condition.senders.to_string(),
        series.size.to_string(),
        figure(series),
        series.limit.map_or(String::new(), |limit| tenths(series.median / limit)),
        exact(shares.fairness),
        hundredths(series.loss()),
        shares.repeated.to_string(),
        trip(shares.trip_p50),
        trip(shares.trip_p99),
        shares.lost_trips().map_or(String::new(), |(lost, sent)| format!("{lost} of {sent}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::results::Shares;

    #[test]
    fn lost_echoes_stand_beside_those_that_were_answered() {
        let text = include_str!("../../model/fixtures/results-2.json");
        let mut results = Results::parse(text).unwrap();
        let shares = Shares {
            trip_p50: Some(300.0),
            trips_sent: Some(22),
            trips_lost: Some(20),
            ..Shares::default()
        };
        results.series.truncate(1);
        let series = &mut results.series[0];
        (series.experiment, series.shares) = (Experiment::Incast, Some(shares));
        let table = table(&results).unwrap();
        let row = &table.rows[0];
        assert_eq!(row.len(), table.header.len());
        assert_eq!(row[row.len() - 3..], ["300", "", "20 of 22"]);
    }
}
