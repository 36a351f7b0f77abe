//! Plans: the shipped ones are sound, the parser is strict, cells are what was planned.

use gigae_eval_model::plan::{
    Backend, BusyPoll, BusyPollOn, CongestionControl, Experiment, LinkPlan, Plan, SHIPPED, Wait,
};

const SMALL: &str = r#"
name = "small"
about = "a test"
repetitions = 2
max_repetitions = 3
[link.here]
[tcp.plain]
[tcp.quick]
nodelay = true
[[experiment]]
kind = "rtt"
links = ["here"]
transports = ["tcp", "udp", "icmp"]
sizes = [8, "frame"]
waits = ["spin", "adaptive"]
seconds = 0.1
warmup = 0.0
"#;

fn refused(text: &str) -> String {
    let error = Plan::parse("test", text).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

/// Keys are the public fields of the structures that a plan is read into.
#[test]
fn every_key_of_a_plan_is_documented() {
    let page = include_str!("../../../../docs/reference/plan-file.md");
    let sources = [
        include_str!("../src/plan/form.rs"),
        include_str!("../src/plan/settings.rs"),
        include_str!("../src/plan/tune.rs"),
        include_str!("../src/plan/figure.rs"),
        include_str!("../src/plan/paper.rs"),
        include_str!("../src/plan/files.rs"),
        include_str!("../src/plan/access.rs"),
        include_str!("../src/plan/metadata.rs"),
        include_str!("../src/plan/mount.rs"),
    ];
    let fields = sources.iter().flat_map(|source| source.lines()).filter_map(|line| {
        let (name, kind) = line.strip_prefix("    pub ")?.split_once(": ")?;
        (kind.ends_with(',') && !name.contains(' ')).then_some(name)
    });
    let (mut keys, mut missing) = (0, Vec::new());
    for key in fields {
        keys += 1;
        let named = [format!("`{key}`"), format!("{key} "), format!("{key},"), format!("[{key}")];
        if !named.iter().any(|name| page.contains(name)) {
            missing.push(key);
        }
    }
    assert!(keys > 70, "{keys} keys were found");
    assert!(missing.is_empty(), "docs/reference/plan-file.md says nothing of {missing:?}");
}

#[test]
fn every_shipped_plan_is_in_the_table() {
    let page = include_str!("../../../../docs/reference/plans.md");
    for (name, _) in SHIPPED {
        assert!(page.contains(&format!("| `{name}` |")), "docs/reference/plans.md lacks '{name}'");
    }
}

#[test]
fn every_shipped_plan_parses_and_gives_cells() {
    for (name, _) in SHIPPED {
        let plan = Plan::load(name).unwrap();
        assert_eq!(plan.name, *name);
        for link in plan.link.keys() {
            let cells = plan.cells(Some(link), 1500).len() + plan.file_cells(Some(link)).len();
            assert!(cells > 0, "{name} {link}");
        }
    }
}

/// Seconds that a plan measures on its own links, without what lies between repetitions.
fn planned(plan: &Plan) -> f64 {
    let links = plan.link.keys().flat_map(|link| plan.most_measured(Some(link), 1500));
    let cells = links.chain(plan.memory_cells().into_iter().map(|cell| (cell, 1)));
    let seconds: f64 =
        cells.map(|(cell, times)| ((cell.measure + cell.warmup) * times).as_secs_f64()).sum();
    seconds * f64::from(plan.max_repetitions)
}

#[test]
fn the_papers_plans_say_how_long_they_take_and_stay_far_below_five_minutes() {
    let papers = [
        "latency",
        "bandwidth",
        "icmp",
        "frames",
        "baseline",
        "inventory",
        "buffers",
        "cpus",
        "load",
    ];
    for name in papers {
        let plan = Plan::load(name).unwrap();
        let seconds = planned(&plan);
        assert!(!plan.takes.is_empty() && seconds < 150.0, "{name}: {seconds} s");
        // The one plan of no paper asks what all of them leave open.
        assert_eq!(plan.repeats.is_empty(), name == "load", "{name}");
    }
    assert!(planned(&Plan::load("quick").unwrap()) < 50.0, "quick is no longer quick");
}

#[test]
fn what_is_tried_on_the_virtual_network_stays_below_five_minutes() {
    let plan = Plan::load("tuning").unwrap();
    let tune = plan.tune.as_ref().unwrap();
    // What a veth, of all that it has, does not have already, and the best ones together.
    let virtual_knobs = ["tso", "gso", "gro", "tx-checksum", "mtu", "rps", "congestion-control"];
    let values = tune.knobs.iter().filter(|(knob, _)| virtual_knobs.contains(&knob.as_str()));
    let there = values.map(|(_, values)| values.len()).sum::<usize>() + 1;
    let share = (there + 2) as f64 / (tune.most_trials() + 2) as f64;
    // A repetition takes some 40 ms besides, and a setting as long.
    let besides = 1.0 + 0.04 / 0.15;
    let seconds = planned(&plan) * share * besides;
    assert!(!plan.takes.is_empty() && seconds < 240.0, "{seconds} s");
}

const TUNE: &str = r#"
[tune]
by = "tcp"
[tune.knobs]
gro = [true, "off"]
mtu = [9000]
rx-usecs = [0, 50]
"#;

#[test]
fn settings_to_try_multiply_the_cells_that_ask_for_it_and_mistakes_are_named() {
    let text = SMALL.replace("[[experiment]]", &format!("{TUNE}[[experiment]]"));
    let text = text.replace("seconds = 0.1", "tune = true\nseconds = 0.1");
    let plan = Plan::parse("test", &text).unwrap();
    let (once, tuned) = plan.split_cells(Some("here"), 1500);
    assert_eq!((once.len(), tuned.len()), (0, 8));
    // Five values and the best ones together, the present setting, and that once more.
    assert_eq!(plan.tune.as_ref().unwrap().most_trials(), 6);
    assert!(plan.most_measured(Some("here"), 1500).all(|(_, times)| times == 8));
    let product = text.replace("by = \"tcp\"", "by = \"tcp\"\nsweep = \"product\"");
    let product = Plan::parse("test", &product).unwrap();
    assert_eq!(product.tune.unwrap().most_trials(), 3 * 2 * 3);
    let cases = [
        ("[true, \"off\"]", "[]", "no values"),
        ("rx-usecs = [0, 50]", "rx-usecs = [-1]", "word or a number"),
        ("by = \"tcp\"", "by = \"xdp\"", "by = 'xdp'"),
        ("by = \"tcp\"", "by = \"tcp\"\nlinks = [\"there\"]", "there"),
        ("by = \"tcp\"", "by = \"tcp\"\nsweep = \"all\"", "all"),
        ("[link.here]", "[link.here]\nloopback = true\n[link.x]", ""),
        ("tune = true\n", "", "tune = true"),
        (TUNE, "", "[tune]"),
    ];
    for (from, to, named) in cases {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "the case replaces nothing: {from}");
        if named.is_empty() {
            let own = Plan::parse("test", &changed).unwrap();
            assert!(own.tune_on(Some("here")).is_none() && own.tune_on(Some("x")).is_some());
            continue;
        }
        let error = refused(&changed);
        assert!(error.contains(named), "{error} does not name {named}");
    }
    let down = text.replace("[link.here]", "[link.down]\ndown_ms = 9\n[link.here]");
    assert!(Plan::parse("test", &down).is_ok());
    let down = down.replace("by = \"tcp\"", "by = \"tcp\"\nlinks = [\"down\"]");
    assert!(refused(&down).contains("'down' has down_ms"));
}

