//! Settings that were tried: each with its three figures, which of them nothing surpasses, and the
//! commands for the recommended one.

use crate::findings;
use gigae_eval_model::choice;
use gigae_eval_model::choice::{Objectives, RatioChange};
use gigae_eval_model::knobs::KnobState;
use gigae_eval_model::number::{short, times, trimmed};
use gigae_eval_model::results::Estimate;
use gigae_eval_model::results::Results;
use gigae_eval_model::trials::Tuning;
use gigae_eval_page::svg::{
    At, BOTTOM, HEIGHT, LEFT, Span, TOP, WIDTH, across, drawing, marker, named, steps, steps_log,
    upright,
};
use gigae_eval_page::table::{Table, words};
use maud::{Markup, html};
use std::fmt::Write;

/// The name of the setting before anything was changed.
const PRESENT: &str = "as it was";

/// Right of the figure: room for the last numbers.
const RIGHT: f64 = 24.0;

/// Radius of the marker that shows the most CPU per KB; the others' areas are in proportion.
const LARGEST: f64 = 13.0;

/// Smallest marker that can still be seen.
const SMALLEST: f64 = 3.0;

/// A setting with its figures.
struct Tried<'a> {
    name: &'a str,
    failed: Option<&'a str>,
    of: Objectives,
}

/// All settings tried on a link with the figures of one transport; the first one is the present.
fn tried<'a>(results: &'a Results, tuning: &'a Tuning, by: &str) -> Vec<Tried<'a>> {
    let of = |series| Objectives::of(series, &tuning.link, by);
    let present = Tried { name: PRESENT, failed: None, of: of(&results.series) };
    let others = tuning.trials.iter().map(|trial| Tried {
        name: &trial.name,
        failed: trial.failed.as_deref(),
        of: of(&trial.series),
    });
    std::iter::once(present).chain(others).collect()
}

/// The transports that have figures, first the one by which the best settings were chosen.
fn transports(tuning: &Tuning) -> Vec<&str> {
    let mut found = vec![tuning.by.as_str()];
    for series in tuning.trials.iter().flat_map(|trial| &trial.series) {
        if !found.contains(&series.transport.as_str()) {
            found.push(&series.transport);
        }
    }
    found
}

/// A table for each link and transport.
pub fn trial_tables(results: &Results) -> Vec<Table> {
    let of = |tuning| {
        let table = move |by: &str| trial_table(results, tuning, by);
        transports(tuning).into_iter().map(table).collect::<Vec<_>>()
    };
    results.tuning.iter().flat_map(of).collect()
}

fn trial_table(results: &Results, tuning: &Tuning, by: &str) -> Table {
    let all = tried(results, tuning, by);
    let objectives: Vec<Objectives> = all.iter().map(|one| one.of).collect();
    let front = choice::front(&objectives);
    let present = objectives[0];
    let row = |(place, one): (usize, &Tried<'_>)| {
        let judgement = one.of.against(&present);
        let mut row = vec![place.to_string(), one.name.to_owned()];
        for (figure, change) in [
            (one.of.trip, judgement.trip),
            (one.of.goodput, judgement.goodput),
            (one.of.demand, judgement.demand),
        ] {
            row.push(figure.map_or(String::new(), said));
            row.push(if place == 0 { String::new() } else { changed(change) });
        }
        row.push(match one.failed {
            Some(why) => format!("not measured: {why}"),
            None if front[place] => "front".into(),
            None => String::new(),
        });
        row
    };
    Table {
        title: format!("Settings tried ({}, {by})", tuning.link),
        note: "Round trip of the smallest message in microseconds, goodput of the largest in MB/s, microseconds of CPU \
               per KB of it at both ends together; medians with their 95 % intervals. Better and worse: the intervals do not \
               overlap. Front: no other setting has better medians in all three."
            .into(),
        header: words(&[
            "number", "setting", "round trip", "change", "goodput", "change", "CPU per KB", "change", "result",
        ]),
        rows: all.iter().enumerate().map(row).collect(),
    }
}

