//! File services in guests: a table for each transfer, with guests in rows and services in columns.

use super::markdown::kernel;
use super::record::{FileRow, LabRecord, Run};
use gigae_eval_model::number::{many, short};
use gigae_eval_model::service::{self, Direction, Ground};
use gigae_eval_page::table::Table;

/// All tables; none if no guest measured file services.
pub(super) fn tables(record: &LabRecord) -> Vec<Table> {
    let runs: Vec<&Run> = record.runs.iter().filter(|run| !run.files.is_empty()).collect();
    let mut transfers: Vec<(&str, Direction)> = Vec::new();
    for row in runs.iter().flat_map(|run| &run.files) {
        if !transfers.contains(&row.transfer()) {
            transfers.push(row.transfer());
        }
    }
    let times = transfers.iter().map(|transfer| {
        let cell = |row: &FileRow| match row.mbit {
            Some(mbit) => format!("{} ({})", short(row.seconds), short(mbit)),
            None => short(row.seconds),
        };
        let note = "Seconds of the guest from the start of the client to its end, with login and \
                    all: medians. In brackets the rate in Mbit/s: of the transfer alone where the \
                    client says how long that took, else of all its time; short transfers have \
                    none. Both ends are in one guest, whose clock counts the instructions of both. \
                    Files and copies are in memory.";
        table(&runs, *transfer, "", note, &cell)
    });
    let costs = transfers.first().map(|transfer| {
        let cell = |row: &FileRow| {
            let [sent, back] = row.frames.map(many);
            let [server, client] = row.interrupts.map(many);
            format!("{sent} + {back}, {server} + {client}")
        };
        let note = "Of each copy: frames that the server's card sent and received, and interrupts \
                    in which the kernel received frames, of the server's processor and of the \
                    client's.";
        table(&runs, *transfer, ": frames, interrupts", note, &cell)
    });
    times.chain(costs).collect()
}

fn table(
    runs: &[&Run],
    transfer: (&str, Direction),
    of: &str,
    note: &str,
    cell: &dyn Fn(&FileRow) -> String,
) -> Table {
    let has = |name: &str| {
        let mut rows = runs.iter().flat_map(|run| &run.files);
        rows.any(|row| row.service == name && row.transfer() == transfer)
    };
    let services: Vec<_> = service::SERVICES.iter().filter(|spec| has(spec.name)).collect();
    let row = |run: &&Run| {
        let found = |spec: &&service::ServiceSpec| {
            let mut rows = run.files.iter();
            let row = rows.find(|row| row.service == spec.name && row.transfer() == transfer);
            row.map_or("-".to_owned(), cell)
        };
        let tcp = run.files_tcp.map_or("-".to_owned(), short);
        let head = [run.model.clone(), kernel(run), tcp].into_iter();
        head.chain(services.iter().map(found)).collect()
    };
    let (what, direction) = transfer;
    let does = if direction.is_get() { "fetched" } else { "sent" };
    let head = ["card", "kernel", "TCP alone, Mbit/s"].into_iter();
    Table {
        title: format!("{what} {does} (ground: {}){of}", Ground::Lab.name()),
        note: note.to_owned(),
        header: head.chain(services.iter().map(|spec| spec.title)).map(str::to_owned).collect(),
        rows: runs.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::file_figure::FileCell;

    fn row(service: &str, direction: Direction, seconds: f64) -> FileRow {
        FileRow {
            service: service.into(),
            what: "4 MB".into(),
            direction,
            seconds,
            mbit: direction.is_get().then_some(80.0),
            copies: 3,
            verified: 3,
            frames: [2900.0, 300.0],
            interrupts: [200.0, 400.0],
        }
    }

    #[test]
    fn each_transfer_has_a_table_with_cards_in_rows_and_services_in_columns() {
        let run = |model: &str, files| Run { model: model.into(), files, ..Run::default() };
        let (get, put) = (Direction::Get, Direction::Put);
        let both = vec![row("gigae", get, 0.5), row("ftp", get, 0.75), row("ftp", put, 1.0)];
        let runs = vec![run("e1000", both), run("igb", vec![row("ftp", get, 0.25)])];
        let tables = tables(&LabRecord { runs, ..LabRecord::default() });
        let titles: Vec<&str> = tables.iter().map(|table| &table.title[..]).collect();
        let all = [
            "4 MB fetched (ground: lab)",
            "4 MB sent (ground: lab)",
            "4 MB fetched (ground: lab): frames, interrupts",
        ];
        assert_eq!(titles, all);
        assert_eq!(tables[0].header[3..], ["FTP", "gigae cp"]);
        assert_eq!(tables[0].rows[0][3..], ["0.75 (80.0)", "0.50 (80.0)"]);
        assert_eq!(tables[0].rows[1][3..], ["0.25 (80.0)", "-"]);
        assert_eq!(tables[1].rows[0][3..], ["1.00"]);
        assert_eq!(tables[2].rows[0][3], "2.90k + 300, 200 + 400");
        assert_eq!(super::tables(&LabRecord::default()), []);
    }

    #[test]
    fn the_plan_measures_every_service_between_the_cards() {
        let plan = gigae_eval_model::plan::Plan::parse("files", include_str!("../../files.toml"));
        let cells = plan.unwrap().file_cells(None);
        for spec in service::SERVICES {
            let of = |(cell, _): &(FileCell, u32)| cell.service == spec.name;
            assert!(cells.iter().any(of), "{}", spec.name);
        }
    }
}
