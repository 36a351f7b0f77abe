//! Plans: the shipped ones are sound, the parser is strict, cells are what was planned.

use gigae_eval::plan::{Experiment, Plan, SHIPPED, Wait};

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

#[test]
fn every_shipped_plan_parses_and_gives_cells() {
    for (name, _) in SHIPPED {
        let plan = Plan::load(name).unwrap();
        assert_eq!(plan.name, *name);
        for link in plan.link.keys() {
            assert!(!plan.cells(Some(link), 1500).is_empty(), "{name} {link}");
        }
    }
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
    // None of these transports has adaptive waiting. TCP twice (settings), UDP, ICMP; two sizes each.
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
