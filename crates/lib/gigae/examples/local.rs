//! What memory gives between processes of a node, in one run: two ends by memory, by a wire between
//! two interfaces, and by the kernel's sockets; writes and reads of remote memory, if the other end
//! maps it and by frames, beside a plain copy; then a ring of twice as many ends as there are
//! processors, where who waits keeps another from its processor.
//!
//! Lays a node for itself and takes it away again: `cargo run --release -p gigae --example local`
//! as root. Ratios of one run mean something, and figures only on a machine that does nothing else.

mod common;
#[path = "common/remote.rs"]
mod remote;

use common::median;
use gigae::{Address, Completion, Endpoint, Memory, Options, Sharing, Wait, Wanted};
use gigae_fabric::{Fabric, FabricConfig, Node};
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Barrier;
use std::thread::{available_parallelism, yield_now};
use std::time::{Duration, Instant};

/// Unless the first argument says otherwise; odd, for the median.
const ROUNDS: usize = 5;
const ROUND_TRIPS: usize = 2_000;

/// Bytes of a stream, in messages of a frame; written to sockets in pieces that suit them.
const STREAMED: usize = LONG * 20_000;
const LONG: usize = 1400;
const PIECE: usize = 64 << 10;

/// Large messages, one after the other.
const LARGE: usize = 1 << 20;
const LARGES: usize = 30;

/// Bytes of the messages that go round.
const RING: [usize; 3] = [8, 30_000, 300_000];
/// How often each goes round.
const TURNS: usize = 30;
/// After this many empty polls, an end that waits yields its processor, as the libfabric provider
/// does.
const EMPTY_POLLS: u32 = 50;

/// Nothing takes longer, or the run ends.
const PATIENCE: Duration = Duration::from_secs(20);

type ExampleResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The median round trip of 8 bytes in nanoseconds, and bytes per microsecond: of a stream and of
/// large messages.
type Figures = [f64; 3];

fn main() -> ExampleResult<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(ROUNDS), |rounds| rounds.parse())?;
    let prefix = format!("local{}", std::process::id() % 10_000);
    let fabric = Fabric::up(FabricConfig { prefix, ..FabricConfig::default() })?;
    let node = fabric.node(1);
    for arguments in ["add x0 up type veth peer name y0", "set y0 up"] {
        let all = ["link"].into_iter().chain(arguments.split(' '));
        if !node.command("ip")?.args(all).status()?.success() {
            return Err("no interfaces to measure between".into());
        }
    }
    let ways = ["memory", "wire", "tcp", "unix"];
    let mut all = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        all[0].push(ends(&node, true)?);
        all[1].push(ends(&node, false)?);
        all[2].push(tcp()?);
        all[3].push(unix()?);
    }
    print!("median of {rounds} rounds      ");
    ways.iter().for_each(|way| print!("{way:>10}"));
    println!("   memory over wire, tcp, unix");
    let rows = ["round trip, 8 B, ns", "stream, 1,400 B, MB/s", "1 MiB messages, MB/s"];
    for (n, row) in rows.into_iter().enumerate() {
        let figures = all.each_ref().map(|rounds| median(rounds.iter().map(|round| round[n])));
        print!("{row:24}");
        figures.iter().for_each(|figure| print!("{figure:>10.0}"));
        let better = |other: f64| if n == 0 { other / figures[0] } else { figures[0] / other };
        println!(
            "   {:.2} {:.2} {:.2}",
            better(figures[1]),
            better(figures[2]),
            better(figures[3])
        );
    }
    remote::compare(&node, rounds)?;
    rings(&node, rounds)
}

/// Two endpoints on the ends of a wire, with memory between them or not.
fn ends(node: &Node, memory: bool) -> ExampleResult<Figures> {
    let _inside = node.enter()?;
    let open = |name| Options::new(name).wait(Wait::Spin).local(memory).open();
    let (a, b) = (open("x0")?, open("y0")?);
    let (at_a, at_b) = (Address::from(a.link().mac), Address::from(b.link().mac));
    std::thread::scope(|scope| {
        let answering = scope.spawn(move || {
            // Neighbours are looked for where the caller is.
            let _inside = node.enter()?;
            answer(b, at_a)
        });
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
    })
}

