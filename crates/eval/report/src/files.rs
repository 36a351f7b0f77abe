//! What file services gave, beside TCP alone and beside what papers printed. Each ground has its
//! own table, because figures of different grounds do not compare.

use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::file_figure::FileFigure;
use gigae_eval_model::number::{many, percent, short};
use gigae_eval_model::plan::Condition;
use gigae_eval_model::results::{Results, Series};
use gigae_eval_model::service::Ground;
use gigae_eval_page::table::{Table, words};

/// All tables.
pub fn tables(results: &Results) -> Vec<Table> {
    [table(results, Ground::Transfer), paper_table(results)].into_iter().flatten().collect()
}

/// TCP's stream on a link: the one with the longest writes and nothing unusual. It goes to the
/// server's node, so it says nothing of files if that node's link has another rate.
pub(crate) fn stream_beside<'a>(results: &'a Results, link: &str) -> Option<&'a Series> {
    let fits = |one: &&Series| {
        let plan = results.plan.link.get(link);
        plan.is_none_or(|link| link.server_rate_mbit.is_none())
            && (one.experiment, one.transport.as_str(), one.link.as_str())
                == (Experiment::Stream, "tcp", link)
            && one.variant.is_none()
            && one.condition == Condition::default()
    };
    results.series.iter().filter(fits).max_by_key(|one| one.size)
}

fn table(results: &Results, ground: Ground) -> Option<Table> {
    let on_ground = results.files.iter().filter(|one| one.ground == ground);
    let rows: Vec<Vec<String>> = on_ground.map(|one| row(results, one)).collect();
    (!rows.is_empty()).then(|| Table {
        title: format!("Files by programs (ground: {})", ground.name()),
        note: "Median over the repetitions, of all clients together. Before: connection, login and commands, in ms; \
               the rate is that of the transfer after it, in Mbit/s. The table sets TCP's own stream and the link's \
               limit beside it. To disk: into a new file, which the kernel may write to the disk later. A kept \
               connection has brought another file before; all others are new. Frames are those of the nodes' devices, CPU is that of \
               all processes and interrupts. Verified: copies whose SHA-256 was compared outside of the measured time."
            .into(),
        header: words(&[
            "file", "link", "before ms", "transfer ms", "Mbit/s", "interval", "of limit", "TCP Mbit/s", "CPU s/GB", "frames sent", "frames back", "from disk MB", "verified",
        ]),
        rows,
    })
}

fn row(results: &Results, one: &FileFigure) -> Vec<String> {
    let cell = &one.cell;
    let [low, high] = one.ci95.map(|end| short(end * 8.0));
    let reads = one.disk_reads.as_ref().map(|reads| {
        let all: Vec<String> = reads.iter().map(|bytes| short(*bytes as f64 / 1e6)).collect();
        all.join(" ")
    });
    vec![
        cell.title(),
        one.link.clone(),
        short(one.before_ms),
        short(one.transfer_ms),
        short(one.mbit()),
        format!("{low} to {high}"),
        one.limit.filter(|_| is_long(one)).map_or("-".into(), |limit| percent(one.median / limit)),
        stream_beside(results, &one.link).map_or("-".into(), |tcp| short(tcp.median * 8.0)),
        one.cpu_per_gigabyte().filter(|_| is_long(one)).map_or("-".into(), short),
        many(one.server.tx_frames as f64),
        many(one.server.rx_frames as f64),
        reads.unwrap_or_else(|| "-".into()),
        one.verified.to_string(),
    ]
}

/// Short transfers cost what starting their programs costs, and less than the kernel's ticks can
/// show. A shaped link carries them at once.
fn is_long(one: &FileFigure) -> bool {
    one.cell.size >= 1_000_000
}

fn paper_table(results: &Results) -> Option<Table> {
    let plan = &results.plan;
    let rows: Vec<Vec<String>> = plan
        .file_paper
        .iter()
        .map(|paper| {
            let here = paper.of.find(&results.files);
            vec![
                short(paper.mbit),
                paper.what.clone(),
                here.map_or("not measured".into(), |one| short(one.mbit())),
                here.map_or(String::new(), |one| format!("{}, {}", one.cell.title(), one.link)),
                here.map_or(String::new(), |one| short(one.mbit() / paper.mbit)),
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
