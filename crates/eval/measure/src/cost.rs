//! Reads what a measurement costs one end. What the counters mean stands at [`Cost`].

use crate::site::Site;
use gigae_eval_model::cost::{Baseline, Cost};
use std::fs;
use std::io;
use std::time::Instant;

/// Ticks of one line of `/proc/stat`, as seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTimes {
    /// Work of any thread.
    pub work: f64,
    /// Hard and soft interrupts.
    pub interrupts: f64,
    /// Withheld by a hypervisor.
    pub steal: f64,
    /// All of it.
    pub total: f64,
}

/// Packets and bytes of a line of `net/dev`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_frames: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_frames: u64,
}

impl Device {
    /// Both together.
    fn and(&self, other: &Self) -> Self {
        Self {
            rx_bytes: self.rx_bytes + other.rx_bytes,
            rx_frames: self.rx_frames + other.rx_frames,
            tx_bytes: self.tx_bytes + other.tx_bytes,
            tx_frames: self.tx_frames + other.tx_frames,
        }
    }
}

/// Reads the counters of one end. Must be used by the measuring thread itself.
#[derive(Clone, Debug)]
pub struct Meter {
    interfaces: Vec<String>,
    cpu: Option<usize>,
    has_lines: bool,
    ticks: f64,
}

/// The counters at one time.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    at: Instant,
    thread: f64,
    sleeps: u64,
    preemptions: u64,
    cpu: CpuTimes,
    device: Device,
    interrupts: u64,
}

impl Meter {
    /// A meter for the calling thread at this end.
    pub fn new(site: &Site) -> Self {
        let interfaces: Vec<String> = site.interfaces().map(str::to_owned).collect();
        let has_lines = !site.virtual_link
            && fs::read_to_string("/proc/interrupts")
                .is_ok_and(|text| interrupts_of(&text, &interfaces).is_some());
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        Self { interfaces, cpu: site.cpu, has_lines, ticks }
    }

    /// What [`Cost::interrupts`] counts here.
    pub fn interrupt_source(&self) -> &'static str {
        if self.has_lines { "device interrupts" } else { "NET_RX soft interrupts" }
    }

    /// Reads all counters: four small files, well below a millisecond.
    pub fn read(&self) -> io::Result<Reading> {
        let interrupts = if self.has_lines {
            let text = fs::read_to_string("/proc/interrupts")?;
            interrupts_of(&text, &self.interfaces).unwrap_or(0)
        } else {
            receive_softirqs(&fs::read_to_string("/proc/softirqs")?, self.cpu)
        };
        let devices = fs::read_to_string("/proc/thread-self/net/dev")?;
        let device = devices_of(&devices, &self.interfaces);
        let cpu = cpu_times(&fs::read_to_string("/proc/stat")?, self.cpu, self.ticks);
        let (thread, sleeps, preemptions) = thread_usage();
        let at = Instant::now();
        Ok(Reading {
            at,
            thread,
            sleeps,
            preemptions,
            cpu,
            device: device.unwrap_or_default(),
            interrupts,
        })
    }
}

impl Reading {
    /// The costs from this reading until a later one; system calls are the caller's to add.
    pub fn until(&self, end: &Self) -> Cost {
        let thread = (end.thread - self.thread).max(0.0);
        let work = (end.cpu.work - self.cpu.work).max(0.0);
        Cost {
            seconds: (end.at - self.at).as_secs_f64(),
            cpu_thread: thread,
            cpu_interrupts: (end.cpu.interrupts - self.cpu.interrupts).max(0.0),
            cpu_others: work - thread,
            steal: (end.cpu.steal - self.cpu.steal).max(0.0),
            tx_frames: end.device.tx_frames.saturating_sub(self.device.tx_frames),
            rx_frames: end.device.rx_frames.saturating_sub(self.device.rx_frames),
            tx_bytes: end.device.tx_bytes.saturating_sub(self.device.tx_bytes),
            rx_bytes: end.device.rx_bytes.saturating_sub(self.device.rx_bytes),
            interrupts: end.interrupts.saturating_sub(self.interrupts),
            syscalls: 0,
            send_calls: 0,
            sleeps: end.sleeps.saturating_sub(self.sleeps),
            preemptions: end.preemptions.saturating_sub(self.preemptions),
        }
    }
}

