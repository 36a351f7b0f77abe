//! The way out of a guest: one line of JSON after the other, over a serial port.

use crate::job::Report;
use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// An open port. Several threads may send; lines stay whole.
pub(super) struct Serial {
    port: File,
}

impl Serial {
    /// Opens a port and keeps the kernel from changing what is written to it.
    pub(super) fn open(path: &str) -> io::Result<Self> {
        let port = OpenOptions::new().write(true).read(true).open(path)?;
        let mut settings = tcgetattr(&port)?;
        settings.make_raw();
        tcsetattr(&port, OptionalActions::Now, &settings)?;
        Ok(Self { port })
    }

    /// Sends a report. If it cannot, the host sees no more lines and ends the machine.
    pub(super) fn send(&self, report: &Report) {
        let Ok(mut line) = serde_json::to_vec(report) else { return };
        line.push(b'\n');
        let _ = (&self.port).write_all(&line);
    }

    /// Says what is being done, for the terminal.
    pub(super) fn progress(&self, what: impl Into<String>) {
        self.send(&Report::Begins(what.into()));
    }

    /// Waits until all is out.
    pub(super) fn drain(&self) {
        let _ = tcdrain(&self.port);
    }
}
