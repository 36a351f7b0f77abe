//! File services on the link that is being measured. On a virtual one, the server is in its second
//! node, and clients are in the others; between machines, the server is on the other machine.
//!
//! Cells of one service, memory and disk have one server, one after the other. gigae's is the last,
//! so that no advantage of being first is its own. Within a server's time the cells come in rounds,
//! in a new random order for each round. Before each repetition the store's file system is written
//! to its disk, outside of the measured time, so that no copy waits for what an earlier one has
//! left. Every copy that is a file is compared after its repetition. Of a size and protection that
//! has no such copies, and from every server with little memory, one copy is compared before
//! anything is measured.

use crate::access::scratch_sizes;
use crate::error::RunError;
use crate::gather::{cpu_doubts, few_repetitions};
use crate::programs::route_as_ours;
use crate::repetition::limit_of_tcp;
use crate::rounds::{MOST_FAILURES, Running};
use gigae_eval_model::cost::Cost;
use gigae_eval_model::file_figure::{FileCell, FileFigure};
use gigae_eval_model::file_job::room;
use gigae_eval_model::results::Skipped;
use gigae_eval_model::service::{Connection, Direction, Ground, OWN, Protection, Sink};
use gigae_eval_model::stats;
use gigae_eval_services::client::{self, Clients, Fetched};
use gigae_eval_services::host::Host;
use gigae_eval_services::memory::{self, MemoryLimit};
use gigae_eval_services::meter::EndMeter;
use gigae_eval_services::peer::PeerServer;
use gigae_eval_services::server::{FileServer, Rights};
use gigae_eval_services::serving::ServingEnd;
use gigae_eval_services::store::{FileStore, Place, StoredFile, is_kept};
use gigae_eval_services::{ServiceError, by_name, installed};
use gigae_eval_session::control::Session;
use gigae_eval_session::stage::Stage;
use gigae_fabric::{Fabric, Node};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// With which a kept connection begins: little enough to be over at once.
const SMALL: u64 = 1000;

/// Why there are no reads, writes and operations on names within files of a server on a link.
pub(super) const FABRIC_ONLY: &str =
    "this is measured on virtual links only; leave out --peer for it";

/// What is said of the congestion control between machines.
const ROUTES: &str = "between machines no route is changed; each machine's own setting of net.ipv4.tcp_congestion_control counts";

/// A cell and what it has brought so far.
struct Gathered {
    cell: FileCell,
    times: u32,
    fetched: Vec<Fetched>,
    disk: Vec<Option<u64>>,
    server: Cost,
    client: Cost,
    one_cpu: bool,
    /// Compared copies of this cell, and of all cells of its kind.
    verified: u64,
    verified_of_kind: u64,
    failures: u32,
}

/// What all cells of a server have in common.
struct About {
    /// What the programs say of their versions.
    version: String,
    client_version: Option<String>,
    /// That of the store.
    file_system: Option<String>,
}

/// Copies of a size that are protected alike come the same way.
fn kind(cell: &FileCell) -> (u64, u32, Direction, Protection) {
    (cell.size, cell.files, cell.direction, cell.protection)
}

/// The files, servers and clients of a link.
struct FilesOnLink<'a> {
    /// Absent: the server is on another machine.
    fabric: Option<&'a Fabric>,
    /// Where the clients are: in the measuring node, then all behind the server's.
    clients: Vec<Host>,
    /// Of the server and of the clients.
    cpus: [Option<usize>; 2],
    store: &'a FileStore,
    files: Vec<StoredFile>,
    /// For how long the measuring node's port is down in the middle of each copy.
    down: Option<(&'a Fabric, Duration)>,
}

impl FilesOnLink<'_> {
    fn file(&self, size: u64, files: u32) -> &StoredFile {
        let same = |file: &&StoredFile| (file.size, file.files) == (size, files);
        self.files.iter().find(same).expect("all sizes were created")
    }
}

