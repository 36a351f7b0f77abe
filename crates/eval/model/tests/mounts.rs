//! `[[mount]]`, `[guests]` and `[[mount_paper]]` of plans.

use gigae_eval_model::mount_figure::{MountCell, MountFigure, MountPlace, MountSystem};
use gigae_eval_model::plan::Plan;
use gigae_eval_model::service::Ground;

const PLAN: &str = r#"
name = "test"
about = "a test"
repetitions = 1
max_repetitions = 1
[link.here]
[link.own]
loopback = true
[[experiment]]
kind = "rtt"
links = ["here"]
transports = ["tcp", "udp"]
sizes = [8]
waits = ["sleep"]
seconds = 0.1
warmup = 0.0
[source]
paper = "a paper"
[guests]
memory_mib = [256, 128]
disk_mib = 200
[[mount]]
links = ["here"]
places = ["network", "localhost", "disk"]
systems = ["nfs-4.2", "nfs-3"]
tests = [
    { program = "fio", pattern = "randread", mib = 16 },
    { program = "bonnie++", mib = 0, files = 1 },
]
repetitions = 2
[[mount]]
links = ["here"]
tests = [{ program = "bonnie++", mib = 0, files = 1 }]
[[mount_paper]]
source = "paper"
at = "table 2"
what = "random read"
value = 15.6
of = { link = "here", program = "fio", figure = "random read" }
"#;

#[test]
fn mounts_give_a_cell_for_each_of_their_product_and_the_disk_has_no_system() {
    let plan = Plan::parse("test", PLAN).unwrap();
    let cells = plan.mount_cells(Some("here"));
    // Two tests by two systems in two places, and on the disk; what is asked for twice is there
    // once.
    assert_eq!(cells.len(), 2 * 2 * 2 + 2);
    assert!(cells.iter().all(|(_, times)| *times == 2));
    let plans = PLAN.replace("repetitions = 1", "repetitions = 5").replace("repetitions = 2\n", "");
    let plans = plans.replace("max_repetitions = 1", "max_repetitions = 5");
    let plan = Plan::parse("test", &plans).unwrap();
    assert!(plan.mount_cells(None).iter().all(|(_, times)| *times == 5), "the plan's");
    let on_disk = |(cell, _): &&(MountCell, u32)| cell.place == MountPlace::Disk;
    assert!(cells.iter().filter(on_disk).all(|(cell, _)| cell.system.is_none()));
    assert!(plan.mount_cells(Some("own")).is_empty());
    assert_eq!(plan.mount_cells(None).len(), cells.len());
    // A part by links has the mounts of these; any other part has none.
    let part = |only: &str| plan.only(&only.parse().unwrap()).unwrap();
    let here = part("link=here");
    assert_eq!((here.mount_cells(None).len(), here.mount_paper.len()), (cells.len(), 1));
    let udp = part("link=here,transport=udp");
    assert!(udp.mount.is_empty() && udp.mount_paper.is_empty());
}

#[test]
fn a_plan_is_written_and_read_again_as_it_was() {
    let plan = Plan::parse("test", PLAN).unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    let again: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!((&again.mount, again.guests), (&plan.mount, plan.guests));
    let plain = serde_json::to_string(&Plan::load("quick").unwrap()).unwrap();
    assert!(!plain.contains("guests") && !plain.contains("mount"), "{plain}");
}

