//! System calls of whole paths through the provider over a real link, from `fi_tsend` to
//! `fi_cq_read`, as strace sees them, compared with `snapshots/system_calls.txt`. That is updated
//! by
//!
//! ```text
//! UPDATE_SNAPSHOT=1 cargo test -p gigae-ofi --test system_calls
//! ```
//!
//! What is counted is the unit test `tests::calls`, built as releases are. See
//! `crates/lib/gigae/tests/system_calls.rs` for why nothing here depends on how fast the machine
//! is. Needs root and strace; where one is missing the test is ignored, and fails if `CI` is set.
#![allow(missing_docs)]

mod built;
#[path = "../../../lib/proto/tests/callgrind/mod.rs"]
mod callgrind;
#[path = "../../../lib/gigae/tests/strace/mod.rs"]
mod strace;

use gigae_fabric::Fabric;
use std::path::Path;

/// As in `tests::calls`.
const MESSAGES: usize = 400;

const TRACED: [&str; 3] = ["--exact", "tests::calls::tagged_messages_go_to_and_fro", "--nocapture"];

fn every_path_through_the_provider_makes_as_many_system_calls_as_the_snapshot_says() {
    let (program, mut counts) = (built::unit_tests(), strace::Counts::new());
    for backend in ["xdp", "packet"] {
        let file = format!("provider-calls-{backend}.strace");
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
        let environment = [("GIGAE_SYSTEM_CALLS_TRACED", backend)];
        let trace = strace::run(&program, &TRACED, &environment, &out);
        counts.extend(strace::per_message(backend, &trace, MESSAGES));
    }
    assert_eq!(counts.len(), 2 * 2, "{counts:?}");
    strace::check(
        &counts,
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/system_calls.txt"),
        "cargo test -p gigae-ofi --test system_calls",
    );
}

fn main() {
    let no_fabric = Fabric::preflight().and_then(|()| Fabric::down_abandoned()).err();
    let trials = vec![callgrind::trial(
        "every_path_through_the_provider_makes_as_many_system_calls_as_the_snapshot_says",
        no_fabric.map(|error| error.to_string()).or_else(strace::obstacle),
        every_path_through_the_provider_makes_as_many_system_calls_as_the_snapshot_says,
    )];
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit();
}