#[test]
fn every_figure_of_a_paper_stands_beside_a_curve_that_its_plan_measures() {
    for (name, _) in SHIPPED {
        let plan = Plan::load(name).unwrap();
        for paper in &plan.paper {
            let of = &paper.of;
            let link = of.link.as_deref().expect("shipped plans name it");
            let cells = plan.cells(Some(link), 1500);
            let found = cells.iter().any(|cell| {
                (cell.experiment, &cell.transport, &cell.variant)
                    == (paper.kind, &of.transport, &of.variant)
                    && of.wait == Some(cell.wait)
            });
            assert!(found, "{name}: {} {}", paper.source, paper.at);
        }
    }
}

#[test]
fn papers_that_name_nothing_are_refused() {
    const PAPERS: &str = r#"
[source]
old = "Somebody: Something (1999)"
[[paper]]
source = "old"
at = "figure 1"
what = "TCP"
kind = "rtt"
points = [[8, 139.4]]
of = { transport = "tcp", variant = "quick" }
[[said]]
source = "old"
at = "section 2"
finding = "tcp-share"
says = "It took 21.9 %."
"#;
    let whole = format!("{SMALL}{PAPERS}");
    assert_eq!(Plan::parse("test", &whole).unwrap().paper[0].points, [(8, 139.4)]);
    let cases = [
        ("old = ", "new = ", "unknown source"),
        ("\"tcp\", variant = \"quick\"", "\"smoke\"", "smoke"),
        ("variant = \"quick\"", "variant = \"slow\"", "slow"),
        ("points = [[8, 139.4]]", "", "points or a best"),
        ("points = [[8, 139.4]]", "points = [[8, 139.4]]\nbest = 1.0", "points or a best"),
    ];
    for (from, to, named) in cases {
        let text = whole.replacen(from, to, 1);
        assert_ne!(text, whole, "the case replaces nothing: {from}");
        let error = refused(&text);
        assert!(error.contains(named), "{error} does not name {named}");
    }
}

