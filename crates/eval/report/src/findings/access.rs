//! Reads and writes within a file of a server: what the depth of the queue gives, what the link
//! adds to the service, and what waiting for the disk costs.

use crate::files::stream_beside;
use gigae_eval_model::access::{AccessCell, AccessFigure, Export, Pattern, Way};
use gigae_eval_model::number::{change, many, percent, short, size};
use gigae_eval_model::plan::LinkPlan;
use gigae_eval_model::results::Results;
use gigae_eval_model::service;

/// The shortest block and depth stand for single operations.
fn shortest(one: &&AccessFigure) -> (u64, u32) {
    (one.cell.block, one.cell.depth)
}

/// Cells of this way and pattern on a link, with the usual export and without fsync.
fn usual<'a>(
    results: &'a Results,
    link: &'a str,
    way: Way,
    pattern: Pattern,
) -> impl Iterator<Item = &'a AccessFigure> {
    results.access.iter().filter(move |one| {
        one.link == link
            && (one.cell.way, one.cell.pattern) == (way, pattern)
            && one.cell.export == Export::Async
            && one.cell.fsync == 0
    })
}

/// For each link: random reads of the shortest block, one at a time and with the deepest queue; and
/// the fastest reads one after the other beside TCP.
pub(super) fn access(results: &Results) -> Vec<String> {
    let random = |link: &str| {
        let all = || usual(results, link, Way::Network, Pattern::Randread);
        let one = all().min_by_key(shortest)?;
        let read = one.read.as_ref()?;
        let deeper = all().filter(|other| other.cell.block == one.cell.block);
        let deep = deeper.max_by_key(|one| one.cell.depth)?;
        let more = deep.read.as_ref().filter(|_| deep.cell.depth > one.cell.depth);
        let p99 = read.p99_us().map(|us| format!(", p99 {} us", short(us)));
        let more = more.map(|read| {
            format!("; {} at a time: {} per second", deep.cell.depth, many(read.operations))
        });
        Some(format!(
            "Random reads of {} by {}, {} at a time: {} per second, p50 {} us{}{} ({link}, ground: {}).",
            size(one.cell.block as f64),
            title(one),
            one.cell.depth,
            many(read.operations),
            short(read.latency.p50_us),
            p99.unwrap_or_default(),
            more.unwrap_or_default(),
            one.ground.name(),
        ))
    };
    let fastest = |link: &str| {
        let rate = |one: &&AccessFigure| one.read.as_ref().map(|read| read.median);
        let all =
            usual(results, link, Way::Network, Pattern::Read).filter(|one| rate(one).is_some());
        let one = all.max_by(|one, other| {
            rate(one).partial_cmp(&rate(other)).unwrap_or(std::cmp::Ordering::Equal)
        })?;
        let (here, tcp) = (one.read.as_ref()?.median, stream_beside(results, link)?.median);
        Some(format!(
            "Reads one after the other by {} come with up to {} MB/s ({}, depth {}), {} of TCP alone ({link}).",
            title(one),
            short(here),
            size(one.cell.block as f64),
            one.cell.depth,
            percent(here / tcp),
        ))
    };
    let links = results.links().into_iter();
    links.flat_map(|link| [random(link), fastest(link)]).flatten().collect()
}

/// For each link: a single random read over it, from the server's own node, and without a server.
pub(super) fn ways(results: &Results) -> Vec<String> {
    let of_link = |link: &str| {
        let one = usual(results, link, Way::Network, Pattern::Randread).min_by_key(shortest)?;
        let by = |way: Way| {
            let cell = AccessCell { way, ..one.cell.clone() };
            let found =
                results.access.iter().find(|other| other.cell == cell && other.link == link)?;
            Some(found.read.as_ref()?.latency.p50_us)
        };
        let (network, own) = (by(Way::Network)?, by(Way::Localhost)?);
        let programs = by(Way::Local).map(|us| {
            format!(", {} us with a local file in place of the server, about what fio and qemu-nbd take", short(us))
        });
        Some(format!(
            "A random read of {} by {} takes {} us over the link, {} us from the server's own node{} (p50, {link}).",
            size(one.cell.block as f64),
            title(one),
            short(network),
            short(own),
            programs.unwrap_or_default(),
        ))
    };
    results.links().into_iter().filter_map(of_link).collect()
}