fn said(figure: Estimate) -> String {
    let [low, high] = figure.ci95;
    format!("{} ({} to {})", short(figure.median), short(low), short(high))
}

fn changed(change: RatioChange) -> String {
    match change {
        RatioChange::Better(ratio) => format!("{} better", times(ratio)),
        RatioChange::Worse(ratio) => format!("{} worse", times(1.0 / ratio)),
        RatioChange::Same => "same".into(),
        RatioChange::Unknown => String::new(),
    }
}

/// What each end has of the knobs that the plan names, a table for each link.
pub fn knob_tables(results: &Results) -> Vec<Table> {
    let table = |tuning: &Tuning| Table {
        title: format!("Knobs ({})", tuning.link),
        note: "The values before the run, which are set again now; or why an end has no such knob."
            .into(),
        header: words(&["knob", "belongs to", "measuring end", "answering end", "note"]),
        rows: tuning.local.iter().map(|state| knob_row(state, &tuning.remote)).collect(),
    };
    results.tuning.iter().map(table).collect()
}

fn knob_row(state: &KnobState, remote: &[KnobState]) -> Vec<String> {
    let there = remote.iter().find(|other| other.knob == state.knob);
    let value = |state: &KnobState| match (&state.present, &state.absent) {
        (Some(present), _) => present.clone(),
        (None, Some(why)) => format!("not here: {why}"),
        (None, None) => String::new(),
    };
    let mut notes: Vec<String> = [Some(state), there]
        .into_iter()
        .flatten()
        .flat_map(|end| {
            let absent = end.values.iter().filter_map(|one| {
                one.absent.as_ref().map(|why| format!("{} not here: {why}", one.value))
            });
            end.note.clone().into_iter().chain(absent)
        })
        .collect();
    notes.dedup();
    vec![
        state.knob.clone(),
        state.belongs.name().to_owned(),
        value(state),
        there.map_or("not asked".into(), value),
        notes.join("; "),
    ]
}

/// The command lines of the recommended settings, each with a title.
pub fn commands(results: &Results) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for tuning in &results.tuning {
        let Some(found) = findings::recommended(results, tuning) else { continue };
        let [here, there] = findings::commands(tuning, found.trial);
        let title =
            |end: &str| format!("Recommended on {}: {}, {end}", tuning.link, found.trial.name);
        if here == there {
            all.push((title("at both ends"), here.join("\n")));
            continue;
        }
        for (end, lines) in [("at the measuring end", here), ("at the answering end", there)] {
            if !lines.is_empty() {
                all.push((title(end), lines.join("\n")));
            }
        }
    }
    all
}

/// Round trip across, goodput up, CPU per KB by size, the front drawn: a figure for each link and
/// transport, with its title.
pub(super) fn charts(results: &Results) -> Vec<(String, Markup)> {
    let mut all = Vec::new();
    for tuning in &results.tuning {
        for by in transports(tuning) {
            let title = format!(
                "Settings tried ({}, {by}): the upper left is best, small markers cost little CPU",
                tuning.link
            );
            all.extend(chart(&title, &tried(results, tuning, by)).map(|svg| (title, svg)));
        }
    }
    all
}

/// A point of the chart.
struct ChartPoint {
    place: usize,
    x: f64,
    y: f64,
    cpu: Option<f64>,
    tip: String,
}

