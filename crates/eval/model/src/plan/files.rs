//! `[[files]]`: which file services are measured how, and `[[file_paper]]`: what papers printed of
//! such measurements.

use super::form::{LinkPlan, Plan};
use crate::file_figure::{FileCell, FileFigure};
use crate::service::{self, Connection, Direction, Ground, Protection, ServiceSpec, Sink};
use serde::{Deserialize, Serialize};

/// Smallest and largest file in bytes: a run creates them.
const SIZES: [u64; 2] = [1, 4 << 30];

/// Most files of a tree, and how many are in each of its directories.
const TREE: [u32; 2] = [10_000, 100];

/// Most clients at once; a node's CPU has them all.
const MOST_CLIENTS: u32 = 16;

/// Memory of a server in MiB: less starts no server.
const MEMORY: [u64; 2] = [16, 1 << 20];

/// Files that a service transfers: the product of the lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesPlan {
    /// The name of the service.
    pub service: String,
    /// Names of links of this plan.
    pub links: Vec<String>,
    /// Sizes of the files in bytes.
    pub sizes: Vec<u64>,
    /// How many such files; more than one are a tree; absent: one.
    #[serde(default = "one")]
    pub files: Vec<u32>,
    /// Whether clients fetch or send; absent: they fetch.
    #[serde(default = "usual")]
    pub directions: Vec<Direction>,
    /// Where the copies go; absent: to null.
    #[serde(default = "usual")]
    pub to: Vec<Sink>,
    /// Over which connections they come; absent: new ones.
    #[serde(default = "usual")]
    pub connections: Vec<Connection>,
    /// How many clients fetch the file at once, each on its own node as far as there are nodes;
    /// absent: one.
    #[serde(default = "one")]
    pub clients: Vec<u32>,
    /// What protects the copies; absent: nothing.
    #[serde(default = "usual")]
    pub protections: Vec<Protection>,
    /// Memory of the server in MiB, the page cache of its files included; absent: all there is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_mib: Vec<u64>,
    /// Rate in Mbit/s at which the server can read its disk; absent: as fast as the disk is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_mbit: Option<f64>,
    /// Repetitions of each cell; absent: the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
}

/// A figure that a paper printed of a file service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilePaperPlan {
    /// Which `[source]`.
    pub source: String,
    /// The table, figure or section.
    pub at: String,
    /// What was measured there.
    pub what: String,
    /// The rate that was printed, in Mbit/s.
    pub mbit: f64,
    /// Whether the rate stayed below this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
    /// The cell here that it compares with.
    pub of: FileSelector,
}

/// The first cell of a single client, over a new connection and without protection, that has all of
/// these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSelector {
    /// The service.
    pub service: String,
    /// The link.
    pub link: String,
    /// Bytes of the file.
    pub size: u64,
    /// Where the copies go; absent: to null.
    #[serde(default)]
    pub to: Sink,
    /// The server's memory in MiB, where it is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
}

impl FileSelector {
    /// The figure of a run that it means. The time of a guest of the NIC lab is virtual, so its
    /// figures stand beside no others.
    pub fn find<'a>(&self, figures: &'a [FileFigure]) -> Option<&'a FileFigure> {
        let real = |one: &&FileFigure| one.ground == Ground::Transfer && one.link == self.link;
        figures.iter().filter(real).find(|one| self.fits(&one.cell))
    }

    fn fits(&self, cell: &FileCell) -> bool {
        let usual = (self.to, Connection::New, 1, Protection::Off);
        (cell.service.as_str(), cell.size, cell.memory) == (&self.service, self.size, self.memory())
            && (cell.to, cell.connection, cell.clients, cell.protection) == usual
            && (cell.files, cell.direction) == (1, Direction::Get)
    }

    fn memory(&self) -> Option<u64> {
        self.memory_mib.map(|mib| mib << 20)
    }
}

fn usual<T: Default>() -> Vec<T> {
    vec![T::default()]
}
fn one() -> Vec<u32> {
    vec![1]
}