/// Each cable with each switch that differs in nothing else; both as fast as the machine can, with
/// no loss and no delay.
pub(super) fn cables_beside_switches(results: &Results) -> Vec<[&str; 2]> {
    let plain =
        |link: &LinkPlan| !(link.loopback || link.rate_mbit.is_some() || link.is_disturbed());
    let links = || results.plan.link.iter().filter(|(_, link)| plain(link));
    let pairs = links().filter(|(_, link)| link.cable).flat_map(|(cable, one)| {
        let alike = move |other: &LinkPlan| {
            !other.cable && (other.mtu, other.links, other.nodes) == (one.mtu, one.links, one.nodes)
        };
        let switches = links().filter(move |(_, other)| alike(other));
        switches.map(move |(switch, _)| [&cable[..], &switch[..]])
    });
    pairs.collect()
}

/// For each cable beside a switch of the same kind: the same accesses.
pub(super) fn direct(results: &Results) -> Vec<String> {
    let random = |[cable, switch]: [&str; 2]| {
        let one = usual(results, cable, Way::Network, Pattern::Randread).min_by_key(shortest)?;
        let mut others = results.access.iter().filter(|other| other.link == switch);
        let other = others.find(|other| other.cell == one.cell)?;
        let (direct, switched) = (one.read.as_ref()?, other.read.as_ref()?);
        let (p50, there) = (direct.latency.p50_us, switched.latency.p50_us);
        let overlap = |([low, high], [other_low, other_high]): ([f64; 2], [f64; 2])| {
            low <= other_high && other_low <= high
        };
        let is_open = direct.p50_ci95.zip(switched.p50_ci95).is_none_or(overlap);
        Some(format!(
            "Without the switch, a random read of {} by {} takes {} us instead of {} us, {} (p50; {cable}, {switch}).",
            size(one.cell.block as f64),
            title(one),
            short(p50),
            short(there),
            if is_open { "within the spread".to_owned() } else { change(p50 / there - 1.0) },
        ))
    };
    cables_beside_switches(results).into_iter().filter_map(random).collect()
}

/// For each cell with fsync or a sync export: what it makes of the same writes without.
pub(super) fn fsync(results: &Results) -> Vec<String> {
    let of = |one: &AccessFigure| {
        let cell = AccessCell { export: Export::Async, fsync: 0, ..one.cell.clone() };
        let bare = results.access.iter().find(|it| it.cell == cell && it.link == one.link)?;
        if one.cell == cell {
            return None;
        }
        let (with, without) = (one.write.as_ref()?, bare.write.as_ref()?);
        let wait = one.fsync.map(|wait| {
            let p99 = one.fsync_p99_us().map(|us| format!(", {} us (p99)", short(us)));
            format!(
                "; a wait for the disk takes {} us (p50){}",
                short(wait.p50_us),
                p99.unwrap_or_default()
            )
        });
        Some(format!(
            "{}: {} writes per second; without, {}{} ({}).",
            one.cell.title(),
            many(with.operations),
            many(without.operations),
            wait.unwrap_or_default(),
            one.link,
        ))
    };
    results.access.iter().filter_map(of).collect()
}

