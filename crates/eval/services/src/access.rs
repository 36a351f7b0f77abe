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
use crate::server::{FileServer, version};
use crate::service::words;
use crate::store::{FileStore, StoredFile};
use gigae_eval_model::access::{AccessCell, Export, Way};
use gigae_eval_model::cost::Cost;
use gigae_eval_session::programs::ProgramError;
use gigae_eval_session::programs::process::{ProgramProcess, last_line};
use gigae_fabric::{FabricError, Node};
use gigae_host::affinity;
use gigae_host::proc::process::{Stat, is_alive};
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

/// Pause between two tries to connect.
const LOOK: Duration = Duration::from_millis(2);

/// What the measuring programs say of their versions.
pub fn client_versions(interrupted: &AtomicBool) -> Result<Vec<String>, ServiceError> {
    let of = |&(program, package): &(&'static str, &'static str)| {
        let path = find(program).ok_or_else(|| ServiceError::Missing {
            programs: program.into(),
            packages: package.into(),
        })?;
        version("\"$1\" --version", program, &path, interrupted)
    };
    PROGRAMS.iter().map(of).collect()
}

/// Where the measuring programs are, and what they measure.
pub struct AccessPlace<'a> {
    /// The server.
    pub server: &'a FileServer<'a>,
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
    /// Bytes that the end with the file read from its disk; absent where the kernel does not count
    /// them.
    pub disk: Option<u64>,
    /// fio's command line.
    pub command: String,
}

/// `qemu-nbd` with the file.
struct Nbd {
    process: ProgramProcess,
    socket: PathBuf,
}

impl AccessPlace<'_> {
    /// Measures one repetition. Before it, all earlier writes go to the disk: what waits for the
    /// disk would wait for them, too.
    pub fn measure(
        &self,
        cell: &AccessCell,
        interrupted: &AtomicBool,
    ) -> Result<Accessed, ServiceError> {
        self.store.settle()?;
        let connections = gigae_eval_model::plan::connections(cell.depth);
        let nbd = self.nbd(cell.way, cell.export, connections, interrupted)?;
        let [serving, measuring] = self.cpus;
        let there = EndMeter::server(self.nodes[0].clone().into(), serving, self.server.id());
        let here =
            EndMeter::server(self.node(cell.way).clone().into(), measuring, Some(nbd.process.id()));
        let read = |meter: &EndMeter| meter.read(None).map_err(failed);
        let (there_before, here_before, ended_before) = (read(&there)?, read(&here)?, ended_time());
        let arguments = fio::arguments(cell, &nbd.socket.to_string_lossy());
        let seconds = cell.seconds.unwrap_or(cell.size as f64 / SLOWEST);
        let patience = PATIENCE + Duration::from_secs_f64(seconds);
        let (said, _nbd) = self.fio(cell.way, nbd, &arguments, patience, interrupted)?;
        let (here_after, there_after) = (read(&here)?, read(&there)?);
        let fio = ended_time() - ended_before;
        let run = fio::read(&said, true).ok_or_else(|| garbled(&said))?;
        let mut client = here_before.until(&here_after);
        let mut server = there_before.until(&there_after);
        let disk = match cell.way {
            Way::Local => here_before.disk_read(&here_after),
            Way::Network | Way::Localhost => there_before.disk_read(&there_after),
        };
        // The measuring threads belong to the client; fio's start is not counted.
        client.cpu_others -= fio;
        client.cpu_thread += run.cpu;
        if serving.is_some() && serving == measuring {
            server.cpu_others -= fio;
        }
        let command = format!("{FIO} {}", arguments.join(" "));
        Ok(Accessed { run, server, client, disk, command })
    }

    /// Writes over the link, reads back and compares; how many bytes.
    pub fn check(&self, interrupted: &AtomicBool) -> Result<u64, ServiceError> {
        let nbd = self.nbd(Way::Network, Export::Async, 1, interrupted)?;
        let (bytes, arguments) = fio::check(self.file.size, &nbd.socket.to_string_lossy());
        let patience = PATIENCE + Duration::from_secs_f64(2.0 * bytes as f64 / SLOWEST);
        let wrong = || {
            let (service, name) = (self.server.at.service.spec().title, self.file.name.clone());
            ServiceError::Wrong { service, name }
        };
        let (said, _) = match self.fio(Way::Network, nbd, &arguments, patience, interrupted) {
            Err(ServiceError::Program(ProgramError::Ended { last, .. }))
                if fio::says_difference(&last) =>
            {
                return Err(wrong());
            }
            said => said?,
        };
        let run = fio::read(&said, false).ok_or_else(|| garbled(&said))?;
        let bytes = |side: Option<FioSide>| side.map_or(0, |side| side.bytes);
        let (written, compared) = (bytes(run.write), bytes(run.read));
        if written == 0 || compared < written { Err(wrong()) } else { Ok(written) }
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
        let url = self.server.at.service.url(self.server.at.ip, &self.file.name, export);
        let file = if way == Way::Local { local } else { url.unwrap_or_default() };
        let socket = self.server.at.directory.join("nbd");
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

    /// Runs fio. Without the server or `qemu-nbd` it would wait for ever.
    fn fio(
        &self,
        way: Way,
        mut nbd: Nbd,
        arguments: &[String],
        patience: Duration,
        interrupted: &AtomicBool,
    ) -> Result<(String, Nbd), ServiceError> {
        let served = || self.server.id().is_some_and(is_alive);
        let fio = self.start(FIO, way, arguments)?;
        let said =
            fio.finish_unless(patience, interrupted, || nbd.process.ended().is_some() || !served());
        match (said, nbd.process.ended()) {
            (Ok(said), _) => Ok((said, nbd)),
            (Err(ProgramError::Interrupted), _) => Err(ProgramError::Interrupted.into()),
            (Err(_), Some(status)) => Err(nbd.process.gone(status).into()),
            (Err(ProgramError::Ended { program, status, mut last }), None) => {
                // It says why the server has refused something.
                let [_, why] = nbd.process.end();
                if !why.trim().is_empty() {
                    last += &format!("; {NBD}: {}", last_line(&why, ""));
                }
                Err(ProgramError::Ended { program, status, last }.into())
            }
            (Err(error), None) => Err(error.into()),
        }
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
