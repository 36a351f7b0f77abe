//! The tables of all reports, as text in cells; how a cell looks is the report's business.

use super::asked;
use crate::ratios::{self, table_4};
use gigae_eval_model::doubt::Code;
use gigae_eval_model::duration::{self, nanoseconds};
use gigae_eval_model::experiment::{Experiment, SizesTitle};
use gigae_eval_model::note::Note;
use gigae_eval_model::number::{self, hundredths, percent, set_share, short, tenths};
use gigae_eval_model::plan::{PaperRow, TcpOptions, Wait};
use gigae_eval_model::results::{Results, Series};
use gigae_eval_model::stats;
use gigae_eval_model::transport;
use gigae_eval_page::table::{NamedValue, Table, labels, plain, reference_tcp, words};
use std::collections::BTreeMap;

/// A ratio of two figures, beside the papers'.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// The link.
    pub link: String,
    /// Which figures, of which transports.
    pub what: String,
    /// Conditions: size and waiting.
    pub at: String,
    /// Ours.
    pub ours: f64,
    /// That of GigaE PM II (1999).
    pub paper: f64,
    /// How the paper's came about.
    pub source: String,
    /// Whether percent is how it is usually said.
    pub percent: bool,
}

impl Ratio {
    /// The ratio as it is usually said.
    pub fn say(&self, value: f64) -> String {
        if self.percent { tenths(value) } else { number::times(value) }
    }
}

/// TCP's figures of 003, figures 3 (microseconds) and 2 (MB/s). The plans `latency` and `bandwidth`
/// have them, too.
const TCP_1999: [f64; 2] = [139.4, 59.5];

/// 003, table 4 and figures 2 and 3: which ratio, both figures and their unit.
fn paper_ratios() -> [(&'static str, [f64; 2], &'static str); 4] {
    let of = |row, unit| table_4(row, unit).unwrap_or(f64::NAN);
    let (driver, gigae) = (PaperRow::Driver, PaperRow::InterruptsAvoided);
    let [tcp_trip, tcp_stream] = TCP_1999;
    [
        ("gigae / raw link, round trip", [of(gigae, "us"), of(driver, "us")], "us"),
        ("gigae / raw link, stream", [of(gigae, "MB/s"), of(driver, "MB/s")], "MB/s"),
        ("tcp / gigae, round trip", [tcp_trip, of(gigae, "us")], "us"),
        ("gigae / tcp, stream", [of(gigae, "MB/s"), tcp_stream], "MB/s"),
    ]
}

/// The size of the papers' round trips, and the one nearest to their streams' that every transport
/// carries.
const ROUND_TRIP_SIZE: usize = 8;
const STREAM_SIZE: usize = 1400;

/// The ratios on every link: those for which both figures were measured.
pub fn ratios(results: &Results) -> Vec<Ratio> {
    let tcp = reference_tcp(results);
    let mut found = Vec::new();
    for link in results.links() {
        let all = |experiment, transport: &'static str, size| {
            results
                .of(experiment, link, Wait::Spin)
                .filter(move |series| series.transport == transport && series.size == size)
        };
        let pick = |experiment, transport, size| {
            let variant = tcp.as_deref().filter(|_| transport == "tcp");
            all(experiment, transport, size).find(|series| series.variant.as_deref() == variant)
        };
        // The raw link that the messages went by.
        let of_raw = |experiment, size| {
            all(experiment, "gigae", size).find_map(|gigae| {
                let by = |raw| went_by(gigae, raw).then(|| pick(experiment, raw, size)).flatten();
                by("xdp").or_else(|| by("packet")).map(|raw| (gigae, raw))
            })
        };
        let pairs = [
            (Experiment::Rtt, None, ROUND_TRIP_SIZE, true),
            (Experiment::Stream, None, STREAM_SIZE, true),
            (Experiment::Rtt, Some(["tcp", "gigae"]), ROUND_TRIP_SIZE, false),
            (Experiment::Stream, Some(["gigae", "tcp"]), STREAM_SIZE, false),
        ];
        for ((experiment, two, size, percent), (what, [above_1999, below_1999], unit)) in
            pairs.into_iter().zip(paper_ratios())
        {
            let found_two = match two {
                None => of_raw(experiment, size),
                Some(two) => {
                    let [above, below] = two.map(|one| pick(experiment, one, size));
                    above.zip(below)
                }
            };
            let Some((above, below)) = found_two else { continue };
            if below.median > 0.0 {
                found.push(Ratio {
                    link: link.to_owned(),
                    what: what.replace("raw link", &below.transport),
                    at: format!("{size} B, spin"),
                    ours: above.median / below.median,
                    paper: above_1999 / below_1999,
                    source: format!("{above_1999} {unit} / {below_1999} {unit}"),
                    percent,
                });
            }
        }
    }
    found
}

