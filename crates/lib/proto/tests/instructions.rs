//! Instructions per message of `wire` and `proto`, counted by valgrind's callgrind and compared
//! with `snapshots/instructions.txt`. They do not depend on the machine's load, nor on what else it
//! runs.
//!
//! What is counted is `examples/instructions.rs`, built as releases are; each case is a separate
//! function there, so a call and a return are in every figure. The snapshot is updated by
//!
//! ```text
//! UPDATE_SNAPSHOT=1 cargo test -p gigae-proto --test instructions
//! ```
//!
//! It sees neither what an instruction costs nor what waits for memory: fewer are not always
//! faster. Whole paths, with `gigae` and a link, are
//! counted by `crates/lib/gigae/tests/paths.rs` and `crates/edge/ofi/tests/paths.rs`.
//! The checksum of a whole long frame is not counted: `twox-hash` chooses its instructions by the
//! processor. That of a short one takes SSE 4.2, which valgrind offers on any that has AVX.
//!
//! Without valgrind the tests that need it are ignored; if `CI` is set they fail.
#![allow(missing_docs)]

mod callgrind;

use callgrind::snapshot::{self, Counts};
use libtest_mimic::Arguments;
use std::path::Path;

fn every_message_takes_as_many_instructions_as_the_snapshot_says() {
    snapshot::cargo(&["build", "-p", "gigae-proto", "--example", "instructions"]);
    let program = snapshot::target().join("release/examples/instructions");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("instructions.callgrind");
    let (profile, output) = callgrind::run(&program, &[], &[], &out);
    // The C library's functions for long copies are chosen by the processor, and nothing here
    // should be long.
    let outside: Vec<_> =
        profile.objects().filter(|o| !o.contains("examples/instructions")).collect();
    assert!(outside.is_empty(), "counted outside the program, in {outside:?}");
    snapshot::check(
        &Counts::of(&profile, &output),
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/instructions.txt"),
        "cargo test -p gigae-proto --test instructions",
    );
}

fn a_count_that_has_changed_in_either_direction_is_reported() {
    let counts = |compiler: &str, cases: &[(&str, f64)]| Counts {
        made_by: compiler.into(),
        cases: cases.iter().map(|&(case, count)| (case.into(), count)).collect(),
    };
    let snapshot = counts("rustc 1", &[("long", 1000.0), ("short", 10.0)]);
    assert_eq!(Counts::parse(&snapshot.text()), snapshot);
    assert_eq!(snapshot.loosely(&snapshot), None);
    let line = counts("rustc 2", &[]).loosely(&snapshot).expect("another compiler is named");
    assert!(line.contains("'rustc 1'") && line.contains("'rustc 2'"), "{line}");
    let wrong =
        |compiler: &str, cases: &[(&str, f64)]| counts(compiler, cases).compare(&snapshot).len();
    assert_eq!(wrong("rustc 1", &[("long", 1029.0), ("short", 11.0)]), 0);
    assert_eq!(wrong("rustc 1", &[("long", 1031.0), ("short", 8.9)]), 2);
    assert_eq!(wrong("rustc 1", &[("long", 969.0), ("short", 11.1)]), 2);
    assert_eq!(wrong("rustc 2", &[("long", 1240.0), ("short", 12.0)]), 0);
    assert_eq!(wrong("rustc 2", &[("long", 1260.0), ("short", 13.0)]), 2);
    assert_eq!(wrong("rustc 1", &[("long", 1000.0), ("other", 10.0)]), 2);
}

fn main() {
    let trials = vec![
        callgrind::trial(
            "every_message_takes_as_many_instructions_as_the_snapshot_says",
            callgrind::obstacle(),
            every_message_takes_as_many_instructions_as_the_snapshot_says,
        ),
        callgrind::trial(
            "a_count_that_has_changed_in_either_direction_is_reported",
            None,
            a_count_that_has_changed_in_either_direction_is_reported,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
