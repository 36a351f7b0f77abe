//! Figures over time: lines without markers, and marks where something happened.
//!
//! Colours and fonts come from the page's style sheet, as those of [`super::svg`].

use super::svg::{BOTTOM, HEIGHT, LEFT, TOP, WIDTH, escape, number, steps};
use std::fmt::Write;

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
pub type Line<'a> = (&'a str, usize, Vec<(f64, f64)>);

/// A figure over time.
pub struct TimeChart<'a> {
    /// What it shows.
    pub title: &'a str,
    /// What the vertical axis counts.
    pub unit: &'a str,
    /// The lines.
    pub lines: Vec<Line<'a>>,
    /// Where something happened, in seconds since the beginning.
    pub marks: Vec<f64>,
}

impl TimeChart<'_> {
    /// The figure as an SVG element; its lines are named in a legend of the page's.
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|(_, _, points)| points);
        let end = points().map(|point| point.0).fold(1.0, f64::max);
        let high = points().map(|point| point.1).fold(1e-9, f64::max) * 1.08;
        let bottom = HEIGHT - BOTTOM;
        let x = |at: f64| LEFT + (at / end).clamp(0.0, 1.0) * (WIDTH - RIGHT - LEFT);
        let y = |value: f64| bottom - (value / high).clamp(0.0, 1.0) * (bottom - TOP);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(self.title)
        );
        for value in steps(high) {
            let at = y(value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 7.0,
                at + 4.5,
                number(value)
            );
        }
        let (unit, seconds, _) =
            UNITS.into_iter().find(|(_, _, from)| end >= *from).unwrap_or(UNITS[3]);
        for value in steps(end / seconds) {
            let at = x(value * seconds);
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                number(value)
            );
        }
        let _ = write!(
            svg,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{unit} since the beginning</text><text class=\"axis\" transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            HEIGHT - 8.0,
            f64::midpoint(TOP, bottom),
            escape(self.unit)
        );
        for at in self.marks.iter().map(|at| x(*at)) {
            let _ = write!(
                svg,
                "<line class=\"level\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>"
            );
        }
        for (name, style, points) in &self.lines {
            let path: Vec<String> = points
                .iter()
                .map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value)))
                .collect();
            let _ = write!(
                svg,
                "<g class=\"line c{style}\" data-line=\"{}\"><polyline points=\"{}\"/></g>",
                escape(name),
                path.join(" ")
            );
        }
        svg.push_str("</svg>");
        svg
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
            let svg = TimeChart { title: "t", unit: "u", lines, marks }.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
