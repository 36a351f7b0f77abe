//! Operations on names: how many a server does per second, and what a longer way makes of that
//! beside what it makes of data.

use crate::asked;
use crate::files::{stream_beside, trip_beside};
use gigae_eval_model::access::{AccessFigure, Export, Pattern, Way};
use gigae_eval_model::metadata::{MetadataFigure, Operation};
use gigae_eval_model::number::{many, percent, short, size};
use gigae_eval_model::plan::LinkPlan;
use gigae_eval_model::results::Results;
use gigae_eval_model::service;

/// For each link: the operations per second.
pub(super) fn metadata(results: &Results) -> Vec<String> {
    let of = |one: &MetadataFigure| {
        let rates = one
            .operations
            .iter()
            .map(|rate| format!("{} {}", rate.operation.name(), many(rate.median)));
        format!(
            "Operations on names by {} per second, one after the other: {} ({} files, {}, ground: {}).",
            title(one),
            rates.collect::<Vec<_>>().join(", "),
            one.cell.files,
            one.link,
            one.ground.name(),
        )
    };
    results.metadata.iter().map(of).collect()
}

/// For each link with a delay beside the same one without: names and data. A link of delay zero has
/// the same switch; one without a delay has the kernel's.
pub(super) fn delay(results: &Results) -> Vec<String> {
    let with = results.metadata.iter().filter_map(|one| {
        let added = asked::delay_of(results, &one.link).filter(|micros| *micros > 0)?;
        let same = results.metadata.iter().filter(|other| {
            other.cell == one.cell && is_same_but_for_the_delay(results, &one.link, &other.link)
        });
        let without = same.max_by_key(|other| asked::delay_of(results, &other.link).is_some())?;
        say(results, [without, one], added)
    });
    with.collect()
}

/// Whether the second link is the first one without its delay.
fn is_same_but_for_the_delay(results: &Results, delayed: &str, plain: &str) -> bool {
    let links = &results.plan.link;
    let (Some(one), Some(other)) = (links.get(delayed), links.get(plain)) else { return false };
    let rest = |link: &LinkPlan| {
        let buffers = (link.buffer, link.queues, link.loopback, link.cable);
        (link.rate_mbit, link.server_rate_mbit, link.mtu, link.links, link.nodes, buffers)
    };
    other.delay_us.unwrap_or(0) == 0
        && rest(one) == rest(other)
        && (one.loss, one.down_ms) == (other.loss, other.down_ms)
}

fn say(results: &Results, [without, with]: [&MetadataFigure; 2], added: u64) -> Option<String> {
    let fall = |operation| {
        let (before, after) = (without.of(operation)?, with.of(operation)?);
        Some(format!(
            "{} from {} to {} per second ({})",
            operation.name(),
            many(before.median),
            many(after.median),
            percent(after.median / before.median)
        ))
    };
    let (create, stat) = (fall(Operation::Create)?, fall(Operation::Stat)?);
    let links = [without, with].map(|one| one.link.as_str());
    let data = data(results, links).map_or(String::new(), |data| format!("; {data}"));
    let trips = links.map(|link| trip_beside(results, link).map(|trip| trip.median));
    let trips = match trips {
        [Some(before), Some(after)] => {
            format!(" (TCP's round trip: {} us instead of {})", short(after), short(before))
        }
        _ => String::new(),
    };
    let switch = match asked::delay_of(results, links[0]) {
        Some(_) => "",
        None => {
            " The two links have different switches, the kernel's and the forwarder, so not all is the delay's; compare with a link of delay_us = 0."
        }
    };
    Some(format!(
        "With {added} us added one way{trips}, operations on names by {} slow down: {create}, {stat}{data} ({}, {}).{switch}",
        title(with),
        links[0],
        links[1],
    ))
}

/// What the delay makes of data: long reads of the same service, else TCP's stream.
fn data(results: &Results, links: [&str; 2]) -> Option<String> {
    let (what, [before, after]) = long_reads(results, links).or_else(|| {
        let [before, after] = links.map(|link| stream_beside(results, link));
        Some(("TCP's stream carries".to_owned(), [before?.median, after?.median]))
    })?;
    Some(format!(
        "{what} {} MB/s instead of {} ({})",
        short(after),
        short(before),
        percent(after / before)
    ))
}