/// Watches the idle machine for a while.
pub fn baseline(duration: std::time::Duration) -> io::Result<Baseline> {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let read = || fs::read_to_string("/proc/stat").map(|text| cpu_times(&text, None, ticks));
    let before = read()?;
    std::thread::sleep(duration);
    let after = read()?;
    let total = (after.total - before.total).max(f64::MIN_POSITIVE);
    Ok(Baseline {
        work: (after.work - before.work) / total,
        interrupts: (after.interrupts - before.interrupts) / total,
        steal: (after.steal - before.steal) / total,
    })
}

/// All CPUs' time since the machine started, in seconds: all of it, that in which they worked, and
/// that which the host took away (proc_stat(5)).
pub fn machine() -> io::Result<[f64; 3]> {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let all = cpu_times(&fs::read_to_string("/proc/stat")?, None, ticks);
    Ok([all.total, all.work, all.steal])
}

/// User and system time of the calling thread up to this moment, in seconds (clock_gettime(2)
/// `CLOCK_THREAD_CPUTIME_ID`). For ends that do next to nothing: a [`Meter`] reads files, which would be
/// most of it, and getrusage(2) is behind by up to a tick.
pub fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Of all these interfaces; `None` if none has lines of its own.
fn interrupts_of(text: &str, interfaces: &[String]) -> Option<u64> {
    let counts = interfaces.iter().map(|name| device_interrupts(text, &device_names(name)));
    counts.flatten().reduce(|sum, one| sum + one)
}

fn thread_usage() -> (f64, u64, u64) {
    // SAFETY: rusage is plain data for which zero is valid, and getrusage fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
    (
        seconds(usage.ru_utime) + seconds(usage.ru_stime),
        count(usage.ru_nvcsw),
        count(usage.ru_nivcsw),
    )
}

/// The line of one CPU, or of all of them together.
pub fn cpu_times(stat: &str, cpu: Option<usize>, ticks: f64) -> CpuTimes {
    let name = cpu.map_or_else(|| "cpu".to_owned(), |cpu| format!("cpu{cpu}"));
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name));
    // user nice system idle iowait irq softirq steal (proc_stat(5)); guest time is part of user.
    let field: Vec<f64> = line
        .into_iter()
        .flat_map(|line| line.split_whitespace().skip(1))
        .map(|ticks_text| ticks_text.parse().unwrap_or(0.0) / ticks)
        .collect();
    let at = |index: usize| field.get(index).copied().unwrap_or(0.0);
    CpuTimes {
        work: at(0) + at(1) + at(2),
        interrupts: at(5) + at(6),
        steal: at(7),
        total: field.iter().take(8).sum(),
    }
}

/// Of all these interfaces together; `None` if none is there.
pub fn devices_of(net_dev: &str, interfaces: &[String]) -> Option<Device> {
    let devices = interfaces.iter().filter_map(|name| device(net_dev, name));
    devices.reduce(|sum, one| sum.and(&one))
}

/// A counter of TCP (proc_pid_net(5), `snmp`): a line of names, then one of values.
pub fn tcp_counter(snmp: &str, wanted: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split(' ').position(|name| name == wanted)?;
    values.split(' ').nth(place)?.parse().ok()
}

/// The counter of segments that were sent again.
pub const TCP_REPEATED: &str = "RetransSegs";

fn device(net_dev: &str, interface: &str) -> Option<Device> {
    let numbers = net_dev.lines().find_map(|line| {
        let (name, rest) = line.split_once(':')?;
        (name.trim() == interface).then(|| rest.split_whitespace())
    })?;
    let field: Vec<u64> = numbers.map(|text| text.parse().unwrap_or(0)).collect();
    Some(Device {
        rx_bytes: *field.first()?,
        rx_frames: *field.get(1)?,
        tx_bytes: *field.get(8)?,
        tx_frames: *field.get(9)?,
    })
}

/// Names by which a device's lines in `/proc/interrupts` may go: its own and its bus address.
fn device_names(interface: &str) -> Vec<String> {
    let device = fs::read_link(format!("/sys/class/net/{interface}/device"));
    let parent =
        device.ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    std::iter::once(interface.to_owned()).chain(parent).collect()
}

/// Sum over the lines of a device; `None` if it has none.
fn device_interrupts(interrupts: &str, names: &[String]) -> Option<u64> {
    let belongs = |line: &&str| {
        line.split_whitespace().any(|word| {
            names.iter().any(|name| {
                word.strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
                    || word.ends_with(&format!("pci:{name}"))
            })
        })
    };
    let mut lines = interrupts.lines().skip(1).filter(belongs).peekable();
    lines.peek()?;
    Some(
        lines
            .flat_map(|line| {
                line.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok())
            })
            .sum(),
    )
}

