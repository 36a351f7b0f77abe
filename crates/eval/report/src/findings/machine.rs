//! What follows from the machine itself: its loopback, its bus, its memory.

use super::text::{by_size, bytes, differ, mark_doubtful, name, plain};
use gigae_eval_model::environment::LOOPBACK_KIND;
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::{percent, short, tenths};
use gigae_eval_model::plan::Wait;
use gigae_eval_model::results::{Results, Series};
use gigae_eval_model::transport;
use gigae_nic::{Bus, Nic};

/// Copies of this many bytes show what memory carries; smaller ones show what a call costs.
const LARGE_COPY: usize = 16 << 10;

/// The cells of a link that are largest (streams) or smallest (round trips).
fn extreme<'a>(
    results: &'a Results,
    experiment: Experiment,
    link: &'a str,
    wait: Wait,
    transport: &str,
) -> Option<&'a Series> {
    let all = plain(results, experiment, link, wait);
    let curve = by_size(&all, transport);
    match experiment {
        Experiment::Stream => curve.into_iter().max_by(|a, b| a.median.total_cmp(&b.median)),
        _ => curve.into_iter().next(),
    }
}

/// What this machine gives without any network, and how much of it a link keeps.
pub(super) fn ceiling(results: &Results) -> Vec<String> {
    let (own, others): (Vec<_>, Vec<_>) =
        results.environment.link.iter().partition(|link| link.kind == LOOPBACK_KIND);
    let mut sentences = Vec::new();
    for link in own {
        let name = link.name.as_str();
        let Some(stream) = best_tcp(results, name) else { continue };
        let trips: Vec<String> = ["tcp", "udp"]
            .into_iter()
            .filter_map(|transport| trip(results, name, transport))
            .collect();
        let trips =
            if trips.is_empty() { String::new() } else { format!("; {}", trips.join("; ")) };
        let sentence = format!(
            "Without any network TCP carries {} MB/s in writes of {}{trips} ({name}): the ceiling of this machine.",
            short(stream.median),
            bytes(stream.size)
        );
        sentences.push(mark_doubtful(sentence, &[stream]));
        for other in &others {
            let Some(there) = best_tcp(results, &other.name) else { continue };
            let sentence = if differ(there, stream) {
                format!(
                    "Over {} TCP carries {} MB/s, {} of that ceiling.",
                    other.name,
                    short(there.median),
                    tenths(there.median / stream.median)
                )
            } else {
                format!("What TCP carries over {} does not differ from that.", other.name)
            };
            sentences.push(mark_doubtful(sentence, &[there, stream]));
        }
    }
    sentences
}

fn best_tcp<'a>(results: &'a Results, link: &'a str) -> Option<&'a Series> {
    let waits = [Wait::Spin, Wait::Sleep];
    let found =
        waits.iter().filter_map(|&wait| extreme(results, Experiment::Stream, link, wait, "tcp"));
    found.max_by(|a, b| a.median.total_cmp(&b.median))
}

fn trip(results: &Results, link: &str, transport: &str) -> Option<String> {
    let at = |wait| extreme(results, Experiment::Rtt, link, wait, transport);
    let (polling, sleeping) = (at(Wait::Spin), at(Wait::Sleep));
    let size = bytes(polling.or(sleeping)?.size);
    let times: Vec<String> = [(polling, "polling"), (sleeping, "sleeping")]
        .into_iter()
        .filter_map(|(one, how)| Some(format!("{} us {how}", short(one?.median))))
        .collect();
    Some(format!("a round trip of {size} by {} takes {}", name(transport), times.join(", ")))
}

/// Something that data must pass.
#[derive(Clone, Debug, PartialEq)]
pub struct PathStage {
    /// What it is.
    pub what: String,
    /// What it carries one way, in 10^6 bytes per second.
    pub rate: f64,
    /// How that is known.
    pub source: String,
    /// Whether it is a part of the machine, and not what was measured across it.
    pub part: bool,
    /// How many of it there are, each with this rate; of a transport, how many links it uses as
    /// one.
    pub links: usize,
}

