//! Nanoseconds to seal and open frames by each suite.

use gigae_seal::{FrameKey, Level, Suite};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 15;

fn time(calls: usize, mut run: impl FnMut(u64)) -> f64 {
    let begin = Instant::now();
    (0..calls as u64).for_each(&mut run);
    begin.elapsed().as_nanos() as f64 / calls as f64
}

fn main() {
    println!("{:<32}{:>8}{:>10}{:>10}", "ns per frame (median)", "bytes", "seal", "open");
    for bytes in [64, 1_436, 65_536] {
        let calls = 4_000_000 / (bytes + 400);
        let keys: Vec<_> = [Level::Encrypt, Level::Authenticate]
            .into_iter()
            .flat_map(|level| Suite::ALL.map(|suite| (level, suite)))
            .map(|(level, suite)| {
                (format!("{level:?} {suite:?}"), FrameKey::new(suite, level, &[7; 32]))
            })
            .collect();
        let mut times = vec![(vec![], vec![]); keys.len()];
        let mut frame = vec![1; bytes + 32];
        for _ in 0..ROUNDS {
            for ((_, key), (seals, opens)) in keys.iter().zip(&mut times) {
                seals.push(time(calls, |n| {
                    black_box(key.seal(n, black_box(&mut frame), 32));
                }));
                let tag = key.seal(1, &mut frame, 32);
                // A wrong frame costs the same but for AEGIS, which erases it: open a good one.
                let good = frame.clone();
                let copy = time(calls, |_| black_box(&mut frame).copy_from_slice(&good));
                let both = time(calls, |_| {
                    frame.copy_from_slice(black_box(&good));
                    key.open(1, black_box(&mut frame), 32, &tag).expect("a good tag");
                });
                opens.push(both - copy);
            }
        }
        for ((name, _), (seals, opens)) in keys.iter().zip(&mut times) {
            seals.sort_by(f64::total_cmp);
            opens.sort_by(f64::total_cmp);
            println!("{name:<32}{bytes:>8}{:>10.0}{:>10.0}", seals[ROUNDS / 2], opens[ROUNDS / 2]);
        }
    }
}