/// Whether messages went by the link of this raw transport, as far as is known.
fn went_by(series: &Series, raw: &str) -> bool {
    match &series.note {
        Some(Note::Link { mode, .. }) => mode.starts_with(raw),
        _ => true,
    }
}

/// What an idle endpoint on the same interface costs a TCP stream: each setting with an endpoint
/// against the same setting without one.
pub fn beside_table(results: &Results) -> Option<Table> {
    let settings = &results.plan.tcp;
    let mut rows = Vec::new();
    let streams =
        |series: &&Series| series.experiment == Experiment::Stream && series.transport == "tcp";
    for series in results.series.iter().filter(streams) {
        let Some(options) = series.variant.as_ref().and_then(|name| settings.get(name)) else {
            continue;
        };
        let plain = TcpOptions { beside: None, ..*options };
        let alone = results.series.iter().filter(streams).find(|other| {
            (&other.link, other.wait, other.size) == (&series.link, series.wait, series.size)
                && other.variant.as_ref().and_then(|name| settings.get(name)) == Some(&plain)
        });
        let (Some(alone), Some(mode)) = (alone, options.beside) else { continue };
        rows.push(vec![
            series.link.clone(),
            series.size.to_string(),
            format!("{mode:?}").to_lowercase(),
            short(alone.median),
            short(series.median),
            format!("{} %", number::signed((series.median / alone.median - 1.0) * 100.0)),
        ]);
    }
    let header = ["link", "bytes", "endpoint", "alone", "beside", "change"];
    (!rows.is_empty()).then(|| Table {
        title: "TCP beside an idle endpoint".into(),
        note: "Goodput of a TCP stream in MB/s without and with a GigaE endpoint open on both interfaces. \
               A program on a virtual Ethernet takes segmentation offload from TCP; on a real one it does not."
            .into(),
        header: header.map(str::to_owned).to_vec(),
        rows,
    })
}

/// The ratio table.
pub fn ratio_table(results: &Results) -> Table {
    let rows = ratios(results);
    let rows = rows.iter().map(|ratio| {
        vec![
            ratio.link.clone(),
            ratio.what.clone(),
            ratio.at.clone(),
            ratio.say(ratio.ours),
            ratio.say(ratio.paper),
            ratio.source.clone(),
        ]
    });
    Table {
        title: "Ratios".into(),
        note: "Figures of one run, beside those of GigaE PM II (1999).".into(),
        header: words(&["link", "ratio", "at", "here", "1999", "from"]),
        rows: rows.collect(),
    }
}

/// One table per link, experiment and style of waiting: sizes down, transports across.
pub fn figure_tables(results: &Results) -> Vec<Table> {
    let mut tables = Vec::new();
    for link in results.links() {
        for &experiment in Experiment::ALL.iter().filter(|one| one.form().sizes.is_some()) {
            for wait in [Wait::Spin, Wait::Sleep, Wait::Adaptive] {
                let series: Vec<&Series> = results.of(experiment, link, wait).collect();
                if !series.is_empty() {
                    tables.push(figure_table(results, &series));
                }
            }
        }
    }
    tables
}

/// One of them, of at least one cell.
pub(super) fn figure_table(results: &Results, series: &[&Series]) -> Table {
    let Series { experiment, link, wait, .. } = series[0];
    let labels = labels(series.iter().copied());
    let mut by_size: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for one in series {
        let row = by_size.entry(one.size).or_insert_with(|| vec![String::new(); labels.len()]);
        if let Some(column) = labels.iter().position(|label| *label == one.label()) {
            row[column] = figure(one);
        }
    }
    let SizesTitle { what, unit } = experiment.form().sizes.unwrap_or_default();
    let small = series.iter().any(|one| ratios::per_second(one).is_some());
    let also = if small { ", of small messages also their number per second" } else { "" };
    Table {
        title: format!("{what}, {} ({link})", wait.name()),
        note: format!(
            "{unit}{also}; median +- half width of its 95 % interval; ! marks a doubt. {}",
            ends(results, series)
        )
        .trim_end()
        .to_owned(),
        header: std::iter::once("bytes".to_owned()).chain(labels).collect(),
        rows: by_size
            .into_iter()
            .map(|(size, row)| std::iter::once(size.to_string()).chain(row).collect())
            .collect(),
    }
}

