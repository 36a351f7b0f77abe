//! The provider's unit tests as a program, for tests that run it and count.

use crate::callgrind::snapshot;
use std::path::PathBuf;

/// The unit tests as releases are built.
pub(crate) fn unit_tests() -> PathBuf {
    let arguments = [
        "test",
        "-p",
        "gigae-ofi",
        "--lib",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ];
    let said = String::from_utf8(snapshot::cargo(&arguments).stdout).expect("cargo prints text");
    let mut found = said.lines().filter_map(|line| line.split_once("\"executable\":\""));
    let (_, rest) = found.next_back().expect("cargo names the program");
    rest.split('"').next().expect("a string ends").into()
}
