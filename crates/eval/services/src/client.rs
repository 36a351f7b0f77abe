//! Transfers a file or a tree once, by one or several clients, and compares copies with it.

use crate::error::ServiceError;
use crate::host::Host;
use crate::installed::find;
use crate::server::version;
use crate::service::{Fetch, Service, Transfer, UPLOADS};
use crate::serving::ServingEnd;
use crate::store::{FileStore, StoredFile};
use gigae_eval_model::file_figure::FileCell;
use gigae_eval_model::service::{Connection, Direction, Sink};
use gigae_eval_session::programs::ProgramError;
use gigae_eval_session::programs::process::{ProgramProcess, last_line};
use gigae_host::affinity;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// No copy may be slower than this many bytes per second, or its client is ended.
const SLOWEST: f64 = 500_000.0;

/// Beside that, for start and login.
const PATIENCE: Duration = Duration::from_secs(60);

/// And for each file, but not for more than `MOST_WAITS`: curl 7.88 waits for a second before a
/// file if the server has answered EPSV at once. On a fast link that may be each one.
const WAIT: Duration = Duration::from_secs(1);
const MOST_WAITS: u32 = 600;

/// Time to take the output of a client that has ended.
const OUTPUT: Duration = Duration::from_secs(60);

/// How often it is looked whether a client has ended.
const LOOK: Duration = Duration::from_millis(1);

/// Numbers of files that servers need new names for.
static NEW: AtomicU64 = AtomicU64::new(0);

/// Where clients are.
pub struct Clients<'a> {
    /// Where they are: each further client has the next one.
    pub hosts: &'a [Host],
    /// The CPU of all.
    pub cpu: Option<usize>,
    /// A small file, with which kept connections begin.
    pub small: &'a StoredFile,
}

/// What a repetition brought.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// What each client saw.
    pub transfers: Vec<Transfer>,
    /// Seconds from the begin of the first transfer to the end of the last one.
    pub seconds: f64,
    /// Seconds from the start of the client that ran longest to its end.
    pub whole: f64,
    /// A client's command line.
    pub command: String,
    /// The copies here, if they are files.
    pub copies: Vec<PathBuf>,
    /// The name of the copy at the server, if the client has sent it.
    pub sent: Option<String>,
}

impl Fetched {
    /// Bytes per second of all clients together.
    pub fn rate(&self) -> f64 {
        let bytes: u64 = self.transfers.iter().map(|one| one.bytes).sum();
        bytes as f64 / self.seconds
    }

    /// Seconds before the transfer, of the client that waited longest, if clients say that.
    pub fn before(&self) -> Option<f64> {
        self.transfers.iter().filter_map(|one| one.before).reduce(f64::max)
    }
}

