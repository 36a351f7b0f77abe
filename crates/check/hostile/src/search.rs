//! Inputs for the targets: kept ones, and others drawn at random.

use std::path::PathBuf;

/// A target: what carries an input out, and panics if something does not hold.
pub type FuzzTarget = fn(&[u8]);

/// All targets by the names of their folders in `fuzz/corpus`.
pub const TARGETS: &[(&str, FuzzTarget)] = &[
    ("wire", crate::wire),
    ("protocol", crate::protocol),
    ("endpoint", crate::endpoint),
    ("resources", crate::resources),
    ("identities", crate::identities),
    ("transfer", crate::transfer),
    ("files", crate::files),
    ("cluster", crate::cluster),
    ("discovery", crate::discovery),
    ("broker", crate::broker),
    ("calls", crate::calls),
    ("clients", crate::clients),
    #[cfg(feature = "evaluator")]
    ("control", crate::control),
    #[cfg(feature = "evaluator")]
    ("results", crate::results),
    #[cfg(feature = "evaluator")]
    ("plan", crate::plan),
];

/// The target of this name.
///
/// # Panics
/// If no target has this name.
pub fn target(name: &str) -> FuzzTarget {
    TARGETS.iter().find(|known| known.0 == name).expect("a target of this name").1
}

/// An input that `fuzz/corpus` keeps.
#[derive(Clone, Debug)]
pub struct KeptInput {
    /// Where it is.
    pub file: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// The inputs that `fuzz/corpus` keeps for a target, by their files.
///
/// # Panics
/// If it keeps no input, or the folder cannot be read.
pub fn kept(name: &str) -> Vec<KeptInput> {
    let folder =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus")).join(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}; is fuzz/corpus checked out?", folder.display()))
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no inputs", folder.display());
    let read = |file: PathBuf| std::fs::read(&file).map(|bytes| KeptInput { file, bytes });
    files.into_iter().map(|file| read(file).expect("the file can be read")).collect()
}

/// Xorshift (Marsaglia: Xorshift RNGs, 2003).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same inputs.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// The next input: of four, three are kept ones with some bytes changed, and one is drawn.
    pub fn input(&mut self, kept: &[KeptInput]) -> Vec<u8> {
        if self.below(4) == 0 { self.draw() } else { self.change(kept) }
    }

    /// `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }

    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most.max(1)
    }

    /// 0 to 1,023 bytes.
    fn draw(&mut self) -> Vec<u8> {
        let count = self.below(1024);
        self.bytes(count)
    }

    /// The front of a kept input and the back of another, with some bytes changed.
    fn change(&mut self, kept: &[KeptInput]) -> Vec<u8> {
        let one = &kept[self.below(kept.len())].bytes;
        let other = &kept[self.below(kept.len())].bytes;
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
