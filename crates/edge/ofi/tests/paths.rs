//! Instructions of whole paths through the provider, from `fi_tsend` to `fi_cq_read`, counted by
//! valgrind's callgrind and compared with `snapshots/paths.txt`. They do not depend on the
//! machine's load.
//!
//! What is counted is the unit test `tests::paths`, built as releases are: two endpoints on a
//! simulated network, called by libfabric's tables. The snapshot is updated by
//!
//! ```text
//! UPDATE_SNAPSHOT=1 cargo test -p gigae-ofi --test paths
//! ```
//!
//! See `crates/lib/gigae/tests/paths.rs` for what is in these counts and what is not.
#![allow(missing_docs)]

mod built;
#[path = "../../../lib/proto/tests/callgrind/mod.rs"]
mod callgrind;

use callgrind::snapshot::{self, Counts};
use std::path::Path;

const COUNTED: [&str; 3] =
    ["--exact", "tests::paths::tagged_messages_pass_from_queue_to_queue", "--nocapture"];

fn every_path_through_the_provider_takes_as_many_instructions_as_the_snapshot_says() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ofi-paths.callgrind");
    let (profile, output) = callgrind::run_with(&built::unit_tests(), &COUNTED, &[], &[], &out);
    snapshot::check(
        &Counts::of(&profile, &output),
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/paths.txt"),
        "cargo test -p gigae-ofi --test paths",
    );
}

fn main() {
    let trials = vec![callgrind::trial(
        "every_path_through_the_provider_takes_as_many_instructions_as_the_snapshot_says",
        callgrind::obstacle(),
        every_path_through_the_provider_takes_as_many_instructions_as_the_snapshot_says,
    )];
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit();
}
