//! What file services gave, beside TCP alone and beside what papers printed. Each ground has its
//! own table, because figures of different grounds do not compare.

use crate::{access, asked, metadata, outages};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::file_figure::{FileCell, FileFigure};
use gigae_eval_model::number::{many, percent, short};
use gigae_eval_model::plan::Condition;
use gigae_eval_model::results::{Results, Series};
use gigae_eval_model::service::Ground;
use gigae_eval_model::stats::CONFIDENCE;
use gigae_eval_model::wait::Wait;
use gigae_eval_page::table::{Table, words};

/// All tables.
pub fn tables(results: &Results) -> Vec<Table> {
    [
        beside_table(results, Ground::Transfer),
        beside_table(results, Ground::Lab),
        outages::table(results),
        table(results, Ground::Transfer),
        table(results, Ground::Lab),
        paper_table(results),
    ]
    .into_iter()
    .flatten()
    .chain(access::tables(results))
    .chain(metadata::table(results))
    .collect()
}

/// TCP's stream on a link: the one with the longest writes and nothing unusual. It goes to the
/// server's node. Where that has another rate, the slower one of both ends is the limit, either
/// way.
pub(crate) fn stream_beside<'a>(results: &'a Results, link: &str) -> Option<&'a Series> {
    let fits = |one: &&Series| {
        (one.experiment, one.transport.as_str(), one.link.as_str())
            == (Experiment::Stream, "tcp", link)
            && one.variant.is_none()
            && one.condition == Condition::default()
    };
    results.series.iter().filter(fits).max_by_key(|one| one.size)
}

/// TCP's round trip on a link: the one of the shortest messages whose ends sleep.
pub(crate) fn trip_beside<'a>(results: &'a Results, link: &str) -> Option<&'a Series> {
    let fits = |one: &&Series| {
        (one.experiment, one.transport.as_str(), one.link.as_str(), one.wait)
            == (Experiment::Rtt, "tcp", link, Wait::Sleep)
            && one.variant.is_none()
            && one.condition == Condition::default()
    };
    results.series.iter().filter(fits).min_by_key(|one| one.size)
}

/// The same transfer by another service.
pub(crate) fn is_same_but_for_the_service(one: &FileFigure, other: &FileFigure) -> bool {
    let cell = FileCell { service: one.cell.service.clone(), ..other.cell.clone() };
    (one.ground, one.link.as_str(), &one.cell) == (other.ground, other.link.as_str(), &cell)
}

/// A row for each transfer that more than one service made, with the times of all of them.
fn beside_table(results: &Results, ground: Ground) -> Option<Table> {
    let of_ground = || results.files.iter().filter(|one| one.ground == ground);
    let mut firsts: Vec<&FileFigure> = Vec::new();
    for one in of_ground() {
        let same = |other: &&FileFigure| is_same_but_for_the_service(one, other);
        if !firsts.iter().any(same) && of_ground().filter(same).count() > 1 {
            firsts.push(one);
        }
    }
    let mut services: Vec<&str> = Vec::new();
    for one in
        of_ground().filter(|one| firsts.iter().any(|it| is_same_but_for_the_service(one, it)))
    {
        if !services.contains(&one.cell.service.as_str()) {
            services.push(&one.cell.service);
        }
    }
    let row = |first: &&FileFigure| {
        let time = |service: &&str| {
            let fits = |one: &&FileFigure| {
                one.cell.service == **service && is_same_but_for_the_service(first, one)
            };
            let whole = of_ground().find(fits).and_then(|one| one.whole_ms);
            whole.map_or("-".into(), |ms| short(ms / 1e3))
        };
        let title = first.cell.title();
        let (_, what) = title.split_once(' ').unwrap_or_default();
        let what = [what.to_owned(), first.link.clone()].into_iter();
        what.chain(services.iter().map(time)).collect()
    };
    let rows: Vec<Vec<String>> = firsts.iter().map(row).collect();
    let on_ground: Vec<&FileFigure> = of_ground().collect();
    let congestion = &results.environment.congestion_control;
    let header = ["file", "link"].into_iter().chain(services.iter().copied());
    (!rows.is_empty()).then(|| Table {
        title: format!("File services side by side (ground: {})", ground.name()),
        note: format!(
            "Seconds from the start of the client to its end, with login and all: median over the \
             repetitions. Only transfers that several services made. All ends have the same CPUs. \
             TCP has the congestion control {congestion}. An NFS client that sends waits until the \
             server has the file on its disk; the others do not. \
             On a link of several networks, gigae uses all, and the others use one. rsync-ssh and scp encrypt what they \
             transfer; the others do not, unless the row says so.{}{}{}",
            what_it_is(ground),
            file_system(&on_ground),
            versions(&on_ground)
        ),
        header: header.map(str::to_owned).collect(),
        rows,
    })
}

/// What is special about a ground; empty if nothing is.
fn what_it_is(ground: Ground) -> &'static str {
    match ground {
        Ground::Lab => {
            " Both ends are in a guest of the NIC lab, on two emulated cards. Its clock counts the \
             instructions of both, so these are not times of hardware."
        }
        Ground::Transfer | Ground::Mount => "",
    }
}

