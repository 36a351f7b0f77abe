//! File services on the link that is being measured. On a virtual one, the server is in its second
//! node, and clients are in the others; between machines, the server is on the other machine. In a
//! guest of the NIC lab it is in the other card's namespace.
//!
//! Cells of one service, memory and disk have one server, one after the other. gigae's is the last,
//! so that no advantage of being first is its own. Within a server's time the cells come in rounds,
//! in a new random order for each round. Before each repetition the store's file system is written
//! to its disk, outside of the measured time, so that no copy waits for what an earlier one has
//! left. Every copy that is a file is compared after its repetition. Of a size and protection that
//! has no such copies, and from every server with little memory, one copy is compared before
//! anything is measured.

mod copy;
mod figure;
mod room;

use crate::access::scratch_sizes;
use crate::error::RunError;
use crate::file_hosts::{answering_cpu, clients};
use crate::repetition::limit_of_tcp;
use crate::rounds::Running;
use crate::services::Repeated;
use copy::{Copied, DISTURBED};
use gigae_eval_model::file_figure::FileCell;
use gigae_eval_model::service::{Connection, Direction, Ground, OWN, Protection, Sink};
use gigae_eval_services::client;
use gigae_eval_services::host::Host;
use gigae_eval_services::memory::{self, MemoryLimit};
use gigae_eval_services::peer::PeerServer;
use gigae_eval_services::server::{FileServer, Rights};
use gigae_eval_services::serving::ServingEnd;
use gigae_eval_services::store::{FileStore, Place, StoredFile};
use gigae_eval_services::{ServiceError, by_name, installed, services_installed};
use gigae_eval_session::control::Session;
use gigae_eval_session::stage::Stage;
use gigae_fabric::Fabric;
use room::{copies, kept, needed, sizes};
use std::time::Duration;

/// Why gigae sends no files between machines.
const WRITES: &str =
    "any node of the network could write there, since its sessions are not authenticated";

/// What is said of the congestion control between machines.
const ROUTES: &str = "between machines no route is changed; each machine's own setting of net.ipv4.tcp_congestion_control counts";

/// A cell and what it has brought so far.
type Gathered = Repeated<FileCell, Copied>;

/// What all cells of a server have in common.
struct About {
    /// What the programs say of their versions.
    version: String,
    client_version: Option<String>,
    /// That of the store.
    file_system: Option<String>,
    one_cpu: bool,
    /// Copies of each cell that were compared before all repetitions.
    compared: Vec<u64>,
    ground: Ground,
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
        // A guest of the NIC lab measures copies of files alone.
        match self.lab {
            Some(_) => services_installed(self.plan.files.iter().map(|files| &files.service[..])),
            None if has_peer => Ok(()),
            None => installed(self.plan),
        }
        .map_err(RunError::Service)?;
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
        let cpus = [answering_cpu(stage, self.lab), stage.site.cpu];
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
            if here.fabric.is_none() && self.lab.is_none() {
                self.leave_out_what_any_node_could_write(link, &mut group);
            }
            if group.is_empty() {
                continue;
            }
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
                    if self.lost {
                        break;
                    }
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

