//! Whole runs of the real program on virtual networks: this test binary plays `gigae` for itself.
//!
//! Called as `eval ...` or `serve ...` it is the program; called by `cargo test` it is the tests.

mod common;
#[path = "../control_port/mod.rs"]
mod control_port;
mod ends;
mod errors;
mod machines;
mod plans;
#[path = "../program/mod.rs"]
mod program;

use gigae_fabric::{testing, tests};
use std::process::ExitCode;

/// They load an XDP program or lose frames, or start a server, which becomes another user.
const OF_ROOT: &[&str] = &[
    "raw_frames_are_as_long_as_a_jumbo_network_allows",
    "variants_loss_and_figures_come_out_of_every_run",
    "two_nodes_with_a_key_file_measure_each_other",
    "two_nodes_measure_each_other_over_two_interfaces_as_one",
    "a_peer_that_vanishes_ends_the_run_in_bounded_time",
];

fn main() -> ExitCode {
    if let Some(code) = program::play() {
        return code;
    }
    testing::for_users_except(OF_ROOT).run(tests![
        plans::a_tiny_plan_gives_results_that_fit_the_schema,
        plans::a_loopback_one_cpu_schedules_and_bulk_streams_come_out_of_a_run,
        plans::variants_loss_and_figures_come_out_of_every_run,
        plans::raw_frames_are_as_long_as_a_jumbo_network_allows,
        plans::tcp_and_udp_at_their_best_are_measured_or_left_out_with_the_reason,
        ends::ctrl_c_in_mid_run_leaves_nothing_behind,
        ends::a_killed_run_takes_its_serving_process_along_and_the_next_run_cleans_up,
        errors::bad_input_is_one_line_and_a_failure,
        errors::a_full_disk_is_one_line_and_leaves_no_half_written_file,
        machines::two_nodes_with_a_key_file_measure_each_other,
        machines::two_nodes_measure_each_other_over_two_interfaces_as_one,
        machines::a_link_of_two_is_used_as_one_and_the_limit_is_that_of_both,
        machines::a_peer_that_vanishes_ends_the_run_in_bounded_time
    ]);
}
