//! What all scenarios stand on: a fabric, a workload at two of its nodes, TCP beside them, and the
//! account in the end.

use crate::event::{Event, EventKind, now};
use crate::figures::Figures;
use crate::process::{History, Log, Process};
use crate::replay;
use crate::system;
use crate::tcp::Connection;
use crate::worker::PORT;
use gigae_fabric::{Fabric, FabricConfig, Node};
use gigae_host::proc::process::Stat;
use gigae_torture::body::mix;
use oorandom::Rand64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What any step of a run gives; the text says what did not hold.
pub(crate) type StepResult<T = ()> = Result<T, String>;

/// Far more than anything here takes that is not waited for by a stated time, on a busy machine.
/// Who opens or closes a link, or changes an interface, waits for a lock of the kernel, which one
/// process alone held for 83 s beside six busy programs, and several may stand before it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The peers' timeout where it is not to be met, as by default.
pub(crate) const LONG: u64 = 10_000;

/// The peers' timeout where it is waited for.
pub(crate) const SHORT: u64 = 1_500;

/// The longest that a link of several which fails holds messages up (PROTOCOL.md 11.5,
/// docs/reference/failures.md), and what a busy machine takes.
const CUT: Duration = Duration::from_millis(50 + 10_000);

/// How long an end with nothing to do is watched, and the most of a processor that it may use then,
/// in parts of a thousand: some ticks of 10 ms are anybody's.
const IDLE: Duration = Duration::from_millis(400);
const MOST_IDLE: u64 = 250;

/// When and why messages failed, and how many.
fn failed(event: &Event) -> Option<(u64, &str, usize)> {
    match &event.what {
        EventKind::Failed(reason, messages) => Some((event.at, reason, messages.len())),
        _ => None,
    }
}

/// How both ends speak.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) backends: [&'static str; 2],
    pub(crate) udp: bool,
    /// Interfaces of each node, used as one.
    pub(crate) links: u16,
    pub(crate) waits: [&'static str; 2],
    /// Peer timeout in milliseconds.
    pub(crate) timeout: u64,
    /// A library that is preloaded into both.
    pub(crate) preload: Option<PathBuf>,
}

impl Setup {
    pub(crate) fn draw(seed: u64, random: &mut Rand64) -> Self {
        let mut pick = |of: &[&'static str]| of[random.rand_range(0..of.len() as u64) as usize];
        let backends = [(); 2].map(|()| pick(&["generic", "native", "packet"]));
        let waits = [(); 2].map(|()| pick(&["sleep", "adaptive"]));
        let udp = pick(&["", "", "", "udp"]) == "udp";
        Self { seed, backends, udp, links: 1, waits, timeout: LONG, preload: None }
    }

    /// Two links as one, of which there is only the Ethernet form.
    pub(crate) fn trunk(&mut self) {
        (self.links, self.udp) = (2, false);
    }

    /// The longest that a peer which is not there may stay unreported: its timeout, and a quarter
    /// of that (PROTOCOL.md 8.1), and what a busy machine takes.
    pub(crate) fn given_up(&self) -> Duration {
        Duration::from_millis(self.timeout * 5 / 4) + Duration::from_secs(10)
    }
}

/// A run's place. Whatever it has begun ends with it.
pub(crate) struct Bench {
    program: PathBuf,
    pub(crate) setup: Setup,
    pub(crate) random: Rand64,
    pub(crate) logs: [Arc<Log>; 2],
    processes: [Option<Process>; 2],
    tcp: Vec<(u16, Connection)>,
    /// The last, so that its namespaces are empty when it goes.
    pub(crate) fabric: Fabric,
    pub(crate) figures: Figures,
    /// Messages that came back before both ends were there: opening, too, waits for the kernel, in
    /// one case for 20 s, and who was first had messages time out.
    early: [u64; 2],
    /// Faults that were to be over before the peers' timeout: when each was over, in nanoseconds of
    /// the monotonic clock, and how long it took.
    faults: Vec<(u64, Duration)>,
    /// Nodes that are no more.
    pub(crate) lost: [bool; 2],
    /// Processes that were started.
    pids: Vec<u32>,
}

impl Bench {
    /// Lays the fabric and starts both ends, which talk to each other when this returns.
    pub(crate) fn new(
        program: &Path,
        setup: Setup,
        adapt: impl FnOnce(&mut FabricConfig),
    ) -> StepResult<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("ch{}-{number}", std::process::id());
        let (nodes, networks) = (3, setup.links);
        let mut config = FabricConfig { prefix, nodes, networks, ..FabricConfig::default() };
        adapt(&mut config);
        let fabric = Fabric::up(config).map_err(|error| error.to_string())?;
        let mut bench = Self {
            program: program.to_owned(),
            random: Rand64::new(mix(setup.seed).into()),
            setup,
            logs: Default::default(),
            processes: [None, None],
            tcp: Vec::new(),
            fabric,
            figures: Figures { runs: 1, ..Figures::default() },
            early: [0; 2],
            faults: Vec::new(),
            lost: [false; 2],
            pids: Vec::new(),
        };
        for side in [0, 1] {
            let connection = Connection::new(&bench.node(side), &bench.fabric.node(3))?;
            bench.tcp.push((side as u16, connection));
            bench.start(side)?;
        }
        bench.more(200)?;
        // An end takes all that came back before it sends again.
        bench.early = [0, 1].map(|side: usize| bench.logs[side].history().failed);
        Ok(bench)
    }