#[test]
fn mounts_that_make_no_sense_are_refused_by_name() {
    let cases = [
        ("links = [\"here\"]\nplaces", "links = [\"there\"]\nplaces", "'there'"),
        ("links = [\"here\"]\nplaces", "links = [\"own\"]\nplaces", "no second node"),
        ("links = [\"here\"]\nplaces", "links = []\nplaces", "empty"),
        ("memory_mib = [256, 128]", "memory_mib = [256, 32]", "memory_mib"),
        ("disk_mib = 200", "disk_mib = 1", "disk_mib"),
        ("mib = 16 }", "mib = 171 }", "'fio randread 171 MiB' needs more than the 170 MiB"),
        ("mib = 16 }", "mib = 0 }", "mib must be"),
        ("mib = 0, files = 1 },", "mib = 0, files = 0 },", "needs mib or files"),
        ("mib = 0, files = 1 },", "mib = 0, files = 1000 },", "files must be"),
        ("repetitions = 2", "repetitions = 0", "repetitions"),
        ("systems = [\"nfs-4.2\", \"nfs-3\"]", "systems = [\"4.2\"]", "variant"),
        ("systems = [\"nfs-4.2\", \"nfs-3\"]", "systems = [\"gigae\"]", "over the network only"),
        ("pattern = \"randread\"", "pattern = \"write\"", "variant"),
        ("repetitions = 2", "nconnect = [1, 17]", "nconnect must be from 1 to 16"),
        ("repetitions = 2", "nconnect = [4]", "NFS over the network"),
        ("repetitions = 2", "nconnect = []", "empty"),
        (
            "tests = [\n",
            "tests = [{ program = \"two-clients\", openings = 1, looks = 1 },\n",
            "network",
        ),
        ("source = \"paper\"", "source = \"other\"", "unknown source"),
        ("program = \"fio\", figure", "program = \"dd\", figure", "measures it"),
    ];
    for (good, bad, named) in cases {
        assert!(PLAN.contains(good), "{good}");
        let error = Plan::parse("test", &PLAN.replacen(good, bad, 1)).unwrap_err().to_string();
        assert!(error.contains(named) && !error.contains('\n'), "{error} does not name {named}");
    }
}

