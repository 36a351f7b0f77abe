//! `report.html`: one self-contained file with nothing from a network. Everything is there without
//! scripts; one of its own adds hovering, keys, hiding lines and copying commands.

use super::figure::Figure;
use super::svg::{Chart, Line, Point, SIZES, escape};
use super::table::Table;
use super::tables::{self};
use super::{asked, found, incast, machine, printed, programs, repeat, sweeps, tips, tuning};
use crate::ratios as compare;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::plan::Wait;
use gigae_eval_model::results::{Results, Series};
use sha2::{Digest, Sha256};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Colours and markers by transport, so that a transport looks the same in every figure; those that
/// are not named here and variants share the last ones.
const LOOKS: [&str; 4] = ["gigae", "xdp", "packet", "tcp"];

/// The page.
pub fn page(results: &Results) -> String {
    let mut page = begin(&results.plan.name);
    head(results, &mut page);
    findings(results, &mut page);
    settings_tried(results, &mut page);
    asked_for(results, &mut page);
    ratios(results, &mut page);
    let first = [
        found::paper_table(results),
        compare::row_table(results, true),
        compare::memory_table(results),
        machine::ladders(results),
        found::fit_table(results),
    ];
    first.iter().flatten().for_each(|content| section(content, &mut page));
    let beside = [programs::table(results), programs::meanings(results), incast::table(results)];
    beside.iter().flatten().for_each(|content| section(content, &mut page));
    swept(results, &mut page);
    for link in results.links() {
        link_figures(results, link, &mut page);
    }
    let further = [
        tables::limit_table(results),
        compare::loss_table(results),
        compare::cpu_table(results),
        compare::idle_table(results),
        tables::beside_table(results),
        tables::call_table(results),
    ];
    further.iter().flatten().for_each(|content| section(content, &mut page));
    section(&tables::cost_table(results), &mut page);
    doubts(results, &mut page);
    environment(results, &mut page);
    for inventory in machine::inventory(results) {
        let _ = write!(page, "<details><summary>{}</summary>", escape(&inventory.title));
        table(&inventory, "left wrap", &mut page);
        page.push_str("</details>");
    }
    method(results, &mut page);
    page.push_str(END);
    page
}

/// What every page begins with.
pub fn begin(title: &str) -> String {
    let mut page =
        String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    // An icon of its own keeps browsers from asking the server of the page for one.
    page.push_str("<link rel=\"icon\" href=\"data:,\">");
    // The browser itself keeps the page from fetching anything and from running what is not its script.
    let _ = write!(
        page,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">",
        base64(&Sha256::digest(SCRIPT))
    );
    let _ = write!(
        page,
        "<title>gigae: {}</title><style>{STYLE}</style></head><body><a class=\"skip\" href=\"#main\">Skip to the report</a><main id=\"main\" tabindex=\"-1\">",
        escape(title)
    );
    page
}

/// What every page ends with.
pub const END: &str =
    concat!("</main><script>", include_str!("script.js"), "</script></body></html>\n");

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = (0..3).fold(0, |word, at| word << 8 | u32::from(*three.get(at).unwrap_or(&0)));
        for digit in 0..4 {
            let six = (word >> (18 - 6 * digit)) as usize % 64;
            text.push(if digit > three.len() { '=' } else { char::from(DIGITS[six]) });
        }
    }
    text
}

fn head(results: &Results, page: &mut String) {
    let environment = &results.environment;
    let _ = write!(
        page,
        "<h1>What this network gives</h1><p class=\"lead\">{}</p><p class=\"soft\">{} · {} · Linux {} · {} ({}), MTU {} · gigae {} ({}) · {:.0} s</p>",
        escape(&results.plan.about),
        escape(&environment.date),
        escape(&environment.cpu),
        escape(&environment.kernel),
        escape(&environment.nic),
        escape(&environment.driver),
        environment.mtu,
        escape(&environment.gigae),
        escape(&environment.git),
        environment.duration
    );
}

