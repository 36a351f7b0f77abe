//! What follows from streams: what they carry, in how many frames and calls, with which buffers,
//! and for how much CPU.

use super::text::{by_size, bytes, differ, mark_doubtful, name, plain};
use gigae_eval_model::experiment::Experiment;
use gigae_eval_model::number::{self, short};
use gigae_eval_model::plan::{Condition, Cpus, TcpOptions, Wait};
use gigae_eval_model::results::{Results, Series};
use gigae_eval_page::table::reference_tcp;

/// What is more calls per frame than this is coalescing, and not rounding.
const COALESCED: f64 = 1.1;

/// A buffer that gives this share of what the best gives is large enough.
const ENOUGH: f64 = 0.95;

/// The best cell of a curve.
fn best<'a>(curve: &[&'a Series]) -> Option<&'a Series> {
    curve.iter().copied().max_by(|a, b| a.median.total_cmp(&b.median))
}

/// What gigae and TCP carry at best, and from which size on they carry half of it.
pub(super) fn most(results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    for link in results.links() {
        let all = plain(results, Experiment::Stream, link, Wait::Spin);
        for transport in ["gigae", "tcp"] {
            let curve = by_size(&all, transport);
            let Some(best) = best(&curve).filter(|_| curve.len() > 2) else { continue };
            let half = curve.iter().find(|one| one.median >= best.median / 2.0);
            let half = half.map_or(String::new(), |half| {
                format!(", half of that from {} on", bytes(half.size))
            });
            let share = best.limit.filter(|limit| *limit > 0.0).map_or(String::new(), |limit| {
                format!(", {} of what the link allows", number::tenths(best.median / limit))
            });
            let sentence = format!(
                "{} carries at most {} MB/s, in messages of {}{share}{half} ({link}, spin).",
                name(transport),
                short(best.median),
                bytes(best.size)
            );
            sentences.push(mark_doubtful(sentence, &[best]));
        }
    }
    sentences
}

/// How many writes of a small message TCP puts into a frame, and from which size on one.
pub(super) fn coalescing(results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    for link in &results.environment.link {
        let all = plain(results, Experiment::Stream, &link.name, Wait::Spin);
        let curve: Vec<(usize, f64)> = by_size(&all, "tcp")
            .iter()
            .filter(|one| one.size <= link.mtu)
            .filter_map(|one| Some((one.size, one.calls_per_frame()?)))
            .collect();
        let Some(&(least, calls)) = curve.first().filter(|_| curve.len() > 1) else { continue };
        let rate = number::rate(link.rate);
        let offload = match link.local.offloads.get("tso").and_then(serde_json::Value::as_bool) {
            Some(true) => "with segmentation offload, where a frame has up to 64 KB",
            Some(false) => "without segmentation offload",
            None => "segmentation offload unknown",
        };
        let at = format!("({}, {rate}, {offload})", link.name);
        let single = curve.iter().rev().take_while(|(_, calls)| *calls <= COALESCED).last();
        let size = bytes(least);
        sentences.push(match (calls > COALESCED, single) {
            (false, _) => format!("TCP sends every write of {size} in a frame of its own {at}."),
            (true, Some((from, _))) => format!(
                "TCP puts {} writes of {size} into a frame, and from {} on one {at}.",
                short(calls),
                bytes(*from)
            ),
            (true, None) => format!(
                "TCP puts {} writes of {size} into a frame, and more than one at all sizes {at}.",
                short(calls)
            ),
        });
    }
    sentences
}

/// What fills a link: its rate times the round trip of an empty one, in bytes. `None` without a
/// rate or without TCP's round trip.
pub fn bandwidth_delay(results: &Results, link: &str) -> Option<f64> {
    let rate = results.environment.link.iter().find(|one| one.name == link)?.rate?;
    let waits = [Wait::Spin, Wait::Sleep];
    let trips = waits.iter().flat_map(|&wait| results.of(Experiment::Rtt, link, wait));
    let tcp = trips.filter(|one| one.transport == "tcp" && one.median > 0.0);
    let shortest = tcp.map(|one| one.median).reduce(f64::min)?;
    Some(rate / 8.0 * shortest * 1e-6)
}