impl<'run> Running<'run> {
    /// Before anything is measured: removes what killed runs have left, and refuses to begin
    /// without the programs and the room that the plan needs. Between machines, a service whose
    /// programs are missing is left out later.
    pub(super) fn begin_files(&mut self, has_peer: bool) -> Result<(), RunError> {
        Place::own().sweep();
        memory::sweep();
        let none = self.plan.files.is_empty() && self.plan.access.is_empty();
        if none && self.plan.metadata.is_empty() {
            return Ok(());
        }
        if !has_peer {
            installed(self.plan).map_err(RunError::Service)?;
        }
        let scratch: u64 = scratch_sizes(&self.plan.access_cells(None)).iter().sum();
        let links = self.plan.link.keys();
        let aside: u64 = links.map(|link| kept(&self.plan.file_cells(Some(link)))).sum();
        // Between machines there is one link, and nothing but copies of files.
        let more = if has_peer { kept(&self.plan.file_cells(None)) } else { aside + scratch };
        let store = FileStore::new(needed(&self.plan.file_cells(None)) + more);
        self.store = Some(store.map_err(RunError::Service)?);
        Ok(())
    }

    /// Measures all file services of a link.
    pub(super) fn files(
        &mut self,
        stage: &mut Stage,
        link: &str,
        planned: Option<&str>,
    ) -> Result<(), RunError> {
        let cells = self.plan.file_cells(planned);
        if cells.is_empty() {
            return Ok(());
        }
        let mut store = self.store.take().expect("the run's begin made it");
        let sizes = sizes(&cells);
        let files: Result<Vec<StoredFile>, ServiceError> =
            sizes.iter().map(|&(size, files)| store.create(size, files)).collect();
        let files = files.map_err(RunError::Service)?;
        let cpus = [stage.answering_cpu, stage.site.cpu];
        let clients = match clients(stage) {
            Ok(clients) => clients,
            Err(error) => {
                self.skip_service(link, "file services", None, &error.to_string());
                self.store = Some(store);
                return Ok(());
            }
        };
        let down = planned.and_then(|name| self.plan.link[name].down_ms);
        let down = down.map(Duration::from_millis);
        self.total += cells.iter().map(|(_, times)| u64::from(*times)).sum::<u64>();
        // To a client's node, and what the server's port lets through; and to the server's node.
        let limits = limit_of_tcp(stage, [2, 1]).zip(limit_of_tcp(stage, [2, 2]));
        let sent = limit_of_tcp(stage, [1, 2]);
        let Stage { session, fabric, .. } = stage;
        let fabric = fabric.as_ref();
        let down = fabric.zip(down);
        let here = FilesOnLink { fabric, clients, cpus, store: &store, files, down };
        let networks = fabric.map_or(1, |fabric| fabric.config().networks);
        for mut group in by_server(cells) {
            let done = self.done + group.iter().map(|one| u64::from(one.times)).sum::<u64>();
            let outcome = self.of_server(link, &here, session, &mut group);
            self.done = done;
            match outcome {
                Ok(about) => {
                    let own = |cell: &FileCell| {
                        let links = here.clients.len().min(cell.clients as usize);
                        let fetched = limits.map(|(each, all)| all.min(each * links as f64));
                        let one = if cell.direction.is_get() { fetched } else { sent };
                        // gigae alone uses all networks.
                        one.map(
                            |one| if cell.service == OWN { one * f64::from(networks) } else { one },
                        )
                    };
                    self.keep_files(link, group, &about, &own);
                }
                Err(error) if error.is_interruption() => return Err(RunError::Interrupted),
                // What was measured before counts.
                Err(error) if error.is_lost() => {
                    let why = format!("the other machine ended the run: {error}");
                    self.skip_service(link, "file services, the rest", None, &why);
                    self.lost = true;
                    break;
                }
                Err(error) if error.is_fatal() => return Err(RunError::Service(error)),
                Err(error) => {
                    let first = &group[0].cell;
                    let what = first.memory.map(|_| first.title());
                    self.skip_service(link, &first.service.clone(), what, &error.to_string());
                }
            }
        }
        self.store = Some(store);
        Ok(())
    }