    /// gigae's own server takes files from every node, since its sessions are not authenticated.
    /// Between machines there are other nodes.
    fn leave_out_what_any_node_could_write(&mut self, link: &str, group: &mut Vec<Gathered>) {
        let writes = |one: &mut Gathered| one.cell.service == OWN && !one.cell.direction.is_get();
        for one in group.extract_if(.., writes) {
            self.done += u64::from(one.times);
            self.skip_service(link, OWN, Some(one.cell.title()), WRITES);
        }
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
        let mut server = match (here.fabric.map(|fabric| fabric.node(2).into()), self.lab) {
            (Some(node), _) => self.server_on_host(link, here, &node, group)?,
            (None, Some(host)) => self.server_on_host(link, here, host, group)?,
            (None, None) => self.server_of_peer(link, here, session, group)?,
        };
        let server = &mut *server;
        // An earlier outage may have left it down.
        if let Some((fabric, _)) = here.down {
            fabric.bring_up(DISTURBED).map_err(ServiceError::Outage)?;
        }
        let compared = self.compare(here, server, group)?;
        if let Some(rate) = first.disk_rate {
            server.slow_disk(rate)?;
        }
        let (version, file_system) = server.about();
        let client_version = client::client_version(service, self.interrupted)?;
        let [serving, fetching] = here.cpus;
        let one_cpu = serving.is_some() && serving == fetching;
        let interrupted = self.interrupted;
        self.service_rounds(link, server, group, |server, cell| {
            here.copy(server, cell, interrupted)
        })?;
        let ground = if self.lab.is_some() { Ground::Lab } else { Ground::Transfer };
        Ok(About { version, client_version, file_system, one_cpu, compared, ground })
    }

    /// Starts the server of these cells on a host of this machine.
    fn server_on_host<'a>(
        &mut self,
        link: &str,
        here: &FilesOnLink<'a>,
        host: &Host,
        group: &[Gathered],
    ) -> Result<Box<dyn ServingEnd + 'a>, ServiceError> {
        let first = &group[0].cell;
        let service = by_name(&first.service).expect("the plan was checked");
        let export = here.store.export();
        let limit = first.memory.map(|bytes| MemoryLimit::new(&export, bytes)).transpose()?;
        if first.memory.is_some() {
            here.files.iter().try_for_each(|file| here.store.forget(file))?;
        }
        let rights = Rights { limit, writable: sends(group), fenced: false };
        let at = (host, here.cpus[0]);
        let server = FileServer::start(service, at, here.store, rights, self.interrupted)?;
        self.same_congestion_control(link, host, &here.clients);
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

    /// Fetches one copy of every kind and compares it; the compared copies of each cell. A server
    /// with little memory has read every file once then.
    fn compare(
        &self,
        here: &FilesOnLink<'_>,
        server: &mut dyn ServingEnd,
        group: &[Gathered],
    ) -> Result<Vec<u64>, ServiceError> {
        let mut compared = vec![0; group.len()];
        for (index, one) in group.iter().enumerate() {
            let of = kind(&one.cell);
            let is_first = !group[..index].iter().any(|one| kind(&one.cell) == of);
            let mut same = group.iter().filter(|one| kind(&one.cell) == of);
            let compared_anyway = same.any(|one| one.cell.to == Sink::Disk);
            if !is_first || (one.cell.memory.is_none() && compared_anyway) {
                continue;
            }
            let cell = FileCell {
                to: Sink::Disk,
                connection: Connection::New,
                clients: 1,
                ..one.cell.clone()
            };
            let fetched = here.fetch(server, &cell, self.interrupted)?;
            let file = here.file(cell.size, cell.files);
            compared[index] = client::verify(server, here.store, file, &fetched)?;
        }
        Ok(compared)
    }

    /// Takes the figures of a server into the results.
    fn keep_files(
        &mut self,
        link: &str,
        group: Vec<Gathered>,
        about: &About,
        limit: &dyn Fn(&FileCell) -> Option<f64>,
    ) {
        let of = |(one, compared): (&Gathered, &u64)| {
            (kind(&one.cell), compared + one.brought.iter().map(|one| one.verified).sum::<u64>())
        };
        let verified: Vec<_> = group.iter().zip(&about.compared).map(of).collect();
        let figures = group.into_iter().filter_map(|one| {
            let same = verified.iter().filter(|(of, _)| *of == kind(&one.cell));
            let verified = same.map(|(_, copies)| copies).sum();
            let limit = limit(&one.cell);
            one.figure(link, about, verified, limit)
        });
        self.files.extend(figures);
    }
}

/// Whether clients send files in any of these cells.
fn sends(group: &[Gathered]) -> bool {
    group.iter().any(|one| !one.cell.direction.is_get())
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
}
