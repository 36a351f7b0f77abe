//! The points of all curves as comma-separated values (RFC 4180), for spreadsheets and scripts: a
//! line for each point, its columns named as in `results.json`.

use gigae_eval_model::access::{AccessFigure, AccessRate};
use gigae_eval_model::doubt::Doubt;
use gigae_eval_model::file_figure::FileFigure;
use gigae_eval_model::metadata::{MetadataFigure, OperationRate};
use gigae_eval_model::mount_figure::MountFigure;
use gigae_eval_model::program_figure::ProgramFigure;
use gigae_eval_model::results::{Results, Series};
use gigae_eval_model::shares::{FlowShare, SharesFigure, TripsBeside};

const COLUMNS: [&str; 26] = [
    "link",
    "experiment",
    "transport",
    "variant",
    "condition",
    "wait",
    "size",
    "unit",
    "median",
    "ci95_low",
    "ci95_high",
    "coverage",
    "p50",
    "p90",
    "p99",
    "p999",
    "min",
    "max",
    "mean",
    "n",
    "cpu_local",
    "cpu_remote",
    "sent",
    "lost",
    "limit",
    "doubts",
];

/// The text of `results.csv`: a header and a line for each point.
pub fn page(results: &Results) -> String {
    let mut text = COLUMNS.join(",") + "\r\n";
    for series in &results.series {
        let cells = cells(series).map(|cell| quoted(&cell));
        text += &cells.join(",");
        text += "\r\n";
    }
    for beside in &results.programs {
        for line in lines(beside) {
            text += &line.map(|cell| quoted(&cell)).join(",");
            text += "\r\n";
        }
    }
    for one in &results.files {
        text += &file_line(one).map(|cell| quoted(&cell)).join(",");
        text += "\r\n";
    }
    for one in &results.access {
        for side in one.sides() {
            text += &access_line(one, side).map(|cell| quoted(&cell)).join(",");
            text += "\r\n";
        }
    }
    for one in &results.metadata {
        for rate in &one.operations {
            text += &metadata_line(one, rate).map(|cell| quoted(&cell)).join(",");
            text += "\r\n";
        }
    }
    for one in &results.shares {
        for line in shares_lines(one) {
            text += &line.map(|cell| quoted(&cell)).join(",");
            text += "\r\n";
        }
    }
    for one in &results.mounts {
        text += &mount_line(one).map(|cell| quoted(&cell)).join(",");
        text += "\r\n";
    }
    text
}

/// Reads or writes within a file: the service is the transport, and the ground the experiment. The
/// percentiles are those of single operations, in us.
fn access_line(one: &AccessFigure, (word, side): (&str, &AccessRate)) -> [String; COLUMNS.len()] {
    let number = |value: f64| value.to_string();
    COLUMNS.map(|column| match column {
        "link" => one.link.clone(),
        "experiment" => one.ground.name().to_owned(),
        "transport" => one.cell.service.clone(),
        "variant" => word.to_owned(),
        "condition" => one.cell.title(),
        "size" => one.cell.block.to_string(),
        "unit" => one.unit.clone(),
        "median" => number(side.median),
        "ci95_low" => number(side.ci95[0]),
        "ci95_high" => number(side.ci95[1]),
        "coverage" => number(side.coverage),
        "p50" => number(side.latency.p50_us),
        "p99" => side.p99_us().map_or(String::new(), number),
        "p999" => side.p999_us().map_or(String::new(), number),
        "n" => side.repetitions.len().to_string(),
        "limit" => one.limit.map_or_else(String::new, number),
        "doubts" => one.doubts.iter().map(Doubt::to_string).collect::<Vec<_>>().join("; "),
        _ => String::new(),
    })
}

