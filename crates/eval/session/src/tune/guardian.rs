//! A process that outlives the one that tunes, and puts back what that one could not.
//!
//! It is this very program, as `gigae tuning restore --when-closed JOURNAL`, in its own process
//! group. It holds one end of a pipe and sleeps; the other end closes when the tuning process ends,
//! however it does. Then it puts back what the journal says, if there still is one. It costs a
//! process that sleeps.

use super::restore;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What it says when it is there.
const READY: &str = "ready";

pub(super) struct Guardian {
    child: Child,
}

impl Guardian {
    /// Starts one for this journal, in the calling thread's namespace; returns when it is there.
    pub(super) fn start(journal: &Path) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["tuning", "restore", "--when-closed"]).arg(journal);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // A Ctrl-C at the terminal is for the process that tunes.
        command.process_group(0);
        let mut guardian = Self { child: command.spawn()? };
        let mut line = String::new();
        if let Some(stdout) = guardian.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        if line.trim() != READY {
            drop(guardian.child.stdin.take());
            let status = guardian.child.wait()?;
            return Err(io::Error::other(format!(
                "the process that is to put settings back did not start ({status})"
            )));
        }
        Ok(guardian)
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What that process does; gives a line for each value that was not put back.
pub fn guard(journal: &Path) -> io::Result<Vec<String>> {
    let mut out = io::stdout();
    writeln!(out, "{READY}")?;
    out.flush()?;
    let mut buffer = [0; 64];
    loop {
        match io::stdin().read(&mut buffer) {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
            _ => {}
        }
    }
    restore::of_journal(journal)
}
