//! The side that owns the machine: fetching, making, running, reporting.

mod apt;
pub mod cpio;
pub mod emulator;
pub mod file_row;
pub mod files;
pub mod findings;
pub mod html;
pub mod image;
pub mod machine;
pub mod markdown;
pub mod matrix;
pub mod modules;
pub mod packages;
pub mod record;

use std::io;
use std::path::Path;
use std::process::Command;

/// The lab could not be set up. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A program that it uses failed.
    #[error("{program} failed: {said}")]
    Program {
        /// The program.
        program: String,
        /// What it said.
        said: String,
    },
    /// A package or a file in it is not as expected.
    #[error("{0}")]
    Package(String),
    /// A file could not be read or written.
    #[error("{what} failed: {source}")]
    File {
        /// What was tried, with the file.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Ctrl-C; every guest was ended.
    #[error("interrupted; every guest was ended")]
    Interrupted,
}

/// Names what was tried with a file.
fn file<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> LabError + 'a {
    move |source| LabError::File { what: format!("{what} {}", path.display()), source }
}

/// Runs a program to its end; its standard output.
fn output(command: &mut Command) -> Result<Vec<u8>, LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |said: String| LabError::Program { program: program.clone(), said };
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            failed("it is not installed; run 'make niclab', which does that".into())
        }
        _ => failed(error.to_string()),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last =
            said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
        return Err(failed(last.to_owned()));
    }
    Ok(output.stdout)
}
