//! Up to 10,000 nodes that run the protocol: all restart, a server restarts, the switch fails, a
//! node dies, each sends to each, and one asks who is there. The page
//! `docs/explanation/ten-thousand-nodes.md` explains the tables. Run it with
//! `cargo run --release -p gigae-network --example ten-thousand`. Numbers of nodes may follow, up
//! to 100,000, and parts: storms, exchange, discovery. All of it takes some minutes and 4 GB.

#[path = "../tests/many/mod.rs"]
mod many;

use gigae::{Endpoint, Options, Wait};
use gigae_network::protocol_host::Processor;
use gigae_network::{Rate, Time};
use gigae_sim::Faults;
use gigae_wire::{Envelope, Epoch, Flags, HEADER_LEN, Header, Kind, MacAddr, Route, SeqNo};
use many::{BUFFER, Many, Outcome, PROCESSOR, Pair, all_to_all, clients, neighbours};
use std::time::{Duration, Instant};

const LIMIT: Time = Time::ms(60_000);
const OUTAGE: Time = Time::ms(1_000);
/// Sessions that fit in the memory of a usual machine, at about a kilobyte and at both ends.
const MOST_SESSIONS: u32 = 1_100_000;

/// With more nodes than this there is only one server and its clients.
const MOST_NODES: u32 = 10_000;

fn ms(time: Time) -> f64 {
    time.seconds() * 1e3
}

/// Prints what some exchange takes, and the simulator's time.
fn print(name: &str, nodes: u32, run: impl FnOnce() -> Outcome) {
    let began = Instant::now();
    let o = run();
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{name:<24} {nodes:>6} {:>9.2} {:>9.2} {:>9.2} {:>9} {:>7.1} {:>8} {:>8} {:>8} {:>6} {:>7} \
         {seconds:>6.1} {:>5.2}",
        ms(o.half),
        ms(o.most),
        ms(o.all),
        o.frames,
        o.frames as f64 / f64::from(nodes),
        o.busiest,
        o.dropped,
        o.overflows,
        o.queue >> 10,
        o.failed,
        o.events as f64 / seconds / 1e6,
    );
}

fn head(name: &str) {
    println!("\n{name}");
    println!(
        "{:<24} {:>6} {:>9} {:>9} {:>9} {:>9} {:>7} {:>8} {:>8} {:>8} {:>6} {:>7} {:>6} {:>5}",
        "",
        "nodes",
        "half, ms",
        "99 %",
        "all",
        "frames",
        "a node",
        "busiest",
        "dropped",
        "overflow",
        "KiB",
        "failed",
        "s",
        "M/s"
    );
}

/// The storms: all restart, then one server with all others as its clients.
fn storms(nodes: u32, processor: Processor) {
    let new = || Many::new(nodes, processor, BUFFER, false);
    if nodes <= MOST_NODES {
        print("16 others", nodes, || new().start(&neighbours(nodes, 16, 1), LIMIT));
    }
    let (mut many, pairs) = (new(), clients(nodes));
    print("a server", nodes, || many.start(&pairs, LIMIT));
    print("the server restarts", nodes, || many.restart_server(LIMIT));
    print("outage, 8 B each", nodes, || many.outage(&pairs, 1, 8, OUTAGE, LIMIT));
    print("outage, 10 x 1,468 B", nodes, || many.outage(&pairs, 10, 1_468, OUTAGE, LIMIT));
    print("the server dies", nodes, || many.failure(LIMIT));
}

/// Each sends 8 B to each, or to a sample: first without sessions, then with them.
fn exchange(nodes: u32, processor: Processor) {
    let receivers = (MOST_SESSIONS / nodes).clamp(1, nodes);
    let mut many = Many::new(nodes, processor, BUFFER, false);
    let pairs: Vec<Pair> = all_to_all(nodes, receivers);
    let ideal = ms(Rate::gbit(10).time(84 * (nodes - 1)));
    let name = format!("to {receivers}, ideal {ideal:.2} ms");
    print(&name, nodes, || many.start(&pairs, LIMIT));
    let again = |many: &mut Many| {
        let begin = many.network.now() + Time::ms(100);
        many.network.run(begin);
        many.network.restart_counters();
        many.send(&pairs, 1, 8);
        many.run(pairs.len(), begin, LIMIT)
    };
    print("  again", nodes, || again(&mut many));
}