fn title(one: &AccessFigure) -> &str {
    service::by_name(&one.cell.service).map_or(&one.cell.service, |spec| spec.title)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, results};
    use super::*;
    use gigae_eval_model::access::{AccessRate, Latency};
    use gigae_eval_model::cost::Cost;
    use gigae_eval_model::experiment::Experiment;
    use gigae_eval_model::service::Ground;

    fn figure(way: Way, pattern: Pattern, depth: u32, operations: f64, p50: f64) -> AccessFigure {
        let rate = AccessRate {
            median: operations * 4096.0 / 1e6,
            ci95: [1.0, 2.0],
            coverage: 0.97,
            repetitions: vec![1.0; 6],
            operations,
            samples: 1000,
            p50_ci95: Some([0.99 * p50, 1.01 * p50]),
            latency: Latency { p50_us: p50, p99_us: 2.0 * p50, p999_us: 3.0 * p50 },
        };
        AccessFigure {
            ground: Ground::Transfer,
            link: "fast".into(),
            cell: AccessCell {
                service: "nfs".into(),
                way,
                pattern,
                size: 1 << 20,
                block: 4096,
                depth,
                export: Export::Async,
                fsync: 0,
                seconds: None,
            },
            unit: "MB/s".into(),
            read: Some(rate.clone()).filter(|_| pattern.reads()),
            write: Some(rate).filter(|_| pattern.writes()),
            fsync: None,
            waits: 100,
            bytes: 1 << 20,
            server: Cost::default(),
            client: Cost::default(),
            one_cpu: false,
            limit: Some(11.8),
            verified: 1 << 20,
            disk_read: None,
            file_system: None,
            version: "1".into(),
            client_versions: Vec::new(),
            command: String::new(),
            doubts: Vec::new(),
        }
    }

    #[test]
    fn a_deeper_queue_stands_beside_single_reads_and_the_fastest_reads_beside_tcp() {
        let mut all = results(&["fast"]);
        let mut tcp = cell(&all, Experiment::Stream, "tcp", 65536, 8.0);
        tcp.link = "fast".into();
        all.series = vec![tcp];
        all.access = vec![
            figure(Way::Network, Pattern::Randread, 32, 20_000.0, 900.0),
            figure(Way::Network, Pattern::Randread, 1, 5_000.0, 150.0),
            figure(Way::Network, Pattern::Read, 1, 1_000.0, 150.0),
        ];
        assert_eq!(
            access(&all),
            [
                "Random reads of 4K by NFS, 1 at a time: 5.00k per second, p50 150 us, p99 300 us; 32 at a time: 20.0k per second (fast, ground: transfer).",
                "Reads one after the other by NFS come with up to 4.10 MB/s (4K, depth 1), 51 % of TCP alone (fast)."
            ]
        );
        all.access.clear();
        assert!(access(&all).is_empty());
    }

    #[test]
    fn the_link_stands_beside_the_servers_own_node() {
        let mut all = results(&["fast"]);
        all.access = vec![
            figure(Way::Network, Pattern::Randread, 1, 5_000.0, 150.0),
            figure(Way::Localhost, Pattern::Randread, 1, 8_000.0, 110.0),
        ];
        let said = "A random read of 4K by NFS takes 150 us over the link, 110 us from the server's own node";
        assert_eq!(ways(&all), [format!("{said} (p50, fast).")]);
        all.access.push(figure(Way::Local, Pattern::Randread, 1, 20_000.0, 40.0));
        let share =
            ", 40.0 us with a local file in place of the server, about what fio and qemu-nbd take";
        assert_eq!(ways(&all), [format!("{said}{share} (p50, fast).")]);
        all.access.remove(0);
        assert!(ways(&all).is_empty());
    }

    #[test]
    fn a_cable_stands_beside_a_switch_of_the_same_kind() {
        let mut all = results(&["cable", "switch"]);
        let link = |cable| LinkPlan { cable, ..LinkPlan::default() };
        all.plan.link = [("cable", true), ("switch", false)]
            .map(|(name, cable)| (name.to_owned(), link(cable)))
            .into();
        all.access = vec![
            figure(Way::Network, Pattern::Randread, 1, 5_000.0, 90.0),
            figure(Way::Network, Pattern::Randread, 1, 5_000.0, 100.0),
        ];
        (all.access[0].link, all.access[1].link) = ("cable".into(), "switch".into());
        assert_eq!(
            direct(&all),
            [
                "Without the switch, a random read of 4K by NFS takes 90.0 us instead of 100 us, -10 % (p50; cable, switch)."
            ]
        );
        all.access[0].read.as_mut().unwrap().p50_ci95 = Some([89.0, 99.5]);
        assert!(direct(&all)[0].contains("100 us, within the spread (p50"), "{:?}", direct(&all));
        all.access[0].read.as_mut().unwrap().p50_ci95 = None;
        assert!(direct(&all)[0].contains("within the spread"), "one repetition decides nothing");
        all.plan.link.get_mut("switch").unwrap().rate_mbit = Some(1000);
        assert!(direct(&all).is_empty());
    }

    #[test]
    fn waiting_for_the_disk_stands_beside_the_same_writes_without() {
        let mut all = results(&["fast"]);
        let bare = figure(Way::Network, Pattern::Write, 1, 5_000.0, 150.0);
        let mut waits = figure(Way::Network, Pattern::Write, 1, 500.0, 150.0);
        waits.cell.fsync = 1;
        waits.fsync = Some(Latency { p50_us: 1500.0, p99_us: 3000.0, p999_us: 9000.0 });
        all.access = vec![waits, bare];
        assert_eq!(
            fsync(&all),
            [
                "nfs write 4K of 1 MiB, depth 1, fsync after 1: 500 writes per second; without, 5.00k; a wait for the disk takes 1500 us (p50), 3000 us (p99) (fast)."
            ]
        );
        all.access.remove(1);
        assert!(fsync(&all).is_empty());
    }
}
