//! What a transfer costs both ends: the processes' CPU time, interrupts on their CPU, frames of
//! their interfaces, and what the server read from its disk.
//!
//! [`Cost`] is that of the evaluator's own experiments, with all processes of an end in the place
//! of the measuring thread. The kernel says their times in ticks (proc_pid_stat(5)), so repetitions
//! have to be added up. The clients' time contains the shells that guard them.

use crate::host::Host;
use gigae_eval_model::cost::Cost;
use gigae_fabric::FabricError;
use gigae_host::proc::net::{self, Device};
use gigae_host::proc::process::{self, Stat};
use gigae_host::proc::{self, CpuTimes, value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

/// How long it is waited for a connection's process to be taken note of by its parent.
const REAPED: Duration = Duration::from_millis(200);

/// How often it is looked for that.
const LOOK: Duration = Duration::from_millis(2);

/// One end.
pub struct EndMeter {
    hosts: Vec<Host>,
    cpu: Option<usize>,
    processes: Processes,
}

/// The processes of an end.
#[derive(Clone, Copy, Debug)]
enum Processes {
    /// This server's, and all that it has started; none after its end.
    Server(Option<u32>),
    /// All that this process has started and seen end.
    Ended,
}

/// The counters of an end at one time.
#[derive(Clone, Debug)]
pub struct EndReading {
    at: Instant,
    processes: f64,
    /// The server's processes.
    alive: BTreeSet<u32>,
    cpu: CpuTimes,
    device: Device,
    softirqs: u64,
    disk: Option<u64>,
}

impl EndMeter {
    /// The end of a server with this first process.
    pub fn server(host: Host, cpu: Option<usize>, server: Option<u32>) -> Self {
        Self { hosts: vec![host], cpu, processes: Processes::Server(server) }
    }

    /// The clients' end: all processes that this one has started and seen end.
    pub fn clients(hosts: Vec<Host>, cpu: Option<usize>) -> Self {
        Self { hosts, cpu, processes: Processes::Ended }
    }

    /// Reads all counters. With an earlier reading, it first waits a while for the end of the
    /// server's processes that have come since then: those of a connection have all their costs
    /// where they are counted only then.
    pub fn read(&self, since: Option<&EndReading>) -> Result<EndReading, FabricError> {
        let tree = match self.processes {
            Processes::Server(Some(server)) => Tree::of(server, since.map(|begin| &begin.alive)),
            Processes::Server(None) => Tree::default(),
            Processes::Ended => {
                let own = Stat::of(std::process::id());
                let seconds = own.map_or(0.0, |own| own.children_time.as_secs_f64());
                Tree { seconds, ..Tree::default() }
            }
        };
        let mut device = Device::default();
        for host in &self.hosts {
            let _inside = host.enter()?;
            let all = proc::read(net::DEVICES);
            for name in host.interfaces() {
                device = device.and(&net::device(&all, name).unwrap_or_default());
            }
        }
        Ok(EndReading {
            at: Instant::now(),
            processes: tree.seconds,
            alive: tree.alive,
            cpu: proc::cpu_times(&proc::read(proc::STAT), self.cpu),
            device,
            softirqs: proc::receive_softirqs(&proc::read(proc::SOFTIRQS), self.cpu),
            disk: tree.disk,
        })
    }
}

impl EndReading {
    /// The costs from this reading until a later one.
    pub fn until(&self, end: &Self) -> Cost {
        let processes = (end.processes - self.processes).max(0.0);
        let work = (end.cpu.work - self.cpu.work).max(0.0);
        Cost {
            seconds: (end.at - self.at).as_secs_f64(),
            cpu_thread: processes,
            cpu_interrupts: (end.cpu.interrupts - self.cpu.interrupts).max(0.0),
            cpu_others: work - processes,
            steal: (end.cpu.steal - self.cpu.steal).max(0.0),
            tx_frames: end.device.tx_frames.saturating_sub(self.device.tx_frames),
            rx_frames: end.device.rx_frames.saturating_sub(self.device.rx_frames),
            tx_bytes: end.device.tx_bytes.saturating_sub(self.device.tx_bytes),
            rx_bytes: end.device.rx_bytes.saturating_sub(self.device.rx_bytes),
            interrupts: end.softirqs.saturating_sub(self.softirqs),
            ..Cost::default()
        }
    }

    /// Bytes that the server read from its disk from this reading until a later one; `None` where
    /// the kernel does not count them.
    pub fn disk_read(&self, end: &Self) -> Option<u64> {
        Some(end.disk?.saturating_sub(self.disk?))
    }
}

/// A process and all that it has started. Those that have ended count as soon as their parent has
/// taken note.
#[derive(Debug, Default, PartialEq)]
struct Tree {
    alive: BTreeSet<u32>,
    /// Their CPU time.
    seconds: f64,
    /// What they read from disks.
    disk: Option<u64>,
}

impl Tree {
    /// Waits a while for the end of those that were not there before.
    fn of(first: u32, before: Option<&BTreeSet<u32>>) -> Self {
        let begun = Instant::now();
        let mut all = descendants(first);
        let is_new = |pid: &u32| before.is_some_and(|before| !before.contains(pid));
        while all.iter().any(|(pid, stat)| stat.state == 'Z' || is_new(pid))
            && begun.elapsed() < REAPED
        {
            std::thread::sleep(LOOK);
            all = descendants(first);
        }
        Self::sum(&all)
    }

    fn sum(all: &BTreeMap<u32, Stat>) -> Self {
        let time = all.values().map(|stat| stat.cpu_time + stat.children_time).sum::<Duration>();
        let reads = all.keys().map(|pid| {
            let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
            value(&io, "read_bytes")?.parse::<u64>().ok()
        });
        // One that ends meanwhile has no file any more; of the first one there always is.
        let reads: Vec<Option<u64>> = reads.collect();
        let known = reads.iter().any(Option::is_some);
        let disk = known.then(|| reads.into_iter().flatten().sum());
        Self { alive: all.keys().copied().collect(), seconds: time.as_secs_f64(), disk }
    }
}

/// Resident memory of a process and all that it has started, in bytes. What they share counts for
/// each.
pub(crate) fn resident(first: u32) -> u64 {
    let of = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        value(&status, "VmRSS")?.split_whitespace().next()?.parse::<u64>().ok()
    };
    descendants(first).keys().filter_map(of).sum::<u64>() << 10
}

