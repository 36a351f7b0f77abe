//! File services in guests: a table for each transfer, with guests in rows and services in columns.

use super::file_row::FileRow;
use super::markdown::kernel;
use super::record::{LabRecord, Run};
use gigae_eval_model::number::{grouped, many, short};
use gigae_eval_model::service::{self, Direction, Ground};
use gigae_eval_page::table::Table;

/// What [`Step::Files`](crate::job::Step::Files) measures.
pub(crate) const PLAN: &str = include_str!("../../files.toml");

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
        let cell = |row: &FileRow, _cpus| match row.mbit {
            Some(mbit) => format!("{} ({})", short(row.seconds), short(mbit)),
            None => short(row.seconds),
        };
        let note = "Seconds of the guest from the start of the client to its end, with login and \
                    all: medians. In brackets the rate in Mbit/s: of the transfer alone where the \
                    client says how long that took, else of all its time; short transfers have \
                    none. Both ends are in one guest, whose clock counts the instructions of both. \
                    Files and copies are in memory.";
        let tcp = |run: &Run| run.files_tcp.map_or("-".to_owned(), short);
        table(&runs, *transfer, ["", note], ("TCP alone, Mbit/s", &tcp), &cell)
    });
    let costs = transfers.first().map(|transfer| {
        let cell = |row: &FileRow, cpus: u32| {
            let [sent, back] = row.frames.map(many);
            let [server, client] = row.receive_softirqs.map(many);
            // With one processor, both ends have all of its.
            match cpus {
                1 => format!("{sent} + {back}, {server}"),
                _ => format!("{sent} + {back}, {server} + {client}"),
            }
        };
        let note = "Of each copy: frames that the server's card sent and received, and receive \
                    soft interrupts (NET_RX), in which the kernel takes frames from a card: of the \
                    server's processor and of the client's, or of the only one. The other tables of \
                    this page count the cards' own interrupts, which are others. \
                    The third column is of all copies of all tables: interrupts of the device by \
                    which the guest reads the machine's files, as when it opens a program or a \
                    library. Its clock may skip to the next timer at each.";
        let reads =
            |run: &Run| run.machine_reads.map_or("-".to_owned(), |count| grouped(count, ","));
        let of = [": frames, receive soft interrupts", note];
        table(&runs, *transfer, of, ("reads of the machine, all copies", &reads), &cell)
    });
    times.chain(costs).collect()
}

fn table(
    runs: &[&Run],
    transfer: (&str, Direction),
    [of, note]: [&str; 2],
    (third, of_run): (&str, &dyn Fn(&Run) -> String),
    cell: &dyn Fn(&FileRow, u32) -> String,
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
            row.map_or("-".to_owned(), |row| cell(row, run.cpus))
        };
        let head = [run.model.clone(), kernel(run), of_run(run)].into_iter();
        head.chain(services.iter().map(found)).collect()
    };
    let (what, direction) = transfer;
    let does = if direction.is_get() { "fetched" } else { "sent" };
    let head = ["card", "kernel", third].into_iter();
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
            planned: 3,
            copies: 3,
            verified: 3,
            frames: [2900.0, 300.0],
            receive_softirqs: [200.0, 400.0],
        }
    }

    #[test]
    fn each_transfer_has_a_table_with_cards_in_rows_and_services_in_columns() {
        let run =
            |model: &str, files| Run { model: model.into(), files, cpus: 2, ..Run::default() };
        let (get, put) = (Direction::Get, Direction::Put);
        let both = vec![row("gigae", get, 0.5), row("ftp", get, 0.75), row("ftp", put, 1.0)];
        let runs = vec![run("e1000", both), run("igb", vec![row("ftp", get, 0.25)])];
        let tables = tables(&LabRecord { runs, ..LabRecord::default() });
        let titles: Vec<&str> = tables.iter().map(|table| &table.title[..]).collect();
        let all = [
            "4 MB fetched (ground: lab)",
            "4 MB sent (ground: lab)",
            "4 MB fetched (ground: lab): frames, receive soft interrupts",
        ];
        assert_eq!(titles, all);
        assert_eq!(tables[0].header[3..], ["FTP", "gigae cp"]);
        assert_eq!(tables[0].rows[0][3..], ["0.75 (80.0)", "0.50 (80.0)"]);
        assert_eq!(tables[0].rows[1][3..], ["0.25 (80.0)", "-"]);
        assert_eq!(tables[1].rows[0][3..], ["1.00"]);
        assert_eq!(tables[2].rows[0][3], "2.90k + 300, 200 + 400");
        assert_eq!(super::tables(&LabRecord::default()), []);
        let one = Run {
            cpus: 1,
            files: vec![row("ftp", get, 0.5)],
            machine_reads: Some(8471),
            ..Run::default()
        };
        let tables = super::tables(&LabRecord { runs: vec![one], ..LabRecord::default() });
        assert_eq!(tables[1].rows[0][2..], ["8,471", "2.90k + 300, 200"], "all of one processor");
    }

    #[test]
    fn the_plan_measures_every_service_between_the_cards() {
        let plan = gigae_eval_model::plan::Plan::parse("files", PLAN);
        let cells = plan.unwrap().file_cells(None);
        for spec in service::SERVICES {
            let of = |(cell, _): &(FileCell, u32)| cell.service == spec.name;
            assert!(cells.iter().any(of), "{}", spec.name);
        }
    }
}
