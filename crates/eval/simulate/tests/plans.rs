//! Plans: the shipped ones, and what is said about mistakes.
#![allow(missing_docs)]

use gigae_eval_simulate::{Plan, SHIPPED};

const PUBLISHED: &str = include_str!("../../../lib/network/data/homa-published.txt");

#[test]
fn shipped_plans_have_the_names_by_which_they_are_found() {
    for (name, _) in SHIPPED {
        let plan = Plan::load(name).unwrap();
        assert_eq!(plan.name, *name);
        assert!(!plan.about.is_empty() && !plan.takes.is_empty(), "{name}");
    }
}

#[test]
fn published_figures_of_homa_are_those_of_the_data() {
    let plan = Plan::load("homa16").unwrap();
    assert_eq!(plan.random.len(), 3);
    for random in &plan.random {
        assert_eq!(random.published.len(), 3);
        for published in &random.published {
            let system = match published.source.as_str() {
                "Homa, no priorities" => "HomaP1",
                "Homa, 2 priorities" => "HomaP2",
                "Homa, 8 priorities" => "HomaP8",
                other => panic!("{other}"),
            };
            let lengths = random.lengths.as_ref().unwrap().to_uppercase();
            let name = format!("{lengths} {:.0} {system} ", random.load * 100.0);
            let figures = PUBLISHED.lines().find_map(|line| line.strip_prefix(&name)).unwrap();
            let figures: Vec<f64> =
                figures.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
            assert_eq!(published.p99.unwrap().to_vec(), figures, "{name}");
        }
    }
}

const GOOD: &str = r#"name = "good"
[network]
hosts = 4
rate_mbit = 10000
[[random]]
lengths = "w1"
load = 0.5
messages = 1000
[[homa]]
"#;

#[test]
fn the_smallest_plan_is_good() {
    let plan = Plan::parse("good", GOOD).unwrap();
    assert_eq!((plan.seeds, plan.limit_ms, plan.homa[0].degree), (1, 10_000, 7));
}

#[test]
fn a_mistake_is_one_line_with_its_place_and_what_to_do() {
    // What is put in the place of what, the line, and what must be said.
    let mistakes = [
        ("hosts = 4", "host = 4", "line 3: ", "unknown field `host`"),
        ("[[homa]]", "[[home]]", "line 9: ", "unknown field `home`"),
        ("load = 0.5", "load = 1.5", "line 7: 'load' of [random]", "write 0.001 to 1"),
        ("load = 0.5", "", "line 5: ", "missing field `load`"),
        ("\"w1\"", "\"w9\"", "line 6: 'lengths'", "write one of w1, w2"),
        ("lengths = \"w1\"", "", "line 5: 'lengths'", "lengths or bytes"),
        ("messages = 1000", "messages = 9", "line 8: ", "write 100 to"),
        ("messages = 1000", "messages = 1000\nshort = 7", "line 9: ", "1500, 10000, 100000"),
        (
            "messages = 1000",
            "messages = 1000\n[[random.published]]\nsource = \"a\"\nshort_p99 = 1.0",
            "line 5: ",
            "short_p99 needs short",
        ),
        ("rate_mbit = 10000", "rate_mbit = 3000", "line 4: 'rate_mbit'", "divides 8,000,000"),
        ("hosts = 4", "", "line 2: 'hosts' of [network]", "how many hosts"),
        ("hosts = 4", "hosts = 1", "line 3: ", "2 to 100000 hosts"),
        ("hosts = 4", "hosts = 4\nleaves = 2", "line 4: 'leaves'", "hosts_per_leaf and spines"),
        ("hosts = 4", "hosts = 4\ncore_rate_mbit = 1000", "line 4: ", "only two tiers"),
        (
            "hosts = 4",
            "leaves = 70000\nhosts_per_leaf = 70000\nspines = 1",
            "line 3: ",
            "2 to 100000 hosts",
        ),
        ("hosts = 4", "hosts = 4\nloss = 0.9", "line 4: ", "write 0 to 0.5"),
        ("hosts = 4", "hosts = 4\nbuffer = 9\n", "line 4: ", "write 1518 to"),
        (
            "hosts = 4",
            "hosts = 4\nbuffer = 9999\nshared_buffer = 9999",
            "line 5: ",
            "buffer or shared_buffer, not both",
        ),
        ("hosts = 4", "hosts = 4\nalpha = 0.3", "line 4: ", "multiple of 1/64"),
        ("[[homa]]", "[[homa]]\n[[homa]]", "line 10: 'name' of [homa]", "another name"),
        ("[[homa]]", "[[homa]]\nname = \"a,b\"", "line 10: ", "without a comma"),
        ("[[homa]]", "[[homa]]\ndegree = 0", "line 10: ", "write 1 to"),
        ("[[homa]]", "[[gigae]]\npriority = 8", "line 10: ", "write 1 to 7"),
        ("[[homa]]", "[[swift]]\nwindow = 0.0", "line 10: ", "write 0.001 to 1000"),
        ("[[homa]]", "[[dctcp]]\ntimeout_us = 0", "line 10: ", "write 1 to"),
        (
            "[[homa]]",
            "[[incast]]\nsenders = [3]\nbytes = 1073741825\n[[gigae]]",
            "line 12: [gigae]",
            "at most 1 GiB",
        ),
        ("[[homa]]", "", "'gigae'", "add [[gigae]], [[homa]], [[dctcp]] or [[swift]]"),
        ("[[homa]]", "[[homa]]\n[[incast]]\nsenders = [4]\nbytes = 1", "line 11: ", "1 to 3"),
        ("[[homa]]", "[[homa]]\n[[incast]]\nsenders = []\nbytes = 1", "line 11: ", "[20, 100]"),
        ("[[homa]]", "[[homa]]\n[[ring]]\nbytes = 0", "line 11: ", "write 1 to"),
        (
            "[[homa]]",
            "[[homa]]\n[[homa]]\nname = \"Homa\"",
            "line 11: 'name' of [homa]",
            "write another name",
        ),
        (
            "[[homa]]",
            "[[homa]]\n[[random]]\nlengths = \"W1\"\nload = 0.5\nmessages = 100",
            "line 10: [random]",
            "'w1 50 %' is there twice",
        ),
        (
            "[[homa]]",
            "[[homa]]\n[[incast]]\nsenders = [2, 2]\nbytes = 1",
            "line 10: [incast]",
            "'incast 2 x 1 B' is there twice",
        ),
        (
            "hosts = 4",
            "leaves = 5000\nhosts_per_leaf = 2\nspines = 1",
            "line 3: 'leaves'",
            "at most 10000000",
        ),
        (
            "messages = 1000",
            "messages = 60000000\nresponses = true",
            "line 8: 'messages'",
            "write 100 to 50000000",
        ),
        (
            "messages = 1000",
            "messages = 1000\n[[random.published]]\nsource = \"a\"\np99 = [1.0, 1.0, 1.0, inf]",
            "line 9: 'published'",
            "write 0.001 to 1000000000",
        ),
        ("name = \"good\"", "name = \"\"", "line 1: ", "write a name"),
        ("name = \"good\"", "name = \"good\"\nseeds = 0", "line 2: ", "write 1 to 10000"),
        ("name = \"good\"", "name = \"good\"\nlimit_ms = 0", "line 2: ", "write 1 to"),
        ("name = \"good\"", "name = good", "line 1: ", ""),
    ];
    for (from, to, line, advice) in mistakes {
        assert!(GOOD.contains(from), "{from}");
        let error = Plan::parse("mine.toml", &GOOD.replace(from, to)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("plan 'mine.toml': {line}")), "{to}: {error}");
        assert!(error.contains(advice) && error.lines().count() == 1, "{to}: {error}");
        assert!(error.contains("'gigae simulate incast --print' shows the form"), "{error}");
    }
}

