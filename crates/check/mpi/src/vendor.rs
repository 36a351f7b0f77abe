//! The two MPIs: how each compiles a program, and how to say where and over what it runs.

use crate::Error;
use crate::hosts::{Finished, Hosts, open_to_all};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The wheel of MPICH that is tried: it contains its own libfabric, unlike Debian's MPICH.
pub const MPICH: &str = "mpich==5.0.2";

/// An MPI that is installed.
#[derive(Clone, Debug)]
pub enum Vendor {
    /// Open MPI, from the PATH (Debian: openmpi-bin, libopenmpi-dev).
    OpenMpi,
    /// MPICH, in a Python environment in this directory.
    Mpich(PathBuf),
}

/// What messages go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The provider, by libfabric.
    Gigae,
    /// TCP at its best: in Open MPI its own (`ob1`, `btl tcp`), in MPICH libfabric's.
    Tcp,
}

/// A program to run on the first hosts.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// Over what.
    pub transport: Transport,
    /// The number of hosts.
    pub hosts: u16,
    /// Ranks on each.
    pub places: u16,
    /// The program, compiled for this MPI.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: &'a [&'a str],
    /// Ended when it takes longer.
    pub limit: Duration,
}

impl Vendor {
    /// Debian's Open MPI.
    pub fn open_mpi() -> Result<Vendor, Error> {
        let version = Command::new("mpirun").arg("--version").output();
        match version {
            Ok(output) if String::from_utf8_lossy(&output.stdout).contains("Open MPI") => {
                Ok(Vendor::OpenMpi)
            }
            Ok(_) => Err("the mpirun in PATH is not Open MPI's; on Debian make it so: \
                          update-alternatives --set mpirun /usr/bin/mpirun.openmpi"
                .into()),
            Err(error) => Err(format!(
                "mpirun cannot be run: {error}; run: apt-get install openmpi-bin libopenmpi-dev"
            )),
        }
    }

    /// MPICH from the Python package index, installed into `directory` if it is not there yet.
    /// Takes some 35 MB and, the first time, the network. Waits for another process that is doing
    /// so.
    pub fn mpich(directory: &Path) -> Result<Vendor, Error> {
        let vendor = Vendor::Mpich(directory.to_owned());
        let lock = directory.with_extension("lock");
        let _locked = fs::create_dir_all(directory.parent().unwrap_or(directory))
            .and_then(|()| fs::File::create(&lock))
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| format!("locking {}: {error}", lock.display()))?;
        let done = directory.join("installed");
        if fs::read_to_string(&done).is_ok_and(|what| what == MPICH) {
            return Ok(vendor);
        }
        // What a killed attempt left.
        let _ = fs::remove_dir_all(directory);
        let place = directory.display();
        let mut environment = Command::new("python3");
        let output = environment.args(["-m", "venv"]).arg(directory).output();
        well(
            output,
            &format!(
                "a Python environment cannot be made in {place}; run: apt-get install python3-venv"
            ),
        )?;
        let mut install = Command::new(directory.join("bin/pip"));
        install.args(["install", "--quiet", "--no-input", "--disable-pip-version-check", MPICH]);
        well(
            install.output(),
            &format!(
                "{MPICH} cannot be had from the Python package index; see that pip reaches it \
             (pip download {MPICH}; behind a mirror: PIP_INDEX_URL, PIP_FIND_LINKS)"
            ),
        )?;
        fs::write(&done, MPICH).map_err(|error| format!("writing {}: {error}", done.display()))?;
        Ok(vendor)
    }

    /// The same in a directory that does not exist yet: where it is installed not every user may
    /// look. Some 70 MB of MPICH's; Open MPI is where it is.
    pub fn copied(&self, directory: &Path) -> Result<Vendor, Error> {
        let Vendor::Mpich(installed) = self else { return Ok(self.clone()) };
        let what = format!("{MPICH} cannot be copied to {}", directory.display());
        well(Command::new("cp").arg("-rp").args([installed, directory]).output(), &what)?;
        // The compiler is a script that names the place.
        let compiler = directory.join("bin/mpicc");
        let [old, new] = [installed, directory].map(|place| place.display().to_string());
        fs::read_to_string(&compiler)
            .and_then(|text| fs::write(&compiler, text.replace(&old, &new)))
            .map_err(|error| format!("{what}: {error}"))?;
        Ok(Vendor::Mpich(directory.to_owned()))
    }

    /// A program of this MPI's.
    fn tool(&self, name: &str) -> PathBuf {
        match self {
            Vendor::OpenMpi => name.into(),
            Vendor::Mpich(directory) => directory.join("bin").join(name),
        }
    }

    /// Compiles programs of this crate: `sources` without `.c`; the first one names the result,
    /// which lies with the hosts' files.
    pub fn compile(&self, hosts: &Hosts, sources: &[&str]) -> Result<PathBuf, Error> {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        let program = hosts.place().join(sources[0]);
        let mut command = Command::new(self.tool("mpicc"));
        command.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
        command.args(sources.iter().map(|name| programs.join(format!("{name}.c"))));
        let output = command.args(["-lm", "-lpthread"]).output();
        well(
            output,
            &format!("mpicc does not compile {}; is libopenmpi-dev installed?", sources.join(", ")),
        )?;
        // Another user may run it.
        open_to_all(&program)?;
        Ok(program)
    }

    /// Runs a job to its end, whatever its exit status.
    pub fn run(
        &self,
        hosts: &Hosts,
        job: &Job<'_>,
        interrupted: &AtomicBool,
    ) -> Result<Finished, Error> {
        let mut argv = match self {
            Vendor::OpenMpi => open_mpi(hosts, job),
            Vendor::Mpich(_) => self.hydra(hosts, job),
        };
        argv.push(job.program.display().to_string());
        argv.extend(job.arguments.iter().map(|&argument| argument.to_owned()));
        hosts.run(&argv, job.limit, interrupted)
    }

    fn hydra(&self, hosts: &Hosts, job: &Job<'_>) -> Vec<String> {
        let mut argv = words(&[&self.tool("mpiexec").display().to_string(), "-launcher", "rsh"]);
        argv.extend(words(&["-launcher-exec", &hosts.rsh().display().to_string()]));
        argv.extend(words(&["-iface", hosts.fabric().node(1).interface, "-bind-to", "none"]));
        argv.extend(words(&["-hosts", &hosts.list(job.hosts, job.places)]));
        argv.extend(words(&["-n", &ranks(job)]));
        let mut variables = vec![("MPIR_CVAR_CH4_NETMOD".into(), "ofi".into())];
        match job.transport {
            Transport::Gigae => variables.extend(provider(hosts)),
            Transport::Tcp => variables.push(("FI_PROVIDER".into(), "tcp;ofi_rxm".into())),
        }
        for (name, value) in variables {
            argv.extend(["-genv".into(), name, value]);
        }
        argv
    }
}

