//! What programs gave on mounted file systems, beside what papers printed, and what the guests cost
//! that mounted them. Figures of another ground are in other tables, and in no ratio with these.

use gigae_eval_model::mount_figure::{GuestShare, MountFigure, MountTest};
use gigae_eval_model::number::short;
use gigae_eval_model::plan::MountPaperPlan;
use gigae_eval_model::results::Results;
use gigae_eval_model::service::Ground;
use gigae_eval_page::table::{Table, words};

/// What is said of this ground wherever it is named.
const GROUND: &str = "ground: mount (User-mode Linux)";

/// How rates were measured.
const RATES_NOTE: &str = "disk: on the server, without NFS; localhost: mounted in the server, so no link; network: mounted in the client. \
     Median over the repetitions, which stand beside it. Each begins with cold caches: mounted again, and the server's page cache dropped; \
     this machine still has the disks' pages. While: least and most in pieces of half a second, as fio counts them. MB/s are 10^6 bytes per second. \
     CPU: of its guest's processor, as bonnie++ counts it. stat: of empty files which the guest has not seen, by find and by names in a random order.";

/// Figures of small files, as columns.
const SMALL: [&str; 6] = [
    "create, sequential",
    "stat, sequential",
    "delete, sequential",
    "create, random",
    "stat, random",
    "delete, random",
];

/// All tables.
pub fn tables(results: &Results) -> Vec<Table> {
    let clients = two_clients(results);
    [rates(results), small_files(results), clients, paper_table(results), shares(results)]
        .into_iter()
        .flatten()
        .collect()
}

fn on_ground(results: &Results) -> impl Iterator<Item = &MountFigure> {
    results.mounts.iter().filter(|one| one.ground == Ground::Mount)
}

fn is_small(one: &MountFigure) -> bool {
    SMALL.contains(&one.what.as_str())
}

fn is_of_two_clients(one: &MountFigure) -> bool {
    matches!(one.cell.test, MountTest::TwoClients { .. })
}

/// A value with all repetitions behind it, if there are several.
fn said(value: &str, one: &MountFigure) -> Vec<String> {
    let all: Vec<String> = one.repetitions.iter().map(|value| short(*value)).collect();
    vec![value.to_owned(), if all.len() > 1 { all.join(" ") } else { "-".to_owned() }]
}

fn rates(results: &Results) -> Option<Table> {
    let row = |one: &MountFigure| {
        let range = one.range.map(|[least, most]| format!("{} to {}", short(least), short(most)));
        let mut row = vec![
            one.cell.test.title(),
            one.what.clone(),
            one.cell.way(),
            one.link.clone(),
            one.unit.clone(),
        ];
        row.extend(said(&short(one.median), one));
        row.push(range.unwrap_or_else(|| "-".into()));
        row.push(one.cpu.map_or("-".into(), short));
        row
    };
    let rows: Vec<_> = on_ground(results)
        .filter(|one| !is_small(one) && !is_of_two_clients(one))
        .map(row)
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: format!("Files on mounted file systems ({GROUND})"),
        note: format!(
            "Server: kernel's nfsd, smbd or gigae share, and ext4 on {}. Client: the kernel's NFS or CIFS, or gigae mount by FUSE. Both are guests, one by each node. {RATES_NOTE}",
            if results.plan.guests.raid { "a RAID-5 of three disks" } else { "one disk" },
        ),
        header: words(&["test", "figure", "files", "link", "unit", "median", "each", "while", "CPU %"]),
        rows,
    })
}

/// A row for each test with small files.
fn small_files(results: &Results) -> Option<Table> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut seen: Vec<(&str, &gigae_eval_model::mount_figure::MountCell)> = Vec::new();
    for one in on_ground(results).filter(|one| is_small(one)) {
        let key = (one.link.as_str(), &one.cell);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let MountTest::Bonnie { files, .. } = &one.cell.test else { continue };
        let mut row = vec![format!("{files}x1024"), one.cell.way(), one.link.clone()];
        row.extend(SMALL.map(|what| {
            let found = on_ground(results).find(|other| {
                (other.link.as_str(), &other.cell, other.what.as_str()) == (key.0, key.1, what)
            });
            found.map_or("-".into(), |one| {
                let cpu = one.cpu.map(|percent| format!(" ({} %)", short(percent)));
                short(one.median) + &cpu.unwrap_or_default()
            })
        }));
        rows.push(row);
    }
    (!rows.is_empty()).then(|| Table {
        title: format!("Small files per second ({GROUND})"),
        note: "bonnie++ with empty files in one directory, in order and at random. NFS's export is synchronous: the server answers when the change is on its disks; smbd and gigae share answer before. \
               In brackets: the share of its guest's processor. bonnie++ gives no figure of what is over in less than half a second (-)."
            .into(),
        header: words(&[
            "files", "where", "link", "create", "stat", "delete", "create, random", "stat, random",
            "delete, random",
        ]),
        rows,
    })
}

