//! Reports: text for a terminal, an HTML page and a Markdown page, from the results alone.

mod heat;
mod tables;

use crate::findings::{findings, slow_pairs};
use crate::results::ClusterResults;
use crate::rounds::{MOST_SENDERS, shifts};
use gigae_eval_model::duration;
use gigae_eval_model::number::trimmed;
use gigae_eval_page::html as parts;
use gigae_eval_page::markdown::{self, escape};
use gigae_eval_page::table::Table;
use gigae_eval_page::text::{hanging, heading, plain_table};
use maud::html;
use std::fmt::Write;

const TITLE: &str = "What a cluster's network gives";

/// Hosts that a text lists: those with the most slow pairs.
const MOST_ROWS: usize = 16;

/// How the figures come about.
const METHOD: &[&str] = &[
    "Each host measures with one other host at a time, in rounds in which no host has two partners; all pairs of a round measure at once. So a switch without its own bottleneck has no port that two pairs share. In each pair: round trips of short messages, one at a time, and then a stream of long messages one way and the other way, with gigae and with TCP.",
    "Bisection: each host of the first half (by rank) sends to one of the second half, all at once; then the other way. That is repeated with other partners. If a pair fails, all are measured once more; if one fails again, that pairing is left out. The figure is the sum of all goodputs. The hosts begin at the same command and have no common clock, so some are a little ahead of others.",
    "Incast: all other hosts send to one host at once. With many hosts, some of them do, evenly spread. The figure is the goodput of all together at the receiver, the median of two times. TCP's repeated segments are those of the sending hosts.",
    "Goodput is counted at the receiver, after a warm-up. A pair is called slow if it is worse than a good pair, which is one at the 10 % quantile, by a factor of more than 1.5, and a round trip by more than 2 us.",
];

fn milliseconds(seconds: f64) -> String {
    format!("{} ms", trimmed(seconds * 1e3))
}

/// A line about what was measured.
fn about(results: &ClusterResults) -> String {
    let mut text = format!(
        "{} hosts; {} ranks by {}; measurements of {} after a warm-up of {}; {} B round trips, {} B streams, {} B incast; took {}",
        results.hosts.len(),
        results.ranks,
        results.launcher,
        milliseconds(results.seconds),
        milliseconds(results.warmup),
        results.sizes.trip,
        results.sizes.stream,
        results.sizes.incast,
        duration::say(results.duration),
    );
    if !results.unused.is_empty() {
        let _ =
            write!(text, "; {} further ranks on these hosts did not measure", results.unused.len());
    }
    text
}

fn skipped(results: &ClusterResults) -> Vec<String> {
    let one = |one: &crate::results::Skipped| {
        format!("{} was left out: on {}, {}", one.transport, one.host, one.reason)
    };
    let mut all: Vec<String> = results.skipped.iter().map(one).collect();
    let planned = shifts(results.hosts.len()) * 2;
    for one in results.transports.iter().filter(|one| one.bisection.len() < planned) {
        all.push(format!(
            "{} of {planned} measurements of the bisection by {} were left out, because not all of their pairs could be measured",
            planned - one.bisection.len(),
            tables::title(one),
        ));
    }
    if results.hosts.len() > MOST_SENDERS + 1 {
        all.push(format!(
            "{MOST_SENDERS} hosts, evenly spread, sent to each receiver of the incast"
        ));
    }
    all
}

/// The hosts of a table, those with the most slow pairs first, and whether there are more.
fn shortened(table: &Table, results: &ClusterResults) -> (Table, bool) {
    if table.rows.len() <= MOST_ROWS {
        return (table.clone(), false);
    }
    let slow = slow_pairs(results);
    let mut order: Vec<usize> = (0..table.rows.len()).collect();
    order.sort_by_key(|&host| std::cmp::Reverse(slow[host]));
    order.truncate(MOST_ROWS);
    let rows = order.iter().map(|&host| table.rows[host].clone()).collect();
    let note =
        format!("{} The {MOST_ROWS} of {} with the most slow pairs.", table.note, table.rows.len());
    (Table { rows, note, ..table.clone() }, true)
}

