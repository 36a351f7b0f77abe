//! Every figure that was found in the five papers names what measures it here, or the reason why
//! nothing does. The list is the plans' figures and `papers.toml` together.
//! `docs/reference/papers.md` shows it. To write that page anew:
//!
//! ```text
//! UPDATE_SNAPSHOT=1 cargo test -p gigae-eval-model --test papers
//! ```

use gigae_eval_model::number::{grouped, size};
use gigae_eval_model::papers::{Papers, PrintedFigures, Remark, papers};
use gigae_eval_model::plan::{PaperPlan, Plan, PrintedUnit, SHIPPED, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Plans that are being made: nothing else may be named as planned.
const PLANNED: [&str; 0] = [];

/// What measures a figure.
#[derive(Clone, Debug, PartialEq)]
enum Way {
    /// A command, and what to look at in its report.
    Command(String, Option<String>),
    /// The same, but something was other there.
    Beside(String, Option<String>, String),
    /// A plan that is not there yet.
    Planned(String),
    /// Nothing, for this reason.
    Reason(String),
}

impl Way {
    fn say(&self) -> String {
        match self {
            Self::Command(command, None) => format!("`{command}`"),
            Self::Command(command, Some(look)) => format!("`{command}`: {look}"),
            Self::Beside(command, look, why) => {
                let command = Self::Command(command.clone(), look.clone()).say();
                format!("{command}; not the same: {why}")
            }
            Self::Planned(plan) => format!("planned: plan `{plan}`"),
            Self::Reason(why) => format!("not measured: {why}"),
        }
    }
}

/// A printed figure.
#[derive(Clone, Debug)]
struct Entry {
    source: String,
    at: String,
    what: String,
    /// Its value with its unit.
    printed: String,
    way: Way,
    note: Option<String>,
}

impl Entry {
    /// Whether both are the same figure of a paper, of which one may say more than the other.
    fn is(&self, other: &Self) -> bool {
        let [one, two] = [&self.what, &other.what];
        (&self.source, &self.at, &self.printed) == (&other.source, &other.at, &other.printed)
            && (one.starts_with(two.as_str()) || two.starts_with(one.as_str()))
    }
}

/// A value as it is printed: with commas, and with the decimals that it has.
fn number(value: f64) -> String {
    match value.fract() == 0.0 && value >= 1000.0 {
        true => grouped(value as u64, ","),
        false => value.to_string(),
    }
}

fn plans() -> Vec<Plan> {
    SHIPPED.iter().map(|(name, _)| Plan::load(name).unwrap()).collect()
}

fn eval(plan: &str, only: Option<&str>) -> String {
    match only {
        None => format!("gigae eval --plan {plan}"),
        Some(only) => format!("gigae eval --plan {plan} --only {only}"),
    }
}

/// The cells that a plan sets beside a paper's figures.
fn cells(paper: &PaperPlan) -> String {
    let of = &paper.of;
    let variant = of.variant.as_ref().map_or(String::new(), |variant| format!("/{variant}"));
    let mut only = format!("experiment={},transport={}{variant}", paper.kind.name(), of.transport);
    only.extend(of.link.as_ref().map(|link| format!(",link={link}")));
    only.extend(of.wait.map(|wait| format!(",wait={}", wait.name())));
    only
}

/// The figures that a plan carries.
fn of_plan(plan: &Plan) -> Vec<Entry> {
    let mut entries = Vec::new();
    for paper in &plan.paper {
        let unit = if paper.value == Value::Calls { "calls/frame" } else { paper.kind.unit() };
        let entry = |what: String, value: f64| Entry {
            source: paper.source.clone(),
            at: paper.at.clone(),
            what,
            printed: format!("{} {unit}", number(value)),
            way: Way::Command(eval(&plan.name, Some(&cells(paper))), None),
            note: None,
        };
        entries.extend(paper.points.iter().map(|(size, value)| {
            entry(format!("{}, {} B", paper.what, grouped(*size as u64, ",")), *value)
        }));
        entries.extend(paper.best.map(|best| entry(paper.what.clone(), best)));
    }
    for paper in &plan.file_paper {
        let only = format!("link={}", paper.of.link);
        let below = if paper.bound { "below " } else { "" };
        entries.push(Entry {
            source: paper.source.clone(),
            at: paper.at.clone(),
            what: paper.what.clone(),
            printed: format!("{below}{} Mbit/s", number(paper.mbit)),
            way: Way::Command(
                eval(&plan.name, Some(&only)),
                Some(format!("{} of {} MB", paper.of.service, paper.of.size / 1_000_000)),
            ),
            note: None,
        });
    }
    for paper in &plan.access_paper {
        let of = &paper.of;
        let (service, pattern, block) = (&of.service, of.pattern.name(), size(of.block as f64));
        entries.push(Entry {
            source: paper.source.clone(),
            at: paper.at.clone(),
            what: paper.what.clone(),
            printed: format!("{} MB/s", number(paper.megabytes)),
            way: Way::Command(
                eval(&plan.name, Some(&format!("link={}", of.link))),
                Some(format!("{service} {pattern} {block}, depth {}", of.depth)),
            ),
            note: None,
        });
    }
    for paper in &plan.mount_paper {
        let of = &paper.of;
        let rate = if of.program == "fio" { "MB/s" } else { "per second" };
        let unit = paper.unit.map_or(rate, PrintedUnit::name);
        let size = if plan.repeats.contains("smaller files") { ", smaller files" } else { "" };
        entries.push(Entry {
            source: paper.source.clone(),
            at: paper.at.clone(),
            what: paper.what.clone(),
            printed: format!("{} {unit}", number(paper.value)),
            way: Way::Command(
                eval(&plan.name, Some(&format!("link={}", of.link))),
                Some(format!("{}{size}", of.program)),
            ),
            note: None,
        });
    }
    for nic in &plan.nic {
        entries.extend(nic.facts().map(|(fact, value)| Entry {
            source: nic.source.clone(),
            at: nic.at.clone(),
            what: format!("{}, {fact}", nic.name),
            printed: value.to_owned(),
            way: Way::Command(
                eval(&plan.name, None),
                Some("NICs beside those of the papers".into()),
            ),
            note: None,
        }));
    }
    entries
}

fn way(printed: &PrintedFigures, papers: &Papers) -> Way {
    match (&printed.plan, &printed.command, &printed.planned, &printed.reason) {
        (Some(plan), None, None, None) => {
            let only = printed.only.clone();
            let only = only.or(printed.files.as_ref().map(|link| format!("link={link}")));
            // A part by a link needs an experiment there.
            let part = only.filter(|only| {
                Plan::load(plan).is_ok_and(|plan| plan.only(&only.parse().unwrap()).is_ok())
            });
            let look = printed.finding.as_ref().map(|name| format!("finding `{name}`"));
            let files = printed.files.as_ref().map(|link| format!("files on link `{link}`"));
            Way::Command(eval(plan, part.as_deref()), look.or(files))
        }
        (None, Some(command), None, None) => Way::Command(command.clone(), None),
        (None, None, Some(plan), None) => Way::Planned(plan.clone()),
        (None, None, None, Some(why)) => {
            Way::Reason(papers.reasons.get(why).unwrap_or_else(|| panic!("reason '{why}'")).clone())
        }
        _ => panic!("{}, {}: not one way", printed.source, printed.at),
    }
}

/// All figures, each once but for other ways to measure it.
fn entries() -> Vec<Entry> {
    let papers = papers();
    let mut all: Vec<Entry> = plans().iter().flat_map(of_plan).collect();
    for printed in &papers.printed {
        let way = way(printed, papers);
        all.extend(printed.figures.iter().map(|(what, value)| Entry {
            source: printed.source.clone(),
            at: printed.at.clone(),
            what: what.clone(),
            printed: format!("{} {}", number(*value), printed.unit),
            way: way.clone(),
            note: None,
        }));
    }
    all.iter_mut().for_each(|entry| remark(entry, papers));
    all
}

fn fits(remark: &Remark, entry: &Entry) -> bool {
    remark.source == entry.source
        && remark.at.as_ref().is_none_or(|at| *at == entry.at)
        && remark.what.as_ref().is_none_or(|what| entry.what.contains(what))
        && remark.unit.as_ref().is_none_or(|unit| entry.printed.ends_with(&format!(" {unit}")))
}

fn remark(entry: &mut Entry, papers: &Papers) {
    for remark in &papers.remark {
        if !fits(remark, entry) {
            continue;
        }
        if let (Some(why), Way::Command(command, look)) = (&remark.conditions, &entry.way) {
            entry.way = Way::Beside(command.clone(), look.clone(), why.clone());
        }
        entry.note = remark.note.clone().or(entry.note.take());
    }
}

/// The parts of a paper in order: "figure 2" before "figure 11".
fn order(at: &str) -> (String, Vec<u32>, String) {
    let roman = |part: &str| ["I", "II", "III", "IV", "V"].iter().position(|one| *one == part);
    let number = |part: &str| {
        part.parse().ok().or(roman(part).map(|place| u32::try_from(place).unwrap() + 1))
    };
    let parts = at.split([' ', ',', '.']);
    let word = at.split(' ').next().unwrap_or_default();
    (word.to_owned(), parts.filter_map(number).collect(), at.to_owned())
}

/// Figures in one text. What several of them have in common before the last comma stands once:
/// "TCP: 8 B 20.4, 16 B 14.1".
fn together(figures: &[(String, String)]) -> String {
    let split = |what: &str| match what.rsplit_once(", ") {
        Some((head, tail)) => (head.to_owned(), tail.to_owned()),
        None => (what.to_owned(), String::new()),
    };
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (what, printed) in figures {
        let (head, tail) = split(what);
        let figure = format!("{tail} {printed}").trim_start().to_owned();
        match groups.last_mut().filter(|last| last.0 == head) {
            Some(last) => last.1.push(figure),
            None => groups.push((head, vec![figure])),
        }
    }
    let said: Vec<String> =
        groups.iter().map(|(head, figures)| format!("{head}: {}", figures.join(", "))).collect();
    said.join("; ")
}

/// One entry for each figure: the first of those that are the same.
fn distinct(entries: &[Entry]) -> Vec<&Entry> {
    let mut found: Vec<&Entry> = Vec::new();
    for entry in entries {
        if !found.iter().any(|other| other.is(entry)) {
            found.push(entry);
        }
    }
    found
}

const INTRODUCTION: &str = "\
# The papers' figures

The plans repeat measurements that five papers printed. This page lists all figures that were found
in those papers: those in tables and in the text, and the named values of the charts. Each names the
command that measures the same here, or the reason why nothing does. Where a command measures
something beside it under other conditions, the page names them, and counts it separately. A figure
stands once in each part of a paper, with all commands that measure it. A report shows the figures
of its plan beside its own.

The page is rendered from the shipped plans and from `papers.toml` of the crate
`gigae-eval-model`. A test fails if an entry names a plan, a cell or a finding that does not exist,
or if this page differs from them.

Numbers do not compare one to one: the machines, links and kernels are others. What compares are
orders, ratios and shapes of curves.
";

fn page(entries: &[Entry]) -> String {
    let papers = papers();
    let mut page = INTRODUCTION.to_owned();
    page += "\n| paper | figures | measured by a command | beside it, under other conditions | planned | \
             not measured |\n|---|---|---|---|---|---|\n";
    for name in &papers.papers {
        let of: Vec<&Entry> =
            distinct(entries).into_iter().filter(|one| one.source == *name).collect();
        let count = |fits: fn(&Way) -> bool| of.iter().filter(|one| fits(&one.way)).count();
        let _ = writeln!(
            page,
            "| [{name}](#{name}) | {} | {} | {} | {} | {} |",
            of.len(),
            count(|way| matches!(way, Way::Command(..))),
            count(|way| matches!(way, Way::Beside(..))),
            count(|way| matches!(way, Way::Planned(_))),
            count(|way| matches!(way, Way::Reason(_)))
        );
    }
    for name in &papers.papers {
        let _ = writeln!(page, "\n## {name}\n\n{}.\n", wrapped(&papers.source[name]));
        page += "| where | printed | here |\n|---|---|---|\n";
        let mut rows: Vec<Row<'_>> = Vec::new();
        for entry in distinct(entries).into_iter().filter(|entry| entry.source == *name) {
            let (figure, way) = ((entry.what.clone(), entry.printed.clone()), ways(entry, entries));
            match rows.iter_mut().find(|row| row.0 == entry.at && row.2 == way) {
                Some(row) => row.1.push(figure),
                None => rows.push((&entry.at, vec![figure], way)),
            }
        }
        rows.sort_by_key(|row| order(row.0));
        for (at, figures, way) in rows {
            let _ = writeln!(page, "| {at} | {} | {way} |", together(&figures));
        }
    }
    page
}

/// All ways to measure a figure, and its note.
fn ways(entry: &Entry, entries: &[Entry]) -> String {
    let mut ways: Vec<String> = Vec::new();
    for other in entries.iter().filter(|other| other.is(entry)) {
        let way = other.way.say();
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    let note = entry.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
    ways.join("; also ") + &note
}

/// A row of the page: where in the paper, the figures, and how they are measured here.
type Row<'a> = (&'a str, Vec<(String, String)>, String);

/// The whole numbers and decimals of a text: of "16.5 of 1,024" neither 6 nor 24.
fn numbers(text: &str) -> Vec<f64> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || ".,".contains(c)));
    let words = words.map(|word| word.trim_matches(['.', ',']).replace(',', ""));
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Lines of at most 100 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().unwrap();
        // The full stop behind it.
        if line.len() + word.len() > 97 {
            lines.push(word.to_owned());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[test]
fn every_printed_figure_names_what_measures_it_or_why_nothing_does() {
    let (mut wrong, plans) = (Vec::new(), plans());
    for printed in &papers().printed {
        let place = format!("{}, {}, {}", printed.source, printed.at, printed.unit);
        let mut fail = |why: String| wrong.push(format!("{place}: {why}"));
        if printed.figures.is_empty() {
            fail("has no figures".into());
        }
        if let Some(command) = printed.command.as_ref().filter(|one| !one.starts_with("gigae ")) {
            fail(format!("'{command}' is no command"));
        }
        if let Some(planned) = &printed.planned {
            if !PLANNED.contains(&planned.as_str()) {
                fail(format!("'{planned}' is not among the plans that are being made"));
            }
            if plans.iter().any(|plan| plan.name == *planned) {
                fail(format!("the plan '{planned}' is there; name it as `plan`"));
            }
        }
        let Some(name) = &printed.plan else {
            if printed.only.is_some() || printed.files.is_some() || printed.finding.is_some() {
                fail("names cells without a plan".into());
            }
            continue;
        };
        let Some(plan) = plans.iter().find(|plan| plan.name == *name) else {
            fail(format!("there is no plan '{name}'"));
            continue;
        };
        match (&printed.only, &printed.files, &printed.finding) {
            (Some(only), None, None) => match only.parse() {
                Err(why) => fail(why),
                Ok(only) => {
                    plan.only(&only).err().into_iter().for_each(|error| fail(error.to_string()));
                }
            },
            (None, Some(link), None) => {
                let (files, access) = (plan.file_cells(Some(link)), plan.access_cells(Some(link)));
                let mounts = plan.mount_cells(Some(link));
                if files.is_empty() && access.is_empty() && mounts.is_empty() {
                    fail(format!("'{name}' has no files on link '{link}'"));
                }
            }
            (None, None, Some(finding)) => {
                let said = |value: f64| {
                    plan.said.iter().any(|said| {
                        (&said.source, &said.finding) == (&printed.source, finding)
                            && numbers(&said.says).contains(&value)
                    })
                };
                for (what, value) in printed.figures.iter().filter(|(_, value)| !said(*value)) {
                    let value = number(*value);
                    fail(format!("'{name}' has no [[said]] of '{finding}' with {value} ({what})"));
                }
            }
            _ => fail("names not exactly one of only, files and finding".into()),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_commands_of_the_plans_own_figures_have_cells() {
    for plan in plans() {
        for paper in &plan.paper {
            let only = cells(paper);
            let part = plan.only(&only.parse().unwrap());
            let part = part.unwrap_or_else(|error| panic!("{} {only}: {error}", plan.name));
            assert!(part.paper.contains(paper), "{} {only}", plan.name);
        }
        for paper in &plan.file_paper {
            let only = format!("link={}", paper.of.link).parse().unwrap();
            assert!(plan.only(&only).unwrap().file_paper.contains(paper), "{}", plan.name);
        }
        for paper in &plan.access_paper {
            let only = format!("link={}", paper.of.link).parse().unwrap();
            assert!(plan.only(&only).unwrap().access_paper.contains(paper), "{}", plan.name);
        }
        for paper in &plan.mount_paper {
            let only = format!("link={}", paper.of.link).parse().unwrap();
            assert!(plan.only(&only).unwrap().mount_paper.contains(paper), "{}", plan.name);
        }
    }
}

#[test]
fn a_paper_has_one_name_in_all_plans() {
    let papers = papers();
    assert_eq!(papers.papers.len(), papers.source.len());
    assert!(papers.papers.iter().all(|name| papers.source.contains_key(name)));
    for plan in plans() {
        for (name, text) in &plan.source {
            assert_eq!(papers.source.get(name), Some(text), "{}: [source] {name}", plan.name);
        }
    }
}

/// So that a figure that is taken out of a plan or of the file is missed.
#[test]
fn each_part_of_a_paper_has_all_its_figures() {
    let entries = entries();
    let mut counts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for entry in distinct(&entries) {
        let of = counts.entry(entry.source.clone()).or_default();
        *of.entry(entry.at.clone()).or_default() += 1;
    }
    assert_eq!(papers().counts, counts, "{counts:#?}");
}

#[test]
fn a_number_of_a_sentence_is_whole() {
    assert_eq!(numbers("86 % above; 16.5 of 1,024 B, G5 2.4."), [86.0, 16.5, 1024.0, 2.4]);
}

#[test]
fn each_remark_stands_beside_a_figure() {
    let entries = entries();
    for remark in &papers().remark {
        let fitting: Vec<&Entry> = entries.iter().filter(|entry| fits(remark, entry)).collect();
        let beside = |entry: &&&Entry| matches!(entry.way, Way::Beside(..));
        let used = match (&remark.conditions, &remark.note) {
            (Some(_), None) => fitting.iter().any(|entry| beside(&entry)),
            (None, Some(_)) => !fitting.is_empty(),
            _ => panic!("not one of conditions and note: {remark:?}"),
        };
        assert!(used, "{remark:?}");
    }
}

#[test]
fn no_reason_is_unused() {
    for reason in papers().reasons.keys() {
        let used = papers().printed.iter().any(|one| one.reason.as_ref() == Some(reason));
        assert!(used, "no figure has the reason '{reason}'");
    }
}

#[test]
fn the_page_lists_every_figure() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/papers.md");
    let page = page(&entries());
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = there.lines().zip(page.lines()).find(|(there, here)| there != here);
    assert!(
        there == page,
        "docs/reference/papers.md is not of these plans, first at {differs:?}; write it anew with \
         UPDATE_SNAPSHOT=1"
    );
}