/// A question to all from an address, after which all answer at once.
fn question(from: MacAddr) -> Vec<u8> {
    let header = Header {
        kind: Kind::Who,
        channel: 0,
        src_port: 0,
        dst_port: 0,
        src_epoch: Epoch(1),
        dst_epoch: Epoch(0),
        seq: SeqNo(0),
        ack: SeqNo(0),
        credit: 0,
        flags: Flags::NONE,
    };
    let route = Route::new(Envelope::DEFAULT, from.into(), MacAddr::BROADCAST.into());
    let route = route.expect("the Ethernet envelope");
    let mut frame = vec![0; route.len() + HEADER_LEN];
    header.seal(&mut frame[route.len()..]);
    route.write(&mut frame);
    frame
}

/// One asks who is there: first so that all answer at once, then as an endpoint does. Prints how
/// many were found after each question.
fn discovery(nodes: u32) {
    let (delay, rate) = (Duration::from_micros(3), 1_250_000_000);
    let faults = Faults { rate, buffer: BUFFER, delay, ..Faults::default() };
    let net = gigae_sim::Network::new(1, faults);
    let open = |n: u32| -> Endpoint {
        let options = Options::new("sim").name(&format!("node-{n:05}")).wait(Wait::Sleep);
        let options = options.linger(Duration::ZERO).tuned(if n == 0 { 4_096 } else { 65 }, |_| ());
        options.open_simulated(&net, n + 1).expect("memory for frames")
    };
    let ends: Vec<_> = (0..nodes).map(open).collect();
    let pass = |micros: u64| {
        ends.iter().for_each(|end| end.progress().expect("the link is up"));
        net.advance_to(net.now() + micros * 1_000);
    };
    let (port, mac) = net.add_port();
    net.send(port, &question(mac));
    (0..100).for_each(|_| pass(50));
    let came = std::iter::from_fn(|| net.receive(port)).count();
    print!("{nodes:>6} nodes: at once {came} ({} lost); spread", net.tally().lost);
    for _ in 0..9 {
        if ends[0].neighbours().len() == nodes as usize - 1 {
            break;
        }
        net.advance_to(net.now() + 100_000_000);
        let (lost, begin) = (net.tally().lost, net.now());
        ends[0].ask().expect("the network has a broadcast");
        let (mut found, mut last) = (ends[0].neighbours().len(), begin);
        let spread = (found as u64 * 20).max(5_000);
        while net.now() < begin + (spread + 1_000) * 1_000 {
            pass(250);
            // Its processor is fast enough.
            (0..100).for_each(|_| ends[0].progress().expect("the link is up"));
            let now = ends[0].neighbours().len();
            if now > found {
                (found, last) = (now, net.now());
            }
        }
        let after = Duration::from_nanos(last - begin).as_secs_f64() * 1e3;
        print!(" {found} ({} lost, {after:.1} ms)", net.tally().lost - lost);
    }
    println!();
}

fn main() {
    let (counts, parts): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let mut counts: Vec<u32> = counts.iter().map(|count| count.parse().expect("nodes")).collect();
    if counts.is_empty() {
        counts = vec![100, 1_000, 10_000];
    }
    let few = || counts.iter().copied().filter(|nodes| *nodes <= MOST_NODES);
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|word| word == part);
    for (name, processor) in [
        ("processors that take no time", Processor::IDEAL),
        ("processors that take 1 us for a frame", PROCESSOR),
    ] {
        if wanted("storms") {
            head(&format!("Storms, {name}"));
            counts.iter().for_each(|&nodes| storms(nodes, processor));
        }
        if wanted("exchange") {
            head(&format!("Each sends 8 B to each, {name}"));
            few().for_each(|nodes| exchange(nodes, processor));
        }
    }
    if wanted("discovery") {
        println!("\nFound after each question");
        few().for_each(discovery);
    }
}
