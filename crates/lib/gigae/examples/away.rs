//! How long others wait for a program that computes and makes no call.
//!
//! Two nodes back to back, each program on its own processor where there are two, both busy all the
//! time, so that the progress thread has to take its processor from one of them. Measured: the
//! first message to a new peer, until the peer's program has it; acknowledgement of a message, a
//! write, a read and an atomic change, until the program that asked knows. Lays its nodes for
//! itself and takes them away again: `cargo run --release -p gigae --example away` as root. With a
//! number behind it, there are only messages and writes, spread over this many seconds.

mod common;

use common::median;
use gigae::{Endpoint, Options, Peer, RegionKey, Rights, Wait};
use gigae_fabric::{Fabric, FabricConfig};
use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Odd numbers, for the median.
const FIRST_MESSAGES: usize = 21;
const OPERATIONS: usize = 201;

/// The program that computes receives nothing, so these use up its credit: fewer than it has at
/// first.
const MESSAGES: usize = 51;

/// Between two operations: the program has been away for longer than the thread's looks take.
const BETWEEN: Duration = Duration::from_millis(3);

/// Longest waits that are asked for, in milliseconds.
const ASKED_FIRST: f64 = 2.0;
const ASKED_OPERATION: f64 = 5.0;
const ASKED_SEND: f64 = 10.0;

const PATIENCE: Duration = Duration::from_secs(10);

type ExampleResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExampleResult<()> {
    let seconds = std::env::args().nth(1).map(|word| word.parse::<u64>()).transpose()?;
    let prefix = format!("away{}", std::process::id() % 100_000);
    let fabric = Fabric::up(FabricConfig { prefix, cable: true, ..FabricConfig::default() })?;
    let open = |number| -> ExampleResult<Endpoint> {
        let _inside = fabric.node(number).enter()?;
        Ok(Options::new("eth0").wait(Wait::Spin).open()?)
    };
    println!("waiting for a program that computes, in ms: median, longest");
    if seconds.is_none() {
        let mut first = Vec::new();
        for _ in 0..FIRST_MESSAGES {
            first.push(first_message(open(1)?, open(2)?)?);
        }
        say("first message to a new peer", first, ASKED_FIRST);
    }
    let (asking, computing) = (open(1)?, open(2)?);
    let to = asking.peer(computing.link().mac)?;
    let memory = computing.register(vec![0; 4096], Rights::ALL);
    let key = memory.map_err(|error| error.to_string())?;
    let computes = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| compute(&computes));
        let outcome = match seconds {
            Some(seconds) => for_seconds(seconds, &asking, to, key),
            None => operations(&asking, to, key),
        };
        computes.store(false, Ordering::Relaxed);
        outcome
    })?;
    drop(computing);
    Ok(())
}

/// Whether an operation has begun; the error that has its memory is none that threads share.
fn begun(started: gigae::Started) -> ExampleResult<()> {
    started.map(drop).map_err(|error| error.to_string().into())
}

fn operations(asking: &Endpoint, to: Peer, key: RegionKey) -> ExampleResult<()> {
    let wait = |count: usize, start: &dyn Fn() -> ExampleResult<()>| -> ExampleResult<Vec<f64>> {
        let mut times = Vec::new();
        for _ in 0..count {
            let until = Instant::now() + BETWEEN;
            while Instant::now() < until {
                black_box(until);
            }
            let began = Instant::now();
            start()?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        Ok(times)
    };
    let sends = wait(MESSAGES, &|| {
        asking.send(to, &[1; 1000])?;
        Ok(asking.drain(PATIENCE)?)
    });
    say("message acknowledged", sends?, ASKED_SEND);
    say(
        "write of 8 bytes",
        wait(OPERATIONS, &|| {
            begun(asking.start_write(to, key, 0, vec![2; 8], None))?;
            completed(asking)
        })?,
        ASKED_OPERATION,
    );
    say(
        "read of 8 bytes",
        wait(OPERATIONS, &|| {
            begun(asking.start_read(to, key, 0, vec![0; 8]))?;
            completed(asking)
        })?,
        ASKED_OPERATION,
    );
    say(
        "atomic addition",
        wait(OPERATIONS, &|| {
            begun(asking.start_fetch_add(to, key, 8, 1))?;
            completed(asking)
        })?,
        ASKED_OPERATION,
    );
    Ok(())
}

/// Messages and writes, spread over `seconds` seconds.
fn for_seconds(seconds: u64, asking: &Endpoint, to: Peer, key: RegionKey) -> ExampleResult<()> {
    let (mut sends, mut writes) = (Vec::new(), Vec::new());
    let every = Duration::from_secs(seconds) / MESSAGES as u32;
    for _ in 0..MESSAGES {
        std::thread::sleep(every);
        let began = Instant::now();
        asking.send(to, &[1; 1000])?;
        asking.drain(PATIENCE)?;
        sends.push(began.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(BETWEEN);
        let began = Instant::now();
        begun(asking.start_write(to, key, 0, vec![2; 8], None))?;
        completed(asking)?;
        writes.push(began.elapsed().as_secs_f64() * 1e3);
    }
    say("message acknowledged", sends, ASKED_SEND);
    say("write of 8 bytes", writes, ASKED_OPERATION);
    Ok(())
}

fn completed(asking: &Endpoint) -> ExampleResult<()> {
    let completion = asking.completion_timeout(PATIENCE)?.ok_or("not completed in time")?;
    Ok(completion.result.map_err(|error| error.to_string())?)
}

/// Keeps a processor busy until `on` is false.
fn compute(on: &AtomicBool) {
    let mut state = 1_u64;
    while on.load(Ordering::Relaxed) {
        for _ in 0..10_000 {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// Sends, and computes from then on; how long the other program waits.
fn first_message(sender: Endpoint, receiver: Endpoint) -> ExampleResult<f64> {
    let to = sender.peer(receiver.link().mac)?;
    let computes = AtomicBool::new(true);
    let arrived = AtomicU64::new(0);
    let epoch = Instant::now();
    std::thread::scope(|scope| {
        let (computes, arrived) = (&computes, &arrived);
        let receives = scope.spawn(move || -> ExampleResult<()> {
            let message = receiver.recv_timeout(PATIENCE);
            arrived.store(epoch.elapsed().as_nanos() as u64, Ordering::Relaxed);
            computes.store(false, Ordering::Relaxed);
            message?.ok_or("the message did not come")?;
            Ok(())
        });
        // The receiver waits already.
        std::thread::sleep(Duration::from_millis(5));
        let begun = epoch.elapsed().as_nanos() as u64;
        sender.send(to, &[7; 8])?;
        compute(computes);
        receives.join().map_err(|_| "the receiver panicked")??;
        Ok((arrived.load(Ordering::Relaxed) - begun) as f64 / 1e6)
    })
}

fn say(what: &str, times: Vec<f64>, asked: f64) {
    let (count, longest) = (times.len(), times.iter().copied().fold(0.0, f64::max));
    let median = median(times);
    let reached = if longest <= asked { "reached" } else { "missed" };
    println!("{what:28} {median:7.3} {longest:7.3}  (asked <= {asked}: {reached}, {count} times)");
}