/// Why some of these curves end long before others: what their transports carry at most. Empty if
/// none does.
pub(super) fn ends(results: &Results, series: &[&Series]) -> String {
    let of = |one: &&Series| results.environment.link.iter().find(|link| link.name == one.link);
    let (Some(link), Some(longest)) =
        (series.first().and_then(of), series.iter().map(|one| one.size).max())
    else {
        return String::new();
    };
    let reach = |name: &str| {
        let sizes = series.iter().filter(|one| one.transport == name).map(|one| one.size);
        sizes.max().unwrap_or(0)
    };
    let mut limits: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for spec in transport::TRANSPORTS {
        let (limit, reached) = (spec.largest(link.mtu), reach(spec.name));
        if reached > 0 && reached <= longest / 2 && limit < longest {
            limits.entry(limit).or_default().push(spec.title);
        }
    }
    let words: Vec<String> = limits
        .into_iter()
        .map(|(limit, titles)| {
            format!("{}: {} B", titles.join(" and "), number::grouped(limit as u64, ","))
        })
        .collect();
    match &words[..] {
        [] => String::new(),
        words => format!("The longest message that a transport carries: {}.", words.join("; ")),
    }
}

/// A figure with its interval, and a mark where it is doubtful for a reason that others do not
/// share.
pub fn figure(series: &Series) -> String {
    let half = (series.ci95[1] - series.ci95[0]) / 2.0;
    let percent = if series.median > 0.0 { half / series.median * 100.0 } else { 0.0 };
    let doubtful = series.doubt_codes().next().is_some();
    let rate = ratios::per_second(series).map_or(String::new(), |rate| format!(" ({rate})"));
    let mark = if doubtful { " !" } else { "" };
    format!("{}{rate} +-{percent:.0}%{mark}", short(series.median))
}

