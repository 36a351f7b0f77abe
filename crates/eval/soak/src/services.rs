//! Soaking file services: real servers in one node of a virtual network, clients in the others,
//! every copy compared with its file by a hash, for hours.
//!
//! Each service has a thread with a server, and a directory of its own with files that follow from
//! their size. In each turn, one client or several at once fetch a file or a tree, or one client
//! sends it. A seed decides which. Servers are ended and started again each hour, as those of a
//! round are.

pub mod report;
pub mod state;

use crate::environment::{conditions, virtual_network};
use crate::run::SoakError;
use crate::state::FILE;
use crate::watch::unix;
use gigae_eval_measure::environment;
use gigae_eval_measure::site::Site;
use gigae_eval_model::file_figure::FileCell;
use gigae_eval_model::service::{Connection, Direction, Protection, Sink};
use gigae_eval_model::soak::DeviationKind;
use gigae_eval_page::files::{self, TextFile, WriteError};
use gigae_eval_services::client::{self, Clients};
use gigae_eval_services::host::Host;
use gigae_eval_services::server::{FileServer, Rights};
use gigae_eval_services::serving::ServingEnd;
use gigae_eval_services::store::{FileStore, Place, StoredFile};
use gigae_eval_services::{Service, ServiceError, by_name, services_installed};
use gigae_eval_session::stage::StageError;
use gigae_fabric::Fabric;
use oorandom::Rand64;
use state::{Seen, ServiceSettings, ServiceSoak};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Sizes of files in bytes.
const SIZES: [u64; 4] = [2_000, 100_000, 2_000_000, 20_000_000];

/// A tree: files and their size in bytes.
const TREE: (u32, u64) = (100, 4_096);

/// Bytes of all of them, with what file systems add.
const ROOM: u64 = 24 << 20;

/// One turn of so many is a tree, or sends.
const RARELY: u64 = 4;

/// A server lives so long.
const ROUND: Duration = Duration::from_secs(3600);

/// Pause after a failed turn.
const PAUSE: Duration = Duration::from_secs(5);

/// How often an interruption and the end are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// State and report are written so often, in a short soak more often.
const SAVE: Duration = Duration::from_secs(60);

/// What the threads of a soak share.
struct Shared<'a> {
    state: Mutex<ServiceSoak>,
    fabric: &'a Fabric,
    began: Instant,
    /// How long it had run before, in seconds.
    before: f64,
    length: Duration,
    /// A person, or an error, ends it before its time.
    stop: AtomicBool,
}

impl Shared<'_> {
    fn state(&self) -> MutexGuard<'_, ServiceSoak> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seconds that it has run, without gaps.
    fn elapsed(&self) -> f64 {
        self.before + self.began.elapsed().as_secs_f64()
    }

    fn is_over(&self) -> bool {
        self.began.elapsed() >= self.length || self.stop.load(Ordering::Relaxed)
    }

    fn deviate(&self, place: usize, kind: DeviationKind, what: String) {
        let at = self.elapsed();
        self.state().deviate(place, at, environment::now(), kind, what);
    }

    /// Waits, but not beyond the end.
    fn pause(&self, until: Instant) {
        while Instant::now() < until && !self.is_over() {
            std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    }
}

