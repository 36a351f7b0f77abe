//! `[[access]]`: which reads and writes within a file of a server are measured, and
//! `[[access_paper]]`: what papers printed of such measurements.

use super::form::Plan;
use crate::access::{AccessCell, AccessFigure, AccessRate, Export, Pattern, Way};
use crate::service;
use serde::{Deserialize, Serialize};

/// Smallest and largest file in MiB: a run creates them.
const SIZES: [u64; 2] = [1, 4096];

/// Smallest and largest block in bytes. Programs between client and server count in sectors of 512
/// bytes.
const BLOCKS: [u64; 2] = [512, 4 << 20];

/// Most reads and writes in flight.
const MOST_DEPTH: u32 = 64;

/// A connection has so many of them at most: `qemu-nbd` works at no more at a time.
pub const DEPTH_OF_CONNECTION: u32 = 16;

/// Reads and writes within a file: the product of the lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessPlan {
    /// The name of the service.
    pub service: String,
    /// Names of links of this plan.
    pub links: Vec<String>,
    /// Size of the file in MiB.
    pub size_mib: u64,
    /// What is done.
    pub patterns: Vec<Pattern>,
    /// Bytes of each read and write.
    pub blocks: Vec<u64>,
    /// How many of them are in flight.
    pub depths: Vec<u32>,
    /// Ways to the file; absent: over the link.
    #[serde(default = "usual")]
    pub ways: Vec<Way>,
    /// When the server answers a write; absent: as the client wishes.
    #[serde(default = "usual")]
    pub exports: Vec<Export>,
    /// After so many writes the client waits until all is on the disk; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fsync: Option<u32>,
    /// Seconds of a repetition; absent: until the whole file is through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Repetitions of each cell; absent: the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
}

/// A figure that a paper printed of reads or writes within a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessPaperPlan {
    /// Which `[source]`.
    pub source: String,
    /// The table, figure or section.
    pub at: String,
    /// What was measured there.
    pub what: String,
    /// The rate that was printed, in 10^6 bytes per second.
    pub megabytes: f64,
    /// The cell here that it compares with.
    pub of: AccessSelector,
}

/// The first cell over the link, with the usual export and without fsync, that has all of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessSelector {
    /// The service.
    pub service: String,
    /// The link.
    pub link: String,
    /// What is done.
    pub pattern: Pattern,
    /// Bytes of each read and write.
    pub block: u64,
    /// How many of them are in flight.
    pub depth: u32,
    /// Its writes, of a pattern that has both; absent: its reads, if it has any.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writes: bool,
}

impl AccessSelector {
    /// The figure of a run that it means, and its reads or writes.
    pub fn find<'a>(
        &self,
        figures: &'a [AccessFigure],
    ) -> Option<(&'a AccessFigure, &'a AccessRate)> {
        let one = figures.iter().find(|one| self.fits(&one.cell) && one.link == self.link)?;
        let reads = one.read.as_ref().filter(|_| !self.writes);
        Some((one, reads.or(one.write.as_ref())?))
    }

    fn fits(&self, cell: &AccessCell) -> bool {
        let wanted = (&*self.service, self.pattern, self.block, self.depth);
        (&*cell.service, cell.pattern, cell.block, cell.depth) == wanted
            && (cell.way, cell.export, cell.fsync) == (Way::Network, Export::Async, 0)
    }
}

/// How many connections a depth needs.
pub fn connections(depth: u32) -> u32 {
    depth.div_ceil(DEPTH_OF_CONNECTION)
}

fn usual<T: Default>() -> Vec<T> {
    vec![T::default()]
}

impl AccessPlan {
    /// The product of its lists.
    pub fn cells(&self) -> Vec<AccessCell> {
        let mut cells = Vec::new();
        for &way in &self.ways {
            for &pattern in &self.patterns {
                for &export in &self.exports {
                    for &block in &self.blocks {
                        cells.extend(self.depths.iter().map(|&depth| AccessCell {
                            service: self.service.clone(),
                            way,
                            pattern,
                            size: self.size_mib << 20,
                            block,
                            depth,
                            export,
                            fsync: self.fsync.unwrap_or(0),
                            seconds: self.seconds,
                        }));
                    }
                }
            }
        }
        cells
    }

    /// Whether a cell of it is meant.
    pub(super) fn measures(&self, of: &AccessSelector) -> bool {
        self.links.contains(&of.link) && self.cells().iter().any(|cell| of.fits(cell))
    }

