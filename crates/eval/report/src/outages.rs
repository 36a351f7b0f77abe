//! Copies over a link that went down once, beside the same copies over one that did not.

use gigae_eval_model::file_figure::FileFigure;
use gigae_eval_model::number::short;
use gigae_eval_model::plan::LinkPlan;
use gigae_eval_model::results::Results;
use gigae_eval_page::table::{Table, words};

/// A row for each copy over such a link.
pub(crate) fn table(results: &Results) -> Option<Table> {
    let rows: Vec<_> = results.files.iter().filter_map(|one| row(results, one)).collect();
    let ground = results.files.first()?.ground.name();
    (!rows.is_empty()).then(|| Table {
        title: format!("Copies over a link that goes down (ground: {ground})"),
        note: "The port of the client's node goes down once, when half of the bytes have passed. \
               Seconds from the start of the client to its end, median over the repetitions, beside \
               the same over the same link that stays up; longer is the difference. Every copy that \
               is a file was compared by its hash."
            .into(),
        header: words(&["copy", "link", "down ms", "seconds", "undisturbed", "longer", "compared"]),
        rows,
    })
}

fn row(results: &Results, one: &FileFigure) -> Option<Vec<String>> {
    let disturbed = results.plan.link.get(&one.link)?;
    let down = disturbed.down_ms?;
    let same = |other: &&FileFigure| {
        let link = results.plan.link.get(&other.link);
        let up = LinkPlan { down_ms: None, ..disturbed.clone() };
        (other.ground, &other.cell) == (one.ground, &one.cell) && link == Some(&up)
    };
    let seconds = one.whole_ms? / 1e3;
    let without = results.files.iter().find(same).and_then(|other| other.whole_ms);
    let without = without.map(|whole| whole / 1e3);
    let or_none = |value: Option<f64>| value.map_or("not measured".into(), short);
    Some(vec![
        one.cell.title(),
        one.link.clone(),
        down.to_string(),
        short(seconds),
        or_none(without),
        or_none(without.map(|without| seconds - without)),
        one.verified.to_string(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::cost::Cost;
    use gigae_eval_model::file_figure::FileCell;
    use gigae_eval_model::service::{Connection, Direction, Ground, Protection, Sink};

    #[test]
    fn a_copy_stands_beside_the_same_over_the_same_link_that_stays_up() {
        let mut results = gigae_eval_model::testing::first();
        let link = |down_ms, mtu| LinkPlan { down_ms, mtu, ..LinkPlan::default() };
        let links = [("up", link(None, 1500)), ("jumbo", link(None, 9000))];
        let links = links.into_iter().chain([("down", link(Some(500), 1500))]);
        results.plan.link = links.map(|(name, link)| (name.to_owned(), link)).collect();
        let figure = |link: &str, size, whole_ms| FileFigure {
            ground: Ground::Transfer,
            link: link.into(),
            cell: FileCell {
                service: "ftp".into(),
                size,
                files: 1,
                direction: Direction::Get,
                to: Sink::Disk,
                connection: Connection::New,
                clients: 1,
                protection: Protection::Off,
                memory: None,
                disk_rate: None,
            },
            unit: "MB/s".into(),
            median: None,
            ci95: None,
            coverage: 0.5,
            repetitions: vec![1.0],
            before_ms: None,
            whole_ms: Some(whole_ms),
            whole_ci95: None,
            transfer_ms: 1.0,
            shares: Vec::new(),
            disk_reads: None,
            server: Cost::default(),
            client: Cost::default(),
            one_cpu: false,
            limit: None,
            verified: 3,
            version: String::new(),
            client_version: None,
            command: String::new(),
            file_system: None,
            doubts: Vec::new(),
        };
        results.files = vec![figure("jumbo", 8, 100.0), figure("up", 8, 600.0)];
        assert!(table(&results).is_none());
        results.files.extend([figure("down", 8, 1300.0), figure("down", 9, 1400.0)]);
        let table = table(&results).unwrap();
        assert!(table.title.contains("ground: transfer"));
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[0][2..], ["500", "1.30", "0.60", "0.70", "3"]);
        assert_eq!(table.rows[1][4..6], ["not measured", "not measured"]);
        assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
    }
}
