//! What runs inside a guest, as the child of its first process ([`init`]).
//!
//! It puts the cards into their namespaces, does the steps of its job one after the other, and
//! reports what came of each. A step that fails does not keep the next from being done.

mod conformance;
mod events;
mod exchange;
mod figures;
pub mod init;
mod modes;
mod serial;
mod testbed;
mod traffic;

use crate::job::{Booted, Failed, JOB, Job, Report, Step};
use gigae_host::affinity;
use rustix::fs::{Mode, OFlags};
use serial::Serial;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use testbed::Testbed;

/// The least severe of the kernel's lines that are reported, as in syslog(2): a warning.
const WARNING: u32 = 4;

/// Most lines of the kernel's that are reported.
const MOST_LINES: usize = 40;

/// Does the job beneath this root directory.
pub fn run(root: Option<&Path>) -> ExitCode {
    match try_run(root) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("niclab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(root: Option<&Path>) -> io::Result<()> {
    let job: Job = serde_json::from_str(&fs::read_to_string(JOB)?)?;
    if let Some(root) = root {
        // While there is one thread.
        rustix::process::chroot(root)?;
        std::env::set_current_dir("/")?;
    }
    let serial = Serial::open(init::REPORTS)?;
    if let Err(error) = work(&job, &serial) {
        serial.send(&Report::Failed(Failed { what: "guest".into(), why: error.to_string() }));
    }
    serial.send(&Report::Kernel(kernel_lines()));
    serial.send(&Report::Done);
    serial.drain();
    Ok(())
}

fn work(job: &Job, serial: &Serial) -> io::Result<()> {
    let testbed = Testbed::set_up(job.interrupts)?;
    serial.send(&Report::Booted(Booted {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpus: affinity::allowed().len(),
        memory: rustix::system::sysinfo().totalram as u64 >> 20,
        driver: testbed.drivers(),
    }));
    for &step in &job.steps {
        serial.send(&Report::Begins(step.name().into()));
        if let Err(why) = do_step(step, job, testbed, serial) {
            serial.send(&Report::Failed(Failed { what: step.name().into(), why }));
        }
        // Whatever it did to the cards, the next one finds them as they were.
        testbed.restore()?;
    }
    Ok(())
}

fn do_step(
    step: Step,
    job: &Job,
    testbed: &'static Testbed,
    serial: &Serial,
) -> Result<(), String> {
    match step {
        Step::Modes => modes::run(job, testbed, serial),
        Step::Inventory => modes::inventory(testbed, serial),
        Step::Conformance => conformance::run(job, testbed, serial),
        Step::Messages => traffic::run(job, testbed, serial),
        Step::Events => events::run(job, testbed, serial),
        Step::Figures => figures::run(&job.plan, testbed, serial, Report::Figures),
        Step::Files => figures::run(&job.files, testbed, serial, Report::Files),
    }
}

/// What the kernel's log holds of warnings and worse, from the modules on.
fn kernel_lines() -> Vec<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let Ok(log) = rustix::fs::open("/dev/kmsg", flags, Mode::empty()) else { return Vec::new() };
    let (mut log, mut lines, mut record) = (fs::File::from(log), Vec::new(), [0; 8192]);
    while let Ok(length) = log.read(&mut record) {
        if let Some(line) = warning(&String::from_utf8_lossy(&record[..length])) {
            lines.push(line);
        }
        if length == 0 || lines.len() == MOST_LINES {
            break;
        }
    }
    lines
}

/// The text of a record of `/dev/kmsg` ("priority,number,time,flags;text") if it is a warning or
/// worse and not from the time before the first process.
fn warning(record: &str) -> Option<String> {
    let (head, text) = record.split_once(';')?;
    let mut fields = head.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    // The lowest three bits; those above name who logs.
    (priority & 7 <= WARNING).then(|| text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_kernels_records_warnings_and_worse_are_reported() {
        assert_eq!(
            warning("4,339,5140900,-;a ring is full\n A=b").as_deref(),
            Some("a ring is full")
        );
        assert_eq!(warning("6,339,5140900,-;eth0: link up"), None);
        assert_eq!(warning("garbage"), None);
    }
}
