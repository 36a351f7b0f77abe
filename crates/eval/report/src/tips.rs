//! What a point of a figure says when it is pointed at: the figure, its interval, its tail, its
//! cost, its doubts; a line each.

use gigae_eval_model::doubt::Code;
use gigae_eval_model::number::{percent, short};
use gigae_eval_model::results::Series;

/// The lines, with line breaks between them.
pub(super) fn of(series: &Series) -> String {
    let mut lines = vec![
        format!("{}, {} B: {} {}", series.label(), series.size, short(series.median), series.unit),
        format!("95 % interval {} to {}", short(series.ci95[0]), short(series.ci95[1])),
        tail(series),
        format!(
            "CPU: {} at the measuring end, {} at the answering",
            percent(series.cpu_local),
            percent(series.cpu_remote)
        ),
    ];
    lines.extend(per_message(series));
    let mut doubts: Vec<&str> = series.doubt_codes().map(Code::as_str).collect();
    doubts.sort_unstable();
    doubts.dedup();
    if !doubts.is_empty() {
        lines.push(format!("! doubts: {}", doubts.join(", ")));
    }
    lines.join("\n")
}

/// Of round trips the slow ones are the tail, of rates the low ones are of no percentile here.
fn tail(series: &Series) -> String {
    match series.experiment.is_trip() {
        true => {
            format!("p99 {}, p99.9 {}, of all samples", short(series.p99), short(series.p999))
        }
        false => format!("of all slices: median {}, p99 {}", short(series.p50), short(series.p99)),
    }
}

/// What a message costs the measuring end; `None` if none was sent.
fn per_message(series: &Series) -> Option<String> {
    let per = |count: u64| series.per_message(count as f64).map(short);
    let (calls, frames) = (per(series.syscalls)?, per(series.frames)?);
    Some(format!(
        "per message: {calls} calls, {frames} frames, {} interrupts",
        per(series.interrupts)?
    ))
}