/// Sending system calls per frame.
pub fn call_table(results: &Results) -> Option<Table> {
    let streams: Vec<&Series> = results
        .series
        .iter()
        .filter(|series| series.experiment == Experiment::Stream && series.wait == Wait::Spin)
        .collect();
    let name = |series: &Series| format!("{} ({})", series.label(), series.link);
    let mut columns: Vec<String> = Vec::new();
    let mut by_size: BTreeMap<usize, BTreeMap<String, f64>> = BTreeMap::new();
    for series in &streams {
        let Some(calls) = series.calls_per_frame() else { continue };
        if !columns.contains(&name(series)) {
            columns.push(name(series));
        }
        by_size.entry(series.size).or_default().insert(name(series), calls);
    }
    let rows = by_size.into_iter().map(|(size, found)| {
        let ours = columns
            .iter()
            .map(|column| found.get(column).map_or(String::new(), |calls| short(*calls)));
        std::iter::once(size.to_string()).chain(ours).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    (!rows.is_empty()).then(|| Table {
        title: "Sending system calls per frame".into(),
        note: "Streams, spin. Above 1, several messages share a frame; below 1, one call sends several frames. Calls that found no room do not count. With segmentation offload the device counts one frame of up to 64 KB.".into(),
        header: words(&["bytes"]).into_iter().chain(columns).collect(),
        rows,
    })
}

/// How many datagrams or frames a system call sends and receives, as the transports count them.
pub fn train_table(results: &Results) -> Option<Table> {
    let streams: Vec<&Series> = results
        .series
        .iter()
        .filter(|series| series.experiment == Experiment::Stream && series.wait == Wait::Spin)
        .collect();
    let mut sizes: Vec<usize> = Vec::new();
    let mut rows: Vec<(String, BTreeMap<usize, f64>)> = Vec::new();
    let mut add = |series: &Series, does: &str, count: Option<f64>| {
        let Some(count) = count else { return };
        let name = format!("{} {does} ({})", series.label(), series.link);
        sizes.push(series.size);
        match rows.iter_mut().find(|(known, _)| *known == name) {
            Some((_, found)) => drop(found.insert(series.size, count)),
            None => rows.push((name, BTreeMap::from([(series.size, count)]))),
        }
    };
    for series in streams {
        add(series, "sends", series.local.sent_per_call());
        add(series, "receives", series.remote.received_per_call());
    }
    sizes.sort_unstable();
    sizes.dedup();
    let cells = |found: &BTreeMap<usize, f64>| -> Vec<String> {
        let cell = |size| found.get(size).map_or(String::new(), |count| short(*count));
        sizes.iter().map(cell).collect()
    };
    (!rows.is_empty()).then(|| Table {
        title: "Datagrams per system call".into(),
        note: "Streams, spin, by message size in bytes. Datagrams or frames that the transport itself handed to the kernel with a sending call, and took with a call that received something; where it counts them.".into(),
        header: std::iter::once("what".to_owned())
            .chain(sizes.iter().map(|size| format!("{size} B")))
            .collect(),
        rows: rows
            .iter()
            .map(|(name, found)| std::iter::once(name.clone()).chain(cells(found)).collect())
            .collect(),
    })
}

/// What a message costs: CPU, system calls, frames, interrupts.
pub fn cost_table(results: &Results) -> Table {
    let interesting = |series: &&Series| match series.experiment {
        Experiment::Rtt => series.size == ROUND_TRIP_SIZE,
        Experiment::Stream => series.size == STREAM_SIZE,
        _ => false,
    };
    let rows = results.series.iter().filter(interesting).map(|series| {
        let per = |count: u64| series.per_message(count as f64).map_or(String::new(), short);
        vec![
            series.link.clone(),
            format!("{} {}", series.experiment.name(), series.size),
            series.label(),
            series.wait.name().to_owned(),
            percent(series.cpu_local),
            percent(series.cpu_remote),
            per(series.syscalls),
            per(series.frames),
            per(series.interrupts),
        ]
    });
    Table {
        title: "What a message costs".into(),
        note: "CPU of one processor at the measuring and at the answering end (thread and interrupts); the rest per message, measuring end.".into(),
        header: words(&["link", "what", "transport", "wait", "cpu", "cpu remote", "calls", "frames", "interrupts"]),
        rows: rows.collect(),
    }
}

/// Streams on shaped links against what their rate allows.
pub fn limit_table(results: &Results) -> Option<Table> {
    let rows =
        results.series.iter().filter(|series| series.wait == Wait::Spin).filter_map(|series| {
            let limit = series.limit?;
            (limit > 0.0 && series.size >= 1024).then(|| {
                vec![
                    series.link.clone(),
                    series.label(),
                    series.size.to_string(),
                    short(series.median),
                    short(limit),
                    tenths(series.median / limit),
                ]
            })
        });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| Table {
        title: "Share of the shaped link".into(),
        note: "Goodput in MB/s against what the link's rate allows for this payload and its headers, preamble and gap included.".into(),
        header: words(&["link", "transport", "bytes", "MB/s", "allowed", "share"]),
        rows,
    })
}

/// The conditions, as names and values.
pub fn environment_rows(results: &Results) -> Vec<NamedValue> {
    let environment = &results.environment;
    let mut rows: Vec<NamedValue> = [
        ("date", environment.date.clone()),
        ("duration", duration::seconds(environment.duration)),
        ("plan", format!("{}: {}", results.plan.name, results.plan.about)),
        ("gigae", format!("{} ({})", environment.gigae, environment.git)),
        ("kernel", environment.kernel.clone()),
        ("cpu", environment.cpu.clone()),
        ("TCP congestion control", environment.congestion_control.clone()),
        (
            "reading the clock",
            format!(
                "{}, 99 % within {}; never subtracted",
                nanoseconds(environment.timer.median_ns),
                nanoseconds(environment.timer.p99_ns)
            ),
        ),
    ]
    .map(|(name, value)| NamedValue::new(name, value))
    .into();
    rows.extend(environment.overhead.map(|own| {
        let text = format!(
            "{} of a round trip, {} of a streamed message, loop and clock; never subtracted",
            nanoseconds(own.round_trip_ns),
            nanoseconds(own.message_ns)
        );
        NamedValue::new("measuring itself", text)
    }));
    rows.extend(environment.live_view.map(|share| {
        NamedValue::new(
            "live view",
            format!("{} of a CPU, its terminal not counted", hundredths(share)),
        )
    }));
    for link in &environment.link {
        let rate = number::rate(link.rate);
        let loss = match link.loss {
            0.0 => String::new(),
            loss => format!(", {} of the frames lost", set_share(loss)),
        };
        let delay = asked::delayed(link.delay_us) + &asked::goes_down(link.down_ms);
        let buffer =
            link.switch_buffer.map_or(String::new(), |bytes| format!(", switch buffer {bytes} B"));
        let mut text = format!(
            "{}{} ({}), {rate}{loss}{delay}, MTU {}{buffer}",
            asked::side_by_side(link.links),
            link.kind,
            link.local.driver,
            link.mtu
        );
        for (end, site, idle) in
            [("local", &link.local, &link.idle_local), ("remote", &link.remote, &link.idle_remote)]
        {
            let pinned = site
                .pinned_to
                .map_or("not pinned".into(), |cpu| format!("pinned to CPU {cpu} of {}", site.cpus));
            text += &format!(
                "; {end}: {}, {pinned}, governor {}, idle before: {} work, {} steal",
                site.interface,
                site.governor,
                tenths(idle.work),
                hundredths(idle.steal)
            );
        }
        let mut push = |what: &str, value: String| {
            rows.push(NamedValue::new(format!("{what} {}", link.name), value));
        };
        push("link", text);
        if let Some([low, high]) = core_to_core(results, &link.name) {
            let text =
                "for a cache line between the CPUs of both ends and back, before each repetition";
            push("core to core", format!("{} to {} {text}", nanoseconds(low), nanoseconds(high)));
        }
        push("offloads", plain(&link.local.offloads));
        push("coalescing", plain(&link.local.coalescing));
        push("interrupts", link.local.interrupts_counted.clone());
        let (rmem, wmem) = (&link.local.tcp_rmem, &link.local.tcp_wmem);
        push("TCP buffers", format!("rmem {rmem}, wmem {wmem}"));
    }
    rows.extend(asked::settings(results));
    rows.extend(notes(results).into_iter().map(|TransportNote { label, link, note }| {
        NamedValue::new(format!("{label} ({link})"), note.to_string())
    }));
    rows
}

/// Shortest and longest round trip of a cache line between the CPUs of both ends of a link.
fn core_to_core(results: &Results, link: &str) -> Option<[f64; 2]> {
    let here = results.series.iter().filter(|series| series.link == link);
    stats::range(here.filter_map(|series| series.core_to_core))
}

/// What a transport said about itself on a link.
pub(super) struct TransportNote<'a> {
    pub(super) label: String,
    link: &'a str,
    pub(super) note: &'a Note,
}

