//! Searches for inputs that a target does not stand, for a bounded time: search SECONDS [SEED] [TARGET...], all if none
//! is named. Several targets run at once, as many as there are processors.
//!
//! It needs no other compiler and no instrumented build, so CI runs it (`make search`); unlike `make fuzz` it does not see
//! what an input reaches. What fails is written to `fuzz/artifacts`; the seed repeats the whole search.

use gigae_hostile::Meter;
use gigae_hostile::search::{self, Random, TARGETS, Target};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[global_allocator]
static METER: Meter = Meter;

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
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(targets.len());
    let each = Duration::from_secs(seconds) * lanes as u32 / targets.len() as u32;
    let waiting = Mutex::new(targets);
    let failed = Mutex::new(false);
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some((name, target)) = waiting.lock().expect("no panic holds it").pop() {
                    if !passes(name, target, seed, each) {
                        *failed.lock().expect("no panic holds it") = true;
                    }
                }
            });
        }
    });
    let failed = *failed.lock().expect("no panic holds it");
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs inputs for some time, until the first that fails.
fn passes(name: &str, target: Target, seed: u64, time: Duration) -> bool {
    let kept = search::kept(name);
    let mut random = Random::new(seed);
    let begin = Instant::now();
    let mut count = 0_u64;
    while begin.elapsed() < time {
        let input = random.input(&kept);
        count += 1;
        if catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/artifacts");
            let file = Path::new(folder).join(name).join(format!("search-{seed}-{count}"));
            let written = std::fs::create_dir_all(file.parent().expect("it has one"))
                .and_then(|()| std::fs::write(&file, &input));
            println!("search: {name} failed at input {count}: {} {written:?}", file.display());
            println!("search: copied to fuzz/corpus/{name}, the tests of gigae-hostile repeat it");
            return false;
        }
    }
    println!("search: {name}: {count} inputs in {:.0} s", begin.elapsed().as_secs_f64());
    true
}