#[test]
fn a_plan_that_would_not_fit_into_memory_is_refused() {
    let parse = |hosts: u32, rest: &str| {
        let text = format!("name = 'a'\n[network]\nhosts = {hosts}\nrate_mbit = 1000\n{rest}");
        Plan::parse("a", &text).map(drop).map_err(|error| error.to_string())
    };
    let refuses = |hosts, rest: &str, advice: &str| {
        let error = parse(hosts, rest).unwrap_err();
        assert!(error.contains("line 5: ") && error.contains(advice), "{error}");
    };
    for (most, table) in [(10_000, "[[all_to_all]]"), (7_071, "[[ring]]")] {
        let rest = format!("{table}\nbytes = 8\n[[homa]]\n");
        assert_eq!(parse(most, &rest), Ok(()));
        refuses(most + 1, &rest, "a run has at most 100000000: use fewer hosts");
        refuses(100_000, &rest, "messages with 100000 hosts");
    }
    let library = "[[gigae]]\n[[ring]]\nbytes = 8\n";
    assert_eq!(parse(2_048, library), Ok(()));
    refuses(2_049, library, "at most 2048 hosts, and 'ring 8 B' has 2049");
}

#[test]
fn a_plan_without_traffic_is_refused() {
    let text = "name = 'a'\n[network]\nhosts = 2\nrate_mbit = 1000\n[[homa]]\n";
    let error = Plan::parse("a", text).unwrap_err().to_string();
    assert!(error.contains("add [[random]], [[incast]], [[all_to_all]] or [[ring]]"), "{error}");
}

#[test]
fn what_is_neither_a_plan_nor_a_file_is_refused_with_the_names() {
    let error = Plan::load("no-such-plan").unwrap_err().to_string();
    assert!(error.contains("incast, homa16, leaf-spine-144, patterns"), "{error}");
    let place = tempfile::tempdir().unwrap();
    let error = Plan::load(place.path().to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("name a readable TOML file") && error.lines().count() == 1, "{error}");
}

#[test]
fn only_the_protocols_that_are_asked_for_are_kept() {
    let mut plan = Plan::load("incast").unwrap();
    let error = plan.keep_protocols(&["tcp".into()]).unwrap_err().to_string();
    assert!(error.contains("'tcp'; choose from gigae, gigae-own, homa, dctcp, swift"), "{error}");
    plan.keep_protocols(&["swift".into(), "gigae".into()]).unwrap();
    let kept = (plan.gigae.len(), plan.homa.len(), plan.dctcp.len(), plan.swift.len());
    assert_eq!(kept, (1, 0, 0, 1));
}