/// Where the files are, and what follows from it; empty if no figure says so.
fn file_system(files: &[&FileFigure]) -> String {
    let Some(place) = files.iter().find_map(|one| one.file_system.as_ref()) else {
        return String::new();
    };
    let follows = match place.starts_with("tmpfs ") || place.starts_with("ramfs ") {
        true => "in memory, so no disk limits a copy",
        false => {
            "on a disk: before each repetition all is written to it, but the kernel may write a \
             copy to it while it is made, which takes time"
        }
    };
    format!(" Files and copies are {follows} ({place}).")
}

/// What the programs say of their versions.
fn versions(files: &[&FileFigure]) -> String {
    let mut said: Vec<String> = Vec::new();
    for one in files {
        let both = [Some(&one.version), one.client_version.as_ref()].into_iter().flatten();
        let both: Vec<&str> =
            both.map(String::as_str).filter(|version| !version.is_empty()).collect();
        let text = format!("{}: {}", one.cell.service, both.join("; "));
        if !both.is_empty() && !said.contains(&text) {
            said.push(text);
        }
    }
    if said.is_empty() { String::new() } else { format!(" Versions: {}.", said.join(", ")) }
}

fn table(results: &Results, ground: Ground) -> Option<Table> {
    let on_ground = results.files.iter().filter(|one| one.ground == ground);
    let rows: Vec<Vec<String>> = on_ground.map(|one| row(results, one)).collect();
    (!rows.is_empty()).then(|| Table {
        title: format!("Files by programs (ground: {})", ground.name()),
        note: format!("Median over the n repetitions, of all clients together. Before: start of the client, connection, login and commands, in ms, where the client says it; \
               the rate is that of the transfer after it, in Mbit/s. Short transfers have none, nor have those over a link that goes down. An interval of fewer than six copies covers what stands behind it. The table sets TCP's own stream and the link's \
               limit beside it. To disk: into a new file, which the kernel may write to the disk later. A kept \
               connection has brought another file before; all others are new. Put: a file of the client's goes to the server; an NFS client waits until the \
               server has it on its disk. Frames are those of the nodes' devices, CPU is that of \
               all processes and interrupts. Verified: copies whose SHA-256 was compared outside of the measured time.{}", what_it_is(ground)),
        header: words(&[
            "file", "link", "before ms", "transfer ms", "Mbit/s", "interval", "n", "of limit", "TCP Mbit/s", "CPU s/GB", "frames sent", "frames back", "from disk MB", "verified",
        ]),
        rows,
    })
}

fn row(results: &Results, one: &FileFigure) -> Vec<String> {
    let cell = &one.cell;
    // A rate over an outage is that of no link.
    let steady = asked::down_of(results, &one.link).is_none();
    let reads = one.disk_reads.as_ref().map(|reads| {
        let all: Vec<String> = reads.iter().map(|bytes| short(*bytes as f64 / 1e6)).collect();
        all.join(" ")
    });
    vec![
        cell.title(),
        one.link.clone(),
        one.before_ms.map_or("-".into(), short),
        short(one.transfer_ms),
        one.mbit().filter(|_| steady).map_or("-".into(), short),
        interval(
            one.ci95
                .filter(|_| steady && one.repetitions.len() > 1)
                .map(|ends| ends.map(|end| end * 8.0)),
            one.coverage,
        ),
        one.repetitions.len().to_string(),
        one.median
            .zip(one.limit)
            .filter(|_| steady)
            .map_or("-".into(), |(rate, limit)| percent(rate / limit)),
        stream_beside(results, &one.link).map_or("-".into(), |tcp| short(tcp.median * 8.0)),
        one.cpu_per_gigabyte().map_or("-".into(), short),
        many(one.server.tx_frames as f64),
        many(one.server.rx_frames as f64),
        reads.unwrap_or_else(|| "-".into()),
        one.verified.to_string(),
    ]
}

/// One copy has none, and few have one that covers less than 95 %.
pub(crate) fn interval(ends: Option<[f64; 2]>, coverage: f64) -> String {
    let Some(ends) = ends else { return "-".into() };
    let [low, high] = ends.map(short);
    match coverage < CONFIDENCE {
        true => format!("{low} to {high} ({})", percent(coverage)),
        false => format!("{low} to {high}"),
    }
}

fn paper_table(results: &Results) -> Option<Table> {
    let plan = &results.plan;
    let rows: Vec<Vec<String>> = plan
        .file_paper
        .iter()
        .map(|paper| {
            let here = paper.of.find(&results.files);
            let rate = here.and_then(FileFigure::mbit);
            let printed = short(paper.mbit);
            vec![
                if paper.bound { format!("< {printed}") } else { printed },
                paper.what.clone(),
                rate.map_or("not measured".into(), short),
                here.map_or(String::new(), |one| format!("{}, {}", one.cell.title(), one.link)),
                // A bound has no ratio.
                rate.filter(|_| !paper.bound).map_or(String::new(), |it| short(it / paper.mbit)),
                format!("{}, {}", paper.source, paper.at),
            ]
        })
        .collect();
    let named = |name: &String| plan.file_paper.iter().any(|paper| paper.source == *name);
    let sources = plan.source.iter().filter(|(name, _)| named(name));
    let sources: Vec<String> = sources.map(|(name, source)| format!("{name}: {source}.")).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Files beside the papers".into(),
        note: format!(
            "Printed rates and those of this run, in Mbit/s. The machines, disks and links are different. {}",
            sources.join(" ")
        ),
        header: words(&["printed", "of", "here", "of", "here / printed", "from"]),
        rows,
    })
}
