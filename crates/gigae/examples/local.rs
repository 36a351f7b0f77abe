//! What memory gives between two processes of a node: round trips and a stream between two interfaces that have a wire
//! between them, by memory and by that wire in turns, in one run.
//!
//! ```text
//! ip link add x0 type veth peer name y0; ip link set x0 up; ip link set y0 up
//! cargo run --release -p gigae --example local -- x0 y0
//! ```
#![allow(missing_docs)]

use gigae::{Address, Endpoint, Options, Wait};
use std::error::Error;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const ROUND_TRIPS: usize = 10_000;
const STREAMED: usize = 100_000;
const LONG: usize = 1400;

/// Nothing takes longer, or the run ends.
const PATIENCE: Duration = Duration::from_secs(20);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// One round's figures: the median round trip of 8 bytes in nanoseconds, and bytes per microsecond.
struct Figures {
    round_trip: u128,
    stream: f64,
}

fn main() -> Outcome<()> {
    let mut names = std::env::args().skip(1);
    let (Some(here), Some(there)) = (names.next(), names.next()) else {
        return Err("name two interfaces with a wire between them".into());
    };
    let [mut memory, mut wire] = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        memory.push(round(&here, &there, true)?);
        wire.push(round(&here, &there, false)?);
    }
    println!("median of {ROUNDS} rounds       memory       wire    ratio");
    let [a, b] = [&memory, &wire].map(|all| median(all.iter().map(|f| f.round_trip as f64)));
    println!("round trip, 8 B, ns      {a:9.0}  {b:9.0}   {:6.2}", b / a);
    let [a, b] = [&memory, &wire].map(|all| median(all.iter().map(|f| f.stream)));
    println!("stream, {LONG} B, MB/s     {a:9.0}  {b:9.0}   {:6.2}", a / b);
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn round(here: &str, there: &str, memory: bool) -> Outcome<Figures> {
    let open = |name| Options::new(name).wait(Wait::Spin).local(memory).open();
    let (a, b) = (open(here)?, open(there)?);
    let (at_a, at_b) = (Address::from(a.link().mac), Address::from(b.link().mac));
    let answering = std::thread::spawn(move || answer(b, at_a));
    let figures = measure(&a, at_b);
    // The last answer wants an acknowledgement.
    while !answering.is_finished() {
        a.recv_timeout(Duration::from_millis(1))?;
    }
    answering.join().map_err(|_| "the other end failed")??;
    let link = a.counters().link;
    let by_memory = link.memory_tx_frames as f64 / link.tx_frames as f64;
    assert_eq!(by_memory > 0.5, memory, "{:.0} % of the frames by memory", 100.0 * by_memory);
    figures
}

fn measure(end: &Endpoint, to: Address) -> Outcome<Figures> {
    let peer = end.peer(to)?;
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let start = Instant::now();
        end.send(peer, &[1; 8])?;
        end.recv_timeout(PATIENCE)?.ok_or("no answer")?;
        times.push(start.elapsed().as_nanos());
    }
    times.sort_unstable();
    let (start, message) = (Instant::now(), [2; LONG]);
    for _ in 0..STREAMED {
        end.queue(peer, &message)?;
    }
    end.flush()?;
    // All has arrived when it says so.
    end.recv_timeout(PATIENCE)?.ok_or("no answer")?;
    let micros = start.elapsed().as_secs_f64() * 1e6;
    Ok(Figures { round_trip: times[ROUND_TRIPS / 2], stream: (STREAMED * LONG) as f64 / micros })
}

fn answer(end: Endpoint, to: Address) -> Outcome<()> {
    let peer = end.peer(to)?;
    for _ in 0..ROUND_TRIPS {
        drop(end.recv_timeout(PATIENCE)?.ok_or("no question")?);
        end.send(peer, &[1; 8])?;
    }
    for _ in 0..STREAMED {
        end.recv_timeout(PATIENCE)?.ok_or("no message")?;
    }
    end.send(peer, &[3; 8])?;
    end.drain(PATIENCE)?;
    Ok(())
}
