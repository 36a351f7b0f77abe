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
//!     gigae_fabric::testing::run(gigae_fabric::tests![frames_pass]);
//! }
//! ```
//!
//! Each test runs in a process of its own: [`run`] says why.
//!
//! Where privileges or programs are missing, every test is reported as ignored, with the reason; if
//! the environment variable `CI` is set (and not empty) it fails instead, so that a test that never
//! runs cannot pass for one that does.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::{Fabric, FabricConfig, netns};

/// With the name of a test as the next argument: this process is to run it and nothing else.
const ALONE: &str = "--test-of-this-process";

/// A list of tests for [`run`](crate::testing::run): each has the name of its function.
#[macro_export]
macro_rules! tests {
    ($($test:path),* $(,)?) => {
        &[$(($crate::testing::name(stringify!($test)), $test as fn())),*]
    };
}

/// The name of a function by its path.
pub fn name(path: &'static str) -> &'static str {
    path.rsplit(':').next().unwrap_or(path).trim()
}

/// Runs the tests as `cargo test` would (names, filters and options included) and ends the process
/// with its status.
///
/// Each test runs in a process of its own, which costs some milliseconds. So what it counts there
/// (descriptors, mappings) and changes (limits, processors) is its own, and what it closes is closed:
/// a process copies all its descriptors when it forks, so in a common one a test that starts a
/// program would hold the sockets, names and XDP programs of all the others until its child begins
/// that program, on a busy machine for a second, and they could not be taken anew meanwhile.
pub fn run(tests: &[(&str, fn())]) -> ! {
    let mut words = std::env::args().skip(1);
    if words.next().is_some_and(|word| word == ALONE) {
        let name = words.next().unwrap_or_default();
        let test = tests.iter().find(|test| test.0 == name).expect("a test of this file");
        run_alone(test.0, test.1);
    }
    run_with(tests, |name, _| in_a_process_of_its_own(name))
}

/// The same in threads of this process, for tests that share what one of them has made. They
/// open nothing themselves that another one's child could hold open.
pub fn run_together(tests: &[(&str, fn())]) -> ! {
    run_with(tests, |_, test| {
        test();
        Ok(())
    })
}

/// How a test of this name is run.
type Run = fn(&str, fn()) -> Result<(), Failed>;

fn run_with(tests: &[(&str, fn())], run: Run) -> ! {
    let arguments = Arguments::from_args();
    let obstacle = obstacle();
    if let Some(reason) = &obstacle {
        eprintln!("privileged tests cannot run: {reason}");
    }
    let trials = tests.iter().map(|&(name, test)| {
        let (obstacle, own) = (obstacle.clone(), name.to_owned());
        Trial::ignorable_test(name, move || match obstacle {
            None => run(&own, test).map(|()| Completion::Completed),
            Some(reason) if in_ci() => Err(Failed::from(reason)),
            Some(reason) => Ok(Completion::ignored_with(reason)),
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit()
}

fn in_a_process_of_its_own(name: &str) -> Result<(), Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    match command.args([ALONE, name]).status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{status}; what thread '{name}' said stands above").into()),
    }
}

/// In a thread with the test's name, which a panic says.
fn run_alone(name: &str, test: fn()) -> ! {
    // This process ends with the runner.
    let signal = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(signal).expect("a signal that there is");
    let thread = std::thread::Builder::new().name(name.into()).spawn(test).expect("a thread");
    std::process::exit(if thread.join().is_ok() { 0 } else { 101 })
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
pub fn obstacle() -> Option<String> {
    let attempt = Fabric::preflight()
        .and_then(|()| netns::possible())
        .and_then(|()| Fabric::down_abandoned());
    attempt.err().map(|error| error.to_string())
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}
