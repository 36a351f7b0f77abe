//! `[[mount]]`: what programs do on mounted file systems, and `[[mount_paper]]`: what papers
//! printed of such measurements.

use crate::mount_figure::{MountCell, MountFigure, MountPlace, MountSystem, MountTest};
use serde::{Deserialize, Serialize};

/// Programs on a mounted file system: the product of the lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountPlan {
    /// Names of links of this plan.
    pub links: Vec<String>,
    /// Where the files are; absent: over the network.
    #[serde(default = "network")]
    pub places: Vec<MountPlace>,
    /// What mounts them; absent: NFS 4.2.
    #[serde(default = "newest")]
    pub systems: Vec<MountSystem>,
    /// TCP connections of each mount, by NFS over the network; absent: one.
    #[serde(default = "one_connection", skip_serializing_if = "is_one_connection")]
    pub nconnect: Vec<u32>,
    /// What is done.
    pub tests: Vec<MountTest>,
    /// Repetitions of each cell; absent: the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
}

/// The machines of all `[[mount]]`: one server and one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestsPlan {
    /// Memory of the server and of the client in MiB. The client's holds the files that it has
    /// read.
    pub memory_mib: [u64; 2],
    /// MiB of each of the server's disks.
    pub disk_mib: u64,
    /// A RAID-5 of three disks in place of a single one. It has room for what two of them hold.
    #[serde(default)]
    pub raid: bool,
}

impl GuestsPlan {
    /// The server's disks.
    pub fn disks(&self) -> usize {
        if self.raid { 3 } else { 1 }
    }

    /// Memory in MiB of the guest in which the programs of a place run.
    pub fn memory_of(&self, place: MountPlace) -> u64 {
        let [server, client] = self.memory_mib;
        if place == MountPlace::Network { client } else { server }
    }

    /// MiB that its file system is made on.
    pub(super) fn room_mib(&self) -> u64 {
        if self.raid { self.disk_mib * 2 } else { self.disk_mib }
    }
}

impl Default for GuestsPlan {
    fn default() -> Self {
        Self { memory_mib: [256, 192], disk_mib: 512, raid: false }
    }
}

/// A figure that a paper printed of a mounted file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountPaperPlan {
    /// Which `[source]`.
    pub source: String,
    /// The table, figure or section.
    pub at: String,
    /// What was measured there.
    pub what: String,
    /// What was printed.
    pub value: f64,
    /// The unit, if it is not that of the figure here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<PrintedUnit>,
    /// The figure here that it compares with.
    pub of: MountSelector,
}

/// A unit of papers that figures here do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrintedUnit {
    /// 1,024 bytes per second, as bonnie++ prints them.
    #[serde(rename = "KB/s")]
    Kibibytes,
    /// Minutes.
    #[serde(rename = "minutes")]
    Minutes,
}

impl PrintedUnit {
    /// The name in papers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kibibytes => "KB/s",
            Self::Minutes => "minutes",
        }
    }

    /// One of it in the unit here: MB/s or seconds.
    fn in_ours(self) -> f64 {
        match self {
            Self::Kibibytes => 1024.0 / 1e6,
            Self::Minutes => 60.0,
        }
    }
}

impl MountPaperPlan {
    /// The printed figure in the unit of the figure here.
    pub fn in_ours(&self) -> f64 {
        self.value * self.unit.map_or(1.0, PrintedUnit::in_ours)
    }
}

/// The first figure of NFS over the network, by one connection, that has all of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountSelector {
    /// The link.
    pub link: String,
    /// The program.
    pub program: String,
    /// Its figure.
    pub figure: String,
}

impl MountSelector {
    /// The figure of a run that it means.
    pub fn find<'a>(&self, figures: &'a [MountFigure]) -> Option<&'a MountFigure> {
        figures.iter().find(|one| {
            (one.cell.place, &one.link, &one.what)
                == (MountPlace::Network, &self.link, &self.figure)
                && one.cell.system.is_some_and(MountSystem::is_nfs)
                && one.cell.nconnect == 1
                && one.cell.test.program() == self.program
        })
    }
}

fn network() -> Vec<MountPlace> {
    vec![MountPlace::Network]
}
fn one_connection() -> Vec<u32> {
    vec![1]
}
fn is_one_connection(nconnect: &[u32]) -> bool {
    nconnect == [1]
}
fn newest() -> Vec<MountSystem> {
    vec![MountSystem::Nfs42]
}

impl MountPlan {
    /// The product of its lists. On the server's own file system, nothing is mounted.
    pub fn cells(&self) -> Vec<MountCell> {
        let mut cells = Vec::new();
        for &place in &self.places {
            let systems = match place {
                MountPlace::Disk => vec![None],
                _ => self.systems.iter().copied().map(Some).collect(),
            };
            for system in systems {
                for &nconnect in &self.nconnect {
                    let of = |test: &MountTest| {
                        let test = test.clone();
                        MountCell { place, system, nconnect, test }
                    };
                    cells.extend(self.tests.iter().map(of));
                }
            }
        }
        cells
    }

    /// Whether it measures the figure.
    pub(super) fn measures(&self, of: &MountSelector) -> bool {
        self.links.contains(&of.link)
            && self.places.contains(&MountPlace::Network)
            && self.systems.iter().any(|system| system.is_nfs())
            && self.nconnect.contains(&1)
            && self.tests.iter().any(|test| test.program() == of.program)
    }
}
