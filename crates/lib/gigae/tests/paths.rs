//! Instructions of whole paths, from the call that sends to the call that receives, counted by
//! valgrind's callgrind and compared with `snapshots/paths.txt`. They do not depend on the
//! machine's load.
//!
//! What is counted is `examples/paths.rs`, built as releases are: two endpoints on a simulated
//! network. The snapshot is updated by
//!
//! ```text
//! UPDATE_SNAPSHOT=1 cargo test -p gigae --test paths
//! ```
//!
//! The simulated link allocates and copies every frame, which is in each count. Kernel and NIC are
//! in none; what they are asked for is counted by `system_calls.rs`. The C library's copies and the
//! checksum of long frames are chosen by the processor: valgrind shows every x86-64 processor with
//! AVX2 alike.
//!
//! Without valgrind the test is ignored; if `CI` is set it fails.
#![allow(missing_docs)]

#[path = "../../proto/tests/callgrind/mod.rs"]
mod callgrind;

use callgrind::snapshot::{self, Counts};
use std::path::Path;

fn every_path_takes_as_many_instructions_as_the_snapshot_says() {
    snapshot::cargo(&["build", "-p", "gigae", "--example", "paths"]);
    let program = snapshot::target().join("release/examples/paths");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("paths.callgrind");
    let (profile, output) = callgrind::run(&program, &[], &[], &out);
    snapshot::check(
        &Counts::of(&profile, &output),
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/paths.txt"),
        "cargo test -p gigae --test paths",
    );
}

fn main() {
    let trials = vec![callgrind::trial(
        "every_path_takes_as_many_instructions_as_the_snapshot_says",
        callgrind::obstacle(),
        every_path_takes_as_many_instructions_as_the_snapshot_says,
    )];
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit();
}