fn measure(end: &Endpoint, to: Address) -> ExampleResult<Figures> {
    let peer = end.peer(to)?;
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let start = Instant::now();
        end.send(peer, &[1; 8])?;
        end.recv_timeout(PATIENCE)?.ok_or("no answer")?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    let (start, message) = (Instant::now(), [2; LONG]);
    for _ in 0..STREAMED / LONG {
        end.queue(peer, &message)?;
    }
    end.flush()?;
    // All has arrived when it says so.
    end.recv_timeout(PATIENCE)?.ok_or("no answer")?;
    let stream = rate(STREAMED, start);
    let (start, mut bytes) = (Instant::now(), vec![3; LARGE]);
    for _ in 0..LARGES {
        end.start_send(peer, 1, bytes).map_err(|error| error.to_string())?;
        bytes = back(end.completion_timeout(PATIENCE)?)?;
    }
    Ok([median(times), stream, rate(LARGES * LARGE, start)])
}

fn answer(end: Endpoint, to: Address) -> ExampleResult<()> {
    let peer = end.peer(to)?;
    for _ in 0..ROUND_TRIPS {
        drop(end.recv_timeout(PATIENCE)?.ok_or("no question")?);
        end.send(peer, &[1; 8])?;
    }
    for _ in 0..STREAMED / LONG {
        end.recv_timeout(PATIENCE)?.ok_or("no message")?;
    }
    end.send(peer, &[3; 8])?;
    let mut bytes = vec![0; LARGE];
    for _ in 0..LARGES {
        end.start_recv(Wanted::tag(1), bytes).map_err(|error| error.to_string())?;
        bytes = back(end.completion_timeout(PATIENCE)?)?;
    }
    end.drain(PATIENCE)?;
    Ok(())
}

/// The memory of an operation that has ended well.
fn back(completion: Option<Completion>) -> ExampleResult<Vec<u8>> {
    let Completion { result, memory, .. } = completion.ok_or("an operation did not end")?;
    result?;
    Ok(memory.and_then(Memory::into_vec).ok_or("an operation without memory")?)
}

fn rate(bytes: usize, since: Instant) -> f64 {
    bytes as f64 / (since.elapsed().as_secs_f64() * 1e6)
}

/// A connection by the kernel.
trait Socket: Read + Write + Send {
    fn spin(&self, spin: bool) -> std::io::Result<()>;
}

impl Socket for TcpStream {
    fn spin(&self, spin: bool) -> std::io::Result<()> {
        self.set_nonblocking(spin)
    }
}

impl Socket for UnixStream {
    fn spin(&self, spin: bool) -> std::io::Result<()> {
        self.set_nonblocking(spin)
    }
}

fn tcp() -> ExampleResult<Figures> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let a = TcpStream::connect(listener.local_addr()?)?;
    let (b, _) = listener.accept()?;
    a.set_nodelay(true)?;
    b.set_nodelay(true)?;
    sockets(a, b)
}

fn unix() -> ExampleResult<Figures> {
    let (a, b) = UnixStream::pair()?;
    sockets(a, b)
}

/// The same by a connection: round trips spinning, all else with writes that suit it.
fn sockets(mut a: impl Socket, mut b: impl Socket) -> ExampleResult<Figures> {
    std::thread::scope(|scope| {
        let answering = scope.spawn(move || -> ExampleResult<()> {
            b.spin(true)?;
            for _ in 0..ROUND_TRIPS {
                read(&mut b, &mut [0; 8])?;
                b.write_all(&[1; 8])?;
            }
            b.spin(false)?;
            let mut piece = vec![0; PIECE];
            for mut left in [STREAMED].into_iter().chain([LARGE; LARGES]) {
                while left > 0 {
                    let want = left.min(PIECE);
                    left -= b.read(&mut piece[..want])?;
                }
                b.write_all(&[1; 8])?;
            }
            Ok(())
        });
        a.spin(true)?;
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let start = Instant::now();
            a.write_all(&[1; 8])?;
            read(&mut a, &mut [0; 8])?;
            times.push(start.elapsed().as_nanos() as f64);
        }
        a.spin(false)?;
        let start = Instant::now();
        let bytes = vec![2; LARGE];
        for left in (0..STREAMED).step_by(PIECE) {
            a.write_all(&bytes[..PIECE.min(STREAMED - left)])?;
        }
        a.read_exact(&mut [0; 8])?;
        let (stream, start) = (rate(STREAMED, start), Instant::now());
        for _ in 0..LARGES {
            a.write_all(&bytes)?;
            a.read_exact(&mut [0; 8])?;
        }
        let large = rate(LARGES * LARGE, start);
        answering.join().map_err(|_| "the other end failed")??;
        Ok([median(times), stream, large])
    })
}

