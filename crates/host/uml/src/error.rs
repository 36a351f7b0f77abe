//! Why a guest did not do what it should.

use std::io;

/// A guest could not be started or used. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A program is not installed.
    #[error("not installed here: {program}; try 'apt install {package}'")]
    Missing {
        /// The program.
        program: &'static str,
        /// Debian's package.
        package: &'static str,
    },
    /// The kernel's command line cannot name the directory.
    #[error(
        "a guest cannot use the directory '{0}'; set TMPDIR to a path of letters, digits, '/', '.', '_' and '-'"
    )]
    Directory(String),
    /// A file could not be written, or the process could not be started.
    #[error("guest '{guest}': cannot {what}: {source}; set TMPDIR to a directory on a disk")]
    Start {
        /// Its name.
        guest: String,
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// This machine has too little memory for it.
    #[error(
        "guest '{guest}' needs {needed} MiB of memory and {free} are free; end other programs, or give a smaller memory_mib"
    )]
    Memory {
        /// Its name.
        guest: String,
        /// MiB that it needs.
        needed: u64,
        /// MiB that programs can still have.
        free: u64,
    },
    /// It ended although it was needed.
    #[error("guest '{guest}' ended; the last lines of its console: {last}")]
    Ended {
        /// Its name.
        guest: String,
        /// The end of its console.
        last: String,
    },
    /// It took too long.
    #[error(
        "guest '{guest}' did not {what} in {seconds} s and was ended; try again while the machine does nothing else, or do less at once; the last lines of its console: {last}"
    )]
    Late {
        /// Its name.
        guest: String,
        /// What it should have done.
        what: String,
        /// How long was waited.
        seconds: u64,
        /// The end of its console.
        last: String,
    },
    /// A script failed in it.
    #[error("guest '{guest}' could not {what} (status {status}): {last}")]
    Failed {
        /// Its name.
        guest: String,
        /// What the script is for.
        what: String,
        /// The script's exit status.
        status: u8,
        /// The end of what it said.
        last: String,
    },
    /// The caller was interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl GuestError {
    /// Whether the guest can still be used.
    pub fn leaves_guest(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}
