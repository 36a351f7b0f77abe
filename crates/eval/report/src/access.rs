//! What file servers gave to reads and writes within a file, beside TCP alone and beside what
//! papers printed.

use crate::files::{interval, stream_beside};
use gigae_eval_model::access::{AccessFigure, AccessRate, Way};
use gigae_eval_model::number::{many, short};
use gigae_eval_model::results::Results;
use gigae_eval_page::table::{Table, words};

/// All tables.
pub(crate) fn tables(results: &Results) -> Vec<Table> {
    [table(results), paper_table(results)].into_iter().flatten().collect()
}

fn table(results: &Results) -> Option<Table> {
    let rows: Vec<Vec<String>> = results.access.iter().flat_map(|one| rows(results, one)).collect();
    let first = results.access.first()?;
    let (ground, place) = (first.ground.name(), first.file_system.as_ref());
    let said = std::iter::once(&first.version).chain(&first.client_versions);
    let versions: Vec<&str> = said.map(String::as_str).filter(|said| !said.is_empty()).collect();
    Some(Table {
        title: format!("Reads and writes within a file (ground: {ground})"),
        note: format!(
            "By fio, whose reads and writes qemu-nbd sends to the server. Medians over the n repetitions. MB are 10^6 bytes. \
               Times of single operations are from the call to its end, in us, and contain the way through both programs: \
               the rows with the way local show about what the programs themselves take. A dash: too few operations for that share. \
               An interval of fewer than six repetitions covers what stands behind it. TCP is its own stream on the link, in MB/s. \
               CPU is that of the server and the client's programs with interrupts. \
               Verified: MB that were written over the link, read back and compared before; a dash: not with this way or export.{}{}",
            place.map_or(String::new(), |place| format!(" The files are in {place}.")),
            if versions.is_empty() {
                String::new()
            } else {
                format!(" Versions: {}.", versions.join("; "))
            },
        ),
        header: words(&[
            "access",
            "link",
            "of",
            "MB/s",
            "per s",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "interval",
            "n",
            "TCP MB/s",
            "CPU s/GB",
            "fsync p50 us",
            "fsync p99 us",
            "verified",
        ]),
        rows,
    })
}

/// One row for reads and one for writes.
fn rows(results: &Results, one: &AccessFigure) -> Vec<Vec<String>> {
    let tcp = stream_beside(results, &one.link).filter(|_| one.cell.way == Way::Network);
    let tcp = tcp.map_or("-".into(), |tcp| short(tcp.median));
    let cpu = one.cpu_per_gigabyte().map_or("-".into(), short);
    let row = |(word, side): (&str, &AccessRate)| {
        let wait = one.fsync.filter(|_| word == "write");
        vec![
            one.cell.title(),
            one.link.clone(),
            word.to_owned(),
            short(side.median),
            many(side.operations),
            short(side.latency.p50_us),
            side.p99_us().map_or("-".into(), short),
            side.p999_us().map_or("-".into(), short),
            interval((side.repetitions.len() > 1).then_some(side.ci95), side.coverage),
            side.repetitions.len().to_string(),
            tcp.clone(),
            cpu.clone(),
            wait.map_or("-".into(), |wait| short(wait.p50_us)),
            wait.and_then(|_| one.fsync_p99_us()).map_or("-".into(), short),
            match one.verified {
                0 => "-".into(),
                bytes => short(bytes as f64 / 1e6),
            },
        ]
    };
    one.sides().map(row).collect()
}

fn paper_table(results: &Results) -> Option<Table> {
    let plan = &results.plan;
    let rows: Vec<Vec<String>> = plan
        .access_paper
        .iter()
        .map(|paper| {
            let here = paper.of.find(&results.access);
            vec![
                short(paper.megabytes),
                paper.what.clone(),
                here.map_or("not measured".into(), |(_, side)| short(side.median)),
                here.map_or(String::new(), |(one, _)| {
                    format!("{}, {}", one.cell.title(), one.link)
                }),
                here.map_or(String::new(), |(_, side)| short(side.median / paper.megabytes)),
                format!("{}, {}", paper.source, paper.at),
            ]
        })
        .collect();
    let named = |name: &String| plan.access_paper.iter().any(|paper| paper.source == *name);
    let sources = plan.source.iter().filter(|(name, _)| named(name));
    let sources: Vec<String> = sources.map(|(name, source)| format!("{name}: {source}.")).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Reads and writes beside the papers".into(),
        note: format!(
            "Printed rates and those of this run, in MB/s. The papers' client was a mounted file system with a cache, and the machines, disks and links were different. {}",
            sources.join(" ")
        ),
        header: words(&["printed", "of", "here", "of", "here / printed", "from"]),
        rows,
    })
}
