//! Every input that `fuzz/corpus` keeps, and inputs drawn at random, through every target.
#![allow(missing_docs)]

use gigae_hostile::Meter;
use std::path::PathBuf;

#[global_allocator]
static METER: Meter = Meter;

/// Runs the inputs kept for a target, then `drawn` at random, which are the same every time.
fn replay(name: &str, target: fn(&[u8]), drawn: u64) {
    let folder =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus")).join(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}; is fuzz/corpus checked out?", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no inputs", folder.display());
    let mut bytes = 0;
    for file in &files {
        let input = std::fs::read(file).unwrap();
        bytes += input.len();
        let told = Told(Some(format!("{}", file.display())));
        target(&input);
        told.went_well();
    }
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for n in 0..drawn {
        let input = draw(&mut state);
        let told = Told(Some(format!("drawn input {n}: {input:?}")));
        target(&input);
        told.went_well();
    }
    println!("{name}: {} kept inputs ({bytes} bytes) and {drawn} drawn", files.len());
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

/// The next input: 0 to 1,023 bytes (Marsaglia: Xorshift RNGs, 2003).
fn draw(state: &mut u64) -> Vec<u8> {
    let mut next = || {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    };
    let len = next() as usize % 1024;
    (0..len).map(|_| (next() >> 24) as u8).collect()
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
fn calls() {
    replay("calls", gigae_hostile::calls, 300);
}
