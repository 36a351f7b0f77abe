//! A comparison of saved runs as tables, sentences, comma-separated values and a page.

use super::csv::quoted;
use super::overlay::{self, letter};
use crate::compare::{
    Compared, Comparison, ComparisonVerdict, Side, SideComparison, Summary, Unit,
};
use gigae_eval_model::doubt::Doubt;
use gigae_eval_model::number::{self, hundredths, short};
use gigae_eval_model::stats;
use gigae_eval_page::figure::ChartFigure;
use gigae_eval_page::html::{self as page, names_and_values, section};
use gigae_eval_page::table::{NamedValue, Table, words};
use maud::html;
use std::fmt::Write;

/// What each side is, by its letter.
pub fn sides(comparison: &Comparison) -> Vec<NamedValue> {
    let said = |(number, side): (usize, &Summary)| {
        let runs = match &side.dates[..] {
            [one] => format!("a run of {one}"),
            all => {
                let (first, last) = (all.iter().min(), all.iter().max());
                let span = first.zip(last).map_or(String::new(), |(a, b)| format!("{a} to {b}"));
                format!("{} runs, {span}", all.len())
            }
        };
        let said = format!(
            "{runs}; plan {}, gigae {}, Linux {}, {}, steal {}",
            side.plan,
            side.gigae,
            side.kernel,
            side.nic,
            hundredths(side.steal)
        );
        NamedValue::new(format!("{}: {}", letter(number), side.name), said)
    };
    comparison.sides.iter().enumerate().map(said).collect()
}

/// Heading of the conditions that differ.
pub const DIFFERS: &str = "What else differs";

/// Heading of the sentences.
pub const FOLLOWS: &str = "What follows";