    /// All cells of a server; what it and the client say of their versions.
    fn of_server(
        &mut self,
        link: &str,
        here: &FilesOnLink<'_>,
        session: &mut Session,
        group: &mut [Gathered],
    ) -> Result<About, ServiceError> {
        let first = group[0].cell.clone();
        let service = by_name(&first.service).expect("the plan was checked");
        let mut server = match here.fabric {
            Some(fabric) => self.server_in_node(link, here, fabric, group)?,
            None => self.server_of_peer(link, here, session, group)?,
        };
        let server = &mut *server;
        self.compare(here, server, group)?;
        if let Some(rate) = first.disk_rate {
            server.slow_disk(rate)?;
        }
        for round in 0.. {
            let wanted = |one: &Gathered| round < one.times && one.failures < MOST_FAILURES;
            let mut order: Vec<usize> =
                (0..group.len()).filter(|&index| wanted(&group[index])).collect();
            if order.is_empty() {
                break;
            }
            self.shuffle(&mut order);
            for index in order {
                let one = &mut group[index];
                self.progress.step(self.done, self.total, &format!("{link} {}", one.cell.title()));
                self.done += 1;
                match self.file_repetition(here, server, one) {
                    Ok(()) => {}
                    Err(error) if error.is_interruption() || error.is_fatal() => return Err(error),
                    Err(error) => {
                        // Without the server there is no further repetition.
                        server.alive()?;
                        one.failures += 1;
                        if one.failures == MOST_FAILURES.min(one.times) {
                            let what = Some(one.cell.title());
                            let service = one.cell.service.clone();
                            self.skip_service(link, &service, what, &error.to_string());
                        }
                    }
                }
            }
        }
        let (version, file_system) = server.about();
        let client_version = client::client_version(service, self.interrupted)?;
        Ok(About { version, client_version, file_system })
    }

