//! The conditions of a run, recorded beside its figures: what each end is, and the links between.
//!
//! Nothing here changes the system, and nothing identifies the machine: no host names, no serial
//! numbers.

use crate::clock::{Overhead, TimerCost};
use crate::cost::Baseline;
use crate::nic;
use crate::site::Site;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What `git describe` said when it was built, or `unknown`.
pub const GIT: &str = env!("GIGAE_GIT");

/// What one end is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndEnvironment {
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// CPUs that the program may use.
    pub cpus: usize,
    /// The machine's memory in bytes; absent in older files, or where /proc says nothing.
    #[serde(default)]
    pub memory: Option<u64>,
    /// The CPU to which the measuring thread is pinned.
    pub pinned_to: Option<usize>,
    /// Frequency governor, or `none` where the kernel does not scale the frequency.
    pub governor: String,
    /// The measured interface, or several as one with commas between them.
    pub interface: String,
    /// Its driver.
    pub driver: String,
    /// Its MTU in bytes.
    pub mtu: usize,
    /// Its offloads, by name.
    pub offloads: Value,
    /// Its interrupt coalescing.
    pub coalescing: Value,
    /// All of the inventory: driver, firmware, bus, queues, rings; of several, the first's, as are
    /// driver, offloads and coalescing above.
    pub nic: Value,
    /// The same of the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_nics: Vec<Value>,
    /// What the figure `interrupts` counts on this end.
    pub interrupts_counted: String,
    /// TCP congestion controls that the kernel offers.
    pub congestion_controls: String,
    /// The kernel's default sizes of TCP's receive buffer: least, default, most.
    pub tcp_rmem: String,
    /// The same of its send buffer.
    pub tcp_wmem: String,
    /// Version of this program on that end.
    pub gigae: String,
    /// Its git version.
    pub git: String,
}

/// A link on which figures were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkEnvironment {
    /// Name, as in the series.
    pub name: String,
    /// `fabric` for a virtual one, `network` between two machines, `loopback` for a machine's own.
    pub kind: String,
    /// How many cables or switches join the ends, each with an interface of its own at both.
    #[serde(default = "one")]
    pub links: usize,
    /// Rate in bits per second to which each is shaped or that the interface reports; absent: not shaped, unknown.
    pub rate: Option<f64>,
    /// Probability that the virtual switch loses a frame, either way; 0 on real networks.
    #[serde(default)]
    pub loss: f64,
    /// MTU in bytes.
    pub mtu: usize,
    /// Bytes that a port of the virtual switch holds; absent on real networks and unshaped links.
    pub switch_buffer: Option<u32>,
    /// Measuring end.
    pub local: EndEnvironment,
    /// Answering end.
    pub remote: EndEnvironment,
    /// The measuring end while nothing was measured.
    pub idle_local: Baseline,
    /// The answering end while nothing was measured.
    pub idle_remote: Baseline,
}

fn one() -> usize {
    1
}

/// The conditions of a whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// When the run began, in UTC (RFC 3339).
    pub date: String,
    /// How long it took, in seconds.
    pub duration: f64,
    /// Command line that repeats it.
    pub command: String,
    /// Version of this program.
    pub gigae: String,
    /// Its git version.
    pub git: String,
    /// Kernel of the measuring end.
    pub kernel: String,
    /// CPU of the measuring end.
    pub cpu: String,
    /// Interface of the measuring end.
    pub nic: String,
    /// Its driver.
    pub driver: String,
    /// Its offloads.
    pub offloads: Value,
    /// Its MTU in bytes.
    pub mtu: usize,
    /// Its interrupt coalescing.
    pub coalescing: Value,
    /// Congestion control that TCP was measured with.
    pub congestion_control: String,
    /// Reading the clock.
    pub timer: TimerCost,
    /// What the evaluator's own loops cost; absent in older files.
    #[serde(default)]
    pub overhead: Option<Overhead>,
    /// CPU seconds per second that a live view took; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_view: Option<f64>,
    /// All links.
    pub link: Vec<LinkEnvironment>,
}

/// Describes this end.
pub fn describe(site: &Site) -> EndEnvironment {
    let nic = inventory(&site.interface);
    let pick = |key: &str| nic.get(key).cloned().unwrap_or(Value::Null);
    EndEnvironment {
        kernel: line("/proc/sys/kernel/osrelease"),
        cpu: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        cpus: crate::site::allowed_cpus().len(),
        memory: memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        pinned_to: site.cpu,
        governor: governor(site.cpu.unwrap_or(0)),
        interface: site.names(),
        driver: pick("driver").as_str().unwrap_or("unknown").to_owned(),
        mtu: site.mtu,
        offloads: pick("offloads"),
        coalescing: pick("coalescing"),
        interrupts_counted: crate::cost::Meter::new(site).interrupt_source().to_owned(),
        nic,
        further_nics: site.further.iter().map(|name| inventory(name)).collect(),
        congestion_controls: line("/proc/sys/net/ipv4/tcp_available_congestion_control"),
        tcp_rmem: line("/proc/sys/net/ipv4/tcp_rmem"),
        tcp_wmem: line("/proc/sys/net/ipv4/tcp_wmem"),
        gigae: VERSION.to_owned(),
        git: GIT.to_owned(),
    }
}

/// The inventory of an interface; what cannot be found out is simply not there.
fn inventory(interface: &str) -> Value {
    let found = nic::inventory(Some(interface)).ok().and_then(|nics| nics.into_iter().next());
    let mut found = found.and_then(|nic| serde_json::to_value(nic).ok()).unwrap_or(Value::Null);
    if let Value::Object(fields) = &mut found {
        // The address says nothing about the figures and much about the machine.
        fields.remove("mac");
    }
    found
}

fn line(file: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() { "unknown".into() } else { text }
}

/// `MemTotal` of proc_meminfo(5), in bytes.
fn memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn governor(cpu: usize) -> String {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    fs::read_to_string(file).map_or_else(|_| "none".into(), |text| text.trim().to_owned())
}

fn cpu_model(cpuinfo: &str) -> String {
    let value = |key: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    };
    // x86 has a model name; many ARM kernels only have numbers.
    value("model name")
        .or_else(|| {
            Some(format!("implementer {} part {}", value("CPU implementer")?, value("CPU part")?))
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// The current time in UTC, as RFC 3339 writes it, to the second.
pub fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    utc(since.map_or(0, |since| since.as_secs()))
}

/// Days to dates by the usual shift of the year's beginning to March, so that a leap day is its last.
pub(crate) fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_the_turn_of_the_year() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_735_689_599), "2024-12-31T23:59:59Z");
    }

    #[test]
    fn the_memory_is_that_of_the_whole_machine() {
        let text = "MemTotal:       16384 kB\nMemFree: 1 kB\n";
        assert_eq!((memory(text), memory("nothing")), (Some(16 << 20), None));
    }

    #[test]
    fn the_cpu_is_named_on_machines_with_and_without_a_model_name() {
        assert_eq!(cpu_model("processor: 0\nmodel name\t: A CPU\n"), "A CPU");
        let arm = cpu_model("CPU implementer : 0x41\nCPU part : 0xd0c\n");
        assert_eq!(arm, "implementer 0x41 part 0xd0c");
        assert_eq!(cpu_model(""), std::env::consts::ARCH);
    }
}