/// What follows, and what papers said.
fn findings(results: &Results, page: &mut String) {
    let findings = found::findings(results);
    if findings.is_empty() {
        return;
    }
    let (title, note) = (found::TITLE, found::NOTE);
    let _ = write!(page, "<h2>{title}</h2><p class=\"soft\">{note}</p><ul class=\"findings\">");
    for finding in findings {
        page.push_str("<li>");
        for sentence in finding.here {
            let _ = write!(page, "<p>{}</p>", escape(&sentence));
        }
        for sentence in finding.there {
            let _ = write!(page, "<p class=\"soft\">{}</p>", escape(&sentence));
        }
        page.push_str("</li>");
    }
    page.push_str("</ul>");
}

/// What is swept over something else than the message size: figures, and the same as numbers.
fn swept(results: &Results, page: &mut String) {
    let figures: Vec<Figure> =
        sweeps::load_figures(results).into_iter().chain(sweeps::buffer_figures(results)).collect();
    if !figures.is_empty() {
        page.push_str("<h2>Sweeps</h2><div class=\"figures\">");
        figures.iter().for_each(|figure| figure.write(page));
        page.push_str("</div>");
    }
    sweeps::load_table(results).iter().for_each(|content| section(content, page));
}

/// The commands for the recommended setting, every setting that was tried as a figure and as numbers, and what
/// the ends have.
fn settings_tried(results: &Results, page: &mut String) {
    for (title, lines) in tuning::commands(results) {
        let _ =
            write!(page, "<h3>{}</h3><pre><code>{}</code></pre>", escape(&title), escape(&lines));
    }
    let charts = tuning::charts(results);
    if !charts.is_empty() {
        page.push_str("<h2>Settings tried</h2><div class=\"figures\">");
        for (title, svg) in charts {
            let title = escape(&title);
            let _ = write!(page, "<figure><figcaption>{title}</figcaption>{svg}</figure>");
        }
        page.push_str("</div>");
    }
    for content in tuning::trial_tables(results) {
        section(&content, page);
    }
    for content in tuning::knob_tables(results) {
        let title = escape(&content.title);
        let _ = write!(page, "<details><summary>{title}</summary>");
        table(&content, "left wrap", page);
        page.push_str("</details>");
    }
}

/// The plan's figures and the conditions under which they hold.
fn asked_for(results: &Results, page: &mut String) {
    let Some(figures) = asked::table(results, true) else { return };
    section(&figures, page);
    page.push_str("<details><summary>Conditions</summary>");
    names_and_values(asked::conditions(results), page);
    page.push_str("</details>");
}

fn ratios(results: &Results, page: &mut String) {
    let ratios = tables::ratios(results);
    if ratios.is_empty() {
        return;
    }
    page.push_str("<h2>Ratios</h2><p class=\"soft\">Of figures of this one run; beside them those of GigaE PM II (1999), which asked the same question.</p>");
    for link in results.links() {
        let here: Vec<_> = ratios.iter().filter(|ratio| ratio.link == link).collect();
        if here.is_empty() {
            continue;
        }
        let _ = write!(page, "<h3>Link {}</h3><div class=\"cards\">", escape(link));
        for ratio in here {
            let _ = write!(
                page,
                "<div class=\"card\"><span>{}</span><b>{}</b><span class=\"soft\">{}; 1999: {} ({})</span></div>",
                escape(&ratio.what),
                escape(&ratio.say(ratio.ours)),
                escape(&ratio.at),
                escape(&ratio.say(ratio.paper)),
                escape(ratio.source)
            );
        }
        page.push_str("</div>");
    }
    table(&tables::ratio_table(results), "left", page);
}

fn link_figures(results: &Results, link: &str, page: &mut String) {
    let rate = results
        .environment
        .link
        .iter()
        .find(|entry| entry.name == link)
        .and_then(|entry| entry.rate);
    let said = rate.map_or("as fast as it goes".into(), |rate| format!("{} Mbit/s", rate / 1e6));
    let (mut figures, mut rest) = (Vec::new(), Vec::new());
    // Bandwidth first.
    for &experiment in Experiment::ALL.iter().rev().filter(|one| one.form().sizes.is_some()) {
        for wait in [Wait::Spin, Wait::Sleep, Wait::Adaptive] {
            let series: Vec<&Series> = results.of(experiment, link, wait).collect();
            if series.is_empty() {
                continue;
            }
            let numbers = tables::figure_table(&series, link, experiment, wait);
            match has_curve(&series) {
                true => figures.push(figure(results, &series, rate, numbers)),
                false => rest.push(numbers),
            }
        }
    }
    if figures.is_empty() && rest.is_empty() {
        return;
    }
    let _ = write!(page, "<h2>Link {}, {said}</h2><div class=\"figures\">", escape(link));
    figures.iter().for_each(|figure| figure.write(page));
    page.push_str("</div>");
    for numbers in rest {
        let (title, note) = (escape(&numbers.title), escape(&numbers.note));
        let _ = write!(page, "<h3>{title}</h3><p class=\"soft\">{note}</p>");
        table(&numbers, "", page);
    }
}

