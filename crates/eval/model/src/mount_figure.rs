//! What programs gave on a mounted file system: a cell of `[[mount]]` and its figures.

use crate::doubt::Doubt;
use crate::service::Ground;
use serde::{Deserialize, Serialize};

/// What mounts the files of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MountSystem {
    /// NFS 4.2, by the kernel: it has state and delegations.
    #[serde(rename = "nfs-4.2")]
    Nfs42,
    /// NFS 3, by the kernel: no state.
    #[serde(rename = "nfs-3")]
    Nfs3,
    /// CIFS by the kernel, from smbd: SMB 3.1.1.
    #[serde(rename = "cifs")]
    Cifs,
    /// `gigae mount`, by FUSE.
    #[serde(rename = "gigae")]
    Gigae,
}

impl MountSystem {
    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Nfs42 => "NFS 4.2",
            Self::Nfs3 => "NFS 3",
            Self::Cifs => "CIFS",
            Self::Gigae => "gigae mount",
        }
    }

    /// Whether it is NFS.
    pub fn is_nfs(self) -> bool {
        matches!(self, Self::Nfs42 | Self::Nfs3)
    }
}

/// Where the files are, as the program that uses them sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MountPlace {
    /// On the server's own file system, without NFS.
    Disk,
    /// Mounted in the server itself: NFS without a network.
    Localhost,
    /// Mounted in another guest, over the link.
    Network,
}

impl MountPlace {
    /// The name in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Localhost => "localhost",
            Self::Network => "network",
        }
    }
}

/// How fio uses its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FioPattern {
    /// From the begin to the end.
    Read,
    /// At random places.
    RandRead,
    /// At random places, half of it writing.
    RandRw,
}

impl FioPattern {
    /// The name in plans and results, and fio's own.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::RandRead => "randread",
            Self::RandRw => "randrw",
        }
    }
}

/// A program and what it is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "program", deny_unknown_fields)]
pub enum MountTest {
    /// fio: one file, 4 KiB at a time, by read(2) and write(2), as its defaults are.
    #[serde(rename = "fio")]
    Fio {
        /// How.
        pattern: FioPattern,
        /// MiB of the file.
        mib: u64,
    },
    /// bonnie++: large files, and many empty ones.
    #[serde(rename = "bonnie++")]
    Bonnie {
        /// MiB of the large files; 0 leaves them out.
        mib: u64,
        /// How many times 1,024 empty files are created, looked at and deleted; 0 leaves them out.
        files: u32,
        /// Whether large files are also written and read byte by byte.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        bytes: bool,
    },
    /// GNU find and stat: attributes of empty files that this host has not seen yet. It writes
    /// nothing.
    #[serde(rename = "stat")]
    Stat {
        /// How many times 1,024 files; there are as many again for the second figure.
        files: u32,
    },
    /// Two clients: one writes a file and closes it, then the other one opens it, or only looks at
    /// its attributes.
    #[serde(rename = "two-clients")]
    TwoClients {
        /// How often the file gets other contents, of the same size, and is opened then.
        openings: u32,
        /// How often it gets another size, which is then waited for.
        looks: u32,
    },
}

impl MountTest {
    /// The program.
    pub fn program(&self) -> &'static str {
        match self {
            Self::Fio { .. } => "fio",
            Self::Bonnie { .. } => "bonnie++",
            Self::Stat { .. } => "stat",
            Self::TwoClients { .. } => "two-clients",
        }
    }

    /// It in a few words, for people: `fio randread 128 MiB`.
    pub fn title(&self) -> String {
        match self {
            Self::Fio { pattern, mib } => format!("fio {} {mib} MiB", pattern.name()),
            Self::Bonnie { mib, files, .. } => match (mib, files) {
                (0, files) => format!("bonnie++ {files}x1024 files"),
                (mib, 0) => format!("bonnie++ {mib} MiB"),
                (mib, files) => format!("bonnie++ {mib} MiB, {files}x1024 files"),
            },
            Self::Stat { files } => format!("stat {files}x1024 files"),
            Self::TwoClients { openings, looks } => {
                format!("two clients, {openings} openings, {looks} looks")
            }
        }
    }

    /// MiB that it needs on the file system.
    pub fn needs(&self) -> u64 {
        match self {
            Self::Fio { mib, .. } | Self::Bonnie { mib, .. } => *mib,
            Self::Stat { .. } | Self::TwoClients { .. } => 0,
        }
    }

    /// How many times 1,024 small files it uses.
    pub fn files(&self) -> u32 {
        match self {
            Self::Fio { .. } | Self::TwoClients { .. } => 0,
            Self::Bonnie { files, .. } | Self::Stat { files } => *files,
        }
    }
}

