//! Where a run takes place: a virtual network made for it, or the way to another machine.
//!
//! A [`Stage`] is an authenticated session with a serving end, and this end's [`Site`]. On a
//! virtual network it also owns the network and the serving process, and takes both away when it is
//! dropped, on every way out. The calling thread is inside the measuring node as long as the stage
//! lives.

use crate::control;
use crate::control::{ControlError, Key, Session, Waiting};
use gigae_eval_measure::site::{Site, SiteError};
use gigae_eval_model::environment::{LOOPBACK_KIND, NETWORK};
use gigae_eval_model::plan::LinkPlan;
use gigae_fabric::{Fabric, FabricConfig, FabricError, NetnsGuard, Node, Rate};
use gigae_host::affinity;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time for the serving process to say where it listens. It looks for its interfaces first, which
/// waits for the kernel's lock of interfaces; others may hold that for more than a minute. Its end
/// is seen at once.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// A process whose connection is closed ends within this time, if it is about to end.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// The loopback interface, by the name that Linux gives it.
const LOOPBACK: &str = "lo";

/// A stage could not be set up. The text is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The virtual network could not be created.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The interface cannot be used.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The peer cannot be used.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The serving process did not start.
    #[error("the answering end ended: {0}")]
    Serve(String),
}

/// The rate for which a link without one has room in its delay: more than the forwarder carries.
const UNSHAPED_MBIT: u64 = 40_000;

/// Most bytes that wait in a link's delay. The kernel gives the memory when it is used.
const MOST_DELAY_BUFFER: u32 = 512 << 20;

/// A place to measure. The fields are dropped in this order: first the session, then the serving
/// process, then the thread leaves the node, then the network goes.
pub struct Stage {
    /// The control connection.
    pub session: Session,
    serving: Option<ServingProcess>,
    _inside: Option<NetnsGuard>,
    /// The virtual network, if there is one.
    pub fabric: Option<Fabric>,
    /// This end.
    pub site: Site,
    /// The CPU of the answering end, if that is on this machine.
    pub answering_cpu: Option<usize>,
    /// The CPUs that the run may use, the measuring end's first and then the answering end's.
    pub cpus: Vec<usize>,
}

/// Bytes that wait in a link's delay: what all nodes send at the rate during twice the delay.
/// Bursts and what a frame counts beside its bytes need room, too.
fn delay_buffer(link: &LinkPlan) -> u32 {
    let rates = link.rate_mbit.into_iter().chain(link.server_rate_mbit);
    let mbit = rates.max().unwrap_or(UNSHAPED_MBIT);
    // A bit per microsecond is a Mbit/s.
    let bits = mbit.saturating_mul(link.delay_us.unwrap_or(0));
    let senders = u64::from(link.nodes).saturating_mul(link.links.into());
    let bytes = (bits / 8).saturating_mul(2).saturating_mul(senders);
    let most = u64::from(MOST_DELAY_BUFFER);
    u32::try_from(bytes.min(most))
        .unwrap_or(MOST_DELAY_BUFFER)
        .max(FabricConfig::DEFAULT_DELAY_BUFFER)
}

impl Stage {
    /// This machine's own loopback interface: nothing is created, and no privilege is needed.
    pub fn loopback(serve: &[OsString]) -> Result<Self, StageError> {
        let mut site = Site::find(LOOPBACK)?;
        let (cpus, (local, remote)) = (run_cpus(), measuring_cpus());
        let key = Key::random()?;
        let (program, arguments) = program(serve)?;
        let mut command = Command::new(program);
        command.args(arguments);
        let (serving, port) = ServingProcess::start(command, LOOPBACK, site.ip, &key, remote)?;
        site.cpu = Some(local);
        site.virtual_link = true;
        let peer = SocketAddr::new(site.ip, port).to_string();
        let session = control::connect(&peer, &key, &mut |_| true)?;
        let answering_cpu = Some(remote);
        Ok(Self {
            session,
            serving: Some(serving),
            _inside: None,
            fabric: None,
            site,
            answering_cpu,
            cpus,
        })
    }

    /// An error if the link's delay has ended: no frame passes any longer.
    pub fn check_forwarder(&self) -> Result<(), StageError> {
        self.fabric.as_ref().map_or(Ok(()), Fabric::check_forwarder).map_err(StageError::Fabric)
    }

