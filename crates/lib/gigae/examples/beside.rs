//! Round trips of 8 bytes beside many senders that fill the port of the node that answers, by gigae
//! with shared credit, and by TCP.
//!
//! Seventeen nodes at a switch, 1 Gbit/s each, 512 KiB of buffer at each port. Fifteen send
//! messages of 1,400 bytes to the first one as fast as they can, and the last one asks it and waits
//! for the answer. Printed are what the fifteen have sent, Jain's index of their shares, and the
//! median and 99th percentile of the round trips. Lays its nodes for itself and takes them away
//! again: `cargo run --release -p gigae --example beside`. A number of senders may follow.

mod common;

use common::median;
use gigae::{Address, Endpoint, Options, TrySendError, Wait};
use gigae_fabric::{Fabric, FabricConfig, Rate};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LEN: usize = 1400;

/// Each transport in turn, so often; an odd number, for the medians.
const ROUNDS: usize = 3;

/// Before the count begins, and while it goes on.
const WARM: Duration = Duration::from_millis(500);
const COUNTED: Duration = Duration::from_secs(3);

/// Between two round trips.
const PAUSE: Duration = Duration::from_micros(200);

/// Between two looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);

const PORT: u16 = 5_000;

type ExampleResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What the senders have sent, and whether to count or stop.
struct Shared {
    received: Vec<AtomicU64>,
    over: AtomicBool,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn add(&self, sender: usize, bytes: usize) {
        self.received[sender].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn counts(&self) -> Vec<u64> {
        self.received.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// MB/s, Jain's index, and microseconds of the round trips at the median and the 99th percentile.
struct Figures {
    rate: f64,
    jain: f64,
    trips: [f64; 2],
}

fn main() -> ExampleResult<()> {
    gigae_fabric::gain_privileges()?;
    let senders: u16 = std::env::args().nth(1).map_or(Ok(15), |count| count.parse())?;
    let prefix = format!("beside{}", std::process::id() % 100_000);
    let rate = Some(Rate::GIGABIT);
    let nodes = senders + 2;
    let fabric = Fabric::up(FabricConfig { prefix, nodes, rate, ..FabricConfig::default() })?;
    println!("{senders} senders to one, 1 Gbit/s: MB/s; Jain's index; round trip in us, p50, p99");
    let mut ratios = Vec::new();
    for round in 1..=ROUNDS {
        let tcp = counted(senders, |shared| by_tcp(&fabric, senders, shared))?;
        let gigae = counted(senders, |shared| by_gigae(&fabric, senders, shared))?;
        ratios.push(gigae.trips[1] / tcp.trips[1]);
        for (name, figures) in [("TCP", &tcp), ("gigae", &gigae)] {
            let Figures { rate, jain, trips: [p50, p99] } = figures;
            println!("{round} {name}: {rate:.1}; {jain:.3}; {p50:.0}, {p99:.0}");
        }
    }
    println!("gigae / TCP, p99: {:.2}", median(ratios));
    Ok(())
}

/// A sender, the receiver, or the node that asks and gives its round trips in microseconds.
type Work<'a> = Box<dyn FnOnce() -> ExampleResult<Vec<(Instant, f64)>> + Send + 'a>;

fn counted<'a>(
    senders: u16,
    start: impl FnOnce(&'a Shared) -> ExampleResult<Vec<Work<'a>>>,
) -> ExampleResult<Figures> {
    let received = (0..senders).map(|_| AtomicU64::new(0)).collect();
    // The threads have no lifetime. It is some bytes a round.
    let shared: &'static Shared = Box::leak(Box::new(Shared { received, over: false.into() }));
    let work = start(shared)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = work.into_iter().map(|work| scope.spawn(work)).collect();
        std::thread::sleep(WARM);
        let (before, begin) = (shared.counts(), Instant::now());
        std::thread::sleep(COUNTED);
        let (after, end) = (shared.counts(), Instant::now());
        shared.over.store(true, Ordering::Relaxed);
        let mut trips = Vec::new();
        for thread in threads {
            let of = thread.join().map_err(|_| "a node panicked")??;
            trips.extend(of.into_iter().filter(|(at, _)| (begin..end).contains(at)));
        }
        let mut trips: Vec<f64> = trips.into_iter().map(|(_, trip)| trip).collect();
        trips.sort_by(f64::total_cmp);
        let at = |part: usize| trips.get(trips.len() * part / 100).copied().unwrap_or(f64::NAN);
        let shares: Vec<f64> =
            after.iter().zip(&before).map(|(after, before)| (after - before) as f64).collect();
        let (sum, squares) =
            (shares.iter().sum::<f64>(), shares.iter().map(|share| share * share).sum::<f64>());
        Ok(Figures {
            rate: sum / 1e6 / (end - begin).as_secs_f64(),
            jain: sum * sum / (shares.len() as f64 * squares),
            trips: [at(50), at(99)],
        })
    })
}

fn by_gigae<'a>(fabric: &Fabric, senders: u16, shared: &'a Shared) -> ExampleResult<Vec<Work<'a>>> {
    let open = |number| -> ExampleResult<Endpoint> {
        let node = fabric.node(number);
        let _inside = node.enter()?;
        Ok(Options::new(node.interface).wait(Wait::Sleep).linger(Duration::ZERO).open()?)
    };
    let receiver = open(1)?;
    let to = Address::from(receiver.link().mac);
    let mut work: Vec<Work<'a>> = Vec::new();
    let mut addresses = Vec::new();
    for number in 2..=senders + 1 {
        let end = open(number)?;
        addresses.push(Address::from(end.link().mac));
        work.push(Box::new(move || {
            let peer = end.peer(to)?;
            while !shared.is_over() {
                match end.try_send(peer, &[1; LEN]) {
                    Ok(()) => {}
                    Err(TrySendError::WouldBlock(())) => {
                        let waited = end.recv_timeout(LOOK);
                        if !shared.is_over() {
                            waited?;
                        }
                    }
                    // The receiver may have stopped first.
                    Err(_) if shared.is_over() => break,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(Vec::new())
        }));
    }
    let asker = open(senders + 2)?;
    work.push(Box::new(move || {
        let peer = asker.peer(to)?;
        let mut trips = Vec::new();
        while !shared.is_over() {
            let began = Instant::now();
            match asker.send(peer, &[2; 8]) {
                Err(_) if shared.is_over() => break,
                sent => sent?,
            }
            loop {
                let answer = asker.recv_timeout(LOOK);
                if shared.is_over() {
                    return Ok(trips);
                }
                if answer?.is_some() {
                    break;
                }
            }
            trips.push((began, began.elapsed().as_secs_f64() * 1e6));
            std::thread::sleep(PAUSE);
        }
        Ok(trips)
    }));
    work.push(Box::new(move || {
        while !shared.is_over() {
            let Some(message) = receiver.recv_timeout(LOOK)? else { continue };
            let from = receiver.address(message.from());
            match addresses.iter().position(|&address| address == from) {
                Some(sender) => shared.add(sender, message.len()),
                None => {
                    let peer = message.from();
                    drop(message);
                    match receiver.send(peer, &[3; 8]) {
                        Err(_) if shared.is_over() => break,
                        sent => sent?,
                    }
                }
            }
        }
        Ok(Vec::new())
    }));
    Ok(work)
}

fn by_tcp<'a>(fabric: &Fabric, senders: u16, shared: &'a Shared) -> ExampleResult<Vec<Work<'a>>> {
    let server = fabric.node(1);
    let address = SocketAddr::from((server.ipv4, PORT));
    let listener = {
        let _inside = server.enter()?;
        TcpListener::bind(address)?
    };
    let mut work: Vec<Work<'a>> = Vec::new();
    for number in 2..=senders + 2 {
        let node = fabric.node(number);
        let inside = node.enter()?;
        let mut near = TcpStream::connect(address)?;
        drop(inside);
        let mut far = listener.accept()?.0;
        for stream in [&near, &far] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LOOK))?;
            stream.set_write_timeout(Some(LOOK))?;
        }
        if number == senders + 2 {
            work.push(Box::new(move || {
                let (mut trips, mut answer) = (Vec::new(), [0; 8]);
                while !shared.is_over() {
                    let began = Instant::now();
                    near.write_all(&[2; 8])?;
                    while near.read(&mut answer).is_err() {
                        if shared.is_over() {
                            return Ok(trips);
                        }
                    }
                    trips.push((began, began.elapsed().as_secs_f64() * 1e6));
                    std::thread::sleep(PAUSE);
                }
                Ok(trips)
            }));
            work.push(Box::new(move || {
                let mut question = [0; 8];
                while !shared.is_over() {
                    if far.read(&mut question).is_ok_and(|read| read > 0) {
                        far.write_all(&[3; 8])?;
                    }
                }
                Ok(Vec::new())
            }));
        } else {
            let sender = usize::from(number - 2);
            work.push(Box::new(move || {
                while !shared.is_over() {
                    // What did not go in time goes later.
                    let _ = near.write(&[1; LEN]);
                }
                Ok(Vec::new())
            }));
            work.push(Box::new(move || {
                let mut room = vec![0; 64 << 10];
                while !shared.is_over() {
                    shared.add(sender, far.read(&mut room).unwrap_or(0));
                }
                Ok(Vec::new())
            }));
        }
    }
    Ok(work)
}
