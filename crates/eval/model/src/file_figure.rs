//! What a file service gave: a cell of `[[files]]` and its figures.

use crate::cost::Cost;
use crate::demand::Demand;
use crate::doubt::Doubt;
use crate::number::{file_size, grouped};
use crate::plan::Cpus;
use crate::service::{self, Connection, Direction, Ground, Protection, Sink};
use serde::{Deserialize, Serialize};

/// Of smaller files there is no rate: a shaped link carries much of them at once, and they cost
/// what starting the programs costs.
const LONG: u64 = 1_000_000;

/// A time is known if the client's clock has so many steps in it.
const STEPS: f64 = 10.0;

/// A file, or a tree of files, that is transferred in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileCell {
    /// The service.
    pub service: String,
    /// Bytes of the file.
    pub size: u64,
    /// How many such files; more than one are a tree, which is transferred as a whole.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub files: u32,
    /// Which end has it at first.
    #[serde(default, skip_serializing_if = "Direction::is_get")]
    pub direction: Direction,
    /// Where the copies go.
    pub to: Sink,
    /// Over which connection they come.
    pub connection: Connection,
    /// How many clients fetch it at once.
    pub clients: u32,
    /// What protects it on its way.
    #[serde(default, skip_serializing_if = "Protection::is_off")]
    pub protection: Protection,
    /// Memory of the server in bytes, the page cache of its files included; absent: not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Bytes per second at which the server can read its disk; absent: not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_rate: Option<f64>,
}

fn one() -> u32 {
    1
}

fn is_one(files: &u32) -> bool {
    *files == 1
}

impl FileCell {
    /// All bytes that a client transfers.
    pub fn bytes(&self) -> u64 {
        self.size * u64::from(self.files)
    }

    /// What is transferred, for people: `80 MB`, `10,000 files of 4,096 B`.
    pub fn what(&self) -> String {
        match self.files {
            1 => file_size(self.size),
            files => format!("{} files of {}", grouped(files.into(), ","), file_size(self.size)),
        }
    }

    /// Whether the file has a rate if it comes in so many milliseconds.
    pub fn has_rate(&self, transfer_ms: f64) -> bool {
        let clock = service::by_name(&self.service).map_or(0.0, |spec| spec.clock_ms);
        self.bytes() >= LONG && transfer_ms >= clock * STEPS
    }

    /// Whether server and way are as usual.
    pub fn is_plain(&self) -> bool {
        self.protection.is_off() && self.memory.is_none()
    }

    /// All of it in a few words, for people: `ftp 80 MB to null, kept, 4 clients`.
    pub fn title(&self) -> String {
        let what = self.what();
        let mut title = match self.direction {
            Direction::Get => format!("{} {what} to {}", self.service, self.to.name()),
            Direction::Put => format!("{} put {what}", self.service),
        };
        let mut add = |words: String| title += &format!(", {words}");
        if self.connection == Connection::Kept {
            add("kept".to_owned());
        }
        if self.clients > 1 {
            add(format!("{} clients", self.clients));
        }
        if !self.protection.is_off() {
            add(self.protection.name().to_owned());
        }
        if let Some(memory) = self.memory {
            add(format!("{} MiB of memory", memory >> 20));
        }
        title
    }
}

