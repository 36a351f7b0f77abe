//! The lab's report: one page that needs no network, with cards in rows as in the papers.

use super::files;
use super::findings::findings;
use super::markdown::{conditions, conformance, kernel, left_out, messages, number};
use super::record::{ASKED, Figure, LabRecord, Run};
use gigae_eval_model::number::megabytes;
use gigae_eval_model::plan::{Experiment, Wait};
use gigae_eval_page::html as page;
use gigae_eval_page::table::{Table, words};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// The whole page.
pub fn page(record: &LabRecord) -> String {
    let whole = |run: &&Run| !run.exchanges.is_empty() || !run.passed.is_empty();
    let cards: Vec<&Run> = record.runs.iter().filter(whole).collect();
    let models = record.runs.iter().map(|run| &run.model).collect::<BTreeSet<_>>().len();
    let found = findings(record);
    let content = html! {
        h1 { "The library and TCP on " (models) " emulated cards" }
        p.soft {
            (record.date) ", QEMU " (record.qemu) ", gigae " (record.gigae) ". "
            "Real drivers of real kernels on emulated cards. "
            "Times are virtual: the emulator counts 8 ns for each instruction of any processor, one after the other, and "
            "passes over the time in which all sleep, so they repeat whatever the host does. They compare what runs; "
            "they are not times of hardware, and a card's own work and the wire's take none."
        }
        (faults(record))
        @if !cards.is_empty() {
            (shown(&what_works(&cards)))
            (shown(&trips(&record.runs.iter().collect::<Vec<_>>())))
        }
        (shown(&streams(&cards)))
        @for content in files::tables(record) { (shown(&content)) }
        @if !found.is_empty() {
            h2 { "What follows, and what the papers found" }
            @for sentence in found { p { (sentence) } }
        }
        (shown(&modes(&cards)))
        (shown(&exchanges(&cards)))
        h2 { "Inventories, and what the kernels said" }
        @for run in cards {
            h3 { (run.model) " (" (kernel(run)) ")" }
            pre { (run.inventory) }
            @if !run.kernel.is_empty() { pre { (run.kernel.join("\n")) } }
        }
    };
    page::document("NIC lab", &content)
}

fn faults(record: &LabRecord) -> Markup {
    let of = |run| Run::faults(run).into_iter().map(move |fault| (run, fault));
    let faults: Vec<(&Run, String)> = record.runs.iter().flat_map(of).collect();
    html! {
        @if faults.is_empty() {
            p {
                b { "Nothing was wrong" }
                ": every card passed what was run on it, and every byte was as it was sent."
            }
        } @else {
            h2 { (faults.len()) " things are not as they must be" }
            ul.doubts {
                @for (run, fault) in faults {
                    li { (run.model) " (" (kernel(run)) "; " (conditions(run)) "): " (fault) }
                }
            }
        }
        @for (cards, why) in left_out(record) {
            p { (cards) ": conformance was left out, since " (why) "." }
        }
    }
}

/// A table with its heading; the last column of some has sentences, which wrap.
fn shown(content: &Table) -> Markup {
    let wrap = matches!(content.header.last().map(String::as_str), Some("why" | "outcome"));
    html! {
        h2 { (content.title) }
        @if !content.note.is_empty() { p.soft { (content.note) } }
        (page::table(content, if wrap { "wrap" } else { "" }))
    }
}