/// What data passes on the way over a link, at the measuring end: memory, bus, link, and what
/// transports make of it. Empty unless copying was measured.
pub fn ladder(results: &Results, link: &str) -> Vec<PathStage> {
    let Some(environment) = results.environment.link.iter().find(|one| one.name == link) else {
        return Vec::new();
    };
    let copies = results.series.iter().filter(|series| {
        (series.experiment, series.transport.as_str()) == (Experiment::Memory, "copy")
            && series.size >= LARGE_COPY
            && series.median > 0.0
    });
    let Some(copy) = copies.max_by_key(|series| series.size) else { return Vec::new() };
    let links = environment.links.max(1);
    let mut steps = vec![PathStage {
        what: "memory, copying".into(),
        rate: copy.size as f64 / copy.median * 1e3,
        source: format!("measured, {} at a time out of 16 MB", bytes(copy.size)),
        part: true,
        links: 1,
    }];
    let nic: Nic = serde_json::from_value(environment.local.nic.clone()).unwrap_or_default();
    steps.extend(nic.pcie.as_ref().and_then(|pcie| {
        Some(PathStage {
            what: format!("bus, {} lanes of {}", pcie.width, pcie.speed),
            rate: lane_rate(&pcie.speed)? * f64::from(pcie.width),
            source: "by the lanes in use, before the bus's own headers".into(),
            part: true,
            links,
        })
    }));
    let shaped = environment.rate.map(|rate| (rate / 8e6, "shaped"));
    // What a virtual interface says of its speed is a mere number.
    let nominal = nic.speed_mbit.filter(|_| nic.bus != Bus::Virtual);
    let speed = shaped.or(nominal.map(|mbit| (f64::from(mbit) / 8.0, "as the driver says")));
    steps.extend(speed.map(|(rate, source)| PathStage {
        what: "link".into(),
        rate,
        source: if links > 1 { format!("{source}; one of {links}") } else { source.into() },
        part: true,
        links,
    }));
    for transport in ["tcp", "gigae"] {
        let best = extreme(results, Experiment::Stream, link, Wait::Spin, transport);
        let all = transport::by_name(transport).is_some_and(|one| one.uses_all_links);
        steps.extend(best.map(|best| PathStage {
            what: format!("{}, stream", name(transport)),
            rate: best.median,
            source: format!("measured, messages of {}", bytes(best.size)),
            part: false,
            links: if all { links } else { 1 },
        }));
    }
    steps
}

/// 10^6 bytes per second of a PCI Express lane of this speed (`8.0 GT/s`), by its line code: 8b/10b
/// up to 5 GT/s, 128b/130b up to 32, 236 of 256 bytes of a flit at 64 (PCI Express Base
/// Specification).
fn lane_rate(speed: &str) -> Option<f64> {
    let transfers: f64 = speed.split_whitespace().next()?.parse().ok()?;
    let code = match transfers {
        slow if slow <= 5.0 => 0.8,
        middle if middle <= 32.0 => 128.0 / 130.0,
        _ => 236.0 / 256.0,
    };
    (transfers > 0.0).then_some(transfers * code * 1e3 / 8.0)
}

/// What is the narrowest on the way, and how much of it is used.
pub(super) fn narrowest(results: &Results) -> Vec<String> {
    results.links().into_iter().filter_map(|link| narrowest_on(results, link)).collect()
}

fn narrowest_on(results: &Results, link: &str) -> Option<String> {
    let steps = ladder(results, link);
    let parts = || steps.iter().filter(|step| step.part);
    let best = steps.iter().filter(|step| !step.part).max_by(|a, b| a.rate.total_cmp(&b.rate))?;
    // Of what is there once for each link, a transport has as many as it uses.
    let has = |step: &PathStage| step.links.min(best.links);
    let carries = |step: &PathStage| step.rate * has(step) as f64;
    let least = parts().min_by(|a, b| carries(a).total_cmp(&carries(b)))?;
    let used = best.rate / carries(least);
    let who = best.what.split(',').next().unwrap_or(&best.what);
    if parts().count() == 1 {
        return Some(format!(
            "{link} is made by software, and has no known limit. {who} carries {} MB/s, {} of what copying memory gives ({} MB/s).",
            short(best.rate),
            percent(used),
            short(least.rate)
        ));
    }
    let others: Vec<String> = parts()
        .filter(|step| *step != least)
        .map(|step| {
            format!("{} {} times as much", step.what, short(carries(step) / carries(least)))
        })
        .collect();
    let each = match has(least) {
        1 => String::new(),
        links => format!(" ({links} of {} MB/s)", short(least.rate)),
    };
    Some(format!(
        "The bottleneck of {link} is the {}: {} MB/s{each}; {}. {who} uses {} of it.",
        least.what,
        short(carries(least)),
        others.join(", "),
        tenths(used)
    ))
}

