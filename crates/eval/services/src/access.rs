//! Reads and writes within a file of a server, without a mount: `fio` measures, and `qemu-nbd`
//! speaks the service's protocol for it.
//!
//! ```text
//! fio --- network block device (a Unix socket) --- qemu-nbd --- NFS over the link --- server
//! ```
//!
//! Debian's fio speaks no NFS itself. QEMU's NFS client is libnfs. What the two programs take
//! without a server is measured too ([`Way::Local`]). Each repetition has a new `qemu-nbd`, so
//! nothing is cached on the client's side. The programs are on the client's CPU.

use crate::error::ServiceError;
use crate::fio;
pub use crate::fio::{FioRun, FioSide};
use crate::installed::find;
use crate::meter::EndMeter;
use crate::server::FileServer;
use crate::service::words;
use crate::store::{FileStore, StoredFile};
use gigae_eval_model::access::{AccessCell, Export, Way};
use gigae_eval_model::cost::Cost;
use gigae_eval_session::programs::ProgramError;
use gigae_eval_session::programs::process::{ProgramProcess, last_line};
use gigae_fabric::{FabricError, Node};
use gigae_host::affinity;
use gigae_host::proc::process::Stat;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The programs, and Debian's package of each.
pub const PROGRAMS: [(&str, &str); 2] = [("fio", "fio"), ("qemu-nbd", "qemu-utils")];

/// What `qemu-nbd` loads to speak NFS.
pub const LIBRARIES: [(&str, &str); 1] = [("qemu/block-nfs.so", "qemu-block-extra")];

const FIO: &str = PROGRAMS[0].0;
const NBD: &str = PROGRAMS[1].0;

/// No pattern may be slower than this many bytes per second, or its programs are ended.
const SLOWEST: f64 = 50_000.0;

/// Beside that, for start and end.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is looked for the socket.
const LOOK: Duration = Duration::from_millis(2);

/// Where the measuring programs are, and what they measure.
pub struct AccessPlace<'a> {
    /// The server.
    pub server: &'a FileServer,
    /// The server's node and the client's.
    pub nodes: [&'a Node; 2],
    /// The CPUs of the server and of the client.
    pub cpus: [Option<usize>; 2],
    /// The files.
    pub store: &'a FileStore,
    /// The file within which is read and written.
    pub file: &'a StoredFile,
}

/// What a repetition brought.
#[derive(Clone, Debug)]
pub struct Accessed {
    /// What fio measured.
    pub run: FioRun,
    /// What it cost the server.
    pub server: Cost,
    /// What it cost the client's programs, without their start.
    pub client: Cost,
    /// fio's command line.
    pub command: String,
}

/// `qemu-nbd` with the file.
struct Nbd {
    process: ProgramProcess,
    socket: PathBuf,
}

