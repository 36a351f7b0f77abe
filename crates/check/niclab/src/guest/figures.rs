//! The evaluator between the two cards: one end answers in a separate process, as `gigae serve`.

use super::serial::Serial;
use super::testbed::Testbed;
use crate::job::Report;
use gigae_eval_model::plan::Plan;
use gigae_eval_model::results::Results;
use gigae_eval_run::{self as run, Config, ProgramRuns, RemoteEnd};
use gigae_eval_session::control::Key;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Where both ends find their key.
const KEY: &str = "/tmp/key";

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
/// clock counts its instructions.
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
        measure(once(&plan), testbed, serial)?;
    }
    let results = measure(plan, testbed, serial)?;
    serial.send(&report(Box::new(results)));
    Ok(())
}

/// The same file services with one copy of each kind.
fn once(plan: &Plan) -> Plan {
    let mut once = Plan { repetitions: 1, max_repetitions: 1, ..plan.clone() };
    once.files.iter_mut().for_each(|files| files.repetitions = None);
    once
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