fn table(
    title: &str,
    note: String,
    heads: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> Table {
    Table { title: title.into(), note, header: words(heads), rows: rows.collect() }
}

fn what_works(runs: &[&Run]) -> Table {
    let heads = [
        "card",
        "driver",
        "kernel",
        "mode",
        "conformance",
        "messages",
        "TCP beside, MB",
        "frames lost, packet's",
    ];
    let rows = runs.iter().map(|run| {
        let tcp: u64 = run.exchanges.iter().map(|exchange| exchange.tcp).sum();
        vec![
            format!("{} ({})", run.model, run.about),
            run.booted.as_ref().map_or_else(String::new, |booted| booted.driver.clone()),
            kernel(run),
            run.chosen().and_then(|opened| opened.mode.clone()).unwrap_or_else(|| "none".into()),
            conformance(run),
            messages(run),
            megabytes(tcp as f64),
            format!("{}, {}", run.lost("auto").unwrap_or(0), run.lost("packet").unwrap_or(0)),
        ]
    });
    table("What works", String::new(), &heads, rows)
}

fn trips(runs: &[&Run]) -> Table {
    let note = format!(
        "Medians in microseconds of the guest; tcp / gigae of 8 bytes with both ends spinning must be {ASKED} or more. \
         Interrupts and system calls are of the measuring end, for each round trip of 8 bytes."
    );
    let heads = [
        "card",
        "kernel",
        "CPUs, MiB, interrupts",
        "spin 8 B: gigae",
        "packet",
        "tcp",
        "tcp / gigae",
        "1400 B: gigae",
        "tcp",
        "sleep 8 B: gigae",
        "tcp",
        "tcp / gigae",
        "gigae: interrupts, calls",
        "tcp: interrupts, calls",
    ];
    let rows = runs.iter().filter(|run| !run.figures.is_empty()).map(|run| {
        let trip =
            |transport, wait, size| number(run.median(Experiment::Rtt, transport, wait, size), 1);
        let wait = if run.cpus > 1 { Wait::Spin } else { Wait::Sleep };
        let costs = |transport| {
            let figure = run.figure(Experiment::Rtt, transport, wait, 8);
            let per =
                |count: fn(&Figure) -> u64| number(figure.and_then(|f| f.per_message(count(f))), 2);
            format!("{}, {}", per(|figure| figure.interrupts), per(|figure| figure.calls))
        };
        vec![
            run.model.clone(),
            kernel(run),
            conditions(run),
            trip("gigae", Wait::Spin, 8),
            trip("packet", Wait::Spin, 8),
            trip("tcp", Wait::Spin, 8),
            number(run.ratio(Wait::Spin, 8), 2),
            trip("gigae", Wait::Spin, 1400),
            trip("tcp", Wait::Spin, 1400),
            trip("gigae", Wait::Sleep, 8),
            trip("tcp", Wait::Sleep, 8),
            number(run.ratio(Wait::Sleep, 8), 2),
            costs("gigae"),
            costs("tcp"),
        ]
    });
    table("Round trips", note, &heads, rows)
}

fn streams(runs: &[&Run]) -> Table {
    let note = "MB per second of the guest with both ends sleeping; frames for each message.";
    let heads = [
        "card",
        "64 B: gigae",
        "tcp",
        "1400 B: gigae",
        "packet",
        "tcp",
        "gigae / tcp",
        "gigae: frames, calls (64 B)",
        "tcp: frames, calls (64 B)",
    ];
    let rows = runs.iter().filter(|run| !run.figures.is_empty()).map(|run| {
        let rate = |transport, size| run.median(Experiment::Stream, transport, Wait::Sleep, size);
        let costs = |transport| {
            let figure = run.figure(Experiment::Stream, transport, Wait::Sleep, 64);
            let per =
                |count: fn(&Figure) -> u64| number(figure.and_then(|f| f.per_message(count(f))), 3);
            format!("{}, {}", per(|figure| figure.frames), per(|figure| figure.calls))
        };
        let ratio = rate("gigae", 1400).zip(rate("tcp", 1400)).map(|(ours, tcp)| ours / tcp);
        vec![
            run.model.clone(),
            number(rate("gigae", 64), 1),
            number(rate("tcp", 64), 1),
            number(rate("gigae", 1400), 1),
            number(rate("packet", 1400), 1),
            number(rate("tcp", 1400), 1),
            number(ratio, 2),
            costs("gigae"),
            costs("tcp"),
        ]
    });
    table("Streams", note.into(), &heads, rows)
}

fn modes(runs: &[&Run]) -> Table {
    let rows = runs.iter().flat_map(|run| {
        run.opened.iter().map(|opened| {
            vec![
                run.model.clone(),
                opened.mtu.to_string(),
                opened.asked.clone(),
                opened.mode.clone().unwrap_or_else(|| "refused".into()),
                opened.reason.clone(),
            ]
        })
    });
    let title = "Modes, and what refuses the better ones";
    table(title, String::new(), &["card", "MTU", "asked", "mode", "why"], rows)
}

fn exchanges(runs: &[&Run]) -> Table {
    let heads = [
        "card",
        "what",
        "mode",
        "messages",
        "MB",
        "TCP, MB",
        "frames",
        "repeated",
        "dropped",
        "corrupt",
        "calls that reported it",
        "came back",
        "outcome",
    ];
    let rows = runs.iter().flat_map(|run| {
        run.exchanges.iter().map(|exchange| {
            vec![
                run.model.clone(),
                exchange.of.clone(),
                exchange.mode.clone(),
                exchange.messages.to_string(),
                megabytes(exchange.bytes as f64),
                megabytes(exchange.tcp as f64),
                exchange.frames.to_string(),
                exchange.repeated.to_string(),
                exchange.dropped.to_string(),
                exchange.corrupt.to_string(),
                exchange.link_errors.to_string(),
                exchange.returned.to_string(),
                exchange.failure.clone().unwrap_or_else(|| "all well".into()),
            ]
        })
    });
    table("Exchanges", String::new(), &heads, rows)
}
