//! The lab's report: one page that needs no network, with cards in rows as in the papers.

use super::findings::findings;
use super::markdown::{conditions, conformance, kernel, left_out, messages, number};
use super::record::{ASKED, Figure, Record, Run};
use gigae_eval_model::plan::{Experiment, Wait};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The page's look: the reader's own colours, tables that scroll by themselves.
const STYLE: &str = "\
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:1200px;margin:auto;padding:24px 16px 60px}\
h1{font-size:1.8rem;margin:0 0 .3em}h2{font-size:1.25rem;margin:2em 0 .4em}p{max-width:75ch}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}\
td,th{padding:5px 11px;text-align:right;border-bottom:1px solid #8885;white-space:nowrap}\
td:first-child,th:first-child,.t{text-align:left}.wrap{white-space:normal;min-width:34ch}\
.bad{border-left:4px solid #d0440b;padding:2px 12px;margin:8px 0}.soft{opacity:.75}\
pre{overflow-x:auto;border:1px solid #8885;border-radius:8px;padding:10px 14px;font-size:.8rem}";

/// The whole page.
pub fn page(record: &Record) -> String {
    let whole = |run: &&Run| !run.exchanges.is_empty() || !run.passed.is_empty();
    let cards: Vec<&Run> = record.runs.iter().filter(whole).collect();
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
<title>NIC lab</title><style>{STYLE}</style><h1>The library and TCP on {} emulated cards</h1>",
        record.runs.iter().map(|run| &run.model).collect::<BTreeSet<_>>().len(),
    );
    let _ = write!(
        page,
        "<p class=\"soft\">{}, QEMU {}, gigae {}. Real drivers of real kernels on emulated cards. \
Times are virtual: the emulator counts 8 ns for each instruction of any processor, one after the other, and \
passes over the time in which all sleep, so they repeat whatever the host does. They compare what runs; they are no times of \
hardware, and a card's own work and the wire's take none.</p>",
        escape(&record.date),
        escape(&record.qemu),
        escape(&record.gigae)
    );
    faults(record, &mut page);
    if !cards.is_empty() {
        what_works(&cards, &mut page);
        trips(&record.runs.iter().collect::<Vec<_>>(), "Round trips", &mut page);
    }
    streams(&cards, &mut page);
    let found = findings(record);
    if !found.is_empty() {
        page.push_str("<h2>What follows, and what the papers found</h2>");
        found.iter().for_each(|sentence| {
            let _ = write!(page, "<p>{}</p>", escape(sentence));
        });
    }
    modes(&cards, &mut page);
    events(&cards, &mut page);
    inventories(&cards, &mut page);
    page.push_str("</html>\n");
    page
}

/// What the kernel, a card or a person wrote, as text.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn faults(record: &Record, page: &mut String) {
    let faults: Vec<(&Run, String)> = record
        .runs
        .iter()
        .flat_map(|run| run.faults().into_iter().map(move |fault| (run, fault)))
        .collect();
    if faults.is_empty() {
        page.push_str("<p><b>Nothing was wrong</b>: every card passed what was run on it, and every byte was as it was sent.</p>");
    } else {
        listed(&faults, page);
    }
    for (cards, why) in left_out(record) {
        let _ = write!(
            page,
            "<p>{}: conformance was left out, since {}.</p>",
            escape(&cards),
            escape(why)
        );
    }
}

fn listed(faults: &[(&Run, String)], page: &mut String) {
    let _ = write!(page, "<h2>{} things are not as they must be</h2>", faults.len());
    for (run, fault) in faults {
        let _ = write!(
            page,
            "<div class=\"bad\">{} ({}; {}): {}</div>",
            escape(&run.model),
            escape(&kernel(run)),
            conditions(run),
            escape(fault)
        );
    }
}

/// A table: heads, then rows of cells, of which those that begin with a tab are text.
fn table(page: &mut String, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    page.push_str("<div class=\"scroll\"><table><tr>");
    heads.iter().for_each(|head| {
        let _ = write!(page, "<th>{}</th>", escape(head));
    });
    page.push_str("</tr>");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            let _ = match cell.strip_prefix('\t') {
                Some(text) => write!(page, "<td class=\"t wrap\">{}</td>", escape(text)),
                None => write!(page, "<td>{}</td>", escape(&cell)),
            };
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div>");
}

fn what_works(runs: &[&Run], page: &mut String) {
    page.push_str("<h2>What works</h2>");
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
            format!("{:.1}", tcp as f64 / 1e6),
            format!("{}, {}", run.lost("auto").unwrap_or(0), run.lost("packet").unwrap_or(0)),
        ]
    });
    table(page, &heads, rows);
}

fn trips(runs: &[&Run], title: &str, page: &mut String) {
    let _ = write!(
        page,
        "<h2>{title}</h2><p class=\"soft\">Medians in microseconds of the guest; tcp / gigae of 8 bytes with both ends spinning \
must be {ASKED} or more. Interrupts and system calls are of the measuring end, for each round trip of 8 bytes.</p>"
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
    table(page, &heads, rows);
}

fn streams(runs: &[&Run], page: &mut String) {
    page.push_str("<h2>Streams</h2><p class=\"soft\">MB per second of the guest with both ends sleeping; frames for each message.</p>");
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
    table(page, &heads, rows);
}

fn modes(runs: &[&Run], page: &mut String) {
    page.push_str("<h2>Modes, and what refuses the better ones</h2>");
    let rows = runs.iter().flat_map(|run| {
        run.opened.iter().map(|opened| {
            vec![
                run.model.clone(),
                opened.mtu.to_string(),
                opened.asked.clone(),
                opened.mode.clone().unwrap_or_else(|| "refused".into()),
                format!("\t{}", opened.reason),
            ]
        })
    });
    table(page, &["card", "MTU", "asked", "mode", "why"], rows);
}

fn events(runs: &[&Run], page: &mut String) {
    page.push_str("<h2>Exchanges</h2>");
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
                format!("{:.1}", exchange.bytes as f64 / 1e6),
                format!("{:.1}", exchange.tcp as f64 / 1e6),
                exchange.frames.to_string(),
                exchange.repeated.to_string(),
                exchange.dropped.to_string(),
                exchange.corrupt.to_string(),
                exchange.told.to_string(),
                exchange.returned.to_string(),
                format!("\t{}", exchange.failure.as_deref().unwrap_or("all well")),
            ]
        })
    });
    table(page, &heads, rows);
}

fn inventories(runs: &[&Run], page: &mut String) {
    page.push_str("<h2>Inventories, and what the kernels said</h2>");
    for run in runs {
        let _ = write!(
            page,
            "<h3>{} ({})</h3><pre>{}</pre>",
            escape(&run.model),
            escape(&kernel(run)),
            escape(&run.inventory)
        );
        if !run.kernel.is_empty() {
            let _ = write!(page, "<pre>{}</pre>", escape(&run.kernel.join("\n")));
        }
    }
}
