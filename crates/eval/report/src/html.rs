//! `report.html`: one self-contained file with nothing from a network. Everything is there without
//! scripts; the page's own script adds hovering, keys, hiding lines and copying commands.

use super::{
    asked, cores, files, found, incast, machine, mounts, printed, programs, repeat, shares, sweeps,
    tables, tuning,
};
use crate::ratios as compare;
use gigae_eval_model::duration;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number;
use gigae_eval_model::plan::Wait;
use gigae_eval_model::results::{Results, Series};
use gigae_eval_page::figure::ChartFigure;
use gigae_eval_page::html::{self as page, folded, names_and_values, section};
use gigae_eval_page::svg::{Chart, SIZES, SvgLine, SvgPoint};
use gigae_eval_page::table::Table;
use maud::{Markup, html};

/// Colours and markers by transport, so that a transport looks the same in every figure; those that
/// are not named here and variants share the last ones.
const LOOKS: [&str; 4] = ["gigae", "xdp", "packet", "tcp"];

/// The page.
pub fn page(results: &Results) -> String {
    let first = [
        found::paper_table(results),
        machine::nic_table(results),
        compare::row_table(results, true),
        compare::memory_table(results),
        machine::ladders(results),
        found::fit_table(results),
        programs::table(results),
        programs::meanings(results),
        incast::table(results),
        shares::table(results),
        cores::table(results),
    ];
    let further = [
        tables::limit_table(results),
        compare::loss_table(results),
        compare::cpu_table(results),
        compare::idle_table(results),
        tables::beside_table(results),
        tables::call_table(results),
        tables::train_table(results),
        Some(tables::cost_table(results)),
    ];
    let content = html! {
        (head(results))
        (findings(results))
        (settings_tried(results))
        (asked_for(results))
        (ratios(results))
        @for table in files::tables(results) { (section(&table)) }
        @for table in mounts::tables(results) { (section(&table)) }
        @for table in first.iter().flatten() { (section(table)) }
        (swept(results))
        @for link in results.links() { (link_figures(results, link)) }
        @for table in further.iter().flatten() { (section(table)) }
        (doubts(results))
        h2 { "Environment" }
        (names_and_values(&tables::environment_rows(results)))
        @for inventory in &machine::inventory(results) { (folded(inventory)) }
        (page::method(METHOD))
        (page::to_repeat(&results.environment.command))
    };
    page::document(&results.plan.name, &content)
}

fn head(results: &Results) -> Markup {
    let environment = &results.environment;
    html! {
        h1 { "What this network gives" }
        p.lead { (results.plan.about) }
        p.soft {
            (environment.date) " · " (environment.cpu) " · Linux " (environment.kernel) " · "
            (environment.nic) " (" (environment.driver) "), MTU " (environment.mtu) " · gigae "
            (environment.gigae) " (" (environment.git) ") · "
            (duration::seconds(environment.duration))
        }
    }
}

/// What follows, and what papers said.
fn findings(results: &Results) -> Markup {
    let findings = found::findings(results);
    html! {
        @if !findings.is_empty() {
            h2 { (found::TITLE) }
            p.soft { (found::NOTE) }
            ul.findings {
                @for finding in findings {
                    li {
                        @for sentence in finding.here { p { (sentence) } }
                        @for sentence in finding.there { p.soft { (sentence) } }
                    }
                }
            }
        }
    }
}

/// What is swept over something else than the message size: figures, and the same as numbers.
fn swept(results: &Results) -> Markup {
    let figures: Vec<ChartFigure> =
        sweeps::load_figures(results).into_iter().chain(sweeps::buffer_figures(results)).collect();
    html! {
        @if !figures.is_empty() {
            h2 { "Sweeps" }
            div.figures { @for figure in &figures { (figure) } }
        }
        @if let Some(table) = sweeps::load_table(results) { (section(&table)) }
    }
}

/// The commands for the recommended setting, every setting that was tried as a figure and as
/// numbers, and what the ends have.
fn settings_tried(results: &Results) -> Markup {
    let charts = tuning::charts(results);
    html! {
        @for (title, lines) in tuning::commands(results) {
            h3 { (title) }
            pre { code { (lines) } }
        }
        @if !charts.is_empty() {
            h2 { "Settings tried" }
            div.figures {
                @for (title, chart) in charts {
                    figure { figcaption { (title) } (chart) }
                }
            }
        }
        @for table in &tuning::trial_tables(results) { (section(table)) }
        @for table in &tuning::knob_tables(results) { (folded(table)) }
    }
}

