//! What follows from the results, and the papers' own figures beside the new ones.

use crate::findings;
use crate::findings::Growth;
use gigae_eval_model::duration::nanoseconds;
use gigae_eval_model::number::{change, percent, short};
use gigae_eval_model::plan::{PaperPlan, QuotePlan, Value, Wait};
use gigae_eval_model::results::{Results, Series};
use gigae_eval_page::table::{Table, words};

/// Heading of the findings.
pub const TITLE: &str = "What follows";

/// How to read them.
pub const NOTE: &str =
    "By fixed rules from the figures of this run; ! marks a doubt about one of them.";

/// A finding for people: what follows, and what was found elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedFinding {
    /// Sentences of this run.
    pub here: Vec<String>,
    /// Sentences of papers, each with where it is from.
    pub there: Vec<String>,
}

/// All findings.
pub fn findings(results: &Results) -> Vec<ReportedFinding> {
    let there = |said: &QuotePlan| {
        let source = results.plan.source.get(&said.source).unwrap_or(&said.source);
        format!("{} ({source}, {})", said.says, said.at)
    };
    findings::of(results)
        .into_iter()
        .map(|finding| ReportedFinding {
            here: finding.sentences,
            there: finding.said.into_iter().map(there).collect(),
        })
        .collect()
}

/// A paper's size is compared with another one here that differs by less than this factor.
const NEAR: f64 = 1.5;

/// The papers' figures beside those of this run; `None` if the plan carries none.
pub fn paper_table(results: &Results) -> Option<Table> {
    let mut rows = Vec::new();
    for paper in &results.plan.paper {
        let curve = curve(results, paper);
        rows.extend(
            paper
                .points
                .iter()
                .map(|(size, value)| row(paper, Some(*size), *value, nearest(&curve, *size))),
        );
        rows.extend(paper.best.map(|best| row(paper, None, best, most(&curve, paper.value))));
    }
    let sources: Vec<String> = results
        .plan
        .source
        .iter()
        .filter(|(name, _)| results.plan.paper.iter().any(|paper| paper.source == **name))
        .map(|(name, source)| format!("{name}: {source}."))
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Beside the papers".into(),
        note: format!(
            "Printed figures, and the figure of this run that is nearest to each. The machines and links are different. {}",
            sources.join(" ")
        ),
        header: words(&["printed", "of", "bytes", "here", "of", "bytes", "here / printed", "from"]),
        rows,
    })
}

/// The cells that a paper's figures compare with, on the first link that has any.
pub(super) fn curve<'a>(results: &'a Results, paper: &PaperPlan) -> Vec<&'a Series> {
    let of = &paper.of;
    let fits = |series: &&Series| {
        (series.experiment, &series.transport, &series.variant)
            == (paper.kind, &of.transport, &of.variant)
            && of.wait.is_none_or(|wait| wait == series.wait)
            && of.link.as_ref().is_none_or(|link| *link == series.link)
            && series.condition == gigae_eval_model::plan::Condition::default()
            && series.value(paper.value).is_some()
    };
    let all: Vec<&Series> = results.series.iter().filter(fits).collect();
    let first = all.first().map(|one| (one.link.as_str(), one.wait));
    let same = |one: &&Series| Some((one.link.as_str(), one.wait)) == first;
    all.into_iter().filter(same).collect()
}

fn nearest<'a>(curve: &[&'a Series], size: usize) -> Option<&'a Series> {
    let far = |one: &Series| (one.size as f64 / size as f64).ln().abs();
    let near = curve.iter().copied().filter(|one| far(one) < NEAR.ln());
    near.min_by(|a, b| far(a).total_cmp(&far(b)))
}

fn most<'a>(curve: &[&'a Series], value: Value) -> Option<&'a Series> {
    let of = |one: &Series| one.value(value).unwrap_or(0.0);
    curve.iter().copied().max_by(|a, b| of(a).total_cmp(&of(b)))
}

fn row(paper: &PaperPlan, size: Option<usize>, printed: f64, here: Option<&Series>) -> Vec<String> {
    let unit = match paper.value {
        Value::Calls => "calls/frame",
        _ => paper.kind.unit(),
    };
    let value = here.and_then(|series| series.value(paper.value));
    let said = |value: f64| format!("{} {unit}", short(value));
    vec![
        said(printed),
        paper.what.clone(),
        size.map_or("best".into(), |size| size.to_string()),
        value.map_or("not measured".into(), said),
        here.map_or(String::new(), |one| {
            format!("{}, {}, {}", one.label(), one.wait.name(), one.link)
        }),
        here.map_or(String::new(), |one| one.size.to_string()),
        value.map_or(String::new(), |value| short(value / printed)),
        format!("{}, {}", paper.source, paper.at),
    ]
}

/// Round trips as a fixed cost and a cost per byte; `None` without three sizes of anything.
pub fn fit_table(results: &Results) -> Option<Table> {
    let rows: Vec<Vec<String>> = findings::fits(results)
        .iter()
        .filter(|fit| fit.of.wait != Wait::Adaptive)
        .map(|fit| {
            vec![
                fit.of.link.clone(),
                fit.of.label(),
                fit.of.wait.name().to_owned(),
                format!("{} to {}", fit.sizes.0, fit.sizes.1),
                format!("{} us", short(fit.line.fixed)),
                nanoseconds(fit.line.slope * 1e3),
                change(fit.rise()),
                percent(fit.line.worst),
                match fit.growth {
                    Growth::Flat => "flat",
                    Growth::Straight => "with size",
                    Growth::Bent => "neither",
                }
                .to_owned(),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Round trips: fixed cost and cost per byte".into(),
        note: "A line through the medians of messages within a frame, laid by the median of the slopes between \
               all pairs, each weighed by its distance. Rise: from the smallest to the largest size; off: the \
               point farthest from the line. Flat: a rise below 10 %; neither: a point more than 15 % off."
            .into(),
        header: words(&["link", "transport", "wait", "bytes", "fixed", "per byte", "rise", "off", "grows"]),
        rows,
    })
}