/// TCP's streams of one size by buffer, as far as they differ in nothing else; `None` is the
/// kernel's.
fn by_buffer<'a>(
    results: &'a Results,
    link: &'a str,
    size: usize,
    nodelay: bool,
) -> Vec<(Option<u32>, &'a Series)> {
    let set = |series: &'a Series| {
        let options = results.plan.tcp.get(series.variant.as_ref()?)?;
        let expected = TcpOptions { nodelay, buffer: options.buffer, ..TcpOptions::default() };
        (*options == expected).then_some((options.buffer, series))
    };
    let streams = results.of(Experiment::Stream, link, Wait::Spin).filter(|series| {
        (series.transport.as_str(), series.size) == ("tcp", size)
            && series.condition == Condition::default()
    });
    let mut found: Vec<_> = streams.filter_map(set).collect();
    found.sort_by_key(|(buffer, _)| buffer.unwrap_or(u32::MAX));
    found
}

/// The largest size of TCP's streams on a link.
fn largest_write(results: &Results, link: &str) -> Option<usize> {
    let streams = results.of(Experiment::Stream, link, Wait::Spin);
    streams.filter(|series| series.transport == "tcp").map(|series| series.size).max()
}

/// Which socket buffer TCP needs.
pub(super) fn buffer(results: &Results) -> Vec<String> {
    let links = results.links();
    links.into_iter().filter_map(|link| buffer_on(results, link)).collect()
}

fn buffer_on(results: &Results, link: &str) -> Option<String> {
    let size = largest_write(results, link)?;
    let curve = by_buffer(results, link, size, false);
    let set: Vec<(u32, &Series)> =
        curve.iter().filter_map(|(buffer, one)| Some(((*buffer)?, *one))).collect();
    if set.len() < 3 {
        return None;
    }
    let best = curve.iter().map(|(_, one)| one.median).reduce(f64::max)?;
    let used: Vec<&Series> = curve.iter().map(|(_, one)| *one).collect();
    let (smallest, least) = set[0];
    let Some(enough) = set.iter().find(|(_, one)| one.median >= best * ENOUGH) else {
        let (largest, most) = set[set.len() - 1];
        let sentence = format!(
            "No socket buffer tried is enough for TCP: with {} it carries {} MB/s, left to the kernel {} MB/s, in writes of {} ({link}).",
            bytes(largest as usize),
            short(most.median),
            short(best),
            bytes(size)
        );
        return Some(mark_doubtful(sentence, &used));
    };
    let product = bandwidth_delay(results, link).map_or(String::new(), |product| {
        format!(
            "; the bandwidth-delay product is {}, so that it is {} times as large",
            bytes(product as usize),
            short(f64::from(enough.0) / product)
        )
    });
    let own =
        curve.iter().find(|(buffer, _)| buffer.is_none()).map_or(String::new(), |(_, one)| {
            format!("; left to the kernel it carries {} MB/s", short(one.median))
        });
    let first = if enough.0 == smallest {
        format!(
            "The smallest socket buffer tried, {}, is enough for TCP: {} MB/s of at most {} MB/s in writes of {}",
            bytes(smallest as usize),
            short(least.median),
            short(best),
            bytes(size)
        )
    } else {
        format!(
            "TCP needs socket buffers of {} for 95 % of its best, {} MB/s, in writes of {}; with {} it carries {} MB/s",
            bytes(enough.0 as usize),
            short(best),
            bytes(size),
            bytes(smallest as usize),
            short(least.median)
        )
    };
    Some(mark_doubtful(format!("{first}{product}{own} ({link})."), &used))
}

/// What TCP_NODELAY does to small writes.
pub(super) fn nodelay(results: &Results) -> Vec<String> {
    let links = results.links();
    links.into_iter().filter_map(|link| nodelay_on(results, link)).collect()
}

fn nodelay_on(results: &Results, link: &str) -> Option<String> {
    let streams = results.of(Experiment::Stream, link, Wait::Spin);
    let size = streams.filter(|one| one.transport == "tcp").map(|one| one.size).min()?;
    let (with, without) =
        (by_buffer(results, link, size, true), by_buffer(results, link, size, false));
    // The largest buffer that both were tried with: the least of other reasons to wait.
    let (buffer, with, without) = with.iter().rev().find_map(|(buffer, with)| {
        let other = without.iter().find(|(other, _)| other == buffer)?;
        Some(((*buffer)?, *with, other.1))
    })?;
    let (size, buffer) = (bytes(size), bytes(buffer as usize));
    if !differ(with, without) {
        let sentence = format!(
            "TCP_NODELAY makes no difference to a stream of writes of {size} (socket buffers of {buffer}, {link})."
        );
        return Some(mark_doubtful(sentence, &[with, without]));
    }
    let sentence = format!(
        "TCP_NODELAY makes a stream of writes of {size} {} MB/s instead of {} MB/s (socket buffers of {buffer}, {link}).",
        short(with.median),
        short(without.median)
    );
    Some(mark_doubtful(sentence, &[with, without]))
}