    /// Starts the server of these cells in its node.
    fn server_in_node<'a>(
        &mut self,
        link: &str,
        here: &FilesOnLink<'a>,
        fabric: &Fabric,
        group: &[Gathered],
    ) -> Result<Box<dyn ServingEnd + 'a>, ServiceError> {
        let first = &group[0].cell;
        let service = by_name(&first.service).expect("the plan was checked");
        let export = here.store.export();
        let limit = first.memory.map(|bytes| MemoryLimit::new(&export, bytes)).transpose()?;
        if first.memory.is_some() {
            here.files.iter().try_for_each(|file| here.store.forget(file))?;
        }
        let node = fabric.node(2);
        let rights = Rights { limit, writable: sends(group), fenced: false };
        let at = (&node.clone().into(), here.cpus[0]);
        let server = FileServer::start(service, at, here.store, rights, self.interrupted)?;
        self.same_congestion_control(link, &node, &client_nodes(fabric));
        Ok(Box::new(server))
    }

    /// Has the other machine start the server of these cells.
    fn server_of_peer<'a>(
        &mut self,
        link: &str,
        here: &FilesOnLink<'_>,
        session: &'a mut Session,
        group: &[Gathered],
    ) -> Result<Box<dyn ServingEnd + 'a>, ServiceError>
    where
        'run: 'a,
    {
        let first = &group[0].cell;
        let service = by_name(&first.service).expect("the plan was checked");
        if first.memory.is_some() {
            let why = "a server's memory is limited on virtual links only; leave out --peer for it";
            return Err(ServiceError::Unavailable(why.into()));
        }
        let sent = sends(group).then(|| {
            let puts = group.iter().filter(|one| !one.cell.direction.is_get());
            let puts: Vec<_> = puts.map(|one| (one.cell.clone(), one.times)).collect();
            kept(&puts) + puts.iter().map(|(cell, _)| copies(cell)).max().unwrap_or(0)
        });
        // A client that is missing costs its service only.
        client::client_version(service, self.interrupted).map_err(|error| {
            let missing = matches!(error, ServiceError::Missing { .. });
            if missing { ServiceError::Unavailable(error.to_string()) } else { error }
        })?;
        let (store, files, interrupted) = (here.store, &here.files, self.interrupted);
        let server = PeerServer::start(session, service, store, files, sent, interrupted)?;
        self.skip_service(link, "file services, TCP as ours", None, ROUTES);
        Ok(Box::new(server))
    }

    /// Fetches one copy of every kind and compares it. A server with little memory has read every
    /// file once then.
    fn compare(
        &mut self,
        here: &FilesOnLink<'_>,
        server: &mut dyn ServingEnd,
        group: &mut [Gathered],
    ) -> Result<(), ServiceError> {
        for index in 0..group.len() {
            let of = kind(&group[index].cell);
            let is_first = !group[..index].iter().any(|one| kind(&one.cell) == of);
            let mut same = group.iter().filter(|one| kind(&one.cell) == of);
            let compared_anyway = same.any(|one| one.cell.to == Sink::Disk);
            let first = &mut group[index];
            if !is_first || (first.cell.memory.is_none() && compared_anyway) {
                continue;
            }
            let cell = FileCell {
                to: Sink::Disk,
                connection: Connection::New,
                clients: 1,
                ..first.cell.clone()
            };
            let fetched = self.fetch(here, server, &cell)?;
            let file = here.file(cell.size, cell.files);
            first.verified += client::verify(server, here.store, file, &fetched)?;
        }
        Ok(())
    }

    fn fetch(
        &self,
        here: &FilesOnLink<'_>,
        server: &mut dyn ServingEnd,
        cell: &FileCell,
    ) -> Result<Fetched, ServiceError> {
        let (hosts, [_, cpu]) = (&here.clients, here.cpus);
        let clients = Clients { hosts, cpu, small: here.file(SMALL, 1) };
        let file = here.file(cell.size, cell.files);
        client::fetch(server, here.store, file, cell, &clients, self.interrupted)
    }

    /// The same, while the link goes down once: when half of the bytes have passed.
    fn fetch_by_a_link_that_goes_down(
        &self,
        here: &FilesOnLink<'_>,
        server: &mut dyn ServingEnd,
        cell: &FileCell,
        (fabric, down): (&Fabric, Duration),
    ) -> Result<Fetched, ServiceError> {
        let (ended, half) = (AtomicBool::new(false), cell.bytes() / 2);
        let (fetched, was_down) = std::thread::scope(|scope| {
            let watching = scope.spawn(|| fabric.interrupt(1, half, down, &ended));
            let fetched = self.fetch(here, server, cell);
            ended.store(true, Ordering::Relaxed);
            (fetched, watching.join().expect("it does not panic"))
        });
        let fetched = fetched?;
        match was_down {
            Ok(true) => Ok(fetched),
            Ok(false) => Err(ServiceError::Unavailable(
                "the copy ended before the link went down; plan a larger file".into(),
            )),
            Err(error) => Err(ServiceError::Unavailable(error.to_string())),
        }
    }

    fn file_repetition(
        &self,
        here: &FilesOnLink<'_>,
        server: &mut dyn ServingEnd,
        one: &mut Gathered,
    ) -> Result<(), ServiceError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(gigae_eval_session::programs::ProgramError::Interrupted.into());
        }
        let [serving, fetching] = here.cpus;
        let clients = EndMeter::clients(here.clients.clone(), fetching);
        let failed =
            |error: gigae_fabric::FabricError| ServiceError::Unavailable(error.to_string());
        here.store.settle()?;
        server.begin()?;
        let begin = clients.read(None).map_err(failed)?;
        let fetched = match here.down {
            None => self.fetch(here, server, &one.cell)?,
            Some(down) => self.fetch_by_a_link_that_goes_down(here, server, &one.cell, down)?,
        };
        // The clients' end first: that of the server waits for its processes.
        let end = clients.read(None).map_err(failed)?;
        let spent = server.end()?;
        one.server.add(&spent.cost);
        one.client.add(&begin.until(&end));
        one.disk.push(spent.disk);
        one.one_cpu = serving.is_some() && serving == fetching;
        let file = here.file(one.cell.size, one.cell.files);
        one.verified += client::verify(server, here.store, file, &fetched)?;
        one.fetched.push(fetched);
        Ok(())
    }

    /// Gives both ends the congestion control of our TCP.
    pub(super) fn same_congestion_control(&mut self, link: &str, server: &Node, clients: &[Node]) {
        let route = |from: &Node, to: &Node| {
            let _inside = from.enter().map_err(|error| error.to_string())?;
            route_as_ours(from.interface, &from.ipv4.to_string(), &to.ipv4.to_string())
        };
        let routes = || -> Result<(), String> {
            clients.iter().try_for_each(|client| {
                route(server, client)?;
                route(client, server)
            })
        };
        if let Err(why) = routes() {
            self.skip_service(link, "file services, TCP as ours", None, &why);
        }
    }

    pub(super) fn skip_service(
        &mut self,
        link: &str,
        service: &str,
        what: Option<String>,
        reason: &str,
    ) {
        let skip = Skipped {
            link: link.to_owned(),
            transport: service.to_owned(),
            what,
            reason: reason.to_owned(),
        };
        if !self.skipped.contains(&skip) {
            self.skipped.push(skip);
        }
    }

    /// Takes the figures of a server into the results.
    fn keep_files(
        &mut self,
        link: &str,
        mut group: Vec<Gathered>,
        about: &About,
        limit: &dyn Fn(&FileCell) -> Option<f64>,
    ) {
        for index in 0..group.len() {
            let same = group.iter().filter(|one| kind(&one.cell) == kind(&group[index].cell));
            group[index].verified_of_kind = same.map(|one| one.verified).sum();
        }
        let figures = group.into_iter().filter_map(|one| {
            let limit = limit(&one.cell);
            one.figure(link, about, limit)
        });
        self.files.extend(figures);
    }
}

