//! The evaluator between the two cards: one end answers in a separate process, as `gigae serve`.

use super::serial::Serial;
use super::testbed::Testbed;
use crate::job::{Job, Report};
use gigae_eval_model::plan::Plan;
use gigae_eval_run::{self as run, Config, ProgramRuns, RemoteEnd};
use gigae_eval_session::control::Key;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

/// Where both ends find their key.
const KEY: &str = "/tmp/key";

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

/// Carries the plan out and reports its results.
pub(super) fn run(job: &Job, testbed: &Testbed, serial: &Serial) -> Result<(), String> {
    if !Path::new(KEY).exists() {
        Key::create(Path::new(KEY)).map_err(|error| error.to_string())?;
    }
    let plan = Plan::parse("niclab", &job.plan).map_err(|error| error.to_string())?;
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
        serve: Vec::new(),
        command: "make niclab".into(),
    };
    let mut progress = FigureProgress { serial, reported: 0 };
    let results = run::run(&config, &AtomicBool::new(false), &mut progress)
        .map_err(|error| error.to_string())?;
    serial.send(&Report::Figures(Box::new(results)));
    Ok(())
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
