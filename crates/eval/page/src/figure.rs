//! A figure of a page: its drawing, its legend, the same as numbers, and the commands that measure
//! it again. What the page's script adds (hovering, keys, hiding lines, copying) it finds by
//! `data-line`, `data-at` and the classes that are written here.

use super::html::table;
use super::svg::{self, Axis, Chart, SvgLine};
use super::table::Table;
use gigae_eval_model::number::short;
use maud::{Markup, Render, html};

/// A chart and what goes with it.
pub struct ChartFigure {
    /// The drawing.
    pub chart: Chart,
    /// What papers printed, to stand beside it as hollow markers.
    pub printed: Vec<SvgLine>,
    /// The same as numbers; absent: made from the drawing's points.
    pub numbers: Option<Table>,
    /// What a reader must know to understand the drawing; empty if nothing.
    pub note: String,
    /// Commands that measure it again: what each measures, and the command.
    pub repeat: Vec<(String, String)>,
}

impl From<Chart> for ChartFigure {
    fn from(chart: Chart) -> Self {
        Self { chart, printed: Vec::new(), numbers: None, note: String::new(), repeat: Vec::new() }
    }
}

impl Render for ChartFigure {
    fn render(&self) -> Markup {
        let lines = self.chart.lines.iter();
        let lines = lines.map(|line| LegendEntry { name: &line.name, key: svg::key(line.style) });
        let printed = self.printed.iter();
        let printed =
            printed.map(|line| LegendEntry { name: &line.name, key: svg::printed_key(line.style) });
        let numbers = self.numbers.clone().unwrap_or_else(|| numbers(&self.chart));
        html! {
            figure {
                figcaption { (self.chart.title) }
                (legend(lines.chain(printed)))
                div.plot { (self.chart.svg(&self.printed)) }
                @if !self.note.is_empty() { p.soft { (self.note) } }
                (as_numbers(&numbers))
                (self.commands())
            }
        }
    }
}

impl ChartFigure {
    fn commands(&self) -> Markup {
        html! {
            @if !self.repeat.is_empty() {
                details {
                    summary { "To repeat it" span.unseen { ": " (self.chart.title) } }
                    ul.commands {
                        @for (what, command) in &self.repeat {
                            li { span { (what) } " " code.command { (command) } }
                        }
                    }
                }
            }
        }
    }
}

/// A line of a figure, as its legend has it.
pub struct LegendEntry<'a> {
    /// What it is called.
    pub name: &'a str,
    /// A picture of its marker.
    pub key: Markup,
}

/// A list of lines.
pub fn legend<'a>(lines: impl Iterator<Item = LegendEntry<'a>>) -> Markup {
    html! {
        ul.legend {
            @for line in lines { li data-line=(line.name) { (line.key) (line.name) } }
        }
    }
}

/// The table of a figure, to be opened.
pub fn as_numbers(numbers: &Table) -> Markup {
    html! {
        details {
            summary { "As numbers" span.unseen { ": " (numbers.title) } }
            p.soft { (numbers.note) }
            (table(numbers, ""))
        }
    }
}

/// The points of a drawing: places down, lines across.
fn numbers(chart: &Chart) -> Table {
    let mut places: Vec<f64> =
        chart.lines.iter().flat_map(|line| &line.points).map(|point| point.size).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let cell = |line: &SvgLine, place: f64| {
        let point = line.points.iter().find(|point| point.size == place)?;
        let (value, low, high) = (short(point.value), short(point.low), short(point.high));
        Some(if point.low < point.high { format!("{value} ({low} to {high})") } else { value })
    };
    let row = |place: &f64| {
        let cells = chart.lines.iter().map(|line| cell(line, *place).unwrap_or_default());
        std::iter::once(place.to_string()).chain(cells).collect()
    };
    let (Axis::Bytes(across) | Axis::Plain(across)) = chart.across;
    Table {
        title: chart.title.clone(),
        note: format!("{}; in brackets its 95 % interval", chart.unit),
        header: std::iter::once(across.to_owned())
            .chain(chart.lines.iter().map(|line| line.name.clone()))
            .collect(),
        rows: places.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::{SIZES, SvgPoint};

    #[test]
    fn a_figure_without_a_table_makes_one_of_its_points() {
        let point =
            |size, value, high| SvgPoint { size, value, low: value, high, tip: String::new() };
        let line = |name: &str, points| SvgLine { name: name.into(), style: 0, points };
        let chart = Chart {
            title: "<t>".into(),
            unit: "us".into(),
            log: true,
            across: SIZES,
            level: None,
            mark: None,
            lines: vec![
                line("a", vec![point(8.0, 1.5, 2.0), point(64.0, 3.0, 3.0)]),
                line("b", vec![point(64.0, 120.4, 120.4)]),
            ],
        };
        let table = numbers(&chart);
        assert_eq!(table.header, ["message size in bytes", "a", "b"]);
        assert_eq!(table.rows, [["8", "1.50 (1.50 to 2.00)", ""], ["64", "3.00", "120"]]);
        let page = ChartFigure::from(chart).render().into_string();
        assert!(page.contains("As numbers<span class=\"unseen\">: &lt;t&gt;</span>"), "{page}");
        assert!(page.contains("a: 1.50 at 8, 3.00 at 64."), "{page}");
    }
}