/// What both ends lose or gain on one CPU.
pub(super) fn cpus(results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    let tcp = reference_tcp(results);
    let pairs = results.series.iter().filter_map(|one| {
        let alone = Condition { cpus: Cpus::Two, ..one.condition };
        let expected = tcp.as_deref().filter(|_| one.transport == "tcp");
        if one.condition.cpus != Cpus::One || one.variant.as_deref() != expected {
            return None;
        }
        let two = results.of(one.experiment, &one.link, one.wait).find(|two| {
            (&two.transport, &two.variant, two.size) == (&one.transport, &one.variant, one.size)
                && two.condition == alone
        })?;
        Some((one, two))
    });
    // The largest stream and the smallest round trip of each transport say most.
    let mut chosen: Vec<(&Series, &Series)> = Vec::new();
    for (one, two) in pairs {
        let place = chosen.iter_mut().find(|(other, _)| {
            (other.experiment, &other.transport, &other.link, other.wait)
                == (one.experiment, &one.transport, &one.link, one.wait)
        });
        match place {
            Some(place) if (one.size > place.0.size) == (one.experiment == Experiment::Stream) => {
                *place = (one, two);
            }
            Some(_) => {}
            None => chosen.push((one, two)),
        }
    }
    sentences.extend(chosen.into_iter().map(|(one, two)| say_cpus(one, two)));
    sentences
}

