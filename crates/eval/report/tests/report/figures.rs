//! The figures that a plan asks for, and the tables beside them.

use crate::fixtures::{results, second};
use gigae_eval_model::plan::Experiment;
use gigae_eval_model::results::Verdict;
use gigae_eval_report::{asked, html, markdown, ratios, sweeps, tables};

pub(crate) fn sweeps_over_rate_and_buffer_are_drawn_with_the_bandwidth_delay_product() {
    let results = second();
    let page = html::page(&results);
    for words in [
        "socket buffer in bytes",
        "messages per second",
        "bandwidth x delay",
        "TCP by socket buffer",
    ] {
        assert!(page.contains(words), "no {words}");
    }
    let load = sweeps::load_table(&results).unwrap();
    assert_eq!(load.rows.len(), 4, "{load:?}");
    // Older results have neither.
    assert!(sweeps::load_table(&self::results()).is_none());
    assert!(sweeps::buffer_tables(&self::results()).is_empty());
}

pub(crate) fn every_figure_is_shown_with_its_verdict_in_every_report() {
    let results = results();
    assert!(results.figures.len() > 2, "the fixture has figures");
    let table = asked::table(&results, true).unwrap();
    assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
    let (page, text) = (html::page(&results), markdown::page(&results));
    let terminal = gigae_eval_report::text::summary(&results, false);
    for (figure, row) in results.figures.iter().zip(&table.rows) {
        let word = match figure.verdict {
            Verdict::Reached => "reached",
            Verdict::Missed => "missed",
            Verdict::Information => "",
            Verdict::NotMeasured => "not measured",
        };
        let said = row[3].trim_end_matches('!').trim_end();
        assert_eq!(said, word, "{row:?}");
        assert!(page.contains(&format!(">{}<", figure.name)), "{}", figure.name);
        assert!(text.contains(&format!("| {} |", figure.name)), "{}", figure.name);
        assert!(terminal.contains(&figure.name));
    }
    let words = ["Conditions", "segmentation offload", "steal", "setting tcp nodelay", "131072"];
    for word in words {
        assert!(page.contains(word) && text.contains(word), "no {word}");
    }
}

pub(crate) fn a_figure_that_is_missing_says_why() {
    let mut results = results();
    let figure = &mut results.figures[0];
    figure.verdict = Verdict::NotMeasured;
    figure.measured = None;
    figure.runs = vec![None];
    figure.missing = Some("cable rtt xdp spin 8 B: no such kernel".into());
    for text in [
        html::page(&results),
        markdown::page(&results),
        gigae_eval_report::text::figures(&results, false),
    ] {
        assert!(text.contains("no such kernel") && text.contains("not measured"), "{text}");
    }
    // And one whose huge pages the fixture's machine did not have.
    let table = asked::table(&results, false).unwrap();
    assert!(table.note.contains("2 not measured"), "{}", table.note);
}

pub(crate) fn several_runs_show_median_and_range() {
    let all = gigae_eval_model::figures::over_runs(vec![results(), results(), results()]).unwrap();
    let table = asked::table(&all, false).unwrap();
    assert_eq!(table.header, ["figure", "asked", "median", "range", "result"]);
    assert!(table.note.contains("3 runs"), "{}", table.note);
    assert!(gigae_eval_report::text::conditions(&all, false).contains("run 3:"));
    // The same run three times has no range to speak of.
    let (low, high) = all.figures[0].range().unwrap();
    assert_eq!((low, Some(high)), (high, all.figures[0].measured));
}

pub(crate) fn loss_idle_and_small_messages_have_their_figures() {
    let results = results();
    let loss = ratios::loss_table(&results).unwrap();
    assert!(loss.note.contains("Segmentation offload is off"));
    assert!(loss.rows.iter().any(|row| row[0] == "1 %" && row[2] == "gigae go-back-n"), "{loss:?}");
    assert!(loss.rows.iter().any(|row| row[2].starts_with("tcp") && row[6].ends_with('%')));
    let idle = ratios::idle_table(&results).unwrap();
    assert!(idle.rows.iter().any(|row| row[1] == "gigae" && row[2] == "adaptive"));
    let small = results.series.iter().find(|series| ratios::per_second(series).is_some()).unwrap();
    assert!(small.experiment == Experiment::Stream && tables::figure(small).contains(" M/s)"));
    assert!(ratios::cpu_table(&results).is_some());
}
