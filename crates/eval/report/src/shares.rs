//! Flows of several nodes that share one port.

use gigae_eval_model::number::{exact, hundredths, short, tenths};
use gigae_eval_model::results::Results;
use gigae_eval_model::shares::{FlowGroup, SharesFigure};
use gigae_eval_page::table::{Table, words};

/// Goodput, shares, drops and round trips of each mix of flows; `None` without any.
pub(crate) fn table(results: &Results) -> Option<Table> {
    let rows: Vec<Vec<String>> = results.shares.iter().map(|one| row(results, one)).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Shares of one port".into(),
        note: "Flows at once, each from or to a node of its own; all ends sleep while they wait. \
               Bytes: of a message. MB/s: of all together at the receivers. Share: the flows' goodputs, each of what the link allows its transport alone, added up. \
               Each: the shares of the flows, in their order; of more than four of a transport, the least and the greatest. Evenness: Jain's index of the goodputs, 1 if all are the same. \
               Dropped: of the frames at the flows' ports of the switch, warm-ups included. \
               Round trip: of 8 B by the transport of the first flows, between one more node and the node that has all flows, in us."
            .into(),
        header: words(&[
            "link", "buffer", "flows", "way", "bytes", "MB/s", "share", "each", "evenness", "dropped", "round trip", "p99",
        ]),
        rows,
    })
}

/// The switch's buffer on a link, in KiB.
fn buffer(results: &Results, link: &str) -> String {
    let found = results.environment.link.iter().find(|one| one.name == link);
    let bytes = found.and_then(|one| one.switch_buffer);
    bytes.map_or("-".into(), |bytes| format!("{} KiB", short(f64::from(bytes) / 1024.0)))
}

/// Flows of one transport whose shares are listed one by one; of more, the least and the greatest.
const MOST_LISTED: usize = 4;

/// The shares of the flows, transport after transport.
fn each(one: &SharesFigure) -> String {
    let mut left = &one.flows[..];
    let of_group = |group: &FlowGroup| {
        let (own, rest) = left.split_at_checked(group.count as usize).unwrap_or((left, &[]));
        left = rest;
        let shares: Option<Vec<f64>> = own.iter().map(|flow| flow.share).collect();
        let Some(shares) = shares else { return "-".to_owned() };
        if shares.len() <= MOST_LISTED {
            return shares.into_iter().map(tenths).collect::<Vec<_>>().join(", ");
        }
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        format!("{} to {}", tenths(least), tenths(shares.into_iter().fold(0.0, f64::max)))
    };
    one.cell.flows.iter().map(of_group).collect::<Vec<_>>().join("; ")
}

fn row(results: &Results, one: &SharesFigure) -> Vec<String> {
    let trips = one.trips.as_ref();
    vec![
        one.link.clone(),
        buffer(results, &one.link),
        one.cell.mix(),
        one.cell.way.words(one.cell.count()),
        one.cell.size.to_string(),
        short(one.median),
        one.share.map_or("-".into(), tenths),
        each(one),
        exact(one.fairness),
        hundredths(one.loss()),
        trips.map_or("-".into(), |trips| short(trips.p50_us)),
        trips.and_then(|trips| trips.p99_us).map_or("-".into(), short),
    ]
}

/// How different flows share a port, in a sentence for each mix of several.
pub(crate) fn findings(results: &Results) -> Vec<String> {
    results.shares.iter().filter_map(|one| sentence(results, one)).collect()
}

fn sentence(results: &Results, one: &SharesFigure) -> Option<String> {
    if one.cell.flows.len() < 2 {
        return None;
    }
    let of = |group: &FlowGroup| {
        let share = one.share_of(&group.transport, group.variant.as_deref())?;
        Some(format!("{} flows of {} get {}", group.count, group.label(), tenths(share)))
    };
    let groups: Option<Vec<String>> = one.cell.flows.iter().map(of).collect();
    let trip = one.trips.as_ref().and_then(|trips| {
        let p99 = short(trips.p99_us?);
        Some(format!("; 99 % of the round trips of 8 B meanwhile take at most {p99} us"))
    });
    Some(format!(
        "{}: of what the link allows, {} (Jain's index {:.2}){} ({}, {} of buffer).",
        one.cell.way.words(one.cell.count()),
        groups?.join(", "),
        one.fairness,
        trip.unwrap_or_default(),
        one.link,
        buffer(results, &one.link)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::shares::{FlowShare, SharesCell, TripsBeside, Way};

    fn results(flows: Vec<FlowGroup>) -> Results {
        let text = include_str!("../../model/fixtures/results-2.json");
        let mut results = Results::parse(text).unwrap();
        let link = &mut results.environment.link[0];
        link.switch_buffer = Some(65_536);
        let flow = |group: &FlowGroup| FlowShare {
            transport: group.transport.clone(),
            variant: group.variant.clone(),
            node: 1,
            goodput: 50.0,
            share: Some(0.4),
        };
        let figure = SharesFigure {
            link: link.name.clone(),
            unit: "MB/s".into(),
            median: 100.0,
            ci95: [99.0, 101.0],
            coverage: 0.97,
            repetitions: vec![100.0],
            share: Some(0.8),
            fairness: 1.0,
            flows: flows.iter().flat_map(|one| vec![flow(one); one.count as usize]).collect(),
            cell: SharesCell { way: Way::Out, flows, size: 1400 },
            switch_frames: 99,
            switch_dropped: 1,
            trips: Some(TripsBeside {
                transport: "gigae".into(),
                variant: None,
                n: 200,
                p50_us: 90.0,
                p99_us: Some(300.0),
            }),
            doubts: Vec::new(),
        };
        results.shares = vec![figure];
        results
    }

    fn group(transport: &str, variant: Option<&str>) -> FlowGroup {
        let variant = variant.map(str::to_owned);
        FlowGroup { transport: transport.into(), variant, count: 1 }
    }

    #[test]
    fn shares_drops_and_round_trips_stand_in_one_row() {
        let results = results(vec![group("gigae", Some("credit")), group("tcp", None)]);
        let table = table(&results).unwrap();
        let row = &table.rows[0];
        assert_eq!(row.len(), table.header.len());
        assert_eq!(row[1..5], ["64.0 KiB", "1 gigae credit + 1 tcp", "1 to 2", "1400"]);
        assert_eq!(row[6..], ["80.0 %", "40.0 %; 40.0 %", "1.000", "1.00 %", "90.0", "300"]);
    }

    #[test]
    fn many_flows_have_the_range_of_their_shares() {
        let mut many = results(vec![FlowGroup { count: 5, ..group("tcp", None) }]);
        many.shares[0].flows[3].share = Some(0.1);
        assert_eq!(table(&many).unwrap().rows[0][7], "10.0 % to 40.0 %");
        many.shares[0].flows[3].share = None;
        assert_eq!(table(&many).unwrap().rows[0][7], "-");
    }

    #[test]
    fn a_sentence_says_how_transports_share_and_none_is_said_of_a_single_one() {
        let mixed = results(vec![group("gigae", Some("credit")), group("tcp", None)]);
        let said = findings(&mixed);
        assert!(
            said[0].contains("1 flows of gigae credit get 40.0 %, 1 flows of tcp get 40.0 %"),
            "{said:?}"
        );
        assert!(said[0].contains("at most 300 us"), "{said:?}");
        assert!(findings(&results(vec![group("tcp", None)])).is_empty());
    }
}