#[test]
fn conditions_multiply_the_cells_and_what_makes_no_sense_is_refused() {
    let rates = "kind = \"paced\"\nrates = [1000, 2000]\nbulk = [0, 1]";
    let text = SMALL.replace("kind = \"rtt\"", rates);
    let text = text.replace("\"spin\", \"adaptive\"", "\"sleep\"");
    let plan = Plan::parse("test", &text).unwrap();
    let cells = plan.cells(Some("here"), 1500);
    assert_eq!(cells.len(), (2 + 1 + 1) * 2 * 2 * 2);
    let labels: Vec<String> = cells.iter().map(gigae_eval_model::plan::Cell::label).collect();
    assert!(labels.contains(&"udp 2000/s beside a stream".to_owned()), "{labels:?}");
    let cases = [
        ("rates = [1000, 2000]", "", "rates"),
        ("rates = [1000, 2000]", "rates = [0.5]", "from 1 to"),
        ("bulk = [0, 1]", "bulk = [1000]", "at most"),
        ("bulk = [0, 1]", "cpus = [\"one\"]", "must sleep"),
        ("bulk = [0, 1]", "senders = [2]", "no other, has senders"),
        ("kind = \"paced\"\nrates = [1000, 2000]", "kind = \"incast\"", "has senders"),
        ("rates = [1000, 2000]\nbulk = [0, 1]", "senders = [17]", "paced"),
        ("bulk = [0, 1]", "threads = [2]", "no others, have threads"),
        ("kind = \"paced\"\nrates = [1000, 2000]", "kind = \"cores\"", "have threads"),
        (
            "kind = \"paced\"\nrates = [1000, 2000]\nbulk = [0, 1]",
            "kind = \"cores\"\nthreads = [17]",
            "at most 16 threads",
        ),
        ("rates = [1000, 2000]\nbulk", "threads = [1]\nbulk", "rates"),
        (
            "kind = \"paced\"\nrates = [1000, 2000]\nbulk = [0, 1]",
            "kind = \"ceiling\"\nthreads = [1]",
            "no links",
        ),
        ("[link.here]", "[link.here]\nnodes = 18", "nodes must be from 2 to 17"),
        ("kind = \"paced\"", "kind = \"rtt\"", "rates"),
        ("[link.here]", "[link.here]\nloopback = true\ncable = true", "no other keys"),
    ];
    for (from, to, named) in cases {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "the case replaces nothing: {from}");
        let error = refused(&changed);
        assert!(error.contains(named), "{error} does not name {named}");
    }
    // What is of the machine alone is not measured between two of them.
    let own = SMALL.replace("[link.here]", "[link.here]\nloopback = true");
    let own = Plan::parse("test", &own).unwrap();
    assert!(own.cells(None, 1500).is_empty() && !own.cells(Some("here"), 65_536).is_empty());
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let error = refused(&SMALL.replace("repetitions = 2", "repetitons = 2"));
    assert!(error.contains("repetitons") && error.contains("line 4"), "{error}");
}

