//! Other programs' figures beside ours.

use gigae_eval_model::number::{exact, percent, short};
use gigae_eval_model::program_figure::{AGREE, Agreement, ProgramFigure};
use gigae_eval_model::results::Results;
use gigae_eval_page::table::{MEANS, Table, words};

/// All comparisons; `None` if there are none.
pub fn table(results: &Results) -> Option<Table> {
    let rows: Vec<Vec<String>> = results.programs.iter().map(row).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Beside other programs".into(),
        note: format!(
            "Medians of pairs that were made in turns on the same link, with the same options of the sockets. Both ends \
             sleep while they wait, and are on the same CPUs. The ratio is the median of the pairs' own, ours over the program's, with its 95 % \
             interval; figures agree that differ by {} at most. Of round trips, ours is the mean or the median as the \
             program's is.",
            percent(AGREE)
        ),
        header: words(&[
            "program", "what", "bytes", "ours", "program's", "unit", "ratio", "interval", "verdict", "pairs", "link",
        ]),
        rows,
    })
}

fn row(one: &ProgramFigure) -> Vec<String> {
    let verdict = match one.verdict() {
        Agreement::Agrees => "agree",
        Agreement::Differs => "differ",
        Agreement::Open => "open",
    };
    vec![
        one.program.clone(),
        format!("{} {}", one.transport, one.experiment.name()),
        one.size.to_string(),
        short(one.ours),
        short(one.theirs),
        one.unit.clone(),
        exact(one.ratio),
        format!("{} to {}", exact(one.ci95[0]), exact(one.ci95[1])),
        verdict.to_owned(),
        one.pairs.len().to_string(),
        one.link.clone(),
    ]
}

/// What each program's figure is, what it does otherwise, with which options and by which command.
pub fn meanings(results: &Results) -> Option<Table> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for one in &results.programs {
        let row = vec![
            one.program.clone(),
            format!("{} {}", one.transport, one.experiment.name()),
            one.options.clone(),
            one.command.clone(),
            format!("{}; {}", one.counts, one.otherwise),
        ];
        if !rows.iter().any(|other| other[..3] == row[..3]) {
            rows.push(row);
        }
    }
    (!rows.is_empty()).then(|| Table {
        title: "What other programs count".into(),
        note: "The last command of each at the measuring end; the sockets' options are those of both, at both ends.".into(),
        header: words(&["program", "what", "options", "command", MEANS]),
        rows,
    })
}
