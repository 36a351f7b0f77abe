//! Where the time of an 8-byte message goes, step by step: the raw AF_XDP link, and gigae on it.
//!
//! Both ends are in one thread on one CPU, so nothing here waits for another CPU's cache; what that
//! costs is the difference between this and a round trip between two. Lays two nodes back to back
//! for itself and takes them away again: `cargo run --release -p gigae --example steps` as root.

use gigae::{Address, Endpoint, MacAddr, Options, Wait};
use gigae_fabric::{Fabric, FabricConfig, Node};
use gigae_link::{ChannelSet, Filter, Link, Segment};
use gigae_wire::{Envelope, HEADER_LEN, NodeAddr, Route};
use gigae_xdp::{XdpConfig, XdpLink};
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Messages per step.
const MESSAGES: u64 = 30_000;

fn main() -> Result<(), Box<dyn Error>> {
    let prefix = format!("steps{}", std::process::id() % 10_000);
    let config = FabricConfig { prefix, nodes: 2, cable: true, ..FabricConfig::default() };
    let fabric = Fabric::up(config)?;
    let nodes = [fabric.node(1), fabric.node(2)];
    println!("nanoseconds, median (90th percentile), the timer's own time included:");
    let mut timer = Steps::new(["timer"]);
    for _ in 0..MESSAGES {
        timer.begin();
        timer.end(0);
    }
    timer.print();
    raw(&nodes)?;
    messages(&nodes)
}

fn raw(nodes: &[Node; 2]) -> Result<(), Box<dyn Error>> {
    let filter = Filter { envelope: Envelope::DEFAULT, channels: ChannelSet::EMPTY.with(0) };
    let open = |node: &Node| -> Result<XdpLink, Box<dyn Error>> {
        let _inside = node.enter()?;
        Ok(XdpLink::open(XdpConfig::new("eth0", filter.clone()))?)
    };
    let (mut near, mut far) = (open(&nodes[0])?, open(&nodes[1])?);
    let (mut near, mut far) = (&mut near, &mut far);
    let ends = [&nodes[0], &nodes[1]].map(|node| NodeAddr::from(MacAddr(node.mac)));
    let route = |from: usize| {
        Route::new(Envelope::DEFAULT, ends[from], ends[1 - from]).ok_or("no Ethernet")
    };
    let (mut there, mut back) = (route(0)?, route(1)?);
    let mut steps =
        Steps::new(["raw: prepare", "raw: doorbell", "raw: receive", "raw: empty poll"]);
    let mut batch = Vec::with_capacity(1);
    for _ in 0..MESSAGES {
        steps.begin();
        let mut frame = near.take().ok_or("no frame")?;
        // A header of zeros: no version of the protocol, on channel 0.
        let bytes = &mut near.memory().arena.bytes_mut(&mut frame)[..60];
        bytes[there.len()..][..HEADER_LEN].fill(0);
        there.write(bytes);
        let posted = near.post(frame, 0..60, Segment::Last);
        near.release(posted.into());
        steps.end(0);
        near.flush()?;
        steps.end(1);
        far.poll(&mut batch, 1)?;
        let frame = batch.pop().ok_or("the frame did not arrive")?;
        black_box(far.memory().arena.bytes(&frame)[0]);
        far.recycle(frame);
        steps.end(2);
        black_box(far.has_arrived());
        steps.end(3);
        far.poll(&mut batch, 1)?;
        // To and fro, as messages below.
        std::mem::swap(&mut near, &mut far);
        std::mem::swap(&mut there, &mut back);
    }
    steps.print();
    Ok(())
}

fn messages(nodes: &[Node; 2]) -> Result<(), Box<dyn Error>> {
    let open = |node: &Node| -> Result<Endpoint, Box<dyn Error>> {
        let _inside = node.enter()?;
        Ok(Options::new("eth0").wait(Wait::Spin).linger(Duration::ZERO).open()?)
    };
    let ends = [open(&nodes[0])?, open(&nodes[1])?];
    let peers = [
        ends[0].peer(Address::from(MacAddr(nodes[1].mac)))?,
        ends[1].peer(Address::from(MacAddr(nodes[0].mac)))?,
    ];
    let names =
        ["gigae: queue", "gigae: flush", "gigae: receive", "gigae: drop", "gigae: empty poll"];
    let mut steps = Steps::new(names);
    for n in 0..MESSAGES {
        let (from, to) = if n % 2 == 0 { (0, 1) } else { (1, 0) };
        steps.begin();
        ends[from].queue(peers[from], &n.to_le_bytes())?;
        steps.end(0);
        ends[from].flush()?;
        steps.end(1);
        // The first message needs a few frames to bring the session up.
        let message = loop {
            match ends[to].try_recv()? {
                Some(message) => break message,
                None => ends[from].progress()?,
            }
        };
        black_box(message[0]);
        steps.end(2);
        drop(message);
        steps.end(3);
        ends[to].progress()?;
        steps.begin();
        black_box(ends[to].try_recv()?.is_none());
        steps.end(4);
    }
    steps.print();
    Ok(())
}

/// Times of some steps that follow each other.
struct Steps<const N: usize> {
    names: [&'static str; N],
    times: [Vec<u64>; N],
    since: Instant,
}

impl<const N: usize> Steps<N> {
    fn new(names: [&'static str; N]) -> Self {
        let times = std::array::from_fn(|_| Vec::with_capacity(MESSAGES as usize));
        Self { names, times, since: Instant::now() }
    }

    fn begin(&mut self) {
        self.since = Instant::now();
    }

    /// A step is over, the next one begins.
    fn end(&mut self, step: usize) {
        let now = Instant::now();
        self.times[step].push((now - self.since).as_nanos() as u64);
        self.since = Instant::now();
    }

    fn print(&mut self) {
        for (name, times) in self.names.iter().zip(&mut self.times) {
            times.sort_unstable();
            let at = |share: usize| times[times.len() * share / 100];
            println!("{name:>18}  {:5} ({})", at(50), at(90));
        }
    }
}