fn one_connection() -> u32 {
    1
}
fn is_one_connection(value: &u32) -> bool {
    *value == 1
}

/// A test in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountCell {
    /// Where the files are.
    pub place: MountPlace,
    /// What mounts them; absent on the server's own file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<MountSystem>,
    /// TCP connections of an NFS mount.
    #[serde(default = "one_connection", skip_serializing_if = "is_one_connection")]
    pub nconnect: u32,
    /// What is done.
    pub test: MountTest,
}

impl MountCell {
    /// What mounts it, and how: `NFS 4.2, nconnect 4`. `None`: it is not mounted.
    pub fn by(&self) -> Option<String> {
        let connections = (self.nconnect > 1).then(|| format!(", nconnect {}", self.nconnect));
        Some(self.system?.title().to_owned() + &connections.unwrap_or_default())
    }

    /// Place and file system in a few words: `network, NFS 4.2, nconnect 4`.
    pub fn way(&self) -> String {
        let by = self.by().map(|by| format!(", {by}"));
        self.place.name().to_owned() + &by.unwrap_or_default()
    }

    /// All of it in a few words.
    pub fn title(&self) -> String {
        format!("{}, {}", self.test.title(), self.way())
    }
}

/// One figure of such a test on a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountFigure {
    /// How the files are reached.
    pub ground: Ground,
    /// The link; on the server's own file system and its localhost it plays no part.
    pub link: String,
    /// What was done where.
    pub cell: MountCell,
    /// Which figure of the program's, in its words: `read`, `create (sequential)`.
    pub what: String,
    /// Its unit: `MB/s` (10^6 bytes per second), `/s`, `s` or `openings`.
    pub unit: String,
    /// The figure to quote: median over the repetitions.
    pub median: f64,
    /// Confidence interval of `median`, from order statistics; absent with one repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// Each repetition's figure, in the order in which they were made.
    pub repetitions: Vec<f64>,
    /// The program's share of its guest's processor in percent during the middle repetition, where
    /// the program says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// The least and the most that the program saw during the middle repetition, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// The program's command line.
    pub command: String,
    /// What may be wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
}

/// What a guest's kernel is, and what it costs: the same program on the same link inside of guests
/// and outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestShare {
    /// The link.
    pub link: String,
    /// The release of the guests' kernel.
    pub kernel: String,
    /// Median round trip of TCP with 14 bytes between two guests, and between the same nodes
    /// before the guests boot, in microseconds.
    pub trip_us: [f64; 2],
    /// Rate of a TCP stream between two guests, and without guests, in MB/s.
    pub stream: [f64; 2],
    /// A system call of a program that does nothing, in a guest and outside, in microseconds. The
    /// guest's kernel stops the program twice for each one. Programs in user space pay this, such
    /// as `gigae mount`; the guest's kernel, and so its NFS, does not.
    pub call_us: [f64; 2],
    /// Files whose hash was compared at the other end of a mount.
    pub verified: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_say_what_is_done_where() {
        let of = |place, system, test| MountCell { place, system, nconnect: 1, test };
        let fio = MountTest::Fio { pattern: FioPattern::RandRead, mib: 128 };
        let cell = of(MountPlace::Network, Some(MountSystem::Nfs42), fio);
        assert_eq!(cell.title(), "fio randread 128 MiB, network, NFS 4.2");
        let files = MountTest::Bonnie { mib: 0, files: 16, bytes: false };
        let cell = of(MountPlace::Disk, None, files);
        assert_eq!(cell.title(), "bonnie++ 16x1024 files, disk");
        let large = MountTest::Bonnie { mib: 4096, files: 0, bytes: true };
        assert_eq!((large.title().as_str(), large.needs()), ("bonnie++ 4096 MiB", 4096));
        let stat = MountTest::Stat { files: 4 };
        let system = Some(MountSystem::Gigae);
        let cell = of(MountPlace::Network, system, stat);
        assert_eq!(cell.title(), "stat 4x1024 files, network, gigae mount");
        let clients = MountTest::TwoClients { openings: 20, looks: 3 };
        let system = Some(MountSystem::Nfs3);
        let many = MountCell { nconnect: 4, ..of(MountPlace::Network, system, clients) };
        assert_eq!(many.title(), "two clients, 20 openings, 3 looks, network, NFS 3, nconnect 4");
    }
}
