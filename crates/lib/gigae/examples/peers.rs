//! What a peer costs: bytes that an endpoint keeps for one that is idle, and the time that messages
//! take with 10 to 10,000 peers, on a simulated network in this process.
//!
//! ```text
//! cargo run --release -p gigae --example peers
//! ```
//!
//! Time is that in the endpoint's calls, without any kernel; it depends on the machine, bytes do
//! not.

#[path = "../tests/crowd/mod.rs"]
mod crowd;

use crowd::Crowd;
use gigae_sim::Faults;
use std::time::Duration;

fn main() {
    let faults = Faults { delay: Duration::from_micros(5), ..Faults::default() };
    let alone = Crowd::new(0, 1, faults).end();
    let per_peer = |crowd: &mut Crowd, count: usize| (crowd.end() - alone) / count as i64;
    println!("peers: bytes per peer that is named, up, idle after a burst, idle after operations;");
    println!(
        "ns per message while sessions come up, one message each way, a stream with one of them"
    );
    for count in [10, 100, 1_000, 10_000] {
        let named = per_peer(&mut Crowd::new(count, 1, faults), count);
        let mut crowd = Crowd::new(count, 1, faults);
        let first = crowd.exchange(0..count, 1);
        let up = per_peer(&mut crowd, count);
        let mut crowd = Crowd::new(count, 1, faults);
        crowd.exchange(0..count, 1);
        let second = crowd.exchange(0..count, 1);
        let alone = crowd.exchange(0..1, 1_000);
        crowd.exchange(0..count, 100);
        let burst = per_peer(&mut crowd, count);
        let mut crowd = Crowd::new(count, 1, faults);
        crowd.exchange(0..count, 1);
        crowd.exchange_operations();
        let operations = per_peer(&mut crowd, count);
        let nanos = |cost: crowd::Cost| cost.time.as_nanos() as u64 / cost.messages;
        println!(
            "{count}: {named} {up} {burst} {operations}; {} {} {}",
            nanos(first),
            nanos(second),
            nanos(alone)
        );
    }
}
