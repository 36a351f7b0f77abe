//! Asks git which version this is, so that every result can name it. Without git, or outside a
//! checkout, the version is simply `unknown`.

use std::path::Path;
use std::process::Command;

fn main() {
    // `git describe --dirty` would write the index, and then cargo would build this crate again.
    let changed = git(&["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"]);
    let described = git(&["describe", "--always", "--tags"]).map_or_else(
        || "unknown".into(),
        |name| {
            if changed.is_some_and(|files| !files.is_empty()) {
                format!("{name}-dirty")
            } else {
                name
            }
        },
    );
    println!("cargo:rustc-env=GIGAE_GIT={described}");
    println!("cargo:rerun-if-changed=build.rs");
    // Only files that exist: a missing one would make cargo run this script on every build.
    for file in ["../../../.git/HEAD", "../../../.git/index"] {
        if Path::new(file).exists() {
            println!("cargo:rerun-if-changed={file}");
        }
    }
}

/// What git prints, or `None` without git or outside a checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
