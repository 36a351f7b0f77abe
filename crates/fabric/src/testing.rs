//! Fabrics and a runner for tests that need privileges.
//!
//! A test file declares `harness = false` and runs its tests by name:
//!
//! ```no_run
//! fn frames_pass() {
//!     let fabric = gigae_fabric::testing::fabric("frames_pass", |config| config.mtu = 9000);
//!     let _inside = fabric.node(1).enter().unwrap();
//! }
//!
//! fn main() {
//!     gigae_fabric::testing::run(&[("frames_pass", frames_pass as fn())]);
//! }
//! ```
//!
//! Where privileges or programs are missing, every test is reported as ignored, with the reason; if
//! the environment variable `CI` is set (and not empty) it fails instead, so that a test that never
//! runs cannot pass for one that does.

use std::sync::atomic::{AtomicU32, Ordering};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::{Fabric, FabricConfig, netns};

/// Runs the tests as `cargo test` would (names, filters and options included) and ends the process
/// with its status.
pub fn run(tests: &[(&str, fn())]) -> ! {
    let arguments = Arguments::from_args();
    let obstacle = obstacle();
    if let Some(reason) = &obstacle {
        eprintln!("privileged tests cannot run: {reason}");
    }
    let trials = tests.iter().map(|&(name, test)| {
        let obstacle = obstacle.clone();
        Trial::ignorable_test(name, move || match obstacle {
            None => {
                test();
                Ok(Completion::Completed)
            }
            Some(reason) if in_ci() => Err(Failed::from(reason)),
            Some(reason) => Ok(Completion::ignored_with(reason)),
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit()
}

/// Lays an unshaped two-node fabric, changed by `adapt`, with a prefix that no other process and no
/// other test has. `test` is named when it fails.
///
/// # Panics
///
/// When the fabric cannot be laid.
pub fn fabric(test: &str, adapt: impl FnOnce(&mut FabricConfig)) -> Fabric {
    let mut config = FabricConfig { prefix: prefix(), ..FabricConfig::default() };
    adapt(&mut config);
    Fabric::up(config).unwrap_or_else(|error| panic!("the fabric for {test}: {error}"))
}

/// A prefix that no other process and no other call has.
pub fn prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("gt{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Why fabrics cannot be laid here, if they cannot. Removes those that killed tests left.
fn obstacle() -> Option<String> {
    let attempt = Fabric::preflight()
        .and_then(|()| netns::possible())
        .and_then(|()| Fabric::down_abandoned());
    attempt.err().map(|error| error.to_string())
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}
