//! File services: what a transfer makes of TCP, what the login costs, and whether a file fits into
//! the server's memory.

use crate::asked;
use crate::files::{is_same_but_for_the_service, stream_beside};
use gigae_eval_model::file_figure::{FileCell, FileFigure};
use gigae_eval_model::number::{file_size, percent, short, times};
use gigae_eval_model::results::Results;
use gigae_eval_model::service::{self, Connection, Direction, OWN, Protection, Sink};
use gigae_eval_model::stats::CONFIDENCE;

/// A server that reads more of a file than this for each copy does not have it in its memory.
const READ: f64 = 0.5;

/// If more than this share of the time goes before the transfer, it is worth a sentence.
const LOGIN: f64 = 0.2;

/// Figures of links that stay up. Those of others stand in a table of their own, and are set into
/// no ratio.
fn steady(results: &Results) -> impl Iterator<Item = &FileFigure> {
    results.files.iter().filter(|one| asked::down_of(results, &one.link).is_none())
}

/// The usual cells: one client, a new connection, nothing protected and nothing limited.
fn usual<'a>(
    results: &'a Results,
    link: &'a str,
    direction: Direction,
) -> impl Iterator<Item = &'a FileFigure> {
    steady(results).filter(move |one| {
        one.link == link
            && one.cell.clients == 1
            && one.cell.connection == Connection::New
            && (one.cell.files, one.cell.direction) == (1, direction)
            && one.cell.is_plain()
    })
}

/// Fewer copies say nothing of how much they differ among themselves.
const FEW: usize = 3;

/// For each transfer by `gigae cp`: how it compares with the best of the other services, also
/// where it is slower. It says no difference where their intervals overlap, and is doubtful where
/// there are too few copies.
pub(super) fn beside(results: &Results) -> Vec<String> {
    let of = |own: &FileFigure| {
        let others = results
            .files
            .iter()
            .filter(|other| other.cell.service != OWN && is_same_but_for_the_service(own, other));
        let others = others.filter_map(|other| Some((other.whole_ms?, other)));
        let (theirs, other) = others.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        let ours = own.whole_ms?;
        let verb = if own.cell.direction.is_get() { "fetches" } else { "sends" };
        let copies = [own, other].map(|one| one.repetitions.len());
        let few = copies.iter().any(|&copies| copies < FEW);
        let overlap = own
            .whole_ci95
            .zip(other.whole_ci95)
            .is_some_and(|(one, other)| one[0] <= other[1] && other[0] <= one[1]);
        let verdict = match () {
            () if few => "too few copies for a verdict".to_owned(),
            () if overlap => "no difference".to_owned(),
            () if ours <= theirs => format!("{} as fast", times(theirs / ours)),
            () => format!("{} as fast, so it is slower", times(theirs / ours)),
        };
        let coverage = own.coverage.min(other.coverage);
        let covers = match coverage < CONFIDENCE {
            true if !few => format!(", intervals of {}", percent(coverage)),
            _ => String::new(),
        };
        let mark = if few { " !" } else { "" };
        Some(format!(
            "{} {verb} {} in {} s, {} in {} s: {verdict} ({}, {} and {} copies{covers}, ground: {}).{mark}",
            title(own),
            own.cell.what(),
            short(ours / 1e3),
            title(other),
            short(theirs / 1e3),
            own.link,
            copies[0],
            copies[1],
            own.ground.name(),
        ))
    };
    steady(results).filter(|one| one.cell.service == OWN).filter_map(of).collect()
}

/// For each link and service: what the largest file gets of TCP's stream, to null, into a new file
/// and to the server. Files that only go into new ones are not beside `gigae cp`: [`beside`] has
/// them there.
pub(super) fn files(results: &Results) -> Vec<String> {
    let has_own = results.files.iter().any(|one| one.cell.service == OWN);
    let of_link = |link: &str, service: &str| {
        let largest = |sink: Sink, direction: Direction| {
            usual(results, link, direction)
                .filter(move |one| one.cell.to == sink && one.cell.service == service)
                .max_by_key(|one| one.cell.size)
        };
        let null = largest(Sink::Null, Direction::Get);
        let new = null.is_none() && !has_own;
        let one = if new { largest(Sink::Disk, Direction::Get) } else { null };
        let one = one.filter(|one| one.median.is_some())?;
        let tcp = stream_beside(results, link);
        let tcp =
            tcp.map(|tcp| format!("; TCP alone has {} Mbit/s there", short(tcp.median * 8.0)));
        let also = |direction: Direction| {
            largest(Sink::Disk, direction).filter(|other| other.cell.size == one.cell.size)
        };
        let disk = also(Direction::Get).filter(|_| !new);
        let disk = disk.map(|disk| format!(", and into a new file with {}", mbit(disk)));
        let sent = also(Direction::Put);
        let sent = sent.map(|sent| format!(", and goes to the server with {}", mbit(sent)));
        Some(format!(
            "A file of {} comes by {}{} with {}{}{} ({link}, ground: {}){}.",
            file_size(one.cell.size),
            title(one),
            if new { " into a new file" } else { "" },
            mbit(one),
            disk.unwrap_or_default(),
            sent.unwrap_or_default(),
            one.ground.name(),
            tcp.unwrap_or_default(),
        ))
    };
    let services = services(results);
    let all = results
        .links()
        .into_iter()
        .flat_map(|link| services.iter().filter_map(move |service| of_link(link, service)));
    all.collect()
}