impl Gathered {
    fn new((cell, times): (FileCell, u32)) -> Self {
        Self {
            cell,
            times,
            fetched: Vec::new(),
            disk: Vec::new(),
            server: Cost::default(),
            client: Cost::default(),
            one_cpu: false,
            verified: 0,
            verified_of_kind: 0,
            failures: 0,
        }
    }

    /// `None` if no repetition brought anything.
    fn figure(self, link: &str, about: &About, limit: Option<f64>) -> Option<FileFigure> {
        let each = |of: fn(&Fetched) -> f64| self.fetched.iter().map(of).collect::<Vec<f64>>();
        let (rates, times) = (each(|one| one.rate() / 1e6), each(|one| one.seconds * 1e3));
        let (interval, transfer_ms) = (stats::median_interval(&rates)?, stats::median(&times)?);
        let whole = stats::median_interval(&each(|one| one.whole * 1e3))?;
        let has_rate = self.cell.has_rate(transfer_ms);
        let before = self.fetched.iter().filter_map(Fetched::before);
        let before: Vec<f64> = before.map(|seconds| seconds * 1e3).collect();
        let mut doubts = Vec::new();
        if interval.coverage < stats::CONFIDENCE {
            doubts.push(few_repetitions(interval.coverage));
        }
        for (end, cost) in [("server's", &self.server), ("clients'", &self.client)] {
            cpu_doubts(end, cost, self.one_cpu, &mut doubts);
        }
        let middle = middle(&times)?;
        let shares = self.fetched[middle].transfers.iter().filter(|_| has_rate);
        Some(FileFigure {
            ground: Ground::Transfer,
            link: link.to_owned(),
            unit: "MB/s".to_owned(),
            median: stats::median(&rates).filter(|_| has_rate),
            ci95: has_rate.then_some([interval.low, interval.high]),
            coverage: interval.coverage,
            before_ms: stats::median(&before),
            whole_ms: stats::median(&each(|one| one.whole * 1e3)),
            whole_ci95: Some([whole.low, whole.high]),
            transfer_ms,
            shares: shares.map(|one| one.bytes as f64 / one.seconds / 1e6).collect(),
            disk_reads: self.disk.into_iter().collect(),
            repetitions: times,
            server: self.server,
            client: self.client,
            one_cpu: self.one_cpu,
            limit,
            verified: self.verified_of_kind,
            version: about.version.clone(),
            client_version: about.client_version.clone(),
            file_system: about.file_system.clone(),
            command: self.fetched.last()?.command.clone(),
            cell: self.cell,
            doubts,
        })
    }
}

/// Which of these values is in the middle.
fn middle(values: &[f64]) -> Option<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    order.get(values.len().saturating_sub(1) / 2).copied()
}

/// Whether clients send files in any of these cells.
fn sends(group: &[Gathered]) -> bool {
    group.iter().any(|one| !one.cell.direction.is_get())
}

/// The nodes of the clients: the measuring one, then all behind the server's.
fn client_nodes(fabric: &Fabric) -> Vec<Node> {
    let nodes = fabric.config().nodes;
    std::iter::once(1).chain(3..=nodes).map(|number| fabric.node(number)).collect()
}

/// Where the clients of a link are.
fn clients(stage: &Stage) -> Result<Vec<Host>, ServiceError> {
    match &stage.fabric {
        Some(fabric) => Ok(client_nodes(fabric).into_iter().map(Host::from).collect()),
        None => Ok(vec![Host::this(&stage.site)?]),
    }
}