/// All clients transfer a file at once, each as the cell says.
pub fn fetch(
    serving: &mut dyn ServingEnd,
    store: &FileStore,
    file: &StoredFile,
    cell: &FileCell,
    clients: &Clients<'_>,
    interrupted: &AtomicBool,
) -> Result<Fetched, ServiceError> {
    let server = &serving.at().clone();
    let service = server.service;
    let (program, path) = client(service)?;
    let sent = match service.reuses_names() {
        true => file.name.clone(),
        false => format!("{}-{}", file.name, NEW.fetch_add(1, Ordering::Relaxed)),
    };
    let copies: Vec<PathBuf> = match (cell.direction, cell.to) {
        (Direction::Put, _) | (_, Sink::Null) => Vec::new(),
        (Direction::Get, Sink::Disk) => {
            let copy = |number| Ok(store.copies_of(number)?.join(&file.name));
            (0..cell.clients).map(copy).collect::<Result<_, ServiceError>>()?
        }
    };
    let source = store.export().join(&file.name);
    let sends = (cell.direction == Direction::Put).then_some(source.as_path());
    let at_server = if sends.is_some() { format!("{UPLOADS}/{sent}") } else { file.name.clone() };
    let interfaces: Vec<String> =
        clients.hosts.iter().map(|host| host.interfaces().join(",")).collect();
    let fetches: Vec<Fetch<'_>> = (0..cell.clients as usize)
        .map(|number| Fetch {
            server: server.ip,
            mac: server.mac,
            port: server.port,
            password: &server.password,
            interfaces: &interfaces[number % interfaces.len()],
            directory: &server.directory,
            file: &at_server,
            size: file.size,
            files: file.files,
            sends,
            before: (cell.connection == Connection::Kept).then_some(clients.small.name.as_str()),
            to: copies.get(number).map(PathBuf::as_path),
            protection: cell.protection,
        })
        .collect();
    // What a client left that failed would not be a copy of the next one.
    copies.iter().try_for_each(|copy| store.remove(copy))?;
    let start = |(number, fetch): (usize, &Fetch<'_>)| {
        let host = &clients.hosts[number % clients.hosts.len()];
        let failed = |error| ProgramError::Start { program, source: std::io::Error::other(error) };
        let _inside = host.enter().map_err(failed)?;
        let (arguments, environment) = (service.fetch(fetch), service.environment(fetch));
        let start = || ProgramProcess::start_with(program, &path, &arguments, &environment);
        affinity::pinned(clients.cpu, start).map(|process| Client { process, ended: None })
    };
    let started: Result<Vec<_>, ProgramError> = fetches.iter().enumerate().map(start).collect();
    // Each client may make a slow disk read the whole file.
    let slowest = cell.disk_rate.map_or(SLOWEST, |rate| SLOWEST.min(rate / 2.0));
    let bytes = cell.bytes() as f64 * f64::from(cell.clients);
    let waits = WAIT * cell.files.min(MOST_WAITS);
    let patience = PATIENCE + waits + Duration::from_secs_f64(bytes / slowest);
    let (mut ends, mut longest) = (Vec::new(), Duration::ZERO);
    let finish = |(client, fetch): (Client, &Fetch<'_>)| {
        let begun = client.process.begun();
        let (said, ended) = client.finish(interrupted)?;
        let seen = transfer(service, program, fetch, &said, ended - begun)?;
        ends.push((ended, seen.seconds));
        longest = longest.max(ended - begun);
        Ok(seen)
    };
    let transfers: Result<Vec<Transfer>, ProgramError> = started.and_then(|mut all| {
        wait(&mut all, patience, interrupted);
        all.into_iter().zip(&fetches).map(finish).collect()
    });
    let transfers = match transfers {
        Ok(transfers) => transfers,
        Err(ProgramError::Interrupted) => return Err(ProgramError::Interrupted.into()),
        Err(error) => {
            // A server that has died says more than its client.
            serving.alive()?;
            return Err(error.into());
        }
    };
    let command = format!("{program} {}", service.fetch(&fetches[0]).join(" "));
    let command = command.replace(&server.password, "PASSWORD");
    let sent = sends.is_some().then_some(sent);
    let (seconds, whole) = (span(&ends), longest.as_secs_f64());
    Ok(Fetched { transfers, seconds, whole, command, copies, sent })
}

/// A service's client and its path.
fn client(service: &dyn Service) -> Result<(&'static str, String), ServiceError> {
    let (program, package) = *service.spec().programs.last().expect("a client");
    let (programs, packages) = (program.into(), package.into());
    let path = find(program).ok_or(ServiceError::Missing { programs, packages })?;
    Ok((program, path))
}

/// What a service's client says of its version, if it is another program than the server.
pub fn client_version(
    service: &dyn Service,
    interrupted: &AtomicBool,
) -> Result<Option<String>, ServiceError> {
    let (program, path) = client(service)?;
    let asked = service.client_version();
    asked.map(|asked| version(asked, program, &path, interrupted)).transpose()
}

/// A client that runs, or has ended.
struct Client {
    process: ProgramProcess,
    ended: Option<Instant>,
}