#[test]
fn unknown_transports_links_and_settings_are_named() {
    let cases = [
        ("\"icmp\"", "\"smoke\"", "smoke"),
        ("links = [\"here\"]", "links = [\"there\"]", "there"),
        ("waits =", "tcp = [\"slow\"]\nwaits =", "slow"),
        ("\"frame\"", "\"page\"", "frame"),
        ("8,", "3,", "4 to"),
        ("seconds = 0.1", "seconds = 3600.0", "seconds"),
        ("max_repetitions = 3", "max_repetitions = 1", "repetitions"),
        ("[link.here]", "[link.here]\nmtu = 70000", "mtu"),
        ("kind = \"rtt\"", "kind = \"ping\"", "ping"),
        ("[link.here]", "[link.here]\nlinks = 9", "links must be from 1 to 8"),
        ("[link.here]", "[link.here]\nlinks = 2\nloss = 0.1", "1 where there is a loss"),
    ];
    for (from, to, named) in cases {
        let text = SMALL.replacen(from, to, 1);
        assert_ne!(text, SMALL, "the case replaces nothing: {from}");
        let error = refused(&text);
        assert!(error.contains(named), "{error} does not name {named}");
    }
}

#[test]
fn a_plan_that_is_nowhere_is_an_error_that_lists_the_shipped_ones() {
    let error = Plan::load("no-such-plan").unwrap_err().to_string();
    assert!(error.contains("no-such-plan") && error.contains("quick"), "{error}");
}

#[test]
fn cells_are_the_product_without_what_a_transport_cannot_do() {
    let plan = Plan::parse("test", SMALL).unwrap();
    let cells = plan.cells(Some("here"), 1500);
    // None of these transports has adaptive waiting. TCP twice (settings), UDP, ICMP; two sizes
    // each.
    assert_eq!(cells.len(), (2 + 1 + 1) * 2);
    assert!(cells.iter().all(|cell| cell.wait == Wait::Spin && cell.experiment == Experiment::Rtt));
    let frame =
        |name: &str| cells.iter().filter(|cell| cell.transport == name).map(|cell| cell.size).max();
    assert_eq!((frame("tcp"), frame("udp"), frame("icmp")), (Some(1448), Some(1472), Some(1472)));
    assert!(plan.cells(Some("elsewhere"), 1500).is_empty());
}

#[test]
fn sizes_that_a_transport_cannot_carry_are_left_out_and_equal_ones_are_measured_once() {
    let text = SMALL.replace("[8, \"frame\"]", "[8, 1472, \"frame\", 65536]");
    let plan = Plan::parse("test", &text).unwrap();
    let sizes = |name: &str| -> Vec<usize> {
        let cells = plan.cells(None, 1500);
        cells.iter().filter(|cell| cell.transport == name).map(|cell| cell.size).collect()
    };
    assert_eq!(sizes("icmp"), [8, 1472]);
    assert_eq!(sizes("udp"), [8, 1472]);
    assert_eq!(sizes("tcp"), [8, 1472, 1448, 65536, 8, 1472, 1448, 65536]);
}

