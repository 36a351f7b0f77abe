//! Distributions of message lengths.

use oorandom::Rand64;

/// Bytes of a packet in the files that count packets.
const PACKET: f64 = 1460.0;

/// A distribution of message lengths.
#[derive(Clone, Debug)]
pub struct Lengths {
    /// Length and cumulative part of the messages, ascending.
    points: Vec<(f64, f64)>,
    unit: Unit,
}

/// What a file's lengths are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Each length occurs as it is.
    Bytes,
    /// Lengths between two points occur equally often. A message has whole packets.
    Packets,
}

impl Lengths {
    /// The names that [`Lengths::named`] knows.
    pub const NAMES: [&str; 8] = ["w1", "w2", "w3", "w4", "w5", "websearch", "imc10", "datamining"];

    /// A distribution from the literature; `data/README.md` says what is known of each.
    pub fn named(name: &str) -> Option<Self> {
        let (text, unit) = match name {
            "w1" => (include_str!("../../data/w1.cdf"), Unit::Bytes),
            "w2" => (include_str!("../../data/w2.cdf"), Unit::Bytes),
            "w3" => (include_str!("../../data/w3.cdf"), Unit::Bytes),
            "w4" => (include_str!("../../data/w4.cdf"), Unit::Bytes),
            "w5" => (include_str!("../../data/w5.cdf"), Unit::Bytes),
            "websearch" => (include_str!("../../data/websearch.cdf"), Unit::Packets),
            "imc10" => (include_str!("../../data/imc10.cdf"), Unit::Packets),
            "datamining" => (include_str!("../../data/datamining.cdf"), Unit::Packets),
            _ => return None,
        };
        let points = parse(text).unwrap_or_else(|error| panic!("data/{name}.cdf: {error}"));
        Some(Self { points, unit })
    }

    /// All messages have this length.
    pub fn fixed(bytes: u32) -> Self {
        Self { points: vec![(f64::from(bytes), 1.0)], unit: Unit::Bytes }
    }

    /// The length that a part (0 to 1) of the messages does not exceed.
    pub fn at(&self, part: f64) -> u32 {
        let found = self.points.partition_point(|&(_, cumulative)| cumulative <= part);
        let i = found.min(self.points.len() - 1);
        let (length, cumulative) = self.points[i];
        if self.unit == Unit::Bytes {
            return length as u32;
        }
        let (from, below) = if i == 0 { (length, 0.0) } else { self.points[i - 1] };
        let inside = ((part - below) / (cumulative - below)).clamp(0.0, 1.0);
        ((from + (length - from) * inside).ceil().max(1.0) * PACKET) as u32
    }

    /// A random length.
    pub fn sample(&self, random: &mut Rand64) -> u32 {
        self.at(random.rand_float())
    }

    /// The mean of a function of the length: exact for lengths in bytes, and of 100,000 evenly
    /// spaced parts of the messages for lengths in packets.
    pub fn mean_of(&self, function: impl Fn(u32) -> f64) -> f64 {
        if self.unit == Unit::Bytes {
            let mut below = 0.0;
            let weighted = self.points.iter().map(|&(length, cumulative)| {
                let part = cumulative - std::mem::replace(&mut below, cumulative);
                part * function(length as u32)
            });
            return weighted.sum();
        }
        let parts = 100_000;
        let at = |i: u32| self.at((f64::from(i) + 0.5) / f64::from(parts));
        (0..parts).map(|i| function(at(i))).sum::<f64>() / f64::from(parts)
    }
}

/// Reads lines of a length and a cumulative part; `#` begins a comment.
fn parse(text: &str) -> Result<Vec<(f64, f64)>, String> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let values: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
        let Ok([length, part]) = values.as_deref() else {
            return Err(format!("line {}: write a length and a part", number + 1));
        };
        let last = points.last().copied().unwrap_or((0.0, 0.0));
        if *length < last.0 || *part < last.1 || *part > 1.0 {
            return Err(format!("line {}: write both in ascending order", number + 1));
        }
        points.push((*length, *part));
    }
    match points.last() {
        Some(&(_, 1.0)) => Ok(points),
        _ => Err("write a last line whose part is 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_a_file_have_their_line() {
        assert_eq!(parse("# a\n8 0.5\n16 1\n"), Ok(vec![(8.0, 0.5), (16.0, 1.0)]));
        assert!(parse("8 0.5\n4 1\n").unwrap_err().contains("line 2"));
        assert!(parse("8\n").unwrap_err().contains("line 1"));
        assert!(parse("8 0.5\n").unwrap_err().contains("last line"));
    }

    #[test]
    fn means_are_those_of_the_files() {
        // The means that the files' first lines name. That of websearch follows from its points.
        let means = [
            ("w1", 200.0),
            ("w2", 457.0),
            ("w3", 3_203.0),
            ("w4", 131_365.0),
            ("w5", 2_667_009.0),
            ("websearch", 1.667e6),
        ];
        for (name, expected) in means {
            let mean = Lengths::named(name).unwrap().mean_of(f64::from);
            assert!((mean / expected - 1.0).abs() < 0.005, "{name}: {mean}");
        }
    }

    #[test]
    fn samples_follow_the_distribution() {
        for name in Lengths::NAMES {
            let lengths = Lengths::named(name).unwrap();
            let mut random = Rand64::new(7);
            let mut samples: Vec<u32> = (0..100_000).map(|_| lengths.sample(&mut random)).collect();
            samples.sort_unstable();
            for part in [0.1, 0.5, 0.9, 0.99] {
                let (low, high) = (lengths.at(part - 0.005), lengths.at(part + 0.005));
                let found = samples[(part * 100_000.0) as usize];
                assert!(found >= low && found <= high, "{name} at {part}: {found}");
            }
        }
        assert_eq!(Lengths::fixed(100).sample(&mut Rand64::new(1)), 100);
        assert!(Lengths::named("w6").is_none());
    }

    #[test]
    fn lengths_in_packets_are_interpolated_and_whole() {
        let imc10 = Lengths::named("imc10").unwrap();
        assert_eq!(imc10.at(0.3), 1_460, "half of the flows have one packet");
        assert_eq!(imc10.at(0.55), 2 * 1_460);
        assert_eq!(imc10.at(0.95), 1_187 * 1_460);
        assert_eq!(imc10.at(1.0), 2_107 * 1_460);
    }
}
