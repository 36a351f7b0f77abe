//! What a person sees of a comparison at the terminal, in at most 100 columns.

use super::Comparison;
use crate::compared;
use gigae_eval_page::table::NamedValue;
use gigae_eval_page::text::{hanging, heading, plain_table};

/// The comparison: what is compared, what differs in the conditions, the figures, what follows.
pub fn text(comparison: &Comparison, bold: bool) -> String {
    let mut text = heading("Runs", bold);
    for NamedValue { name, value } in compared::sides(comparison) {
        hanging(&format!("{name}, {value}"), &mut text);
    }
    text.push('\n');
    text += &heading(compared::DIFFERS, bold);
    for NamedValue { name, value } in compared::conditions(comparison) {
        hanging(&format!("{name}: {value}"), &mut text);
    }
    text.push('\n');
    for against in &comparison.against {
        let tables = compared::figure_tables(comparison, against);
        let costs = compared::cost_tables(comparison, against, false);
        for table in tables.iter().chain(&costs) {
            text += &plain_table(table, bold);
            text.push('\n');
        }
    }
    let doubts = compared::all_doubts(comparison);
    if !doubts.is_empty() {
        text += &heading("Doubts", bold);
        doubts.iter().for_each(|doubt| hanging(doubt, &mut text));
        text.push('\n');
    }
    text += &heading(compared::FOLLOWS, bold);
    for against in &comparison.against {
        for sentence in compared::sentences(comparison, against) {
            hanging(&sentence, &mut text);
        }
    }
    text
}