/// Soaks file services until the time is over or `interrupted` is set, writes state and reports to
/// `out`, and gives the last state. Servers, files and the virtual network are gone then.
pub fn run(
    state: ServiceSoak,
    out: &Path,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&ServiceSoak),
) -> Result<ServiceSoak, SoakError> {
    let settings = state.settings.clone();
    let names = || settings.services.iter().map(String::as_str);
    services_installed(names())?;
    Place::own().sweep();
    let services: Vec<&'static dyn Service> =
        names().map(|name| by_name(name).expect("the services were checked")).collect();
    // Room for all, and then for each.
    let room = ROOM * (u64::from(settings.clients) + 2);
    drop(FileStore::new(room * services.len() as u64)?);
    let stores: Result<Vec<_>, _> = services.iter().map(|_| FileStore::new(room)).collect();
    let stores = stores?;
    let fabric = virtual_network(settings.clients, settings.seed)?;
    let mut state = state;
    {
        let failed = |error| SoakError::Stage(StageError::Fabric(error));
        let _inside = fabric.node(1).enter().map_err(failed)?;
        let site = Site::find(fabric.node(1).interface).map_err(StageError::from)?;
        state.conditions = conditions(&site, Some(&fabric), settings.clients);
    }
    let before = state.elapsed;
    let length = Duration::from_secs_f64((settings.duration - before).max(0.0));
    let shared = Shared {
        state: Mutex::new(state),
        fabric: &fabric,
        began: Instant::now(),
        before,
        length,
        stop: AtomicBool::new(false),
    };
    let mut outcome = Ok(());
    std::thread::scope(|scope| {
        let shared = &shared;
        let start =
            |(place, (service, store))| scope.spawn(move || soak(shared, place, service, store));
        let work: Vec<_> = services.into_iter().zip(stores).enumerate().map(start).collect();
        let every = SAVE.min(Duration::from_secs_f64(settings.duration) / 10);
        let mut next = Instant::now();
        while work.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(LOOK);
            if Instant::now() >= next && outcome.is_ok() {
                next = Instant::now() + every;
                let mut state = shared.state();
                state.elapsed = shared.elapsed();
                progress(&state);
                outcome = write(&state, out);
            }
            // A thread that ends before the time has failed.
            let failed = work.iter().any(|thread| thread.is_finished());
            if outcome.is_err() || failed || interrupted.load(Ordering::Relaxed) {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        for thread in work {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => outcome = Err(error),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    let elapsed = shared.elapsed();
    let mut state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.end(elapsed, environment::now());
    write(&state, out)?;
    outcome.map(|()| state)
}

fn write(state: &ServiceSoak, out: &Path) -> Result<(), SoakError> {
    let (saved, saved_unix) = (environment::now(), unix() as u64);
    let state = ServiceSoak { saved, saved_unix, ..state.clone() };
    let (json, html, markdown) = (state.to_json(), report::html(&state), report::markdown(&state));
    let files = [(FILE, &json), ("report.html", &html), ("report.md", &markdown)];
    let files = files.map(|(name, text)| TextFile { name, text });
    files::write_all(out, &files).map_err(WriteError::into)
}

/// Soaks the service at this place until the end. Servers end with the thread that started them.
fn soak(
    shared: &Shared<'_>,
    place: usize,
    service: &'static dyn Service,
    mut store: FileStore,
) -> Result<(), SoakError> {
    let settings = shared.state().settings.clone();
    let done = shared.state().services[place].turns;
    let mut turns = Turns::new(service, (place, done), &mut store, &settings)?;
    let rate = settings.rate / settings.services.len() as f64;
    let (mut server, mut started): (Option<FileServer<'_>>, _) = (None, Instant::now());
    let mut due = Instant::now();
    loop {
        // One that has ended between two turns.
        if let Some(Err(error)) = server.as_mut().map(FileServer::alive) {
            shared.deviate(place, DeviationKind::Failed, error.to_string());
            server = None;
        }
        if shared.is_over() {
            return Ok(());
        }
        if started.elapsed() >= ROUND {
            server = None;
        }
        let outcome = match &mut server {
            Some(server) => turns.turn(shared, &store, server),
            None => {
                started = Instant::now();
                let new = start(shared, place, service, &store);
                new.map(|new| (server = Some(new), 0).1)
                    .map_err(|error| ("its server".into(), error))
            }
        };
        match outcome {
            Ok(bytes) => {
                let memory = server.as_ref().map_or(0, FileServer::resident);
                shared.state().saw_memory(place, memory);
                due =
                    due.max(Instant::now() - PAUSE) + Duration::from_secs_f64(bytes as f64 / rate);
            }
            Err((_, error)) if error.is_interruption() => return Ok(()),
            // It never worked.
            Err((_, error)) if shared.state().services[place].copies.count == 0 => {
                return Err(error.into());
            }
            Err((what, error)) => {
                let kind = match error {
                    ServiceError::Wrong { .. } => DeviationKind::Torn,
                    _ => DeviationKind::Failed,
                };
                shared.deviate(place, kind, format!("{what}: {error}"));
                // What was sent in part stays under its name.
                store.clear_uploads()?;
                due = Instant::now() + PAUSE;
            }
        }
        shared.pause(due);
    }
}

fn start<'a>(
    shared: &Shared<'_>,
    place: usize,
    service: &'static dyn Service,
    store: &'a FileStore,
) -> Result<FileServer<'a>, ServiceError> {
    let (host, rights) =
        (shared.fabric.node(1).into(), Rights { writable: true, ..Rights::default() });
    let server = FileServer::start(service, (&host, None), store, rights, &shared.stop)?;
    let client_version = client::client_version(service, &shared.stop)?;
    let mut state = shared.state();
    let record = &mut state.services[place];
    record.starts += 1;
    record.version.clone_from(&server.version);
    record.client_version = client_version;
    Ok(server)
}

/// What clients transfer, one after the other.
struct Turns {
    service: &'static dyn Service,
    place: usize,
    files: Vec<StoredFile>,
    tree: Option<StoredFile>,
    clients: u8,
    random: Rand64,
}

impl Turns {
    /// Of a soak that goes on, they are others than those that were.
    fn new(
        service: &'static dyn Service,
        (place, done): (usize, u64),
        store: &mut FileStore,
        settings: &ServiceSettings,
    ) -> Result<Self, ServiceError> {
        let files: Result<Vec<_>, _> = SIZES.iter().map(|&size| store.create(size, 1)).collect();
        let fetches_trees = service.spec().trees.contains(&Direction::Get);
        let tree = fetches_trees.then(|| store.create(TREE.1, TREE.0)).transpose()?;
        let random =
            Rand64::new(u128::from(done) << 72 | u128::from(settings.seed) << 8 | place as u128);
        Ok(Self { service, place, files: files?, tree, clients: settings.clients, random })
    }

    /// One of so many.
    fn of(&mut self, many: usize) -> usize {
        self.random.rand_range(0..many as u64) as usize
    }

    /// The next file or tree, and how it is transferred.
    fn next(&mut self) -> (StoredFile, FileCell) {
        let is_rare = self.random.rand_range(0..RARELY) == 0;
        let tree = self.tree.clone().filter(|_| is_rare && self.of(2) == 0);
        let sends = is_rare && tree.is_none();
        let at = self.of(self.files.len());
        let file = tree.unwrap_or_else(|| self.files[at].clone());
        let protection = match self.service.spec().protects {
            true => [Protection::Off, Protection::Sign, Protection::Encrypt][self.of(3)],
            false => Protection::Off,
        };
        let cell = FileCell {
            service: self.service.spec().name.to_owned(),
            size: file.size,
            files: file.files,
            direction: if sends { Direction::Put } else { Direction::Get },
            to: Sink::Disk,
            connection: Connection::New,
            // Those that send would all write the same file.
            clients: if sends { 1 } else { 1 + self.of(self.clients.into()) as u32 },
            protection,
            memory: None,
            disk_rate: None,
        };
        (file, cell)
    }

    /// Transfers and compares; the bytes of all clients. An error comes with what was transferred.
    fn turn(
        &mut self,
        shared: &Shared<'_>,
        store: &FileStore,
        server: &mut FileServer<'_>,
    ) -> Result<u64, (String, ServiceError)> {
        let (file, cell) = self.next();
        self.transfer(shared, store, server, (&file, &cell)).map_err(|error| (cell.title(), error))
    }

    fn transfer(
        &mut self,
        shared: &Shared<'_>,
        store: &FileStore,
        server: &mut FileServer<'_>,
        (file, cell): (&StoredFile, &FileCell),
    ) -> Result<u64, ServiceError> {
        // Each turn begins with another client.
        let mut hosts: Vec<Host> =
            shared.fabric.nodes().into_iter().skip(1).map(Host::from).collect();
        let first = self.of(hosts.len());
        hosts.rotate_left(first);
        let clients = Clients { hosts: &hosts, cpu: None, small: file };
        let fetched = client::fetch(server, store, file, cell, &clients, &shared.stop)?;
        let copies = client::verify(server, store, file, &fetched)?;
        let bytes = cell.bytes() * u64::from(cell.clients);
        let at = shared.elapsed();
        let seen = Seen { at, copies, bytes, seconds: fetched.whole, what: cell.title() };
        shared.state().saw(self.place, seen);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(name: &str, store: &mut FileStore) -> Turns {
        let settings = ServiceSettings {
            services: vec![name.to_owned()],
            clients: 7,
            duration: 1.0,
            rate: 1e6,
            seed: 3,
        };
        Turns::new(by_name(name).unwrap(), (0, 0), store, &settings).unwrap()
    }

    #[test]
    fn the_turns_of_a_seed_have_all_sizes_ways_and_numbers_of_clients() {
        let mut store = FileStore::new(0).unwrap();
        let (mut some, mut again) = (turns("smb", &mut store), turns("smb", &mut store));
        let cells: Vec<FileCell> = (0..400).map(|_| some.next().1).collect();
        assert!(cells.iter().all(|cell| *cell == again.next().1));
        let has = |of: &dyn Fn(&FileCell) -> bool| cells.iter().any(of);
        for size in SIZES {
            assert!(has(&|cell| cell.size == size && cell.files == 1 && cell.direction.is_get()));
            assert!(has(&|cell| cell.size == size && !cell.direction.is_get()));
        }
        for clients in 1..=7 {
            assert!(has(&|cell| cell.clients == clients));
        }
        for protection in [Protection::Off, Protection::Sign, Protection::Encrypt] {
            assert!(has(&|cell| cell.protection == protection));
        }
        assert!(has(&|cell| cell.files > 1));
        assert!(cells.iter().all(|cell| cell.direction.is_get() || cell.clients == 1));
    }

    #[test]
    fn a_service_without_trees_gets_none() {
        let mut store = FileStore::new(0).unwrap();
        let mut turns = turns("nfs", &mut store);
        assert!((0..100).all(|_| turns.next().1.files == 1));
    }
}