fn chart(title: &str, all: &[Tried<'_>]) -> Option<Markup> {
    let point = |(place, one): (usize, &Tried<'_>)| {
        let (trip, goodput) = (one.of.trip?, one.of.goodput?);
        let cpu = one.of.demand.map(|demand| demand.median);
        let tip = format!(
            "{place}: {}: {} us, {} MB/s{}",
            one.name,
            said(trip),
            said(goodput),
            one.of.demand.map_or(String::new(), |demand| format!(", {} us per KB", said(demand)))
        );
        Some(ChartPoint { place, x: trip.median, y: goodput.median, cpu, tip })
    };
    let points: Vec<ChartPoint> = all.iter().enumerate().filter_map(point).collect();
    if points.len() < 2 {
        return None;
    }
    let span = |of: fn(&ChartPoint) -> f64, from, to| {
        let low = points.iter().map(of).fold(f64::INFINITY, f64::min);
        let high = points.iter().map(of).fold(0.0, f64::max);
        let room = (high / low).powf(0.12).max(1.05);
        Span { low: low / room, high: high * room, log: true, from, to }
    };
    let x = span(|point| point.x, LEFT, WIDTH - RIGHT);
    let y = span(|point| point.y, HEIGHT - BOTTOM, TOP);
    let most = points.iter().filter_map(|point| point.cpu).fold(0.0, f64::max);
    let radius = |point: &ChartPoint| {
        let share = point.cpu.filter(|_| most > 0.0).map_or(0.2, |cpu| cpu / most);
        (LARGEST * share.sqrt()).max(SMALLEST)
    };
    let content = html! {
        @for value in ticks(&y) { (across(y.at(value), x.to, &trimmed(value))) }
        @for value in ticks(&x) { (upright(x.at(value), &trimmed(value))) }
        (named(x.to, "round trip in microseconds", "MB/s at the receiver"))
        path.level fill="none" d=(staircase(&points, &x, &y)) {}
        @for point in &points {
            // The present setting is a diamond.
            @let style = if point.place == 0 { 3 } else { 0 };
            @let (px, py, radius) = (x.at(point.x), y.at(point.y), radius(point));
            g class={ "line c" (style) } {
                path.marker fill-opacity="0.55" d=(marker(style, px, py, radius)) {
                    title { (point.tip) }
                }
            }
            text.note x=(At(px + radius + 2.0)) y=(At(py - 3.0)) { (point.place) }
        }
    };
    Some(drawing(title, &content))
}

/// Round values of an axis; where the usual ones would be fewer than three, in equal steps.
fn ticks(span: &Span) -> Vec<f64> {
    let usual = steps_log(span.low, span.high);
    if usual.len() > 2 {
        return usual;
    }
    let step = steps(span.high - span.low).get(1).copied().unwrap_or(span.high);
    let first = (span.low / step).ceil();
    let all = (0..20).map(|place| (first + f64::from(place)) * step);
    all.take_while(|value| *value <= span.high).collect()
}

/// The front of the two figures that the axes show, as stairs.
fn staircase(points: &[ChartPoint], x: &Span, y: &Span) -> String {
    let mut sorted: Vec<&ChartPoint> = points.iter().collect();
    sorted.sort_by(|a, b| a.x.total_cmp(&b.x).then(b.y.total_cmp(&a.y)));
    let (mut best, mut path) = (0.0, String::new());
    for point in sorted {
        if point.y > best {
            let step = if path.is_empty() {
                format!("M{:.1} {:.1}", x.at(point.x), y.from)
            } else {
                format!("H{:.1}", x.at(point.x))
            };
            let _ = write!(path, "{step}V{:.1}", y.at(point.y));
            best = point.y;
        }
    }
    let _ = write!(path, "H{:.1}", x.to);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, trip: f64, goodput: f64) -> Tried<'_> {
        let figure = |median| Some(Estimate { median, ci95: [median, median] });
        let of = Objectives { trip: figure(trip), goodput: figure(goodput), demand: figure(1.0) };
        Tried { name, failed: None, of }
    }

    #[test]
    fn the_front_is_drawn_through_what_nothing_surpasses() {
        let all = [of("a", 10.0, 100.0), of("<b>", 20.0, 200.0), of("c", 30.0, 150.0)];
        let svg = chart("t", &all).unwrap().into_string();
        assert!(!svg.contains("NaN") && !svg.contains("<b>"), "{svg}");
        assert_eq!(svg.matches("class=\"marker\"").count(), 3);
        let path = svg.split("class=\"level\" fill=\"none\" d=\"").nth(1).unwrap();
        let path = path.split('"').next().unwrap();
        // Two steps up: the third surpasses nothing.
        assert_eq!((path.matches('V').count(), path.matches('H').count()), (2, 2), "{path}");
        assert!(chart("t", &all[..1]).is_none());
    }
}
