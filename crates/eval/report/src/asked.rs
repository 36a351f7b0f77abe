//! What the plan asked for: its figures against their bounds, and the conditions that go with them.

use super::tables::{TransportNote, notes};
use gigae_eval_model::doubt::Code;
use gigae_eval_model::duration;
use gigae_eval_model::number::{self, exact, hundredths, millions, set_share, short};
use gigae_eval_model::results::{Bound, Figure, Results, Verdict};
use gigae_eval_page::table::{FROM, NamedValue, Table, plain, words};

/// The figures of the plan; `None` if it asks for none. With `cells`, a column says from which
/// values each was made.
pub fn table(results: &Results, cells: bool) -> Option<Table> {
    let several = results.runs.len() > 1;
    let mut header = words(&["figure", "asked", if several { "median" } else { "measured" }]);
    if several {
        header.push("range".into());
    }
    header.push("result".into());
    if cells {
        header.push(FROM.into());
    }
    let row = |figure: &Figure| {
        let mut row = vec![
            figure.name.clone(),
            figure.asked.map_or(String::new(), bound),
            figure.measured.map_or(String::new(), |value| say(figure, value)),
        ];
        if several {
            let range = figure.range();
            let range = range.map(|(low, high)| {
                format!("{} to {}", plainly(figure, low), plainly(figure, high))
            });
            row.push(range.unwrap_or_default());
        }
        row.push(verdict(figure));
        if cells {
            row.push(figure.missing.clone().unwrap_or_else(|| from_and_doubts(figure)));
        }
        row
    };
    (!results.figures.is_empty()).then(|| Table {
        title: "Figures".into(),
        note: note(results),
        header,
        rows: results.figures.iter().map(row).collect(),
    })
}

fn note(results: &Results) -> String {
    let of = |verdict| results.figures.iter().filter(|figure| figure.verdict == verdict).count();
    let (reached, missed) = (of(Verdict::Reached), of(Verdict::Missed));
    let lacking = results
        .figures
        .iter()
        .filter(|figure| figure.verdict == Verdict::NotMeasured && figure.asked.is_some());
    format!(
        "Of what was asked: {reached} reached, {missed} missed, {} not measured. Ratios are of medians of \
         the same run{}; of several sizes the worst one counts, of several links the one that is best for a cell; ! marks a doubt about a cell.",
        lacking.count(),
        match results.runs.len() {
            0 | 1 => String::new(),
            runs => format!(", and the median is over {runs} runs"),
        }
    )
}

/// What cannot go into a table at the terminal: sizes one by one, and why something is missing.
pub fn remarks(results: &Results) -> Vec<String> {
    let said = results.figures.iter().filter_map(|figure| match &figure.missing {
        Some(why) => Some(format!("{}: not measured: {why}", figure.name)),
        None if figure.points.len() > 1 => Some(format!("{}: {}", figure.name, from(figure))),
        None => None,
    });
    said.collect()
}

fn from_and_doubts(figure: &Figure) -> String {
    match &figure.doubts[..] {
        [] => from(figure),
        doubts => {
            let codes: Vec<&str> = doubts.iter().map(Code::as_str).collect();
            format!("{} ! {}", from(figure), codes.join(", ")).trim_start().to_owned()
        }
    }
}

/// The values that a figure was made of; with several runs their medians.
fn from(figure: &Figure) -> String {
    if figure.points.len() > 1 {
        let points = figure
            .points
            .iter()
            .map(|point| format!("{} B {}", point.size, point.median().map_or("-".into(), exact)));
        return points.collect::<Vec<_>>().join(", ");
    }
    let Some(point) = figure.points.first() else { return String::new() };
    match point.cells() {
        (Some(of), Some(over)) => format!(
            "{} / {} {}",
            absolute(of, &point.unit),
            absolute(over, &point.unit),
            point.unit
        ),
        _ => String::new(),
    }
}

fn absolute(value: f64, unit: &str) -> String {
    match unit {
        "/s" => millions(value),
        // A share of a limit.
        "" => exact(value),
        _ => short(value),
    }
}

fn bound(bound: Bound) -> String {
    let (sign, limit) = bound.parts();
    format!("{sign} {}", number(limit))
}

