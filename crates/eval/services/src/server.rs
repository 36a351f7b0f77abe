//! A file server: configured, started, watched and ended. It is in a node of the virtual network,
//! or on this machine for clients on others.

use crate::error::ServiceError;
use crate::fence;
use crate::host::Host;
use crate::installed::find;
use crate::memory::MemoryLimit;
use crate::meter::{EndMeter, EndReading, resident};
use crate::rights;
use crate::service::{ServerPlace, Service, words};
use crate::serving::{ServerAddress, ServingEnd};
use crate::store::{FileStore, StoredFile};
use gigae_confine::Fence;
use gigae_eval_model::service::OWN;
use gigae_eval_session::control::{Key, Spent};
use gigae_eval_session::programs::ProgramError;
use gigae_eval_session::programs::answer::free_port;
use gigae_eval_session::programs::process::ProgramProcess;
use gigae_fabric::FabricError;
use gigae_host::{affinity, user};
use rustix::process::geteuid;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for a server to open its port. Samba makes its databases first; the machine may be busy.
const START: Duration = Duration::from_secs(30);

/// The pause between two looks at the port.
const LOOK: Duration = Duration::from_millis(5);

/// Time for a former server to be gone, which was killed.
const FORMER: Duration = Duration::from_secs(5);

/// Time for a server to say its version.
const VERSION: Duration = Duration::from_secs(10);

/// Of a server's log, this many last lines are shown.
const LINES: usize = 3;

/// What a server may do, and with what.
#[derive(Default)]
pub struct Rights {
    /// Less memory.
    pub limit: Option<MemoryLimit>,
    /// Clients send files.
    pub writable: bool,
    /// For a server that other machines reach: it has no files but its own.
    pub fenced: bool,
}

/// A server that runs. It ends with this value, with all that it has started.
pub struct FileServer<'a> {
    /// Where clients find it.
    pub at: ServerAddress,
    /// What its program says of its version.
    pub version: String,
    store: &'a FileStore,
    process: Option<ProgramProcess>,
    meter: EndMeter,
    begun: Option<EndReading>,
    log: PathBuf,
    /// After the process, which is in it.
    limit: Option<MemoryLimit>,
}

impl Drop for FileServer<'_> {
    fn drop(&mut self) {
        self.process = None;
    }
}

impl<'a> FileServer<'a> {
    /// Starts a server on a host and a CPU, and waits until it can be reached. The calling thread
    /// must live as long as the server.
    pub fn start(
        service: &'static dyn Service,
        (host, cpu): (&Host, Option<usize>),
        store: &'a FileStore,
        Rights { limit, writable, fenced }: Rights,
        interrupted: &AtomicBool,
    ) -> Result<Self, ServiceError> {
        let (program, _) = service.spec().programs[0];
        let is_root = geteuid().is_root() && !user::in_user_namespace();
        if let Some(why) = service.spec().needs_root.filter(|_| !is_root) {
            let title = service.spec().title;
            return Err(ServiceError::Unavailable(format!(
                "{title}: {program} {why}, which needs root; run this as root"
            )));
        }
        let path = find(program).ok_or_else(|| missing(service))?;
        let failed = |source| ProgramError::Start { program, source };
        let directory = store.directory_of(service.spec().name)?;
        let inside = host.enter().map_err(|error| failed(std::io::Error::other(error)))?;
        let port = free_port(host.ip.into(), false).map_err(failed)?;
        let secret = Key::random().map_err(|error| failed(std::io::Error::other(error)))?;
        let password = secret.to_hex();
        let (log, export) = (directory.join("log"), store.export());
        let place = ServerPlace {
            directory: &directory,
            log: &log,
            export: &export,
            ip: host.ip,
            port,
            password: &password,
            interfaces: &host.interfaces().join(","),
            writable,
        };
        wait_for_former(service, port, &log)?;
        let arguments = service.configure(&place).map_err(|error| {
            let title = service.spec().title;
            ServiceError::Unavailable(format!("{title}: cannot configure {program}: {error}"))
        })?;
        let asked = service.version();
        let version = version(asked, program, &path, interrupted)?;
        let mut line = service.launch([vec![path], arguments].concat());
        if let Some(limit) = &limit {
            let groups = limit.groups().into_iter().map(|file| file.display().to_string());
            let joins = words(["sh", "-c", limit.script(), "sh"]).into_iter().chain(groups);
            line = joins.chain(line).collect();
        }
        let fence = match fenced {
            true => fence::of(service.spec().name, store.directory()).map_err(failed)?,
            false => None,
        };
        let start = || ProgramProcess::start_command(program, command(&line, fence));
        // gigae's own programs need for frames what this one needs.
        let start = || if program == OWN { rights::kept(start) } else { start() };
        let process = affinity::pinned(cpu, start)?;
        let meter = EndMeter::server(host.clone(), cpu, Some(process.id()));
        let (ip, mac, process) = (host.ip, host.mac, Some(process));
        let at = ServerAddress { service, ip, mac, port, password, directory };
        let mut server = Self { at, version, store, process, meter, begun: None, log, limit };
        server.wait(interrupted)?;
        drop(inside);
        Ok(server)
    }

