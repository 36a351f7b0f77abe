//! The lab's results as tables in Markdown.

use super::files;
use super::findings::findings;
use super::record::{LabRecord, Run};
use gigae_eval_model::plan::{Experiment, Wait};
use std::fmt::Write as _;

/// A whole page: the table of cards, and what was wrong.
pub fn page(record: &LabRecord) -> String {
    let mut text = format!(
        "Measured {}, QEMU {}, gigae {}. Round trips of 8 bytes in microseconds of the guest.\n\n{}",
        record.date,
        record.qemu,
        record.gigae,
        table(record)
    );
    for table in files::tables(record) {
        text.push('\n');
        gigae_eval_page::markdown::table(&table, &mut text);
    }
    for sentence in findings(record) {
        let _ = writeln!(text, "\n- {sentence}");
    }
    for (cards, why) in left_out(record) {
        let _ = writeln!(text, "\n- {cards}: conformance was left out, since {why}.");
    }
    for run in &record.runs {
        for fault in run.faults() {
            let _ =
                writeln!(text, "\n- {} ({}; {}): {fault}", run.model, kernel(run), conditions(run));
        }
    }
    text
}

/// Cards in rows.
pub fn table(record: &LabRecord) -> String {
    let mut text = String::from(
        "| card | driver | kernel | CPUs, MiB, interrupts | mode | conformance | messages | lost (packet) | spin: gigae | tcp | tcp / gigae | sleep: tcp / gigae |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for run in &record.runs {
        let cells = [
            run.model.clone(),
            run.booted.as_ref().map_or_else(String::new, |booted| booted.driver.clone()),
            kernel(run),
            conditions(run),
            run.chosen()
                .map_or_else(String::new, |opened| opened.mode.clone().unwrap_or("none".into())),
            conformance(run),
            messages(run),
            match (run.lost("auto"), run.lost("packet")) {
                (Some(ours), Some(packet)) => format!("{ours} ({packet})"),
                _ => String::new(),
            },
            number(run.median(Experiment::Rtt, "gigae", Wait::Spin, 8), 1),
            number(run.median(Experiment::Rtt, "tcp", Wait::Spin, 8), 1),
            number(run.ratio(Wait::Spin, 8), 2),
            number(run.ratio(Wait::Sleep, 8), 2),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// For which cards the conformance suite was left out, by the reason.
pub(super) fn left_out(record: &LabRecord) -> Vec<(String, &str)> {
    let mut all: Vec<(String, &str)> = Vec::new();
    for run in &record.runs {
        let Some(why) = &run.left_out else { continue };
        match all.iter_mut().find(|(_, reason)| reason == why) {
            Some((cards, _)) => *cards = format!("{cards}, {}", run.model),
            None => all.push((run.model.clone(), why)),
        }
    }
    all
}

/// The release of the kernel that booted.
pub(super) fn kernel(run: &Run) -> String {
    run.booted.as_ref().map_or_else(|| run.suite.clone(), |booted| booted.kernel.clone())
}

pub(super) fn conditions(run: &Run) -> String {
    let interrupts = format!("{:?}", run.interrupts).to_lowercase();
    format!("{}, {}, {interrupts}", run.cpus, run.memory)
}

/// Tests that passed, of all that were run.
pub(super) fn conformance(run: &Run) -> String {
    let passed: u32 = run.passed.iter().map(|(_, count)| count).sum();
    match passed as usize + run.failed.len() {
        0 if run.left_out.is_some() => "left out".into(),
        0 => String::new(),
        all => format!("{passed} of {all}"),
    }
}

/// Messages that arrived as they were sent, in exchanges that went well.
pub(super) fn messages(run: &Run) -> String {
    let well = run.exchanges.iter().filter(|exchange| exchange.failure.is_none());
    match (run.exchanges.len(), well.map(|exchange| exchange.messages).sum::<u64>()) {
        (0, _) => String::new(),
        (_, messages) => messages.to_string(),
    }
}

pub(super) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(String::new, |value| format!("{value:.digits$}"))
}