/// The plan's figures and the conditions under which they hold.
fn asked_for(results: &Results) -> Markup {
    html! {
        @if let Some(figures) = asked::table(results, true) {
            (section(&figures))
            details {
                summary { "Conditions" }
                (names_and_values(&asked::conditions(results)))
            }
        }
    }
}

fn ratios(results: &Results) -> Markup {
    let ratios = tables::ratios(results);
    let on = |link: &str| ratios.iter().filter(|ratio| ratio.link == link).collect::<Vec<_>>();
    let links = results.links().into_iter().map(|link| (link, on(link)));
    html! {
        @if !ratios.is_empty() {
            h2 { "Ratios" }
            p.soft {
                "Ratios of figures of this run, beside those of GigaE PM II (1999) for the same question."
            }
            @for (link, ratios) in links.filter(|(_, ratios)| !ratios.is_empty()) {
                h3 { "Link " (link) }
                div.cards {
                    @for ratio in ratios {
                        @let then = ratio.say(ratio.paper);
                        @let note = format!("{}; 1999: {then} ({})", ratio.at, ratio.source);
                        (page::card(&ratio.what, &ratio.say(ratio.ours), &note))
                    }
                }
            }
            (page::table(&tables::ratio_table(results), "left"))
        }
    }
}

fn link_figures(results: &Results, link: &str) -> Markup {
    let rate = results
        .environment
        .link
        .iter()
        .find(|entry| entry.name == link)
        .and_then(|entry| entry.rate);
    let said = rate.map_or("as fast as it goes".into(), number::mbit);
    let (mut figures, mut rest) = (Vec::new(), Vec::new());
    // Bandwidth first.
    for &experiment in Experiment::ALL.iter().rev().filter(|one| one.form().sizes.is_some()) {
        for wait in [Wait::Spin, Wait::Sleep, Wait::Adaptive] {
            let series: Vec<&Series> = results.of(experiment, link, wait).collect();
            if series.is_empty() {
                continue;
            }
            let numbers = tables::figure_table(results, &series);
            match has_curve(&series) {
                true => figures.push(figure(results, &series, rate, numbers)),
                false => rest.push(numbers),
            }
        }
    }
    html! {
        @if !figures.is_empty() || !rest.is_empty() {
            h2 { "Link " (link) ", " (said) }
            div.figures { @for figure in &figures { (figure) } }
            @for numbers in &rest {
                h3 { (numbers.title) }
                p.soft { (numbers.note) }
                (page::table(numbers, ""))
            }
        }
    }
}

/// A reader cannot distinguish more lines than this.
pub(super) const MOST_LINES: usize = 12;

/// Single points, and too many lines, are better read as numbers.
fn has_curve(series: &[&Series]) -> bool {
    let labels = gigae_eval_page::table::labels(series.iter().copied());
    labels.len() <= MOST_LINES
        && labels.iter().any(|label| series.iter().filter(|one| one.label() == *label).count() > 1)
}

fn figure(results: &Results, series: &[&Series], rate: Option<f64>, numbers: Table) -> ChartFigure {
    let (experiment, wait) = (series[0].experiment, series[0].wait.name());
    let (title, unit) = match experiment {
        Experiment::Rtt => (format!("Round trip over message size, {wait}"), "microseconds"),
        _ => (format!("Bandwidth over message size, {wait}"), "MB/s at the receiver"),
    };
    let level = rate
        .filter(|_| experiment == Experiment::Stream)
        .map(|rate| (rate / 8e6, format!("link rate {} MB/s", number::short(rate / 8e6))));
    let labels = gigae_eval_page::table::labels(series.iter().copied());
    let line = |name: &String| {
        let mut points: Vec<SvgPoint> = series
            .iter()
            .filter(|one| one.label() == *name)
            .map(|one| sweeps::point(one.size as f64, one))
            .collect();
        points.sort_by(|a, b| a.size.total_cmp(&b.size));
        SvgLine { style: look(results, name), name: name.clone(), points }
    };
    let lines: Vec<SvgLine> = labels.iter().map(line).collect();
    // The papers' axis ends at the link's rate; without one, rates span three decades.
    let log = experiment == Experiment::Rtt || rate.is_none();
    let chart = Chart { title, unit: unit.into(), log, across: SIZES, level, mark: None, lines };
    ChartFigure {
        chart,
        printed: printed::beside(results, series, |label| look(results, label)),
        numbers: Some(numbers),
        note: tables::ends(results, series),
        repeat: commands(results, series, &labels),
    }
}

