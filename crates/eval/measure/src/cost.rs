//! Reads what a measurement costs one end. [`Cost`] says what the counters mean.

use crate::site::Site;
use gigae_eval_model::cost::{Baseline, Cost};
use gigae_host::proc::net::{self, Device};
use gigae_host::proc::{self, CpuTimes};
use std::fs;
use std::io;
use std::time::Instant;

/// Reads the counters of one end. Must be used by the measuring thread itself.
#[derive(Clone, Debug)]
pub struct Meter {
    interfaces: Vec<String>,
    cpu: Option<usize>,
    has_lines: bool,
}

/// The counters at one time.
#[derive(Clone, Copy, Debug)]
pub struct CounterReading {
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
            && fs::read_to_string(proc::INTERRUPTS)
                .is_ok_and(|text| interrupts_of(&text, &interfaces).is_some());
        Self { interfaces, cpu: site.cpu, has_lines }
    }

    /// What [`Cost::interrupts`] counts here.
    pub fn interrupt_source(&self) -> &'static str {
        if self.has_lines { "device interrupts" } else { "NET_RX soft interrupts" }
    }

    /// Reads all counters: four small files, well below a millisecond.
    pub fn read(&self) -> io::Result<CounterReading> {
        let interrupts = if self.has_lines {
            let text = fs::read_to_string(proc::INTERRUPTS)?;
            interrupts_of(&text, &self.interfaces).unwrap_or(0)
        } else {
            proc::receive_softirqs(&fs::read_to_string(proc::SOFTIRQS)?, self.cpu)
        };
        let device = net::devices(&fs::read_to_string(net::DEVICES)?, &self.interfaces);
        let cpu = proc::cpu_times(&fs::read_to_string(proc::STAT)?, self.cpu);
        let (thread, sleeps, preemptions) = thread_usage();
        let at = Instant::now();
        Ok(CounterReading {
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

impl CounterReading {
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
            sleeps: end.sleeps.saturating_sub(self.sleeps),
            preemptions: end.preemptions.saturating_sub(self.preemptions),
            ..Cost::default()
        }
    }
}

/// Watches the idle machine for a while.
pub fn baseline(duration: std::time::Duration) -> io::Result<Baseline> {
    let read = || fs::read_to_string(proc::STAT).map(|text| proc::cpu_times(&text, None));
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
    let all = proc::cpu_times(&fs::read_to_string(proc::STAT)?, None);
    Ok([all.total, all.work, all.steal])
}

/// User and system time of the calling thread up to this moment, in seconds (clock_gettime(2)
/// `CLOCK_THREAD_CPUTIME_ID`). For ends that do next to nothing: a [`Meter`] reads files, which
/// would be most of it, and getrusage(2) is behind by up to a tick.
pub fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Of all these interfaces; `None` if none has its own lines.
fn interrupts_of(text: &str, interfaces: &[String]) -> Option<u64> {
    let counts = interfaces.iter().map(|name| proc::device_interrupts(text, &device_names(name)));
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

/// Names by which a device's lines in `/proc/interrupts` may go: its own and its bus address.
fn device_names(interface: &str) -> Vec<String> {
    let device = fs::read_link(format!("/sys/class/net/{interface}/device"));
    let parent =
        device.ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    std::iter::once(interface.to_owned()).chain(parent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_use_is_at_most_one_cpu() {
        let cost = Cost { seconds: 1.0, cpu_thread: 0.9, cpu_interrupts: 0.4, ..Cost::default() };
        assert_eq!(cost.cpu(), 1.0);
        assert_eq!(Cost::default().cpu(), 0.0);
    }

    /// Without IRQ_TIME_ACCOUNTING the kernel counts an interrupt in the time of the thread that it
    /// hits, too.
    #[test]
    fn interrupts_within_the_threads_own_time_count_once() {
        let at = Instant::now();
        let reading = |seconds: f64, thread, (work, interrupts)| CounterReading {
            at: at + std::time::Duration::from_secs_f64(seconds),
            thread,
            sleeps: 0,
            preemptions: 0,
            cpu: CpuTimes { work, interrupts, ..CpuTimes::default() },
            device: Device::default(),
            interrupts: 0,
        };
        let used = |thread, ticks| {
            let cost = reading(0.0, 1.0, (1.0, 1.0)).until(&reading(0.88, 1.0 + thread, ticks));
            cost.cpu() * 0.88
        };
        let is = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
        // Most of what the thread used, interrupts ran.
        assert!(is(used(0.70, (1.20, 1.50)), 0.70));
        // The interrupts came while nothing ran, or the kernel keeps them apart.
        assert!(is(used(0.30, (1.30, 1.50)), 0.80));
        // Half of them came within the thread's time.
        assert!(is(used(0.40, (1.20, 1.40)), 0.60));
        // Ticks have missed a thread that ran for less than one at a time.
        assert!(is(used(0.05, (1.00, 1.01)), 0.05) && is(used(0.05, (1.00, 1.00)), 0.05));
        // Another thread ran as well.
        assert!(is(used(0.30, (1.40, 1.10)), 0.40));
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