fn descendants(first: u32) -> BTreeMap<u32, Stat> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: BTreeMap<u32, Stat> =
        numbers.filter_map(|pid| Some((pid, process::Stat::of(pid)?))).collect();
    let belongs = |mut pid: u32| {
        // Parents were there before: no circle, but a bound all the same.
        for _ in 0..all.len() {
            if pid == first {
                return true;
            }
            match all.get(&pid) {
                Some(stat) => pid = stat.parent,
                None => return false,
            }
        }
        false
    };
    all.iter().filter(|(pid, _)| belongs(**pid)).map(|(pid, stat)| (*pid, *stat)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_tree_has_the_process_and_what_it_started_alive_or_not() {
        let script = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done & wait; echo; read end";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let time = Tree::of(shell.id(), None).seconds;
        assert!(time > 0.0, "the child's time counts after its end");
        assert!(descendants(std::process::id()).contains_key(&shell.id()));
        assert!(!descendants(shell.id()).contains_key(&std::process::id()));
        assert!(resident(shell.id()) > 0);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(Tree::of(shell.id(), None), Tree::default());
    }

    #[test]
    fn a_process_that_has_come_since_is_waited_for() {
        let script =
            "(i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo >&2) & echo; wait; read end";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let before = BTreeSet::from([shell.id()]);
        // The wait has a bound, which a busy machine may exceed.
        let mut tree = Tree::of(shell.id(), Some(&before));
        while tree.alive != before {
            tree = Tree::of(shell.id(), Some(&before));
        }
        assert!(tree.seconds > 0.0, "the time of a process that was alive at first");
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    #[test]
    fn costs_are_differences_and_never_negative() {
        let reading = |processes, tx_frames, disk| EndReading {
            at: Instant::now(),
            processes,
            alive: BTreeSet::new(),
            cpu: CpuTimes::default(),
            device: Device { tx_frames, ..Device::default() },
            softirqs: 0,
            disk,
        };
        let (first, then) = (reading(1.0, 5, Some(100)), reading(1.5, 9, Some(400)));
        let cost = first.until(&then);
        assert_eq!((cost.cpu_thread, cost.tx_frames), (0.5, 4));
        assert_eq!(first.disk_read(&then), Some(300));
        let back = then.until(&first);
        assert_eq!((back.cpu_thread, back.tx_frames), (0.0, 0));
        assert_eq!(first.disk_read(&reading(1.0, 5, None)), None);
    }
}
