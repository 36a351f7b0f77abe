//! The evaluator between the two cards: one end answers in a separate process, as `gigae serve`.

use super::serial::Serial;
use super::testbed::Testbed;
use crate::job::{Failed, Report};
use gigae_eval_model::plan::Plan;
use gigae_eval_model::results::{Results, Skipped};
use gigae_eval_run::{self as run, Config, ProgramRuns, RemoteEnd};
use gigae_eval_session::control::Key;
use gigae_host::proc;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Where both ends find their key.
const KEY: &str = "/tmp/key";

/// Where the kernel lists the devices by which it reads the machine's files.
const MACHINES_DRIVER: &str = "/sys/bus/virtio/drivers/9pnet_virtio";

/// The nice value of a thread that runs when no other one wants to.
const LEAST_IMPORTANT: i32 = 19;

/// Reports now and then how far the plan is.
struct FigureProgress<'a> {
    serial: &'a Serial,
    reported: u64,
}

impl run::RunProgress for FigureProgress<'_> {
    fn step(&mut self, done: u64, total: u64, next: &str) {
        let tenth = done * 10 / total.max(1);
        if tenth >= self.reported {
            self.reported = tenth + 1;
            self.serial.progress(format!("figures: {done} of {total}, {next}"));
        }
    }
}

/// Ends the answering process.
struct ServerProcess(Child);

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Carries a plan out and reports its results.
///
/// With file services it does so twice, and first once for each cell. The first time reads the
/// machine's programs. Their bytes come while nothing happens in the guest, whose clock then skips
/// to the next timer, however far that is. So a thread keeps a processor busy meanwhile, and the
/// clock counts its instructions. What is still read the second time is counted and reported.
pub(super) fn run(
    plan: &str,
    testbed: &Testbed,
    serial: &Serial,
    report: fn(Box<Results>) -> Report,
) -> Result<(), String> {
    let plan = Plan::parse("niclab", plan).map_err(|error| error.to_string())?;
    if !plan.files.is_empty() {
        serial.progress("files: programs are read");
        let _busy = Spinner::start();
        let skipped = measure(once(&plan), testbed, serial)?.skipped;
        skipped.iter().for_each(|one| serial.send(&Report::Failed(unread(one))));
    }
    let before = machine_interrupts();
    let results = measure(plan, testbed, serial)?;
    if let (Some(before), Some(after)) = (before, machine_interrupts()) {
        serial.send(&Report::MachineReads(after.saturating_sub(before)));
    }
    serial.send(&report(Box::new(results)));
    Ok(())
}

/// Interrupts of the device by which a guest reads the machine's files: one for each answer, or for
/// several that come at once. None: the guest has no such device.
fn machine_interrupts() -> Option<u64> {
    let devices = std::fs::read_dir(MACHINES_DRIVER).ok()?.flatten();
    let names = devices.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: Vec<String> = names.filter(|name| name.starts_with("virtio")).collect();
    proc::device_interrupts(&std::fs::read_to_string("/proc/interrupts").ok()?, &names)
}

/// The same file services alone, with one copy of each kind. The memory and the disk of no server
/// are limited: that is not for its programs.
fn once(plan: &Plan) -> Plan {
    let mut once = Plan {
        repetitions: 1,
        max_repetitions: 1,
        tune: None,
        experiment: Vec::new(),
        access: Vec::new(),
        metadata: Vec::new(),
        shares: Vec::new(),
        mount: Vec::new(),
        ..plan.clone()
    };
    for files in &mut once.files {
        (files.repetitions, files.disk_mbit) = (None, None);
        files.memory_mib.clear();
    }
    once
}

/// A service whose programs were not read before it was measured.
fn unread(skipped: &Skipped) -> Failed {
    let Skipped { transport, what, reason, .. } = skipped;
    let of = what.as_ref().map_or(String::new(), |what| format!(" ({what})"));
    Failed { what: format!("reading the programs of {transport}{of}"), why: reason.clone() }
}

