//! The library's own ping-pong, to which that of an MPI over it is compared.

use crate::Error;
use gigae::{Address, Endpoint, MacAddr, Options, Wait};
use gigae_eval_model::stats::median;
use gigae_fabric::{Fabric, Node};
use gigae_host::affinity;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// As `programs/sweep.c` has them: batches, of some 5 ms each.
const BATCHES: usize = 11;
const BATCH: Duration = Duration::from_millis(5);
const MOST: u32 = 5_000;

/// An end that receives nothing for so long ends with an error.
const PATIENCE: Duration = Duration::from_secs(10);

const LEN: usize = 8;

/// What was measured, and over what.
#[derive(Clone, Debug)]
pub struct GigaeResults {
    /// Round trip of 8 bytes in microseconds, the median of batches.
    pub round_trip: f64,
    /// The link's mode, and why no better one.
    pub mode: String,
}

/// Messages of 8 bytes to and fro between the first two nodes, both ends spinning, each on its own
/// processor if there are two. They run in separate threads, so that what this thread starts later
/// may run on any processor.
pub fn ping_pong(fabric: &Fabric) -> Result<GigaeResults, Error> {
    let done = AtomicBool::new(false);
    let answerer = || answer(&fabric.node(2), &done).map_err(|error| error.to_string());
    let requester = || ask(&fabric.node(1), &fabric.node(2)).map_err(|error| error.to_string());
    std::thread::scope(|scope| {
        let other = scope.spawn(answerer);
        let asked = scope.spawn(requester).join();
        done.store(true, Ordering::Relaxed);
        let asked = asked.map_err(|_| "the asking end panicked")?;
        let other = other.join().map_err(|_| "the answering end panicked")?;
        // Its error is the cause, if it had one.
        other.and(asked)
    })
}

type BoxError = Box<dyn std::error::Error>;

fn open(node: &Node, processor: usize) -> Result<Endpoint, BoxError> {
    pin(processor);
    let _inside = node.enter()?;
    Ok(Options::new(node.interface).wait(Wait::Spin).open()?)
}

/// To one of the processors that this thread may use, or where it is if there are too few.
fn pin(number: usize) {
    if let Some(&cpu) = affinity::allowed().get(number) {
        // A process without the permission stays where it is.
        let _ = affinity::pin(cpu);
    }
}

fn ask(node: &Node, other: &Node) -> Result<GigaeResults, BoxError> {
    let endpoint = open(node, 0)?;
    let peer = endpoint.peer(Address::from(MacAddr(other.mac)))?;
    let mut each = Vec::new();
    let mut trips = 10;
    let mut number = 0_u64;
    for batch in 0..=BATCHES {
        let begin = Instant::now();
        for _ in 0..trips {
            number += 1;
            endpoint.send(peer, &number.to_le_bytes())?;
            let back = endpoint.recv_timeout(PATIENCE)?.ok_or("the other end does not answer")?;
            if back[..] != number.to_le_bytes()[..LEN] {
                return Err("another message came back than was sent".into());
            }
        }
        let once = begin.elapsed() / trips;
        match batch {
            // The first one says how many make a batch.
            0 => trips = (BATCH.as_nanos() / once.as_nanos().max(1)).clamp(1, MOST.into()) as u32,
            _ => each.push(once.as_secs_f64() * 1e6),
        }
    }
    let info = endpoint.link();
    Ok(GigaeResults {
        round_trip: median(&each).ok_or("nothing was measured")?,
        mode: format!("{} ({})", info.mode, info.reason),
    })
}

fn answer(node: &Node, done: &AtomicBool) -> Result<(), BoxError> {
    let endpoint = open(node, 1)?;
    while !done.load(Ordering::Relaxed) {
        if let Some(message) = endpoint.recv_timeout(Duration::from_millis(20))? {
            endpoint.send(message.from(), &message)?;
        }
    }
    Ok(())
}
