//! Several threads at each end, and the library's ceiling.

use super::tables::figure;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::{exact, millions, short};
use gigae_eval_model::plan::Condition;
use gigae_eval_model::results::{Results, Series};
use gigae_eval_page::table::{Table, words};

/// Bytes and messages per second by the number of threads, the ceiling first; `None` without any.
pub fn table(results: &Results) -> Option<Table> {
    let mut all: Vec<&Series> =
        results.series.iter().filter(|series| series.experiment.has_threads()).collect();
    let place = |one: &Series| results.links().iter().position(|link| *link == one.link);
    all.sort_by_key(|one| {
        let link = (one.experiment != Experiment::Ceiling, place(one));
        (
            link,
            one.transport.clone(),
            one.variant.clone(),
            one.size,
            one.wait,
            one.condition.threads,
        )
    });
    let rows: Vec<Vec<String>> = all.iter().map(|one| row(one, &all)).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Several threads at each end".into(),
        note: "MB/s and messages per second of all streams together at the receivers. Each thread has an endpoint or a \
               connection of its own. Against one: how many times as much as one thread carries. CPU: seconds per second, \
               of the sending and of the receiving end. Link 'memory' is the ceiling: both ends are threads of one process, \
               and no kernel is between them. Threads that sleep share processors if there are fewer than threads of both ends."
            .into(),
        header: words(&[
            "link", "transport", "wait", "bytes", "threads", "MB/s", "messages/s", "against one", "CPU sending", "receiving",
        ]),
        rows,
    })
}

fn row(series: &Series, all: &[&Series]) -> Vec<String> {
    let plain = Condition { threads: 0, ..series.condition };
    let one = all.iter().find(|one| is_of_curve(one, series) && one.condition.threads == 1);
    let ratio = one.filter(|one| one.median > 0.0).map(|one| series.median / one.median);
    vec![
        series.link.clone(),
        gigae_eval_model::plan::conditional(&series.transport, series.variant.as_deref(), &plain),
        series.wait.name().to_owned(),
        series.size.to_string(),
        series.condition.threads.to_string(),
        figure(series),
        millions(messages(series)),
        ratio.map_or(String::new(), exact),
        short(series.cpu_local),
        short(series.cpu_remote),
    ]
}

/// Whether two figures differ by the number of threads only.
pub(crate) fn is_of_curve(one: &Series, other: &Series) -> bool {
    let key =
        |of: &Series| (of.experiment, of.link.clone(), of.transport.clone(), of.variant.clone());
    key(one) == key(other) && (one.size, one.wait) == (other.size, other.wait)
}

/// Messages per second of a goodput.
pub(crate) fn messages(series: &Series) -> f64 {
    series.median * 1e6 / series.size as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::plan::Wait;

    #[test]
    fn threads_stand_beside_one_thread_and_the_ceiling_before_links() {
        let text = include_str!("../../model/fixtures/results-2.json");
        let mut results = Results::parse(text).unwrap();
        let of = |experiment, link: &str, threads, median| Series {
            experiment,
            link: link.to_owned(),
            transport: "gigae".into(),
            variant: None,
            condition: Condition { threads, ..Condition::default() },
            wait: Wait::Spin,
            size: 1000,
            median,
            ..results.series[0].clone()
        };
        let link = results.links()[0].to_owned();
        let series = vec![
            of(Experiment::Cores, &link, 2, 750.0),
            of(Experiment::Cores, &link, 1, 500.0),
            of(Experiment::Ceiling, "memory", 1, 5000.0),
        ];
        results.series = series;
        let table = table(&results).unwrap();
        let of_row =
            |row: &Vec<String>| (row[0].clone(), row[4].clone(), row[6].clone(), row[7].clone());
        let rows: Vec<_> = table.rows.iter().map(of_row).collect();
        let row = |link: &str, threads: &str, messages: f64, ratio: f64| {
            (link.to_owned(), threads.to_owned(), millions(messages), exact(ratio))
        };
        assert_eq!(
            rows,
            [row("memory", "1", 5e6, 1.0), row(&link, "1", 5e5, 1.0), row(&link, "2", 7.5e5, 1.5)]
        );
        assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
    }
}
