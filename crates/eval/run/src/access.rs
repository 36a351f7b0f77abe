//! Reads and writes within a file of a server, on the link that is being measured: the server in
//! its second node, the client in the first one.
//!
//! Cells of one service have one server, and come in rounds. Before anything is measured, a part of
//! the file is written over the link, read back and compared.

use crate::error::RunError;
use crate::gather::{cpu_doubts, few_repetitions};
use crate::repetition::limit_of_tcp;
use crate::rounds::Running;
use crate::services::{FABRIC_ONLY, Repeated, repetitions};
use gigae_eval_model::access::{AccessCell, AccessFigure, AccessRate, Export, Latency, Way};
use gigae_eval_model::cost::Cost;
use gigae_eval_model::doubt;
use gigae_eval_model::number::file_size;
use gigae_eval_model::service::Ground;
use gigae_eval_model::stats;
use gigae_eval_services::access::{AccessPlace, Accessed, FioRun, FioSide, client_versions};
use gigae_eval_services::host::Host;
use gigae_eval_services::server::{FileServer, Rights};
use gigae_eval_services::serving::ServingEnd;
use gigae_eval_services::store::{FileStore, StoredFile};
use gigae_eval_services::{ServiceError, by_name};
use gigae_eval_session::stage::Stage;
use gigae_fabric::Node;

/// More than this share of the bytes from the disk, and the figure is the disk's.
const FROM_DISK: f64 = 0.01;

/// A cell and what it has brought so far.
type Gathered = Repeated<AccessCell, Accessed>;

/// The files, nodes and CPUs of a link: of the server and of the client.
struct AccessOnLink<'a> {
    nodes: [Node; 2],
    cpus: [Option<usize>; 2],
    store: &'a FileStore,
    files: Vec<StoredFile>,
}

impl AccessOnLink<'_> {
    fn place<'a>(&'a self, server: &'a FileServer<'a>, size: u64) -> AccessPlace<'a> {
        let file = self.files.iter().find(|file| file.size == size);
        AccessPlace {
            server,
            nodes: [&self.nodes[0], &self.nodes[1]],
            cpus: self.cpus,
            store: self.store,
            file: file.expect("all sizes were created"),
        }
    }
}

