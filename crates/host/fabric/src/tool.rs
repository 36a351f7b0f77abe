//! Runs `ip` and `tc` (iproute2) in the calling thread's network namespace.
//!
//! One process per batch: a batch is read from standard input (`-batch -`, ip(8), tc(8)) and ends
//! at the first line that fails.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::FabricError;

/// Where distributions put `ip` and `tc`, looked at after `PATH`: an ordinary user's or a service's
/// `PATH` often lacks the system directories.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Runs every line of `script` by `program` and stops at the first failure.
pub(crate) fn batch(program: &'static str, script: &str) -> Result<(), FabricError> {
    let output = run(program, &["-batch", "-"], script)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(FabricError::Tool {
        program,
        line: failed_line(&said, script),
        message: first_line(&said, &output),
    })
}

/// Runs `program -json ...` and returns what it printed; nothing at all counts as an empty list.
pub(crate) fn json(program: &'static str, args: &[&str]) -> Result<serde_json::Value, FabricError> {
    let mut all = vec!["-json"];
    all.extend(args);
    let output = run(program, &all, "")?;
    let fail = |message| FabricError::Tool { program, line: all.join(" "), message };
    if !output.status.success() {
        return Err(fail(first_line(&String::from_utf8_lossy(&output.stderr), &output)));
    }
    if output.stdout.trim_ascii().is_empty() {
        return Ok(serde_json::Value::Array(Vec::new()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| fail(error.to_string()))
}

/// Fails when `program` is not installed.
pub(crate) fn require(program: &'static str) -> Result<PathBuf, FabricError> {
    gigae_host::path::find(program, &SYSTEM_DIRECTORIES)
        .ok_or(FabricError::Program { program, package: "iproute2" })
}

fn run(program: &'static str, args: &[&str], input: &str) -> Result<Output, FabricError> {
    let wrap = |error: io::Error| FabricError::system(format!("running `{program}`"), error);
    let mut child = Command::new(require(program)?)
        .args(args)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(wrap)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that stops at a bad line closes its end; its status says what failed.
        match stdin.write_all(input.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(wrap(error)),
            _ => {}
        }
    }
    child.wait_with_output().map_err(wrap)
}

/// The line that `Command failed -:N` speaks of.
fn failed_line(said: &str, script: &str) -> String {
    said.rsplit_once("Command failed -:")
        .and_then(|(_, number)| number.trim().parse::<usize>().ok())
        .and_then(|number| script.lines().nth(number.checked_sub(1)?))
        .unwrap_or("-batch")
        .to_owned()
}

fn first_line(said: &str, output: &Output) -> String {
    said.lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map_or_else(|| output.status.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failed_line_of_a_batch_is_quoted() {
        let said = "RTNETLINK answers: File exists\nCommand failed -:2\n";
        assert_eq!(failed_line(said, "link add a\nlink add b\n"), "link add b");
        assert_eq!(failed_line("no such thing", "link add a\n"), "-batch");
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let message = require("gigae-no-such-program").unwrap_err().to_string();
        assert!(message.contains("apt-get install iproute2"), "{message}");
    }
}
