//! Every input that `fuzz/corpus` keeps, and inputs drawn at random, through every target.
#![allow(missing_docs)]

use gigae_hostile::Meter;
use gigae_hostile::search::{self, FuzzTarget, Random};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[global_allocator]
static METER: Meter = Meter;

/// Runs the inputs kept for a target, and then others. The others are the same every time. Their
/// number is `others`, times what the environment variable `TIMES` says.
fn replay(name: &str, others: u64) {
    let (target, kept) = (search::target(name), search::kept(name));
    for input in &kept {
        run(target, &input.bytes, || input.file.display().to_string());
    }
    let times = std::env::var("TIMES").map_or(1, |times| times.parse().expect("a number"));
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    for n in 0..others * times {
        let input = random.input(&kept);
        run(target, &input, || format!("input {n}, as a Rust literal: {input:?}"));
    }
    println!("{name}: {} kept inputs and {} others", kept.len(), others * times);
}

/// Runs a target, and names the input if it panics.
fn run(target: FuzzTarget, input: &[u8], name: impl FnOnce() -> String) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        eprintln!("failed: {}", name());
        resume_unwind(panic);
    }
}

#[test]
fn wire() {
    replay("wire", 2000);
}

#[test]
fn protocol() {
    replay("protocol", 300);
}

#[test]
fn endpoint() {
    replay("endpoint", 100);
}

#[test]
fn resources() {
    replay("resources", 12);
}

#[test]
fn identities() {
    replay("identities", 30);
}

#[test]
fn files() {
    replay("files", 300);
}

#[test]
fn transfer() {
    replay("transfer", 300);
}

#[cfg(feature = "evaluator")]
#[test]
fn control() {
    replay("control", 100);
}

#[cfg(feature = "evaluator")]
#[test]
fn results() {
    replay("results", 60);
}

#[cfg(feature = "evaluator")]
#[test]
fn plan() {
    replay("plan", 100);
}

#[test]
fn cluster() {
    replay("cluster", 300);
}

#[test]
fn discovery() {
    replay("discovery", 100);
}

#[test]
fn broker() {
    replay("broker", 2000);
}

#[test]
fn calls() {
    replay("calls", 300);
}