    /// The node of an end, 0 or 1.
    pub(crate) fn node(&self, side: usize) -> Node {
        self.fabric.node(side as u16 + 1)
    }

    /// A number from `range`, by the seed.
    pub(crate) fn draw(&mut self, range: std::ops::Range<u64>) -> u64 {
        self.random.rand_range(range)
    }

    /// One of both ends.
    pub(crate) fn side(&mut self) -> usize {
        self.draw(0..2) as usize
    }

    /// Lets a random time of up to `most` milliseconds pass.
    pub(crate) fn pass(&mut self, most: u64) {
        let time = self.draw(0..most + 1);
        std::thread::sleep(Duration::from_millis(time));
    }

    /// Starts an end's process.
    pub(crate) fn start(&mut self, side: usize) -> StepResult {
        let (setup, other) = (&self.setup, self.node(1 - side));
        let peer = match setup.udp {
            true => other.ipv4.to_string(),
            false => gigae::MacAddr(other.mac).to_string(),
        };
        let life = self.logs[side].history().opened;
        let mut arguments: Vec<String> = vec![
            format!("--me={side}"),
            format!("--life={life}"),
            format!("--peer={peer}"),
            format!("--backend={}", setup.backends[side]),
            format!("--wait={}", setup.waits[side]),
            format!("--timeout={}", setup.timeout),
            format!("--seed={}", setup.seed),
            format!("--links={}", setup.links),
        ];
        if setup.udp {
            arguments.push("--udp".into());
        }
        let (node, preload) = (self.node(side), setup.preload.as_deref());
        let log = &self.logs[side];
        let process = Process::start(&self.program, &node, &arguments, preload, log)?;
        self.pids.push(process.pid());
        self.processes[side] = Some(process);
        Ok(())
    }

    /// Ends an end's process by SIGKILL.
    pub(crate) fn kill(&mut self, side: usize) -> StepResult {
        self.processes[side].take().map_or(Ok(()), Process::kill)
    }

    /// Stops an end's whole process, or lets it go on.
    pub(crate) fn halt(&self, side: usize, stop: bool) -> StepResult {
        self.processes[side].as_ref().map_or(Ok(()), |process| process.halt(stop))
    }

    /// Says a command to an end.
    pub(crate) fn command(&mut self, side: usize, command: &str) -> StepResult {
        let process = self.processes[side].as_mut();
        process.map_or(Ok(()), |process| process.command(command))
    }

    /// Waits until an end has said so, for `bound` at most.
    pub(crate) fn wait(
        &self,
        side: usize,
        what: &str,
        bound: Duration,
        so: impl FnMut(&History) -> bool,
    ) -> StepResult {
        if self.logs[side].wait(bound, so) {
            return Ok(());
        }
        let history = self.logs[side].history();
        let last: Vec<_> =
            history.events.iter().rev().take(5).map(|event| format!("{event:?}")).collect();
        let errors = &history.errors;
        Err(format!(
            "end {side}: no {what} within {bound:?}; last: {last:?}; errors: {errors:?}{}",
            self.logged()
        ))
    }

    /// The last lines of both ends' logs.
    fn logged(&self) -> String {
        let logs = self.logs.iter().enumerate();
        logs.map(|(side, log)| format!("; the log of end {side}:{}", log.last_lines())).collect()
    }

