//! The conditions of a run, recorded beside its figures: what each end is, and the links between.
//!
//! Nothing here changes the system, and nothing identifies the machine: no host names, no serial
//! numbers.

use crate::site::Site;
use gigae_eval_model::date;
use gigae_eval_model::environment::EndEnvironment;
use gigae_host::{affinity, proc};
use gigae_nic as nic;
use serde_json::Value;
use std::fs;

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What `git describe` said when it was built, or `unknown`.
pub const GIT: &str = env!("GIGAE_GIT");

/// Describes this end.
pub fn describe(site: &Site) -> EndEnvironment {
    let nic = inventory(&site.interface);
    let pick = |key: &str| nic.get(key).cloned().unwrap_or(Value::Null);
    EndEnvironment {
        kernel: line(&proc::kernel_release()),
        cpu: proc::cpu_model(&proc::read("/proc/cpuinfo")),
        cpus: affinity::allowed().len(),
        memory: memory(&proc::read("/proc/meminfo")),
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
        congestion_controls: line(&proc::read(
            "/proc/sys/net/ipv4/tcp_available_congestion_control",
        )),
        tcp_rmem: line(&proc::read("/proc/sys/net/ipv4/tcp_rmem")),
        tcp_wmem: line(&proc::read("/proc/sys/net/ipv4/tcp_wmem")),
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

fn line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() { "unknown".into() } else { text }
}

/// `MemTotal` of proc_meminfo(5), in bytes.
fn memory(meminfo: &str) -> Option<u64> {
    let total = proc::value(meminfo, "MemTotal")?.strip_suffix("kB")?;
    Some(total.trim().parse::<u64>().ok()? * 1024)
}

fn governor(cpu: usize) -> String {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    fs::read_to_string(file).map_or_else(|_| "none".into(), |text| text.trim().to_owned())
}

/// The current time in UTC, as RFC 3339 writes it, to the second.
pub fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    date::utc(since.map_or(0, |since| since.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_that_of_the_whole_machine() {
        let text = "MemTotal:       16384 kB\nMemFree: 1 kB\n";
        assert_eq!((memory(text), memory("nothing")), (Some(16 << 20), None));
    }
}