fn say_cpus(one: &Series, two: &Series) -> String {
    let what = match one.experiment {
        Experiment::Stream => format!("{} carries", name(&one.transport)),
        _ => format!("{} answers in", name(&one.transport)),
    };
    let at = format!("{}, {}, {}", bytes(one.size), one.link, one.wait.name());
    let unit = &one.unit;
    let figures =
        format!("{} {unit} on one CPU, {} {unit} on two", short(one.median), short(two.median));
    let change = if differ(one, two) {
        number::change(one.median / two.median - 1.0)
    } else {
        "no difference".to_owned()
    };
    let demand = one.demand().zip(two.demand()).map_or(String::new(), |(one, two)| {
        format!(", for {} us of CPU per KB instead of {}", short(one.sum()), short(two.sum()))
    });
    mark_doubtful(format!("{what} {figures} ({change}){demand} ({at})."), &[one, two])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, results};
    use super::*;
    use gigae_eval_model::cost::Cost;

    fn stream(all: &Results, transport: &str, size: usize, rate: f64) -> Series {
        Series { unit: "MB/s".into(), ..cell(all, Experiment::Stream, transport, size, rate) }
    }

    #[test]
    fn the_most_that_is_carried_and_half_of_it() {
        let mut all = results(&["gigabit"]);
        all.series = [(8, 10.0), (64, 61.0), (1400, 118.0), (1468, 119.0)]
            .map(|(size, rate)| stream(&all, "gigae", size, rate))
            .to_vec();
        all.series[3].limit = Some(119.4);
        assert_eq!(
            most(&all),
            [
                "gigae carries at most 119 MB/s, in messages of 1,468 B, 99.7 % of what the link allows, \
              half of that from 64 B on (gigabit, spin)."
            ]
        );
    }

    fn calls(all: &Results, size: usize, calls: u64, frames: u64) -> Series {
        let local = Cost { send_calls: calls, tx_frames: frames, ..Cost::default() };
        Series { local, ..stream(all, "tcp", size, 10.0) }
    }

    #[test]
    fn writes_that_share_a_frame_are_counted_until_they_no_longer_do() {
        let mut all = results(&["gigabit"]);
        all.environment.link[0].rate = Some(1e9);
        all.environment.link[0].local.offloads = serde_json::json!({ "tso": false });
        all.series = vec![
            calls(&all, 8, 204, 10),
            calls(&all, 128, 15, 10),
            calls(&all, 256, 11, 10),
            calls(&all, 1024, 10, 10),
            calls(&all, 65_536, 1, 45),
        ];
        assert_eq!(
            coalescing(&all),
            ["TCP puts 20.4 writes of 8 B into a frame, and from 256 B on one \
              (gigabit, 1000 Mbit/s, without segmentation offload)."]
        );
        all.series[0].local.send_calls = 10;
        assert!(coalescing(&all)[0].contains("a frame of its own"), "{:?}", coalescing(&all));
    }

    fn buffered(all: &mut Results, name: &str, buffer: Option<u32>, nodelay: bool, rate: f64) {
        all.plan.tcp.insert(name.into(), TcpOptions { nodelay, buffer, ..TcpOptions::default() });
        let variant = Some(name.to_owned());
        let small = Series { variant: variant.clone(), ..stream(all, "tcp", 64, rate / 10.0) };
        let large = Series { variant, ..stream(all, "tcp", 65_536, rate) };
        all.series.extend([small, large]);
    }

    #[test]
    fn the_buffer_that_is_enough_stands_beside_the_product() {
        let mut all = results(&["gigabit"]);
        all.environment.link[0].rate = Some(1e9);
        all.series = vec![cell(&all, Experiment::Rtt, "tcp", 8, 64.0)];
        buffered(&mut all, "4k", Some(4096), false, 30.0);
        buffered(&mut all, "16k", Some(16_384), false, 90.0);
        buffered(&mut all, "64k", Some(65_536), false, 116.0);
        buffered(&mut all, "256k", Some(262_144), false, 117.0);
        buffered(&mut all, "own", None, false, 117.5);
        assert_eq!(bandwidth_delay(&all, "gigabit"), Some(8000.0));
        assert_eq!(
            buffer(&all),
            [
                "TCP needs socket buffers of 65,536 B for 95 % of its best, 118 MB/s, in writes of 65,536 B; \
              with 4,096 B it carries 30.0 MB/s; the bandwidth-delay product is 8,000 B, so that it is 8.19 \
              times as large; left to the kernel it carries 118 MB/s (gigabit)."
            ]
        );
        assert!(nodelay(&all).is_empty());
        let mut hungry = all.clone();
        hungry.series.retain(|one| one.variant.as_deref() != Some("own"));
        buffered(&mut hungry, "own", None, false, 500.0);
        assert_eq!(
            buffer(&hungry),
            [
                "No socket buffer tried is enough for TCP: with 262,144 B it carries 117 MB/s, left to the \
              kernel 500 MB/s, in writes of 65,536 B (gigabit)."
            ]
        );
        buffered(&mut all, "quick", Some(262_144), true, 50.0);
        assert_eq!(
            nodelay(&all),
            ["TCP_NODELAY makes a stream of writes of 64 B 5.00 MB/s instead of 11.7 MB/s \
              (socket buffers of 262,144 B, gigabit)."]
        );
        let mut few = all;
        few.series.retain(|one| one.variant.as_deref() != Some("16k"));
        few.series.retain(|one| one.variant.as_deref() != Some("64k"));
        assert!(buffer(&few).is_empty());
    }

    #[test]
    fn one_cpu_is_set_beside_two_with_what_a_kilobyte_costs() {
        let mut all = results(&["gigabit"]);
        let cost = |thread, interrupts| Cost {
            seconds: 1.0,
            cpu_thread: thread,
            cpu_interrupts: interrupts,
            ..Cost::default()
        };
        let two = Series {
            sent: 1024,
            local: cost(0.1, 0.02),
            remote: cost(0.2, 0.04),
            ..stream(&all, "tcp", 1024, 100.0)
        };
        let alone = Condition { cpus: Cpus::One, ..Condition::default() };
        let one = Series { condition: alone, median: 80.0, ci95: [79.0, 81.0], ..two.clone() };
        // Each end has the other beside it.
        let beside = |cost: Cost, others| Cost { cpu_others: others, ..cost };
        let (local, remote) = (beside(one.local, 0.2), beside(one.remote, 0.1));
        let one = Series { local, remote, ..one };
        let sum = |series: &Series| series.demand().unwrap().sum();
        // 0.36 s over 1,024 KB; on one CPU the interrupts are the same ones at both ends.
        assert!((sum(&two) - 351.5625).abs() < 1e-6 && (sum(&one) - 332.03125).abs() < 1e-6);
        for series in [&two, &one] {
            let gigabyte = sum(series) * 1e9 / (1024.0 * 1e6);
            assert!((series.cpu_per_gigabyte().unwrap() - gigabyte).abs() < 1e-6);
        }
        all.series = vec![two, one];
        assert_eq!(
            cpus(&all),
            [
                "TCP carries 80.0 MB/s on one CPU, 100 MB/s on two (-20 %), for 332 us of CPU per KB instead \
              of 352 (1,024 B, gigabit, spin)."
            ]
        );
        all.series.remove(0);
        assert!(cpus(&all).is_empty());
    }
}