/// The conditions that differ, each with what it is on every side.
pub fn conditions(comparison: &Comparison) -> Vec<NamedValue> {
    let rows = comparison.differs.iter().map(|differs| {
        let value = |(number, value): (usize, &String)| format!("{}: {value}", letter(number));
        let values: Vec<String> = differs.values.iter().enumerate().map(value).collect();
        NamedValue::new(&differs.what, values.join("; "))
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return vec![NamedValue::new("nothing", "of what is recorded")];
    }
    rows
}

/// What follows for one side, in sentences.
pub fn sentences(comparison: &Comparison, against: &SideComparison) -> Vec<String> {
    let (a, b) = (letter(0), letter(against.side));
    let mut said = Vec::new();
    said.extend(verdicts(
        &against.figures,
        &format!("{b} against {a}"),
        "figures",
        comparison.least,
    ));
    said.extend(visible(&against.figures));
    said.extend(verdicts(
        &against.costs,
        &format!("{b} against {a}, what a message costs"),
        "costs",
        comparison.least,
    ));
    said.extend(visible(&against.costs));
    let alone = [(a, &against.alone[0]), (b, &against.alone[1])];
    for (letter, cells) in alone.into_iter().filter(|(_, cells)| !cells.is_empty()) {
        let some = cells.iter().take(2).cloned().collect::<Vec<_>>().join(", ");
        let more = if cells.len() > 2 { ", ..." } else { "" };
        said.push(format!("Only {letter} has {} of the cells: {some}{more}.", cells.len()));
    }
    said
}

/// What is farther apart than this, in percent, is simply something else.
const BEYOND: f64 = 1000.0;

/// How many of a family came out how.
fn verdicts(all: &[Compared], who: &str, kind: &str, least: f64) -> Option<String> {
    let of = |verdict| all.iter().filter(|one| one.verdict == verdict).count();
    let (better, worse, slight) = (
        of(ComparisonVerdict::Better),
        of(ComparisonVerdict::Worse),
        of(ComparisonVerdict::Slight),
    );
    let untested = of(ComparisonVerdict::Untested);
    let tested = all.len() - untested;
    if all.is_empty() {
        return None;
    }
    if tested == 0 {
        return Some(format!(
            "{who}: too few runs: a difference in {untested} {kind} may be chance."
        ));
    }
    let mut text = match better + worse {
        0 => format!("{who}: no significant difference in {tested} {kind}."),
        some => format!(
            "{who}: {some} of {tested} {kind} differ significantly, {better} better and {worse} worse."
        ),
    };
    if slight > 0 {
        let _ = write!(text, " {slight} differ by less than {least} %, which does not count.");
    }
    if untested > 0 {
        let _ = write!(text, " {untested} could not be tested.");
    }
    Some(text)
}

/// What could have been seen where nothing was.
fn visible(all: &[Compared]) -> Option<String> {
    let same = all.iter().filter(|one| one.verdict == ComparisonVerdict::Same);
    let mut visible: Vec<f64> = same.filter_map(|one| one.visible).collect();
    visible.sort_by(f64::total_cmp);
    let (least, most) = (visible.first()?, visible.last()?);
    let middle = stats::median(&visible)?;
    Some(format!(
        "Where no difference was found, one of {} to {} % could have been seen, of {} % in half of them.",
        seen(*least),
        seen(*most),
        seen(middle)
    ))
}

/// The figures of one side, a table for each link.
pub fn figure_tables(comparison: &Comparison, against: &SideComparison) -> Vec<Table> {
    let units = match against.unit {
        Unit::Run => format!("the {} and {} runs", against.units[0], against.units[1]),
        Unit::Repetition => format!("{} and {} repetitions", against.units[0], against.units[1]),
    };
    let note = format!(
        "Medians over {units}; change and its 95 % interval in percent; seen from: the smallest change that could \
         have been seen. A difference is one that chance alone would bring about anywhere among the {} figures \
         in one comparison of twenty at most, and of {} % at least. ! marks a doubt.",
        against.figures.len(),
        comparison.least
    );
    tables(against, &against.figures.iter().collect::<Vec<_>>(), "", &note)
}

/// What a message costs, a table for each link; all of it, or what differs.
pub fn cost_tables(comparison: &Comparison, against: &SideComparison, all: bool) -> Vec<Table> {
    let is_shown = |one: &&Compared| match one.verdict {
        ComparisonVerdict::Same => all,
        ComparisonVerdict::Untested => {
            all || one.change.is_some_and(|change| change.abs() >= comparison.least)
        }
        _ => true,
    };
    let costs: Vec<&Compared> = against.costs.iter().filter(is_shown).collect();
    let which = if all { "" } else { ", those that differ" };
    let note = format!(
        "Per message{which}: CPU of ends that do not spin, thread and interrupts, in microseconds; system calls (of \
         spinning ends those that send), frames and interrupts of the measuring end. Tested as a family of their own, \
         runs being the units."
    );
    tables(against, &costs, "What a message costs, ", &note)
}

fn tables(against: &SideComparison, all: &[&Compared], what: &str, note: &str) -> Vec<Table> {
    let (a, b) = (letter(0), letter(against.side));
    let mut links: Vec<&str> = Vec::new();
    for one in all {
        if !links.contains(&one.cell.link.as_str()) {
            links.push(&one.cell.link);
        }
    }
    let table = |(number, link): (usize, &str)| Table {
        title: format!("{what}{b} against {a} ({link})"),
        note: if number == 0 { note.to_owned() } else { String::new() },
        header: words(&[
            "figure",
            &a.to_string(),
            &b.to_string(),
            "change",
            "verdict",
            "95 %",
            "seen from",
        ]),
        rows: all.iter().filter(|one| one.cell.link == link).map(|one| row(one)).collect(),
    };
    links.into_iter().enumerate().map(table).collect()
}

fn row(one: &Compared) -> Vec<String> {
    let unit = if one.unit.is_empty() { String::new() } else { format!(", {}", one.unit) };
    let name = match one.cost {
        Some(cost) => format!("{}: {cost}{unit}", one.cell.name()),
        None => format!("{}{unit}", one.cell.name()),
    };
    let mark = if one.doubtful && one.cost.is_none() { " !" } else { "" };
    vec![
        name,
        median(one.medians[0]),
        median(one.medians[1]),
        one.change.map_or(String::new(), signed),
        format!("{}{mark}", word(one.verdict)),
        one.ci95
            .map_or(String::new(), |[low, high]| format!("{} to {}", signed(low), signed(high))),
        one.visible.map_or(String::new(), seen),
    ]
}

/// A median; a cost may be a small part of one per message.
fn median(value: f64) -> String {
    if value > 0.0 && value < 0.1 { format!("{value:.4}") } else { short(value) }
}

/// A change in percent.
fn signed(percent: f64) -> String {
    if percent.abs() > BEYOND { format!(">{BEYOND}") } else { number::signed(percent) }
}

/// A difference in percent that could have been seen.
fn seen(percent: f64) -> String {
    if percent > BEYOND { format!(">{BEYOND}") } else { short(percent) }
}

fn word(verdict: ComparisonVerdict) -> &'static str {
    match verdict {
        ComparisonVerdict::Better => "better",
        ComparisonVerdict::Worse => "worse",
        ComparisonVerdict::Slight => "slight",
        ComparisonVerdict::Same => "none",
        ComparisonVerdict::Untested => "untested",
    }
}