/// The services that were measured.
fn services(results: &Results) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for one in &results.files {
        if !names.contains(&one.cell.service.as_str()) {
            names.push(&one.cell.service);
        }
    }
    names
}

/// For each link and service: what several clients at once get, and how evenly; under the usual
/// conditions, of the most clients the largest file to null.
pub(super) fn clients(results: &Results) -> Vec<String> {
    let most = |link: &str, service: &str| {
        let fits = |one: &&FileFigure| {
            (one.link.as_str(), one.cell.service.as_str()) == (link, service)
                && one.cell.clients > 1
                && one.cell.connection == Connection::New
                && one.cell.to == Sink::Null
                && one.cell.is_plain()
        };
        let one = results
            .files
            .iter()
            .filter(fits)
            .max_by_key(|one| (one.cell.clients, one.cell.size))?;
        let rates = || one.shares.iter().map(|rate| rate * 8.0);
        let (least, most) = (rates().reduce(f64::min)?, rates().reduce(f64::max)?);
        Some(format!(
            "{} clients at once fetch {} by {} with {} together, {} to {} Mbit/s each ({link}).",
            one.cell.clients,
            file_size(one.cell.size),
            title(one),
            mbit(one),
            short(least),
            short(most),
        ))
    };
    let services = services(results);
    let all = results
        .links()
        .into_iter()
        .flat_map(|link| services.iter().filter_map(move |service| most(link, service)));
    all.collect()
}

/// For each link and service: what signing and encryption cost.
pub(super) fn protection(results: &Results) -> Vec<String> {
    let of = |one: &FileFigure| {
        let bare = FileCell { protection: Protection::Off, ..one.cell.clone() };
        let bare =
            results.files.iter().find(|other| other.cell == bare && other.link == one.link)?;
        if one.cell.protection.is_off() || one.cell.to != Sink::Null {
            return None;
        }
        let what = match one.cell.protection {
            Protection::Sign => "Signing",
            _ => "Encryption",
        };
        let (costs, before) = (one.cpu_per_gigabyte()?, bare.cpu_per_gigabyte()?);
        let (with, without) = (one.ci95?, bare.ci95?);
        let file = format!("{} by {}", file_size(one.cell.size), title(one));
        let said = if one.coverage.min(bare.coverage) < CONFIDENCE {
            format!("{what} of {file}, of too few copies for a verdict on the rate")
        } else if with[1] < without[0] || without[1] < with[0] {
            format!("{what} changes the rate of {file}")
        } else {
            format!("{what} does not measurably change the rate of {file}")
        };
        Some(format!(
            "{said}: {} with it, {} without, and {} and {} s of CPU per GB ({}).",
            mbit(one),
            mbit(bare),
            short(costs),
            short(before),
            one.link
        ))
    };
    steady(results).filter_map(of).collect()
}

