//! Figures as SVG: lines over a logarithmic axis of message sizes.
//!
//! Colours and fonts come from the page's style sheet (classes `c0` to `c7`), so that a figure
//! follows dark mode; every line also has a marker with its own shape and its name at its end.
//! Lines of several runs have the same colour and marker and are dashed each in its own way
//! (classes `d1` and on).

use gigae_eval_model::number::{self, short};
use maud::{Markup, html};
use std::fmt;

/// Size of a figure in its own units; the page scales it.
pub const WIDTH: f64 = 560.0;
/// See [`WIDTH`].
pub const HEIGHT: f64 = 400.0;
/// Room left of the axes, for the names of values.
pub const LEFT: f64 = 64.0;
const RIGHT: f64 = 138.0;
/// Room above them.
pub const TOP: f64 = 14.0;
/// Room below them, for the names of sizes.
pub const BOTTOM: f64 = 48.0;

/// About half the size of a marker.
const RADIUS: f64 = 4.6;

/// Least distance between two names at the ends of lines: the height of their letters.
const NAME_HEIGHT: f64 = 15.0;

/// A figure.
pub struct Chart {
    /// What it shows, for readers who do not see it.
    pub title: String,
    /// What the vertical axis counts.
    pub unit: String,
    /// Whether the vertical axis is logarithmic.
    pub log: bool,
    /// What the horizontal axis counts.
    pub across: Axis,
    /// A level to compare with, and its name.
    pub level: Option<(f64, String)>,
    /// A place on the horizontal axis to compare with.
    pub mark: Option<Mark>,
    /// The lines.
    pub lines: Vec<SvgLine>,
}

/// What a horizontal axis counts, in words; it is logarithmic.
#[derive(Clone, Copy)]
pub enum Axis {
    /// Bytes, with powers of four marked.
    Bytes(&'static str),
    /// Anything else, with one, two and five of every decade.
    Plain(&'static str),
}

/// The axis of nearly all figures.
pub const SIZES: Axis = Axis::Bytes("message size in bytes");

/// A place on the horizontal axis, and its name.
pub struct Mark {
    /// The value on the axis.
    pub at: f64,
    /// Its name.
    pub name: String,
}

/// A line of a figure.
pub struct SvgLine {
    /// Its name.
    pub name: String,
    /// Number of its colour and marker, and eight times that of its dashes.
    pub style: usize,
    /// Its points, by ascending size.
    pub points: Vec<SvgPoint>,
}

/// A point of a line.
pub struct SvgPoint {
    /// Message size in bytes.
    pub size: f64,
    /// The value, in the chart's unit.
    pub value: f64,
    /// Lower end of the value's interval.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// Shown when pointed at.
    pub tip: String,
}

/// A coordinate; a tenth of a unit is finer than a pixel.
pub struct At(pub f64);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", self.0)
    }
}

/// A drawing of the size of a figure.
pub fn drawing(title: &str, content: &Markup) -> Markup {
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(title) { (content) }
    }
}

/// A line of the grid at a value of the vertical axis, and the value.
pub fn across(at: f64, to: f64, value: &str) -> Markup {
    html! {
        line.grid x1=(LEFT) x2=(At(to)) y1=(At(at)) y2=(At(at)) {}
        text.tick x=(At(LEFT - 7.0)) y=(At(at + 4.5)) text-anchor="end" { (value) }
    }
}

/// A line of the grid at a value of the horizontal axis, and the value.
pub fn upright(at: f64, value: &str) -> Markup {
    html! {
        line.grid x1=(At(at)) x2=(At(at)) y1=(TOP) y2=(HEIGHT - BOTTOM) {}
        (below(at, value))
    }
}

/// A value of the horizontal axis.
pub fn below(at: f64, value: &str) -> Markup {
    html! {
        text.tick x=(At(at)) y=(At(HEIGHT - BOTTOM + 18.0)) text-anchor="middle" { (value) }
    }
}

/// What the axes count; the horizontal one ends at `to`.
pub fn named(to: f64, horizontal: &str, vertical: &str) -> Markup {
    let turned = format!("translate(14 {}) rotate(-90)", At(f64::midpoint(TOP, HEIGHT - BOTTOM)));
    html! {
        text.axis x=(At(f64::midpoint(LEFT, to))) y=(At(HEIGHT - 8.0)) text-anchor="middle" {
            (horizontal)
        }
        text.axis transform=(turned) text-anchor="middle" { (vertical) }
    }
}

