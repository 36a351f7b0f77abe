//! `report.html` and `report.md` of a soak: pure functions of its state, in the look of the
//! evaluator's.

use super::rules::{SETTLED, is_drop};
use super::state::{Gap, SoakPoint, SoakState};
use gigae_eval_model::duration;
use gigae_eval_model::number::{bytes, grouped, hundredths, mbit, megabytes, mib, percent};
use gigae_eval_model::soak::Amount;
use gigae_eval_model::traffic::{STREAMS, Stream};
use gigae_eval_page::figure::{LegendEntry, as_numbers, legend};
use gigae_eval_page::html as page;
use gigae_eval_page::markdown as text;
use gigae_eval_page::svg::key;
use gigae_eval_page::table::{NamedValue, Table};
use gigae_eval_page::time::TimeChart;
use maud::{Markup, html};

const TITLE: &str = "Soak report";

/// How it comes about; the same sentences in every report.
const METHOD: &[&str] = &[
    "The server has traffic with each client, both ways at once. There are plain GigaE messages of one byte to a full frame; tagged messages of up to 1 MiB; writes into remote memory, which are read back and counted by an atomic addition; TCP streams; and TCP requests and answers. A seed decides lengths, pauses and bursts. The rate is bounded.",
    "Every byte is verified. Both ends compute what each message, piece and write must contain, from the seed, the ends, the kind, the round and the number. So anything that is lost, torn, doubled or out of order shows at its place. A round lasts an hour at most. At its end both ends compare what was sent with what was verified. Each round opens new endpoints and connections.",
    "These are deviations. Data: anything lost, torn, out of order or failed, or a damaged GigaE frame. The link: it went down or up, a counter of errors rose, or a counter fell, as after a driver's reset. The kernel: a warning about the interface, or a critical message about anything. Memory: a process has more than half and 32 MiB more than after its first minute, or more than 16 descriptors more. Silence: a client's stream brought nothing for longer than the stated time. Frames that full queues drop (switch, interface, socket) and retransmissions are figures and no deviations: under load they are normal.",
    "A sample is taken every 5 seconds, in a short soak more often. State and report are written every minute. After a kill, the sums lack what was verified since the last time.",
];

/// The page.
pub fn html(state: &SoakState) -> String {
    let Heading { lead, soft } = Heading::of(state);
    let content = html! {
        h1 { (TITLE) }
        p.lead { (lead) }
        p.soft { (soft) }
        div.cards {
            @for (name, value, note) in cards(state) { (page::card(name, &value, &note)) }
        }
        div.figures { @for chart in &charts(state) { (figure(chart)) } }
        (as_numbers(&over_time(state)))
        h2 { "Deviations" }
        @if let Some(deviations) = deviations(state) {
            p.soft { (deviations.note) }
            (page::table(&deviations, "left wrap"))
        } @else {
            p { "None." }
        }
        @for table in &tables(state) { (page::section(table)) }
        h2 { "Heading" }
        (page::names_and_values(&conditions(state)))
        (page::method(METHOD))
        (page::to_repeat(&state.command))
    };
    page::document("soak", &content)
}

/// The same as Markdown, without the figures over time.
pub fn markdown(state: &SoakState) -> String {
    let Heading { lead, soft } = Heading::of(state);
    let mut page = format!("# {TITLE}\n\n{}\n\n{}\n\n", text::escape(&lead), text::escape(&soft));
    match deviations(state) {
        Some(deviations) => text::table(&deviations, &mut page),
        None => page.push_str("## Deviations\n\nNone.\n\n"),
    }
    tables(state).iter().for_each(|table| text::table(table, &mut page));
    text::table(&over_time(state), &mut page);
    text::names_and_values("Heading", conditions(state), &mut page);
    text::method(METHOD, &mut page);
    text::to_repeat(&state.command, &mut page);
    page
}

/// The two lines at the top.
struct Heading {
    lead: String,
    soft: String,
}