/// The sizes of all files that are read and written.
pub(super) fn scratch_sizes(cells: &[(AccessCell, u32)]) -> Vec<u64> {
    let mut sizes: Vec<u64> = cells.iter().map(|(cell, _)| cell.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

impl Running<'_> {
    /// Measures all reads and writes of a link.
    pub(super) fn access(
        &mut self,
        stage: &Stage,
        link: &str,
        planned: Option<&str>,
    ) -> Result<(), RunError> {
        let cells = self.plan.access_cells(planned);
        if cells.is_empty() {
            return Ok(());
        }
        let mut services: Vec<String> = cells.iter().map(|one| one.0.service.clone()).collect();
        services.dedup();
        let Some(fabric) = &stage.fabric else {
            for service in services {
                self.skip_service(link, &service, None, FABRIC_ONLY);
            }
            return Ok(());
        };
        let mut store = self.store.take().expect("the run's begin made it");
        let sizes = scratch_sizes(&cells);
        let files: Result<Vec<StoredFile>, ServiceError> =
            sizes.iter().map(|size| store.create_scratch(*size)).collect();
        let here = AccessOnLink {
            nodes: [fabric.node(2), fabric.node(1)],
            cpus: [stage.answering_cpu, stage.site.cpu],
            store: &store,
            files: files.map_err(RunError::Service)?,
        };
        self.total += cells.iter().map(|(_, times)| u64::from(*times)).sum::<u64>();
        let limit = limit_of_tcp(stage, [2, 1]);
        for service in services {
            let of = cells.iter().filter(|(cell, _)| cell.service == service);
            let mut group: Vec<Gathered> = of.cloned().map(Gathered::new).collect();
            let done = self.done + repetitions(&group);
            let outcome = self.access_of_server(link, &here, &service, &mut group);
            self.done = done;
            if let Some(server) = self.or_skipped(link, &service, outcome)? {
                let one_cpu = here.cpus[0].is_some() && here.cpus[0] == here.cpus[1];
                let of = |one: Gathered| one.figure(link, &server, limit, one_cpu);
                self.access.extend(group.into_iter().filter_map(of));
            }
        }
        self.store = Some(store);
        Ok(())
    }

    /// All cells of a server.
    fn access_of_server(
        &mut self,
        link: &str,
        here: &AccessOnLink<'_>,
        service: &str,
        group: &mut [Gathered],
    ) -> Result<Served, ServiceError> {
        let code = by_name(service).expect("the plan was checked");
        let [node, client] = here.nodes.clone().map(Host::from);
        let rights = Rights { writable: true, ..Rights::default() };
        let mut server =
            FileServer::start(code, (&node, here.cpus[0]), here.store, rights, self.interrupted)?;
        self.same_congestion_control(link, &node, &[client]);
        let smallest = group.iter().map(|one| one.cell.size).min().unwrap_or_default();
        let verified = match here.place(&server, smallest).check(self.interrupted) {
            // A server that is gone says more than fio.
            Err(error) if !error.is_interruption() && !error.is_fatal() => {
                server.alive()?;
                return Err(error);
            }
            verified => verified?,
        };
        let served = Served {
            version: server.version.clone(),
            client_versions: client_versions(self.interrupted)?,
            file_system: here.store.file_system(),
            verified,
        };
        let interrupted = self.interrupted;
        self.service_rounds(link, &mut server, group, |server, cell| {
            here.place(server, cell.size).measure(cell, interrupted)
        })?;
        Ok(served)
    }
}

/// What is known of a server.
struct Served {
    version: String,
    client_versions: Vec<String>,
    file_system: Option<String>,
    verified: u64,
}

impl Gathered {
    /// `None` if no repetition brought anything.
    fn figure(
        self,
        link: &str,
        served: &Served,
        limit: Option<f64>,
        one_cpu: bool,
    ) -> Option<AccessFigure> {
        let sides = |of: fn(&Accessed) -> Option<FioSide>| -> Vec<FioSide> {
            self.brought.iter().filter_map(of).collect()
        };
        let (reads, writes) = (sides(|one| one.run.read), sides(|one| one.run.write));
        let waited: Vec<&FioRun> =
            self.brought.iter().map(|one| &one.run).filter(|run| run.fsync.is_some()).collect();
        let waits: Vec<[f64; 3]> = waited.iter().filter_map(|run| run.fsync).collect();
        let block = self.cell.block;
        let (read, write) = (rate(&reads, block), rate(&writes, block));
        let coverage = read.as_ref().or(write.as_ref())?.coverage;
        let mut doubts = Vec::new();
        if coverage < stats::CONFIDENCE {
            doubts.push(few_repetitions(coverage));
        }
        let (mut server, mut client) = (Cost::default(), Cost::default());
        for one in &self.brought {
            server.add(&one.server);
            client.add(&one.client);
        }
        let bytes = reads.iter().chain(&writes).map(|side| side.bytes).sum();
        let disk_read = self.brought.iter().map(|one| one.disk).sum::<Option<u64>>();
        if let Some(read) = disk_read.filter(|read| *read as f64 > FROM_DISK * bytes as f64) {
            doubts.push(doubt!(
                Disk,
                "{} came from the disk; give the machine more memory, or measure smaller files",
                file_size(read)
            ));
        }
        let in_memory = |place: &String| place.starts_with("tmpfs ") || place.starts_with("ramfs ");
        let waits_for_disk = self.cell.fsync > 0 || self.cell.export == Export::Sync;
        if waits_for_disk && served.file_system.as_ref().is_some_and(in_memory) {
            doubts.push(doubt!(
                Disk,
                "the disk is memory, so that waiting for it costs nothing; set TMPDIR to a directory on a disk"
            ));
        }
        for (end, cost) in [("server's", &server), ("client's", &client)] {
            cpu_doubts(end, cost, one_cpu, &mut doubts);
        }
        let is_checked = (self.cell.way, self.cell.export) == (Way::Network, Export::Async);
        Some(AccessFigure {
            ground: Ground::Transfer,
            link: link.to_owned(),
            unit: "MB/s".to_owned(),
            read,
            write,
            fsync: latency(&waits),
            waits: waited.iter().map(|run| run.waits).min().unwrap_or_default(),
            bytes,
            server,
            client,
            one_cpu,
            limit: limit.filter(|_| self.cell.way == Way::Network),
            verified: if is_checked { served.verified } else { 0 },
            disk_read,
            file_system: served.file_system.clone(),
            version: served.version.clone(),
            client_versions: served.client_versions.clone(),
            command: self.brought.last()?.command.clone(),
            cell: self.cell,
            doubts,
        })
    }
}

/// `block`: bytes of an operation.
fn rate(sides: &[FioSide], block: u64) -> Option<AccessRate> {
    let rates: Vec<f64> = sides.iter().map(|side| side.rate / 1e6).collect();
    let operations: Vec<f64> = sides.iter().map(|side| side.operations).collect();
    let percentiles: Vec<[f64; 3]> = sides.iter().map(|side| side.percentiles).collect();
    let single: Vec<f64> = percentiles.iter().map(|all| all[0]).collect();
    let interval = stats::median_interval(&rates)?;
    let p50 = stats::median_interval(&single)?;
    Some(AccessRate {
        median: stats::median(&rates)?,
        ci95: [interval.low, interval.high],
        coverage: interval.coverage,
        operations: stats::median(&operations)?,
        samples: sides.iter().map(|side| side.bytes / block).min()?,
        latency: latency(&percentiles)?,
        p50_ci95: (sides.len() > 1).then_some([p50.low, p50.high]),
        repetitions: rates,
    })
}

/// Medians over the repetitions of the 50 %, 99 % and 99.9 % in microseconds.
fn latency(percentiles: &[[f64; 3]]) -> Option<Latency> {
    let median = |index: usize| {
        let values: Vec<f64> = percentiles.iter().map(|all| all[index]).collect();
        stats::median(&values)
    };
    Some(Latency { p50_us: median(0)?, p99_us: median(1)?, p999_us: median(2)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_of_its_repetitions() {
        let side = |rate: u32, p50: f64| FioSide {
            bytes: 200 * u64::from(rate),
            rate: f64::from(rate) * 1e6,
            operations: f64::from(rate) * 10.0,
            percentiles: [p50, 2.0 * p50, 3.0 * p50],
        };
        let sides = [side(1, 30.0), side(3, 10.0), side(2, 20.0)];
        let found = rate(&sides, 2).unwrap();
        assert_eq!((found.median, found.operations, found.samples), (2.0, 20.0, 100));
        assert_eq!(found.repetitions, [1.0, 3.0, 2.0]);
        let median = Latency { p50_us: 20.0, p99_us: 40.0, p999_us: 60.0 };
        assert_eq!((found.latency, found.p50_ci95), (median, Some([10.0, 30.0])));
        assert_eq!(rate(&[], 2), None);
        assert_eq!(latency(&[]), None);
    }
}
