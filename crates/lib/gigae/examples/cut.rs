//! How long a stream pauses when the first of its two links is cut, and whether anything is lost.
//!
//! Numbered messages of a full frame go by two switched links of 1 Gbit/s as one; after half a
//! second the sender's first interface is taken down. What counts is the longest time between two
//! receipts from then on, and that all numbers come, in order. Lays its nodes for itself and takes
//! them away again: `cargo run --release -p gigae --example cut`. With `GATE=1` in the environment,
//! as `make bench GATE=1` has it, it fails if the longest pause is longer than asked.

mod common;

use common::median;
use gigae::{Address, Endpoint, Options};
use gigae_fabric::{Fabric, FabricConfig, Node, Rate};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// An odd number, for the median.
const REPETITIONS: usize = 5;

/// Before the cut, and again after it.
const PHASE: Duration = Duration::from_millis(500);

/// Longest pause that is asked for, in milliseconds.
const ASKED: f64 = 50.0;

/// The last message, instead of a number.
const END: u32 = u32::MAX;

type ExampleResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What a receiver saw.
struct ReceiverReport {
    messages: u32,
    /// Longest times between two receipts, in milliseconds: before the cut and from then on.
    pauses: [f64; 2],
}

fn main() -> ExampleResult<()> {
    gigae_fabric::gain_privileges()?;
    let seen = (0..REPETITIONS).map(repetition).collect::<ExampleResult<Vec<_>>>()?;
    let pauses = |which: usize| seen.iter().map(move |seen| seen.pauses[which]);
    let messages: u64 = seen.iter().map(|seen| u64::from(seen.messages)).sum();
    let [before, median] = [0, 1].map(|which| median(pauses(which)));
    let longest = pauses(1).fold(0.0, f64::max);
    let missed = longest > ASKED;
    println!(
        "pause after a cut of the first of 2 links: median {median:.1} ms, longest {longest:.1} ms of {REPETITIONS} \
         (asked <= {ASKED} ms: {}); before the cut {before:.1} ms; {messages} messages, none lost",
        if missed { "missed" } else { "reached" },
    );
    if missed && std::env::var_os("GATE").is_some_and(|gate| gate == "1") {
        return Err(format!("the longest pause is {longest:.1} ms, asked are {ASKED} ms").into());
    }
    Ok(())
}

fn repetition(number: usize) -> ExampleResult<ReceiverReport> {
    let prefix = format!("cut{}-{number}", std::process::id() % 100_000);
    let rate = Some(Rate::GIGABIT);
    let fabric = Fabric::up(FabricConfig { prefix, networks: 2, rate, ..FabricConfig::default() })?;
    let open = |node: &Node| -> ExampleResult<Endpoint> {
        let _inside = node.enter()?;
        Ok(Options::trunk(fabric.interfaces()).open()?)
    };
    let [from, to] = [1, 2].map(|n| fabric.node(n));
    let (sender, receiver) = (open(&from)?, open(&to)?);
    let address = Address::from(receiver.link().mac);
    let [cut, over] = [const { AtomicBool::new(false) }; 2];
    std::thread::scope(|scope| {
        let (cut, over) = (&cut, &over);
        let receiving = scope.spawn(move || receive(receiver, cut));
        let sending = scope.spawn(move || send(sender, address, over));
        std::thread::sleep(PHASE);
        cut.store(true, Ordering::Relaxed);
        let down = from.command("ip")?.args(["link", "set", "eth0", "down"]).status()?;
        std::thread::sleep(PHASE);
        over.store(true, Ordering::Relaxed);
        sending.join().map_err(|_| "the sender panicked")??;
        let seen = receiving.join().map_err(|_| "the receiver panicked")??;
        if down.success() { Ok(seen) } else { Err("'ip link set eth0 down' failed".into()) }
    })
}

fn send(endpoint: Endpoint, to: Address, over: &AtomicBool) -> ExampleResult<()> {
    let peer = endpoint.peer(to)?;
    let mut message = vec![0; endpoint.max_message()];
    for number in 0..END {
        let number = if over.load(Ordering::Relaxed) { END } else { number };
        message[..4].copy_from_slice(&number.to_le_bytes());
        endpoint.queue(peer, &message)?;
        if number == END {
            break;
        }
    }
    Ok(endpoint.drain(Duration::from_secs(5))?)
}

fn receive(endpoint: Endpoint, cut: &AtomicBool) -> ExampleResult<ReceiverReport> {
    let mut seen = ReceiverReport { messages: 0, pauses: [0.0; 2] };
    let mut last: Option<Instant> = None;
    loop {
        let message = endpoint.recv_timeout(Duration::from_secs(5))?.ok_or("nothing comes")?;
        let now = Instant::now();
        let pause = last.replace(now).map_or(0.0, |last| (now - last).as_secs_f64() * 1e3);
        let longest = &mut seen.pauses[usize::from(cut.load(Ordering::Relaxed))];
        *longest = longest.max(pause);
        match message.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) {
            Some(END) => return Ok(seen),
            Some(number) if number == seen.messages => seen.messages += 1,
            other => return Err(format!("{other:?} instead of {}", seen.messages).into()),
        }
    }
}