impl Heading {
    fn of(state: &SoakState) -> Self {
        let conditions = &state.conditions;
        let soft = [&state.started, &conditions.machine, &conditions.nic, &conditions.gigae];
        let soft = soft.map(|part| part.as_str()).join(" · ");
        let clients = state.settings.clients;
        let lead = format!("{}. {clients} clients, {}.", capital(&state.say()), conditions.network);
        Self { lead, soft }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn cards(state: &SoakState) -> Vec<(&'static str, String, String)> {
    let (mut operations, mut gigae, mut tcp) = (0, 0, 0);
    for stream in STREAMS {
        let amount = verified(state, stream);
        if stream.is_tcp() {
            tcp += amount.bytes;
        } else {
            operations += amount.count;
            gigae += amount.bytes;
        }
    }
    let of = duration::say(state.settings.duration);
    let per_second = |bytes: u64| {
        let rate = megabytes(bytes as f64 / state.elapsed.max(1.0));
        format!("verified; {rate} MB/s on average")
    };
    let kinds = state.counts.iter().map(|(kind, count)| format!("{count} {}", kind.name()));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    vec![
        (
            "Deviations",
            state.deviated().to_string(),
            if kinds.is_empty() { "none".into() } else { kinds },
        ),
        ("Time", duration::say(state.elapsed), format!("of {of}; rounds: {}", state.rounds)),
        (
            "GigaE messages and writes",
            grouped(operations, " "),
            format!("{}, {}", bytes(gigae), per_second(gigae)),
        ),
        ("TCP", bytes(tcp), per_second(tcp)),
    ]
}

type Value = fn(&SoakPoint) -> f64;

/// Title, unit, and lines with names, colours and values.
type Figure = (&'static str, &'static str, &'static [(&'static str, usize, Value)]);

/// What is drawn over time.
const FIGURES: [Figure; 4] = [
    (
        "Verified bytes",
        "MB/s at all ends together",
        &[
            ("GigaE", 0, |point| point.gigae_bytes as f64 / seconds(point) / 1e6),
            ("TCP", 3, |point| point.tcp_bytes as f64 / seconds(point) / 1e6),
        ],
    ),
    (
        "GigaE messages and writes",
        "per second",
        &[("GigaE", 0, |point| point.messages as f64 / seconds(point))],
    ),
    (
        "Sent again and dropped",
        "frames per second",
        &[
            ("GigaE sent again", 0, |point| point.retransmissions as f64 / seconds(point)),
            ("TCP sent again", 3, |point| point.tcp_retransmissions as f64 / seconds(point)),
            ("dropped by full queues", 5, |point| point.drops as f64 / seconds(point)),
        ],
    ),
    (
        "Resident memory of the largest process",
        "MiB",
        &[("memory", 1, |point| point.rss as f64 / 1048576.0)],
    ),
];

fn seconds(point: &SoakPoint) -> f64 {
    point.seconds.max(0.001)
}

fn charts(state: &SoakState) -> Vec<TimeChart<'static>> {
    // A stretch of milliseconds, such as the end of a round, has no rate worth drawing.
    let drawn = |point: &&SoakPoint| point.seconds >= state.span / 2.0;
    let points: Vec<&SoakPoint> = state.points.iter().filter(drawn).collect();
    let chart = |(title, unit, lines): &Figure| {
        let line = |(name, style, value): &(&'static str, usize, Value)| {
            (*name, *style, points.iter().map(|point| (point.at, value(point))).collect())
        };
        TimeChart {
            title,
            unit,
            lines: lines.iter().map(line).collect(),
            marks: state.deviations.iter().map(|deviation| deviation.at).collect(),
        }
    };
    FIGURES.iter().map(chart).collect()
}

fn figure(chart: &TimeChart<'_>) -> Markup {
    let lines = chart.lines.iter();
    let lines = lines.map(|(name, style, _)| LegendEntry { name, key: key(*style) });
    html! {
        figure {
            figcaption { (chart.title) }
            (legend(lines))
            div.plot { (chart.svg()) }
        }
    }
}