impl AccessPlace<'_> {
    /// Carries a cell out once.
    pub fn measure(
        &self,
        cell: &AccessCell,
        interrupted: &AtomicBool,
    ) -> Result<Accessed, ServiceError> {
        let connections = fio::connections(cell.depth);
        let nbd = self.nbd(cell.way, cell.export, connections, interrupted)?;
        let [serving, measuring] = self.cpus;
        let there = EndMeter::server(self.nodes[0].clone(), serving, self.server.id());
        let here = EndMeter::server(self.node(cell.way).clone(), measuring, Some(nbd.process.id()));
        let read = |meter: &EndMeter| meter.read(None).map_err(failed);
        let begin = (read(&there)?, read(&here)?, ended_time());
        let arguments = fio::arguments(cell, &nbd.socket.to_string_lossy());
        let seconds = cell.seconds.unwrap_or(cell.size as f64 / SLOWEST);
        let patience = PATIENCE + Duration::from_secs_f64(seconds);
        let said = self.fio(cell.way, &arguments, patience, interrupted)?;
        let end = (read(&here)?, read(&there)?, ended_time());
        let run = fio::read(&said, true).ok_or_else(|| garbled(&said))?;
        let mut client = begin.1.until(&end.0);
        let server = begin.0.until(&end.1);
        // The measuring threads belong to the client; fio's start is nobody's.
        client.cpu_others -= end.2 - begin.2;
        client.cpu_thread += run.cpu;
        let command = format!("{FIO} {}", arguments.join(" "));
        Ok(Accessed { run, server, client, command })
    }

    /// Writes over the link, reads back and compares; how many bytes.
    pub fn check(&self, interrupted: &AtomicBool) -> Result<u64, ServiceError> {
        let nbd = self.nbd(Way::Network, Export::Async, 1, interrupted)?;
        let arguments = fio::check(self.file.size, &nbd.socket.to_string_lossy());
        let said = self.fio(Way::Network, &arguments, PATIENCE, interrupted)?;
        let run = fio::read(&said, false).ok_or_else(|| garbled(&said))?;
        let bytes = |side: Option<FioSide>| side.map_or(0, |side| side.bytes);
        let (written, compared) = (bytes(run.write), bytes(run.read));
        if written == 0 || compared < written {
            let (service, name) = (self.server.service.spec().title, self.file.name.clone());
            return Err(ServiceError::Wrong { service, name });
        }
        Ok(written)
    }

    fn node(&self, way: Way) -> &Node {
        let [server, client] = self.nodes;
        if way == Way::Localhost { server } else { client }
    }

    /// Starts `qemu-nbd` and waits until it has the file.
    fn nbd(
        &self,
        way: Way,
        export: Export,
        connections: u32,
        interrupted: &AtomicBool,
    ) -> Result<Nbd, ServiceError> {
        let local = self.store.export().join(&self.file.name).to_string_lossy().into_owned();
        let url = self.server.service.url(self.server.ip, &self.file.name, export);
        let file = if way == Way::Local { local } else { url.unwrap_or_default() };
        let socket = self.server.directory.join("nbd");
        let _ = std::fs::remove_file(&socket);
        let mut arguments = words(["--persistent", "--format=raw", "--cache=writeback"]);
        // One more for a look at whether it is there.
        arguments.push(format!("--shared={}", connections + 1));
        arguments.push(format!("--socket={}", socket.display()));
        arguments.push(file);
        let mut nbd = Nbd { process: self.start(NBD, way, &arguments)?, socket };
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(&nbd.socket).is_err() {
            if let Some(status) = nbd.process.ended() {
                return Err(nbd.process.gone(status).into());
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(ProgramError::Interrupted.into());
            }
            if Instant::now() > deadline {
                return Err(nbd.process.late("opened no socket").into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(nbd)
    }

    fn fio(
        &self,
        way: Way,
        arguments: &[String],
        patience: Duration,
        interrupted: &AtomicBool,
    ) -> Result<String, ServiceError> {
        Ok(self.start(FIO, way, arguments)?.finish(patience, interrupted)?)
    }

    fn start(
        &self,
        program: &'static str,
        way: Way,
        arguments: &[String],
    ) -> Result<ProgramProcess, ServiceError> {
        let (_, package) = PROGRAMS.iter().find(|one| one.0 == program).expect("one of both");
        let path = find(program).ok_or_else(|| ServiceError::Missing {
            programs: program.into(),
            packages: (*package).into(),
        })?;
        let _inside = self
            .node(way)
            .enter()
            .map_err(|error| ProgramError::Start { program, source: io::Error::other(error) })?;
        let start = || ProgramProcess::start(program, &path, arguments);
        Ok(affinity::pinned(self.cpus[1], start)?)
    }
}

fn garbled(said: &str) -> ServiceError {
    ProgramError::Garbled { program: FIO, last: last_line(said, "") }.into()
}

fn failed(error: FabricError) -> ServiceError {
    ServiceError::Unavailable(error.to_string())
}

/// CPU time of all processes that this one has started and seen end, in seconds.
fn ended_time() -> f64 {
    Stat::of(std::process::id()).map_or(0.0, |own| own.children_time.as_secs_f64())
}