    /// Waits until it can be reached. The calling thread is in the server's network.
    fn wait(&mut self, interrupted: &AtomicBool) -> Result<(), ServiceError> {
        let deadline = Instant::now() + START;
        while !self.at.service.is_ready(self.at.port, &self.log) {
            self.alive()?;
            if interrupted.load(Ordering::Relaxed) {
                return Err(ProgramError::Interrupted.into());
            }
            if Instant::now() > deadline {
                let program = self.program();
                let said = self.process.take().map(ProgramProcess::end).unwrap_or_default();
                return Err(ServiceError::Late { program, last: last_lines(&self.log, &said) });
            }
            std::thread::sleep(LOOK);
        }
        // The port may be another server's, for which this one has ended.
        self.alive()
    }

    /// The number of its first process; `None` after its end.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(ProgramProcess::id)
    }

    /// Resident memory of all its processes, in bytes; what they share counts for each.
    pub fn resident(&self) -> u64 {
        self.id().map_or(0, resident)
    }

    fn program(&self) -> &'static str {
        self.at.service.spec().programs[0].0
    }
}

impl ServingEnd for FileServer<'_> {
    fn at(&self) -> &ServerAddress {
        &self.at
    }

    fn about(&self) -> (String, Option<String>) {
        (self.version.clone(), self.store.file_system())
    }

    /// The error has the end of its log.
    fn alive(&mut self) -> Result<(), ServiceError> {
        let program = self.program();
        let status = match self.process.as_mut().map(ProgramProcess::ended) {
            Some(None) => return Ok(()),
            Some(Some(status)) => status.to_string(),
            None => "an error before".to_owned(),
        };
        let said = self.process.take().map(ProgramProcess::end).unwrap_or_default();
        Err(ServiceError::Died { program, status, last: last_lines(&self.log, &said) })
    }

    fn slow_disk(&mut self, bytes_per_second: f64) -> Result<(), ServiceError> {
        let export = self.store.export();
        self.limit.as_mut().map_or(Ok(()), |limit| limit.throttle(&export, bytes_per_second))
    }

    fn begin(&mut self) -> Result<(), ServiceError> {
        self.alive()?;
        self.store.clear_uploads()?;
        self.store.settle()?;
        self.begun = Some(self.meter.read(None).map_err(unreadable)?);
        Ok(())
    }

    fn end(&mut self) -> Result<Spent, ServiceError> {
        let never = || ServiceError::Unavailable("no repetition has begun".into());
        let begin = self.begun.take().ok_or_else(never)?;
        let end = self.meter.read(Some(&begin)).map_err(unreadable)?;
        Ok(Spent { cost: begin.until(&end), disk: begin.disk_read(&end) })
    }

    fn is_same(&mut self, sent: &str, file: &StoredFile) -> Result<bool, ServiceError> {
        self.store.verify(file, &self.store.uploads().join(sent))
    }
}

/// What another server has told this one would be taken for its own answer.
fn wait_for_former(
    service: &'static dyn Service,
    port: u16,
    log: &Path,
) -> Result<(), ServiceError> {
    let deadline = Instant::now() + FORMER;
    while service.is_ready(port, log) {
        if Instant::now() > deadline {
            let (title, program) = (service.spec().title, service.spec().programs[0].0);
            return Err(ServiceError::Unavailable(format!(
                "{title}: another {program} answers here already; end it first"
            )));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// A command that closes the fence around itself before the program runs.
fn command(line: &[String], fence: Option<Fence>) -> Command {
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]);
    if let Some(fence) = fence {
        // SAFETY: `close` makes two system calls and allocates nothing, as is needed after fork(2)
        // in a process with threads.
        unsafe { command.pre_exec(move || fence.close()) };
    }
    command
}

fn unreadable(error: FabricError) -> ServiceError {
    ServiceError::Unavailable(error.to_string())
}

fn missing(service: &dyn Service) -> ServiceError {
    let (program, package) = service.spec().programs[0];
    ServiceError::Missing { programs: program.into(), packages: package.into() }
}

/// What a program says of its version to a shell command.
pub(crate) fn version(
    asked: &str,
    program: &'static str,
    path: &str,
    interrupted: &AtomicBool,
) -> Result<String, ServiceError> {
    let arguments = words(["-c", asked, "sh", path]);
    let said = ProgramProcess::start(program, "sh", &arguments)?.finish(VERSION, interrupted)?;
    Ok(said.lines().next().unwrap_or_default().trim().to_owned())
}

/// The last lines of a log and of what its program printed, in one line.
fn last_lines(log: &Path, said: &[String]) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let texts = text.iter().chain(said);
    let plain = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>();
    let lines: Vec<String> = texts
        .flat_map(|text| text.lines())
        .map(|line| plain(line).trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    match &lines[lines.len().saturating_sub(LINES)..] {
        [] => "(it said nothing)".to_owned(),
        last => format!("'{}'", last.join("' '")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_log_and_output_are_one_line() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        assert_eq!(last_lines(&log, &[]), "(it said nothing)");
        fs::write(&log, "one\ntwo\n\nthree \u{1b}[1m\n").unwrap();
        assert_eq!(last_lines(&log, &["four\n".into()]), "'two' 'three [1m' 'four'");
    }
}