/// The command for all lines of a figure, and for each.
fn commands(results: &Results, series: &[&Series], labels: &[String]) -> Vec<(String, String)> {
    let all = repeat::figure(results, series[0]);
    let of = |label: &String| {
        let one = series.iter().find(|one| one.label() == *label)?;
        let part: repeat::RepeatedCells =
            all.iter().cloned().chain(repeat::curve(results, one)).collect();
        Some((label.clone(), repeat::command(results, &part)?))
    };
    let whole = repeat::command(results, &all).map(|command| ("all lines".to_owned(), command));
    whole.into_iter().chain(labels.iter().filter_map(of)).collect()
}

/// Number of a transport's colour and marker.
pub(super) fn look(results: &Results, label: &str) -> usize {
    let all = gigae_eval_page::table::labels(results.series.iter());
    let reference =
        gigae_eval_page::table::reference_tcp(results).map(|variant| format!("tcp {variant}"));
    let second = all.iter().find(|one| one.starts_with("tcp ") && Some(*one) != reference.as_ref());
    let named = |label: &str| match label.split_once(' ') {
        None => LOOKS.iter().position(|look| *look == label),
        Some(_) if reference.as_deref() == Some(label) => Some(3),
        Some(_) if second.is_some_and(|one| one == label) => Some(4),
        Some(_) => None,
    };
    named(label).unwrap_or_else(|| {
        let taken: Vec<usize> = all.iter().filter_map(|label| named(label)).collect();
        let free: Vec<usize> = (0..8).filter(|style| !taken.contains(style)).collect();
        let others = all.iter().filter(|other| named(other).is_none());
        let number = others.take_while(|other| *other != label).count();
        // Once all are used, the next ones have dashes.
        free[number % free.len()] + 8 * (number / free.len())
    })
}

fn doubts(results: &Results) -> Markup {
    let doubts = tables::doubts(results);
    html! {
        h2 { "Doubts" }
        @if doubts.is_empty() {
            p { "None." }
        } @else {
            ul.doubts {
                @for (doubt, figures) in doubts {
                    li {
                        (doubt)
                        @if !figures.is_empty() {
                            details {
                                summary { (figures.len()) " figures" }
                                ul.soft { @for figure in figures { li { (figure) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// How the figures come about; the same sentences in every report.
pub(super) const METHOD: &[&str] = &[
    "All transports run through the same loops and the same clock (CLOCK_MONOTONIC). A round trip is a message of the given length and its echo of the same length, one at a time; it is never halved and called latency. A stream's figure is the receiver's: bytes that arrived after the warm-up, over the time until the last of them.",
    "Round trips under load follow a fixed schedule, also while earlier messages are unanswered. Each is timed from the moment at which it was due. Fixed rules derive the findings. They name no difference where the 95 % intervals of two figures overlap.",
    "Repetitions of all figures run in random order, round by round. A figure is the median of its repetitions. Its confidence interval comes from order statistics, which assume no distribution. Percentiles are of all samples together. The warm-up is not part of any figure; results.json has it.",
    "Spin: both ends poll and never sleep. Sleep: both sleep in the kernel until something arrives. Each end is pinned to one CPU; on one machine they have different ones.",
    "CPU is the measuring thread's time plus the interrupt time of its CPU, at most one CPU. System calls are counted by the loops themselves, frames by the device, interrupts by the kernel. No figure contains what it would cost an application to produce and read the data.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_lines_look_alike_however_many_variants_there_are() {
        let mut results = gigae_eval_model::testing::first();
        let tcp = results.series.iter().find(|one| one.transport == "tcp").unwrap().clone();
        for number in 0..9 {
            results.series.push(Series { variant: Some(number.to_string()), ..tcp.clone() });
        }
        let labels = gigae_eval_page::table::labels(results.series.iter());
        let looks: BTreeSet<usize> = labels.iter().map(|label| look(&results, label)).collect();
        assert_eq!(looks.len(), labels.len());
        assert_eq!((look(&results, "gigae"), look(&results, "tcp nodelay")), (0, 3));
    }
}
