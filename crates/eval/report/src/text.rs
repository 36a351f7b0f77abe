//! The results as text for a terminal: at most 100 columns.

use crate::tables::{self};
use crate::{
    asked, cores, files, found, incast, machine, mounts, programs, ratios, shares, sweeps, tuning,
};
use gigae_eval_model::results::Results;
use gigae_eval_page::table::NamedValue;
use gigae_eval_page::text::{WIDTH, hanging, heading, plain_table, wrapped};
use std::fmt::Write;

/// A doubt is listed with this many figures; the reports have them all.
const EXAMPLES: usize = 3;

/// The results as text of at most 100 columns.
pub fn summary(results: &Results, bold: bool) -> String {
    let mut text = String::new();
    let mut all = tables::figure_tables(results);
    all.extend(sweeps::load_table(results));
    all.extend(sweeps::buffer_tables(results));
    all.extend(programs::table(results));
    all.extend(files::tables(results));
    all.extend(mounts::tables(results));
    all.extend(incast::table(results));
    all.extend(shares::table(results));
    all.extend(cores::table(results));
    all.extend(ratios::row_table(results, false));
    all.extend(ratios::memory_table(results));
    all.extend(found::fit_table(results));
    all.extend(tables::limit_table(results));
    all.extend(ratios::loss_table(results));
    all.extend(ratios::cpu_table(results));
    all.extend(ratios::idle_table(results));
    all.extend(tables::beside_table(results));
    all.push(tables::cost_table(results));
    all.extend(tables::call_table(results));
    all.extend(tables::train_table(results));
    all.push(tables::ratio_table(results));
    all.extend(found::paper_table(results));
    all.extend(machine::nic_table(results));
    all.extend(tuning::trial_tables(results));
    let ladder = machine::ladders(results);
    let inventory = ladder.is_some().then(|| inventory(results, bold));
    all.extend(ladder);
    for table in all.iter().filter(|table| !table.rows.is_empty()) {
        text += &plain_table(table, bold);
        text.push('\n');
    }
    text += &inventory.unwrap_or_default();
    text += &doubts(results, bold);
    text += &findings(results, bold);
    for (title, lines) in tuning::commands(results) {
        text += &heading(&title, bold);
        for line in lines.lines() {
            let _ = writeln!(text, "  {line}");
        }
        text.push('\n');
    }
    text + &figures(results, bold)
}

/// Both ends, a line for each that they have in common.
fn inventory(results: &Results, bold: bool) -> String {
    let mut text = String::new();
    for table in machine::inventory(results) {
        text += &heading(&table.title, bold);
        for row in &table.rows {
            let (name, here, there) = (&row[0], &row[1], &row[2]);
            if here == there {
                hanging(&format!("{name}: {here}"), &mut text);
            } else {
                hanging(&format!("{name}: {here}; at the answering end: {there}"), &mut text);
            }
        }
        text.push('\n');
    }
    text
}

/// What follows, and what papers said; empty if nothing does.
fn findings(results: &Results, bold: bool) -> String {
    let findings = found::findings(results);
    if findings.is_empty() {
        return String::new();
    }
    let mut text = heading(found::TITLE, bold);
    hanging(found::NOTE, &mut text);
    for finding in findings {
        finding.here.iter().for_each(|sentence| hanging(sentence, &mut text));
        finding
            .there
            .iter()
            .for_each(|sentence| hanging(&format!("Before: {sentence}"), &mut text));
    }
    text.push('\n');
    text
}

/// The plan's figures with what belongs to them; empty if it asks for none.
pub fn figures(results: &Results, bold: bool) -> String {
    let Some(table) = asked::table(results, false) else { return String::new() };
    let mut text = plain_table(&table, bold);
    for remark in asked::remarks(results) {
        hanging(&remark, &mut text);
    }
    text.push('\n');
    text
}

/// The conditions under which the figures hold.
pub fn conditions(results: &Results, bold: bool) -> String {
    let mut text = heading("Conditions", bold);
    for NamedValue { name, value } in asked::conditions(results) {
        hanging(&format!("{name}: {value}"), &mut text);
    }
    text.push('\n');
    text
}

fn doubts(results: &Results, bold: bool) -> String {
    let mut text = String::new();
    let doubts = tables::doubts(results);
    if !doubts.is_empty() {
        text += &heading("Doubts", bold);
        for (doubt, about) in doubts {
            for line in wrapped(&doubt, WIDTH - 2) {
                let _ = writeln!(text, "{line}");
            }
            for figure in about.iter().take(EXAMPLES) {
                for line in wrapped(figure, WIDTH - 6) {
                    let _ = writeln!(text, "    {line}");
                }
            }
            if about.len() > EXAMPLES {
                let _ = writeln!(text, "    and {} more", about.len() - EXAMPLES);
            }
        }
        text.push('\n');
    }
    text
}