/// More lines than this cannot be told apart.
pub(super) const MOST_LINES: usize = 12;

/// Single points, and too many lines, are better read as numbers.
fn has_curve(series: &[&Series]) -> bool {
    let labels = crate::table::labels(series.iter().copied());
    labels.len() <= MOST_LINES
        && labels.iter().any(|label| series.iter().filter(|one| one.label() == *label).count() > 1)
}

fn figure(results: &Results, series: &[&Series], rate: Option<f64>, numbers: Table) -> Figure {
    let (experiment, wait) = (series[0].experiment, series[0].wait.name());
    let (title, unit) = match experiment {
        Experiment::Rtt => (format!("Round trip over message size, {wait}"), "microseconds"),
        _ => (format!("Bandwidth over message size, {wait}"), "MB/s at the receiver"),
    };
    let level = rate
        .filter(|_| experiment == Experiment::Stream)
        .map(|rate| (rate / 8e6, format!("link rate {} MB/s", crate::table::short(rate / 8e6))));
    let labels = crate::table::labels(series.iter().copied());
    let line = |name: &String| {
        let mut points: Vec<Point> =
            series.iter().filter(|one| one.label() == *name).map(|one| point(one)).collect();
        points.sort_by(|a, b| a.size.total_cmp(&b.size));
        Line { style: look(results, name), name: name.clone(), points }
    };
    let lines: Vec<Line> = labels.iter().map(line).collect();
    // The papers' axis ends at the link's rate; without one, rates span three decades.
    let log = experiment == Experiment::Rtt || rate.is_none();
    let chart = Chart { title, unit: unit.into(), log, across: SIZES, level, mark: None, lines };
    Figure {
        chart,
        printed: printed::beside(results, series, |label| look(results, label)),
        numbers: Some(numbers),
        repeat: commands(results, series, &labels),
    }
}

/// The command for all lines of a figure, and for each.
fn commands(results: &Results, series: &[&Series], labels: &[String]) -> Vec<(String, String)> {
    let all = repeat::figure(results, series[0]);
    let of = |label: &String| {
        let one = series.iter().find(|one| one.label() == *label)?;
        let part: repeat::Part = all.iter().cloned().chain(repeat::curve(results, one)).collect();
        Some((label.clone(), repeat::command(results, &part)?))
    };
    let whole = repeat::command(results, &all).map(|command| ("all lines".to_owned(), command));
    whole.into_iter().chain(labels.iter().filter_map(of)).collect()
}

fn point(series: &Series) -> Point {
    Point {
        size: series.size as f64,
        value: series.median,
        low: series.ci95[0],
        high: series.ci95[1],
        tip: tips::of(series),
    }
}

/// Number of a transport's colour and marker.
pub(super) fn look(results: &Results, label: &str) -> usize {
    let all = crate::table::labels(results.series.iter());
    let reference = crate::table::reference_tcp(results).map(|variant| format!("tcp {variant}"));
    let second = all.iter().find(|one| one.starts_with("tcp ") && Some(*one) != reference.as_ref());
    let named = |label: &str| match label.split_once(' ') {
        None => LOOKS.iter().position(|look| *look == label),
        Some(_) if reference.as_deref() == Some(label) => Some(3),
        Some(_) if second.is_some_and(|one| one == label) => Some(4),
        Some(_) => None,
    };
    match named(label) {
        Some(style) => style,
        None => {
            let others = all.iter().filter(|other| named(other).is_none());
            5 + others.take_while(|other| *other != label).count() % 3
        }
    }
}

/// A section with its heading.
pub fn section(content: &Table, page: &mut String) {
    if content.rows.is_empty() {
        return;
    }
    let _ = write!(
        page,
        "<h2>{}</h2><p class=\"soft\">{}</p>",
        escape(&content.title),
        escape(&content.note)
    );
    let sentences = [asked::FROM, compare::MEANS];
    let wrap = content.header.last().is_some_and(|last| sentences.contains(&last.as_str()));
    table(content, if wrap { "wrap" } else { "" }, page);
}