/// A thread that keeps a processor busy and leaves its time to any other one that wants it.
struct Spinner {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            // If it stays as important as others, reading only takes longer.
            let _ = rustix::process::nice(LEAST_IMPORTANT);
            // No `pause`: at each, the emulator looks for another processor to run, which takes
            // the host as long as many instructions.
            let mut count = 0_u64;
            while !ends.load(Ordering::Relaxed) {
                count = std::hint::black_box(count.wrapping_add(1));
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn measure(plan: Plan, testbed: &Testbed, serial: &Serial) -> Result<Results, String> {
    if !Path::new(KEY).exists() {
        Key::create(Path::new(KEY)).map_err(|error| error.to_string())?;
    }
    let _serving = serve(testbed)?;
    let key = Key::read(Path::new(KEY)).map_err(|error| error.to_string())?;
    let _inside = testbed.ends[0].enter().map_err(|error| error.to_string())?;
    let peer = RemoteEnd {
        host: testbed.ends[1].ip.to_string(),
        nic: testbed.ends[0].interface.clone(),
        key,
    };
    let config = Config {
        plan,
        with: ProgramRuns::default(),
        peer: Some(peer),
        lab: Some(testbed.ends[1].host().map_err(|error| error.to_string())?),
        serve: Vec::new(),
        command: "make niclab".into(),
    };
    let mut progress = FigureProgress { serial, reported: 0 };
    run::run(&config, &AtomicBool::new(false), &mut progress).map_err(|error| error.to_string())
}

/// The answering end, when it says that it listens.
fn serve(testbed: &Testbed) -> Result<ServerProcess, String> {
    let end = &testbed.ends[1];
    // A process begins in the namespace of the thread that starts it.
    let _inside = end.enter().map_err(|error| error.to_string())?;
    let mut command = Command::new("/proc/self/exe");
    command.args(["serve", "--nic", &end.interface, "--key", KEY, "--cpu", "0", "--allow-tuning"]);
    let child = command.stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let mut serving = ServerProcess(child);
    let stderr = serving.0.stderr.take().ok_or("the answering end has no pipe")?;
    let mut lines = BufReader::new(stderr).lines();
    let first = lines.next().and_then(Result::ok).unwrap_or_default();
    if !first.contains("serving on") {
        return Err(format!("the answering end said: {first}"));
    }
    // No one reads its further lines, but they must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Ok(serving)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::files::PLAN;
    use gigae_eval_model::file_figure::FileCell;

    #[test]
    fn programs_are_read_by_one_copy_of_each_kind_and_by_nothing_else() {
        let plan = Plan::parse("files", PLAN).unwrap();
        let (all, once) = (plan.file_cells(None), once(&plan));
        let cells = once.file_cells(None);
        let of =
            |cells: &[(_, u32)]| cells.iter().map(|(cell, _)| cell).cloned().collect::<Vec<_>>();
        assert_eq!(of(&cells), of(&all));
        assert!(
            cells.iter().all(|(_, times)| *times == 1) && all.iter().all(|(_, times)| *times == 3)
        );
        assert!(!plan.experiment.is_empty() && once.experiment.is_empty() && once.tune.is_none());
        let limited = Plan::load("memory").unwrap();
        let cells = super::once(&limited).file_cells(None);
        let unlimited = |(cell, times): &(FileCell, u32)| {
            (cell.memory, cell.disk_rate, *times) == (None, None, 1)
        };
        assert!(!cells.is_empty() && cells.iter().all(unlimited));
    }

    #[test]
    fn a_service_whose_programs_were_not_read_is_named() {
        let skipped = Skipped {
            link: "card".into(),
            transport: "smb".into(),
            what: Some("smb 4 MB to disk".into()),
            reason: "smbd ended".into(),
        };
        let failed = unread(&skipped);
        assert_eq!(failed.what, "reading the programs of smb (smb 4 MB to disk)");
        assert_eq!(failed.why, "smbd ended");
        assert_eq!(unread(&Skipped { what: None, ..skipped }).what, "reading the programs of smb");
    }
}