fn open_mpi(hosts: &Hosts, job: &Job<'_>) -> Vec<String> {
    let interface = hosts.fabric().node(1).interface;
    let mut argv = words(&["mpirun", "--allow-run-as-root"]);
    // Each host takes the first processors for its own.
    argv.extend(words(&["--bind-to", "none"]));
    argv.extend(words(&["--host", &hosts.list(job.hosts, job.places), "-n", &ranks(job)]));
    let rsh = hosts.rsh().display().to_string();
    let mut settings = vec![
        ("plm_rsh_agent", &rsh[..]),
        ("oob_tcp_if_include", interface),
        // Where there are fewer processors than ranks, a rank that waits must yield to the others.
        ("mpi_yield_when_idle", if crowded(job) { "1" } else { "0" }),
        // One-sided operations over the same messages.
        ("osc", "pt2pt"),
    ];
    let mut variables = Vec::new();
    match job.transport {
        Transport::Gigae => {
            settings.extend([("pml", "cm"), ("mtl", "ofi")]);
            variables.extend(provider(hosts));
        }
        Transport::Tcp => {
            let within = if job.places > 1 { "tcp,vader,self" } else { "tcp,self" };
            settings.extend([("pml", "ob1"), ("btl", within), ("btl_tcp_if_include", interface)]);
        }
    }
    for (name, value) in settings {
        argv.extend(words(&["--mca", name, value]));
    }
    for (name, value) in variables {
        argv.extend(["-x".into(), format!("{name}={value}")]);
    }
    argv
}

/// Settings of libfabric and of the provider.
fn provider(hosts: &Hosts) -> Vec<(String, String)> {
    let directory = hosts.provider().display().to_string();
    [
        ("FI_PROVIDER", "gigae"),
        ("FI_PROVIDER_PATH", &directory),
        ("FI_GIGAE_IFACE", hosts.fabric().node(1).interface),
        // A cluster file of this machine does not concern the hosts.
        ("GIGAE_CLUSTER", "/nowhere"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn ranks(job: &Job<'_>) -> String {
    (job.hosts * job.places).to_string()
}

/// More ranks than processors, on all hosts together: they are one machine.
fn crowded(job: &Job<'_>) -> bool {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    usize::from(job.hosts * job.places) > processors
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn well(output: std::io::Result<Output>, advice: &str) -> Result<(), Error> {
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{advice}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{advice}: {error}")),
    }
}
