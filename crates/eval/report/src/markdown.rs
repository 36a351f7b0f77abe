//! `report.md`: the tables of the report as plain Markdown.

use super::html::METHOD;
use super::tables::{self};
use super::{
    asked, cores, files, found, incast, machine, mounts, programs, shares, sweeps, tuning,
};
use crate::ratios as compare;
use gigae_eval_model::results::Results;
use gigae_eval_page::markdown::{code, escape, method, names_and_values, table, to_repeat};
use std::fmt::Write;

/// The page.
pub fn page(results: &Results) -> String {
    let environment = &results.environment;
    let mut page = format!("# What this network gives\n\n{}\n\n", escape(&results.plan.about));
    let _ = writeln!(
        page,
        "{}, {}, Linux {}, {} ({}), MTU {}\n",
        escape(&environment.date),
        escape(&environment.cpu),
        escape(&environment.kernel),
        escape(&environment.nic),
        escape(&environment.driver),
        environment.mtu
    );
    findings(results, &mut page);
    for (title, lines) in tuning::commands(results) {
        let _ = writeln!(page, "{}:\n\n{}\n", escape(&title), code(lines.split('\n')));
    }
    if let Some(figures) = asked::table(results, true) {
        table(&figures, &mut page);
        names_and_values("Conditions", asked::conditions(results), &mut page);
    }
    let mut all = vec![tables::ratio_table(results)];
    all.extend(tuning::trial_tables(results));
    all.extend(tuning::knob_tables(results));
    all.extend(found::paper_table(results));
    all.extend(machine::nic_table(results));
    all.extend(compare::row_table(results, true));
    all.extend(compare::memory_table(results));
    all.extend(machine::ladders(results));
    all.extend(found::fit_table(results));
    all.extend(programs::table(results));
    all.extend(programs::meanings(results));
    all.extend(files::tables(results));
    all.extend(mounts::tables(results));
    all.extend(incast::table(results));
    all.extend(shares::table(results));
    all.extend(cores::table(results));
    all.extend(sweeps::load_table(results));
    all.extend(sweeps::buffer_tables(results));
    all.extend(tables::figure_tables(results));
    all.extend(tables::limit_table(results));
    all.extend(compare::loss_table(results));
    all.extend(compare::cpu_table(results));
    all.extend(compare::idle_table(results));
    all.extend(tables::beside_table(results));
    all.extend(tables::call_table(results));
    all.extend(tables::train_table(results));
    all.push(tables::cost_table(results));
    all.iter().filter(|table| !table.rows.is_empty()).for_each(|content| table(content, &mut page));
    doubts(results, &mut page);
    names_and_values("Environment", tables::environment_rows(results), &mut page);
    machine::inventory(results).iter().for_each(|content| table(content, &mut page));
    method(METHOD, &mut page);
    to_repeat(&environment.command, &mut page);
    page
}

fn findings(results: &Results, page: &mut String) {
    let findings = found::findings(results);
    if findings.is_empty() {
        return;
    }
    let _ = writeln!(page, "## {}\n\n{}\n", found::TITLE, found::NOTE);
    for finding in findings {
        let _ = writeln!(page, "- {}", escape(&finding.here.join(" ")));
        finding.there.iter().for_each(|sentence| {
            let _ = writeln!(page, "  - {}", escape(sentence));
        });
    }
    page.push('\n');
}

fn doubts(results: &Results, page: &mut String) {
    page.push_str("## Doubts\n\n");
    let doubts = tables::doubts(results);
    if doubts.is_empty() {
        page.push_str("None.\n");
    }
    for (doubt, figures) in doubts {
        let _ = writeln!(page, "- {}", escape(&doubt));
        figures.iter().for_each(|figure| {
            let _ = writeln!(page, "  - {}", escape(figure));
        });
    }
    page.push('\n');
}