fn number(value: f64) -> String {
    if value >= 1e5 { millions(value) } else { value.to_string() }
}

/// A value and its unit.
fn say(figure: &Figure, value: f64) -> String {
    let (value, unit) = (plainly(figure, value), &figure.unit);
    if unit == "/s" {
        format!("{value}/s")
    } else {
        format!("{value} {unit}").trim_end().to_owned()
    }
}

/// A value without its unit.
fn plainly(figure: &Figure, value: f64) -> String {
    if figure.unit == "/s" { millions(value) } else { exact(value) }
}

fn verdict(figure: &Figure) -> String {
    let marked = figure.verdict != Verdict::NotMeasured && !figure.doubts.is_empty();
    format!("{}{}", figure.verdict.name(), if marked { " !" } else { "" }).trim_start().to_owned()
}

/// What each variant of a transport is set to.
pub fn settings(results: &Results) -> Vec<NamedValue> {
    let plan = &results.plan;
    let tables = [
        ("tcp", serde_json::to_value(&plan.tcp)),
        ("gigae", serde_json::to_value(&plan.gigae)),
        ("xdp", serde_json::to_value(&plan.xdp)),
    ];
    let mut rows = Vec::new();
    for (transport, table) in tables {
        let Ok(serde_json::Value::Object(table)) = table else { continue };
        for (name, setting) in table {
            rows.push(NamedValue::new(format!("setting {transport} {name}"), plain(&setting)));
        }
    }
    rows
}

/// That there are several links, in front of what each is.
pub fn side_by_side(links: usize) -> String {
    if links > 1 { format!("{links} side by side, each ") } else { String::new() }
}

/// The delay of a link, behind what else it is.
pub fn delayed(micros: Option<u64>) -> String {
    micros.map_or(String::new(), |micros| format!(", {micros} us of delay one way"))
}

/// The delay of a link in microseconds, if it has one.
pub fn delay_of(results: &Results, link: &str) -> Option<u64> {
    results.environment.link.iter().find(|one| one.name == link)?.delay_us
}

/// For how long a link goes down, behind what else it is.
pub fn goes_down(millis: Option<u64>) -> String {
    millis.map_or(String::new(), |millis| {
        format!(", goes down for {millis} ms in the middle of each copy")
    })
}

/// For how many milliseconds a link went down in the middle of each copy, if it did.
pub fn down_of(results: &Results, link: &str) -> Option<u64> {
    results.environment.link.iter().find(|one| one.name == link)?.down_ms
}

/// The conditions under which the figures hold.
pub fn conditions(results: &Results) -> Vec<NamedValue> {
    let environment = &results.environment;
    let mut rows = vec![
        NamedValue::new("kernel", format!("Linux {}", environment.kernel)),
        NamedValue::new("cpu", &environment.cpu),
        NamedValue::new("gigae", format!("{} ({})", environment.gigae, environment.git)),
    ];
    for link in &environment.link {
        let offload = link.local.offloads.get("tso");
        rows.push(NamedValue::new(
            format!("link {}", link.name),
            format!(
                "{}{}, MTU {}, {}, frames lost {}{}{}, TCP segmentation offload {}",
                side_by_side(link.links),
                link.local.driver,
                link.mtu,
                number::rate(link.rate),
                set_share(link.loss),
                delayed(link.delay_us),
                goes_down(link.down_ms),
                offload.map_or("not known".into(), plain)
            ),
        ));
    }
    rows.extend(settings(results));
    let mut said: Vec<NamedValue> = Vec::new();
    // A link's mode is the same for most of its figures.
    for TransportNote { label, note, .. } in notes(results) {
        let row = NamedValue::new(label, note.to_string());
        if !said.contains(&row) {
            said.push(row.clone());
            rows.push(row);
        }
    }
    for (number, run) in results.runs.iter().enumerate() {
        rows.push(NamedValue::new(
            format!("run {}", number + 1),
            format!(
                "{}, {}, steal {}",
                run.date,
                duration::seconds(run.duration),
                hundredths(run.steal)
            ),
        ));
    }
    rows
}