/// For each link: the largest file of whose time much goes before the transfer.
pub(super) fn login(results: &Results) -> Vec<String> {
    let of_link = |link: &str| {
        let share = |one: &FileFigure| {
            let before = one.before_ms?;
            Some(before / (before + one.transfer_ms))
        };
        let fits = |one: &&FileFigure| {
            one.cell.to == Sink::Null && share(one).is_some_and(|share| share > LOGIN)
        };
        let one =
            usual(results, link, Direction::Get).filter(fits).max_by_key(|one| one.cell.size)?;
        let (before, share) = (one.before_ms?, share(one)?);
        Some(format!(
            "Of the time for a file of {} by {}, {} are {}connection and login: {} ms of {} ms ({link}).",
            file_size(one.cell.size),
            title(one),
            percent(share),
            // curl's times begin after its start, those of smbclient with it.
            if one.cell.service == "smb" { "start of the client, " } else { "" },
            short(before),
            short(before + one.transfer_ms),
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
    steady(results).filter_map(of).collect()
}

fn title(one: &FileFigure) -> &str {
    service::by_name(&one.cell.service).map_or(&one.cell.service, |spec| spec.title)
}

fn mbit(one: &FileFigure) -> String {
    one.mbit().map_or("no rate".into(), |rate| format!("{} Mbit/s", short(rate)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, results};
    use super::*;
    use gigae_eval_model::cost::Cost;
    use gigae_eval_model::experiment::Experiment;
    use gigae_eval_model::plan::FileSelector;
    use gigae_eval_model::service::Ground;

    fn figure(size: u64, memory: Option<u64>, reads: [u64; 3], rate: f64) -> FileFigure {
        FileFigure {
            ground: Ground::Transfer,
            link: "fast".into(),
            cell: FileCell {
                service: "ftp".into(),
                size,
                files: 1,
                direction: Direction::Get,
                to: Sink::Null,
                connection: Connection::New,
                clients: 1,
                protection: Protection::Off,
                memory,
                disk_rate: None,
            },
            unit: "MB/s".into(),
            median: Some(rate).filter(|_| size >= 1_000_000),
            ci95: Some([rate, rate]).filter(|_| size >= 1_000_000),
            coverage: 0.97,
            repetitions: vec![size as f64 / rate / 1e3; 3],
            before_ms: Some(5.0),
            whole_ms: Some(5.0 + size as f64 / rate / 1e3),
            whole_ci95: None,
            transfer_ms: size as f64 / rate / 1e3,
            shares: vec![rate],
            disk_reads: Some(reads.to_vec()),
            server: Cost::default(),
            client: Cost::default(),
            one_cpu: false,
            limit: Some(11.8),
            verified: 1,
            version: "1".into(),
            client_version: None,
            file_system: None,
            command: String::new(),
            doubts: Vec::new(),
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
    fn gigae_cp_stands_beside_the_best_of_the_others_also_where_it_is_slower() {
        let mut all = results(&["fast"]);
        let of = |service: &str, whole: f64| {
            let mut one = figure(4096, None, [0; 3], 10.0);
            (one.cell.service, one.cell.files, one.cell.to) = (service.into(), 10_000, Sink::Disk);
            (one.whole_ms, one.whole_ci95) = (Some(whole), Some([whole * 0.9, whole * 1.1]));
            one
        };
        all.files = vec![of("ftp", 6000.0), of("rsync", 400.0), of(OWN, 200.0)];
        let mut put = of(OWN, 800.0);
        put.cell.direction = Direction::Put;
        // The others' copies the other way say nothing of it.
        all.files.push(put.clone());
        assert_eq!(
            beside(&all),
            [
                "gigae cp fetches 10,000 files of 4,096 B in 0.20 s, rsync's daemon in 0.40 s: 2.00x as fast (fast, 3 and 3 copies, ground: transfer)."
            ]
        );
        put.cell.service = "rsync".into();
        (put.whole_ms, put.whole_ci95) = (Some(600.0), Some([590.0, 610.0]));
        all.files.push(put);
        assert_eq!(
            beside(&all)[1],
            "gigae cp sends 10,000 files of 4,096 B in 0.80 s, rsync's daemon in 0.60 s: 0.75x as fast, so it is slower (fast, 3 and 3 copies, ground: transfer)."
        );
        assert!(files(&all).is_empty() && login(&all).is_empty());
        all.files.last_mut().unwrap().whole_ci95 = Some([590.0, 720.0]);
        assert!(beside(&all)[1].contains(": no difference (fast, 3 and 3 copies,"));
        for few in all.files.iter_mut().filter(|one| one.cell.direction == Direction::Put) {
            few.coverage = 0.5;
        }
        assert!(beside(&all)[1].contains("3 and 3 copies, intervals of 50 %, ground"));
        all.files.last_mut().unwrap().repetitions.pop();
        let few = &beside(&all)[1];
        assert!(few.contains(": too few copies for a verdict (fast, 3 and 2 copies, ground"));
        assert!(few.ends_with(" !"), "{few}");
    }

    #[test]
    fn a_link_that_goes_down_is_in_no_ratio_and_has_no_rate() {
        let mut all = results(&["fast"]);
        let size = 80_000_000;
        let of = |service: &str, to, protection| {
            let mut one = figure(size, None, [0; 3], 10.0);
            (one.cell.service, one.cell.to, one.cell.protection) = (service.into(), to, protection);
            one
        };
        all.files = vec![
            of("ftp", Sink::Null, Protection::Off),
            of("ftp", Sink::Disk, Protection::Off),
            of(OWN, Sink::Disk, Protection::Off),
            of("smb", Sink::Null, Protection::Off),
            of("smb", Sink::Null, Protection::Sign),
        ];
        for one in &mut all.files {
            (one.server.cpu_thread, one.client.cpu_thread) = (1.0, 1.0);
        }
        let said = |all: &Results| [beside(all).len(), files(all).len(), protection(all).len()];
        assert_eq!(said(&all), [1, 2, 1]);
        all.environment.link[0].down_ms = Some(500);
        assert_eq!(said(&all), [0, 0, 0]);
    }

    #[test]
    fn figures_of_different_grounds_have_tables_of_their_own_and_no_ratio() {
        let mut all = results(&["fast"]);
        let of = |service: &str, ground| {
            let mut one = figure(4_000_000, None, [0; 3], 10.0);
            (one.cell.service, one.cell.to, one.ground) = (service.into(), Sink::Disk, ground);
            one
        };
        let titles = |all: &Results| {
            let tables = crate::files::tables(all).into_iter();
            tables.map(|table| table.title).collect::<Vec<String>>().join("; ")
        };
        all.files = vec![of("ftp", Ground::Lab), of(OWN, Ground::Transfer)];
        assert_eq!(beside(&all), Vec::<String>::new());
        let both = "Files by programs (ground: transfer); Files by programs (ground: lab)";
        assert_eq!(titles(&all), both);
        all.files[1].ground = Ground::Lab;
        assert!(beside(&all)[0].contains("ground: lab"), "{:?}", beside(&all));
        let lab = "File services side by side (ground: lab); Files by programs (ground: lab)";
        assert_eq!(titles(&all), lab);
        let (service, link) = ("ftp".to_owned(), all.files[0].link.clone());
        let named =
            FileSelector { service, link, size: 4_000_000, to: Sink::Disk, memory_mib: None };
        assert_eq!(named.find(&all.files), None);
        all.files[0].ground = Ground::Transfer;
        assert!(named.find(&all.files).is_some());
    }

    #[test]
    fn the_cost_of_signing_is_that_beside_the_same_copy_without() {
        let mut all = results(&["fast"]);
        let mut bare = figure(1_000_000_000, None, [0; 3], 100.0);
        bare.server.cpu_thread = 3.0;
        let mut signed = figure(1_000_000_000, None, [0; 3], 50.0);
        (signed.cell.protection, signed.server.cpu_thread) = (Protection::Sign, 6.0);
        all.files = vec![bare, signed];
        assert_eq!(
            protection(&all),
            [
                "Signing changes the rate of 1 GB by FTP: 400 Mbit/s with it, 800 Mbit/s without, and 2.00 and 1.00 s of CPU per GB (fast)."
            ]
        );
        all.files[1].ci95 = Some([49.0, 101.0]);
        assert!(protection(&all)[0].contains("does not measurably change"));
        all.files[1].coverage = 0.75;
        let few = "Signing of 1 GB by FTP, of too few copies for a verdict on the rate: 400 Mbit/s";
        assert!(protection(&all)[0].starts_with(few), "{:?}", protection(&all));
        all.files.remove(0);
        assert!(protection(&all).is_empty());
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
        all.files = [Direction::Get, Direction::Put]
            .map(|direction| {
                let mut one = figure(80_000_000, None, [0; 3], 11.5);
                (one.cell.direction, one.cell.to) = (direction, Sink::Disk);
                one.cell.service = "nfs".into();
                one
            })
            .into();
        assert_eq!(
            files(&all),
            [
                "A file of 80 MB comes by NFS into a new file with 92.0 Mbit/s, and goes to the server with 92.0 Mbit/s (fast, ground: transfer); TCP alone has 94.1 Mbit/s there."
            ]
        );
        let mut seven = figure(20_000_000, None, [0; 3], 80.0);
        (seven.cell.clients, seven.shares) = (7, vec![11.5, 11.75, 11.0]);
        let mut limited = seven.clone();
        (limited.cell.memory, limited.shares) = (Some(64 << 20), vec![1.0]);
        all.files = vec![seven, limited];
        assert_eq!(
            clients(&all),
            [
                "7 clients at once fetch 20 MB by FTP with 640 Mbit/s together, 88.0 to 94.0 Mbit/s each (fast)."
            ]
        );
        all.files.clear();
        assert!(files(&all).is_empty() && login(&all).is_empty());
    }
}