#[test]
fn settings_of_tcp_at_its_best_are_read_and_are_not_plain() {
    let own = "[tcp.best]\nwrite = 65536\nzerocopy = true\ncongestion_control = \"bbr\"\n";
    let text = SMALL.replace("[tcp.plain]", &format!("{own}[tcp.plain]"));
    let plan = Plan::parse("test", &text).unwrap();
    let best = plan.tcp["best"];
    assert_eq!((best.write, best.zerocopy), (Some(65_536), true));
    assert_eq!(best.congestion_control.map(CongestionControl::name), Some("bbr"));
    let plain: Vec<_> = plan.tcp.iter().filter(|(_, own)| own.is_plain()).collect();
    assert_eq!(plain.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["plain", "quick"]);
    assert_eq!(variants(&plan, "tcp").len(), 3);
}

/// The variants of a transport among the cells of a plan.
fn variants(plan: &Plan, transport: &str) -> Vec<Option<String>> {
    let mut found: Vec<_> = Vec::new();
    for cell in plan.cells(Some("here"), 1500).into_iter().filter(|c| c.transport == transport) {
        if !found.contains(&cell.variant) {
            found.push(cell.variant);
        }
    }
    found
}

const VARIANTS: &str = r#"
[gigae.go-back-n]
recovery = "go-back-n"
[gigae.polled]
backend = "native"
busy_poll = { micros = 20, budget = 8 }
[xdp.small]
batch = 8
rx_frames = 256
"#;

#[test]
fn every_transport_with_settings_has_variants_in_the_same_way() {
    let text = SMALL.replace("\"udp\", \"icmp\"", "\"gigae\", \"xdp\", \"udp\"");
    let none = Plan::parse("test", &text).unwrap();
    assert_eq!((variants(&none, "gigae"), variants(&none, "udp")), (vec![None], vec![None]));
    let text = text.replace("[[experiment]]", &format!("{VARIANTS}[[experiment]]"));
    let all = Plan::parse("test", &text).unwrap();
    let names = |names: &[&str]| names.iter().map(|name| Some((*name).to_owned())).collect();
    let expected: Vec<Option<String>> = names(&["go-back-n", "polled"]);
    assert_eq!(variants(&all, "gigae"), expected);
    assert_eq!(variants(&all, "xdp"), names(&["small"]));
    let text =
        text.replace("waits =", "gigae = [\"default\", \"polled\"]\nxdp = [\"default\"]\nwaits =");
    let chosen = Plan::parse("test", &text).unwrap();
    assert_eq!(variants(&chosen, "gigae"), [None, Some("polled".to_owned())]);
    assert_eq!(variants(&chosen, "xdp"), [None]);
    let cell = chosen
        .cells(Some("here"), 1500)
        .into_iter()
        .find(|c| c.variant.as_deref() == Some("polled"));
    let setting = cell.unwrap().setting.gigae();
    assert_eq!((setting.backend, setting.aggregate, setting.copy), (Backend::Native, true, false));
    assert_eq!(setting.busy_poll, BusyPoll::On(BusyPollOn { micros: 20, budget: 8 }));
}

