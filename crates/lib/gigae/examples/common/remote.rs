//! Writes and reads of a neighbour's registered memory.

use super::common::median;
use super::{Completion, ExampleResult, LARGE, LARGES, PATIENCE, rate};
use gigae::{Address, Endpoint, Memory, Options, Peer, RegionKey, Rights, SharedBuffer, Wait};
use gigae_fabric::Node;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Accesses of 8 bytes.
const SHORTS: usize = 2_000;

/// By frames, until the neighbour has mapped the memory.
const FIRST: usize = 1_000;

/// Median nanoseconds of a write and a read of 8 bytes, and bytes per microsecond of writes and
/// reads of a mebibyte, each from start to completion.
type Figures = [f64; 4];

pub(crate) fn compare(node: &Node, rounds: usize) -> ExampleResult<()> {
    let mut all = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        all[0].push(ends(node, true)?);
        all[1].push(ends(node, false)?);
        all[2].push(plain());
    }
    println!(
        "remote memory              mapped    frames     plain   frames or mapped over the other"
    );
    let rows = ["write, 8 B, ns", "read, 8 B, ns", "write, 1 MiB, MB/s", "read, 1 MiB, MB/s"];
    for (n, row) in rows.into_iter().enumerate() {
        let figures = all.each_ref().map(|rounds| median(rounds.iter().map(|round| round[n])));
        let [mapped, frames, plain] = figures;
        let better = if n < 2 { frames / mapped } else { mapped / frames };
        println!("{row:22}{mapped:>11.0}{frames:>10.0}{plain:>10.0}   {better:.2}");
    }
    Ok(())
}

/// Two endpoints with memory between them. One has registered memory that the other maps, or not.
fn ends(node: &Node, mapped: bool) -> ExampleResult<Figures> {
    let _inside = node.enter()?;
    let open = |name| Options::new(name).wait(Wait::Spin).local(true).open();
    let (a, b) = (open("x0")?, open("y0")?);
    let at_b = Address::from(b.link().mac);
    let rights = Rights::READ.with(Rights::WRITE);
    let memory = match mapped {
        true => Memory::from(SharedBuffer::new(LARGE)?),
        false => Memory::from(vec![0; LARGE]),
    };
    let key = b.register(memory, rights).map_err(|error| error.to_string())?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| -> ExampleResult<()> {
            let (b, _inside) = (b, node.enter()?);
            while !done.load(Ordering::Relaxed) {
                b.progress()?;
            }
            Ok(())
        });
        let figures = a.peer(at_b).map_err(Into::into).and_then(|peer| measure(&a, peer, key));
        let direct = a.counters().operations.direct;
        done.store(true, Ordering::Relaxed);
        answering.join().map_err(|_| "the other end failed")??;
        assert_eq!(direct > SHORTS as u64, mapped, "{direct} accesses without frames");
        figures
    })
}

fn measure(end: &Endpoint, peer: Peer, key: RegionKey) -> ExampleResult<Figures> {
    let write = |bytes| -> ExampleResult<Vec<u8>> {
        let started = end.start_write(peer, key, 0, bytes, None);
        started.map_err(|error| error.to_string())?;
        ended(end)
    };
    let read = |bytes| -> ExampleResult<Vec<u8>> {
        end.start_read(peer, key, 0, bytes).map_err(|error| error.to_string())?;
        ended(end)
    };
    let mut short: Vec<u8> = vec![1; 8];
    for _ in 0..FIRST {
        short = read(write(short)?)?;
    }
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..SHORTS {
        let start = Instant::now();
        short = write(short)?;
        let between = Instant::now();
        short = read(short)?;
        times[0].push((between - start).as_nanos() as f64);
        times[1].push(between.elapsed().as_nanos() as f64);
    }
    let mut long = vec![2; LARGE];
    long = read(write(long)?)?;
    let start = Instant::now();
    for _ in 0..LARGES {
        long = write(long)?;
    }
    let (writes, start) = (rate(LARGES * LARGE, start), Instant::now());
    for _ in 0..LARGES {
        long = read(long)?;
    }
    let reads = rate(LARGES * LARGE, start);
    let [write, read] = times.map(median);
    Ok([write, read, writes, reads])
}

/// The memory of the next operation that has ended.
fn ended(end: &Endpoint) -> ExampleResult<Vec<u8>> {
    let Completion { result, memory, .. } =
        end.completion_timeout(PATIENCE)?.ok_or("an operation did not end")?;
    result?;
    Ok(memory.and_then(Memory::into_vec).ok_or("an operation without memory")?)
}

/// A copy between two memories of this process, as the standard library makes it.
fn plain() -> Figures {
    let (from, mut to) = (vec![3; LARGE], vec![0; LARGE]);
    let mut times = Vec::new();
    for _ in 0..SHORTS {
        let start = Instant::now();
        to[..8].copy_from_slice(black_box(&from[..8]));
        black_box(&mut to);
        times.push(start.elapsed().as_nanos() as f64);
    }
    to.copy_from_slice(&from);
    let start = Instant::now();
    for _ in 0..LARGES {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    }
    let (short, long) = (median(times), rate(LARGES * LARGE, start));
    [short, short, long, long]
}