/// A row for each system on each link.
fn two_clients(results: &Results) -> Option<Table> {
    let of = |what: &'static str| {
        on_ground(results).filter(move |one| is_of_two_clients(one) && one.unit == what)
    };
    let row = |old: &MountFigure| {
        let MountTest::TwoClients { openings, looks } = old.cell.test else { return None };
        let seen = of("s").find(|one| (&one.link, &one.cell) == (&old.link, &old.cell))?;
        let [least, most] = seen.range?;
        // Openings of all repetitions, looks of the middle one.
        let times = old.repetitions.len();
        let wrong: f64 = old.repetitions.iter().sum();
        Some(vec![
            old.cell.way(),
            old.link.clone(),
            (u64::from(openings) * times as u64).to_string(),
            format!("{wrong:.0}"),
            looks.to_string(),
            short(seen.median),
            format!("{} to {}", short(least), short(most)),
        ])
    };
    let rows: Vec<_> = of("openings").filter_map(row).collect();
    (!rows.is_empty()).then(|| Table {
        title: format!("What a second client sees ({GROUND})"),
        note: "One client writes other bytes of the same size over a file and closes it, without fsync; then the second one, which has the file in its cache, opens and reads it. \
               Old: openings of all repetitions that read anything but the new bytes; where a system promises close-to-open, it is 0. \
               New size: the first client makes the file longer and closes it; then the second one, which has just looked at it, looks again and again without opening it. \
               Seconds until it sees the new size, from the end of the program that wrote, median over the repetitions; looks and the least to the most are those of the middle repetition. They include the start of the program that looks (some 0.1 s). \
               Both clients are guests of their own. Mount options are the usual ones."
            .into(),
        header: words(&["files", "link", "openings", "old", "looks", "new size seen after", "from"]),
        rows,
    })
}

fn paper_table(results: &Results) -> Option<Table> {
    let plan = &results.plan;
    let unit =
        |paper: &MountPaperPlan| paper.unit.map_or(String::new(), |it| format!(" {}", it.name()));
    let rows: Vec<Vec<String>> = plan
        .mount_paper
        .iter()
        .map(|paper| {
            let here = paper.of.find(&results.mounts);
            vec![
                format!("{}{}", short(paper.value), unit(paper)),
                here.map_or("not measured".into(), |one| short(one.median)),
                here.map_or(String::new(), |one| one.unit.clone()),
                paper.what.clone(),
                here.map_or(String::new(), |one| format!("{}, {}", one.cell.title(), one.link)),
                here.map_or(String::new(), |one| short(one.median / paper.in_ours())),
                format!("{}, {}", paper.source, paper.at),
            ]
        })
        .collect();
    let named = |name: &String| plan.mount_paper.iter().any(|paper| paper.source == *name);
    let sources = plan.source.iter().filter(|(name, _)| named(name));
    let sources: Vec<String> = sources.map(|(name, source)| format!("{name}: {source}.")).collect();
    (!rows.is_empty()).then(|| Table {
        title: format!("Mounted files beside the papers ({GROUND})"),
        note: format!(
            "Printed figures and those of this run. The machines, disks, links and sizes are different, and here both ends are guests. {}",
            sources.join(" ")
        ),
        header: words(&["printed", "here", "unit", "of", "of", "here / printed", "from"]),
        rows,
    })
}

