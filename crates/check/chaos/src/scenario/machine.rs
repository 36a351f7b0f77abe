//! What happens to the machine: its processors, its clock, its disk.

use super::context::ScenarioContext;
use crate::bench::{PATIENCE, StepResult};
use crate::figures::Figures;
use crate::system;
use gigae_fabric::Fabric;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Loops take every processor twice for a while: nothing is lost.
pub(super) fn busy(mut context: ScenarioContext<'_>) -> StepResult<Figures> {
    context.perhaps_trunk();
    let mut bench = context.bench()?;
    for _ in 0..2 {
        system::busy(Duration::from_millis(bench.draw(100..700)));
        bench.figures.faults += 1;
        bench.more(100)?;
    }
    bench.none_failed()?;
    bench.finish()
}

/// Both ends, then a whole evaluation, see a wall clock that jumps by hours: no deadline depends on
/// it.
pub(super) fn clock(mut context: ScenarioContext<'_>) -> StepResult<Figures> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let library = system::stepped_clock(place.path())?;
    let program = context.program;
    context.perhaps_trunk();
    let evaluates = context.random.rand_range(0..3) == 0;
    context.setup.preload = Some(library.clone());
    let mut bench = context.bench()?;
    for side in [0, 1] {
        bench.wait(side, "jump of the clock", PATIENCE, |history| history.jumps > 5)?;
    }
    bench.more(500)?;
    bench.none_failed()?;
    let jumps: u64 = bench.logs.iter().map(|log| log.history().jumps).sum();
    bench.figures.faults += jumps;
    let figures = bench.finish()?;
    if evaluates {
        let out = place.path().join("results");
        let (_, output) = evaluate(program, place.path(), &out, Some(&library))?;
        if !output.status.success() || !out.join("report.html").exists() {
            return Err(format!("an evaluation with a stepped clock: {output:?}"));
        }
    }
    Ok(figures)
}

const PLAN: &str = r#"
name = "tiny"
about = "one figure"
repetitions = 2
max_repetitions = 2
[link.gigabit]
rate_mbit = 1000
[[experiment]]
kind = "rtt"
links = ["gigabit"]
transports = ["gigae", "udp"]
sizes = [8]
waits = ["sleep"]
seconds = 0.03
warmup = 0.01
"#;

/// `gigae eval` with a tiny plan: the number of its process, and what it said.
fn evaluate(
    program: &Path,
    place: &Path,
    out: &Path,
    preload: Option<&Path>,
) -> StepResult<(u32, Output)> {
    let plan = place.join("plan.toml");
    std::fs::write(&plan, PLAN).map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["eval", "--plan"]).arg(plan).arg("--out").arg(out);
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    system::tie(&mut command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let text = |error: std::io::Error| format!("gigae eval: {error}");
    let child = command.spawn().map_err(text)?;
    Ok((child.id(), child.wait_with_output().map_err(text)?))
}

/// A disk that is full before or after the evaluation has begun to write: one line that says what
/// to do, all files or none, and no network left.
pub(super) fn disk(mut context: ScenarioContext<'_>) -> StepResult<Figures> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let disk = place.path().join("disk");
    std::fs::create_dir(&disk).map_err(|error| error.to_string())?;
    let kib = 4 * context.random.rand_range(0..14);
    let mounted = Mounted::new(&disk, kib)?;
    let out = disk.join("results");
    let (pid, output) = evaluate(context.program, place.path(), &out, None)?;
    let files = |directory: &Path| std::fs::read_dir(directory).map_or(0, Iterator::count);
    let (left, text) = (files(&out), String::from_utf8_lossy(&output.stderr).into_owned());
    // A disk of 64 KiB has room for all of it.
    let last_line = text.trim_end().lines().last().unwrap_or_default();
    let fits = match output.status.code() {
        Some(0) => left == 4,
        Some(1) => left == 0 && last_line.contains("No space left") && last_line.contains("--out"),
        _ => false,
    };
    drop(mounted);
    let leaked = Fabric::list().into_iter().find(|name| name.starts_with(&format!("ge{pid}-")));
    if !fits || leaked.is_some() {
        return Err(format!("{left} files on {kib} KiB, left {leaked:?}: {text}"));
    }
    let full = u64::from(output.status.code() == Some(1));
    let errors = [("disk full".to_owned(), full)].into_iter().filter(|(_, count)| *count > 0);
    Ok(Figures { runs: 1, faults: full, errors: errors.collect(), ..Figures::default() })
}

/// A disk of some KiB, until dropped.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(place: &'a Path, kib: u64) -> StepResult<Self> {
        // A size of zero would be no limit.
        let size = format!("size={}k", kib.max(4));
        let mut command = Command::new("mount");
        let status = command.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(place).status();
        match status {
            Ok(status) if status.success() => Ok(Self(place)),
            other => Err(format!("mounting a small disk: {other:?}")),
        }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}
