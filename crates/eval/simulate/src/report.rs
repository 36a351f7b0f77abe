//! Reports: text for a terminal, an HTML page and a Markdown page, from the results alone.

mod charts;
mod conditions;
mod tables;

use crate::results::Results;
use conditions::{METHOD, doubts, network};
use gigae_eval_page::html as parts;
use gigae_eval_page::markdown::{self, escape};
use gigae_eval_page::text::{hanging, heading, plain_table};
use maud::html;
use std::fmt::Write;

const TITLE: &str = "What a simulated network does";

/// For a terminal: at most 100 columns.
pub fn text(results: &Results, bold: bool) -> String {
    let plan = &results.plan;
    let mut text = heading(&format!("{}: {}", plan.name, plan.about), bold);
    hanging(&network(plan), &mut text);
    text.push('\n');
    for table in tables::tables(results) {
        text += &plain_table(&table, bold);
        text.push('\n');
    }
    let doubts = doubts(results);
    if !doubts.is_empty() {
        text += &heading("Doubts", bold);
        doubts.iter().for_each(|doubt| hanging(doubt, &mut text));
    }
    text
}

/// `simulation.html`.
pub fn html(results: &Results) -> String {
    let (plan, doubts) = (&results.plan, doubts(results));
    let content = html! {
        h1 { (TITLE) }
        p.lead { (plan.about) }
        p.soft { (network(plan)) " · gigae " (results.gigae) }
        @if !doubts.is_empty() {
            h2 { "Doubts" }
            ul { @for doubt in &doubts { li { (doubt) } } }
        }
        div.figures { @for figure in &charts::charts(results) { (figure) } }
        @for table in &tables::tables(results) { (parts::section(table)) }
        (parts::method(METHOD))
        (parts::to_repeat(&results.command))
    };
    parts::document(&plan.name, &content)
}

/// `simulation.md`.
pub fn markdown(results: &Results) -> String {
    let plan = &results.plan;
    let mut page = format!("# {TITLE}\n\n{}\n\n", escape(&plan.about));
    let _ = writeln!(page, "{} gigae {}.\n", escape(&network(plan)), escape(&results.gigae));
    tables::tables(results).iter().for_each(|table| markdown::table(table, &mut page));
    let doubts = doubts(results);
    if !doubts.is_empty() {
        page.push_str("## Doubts\n\n");
        for doubt in doubts {
            let _ = writeln!(page, "- {}", escape(&doubt));
        }
        page.push('\n');
    }
    markdown::method(METHOD, &mut page);
    markdown::to_repeat(&results.command, &mut page);
    page
}
