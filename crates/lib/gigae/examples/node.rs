//! What a short message costs within a node: two endpoints of one process on the two ends of a
//! wire, whose frames go through memory. 8 bytes go to and fro, untagged and tagged.
//!
//! Each case is a function `measured_...` that is one round trip. To count instructions:
//!
//! ```text
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*measured_*' node
//! ```
//!
//! Lays a node for itself and takes it away again: `cargo run --release -p gigae --example node` as
//! root. Prints the time of a message, too; under valgrind that means nothing.

use gigae::{Address, Endpoint, Label, Memory, Options, Peer, Wait, Wanted};
use gigae_fabric::{Fabric, FabricConfig};
use std::error::Error;
use std::time::Instant;

/// Round trips of each case, and before that some in which windows and tables get their size.
const ROUND_TRIPS: usize = 4096;
const WARM: usize = 4096;

const TAG: u64 = 7;

/// What can be asked for alone, as the first argument.
const CASES: [&str; 2] = ["message", "tagged"];

type ExampleResult<T> = Result<T, Box<dyn Error>>;

struct EndpointPair {
    ends: [Endpoint; 2],
    peers: [Peer; 2],
}

fn main() -> ExampleResult<()> {
    let prefix = format!("node{}", std::process::id() % 10_000);
    let only = std::env::args().nth(1);
    if let Some(other) = only.as_deref().filter(|only| !CASES.contains(only)) {
        return Err(format!("no case {other}: there are {}", CASES.join(" and ")).into());
    }
    let fabric = Fabric::up(FabricConfig { prefix, ..FabricConfig::default() })?;
    let node = fabric.node(1);
    for arguments in ["add x0 up type veth peer name y0", "set y0 up"] {
        let all = ["link"].into_iter().chain(arguments.split(' '));
        if !node.command("ip")?.args(all).status()?.success() {
            return Err("no interfaces to measure between".into());
        }
    }
    let _inside = node.enter()?;
    let open = |name| Options::new(name).wait(Wait::Spin).local(true).open();
    let ends = [open("x0")?, open("y0")?];
    let peers = [
        ends[0].peer(Address::from(ends[1].link().mac))?,
        ends[1].peer(Address::from(ends[0].link().mac))?,
    ];
    let pair = EndpointPair { ends, peers };
    begin(&pair)?;
    let mut memory = vec![0; 8];
    let [message, tagged] = CASES.map(|case| only.as_deref().is_none_or(|only| only == case));
    if message {
        case("message", |n| measured_message(&pair, n))?;
    }
    if tagged {
        case("tagged", |n| measured_tagged(&pair, n, &mut memory))?;
    }
    let link = pair.ends[0].counters().link;
    let others = link.tx_frames - link.memory_tx_frames;
    assert!(others < 100, "{others} of {} frames did not go by memory", link.tx_frames);
    Ok(())
}

/// The session comes up, and its frames go by memory.
fn begin(pair: &EndpointPair) -> ExampleResult<()> {
    let end = Instant::now() + std::time::Duration::from_secs(10);
    while pair.ends[0].counters().link.memory_tx_frames < 64 {
        pair.ends[0].send(pair.peers[0], b"first")?;
        while pair.ends[1].try_recv()?.is_none() {
            pair.ends[0].progress()?;
            if Instant::now() > end {
                return Err("no session comes up by memory".into());
            }
        }
    }
    Ok(())
}

fn case(name: &str, mut round_trip: impl FnMut(usize) -> ExampleResult<()>) -> ExampleResult<()> {
    for n in 0..WARM {
        round_trip(n)?;
    }
    let start = Instant::now();
    for n in 0..ROUND_TRIPS {
        round_trip(n)?;
    }
    let nanos = start.elapsed().as_nanos() as f64 / (2 * ROUND_TRIPS) as f64;
    println!("measured_{name} {} messages, {nanos:.0} ns each", 2 * (WARM + ROUND_TRIPS));
    Ok(())
}

#[inline(never)]
fn measured_message(pair: &EndpointPair, n: usize) -> ExampleResult<()> {
    for from in 0..2 {
        pair.ends[from].send(pair.peers[from], &(n as u64).to_le_bytes())?;
        let message = pair.ends[1 - from].try_recv()?.ok_or("a message did not come")?;
        assert_eq!(message[..], (n as u64).to_le_bytes());
    }
    Ok(())
}

/// As the libfabric provider does it: the receive is posted first, the message is injected.
#[inline(never)]
fn measured_tagged(pair: &EndpointPair, n: usize, memory: &mut Vec<u8>) -> ExampleResult<()> {
    for from in 0..2 {
        let (near, far) = (&pair.ends[from], &pair.ends[1 - from]);
        far.start_recv(Wanted::tag(TAG), std::mem::take(memory)).map_err(|e| e.to_string())?;
        if !near.inject(pair.peers[from], Label::from(TAG), &(n as u64).to_le_bytes()) {
            return Err("a message did not fit".into());
        }
        near.ring()?;
        let done = far.try_completion()?.ok_or("a message did not come")?;
        *memory = done.memory.and_then(Memory::into_vec).ok_or("it was lent")?;
        assert_eq!(memory[..], (n as u64).to_le_bytes());
    }
    Ok(())
}
