//! The event queue against a heap of the standard library: the hold model, in which each event that
//! is removed adds one later. Run it with `cargo run --release -p gigae-network --example events`.

use gigae_network::Time;
use gigae_network::events::EventQueue;
use oorandom::Rand64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// Events that are removed in each measurement.
const EVENTS: u64 = 5_000_000;

/// The time from now to an added event: a frame's time on a link with its delay, 0.1 to 2.5 us, and
/// for each hundredth a timer, 1 ms.
fn ahead(random: &mut Rand64) -> u64 {
    match random.rand_range(0..100) {
        0 => 1_000_000_000,
        _ => random.rand_range(100_000..2_500_000),
    }
}

fn main() {
    println!("ns for an event: removed, and a later one added; {EVENTS} events");
    println!("{:>10} {:>10} {:>10}", "waiting", "wheel", "heap");
    for waiting in [30, 1_000, 10_000, 100_000] {
        let mut random = Rand64::new(1);
        // Of 100 added events, 99 wait for 1.3 us and one for 1,000: 11 us on average.
        let mut wheel = EventQueue::new(waiting / 11);
        for i in 0..waiting {
            wheel.push(Time(ahead(&mut random)), (i, i));
        }
        let begin = Instant::now();
        for _ in 0..EVENTS {
            let (at, event) = wheel.pop(Time::NEVER).expect("events wait");
            wheel.push(at + Time(ahead(&mut random)), event);
        }
        let wheel = begin.elapsed();
        let mut random = Rand64::new(1);
        let mut heap = BinaryHeap::new();
        let mut added = 0u64;
        for i in 0..waiting {
            heap.push(Reverse((ahead(&mut random), added, (i, i))));
            added += 1;
        }
        let begin = Instant::now();
        for _ in 0..EVENTS {
            let Reverse((at, _, event)) = heap.pop().expect("events wait");
            heap.push(Reverse((at + ahead(&mut random), added, event)));
            added += 1;
        }
        let heap = begin.elapsed();
        let each = |time: std::time::Duration| time.as_nanos() as f64 / EVENTS as f64;
        println!("{waiting:>10} {:>10.1} {:>10.1}", each(wheel), each(heap));
    }
}
