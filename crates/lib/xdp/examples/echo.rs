//! The raw link's round trip: an echo between two nodes of a virtual Ethernet, both ends spinning,
//! each on a processor of its own.
//!
//!     cargo run --release -p gigae-xdp --example echo -- [generic|native|packet] [bytes]
//!
//! Needs root. Prints the median and two more quantiles; what they mean depends on what else the
//! machine does.

use gigae_fabric::{Fabric, FabricConfig};
use gigae_host::affinity;
use gigae_link::{ChannelSet, Filter, Link, Mode, Segment};
use gigae_packet::{PacketConfig, PacketLink};
use gigae_wire::{Envelope, MacAddr, Route};
use gigae_xdp::{XdpConfig, XdpLink};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CHANNEL: u8 = 1;
const WARM_UP: usize = 20_000;
const ROUND_TRIPS: usize = 200_000;
/// A frame can be lost; the echo is then given up.
const AT_MOST: Duration = Duration::from_secs(20);

fn main() -> Result<(), Box<dyn Error>> {
    let mode = std::env::args().nth(1).unwrap_or_else(|| "generic".to_owned());
    let length: usize = std::env::args().nth(2).map_or(Ok(60), |text| text.parse())?;
    let prefix = format!("echo{}", std::process::id());
    let fabric = Fabric::up(FabricConfig { prefix, ..FabricConfig::default() })?;
    let (mut near, mut far) = (open(&fabric, 1, &mode)?, open(&fabric, 2, &mode)?);
    let [to_far, to_near] = [(1, 2), (2, 1)].map(|(from, to)| {
        let [from, to] = [from, to].map(|n| MacAddr(fabric.node(n).mac).into());
        Route::new(Envelope::DEFAULT, from, to).expect("both are Ethernet addresses")
    });
    let length = length.clamp(60, near.info().max_frame);
    println!("{}: {}", near.info().mode, near.info().reason);
    let over = AtomicBool::new(false);
    let mut times = std::thread::scope(|scope| {
        scope.spawn(|| {
            // On a machine with one processor the ends share it.
            let _ = affinity::pin(1);
            while !over.load(Ordering::Relaxed) {
                exchange(&mut *far, &to_near, length, false, &over);
            }
        });
        let _ = affinity::pin(0);
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        let end = Instant::now() + AT_MOST;
        for i in 0..WARM_UP + ROUND_TRIPS {
            let start = Instant::now();
            exchange(&mut *near, &to_far, length, true, &over);
            if i >= WARM_UP {
                times.push(start.elapsed());
            }
            if start > end {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
        times
    });
    times.sort_unstable();
    let at = |q: f64| times[(times.len() as f64 * q) as usize].as_nanos() as f64 / 1000.0;
    let (p50, p90, p99) = (at(0.5), at(0.9), at(0.99));
    println!("{length}-byte frames: p50 {p50:.2} us, p90 {p90:.2} us, p99 {p99:.2} us");
    println!("{:?}", near.counters());
    Ok(())
}

fn open(fabric: &Fabric, node: u16, mode: &str) -> Result<Box<dyn Link>, Box<dyn Error>> {
    let node = fabric.node(node);
    let _inside = node.enter()?;
    let filter = Filter { envelope: Envelope::DEFAULT, channels: ChannelSet::EMPTY.with(CHANNEL) };
    let mut config = XdpConfig::new(node.interface, filter.clone());
    config.mode = match mode {
        "generic" => Some(Mode::XdpGeneric),
        "native" => Some(Mode::XdpNative),
        "packet" => {
            return Ok(Box::new(PacketLink::open(PacketConfig::new(node.interface, filter))?));
        }
        _ => None,
    };
    Ok(Box::new(XdpLink::open(config)?))
}

/// Sends a frame and receives one; the end that does not begin receives first.
fn exchange(link: &mut dyn Link, to: &Route, length: usize, begins: bool, over: &AtomicBool) {
    let mut received = Vec::with_capacity(1);
    if begins {
        send(link, to, length);
    }
    while link.poll(&mut received, 1).expect("polling") == 0 {
        if over.load(Ordering::Relaxed) {
            return;
        }
        std::hint::spin_loop();
    }
    received.drain(..).for_each(|frame| link.recycle(frame));
    if !begins {
        send(link, to, length);
    }
}

fn send(link: &mut dyn Link, to: &Route, length: usize) {
    let arena = link.memory().arena.clone();
    let mut frame = link.take().expect("a free frame");
    let bytes = &mut arena.bytes_mut(&mut frame)[..length];
    bytes[to.len() + 5] = CHANNEL;
    to.write(bytes);
    let posted = link.post(frame, 0..length, Segment::Last);
    link.flush().expect("flushing");
    link.release(posted.into());
}
