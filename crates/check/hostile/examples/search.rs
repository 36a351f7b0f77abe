//! Searches for inputs that a target does not stand, for a bounded time: search SECONDS [SEED]
//! [TARGET...], all if none is named. Several targets run at once, as many as there are processors.
//!
//! It needs no other compiler and no instrumented build, so CI runs it (`make search`); unlike
//! `make fuzz` it does not see what an input reaches. What fails, takes more than 20 s of a
//! processor, or does not end is written to `fuzz/artifacts`; the seed repeats the whole search.

use gigae_hostile::Meter;
use gigae_hostile::search::{self, FuzzTarget, Random, TARGETS};
use rustix::time::{ClockId, clock_gettime};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static METER: Meter = Meter;

/// An input that takes more of a processor does too much work, or does not end. Counted is the CPU
/// time of all workers: how long an input takes on a busy machine says nothing.
const MOST_WORK: Duration = Duration::from_secs(20);

/// One that takes longer waits for something that does not come.
const LONGEST: Duration = Duration::from_secs(600);

/// The input that a worker runs now.
type Worker = Mutex<Option<RunningInput>>;

struct RunningInput {
    begin: Instant,
    /// CPU time of this process until then.
    worked: Duration,
    name: &'static str,
    file: String,
    input: Vec<u8>,
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    let Some(seconds) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
        eprintln!("search SECONDS [SEED] [TARGET...]");
        return ExitCode::from(2);
    };
    let seed = words.next_if(|word| word.parse::<u64>().is_ok());
    let seed = seed.map_or_else(
        || RandomState::new().build_hasher().finish(),
        |word| word.parse().expect("looked at before"),
    );
    let named: Vec<String> = words.collect();
    let mut targets: Vec<_> = TARGETS.to_vec();
    targets.retain(|(name, _)| named.is_empty() || named.iter().any(|word| word == name));
    if targets.len() < named.len() {
        eprintln!("search: there are {:?}", TARGETS.iter().map(|one| one.0).collect::<Vec<_>>());
        return ExitCode::from(2);
    }
    println!("search: seed {seed}");
    let count = std::thread::available_parallelism().map_or(1, usize::from).min(targets.len());
    let each = Duration::from_secs(seconds) * count as u32 / targets.len() as u32;
    let waiting = Mutex::new(targets);
    let failed = AtomicBool::new(false);
    let workers: Vec<Worker> = (0..count).map(|_| Worker::default()).collect();
    std::thread::scope(|scope| {
        let run = |worker| {
            let (waiting, failed) = (&waiting, &failed);
            scope.spawn(move || {
                loop {
                    let next = waiting.lock().expect("no panic holds it").pop();
                    let Some((name, target)) = next else { break };
                    if !passes(worker, name, target, seed, each) {
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            })
        };
        let running: Vec<_> = workers.iter().map(run).collect();
        while running.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(100));
            workers.iter().for_each(|worker| watch(worker, count));
        }
    });
    if failed.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Ends the program if an input of one of the `workers` takes too long: nothing else ends a target
/// that loops.
fn watch(worker: &Worker, workers: usize) {
    let worker = worker.lock().expect("no panic holds it");
    let Some(running) = worker.as_ref() else { return };
    let worked = worked().saturating_sub(running.worked);
    if worked > MOST_WORK * workers as u32 || running.begin.elapsed() > LONGEST {
        keep(running, &format!("took {:?}", running.begin.elapsed()));
        std::process::exit(1);
    }
}

/// CPU time of this process so far.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Runs inputs for some time, until the first that fails.
fn passes(
    worker: &Worker,
    name: &'static str,
    target: FuzzTarget,
    seed: u64,
    time: Duration,
) -> bool {
    let kept = search::kept(name);
    let mut random = Random::new(seed);
    let begin = Instant::now();
    let mut count = 0_u64;
    while begin.elapsed() < time {
        let input = random.input(&kept);
        count += 1;
        let file = format!("search-{seed}-{count}");
        let running = RunningInput {
            begin: Instant::now(),
            worked: worked(),
            name,
            file,
            input: input.clone(),
        };
        *worker.lock().expect("no panic holds it") = Some(running);
        let outcome = catch_unwind(AssertUnwindSafe(|| target(&input)));
        let running = worker.lock().expect("no panic holds it").take();
        if let (Err(_), Some(running)) = (outcome, running) {
            keep(&running, "failed");
            return false;
        }
    }
    println!("search: {name}: {count} inputs in {:.0} s", begin.elapsed().as_secs_f64());
    true
}

/// Writes an input to where it can be repeated from.
fn keep(RunningInput { name, file, input, .. }: &RunningInput, what: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/artifacts");
    let file = Path::new(folder).join(name).join(file);
    let written = std::fs::create_dir_all(file.parent().expect("it has one"))
        .and_then(|()| std::fs::write(&file, input));
    match written {
        Ok(()) => println!("search: {name} {what}: {}", file.display()),
        Err(error) => println!("search: {name} {what}; not written: {error}: {input:02x?}"),
    }
    println!("search: copied to fuzz/corpus/{name}, the tests of gigae-hostile repeat it");
}