    /// Both ends must get `count` more messages.
    pub(crate) fn more(&self, count: u64) -> StepResult {
        let before = [0, 1].map(|side: usize| self.logs[side].history().received);
        for (side, before) in before.into_iter().enumerate() {
            let what = format!("{count} messages");
            self.wait(side, &what, PATIENCE, |history| history.received >= before + count)?;
        }
        Ok(())
    }

    /// One of several links has failed at that time and works no better: both ends go on by the
    /// others.
    pub(crate) fn goes_on(&mut self, since: u64) -> StepResult {
        let before = [0, 1].map(|side: usize| self.logs[side].history().received);
        for (side, before) in before.into_iter().enumerate() {
            self.wait(side, "messages by another link", CUT, |history| {
                history.received > before + 20
            })?;
        }
        for log in &self.logs {
            let pause = log.history().longest_pause(since).as_millis() as u64;
            self.figures.pause = self.figures.pause.max(pause);
        }
        Ok(())
    }

    /// No call may have failed: what concerns one link of several is none of the program's
    /// business.
    pub(crate) fn no_call_failed(&self) -> StepResult {
        for (side, log) in self.logs.iter().enumerate() {
            if let Some((_, kind, text)) = log.history().errors.first() {
                return Err(format!(
                    "a call of end {side} failed ({kind}), and none had to: {text}"
                ));
            }
        }
        Ok(())
    }

