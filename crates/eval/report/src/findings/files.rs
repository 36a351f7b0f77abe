//! File services: what a transfer makes of TCP, what the login costs, and whether a file fits into
//! the server's memory.

use crate::files::stream_beside;
use gigae_eval_model::file_figure::FileFigure;
use gigae_eval_model::number::{file_size, percent, short};
use gigae_eval_model::results::Results;
use gigae_eval_model::service::{self, Connection, Sink};

/// A server that reads more of a file than this for each copy does not have it in its memory.
const READ: f64 = 0.5;

/// A login that takes more than this share of the time is worth a sentence.
const LOGIN: f64 = 0.2;

/// The usual cells: one client, a new connection, nothing protected and nothing limited.
fn usual<'a>(results: &'a Results, link: &'a str) -> impl Iterator<Item = &'a FileFigure> {
    results.files.iter().filter(move |one| {
        one.link == link
            && one.cell.clients == 1
            && one.cell.connection == Connection::New
            && one.cell.is_plain()
    })
}

/// For each link: what the largest file gets of TCP's stream, to null and to disk.
pub(super) fn files(results: &Results) -> Vec<String> {
    let of_link = |link: &str| {
        let to = |sink: Sink| {
            usual(results, link)
                .filter(move |one| one.cell.to == sink)
                .max_by_key(|one| one.cell.size)
        };
        let one = to(Sink::Null)?;
        let tcp = stream_beside(results, link)?;
        let disk = to(Sink::Disk).filter(|disk| disk.cell.size == one.cell.size);
        let disk = disk.map(|disk| format!(", and into a new file with {}", mbit(disk)));
        Some(format!(
            "A file of {} comes by {} with {}{} ({link}, ground: {}); TCP alone has {} Mbit/s there.",
            file_size(one.cell.size),
            title(one),
            mbit(one),
            disk.unwrap_or_default(),
            one.ground.name(),
            short(tcp.median * 8.0),
        ))
    };
    results.links().into_iter().filter_map(of_link).collect()
}

/// For each link: files whose login takes longer than they do.
pub(super) fn login(results: &Results) -> Vec<String> {
    let of_link = |link: &str| {
        let share = |one: &FileFigure| one.before_ms / (one.before_ms + one.transfer_ms);
        let fits = |one: &&FileFigure| one.cell.to == Sink::Null && share(one) > LOGIN;
        let one = usual(results, link).filter(fits).max_by_key(|one| one.cell.size)?;
        Some(format!(
            "Of the time for a file of {} by {}, {} are connection and login: {} ms of {} ms ({link}).",
            file_size(one.cell.size),
            title(one),
            percent(share(one)),
            short(one.before_ms),
            short(one.before_ms + one.transfer_ms),
        ))
    };
    results.links().into_iter().filter_map(of_link).collect()
}

/// For each server whose memory is limited: whether the file fits, by what it read from its disk.
pub(super) fn memory(results: &Results) -> Vec<String> {
    let of = |one: &FileFigure| {
        let (memory, share) = (one.cell.memory?, one.read_share()?);
        let size = file_size(one.cell.size);
        let memory = format!("{} MiB", memory >> 20);
        Some(if share > READ {
            format!(
                "The file does not fit: with {memory}, the server reads {} of {size} from its disk for each copy, and gives {} ({}).",
                percent(share),
                mbit(one),
                one.link
            )
        } else {
            format!(
                "The file fits: with {memory}, the server reads {} of {size} from its disk for each copy, and gives {} ({}).",
                percent(share),
                mbit(one),
                one.link
            )
        })
    };
    results.files.iter().filter_map(of).collect()
}

fn title(one: &FileFigure) -> &str {
    service::by_name(&one.cell.service).map_or(&one.cell.service, |spec| spec.title)
}

fn mbit(one: &FileFigure) -> String {
    format!("{} Mbit/s", short(one.mbit()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, results};
    use super::*;
    use gigae_eval_model::cost::Cost;
    use gigae_eval_model::experiment::Experiment;
    use gigae_eval_model::file_figure::FileCell;
    use gigae_eval_model::service::{Ground, Protection};

    fn figure(size: u64, memory: Option<u64>, reads: [u64; 3], rate: f64) -> FileFigure {
        FileFigure {
            ground: Ground::Transfer,
            link: "fast".into(),
            cell: FileCell {
                service: "ftp".into(),
                size,
                to: Sink::Null,
                connection: Connection::New,
                clients: 1,
                protection: Protection::Off,
                memory,
                disk_rate: None,
            },
            unit: "MB/s".into(),
            median: rate,
            ci95: [rate, rate],
            coverage: 0.75,
            repetitions: vec![rate; 3],
            before_ms: 5.0,
            transfer_ms: size as f64 / rate / 1e3,
            shares: vec![rate],
            disk_reads: Some(reads.to_vec()),
            server: Cost::default(),
            client: Cost::default(),
            limit: Some(11.8),
            verified: 1,
            version: "1".into(),
            command: String::new(),
        }
    }

    #[test]
    fn a_file_fits_if_the_server_does_not_read_it_again() {
        let mut all = results(&["fast"]);
        let size = 80_000_000;
        all.files = vec![
            figure(size, Some(64 << 20), [size; 3], 6.0),
            figure(size, Some(192 << 20), [size, 0, 0], 11.75),
            figure(size, None, [0; 3], 11.75),
        ];
        assert_eq!(
            memory(&all),
            [
                "The file does not fit: with 64 MiB, the server reads 100 % of 80 MB from its disk for each copy, and gives 48.0 Mbit/s (fast).",
                "The file fits: with 192 MiB, the server reads 0 % of 80 MB from its disk for each copy, and gives 94.0 Mbit/s (fast)."
            ]
        );
    }

    #[test]
    fn the_largest_file_stands_beside_tcp_and_a_small_ones_login_beside_its_time() {
        let mut all = results(&["fast"]);
        let mut tcp = cell(&all, Experiment::Stream, "tcp", 65536, 11.76);
        tcp.link = "fast".into();
        all.series = vec![tcp];
        all.files = vec![figure(2000, None, [0; 3], 10.0), figure(80_000_000, None, [0; 3], 11.75)];
        assert_eq!(
            files(&all),
            [
                "A file of 80 MB comes by FTP with 94.0 Mbit/s (fast, ground: transfer); TCP alone has 94.1 Mbit/s there."
            ]
        );
        assert_eq!(
            login(&all),
            [
                "Of the time for a file of 2 KB by FTP, 96 % are connection and login: 5.00 ms of 5.20 ms (fast)."
            ]
        );
        all.files.clear();
        assert!(files(&all).is_empty() && login(&all).is_empty());
    }
}