#[test]
fn connections_multiply_cells_of_nfs_and_two_clients_have_bounds() {
    let plan = |mount: &str| {
        Plan::parse("test", &format!("{PLAN}\n[[mount]]\nlinks = [\"here\"]\n{mount}"))
    };
    let fio = "tests = [{ program = \"fio\", pattern = \"read\", mib = 8 }]";
    let cells = plan(&format!("nconnect = [1, 4]\n{fio}")).unwrap().mount_cells(None);
    let read = cells.iter().filter(|(cell, _)| cell.test.title() == "fio read 8 MiB");
    let ways: Vec<String> = read.map(|(cell, _)| cell.way()).collect();
    assert_eq!(ways, ["network, NFS 4.2", "network, NFS 4.2, nconnect 4"]);
    let error = plan(&format!("systems = [\"cifs\"]\nnconnect = [4]\n{fio}")).unwrap_err();
    assert!(error.to_string().contains("NFS over the network"), "{error}");
    assert!(plan(&format!("systems = [\"cifs\"]\nplaces = [\"localhost\"]\n{fio}")).is_ok());
    let two = |openings: u32, looks: u32| {
        let systems = "systems = [\"nfs-3\", \"cifs\", \"gigae\"]";
        let test = format!("program = \"two-clients\", openings = {openings}, looks = {looks}");
        plan(&format!("{systems}\ntests = [{{ {test} }}]"))
    };
    assert!(two(1, 1).is_ok());
    for (openings, looks, named) in [(0, 1, "openings"), (1001, 1, "openings"), (1, 21, "looks")] {
        let error = two(openings, looks).unwrap_err().to_string();
        assert!(error.contains(named) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn large_files_of_bonnie_are_twice_the_memory_of_the_guest_that_uses_them() {
    let plan = |place: &str, mib: u64| {
        let test = format!("tests = [{{ program = \"bonnie++\", mib = {mib}, files = 0 }}]");
        let mount = format!("[[mount]]\nlinks = [\"here\"]\nplaces = [\"{place}\"]\n{test}\n");
        Plan::parse("test", &format!("{PLAN}\n{mount}").replace("disk_mib = 200", "disk_mib = 999"))
    };
    // The client has 128 MiB, the server 256.
    assert!(plan("network", 256).is_ok() && plan("localhost", 512).is_ok());
    for (place, mib, needed) in [("network", 255, 256), ("localhost", 511, 512), ("disk", 511, 512)]
    {
        let error = plan(place, mib).unwrap_err().to_string();
        assert!(error.contains(&format!("files of {needed} MiB")), "{error}");
        assert!(error.contains("memory_mib") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_raid_has_three_disks_and_room_for_what_two_hold() {
    let plan = |guests: &str| {
        let text = PLAN.replace("disk_mib = 200", guests).replace("mib = 16 }", "mib = 170 }");
        Plan::parse("test", &text)
    };
    assert_eq!(plan("disk_mib = 200").unwrap().guests.disks(), 1);
    assert_eq!(plan("disk_mib = 100\nraid = true").unwrap().guests.disks(), 3);
    let error = plan("disk_mib = 100").unwrap_err().to_string();
    assert!(error.contains("85 MiB"), "{error}");
}

#[test]
fn a_papers_figure_stands_beside_the_first_of_its_kind_over_the_network() {
    let plan = Plan::parse("test", PLAN).unwrap();
    let figure = |place: MountPlace, what: &str, median: f64| {
        let same =
            |(cell, _): &&(MountCell, u32)| cell.place == place && cell.test.program() == "fio";
        let cells = plan.mount_cells(None);
        MountFigure {
            ground: Ground::Mount,
            link: "here".into(),
            cell: cells.iter().find(same).unwrap().0.clone(),
            what: what.into(),
            unit: "MB/s".into(),
            median,
            ci95: None,
            repetitions: vec![median],
            cpu: None,
            range: None,
            command: String::new(),
            doubts: Vec::new(),
        }
    };
    let figures = [
        figure(MountPlace::Localhost, "random read", 1.0),
        figure(MountPlace::Network, "seeks", 2.0),
        figure(MountPlace::Network, "random read", 3.0),
    ];
    let found = plan.mount_paper[0].of.find(&figures).unwrap();
    assert_eq!((found.median, found.cell.system), (3.0, Some(MountSystem::Nfs42)));
}

#[test]
fn the_shipped_plans_have_a_pair_for_everything_that_is_compared() {
    for name in ["nfs-mount", "nfs-mount-full"] {
        let plan = Plan::load(name).unwrap();
        let small = |link: &str, place: MountPlace| {
            let fits = |(cell, _): &(MountCell, u32)| {
                cell.place == place && cell.test.title().contains("x1024")
            };
            plan.mount_cells(Some(link)).iter().any(fits)
        };
        for link in ["gigabit", "switch", "cable"] {
            assert!(small(link, MountPlace::Network), "{name} {link}");
        }
        assert!(small("gigabit", MountPlace::Localhost), "{name}");
        // All of the paper's tables, but for bytes in the short form.
        assert!(plan.mount_paper.len() >= 8 + 2 * 10, "{name}");
        let gigae = |(cell, _): &&(MountCell, u32)| cell.system == Some(MountSystem::Gigae);
        let cells = plan.mount_cells(Some("gigabit"));
        for (cell, _) in cells.iter().filter(gigae) {
            let nfs = MountCell { system: Some(MountSystem::Nfs42), ..cell.clone() };
            assert!(cells.iter().any(|(other, _)| *other == nfs), "{name}: {}", cell.title());
        }
        assert!(cells.iter().any(|one| gigae(&one)), "{name}");
        let title = |start: &str, system| {
            cells.iter().any(|(cell, _)| {
                cell.system == Some(system) && cell.test.title().starts_with(start)
            })
        };
        use MountSystem::{Cifs, Gigae, Nfs3, Nfs42};
        assert!([Nfs42, Nfs3, Cifs, Gigae].iter().all(|&system| title("two clients", system)));
        assert!(title("bonnie++", Cifs) && title("fio", Cifs), "{name}");
        for (cell, _) in cells.iter().filter(|(cell, _)| cell.nconnect > 1) {
            let alone = MountCell { nconnect: 1, ..cell.clone() };
            assert!(cells.iter().any(|(other, _)| *other == alone), "{name}: {}", cell.title());
        }
        assert!(cells.iter().any(|(cell, _)| cell.nconnect > 1), "{name}");
        // As in the paper.
        assert_eq!(plan.guests.raid, name == "nfs-mount-full");
    }
}