    /// Waits until all links are in use again, and some were not in between.
    pub(crate) fn links_return(&mut self) -> StepResult {
        let end = Instant::now() + PATIENCE;
        loop {
            let paths = [0, 1].map(|side: usize| self.logs[side].history().paths);
            if paths.iter().all(|[deaths, returns]| *deaths > 0 && returns >= deaths) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("links were given up and came back: {paths:?}"));
            }
            for side in [0, 1] {
                self.command(side, "paths")?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs `ip` in an end's node.
    pub(crate) fn ip(&mut self, side: usize, arguments: &str) -> StepResult<String> {
        system::run(&self.node(side), "ip", arguments)
    }

    /// Sets an interface of an end up, and waits until the switch forwards to it again.
    pub(crate) fn set_up(&mut self, side: usize, interface: &str) -> StepResult {
        self.ip(side, &format!("link set {interface} up"))?;
        self.fabric.await_links().map_err(|error| error.to_string())
    }

    /// Ends the TCP connection of an end, whose node will be no more.
    pub(crate) fn drop_tcp(&mut self, side: usize) {
        self.tcp.retain(|(of, _)| usize::from(*of) != side);
    }

    /// A fault that began then is over.
    pub(crate) fn is_over(&mut self, since: Instant) {
        self.faults.push((now(), since.elapsed()));
    }

    /// No message may have failed, if no fault lasted as long as the peers' timeout. One may, since
    /// the command that ends it may wait for the kernel; a quarter of the timeout is for the
    /// repetitions after it.
    pub(crate) fn none_failed(&self) -> StepResult {
        let longest = self.faults.iter().map(|fault| fault.1).max().unwrap_or_default();
        if longest >= Duration::from_millis(self.setup.timeout) * 3 / 4 {
            return Ok(());
        }
        for (side, log) in self.logs.iter().enumerate() {
            let history = log.history();
            let reasons: Vec<_> = history.events.iter().filter_map(failed).collect();
            let failed = history.failed - self.early[side];
            if failed > 0 {
                return Err(format!(
                    "{failed} messages of end {side} failed, and none had to: {reasons:?}; it is {} now; \
                     faults: {:?}{}",
                    now(),
                    self.faults,
                    self.logged()
                ));
            }
        }
        Ok(())
    }

    /// Lets everything end, and accounts for all: messages, sockets, programs, processes,
    /// namespaces.
    pub(crate) fn finish(mut self) -> StepResult<Figures> {
        let alive: Vec<_> = [0, 1].into_iter().filter(|&i| self.processes[i].is_some()).collect();
        for &side in &alive {
            self.command(side, "stop")?;
        }
        for &side in &alive {
            self.wait(side, "acknowledgement of all", self.setup.given_up(), |history| {
                history.drained
            })?;
        }
        self.watch_idle(&alive)?;
        // Both quit at once. One alone would wait for the other's answer to its close.
        for &side in &alive {
            self.command(side, "quit")?;
        }
        for &side in &alive {
            if let Some(process) = self.processes[side].take() {
                process.quit(PATIENCE)?;
            }
        }
        for (_, connection) in std::mem::take(&mut self.tcp) {
            self.figures.tcp += connection.finish()?;
        }
        self.nothing_is_left()?;
        self.account(&alive)?;
        Ok(self.figures)
    }

    /// An end that has nothing to do leaves its processor to others.
    fn watch_idle(&mut self, alive: &[usize]) -> StepResult {
        let pids: Vec<u32> =
            alive.iter().filter_map(|&side| Some(self.processes[side].as_ref()?.pid())).collect();
        let measure =
            || pids.iter().map(|&pid| Some(Stat::of(pid)?.cpu_time)).collect::<Option<Vec<_>>>();
        let gone = || "a process ended by itself".to_owned();
        let (since, before) = (Instant::now(), measure().ok_or_else(gone)?);
        std::thread::sleep(IDLE);
        let (time, after) = (since.elapsed(), measure().ok_or_else(gone)?);
        for (before, after) in before.into_iter().zip(after) {
            let part = (after - before).as_micros() as u64 * 1000 / time.as_micros() as u64;
            self.figures.idle = self.figures.idle.max(part);
            if part > MOST_IDLE {
                return Err(format!(
                    "an end with nothing to do used {:?} of {time:?}",
                    after - before
                ));
            }
        }
        Ok(())
    }

    fn nothing_is_left(&mut self) -> StepResult {
        for side in [0, 1].into_iter().filter(|&side| !self.lost[side]) {
            let node = self.node(side);
            let port = format!(":{PORT:04X} ");
            let end = Instant::now() + PATIENCE;
            loop {
                let programs = (0..self.setup.links)
                    .filter_map(|link| system::program_on(&node, link).transpose())
                    .collect::<Result<Vec<_>, _>>()?;
                let packet = system::sockets(&node, "packet")?;
                let mut udp = system::sockets(&node, "udp")?;
                udp.retain(|line| line.contains(&port));
                if programs.is_empty() && packet.is_empty() && udp.is_empty() {
                    break;
                }
                // A process that another thread has just forked has copies of descriptors for a
                // moment.
                if Instant::now() > end {
                    return Err(format!(
                        "left in {}: programs {programs:?}, packet sockets {packet:?}, UDP {udp:?}",
                        node.name
                    ));
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let prefix = self.fabric.config().prefix.clone();
        let down = Fabric::down(&prefix).map_err(|error| error.to_string())?;
        if let Some(process) = down.left_running.first() {
            return Err(format!("process {process:?} was left"));
        }
        if let Some(pid) = self.pids.iter().find(|&&pid| Stat::of(pid).is_some()) {
            return Err(format!("process {pid} was left"));
        }
        let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        match names.find(|name| name.starts_with(&format!("{prefix}-"))) {
            Some(name) => Err(format!("namespace {name} was left")),
            None => Ok(()),
        }
    }

    /// Holds what both ends have said to what was promised.
    fn account(&mut self, alive: &[usize]) -> StepResult {
        let history = [0, 1].map(|side: usize| self.logs[side].history().clone());
        let mut events = history.each_ref().map(|history| &history.events[..]);
        for &side in alive {
            // It was there to the last.
            while let [before @ .., last] = events[side]
                && matches!(last.what, EventKind::Gone | EventKind::Counted(..))
            {
                events[side] = before;
            }
            let mut last = events[side].iter().rev();
            let mut life =
                last.by_ref().take_while(|event| !matches!(event.what, EventKind::Opened(_)));
            if !life.any(|event| matches!(event.what, EventKind::Memory(_))) {
                return Err(format!("end {side} did not say what its memory is"));
            }
        }
        let tally = replay::check(events).map_err(|violation| violation.to_string())?;
        let figures = &mut self.figures;
        (figures.sent, figures.delivered) = (tally.sent, tally.delivered);
        figures.tagged = tally.tagged;
        figures.failed = tally.failed.values().sum();
        (figures.remote, figures.notices) = (tally.remote, tally.notices);
        for history in &history {
            let [sent, _, repeated, dropped] = history.frames;
            figures.frames += sent;
            figures.repeated += repeated;
            figures.dropped += dropped;
            for (_, kind, _) in &history.errors {
                *figures.errors.entry(kind.clone()).or_default() += 1;
            }
        }
        for (reason, count) in tally.failed {
            *figures.errors.entry(format!("failed by {reason}")).or_default() += count;
        }
        Ok(())
    }
}
