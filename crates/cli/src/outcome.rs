//! What every command says at its end, and its exit code.

use gigae_eval_session::remark::remark;
use std::io::Write;
use std::process::ExitCode;

/// Interrupted by SIGINT, as shells say it.
pub const INTERRUPTED: u8 = 130;

/// What the exit codes are, for `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 done; 1 error, in one line on standard error; 2 wrong arguments; 130 interrupted.";

/// Why a command ends without having done what it was asked for.
pub enum CommandError {
    /// The user interrupted it; what is said then. Empty: another process says it.
    Interrupted(String),
    /// An error, in one line.
    Error(String),
}

impl<E: std::error::Error> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self::Error(error.to_string())
    }
}

/// The exit code of an outcome, whose error is said in one line.
pub fn finish(outcome: Result<(), CommandError>) -> ExitCode {
    let (text, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(CommandError::Interrupted(text)) => (text, ExitCode::from(INTERRUPTED)),
        Err(CommandError::Error(text)) => (text, ExitCode::FAILURE),
    };
    if !text.is_empty() {
        // One line, whatever a cause may have said.
        remark(&text.replace('\n', " "));
    }
    code
}

/// The same for a command that does not say whether it was interrupted.
pub fn end<E: std::fmt::Display>(outcome: Result<(), E>) -> ExitCode {
    outcome.map_or_else(|error| complain(&error), |()| ExitCode::SUCCESS)
}

/// Says an error in one line; the exit code for it.
pub fn complain(error: &dyn std::fmt::Display) -> ExitCode {
    finish(Err(CommandError::Error(error.to_string())))
}

/// Writes to standard output; a reader that went away early is not an error.
pub fn say(text: &str) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CommandError::Error(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