/// Which values an axis spans and where they lie.
pub struct Span {
    /// The least value.
    pub low: f64,
    /// The greatest value.
    pub high: f64,
    /// The axis is logarithmic.
    pub log: bool,
    /// Where the least value lies, in the figure's units.
    pub from: f64,
    /// Where the greatest value lies.
    pub to: f64,
}

impl Span {
    /// Where a value lies, in the figure's units; values outside the span lie at its ends.
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }
}

impl Chart {
    /// The figure as an SVG element. What was printed elsewhere are hollow markers, without a line
    /// between them.
    pub fn svg(&self, printed: &[SvgLine]) -> Markup {
        let (x, y) = (self.sizes(printed), self.values(printed));
        let content = html! {
            desc { (self.described()) }
            (self.grid(&x, &y))
            @if let Some((value, name)) = &self.level {
                @let at = y.at(*value);
                line.level x1=(LEFT) x2=(At(x.to)) y1=(At(at)) y2=(At(at)) {}
                text.note x=(At(LEFT + 6.0)) y=(At(at - 5.0)) { (name) }
            }
            @if let Some(mark) = &self.mark {
                @let at = x.at(mark.at);
                line.level x1=(At(at)) x2=(At(at)) y1=(TOP) y2=(At(HEIGHT - BOTTOM)) {}
                text.note x=(At(at + 5.0)) y=(At(HEIGHT - BOTTOM - 6.0)) { (mark.name) }
            }
            @for line in &self.lines { (draw(line, &x, &y)) }
            @for line in printed { (draw_printed(line, &x, &y)) }
            (self.names(&y))
        };
        drawing(&self.title, &content)
    }

    /// What its axes count, and where each line begins and ends.
    fn described(&self) -> String {
        let (Axis::Bytes(across) | Axis::Plain(across)) = self.across;
        let lines = self.lines.iter().filter_map(|line| {
            let (first, last) = (line.points.first()?, line.points.last()?);
            Some(format!(
                " {}: {} at {}, {} at {}.",
                line.name,
                short(first.value),
                first.size,
                short(last.value),
                last.size
            ))
        });
        format!("{}, over {across}.{}", self.unit, lines.collect::<String>())
    }

    fn points<'a>(&'a self, printed: &'a [SvgLine]) -> impl Iterator<Item = &'a SvgPoint> {
        self.lines.iter().chain(printed).flat_map(|line| &line.points)
    }

    fn sizes(&self, printed: &[SvgLine]) -> Span {
        let mark = || self.mark.iter().map(|mark| mark.at);
        let all = || self.points(printed).map(|point| point.size).chain(mark());
        let low = all().fold(f64::INFINITY, f64::min).max(1.0);
        let high = all().fold(1.0, f64::max);
        // A single size sits in the middle of a decade.
        let (low, high) = if high > low { (low, high) } else { (low / 3.0, low * 3.0) };
        Span { low: low / 1.15, high: high * 1.15, log: true, from: LEFT, to: WIDTH - RIGHT }
    }

    fn values(&self, printed: &[SvgLine]) -> Span {
        let level = self.level.iter().map(|(value, _)| *value);
        let high = self
            .points(printed)
            .map(|point| point.high.max(point.value))
            .chain(level)
            .fold(1e-9, f64::max);
        let positive = self.points(printed).map(|point| point.low).filter(|value| *value > 0.0);
        let low = if self.log { positive.fold(high, f64::min) / 1.4 } else { 0.0 };
        let high = if self.log { high * 1.4 } else { high * 1.08 };
        Span { low, high, log: self.log, from: HEIGHT - BOTTOM, to: TOP }
    }

    fn grid(&self, x: &Span, y: &Span) -> Markup {
        let up = if self.log { steps_log(y.low, y.high) } else { steps(y.high) };
        let places: Vec<(f64, String)> = match self.across {
            // From the smallest size that can be planned.
            Axis::Bytes(_) => (1..12)
                .map(|power| f64::from(1u32 << (2 * power)))
                .map(|at| (at, number::size(at)))
                .collect(),
            Axis::Plain(_) => {
                steps_log(x.low, x.high).into_iter().map(|at| (at, number::thousands(at))).collect()
            }
        };
        let (Axis::Bytes(counts) | Axis::Plain(counts)) = self.across;
        html! {
            @for value in up {
                @let name = if value < 1e4 { number::trimmed(value) } else { number::thousands(value) };
                (across(y.at(value), x.to, &name))
            }
            @for (value, name) in places.iter().filter(|(at, _)| (x.low..=x.high).contains(at)) {
                (upright(x.at(*value), name))
            }
            (named(x.to, counts, &self.unit))
        }
    }