fn table(title: &str, note: &str, header: &[&str], rows: Vec<Vec<String>>) -> Table {
    let header = header.iter().map(|name| (*name).to_owned()).collect();
    Table { title: title.into(), note: note.into(), header, rows }
}

fn deviations(state: &SoakState) -> Option<Table> {
    let rows: Vec<Vec<String>> = state
        .deviations
        .iter()
        .map(|deviation| {
            vec![
                deviation.utc.clone(),
                format!("{} ({})", duration::say(deviation.at), duration::tenths(deviation.at)),
                deviation.end.clone(),
                deviation.kind.name().into(),
                deviation.what.clone(),
            ]
        })
        .collect();
    let all = state.deviated();
    let note = match all as usize > rows.len() {
        true => format!("The first {} of {all}.", rows.len()),
        false => String::new(),
    };
    let header = ["UTC", "after", "end", "kind", "what"];
    (!rows.is_empty()).then(|| table("Deviations", &note, &header, rows))
}

fn tables(state: &SoakState) -> Vec<Table> {
    let mut all = vec![verified_table(state), figures_table(state), ends_table(state)];
    all.extend(gaps(&state.gaps));
    all
}

/// The time in which it did not run, if any.
pub(crate) fn gaps(gaps: &[Gap]) -> Option<Table> {
    let row = |gap: &Gap| vec![gap.from.clone(), gap.to.clone(), duration::say(gap.seconds)];
    let rows: Vec<_> = gaps.iter().map(row).collect();
    let note = "From the last writing of the state until it went on.";
    let title = "Time in which it did not run";
    (!rows.is_empty()).then(|| table(title, note, &["from", "to", "for"], rows))
}

fn verified_table(state: &SoakState) -> Table {
    let here = state.ends.first();
    let row = |stream| {
        let all = verified(state, stream);
        let here = here.map_or(0, |end| end.verified[stream as usize].count);
        let (there, name) = (all.count - here, stream.name());
        vec![name.into(), grouped(there, " "), grouped(here, " "), bytes(all.bytes)]
    };
    let rows = STREAMS.into_iter().map(row).collect();
    let note = "Messages, writes, pieces, requests and answers, each of them every byte.";
    table("What was verified", note, &["kind", "at the clients", "at the server", "bytes"], rows)
}

fn figures_table(state: &SoakState) -> Table {
    let sums = &state.sums;
    let per_million = |part: u64| {
        format!("{:.1} in a million frames", part as f64 * 1e6 / sums.frames.max(1) as f64)
    };
    let rows = [
        ("GigaE frames sent", sums.frames, String::new()),
        ("GigaE frames sent again", sums.retransmissions, per_million(sums.retransmissions)),
        ("GigaE retransmission timeouts", sums.timeouts, String::new()),
        ("GigaE STOPs obeyed", sums.stops, String::new()),
        ("GigaE duplicates and frames out of their window", sums.discarded, String::new()),
        ("GigaE frames for which a socket had no room", sums.dropped, String::new()),
        ("TCP segments sent again", sums.tcp_retransmissions, "of all TCP of the ends".into()),
        ("frames dropped by interfaces", sums.interface_drops, String::new()),
        ("frames dropped by full queues of the virtual switch", sums.switch_drops, String::new()),
        ("kernel warnings about something else", sums.kernel_others, "of the whole machine".into()),
    ];
    let rows =
        rows.into_iter().map(|(name, value, note)| vec![name.into(), grouped(value, " "), note]);
    let note = "Over all ends and rounds. Not deviations.";
    table("Figures", note, &["what", "count", "remark"], rows.collect())
}