impl Client {
    /// What it said, and when it ended. One that still ran when nobody waited any longer is ended
    /// here, and has failed: its time would be that of the patience.
    fn finish(self, interrupted: &AtomicBool) -> Result<(String, Instant), ProgramError> {
        match self.ended {
            Some(ended) => Ok((self.process.finish(OUTPUT, interrupted)?, ended)),
            None if interrupted.load(Ordering::Relaxed) => Err(ProgramError::Interrupted),
            None => Err(self.process.late("did not end")),
        }
    }
}

/// Notes when each client ends. Those that still run after `patience`, or when the run is
/// interrupted, have no end.
fn wait(clients: &mut [Client], patience: Duration, interrupted: &AtomicBool) {
    let deadline = Instant::now() + patience;
    while clients.iter().any(|client| client.ended.is_none()) {
        for client in clients.iter_mut().filter(|client| client.ended.is_none()) {
            client.ended = client.process.ended().map(|_| Instant::now());
        }
        if interrupted.load(Ordering::Relaxed) || Instant::now() > deadline {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Seconds from the begin of the first transfer to the end of the last one. A client ends right
/// after its transfer, and says how long that took.
fn span(ends: &[(Instant, f64)]) -> f64 {
    let Some((last, _)) = ends.iter().max_by_key(|(ended, _)| *ended) else { return 0.0 };
    let since = |(ended, seconds): &(Instant, f64)| (*last - *ended).as_secs_f64() + seconds;
    ends.iter().map(since).fold(0.0, f64::max)
}

/// What the client saw, if it got all.
fn transfer(
    service: &dyn Service,
    program: &'static str,
    fetch: &Fetch<'_>,
    said: &str,
    whole: Duration,
) -> Result<Transfer, ProgramError> {
    let found = service.read(fetch, said, whole).filter(|found| found.bytes == fetch.bytes());
    found.ok_or_else(|| ProgramError::Garbled { program, last: last_line(said, "") })
}

/// Compares copies with the file, at either end, and removes them; how many there were.
pub fn verify(
    server: &mut dyn ServingEnd,
    store: &FileStore,
    file: &StoredFile,
    fetched: &Fetched,
) -> Result<u64, ServiceError> {
    let mut same = true;
    for copy in &fetched.copies {
        same &= store.verify(file, copy)?;
    }
    if let Some(sent) = &fetched.sent {
        same &= server.is_same(sent, file)?;
    }
    if !same {
        let service = server.at().service.spec().title;
        return Err(ServiceError::Wrong { service, name: file.name.clone() });
    }
    Ok(fetched.copies.len() as u64 + u64::from(fetched.sent.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_is_not_in_time_has_failed_and_has_no_time() {
        let interrupted = AtomicBool::new(false);
        let start = |script: &str| {
            let words = ["-c".to_owned(), script.to_owned()];
            Client { process: ProgramProcess::start("sh", "sh", &words).unwrap(), ended: None }
        };
        let mut all = [start("echo done"), start("sleep 100")];
        // The first one ends some time, the second one does not.
        wait(&mut all[..1], PATIENCE, &interrupted);
        wait(&mut all[1..], Duration::from_millis(1), &interrupted);
        let [first, second] = all;
        assert_eq!(first.finish(&interrupted).unwrap().0, "done\n");
        let error = second.finish(&interrupted).unwrap_err().to_string();
        assert!(error.contains("did not end in time"), "{error}");
        let third = start("sleep 100");
        let interrupted = AtomicBool::new(true);
        assert!(matches!(third.finish(&interrupted), Err(ProgramError::Interrupted)));
    }

    #[test]
    fn clients_that_do_not_overlap_have_no_more_than_the_link() {
        let now = Instant::now();
        let after = |millis| now + Duration::from_millis(millis);
        assert_eq!(span(&[(now, 1.5)]), 1.5);
        // One from 0 to 100 ms, the other one from 150 to 250 ms.
        let both = span(&[(after(100), 0.1), (after(250), 0.1)]);
        assert!((both - 0.25).abs() < 1e-9, "{both}");
        // The later one began first.
        let within = span(&[(after(100), 0.02), (after(120), 0.09)]);
        assert!((within - 0.09).abs() < 1e-9, "{within}");
    }
}
