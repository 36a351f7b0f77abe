//! What follows from the lab's results, in sentences by fixed rules, beside what the papers found.

use super::markdown::{kernel, number};
use super::record::{LabRecord, Run};
use crate::job::Interrupts;
use gigae_eval_model::plan::{Experiment, Wait};

/// Less than this is not a difference: a run differs from the next by about as much.
const SAME: f64 = 0.05;

/// The memory of a run that is compared with others, in MiB.
const USUAL: u32 = 512;

/// What the evaluation of Gigabit Ethernet NICs (Sumimoto et al., 1999; sections 3.3 and 3.5) found
/// on one processor and two.
const PAPER_CPUS: &str = "In 1999, TCP over a G-NIC II carried 49.5 MB/s on one CPU and 30.9 MB/s on two, and answered 4 bytes in 270.3 us on one and 295.0 us on two.";

/// And with the interrupts no longer spread (section 3.3).
const PAPER_INTERRUPTS: &str = "In 1999 it carried 30.9 MB/s with interrupts spread over both CPUs and 41.0 MB/s with all on one.";

/// All sentences that the results allow.
pub fn findings(record: &LabRecord) -> Vec<String> {
    let mut found = Vec::new();
    for run in record.runs.iter().filter(|run| is_usual(run) && !run.figures.is_empty()) {
        let others = || record.runs.iter().filter(|other| is_of(other, run));
        if run.cpus > 1 {
            found.extend(cpus(run, others().find(|other| is_usual(other) && other.cpus == 1)));
        }
        let with = |interrupts| {
            others().find(move |other| other.cpus == run.cpus && other.interrupts == interrupts)
        };
        found.extend(interrupts(run, with(Interrupts::Other), with(Interrupts::First)));
        let less: Vec<&Run> = others()
            .filter(|other| (other.cpus, other.interrupts) == (run.cpus, run.interrupts))
            .filter(|other| other.memory < run.memory)
            .collect();
        found.extend(memory(run, &less));
    }
    found.extend(kernels(record));
    found
}

fn is_usual(run: &Run) -> bool {
    (run.memory, run.interrupts) == (USUAL, Interrupts::Own)
}

/// Another run of the same card under the same kernel.
fn is_of(other: &Run, run: &Run) -> bool {
    (&other.model, &other.package) == (&run.model, &run.package)
        && !std::ptr::eq(other, run)
        && !other.figures.is_empty()
}

fn trip(run: &Run, transport: &str) -> Option<f64> {
    run.median(Experiment::Rtt, transport, Wait::Sleep, 8)
}

fn stream(run: &Run, transport: &str) -> Option<f64> {
    run.median(Experiment::Stream, transport, Wait::Sleep, 1400)
}

/// Microseconds and MB/s, with the digits that the lab's tables and the papers have.
fn said(value: f64) -> String {
    number(Some(value), 1)
}

fn cpus(two: &Run, one: Option<&Run>) -> Option<String> {
    let one = one?;
    let (a, b) = (trip(one, "tcp")?, trip(two, "tcp")?);
    let (c, d) = (stream(one, "tcp")?, stream(two, "tcp")?);
    let (e, f) = (trip(one, "gigae")?, trip(two, "gigae")?);
    let verdict = match (b > a * (1.0 + SAME), d < c * (1.0 - SAME)) {
        (true, true) => "that one is better than two holds here, too",
        (true, false) => "that one answers sooner holds here, that it carries more does not",
        (false, true) => "that one carries more holds here, that it answers sooner does not",
        (false, false) => "neither holds here",
    };
    let [a, b, c, d, e, f] = [a, b, c, d, e, f].map(said);
    Some(format!(
        "{} ({}): TCP carries {c} MB/s on one CPU and {d} on two, and answers 8 bytes in {a} us on one and {b} on two (gigae {e} and {f}), all ends sleeping. {PAPER_CPUS} So {verdict}; but here both ends are in the one machine.",
        two.model,
        kernel(two)
    ))
}

