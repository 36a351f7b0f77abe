//! What a file server gave to reads and writes within a file: a cell of `[[access]]` and its
//! figures.

use crate::cost::Cost;
use crate::demand::Demand;
use crate::doubt::Doubt;
use crate::number::{file_size, size};
use crate::plan::Cpus;
use crate::service::Ground;
use serde::{Deserialize, Serialize};

/// What is done to the file; the names are those of `fio`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Reads one after the other.
    Read,
    /// Writes one after the other.
    Write,
    /// Reads at random places.
    Randread,
    /// Writes at random places.
    Randwrite,
    /// Half of it reads, half of it writes, at random places.
    Randrw,
}

impl Pattern {
    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Randread => "randread",
            Self::Randwrite => "randwrite",
            Self::Randrw => "randrw",
        }
    }

    /// Whether it reads.
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Randread | Self::Randrw)
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::Randread)
    }
}

/// The way to the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From a client's node over the link to the server.
    #[default]
    Network,
    /// From the server's own node: the service without the link.
    Localhost,
    /// To the file itself, without the service: what the measuring programs take.
    Local,
}

impl Way {
    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Localhost => "localhost",
            Self::Local => "local",
        }
    }
}

/// When the server answers a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Export {
    /// As the client wishes it, which is before the data is on the disk.
    #[default]
    Async,
    /// When the data is on the disk.
    Sync,
}

impl Export {
    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Sync => "sync",
        }
    }

    /// Whether it is the usual one.
    pub fn is_async(&self) -> bool {
        *self == Self::Async
    }
}

/// Reads and writes within a file, in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessCell {
    /// The service.
    pub service: String,
    /// The way to the file.
    pub way: Way,
    /// What is done.
    pub pattern: Pattern,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of each read and write.
    pub block: u64,
    /// How many of them are in flight.
    pub depth: u32,
    /// When the server answers a write.
    #[serde(default, skip_serializing_if = "Export::is_async")]
    pub export: Export,
    /// After so many writes the client waits until all is on the disk; 0: never.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fsync: u32,
    /// Seconds of a repetition; absent: until the whole file is through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl AccessCell {
    /// All of it in a few words, for people: `nfs randread 4K of 128 MB, depth 8, localhost`.
    pub fn title(&self) -> String {
        let (pattern, block) = (self.pattern.name(), size(self.block as f64));
        let mut title = format!("{} {pattern} {block} of {}", self.service, mebibytes(self.size));
        let mut add = |words: String| title += &format!(", {words}");
        add(format!("depth {}", self.depth));
        if self.way != Way::Network {
            add(self.way.name().to_owned());
        }
        if !self.export.is_async() {
            add(format!("{} export", self.export.name()));
        }
        if self.fsync > 0 {
            add(format!("fsync after {}", self.fsync));
        }
        title
    }
}

/// The size of a file that mostly is in MiB.
fn mebibytes(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{} MiB", bytes >> 20) } else { file_size(bytes) }
}

/// Times of single operations, from the call to its end, in microseconds: medians over the
/// repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Half of the operations are no slower.
    pub p50_us: f64,
    /// 99 % are no slower.
    pub p99_us: f64,
    /// 99.9 % are no slower.
    pub p999_us: f64,
}

/// What reads or writes came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRate {
    /// The figure to quote: median over the repetitions of the rate, in 10^6 bytes per second.
    pub median: f64,
    /// Confidence interval of `median`, from order statistics.
    pub ci95: [f64; 2],
    /// What an interval of so many repetitions really covers.
    pub coverage: f64,
    /// The rate of each repetition, in the order in which they were made.
    pub repetitions: Vec<f64>,
    /// Operations per second: median.
    pub operations: f64,
    /// The fewest operations that a repetition had.
    pub samples: u64,
    /// Times of single operations.
    pub latency: Latency,
    /// Confidence interval of `latency.p50_us` with the same coverage; absent with one repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ci95: Option<[f64; 2]>,
}