    /// Names beside the ends of the lines, moved apart where they would cover each other.
    fn names(&self, y: &Span) -> Markup {
        let mut ends: Vec<(f64, &SvgLine)> = self
            .lines
            .iter()
            .filter_map(|line| Some((y.at(line.points.last()?.value), line)))
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut floor = TOP;
        for end in &mut ends {
            end.0 = end.0.max(floor);
            floor = end.0 + NAME_HEIGHT;
        }
        let mut ceiling = HEIGHT - BOTTOM + NAME_HEIGHT;
        for end in ends.iter_mut().rev() {
            end.0 = end.0.min(ceiling - NAME_HEIGHT);
            ceiling = end.0;
        }
        html! {
            @for (at, line) in ends {
                text class={ "name c" (line.style % 8) } x=(At(WIDTH - RIGHT + 10.0)) y=(At(at + 4.5))
                    data-line=(line.name) { (line.name) }
            }
        }
    }
}

fn draw(line: &SvgLine, x: &Span, y: &Span) -> Markup {
    let at = |point: &SvgPoint| format!("{},{}", At(x.at(point.size)), At(y.at(point.value)));
    let path: Vec<String> = line.points.iter().map(at).collect();
    html! {
        g class={ "line " (class(line.style)) } data-line=(line.name) {
            polyline points=(path.join(" ")) {}
            @for point in &line.points {
                @let (px, py) = (x.at(point.size), y.at(point.value));
                @let (top, bottom) = (y.at(point.high), y.at(point.low));
                // An interval that hides behind its marker is not drawn.
                @if bottom - top > 10.0 {
                    path.interval d={ "M" (At(px)) " " (At(top)) "V" (At(bottom)) } {}
                }
                (spot("marker", line.style, px, py, &point.tip))
            }
        }
    }
}

/// Colour and dashes of a line.
fn class(style: usize) -> String {
    match style / 8 {
        0 => format!("c{style}"),
        dashes => format!("c{} d{dashes}", style % 8),
    }
}

fn draw_printed(line: &SvgLine, x: &Span, y: &Span) -> Markup {
    html! {
        g class={ "c" (line.style % 8) } data-line=(line.name) {
            @for point in &line.points {
                (spot("printed", line.style, x.at(point.size), y.at(point.value), &point.tip))
            }
        }
    }
}

/// A point's marker, with where it lies for the page's script.
fn spot(class: &str, style: usize, x: f64, y: f64, tip: &str) -> Markup {
    html! {
        path class=(class) data-at={ (At(x)) " " (At(y)) } d=(marker(style, x, y, RADIUS)) {
            title { (tip) }
        }
    }
}

/// A small picture of a line's marker, for legends.
pub fn key(style: usize) -> Markup {
    key_of(
        style,
        &html! {
            polyline points="0,7 28,7" {}
            path.marker d=(marker(style, 14.0, 7.0, RADIUS)) {}
        },
    )
}

/// The same of what was printed elsewhere.
pub fn printed_key(style: usize) -> Markup {
    key_of(style, &html! { path.printed d=(marker(style, 14.0, 7.0, RADIUS)) {} })
}

fn key_of(style: usize, inner: &Markup) -> Markup {
    html! {
        svg.key viewBox="0 0 28 14" aria-hidden="true" {
            g class={ "line " (class(style)) } { (inner) }
        }
    }
}

/// Shapes that differ without colour: circle, square, triangle, diamond, triangle on its tip,
/// cross, plus, hexagon.
pub fn marker(style: usize, x: f64, y: f64, r: f64) -> String {
    let polygon = |corners: &[(f64, f64)]| {
        let corners: Vec<String> =
            corners.iter().map(|(dx, dy)| format!("{:.1} {:.1}", x + dx * r, y + dy * r)).collect();
        format!("M{}Z", corners.join("L"))
    };
    match style % 8 {
        0 => format!(
            "M{:.1} {y:.1}a{r} {r} 0 1 0 {:.1} 0a{r} {r} 0 1 0 {:.1} 0Z",
            x - r,
            2.0 * r,
            -2.0 * r
        ),
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
        3 => polygon(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
        4 => polygon(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)]),
        5 => cross(x, y, r, true),
        6 => cross(x, y, r, false),
        _ => polygon(&[
            (-1.1, 0.0),
            (-0.55, -0.95),
            (0.55, -0.95),
            (1.1, 0.0),
            (0.55, 0.95),
            (-0.55, 0.95),
        ]),
    }
}

