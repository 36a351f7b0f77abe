//! The side that owns the machine: fetching, making, running, telling.

mod apt;
pub mod cpio;
pub mod emulator;
pub mod findings;
pub mod html;
pub mod image;
pub mod machine;
pub mod markdown;
pub mod matrix;
pub mod modules;
pub mod packages;
pub mod record;

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;

/// The lab could not be set up. The text is one line and says what to do.
#[derive(Debug)]
pub enum LabError {
    /// A program that it uses failed.
    Program {
        /// The program.
        program: String,
        /// What it said.
        said: String,
    },
    /// A package or a file in it is not as expected.
    Package(String),
    /// A file could not be read or written.
    File {
        /// What was tried, with the file.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Ctrl-C; every guest was ended.
    Interrupted,
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { program, said } => write!(f, "{program} failed: {said}"),
            Self::Package(why) => f.write_str(why),
            Self::File { what, source } => write!(f, "{what} failed: {source}"),
            Self::Interrupted => f.write_str("interrupted; every guest was ended"),
        }
    }
}

impl std::error::Error for LabError {}

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
