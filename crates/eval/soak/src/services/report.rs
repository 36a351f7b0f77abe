//! `report.html` and `report.md` of a soak of file services: pure functions of its state.

use super::state::{ServiceRecord, ServiceSoak};
use crate::report::gaps;
use crate::state::SoakVerdict;
use gigae_eval_model::duration;
use gigae_eval_model::number::{bytes, grouped, mbit, megabytes, mib};
use gigae_eval_model::service;
use gigae_eval_page::html as page;
use gigae_eval_page::markdown as text;
use gigae_eval_page::table::{NamedValue, Table};
use maud::html;

const TITLE: &str = "Soak report: file services";

/// How it comes about; the same sentences in every report.
const METHOD: &[&str] = &[
    "The servers run in one node of a virtual network, all at once. Each service has files of its own, and one turn after the other. In a turn, one client or several at once fetch a file or a tree of small files, or one client sends a file. A seed decides which. Each turn has new connections. The rate is bounded.",
    "After each turn, a SHA-256 hash compares every copy with its file. Only then it counts.",
    "These are deviations: a copy that differs, a client or a server that fails, and a client that needs more than a minute, a second for each file, and the time for half a megabyte per second. Each server ends after an hour and starts again.",
    "State and report are written every minute.",
];

/// The page.
pub fn html(state: &ServiceSoak) -> String {
    let (lead, soft) = heading(state);
    let content = html! {
        h1 { (TITLE) }
        p.lead { (lead) }
        p.soft { (soft) }
        h2 { "Deviations" }
        @if let Some(deviations) = deviations(state) {
            p.soft { (deviations.note) }
            (page::table(&deviations, "left wrap"))
        } @else {
            p { "None." }
        }
        @for table in &tables(state) { (page::section(table)) }
        h2 { "Conditions" }
        (page::names_and_values(&conditions(state)))
        (page::method(METHOD))
        (page::to_repeat(&state.command))
    };
    page::document("soak", &content)
}

/// The same as Markdown.
pub fn markdown(state: &ServiceSoak) -> String {
    let (lead, soft) = heading(state);
    let mut page = format!("# {TITLE}\n\n{}\n\n{}\n\n", text::escape(&lead), text::escape(&soft));
    match deviations(state) {
        Some(deviations) => text::table(&deviations, &mut page),
        None => page.push_str("## Deviations\n\nNone.\n\n"),
    }
    tables(state).iter().for_each(|table| text::table(table, &mut page));
    text::names_and_values("Conditions", conditions(state), &mut page);
    text::method(METHOD, &mut page);
    text::to_repeat(&state.command, &mut page);
    page
}

/// The verdict as a sentence.
pub fn say(state: &ServiceSoak) -> String {
    let ran = duration::say(state.elapsed);
    let copies = state.copies();
    let verified =
        format!("{} copies verified, {}", grouped(copies.count, " "), bytes(copies.bytes));
    let deviations = match state.deviated {
        0 => "no deviation".to_owned(),
        1 => "1 deviation".to_owned(),
        more => format!("{more} deviations"),
    };
    let verdict = match state.verdict {
        SoakVerdict::Running => "running for",
        SoakVerdict::Passed => "passed:",
        SoakVerdict::Deviated => "deviated:",
        SoakVerdict::Interrupted => "interrupted after",
    };
    format!("{verdict} {ran}, {deviations}, {verified}")
}

fn heading(state: &ServiceSoak) -> (String, String) {
    let conditions = &state.conditions;
    let soft = [&state.started, &conditions.machine, &conditions.nic, &conditions.gigae];
    let soft = soft.map(|part| part.as_str()).join(" · ");
    let clients = state.settings.clients;
    (format!("File services {}. {clients} clients, {}.", say(state), conditions.network), soft)
}

fn title(record: &ServiceRecord) -> &str {
    service::by_name(&record.service).map_or(&record.service, |spec| spec.title)
}

fn table(title: &str, note: &str, header: &[&str], rows: Vec<Vec<String>>) -> Table {
    let header = header.iter().map(|name| (*name).to_owned()).collect();
    Table { title: title.into(), note: note.into(), header, rows }
}