impl FilesPlan {
    /// The product of its lists.
    pub fn cells(&self) -> Vec<FileCell> {
        let memories: Vec<Option<u64>> = match &self.memory_mib[..] {
            [] => vec![None],
            some => some.iter().map(|mib| Some(mib << 20)).collect(),
        };
        // Each further list multiplies the cells; the last one changes fastest.
        let first = |&memory: &Option<u64>| FileCell {
            service: self.service.clone(),
            size: 1,
            files: 1,
            direction: Direction::Get,
            to: Sink::Null,
            connection: Connection::New,
            clients: 1,
            protection: Protection::Off,
            memory,
            disk_rate: self.disk_mbit.map(|mbit| mbit * 1e6 / 8.0),
        };
        let cells = memories.iter().map(first).collect();
        let cells =
            each(cells, &self.protections, |cell, &protection| cell.protection = protection);
        let cells = each(cells, &self.sizes, |cell, &size| cell.size = size);
        let cells = each(cells, &self.files, |cell, &files| cell.files = files);
        let cells = each(cells, &self.directions, |cell, &direction| cell.direction = direction);
        let cells = each(cells, &self.to, |cell, &to| cell.to = to);
        let cells = each(cells, &self.connections, |cell, &kept| cell.connection = kept);
        each(cells, &self.clients, |cell, &clients| cell.clients = clients)
    }

    /// Whether a cell of it is meant.
    pub(super) fn measures(&self, of: &FileSelector) -> bool {
        self.links.contains(&of.link) && self.cells().iter().any(|cell| of.fits(cell))
    }

    fn check(&self, plan: &Plan) -> Result<(), String> {
        let Some(spec) = service::by_name(&self.service) else {
            return Err(format!("unknown service, known: {}", service::names()));
        };
        if let Some(name) = self.links.iter().find(|name| !plan.link.contains_key(*name)) {
            return Err(format!("unknown link '{name}'"));
        }
        if self.links.iter().any(|name| plan.is_loopback(name)) {
            return Err("a loopback has no second node for the server".into());
        }
        // Of several clients' rates, the server's port is the limit.
        let unlimited = |name: &&String| {
            let link = &plan.link[*name];
            link.nodes > 2 && link.rate_mbit.is_some() && link.server_rate_mbit.is_none()
        };
        let several = self.clients.iter().any(|clients| *clients > 1);
        if let Some(name) = self.links.iter().find(|name| several && unlimited(name)) {
            return Err(format!("several clients on link '{name}' need its server_rate_mbit"));
        }
        if self.links.is_empty() || self.cells().is_empty() {
            return Err("no list may be empty, but for memory_mib".into());
        }
        let goes_down = |name: &&String| plan.link[*name].goes_down();
        if let Some(name) = self.links.iter().find(|name| several && goes_down(name)) {
            return Err(format!("link '{name}' goes down for one client; leave out clients"));
        }
        let cells = self.cells();
        cells.iter().try_for_each(|cell| check_size(cell.size, cell.files))?;
        cells.iter().try_for_each(|cell| possible(spec, cell))?;
        if !self.clients.iter().all(|clients| (1..=MOST_CLIENTS).contains(clients)) {
            return Err(format!("clients must be from 1 to {MOST_CLIENTS}"));
        }
        if !self.memory_mib.iter().all(|mib| (MEMORY[0]..=MEMORY[1]).contains(mib)) {
            return Err(format!("memory_mib must be from {} to {}", MEMORY[0], MEMORY[1]));
        }
        if self.disk_mbit.is_some_and(|mbit| !(1.0..=1e6).contains(&mbit)) {
            return Err("disk_mbit must be from 1 to 1000000".into());
        }
        if self.disk_mbit.is_some() && self.memory_mib.is_empty() {
            return Err("disk_mbit needs memory_mib, or the disk is never read".into());
        }
        if !spec.protects && self.protections.iter().any(|one| !one.is_off()) {
            return Err("this service has no protections; leave them out".into());
        }
        if self.repetitions.is_some_and(|times| !(1..=1000).contains(&times)) {
            return Err("repetitions must be from 1 to 1000".into());
        }
        Ok(())
    }
}

