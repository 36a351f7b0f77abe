//! The tables of all reports.

use super::conditions::{class_name, name};
use crate::plan::RandomPlan;
use crate::results::{Cell, Class, Results, Run, Spread, Tier};
use crate::workload::Workload;
use gigae_eval_model::number::{exact, grouped, short, tenths};
use gigae_eval_page::table::Table;

/// The first column of all tables.
const WHAT: &str = "workload, protocol";

/// The column of frames that found no room.
const DROPPED: &str = "dropped";

/// Lengths of a full frame, for queues.
const FRAME: f64 = 1_518.0;

/// All tables that have rows.
pub(super) fn tables(results: &Results) -> Vec<Table> {
    let all = [
        slowdowns(results, "Slowdown, 99th percentile", |class| class.p99, true),
        slowdowns(results, "Slowdown, median", |class| class.p50, false),
        messages(results),
        patterns(results),
        frames(results),
        queues(results),
    ];
    let all = all.into_iter().filter(|table| !table.rows.is_empty());
    all.map(without_empty_columns).collect()
}

/// Leaves out columns in which nothing is said.
fn without_empty_columns(table: Table) -> Table {
    let says =
        |column: &usize| table.rows.iter().any(|row| !matches!(row[*column].as_str(), "-" | "0"));
    // What was dropped is said even if nothing was.
    let keeps = |column: &usize| says(column) || table.header[*column] == DROPPED;
    let columns: Vec<usize> = (0..table.header.len()).filter(keeps).collect();
    let pick = |row: &[String]| columns.iter().map(|column| row[*column].clone()).collect();
    let (header, rows) = (pick(&table.header), table.rows.iter().map(|row| pick(row)).collect());
    Table { header, rows, ..table }
}

/// Cells with a run.
fn finished(results: &Results) -> impl Iterator<Item = &Cell> {
    results.cells.iter().filter(|cell| !cell.runs.is_empty())
}

/// The workloads of random messages, each with its finished cells.
pub(super) fn random(results: &Results) -> Vec<(RandomPlan, String, Vec<&Cell>)> {
    let workloads = results.plan.workloads();
    let cells = workloads.into_iter().filter_map(|workload| {
        let label = workload.label();
        let Workload::Random(plan) = workload else { return None };
        let cells: Vec<&Cell> = finished(results).filter(|cell| cell.workload == label).collect();
        Some((plan, label, cells))
    });
    cells.filter(|(.., cells)| !cells.is_empty()).collect()
}

/// A figure with the range of its runs.
fn spread(spread: Option<Spread>, format: impl Fn(f64) -> String) -> String {
    let Some(Spread { median, low, high }) = spread else { return "-".into() };
    match low < high {
        true => format!("{} ({} to {})", format(median), format(low), format(high)),
        false => format(median),
    }
}

fn count(value: f64) -> String {
    grouped(value.round() as u64, ",")
}

/// What the figures of several runs are.
fn seeds(results: &Results) -> &'static str {
    match results.cells.iter().any(|cell| cell.wanted > 1) {
        true => " Of several seeds: the median, and in brackets the range.",
        false => "",
    }
}

fn slowdowns(
    results: &Results,
    title: &str,
    figure: impl Fn(&Class) -> Option<f64>,
    with_published: bool,
) -> Table {
    let random = random(results);
    let has_short = random.iter().any(|(plan, ..)| plan.short.is_some());
    let mut table = Table {
        title: title.into(),
        note: format!(
            "Time of a message over that on an idle network, by bytes of the message.{}",
            seeds(results)
        ),
        header: vec![WHAT.into()],
        rows: Vec::new(),
    };
    for (plan, label, cells) in random {
        if let Some(run) = cells.first().and_then(|cell| cell.runs.first())
            && table.header.len() == 1
        {
            table.header.extend(run.slowdown.iter().map(class_name));
            if has_short {
                table.header.push("short".into());
            }
        }
        for cell in cells {
            let classes = 0..table.header.len() - 1 - usize::from(has_short);
            let mut row = vec![name(cell)];
            row.extend(classes.map(|class| {
                let value = cell.over(|run| figure(run.slowdown.get(class)?));
                spread(value, short)
            }));
            if has_short {
                row.push(spread(cell.over(|run| figure(run.short.as_ref()?)), short));
            }
            table.rows.push(row);
        }
        for published in plan.published.iter().filter(|_| with_published) {
            let mut row = vec![format!("{label}, {} (published)", published.source)];
            row.extend((0..4).map(|class| {
                published.p99.map_or_else(|| "-".into(), |figures| short(figures[class]))
            }));
            if has_short {
                row.push(published.short_p99.map_or_else(|| "-".into(), short));
            }
            table.rows.push(row);
        }
    }
    table
}