/// Flows that share a port: a line for all together, one for each flow, whose `limit` follows from
/// its share, and one for the round trips beside.
fn shares_lines(one: &SharesFigure) -> Vec<[String; COLUMNS.len()]> {
    let number = |value: f64| value.to_string();
    let limit = |goodput: f64, share: Option<f64>| {
        share.filter(|share| *share > 0.0).map_or(String::new(), |share| number(goodput / share))
    };
    let all = COLUMNS.map(|column| match column {
        "transport" => one.cell.mix(),
        "median" => number(one.median),
        "ci95_low" => number(one.ci95[0]),
        "ci95_high" => number(one.ci95[1]),
        "coverage" => number(one.coverage),
        "n" => one.repetitions.len().to_string(),
        "sent" => (one.switch_frames + one.switch_dropped).to_string(),
        "lost" => one.switch_dropped.to_string(),
        "limit" => limit(one.median, one.share),
        "doubts" => one.doubts.iter().map(Doubt::to_string).collect::<Vec<_>>().join("; "),
        _ => shared_cell(one, column),
    });
    let flow = |flow: &FlowShare| {
        COLUMNS.map(|column| match column {
            "transport" => flow.transport.clone(),
            "variant" => flow.variant.clone().unwrap_or_default(),
            "condition" => format!("{}, node {}", one.cell.title(), flow.node),
            "median" => number(flow.goodput),
            "n" => one.repetitions.len().to_string(),
            "limit" => limit(flow.goodput, flow.share),
            _ => shared_cell(one, column),
        })
    };
    let trips = |trips: &TripsBeside| {
        COLUMNS.map(|column| match column {
            "transport" => trips.transport.clone(),
            "variant" => trips.variant.clone().unwrap_or_default(),
            "condition" => format!("{}, round trips beside", one.cell.title()),
            "size" => "8".to_owned(),
            "unit" => "us".to_owned(),
            "median" | "p50" => number(trips.p50_us),
            "p99" => trips.p99_us.map_or(String::new(), number),
            "n" => trips.n.to_string(),
            _ => shared_cell(one, column),
        })
    };
    let each = one.flows.iter().map(flow).chain(one.trips.iter().map(trips));
    std::iter::once(all).chain(each).collect()
}

/// What all lines of a mix of flows have in common.
fn shared_cell(one: &SharesFigure, column: &str) -> String {
    match column {
        "link" => one.link.clone(),
        "experiment" => "shares".to_owned(),
        "condition" => one.cell.title(),
        "wait" => "sleep".to_owned(),
        "size" => one.cell.size.to_string(),
        "unit" => one.unit.clone(),
        _ => String::new(),
    }
}

/// An operation on names: the service is the transport, and the ground the experiment. The
/// percentiles are times in microseconds.
fn metadata_line(one: &MetadataFigure, rate: &OperationRate) -> [String; COLUMNS.len()] {
    let number = |value: f64| value.to_string();
    COLUMNS.map(|column| match column {
        "link" => one.link.clone(),
        "experiment" => one.ground.name().to_owned(),
        "transport" => one.cell.service.clone(),
        "variant" => rate.operation.name().to_owned(),
        "condition" => one.cell.title(),
        "size" => "0".to_owned(),
        "unit" => one.unit.clone(),
        "median" => number(rate.median),
        "ci95_low" => number(rate.ci95[0]),
        "ci95_high" => number(rate.ci95[1]),
        "coverage" => number(rate.coverage),
        "p50" => number(rate.p50_us),
        "p99" => rate.p99().map_or_else(String::new, number),
        "n" => rate.repetitions.len().to_string(),
        "doubts" => one.doubts.iter().map(Doubt::to_string).collect::<Vec<_>>().join("; "),
        _ => String::new(),
    })
}

/// A file service: the service is the transport, and the ground the experiment.
fn file_line(one: &FileFigure) -> [String; COLUMNS.len()] {
    let number = |value: f64| value.to_string();
    let end = |index: usize| one.ci95.map_or_else(String::new, |ends| number(ends[index]));
    COLUMNS.map(|column| match column {
        "link" => one.link.clone(),
        "experiment" => one.ground.name().to_owned(),
        "transport" => one.cell.service.clone(),
        "condition" => one.cell.title(),
        "size" => one.cell.size.to_string(),
        "unit" => one.unit.clone(),
        "median" => one.median.map_or_else(String::new, number),
        "ci95_low" => end(0),
        "ci95_high" => end(1),
        "coverage" => number(one.coverage),
        "n" => one.repetitions.len().to_string(),
        "limit" => one.limit.map_or_else(String::new, number),
        "doubts" => one.doubts.iter().map(Doubt::to_string).collect::<Vec<_>>().join("; "),
        _ => String::new(),
    })
}