fn ends_table(state: &SoakState) -> Table {
    let row = |end: &super::state::SoakEnd| {
        let interfaces = &end.last.interfaces;
        let changes: u64 = interfaces.iter().map(|interface| interface.changes).sum();
        let sum = |drops| -> u64 {
            let counters = interfaces.iter().flat_map(|interface| &interface.counters);
            counters.filter(|(name, _)| is_drop(name) == drops).map(|(_, value)| value).sum()
        };
        vec![
            end.name.clone(),
            mib(end.last.rss),
            mib(end.rss),
            end.descriptors.to_string(),
            changes.to_string(),
            sum(false).to_string(),
            sum(true).to_string(),
        ]
    };
    let rows = state.ends.iter().map(row).collect();
    let note = "Memory in MiB, as it was last and at most. Changes of the link and counters of errors and drops are those of the interface since it exists.";
    let header = ["end", "memory", "most", "descriptors", "link changes", "errors", "drops"];
    table("Ends", note, &header, rows)
}

/// Some twenty stretches, for readers without pictures.
fn over_time(state: &SoakState) -> Table {
    let drawn = state.points.iter().filter(|point| point.seconds >= state.span / 2.0);
    let points: Vec<&SoakPoint> = drawn.collect();
    let row = |points: &[&SoakPoint]| {
        let sum =
            |value: fn(&SoakPoint) -> u64| points.iter().map(|p| value(p)).sum::<u64>() as f64;
        let all = points.iter().map(|point| point.seconds).sum::<f64>().max(0.001);
        vec![
            duration::say(points.last().map_or(0.0, |point| point.at)),
            format!("{:.0}", sum(|point| point.messages) / all),
            megabytes(sum(|point| point.gigae_bytes) / all),
            megabytes(sum(|point| point.tcp_bytes) / all),
            format!("{:.0}", sum(|point| point.retransmissions)),
            format!("{:.0}", sum(|point| point.tcp_retransmissions)),
            format!("{:.0}", sum(|point| point.drops)),
            mib(points.iter().map(|p| p.rss).max().unwrap_or(0)),
        ]
    };
    let rows = points.chunks(points.len().div_ceil(20).max(1)).map(row).collect();
    let header = [
        "until",
        "GigaE messages/s",
        "GigaE MB/s",
        "TCP MB/s",
        "GigaE sent again",
        "TCP sent again",
        "dropped",
        "memory, MiB",
    ];
    table("Over time", "At all ends together; memory of the largest process.", &header, rows)
}

fn conditions(state: &SoakState) -> Vec<NamedValue> {
    let (conditions, settings) = (&state.conditions, &state.settings);
    let rate = format!(
        "{} in each direction at the server, all clients together",
        mbit(settings.rate * 8.0)
    );
    let busy = format!(
        "{} of all CPU time used by any process; {} stolen by the hypervisor",
        percent(state.work),
        hundredths(state.steal)
    );
    let rounds = format!("{} begun, {} compared to the end", state.rounds, state.complete_rounds);
    let mut rows = vec![
        ("begun", state.started.clone()),
        ("written", state.saved.clone()),
        ("network", conditions.network.clone()),
        ("interface", conditions.nic.clone()),
        ("GigaE over", conditions.link.clone()),
        ("machine", conditions.machine.clone()),
        ("gigae", conditions.gigae.clone()),
        ("rate", rate),
        ("seed", settings.seed.to_string()),
        ("a stall is", format!("no progress for {}", duration::say(settings.stall))),
        ("rounds", rounds),
        ("machine busy", busy),
    ];
    if state.elapsed < 2.0 * SETTLED.as_secs_f64() {
        rows.push(("growth", "too short to judge whether memory grows".into()));
    }
    rows.extend(state.remarks.iter().map(|remark| ("remark", remark.clone())));
    rows.into_iter().map(|(name, value)| NamedValue::new(name, value)).collect()
}

/// What was verified at all ends together, by stream.
pub fn verified(state: &SoakState, stream: Stream) -> Amount {
    let mut all = Amount::default();
    state.ends.iter().for_each(|end| all += end.verified[stream as usize]);
    all
}
