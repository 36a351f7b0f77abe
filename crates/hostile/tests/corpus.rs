//! Every input that `fuzz/corpus` keeps, and inputs drawn at random, through every target.
#![allow(missing_docs)]

use gigae_hostile::Meter;
use std::path::PathBuf;

#[global_allocator]
static METER: Meter = Meter;

/// Runs the inputs kept for a target, and then others: kept ones with some bytes changed, and every fourth drawn
/// at random. They are the same every time, and so many, times what the environment variable `TIMES` says.
fn replay(name: &str, target: fn(&[u8]), others: u64) {
    let folder =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus")).join(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}; is fuzz/corpus checked out?", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no inputs", folder.display());
    let kept: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    for (file, input) in files.iter().zip(&kept) {
        let told = Told(Some(file.display().to_string()));
        target(input);
        told.went_well();
    }
    let times = std::env::var("TIMES").map_or(1, |times| times.parse().expect("a number"));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for n in 0..others * times {
        let input = if n % 4 == 0 { random.draw() } else { random.change(&kept) };
        let told = Told(Some(format!("input {n}, as a Rust literal: {input:?}")));
        target(&input);
        told.went_well();
    }
    println!("{name}: {} kept inputs and {} others", files.len(), others * times);
}

/// Names the input if the target panics.
struct Told(Option<String>);

impl Told {
    fn went_well(mut self) {
        self.0 = None;
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(what) = &self.0 {
            eprintln!("failed: {what}");
        }
    }
}

/// Xorshift (Marsaglia: Xorshift RNGs, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most.max(1)
    }

    /// 0 to 1,023 bytes.
    fn draw(&mut self) -> Vec<u8> {
        (0..self.below(1024)).map(|_| self.below(256) as u8).collect()
    }

    /// The front of a kept input and the back of another, with some bytes changed.
    fn change(&mut self, kept: &[Vec<u8>]) -> Vec<u8> {
        let (one, other) = (&kept[self.below(kept.len())], &kept[self.below(kept.len())]);
        let mut input = one[..self.below(one.len() + 1)].to_vec();
        input.extend_from_slice(&other[self.below(other.len() + 1)..]);
        for _ in 0..self.below(12) {
            let at = self.below(input.len());
            match (self.below(4), input.get_mut(at)) {
                (0, Some(byte)) => *byte ^= 1 << self.below(8),
                (1, Some(byte)) => *byte = [0, 1, 127, 128, 254, 255][self.below(6)],
                (2, Some(_)) => drop(input.remove(at)),
                (_, _) => input.insert(at, self.below(256) as u8),
            }
        }
        input
    }
}

#[test]
fn wire() {
    replay("wire", gigae_hostile::wire, 2000);
}

#[test]
fn protocol() {
    replay("protocol", gigae_hostile::protocol, 300);
}

#[test]
fn endpoint() {
    replay("endpoint", gigae_hostile::endpoint, 100);
}

#[test]
fn transfer() {
    replay("transfer", gigae_hostile::transfer, 300);
}

#[cfg(feature = "evaluator")]
#[test]
fn control() {
    replay("control", gigae_hostile::control, 100);
}

#[cfg(feature = "evaluator")]
#[test]
fn results() {
    replay("results", gigae_hostile::results, 60);
}

#[cfg(feature = "evaluator")]
#[test]
fn plan() {
    replay("plan", gigae_hostile::plan, 100);
}

#[test]
fn cluster() {
    replay("cluster", gigae_hostile::cluster, 300);
}

#[test]
fn discovery() {
    replay("discovery", gigae_hostile::discovery, 100);
}

#[test]
fn broker() {
    replay("broker", gigae_hostile::broker, 2000);
}

#[test]
fn calls() {
    replay("calls", gigae_hostile::calls, 300);
}