fn receive_softirqs(softirqs: &str, cpu: Option<usize>) -> u64 {
    let line = softirqs.lines().find_map(|line| line.trim_start().strip_prefix("NET_RX:"));
    let counts: Vec<u64> =
        line.unwrap_or("").split_whitespace().map(|text| text.parse().unwrap_or(0)).collect();
    match cpu {
        Some(cpu) => counts.get(cpu).copied().unwrap_or(0),
        None => counts.iter().sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 0 50 1000 20 3 7 5 0 0\ncpu0 60 0 20 500 10 1 2 5 0 0\ncpu1 40 0 30 500 10 2 5 0 0 0\n";

    #[test]
    fn the_line_of_the_right_cpu_is_read() {
        let one = cpu_times(STAT, Some(1), 100.0);
        assert_eq!((one.work, one.interrupts, one.steal), (0.7, 0.07, 0.0));
        let all = cpu_times(STAT, None, 100.0);
        assert_eq!((all.work, all.steal, all.total), (1.5, 0.05, 11.85));
        assert_eq!(cpu_times(STAT, Some(7), 100.0), CpuTimes::default());
    }

    #[test]
    fn a_device_is_found_by_its_whole_name() {
        let text = "Inter-|   Receive\n face |bytes\n  eth01: 1 2 0 0 0 0 0 0 3 4 0\n  eth0: 10 20 0 0 0 0 0 0 30 40 0 0\n";
        let found = device(text, "eth0").unwrap();
        assert_eq!(
            (found.rx_bytes, found.rx_frames, found.tx_bytes, found.tx_frames),
            (10, 20, 30, 40)
        );
        assert_eq!(device(text, "eth"), None);
    }

    #[test]
    fn tcp_counters_are_found_by_name() {
        let text =
            "Ip: A\nIp: 1\nTcp: MaxConn RetransSegs InErrs OutRsts\nTcp: -1 12 3 4\nUdp: x\n";
        let found =
            ["RetransSegs", "InErrs", "MaxConn", "Nothing"].map(|name| tcp_counter(text, name));
        assert_eq!(found, [Some(12), Some(3), None, None]);
        assert_eq!(tcp_counter("", "RetransSegs"), None);
    }

    #[test]
    fn interrupt_lines_belong_to_a_device_by_queue_name_or_bus_address() {
        let text = "      CPU0 CPU1\n 37: 5 6 PCI-MSIX 0-edge eth1-TxRx-0\n 38: 1 1 PCI-MSIX 1-edge eth1\n 39: 9 9 x eth10\n 40: 2 3 x mlx5_comp0@pci:0000:03:00.0\n";
        assert_eq!(device_interrupts(text, &["eth1".into()]), Some(13));
        assert_eq!(device_interrupts(text, &["eth9".into(), "0000:03:00.0".into()]), Some(5));
        assert_eq!(device_interrupts(text, &["eth2".into()]), None);
    }

    #[test]
    fn receive_soft_interrupts_are_those_of_the_cpu() {
        let text = "      CPU0 CPU1\n NET_TX: 1 1\n NET_RX: 10 20\n";
        assert_eq!(receive_softirqs(text, Some(1)), 20);
        assert_eq!(receive_softirqs(text, None), 30);
    }

    #[test]
    fn cpu_use_is_at_most_one_cpu() {
        let cost = Cost { seconds: 1.0, cpu_thread: 0.9, cpu_interrupts: 0.4, ..Cost::default() };
        assert_eq!(cost.cpu(), 1.0);
        assert_eq!(Cost::default().cpu(), 0.0);
    }

    #[test]
    fn a_spinning_thread_shows_its_own_time() {
        let site = Site::find("lo").unwrap();
        let meter = Meter::new(&site);
        let before = meter.read().unwrap();
        let start = Instant::now();
        // Enough that the thread's time cannot round to nothing; the share is not asserted.
        while start.elapsed().as_millis() < 30 {
            std::hint::spin_loop();
        }
        let cost = before.until(&meter.read().unwrap());
        assert!(cost.cpu_thread > 0.0 && cost.seconds >= 0.03, "{cost:?}");
    }
}