/// The figures of such a file on a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileFigure {
    /// How the client reaches the files.
    pub ground: Ground,
    /// The link.
    pub link: String,
    /// What was transferred how.
    pub cell: FileCell,
    /// Unit of the rates: `MB/s` (10^6 bytes per second).
    pub unit: String,
    /// The figure to quote: median over the repetitions of the rate of all clients together, from
    /// the begin of the transfer to its end. Absent: the transfer is too short for a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// Confidence interval of `median`, from order statistics; absent with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// What an interval of so many repetitions really covers; less than 0.95 for fewer than six.
    pub coverage: f64,
    /// Time of each repetition's transfer in milliseconds, in the order in which they were made.
    pub repetitions: Vec<f64>,
    /// Median time before the transfer, in milliseconds: start of the client, connection, login,
    /// commands. Absent: the client does not say, so all its time is that of the transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_ms: Option<f64>,
    /// Median time from the start of the client to its end, in milliseconds; of several, that of
    /// the one that ran longest. Absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_ms: Option<f64>,
    /// Confidence interval of `whole_ms`, with the same coverage. Absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_ci95: Option<[f64; 2]>,
    /// Median time of the transfer itself, in milliseconds; of several clients, from the begin of
    /// the first one's to the end of the last one's.
    pub transfer_ms: f64,
    /// The rate of each client in the middle repetition; none if there is no rate.
    pub shares: Vec<f64>,
    /// Bytes that the server read from its disk in each repetition; absent where the kernel does
    /// not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_reads: Option<Vec<u64>>,
    /// Costs of the server's processes, added up over the repetitions.
    pub server: Cost,
    /// Costs of the clients' processes.
    pub client: Cost,
    /// Whether both ends shared a CPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_cpu: bool,
    /// Rate that the shaped links of the clients' nodes allow TCP, in `unit`; absent: not shaped.
    pub limit: Option<f64>,
    /// How many copies of this file with this protection from this server were compared with it by
    /// their hashes, outside of the measured time.
    pub verified: u64,
    /// What the server's program says about its version.
    pub version: String,
    /// What the client's program says about its version; absent: it is the server's, or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_version: Option<String>,
    /// A client's command line.
    pub command: String,
    /// File system of the store, with its place, as `ext4 on /var/tmp`; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<String>,
    /// What may be wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
}

impl FileFigure {
    /// The rate in Mbit/s.
    pub fn mbit(&self) -> Option<f64> {
        Some(self.median? * 8.0)
    }

    /// Seconds of CPU per GB (10^9 bytes), at both ends together, interrupts included; of short
    /// transfers the kernel's ticks show too little.
    pub fn cpu_per_gigabyte(&self) -> Option<f64> {
        self.median?;
        let copies = self.repetitions.len() as f64 * f64::from(self.cell.clients);
        let cpus = if self.one_cpu { Cpus::One } else { Cpus::Two };
        let ends = [&self.server, &self.client];
        let demand = Demand::of(cpus, ends, copies * self.cell.bytes() as f64)?;
        Some(demand.seconds_per_gigabyte())
    }

    /// How much of the file the server read from its disk, in the middle repetition.
    pub fn read_share(&self) -> Option<f64> {
        let mut reads = self.disk_reads.clone()?;
        reads.sort_unstable();
        let copies = self.cell.bytes() * u64::from(self.cell.clients);
        Some(*reads.get(reads.len() / 2)? as f64 / copies as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_names_what_is_unusual_and_nothing_else() {
        let cell = FileCell {
            service: "ftp".into(),
            size: 80_000_000,
            files: 1,
            direction: Direction::Get,
            to: Sink::Null,
            connection: Connection::New,
            clients: 1,
            protection: Protection::Off,
            memory: None,
            disk_rate: None,
        };
        assert_eq!(cell.title(), "ftp 80 MB to null");
        assert!(cell.has_rate(7.0));
        let smb = FileCell { service: "smb".into(), ..cell.clone() };
        assert!(!smb.has_rate(7.0) && smb.has_rate(10.0), "its clock counts milliseconds");
        assert!(!FileCell { size: 2000, ..cell.clone() }.has_rate(1e3));
        let tree = FileCell { size: 4096, files: 10_000, to: Sink::Disk, ..cell.clone() };
        assert_eq!(tree.title(), "ftp 10,000 files of 4,096 B to disk");
        assert!(tree.has_rate(7.0) && tree.bytes() == 40_960_000);
        let put = FileCell { direction: Direction::Put, ..tree };
        assert_eq!(put.title(), "ftp put 10,000 files of 4,096 B");
        let unusual = FileCell {
            size: 1234,
            connection: Connection::Kept,
            clients: 7,
            protection: Protection::Sign,
            memory: Some(64 << 20),
            ..cell
        };
        let title = "ftp 1,234 B to null, kept, 7 clients, sign, 64 MiB of memory";
        assert_eq!(unusual.title(), title);
    }
}
