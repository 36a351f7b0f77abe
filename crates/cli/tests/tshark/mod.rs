//! What tshark, with the dissector, reads from a capture.
#![allow(dead_code)]

use std::path::Path;
use std::process::Command;

pub(crate) const DISSECTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/wireshark/gigae.lua");

/// One row for each frame, with the values of these fields; several of one field with commas
/// between.
pub(crate) fn read(file: &Path, options: &[&str], fields: &[&str]) -> Vec<Vec<String>> {
    let mut tshark = Command::new("tshark");
    // The user who runs this may have preferences and plugins.
    tshark.env("HOME", "/nonexistent").env("XDG_CONFIG_HOME", "/nonexistent");
    tshark.args(["-n", "-X", &format!("lua_script:{DISSECTOR}"), "-r"]).arg(file).args(options);
    tshark.args(["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a"]);
    tshark.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = tshark.output().expect("tshark runs; install the package tshark");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("gigae.lua"), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}