    /// Lays a virtual network and starts the serving end in its second node: `serve` is the command
    /// line of `gigae serve`, without options; `seed` chooses the frames that a lossy link loses.
    pub fn fabric(link: &LinkPlan, seed: u64, serve: &[OsString]) -> Result<Self, StageError> {
        let mut config = FabricConfig {
            prefix: prefix(),
            cable: link.cable,
            networks: link.links,
            nodes: link.nodes,
            queues: link.queues,
            mtu: link.mtu,
            loss: link.loss,
            delay: link.delay_us.map(|micros| Duration::from_micros(micros).into()),
            seed,
            ..FabricConfig::default()
        };
        let rate = |mbit: u64| Rate::bits_per_second(mbit.saturating_mul(1_000_000));
        config.rate = link.rate_mbit.map(rate);
        // Node 1's, which is as all others, and that of the server's node.
        let rates = config.rate.zip(link.server_rate_mbit.map(rate));
        config.node_rates = rates.map_or_else(Vec::new, |(all, server)| vec![all, server]);
        if let Some(buffer) = link.buffer {
            config.buffer = buffer;
        }
        config.delay_buffer = delay_buffer(link);
        let fabric = Fabric::up(config)?;
        let interfaces = fabric.interfaces().join(",");
        let (cpus, (local, remote)) = (run_cpus(), measuring_cpus());
        let key = Key::random()?;
        let node = fabric.node(2);
        let (program, arguments) = program(serve)?;
        let mut command = node.command(program)?;
        command.args(arguments);
        let ip = node.ipv4.into();
        let (serving, port) = ServingProcess::start(command, &interfaces, ip, &key, remote)?;
        let inside = fabric.node(1).enter()?;
        let mut site = Site::find(&interfaces)?;
        site.cpu = Some(local);
        site.virtual_link = true;
        let peer = format!("{}:{port}", fabric.node(2).ipv4);
        let session = control::connect(&peer, &key, &mut |_| true)?;
        Ok(Self {
            session,
            serving: Some(serving),
            _inside: Some(inside),
            fabric: Some(fabric),
            site,
            answering_cpu: Some(remote),
            cpus,
        })
    }

    /// Connects to a serving end on another machine and waits for its turn, as [`control::connect`]
    /// does; `nics` as [`Site::find`] takes them.
    pub fn network(
        peer: &str,
        nics: &str,
        key: &Key,
        turn: &mut dyn FnMut(&Waiting) -> bool,
    ) -> Result<Self, StageError> {
        let mut site = Site::find(nics)?;
        let mut cpus = affinity::allowed();
        cpus.reverse();
        site.cpu = cpus.first().copied();
        let session = control::connect(peer, key, turn)?;
        let (serving, _inside, fabric, answering_cpu) = (None, None, None, None);
        Ok(Self { session, serving, _inside, fabric, site, answering_cpu, cpus })
    }
}

impl Stage {
    /// What kind of link it is, for the results.
    pub fn kind(&self) -> &'static str {
        match (&self.fabric, &self.serving) {
            (Some(_), _) => "fabric",
            (None, Some(_)) => LOOPBACK_KIND,
            (None, None) => NETWORK,
        }
    }

    /// The nodes from which many send in turn: that of the calling thread (`None`), then all but
    /// the receiver's.
    pub fn sending_nodes(&self) -> Vec<Option<Node>> {
        let further = self
            .fabric
            .iter()
            .flat_map(|fabric| (3..=fabric.config().nodes).map(|number| Some(fabric.node(number))));
        std::iter::once(None).chain(further).collect()
    }

    /// The CPUs of several measuring threads, and those of the answering ones if they are on this
    /// machine: then both have every other one.
    pub fn thread_cpus(&self) -> (Vec<usize>, Vec<usize>) {
        match self.answering_cpu {
            None => (self.cpus.clone(), Vec::new()),
            Some(_) => {
                // With an odd number, one is left over: both ends have as many.
                let each = (self.cpus.len() / 2).max(1);
                let every_other =
                    |from| self.cpus.iter().skip(from).step_by(2).take(each).copied().collect();
                (every_other(0), every_other(1 % self.cpus.len()))
            }
        }
    }

    /// What the serving process of a virtual network said before it ended, if it has ended.
    pub fn last_words(&mut self) -> Option<String> {
        self.serving.as_mut()?.said()
    }
}

/// The command line of the serving end.
pub fn program(serve: &[OsString]) -> Result<(&OsString, &[OsString]), StageError> {
    serve.split_first().ok_or_else(|| StageError::Serve("no command was given".into()))
}

/// The CPUs of the measuring and of the answering end on a virtual network: different ones; the
/// first one usually has the machine's other interrupts, which then hit the answering end.
pub fn measuring_cpus() -> (usize, usize) {
    let cpus = affinity::allowed();
    (cpus[1 % cpus.len()], cpus[0])
}

