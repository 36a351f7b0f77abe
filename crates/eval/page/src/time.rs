//! Figures over time: lines without markers, and marks where something happened.
//!
//! Colours and fonts come from the page's style sheet, as those of [`super::svg`].

use super::svg::{At, BOTTOM, HEIGHT, LEFT, TOP, WIDTH, across, below, drawing, named, steps};
use gigae_eval_model::number::trimmed;
use maud::{Markup, html};

/// Behind the last point.
const RIGHT: f64 = 16.0;

/// Units of the axis, by the time it spans: name, seconds, and from when on it is used.
const UNITS: [(&str, f64, f64); 4] = [
    ("days", 86_400.0, 259_200.0),
    ("hours", 3600.0, 10_800.0),
    ("minutes", 60.0, 180.0),
    ("seconds", 1.0, 0.0),
];

/// A line: its name, the number of its colour, values by seconds since the beginning.
pub type SeriesPoints<'a> = (&'a str, usize, Vec<(f64, f64)>);

/// A figure over time.
pub struct TimeChart<'a> {
    /// What it shows.
    pub title: &'a str,
    /// What the vertical axis counts.
    pub unit: &'a str,
    /// The lines.
    pub lines: Vec<SeriesPoints<'a>>,
    /// Where something happened, in seconds since the beginning.
    pub marks: Vec<f64>,
}

impl TimeChart<'_> {
    /// The figure as an SVG element; its lines are named in a legend of the page's.
    pub fn svg(&self) -> Markup {
        let points = || self.lines.iter().flat_map(|(_, _, points)| points);
        let end = points().map(|point| point.0).fold(1.0, f64::max);
        let high = points().map(|point| point.1).fold(1e-9, f64::max) * 1.08;
        let bottom = HEIGHT - BOTTOM;
        let x = |at: f64| LEFT + (at / end).clamp(0.0, 1.0) * (WIDTH - RIGHT - LEFT);
        let y = |value: f64| bottom - (value / high).clamp(0.0, 1.0) * (bottom - TOP);
        let (unit, seconds, _) =
            UNITS.into_iter().find(|(_, _, from)| end >= *from).unwrap_or(UNITS[3]);
        let path = |points: &[(f64, f64)]| {
            let at = |(at, value): &(f64, f64)| format!("{},{}", At(x(*at)), At(y(*value)));
            points.iter().map(at).collect::<Vec<_>>().join(" ")
        };
        let content = html! {
            @for value in steps(high) { (across(y(value), WIDTH - RIGHT, &trimmed(value))) }
            @for value in steps(end / seconds) { (below(x(value * seconds), &trimmed(value))) }
            (named(WIDTH - RIGHT, &format!("{unit} since the beginning"), self.unit))
            @for at in self.marks.iter().map(|at| x(*at)) {
                line.level x1=(At(at)) x2=(At(at)) y1=(TOP) y2=(At(bottom)) {}
            }
            @for (name, style, points) in &self.lines {
                g class={ "line c" (style) } data-line=(name) {
                    polyline points=(path(points)) {}
                }
            }
        };
        drawing(self.title, &content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_without_points_or_with_one_stays_within_its_bounds() {
        for points in [vec![], vec![(0.0, 0.0)], vec![(1e7, 1e12)]] {
            let lines = vec![("name", 0, points)];
            let marks = vec![1e9];
            let svg = TimeChart { title: "t", unit: "u", lines, marks }.svg().into_string();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