/// Reads all, spinning.
fn read(from: &mut impl Socket, mut to: &mut [u8]) -> ExampleResult<()> {
    while !to.is_empty() {
        match from.read(to) {
            Ok(0) => return Err("the connection was closed".into()),
            Ok(count) => to = &mut to[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Microseconds per hop, and frames that were repeated and lost.
struct RingResult {
    hop: f64,
    repeated: u64,
    full: u64,
}

fn rings(node: &Node, rounds: usize) -> ExampleResult<()> {
    let count = 2 * available_parallelism()?.get();
    println!("ring of {count} ends, median of {rounds} rounds, us per hop (frames repeated, lost)");
    for len in RING {
        let mut both = [const { Vec::new() }; 2];
        for _ in 0..rounds {
            both[0].push(ring(node, count, len, true)?);
            both[1].push(ring(node, count, len, false)?);
        }
        let [memory, nic] = both.each_ref().map(|rings| median(rings.iter().map(|ring| ring.hop)));
        let lost = both.map(|rings| {
            let sum = |of: fn(&RingResult) -> u64| rings.iter().map(of).sum::<u64>();
            format!("({}, {})", sum(|ring| ring.repeated), sum(|ring| ring.full))
        });
        let ratio = nic / memory;
        println!(
            "{len:>8} B  memory {memory:8.1} {:12}  nic {nic:8.1} {:12}  {ratio:.2}",
            lost[0], lost[1]
        );
    }
    Ok(())
}

/// A message goes round; all ends are children of one NIC.
fn ring(node: &Node, count: usize, len: usize, memory: bool) -> ExampleResult<RingResult> {
    let _inside = node.enter()?;
    let open = || Options::new("eth0").sharing(Sharing::Child).local(memory).open();
    let ends = (0..count).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
    let at: Vec<_> = ends.iter().map(|end| Address::from(end.link().mac)).collect();
    let done = Barrier::new(count);
    std::thread::scope(|scope| {
        let threads = ends.into_iter().enumerate().map(|(n, end)| {
            let (to, done) = (at[(n + 1) % count], &done);
            scope.spawn(move || {
                let _inside = node.enter()?;
                let ring = turns(&end, to, len, n == 0);
                // The others have what they wait for before this one makes no call any more.
                let rest = Instant::now() + Duration::from_millis(50);
                while Instant::now() < rest {
                    end.recv_timeout(Duration::from_millis(5))?;
                }
                done.wait();
                ring
            })
        });
        let threads: Vec<_> = threads.collect();
        let rings = threads.into_iter().map(|thread| thread.join().map_err(|_| "an end failed")?);
        let rings = rings.collect::<ExampleResult<Vec<RingResult>>>()?;
        let sum = |of: fn(&RingResult) -> u64| rings.iter().map(of).sum();
        let hop = rings[0].hop / count as f64;
        Ok(RingResult { hop, repeated: sum(|ring| ring.repeated), full: sum(|ring| ring.full) })
    })
}

fn turns(end: &Endpoint, to: Address, len: usize, first: bool) -> ExampleResult<RingResult> {
    let peer = end.peer(to)?;
    let wait = || -> ExampleResult<Vec<u8>> {
        let (deadline, mut empty) = (Instant::now() + PATIENCE, 0);
        loop {
            if let Some(completion) = end.try_completion()? {
                return back(Some(completion));
            }
            empty += 1;
            if empty >= EMPTY_POLLS {
                yield_now();
            }
            if empty.is_multiple_of(1024) && Instant::now() > deadline {
                return Err("a message did not come".into());
            }
        }
    };
    let (mut sent, mut start) = (vec![7; len], Instant::now());
    for turn in 0..TURNS + 5 {
        if turn == 5 {
            start = Instant::now();
        }
        end.start_recv(Wanted::tag(1), vec![0; len]).map_err(|error| error.to_string())?;
        if !first {
            sent = wait()?;
        }
        end.start_send(peer, 1, sent).map_err(|error| error.to_string())?;
        end.flush()?;
        sent = wait()?;
        if first {
            sent = wait()?;
        }
    }
    let hop = start.elapsed().as_secs_f64() * 1e6 / TURNS as f64;
    let counters = end.counters();
    let (repeated, full) = (counters.protocol.retransmissions, counters.link.memory_full);
    Ok(RingResult { hop, repeated, full })
}
