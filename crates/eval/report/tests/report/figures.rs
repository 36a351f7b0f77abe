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

pub(crate) fn a_line_that_ends_before_others_says_what_its_transport_carries() {
    let mut results = results();
    let note = "The longest message that a transport carries: ";
    // Of a chart of streams that goes up to 64 KiB.
    assert_eq!(markdown::page(&results).matches(note).count(), 1);
    let trip = |one: &&gigae_eval_model::results::Series| {
        (one.experiment, &one.transport[..]) == (Experiment::Rtt, "tcp") && one.link == "cable"
    };
    let mut long = results.series.iter().find(trip).unwrap().clone();
    long.size = 1 << 20;
    results.series.push(long);
    let (page, text) = (html::page(&results), markdown::page(&results));
    assert_eq!(text.matches(note).count(), 2, "{text}");
    let raw = "raw AF_XDP and raw AF_PACKET: 1,468 B; ICMP ECHO: 1,472 B; UDP: 65,507 B.";
    assert!(page.contains(&format!("{note}{raw}")), "{page}");
}

pub(crate) fn datagrams_per_call_stand_in_every_report_where_they_were_counted() {
    let mut results = results();
    // Older results have none.
    assert!(tables::train_table(&results).is_none());
    let stream = |one: &&mut gigae_eval_model::results::Series| {
        (one.experiment, &one.transport[..], one.size) == (Experiment::Stream, "udp", 1400)
            && one.link == "cable"
    };
    let udp = results.series.iter_mut().find(stream).unwrap();
    (udp.local.send_calls, udp.local.datagrams_sent) = (10, 440);
    (udp.remote.receive_calls, udp.remote.datagrams_received) = (4, 128);
    let rows = tables::train_table(&results).unwrap().rows;
    assert_eq!(rows, [["udp sends (cable)", "44.0"], ["udp receives (cable)", "32.0"]]);
    let terminal = gigae_eval_report::text::summary(&results, false);
    for page in [html::page(&results), markdown::page(&results), terminal] {
        assert!(page.contains("udp receives (cable)"), "{page}");
    }
}
