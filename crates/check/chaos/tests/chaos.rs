//! The bounded form: some seeds of every scenario, on interfaces in network namespaces that each
//! makes and removes. Needs root.
#![allow(missing_docs)]

use gigae_chaos::Scenario;
use gigae_fabric::testing;
use std::path::Path;

/// Seeds of each scenario. The long form is `make chaos`.
const SEEDS: u64 = 3;

fn holds(name: &str) {
    let scenario = Scenario::find(name).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_gigae-chaos"));
    let mut total = gigae_chaos::Figures::default();
    for seed in 1_000..1_000 + SEEDS {
        match scenario.run(program, seed) {
            Ok(figures) => total += &figures,
            Err(what) => panic!(
                "{name}, seed {seed}: {what}\nagain: cargo run --release -p gigae-chaos -- --only {name} --from {seed} --seeds 1"
            ),
        }
    }
    println!("{name}: {total}");
    assert!(total.faults > 0, "nothing went wrong, so nothing was tried");
    // A full disk is the evaluator's alone.
    assert!(total.remote[0] > 0 || name == "disk", "no end used the other's memory");
}

/// Deadlines are taken from the clock that is never set. The other one dates reports, captured
/// frames, when a server began, what a soak notices, its own steps among that, and files.
fn no_deadline_is_taken_from_the_wall_clock() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let words = ["SystemTime", "UNIX_EPOCH", "CLOCK_REALTIME", "ClockId::Realtime", "libc::time("];
    let mut directories = vec![crates.to_owned()];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                if words.iter().any(|word| text.contains(word)) {
                    found.push(path.strip_prefix(crates).unwrap().to_owned());
                }
            }
        }
    }
    found.sort();
    let allowed = [
        "check/chaos/src/worker.rs",
        "check/chaos/tests/chaos.rs",
        "cli/src/capture.rs",
        "cli/tests/mount/changing.rs",
        "cli/tests/mount/ends.rs",
        "cli/tests/mount/reading.rs",
        "cli/tests/mount/writing.rs",
        "eval/measure/src/environment.rs",
        "eval/serve/src/metrics.rs",
        "eval/soak/src/watch.rs",
        "files/mount/examples/passthrough.rs",
        "files/mount/src/answers.rs",
        "files/mount/src/kernel.rs",
        "host/host/src/own_files.rs",
        "lib/gigae/src/log.rs",
        "lib/observe/src/publisher.rs",
        "lib/xdp/src/notes.rs",
    ];
    assert_eq!(found, allowed.map(std::path::PathBuf::from));
}

fn main() {
    testing::run(&[
        (
            "no_deadline_is_taken_from_the_wall_clock",
            no_deadline_is_taken_from_the_wall_clock as fn(),
        ),
        ("a_killed_process_costs_no_message_of_the_next", || holds("kill")),
        ("an_interface_that_goes_down_and_up_costs_no_message", || holds("down")),
        ("a_changed_mtu_costs_no_message_or_is_reported", || holds("mtu")),
        ("a_deleted_namespace_is_reported_to_both_ends", || holds("gone")),
        ("a_detached_program_is_reported", || holds("detach")),
        ("a_flood_of_datagrams_costs_no_message", || holds("flood")),
        ("a_receive_ring_that_runs_empty_costs_no_message", || holds("starve")),
        ("one_of_two_links_that_goes_down_and_up_costs_a_pause", || holds("trunk-down")),
        ("a_changed_mtu_of_one_of_two_links_costs_no_message", || holds("trunk-mtu")),
        ("one_of_two_links_that_is_deleted_costs_a_pause", || holds("trunk-gone")),
        ("a_program_detached_from_one_of_two_links_costs_a_pause", || holds("trunk-detach")),
        ("a_flood_over_one_of_two_links_costs_no_message", || holds("trunk-flood")),
        ("a_killed_process_with_a_udp_socket_costs_no_message_of_the_next", || holds("udp-kill")),
        ("an_interface_under_udp_sockets_goes_down_and_costs_no_message", || holds("udp-down")),
        ("a_changed_mtu_under_udp_sockets_costs_no_message", || holds("udp-mtu")),
        ("a_deleted_namespace_is_reported_over_udp_sockets", || holds("udp-gone")),
        ("a_flood_of_datagrams_costs_udp_sockets_no_message", || holds("udp-flood")),
        ("a_full_socket_buffer_costs_no_message", || holds("udp-starve")),
        ("busy_processors_cost_no_message", || holds("busy")),
        ("a_slow_program_costs_no_message", || holds("slow")),
        ("a_stepped_clock_changes_no_deadline", || holds("clock")),
        ("a_full_disk_is_one_line_and_leaves_nothing_half_written", || holds("disk")),
    ]);
}