fn long_reads(results: &Results, links: [&str; 2]) -> Option<(String, [f64; 2])> {
    let usual = |one: &&AccessFigure| {
        let cell = &one.cell;
        (cell.way, cell.pattern, cell.export, cell.fsync)
            == (Way::Network, Pattern::Read, Export::Async, 0)
    };
    let all = results.access.iter().filter(|one| one.link == links[1]).filter(usual);
    let with = all.max_by_key(|one| (one.cell.block, one.cell.depth))?;
    let mut others = results.access.iter().filter(|one| one.link == links[0]);
    let without = others.find(|one| one.cell == with.cell)?;
    let what =
        format!("reads of {}, {} at a time, bring", size(with.cell.block as f64), with.cell.depth);
    Some((what, [without.read.as_ref()?.median, with.read.as_ref()?.median]))
}

fn title(one: &MetadataFigure) -> &str {
    service::by_name(&one.cell.service).map_or(&one.cell.service, |spec| spec.title)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, results};
    use super::*;
    use gigae_eval_model::environment::LinkEnvironment;
    use gigae_eval_model::experiment::Experiment;
    use gigae_eval_model::metadata::{MetadataCell, OperationRate};
    use gigae_eval_model::results::Series;
    use gigae_eval_model::service::Ground;

    fn figure(link: &str, rates: [f64; 2]) -> MetadataFigure {
        let rate = |(operation, median)| OperationRate {
            operation,
            median,
            ci95: [1.0, 2.0],
            coverage: 0.97,
            repetitions: vec![median; 6],
            samples: 256,
            p50_us: 1e6 / median,
            p99_us: 2e6 / median,
        };
        MetadataFigure {
            ground: Ground::Transfer,
            link: link.into(),
            cell: MetadataCell { service: "nfs".into(), files: 256 },
            unit: "1/s".into(),
            operations: [Operation::Create, Operation::Stat]
                .into_iter()
                .zip(rates)
                .map(rate)
                .collect(),
            verified: 768,
            version: "1".into(),
            doubts: Vec::new(),
        }
    }

    fn both() -> Results {
        let mut all = results(&["near", "far"]);
        let link = |delay_us| LinkPlan { rate_mbit: Some(1000), delay_us, ..LinkPlan::default() };
        all.plan.link =
            [("near", None), ("far", Some(1000))].map(|(n, d)| (n.to_owned(), link(d))).into();
        all.environment.link[1].delay_us = Some(1000);
        all.metadata = vec![figure("near", [1000.0, 4000.0]), figure("far", [100.0, 200.0])];
        all
    }

    #[test]
    fn the_rates_of_each_link_are_said() {
        let said = "Operations on names by NFS per second, one after the other: create 1.00k, stat 4.00k (256 files, near, ground: transfer).";
        assert_eq!(metadata(&both())[0], said);
    }

    #[test]
    fn a_delay_stands_beside_the_same_link_without_it() {
        let mut all = both();
        let start = "With 1000 us added one way, operations on names by NFS slow down: create from 1.00k to 100 per second (10 %), stat from 4.00k to 200 per second (5 %)";
        let other = " The two links have different switches, the kernel's and the forwarder, so not all is the delay's; compare with a link of delay_us = 0.";
        assert_eq!(delay(&all), [format!("{start} (near, far).{other}")]);
        all.environment.link[0].delay_us = Some(0);
        assert_eq!(delay(&all), [format!("{start} (near, far).")]);
        all.environment.link[0].delay_us = None;
        let on = |link: &str, experiment, size, median| -> Series {
            let mut one = cell(&results(&["near", "far"]), experiment, "tcp", size, median);
            one.link = link.into();
            one
        };
        all.series = vec![
            on("near", Experiment::Stream, 65536, 117.0),
            on("far", Experiment::Stream, 65536, 116.0),
        ];
        assert_eq!(
            delay(&all),
            [format!(
                "{start}; TCP's stream carries 116 MB/s instead of 117 (99 %) (near, far).{other}"
            )]
        );
        // The same switch with no delay is the better comparison.
        let zero = LinkPlan { delay_us: Some(0), ..all.plan.link["near"].clone() };
        all.plan.link.insert("zero".into(), zero);
        let near = &all.environment.link[0];
        let zero = LinkEnvironment { name: "zero".into(), delay_us: Some(0), ..near.clone() };
        all.environment.link.push(zero);
        all.metadata.push(figure("zero", [500.0, 2000.0]));
        let said = delay(&all);
        assert!(said.len() == 1 && said[0].ends_with("(zero, far)."), "{said:?}");
        all.plan.link.get_mut("zero").unwrap().mtu = 9000;
        all.plan.link.get_mut("near").unwrap().mtu = 9000;
        assert!(delay(&all).is_empty(), "another link is no comparison");
    }
}