/// A table.
pub fn table(content: &Table, class: &str, page: &mut String) {
    let title = escape(&content.title);
    let _ = write!(
        page,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{title}\"><table class=\"{class}\"><caption class=\"unseen\">{title}</caption><thead><tr>"
    );
    // Words are flush left, figures right.
    let words = |column: usize| {
        let mut cells = content.rows.iter().map(|row| &row[column]);
        cells.any(|cell| cell.chars().next().is_some_and(char::is_alphabetic))
    };
    let side: Vec<&str> = (0..content.header.len())
        .map(|column| if words(column) { " class=\"t\"" } else { "" })
        .collect();
    for (name, side) in content.header.iter().zip(&side) {
        let _ = write!(page, "<th scope=\"col\"{side}>{}</th>", escape(name));
    }
    page.push_str("</tr></thead><tbody>");
    for row in &content.rows {
        page.push_str("<tr>");
        for (column, (cell, side)) in row.iter().zip(&side).enumerate() {
            let cell = escape(cell);
            let _ = match column {
                0 => write!(page, "<th scope=\"row\"{side}>{cell}</th>"),
                _ => write!(page, "<td{side}>{cell}</td>"),
            };
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div>");
}

fn doubts(results: &Results, page: &mut String) {
    page.push_str("<h2>Doubts</h2>");
    let doubts = tables::doubts(results);
    if doubts.is_empty() {
        page.push_str("<p>None.</p>");
        return;
    }
    page.push_str("<ul class=\"doubts\">");
    for (doubt, figures) in doubts {
        let _ = write!(page, "<li>{}", escape(&doubt));
        if !figures.is_empty() {
            let _ = write!(
                page,
                "<details><summary>{} figures</summary><ul class=\"soft\">",
                figures.len()
            );
            for figure in figures {
                let _ = write!(page, "<li>{}</li>", escape(&figure));
            }
            page.push_str("</ul></details>");
        }
        page.push_str("</li>");
    }
    page.push_str("</ul>");
}

fn environment(results: &Results, page: &mut String) {
    page.push_str("<h2>Environment</h2>");
    names_and_values(tables::environment_rows(results), page);
}

/// A table of names and values.
pub fn names_and_values(rows: Vec<(String, String)>, page: &mut String) {
    page.push_str(
        "<div class=\"scroll\"><table class=\"left wrap\"><caption class=\"unseen\">Names and values</caption><tbody>",
    );
    for (name, value) in rows {
        let _ = write!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
            escape(&name),
            escape(&value)
        );
    }
    page.push_str("</tbody></table></div>");
}

fn method(results: &Results, page: &mut String) {
    page.push_str("<h2>Method</h2>");
    for paragraph in METHOD {
        let _ = write!(page, "<p>{}</p>", escape(paragraph));
    }
    let _ = write!(
        page,
        "<p>To repeat it:</p><pre><code>{}</code></pre>",
        escape(&results.environment.command)
    );
}

/// How the figures come about; the same sentences in every report.
pub(super) const METHOD: &[&str] = &[
    "All transports run through the same loops and the same clock (CLOCK_MONOTONIC). A round trip is a message of the given length and its echo of the same length, one at a time; it is never halved and called latency. A stream's figure is the receiver's: bytes that arrived after the warm-up, over the time until the last of them.",
    "Round trips under load go by a fixed schedule, whether earlier messages have been answered or not, and are timed from the moment at which they should have gone. What follows from the figures is said by fixed rules, and no difference is said where the 95 % intervals of two figures meet.",
    "Repetitions of all figures are made in random order, round by round. The figure is the median over the repetitions, with a confidence interval from order statistics, which assumes no distribution; percentiles are of all samples together. The warm-up is discarded and kept in results.json.",
    "Spin: both ends look again and again and never sleep. Sleep: both sleep in the kernel until something arrives. Both ends are pinned to one CPU each; on one machine to different ones.",
    "CPU is the measuring thread's time plus the interrupt time of its CPU, at most one CPU. System calls are counted by the loops themselves, frames by the device, interrupts by the kernel. What producing and reading the data would cost the application is in no figure.",
];