#[test]
fn settings_that_make_no_sense_are_named() {
    let text = SMALL.replace("[[experiment]]", &format!("{VARIANTS}[[experiment]]"));
    Plan::parse("test", &text).unwrap();
    let cases = [
        ("batch = 8", "batch = 0", "batch"),
        ("rx_frames = 256", "rx_frames = 100000", "rx_frames"),
        ("rx_frames = 256", "rx_frame = 256", "rx_frame"),
        ("budget = 8", "budget = 0", "busy_poll"),
        ("busy_poll = {", "busy_poll = \"on\" # {", "busy_poll"),
        ("[xdp.small]", "[xdp.default]", "default"),
        ("[tcp.plain]", "[tcp.plain]\nwrite = 0", "write must be from 1"),
        ("[tcp.plain]", "[tcp.plain]\nwrite = 4194305", "write must be from 1"),
        ("[tcp.plain]", "[tcp.plain]\nzerocopy = true\none_buffer = true", "leave one_buffer out"),
        ("[tcp.plain]", "[tcp.plain]\ncongestion_control = \"vegas\"", "vegas"),
        ("\"go-back-n\"", "\"go-back\"", "go-back"),
        ("[link.here]", "[link.here]\nloss = 0.5", "loss"),
        ("[link.here]", "[link.here]\ndown_ms = 10001", "10000"),
        ("[link.here]", "[link.here]\ndown_ms = 0", "down_ms must be"),
        ("[link.here]", "[link.here]\ndown_ms = 9\ncable = true", "leave out cable"),
        ("[link.here]", "[link.here]\ndown_ms = 9\ndelay_us = 5", "one link"),
        ("[link.here]", "[link.here]\ndown_ms = 9\nlinks = 2", "one link"),
        ("[link.here]", "[link.here]\ndown_ms = 9", "'here' has down_ms"),
        ("[link.here]", "[link.here]\ncable = true\nloss = 0.1", "cable"),
        ("waits =", "gigae = [\"slow\"]\nwaits =", "gigae setting 'slow'"),
    ];
    for (from, to, named) in cases {
        let spoiled = text.replacen(from, to, 1);
        assert_ne!(spoiled, text, "the case replaces nothing: {from}");
        let error = refused(&spoiled);
        assert!(error.contains(named), "{error} does not name {named}");
    }
}

const FIGURE: &str = r#"
[[figure]]
name = "one"
kind = "rtt"
link = "here"
wait = "spin"
sizes = [8]
of = { transport = "tcp", variant = "quick" }
over = { transport = "udp" }
at_most = 2
[[row]]
name = "a row"
means = "the raw thing"
link = "here"
transport = "udp"
wait = "spin"
paper = "driver"
"#;

#[test]
fn a_figure_names_cells_that_the_plan_measures_and_a_row_does_too() {
    let text = format!("{SMALL}{FIGURE}");
    let plan = Plan::parse("test", &text).unwrap();
    let targets = plan.figure[0].targets().unwrap();
    let (of, over) = &targets[0];
    assert_eq!(of[0].variant, Some("quick"));
    assert_eq!(over.as_ref().unwrap()[0].transport, "udp");
    let cases = [
        (
            "link = \"here\"\nwait = \"spin\"\nsizes",
            "link = \"there\"\nwait = \"spin\"\nsizes",
            "there",
        ),
        ("wait = \"spin\"\nsizes", "sizes", "wait"),
        ("sizes = [8]\nof", "sizes = [9]\nof", "9 B"),
        ("variant = \"quick\"", "variant = \"slow\"", "slow"),
        ("{ transport = \"udp\" }", "{ transport = \"smoke\" }", "smoke"),
        ("{ transport = \"udp\" }", "{ transport = \"gigae\" }", "gigae"),
        ("at_most = 2", "at_most = 2\nat_least = 1", "at_most"),
        ("at_most = 2", "at_most = -1", "bound"),
        ("at_most = 2", "value = \"share\"", "value"),
        ("at_most = 2", "value = \"best\"", "best"),
        ("sizes = [8]\nof", "sizes = [8, \"frame\"]\nof", ""),
        ("means = \"the raw thing\"\nlink = \"here\"", "means = \"\"\nlink = \"there\"", "there"),
        ("transport = \"udp\"\nwait", "transport = \"xdp\"\nwait", "a row"),
        ("\"driver\"", "\"engine\"", "engine"),
    ];
    for (from, to, named) in cases {
        let spoiled = text.replacen(from, to, 1);
        assert_ne!(spoiled, text, "the case replaces nothing: {from}");
        if named.is_empty() {
            Plan::parse("test", &spoiled).unwrap();
            refused(&spoiled.replace("at_most = 2", ""));
            continue;
        }
        let error = refused(&spoiled);
        assert!(error.contains(named), "{error} does not name {named}");
    }
}

