//! CPU time of four nodes that all send to each other, over gigae and over TCP.
//!
//! Four nodes at a switch, 1 Gbit/s each. Each has one thread, which sends messages of 64 KiB to
//! each of the others and receives theirs. With nothing to do, gigae polls for a while and then
//! sleeps, TCP sleeps at once. Counted is the CPU time of the whole machine, interrupts included,
//! for each GB that programs received; so nothing else may run. Lays its nodes for itself and takes
//! them away again: `cargo run --release -p gigae --example crowd`.

mod common;

use common::median;
use gigae::{Address, Endpoint, Memory, OpId, Options, Peer, Wanted};
use gigae_fabric::{Fabric, FabricConfig, Node, Rate};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const NODES: u16 = 4;

const LEN: usize = 64 << 10;

/// Messages to each other node that are under way.
const FLIGHT: usize = 2;

/// Each transport in turn, so often; an odd number, for the median.
const ROUNDS: usize = 5;

/// Before the count begins, and while it goes on.
const WARM: Duration = Duration::from_millis(500);
const COUNTED: Duration = Duration::from_secs(3);

/// Between two looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);

const PORT: u16 = 5_000;

/// The target: CPU time of gigae for that of TCP.
const ASKED: f64 = 0.9;

type ExampleResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What a node does until it is over.
type Work<'a> = Box<dyn FnOnce() -> ExampleResult<()> + Send + 'a>;

/// What the nodes have received, and whether to stop.
#[derive(Default)]
struct SharedCounts {
    received: AtomicU64,
    over: AtomicBool,
}

impl SharedCounts {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

fn main() -> ExampleResult<()> {
    gigae_fabric::gain_privileges()?;
    let prefix = format!("crowd{}", std::process::id() % 100_000);
    let rate = Some(Rate::GIGABIT);
    let fabric =
        Fabric::up(FabricConfig { prefix, nodes: NODES, rate, ..FabricConfig::default() })?;
    println!("four nodes, 1 Gbit/s, messages of 64 KiB to each other: CPU s per GB; MB/s in all");
    let mut ratios = Vec::new();
    for round in 1..=ROUNDS {
        let (tcp, tcp_rate) = counted(|shared| by_tcp(&fabric, shared))?;
        let (gigae, gigae_rate) = counted(|shared| by_gigae(&fabric, shared))?;
        ratios.push(gigae / tcp);
        println!(
            "{round}: TCP {tcp:.3}; {tcp_rate:.0}, gigae {gigae:.3}; {gigae_rate:.0}, gigae / TCP {:.2}",
            gigae / tcp
        );
    }
    let median = median(ratios);
    let word = if median <= ASKED { "reached" } else { "missed" };
    println!("gigae / TCP: {median:.2} (target <= {ASKED}: {word})");
    Ok(())
}

/// CPU seconds of the machine per GB, and MB/s, while the nodes run. `start` gives what each does.
fn counted<'a>(
    start: impl FnOnce(&'a SharedCounts) -> ExampleResult<Vec<Work<'a>>>,
) -> ExampleResult<(f64, f64)> {
    // The threads have no lifetime. It is some bytes a round.
    let shared: &'static SharedCounts = Box::leak(Box::default());
    let work = start(shared)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = work.into_iter().map(|work| scope.spawn(work)).collect();
        std::thread::sleep(WARM);
        let (cpu, bytes, time) = (busy(), shared.received.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(COUNTED);
        let (bytes, time) =
            (shared.received.load(Ordering::Relaxed) - bytes, time.elapsed().as_secs_f64());
        let after = busy();
        shared.over.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_| "a node panicked")??;
        }
        let (cpu, bytes) = (after? - cpu?, bytes as f64);
        Ok((cpu / (bytes / 1e9), bytes / 1e6 / time))
    })
}

/// CPU seconds that the machine has worked, interrupts included (proc_stat(5)).
fn busy() -> ExampleResult<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let all = stat.lines().next().ok_or("/proc/stat is empty")?;
    let ticks: Vec<f64> = all.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    let [user, nice, system, _, _, interrupts, soft, ..] = ticks[..] else {
        return Err("/proc/stat has an unknown form".into());
    };
    Ok((user + nice + system + interrupts + soft) / rustix::param::clock_ticks_per_second() as f64)
}

