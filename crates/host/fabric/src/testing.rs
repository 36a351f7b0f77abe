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
//! Each test runs in a separate process: [`run`] says why.
//!
//! Where privileges or programs are missing, every test is reported as ignored, with the reason; if
//! the environment variable `CI` is set (and not empty) it fails instead, so that a test that never
//! runs cannot pass for one that does. An ordinary user's tests run in a user namespace
//! ([`crate::gain_privileges`]), except those that need more than that gives. `GIGAE_TEST_AS_USER`
//! lets these be ignored under `CI`, too.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::{Fabric, FabricConfig, gain_privileges, netns};
use gigae_host::user;

/// With the name of a test as the next argument: this process is to run it and nothing else.
const ALONE: &str = "--test-of-this-process";

/// An environment variable: tests are run by an ordinary user beside a run by root, which has those
/// that need root.
const AS_USER: &str = "GIGAE_TEST_AS_USER";

/// Why an ordinary user's run leaves a test out.
const OF_ROOT: &str = "it needs root, and more than a user namespace gives";

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
/// Each test runs in a separate process, which costs some milliseconds. So what it counts there
/// (descriptors, mappings) and changes (limits, processors) is its own, and what it closes is
/// closed: a process copies all its descriptors when it forks, so in a common one a test that
/// starts a program would hold the sockets, names and XDP programs of all the others until its
/// child begins that program, on a busy machine for a second, and other tests could not take them
/// during that time.
///
/// All of them need root.
pub fn run(tests: &[(&str, fn())]) -> ! {
    let names: Vec<&str> = tests.iter().map(|test| test.0).collect();
    for_users_except(&names).run(tests)
}

/// As [`run`], in threads of this process, for tests that share what one of them has made. They
/// open nothing themselves that another one's child could hold open.
pub fn run_together(tests: &[(&str, fn())]) -> ! {
    let names: Vec<&str> = tests.iter().map(|test| test.0).collect();
    for_users_except(&names).run_together(tests)
}

/// For tests that an ordinary user can run as well as root, except those of the names `of_root`.
pub fn for_users_except<'a>(of_root: &'a [&'a str]) -> ForUsers<'a> {
    ForUsers { of_root }
}

/// Runs tests, most of which do not need root.
#[derive(Debug)]
pub struct ForUsers<'a> {
    of_root: &'a [&'a str],
}

impl ForUsers<'_> {
    /// As [`run`].
    ///
    /// # Panics
    ///
    /// When there is no test of a name that needs root.
    pub fn run(&self, tests: &[(&str, fn())]) -> ! {
        crate::become_forwarder();
        let mut words = std::env::args().skip(1);
        if words.next().is_some_and(|word| word == ALONE) {
            let name = words.next().unwrap_or_default();
            let test = tests.iter().find(|test| test.0 == name).expect("a test of this file");
            run_alone(test.0, test.1);
        }
        self.run_with(tests, |name, _| in_a_process_of_its_own(name))
    }

    /// As [`run_together`].
    ///
    /// # Panics
    ///
    /// When there is no test of a name that needs root.
    pub fn run_together(&self, tests: &[(&str, fn())]) -> ! {
        crate::become_forwarder();
        self.run_with(tests, |_, test| {
            test();
            Ok(())
        })
    }

    fn run_with(&self, tests: &[(&str, fn())], run: Run) -> ! {
        for name in self.of_root {
            assert!(tests.iter().any(|test| test.0 == *name), "there is no test {name}");
        }
        let arguments = Arguments::from_args();
        let obstacle = obstacle();
        if let Some(reason) = &obstacle {
            eprintln!("privileged tests cannot run: {reason}");
        }
        let as_user = user::in_user_namespace();
        let must_run = in_ci();
        let all_must_run = must_run && std::env::var_os(AS_USER).is_none();
        let trials = tests.iter().map(|&(name, test)| {
            let (obstacle, must_run) = match as_user && self.of_root.contains(&name) {
                true => (Some(OF_ROOT.to_owned()), all_must_run),
                false => (obstacle.clone(), must_run),
            };
            let own = name.to_owned();
            Trial::ignorable_test(name, move || match obstacle {
                None => run(&own, test).map(|()| Completion::Completed),
                Some(reason) if must_run => Err(Failed::from(reason)),
                Some(reason) => Ok(Completion::ignored_with(reason)),
            })
        });
        libtest_mimic::run(&arguments, trials.collect()).exit()
    }
}

/// How a test of this name is run.
type Run = fn(&str, fn()) -> Result<(), Failed>;

fn in_a_process_of_its_own(name: &str) -> Result<(), Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    match command.args([ALONE, name]).status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{status}; what thread '{name}' said is above").into()),
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

/// Creates an unshaped two-node fabric, changed by `adapt`, with a prefix that no other process and
/// no other test has. `test` is named when it fails.
///
/// # Panics
///
/// When the fabric cannot be created.
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

/// Why fabrics cannot be created here, if they cannot. Removes those that killed tests left. As an
/// ordinary user, moves this process into a user namespace, for which it must have one thread.
pub fn obstacle() -> Option<String> {
    let attempt = gain_privileges()
        .and_then(|()| Fabric::preflight())
        .and_then(|()| netns::possible())
        .and_then(|()| Fabric::down_abandoned());
    attempt.err().map(|error| error.to_string())
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}