/// The sizes of all files and trees, with their numbers of files; that of kept connections' first
/// one included.
fn sizes(cells: &[(FileCell, u32)]) -> Vec<(u64, u32)> {
    let own = cells.iter().map(|(cell, _)| (cell.size, cell.files));
    let mut sizes: Vec<(u64, u32)> = own.chain([(SMALL, 1)]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Bytes of all files and of the most copies that there are at once.
fn needed(cells: &[(FileCell, u32)]) -> u64 {
    let files: u64 = sizes(cells).into_iter().map(|(size, files)| room(size, files)).sum();
    files + cells.iter().map(|(cell, _)| copies(cell)).max().unwrap_or(0)
}

/// Bytes of the copies on a link that stay until the end.
fn kept(cells: &[(FileCell, u32)]) -> u64 {
    let kept = cells.iter().filter(|(cell, _)| is_kept(cell.files));
    kept.map(|(cell, times)| copies(cell) * u64::from(*times)).sum()
}

/// Bytes of the copies of one repetition. To null, one copy is compared.
fn copies(cell: &FileCell) -> u64 {
    let at_once = if cell.to == Sink::Disk { cell.clients } else { 1 };
    room(cell.size, cell.files) * u64::from(at_once)
}

/// The cells of each server, in the plan's order, but gigae's own last.
fn by_server(cells: Vec<(FileCell, u32)>) -> Vec<Vec<Gathered>> {
    let mut groups: Vec<Vec<Gathered>> = Vec::new();
    for cell in cells {
        let same = |group: &&mut Vec<Gathered>| {
            let of = |cell: &FileCell| (cell.service.clone(), cell.memory, cell.disk_rate);
            of(&group[0].cell) == of(&cell.0)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(Gathered::new(cell)),
            None => groups.push(vec![Gathered::new(cell)]),
        }
    }
    groups.sort_by_key(|group| group[0].cell.service == OWN);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::file_job::BLOCK;
    use gigae_eval_model::plan::Plan;

    #[test]
    fn cells_of_one_memory_share_a_server() {
        let plan = Plan::load("memory").unwrap();
        let link = plan.files[0].links[0].clone();
        let cells = plan.file_cells(Some(&link));
        let groups = by_server(cells.clone());
        assert_eq!(groups.len(), plan.files[0].memory_mib.len());
        assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), cells.len());
    }

    #[test]
    fn gigae_has_the_last_server() {
        let cells = Plan::load("files").unwrap().file_cells(Some("cable"));
        let services: Vec<String> =
            by_server(cells).iter().map(|group| group[0].cell.service.clone()).collect();
        let all = ["ftp", "lftp", "smb", "nfs", "rsync", "rsync-ssh", "scp", OWN];
        assert_eq!(services, all);
    }

    #[test]
    fn room_is_needed_for_all_files_and_the_copies_of_one_repetition() {
        let plan = Plan::load("ftp").unwrap();
        let cells = plan.file_cells(Some(&plan.files[0].links[0]));
        let sizes = sizes(&cells);
        assert!(sizes.contains(&(SMALL, 1)));
        assert!(needed(&cells) > sizes.iter().map(|(size, _)| size).sum::<u64>());
        let (mut null, times) = cells[0].clone();
        (null.size, null.to, null.clients) = (4 << 30, Sink::Null, 16);
        assert_eq!(needed(&[(null.clone(), times)]), SMALL + (8 << 30));
        let tree = FileCell { size: 1, files: 100, to: Sink::Disk, clients: 1, ..null };
        assert_eq!(needed(&[(tree.clone(), times)]), SMALL + 2 * 100 * BLOCK);
        assert_eq!(kept(&[(tree.clone(), 3)]), 0);
        assert_eq!(kept(&[(FileCell { files: 1000, ..tree }, 3)]), 3 * 1000 * BLOCK);
    }

    #[test]
    fn the_middle_repetition_is_that_of_the_median() {
        assert_eq!(middle(&[3.0, 1.0, 2.0]), Some(2));
        assert_eq!(middle(&[3.0, 1.0]), Some(1));
        assert_eq!(middle(&[]), None);
    }
}
