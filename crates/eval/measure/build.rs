//! Asks git which version this is, so that every result can name it. Without git, or outside a
//! checkout, the version is simply `unknown`.

use std::path::Path;
use std::process::Command;

fn main() {
    let described = Command::new("git")
        .args(["describe", "--always", "--dirty", "--tags"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or_else(|| "unknown".into(), |text| text.trim().to_owned());
    println!("cargo:rustc-env=GIGAE_GIT={described}");
    println!("cargo:rerun-if-changed=build.rs");
    // Only files that exist: a missing one would make cargo run this script on every build.
    for file in ["../../../.git/HEAD", "../../../.git/index"] {
        if Path::new(file).exists() {
            println!("cargo:rerun-if-changed={file}");
        }
    }
}