fn by_gigae<'a>(fabric: &Fabric, shared: &'a SharedCounts) -> ExampleResult<Vec<Work<'a>>> {
    let open = |number| -> ExampleResult<Endpoint> {
        let node = fabric.node(number);
        let _inside = node.enter()?;
        Ok(Options::new(node.interface).linger(Duration::ZERO).open()?)
    };
    let ends = (1..=NODES).map(open).collect::<ExampleResult<Vec<_>>>()?;
    let all: Vec<_> = ends.iter().map(|end| Address::from(end.link().mac)).collect();
    let work = ends.into_iter().enumerate().map(|(n, end)| {
        let others: Vec<_> =
            all.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, &to)| to).collect();
        Box::new(move || exchange(&end, &others, shared)) as Work<'a>
    });
    Ok(work.collect())
}

fn send(end: &Endpoint, to: Peer, memory: Vec<u8>) -> ExampleResult<OpId> {
    // The error has the memory.
    end.start_send(to, 0, memory).map_err(|error| error.to_string().into())
}

fn receive(end: &Endpoint, memory: Vec<u8>) -> ExampleResult<OpId> {
    end.start_recv(Wanted::ANY, memory).map_err(|error| error.to_string().into())
}

fn exchange(end: &Endpoint, others: &[Address], shared: &SharedCounts) -> ExampleResult<()> {
    let mut sends: Vec<(OpId, Peer)> = Vec::new();
    for _ in 0..FLIGHT {
        for &other in others {
            let peer = end.peer(other)?;
            receive(end, vec![0; LEN])?;
            sends.push((send(end, peer, vec![1; LEN])?, peer));
        }
    }
    while !shared.is_over() {
        let Some(done) = end.completion_timeout(LOOK)? else { continue };
        // Others may have stopped first.
        if shared.is_over() {
            break;
        }
        done.result?;
        let memory = done.memory.and_then(Memory::into_vec).ok_or("the memory comes back")?;
        match sends.iter_mut().find(|(id, _)| *id == done.id) {
            Some((id, peer)) => *id = send(end, *peer, memory)?,
            None => {
                shared.received.fetch_add(done.len as u64, Ordering::Relaxed);
                receive(end, memory)?;
            }
        }
    }
    Ok(())
}

/// A connection between two nodes, as one of them has it.
struct Connection {
    stream: TcpStream,
    /// What of the message that is sent has gone out.
    sent: usize,
}

fn by_tcp<'a>(fabric: &Fabric, shared: &'a SharedCounts) -> ExampleResult<Vec<Work<'a>>> {
    let mut ends: Vec<Vec<Connection>> = (0..NODES).map(|_| Vec::new()).collect();
    for first in 1..=NODES {
        for second in first + 1..=NODES {
            let (a, b) = connected(&fabric.node(first), &fabric.node(second))?;
            for (number, stream) in [(first, a), (second, b)] {
                stream.set_nonblocking(true)?;
                ends[usize::from(number) - 1].push(Connection { stream, sent: 0 });
            }
        }
    }
    let work = ends.into_iter().map(|end| Box::new(move || stream(end, shared)) as Work<'a>);
    Ok(work.collect())
}

fn connected(from: &Node, to: &Node) -> ExampleResult<(TcpStream, TcpStream)> {
    let address = SocketAddr::from((to.ipv4, PORT));
    let listener = {
        let _inside = to.enter()?;
        TcpListener::bind(address)?
    };
    let _inside = from.enter()?;
    let stream = TcpStream::connect(address)?;
    Ok((stream, listener.accept()?.0))
}

/// Reads and writes what can be, and sleeps until more can be.
fn stream(mut connections: Vec<Connection>, shared: &SharedCounts) -> ExampleResult<()> {
    let (message, mut room) = (vec![1; LEN], vec![0; LEN]);
    let look = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    while !shared.is_over() {
        let flags = PollFlags::IN | PollFlags::OUT;
        let mut polled: Vec<_> =
            connections.iter().map(|one| PollFd::new(&one.stream, flags)).collect();
        poll(&mut polled, Some(&look))?;
        let ready: Vec<_> = polled.iter().map(PollFd::revents).collect();
        for (one, ready) in connections.iter_mut().zip(ready) {
            if ready.contains(PollFlags::IN) {
                let got = passed(one.stream.read(&mut room))?;
                shared.received.fetch_add(got as u64, Ordering::Relaxed);
            }
            if ready.contains(PollFlags::OUT) {
                one.sent = (one.sent + passed(one.stream.write(&message[one.sent..]))?) % LEN;
            }
        }
    }
    Ok(())
}

/// How much passed; nothing where it would have to wait, or the other end has stopped.
fn passed(result: std::io::Result<usize>) -> ExampleResult<usize> {
    match result {
        Ok(count) => Ok(count),
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::WouldBlock | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            ) =>
        {
            Ok(0)
        }
        Err(e) => Err(e.into()),
    }
}
