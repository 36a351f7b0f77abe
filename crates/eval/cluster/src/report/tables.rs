//! Tables of a cluster's results.

use crate::findings::slow_pairs;
use crate::results::{Bisection, ClusterResults, TransportResults};
use gigae_eval_model::number::short;
use gigae_eval_model::stats::median;
use gigae_eval_model::transport;
use gigae_eval_page::table::{Table, words};

/// What a transport is called.
pub(super) fn title(one: &TransportResults) -> &str {
    transport::by_name(&one.name).map_or(&one.name, |spec| spec.title)
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), short)
}

/// The value below which this share of sorted ones lies.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

fn sorted(values: impl Iterator<Item = Option<f64>>) -> Vec<f64> {
    let mut all: Vec<f64> = values.flatten().collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Figures over all pairs.
pub(super) fn quantiles(results: &ClusterResults) -> Table {
    let mut rows = Vec::new();
    for one in &results.transports {
        let figures: [(&str, Vec<f64>); 3] = [
            ("round trip, median, us", sorted(one.trip_p50.iter().copied())),
            ("round trip, p99, us", sorted(one.trip_p99.iter().copied())),
            ("stream, MB/s", sorted(one.forward.iter().chain(&one.backward).copied())),
        ];
        for (what, values) in figures {
            let mut row = vec![format!("{} {what}", title(one)), values.len().to_string()];
            let shares = [0.0, 0.1, 0.5, 0.9, 1.0];
            row.extend(shares.map(|share| cell(quantile(&values, share))));
            rows.push(row);
        }
    }
    Table {
        title: "Over all pairs".into(),
        note: "Pairs of a round measure at once. Streams count each way.".into(),
        header: words(&["figure", "values", "least", "10 %", "median", "90 %", "most"]),
        rows,
    }
}

/// All pairs across two halves at once.
pub(super) fn bisection(results: &ClusterResults) -> Table {
    let mut rows = Vec::new();
    for one in &results.transports {
        for (way, back) in [("first half to second", false), ("second half to first", true)] {
            let of: Vec<&Bisection> = one.bisection.iter().filter(|it| it.back == back).collect();
            let sums: Vec<f64> = of.iter().map(|it| it.sum).collect();
            let pairs = of.iter().map(|it| it.pairs).max().unwrap_or(0);
            let least = of.iter().map(|it| it.least).reduce(f64::min);
            let each = median(&sums).filter(|_| pairs > 0).map(|sum| sum / pairs as f64);
            rows.push(vec![
                format!("{}, {way}", title(one)),
                pairs.to_string(),
                of.len().to_string(),
                cell(median(&sums)),
                cell(sums.iter().copied().reduce(f64::min)),
                cell(each),
                cell(least),
            ]);
        }
    }
    Table {
        title: "Bisection bandwidth".into(),
        note: "MB/s (10^6 bytes) of all pairs across the two halves at once; the bisection is measured with several pairings.".into(),
        header: words(&["way", "pairs", "pairings", "sum, median", "sum, least", "each", "least pair"]),
        rows,
    }
}

/// A table of hosts for each transport.
pub(super) fn hosts(results: &ClusterResults) -> Vec<Table> {
    let count = results.hosts.len();
    let slow = slow_pairs(results);
    let table = |one: &TransportResults| {
        let row = |host: usize| {
            let others = || (0..count).filter(move |&other| other != host);
            let trips = sorted(others().map(|other| one.trip(count, host, other)));
            let sends = sorted(others().map(|other| one.rate(count, host, other)));
            let receives = sorted(others().map(|other| one.rate(count, other, host)));
            let incast = one.incast[host];
            vec![
                results.hosts[host].name.clone(),
                slow[host].to_string(),
                cell(quantile(&trips, 0.5)),
                cell(trips.last().copied()),
                cell(quantile(&sends, 0.5)),
                cell(sends.first().copied()),
                cell(quantile(&receives, 0.5)),
                cell(receives.first().copied()),
                cell(incast.map(|incast| incast.goodput)),
                cell(incast.map(|incast| incast.fairness)),
                incast.map_or_else(|| "-".into(), |incast| incast.repeated.to_string()),
            ]
        };
        Table {
            title: format!("{}, by host", title(one)),
            note: "Round trips in us, streams and incast in MB/s. Slow pairs are those of any transport. Fairness is Jain's index of the senders of the incast.".into(),
            header: words(&[
                "host", "slow pairs", "trip", "worst trip", "sends", "least", "receives", "least",
                "incast", "fairness", "repeated",
            ]),
            rows: (0..count).map(row).collect(),
        }
    };
    results.transports.iter().map(table).collect()
}

/// What is known of the hosts.
pub(super) fn inventory(results: &ClusterResults) -> Table {
    let row = |host: &crate::results::Host| {
        let about = &host.about;
        vec![
            host.name.clone(),
            host.rank.to_string(),
            host.interface.clone(),
            host.mac.clone(),
            host.ip.to_string(),
            host.mtu.to_string(),
            about.driver.clone(),
            about.kernel.clone(),
            about.cpu.clone(),
        ]
    };
    Table {
        title: "What the hosts are".into(),
        note: String::new(),
        header: words(&[
            "host",
            "rank",
            "interface",
            "MAC",
            "IP",
            "MTU",
            "driver",
            "kernel",
            "CPU",
        ]),
        rows: results.hosts.iter().map(row).collect(),
    }
}

/// What failed.
pub(super) fn failures(results: &ClusterResults) -> Table {
    let row = |one: &crate::results::PairFailure| {
        let texts = [&one.what, &one.transport, &one.from, &one.to, &one.reason];
        texts.map(String::clone).into()
    };
    Table {
        title: format!("{} measurements failed", results.failed),
        note: String::new(),
        header: words(&["what", "transport", "from", "to", "reason"]),
        rows: results.failures.iter().map(row).collect(),
    }
}
