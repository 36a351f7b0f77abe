//! Heat maps of all pairs, which the page's second script draws on canvases.
//!
//! A map is a byte for each cell, row by row: from which host, to which host. 0 is a pair that was
//! not measured; 1 to 255 are steps of equal ratio from the least figure to the greatest one. So a
//! thousand hosts take a megabyte for a map, and the drawing is one copy of a picture.

use super::tables::title;
use crate::results::{ClusterResults, TransportResults};
use data_encoding::BASE64;
use gigae_eval_model::number::short;
use gigae_eval_page::figure::as_numbers;
use gigae_eval_page::table::Table;
use maud::{Markup, html};

/// Draws the maps.
pub(super) const SCRIPT: &str = include_str!("heat.js");

/// Up to so many hosts, the figures stand below the map as a table.
const AS_NUMBERS: usize = 16;

/// Steps of a figure.
const STEPS: f64 = 254.0;

/// A figure of pairs.
#[derive(Clone, Copy)]
struct Kind {
    what: &'static str,
    unit: &'static str,
    /// Whether less is better.
    less: bool,
    figure: fn(&TransportResults, usize, usize, usize) -> Option<f64>,
}

const KINDS: [Kind; 2] = [
    Kind { what: "median round trip", unit: "us", less: true, figure: TransportResults::trip },
    Kind { what: "stream", unit: "MB/s", less: false, figure: TransportResults::rate },
];

/// The maps of all transports, side by side and with one scale for each figure.
pub(super) fn maps(results: &ClusterResults) -> Markup {
    let names: Vec<&str> = results.hosts.iter().map(|host| host.name.as_str()).collect();
    let names = serde_json::to_string(&names).expect("names are texts");
    html! {
        div.figures.heats data-names=(names) {
            @for kind in KINDS {
                @let range = range(results, kind);
                @for one in &results.transports { (map(results, one, kind, range)) }
            }
        }
    }
}

/// The least and the greatest figure of all transports.
fn range(results: &ClusterResults, kind: Kind) -> Option<[f64; 2]> {
    let hosts = results.hosts.len();
    let pairs = || (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b)));
    let of = |one| {
        pairs().filter(|(a, b)| a != b).filter_map(move |(a, b)| (kind.figure)(one, hosts, a, b))
    };
    let all = results.transports.iter().flat_map(of).filter(|value| *value > 0.0);
    all.fold(None, |range: Option<[f64; 2]>, value| {
        let [low, high] = range.unwrap_or([value, value]);
        Some([low.min(value), high.max(value)])
    })
}

fn map(
    results: &ClusterResults,
    one: &TransportResults,
    kind: Kind,
    range: Option<[f64; 2]>,
) -> Markup {
    let (hosts, Kind { what, unit, less, .. }) = (results.hosts.len(), kind);
    let name = format!("{}: {what} in {unit}", title(one));
    let Some([low, high]) = range else { return html! {} };
    let value = |a: usize, b: usize| if a == b { None } else { (kind.figure)(one, hosts, a, b) };
    let cells: Vec<u8> = (0..hosts)
        .flat_map(|a| (0..hosts).map(move |b| (a, b)))
        .map(|(a, b)| value(a, b).map_or(0, |value| step(value, low, high)))
        .collect();
    let (light, dark) = if less { (low, high) } else { (high, low) };
    html! {
        figure.heat {
            figcaption { (name) }
            p.soft { "Row: from. Column: to. Light: " (short(light)) ", dark: " (short(dark)) ", grey: none." }
            canvas tabindex="0" role="img" aria-label=(name) data-cells=(BASE64.encode(&cells))
                data-low=(low) data-high=(high) data-unit=(unit) data-less=(less)
                width="1" height="1" { "The file results.csv has these figures." }
            p.soft.at aria-live="polite" { "Point at a cell, or use the arrow keys, to see its pair." }
            @if hosts <= AS_NUMBERS { (as_numbers(&numbers(results, &name, value))) }
        }
    }
}

/// The step of a figure, from 1 to 255.
fn step(value: f64, low: f64, high: f64) -> u8 {
    if value <= low || high <= low {
        return 1;
    }
    let share = (value / low).ln() / (high / low).ln();
    1 + (share * STEPS).round().clamp(0.0, STEPS) as u8
}

fn numbers(
    results: &ClusterResults,
    name: &str,
    value: impl Fn(usize, usize) -> Option<f64>,
) -> Table {
    let names = results.hosts.iter().map(|host| host.name.clone());
    let cells = |a: usize| {
        let value = &value;
        (0..results.hosts.len()).map(move |b| value(a, b).map_or_else(|| "-".into(), short))
    };
    Table {
        title: name.to_owned(),
        note: "Row: from. Column: to.".into(),
        header: std::iter::once("from".to_owned()).chain(names.clone()).collect(),
        rows: names
            .enumerate()
            .map(|(a, name)| std::iter::once(name).chain(cells(a)).collect())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::testing::synthetic;

    #[test]
    fn steps_go_from_the_least_to_the_greatest_in_equal_ratios() {
        assert_eq!([1.0, 10.0, 100.0].map(|value| step(value, 1.0, 100.0)), [1, 128, 255]);
        assert_eq!(step(5.0, 5.0, 5.0), 1);
        assert_eq!((step(0.0, 1.0, 9.0), step(99.0, 1.0, 9.0)), (1, 255));
    }

    #[test]
    fn a_map_has_a_byte_for_each_cell_and_none_for_a_host_with_itself() {
        let mut results = synthetic(3);
        results.transports.truncate(1);
        results.transports[0].forward = vec![Some(10.0), None, Some(1000.0)];
        results.transports[0].backward = vec![Some(100.0), Some(10.0), Some(10.0)];
        let kind = KINDS[1];
        let range = range(&results, kind);
        assert_eq!(range, Some([10.0, 1000.0]));
        let page = map(&results, &results.transports[0], kind, range).into_string();
        let cells = page.split("data-cells=\"").nth(1).unwrap().split('"').next().unwrap();
        let cells = BASE64.decode(cells.as_bytes()).unwrap();
        assert_eq!(cells, [0, 1, 0, 128, 0, 255, 1, 1, 0]);
        assert!(page.contains("Light: 1000, dark: 10.0"), "{page}");
    }

    #[test]
    fn all_maps_of_a_thousand_hosts_take_few_bytes() {
        let page = maps(&synthetic(1000)).into_string();
        assert_eq!(page.matches("<canvas").count(), 4);
        assert!(page.len() < 6_000_000, "{}", page.len());
    }
}