/// For a terminal: at most 100 columns.
pub fn text(results: &ClusterResults, bold: bool) -> String {
    let mut text = heading(TITLE, bold);
    hanging(&about(results), &mut text);
    text.push('\n');
    text += &heading("Found", bold);
    findings(results).iter().for_each(|one| hanging(one, &mut text));
    skipped(results).iter().for_each(|one| hanging(one, &mut text));
    text.push('\n');
    for table in [tables::quantiles(results), tables::bisection(results)] {
        text += &plain_table(&table, bold);
        text.push('\n');
    }
    for table in tables::hosts(results) {
        text += &plain_table(&shortened(&table, results).0, bold);
        text.push('\n');
    }
    text
}

/// `report.html`.
pub fn html(results: &ClusterResults) -> String {
    let hosts = tables::hosts(results);
    let content = html! {
        h1 { (TITLE) }
        p.lead { (about(results)) }
        p.soft { (results.date) " · gigae " (results.gigae) " (" (results.git) ")" }
        h2 { "Found" }
        ul.findings {
            @for one in &findings(results) { li { p { (one) } } }
            @for one in &skipped(results) { li { p { (one) } } }
        }
        h2 { "All pairs" }
        (heat::maps(results))
        (parts::section(&tables::quantiles(results)))
        (parts::section(&tables::bisection(results)))
        @for table in &hosts {
            @let (short, is_shorter) = shortened(table, results);
            (parts::section(&short))
            @if is_shorter { (parts::folded(&Table { title: format!("{}, all hosts", table.title), ..table.clone() })) }
        }
        h2 { "Hosts" }
        (parts::folded(&tables::inventory(results)))
        @if !results.failures.is_empty() {
            h2 { "Failures" }
            (parts::folded(&tables::failures(results)))
        }
        (parts::method(METHOD))
        p { "To repeat it, start this " (results.ranks) " times with mpirun, mpiexec or srun:" }
        pre { code { (results.command) } }
    };
    parts::document_with("cluster", &content, heat::SCRIPT)
}

/// `report.md`.
pub fn markdown(results: &ClusterResults) -> String {
    let mut page = format!("# {TITLE}\n\n{}\n\n## Found\n\n", escape(&about(results)));
    for one in findings(results).iter().chain(&skipped(results)) {
        let _ = writeln!(page, "- {}", escape(one));
    }
    page.push('\n');
    markdown::table(&tables::quantiles(results), &mut page);
    markdown::table(&tables::bisection(results), &mut page);
    for table in tables::hosts(results) {
        markdown::table(&shortened(&table, results).0, &mut page);
    }
    markdown::method(METHOD, &mut page);
    let _ = writeln!(
        page,
        "To repeat it, start this {} times with mpirun, mpiexec or srun:\n\n{}",
        results.ranks,
        markdown::code([results.command.as_str()])
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::testing::synthetic;

    #[test]
    fn a_text_fits_a_terminal_and_names_few_of_many_hosts() {
        for hosts in [2, 3, 8, 100] {
            let text = text(&synthetic(hosts), false);
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
            assert!(text.contains("Found") && text.contains("bisection"), "{text}");
            assert!(text.lines().count() < 120, "{text}");
        }
    }

    #[test]
    fn a_page_has_its_two_scripts_and_names_are_text() {
        let mut results = synthetic(4);
        results.hosts[0].name = "</style><script>alert(1)</script>\"'".into();
        results.transports[1].note = Some("<i>".into());
        let page = html(&results);
        assert_eq!(page.matches("<script").count(), 2, "the page's own and that of the maps");
        assert_eq!(page.matches("</style>").count(), 1);
        assert!(!page.contains("<i>"));
        assert_eq!(page.matches("'sha256-").count(), 2);
        let text = markdown(&results);
        assert!(!text.contains("<script"), "{text}");
    }

    #[test]
    fn a_run_with_one_transport_and_gaps_has_a_report() {
        let mut results = synthetic(3);
        results.transports.truncate(1);
        let one = &mut results.transports[0];
        (one.trip_p50[0], one.forward[1], one.incast[2]) = (None, None, None);
        one.bisection.clear();
        for page in [html(&results), markdown(&results), text(&results, false)] {
            assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
            let said = page.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains("2 of 2 measurements of the bisection by gigae"), "{page}");
        }
    }
}