    fn check(&self, plan: &Plan) -> Result<(), String> {
        if !service::by_name(&self.service).is_some_and(|spec| spec.accesses) {
            let known = service::SERVICES.iter().filter(|spec| spec.accesses);
            let known: Vec<&str> = known.map(|spec| spec.name).collect();
            return Err(format!("no such service, known: {}", known.join(", ")));
        }
        if let Some(name) = self.links.iter().find(|name| !plan.link.contains_key(*name)) {
            return Err(format!("unknown link '{name}'"));
        }
        if self.links.iter().any(|name| plan.is_loopback(name)) {
            return Err("a loopback has no second node for the server".into());
        }
        if self.links.is_empty() || self.cells().is_empty() {
            return Err("no list may be empty".into());
        }
        let within = |[least, most]: [u64; 2], value: u64| (least..=most).contains(&value);
        if !within(SIZES, self.size_mib) {
            return Err(format!("size_mib must be from {} to {}", SIZES[0], SIZES[1]));
        }
        // Each connection has at least one block of its own.
        let parts = self.depths.iter().map(|&depth| u64::from(connections(depth))).max();
        let most = (self.size_mib << 20) / parts.unwrap_or(1).max(1);
        let whole = |block: &u64| block.is_multiple_of(512) && *block <= most;
        if !self.blocks.iter().all(|block| within(BLOCKS, *block) && whole(block)) {
            let [least, most] = BLOCKS;
            return Err(format!(
                "blocks must be multiples of {least} up to {most} bytes, and no larger than a connection's part of \
                 the file"
            ));
        }
        let known = |depth: &u32| {
            (1..=DEPTH_OF_CONNECTION).contains(depth)
                || (*depth <= MOST_DEPTH && depth.is_multiple_of(DEPTH_OF_CONNECTION))
        };
        if !self.depths.iter().all(known) {
            return Err(format!(
                "depths must be from 1 to {DEPTH_OF_CONNECTION}, or multiples of that up to {MOST_DEPTH}"
            ));
        }
        let writes = self.patterns.iter().all(|pattern| pattern.writes());
        if !writes && (self.fsync.is_some() || self.exports.contains(&Export::Sync)) {
            return Err("fsync and a sync export need patterns that write; set them apart".into());
        }
        if self.fsync == Some(0) {
            return Err("fsync must be at least 1".into());
        }
        // Between two writes, fio would wait again after each read.
        if self.fsync.is_some() && self.patterns.iter().any(|pattern| pattern.reads()) {
            return Err("fsync needs patterns that only write".into());
        }
        let local = self.ways.contains(&Way::Local);
        if local && self.exports.contains(&Export::Sync) {
            return Err("the way 'local' has no export; set it apart".into());
        }
        if self.seconds.is_some_and(|seconds| !(0.1..=600.0).contains(&seconds)) {
            return Err("seconds must be from 0.1 to 600".into());
        }
        if self.repetitions.is_some_and(|times| !(1..=1000).contains(&times)) {
            return Err("repetitions must be from 1 to 1000".into());
        }
        Ok(())
    }
}

impl Plan {
    /// The reads and writes that are measured on a link, with the repetitions of each, in the
    /// plan's order; `link` is `None` between two machines.
    pub fn access_cells(&self, link: Option<&str>) -> Vec<(AccessCell, u32)> {
        let here = |access: &&AccessPlan| {
            link.is_none_or(|link| access.links.iter().any(|name| name == link))
        };
        let mut all: Vec<(AccessCell, u32)> = Vec::new();
        for access in self.access.iter().filter(here) {
            for cell in access.cells() {
                if !all.iter().any(|(other, _)| *other == cell) {
                    all.push((cell, access.repetitions.unwrap_or(self.repetitions)));
                }
            }
        }
        all
    }

    /// Checks them and what papers printed of them; the error names the one that is wrong.
    pub(super) fn check_access(&self) -> Result<(), String> {
        for access in &self.access {
            access.check(self).map_err(|why| format!("access '{}': {why}", access.service))?;
        }
        for paper in &self.access_paper {
            if !self.source.contains_key(&paper.source) {
                return Err(format!("access_paper '{}': unknown source", paper.source));
            }
            if !self.access.iter().any(|access| access.measures(&paper.of)) {
                let (source, at) = (&paper.source, &paper.at);
                return Err(format!("access_paper '{source} {at}': no [[access]] measures it"));
            }
        }
        Ok(())
    }
}
