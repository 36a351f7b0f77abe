//! Copies over a link that went down once, beside the same copies over one that did not.

use crate::asked;
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
               Seconds from the start of the client to its end, median over the n repetitions, \
               beside the same over the same link that stays up. Longer is the difference; there is \
               none (-) where the intervals meet, or one of both has a single copy. Every copy that \
               is a file was compared by its hash."
            .into(),
        header: words(&[
            "copy", "link", "down ms", "n", "seconds", "undisturbed", "n", "longer", "compared",
        ]),
        rows,
    })
}

fn row(results: &Results, one: &FileFigure) -> Option<Vec<String>> {
    let down = asked::down_of(results, &one.link)?;
    let up = LinkPlan { down_ms: None, ..results.plan.link.get(&one.link)?.clone() };
    let same = |other: &&FileFigure| {
        let link = results.plan.link.get(&other.link);
        (other.ground, &other.cell) == (one.ground, &one.cell) && link == Some(&up)
    };
    let seconds = one.whole_ms? / 1e3;
    let without = results.files.iter().find(same);
    let whole = without.and_then(|other| Some(other.whole_ms? / 1e3));
    let longer = without.filter(|other| differ(one, other)).zip(whole);
    let n = |one: &FileFigure| one.repetitions.len().to_string();
    Some(vec![
        one.cell.title(),
        one.link.clone(),
        down.to_string(),
        n(one),
        short(seconds),
        whole.map_or("not measured".into(), short),
        without.map_or("-".into(), n),
        longer.map_or("-".into(), |(_, without)| short(seconds - without)),
        one.verified.to_string(),
    ])
}

/// Whether the intervals of both times are apart. One copy has none.
fn differ(one: &FileFigure, other: &FileFigure) -> bool {
    let several = |one: &FileFigure| one.whole_ci95.filter(|_| one.repetitions.len() > 1);
    let both = several(one).zip(several(other));
    both.is_some_and(|([low, high], [other_low, other_high])| low > other_high || high < other_low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, tables};
    use gigae_eval_model::cost::Cost;
    use gigae_eval_model::environment::LinkEnvironment;
    use gigae_eval_model::file_figure::FileCell;
    use gigae_eval_model::service::{Connection, Direction, Ground, Protection, Sink};
    use gigae_eval_page::table::NamedValue;

    #[test]
    fn a_copy_stands_beside_the_same_over_the_same_link_that_stays_up() {
        let mut results = gigae_eval_model::testing::first();
        let link = |down_ms, mtu| LinkPlan { down_ms, mtu, ..LinkPlan::default() };
        let links = [("up", link(None, 1500)), ("jumbo", link(None, 9000))];
        let links = links.into_iter().chain([("down", link(Some(500), 1500))]);
        results.plan.link = links.map(|(name, link)| (name.to_owned(), link)).collect();
        // What was done counts, and not what was planned.
        let done = |name: &str, down_ms| LinkEnvironment {
            name: name.into(),
            down_ms,
            ..results.environment.link[0].clone()
        };
        let done = [done("up", None), done("jumbo", None), done("down", Some(500))];
        let undone = results.environment.link.clone();
        let figure = |link: &str, size, whole_ms: f64| FileFigure {
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
            median: Some(10.0),
            ci95: Some([9.0, 11.0]),
            coverage: 0.5,
            repetitions: vec![1.0; 3],
            before_ms: None,
            whole_ms: Some(whole_ms),
            whole_ci95: Some([whole_ms - 50.0, whole_ms + 50.0]),
            transfer_ms: 1.0,
            shares: Vec::new(),
            disk_reads: None,
            server: Cost::default(),
            client: Cost::default(),
            one_cpu: false,
            limit: Some(20.0),
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
        results.environment.link = undone;
        assert!(table(&results).is_none());
        results.environment.link = done.into();
        let rows = |results: &Results| {
            let table = table(results).unwrap();
            assert!(table.title.contains("ground: transfer"));
            assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
            table.rows
        };
        let found = rows(&results);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0][2..], ["500", "3", "1.30", "0.60", "3", "0.70", "3"]);
        assert_eq!(found[1][5..8], ["not measured", "-", "-"]);
        // The link has neither a rate nor a share of its limit, and all conditions name it.
        let all = files::tables(&results);
        let each = all.iter().find(|one| one.title.starts_with("Files by programs")).unwrap();
        let rates = |row: usize| [4, 5, 7].map(|column| each.rows[row][column].as_str());
        assert_eq!((rates(1), rates(2)), (["80.0", "72.0 to 88.0 (50 %)", "50 %"], ["-"; 3]));
        for rows in [asked::conditions(&results), tables::environment_rows(&results)] {
            let goes = |row: &NamedValue| row.value.contains(", goes down for 500 ms in");
            assert_eq!(rows.iter().filter(|row| goes(row)).count(), 1, "{rows:?}");
        }
        // One copy has no interval, and intervals that meet have no difference.
        results.files[2].repetitions = vec![1.0];
        assert_eq!(rows(&results)[0][3..8], ["1", "1.30", "0.60", "3", "-"]);
        results.files[2] = figure("down", 8, 690.0);
        assert_eq!(rows(&results)[0][3..8], ["3", "0.69", "0.60", "3", "-"]);
    }
}