/// A figure of a mounted file system: the program is the transport, its figure the variant.
fn mount_line(one: &MountFigure) -> [String; COLUMNS.len()] {
    let number = |value: f64| value.to_string();
    let end = |ends: Option<[f64; 2]>, index: usize| {
        ends.map_or_else(String::new, |ends| number(ends[index]))
    };
    COLUMNS.map(|column| match column {
        "link" => one.link.clone(),
        "experiment" => one.ground.name().to_owned(),
        "transport" => one.cell.test.program().to_owned(),
        "variant" => one.what.clone(),
        "condition" => one.cell.title(),
        "unit" => one.unit.clone(),
        "median" => number(one.median),
        "ci95_low" => end(one.ci95, 0),
        "ci95_high" => end(one.ci95, 1),
        "min" => end(one.range, 0),
        "max" => end(one.range, 1),
        "n" => one.repetitions.len().to_string(),
        "doubts" => one.doubts.iter().map(Doubt::to_string).collect::<Vec<_>>().join("; "),
        _ => String::new(),
    })
}

/// A comparison of ours with another program: two lines. The second names the program as its
/// transport. Both give the number of pairs.
fn lines(beside: &ProgramFigure) -> [[String; COLUMNS.len()]; 2] {
    let line = |transport: &str, variant: String, median: f64| {
        let cell = |column: &str| match column {
            "link" => beside.link.clone(),
            "experiment" => beside.experiment.name().to_owned(),
            "transport" => transport.to_owned(),
            "variant" => variant.clone(),
            "wait" => "sleep".to_owned(),
            "size" => beside.size.to_string(),
            "unit" => beside.unit.clone(),
            "median" => median.to_string(),
            "n" => beside.pairs.len().to_string(),
            _ => String::new(),
        };
        COLUMNS.map(cell)
    };
    [
        line(&beside.transport, format!("beside {}", beside.program), beside.ours),
        line(&beside.program, beside.transport.clone(), beside.theirs),
    ]
}

fn cells(series: &Series) -> [String; COLUMNS.len()] {
    let number = |value: f64| value.to_string();
    [
        series.link.clone(),
        series.experiment.name().to_owned(),
        series.transport.clone(),
        series.variant.clone().unwrap_or_default(),
        series.condition.words(),
        series.wait.name().to_owned(),
        series.size.to_string(),
        series.unit.clone(),
        number(series.median),
        number(series.ci95[0]),
        number(series.ci95[1]),
        number(series.coverage),
        number(series.p50),
        number(series.p90),
        number(series.p99),
        number(series.p999),
        number(series.min),
        number(series.max),
        number(series.mean),
        series.n.to_string(),
        number(series.cpu_local),
        number(series.cpu_remote),
        series.sent.to_string(),
        series.lost.to_string(),
        series.limit.map_or_else(String::new, number),
        series.doubts.iter().map(Doubt::to_string).collect::<Vec<_>>().join("; "),
    ]
}

/// A cell in quotes where it must be. Texts that a spreadsheet would take for a formula are not: a
/// quotation mark before them keeps them texts.
pub(super) fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err();
    let cell = if formula { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::testing;

    #[test]
    fn cells_that_would_end_early_are_quoted_and_formulas_stay_text() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(quoted("=1+1"), "'=1+1");
        assert_eq!(quoted("-1.5"), "-1.5");
    }

    #[test]
    fn every_point_has_a_line_and_every_line_all_columns() {
        let results = testing::first();
        let page = page(&results);
        assert_eq!(page.lines().count(), 1 + results.series.len());
        for line in page.lines() {
            let outside = line.split('"').step_by(2);
            let commas: usize = outside.map(|part| part.matches(',').count()).sum();
            assert_eq!(commas, COLUMNS.len() - 1, "{line}");
        }
        let first = &results.series[0];
        let start = format!("{},{},{},", first.link, first.experiment.name(), first.transport);
        assert!(page.lines().nth(1).unwrap().starts_with(&start), "{page}");
    }

    /// By what a script finds a line again.
    #[test]
    fn no_two_points_have_the_same_key() {
        let page = page(&testing::second());
        let unit = COLUMNS.iter().position(|column| *column == "unit").unwrap();
        let key = |line: &str| line.split(',').take(unit).map(str::to_owned).collect::<Vec<_>>();
        let mut keys: Vec<_> = page.lines().map(key).collect();
        let all = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all, "{page}");
    }
}
