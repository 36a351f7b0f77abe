//! `[[shares]]` of plans: their cells, and what is refused.

use gigae_eval_model::plan::{CellFilter, Plan, Setting};
use gigae_eval_model::shares::Way;

const SMALL: &str = r#"
name = "small"
about = "a test"
repetitions = 2
max_repetitions = 2
[link.both]
rate_mbit = 100
server_rate_mbit = 100
nodes = 6
[link.in]
rate_mbit = 100
nodes = 5
[link.cable]
cable = true
[gigae.own]
shared_credit = false
[tcp.zero]
zerocopy = true
[[experiment]]
kind = "rtt"
links = ["both", "in"]
transports = ["tcp"]
sizes = [8]
waits = ["sleep"]
seconds = 0.1
warmup = 0.01
[[shares]]
links = ["both"]
ways = ["in", "out"]
flows = [
    { transport = "gigae", variant = "own", count = 2 },
    { transport = "tcp", count = 2 },
]
seconds = 1
warmup = 0.1
[[shares]]
links = ["both", "in"]
flows = [{ transport = "tcp", count = 3 }]
seconds = 2
warmup = 0.1
repetitions = 5
"#;

#[test]
fn flows_multiply_by_ways_and_links_and_have_the_plans_settings() {
    let plan = Plan::parse("small", SMALL).unwrap();
    let of = |link| {
        let jobs = plan.shares_jobs(Some(link)).into_iter();
        jobs.map(|job| (job.cell.title(), job.repetitions)).collect::<Vec<_>>()
    };
    let three = ("3 tcp, 3 to 1, 1400 B".to_owned(), 5);
    let mixed = |way| (format!("2 gigae own + 2 tcp, {way}, 1400 B"), 2);
    assert_eq!(of("both"), [mixed("4 to 1"), mixed("1 to 4"), three.clone()]);
    assert_eq!(of("in"), [three]);
    let first = &plan.shares_jobs(Some("both"))[0];
    assert_eq!((first.cell.way, first.cell.size, first.cell.count()), (Way::In, 1400, 4));
    assert!(!first.settings[0].gigae().shared_credit && first.settings[1] == Setting::Default);
    let part = plan.only(&"link=in".parse::<CellFilter>().unwrap()).unwrap();
    assert_eq!(part.shares_jobs(Some("in")).len(), 1);
    assert!(part.shares_jobs(Some("both")).is_empty());
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_line() {
    let refused = |from: &str, to: &str| {
        assert!(SMALL.contains(from), "{from}");
        let error = Plan::parse("small", &SMALL.replacen(from, to, 1)).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let cases = [
        ("transport = \"tcp\", count = 2", "transport = \"udp\", count = 2", "one of: gigae, tcp"),
        ("variant = \"own\"", "variant = \"other\"", "unknown setting 'other'"),
        ("\"tcp\", count = 2", "\"tcp\", variant = \"zero\", count = 2", "zerocopy"),
        ("\"tcp\", count = 2", "\"tcp\", count = 0", "at least 1"),
        ("\"tcp\", count = 2", "\"gigae\", count = 2", "one endpoint"),
        ("count = 3", "count = 4", "4 flows need 6 nodes"),
        ("ways = [\"in\", \"out\"]", "ways = []", "no list may be empty"),
        ("server_rate_mbit = 100\n", "", "server_rate_mbit"),
        ("links = [\"both\"]\nways", "links = [\"cable\"]\nways", "need a switch"),
        ("links = [\"both\"]\nways", "links = [\"none\"]\nways", "unknown link 'none'"),
        ("seconds = 2", "seconds = 2\nsize = 1048577", "size must be from 16 to 1048576"),
        ("seconds = 2", "seconds = 100", "seconds must be"),
        ("repetitions = 5", "repetitions = 0", "repetitions must be"),
    ];
    for (from, to, words) in cases {
        let error = refused(from, to);
        assert!(error.contains(words), "'{words}' is not in: {error}");
    }
}

#[test]
fn the_shipped_plan_measures_every_buffer_and_both_ways() {
    let plan = Plan::load("congestion").unwrap();
    let many = |link: &str| plan.shares_jobs(Some(link)).len();
    assert_eq!(["b64", "b128", "b256", "b512", "b1024", "both"].map(many), [3, 3, 3, 6, 3, 4]);
    let buffers = plan.link.values().filter_map(|link| link.buffer).map(|bytes| bytes >> 10);
    assert_eq!(buffers.collect::<Vec<_>>(), [1024, 128, 256, 512, 64, 512]);
    // A plan of a few minutes: a repetition takes some 0.3 s besides.
    let jobs = plan.link.keys().flat_map(|link| plan.shares_jobs(Some(link)));
    let seconds: f64 = jobs
        .map(|job| ((job.measure + job.warmup).as_secs_f64() + 0.3) * f64::from(job.repetitions))
        .sum();
    assert!(!plan.takes.is_empty() && seconds < 480.0, "{seconds} s");
}