const COLUMNS: [&str; 20] = [
    "run",
    "link",
    "experiment",
    "transport",
    "variant",
    "condition",
    "wait",
    "size",
    "cost",
    "unit",
    "reference",
    "median",
    "change_percent",
    "ci95_low",
    "ci95_high",
    "coverage",
    "p",
    "seen_from_percent",
    "verdict",
    "doubtful",
];

/// A header and a line for each figure and each cost (RFC 4180).
pub fn csv(comparison: &Comparison) -> String {
    let mut text = COLUMNS.join(",") + "\r\n";
    for against in &comparison.against {
        let name = &comparison.sides[against.side].name;
        for one in against.figures.iter().chain(&against.costs) {
            let cells = cells(name, one).map(|cell| quoted(&cell));
            text += &cells.join(",");
            text += "\r\n";
        }
    }
    text
}

fn cells(run: &str, one: &Compared) -> [String; COLUMNS.len()] {
    let number = |value: f64| value.to_string();
    let some = |value: Option<f64>| value.map_or_else(String::new, number);
    let cell = &one.cell;
    [
        run.to_owned(),
        cell.link.clone(),
        cell.experiment.name().to_owned(),
        cell.transport.clone(),
        cell.variant.clone().unwrap_or_default(),
        cell.condition.words(),
        cell.wait.name().to_owned(),
        cell.size.to_string(),
        one.cost.unwrap_or_default().to_owned(),
        one.unit.clone(),
        number(one.medians[0]),
        number(one.medians[1]),
        some(one.change),
        some(one.ci95.map(|ends| ends[0])),
        some(one.ci95.map(|ends| ends[1])),
        some(one.coverage),
        some(one.p),
        some(one.visible),
        word(one.verdict).to_owned(),
        one.doubtful.to_string(),
    ]
}

/// The page: one self-contained file in the style of the reports.
pub fn page(comparison: &Comparison, sides: &[Side]) -> String {
    let names: Vec<&str> = comparison.sides.iter().map(|side| side.name.as_str()).collect();
    let doubts = all_doubts(comparison);
    let charts = overlay::charts(sides);
    let content = html! {
        h1 { "Runs compared" }
        (names_and_values(&self::sides(comparison)))
        h2 { (DIFFERS) }
        (names_and_values(&conditions(comparison)))
        h2 { (FOLLOWS) }
        @for against in &comparison.against {
            @for sentence in sentences(comparison, against) { p { (sentence) } }
        }
        @if !doubts.is_empty() {
            h2 { "Doubts" }
            ul.doubts { @for doubt in doubts { li { (doubt) } } }
        }
        @if !charts.is_empty() {
            h2 { "Curves" }
            div.figures { @for chart in charts { (ChartFigure::from(chart)) } }
        }
        @for against in &comparison.against {
            @for table in &figure_tables(comparison, against) { (section(table)) }
            @for table in &cost_tables(comparison, against, true) { (section(table)) }
        }
        (page::method(METHOD))
    };
    page::document(&format!("{} compared", names.join(", ")), &content)
}

/// The doubts about each comparison.
pub fn all_doubts(comparison: &Comparison) -> Vec<String> {
    let several = comparison.against.len() > 1;
    let of = |against: &SideComparison| -> Vec<String> {
        let who = letter(against.side);
        let said = |doubt: &Doubt| {
            if several { format!("{doubt} ({who})") } else { doubt.to_string() }
        };
        against.doubts.iter().map(said).collect()
    };
    comparison.against.iter().flat_map(of).collect()
}

/// How verdicts come about; the same sentences on every page.
const METHOD: &[&str] = &[
    "The change is the median of all ratios between a value of one side and a value of the other (Hodges and Lehmann). Its interval is that of the test of Mann and Whitney, for this figure alone.",
    "A difference counts if chance alone rarely makes one as large (Westfall and Young). For this, the units are divided into two sides again, in all ways or in some thousands of random ways, and the largest difference of all figures is noted, each measured by its scatter. A unit is a run with all its figures, so what a whole run has in common is not evidence. With too few runs a unit is a repetition, and the verdict holds for these runs alone.",
    "The verdict 'none' means that no difference was found. It does not mean that there is none: a change below 'seen from' could not be detected.",
];