/// All CPUs that the calling thread may use, those of [`measuring_cpus`] first.
pub fn run_cpus() -> Vec<usize> {
    let mut cpus = affinity::allowed();
    let both = cpus.len().min(2);
    cpus[..both].reverse();
    cpus
}

/// Unique on this machine: the process and a running number.
pub fn prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("ge{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Has the kernel kill the process that this command becomes when the thread that starts it ends.
pub fn ends_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    // SAFETY: two system calls without allocation or locks between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let signal = Some(rustix::process::Signal::KILL);
            rustix::process::set_parent_process_death_signal(signal)?;
            // The parent may have died before the line above took effect.
            if rustix::process::getppid() == Some(parent) {
                Ok(())
            } else {
                Err(io::ErrorKind::NotFound.into())
            }
        });
    }
}

/// The serving process in a node. Ends with this value, and with this process.
pub struct ServingProcess {
    child: Child,
}

impl Drop for ServingProcess {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ServingProcess {
    /// Starts the answering end in a node of the fabric, on this CPU; its control port.
    pub fn start(
        mut command: Command,
        interfaces: &str,
        ip: IpAddr,
        key: &Key,
        cpu: usize,
    ) -> Result<(Self, u16), StageError> {
        let failed = |error: io::Error| StageError::Serve(error.to_string());
        command.args(["--fabric-child", "--nic", interfaces]);
        let listen = SocketAddr::new(ip, 0).to_string();
        command.args(["--listen", &listen, "--cpu", &cpu.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Nothing reads its standard error before it ends, so a log would fill the pipe and block
        // it.
        command.env_remove("GIGAE_LOG");
        // A Ctrl-C at the terminal is for the parent, which ends its child in an orderly way.
        command.process_group(0);
        ends_with_parent(&mut command);
        let mut serving = Self { child: command.spawn().map_err(failed)? };
        let mut stdin =
            serving.child.stdin.take().ok_or_else(|| StageError::Serve("it has no pipe".into()))?;
        writeln!(stdin, "{}", key.to_hex()).map_err(failed)?;
        drop(stdin);
        let port = serving.port()?;
        Ok((serving, port))
    }

    /// Reads the port from its standard output; on failure, the reason from its standard error.
    fn port(&mut self) -> Result<u16, StageError> {
        let failed = |error: io::Error| StageError::Serve(error.to_string());
        let stdout =
            self.child.stdout.as_mut().ok_or_else(|| StageError::Serve("it has no pipe".into()))?;
        let deadline = Instant::now() + START_TIMEOUT;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = rustix::event::Timespec::try_from(left).ok();
            let mut wanted = [rustix::event::PollFd::new(stdout, rustix::event::PollFlags::IN)];
            if rustix::event::poll(&mut wanted, timeout.as_ref())
                .map_err(|error| failed(error.into()))?
                == 0
            {
                return Err(StageError::Serve("it said nothing in time".into()));
            }
            let mut byte = [0];
            if stdout.read(&mut byte).map_err(failed)? == 0 {
                return Err(StageError::Serve(self.last_words()));
            }
            line.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&line);
        text.trim().parse().map_err(|_| StageError::Serve(format!("it said '{}'", text.trim())))
    }

    /// What it said before it ended, if it has ended or is about to.
    pub fn said(&mut self) -> Option<String> {
        let deadline = Instant::now() + LAST_WORDS;
        while Instant::now() < deadline {
            if self.child.try_wait().ok()?.is_some() {
                return Some(self.last_words());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    fn last_words(&mut self) -> String {
        let _ = self.child.wait();
        let mut text = String::new();
        if let Some(stderr) = self.child.stderr.as_mut() {
            let _ = stderr.take(4096).read_to_string(&mut text);
        }
        // A panic says where and why in two lines and then goes on about backtraces.
        let mut lines = text.lines().skip_while(|line| !line.contains(" panicked at "));
        if let (Some(place), Some(reason)) = (lines.next(), lines.next()) {
            return format!("{} {reason}", place.trim());
        }
        let last = text.lines().last().unwrap_or("it ended without a word");
        last.trim_start_matches("gigae: ").to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_has_room_for_what_the_link_carries_meanwhile() {
        let room = |rate_mbit, delay_us| {
            delay_buffer(&LinkPlan { rate_mbit, delay_us: Some(delay_us), ..LinkPlan::default() })
        };
        assert_eq!(room(Some(1000), 1000), FabricConfig::DEFAULT_DELAY_BUFFER);
        // 25 MB are on their way from each of two nodes.
        assert_eq!(room(Some(1000), 200_000), 100_000_000);
        assert_eq!(room(None, 1000), 20_000_000);
        assert_eq!(room(None, 200_000), MOST_DELAY_BUFFER);
    }
}