fn deviations(state: &ServiceSoak) -> Option<Table> {
    let rows: Vec<Vec<String>> = state
        .deviations
        .iter()
        .map(|deviation| {
            vec![
                deviation.utc.clone(),
                duration::say(deviation.at),
                deviation.end.clone(),
                deviation.kind.name().into(),
                deviation.what.clone(),
            ]
        })
        .collect();
    let note = match state.deviated as usize > rows.len() {
        true => format!("The first {} of {}.", rows.len(), state.deviated),
        false => String::new(),
    };
    let header = ["UTC", "after", "service", "kind", "what"];
    (!rows.is_empty()).then(|| table("Deviations", &note, &header, rows))
}

fn tables(state: &ServiceSoak) -> Vec<Table> {
    let row = |record: &ServiceRecord| {
        vec![
            title(record).into(),
            grouped(record.turns, " "),
            grouped(record.copies.count, " "),
            bytes(record.copies.bytes),
            record.deviated.to_string(),
            record.starts.to_string(),
            format!("{:.2}", record.longest),
            record.longest_of.clone(),
            mib(record.memory[0]),
            mib(record.memory[1]),
        ]
    };
    let note = "Copies were compared by a hash; a tree is one copy. The longest turn is in seconds, with the life of its client. Memory is that of the server's processes in MiB, last and at most; what they share counts for each.";
    let header = [
        "service",
        "turns",
        "copies",
        "bytes",
        "deviations",
        "server starts",
        "longest",
        "of",
        "memory",
        "most",
    ];
    let rows = state.services.iter().map(row).collect();
    let mut all = vec![table("What was verified", note, &header, rows), over_time(state)];
    all.extend(gaps(&state.gaps));
    all
}

fn over_time(state: &ServiceSoak) -> Table {
    let parts = state.services.first().map_or(0, |record| record.parts.len());
    let row = |part: usize| {
        let until = (state.part * (part + 1) as f64).min(state.settings.duration);
        let of = |record: &ServiceRecord| {
            let seconds = until.min(state.elapsed) - state.part * part as f64;
            let amount = record.parts[part];
            let rate = megabytes(amount.bytes as f64 / seconds.max(1.0));
            format!("{} ({rate})", grouped(amount.count, " "))
        };
        std::iter::once(duration::say(until)).chain(state.services.iter().map(of)).collect()
    };
    let begun = |part: &usize| state.part * (*part as f64) < state.elapsed;
    let rows = (0..parts).filter(begun).map(row).collect();
    let header: Vec<&str> =
        std::iter::once("until").chain(state.services.iter().map(title)).collect();
    table("Over time", "Copies, and in brackets their MB/s on average.", &header, rows)
}

fn conditions(state: &ServiceSoak) -> Vec<NamedValue> {
    let (conditions, settings) = (&state.conditions, &state.settings);
    let mut rows = vec![
        ("begun", state.started.clone()),
        ("written", state.saved.clone()),
        ("network", conditions.network.clone()),
        ("interface", conditions.nic.clone()),
        ("machine", conditions.machine.clone()),
        ("gigae", conditions.gigae.clone()),
        ("rate", format!("{} at most, all services together", mbit(settings.rate * 8.0))),
        ("seed", settings.seed.to_string()),
    ];
    for record in &state.services {
        let version = [Some(&record.version), record.client_version.as_ref()];
        let version = version.into_iter().flatten().cloned().collect::<Vec<_>>().join(", ");
        rows.push((title(record), version));
    }
    rows.into_iter().map(|(name, value)| NamedValue::new(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::state::tests::{seen, state};
    use gigae_eval_model::soak::DeviationKind;

    #[test]
    fn a_report_has_the_verdict_each_service_and_each_deviation() {
        let mut state = state();
        state.saw(0, seen(1.0, 0.5));
        let clean = markdown(&state);
        assert!(clean.contains("None.") && clean.contains("2 copies verified"), "{clean}");
        state.deviate(1, 5.0, "u".into(), DeviationKind::Torn, "<b>torn</b>".into());
        (state.verdict, state.elapsed) = (SoakVerdict::Deviated, 1500.0);
        let (page, plain) = (html(&state), markdown(&state));
        for text in [&page, &plain] {
            assert!(text.contains("deviated: 25m, 1 deviation"), "{text}");
            assert!(text.contains("FTP") && text.contains("NFS"), "{text}");
        }
        assert!(page.contains("&lt;b&gt;torn") && !page.contains("<b>torn"));
    }
}