/// A slot that gives the NIC fewer or slower lanes than it has, or less than its link needs.
pub(super) fn slot(results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    for link in &results.environment.link {
        for (end, site) in [("measuring", &link.local), ("answering", &link.remote)] {
            let nic: Nic = serde_json::from_value(site.nic.clone()).unwrap_or_default();
            let Some(pcie) = &nic.pcie else { continue };
            let place = format!("{} at the {end} end", nic.name);
            if (pcie.width, &pcie.speed) != (pcie.max_width, &pcie.max_speed) {
                sentences.push(format!(
                    "The slot gives {place} {} lanes of {} where it has {} of {}.",
                    pcie.width, pcie.speed, pcie.max_width, pcie.max_speed
                ));
            }
            let bus = lane_rate(&pcie.speed).map(|rate| rate * f64::from(pcie.width));
            if let (Some(bus), Some(mbit)) = (bus, nic.speed_mbit)
                && bus < f64::from(mbit) / 8.0
            {
                sentences.push(format!(
                    "The bus of {place} carries {} MB/s each way, less than its link of {} MB/s: put it into a slot with more lanes.",
                    short(bus),
                    short(f64::from(mbit) / 8.0)
                ));
            }
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, results};
    use super::*;
    use serde_json::json;

    #[test]
    fn the_loopback_is_the_ceiling_and_links_have_a_share_of_it() {
        let mut all = results(&["loopback", "gigabit"]);
        all.environment.link[0].kind = LOOPBACK_KIND.to_owned();
        let sleeping = Series { wait: Wait::Sleep, ..cell(&all, Experiment::Rtt, "tcp", 4, 20.0) };
        let there = Series {
            link: "gigabit".into(),
            ..cell(&all, Experiment::Stream, "tcp", 65_536, 100.0)
        };
        all.series = vec![
            cell(&all, Experiment::Stream, "tcp", 65_536, 5000.0),
            cell(&all, Experiment::Rtt, "tcp", 4, 8.0),
            sleeping,
            cell(&all, Experiment::Rtt, "udp", 4, 6.0),
            there,
        ];
        assert_eq!(
            ceiling(&all),
            [
                "Without any network TCP carries 5000 MB/s in writes of 65,536 B; a round trip of 4 B by TCP \
                 takes 8.00 us polling, 20.0 us sleeping; a round trip of 4 B by UDP takes 6.00 us polling \
                 (loopback): the ceiling of this machine.",
                "Over gigabit TCP carries 100 MB/s, 2.0 % of that ceiling."
            ]
        );
    }

    fn inventory(nic: serde_json::Value, rate: Option<f64>) -> Results {
        let mut all = results(&["network"]);
        let link = &mut all.environment.link[0];
        (link.rate, link.local.nic, link.remote.nic) = (rate, nic, json!(null));
        let copy = Series {
            link: "memory".into(),
            ..cell(&all, Experiment::Memory, "copy", 65_536, 6553.6)
        };
        all.series = vec![copy, cell(&all, Experiment::Stream, "tcp", 65_536, 110.0)];
        all
    }

    fn card(width: u32, max_width: u32, speed: &str, mbit: u32) -> serde_json::Value {
        json!({
            "name": "eth1", "bus": { "kind": "pci", "address": "0000:03:00.0" }, "speed_mbit": mbit,
            "pcie": { "speed": speed, "width": width, "max_speed": "8.0 GT/s", "max_width": max_width }
        })
    }

    #[test]
    fn the_narrowest_of_memory_bus_and_link_is_named() {
        let all = inventory(card(4, 4, "8.0 GT/s", 1000), None);
        let rates: Vec<f64> =
            ladder(&all, "network").iter().map(|step| step.rate.round()).collect();
        assert_eq!(rates, [10_000.0, 3938.0, 125.0, 110.0]);
        assert_eq!(
            narrowest(&all),
            ["The bottleneck of network is the link: 125 MB/s; memory, copying 80.0 times as \
              much, bus, 4 lanes of 8.0 GT/s 31.5 times as much. TCP uses 88.0 % of it."]
        );
        assert!(slot(&all).is_empty());
    }

    #[test]
    fn a_transport_that_uses_two_links_is_set_beside_both() {
        let mut all = inventory(card(4, 4, "8.0 GT/s", 1000), None);
        all.environment.link[0].links = 2;
        let stream = cell(&all, Experiment::Stream, "gigae", 65_536, 238.0);
        all.series.push(stream);
        assert_eq!(
            narrowest(&all),
            [
                "The bottleneck of network is the link: 250 MB/s (2 of 125 MB/s); memory, copying 40.0 \
                 times as much, bus, 4 lanes of 8.0 GT/s 31.5 times as much. gigae uses 95.2 % of it."
            ]
        );
        // TCP uses one, however many there are.
        all.series.pop();
        assert!(narrowest(&all)[0].ends_with("TCP uses 88.0 % of it."));
    }

    #[test]
    fn a_slot_that_is_too_narrow_is_pointed_out() {
        let all = inventory(card(1, 4, "2.5 GT/s", 10_000), None);
        assert!(narrowest(&all)[0].contains("is the bus, 1 lanes of 2.5 GT/s: 250 MB/s"));
        let found = slot(&all);
        assert!(found[0].contains("1 lanes of 2.5 GT/s where it has 4 of 8.0 GT/s"), "{found:?}");
        assert!(
            found[1].contains("250 MB/s each way, less than its link of 1250 MB/s"),
            "{found:?}"
        );
    }

    #[test]
    fn software_has_no_bus_and_its_speed_is_no_limit() {
        let veth = json!({ "name": "eth0", "bus": { "kind": "virtual" }, "speed_mbit": 10_000 });
        let all = inventory(veth.clone(), None);
        assert!(narrowest(&all)[0].contains("made by software"), "{:?}", narrowest(&all));
        let shaped = inventory(veth, Some(1e9));
        assert!(
            narrowest(&shaped)[0].contains("is the link: 125 MB/s"),
            "{:?}",
            narrowest(&shaped)
        );
    }

    #[test]
    fn lanes_carry_what_their_code_leaves() {
        let rate = |speed| lane_rate(speed).map(f64::round);
        assert_eq!([rate("2.5 GT/s"), rate("8.0 GT/s")], [Some(250.0), Some(985.0)]);
        assert_eq!([rate("64.0 GT/s"), rate("fast")], [Some(7375.0), None]);
    }
}