/// What each transport said about itself, once.
pub(super) fn notes(results: &Results) -> Vec<TransportNote<'_>> {
    let mut notes: Vec<TransportNote<'_>> = Vec::new();
    for series in &results.series {
        let Some(note) = &series.note else { continue };
        let remark = TransportNote { label: series.label(), link: &series.link, note };
        if !notes.iter().any(|one| (&one.label, one.link) == (&remark.label, remark.link)) {
            notes.push(remark);
        }
    }
    notes
}

/// All doubts, those about the run first; equal ones about several figures are put together.
pub fn doubts(results: &Results) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> =
        results.doubts.iter().map(|doubt| (doubt.to_string(), Vec::new())).collect();
    let mut by_code: BTreeMap<&str, (String, Vec<String>)> = BTreeMap::new();
    let of_series = results.series.iter().map(|series| {
        let (link, wait) = (&series.link, series.wait.name());
        let (name, label, size) = (series.experiment.name(), series.label(), series.size);
        (format!("{link} {name} {label} {wait} {size} B"), &series.doubts)
    });
    let files = results.files.iter();
    let of_files = files.map(|one| (format!("{} {}", one.link, one.cell.title()), &one.doubts));
    let access = results.access.iter();
    let of_access = access.map(|one| (format!("{} {}", one.link, one.cell.title()), &one.doubts));
    let metadata = results.metadata.iter();
    let of_metadata =
        metadata.map(|one| (format!("{} {}", one.link, one.cell.title()), &one.doubts));
    let mounts = results.mounts.iter();
    let of_mounts =
        mounts.map(|one| (format!("{} {}, {}", one.link, one.cell.title(), one.what), &one.doubts));
    let shares = results.shares.iter();
    let of_shares = shares.map(|one| (format!("{} {}", one.link, one.cell.title()), &one.doubts));
    let of_services =
        of_files.chain(of_access).chain(of_metadata).chain(of_mounts).chain(of_shares);
    for (what, doubts) in of_series.chain(of_services) {
        for doubt in doubts {
            let code = doubt.code.as_ref().map_or("other", Code::as_str);
            let (advice, detail) = (doubt.advice(), doubt.detail());
            let entry =
                by_code.entry(code).or_insert_with(|| (format!("{code}: {advice}"), Vec::new()));
            entry.1.push(format!("{what}: {detail}"));
        }
    }
    found.extend(by_code.into_values());
    found.extend(results.skipped.iter().map(|skipped| {
        let what = skipped.what.as_deref().unwrap_or("everything");
        (
            format!("skipped: {} on {}", skipped.transport, skipped.link),
            vec![format!("{what}: {}", skipped.reason)],
        )
    }));
    found
}
