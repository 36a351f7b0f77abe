//! Plans of operations on names and of links with a delay: what they give, and what is refused.

use gigae_eval_model::plan::Plan;

const PLAN: &str = r#"
name = "small"
about = "a test"
repetitions = 2
max_repetitions = 3
[link.here]
[link.far]
rate_mbit = 1000
delay_us = 1000
[[experiment]]
kind = "rtt"
links = ["here", "far"]
transports = ["tcp"]
sizes = [8]
waits = ["spin"]
seconds = 0.1
warmup = 0.0
[[metadata]]
service = "nfs"
links = ["far"]
files = [16, 256]
[[metadata]]
service = "nfs"
links = ["here", "far"]
files = [256]
repetitions = 5
"#;

#[test]
fn each_number_of_files_is_a_cell_once_for_each_link() {
    let plan = Plan::parse("test", PLAN).unwrap();
    let cells = |link: Option<&str>| -> Vec<(u32, u32)> {
        let cells = plan.metadata_cells(link).into_iter();
        cells.map(|(cell, times)| (cell.files, times)).collect()
    };
    assert_eq!(cells(Some("far")), [(16, 2), (256, 2)]);
    assert_eq!(cells(Some("here")), [(256, 5)]);
    assert!(cells(Some("elsewhere")).is_empty());
    assert_eq!(plan.link["far"].delay_us, Some(1000));
    assert_eq!(plan.metadata_cells(None)[0].0.title(), "nfs names of 16 files");
    let part = plan.only(&"link=here".parse().unwrap()).unwrap();
    assert_eq!(part.metadata_cells(None).len(), 1);
    let part = plan.only(&"experiment=rtt".parse().unwrap()).unwrap();
    assert!(part.metadata.is_empty());
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let cases = [
        ("service = \"nfs\"", "service = \"ftp\"", "known: nfs"),
        ("links = [\"far\"]", "links = [\"there\"]", "'there'"),
        ("links = [\"far\"]", "links = []", "no list may be empty"),
        ("files = [16, 256]", "files = [16, 0]", "from 1 to 20000"),
        ("files = [16, 256]", "files = []", "no list may be empty"),
        ("repetitions = 5", "repetitions = 0", "from 1 to 1000"),
        ("delay_us = 1000", "delay_us = 200001", "at most 200000"),
        ("delay_us = 1000", "delay_us = 1\nqueues = 2", "one queue"),
        ("rate_mbit = 1000\ndelay_us", "cable = true\ndelay_us", "cable"),
        ("rate_mbit = 1000\ndelay_us", "loopback = true\ndelay_us", "loopback"),
    ];
    for (good, bad, word) in cases {
        assert!(PLAN.contains(good), "{good}");
        let error = Plan::parse("test", &PLAN.replacen(good, bad, 1)).unwrap_err().to_string();
        assert!(error.contains(word) && error.lines().count() == 1, "{error}");
    }
}