#[test]
fn a_memory_experiment_needs_no_link_and_a_plan_needs_one() {
    let memory =
        "[[experiment]]\nkind = \"memory\"\nsizes = [8, 64]\nseconds = 0.01\nwarmup = 0.0\n";
    let plan = Plan::parse("test", &format!("{SMALL}{memory}")).unwrap();
    assert_eq!(plan.memory_cells().len(), 4 * 2);
    assert_eq!(
        plan.cells(None, 1500).len(),
        Plan::parse("test", SMALL).unwrap().cells(None, 1500).len()
    );
    let head = SMALL.split("[[experiment]]").next().unwrap();
    assert!(refused(&format!("{head}{memory}")).contains("link"));
    let mixed = memory.replace("sizes", "links = [\"here\"]\nsizes");
    assert!(refused(&format!("{SMALL}{mixed}")).contains("memory"));
}

#[test]
fn an_idle_experiment_gives_a_cell_per_style_of_waiting() {
    let text = SMALL.replace("\"rtt\"", "\"idle\"").replace("[8, \"frame\"]", "[8]");
    let plan = Plan::parse("test", &text).unwrap();
    let kinds: Vec<_> = plan.cells(Some("here"), 1500).iter().map(|cell| cell.experiment).collect();
    // TCP twice and UDP; ICMP is answered by the kernel and has nothing to wait for.
    assert_eq!(kinds, [Experiment::Idle; 3]);
}

const FILES: &str = r#"
[source]
paper = "a paper"
[[files]]
service = "ftp"
links = ["here"]
sizes = [1000, 2000]
to = ["null", "disk"]
clients = [1, 4]
[[file_paper]]
source = "paper"
at = "table 1"
what = "get"
mbit = 88
of = { service = "ftp", link = "here", size = 2000 }
"#;

#[test]
fn files_give_a_cell_for_each_of_their_product_and_belong_to_their_link() {
    let plan = Plan::parse("test", &format!("{SMALL}{FILES}")).unwrap();
    let cells = plan.file_cells(Some("here"));
    assert_eq!(cells.len(), 2 * 2 * 2);
    assert!(cells.iter().all(|(_, times)| *times == plan.repetitions));
    assert_eq!(plan.file_cells(None), cells);
    assert!(plan.file_cells(Some("elsewhere")).is_empty());
    // A part by links has the files of these; any other part has none.
    let part = |only: &str| plan.only(&only.parse().unwrap()).unwrap();
    let here = part("link=here");
    assert_eq!((here.file_cells(None), here.file_paper.len()), (cells, 1));
    let udp = part("link=here,transport=udp");
    assert!(udp.files.is_empty() && udp.file_paper.is_empty());
}

#[test]
fn copies_over_a_link_that_goes_down_have_their_pairs_over_the_same_link_that_stays_up() {
    for (name, _) in SHIPPED {
        let plan = Plan::load(name).unwrap();
        for (down, link) in plan.link.iter().filter(|(_, link)| link.goes_down()) {
            let up = LinkPlan { down_ms: None, ..link.clone() };
            let (up, _) = plan.link.iter().find(|(_, link)| **link == up).unwrap();
            let pairs = plan.file_cells(Some(up));
            let cells = plan.file_cells(Some(down));
            assert!(cells.iter().all(|one| pairs.contains(one)), "{name}: {down} {up}");
            // Half of a copy takes some time, even if nothing limits its rate.
            assert!(cells.iter().all(|(cell, _)| cell.bytes() >= 64_000_000), "{name}: {down}");
        }
    }
    let files = Plan::load("files").unwrap();
    assert!(!files.file_cells(Some("gigabit-down")).is_empty());
}