fn interrupts(own: &Run, other: Option<&Run>, first: Option<&Run>) -> Option<String> {
    let (other, first) = (other?, first?);
    let rates = [stream(own, "tcp")?, stream(other, "tcp")?, stream(first, "tcp")?];
    let trips = [trip(own, "tcp")?, trip(other, "tcp")?, trip(first, "tcp")?];
    let gigae = [trip(own, "gigae")?, trip(other, "gigae")?, trip(first, "gigae")?];
    let matters = |of: &[f64; 3]| {
        let least = of.iter().copied().fold(f64::INFINITY, f64::min);
        of.iter().any(|value| *value > least * (1.0 + SAME))
    };
    let verdict = match matters(&rates) || matters(&trips) {
        true => "That it matters where they go holds here, too",
        false => "Here it does not matter",
    };
    let [rates, trips, gigae] = [rates, trips, gigae].map(|all| {
        let [own, other, first] = all.map(said);
        format!("{own}, {other} and {first}")
    });
    Some(format!(
        "{} ({}): with each card's interrupts at its end's CPU, at the other one, and all at the first, TCP carries {rates} MB/s and answers in {trips} us (gigae {gigae}). {PAPER_INTERRUPTS} {verdict}.",
        own.model,
        kernel(own)
    ))
}

fn memory(usual: &Run, less: &[&Run]) -> Option<String> {
    let all: Vec<(u32, f64)> = less
        .iter()
        .copied()
        .chain([usual])
        .filter_map(|run| Some((run.memory, trip(run, "tcp")?)))
        .collect();
    if all.len() < 2 {
        return None;
    }
    let least = all.iter().map(|(_, trip)| *trip).fold(f64::INFINITY, f64::min);
    let most = all.iter().map(|(_, trip)| *trip).fold(0.0, f64::max);
    let sizes: Vec<String> = all.iter().map(|(memory, _)| memory.to_string()).collect();
    let verdict = match most > least * (1.0 + SAME) {
        true => "It makes a difference",
        false => "It makes none beyond what runs differ by",
    };
    let (least, most) = (said(least), said(most));
    Some(format!(
        "{} ({}): with {} MiB of memory TCP answers in {least} to {most} us. {verdict}; the papers varied memory from 128 to 192 MB.",
        usual.model,
        kernel(usual),
        sizes.join(", ")
    ))
}

/// The same card under several kernels.
fn kernels(record: &LabRecord) -> Vec<String> {
    let mut found = Vec::new();
    let usual: Vec<&Run> =
        record.runs.iter().filter(|run| is_usual(run) && !run.figures.is_empty()).collect();
    for (i, first) in usual.iter().enumerate() {
        if usual[..i].iter().any(|before| before.model == first.model) {
            continue;
        }
        let same: Vec<String> = usual
            .iter()
            .filter(|run| run.model == first.model)
            .filter_map(|run| {
                let of = |transport| run.median(Experiment::Rtt, transport, Wait::Spin, 8);
                let [ours, tcp] = [of("gigae")?, of("tcp")?].map(said);
                let mode = run.chosen().and_then(|opened| opened.mode.clone()).unwrap_or_default();
                Some(format!("{}: gigae {ours} us ({mode}), TCP {tcp}", kernel(run)))
            })
            .collect();
        if same.len() > 1 {
            found.push(format!("{}, spinning, by kernel: {}.", first.model, same.join("; ")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::record::Figure;

    fn run(cpus: u32, tcp: f64, rate: f64) -> Run {
        let figure = |experiment, transport: &str, size, median| Figure {
            experiment,
            transport: transport.into(),
            wait: Wait::Sleep,
            size,
            median,
            range: [median; 2],
            sent: 1,
            frames: 1,
            interrupts: 1,
            calls: 1,
        };
        let figures = vec![
            figure(Experiment::Rtt, "tcp", 8, tcp),
            figure(Experiment::Rtt, "gigae", 8, tcp / 2.0),
            figure(Experiment::Stream, "tcp", 1400, rate),
        ];
        Run { model: "e1000".into(), cpus, memory: 512, figures, ..Run::default() }
    }

    #[test]
    fn one_processor_is_compared_with_two_as_in_the_paper() {
        let of = |one, two| findings(&LabRecord { runs: vec![two, one], ..LabRecord::default() });
        let found = of(run(1, 270.3, 49.5), run(2, 295.0, 30.9));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("one is better than two holds here, too"), "{found:?}");
        let found = of(run(1, 295.0, 30.0), run(2, 270.0, 49.0));
        assert!(found[0].contains("neither holds here"), "{found:?}");
    }

    #[test]
    fn memory_is_named_with_its_range() {
        let mut small = run(2, 100.0, 10.0);
        small.memory = 128;
        let found =
            findings(&LabRecord { runs: vec![run(2, 101.0, 10.0), small], ..LabRecord::default() });
        assert!(found[0].contains("128, 512 MiB") && found[0].contains("none beyond"), "{found:?}");
    }
}