fn shares(results: &Results) -> Option<Table> {
    let row = |one: &GuestShare| {
        let ([inside, outside], [stream, alone]) = (one.trip_us, one.stream);
        vec![
            one.link.clone(),
            short(inside),
            short(outside),
            short(inside / outside),
            short(stream * 8.0),
            short(alone * 8.0),
            short(stream / alone),
            short(one.call_us[0]),
            short(one.call_us[1]),
            one.kernel.clone(),
            one.verified.to_string(),
        ]
    };
    let rows: Vec<_> = results.guests.iter().map(row).collect();
    (!rows.is_empty()).then(|| Table {
        title: "What the guests cost".into(),
        note: "The same programs between both guests, and before the guests boot between their nodes, on the same link and CPUs: \
               sockperf's median round trip of 14 bytes by TCP in us, iperf3's stream in Mbit/s; \
               a system call of dd in us, which is what gigae mount and other programs pay and the kernel's NFS does not. \
               Verified: files whose SHA-256 was compared at the other end of a mount."
            .into(),
        header: words(&[
            "link", "round trip in guests", "outside", "ratio", "stream in guests", "outside",
            "ratio", "system call in guests", "outside", "guests' kernel", "verified",
        ]),
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::mount_figure::{FioPattern, MountCell, MountPlace, MountSystem};
    use gigae_eval_model::plan::{MountSelector, PrintedUnit};

    fn figure(link: &str, place: MountPlace, what: &str, median: f64) -> MountFigure {
        let test = match SMALL.contains(&what) {
            true => MountTest::Bonnie { mib: 0, files: 1, bytes: false },
            false => MountTest::Fio { pattern: FioPattern::Read, mib: 64 },
        };
        MountFigure {
            ground: Ground::Mount,
            link: link.into(),
            cell: MountCell { place, system: Some(MountSystem::Nfs42), nconnect: 1, test },
            what: what.into(),
            unit: "/s".into(),
            median,
            ci95: None,
            repetitions: vec![median],
            cpu: None,
            range: None,
            command: String::new(),
            doubts: Vec::new(),
        }
    }

    #[test]
    fn of_two_clients_old_contents_and_new_sizes_stand_in_one_row() {
        let mut results = gigae_eval_model::testing::first();
        let of = |system, what: &str, unit: &str, values: &[f64]| {
            let mut one = figure("gigabit", MountPlace::Network, what, values[0]);
            one.cell.test = MountTest::TwoClients { openings: 20, looks: 3 };
            one.cell.system = Some(system);
            one.range = (unit == "s").then_some([0.5, 3.5]);
            MountFigure { unit: unit.into(), repetitions: values.to_vec(), ..one }
        };
        results.mounts = vec![
            of(MountSystem::Nfs3, "old contents", "openings", &[0.0, 2.0]),
            of(MountSystem::Nfs3, "new attributes seen after", "s", &[3.0, 3.1]),
            of(MountSystem::Cifs, "old contents", "openings", &[0.0]),
        ];
        let all = tables(&results);
        assert_eq!(all.len(), 1, "no other table has them");
        assert!(all[0].title.contains(GROUND));
        let rows = &all[0].rows;
        assert_eq!(rows.len(), 1, "CIFS has no size: {rows:?}");
        let row = ["network, NFS 3", "gigabit", "40", "2", "3", "3.00", "0.50 to 3.50"];
        assert_eq!(rows[0], row);
        assert_eq!(rows[0].len(), all[0].header.len());
    }

    #[test]
    fn every_table_names_the_ground_and_small_files_have_a_row_for_each_place() {
        let mut results = gigae_eval_model::testing::first();
        assert!(tables(&results).is_empty());
        results.mounts = vec![
            figure("gigabit", MountPlace::Network, "sequential read", 90.0),
            figure("gigabit", MountPlace::Network, SMALL[0], 300.0),
            figure("gigabit", MountPlace::Network, SMALL[2], 200.0),
            figure("gigabit", MountPlace::Localhost, SMALL[0], 700.0),
        ];
        let selector = |figure: &str| MountSelector {
            link: "gigabit".into(),
            program: "bonnie++".into(),
            figure: figure.into(),
        };
        let paper = |figure: &str| MountPaperPlan {
            source: "x".into(),
            at: "table 1".into(),
            what: "w".into(),
            value: 150.0,
            unit: None,
            of: selector(figure),
        };
        results.plan.mount_paper = vec![paper(SMALL[0]), paper("seeks")];
        results.mounts[1].cpu = Some(3.0);
        let all = tables(&results);
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|table| table.title.contains("mount (User-mode Linux)")));
        assert_eq!(all[1].rows.len(), 2);
        assert_eq!(all[1].rows[0][3..6], ["300 (3.00 %)", "-", "200"]);
        let first: Vec<&str> = all[2].rows.iter().map(|row| row[1].as_str()).collect();
        assert_eq!(first, ["300", "not measured"]);
        assert_eq!(all[2].rows[0][5], "2.00");
        results.plan.mount_paper[0].unit = Some(PrintedUnit::Minutes);
        let row = paper_table(&results).unwrap().rows.remove(0);
        assert_eq!((row[0].as_str(), row[5].as_str()), ("150 minutes", "0.03"));
        for table in &all {
            assert!(table.rows.iter().all(|row| row.len() == table.header.len()), "{table:?}");
        }
    }
}