const PUT_TREE: &str = "files = [100]\ndirections = [\"put\"]\nto = [\"disk\"]";

#[test]
fn trees_and_directions_multiply_the_cells() {
    let wide = "files = [1, 100]\ndirections = [\"get\", \"put\"]\nto = [\"disk\"]\n";
    let text = FILES.split("[[file_paper]]").next().unwrap().replace("\"ftp\"", "\"rsync\"");
    let text = text.replace("to = [\"null\", \"disk\"]\nclients = [1, 4]\n", wide);
    let plan = Plan::parse("test", &format!("{SMALL}{text}")).unwrap();
    let cells = plan.file_cells(Some("here"));
    assert_eq!(cells.len(), 2 * 2 * 2);
    let titles: Vec<String> = cells.iter().map(|(cell, _)| cell.title()).collect();
    assert_eq!(titles[..2], ["rsync 1 KB to disk", "rsync put 1 KB"]);
    assert_eq!(titles[7], "rsync put 100 files of 2 KB");
}

#[test]
fn files_that_make_no_sense_are_refused_by_name() {
    let cases = [
        ("service = \"ftp\"\nlinks", "service = \"tftp\"\nlinks", "known: ftp, smb, nfs"),
        ("service = \"ftp\"\nlinks", "service = \"scp\"\nlinks", "only copies to disk"),
        ("service = \"ftp\"\nlinks", "service = \"nfs\"\nlinks", "only copies to disk"),
        ("clients = [1, 4]", "files = [1, 150]", "hundreds up to 10000"),
        ("clients = [1, 4]", "directions = [\"put\"]", "go to disk"),
        ("to = [\"null\", \"disk\"]\nclients = [1, 4]", PUT_TREE, "sends no trees"),
        ("links = [\"here\"]\nsizes = [1000", "links = [\"there\"]\nsizes = [1000", "'there'"),
        ("sizes = [1000, 2000]", "sizes = [0]", "sizes"),
        ("sizes = [1000, 2000]", "sizes = []", "empty"),
        ("clients = [1, 4]", "clients = [17]", "clients"),
        ("clients = [1, 4]", "memory_mib = [1]", "memory_mib"),
        ("clients = [1, 4]", "disk_mbit = 48", "memory_mib"),
        ("clients = [1, 4]", "repetitions = 0", "repetitions"),
        ("clients = [1, 4]", "protections = [\"sign\"]", "protections"),
        ("size = 2000", "size = 3000", "measures it"),
        ("source = \"paper\"", "source = \"other\"", "unknown source"),
    ];
    for (good, bad, named) in cases {
        assert!(FILES.contains(good), "{good}");
        let error = refused(&format!("{SMALL}{}", FILES.replace(good, bad)));
        assert!(error.contains(named), "{error} does not name {named}");
    }
    let tree = FILES.replace("\"null\", \"disk\"]\nclients = [1, 4]", "\"disk\"]\nfiles = [100]");
    assert!(
        refused(&format!("{SMALL}{}", tree.replace("\"ftp\"", "\"nfs\""))).contains("fetches no")
    );
    let loopback = format!("{SMALL}{FILES}").replace("[link.here]", "[link.here]\nloopback = true");
    assert!(refused(&loopback).contains("no second node"));
    let nodes = "[link.here]\nrate_mbit = 100\nnodes = 3";
    let several = format!("{SMALL}{FILES}").replace("[link.here]", nodes);
    assert!(refused(&several).contains("server_rate_mbit"));
    let server = "[link.here]\nserver_rate_mbit = 1000";
    assert!(refused(&SMALL.replace("[link.here]", server)).contains("rate_mbit"));
}
