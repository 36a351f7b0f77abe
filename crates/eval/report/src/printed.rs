//! What papers printed, as points beside the curves that they compare with.

use super::found;
use gigae_eval_model::number::short;
use gigae_eval_model::plan::{PaperPlan, Value};
use gigae_eval_model::results::{Results, Series};
use gigae_eval_page::svg::{SvgLine, SvgPoint};

/// The printed points that belong to a chart of these cells: a line for each paper and curve, in
/// the curve's colour.
pub(super) fn beside(
    results: &Results,
    cells: &[&Series],
    style: impl Fn(&str) -> usize,
) -> Vec<SvgLine> {
    let mut lines: Vec<SvgLine> = Vec::new();
    for paper in results.plan.paper.iter().filter(|paper| paper.value == Value::Median) {
        // The curve is on one link with one style of waiting, as the chart is.
        let curve = found::curve(results, paper);
        let Some(label) = curve.first().map(|one| one.label()) else { continue };
        if paper.points.is_empty() || !cells.iter().any(|one| std::ptr::eq(*one, curve[0])) {
            continue;
        }
        let name = format!("{label}, printed in {}", title(results, paper));
        let points = paper.points.iter().map(|(size, value)| point(results, paper, *size, *value));
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.extend(points),
            None => lines.push(SvgLine { style: style(&label), name, points: points.collect() }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.size.total_cmp(&b.size).then(a.value.total_cmp(&b.value)));
    }
    lines
}

fn point(results: &Results, paper: &PaperPlan, size: usize, value: f64) -> SvgPoint {
    let tip = format!(
        "{}, {size} B: {} {}\nprinted in {}, {}",
        paper.what,
        short(value),
        paper.kind.unit(),
        source(results, paper),
        paper.at
    );
    SvgPoint { size: size as f64, value, low: value, high: value, tip }
}

/// Authors, title and year.
fn source<'a>(results: &'a Results, paper: &'a PaperPlan) -> &'a str {
    results.plan.source.get(&paper.source).unwrap_or(&paper.source)
}

/// Title and year: what is behind the authors.
fn title<'a>(results: &'a Results, paper: &'a PaperPlan) -> &'a str {
    let source = source(results, paper);
    source.split_once(": ").map_or(source, |(_, title)| title)
}