/// The figures of such a cell on a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessFigure {
    /// How the client reaches the files.
    pub ground: Ground,
    /// The link.
    pub link: String,
    /// What was done how.
    pub cell: AccessCell,
    /// Unit of the rates: `MB/s` (10^6 bytes per second).
    pub unit: String,
    /// The reads, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<AccessRate>,
    /// The writes, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<AccessRate>,
    /// Times until all was on the disk, if the client waited for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fsync: Option<Latency>,
    /// The fewest such waits that a repetition had.
    #[serde(default)]
    pub waits: u64,
    /// Bytes that were read and written in all repetitions.
    pub bytes: u64,
    /// Costs of the server's processes, added up over the repetitions.
    pub server: Cost,
    /// Costs of the client's programs, without their start.
    pub client: Cost,
    /// Whether both ends shared a CPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_cpu: bool,
    /// Rate that the shaped link allows TCP one way, in `unit`; absent: not shaped, or no link.
    pub limit: Option<f64>,
    /// Bytes that were written over this link to this server, read back and compared, before
    /// anything was measured; zero for other ways and exports.
    pub verified: u64,
    /// Bytes that the end with the file read from its disk in all repetitions; absent where the
    /// kernel does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_read: Option<u64>,
    /// The file system of the files and its place, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<String>,
    /// What the server's program says about its version.
    pub version: String,
    /// What the measuring program and the one behind it say of theirs.
    #[serde(default)]
    pub client_versions: Vec<String>,
    /// The command line of the measuring program.
    pub command: String,
    /// What may be wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
}

impl AccessRate {
    /// The time that 99 % of the operations do not exceed, if there were enough for that.
    pub fn p99_us(&self) -> Option<f64> {
        Some(self.latency.p99_us).filter(|_| self.samples >= 100)
    }

    /// The time that 99.9 % of the operations do not exceed, if there were enough for that.
    pub fn p999_us(&self) -> Option<f64> {
        Some(self.latency.p999_us).filter(|_| self.samples >= 1000)
    }
}

impl AccessFigure {
    /// Seconds of CPU per GB (10^9 bytes), at both ends together, interrupts included.
    pub fn cpu_per_gigabyte(&self) -> Option<f64> {
        let cpus = if self.one_cpu { Cpus::One } else { Cpus::Two };
        let demand = Demand::of(cpus, [&self.server, &self.client], self.bytes as f64)?;
        Some(demand.seconds_per_gigabyte())
    }

    /// The time that 99 % of the waits for the disk do not exceed, if there were enough for that.
    pub fn fsync_p99_us(&self) -> Option<f64> {
        Some(self.fsync?.p99_us).filter(|_| self.waits >= 100)
    }

    /// Reads and writes with the word for each, as far as there were any.
    pub fn sides(&self) -> impl Iterator<Item = (&'static str, &AccessRate)> {
        let sides = [("read", &self.read), ("write", &self.write)];
        sides.into_iter().filter_map(|(word, side)| Some((word, side.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_names_what_is_unusual_and_nothing_else() {
        let cell = AccessCell {
            service: "nfs".into(),
            way: Way::Network,
            pattern: Pattern::Randread,
            size: 128 << 20,
            block: 4096,
            depth: 8,
            export: Export::Async,
            fsync: 0,
            seconds: Some(1.0),
        };
        assert_eq!(cell.title(), "nfs randread 4K of 128 MiB, depth 8");
        let unusual = AccessCell {
            way: Way::Localhost,
            pattern: Pattern::Write,
            export: Export::Sync,
            fsync: 4,
            ..cell
        };
        let title = "nfs write 4K of 128 MiB, depth 8, localhost, sync export, fsync after 4";
        assert_eq!(unusual.title(), title);
    }

    #[test]
    fn a_pattern_reads_or_writes_or_both() {
        let both = |pattern: Pattern| (pattern.reads(), pattern.writes());
        assert_eq!(both(Pattern::Read), (true, false));
        assert_eq!(both(Pattern::Randwrite), (false, true));
        assert_eq!(both(Pattern::Randrw), (true, true));
    }
}
