//! The network in words, what a reader must know to trust the figures, and how they come about.

use crate::plan::Plan;
use crate::results::{Cell, Class, Results};
use gigae_eval_model::number::{grouped, set_share, trimmed};
use std::fmt::Write;

/// How the figures come about.
pub(super) const METHOD: &[&str] = &[
    "Everything happens in virtual time, in whole picoseconds. Hosts, switches and links are models; \
     the page 'The network simulator' of the documents says what is modelled and what is not. The \
     same command gives the same figures on every machine.",
    "A slowdown is the time from the start of a message until it has arrived as a whole, over the \
     time that it takes on an idle network. With responses, it ends with the response. Messages of \
     the first tenth of the time and of the last one do not count.",
    "Goodput is the bytes of messages that arrived, without headers, over what the hosts' links carry \
     in full frames. The ideal time of an incast and of an all-to-all is that of its bytes with all \
     headers on a host's link; that of a ring is the time of its steps on an idle network.",
    "Published figures were measured or simulated by others, on other networks. The plan says where \
     they are from. Those of Homa are means of the 99th percentiles of each size, weighted by the \
     number of messages. Ours are percentiles of all messages of a class.",
];

/// Fewer messages give a percentile that rests on fewer than ten of them.
const FEW: u64 = 1_000;

/// The network in words.
pub(super) fn network(plan: &Plan) -> String {
    let network = &plan.network;
    let gbit = |mbit: u64| format!("{} Gbit/s", trimmed(mbit as f64 / 1e3));
    let micros = |ns: u64| format!("{} us", trimmed(ns as f64 / 1e3));
    let mut text = match (network.leaves, network.fixed_hosts()) {
        (Some(leaves), Some(hosts)) => {
            let spines = network.spines.unwrap_or(0);
            let core = network.core_rate_mbit.unwrap_or(network.rate_mbit);
            format!(
                "{hosts} hosts on {leaves} leaves and {spines} spines, {} in the core,",
                gbit(core)
            )
        }
        (_, Some(hosts)) => format!("{hosts} hosts on one switch,"),
        _ => "One switch with as many hosts as each workload needs,".into(),
    };
    let (delay, switch) = (micros(network.delay_ns), micros(network.switch_ns));
    let forwarding = if network.cut_through { "cut-through" } else { "store-and-forward" };
    let _ = write!(
        text,
        " {} to hosts, {delay} for each link, {switch} for each switch ({forwarding}), {} in a host.",
        gbit(network.rate_mbit),
        micros(network.turnaround_ns)
    );
    let bytes = |bytes| grouped(bytes, ",");
    text += &match (network.buffer, network.shared_buffer) {
        (Some(each), _) => format!(" Buffer: {} B for each port.", bytes(each)),
        (_, Some(all)) => {
            format!(" Buffer: {} B for all ports, alpha {}.", bytes(all), trimmed(network.alpha))
        }
        _ => " Buffer: unlimited.".into(),
    };
    if let Some(above) = network.mark_above {
        let _ = write!(text, " ECN marks above {} B.", bytes(above));
    }
    if network.loss > 0.0 {
        let _ = write!(text, " Links lose {} of the frames.", set_share(network.loss));
    }
    text
}

/// A workload with a protocol, in words.
pub(super) fn name(cell: &Cell) -> String {
    format!("{}, {}", cell.workload, cell.protocol)
}

/// What a reader must know to trust the figures.
pub(super) fn doubts(results: &Results) -> Vec<String> {
    let mut doubts = Vec::new();
    let (finished, wanted) = results.finished();
    if results.interrupted {
        doubts.push(format!("Interrupted: {finished} of {wanted} runs are finished."));
    }
    let mut own: Vec<&str> = Vec::new();
    for doubt in results.plan.protocols().iter().filter_map(|protocol| protocol.doubt()) {
        if !own.contains(&doubt) {
            own.push(doubt);
        }
    }
    doubts.extend(own.into_iter().map(str::to_owned));
    let limit = results.plan.limit_ms;
    for cell in &results.cells {
        let unfinished: u64 = cell.runs.iter().map(|run| run.unfinished).sum();
        let not_begun: u64 = cell.runs.iter().map(|run| run.not_begun).sum();
        let also = match not_begun {
            0 => String::new(),
            more => format!(", and {} had not begun", grouped(more, ",")),
        };
        if unfinished + not_begun > 0 {
            doubts.push(format!(
                "{}: {} messages had not arrived after {limit} ms of virtual time{also}. They have \
                 no slowdown{}; raise limit_ms.",
                name(cell),
                grouped(unfinished, ","),
                match cell.runs.iter().any(|run| run.goodput.is_none()) {
                    true => ", and a run without its end has no goodput",
                    false => "",
                }
            ));
        }
    }
    let mut short: Vec<u32> = Vec::new();
    for random in &results.plan.random {
        if random.published.iter().any(|published| published.short_p99.is_some()) {
            short.extend(random.short);
        }
    }
    short.sort_unstable();
    short.dedup();
    for bytes in short {
        doubts.push(format!(
            "Short messages are those below {} kB. That is our reading: we do not know which \
             lengths the published figures of short messages mean.",
            trimmed(f64::from(bytes) / 1e3)
        ));
    }
    let mut few: Vec<String> = results.cells.iter().filter_map(few).collect();
    few.dedup();
    if !few.is_empty() {
        doubts.push(format!(
            "A 99th percentile of fewer than {FEW} messages rests on fewer than ten of them: {}.",
            few.join("; ")
        ));
    }
    doubts
}

/// The classes of a workload with few messages.
fn few(cell: &Cell) -> Option<String> {
    let run = cell.runs.iter().find(|run| !run.slowdown.is_empty())?;
    let is_few = |class: &&Class| (1..FEW).contains(&class.count);
    let classes: Vec<String> = run.slowdown.iter().filter(is_few).map(class_name).collect();
    (!classes.is_empty()).then(|| format!("{} ({})", cell.workload, classes.join(", ")))
}

/// A class of lengths, in words.
pub(super) fn class_name(class: &Class) -> String {
    let kilo = |bytes: u32| trimmed(f64::from(bytes) / 1e3);
    match (class.from, class.to) {
        (0, Some(to)) => format!("<{} kB", kilo(to)),
        (from, Some(to)) => format!("{}-{} kB", kilo(from), kilo(to)),
        (from, None) => format!(">={} kB", kilo(from)),
    }
}