fn messages(results: &Results) -> Table {
    let mut table = Table {
        title: "Messages".into(),
        note: "Messages that count in the slowdowns of a run, by their bytes.".into(),
        header: vec![WHAT.into()],
        rows: Vec::new(),
    };
    for (_, _, cells) in random(results) {
        for cell in cells {
            let classes = cell.runs.first().map_or(&[][..], |run| &run.slowdown);
            if table.header.len() == 1 {
                table.header.extend(classes.iter().map(class_name));
            }
            let figure = |class: usize| {
                move |run: &Run| run.slowdown.get(class).map(|class| class.count as f64)
            };
            let counts = (0..classes.len()).map(|class| spread(cell.over(figure(class)), count));
            table.rows.push(std::iter::once(name(cell)).chain(counts).collect());
        }
    }
    table
}

fn patterns(results: &Results) -> Table {
    let header = [WHAT, "time in us", "time / ideal", "fairness"];
    let mut table = Table {
        title: "Patterns".into(),
        note: format!(
            "From the start until the last message has arrived. Fairness is Jain's index of the \
             senders' rates: 1 if all are equal.{}",
            seeds(results)
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    let patterns =
        finished(results).filter(|cell| cell.runs.iter().any(|run| run.ideal_us.is_some()));
    for cell in patterns {
        table.rows.push(vec![
            name(cell),
            spread(cell.over(|run| run.completion_us), |time| grouped(time.round() as u64, ",")),
            spread(cell.over(over_ideal), exact),
            spread(cell.over(|run| run.fairness), exact),
        ]);
    }
    table
}

/// The time of a pattern over its ideal.
pub(super) fn over_ideal(run: &Run) -> Option<f64> {
    Some(run.completion_us? / run.ideal_us?)
}

fn frames(results: &Results) -> Table {
    let header = [
        WHAT,
        "goodput",
        "offered",
        "frames sent",
        DROPPED,
        "dropped later",
        "lost",
        "marked",
        "unfinished",
    ];
    let mut table = Table {
        title: "Goodput and frames".into(),
        note: format!(
            "Goodput and offered bytes over what the hosts' links carry. Dropped: no room in a \
             switch; later: after the first round trip. Lost: by a link. Unfinished: messages.{}",
            seeds(results)
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    for cell in finished(results) {
        let counted =
            |figure: fn(&Run) -> u64| spread(cell.over(|run| Some(figure(run) as f64)), count);
        table.rows.push(vec![
            name(cell),
            spread(cell.over(|run| run.goodput), tenths),
            spread(cell.over(|run| run.offered), tenths),
            counted(|run| run.frames.sent),
            counted(|run| run.frames.dropped),
            counted(|run| run.frames.dropped_later),
            counted(|run| run.frames.lost),
            counted(|run| run.frames.marked),
            counted(|run| run.unfinished + run.not_begun),
        ]);
    }
    table
}

fn queues(results: &Results) -> Table {
    let header = [WHAT, "mean", "mean, fullest", "p99, fullest", "most", "fullest"];
    let mut table = Table {
        title: "Queues".into(),
        note: format!(
            "Frames of 1,518 B that ports of switches held: the mean of all ports of the tier over \
             time, that of the port with the greatest mean, what that port held at most in 99 % of \
             the time, and the most that any port held. Fullest: that port, if all seeds have the \
             same.{}",
            seeds(results)
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: Vec::new(),
    };
    for cell in finished(results) {
        let tiers = cell.runs.first().map_or(&[][..], |run| &run.queues);
        for (number, tier) in tiers.iter().enumerate() {
            let over = |figure: fn(&Tier) -> f64| {
                let value = cell.over(|run| Some(figure(run.queues.get(number)?) / FRAME));
                spread(value, short)
            };
            let is_same = |run: &Run| {
                run.queues.get(number).is_some_and(|other| other.fullest == tier.fullest)
            };
            let fullest = match cell.runs.iter().all(is_same) {
                true => tier.fullest.clone(),
                false => "-".into(),
            };
            table.rows.push(vec![
                match tiers.len() {
                    1 => name(cell),
                    _ => format!("{}, {}", name(cell), tier.tier),
                },
                over(|tier| tier.mean),
                over(|tier| tier.fullest_mean),
                over(|tier| tier.fullest_p99 as f64),
                over(|tier| tier.most as f64),
                fullest,
            ]);
        }
    }
    table
}