fn cross(x: f64, y: f64, r: f64, diagonal: bool) -> String {
    let (a, b) = (r * 1.15, r * 0.4);
    let arms = [
        (-b, -a),
        (b, -a),
        (b, -b),
        (a, -b),
        (a, b),
        (b, b),
        (b, a),
        (-b, a),
        (-b, b),
        (-a, b),
        (-a, -b),
        (-b, -b),
    ];
    let turn = |(dx, dy): (f64, f64)| {
        let half = std::f64::consts::FRAC_1_SQRT_2;
        if diagonal { (half * (dx - dy), half * (dx + dy)) } else { (dx, dy) }
    };
    let corners: Vec<String> =
        arms.into_iter().map(turn).map(|(dx, dy)| format!("{:.1} {:.1}", x + dx, y + dy)).collect();
    format!("M{}Z", corners.join("L"))
}

/// About five round steps from zero.
pub fn steps(high: f64) -> Vec<f64> {
    let rough = high / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough);
    let step = step.unwrap_or(power * 10.0);
    (0..20).map(|index| f64::from(index) * step).take_while(|value| *value <= high).collect()
}

/// One, two and five of every decade; finer where that would be fewer than four.
pub fn steps_log(low: f64, high: f64) -> Vec<f64> {
    let among = |factors: &[f64]| -> Vec<f64> {
        let first = low.log10().floor() as i32;
        let decades = (first..first + 12).map(|decade| 10f64.powi(decade));
        let all = decades.flat_map(|decade| factors.iter().map(move |factor| factor * decade));
        all.filter(|value| (low..=high).contains(value)).collect()
    };
    let coarse = among(&[1.0, 2.0, 5.0]);
    if coarse.len() < 4 { among(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]) } else { coarse }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::LegendEntry;

    #[test]
    fn axes_have_round_steps() {
        assert_eq!(steps(130.0), [0.0, 50.0, 100.0]);
        assert_eq!(steps(2500.0), [0.0, 500.0, 1000.0, 1500.0, 2000.0, 2500.0]);
        assert_eq!(steps_log(1.6, 60.0), [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(steps_log(3.5, 12.0), [4.0, 5.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn text_cannot_leave_its_element() {
        let line = LegendEntry { name: "<a href='x'>&\"", key: html! {} };
        let legend = crate::figure::legend(std::iter::once(line));
        let safe = "&lt;a href='x'&gt;&amp;&quot;";
        let legend = legend.into_string();
        assert_eq!(
            legend,
            format!("<ul class=\"legend\"><li data-line=\"{safe}\">{safe}</li></ul>")
        );
        let page = crate::html::document("\u{1}", &html! {});
        assert!(page.contains("gigae: \u{fffd}<"), "{page}");
    }

    #[test]
    fn a_figure_of_one_point_stays_within_its_bounds() {
        let point = SvgPoint { size: 8.0, value: 5.0, low: 4.0, high: 6.0, tip: "t".into() };
        let lines = vec![SvgLine { name: "n".into(), style: 0, points: vec![point] }];
        let chart = Chart {
            title: "t".into(),
            unit: "us".into(),
            log: true,
            across: SIZES,
            level: None,
            mark: None,
            lines,
        };
        let svg = chart.svg(&[]).into_string();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
        assert!(svg.contains(&format!("<polyline points=\"{middle:.1},")), "{svg}");
    }

    #[test]
    fn names_of_lines_that_end_together_do_not_cover_each_other() {
        let line = |style| {
            let point = SvgPoint { size: 8.0, value: 5.0, low: 5.0, high: 5.0, tip: String::new() };
            SvgLine { name: format!("n{style}"), style, points: vec![point] }
        };
        let lines = (0..5).map(line).collect();
        let svg = Chart {
            title: String::new(),
            unit: String::new(),
            log: false,
            across: SIZES,
            level: None,
            mark: None,
            lines,
        }
        .svg(&[])
        .into_string();
        let mut heights: Vec<f64> = svg
            .split("<text class=\"name")
            .skip(1)
            .map(|part| {
                part.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
            })
            .collect();
        heights.sort_by(f64::total_cmp);
        assert!(
            heights.windows(2).all(|pair| pair[1] - pair[0] >= NAME_HEIGHT - 0.2),
            "{heights:?}"
        );
    }
}
