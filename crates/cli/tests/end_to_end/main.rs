//! Whole runs of the real program on virtual networks: this test binary plays `gigae` for itself.
//!
//! Called as `eval ...` or `serve ...` it is the program; called by `cargo test` it is the tests.

mod common;
mod ends;
mod errors;
mod machines;
mod plans;

use clap::Parser;
use gigae_cli::{eval::EvalArgs, serve::ServeArgs};
use gigae_fabric::testing;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[derive(Parser)]
enum Program {
    Eval(EvalArgs),
    Serve(ServeArgs),
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == "eval" || word == "serve") {
        return program();
    }
    testing::run(&[
        (
            "a_tiny_plan_gives_results_that_fit_the_schema",
            plans::a_tiny_plan_gives_results_that_fit_the_schema as fn(),
        ),
        (
            "a_loopback_one_cpu_schedules_and_bulk_streams_come_out_of_a_run",
            plans::a_loopback_one_cpu_schedules_and_bulk_streams_come_out_of_a_run,
        ),
        (
            "variants_loss_and_figures_come_out_of_every_run",
            plans::variants_loss_and_figures_come_out_of_every_run,
        ),
        (
            "raw_frames_are_as_long_as_a_jumbo_network_allows",
            plans::raw_frames_are_as_long_as_a_jumbo_network_allows,
        ),
        ("ctrl_c_in_mid_run_leaves_nothing_behind", ends::ctrl_c_in_mid_run_leaves_nothing_behind),
        (
            "a_killed_run_takes_its_serving_process_along_and_the_next_run_cleans_up",
            ends::a_killed_run_takes_its_serving_process_along_and_the_next_run_cleans_up,
        ),
        ("bad_input_is_one_line_and_a_failure", errors::bad_input_is_one_line_and_a_failure),
        (
            "a_full_disk_is_one_line_and_leaves_no_half_written_file",
            errors::a_full_disk_is_one_line_and_leaves_no_half_written_file,
        ),
        (
            "two_nodes_with_a_key_file_measure_each_other",
            machines::two_nodes_with_a_key_file_measure_each_other,
        ),
        (
            "two_nodes_measure_each_other_over_two_interfaces_as_one",
            machines::two_nodes_measure_each_other_over_two_interfaces_as_one,
        ),
        (
            "a_link_of_two_is_used_as_one_and_the_limit_is_that_of_both",
            machines::a_link_of_two_is_used_as_one_and_the_limit_is_that_of_both,
        ),
        (
            "a_peer_that_vanishes_ends_the_run_in_bounded_time",
            machines::a_peer_that_vanishes_ends_the_run_in_bounded_time,
        ),
    ]);
}

fn program() -> ExitCode {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).unwrap();
    }
    match Program::parse() {
        Program::Eval(args) => gigae_cli::eval::eval(&args, &interrupted),
        Program::Serve(args) => gigae_cli::serve::serve(&args, &interrupted),
    }
}