/// Every cell with every one of these values.
fn each<T>(cells: Vec<FileCell>, values: &[T], set: impl Fn(&mut FileCell, &T)) -> Vec<FileCell> {
    let with = |cell: FileCell| {
        let set = &set;
        values.iter().map(move |value| {
            let mut cell = cell.clone();
            set(&mut cell, value);
            cell
        })
    };
    cells.into_iter().flat_map(with).collect()
}

/// Whether a run creates a file of this size, or so many of them.
pub fn check_size(size: u64, files: u32) -> Result<(), String> {
    if !(SIZES[0]..=SIZES[1]).contains(&size) {
        return Err(format!("sizes must be from {} to {} bytes", SIZES[0], SIZES[1]));
    }
    let [most, each] = TREE;
    if files != 1 && !(files.is_multiple_of(each) && (each..=most).contains(&files)) {
        return Err(format!("files must be 1, or hundreds up to {most}"));
    }
    if size.saturating_mul(files.into()) > SIZES[1] {
        return Err(format!("all files together have at most {} bytes", SIZES[1]));
    }
    Ok(())
}

/// What a service cannot do, and what is not measured.
fn possible(spec: &ServiceSpec, cell: &FileCell) -> Result<(), String> {
    let plain = cell.to == Sink::Disk && cell.connection == Connection::New;
    if !spec.streams && !plain {
        let why = "this service only copies to disk, over new connections: to = [\"disk\"]";
        return Err(why.into());
    }
    let special = !cell.direction.is_get() || cell.files > 1;
    if special && !(plain && cell.clients == 1 && cell.memory.is_none()) {
        return Err("trees, and files that are sent, go to disk, over a new connection, by one \
                    client and without memory_mib"
            .into());
    }
    if cell.files > 1 && !spec.trees.contains(&cell.direction) {
        return Err(match cell.direction {
            Direction::Get => "the client of this service fetches no trees; leave out files",
            Direction::Put => "the client of this service sends no trees; leave out directions",
        }
        .into());
    }
    Ok(())
}

impl Plan {
    /// The files that are transferred on a link, with the repetitions of each, in the plan's order;
    /// `link` is `None` between two machines.
    pub fn file_cells(&self, link: Option<&str>) -> Vec<(FileCell, u32)> {
        let here = |files: &&FilesPlan| {
            link.is_none_or(|link| files.links.iter().any(|name| name == link))
        };
        let mut all: Vec<(FileCell, u32)> = Vec::new();
        for files in self.files.iter().filter(here) {
            for cell in files.cells() {
                if !all.iter().any(|(other, _)| *other == cell) {
                    all.push((cell, files.repetitions.unwrap_or(self.repetitions)));
                }
            }
        }
        all
    }

    /// Checks services and what papers printed of them; the error names the one that is wrong.
    pub(super) fn check_files(&self) -> Result<(), String> {
        let used = self.experiment.iter().flat_map(|one| &one.links);
        let used = used.chain(self.access.iter().flat_map(|one| &one.links));
        let used = used.chain(self.metadata.iter().flat_map(|one| &one.links));
        let used = used.chain(self.shares.iter().flat_map(|one| &one.links));
        let used = used.chain(self.mount.iter().flat_map(|one| &one.links));
        let mut used = used.chain(self.tune.iter().flat_map(|one| one.links.iter().flatten()));
        let goes_down = |name: &&String| self.link.get(*name).is_some_and(LinkPlan::goes_down);
        if let Some(name) = used.find(goes_down) {
            return Err(format!("link '{name}' has down_ms, so it is for [[files]] only"));
        }
        for files in &self.files {
            files.check(self).map_err(|why| format!("files '{}': {why}", files.service))?;
        }
        for paper in &self.file_paper {
            if !self.source.contains_key(&paper.source) {
                return Err(format!("file_paper '{}': unknown source", paper.source));
            }
            if !self.files.iter().any(|files| files.measures(&paper.of)) {
                let (source, at) = (&paper.source, &paper.at);
                return Err(format!("file_paper '{source} {at}': no [[files]] measures it"));
            }
        }
        Ok(())
    }
}
